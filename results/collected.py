"""Whether a run's test files still hold as many tests as they did: no denominator shrinks in silence."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from results.layout import StoreError
from results.store import Store

ACCEPTED_FILE = "accepted.json"
DEFAULT_PERCENT = 5
_RUNS = 5
_SUITE = "upstream"


@dataclasses.dataclass(frozen=True, slots=True)
class Drop:
    """A test file of which a run collected markedly fewer tests than an earlier run.

    Attributes:
        before: the most that one of the runs compared with collected.
        before_run: that run.
        now: how many this run collected; 0 if the file is gone.
    """

    file: str
    before: int
    before_run: str
    now: int


def drops(store: Store, run: str) -> tuple[Drop, ...]:
    """Files of PyTorch's suite in which more tests are gone than the run's profile lets pass, by name.

    Compared is with the most that was collected in the last five complete runs of the device before this
    one, none older than the run that was accepted. Runs that were narrowed by a filter on tests are neither
    judged nor compared with; a file that is gone altogether is a finding where the same files were asked for.
    """
    (settings,) = (_settings(row) for row in store.rows("v_runs", run=run))
    if settings.get("test_filter", "*") != "*":
        return ()
    percent = int(settings.get("max_collected_drop", DEFAULT_PERCENT))
    asked = json.dumps([settings.get(key) for key in ("upstream_families", "upstream_files")])
    rows = store.query_rows(_SQL, [run, _SUITE, asked, _RUNS, _accepted(store, run)])
    return tuple(
        Drop(row["file"], row["before"], row["before_run"], row["now"])
        for row in rows
        if 100 * (row["before"] - row["now"]) > percent * row["before"]
    )


def accept(store: Store, run: str) -> str:
    """Compare later runs of its device with this run and with none before it.

    Returns:
        The device.

    Raises:
        StoreError: there is no such run, or it is not complete.
    """
    (row,) = store.rows("v_runs", run=store.resolve_run(run))
    if not row["complete"]:
        raise StoreError(f"run {run} is not complete; what it collected cannot be accepted")
    path = store.path / ACCEPTED_FILE
    accepted = {**_read(path), row["device"]: run}
    temporary = path.with_suffix(".tmp")
    temporary.write_text(json.dumps(accepted, indent=1, sort_keys=True) + "\n")
    temporary.replace(path)
    return str(row["device"])


def _accepted(store: Store, run: str) -> str:
    """The run that was accepted of a run's device, ``""`` if none was."""
    (row,) = store.rows("v_runs", run=run)
    return str(_read(store.path / ACCEPTED_FILE).get(row["device"], ""))


def _read(path: Path) -> Mapping[str, Any]:
    try:
        body: dict[str, Any] = json.loads(path.read_text())
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise StoreError(f"{path} cannot be read: {error}") from error
    return body


def _settings(row: Mapping[str, Any]) -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(row["settings"])
    return found


_SQL = """
-- $1 run, $2 suite, $3 JSON of the files asked for, $4 most runs to compare with, $5 accepted run or ''
WITH this AS (
    SELECT run, device, started FROM v_runs WHERE run = $1
), earlier AS (
    SELECT
        r.run, r.started,
        json_array(
            json_extract(r.settings, '$.upstream_families'), json_extract(r.settings, '$.upstream_files')
        ) = json($3) AS same_files
    FROM v_runs r, this
    WHERE r.device = this.device AND r.complete AND r.started < this.started
        AND coalesce(json_extract_string(r.settings, '$.test_filter'), '*') = '*'
        AND r.started >= coalesce((SELECT started FROM v_runs WHERE run = $5), r.started)
        AND EXISTS (FROM v_collected c WHERE c.run = r.run AND c.suite = $2)
    ORDER BY r.started DESC, r.run DESC
    LIMIT $4
), best AS (
    SELECT
        c.file, max(c.collected) AS before, arg_max(c.run, c.collected) AS before_run,
        bool_or(e.same_files) AS same_files
    FROM v_collected c
    JOIN earlier e USING (run)
    WHERE c.suite = $2
    GROUP BY c.file
)
SELECT b.file, b.before, b.before_run, coalesce(n.collected, 0) AS now
FROM best b
LEFT JOIN v_collected n ON n.run = $1 AND n.suite = $2 AND n.file = b.file
WHERE coalesce(n.collected, 0) < b.before AND (n.file IS NOT NULL OR b.same_files)
    AND EXISTS (FROM v_collected c WHERE c.run = $1 AND c.suite = $2)
ORDER BY b.file
"""
