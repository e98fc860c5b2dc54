"""The signature of a failure: what stays the same when the same thing fails again.

Two failures are one if their exception types agree and their messages agree after addresses,
paths, device names and numbers are taken out.
"""

from __future__ import annotations

import hashlib
import re

LIMIT = 1000
"""Characters of a message that are compared: the head says what failed, the tail what it was given."""

_DEVICES = r"(?:cpu|cuda|hip|xpu|mps|meta|neuron|xla|hpu|npu|privateuse(?:one|1))"
_RULES: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b0[xX][0-9a-fA-F]+\b"), "<address>"),
    (re.compile(rf"(?<![\w<]){_DEVICES}(?::\d+)?(?![\w>])", re.IGNORECASE), "<device>"),
    # A path has at least two separators or begins at the root of something. What stands right behind a number
    # is none, and so none behind what a number was replaced by.
    (
        re.compile(
            r"(?<![\w/<.])(?<!<number>)(?<!<device>)(?<!<address>)(?<!<path>)(?:~|\.{1,2})?(?:/[\w.+@=~-]+){2,}/?"
        ),
        "<path>",
    ),
    (re.compile(r"(?<![\w<])[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w>])"), "<number>"),
    (re.compile(r"\s+"), " "),
)


def normalise(message: str) -> str:
    """Take out of the head of a message what differs between two equal failures."""
    text = message[:LIMIT]
    for pattern, replacement in _RULES:
        text = pattern.sub(replacement, text)
    return text.strip()


def signature(exception: str, message: str) -> str:
    """Hash a failure to 16 hexadecimal digits, the same in every run and on every machine."""
    text = f"{exception}\n{normalise(message)}"
    return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()[:16]
