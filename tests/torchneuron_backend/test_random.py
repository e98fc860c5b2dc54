"""Random numbers: the device's own generator, and the CPU's numbers for the CPU's seed."""

import copy
import pickle
from collections.abc import Callable

import pytest
import torch
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

DRAWS: dict[str, Callable[[str], torch.Tensor]] = {
    "randn": lambda device: torch.randn(40, device=device),
    "rand": lambda device: torch.rand(5, device=device),
    "randint": lambda device: torch.randint(100, (9,), device=device),
    "randperm": lambda device: torch.randperm(20, device=device),
    "rand_like": lambda device: torch.rand_like(torch.ones(7, device=device)),
    "randn_like": lambda device: torch.randn_like(torch.ones(20, dtype=torch.bfloat16, device=device)),
    "randint_like": lambda device: torch.randint_like(torch.ones(7, device=device), 3, 50),
    "normal of tensors": lambda device: torch.normal(
        torch.zeros(9, device=device), torch.ones(9, device=device)
    ),
    "normal of a tensor": lambda device: torch.normal(torch.arange(9.0, device=device), 2.0),
    "normal of numbers": lambda device: torch.normal(0.0, 2.0, (9,), device=device),
    "bernoulli": lambda device: torch.bernoulli(torch.full((30,), 0.3, device=device)),
    "multinomial": lambda device: torch.multinomial(torch.ones(10, device=device), 4),
    "multinomial with replacement": lambda device: torch.multinomial(torch.ones(3, device=device), 9, True),
    "poisson": lambda device: torch.poisson(torch.full((9,), 4.0, device=device)),
    "binomial": lambda device: torch.binomial(
        torch.full((9,), 10.0, device=device), torch.full((9,), 0.4, device=device)
    ),
    "gamma": lambda device: torch._standard_gamma(torch.full((9,), 2.0, device=device)),
    "dirichlet": lambda device: torch._sample_dirichlet(torch.full((2, 4), 2.0, device=device)),
    "normal_, float64": lambda device: torch.empty(20, dtype=torch.float64, device=device).normal_(),
    "normal_, complex": lambda device: torch.empty(9, dtype=torch.complex64, device=device).normal_(),
    "uniform_": lambda device: torch.empty(7, device=device).uniform_(-1, 1),
    "exponential_": lambda device: torch.empty(7, device=device).exponential_(),
    "cauchy_": lambda device: torch.empty(7, device=device).cauchy_(),
    "log_normal_": lambda device: torch.empty(7, device=device).log_normal_(),
    "geometric_": lambda device: torch.empty(7, device=device).geometric_(0.3),
    "random_": lambda device: torch.empty(7, dtype=torch.int64, device=device).random_(1000),
    "bernoulli_": lambda device: torch.empty(30, device=device).bernoulli_(0.3),
    "bernoulli_ of a tensor": lambda device: torch.empty(30, device=device).bernoulli_(
        torch.full((30,), 0.3, device=device)
    ),
    "dropout": lambda device: functional.dropout(torch.ones(50, device=device)),
    "dropout2d": lambda device: functional.dropout2d(torch.ones(2, 9, 3, 3, device=device)),
    "alpha dropout": lambda device: functional.alpha_dropout(torch.ones(50, device=device), training=True),
    "feature dropout": lambda device: functional.feature_alpha_dropout(
        torch.ones(2, 9, 3, device=device), training=True
    ),
    "rrelu": lambda device: functional.rrelu(-torch.ones(9, device=device), training=True),
    "fractional pooling": lambda device: functional.fractional_max_pool2d(
        torch.arange(100.0, device=device).view(1, 1, 10, 10), 2, output_ratio=(0.6, 0.6)
    ),
    "attention": lambda device: functional.scaled_dot_product_attention(
        *torch.ones(3, 1, 2, 4, 8, device=device), dropout_p=0.5
    ),
    "gumbel": lambda device: functional.gumbel_softmax(torch.ones(9, device=device), hard=True),
    "xavier": lambda device: torch.nn.init.xavier_uniform_(torch.empty(4, 4, device=device)),
    "orthogonal": lambda device: torch.nn.init.orthogonal_(torch.empty(4, 4, device=device)),
    "truncated": lambda device: torch.nn.init.trunc_normal_(torch.empty(20, device=device)),
    "distribution": lambda device: torch.distributions.Beta(
        torch.tensor(2.0, device=device), torch.tensor(3.0, device=device)
    ).sample((5,)),
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


COPIES: dict[str, Callable[[torch.Generator], torch.Generator]] = {
    "clone_state": lambda generator: generator.clone_state(),
    "deepcopy": copy.deepcopy,
    "pickle": lambda generator: pickle.loads(pickle.dumps(generator)),
    "get_state": lambda generator: torch.Generator("neuron:1").set_state(generator.get_state()),
}


@pytest.mark.parametrize("copied", COPIES.values(), ids=COPIES)
def test_a_copied_generator_goes_on_by_itself(copied: Callable[[torch.Generator], torch.Generator]) -> None:
    generator = torch.Generator("neuron:1").manual_seed(3)
    torch.rand(5, device="neuron:1", generator=generator)
    other = copied(generator)
    assert other.device == torch.device("neuron:1")
    here = torch.rand(7, device="neuron:1", generator=generator)
    assert torch.rand(7, device="neuron:1", generator=other).equal(here)


def test_a_generator_has_a_state_and_no_offset() -> None:
    generator = torch.Generator("neuron")
    assert generator.get_offset() == 0
    generator.set_offset(0)
    with pytest.raises(RuntimeError, match="has no offset; save and restore its state"):
        generator.set_offset(4)


def test_a_state_that_is_none_is_refused() -> None:
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        torch.neuron.set_rng_state(torch.zeros(3))
    with pytest.raises(TypeError, match=r"RNG state must be a torch\.ByteTensor"):
        torch.neuron.set_rng_state(torch.neuron.get_rng_state().to("neuron"))
    with pytest.raises(RuntimeError, match="found the input RNG state size to be 3"):
        torch.neuron.set_rng_state(torch.zeros(3, dtype=torch.uint8))


WRONG_GENERATORS: dict[str, Callable[[], torch.Tensor]] = {
    "rand": lambda: torch.rand(2, device="neuron", generator=torch.Generator()),
    "randperm": lambda: torch.randperm(4, device="neuron", generator=torch.Generator()),
    "in place": lambda: torch.ones(2, device="neuron").normal_(generator=torch.Generator()),
    "a fallback": lambda: torch.ones(2, dtype=torch.float64, device="neuron").cauchy_(
        generator=torch.Generator()
    ),
}


@pytest.mark.parametrize("draw", WRONG_GENERATORS.values(), ids=WRONG_GENERATORS)
def test_the_host_s_generator_does_not_draw_on_the_device(draw: Callable[[], torch.Tensor]) -> None:
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type for generator but found 'cpu'"):
        draw()


def test_the_device_s_generator_does_not_draw_on_the_host() -> None:
    with pytest.raises(RuntimeError):
        torch.rand(2, generator=torch.Generator("neuron"))
    with pytest.raises(RuntimeError, match="neuron:7 was asked for"):
        torch.Generator("neuron:7")


def test_seeding_from_the_system() -> None:
    torch.neuron.seed_all()
    first = torch.neuron.initial_seed()
    assert torch.rand(2, device="neuron:0").equal(torch.rand(2, device="neuron:1").to("neuron:0"))
    torch.neuron.seed_all()
    assert torch.neuron.initial_seed() != first
    torch.neuron.manual_seed(4)
    assert torch.neuron.default_generators[0].initial_seed() == torch.neuron.initial_seed() == 4


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_a_checkpoint_draws_the_same_numbers_again(use_reentrant: bool) -> None:
    def drops(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x).exp()

    x = torch.ones(200, device="neuron", requires_grad=True)
    kept = checkpoint(drops, x, use_reentrant=use_reentrant)
    kept.sum().backward()
    assert x.grad is not None
    assert x.grad.bool().equal(kept > 1)


def test_fork_rng_restores_the_device() -> None:
    torch.manual_seed(1)
    with torch.random.fork_rng(devices=range(2), device_type="neuron"):
        inside = torch.rand(2, device="neuron")
    assert torch.rand(2, device="neuron").equal(inside)
