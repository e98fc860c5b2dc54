"""``module_db``: parameters and buffers are placed, differentiated, written and compared."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from results.vocabulary import Outcome
from suites.opinfo import run_case
from suites.opinfo.catalog import cases
from suites.opinfo.checks import CHECKS
from suites.opinfo.entries import entries
from suites.opinfo.samples import WIDER, Call, map_tensors, place
from suites.opinfo.subject import subject_of
from suites.opinfo.traits import load_traits
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, other_on_device

MODULE_DB = "module_db"


def run(name, check="forward"):
    return run_case(case_of(name, check, database=MODULE_DB), FakeDevice())


def samples(name, requires_grad=False):
    return list(entries(MODULE_DB)[name].samples(torch.float32, requires_grad))


@pytest.mark.parametrize("check", ["forward", "backward", "gradgrad", "noncontiguous", "determinism"])
def test_the_cpu_agrees_with_itself(check):
    found = {
        case.id: run_case(case, FakeDevice())
        for case in cases(None, ("float32",), (check,), (MODULE_DB,))[::7]
    }
    expected = (Outcome.PASSED, Outcome.SKIPPED_UPSTREAM)
    assert {name: r.message for name, r in found.items() if r.outcome not in expected} == {}
    assert sum(result.outcome is Outcome.PASSED for result in found.values()) > 10


def test_a_module_runs_compiled():
    result = run("nn.Linear", "compile")
    assert result.outcome is Outcome.PASSED
    assert result.metrics["compile_graphs"] == 2


def test_gradients_of_parameters_and_arguments_are_compared():
    subject = subject_of(MODULE_DB, "nn.Linear", "float32")
    value = CHECKS["backward"].invoke(subject, subject.differentiable_calls[0], None)
    assert [tuple(gradient.shape) for gradient in value["gradients"]] == [(8, 10), (8,), (4, 10)]


def test_a_missing_gradient_of_a_parameter_fails(monkeypatch):
    def without_bias(right, value, weight, bias=None):
        return right(value, weight, bias if bias is None else bias.detach())

    other_on_device(monkeypatch, nn.functional, "linear", without_bias)
    assert run("nn.Linear").outcome is Outcome.PASSED
    result = run("nn.Linear", "backward")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[1]: is a NoneType, expected a Tensor" in result.message


def test_wrong_buffers_fail_though_the_result_is_right(monkeypatch):
    """The running statistics of batch_norm."""

    def forgets_statistics(right, value, mean, variance, *rest):
        return right(value, mean.clone(), variance.clone(), *rest)

    other_on_device(monkeypatch, nn.functional, "batch_norm", forgets_statistics)
    result = run("nn.BatchNorm2d")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "written into" in result.message


def test_both_modes_are_run_where_they_differ():
    modes = [call.args[0].training for call in samples("nn.BatchNorm1d")]
    assert modes[:4] == [True, False, True, False]
    assert {call.args[0].training for call in samples("nn.Linear")} == {True}


def test_parameters_require_a_gradient_only_where_arguments_do():
    """Without one, an encoder in evaluation mode takes a shorter way."""
    for requires_grad in (False, True):
        module = samples("nn.TransformerEncoderLayer", requires_grad)[0].args[0]
        assert {parameter.requires_grad for parameter in module.parameters()} == {requires_grad}


def test_a_lazy_module_has_parameters():
    module = samples("nn.LazyConv1d")[0].args[0]
    assert not any(nn.parameter.is_lazy(parameter) for parameter in module.parameters())


class Tied(nn.Module):
    """Two names for one parameter, a buffer, and a recurrent layer, which keeps a list of its parameters."""

    def __init__(self):
        super().__init__()
        self.one = nn.Linear(2, 2)
        self.two = nn.Linear(2, 2)
        self.two.weight = self.one.weight
        self.rnn = nn.RNN(2, 2)
        self.register_buffer("counted", torch.tensor(3))

    def forward(self, value):
        return self.rnn(self.two(self.one(value)))[0]


def test_a_module_is_copied_to_the_device_and_the_original_stays():
    module = Tied().eval()
    moved = place(Call((module, torch.ones(2, 2)), {}), "meta", "", load_traits())
    assert {tensor.device.type for tensor in moved.tensors()} == {"meta"}
    assert moved.args[0].training is False
    assert {tensor.device.type for tensor in Call((module,), {}).tensors()} == {"cpu"}


def test_a_module_is_widened_but_for_its_integers():
    wide = place(Call((Tied(),), {}), "cpu", "", load_traits(), widen=True).args[0]
    assert {parameter.dtype for parameter in wide.parameters()} == {WIDER[torch.float32]}
    assert wide.counted.dtype == torch.int64
    assert wide(torch.ones(2, 2, dtype=torch.float64)).dtype == torch.float64


def test_a_function_of_every_tensor_makes_another_module():
    module = Tied()
    (changed,) = map_tensors(torch.zeros_like, Call((module,), {})).args
    assert all(not parameter.any() for parameter in changed.parameters())
    assert changed.counted == 0
    assert changed.two.weight is changed.one.weight
    copied = place(Call((module,), {}), "cpu", "", load_traits()).args[0]
    assert copied.two.weight is copied.one.weight
    assert not changed(torch.ones(2, 2)).any()  # the recurrent layer uses the new ones
    assert module.counted == 3
    assert all(parameter.requires_grad for parameter in changed.parameters())


def test_errors_are_those_of_the_call():
    found = entries(MODULE_DB)["nn.RNNCell"].errors()
    assert found
    for error in found:
        sample = error.sample_input
        with pytest.raises(error.error_type, match=error.error_regex):
            sample.input(*sample.args, **sample.kwargs)
    assert entries(MODULE_DB)["nn.Linear"].errors() is None


def test_a_dtype_that_the_list_lacks_is_said_of_the_module():
    result = run_case(case_of("nn.Linear", "forward", "int64", MODULE_DB), FakeDevice())
    assert (result.outcome, result.message) == (
        Outcome.UNSUPPORTED,
        "module_db lists no int64 for this module",
    )
