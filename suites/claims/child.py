"""Checks a claim in a process of its own: ``python -m suites.claims.child TOPIC::NAME DEVICE``.

For statements about what the environment says before torch is imported, and for those whose check would leave
the device of this process unusable.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

from suites.claims import checks
from suites.claims.claim import A_FOLDER, Claim, Subject
from suites.device import Tolerance
from suites.lifeline import die_with_parent
from suites.result import qualified_name

SECONDS = 45
"""How long a check may take; less than the deadline of a test in the profiles."""

_MARK = "claims-child:"
_KINDS = {
    kind.__name__: kind
    for kind in (checks.RefutedError, checks.NumbersDifferError, checks.NotApplicableError)
}


def check_in_child(claim: Claim, device: str) -> None:
    """Check a claim in a fresh process and raise what it raised there.

    Raises:
        RefutedError: it does not hold, or its process died or took too long.
        NotApplicableError: it does not apply.
    """
    command = [sys.executable, "-m", "suites.claims.child", claim.key, device]
    with tempfile.TemporaryDirectory() as folder:
        said = claim.fresh or {}
        raise_answer(run(command, {key: folder if said[key] == A_FOLDER else said[key] for key in said}))


def run(command: Sequence[str], changes: Mapping[str, str | None], seconds: float = SECONDS) -> str:
    """The standard output of a program that has to end well and in time; RefutedError otherwise."""
    environment = {**os.environ, **{key: value for key, value in changes.items() if value is not None}}
    for key in (key for key, value in changes.items() if value is None):
        environment.pop(key, None)
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=seconds, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise checks.RefutedError(f"its process did not end within {seconds:.0f} s") from error
    said = (done.stderr.strip() or "it said nothing").splitlines()[-1]
    checks.require(done.returncode == 0, f"its process ended with {done.returncode}: {said}")
    return done.stdout


def answer_of(error: Exception | None) -> str:
    """One line that says what a check came to."""
    known = type(error).__name__ if type(error).__name__ in _KINDS else checks.RefutedError.__name__
    text = (
        str(error) if type(error).__name__ in _KINDS else f"{qualified_name(error)}: {error}" if error else ""
    )
    return _MARK + json.dumps({"error": known if error else "", "text": text})


def raise_answer(output: str) -> None:
    """Raise what a check in a child raised, by what the child printed."""
    lines = [line for line in output.splitlines() if line.startswith(_MARK)]
    checks.require(bool(lines), "its process ended without an answer")
    answer = json.loads(lines[-1].removeprefix(_MARK))
    if answer["error"]:
        raise _KINDS[answer["error"]](answer["text"])


def main(arguments: Sequence[str]) -> int:
    """Check one claim and print the answer."""
    from suites.claims.registry import claims

    die_with_parent()
    key, device = arguments
    error: Exception | None = None
    try:
        claims()[key].check(Subject(device, lambda _: Tolerance(1e-3, 1e-5)))
    except Exception as raised:  # noqa: BLE001 - told to the process that asked
        error = raised
    print(answer_of(error), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
