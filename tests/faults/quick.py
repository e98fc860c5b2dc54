"""The command line with the workers of :mod:`tests.faults.jobs`, and so without torch or a device.

    python -m tests.faults.quick resume RUN --store STORE

Everything else of it is the real thing: a run whose plan lies in a store is begun by ``resume``.
"""

from __future__ import annotations

import sys

from harness import cli, local, nightly, planning, processes
from harness.devices.base import Description
from tests.faults import jobs

CPU = Description(name="cpu", available=True, reason="", count=1, versions={}, compile_backend="")


def main() -> int:
    """Run one command of ``harness``."""
    processes.PRELOADED = ()  # type: ignore[assignment]
    local.run_job = jobs.misbehave  # type: ignore[attr-defined]
    nightly.usable_device = lambda *_: CPU
    nightly.suite_environment = planning.suite_environment = lambda _: {}  # type: ignore[attr-defined]
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
