"""Run the attempts, each in its own process, several at a time, and keep what is done."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from ..compiler.executable import has_client
from ..compiler.graph import dtype_name
from ..compiler.lowering import preload
from .attempt import measure
from .calls import Call, Calls, Key
from .table import Entry, append, read_log, tidy


def probe(
    calls: Calls, log: Path, *, jobs: int = 1, timeout_s: float = 60.0, quiet: bool = True
) -> list[Entry]:
    """An entry for every key of ``calls``. What ``log`` already holds is not tried again."""
    if has_client():
        raise RuntimeError(
            "a process that has run compiled graphs cannot probe: XLA does not survive the fork"
        )
    done = {Key(entry.op, entry.dtype) for entry in read_log(log)}
    # By dtype in the device's own order: an interrupted probe has then finished what matters most.
    rank = {dtype_name(dtype): index for index, dtype in enumerate(calls.dtypes)}
    todo = sorted(set(calls.by_key) - done, key=lambda key: (rank[key.dtype], key.op))
    started = time.monotonic()
    preload()
    parent = os.getpid()
    children = []
    for share in range(jobs):
        pid = os.fork()
        if pid == 0:
            _work(((key, calls.by_key[key]) for key in todo[share::jobs]), log, timeout_s, parent)
        children.append(pid)
    _wait(children, log, len(done), len(done) + len(todo), started, quiet)
    wanted = set(calls.by_key)
    return [entry for entry in read_log(log) if Key(entry.op, entry.dtype) in wanted]


def _work(share: Iterable[tuple[Key, list[Call]]], log: Path, timeout_s: float, parent: int) -> None:
    """Never returns; ends early when the parent is gone."""
    code = 1
    try:
        for key, examples in share:
            if os.getppid() != parent:
                break
            outcome = measure(examples, timeout_s)
            append(log, Entry(key.op, key.dtype, outcome.status, tidy(outcome.detail), outcome.when))
        code = 0
    finally:
        os._exit(code)


def _wait(children: list[int], log: Path, before: int, total: int, started: float, quiet: bool) -> None:
    running = set(children)
    while running:
        time.sleep(0.05)
        for pid in list(running):
            if os.waitpid(pid, os.WNOHANG)[0]:
                running.remove(pid)
        if not quiet:
            _report(len(read_log(log)), before, total, time.monotonic() - started)
            time.sleep(2.0 if running else 0.0)


def _report(count: int, before: int, total: int, seconds: float) -> None:
    rate = (count - before) / seconds if seconds else 0.0
    left = (total - count) / rate if rate else 0.0
    end = "\r" if sys.stderr.isatty() else "\n"
    print(
        f"{count}/{total} attempts, {rate:.1f}/s, {left:.0f} s left   ", end=end, file=sys.stderr, flush=True
    )
