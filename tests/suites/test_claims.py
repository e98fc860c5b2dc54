"""The claims: well-formed, as expected on neuron, true or not applicable on the CPU, and run as cases."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest
import torch

from harness import devices
from harness.planning import expectation_files, torch_version
from results.expectations import declare, load_expectations
from results.plan import make_plan
from results.vocabulary import CaseKind, Outcome, Verdict
from suites.claims import __main__ as command
from suites.claims import list_cases, run_case
from suites.claims import run as run_module
from suites.claims.checks import NotApplicableError, NumbersDifferError, RefutedError, require
from suites.claims.claim import Claim, Scope, Source
from suites.claims.registry import TOPICS, case_of, claims
from tests.suites.fakes import FakeDevice

CASES = {case.id: case for case in list_cases()}


@pytest.fixture(autouse=True)
def compile_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(tmp_path_factory.getbasetemp() / "claims-cache"))


def test_every_claim_is_a_case_of_a_plan() -> None:
    cases = list_cases()
    plan = make_plan(run="r", device="neuron", profile="p", cases=cases)
    assert len(plan.cases) == len(claims()) == sum(len(topic.claims) for topic in TOPICS)
    assert {case.suite for case in cases} == {"claims"}
    assert {case.kind for case in cases} == {CaseKind.CLAIM}
    assert not [case.id for case in cases if "neuron" in case.id]


@pytest.mark.parametrize("claim", claims().values(), ids=claims())
def test_a_claim_says_what_and_who_said_so(claim: Claim) -> None:
    assert claim.statement.endswith(".")
    assert len(claim.statement.split()) >= 3
    assert claim.sources
    assert set(claim.sources) <= set(Source)
    assert claim.likely == ("likely" in claim.said_by) == (set(claim.sources) == {Source.USERS})
    assert case_of(claim).spec["source"] == claim.said_by
    assert not (claim.recorded and claim.fresh is not None)


def test_two_claims_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    claims.cache_clear()
    topic = TOPICS[0]
    monkeypatch.setattr(topic, "claims", [topic.claims[0], topic.claims[0]])
    try:
        with pytest.raises(ValueError, match="two claims are called names::loaded_with_torch"):
            claims()
    finally:
        claims.cache_clear()


def _declared():
    entries = load_expectations(expectation_files("neuron"))
    entries = [entry for entry in entries if entry.pattern.startswith("claims::")]
    return declare(list(CASES.values()), entries, "neuron", torch_version())


def test_each_expectation_decides_something() -> None:
    declaration = _declared()
    assert not declaration.unmatched
    assert not declaration.shadowed


@pytest.mark.parametrize("case", _declared().cases, ids=lambda case: case.id)
def test_on_neuron_a_claim_comes_out_as_declared(case) -> None:
    result = run_case(case, devices.get("neuron"))
    verdict = case.declared.verdict(result.outcome, "test")
    assert verdict in (Verdict.OK, Verdict.KNOWN_FAILURE), result.message
    assert result.outcome is not Outcome.UNSUPPORTED  # all are made for this device
    claim = claims()[case.spec["claim"]]
    if result.outcome is not Outcome.PASSED:
        assert result.message.startswith(f"{claim.statement} Seen: ")
    elif claim.recorded:
        assert sum(call.device_calls + call.fallback_calls for call in result.calls) > 0
    assert result.seconds > 0


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_on_the_cpu_a_claim_holds_or_does_not_apply(case) -> None:
    result = run_case(case, devices.get("cpu"))
    scope = claims()[case.spec["claim"]].scope
    assert result.outcome is (Outcome.PASSED if scope is Scope.ANY else Outcome.UNSUPPORTED), result.message
    if scope is Scope.NEURON:
        assert result.message == "it says something of the device neuron only, not of cpu"
    elif scope is Scope.ACCELERATOR:
        assert "accelerators only" in result.message


def check(raised: Exception | None, *, recorded: bool = True, **fields) -> Claim:
    def function(_):
        if raised is not None:
            raise raised

    settings = {"topic": "t", "name": "n", "statement": "It is so.", "sources": (Source.DOCUMENTATION,)}
    return Claim(**settings, scope=Scope.ANY, check=function, recorded=recorded, **fields)


@pytest.mark.parametrize(
    ("raised", "outcome", "message"),
    [
        (None, Outcome.PASSED, ""),
        (RefutedError("it is not"), Outcome.FAILED_EXCEPTION, "It is so. Seen: it is not"),
        (NumbersDifferError("1 and 2"), Outcome.FAILED_NUMERIC, "It is so. Seen: 1 and 2"),
        (NotApplicableError("no package"), Outcome.UNSUPPORTED, "no package"),
        (NotImplementedError("refused"), Outcome.FAILED_EXCEPTION, "It is so. Seen: refused"),
        (MemoryError(), Outcome.OUT_OF_MEMORY, "It is so. Seen: MemoryError"),
    ],
)
def test_what_a_check_raises_decides_the_outcome(raised, outcome, message) -> None:
    result = run_module.check(check(raised), FakeDevice())
    assert (result.outcome, result.message) == (outcome, message)
    failed = outcome not in (Outcome.PASSED, Outcome.UNSUPPORTED)
    assert result.facts == ({"source": Source.DOCUMENTATION.value} if failed else {})


def test_a_claim_that_held_without_a_call_proved_nothing() -> None:
    quiet = FakeDevice(calls=())
    assert run_module.check(check(None), quiet).outcome is Outcome.VACUOUS
    assert run_module.check(check(None, recorded=False), quiet).outcome is Outcome.PASSED
    assert quiet.recordings == 1


def test_an_error_at_the_last_synchronisation_is_the_claims() -> None:
    class Late(FakeDevice):
        def synchronize(self) -> None:
            raise RuntimeError("late")

    result = run_module.check(check(None), Late())
    assert (result.outcome, result.message) == (Outcome.FAILED_EXCEPTION, "It is so. Seen: late")


def test_a_claim_leaves_the_process_as_it_was() -> None:
    def disturb(_) -> None:
        torch.use_deterministic_algorithms(True)
        torch.set_default_dtype(torch.float64)
        torch.compiler.set_default_backend("eager")
        torch._dynamo.config.automatic_dynamic_shapes = False
        torch.manual_seed(7)
        require(False, "refuted half-way")

    def state():
        return (
            torch.are_deterministic_algorithms_enabled(),
            torch.get_default_dtype(),
            torch.compiler.get_default_backend(),
            torch._dynamo.config.automatic_dynamic_shapes,
            torch.get_rng_state().tolist(),
        )

    torch._dynamo.config.automatic_dynamic_shapes = True
    before = state()
    disturbing = dataclasses.replace(check(None), check=disturb)
    assert run_module.check(disturbing, FakeDevice()).outcome is Outcome.FAILED_EXCEPTION
    assert state() == before


def test_the_command_lists_each_claim_with_its_source(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["list", "--json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert {row["id"] for row in rows} == set(CASES)
    assert {row["applies to"] for row in rows} == {scope.value for scope in Scope}
    assert command.main(["list"]) == 0
    printed = capsys.readouterr().out
    assert all(row["statement"] in printed and row["source"] in printed for row in rows)


def test_the_page_names_every_topic() -> None:
    page = (Path(run_module.__file__).parents[2] / "docs" / "claims.md").read_text()
    assert not [topic.name for topic in TOPICS if f"`{topic.name}`" not in page]
