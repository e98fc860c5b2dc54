"""One case of the harness on a device, in this process.

Needs the harness and the device. Exits 1 where it does not pass, and 0 where it does.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

from harness import devices, hub
from harness.job import ModelSettings
from results.plan import Case
from results.vocabulary import CaseKind
from suites.result import CaseResult

# --- case ---
CASE: dict[str, Any] = {"id": "", "kind": "claim", "spec": {}}
DEVICE = "cpu"
HUB = ""
SEED = 0
# --- end of case ---


def results(case: Case, device: devices.Device, folder: Path) -> Generator[CaseResult, None, None]:
    """The results of the case's stages, each made when it is asked for."""
    if case.kind is CaseKind.MODEL:
        from harness.model_stages import run_stages

        with served(folder) as endpoint:
            yield from run_stages(
                case, device, ModelSettings(endpoint=endpoint, cache=folder, max_bytes=0, seed=SEED)
            )
    elif case.kind is CaseKind.OPINFO:
        from suites import opinfo

        yield opinfo.run_case(case, device)
    else:
        from suites import claims

        yield claims.run_case(case, device)


@contextlib.contextmanager
def served(folder: Path) -> Iterator[str]:
    """The URL of the run's hub."""
    with hub.serve(HUB, folder) as endpoint:
        yield endpoint


def main() -> int:
    """Run the case's stages up to the first that does not pass."""
    case = Case(id=CASE["id"], kind=CaseKind(CASE["kind"]), spec=CASE["spec"])
    device = devices.get(DEVICE)
    with tempfile.TemporaryDirectory() as folder:
        device.keep_artefacts(Path(folder))
        for stage, result in zip(case.stages, results(case, device, Path(folder)), strict=False):
            if not result.passed:
                print(f"stage: {stage}\noutcome: {result.outcome}\nexception: {result.exception}")
                print(f"message: {result.message}")
                return 1
    print("outcome: passed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
