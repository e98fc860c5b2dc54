"""Graphs with an edge: shapes, aliases, mutation, missing gradients, and operators that do not lower."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import executable

from .opaque import NAME, opaque


@pytest.fixture(autouse=True)
def fresh() -> None:
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()


def compiled(function: object, **options: object) -> object:
    return torch.compile(function, backend="neuron", fullgraph=True, **options)


def whole(function: object) -> object:
    return compiled(function, options={"partition": False})


def test_each_new_shape_compiles_once() -> None:
    double = compiled(lambda x: x * 2)
    for rows in (2, 3, 2, 3, 4):
        assert torch.equal(double(torch.ones(rows, device="neuron")).cpu(), torch.full((rows,), 2.0))
    metrics = compiler.get_dynamo_metrics()
    assert metrics["graphs_compiled"] == 3
    assert metrics["executions"] == 5


def test_dynamo_gives_a_function_up_after_so_many_shapes() -> None:
    double = torch.compile(lambda x: x * 2, backend="neuron")
    with torch._dynamo.config.patch(recompile_limit=2):
        for rows in (2, 3, 4, 5):
            assert double(torch.ones(rows, device="neuron")).tolist() == [2.0] * rows
    metrics = compiler.get_dynamo_metrics()
    assert (metrics["graphs_compiled"], metrics["executions"]) == (2, 2)


def test_dynamic_shapes_are_refused_with_the_reason() -> None:
    double = compiled(lambda x: x * 2, dynamic=True)
    with pytest.raises(Exception, match="static shapes") as raised:
        double(torch.ones(3, device="neuron"))
    assert isinstance(compiler.find_compiler_error(raised.value), compiler.DynamicShapeError)


def test_an_operator_that_does_not_lower_is_named_and_the_others_are_not() -> None:
    with pytest.raises(Exception, match="torchneuron_test::opaque") as raised:
        whole(lambda x: opaque(x.relu() + 1) * 2)(torch.ones(3, 3, device="neuron"))
    error = compiler.find_compiler_error(raised.value)
    assert isinstance(error, compiler.UnsupportedOperatorError)
    assert error.operators == [NAME]
    (failure,) = compiler.get_dynamo_metrics()["failures"]
    assert failure["operators"] == [NAME]


def test_an_operator_that_kills_the_compiler_is_named_and_this_process_lives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torchneuron_backend.compiler import lowering

    def die_at_tanh(module: torch.fx.GraphModule) -> str:
        if any(node.target is torch.ops.aten.tanh.default for node in module.graph.nodes):
            os.abort()
        return ""

    monkeypatch.setattr(lowering, "lower_here", die_at_tanh)
    with pytest.raises(Exception, match="SIGABRT") as raised:
        whole(lambda x: (x.tanh() + 1).sin())(torch.ones(3, device="neuron"))
    error = compiler.find_compiler_error(raised.value)
    assert isinstance(error, compiler.UnsupportedOperatorError)
    assert error.operators == ["aten::tanh"]


def test_fallback_execution_runs_the_graph_eagerly_and_says_so() -> None:
    x = torch.eye(3)
    result = compiled(opaque, options={"fallback_execution": True})(x.to("neuron"))
    torch.testing.assert_close(result.cpu(), x.sinh())
    assert compiler.get_dynamo_metrics()["fallbacks"] == 1
    assert compiler.compiled_ops() == []


def test_an_input_changed_in_place_is_changed_for_the_caller() -> None:
    x = torch.arange(3.0).to("neuron")

    def step(value: torch.Tensor) -> torch.Tensor:
        value.add_(1)
        return value * 2

    assert compiled(step)(x).tolist() == [2.0, 4.0, 6.0]
    assert x.tolist() == [1.0, 2.0, 3.0]


def test_an_output_that_is_a_view_of_an_input_shares_its_memory() -> None:
    x = torch.zeros(2, 3, device="neuron")
    view, total = compiled(lambda value: (value.t(), value.sum()))(x)
    view[0, 1] = 5.0
    assert x[1, 0].item() == 5.0
    assert total.item() == 0.0


def test_a_gradient_nobody_needs_stays_none() -> None:
    x = torch.ones(2, 2, device="neuron", requires_grad=True)
    frozen = torch.ones(2, 2, device="neuron")
    compiled(lambda a, b: (a @ b).sum())(x, frozen).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [[2.0, 2.0], [2.0, 2.0]]
    assert frozen.grad is None


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool]
)
def test_every_dtype_goes_in_and_comes_out(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 1, 2], [3, 0, 5]]).to(dtype)
    same, other = compiled(lambda value: (torch.where(value > 0, value, value), value.to(torch.float32) + 1))(
        x.to("neuron")
    )
    assert same.dtype == dtype
    assert torch.equal(same.cpu(), x)
    assert torch.equal(other.cpu(), x.float() + 1)


def test_inputs_that_are_not_contiguous_not_aligned_or_empty() -> None:
    base = torch.arange(40.0).reshape(5, 8)
    device = base.to("neuron")
    add = compiled(lambda a, b: a + b)
    assert torch.equal(add(device.t(), device.t()).cpu(), base.t() * 2)
    assert torch.equal(add(device[1:, 3:], device[1:, 3:]).cpu(), base[1:, 3:] * 2)
    assert add(device[:0], device[:0]).shape == (0, 8)


def test_results_have_the_strides_that_eager_gives() -> None:
    x = torch.ones(2, 3, 4, device="neuron")
    assert compiled(lambda value: value.transpose(1, 2) + 1)(x).stride() == (x.transpose(1, 2) + 1).stride()


def test_strided_views_mean_positions_in_memory_as_eager_lays_it_out() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.as_strided((x * 2).transpose(0, 1) + 1, (3, 2), (1, 3)) * x.sum()

    x = torch.arange(12.0).reshape(4, 3).requires_grad_()
    ours = x.detach().to("neuron").requires_grad_()
    expected, result = function(x), compiled(function)(ours)
    expected.sum().backward()
    result.sum().backward()
    torch.testing.assert_close(result.cpu(), expected)
    torch.testing.assert_close(ours.grad.cpu(), x.grad)


def test_constants_in_the_graph_and_a_graph_without_work() -> None:
    table = torch.tensor([1.0, 2.0, 4.0], device="neuron")
    assert compiled(lambda x: x + table)(torch.zeros(3, device="neuron")).tolist() == [1.0, 2.0, 4.0]
    x = torch.ones(2, device="neuron")
    assert compiled(lambda value: value.view(2, 1))(x).data_ptr() == x.data_ptr()


def test_the_second_device_gets_its_results_on_itself() -> None:
    result = compiled(lambda x: x + 1)(torch.zeros(2, device="neuron:1"))
    assert result.device == torch.device("neuron:1")
    assert result.tolist() == [1.0, 1.0]


FORKS = """
import os, sys, torch
from torchneuron_backend.compiler import ExecutableError, executable

TEXT = "module { func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> { return %x : tensor<2xf32> } }"

def run():
    return executable.Executable(TEXT).run([torch.ones(2)])[0].tolist()

def in_child(function):
    pid = os.fork()
    if pid == 0:
        os._exit(7 if function() else 1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 7

def refused():
    try:
        run()
    except ExecutableError as error:
        return "fork" in str(error)

assert not executable.has_client()
assert in_child(lambda: run() == [1.0, 1.0] and executable.has_client())
assert not executable.has_client()
assert run() == [1.0, 1.0] and executable.has_client()
assert in_child(refused)
print("all well")
"""


def test_a_child_makes_its_own_client_and_one_forked_too_late_is_told_so() -> None:
    # In a process of its own: this one has run compiled graphs already.
    done = subprocess.run(
        [sys.executable, "-c", FORKS], capture_output=True, text=True, check=False, timeout=120
    )
    assert done.stdout == "all well\n", done.stderr


def test_a_program_that_xla_refuses_says_so() -> None:
    with pytest.raises(compiler.ExecutableError, match="XLA refuses"):
        executable.Executable("module { func.func @main() { this is no program } }")
