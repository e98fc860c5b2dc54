"""Kills a random process of a running night every few seconds, and resumes the night until it is done.

Killed are the supervisor, the fork server, and workers, by SIGKILL. In the end every planned case has
one result, none is lost and none is told twice; the figures say so.

    python benchmarks/soak.py --minutes 10 [-- any options of `harness nightly`]

The exit status is 0 if nothing was lost or doubled.
"""

from __future__ import annotations

import argparse
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import psutil

import results
from results.events import Ended, Entered, read_log
from results.layout import run_folders, run_path
from results.logs import log_files
from results.plan import EVENTS_DIR, load_plan
from results.vocabulary import Outcome

_WHILE_LOADING = 0.2
"""Share of the kills that are carried out while the night has no worker: it loads torch, or ends."""


class Soak:
    """One night, killed and resumed.

    Args:
        store: folder of the store.
        arguments: of ``harness nightly``.
        pause: mean seconds between two kills.
        seed: of the choice of victims.
    """

    def __init__(self, store: Path, arguments: Sequence[str], pause: float, seed: int) -> None:
        self.store = store
        self.kills: Counter[str] = Counter()
        self.resumes = 0
        self._arguments = arguments
        self._pause = pause
        self._random = random.Random(seed)
        self._process: subprocess.Popen[bytes] | None = None

    def run(self, seconds: float) -> str:
        """Kill for so many seconds, then let it finish; returns the run's id."""
        self._harness("nightly", *self._arguments)
        deadline = time.monotonic() + seconds
        while not run_folders(self.store):
            self._still_planning()
        run = run_folders(self.store)[0].name
        while True:
            self._sleep(deadline)
            code = self._process.poll() if self._process else None
            if code is not None and self._finished(run):
                return run
            if code is not None:
                self.resumes += 1
                self._harness("resume", run)
            elif time.monotonic() < deadline:
                self._kill_one()

    def _still_planning(self) -> None:
        time.sleep(0.2)
        if self._process and self._process.poll() is not None:
            raise SystemExit("the night ended before it had planned anything; see what it printed")

    def _sleep(self, deadline: float) -> None:
        """Until the next kill, or, when there are no more kills, a moment."""
        more = time.monotonic() < deadline
        until = time.monotonic() + (self._random.expovariate(1 / self._pause) if more else 1)
        while time.monotonic() < until and self._process and self._process.poll() is None:
            time.sleep(0.05)

    def _finished(self, run: str) -> bool:
        try:
            with results.open(self.store) as reader:
                rows = reader.rows("v_completeness", run=run)
        except results.StoreError:  # nothing was ingested yet
            return False
        return bool(rows) and rows[0]["state"] == "complete"

    def _harness(self, *command: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "harness.cli", *command, "--quiet", "--store", str(self.store)],
            stdout=subprocess.DEVNULL,
            stdin=subprocess.DEVNULL,
        )

    def _kill_one(self) -> None:
        """One process of the run at random, each kind as likely as any other; less often while none works."""
        kinds = self._processes()
        if not kinds or ("worker" not in kinds and self._random.random() > _WHILE_LOADING):
            return
        kind = self._random.choice(sorted(kinds))
        victim = self._random.choice(kinds[kind])
        try:
            victim.send_signal(signal.SIGKILL)
        except psutil.NoSuchProcess:
            return
        self.kills[kind] += 1

    def _processes(self) -> dict[str, list[psutil.Process]]:
        assert self._process is not None
        kinds: dict[str, list[psutil.Process]] = {}
        try:
            supervisor = psutil.Process(self._process.pid)
            kinds["supervisor"] = [supervisor]
            for child in supervisor.children():
                if "forkserver" in " ".join(child.cmdline()):
                    kinds["fork server"] = [child]
                    workers = child.children()
                    if workers:
                        kinds["worker"] = workers
        except psutil.Error:
            pass  # one ended while it was looked at
        return kinds


def report(soak: Soak, run: str, seconds: float) -> bool:
    """Print the figures; whether nothing was lost or doubled."""
    folder = run_path(soak.store, run)
    planned = [case.id for case in load_plan(folder).cases]
    events = [record.event for log in log_files(folder / EVENTS_DIR).values() for record in read_log(log)]
    told = Counter((e.case, e.attempt, e.stage) for e in events if isinstance(e, Ended))
    doubled = [key for key, times in told.items() if times > 1]
    begun = {(event.case, event.attempt) for event in events if isinstance(event, Entered)}
    attempts = Counter(case for case, _ in begun)
    with results.open(soak.store) as reader:
        cases = {row["case_id"]: row["outcome"] for row in reader.rows("v_cases", run=run)}
        fates = Counter(row["fate"] for row in reader.rows("v_workers", run=run))
    lost = [case for case in planned if cases.get(case, Outcome.NOT_RUN) == Outcome.NOT_RUN]
    outcomes = Counter(cases.values())
    print(f"seconds          {seconds:.0f}")
    print(f"kills            {_listed(soak.kills)}")
    print(f"resumes          {soak.resumes}")
    print(f"workers          {_listed(fates)}")
    print(f"planned          {len(planned)}")
    print(f"outcomes         {_listed(outcomes)}")
    print(f"begun again      {sum(times > 1 for times in attempts.values())} cases")
    print(f"lost             {len(lost)}")
    print(f"told twice       {len(doubled)}")
    return not lost and not doubled and sum(outcomes.values()) == len(planned)


def _listed(counts: Counter[str]) -> str:
    return f"{sum(counts.values())}: " + ", ".join(f"{n} {name}" for name, n in counts.most_common())


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=10, help="how long to kill (default: 10)")
    parser.add_argument("--pause", type=float, default=8, help="mean seconds between kills (default: 8)")
    parser.add_argument("--seed", type=int, default=0, help="of the choice of victims (default: 0)")
    parser.add_argument("--store", type=Path, help="folder of the store (default: a temporary one)")
    parser.add_argument("nightly", nargs="*", help="options of harness nightly, after --")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        soak = Soak(options.store or Path(temporary), options.nightly, options.pause, options.seed)
        began = time.monotonic()
        run = soak.run(options.minutes * 60)
        return 0 if report(soak, run, time.monotonic() - began) else 1


if __name__ == "__main__":
    sys.exit(main())
