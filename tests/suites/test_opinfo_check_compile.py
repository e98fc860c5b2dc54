"""The check ``compile``: wrong compiled results and gradients, and nothing compiled at all, are seen."""

from __future__ import annotations

import dataclasses

import pytest
import torch
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd

from results.events import OpCall
from results.vocabulary import Outcome
from suites.opinfo import Selection, run_case
from suites.opinfo.catalog import cases
from suites.opinfo.checks.compiled import _without_zeros
from suites.opinfo.entries import operators
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of


@pytest.fixture
def backend(monkeypatch):
    """Let the device compile with this function."""

    def use(function):
        device = FakeDevice()
        device.compile_backend = function
        return device

    return use


@torch._dynamo.disable
def untraced(one, two):
    return torch.mul(one, two)


def run(op, device=None, dtype="float32"):
    return run_case(case_of(op, "compile", dtype), device or FakeDevice())


def compiler(change):
    """A compiler that calls the graph and changes what it gives."""

    def compile_graph(graph, inputs):
        return make_boxed_func(lambda *args: [change(value) for value in graph(*args)])

    return compile_graph


def same(value):
    return value


def off(value):
    return value + 1 if isinstance(value, torch.Tensor) else value


def test_the_cpu_agrees_with_itself():
    """A spread of op_db through Dynamo and AOT autograd."""
    chosen = ("addmm", "cumsum", "nn.functional.dropout", "split")
    found = {
        case.id: run_case(case, FakeDevice())
        for case in cases(Selection("test", chosen), ("float32", "int64"), ("compile",))
    }
    expected = (Outcome.PASSED, Outcome.UNSUPPORTED)
    assert {name: r.message for name, r in found.items() if r.outcome not in expected} == {}
    assert sum(result.outcome is Outcome.PASSED for result in found.values()) >= len(chosen)


def test_a_pass_says_what_was_compiled():
    result = run("mul")
    assert result.outcome is Outcome.PASSED
    assert result.metrics["samples"] == 2
    assert result.metrics["compile_graphs"] == 2
    assert result.metrics["compile_graph_breaks"] == 0
    assert {"compile_partitions", "compile_eager_calls", "compile_seconds"} <= set(result.metrics)


def test_a_wrong_compiled_result_fails(backend):
    device = backend(aot_autograd(fw_compiler=compiler(off), bw_compiler=compiler(same)))
    result = run("mul", device)
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.result" in result.message


def test_a_wrong_compiled_gradient_fails(backend):
    device = backend(aot_autograd(fw_compiler=compiler(same), bw_compiler=compiler(off)))
    result = run("mul", device)
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.gradients[0]" in result.message


def test_a_dtype_without_gradients_is_compiled_forward(backend):
    device = backend(aot_autograd(fw_compiler=compiler(off)))
    assert run("mul", dtype="int64").outcome is Outcome.PASSED
    result = run("mul", device, "int64")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "output.result" in result.message


def test_no_graph_proves_nothing():
    class Idle(FakeDevice):
        def compile_facts(self, *, reset=False):
            return dataclasses.replace(super().compile_facts(), graphs=0)

    result = run("mul", Idle())
    assert result.outcome is Outcome.VACUOUS
    assert "no graph was captured and compiled" in result.message


def test_where_dynamo_finds_no_graph_on_any_device_the_device_is_not_judged(monkeypatch):
    monkeypatch.setattr(operators()["mul"], "op", lambda one, two: untraced(one, two))
    result = run("mul")
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == "reference_failed"
    assert "Dynamo finds no graph to compile in it, on the CPU neither" in result.message


def test_a_wrong_result_without_any_graph_still_fails(monkeypatch):
    class Wrong(FakeDevice):
        def synchronize(self):
            raise RuntimeError("boom")

    monkeypatch.setattr(operators()["mul"], "op", lambda one, two: untraced(one, two))
    assert run("mul", Wrong()).outcome is Outcome.FAILED_EXCEPTION


def test_what_dynamo_raises_on_any_device_is_not_the_device_s_fault(monkeypatch):
    def refuses(one, two):
        with torch._dynamo.error_on_graph_break(True):
            torch._dynamo.graph_break()
        return torch.mul(one, two)

    monkeypatch.setattr(operators()["mul"], "op", refuses)
    result = run("mul")
    assert result.outcome is Outcome.SKIPPED_UPSTREAM
    assert result.facts["category"] == "reference_failed"
    assert "Dynamo raises on it, on the CPU too: " in result.message


def test_a_device_without_a_backend_is_unsupported(backend):
    result = run("mul", backend(""))
    assert result.outcome is Outcome.UNSUPPORTED
    assert "cpu has no backend for torch.compile" in result.message


def test_what_the_backend_raises_is_classified_without_dynamo_s_wrapping(backend):
    def refuses(graph, inputs):
        raise NotImplementedError("no lowering")

    result = run("mul", backend(refuses))
    assert (result.outcome, result.exception) == (Outcome.UNSUPPORTED, "NotImplementedError")
    assert result.message == "2 of 2 samples, first #0: no lowering"


def test_calls_inside_graphs_are_in_the_result():
    inside = OpCall(called="aten::mul.Tensor", executed="aten::mul.Tensor", dtype="float32", device_calls=3)

    class Device(FakeDevice):
        def compile_facts(self, *, reset=False):
            return dataclasses.replace(super().compile_facts(), calls=(inside,))

    result = run("mul", Device(calls=()))
    assert result.outcome is Outcome.PASSED
    assert result.calls == (dataclasses.replace(inside, device_calls=6),)


def test_what_was_compiled_before_does_not_count():
    """A function that is compiled anew each time: its second call would not be, without a reset."""
    assert [run("mul").metrics["compile_graphs"] for _ in range(2)] == [2, 2]


def test_zeros_are_taken_for_a_missing_gradient_and_nothing_else_is():
    zeros, ones = torch.zeros(2), torch.ones(2)
    found = _without_zeros({"gradients": [zeros, ones, None, zeros]}, {"gradients": [None, None, ones, ones]})
    assert found["gradients"][0] is None
    assert found["gradients"][1] is ones
    assert found["gradients"][2] is None
    assert found["gradients"][3] is zeros
