"""Making the plan of a run: which models, which tests, and what is expected of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from fnmatch import fnmatchcase
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path

from harness import processes
from harness.errors import InfrastructureError, NothingCollectedError, UsageError
from harness.local_models import packaged_cases
from harness.profiles import CLAIMS, EMBEDDED_HUB, MODELS, OPINFO, PYTEST, UPSTREAM, Profile
from harness.pytest_sessions import Session, collect
from harness.sandbox import allowed
from harness.upstream import collect_upstream
from model_zoo.catalog import CatalogEntry, snapshot
from results.expectations import (
    Declaration,
    Entry,
    ExpectationError,
    Finding,
    declare,
    dtype_in,
    load_expectations,
)
from results.globs import literal_ends
from results.layout import default_store, run_path
from results.plan import Case, Plan, PlanError, make_plan
from results.vocabulary import CaseKind

_LISTING_SECONDS = 300
_SAID_FINDINGS = 5

Collect = Callable[[Sequence[str], Session], list[Case]]


def new_run_id(store: Path, device: str, now: datetime | None = None) -> str:
    """An id for a run that begins now: time and device, e.g. ``20261130-053000-neuron``."""
    base = f"{now or datetime.now():%Y%m%d-%H%M%S}-{device}"
    taken, run = 1, base
    while run_path(store, run).exists():
        taken += 1
        run = f"{base}-{taken}"
    return run


def plan_run(
    profile: Profile,
    run: str,
    endpoint: str,
    say: Callable[[str], None],
    collect: Collect = collect,
    store: Path | None = None,
) -> Plan:
    """Collect every case of a profile and fix them.

    An expectation that matches or decides no case is said, unless the profile selects only some cases anyway.
    It stops no run, or a model that left the Hub would cost the night; ``harness expectations check`` fails.

    Args:
        collect: collects pytest's cases, where the device is.
        store: where the test files of suite ``upstream`` are; by default the default store.

    Raises:
        NothingCollectedError: the selection matched no case.
        UsageError: a selection or an expectation file is wrong.
    """
    cases = collect_cases(profile, endpoint, say, collect, store)
    try:
        entries = load_expectations(expectation_files(profile.device, profile.expectations))
        declaration = declare(cases, entries, profile.device, torch_version())
        plan = make_plan(
            run=run,
            device=profile.device,
            profile=profile.name,
            cases=declaration.cases,
            settings=profile.settings(),
        )
    except (PlanError, ExpectationError) as error:
        raise UsageError(str(error)) from error
    if profile.selects_all and (dead := dead_entries(declaration, plan.cases)):
        left_out = _left_out_by(profile)
        _say_findings([finding for finding in dead if not left_out(finding.entry)], say)
    return plan


def collect_cases(
    profile: Profile,
    endpoint: str,
    say: Callable[[str], None],
    collect: Collect = collect,
    store: Path | None = None,
) -> list[Case]:
    """Every case that a profile selects; the arguments are those of ``plan_run``.

    Raises:
        NothingCollectedError: the selection matched no case.
        UsageError: a selection is wrong.
    """
    cases = [
        *_models(profile, endpoint),
        *_opinfo(profile),
        *_claims(profile),
        *_pytest(profile, collect),
        *_upstream(profile, store, say),
    ]
    if not cases:
        raise NothingCollectedError(
            f"profile {profile.name!r} matched no case: model_filter is {profile.model_filter!r}, "
            f"test_filter is {profile.test_filter!r}, suites are {list(profile.suites)}"
        )
    return cases


def dead_entries(declaration: Declaration, cases: Iterable[Case]) -> list[Finding]:
    """Entries that decide nothing, of the suites that some cases are of: the others were not asked for."""
    suites = {case.suite for case in cases}
    found = [*declaration.unmatched, *declaration.shadowed]
    return [dead for dead in found if suite_of(dead.entry) in ("", *suites)]


def _left_out_by(profile: Profile) -> Callable[[Entry], bool]:
    """Says whether an entry is of a dtype, check or list of ``opinfo`` that the profile leaves out."""
    checks, databases = processes.call(_opinfo_names, timeout=_LISTING_SECONDS)
    absent = {
        "database": ()
        if profile.opinfo_databases == ("all",)
        else set(databases) - {*profile.opinfo_databases},
        "check": () if profile.opinfo_checks == ("all",) else set(checks) - {*profile.opinfo_checks},
    }

    def left_out(entry: Entry) -> bool:
        if suite_of(entry) != OPINFO:
            return False
        dtype, parts = dtype_in(entry.pattern), entry.pattern.split("::")
        if dtype and dtype not in profile.opinfo_dtypes:
            return True
        return parts[1] in absent["database"] or parts[-1].partition("[")[0] in absent["check"]

    return left_out


def _opinfo_names() -> tuple[list[str], list[str]]:
    """The checks and the lists that there are; runs in a child."""
    from suites.opinfo.checks import CHECKS
    from suites.opinfo.entries import DATABASES

    return [*CHECKS], [*DATABASES]


def suite_of(entry: Entry) -> str:
    """The suite of the cases that an entry is about, ``""`` if its glob leaves it open."""
    suite = literal_ends(entry.pattern)[0] if entry.is_glob else entry.pattern
    return suite.partition("::")[0] if "::" in suite else ""


def _say_findings(found: Sequence[Finding], say: Callable[[str], None]) -> None:
    for dead in found[:_SAID_FINDINGS]:
        say(str(dead))
    if len(found) > _SAID_FINDINGS:
        left = len(found) - _SAID_FINDINGS
        say(f"{left} more expectations decide nothing; `harness expectations check` lists them")


def expectation_files(device: str, own: Sequence[str] = ()) -> list[Path]:
    """The files that come with a device, in alphabetical order, and then a profile's own."""
    return [*sorted(packaged_expectations(device).rglob("*.toml")), *map(Path, own)]


def packaged_expectations(device: str) -> Path:
    """The folder of the expectation files that come with a device; it may not exist."""
    return Path(str(files("suites"))) / "expectations" / device


def torch_version() -> str:
    """Version of the installed torch, from its metadata: the supervising process does not import it."""
    try:
        return version("torch")
    except PackageNotFoundError:
        return ""


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
    return Case(id=f"model::{entry.id}@{entry.revision}", kind=CaseKind.MODEL, spec=spec)


def _models(profile: Profile, endpoint: str) -> list[Case]:
    if MODELS not in profile.suites:
        return []
    limit = profile.models or None
    wanted = profile.model_filter
    try:
        entries = snapshot(endpoint, limit=limit if wanted == "*" else None)
    except OSError as error:
        raise InfrastructureError(f"{endpoint} could not list its models: {error}") from error
    chosen = [entry for entry in entries if fnmatchcase(entry.id, wanted)]
    of_hub = [allowed(model_case(entry), profile.allow_remote_code) for entry in chosen]
    # They stand beside the models of the embedded mirror; another hub is swept for its own.
    packaged = packaged_cases() if profile.hub == EMBEDDED_HUB else []
    beside = [case for case in packaged if fnmatchcase(str(case.spec["repo_id"]), wanted)]
    return [*of_hub, *beside][:limit]


def _opinfo(profile: Profile) -> list[Case]:
    if OPINFO not in profile.suites:
        return []
    cases = processes.call(
        _list_opinfo,
        profile.opinfo_selection,
        profile.opinfo_dtypes,
        profile.opinfo_checks,
        profile.opinfo_databases,
        timeout=_LISTING_SECONDS,
    )
    return [case for case in cases if fnmatchcase(case.id, profile.test_filter)]


def _claims(profile: Profile) -> list[Case]:
    if CLAIMS not in profile.suites:
        return []
    cases = processes.call(_list_claims, timeout=_LISTING_SECONDS)
    return [case for case in cases if fnmatchcase(case.id, profile.test_filter)]


def _pytest(profile: Profile, collect: Collect) -> list[Case]:
    if PYTEST not in profile.suites:
        return []
    if not profile.pytest_paths:
        raise UsageError("suite pytest needs pytest_paths, e.g. --set 'pytest_paths=[\"tests\"]'")
    root = Path(profile.pytest_root or Path.cwd()).resolve()
    session = Session(root, profile.device, suite_environment(profile.device))
    return [
        case for case in collect(profile.pytest_paths, session) if fnmatchcase(case.id, profile.test_filter)
    ]


def _upstream(profile: Profile, store: Path | None, say: Callable[[str], None]) -> list[Case]:
    if UPSTREAM not in profile.suites:
        return []
    cases = collect_upstream(profile, store or default_store(), suite_environment(profile.device), say)
    return [case for case in cases if fnmatchcase(case.id, profile.test_filter)]


def suite_environment(device: str) -> dict[str, str]:
    """Variables that make PyTorch's suites see a device, asked of its adapter in a child."""
    return dict(processes.call(_suite_environment, device))


def _suite_environment(device: str) -> dict[str, str]:
    from harness import devices

    return dict(devices.get(device).environment())


def _list_opinfo(
    selection: str, dtypes: tuple[str, ...], checks: tuple[str, ...], databases: tuple[str, ...]
) -> list[Case]:
    """Runs in a child, because OpInfo is a part of torch."""
    from suites.opinfo import SelectionError, load_selection
    from suites.opinfo.catalog import cases

    try:
        return cases(load_selection(selection), dtypes, checks, databases)
    except SelectionError as error:
        raise UsageError(str(error)) from error


def _list_claims() -> list[Case]:
    """Runs in a child, because claims are written in torch."""
    from suites.claims import list_cases

    return list_cases()
