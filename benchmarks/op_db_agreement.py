"""Share of op_db that gives the CPU's numbers on the device, forward and backward.

    python benchmarks/op_db_agreement.py [--dtype float32] [--every 1] [--ops add,mul] [--output FILE.csv]

Each operator runs in a forked process of its own, so that a crash or a hang is a row like any other. "Equal"
is to the last bit (NaN equal to NaN, -0.0 to 0.0); "within tolerance" is that of torch.testing.assert_close.
TORCHNEURON_PROTECT=1 also proves that the device's numbers come from the device.
"""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections import Counter

from harness import processes
from suites.opinfo.agreement import Agreement, Verdict, agree
from suites.opinfo.entries import operators

SECONDS = 180
"""Most an operator may take."""

CRASHED = "crashed"
QUIET = (Verdict.EQUAL, Verdict.CLOSE, Verdict.NOT_RUN)

Row = tuple[str, str, str, str, int]  # operator, direction, verdict, detail, samples


def main() -> None:
    """Print the rows that disagree, then the shares."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--device", default="neuron")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth operator")
    parser.add_argument("--ops", default="", help="only these, by their full names, separated by commas")
    parser.add_argument("--output", default="", help="write every row to this file, as CSV")
    options = parser.parse_args()
    names = options.ops.split(",") if options.ops else sorted(operators())[:: options.every]
    started = time.monotonic()
    rows: list[Row] = []
    for count, name in enumerate(names, 1):
        new = rows_of(name, options.dtype, options.device)
        rows += new
        for row in new:
            if row[2] not in QUIET:
                print(f"{row[0]} {row[1]}: {row[2]}: {row[3]}", flush=True)
        if sys.stderr.isatty():
            print(f"\r{count}/{len(names)}", end="\r", file=sys.stderr, flush=True)
    if options.output:
        with open(options.output, "w", newline="") as file:
            csv.writer(file).writerows([("op", "direction", "verdict", "detail", "samples"), *rows])
    for direction in ("forward", "backward"):
        print(summary(direction, [row for row in rows if row[1] == direction]))
    print(f"{len(names)} operators, {options.dtype}, {time.monotonic() - started:.0f} s")


def rows_of(name: str, dtype: str, device: str) -> list[Row]:
    """Both directions of one operator; a process that dies or takes too long is the verdict of both."""
    try:
        forward, backward = processes.call(agree, name, dtype, device, timeout=SECONDS)
    except processes.ChildError as error:
        return [(name, direction, CRASHED, str(error), 0) for direction in ("forward", "backward")]
    return [_row(name, "forward", forward), _row(name, "backward", backward)]


def _row(name: str, direction: str, agreement: Agreement) -> Row:
    return (name, direction, str(agreement.verdict), agreement.detail, agreement.samples)


def summary(direction: str, rows: list[Row]) -> str:
    """One line of counts, with the share of what could be run, then why the rest was not."""
    counts = Counter(row[2] for row in rows)
    reasons = Counter(row[3] for row in rows if row[2] == Verdict.NOT_RUN)
    ran = len(rows) - counts[Verdict.NOT_RUN]
    same, close = counts[Verdict.EQUAL], counts[Verdict.EQUAL] + counts[Verdict.CLOSE]
    parts = ", ".join(f"{counts[kind]} {kind}" for kind in (*Verdict, CRASHED) if counts[kind])
    share = f"{same / ran:.1%} equal, {close / ran:.1%} equal or within tolerance" if ran else "none run"
    why = "".join(f"\n  not run: {count} {reason}" for reason, count in reasons.most_common())
    return f"{direction}: {parts}; of the {ran} that the CPU runs: {share}{why}"


if __name__ == "__main__":
    main()
