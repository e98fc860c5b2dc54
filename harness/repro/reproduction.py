"""Makes a reproduction out of what the store and the plan of a run say of a case. Imports no torch."""

from __future__ import annotations

import dataclasses
import json
import re
import shlex
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from harness import devices
from harness.errors import UsageError
from harness.pytest_sessions import Session
from results.layout import run_path
from results.nearest import Nearest
from results.plan import Case, load_plan
from results.store import Store
from results.vocabulary import CaseKind
from suites.opinfo.traits import load_traits
from suites.recording.names import DEFAULT_SUITE

_OP_DB = "op_db"


@dataclasses.dataclass(frozen=True, slots=True)
class Reproduction:
    """How to see one case again.

    Attributes:
        command: one line for a shell.
        script: a Python program that does the same; it exits 0 only if the case passes.
        said: what the run recorded of it: outcome, exception and message.
    """

    command: str
    script: str
    said: str


def reproduce(store: Store, run: str, case_id: str) -> Reproduction:
    """The reproduction of a case of a run; its plan has to be in the store's folder.

    Raises:
        UsageError: the run has no such case.
        PlanError: the run's plan is not there, or damaged.
    """
    plan = load_plan(run_path(store.path, run))
    case = next((case for case in plan.cases if case.id == case_id), None)
    if case is None:
        near = Nearest(case.id for case in plan.cases).find(case_id)
        raise UsageError(f"run {run} has no case {case_id!r}" + (f"; did you mean {near!r}?" if near else ""))
    said = _said(store, run, case_id)
    if case.kind is CaseKind.PYTEST:
        return _of_pytest(case, plan.device, said)
    command = _command(case, plan.device, plan.settings)
    if _stands_alone(case):
        return Reproduction(command, _forward(case, plan.device, said), said)
    return Reproduction(command, _through_harness(case, plan.device, plan.settings, said), said)


def _said(store: Store, run: str, case_id: str) -> str:
    row = store.rows("v_cases", run=run, case_id=case_id)[0]
    parts = [f"{row['outcome']} in {row['stage']}", row["exception"], row["message"]]
    return ": ".join(part for part in parts if part)


def _command(case: Case, device: str, settings: Mapping[str, Any]) -> str:
    if case.kind is CaseKind.MODEL:
        model = case.id.removeprefix("model::")
        words = ["harness", "probe", model, "--device", device, "--hub", str(settings.get("hub", "embedded"))]
        return shlex.join(words)
    # A filter is a pattern, in which brackets are sets of characters.
    pattern = re.sub(r"[\[*?]", lambda found: f"[{found[0]}]", case.id)
    words = ["harness", "run", "--suite", case.suite, "--device", device, "--test-filter", pattern]
    for name in ("opinfo_selection", "opinfo_dtypes", "opinfo_checks", "opinfo_databases"):
        if case.kind is CaseKind.OPINFO and (value := _narrowed(case, name)):
            words.append(f"--set={name}={json.dumps(value)}")
    return shlex.join(words)


def _narrowed(case: Case, name: str) -> Any:
    """The field of a profile that selects this case."""
    spec = case.spec
    return {
        "opinfo_selection": "all",
        "opinfo_dtypes": [spec["dtype"]],
        "opinfo_checks": [spec["check"]],
        "opinfo_databases": [spec["database"]],
    }[name]


def _stands_alone(case: Case) -> bool:
    """Whether torch alone is enough: an operator's plain call, which upstream generates."""
    spec = case.spec
    plain = spec.get("database") == _OP_DB and spec.get("check") == "forward"
    return plain and not spec.get("unsupported") and not spec.get("skipped")


def _forward(case: Case, device: str, said: str) -> str:
    adapter, traits = devices.get(device), load_traits()
    op, dtype = case.spec["op"], case.spec["dtype"]
    found = {
        name: traits.tolerance(op, name, adapter.tolerance(name))
        for name in ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    }
    values = {
        "OP": op,
        "DTYPE": dtype,
        "DEVICE": device,
        "BOUNDS": {name: (bound.rtol, bound.atol) for name, bound in found.items()},
        "COMPARE_VALUES": not traits.why_uncompared(op, {}),
        "RANDOM_WITH": traits.random_with.get(op, ""),
        "STAYS_ON_CPU": traits.cpu_arguments.get(op, ()),
        "GIVE_DEVICE": op in traits.factories,
    }
    return _filled("forward_script.py", case, said, values)


def _through_harness(case: Case, device: str, settings: Mapping[str, Any], said: str) -> str:
    values = {
        "CASE": {"id": case.id, "kind": case.kind.value, "spec": dict(case.spec)},
        "DEVICE": device,
        "HUB": str(settings.get("hub", "")),
        "SEED": int(settings.get("seed", 0)),
    }
    return _filled("harness_script.py", case, said, values)


def _of_pytest(case: Case, device: str, said: str) -> Reproduction:
    root = Path(case.spec["root"])
    variables = devices.get(device).environment()
    session = Session(root, device, variables, case.spec.get("suite", DEFAULT_SUITE))
    words = session.command("-p", "no:xdist", str(case.spec["nodeid"]))[1:]
    given = [f"{name}={value}" for name, value in sorted(session.variables.items())]
    command = f"cd {shlex.quote(str(root))} && {shlex.join(['env', *given, 'python', *words])}"
    values = {"ROOT": str(root), "VARIABLES": dict(session.variables), "ARGUMENTS": words}
    return Reproduction(command, _filled("pytest_script.py", case, said, values), said)


_BLOCK = re.compile(r"# --- case ---\n.*# --- end of case ---\n", re.DOTALL)
_LINTING = re.compile(r"^# (?:ruff|mypy): .*\n|  # noqa: .*$", re.MULTILINE)


def _filled(template: str, case: Case, said: str, values: Mapping[str, Any]) -> str:
    """A script with its case written in; what the run said stands above it as a comment."""
    text = (resources.files("harness.repro") / template).read_text(encoding="utf-8")
    # Every character as ASCII and on one line: an id or a message may hold anything.
    about = [f"# {ascii(case.id)[1:-1]}", f"# recorded: {ascii(said[:500])[1:-1]}"]
    lines = [f"{name} = {value!a}" for name, value in values.items()]
    filled = _BLOCK.sub(lambda _: "\n".join([*about, *lines]) + "\n", text)
    return re.sub(r"\n{4,}", "\n\n\n", _LINTING.sub("", filled))
