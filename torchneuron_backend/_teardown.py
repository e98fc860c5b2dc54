"""The end of a process that has used the device."""

import atexit
from pathlib import Path
from types import ModuleType

# A thread that runs a backward without end must not keep the process from ending.
_PATIENCE_S = 5.0


def install(extension: ModuleType) -> None:
    """Let autograd's threads come to rest before the interpreter's teardown; ``csrc/teardown.cpp`` has the
    reason.
    """

    def settle() -> None:
        if _autograd_has_threads():
            extension.settle_autograd_threads(_PATIENCE_S)

    atexit.register(settle)


def _autograd_has_threads() -> bool:
    """Whether autograd keeps threads for devices in this very process; a fork does not inherit them."""
    try:
        return any(
            (task / "comm").read_text(encoding="utf-8").startswith("pt_autograd")
            for task in Path("/proc/self/task").iterdir()
        )
    except OSError:
        return False
