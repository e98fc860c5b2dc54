"""Command line of the lowering probe."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

from .attempt import NATIVE
from .calls import DTYPES, Calls, Key, collect_opinfo
from .conditions import held
from .programs import collect_programs
from .run import probe
from .summary import summarise
from .table import Entry, finish, log_path, read, totals, write

_DEFAULT_OUTPUT = Path(__file__).parent.parent / "lowerings.json"


def main(arguments: list[str] | None = None) -> int:
    """Collect, probe, write, print the totals."""
    options = _parse(arguments)
    torch.set_num_threads(1)
    if options.summary:
        summarise()
        return 0
    started = time.monotonic()
    log = log_path(options.output)
    if not options.resume:
        log.unlink(missing_ok=True)
    calls = _collect(options)
    collected = time.monotonic()
    print(
        f"{len(calls.by_key)} (overload, dtype) pairs to try, collected in {collected - started:.0f} s",
        file=sys.stderr,
    )
    kept = _narrow(calls, options.update, read(options.output)) if options.update is not None else []
    entries = probe(calls, log, jobs=options.jobs, timeout_s=options.timeout, quiet=options.quiet)
    table = finish([*kept, *entries])
    write(options.output, table)
    log.unlink(missing_ok=True)
    _print_totals(table, time.monotonic() - started)
    return 0


def _parse(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m torchneuron_backend.probe", description=__doc__)
    parser.add_argument(
        "--ops", nargs="+", metavar="OP", help="only these (nn.functional.gelu or aten::gelu)"
    )
    parser.add_argument(
        "--dtypes", nargs="+", metavar="DTYPE", help="only these; default: all that the device has"
    )
    parser.add_argument(
        "--output", type=Path, default=_DEFAULT_OUTPUT, help="default: the table of the package"
    )
    parser.add_argument("--jobs", type=int, default=1, help="processes side by side (default 1)")
    parser.add_argument(
        "--samples", type=int, default=4, help="OpInfo samples per operator and dtype (default 4)"
    )
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds per attempt (default 60)")
    parser.add_argument("--models", action="store_true", help="also collect from tiny transformers models")
    parser.add_argument(
        "--update",
        nargs="*",
        metavar="OP",
        help="try these overloads alone (aten::add.Tensor; without any, what is not native, and what has "
        "calls of different conditions), and keep the rest of the table",
    )
    parser.add_argument(
        "--summary",
        action="store_true",
        help="run OpInfo and tiny models on the device, and say how much of them is native",
    )
    parser.add_argument("--no-opinfo", action="store_true", help="leave OpInfo's samples out")
    parser.add_argument("--resume", action="store_true", help="keep the attempts of an interrupted probe")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    return parser.parse_args(arguments)


def _collect(options: argparse.Namespace) -> Calls:
    names = options.dtypes
    calls = Calls(dtypes=tuple(getattr(torch, name) for name in names) if names else DTYPES)
    if options.models:
        from .models import collect_models

        collect_models(calls)
    if not options.no_opinfo:
        collect_opinfo(calls, set(options.ops) if options.ops else None, options.samples)
    if not options.ops or options.update is not None:
        # Last: what the others reach keeps their calls.
        collect_programs(calls, calls.dtypes)
    return calls


def _narrow(calls: Calls, updated: list[str], table: list[Entry]) -> list[Entry]:
    """Leave in ``calls`` only what is to be tried again; return the entries of ``table`` that stay."""
    native = {Key(entry.op, entry.dtype) for entry in table if entry.status == NATIVE}
    for key, examples in list(calls.by_key.items()):
        # Calls of different conditions may fare differently where calls of one were native.
        alike = len({held(call.args, call.kwargs) for call in examples}) == 1
        if key.op not in updated if updated else key in native and alike:
            del calls.by_key[key]
    # The last entry of a key counts: what is tried again replaces what is kept.
    return table


def _print_totals(table: list[Entry], seconds: float) -> None:
    overloads = len({entry.op for entry in table})
    print(f"{len(table)} entries of {overloads} overloads in {seconds:.0f} s")
    for status, count in totals(table).most_common():
        print(f"{count:6d} {status}")


if __name__ == "__main__":
    sys.exit(main())
