"""Agreement with the CPU, operator by operator: every verdict can come out, and for the right reason."""

from collections.abc import Iterator

import pytest

from suites.opinfo.agreement import Agreement, Verdict, agree
from torchneuron_backend import faults


@pytest.fixture(autouse=True)
def no_fault_left() -> Iterator[None]:
    yield
    faults.clear()


def forward(op: str, device: str = "neuron") -> Agreement:
    return agree(op, "float32", device)[0]


def backward(op: str, device: str = "neuron") -> Agreement:
    return agree(op, "float32", device)[1]


@pytest.mark.parametrize(
    "op",
    [
        "mul",
        "nn.functional.dropout",  # random, under one seed
        "tensor_split",  # wants an argument on the host
        "sgn",  # whose gradient is a tensor known to be zero
        "nn.functional.batch_norm",  # writes into its arguments
    ],
)
@pytest.mark.parametrize("device", ["cpu", "neuron"])
def test_equal(op: str, device: str) -> None:
    for direction in agree(op, "float32", device):
        assert (direction.verdict, direction.detail) == (Verdict.EQUAL, "")
        assert direction.samples > 0


@pytest.mark.parametrize("kind", ["nan", "nondeterminism"])
def test_one_wrong_sample_decides(kind: str) -> None:
    faults.set("aten::mul.Tensor", kind, at=3)
    got = forward("mul")
    assert got.verdict == Verdict.DIFFERS
    assert "do not agree within" in got.detail
    assert got.samples > 3


def test_a_wrong_gradient_is_backward_s_alone() -> None:
    faults.set("aten::sigmoid_backward", "nan", at=1)
    assert [direction.verdict for direction in agree("sigmoid", "float32", "neuron")] == [
        Verdict.EQUAL,
        Verdict.DIFFERS,
    ]


def test_rounding_is_within_tolerance() -> None:
    got = forward("nn.functional.scaled_dot_product_attention")
    assert got.verdict == Verdict.CLOSE
    assert "do not agree exactly" in got.detail


def test_an_error_is_told_from_a_refusal() -> None:
    assert forward("to_sparse").verdict == backward("to_sparse").verdict == Verdict.REFUSED
    faults.set("aten::neg", "error", at=1)
    got = forward("neg")
    assert got.verdict == Verdict.RAISED
    assert "injected fault: aten::neg failed" in got.detail


@pytest.mark.parametrize(
    ("op", "reasons"),
    [
        ("empty", ("uninitialised memory", "op_db lists no gradient in float32")),
        ("bitwise_and", ("op_db lists no float32", "op_db lists no gradient in float32")),
        ("jiterator_unary", ("the CPU raises AssertionError", "op_db lists no gradient in float32")),
    ],
)
def test_what_is_not_run_says_why(op: str, reasons: tuple[str, str]) -> None:
    got = agree(op, "float32", "neuron")
    assert tuple(direction.detail for direction in got) == reasons
    assert {(direction.verdict, direction.samples) for direction in got} == {(Verdict.NOT_RUN, 0)}
