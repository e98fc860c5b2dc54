"""What the pytest plugin costs: the same tests with ``--harness-log`` and without, in turn.

    python benchmarks/plugin.py [--rounds 5] [--tests 2000] [PYTEST-ARGUMENT ...]

Without arguments for pytest it makes a file of small device-generic tests for ``neuron``: a half of them
runs an addition, a quarter is gated by a decorator and a quarter skips in its body. That is the worst
case, for the cost is one of each test and these do little. With arguments it measures what they name,
in the folder they are given in.

A round is one process each way, the order changing from round to round. Printed are the median of the
rounds' ratios, of processor time (the process and its children) and of wall time, and each round's.
"""

from __future__ import annotations

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[1]
LIMIT = 1.03
_TESTS = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, onlyCUDA
from torch.testing._internal.common_utils import TestCase

class TestSmall(TestCase):
    pass

def runs(self, device):
    self.assertEqual(torch.ones(3, device=device) + 1, torch.full((3,), 2.0, device=device))

def body(self, device):
    self.skipTest("it does not apply")

@onlyCUDA
def gated(self, device):
    pass

def named(function, name):
    def test(self, device):
        return function(self, device)
    test.__name__ = name
    return test

for number in range({count}):
    name = f"test_{{number}}"
    setattr(TestSmall, name, named((runs, gated, runs, body)[number % 4], name))

instantiate_device_type_tests(TestSmall, globals())
"""


def main() -> None:
    """Measure and print; exits 1 above the limit of processor time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tests", type=int, default=2000)
    options, arguments = parser.parse_known_args()
    with tempfile.TemporaryDirectory() as scratch:
        if not arguments:
            path = Path(scratch, "test_small.py")
            path.write_text(_TESTS.format(count=options.tests))
            arguments = [str(path), "--rootdir", scratch]
        rounds = [_round(number, arguments, Path(scratch)) for number in range(options.rounds)]
    for name, at in (("processor time", 0), ("wall time", 1)):
        ratios = [with_[at] / without[at] for without, with_ in rounds]
        seconds = statistics.median(without[at] for without, _ in rounds)
        listed = ", ".join(f"{ratio:.3f}" for ratio in ratios)
        print(f"{name:15} with / without = {statistics.median(ratios):.3f} of {seconds:.1f} s  ({listed})")
    sys.exit(statistics.median(a[0] / b[0] for b, a in rounds) > LIMIT)


def _round(number: int, arguments: Sequence[str], scratch: Path) -> tuple[tuple[float, float], ...]:
    """Seconds of processor and of wall time without the plugin, and with it."""
    recording = ["--harness-log", str(scratch / f"log-{number}"), "--harness-device", "neuron"]
    ways: list[list[str]] = [[], recording]
    found: dict[int, tuple[float, float]] = {}
    for way in (0, 1) if number % 2 == 0 else (1, 0):
        found[way] = _timed([*arguments, *ways[way]])
    return found[0], found[1]


def _timed(arguments: Sequence[str]) -> tuple[float, float]:
    command = [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider"]
    command += ["-p", "suites.pytest_plugin", "-p", "xdist.plugin", *arguments]
    environment = {
        "PYTORCH_TESTING_DEVICE_ONLY_FOR": "neuron",
        **os.environ,
        "PYTHONPATH": str(ROOT),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
    }
    before, started = _processor(), time.perf_counter()
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    wall = time.perf_counter() - started
    if done.returncode not in (0, 1):  # 1: some tests failed, which is theirs
        sys.exit(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
    return _processor() - before, wall


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


if __name__ == "__main__":
    main()
