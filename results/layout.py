"""Where things lie in a store, and the errors of using one.

A store is a folder: ``coverage.duckdb``, ``runs/<id>/{plan.json,events/,output/}``, ``cache/``.
"""

from __future__ import annotations

import os
from pathlib import Path

from results.plan import PLAN_FILE

DATABASE = "coverage.duckdb"
RUNS_DIR = "runs"
CACHE_DIR = "cache"
SUPERVISOR_LOCK = ".supervisor.lock"
"""In a run's folder; whoever has its lock is at work on the run."""

WRITER_LOCK = ".writer.lock"
"""In a store; whoever has its lock writes to the database."""

PRIVATE_DATABASE = f".{DATABASE}.writing"
"""The copy that a writer changes."""

STORE_VARIABLE = "HARNESS_STORE"


class StoreError(RuntimeError):
    """A store that cannot be used; one sentence that says what to do about it."""


def default_store() -> Path:
    """The store that is used when none is named: ``$HARNESS_STORE``, or ``harness-data`` here."""
    return Path(os.environ.get(STORE_VARIABLE) or "harness-data")


def database_path(store: Path) -> Path:
    """The DuckDB file of a store."""
    return store / DATABASE


def run_path(store: Path, run: str) -> Path:
    """The folder of a run in a store."""
    return store / RUNS_DIR / run


def run_folders(store: Path) -> list[Path]:
    """Folders of all runs in a store, by name; a folder without a plan is not a run yet."""
    return sorted(plan.parent for plan in (store / RUNS_DIR).glob(f"*/{PLAN_FILE}"))
