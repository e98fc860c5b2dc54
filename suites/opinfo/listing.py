"""Cases for a process that must not import torch: a process of its own lists them as JSON."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from results.plan import Case
from results.vocabulary import CaseKind
from suites.opinfo.selection import DEFAULT_DTYPES, FIRST

LISTING_SECONDS = 300


class ListingError(RuntimeError):
    """The listing process failed; carries the last thing it said."""


def list_cases(
    selection: str = FIRST, dtypes: Sequence[str] = DEFAULT_DTYPES, *, python: str = sys.executable
) -> list[Case]:
    """List the cases of a selection (a name or a path) without importing torch here.

    Takes as long as importing torch's test machinery does, about 5 s; the cases depend only on
    the arguments, the selection file and the installed torch, so a caller may keep them.

    Raises:
        ListingError: the process failed, e.g. on an operator that does not exist.
    """
    command = [python, "-m", "suites.opinfo", "list", "--json", "--selection", selection]
    command += ["--dtypes", ",".join(dtypes)]
    # No device takes part in listing, so none is loaded.
    environment = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=LISTING_SECONDS, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ListingError(f"listing the operator cases took over {LISTING_SECONDS} s") from error
    if done.returncode:
        said = done.stderr.strip().splitlines()
        raise ListingError(said[-1] if said else f"the listing process ended with code {done.returncode}")
    return from_json(json.loads(done.stdout)["cases"])


def to_json(cases: Iterable[Case]) -> list[dict[str, Any]]:
    """Cases as JSON values."""
    return [{"id": case.id, "spec": dict(case.spec)} for case in cases]


def from_json(items: Iterable[dict[str, Any]]) -> list[Case]:
    """The cases that :func:`to_json` wrote."""
    return [Case(id=item["id"], kind=CaseKind.OPINFO, spec=item["spec"]) for item in items]
