"""torch.autocast("neuron") casts as CUDA's lists say."""

import pytest
import torch
from torch.nn import functional


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_matrix_work_runs_in_the_lower_precision(dtype: torch.dtype) -> None:
    x = torch.randn(2, 4, 4, device="neuron")
    layer = torch.nn.Linear(4, 4).to("neuron")
    with torch.autocast("neuron", dtype=dtype):
        results = [
            layer(x),
            x[0].mm(x[1]),
            x.bmm(x),
            torch.matmul(x, x[0]),
            functional.conv1d(x, torch.randn(2, 4, 3, device="neuron")),
            functional.scaled_dot_product_attention(x[None], x[None], x[None]),
        ]
    assert {result.dtype for result in results} == {dtype}


def test_delicate_work_runs_in_float32() -> None:
    x = torch.randn(4, 8, device="neuron", dtype=torch.bfloat16)
    labels = torch.zeros(4, dtype=torch.long, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        results = [
            x.softmax(-1),
            functional.layer_norm(x, (8,)),
            functional.cross_entropy(x, labels),
            functional.mse_loss(x, x),
            x.exp(),
            x.sum(),
            x.norm(),
        ]
    assert {result.dtype for result in results} == {torch.float32}


def test_other_ops_keep_and_promote_their_dtypes() -> None:
    low, high = torch.ones(3, device="neuron", dtype=torch.bfloat16), torch.ones(3, device="neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        assert (low + low).dtype == torch.bfloat16
        assert torch.addcmul(high, low, low).dtype == torch.float32
    assert (high @ high).dtype == torch.float32  # outside, nothing is cast


def test_gradients_come_in_the_parameters_dtype() -> None:
    layer = torch.nn.Linear(4, 4).to("neuron")
    with torch.autocast("neuron", dtype=torch.bfloat16):
        loss = layer(torch.ones(2, 4, device="neuron")).float().sum()
    loss.backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad.dtype == torch.float32


def test_binary_cross_entropy_is_refused() -> None:
    p = torch.full((2,), 0.5, device="neuron")
    with (
        torch.autocast("neuron", dtype=torch.bfloat16),
        pytest.raises(RuntimeError, match="unsafe to autocast"),
    ):
        functional.binary_cross_entropy(p, p)


def test_a_dtype_it_cannot_cast_to_turns_it_off_with_a_warning() -> None:
    x = torch.ones(2, 2, device="neuron")
    with pytest.warns(UserWarning, match="not supported"), torch.autocast("neuron", dtype=torch.float64):
        assert (x @ x).dtype == torch.float32


def test_the_gradient_scaler_scales() -> None:
    layer = torch.nn.Linear(2, 2).to("neuron")
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("neuron", init_scale=4.0)
    scaler.scale(layer(torch.ones(1, 2, device="neuron")).sum()).backward()
    assert layer.bias.grad is not None
    assert layer.bias.grad.tolist() == [4, 4]
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 4.0
