"""Which earlier cases make a case fail that passes alone: found by running it after fewer and fewer."""

from __future__ import annotations

from collections.abc import Generator, Sequence

from results.plan import Case

Experiment = tuple[Case, ...]


class Bisection:
    """Asks for experiments, one at a time, until it knows.

    An experiment is a list of cases to run, in one process, before the suspect. With n cases before it
    the search takes at most 2 * ceil(log2(n)) + 1 of them; it finds one case that disturbs the suspect by
    itself, or else the smallest group it met that only disturbs it together. Two more confirm what it
    found: the suspect has to fail after them once more, and to pass by itself once more. A failure that
    comes and goes as it likes would else accuse whoever happened to run before it.

    Attributes:
        suspect: the case that fails after others.
        next: what to run before the suspect now, ``None`` when the search is over.
        culprits: who disturbs it; ``()`` if that could not be reproduced.
        experiments: how many were run.
    """

    def __init__(self, suspect: Case, before: Sequence[Case]) -> None:
        self.suspect = suspect
        self.culprits: Experiment = ()
        self.experiments = 0
        self._search = _search(tuple(before))
        self.next: Experiment | None = next(self._search)

    def learn(self, failed: bool | None) -> None:
        """Take in whether the suspect failed in the experiment ``next``; ``None`` if it did not end."""
        self.experiments += 1
        try:
            self.next = self._search.send(failed)
        except StopIteration as found:
            self.culprits, self.next = found.value, None


def _search(before: Experiment) -> Generator[Experiment, bool | None, Experiment]:
    if not (yield before):
        return ()
    while len(before) > 1:
        middle = len(before) // 2
        first, second = before[:middle], before[middle:]
        if (yield second):
            before = second
        elif (yield first):
            before = first
        else:
            break  # only together
    confirmed = (yield before) and (yield ()) is False
    return before if confirmed else ()
