"""Planning the models of a catalog: one of each class runs, the others have their headers checked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from harness.errors import UsageError
from harness.evidence import CLASS, REPRESENTED_BY
from harness.profiles import Profile
from harness.sandbox import allowed
from model_zoo.catalog import CatalogEntry, CatalogError, iter_catalog
from model_zoo.classes import Placed, place, undecided
from model_zoo.header_book import header_book
from results.layout import CACHE_DIR
from results.plan import Case
from results.vocabulary import CaseKind

Say = Callable[[str], None]
_SAY_EVERY = 1000


def model_case(entry: CatalogEntry) -> Case:
    """The case that runs one model at the revision the catalog pinned."""
    spec = {
        "repo_id": entry.id,
        "revision": entry.revision,
        "task": entry.task,
        "architecture": entry.architecture,
        "model_type": entry.model_type,
        "library": entry.library,
        "parameters": entry.parameters,
        "downloads": entry.downloads,
    }
    return Case(id=_id(entry), kind=CaseKind.MODEL, spec=spec)


def _id(entry: CatalogEntry) -> str:
    return f"model::{entry.id}@{entry.revision}"


def catalog_cases(profile: Profile, endpoint: str, store: Path, say: Say) -> list[Case]:
    """A case for each model of the profile's catalog that it selects.

    Raises:
        UsageError: the catalog cannot be used.
    """
    entries = select(read_entries(Path(profile.catalog)), profile.model_filter, profile.models)
    placed = place_all(entries, endpoint, store, profile.always_run, say)
    return [allowed(_case_of(one), profile.allow_remote_code) for one in placed]


def read_entries(path: Path) -> list[CatalogEntry]:
    """The entries of a catalog, most downloaded first.

    Raises:
        UsageError: it is none.
    """
    try:
        return sorted(iter_catalog(path), key=lambda entry: -entry.downloads)
    except CatalogError as error:
        raise UsageError(str(error)) from error
    except FileNotFoundError:
        raise UsageError(f"there is no catalog {path}; `harness zoo snapshot` makes one") from None


def select(entries: Sequence[CatalogEntry], wanted: str, most: int) -> list[CatalogEntry]:
    """The first ``most`` entries (0 is all) whose id matches."""
    chosen = (entry for entry in entries if fnmatchcase(entry.id, wanted))
    return list(itertools.islice(chosen, most or None))


def place_all(
    entries: Sequence[CatalogEntry], endpoint: str, store: Path, always_run: int, say: Say
) -> list[Placed]:
    """Give each model its class, reading the headers of those that do not run for themselves.

    What a store has read of a revision it does not read again. A model whose header cannot be had, or that
    contradicts itself, runs for itself: then its own stages say what is wrong with it.
    """
    wanted = undecided(entries, always_run)
    said = 0

    def progress(done: int) -> None:
        nonlocal said
        if done - said >= _SAY_EVERY:
            said = done
            say(f"{done:,} headers read")

    with header_book(store / CACHE_DIR / "headers.sqlite") as book:
        checked = book.check(wanted, endpoint, progress=progress)
    placed = place(entries, always_run, {name: one.digest for name, one in checked.items()})
    members = sum(one.representative is not None for one in placed)
    say(f"{len(placed) - members:,} models run, and stand for {members:,} more")
    silent = [one.why for one in checked.values() if one.why]
    if silent:
        say(f"{len(silent):,} models run because their header says nothing; for example: {silent[0]}")
    return placed


def _case_of(placed: Placed) -> Case:
    case = model_case(placed.entry)
    more = {CLASS: placed.key} if placed.key else {}
    if placed.representative is not None:
        more[REPRESENTED_BY] = _id(placed.representative)
    return Case(id=case.id, kind=case.kind, spec={**case.spec, **more})
