"""Suite ``upstream`` in a run: which of PyTorch's test files it takes, and every test in them as a case."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from harness.errors import InfrastructureError, UsageError
from harness.profiles import Profile
from harness.pytest_sessions import Session, collect, whole_file
from results.layout import CACHE_DIR
from results.plan import Case, Plan
from suites import upstream
from suites.upstream.families import FamilyError, files_of, load_families
from suites.upstream.source import Source, SourceError, installed_torch, load, usable

_SHORT = 12


def cache(store: Path) -> Path:
    """The suite's folder in a store."""
    return store / CACHE_DIR / upstream.NAME


def current_source(store: Path) -> Source:
    """The tree of test files that a store uses, checked to be as it was taken.

    Raises:
        UsageError: there is none, or it or torch has changed.
    """
    try:
        return usable(load(cache(store)), installed_torch())
    except SourceError as error:
        raise UsageError(str(error)) from error


def collect_upstream(
    profile: Profile, store: Path, environment: Mapping[str, str], say: Callable[[str], None]
) -> list[Case]:
    """Collect the files that a profile selects, each in a process of its own.

    A file that fails, dies or hangs while it is collected is one case.

    Raises:
        UsageError: there are no test files, or the selection is wrong.
    """
    source = current_source(store)
    root = Path(source.root)
    try:
        chosen = load_families().select(files_of(root), profile.upstream_families, profile.upstream_files)
    except FamilyError as error:
        raise UsageError(str(error)) from error
    session = Session(root, profile.device, environment, upstream.NAME)
    say(f"collecting {len(chosen)} of PyTorch's test files ({source.origin})")
    with ThreadPoolExecutor(profile.worker_count) as pool:
        found = list(pool.map(lambda file: _collect_file(file, session), chosen))
    cases = [
        _of_file(case, file, source) for file, those in zip(chosen, found, strict=True) for case in those
    ]
    failed = sum(bool(case.spec["collection"]) for case in cases)
    say(f"collected {len(cases) - failed} tests; {failed} files or classes failed or were skipped")
    return cases


def _collect_file(file: str, session: Session) -> Sequence[Case]:
    try:
        return collect([file], session)
    except InfrastructureError:  # it hangs; its case will say so
        return [whole_file(file, session)]


def _of_file(case: Case, file: str, source: Source) -> Case:
    return dataclasses.replace(case, spec={**case.spec, "group": file, "tree": source.content[:_SHORT]})


def upstream_facts(plan: Plan, store: Path) -> dict[str, str]:
    """What a run keeps of its test files; nothing for a run without any.

    Raises:
        UsageError: they are not those that the run was planned with.
    """
    planned = {
        str(case.spec["tree"]) for case in plan.cases if case.suite == upstream.NAME and case.spec.get("tree")
    }
    if not planned:
        return {}
    source = current_source(store)
    if planned != {source.content[:_SHORT]}:
        raise UsageError(
            f"run {plan.run} was planned with other test files than those at {source.root}; "
            "fetch those again, or begin a new run"
        )
    return source.facts
