"""Pairs in processes of their own, forked from one that has imported transformers already.

A child writes its record into a pipe at every stage, so the last one read is known even when it
is killed for its time or its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import time
from collections.abc import Callable
from typing import Any

from model_zoo.architectures.pairs import Pair
from model_zoo.architectures.reasons import Reason

SECONDS = 40.0
MEMORY = 9 << 30  # Bytes of address space for data.

_SHARED = ("BertModel", "LlamaModel", "ViTModel", "CLIPModel", "T5Model", "Wav2Vec2Model")

Work = Callable[[Pair, Callable[[dict[str, Any]], None]], dict[str, Any]]


def preload() -> None:
    """Import what most model files import, once for all children."""
    import transformers

    for name in _SHARED:
        getattr(transformers, name)


def run_apart(pair: Pair, work: Work, *, seconds: float = SECONDS, memory: int = MEMORY) -> dict[str, Any]:
    """The record of one pair, whatever became of its process.

    Args:
        pair: handed to ``work``.
        work: called in the child as ``work(pair, tell)``; returns the final record.
        seconds: wall-clock limit.
        memory: limit of the child's data segment, bytes.
    """
    reader, writer = os.pipe()
    begun = time.monotonic()
    child = os.fork()
    if child == 0:
        os.close(reader)
        _in_child(writer, pair, work, memory)
    os.close(writer)
    text, in_time = _read(reader, begun + seconds)
    os.close(reader)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    lines = [line for line in text.split(b"\n")[:-1] if line]
    record: dict[str, Any] = json.loads(lines[-1]) if lines else {"pair": pair.key, "type": pair.model_type}
    record["seconds"] = round(time.monotonic() - begun, 3)
    if not record.pop("final", False):
        record["reason"] = str(Reason.CRASHED if in_time else Reason.OUT_OF_TIME)
        record["error"] = f"ended with wait status {status}"
    return record


def _in_child(writer: int, pair: Pair, work: Work, memory: int) -> None:
    def tell(record: dict[str, Any]) -> None:
        os.write(writer, json.dumps(record).encode() + b"\n")

    try:
        resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
        with open(os.devnull, "w") as nowhere:
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
        record = work(pair, tell)
        with os.fdopen(os.dup(writer), "wb") as file:
            file.write(json.dumps({**record, "final": True}).encode() + b"\n")
    finally:
        os._exit(0)


def _read(reader: int, deadline: float) -> tuple[bytes, bool]:
    """Everything until the other end closes, and whether that was in time."""
    text = b""
    while (left := deadline - time.monotonic()) > 0:
        ready, _, _ = select.select([reader], [], [], left)
        if ready:
            with contextlib.suppress(InterruptedError):
                part = os.read(reader, 1 << 16)
                if not part:
                    return text, True
                text += part
    return text, False
