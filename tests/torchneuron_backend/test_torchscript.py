"""Scripted functions on the device: lists of tensors as TorchScript makes them."""

from collections.abc import Iterator

import pytest
import torch

from torchneuron_backend import eager, launch


def put(x: torch.Tensor, mask: torch.Tensor, at: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    x[mask] = 1.0
    x[:, at] = -1.0
    return x[mask], x[:, at]


def join(x: torch.Tensor) -> tuple[torch.Tensor, list[torch.Tensor]]:
    parts = [x, x + 1]
    parts.append(x * 2)
    return torch.cat(parts), torch.meshgrid(parts[0][0], parts[1][0], indexing="ij")


@pytest.fixture(params=["blocking", "queued", "compiled"])
def mode(request: pytest.FixtureRequest) -> Iterator[None]:
    before = launch.is_launch_blocking()
    launch.set_launch_blocking(request.param != "queued")
    with eager.engine("compiled" if request.param == "compiled" else "host"):
        yield
    launch.set_launch_blocking(before)


@pytest.mark.usefixtures("mode")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script. is deprecated")
def test_a_scripted_function_indexes_and_joins_as_on_the_host() -> None:
    x, at = torch.arange(12.0).view(3, 4), torch.tensor([1, 3])
    indexes, joins = torch.jit.script(put), torch.jit.script(join)
    for _ in range(3):  # TorchScript profiles its first runs
        expected = indexes(x.clone(), x < 5, at)
        actual = indexes(x.to("neuron"), (x < 5).to("neuron"), at.to("neuron"))
        for ours, reference in zip(actual, expected, strict=True):
            assert ours.device.type == "neuron"
            assert torch.equal(ours.cpu(), reference)
        joined, grid = joins(x.to("neuron"))
        expected_joined, expected_grid = joins(x)
        assert torch.equal(joined.cpu(), expected_joined)
        assert all(torch.equal(a.cpu(), b) for a, b in zip(grid, expected_grid, strict=True))
