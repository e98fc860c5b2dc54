"""``optim_db``: parameters and state after some steps, in every implementation."""

from __future__ import annotations

import pytest
import torch

from results.vocabulary import Category, Outcome
from suites.opinfo import run_case
from suites.opinfo.catalog import cases
from suites.opinfo.checks import CHECKS
from suites.opinfo.entries import entries
from suites.opinfo.optimizers import CHECKED_BY, STEPS, Recipe
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, other_on_device

OPTIM_DB = "optim_db"


def run(name, check="forward", dtype="float32"):
    return run_case(case_of(name, check, dtype, OPTIM_DB), FakeDevice())


def samples(name):
    return list(entries(OPTIM_DB)[name].samples(torch.float32, False))


@pytest.mark.parametrize("check", ["forward", "noncontiguous", "determinism"])
def test_the_cpu_agrees_with_itself(check):
    found = {
        case.id: run_case(case, FakeDevice())
        for case in cases(None, ("float32",), (check,), (OPTIM_DB,))[::4]
    }
    assert {name: r.message for name, r in found.items() if r.outcome is not Outcome.PASSED} == {}
    assert len(found) >= 9
    assert all(result.metrics["samples"] >= 1 for result in found.values())


def test_every_implementation_is_an_entry():
    names = set(entries(OPTIM_DB))
    assert {"Adam.for_loop", "Adam.foreach", "Adam.fused", "Adam.differentiable", "Adam.capturable"} <= names
    assert {name for name in names if name.startswith("LBFGS")} == {"LBFGS.for_loop"}


@pytest.mark.parametrize(
    ("name", "flag"), [("Adam.foreach", "foreach"), ("SGD.fused", "fused"), ("Adam.capturable", "capturable")]
)
def test_an_implementation_is_asked_for(name, flag):
    recipes = [call.args[0] for call in samples(name)]
    assert len(recipes) > 2
    assert all(recipe.arguments[flag] for recipe in recipes)
    assert not any(call.args[0].arguments.get(flag) for call in samples(f"{name.split('.')[0]}.for_loop"))


def test_parameters_and_state_are_what_is_compared():
    entry, call = entries(OPTIM_DB)["Adam.for_loop"], samples("Adam.for_loop")[0]
    before = [tensor.clone() for tensor in call.args[1]]
    found = entry.run(call)
    assert [sorted(state) for state in found["state"]] == [["exp_avg", "exp_avg_sq", "step"]] * len(before)
    assert {state["step"] for state in found["state"]} == {STEPS}
    pairs = zip(found["parameters"], before, strict=True)
    assert not any(torch.equal(after, other) for after, other in pairs)


@pytest.mark.parametrize("implementation", ["for_loop", "foreach", "fused", "differentiable"])
def test_implementations_agree(implementation):
    """They are run under the same gradients, and what they come to differs by rounding only."""
    one, two = samples("Adam.for_loop")[0], samples(f"Adam.{implementation}")[0]
    two.args[1][:], two.args[2][:] = [tensor.clone() for tensor in one.args[1]], one.args[2]
    expected = entries(OPTIM_DB)["Adam.for_loop"].run(one)
    torch.testing.assert_close(entries(OPTIM_DB)[f"Adam.{implementation}"].run(two), expected)


def test_an_optimizer_that_updates_nothing_fails(monkeypatch):
    other_on_device(monkeypatch, torch.optim.Adam, "step", lambda right, *args: None)
    result = run("Adam.foreach")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output." in result.message


def test_state_that_is_not_updated_fails_though_parameters_are(monkeypatch):
    def forgets_at_the_end(right, self, *args):
        right(self, *args)
        self.done = getattr(self, "done", 0) + 1
        if self.done == STEPS:
            for state in self.state.values():
                state["exp_avg_sq"].zero_()

    other_on_device(monkeypatch, torch.optim.Adam, "step", forgets_at_the_end)
    result = run("Adam.for_loop")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.state[0].exp_avg_sq" in result.message


def test_a_step_that_is_not_counted_fails(monkeypatch):
    def one_more(right, self, *args):
        right(self, *args)
        for state in self.state.values():
            state["step"] += 1e-3

    other_on_device(monkeypatch, torch.optim.Adamax, "step", one_more)
    result = run("Adamax.for_loop")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert ".step: " in result.message


def test_parameters_are_written_in_place(monkeypatch):
    """A caller holds on to them; a new tensor behind ``Parameter.data`` is not an update."""

    def elsewhere(right, self, *args):
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.data = parameter.data.clone()
        right(self, *args)

    other_on_device(monkeypatch, torch.optim.SGD, "step", elsewhere)
    result = run("SGD.for_loop")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "written into" in result.message


@pytest.mark.parametrize("flag", ["capturable", "fused", "foreach"])
def test_an_implementation_that_torch_does_not_offer_on_a_device_is_unsupported(flag):
    parameters = [torch.nn.Parameter(torch.zeros(2, device="meta"))]
    with pytest.raises(NotImplementedError, match=f"torch offers {flag}=True on .*, not on meta"):
        Recipe(torch.optim.Adam, {flag: True}).make(parameters)


def test_other_checks_are_skipped_with_the_reason():
    assert set(CHECKED_BY) <= set(CHECKS)
    for check in set(CHECKS) - set(CHECKED_BY):
        result = run("Adam.for_loop", check)
        assert result.outcome is Outcome.SKIPPED_UPSTREAM
        assert result.message == f"a step of an optimizer is nothing that {check!r} could check"
        assert result.facts["category"] == Category.OPINFO_ENTRY


def test_a_step_runs_compiled():
    result = run("SGD.foreach", "compile")
    assert result.outcome is Outcome.PASSED
    assert result.metrics["compile_graphs"] >= 2


def test_a_dtype_that_an_optimizer_lacks_is_said_of_it():
    result = run("Adam.for_loop", dtype="int64")
    assert (result.outcome, result.message) == (
        Outcome.UNSUPPORTED,
        "optim_db lists no int64 for this optimizer",
    )
