"""Told apart from regressions: a run in which nearly everything that ran fails in one way.

A driver that does not load or a device that answers nothing fails every case alike. Thousands of regressions
would be a true account of that and a useless one. The sign is one signature (:mod:`results.signature`) shared
by nearly all cases that came to a judgement, of many unrelated operators, files or models; that a single
operator or file fails as a whole is a regression like any other.
"""

from __future__ import annotations

import dataclasses

from results.store import Store

MIN_SHARE = 0.9
"""Of the cases that passed or failed."""

MIN_CASES = 10
"""Failing cases."""

MIN_SUBJECTS = 5
"""Operators, files or models that the failing cases are of."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class CommonFailure:
    """The failure that nearly all cases of a run share.

    Attributes:
        cases: cases whose result is this failure, of ``judged`` that passed or failed.
        subjects: operators, files and models that they are of.
        exception, message: of the case ``example``.
    """

    signature: str
    cases: int
    judged: int
    subjects: int
    exception: str
    message: str
    example: str

    @property
    def sentence(self) -> str:
        """What it means, for the head of a report."""
        what = ": ".join(part for part in (self.exception, self.message) if part)
        return (
            f"{self.cases} of the {self.judged} cases that ran, of {self.subjects} operators, files or "
            f"models, fail in one way ({what}); that is the machine's or the device's set-up, not the cases: "
            "`harness doctor` examines it"
        )


QUERY = (
    "SELECT signature, cases, judged, subjects, exception, message, example_case AS example "
    f"FROM v_common_failures WHERE run = ? AND share >= {MIN_SHARE} AND cases >= {MIN_CASES} "
    f"AND subjects >= {MIN_SUBJECTS} LIMIT 1"
)
"""The fields of a run's common failure; no row if it has none, and two have no room beside each other."""


def common_failure(store: Store, run: str) -> CommonFailure | None:
    """The failure that nearly all cases of a run share, if there is one."""
    rows = store.query_rows(QUERY, [run])
    return CommonFailure(**rows[0]) if rows else None
