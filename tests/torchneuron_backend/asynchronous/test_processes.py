"""Threads, a full queue, the end of a process, forks, and the switch to blocking launch."""

import threading

import torch

from tests.torchneuron_backend.asynchronous.work import gate, gates, learn, ones, passed
from tests.torchneuron_backend.conftest import run_python
from torchneuron_backend import launch


def test_many_threads_launch_at_once() -> None:
    totals: dict[int, list[float]] = {}

    def work(number: int) -> None:
        with torch.neuron.Stream(number % 2, priority=-(number % 3)):
            x = torch.full((8,), float(number), device=f"neuron:{number % 2}")
            for _ in range(300):
                x = x + 1
                x.mul_(1.0)
            totals[number] = x.tolist()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert totals == {number: [number + 300.0] * 8 for number in range(8)}


def test_the_host_waits_when_the_queue_is_full() -> None:
    x = ones()
    learn(lambda: x + 1)
    threading.Timer(0.05, gates[0].set).start()
    gate(x)
    for _ in range(3000):
        y = x + 1
    assert y.tolist() == [2] * 4


RUN = "import torch; x = torch.ones(300, 300, device='neuron')\nfor _ in range(400): y = x.mm(x)\n"


def test_the_interpreter_ends_with_work_queued() -> None:
    done = run_python(RUN + "print(torch.neuron.current_stream().query())", NEURON_LAUNCH_BLOCKING="0")
    assert (done.returncode, done.stdout, done.stderr) == (0, "False\n", "")


def test_an_error_nobody_waited_for_is_told_at_the_end() -> None:
    code = (
        "from torchneuron_backend import faults; import torch; x = torch.ones(2, 2, device='neuron')\n"
        "x.mm(x); faults.set('aten::mm', 'error'); x.mm(x)"
    )
    done = run_python(code, NEURON_LAUNCH_BLOCKING="0")
    assert done.returncode == 0
    assert "aten::mm failed on neuron:0 in the default stream" in done.stderr


FORK = (
    RUN
    + """
import os
pid = os.fork()
if pid == 0:
    try:
        del y
        print(len(str(torch.ones(1, device='neuron'))))
    except RuntimeError as error:
        print(error, flush=True)
        raise SystemExit(3)
print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), y[0, 0].item())
"""
)


def test_a_fork_is_refused_the_device_and_ends_all_the_same() -> None:
    done = run_python(FORK, NEURON_LAUNCH_BLOCKING="0")
    refusal, result = done.stdout.splitlines()
    assert refusal.startswith("Cannot re-initialize the neuron device in a forked subprocess"), done.stderr
    assert result == "3 300.0"


def test_blocking_launch_is_the_default_and_the_variable_says_otherwise() -> None:
    code = "import torch; from torchneuron_backend import launch; print(launch.is_launch_blocking())"
    for value, printed in (("", "True"), ("1", "True"), ("0", "False")):
        done = run_python(code, NEURON_LAUNCH_BLOCKING=value)
        assert done.stdout.split() == [printed], done.stderr
    done = run_python(code, NEURON_LAUNCH_BLOCKING="yes")
    assert done.returncode != 0
    sentence = "NEURON_LAUNCH_BLOCKING is 'yes': use 1 for blocking launch or 0 for asynchronous launch."
    assert sentence in done.stderr


def test_going_back_to_blocking_launch_waits() -> None:
    threading.Timer(0.05, gates[0].set).start()
    y = gate(ones())
    launch.set_launch_blocking(True)
    assert passed == [0]
    before = launch.launched()
    gates[1].set()
    gate(y, 1)
    assert launch.launched() == before
    assert passed == [0, 1]
