"""How long it takes to compare two large runs: each query of ``harness diff`` and of the page Compare.

    python -m benchmarks.diff [--cases 154000] [--models 10000]

The tables are filled by SQL, since only reading is measured. Prints the median of three, in seconds.
"""

from __future__ import annotations

import argparse
import functools
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import results
from results import schema
from results.diff import CASES, CLASSES, ENVIRONMENT, FAILURES, read_diff
from results.layout import database_path

_FILL = """
INSERT INTO runs VALUES ('{run}', 'neuron', 'default', '', {cases} + {models}, '{{}}');
INSERT INTO planned (run, case_id, kind, suite, file, op, dtype, expectation, category, reason, link, owner,
    spec)
SELECT '{run}', 'upstream::test_' || i % 90 || '.py::test_' || i, 'pytest', 'upstream',
    'test_' || i % 90 || '.py', '', '', 'pass', '', '', '', '', '{{}}' FROM range({cases}) t(i)
UNION ALL SELECT '{run}', 'model::org/m' || i || '@0', 'model', 'model', 'org/m' || i, '', '', 'pass', '', '',
    '', '', '{{}}' FROM range({models}) t(i);
INSERT INTO models SELECT '{run}', 'model::org/m' || i || '@0', 'org/m' || i, '0', '', '', '', '', NULL, i
    FROM range({models}) t(i);
INSERT INTO stage_results (run, log, seq, time, case_id, attempt, stage, outcome, seconds, exception, message,
    traceback, signature, metrics, facts)
SELECT '{run}', 'w', 0, now()::TIMESTAMP, p.case_id, 1, s.stage,
    CASE WHEN hash(p.case_id) % 100 < 45 THEN 'skipped_upstream'
         WHEN hash(p.case_id, '{run}') % 100 < 5 THEN 'failed_exception' ELSE 'passed' END AS came,
    0.1, '', '', '', if(came = 'failed_exception', 'sig' || hash(p.case_id) % 500, ''), MAP {{}}, MAP {{}}
FROM planned p JOIN stage_rules s USING (kind) WHERE p.run = '{run}';
"""


def main() -> None:
    """Fill a store of two runs, ask it, print."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--cases", type=int, default=154_000)
    options.add_argument("--models", type=int, default=10_000)
    asked = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        with duckdb.connect(str(database_path(Path(folder)))) as connection:
            schema.migrate(connection)
            for run in ("a", "b"):
                connection.execute(_FILL.format(run=run, cases=asked.cases, models=asked.models))
        with results.open(folder) as store:
            queries = {
                "classes": CLASSES,
                "environment": ENVIRONMENT,
                "count of cases": f"SELECT count(*) FROM ({CASES}) WHERE class <> 'unchanged'",
                "page of cases": f"SELECT * FROM ({CASES}) WHERE class <> 'unchanged' "
                "ORDER BY worse DESC, downloads DESC NULLS LAST, class, case_id LIMIT 100",
                "failures": f"SELECT * FROM ({FAILURES}) ORDER BY cases DESC LIMIT 100",
            }
            for name, sql in queries.items():
                print(f"{name:16} {_median(functools.partial(store.query_rows, sql, ['a', 'b'])):.3f}")
            print(f"{'harness diff':16} {_median(functools.partial(read_diff, store, 'a', 'b')):.3f}")


def _median(call: Callable[[], object]) -> float:
    times = []
    for _ in range(3):
        begun = time.perf_counter()
        call()
        times.append(time.perf_counter() - begun)
    return statistics.median(times)


if __name__ == "__main__":
    main()
