"""What earlier runs say of cases: how long they take, and which of them end their process."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from results.layout import StoreError, database_path
from results.store import open_store
from results.vocabulary import Outcome

_RUNS = 5
_FATAL = (Outcome.CRASHED, Outcome.TIMED_OUT, Outcome.OUT_OF_MEMORY)


@dataclasses.dataclass(frozen=True, slots=True)
class History:
    """Of a device's cases, by id.

    Attributes:
        seconds: median of the last runs in which a case ran.
        fragile: cases whose last run ended their process.
    """

    seconds: Mapping[str, float] = dataclasses.field(default_factory=dict)
    fragile: frozenset[str] = frozenset()


def history(store: Path, device: str) -> History:
    """What a store knows of a device's cases from its last runs; nothing where there are none."""
    if not database_path(store).exists():
        return History()
    try:
        with open_store(store) as reader:
            rows = reader.query_rows(_SQL, [device, _RUNS])
    except StoreError:  # of an older schema, or damaged: the writer says so when the run is ingested
        return History()
    return History(
        {row["case_id"]: row["seconds"] for row in rows},
        frozenset(row["case_id"] for row in rows if row["outcome"] in _FATAL),
    )


_SQL = """
WITH latest AS (
    SELECT run, started FROM v_run_heads WHERE device = ? ORDER BY started DESC NULLS LAST, run DESC LIMIT ?
)
SELECT c.case_id, median(c.seconds) AS seconds, arg_max(c.outcome, l.started) AS outcome
FROM v_cases c
JOIN latest l USING (run)
WHERE c.attempts > 0
GROUP BY c.case_id
"""
