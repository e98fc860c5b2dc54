"""Random numbers: the device's own generator, and the CPU's numbers for the CPU's seed."""

from collections.abc import Callable

import pytest
import torch
from torch.nn import functional

DRAWS: dict[str, Callable[[str], torch.Tensor]] = {
    "randn": lambda device: torch.randn(40, device=device),
    "rand": lambda device: torch.rand(5, device=device),
    "randint": lambda device: torch.randint(100, (9,), device=device),
    "randperm": lambda device: torch.randperm(20, device=device),
    "dropout": lambda device: functional.dropout(torch.ones(50, device=device)),
    "bernoulli": lambda device: torch.bernoulli(torch.full((30,), 0.3, device=device)),
    "multinomial": lambda device: torch.multinomial(torch.ones(10, device=device), 4),
    "exponential_": lambda device: torch.empty(7, device=device).exponential_(),
    "normal, float64": lambda device: torch.empty(20, dtype=torch.float64, device=device).normal_(),
    "xavier": lambda device: torch.nn.init.xavier_uniform_(torch.empty(4, 4, device=device)),
}


@pytest.mark.parametrize("name", DRAWS)
def test_a_seed_gives_the_cpus_numbers_again_and_again(name: str) -> None:
    drawn = []
    for device in ("cpu", "neuron", "neuron"):
        torch.manual_seed(7)
        drawn.append(DRAWS[name](device).cpu())
    assert drawn[0].equal(drawn[1])
    assert drawn[1].equal(drawn[2])


@pytest.mark.parametrize("name", DRAWS)
def test_drawing_on_the_device_leaves_the_host_generator_alone(name: str) -> None:
    before, device_before = torch.get_rng_state(), torch.neuron.get_rng_state()
    DRAWS[name]("neuron")
    assert torch.get_rng_state().equal(before)
    assert not torch.neuron.get_rng_state().equal(device_before)


def test_a_generator_of_ones_own() -> None:
    generator = torch.Generator("neuron:1").manual_seed(3)
    assert generator.device == torch.device("neuron:1")
    first = torch.rand(3, device="neuron:1", generator=generator)
    state = generator.get_state()
    second = torch.rand(3, device="neuron:1", generator=generator)
    generator.set_state(state)
    assert torch.rand(3, device="neuron:1", generator=generator).equal(second)
    assert not first.equal(second)
    assert first.cpu().equal(torch.rand(3, generator=torch.Generator().manual_seed(3)))
    assert generator.initial_seed() == 3


def test_devices_have_streams_of_their_own() -> None:
    torch.manual_seed(5)
    here, there = torch.rand(3, device="neuron:0"), torch.rand(3, device="neuron:1")
    assert here.cpu().equal(there.cpu())
    torch.rand(3, device="neuron:0")
    states = torch.neuron.get_rng_state_all()
    assert not states[0].equal(states[1])
    again = torch.rand(2, device="neuron:0")
    torch.neuron.set_rng_state_all(states)
    assert torch.rand(2, device="neuron:0").equal(again)


def test_fork_rng_restores_the_device() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=range(2), device_type="neuron"):
        inside = torch.rand(2, device="neuron")
    assert torch.rand(2, device="neuron").equal(inside)
