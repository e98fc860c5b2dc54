"""The views of a store: what each one says and in which order it is read.

Every number that the harness prints or a page shows is a column of one of these; the SQL is in
``results/sql``. This list is what ``Store.view`` accepts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping


@dataclasses.dataclass(frozen=True, slots=True)
class View:
    """One view.

    Attributes:
        order: the ``ORDER BY`` that a reader expects.
        meaning: what a row is.
    """

    order: str
    meaning: str


VIEWS: Mapping[str, View] = {
    "v_runs": View("started DESC NULLS LAST, run DESC", "a run, the latest first"),
    "v_completeness": View("run", "a run: how many of its planned cases have a result"),
    "v_missing": View("run, cases DESC, reason", "a reason for which cases have no result"),
    "v_not_run": View("run, case_id", "a planned case without a result"),
    "v_cases": View("run, case_id", "a planned case, with its outcome and verdict"),
    "v_stages": View("run, case_id, ordinal", "a planned stage of a case, in its last attempt"),
    "v_collected": View("run, suite, file", "a test file: how many of its tests were collected"),
    "v_outcomes": View("run, kind, suite, ordinal", "an outcome in a suite: how many cases"),
    "v_suites": View("run, kind, suite", "a suite: how many of its cases pass"),
    "v_checks": View(
        "run, list, check_name", "a check of a list of suite opinfo: how many of its cases pass"
    ),
    "v_skipped": View("run, case_id", "a skipped case, with the category that explains it"),
    "v_skips": View("run, ordinal, cases DESC, category, suite", "a category of skips: how many"),
    "v_skip_balance": View("run", "a run: whether its skips add up"),
    "v_verdicts": View("run, verdict", "a verdict: how many cases"),
    "v_failures": View("run, cases DESC, signature", "equal failures"),
    "v_common_failures": View(
        "run, cases DESC, signature", "equal regressions: their share of the cases that passed or failed"
    ),
    "v_models": View("run, downloads DESC NULLS LAST, model_id", "a model, with a column for each stage"),
    "v_funnel": View("run, ordinal", "a stage: how many models pass it"),
    "v_op_calls": View("run, case_id, stage, called, executed, dtype", "a kernel in a stage of a case"),
    "v_ops": View("run, device_calls + fallback_calls DESC, called, executed, dtype", "an op and dtype"),
    "v_op_routes": View("run", "a run: how many ops ran on the device and fell back"),
    "v_device_share": View("run, kind", "a kind of case: share of op calls that ran on the device"),
    "v_gaps": View("run, rank", "an op that fell back, the most wanted first"),
    "v_gap_dtypes": View(
        "run, models DESC, fallback_calls DESC, op, dtype", "an op and dtype that fell back"
    ),
    "v_blocked": View("run, case_id", "a case, and the ops for which it does not run on the device alone"),
    "v_blocked_sets": View(
        "run, models DESC, downloads DESC, tests DESC, ops", "cases that lack the same ops"
    ),
    "v_attempt_outcomes": View("run, case_id, attempt", "an attempt of a case that had several"),
    "v_attempt_stages": View("run, case_id, attempt, ordinal", "a stage of an attempt of a case"),
    "v_flakes": View("run, case_id", "a case that passed in one attempt and failed in another"),
    "v_workers": View("run, ended, worker", "a worker process that ended"),
    "v_deaths": View("run, deaths DESC, fate", "a fate of workers that died, with an example"),
}
