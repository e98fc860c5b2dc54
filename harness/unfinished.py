"""Which run to go on with when none is named."""

from __future__ import annotations

from pathlib import Path

from harness.errors import UsageError
from harness.profiles import stored_profile
from harness.supervisor import SUPERVISOR_LOG
from results.events import EventLogError, RunEnded, decode
from results.layout import StoreError, run_folders
from results.logs import last_lines
from results.plan import EVENTS_DIR, PlanError, load_plan
from results.store import open_store
from results.vocabulary import RunState


def latest_unfinished(store: Path) -> str:
    """The id of the latest run that was cut short and that the harness itself supervised.

    It is read from the runs' folders: a run that was killed may never have reached the database. One
    that came to its end and did not reach it, for want of room perhaps, is cut short as well.

    Raises:
        UsageError: there is none.
    """
    folders = run_folders(store.resolve())
    for folder in sorted(folders, key=lambda path: path.name, reverse=True):
        done = _came_to_its_end(folder) and _is_in_database(folder.name, store)
        if not done and _is_ours(folder):
            return folder.name
    if not folders:
        raise UsageError(f"{store} holds no run to go on with; `harness nightly` makes one")
    raise UsageError(
        f"no run in {store} was cut short; `harness resume RUN` goes on with a certain one, "
        f"the last is {folders[-1].name}"
    )


def _came_to_its_end(folder: Path) -> bool:
    """Whether the last whole record of the supervisor says so; it writes nothing after that."""
    try:
        lines = last_lines(folder / EVENTS_DIR / f"{SUPERVISOR_LOG}.jsonl")
        event = decode(lines[-1].decode("utf-8", "replace")).event if lines else None
    except (FileNotFoundError, EventLogError):
        return False
    return isinstance(event, RunEnded) and event.state is RunState.COMPLETE


def _is_in_database(run: str, store: Path) -> bool:
    """Whether the database has the end of a run; one that cannot be read says nothing against it."""
    try:
        with open_store(store) as reader:
            return any(row["state"] == RunState.COMPLETE for row in reader.rows("v_run_heads", run=run))
    except StoreError:
        return True


def _is_ours(folder: Path) -> bool:
    """Whether it was planned from a profile; runs that pytest recorded were not."""
    try:
        stored_profile(load_plan(folder).settings)
    except (UsageError, PlanError):
        return False
    return True
