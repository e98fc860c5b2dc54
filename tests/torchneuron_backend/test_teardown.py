"""A process that has run a backward on the device ends in peace."""

import pytest

from .conftest import run_python

# The thread of autograd that ran the backward lets go of it only when the main thread is about to end, and
# finds the GIL taken: without a device that waits for it, CPython ends that thread in a destructor, and the
# process aborts.
LATE_THREAD = """
import ctypes, os, sys, time, torch
from pathlib import Path

class Late:
    def __del__(self, sleep=time.sleep):
        sleep(0.2)  # in the interpreter's teardown, and without the GIL

late = Late()
x = torch.ones(3, device="neuron", requires_grad=True)
(x * 2).sum().backward()
tasks = list(Path("/proc/self/task").iterdir())
(worker,) = [int(task.name) for task in tasks if (task / "comm").read_text().strip() == "pt_autograd_0"]
for thread in (0, worker):
    os.sched_setaffinity(thread, {min(os.sched_getaffinity(0))})
sys.setswitchinterval(1000.0)
os.sched_setscheduler(worker, os.SCHED_IDLE, os.sched_param(0))
(x * 2).sum().backward()
os.sched_setscheduler(worker, os.SCHED_OTHER, os.sched_param(0))
ctypes.PyDLL(None).usleep(200_000)  # with the GIL
"""


@pytest.mark.parametrize("attempt", range(3))
def test_the_interpreter_waits_for_a_thread_that_still_holds_a_backward(attempt: int) -> None:
    done = run_python(LATE_THREAD)
    assert (done.returncode, done.stderr) == (0, ""), attempt
