"""What expectation files cost: loading 50,000 entries and giving 150,000 cases what was declared of them.

    python benchmarks/expectations.py [--entries 50000] [--cases 150000] [--repeats 5]

Prints the shortest of several repeats, in seconds of this process; the files are made in a temporary folder.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from results.expectations import declare, load_expectations
from results.plan import Case
from results.vocabulary import CaseKind

T = TypeVar("T")
_DTYPES = ("float32", "bfloat16", "int64", "bool", "complex64")
_CHECKS = ("forward", "backward", "out", "noncontiguous", "compile")


def main() -> None:
    """Print a line for each kind of file."""
    options = _options()
    cases = _cases(options.cases)
    print(f"{options.entries} entries, {len(cases)} cases, best of {options.repeats}")
    for name, make in _FILES.items():
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "x.toml"
            path.write_text("".join(make(cases, number) for number in range(options.entries)))
            loading, entries = _best(options.repeats, lambda path=path: load_expectations([path]))
            matching, found = _best(
                options.repeats, lambda entries=entries: declare(cases, entries, "neuron", "2.13.0")
            )
        size = f"{len(found.entries)} cases declared, {len(found.unmatched)} entries unmatched"
        print(f"{name:28} load {loading:5.2f} s, match {matching:5.2f} s; {size}")


def _best(repeats: int, call: Callable[[], T]) -> tuple[float, T]:
    times = []
    for _ in range(repeats):
        began = time.process_time()
        result = call()
        times.append(time.process_time() - began)
    return min(times), result


def _cases(count: int) -> list[Case]:
    ids = (
        f"upstream::test_ops.py::TestCommon::test_{check}_op{number:05}_{dtype}"
        for number in range(count)
        for check in _CHECKS
        for dtype in _DTYPES
    )
    return [Case(id=case, kind=CaseKind.PYTEST) for case, _ in zip(ids, range(count), strict=False)]


def _entry(pattern: str, extra: str = "") -> str:
    return (
        f'[[expect]]\n{pattern}\nexpectation = "fail"\noutcome = "failed_exception"\n'
        'category = "no_native_lowering"\nreason = "NotImplementedError: the operator is not lowered"\n'
        f'signature = "0123456789abcdef"\nadded = 2026-11-30\n{extra}\n'
    )


def _exact(cases: list[Case], number: int) -> str:
    return _entry(f'id = "{cases[number * len(cases) // 50_000 % len(cases)].id}"')


def _conditional(cases: list[Case], number: int) -> str:
    condition = 'conditions = { device = "neuron", torch = "2.*" }\n'
    return _exact(cases, number).removesuffix("\n") + condition


def _globs(cases: list[Case], number: int) -> str:
    """Each over one operator's check; those beyond the cases' operators match nothing."""
    op, check = divmod(number, len(_CHECKS))
    return _entry(f'glob = "upstream::test_ops.py::TestCommon::test_{_CHECKS[check]}_op{op:05}_*"')


def _mixed(cases: list[Case], number: int) -> str:
    """One in fifty a glob; an exact id goes before it."""
    return _globs(cases, number // 50) if number % 50 == 0 else _exact(cases, number)


_FILES: dict[str, Callable[[list[Case], int], str]] = {
    "exact ids": _exact,
    "exact ids under conditions": _conditional,
    "one glob in fifty": _mixed,
    "nothing but globs": _globs,
}


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--entries", type=int, default=50_000)
    parser.add_argument("--cases", type=int, default=150_000)
    parser.add_argument("--repeats", type=int, default=5)
    return parser.parse_args()


if __name__ == "__main__":
    main()
