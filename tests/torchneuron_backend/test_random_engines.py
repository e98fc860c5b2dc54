"""Random operators in both eager engines: many numbers, natively, and those of the CPU."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch.nn import functional as F

import torchneuron_backend
from torchneuron_backend import eager

MANY = 50_000


@pytest.fixture(params=["host", "compiled"], autouse=True)
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[str]:
    """Each engine; programs are shared by the tests of this file."""
    folder: Path = tmp_path_factory.getbasetemp() / "random-programs"
    monkeypatch.setenv("TORCHNEURON_CACHE", "1")
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(folder))
    eager.forget()
    with eager.engine(request.param):
        yield request.param


def routes(name: str) -> set[str]:
    return {row["route"] for row in torchneuron_backend.op_counters() if row["op"] == f"aten::{name}"}


def dropped(device: str, dtype: torch.dtype = torch.float32, count: int = MANY) -> torch.Tensor:
    return F.dropout(torch.linspace(1, 2, count).to(dtype).to(device), 0.1)


DRAWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "native_dropout": lambda x: torch.native_dropout(x, 0.1, True)[0],
    "uniform_": lambda x: x.uniform_(-1.0, 3.0),
    "bernoulli_.float": lambda x: x.bernoulli_(0.3),
    "bernoulli": lambda x: torch.bernoulli(x.zero_() + 0.25),
    "exponential_": lambda x: x.exponential_(2.0),
    "geometric_": lambda x: x.geometric_(0.3),
    "cauchy_": lambda x: x.cauchy_(),
    "random_.to": lambda x: x.random_(100),
    "random_.from": lambda x: x.random_(-5, 100),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("name", DRAWS)
def test_numbers_and_the_state_after_them_are_the_cpus(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(11)
    expected, actual = (
        [DRAWS[name](torch.ones(count, dtype=dtype, device=device)) for count in (3, MANY, 700)]
        for device in ("cpu", "neuron")
    )
    assert routes(name) == {"native"}
    assert torch.equal(torch.neuron.get_rng_state(), torch.get_rng_state())
    for ours, theirs in zip(actual, expected, strict=True):
        torch.testing.assert_close(
            ours.cpu(), theirs, rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=1e-5
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_dropout_keeps_the_elements_that_the_cpu_keeps_backward_too(dtype: torch.dtype) -> None:
    gradients = []
    for device in ("cpu", "neuron"):
        torch.manual_seed(5)
        x = torch.ones(3, 150, 150, dtype=dtype, device=device, requires_grad=True)
        F.dropout(x, 0.3).sum().backward()
        gradients.append(x.grad.cpu())
    assert torch.equal(*gradients)
    assert routes("native_dropout") == routes("native_dropout_backward") == {"native"}


def test_a_state_that_was_saved_is_gone_on_from(engine: str) -> None:
    torch.manual_seed(2)
    dropped("neuron", count=1001)
    state = torch.neuron.get_rng_state()
    first, second = dropped("neuron"), dropped("neuron")
    assert not torch.equal(first, second)
    with torch.random.fork_rng(devices=[0], device_type="neuron"):
        dropped("neuron", count=10)
    torch.neuron.set_rng_state(state)
    assert torch.equal(dropped("neuron"), first)
    other = "host" if engine == "compiled" else "compiled"
    with eager.engine(other):  # type: ignore[arg-type]
        assert torch.equal(dropped("neuron"), second)


def test_normal_numbers_go_on_between_others() -> None:
    # The CPU makes two at a time and keeps one, beside the words.
    drawn = []
    for device in ("cpu", "neuron"):
        torch.manual_seed(4)
        drawn.append([torch.randn(3, device=device), dropped(device), torch.randn(3, device=device)])
    for theirs, ours in zip(*drawn, strict=True):
        assert torch.equal(ours.cpu(), theirs)


def test_a_generator_of_ones_own_and_the_devices() -> None:
    default = torch.neuron.get_rng_state()
    drawn = []
    for device in ("cpu", "neuron"):
        generator = torch.Generator(device).manual_seed(3)
        for _ in range(2):
            drawn.append(torch.empty(MANY, device=device).uniform_(generator=generator).cpu())
        drawn.append(generator.get_state())
    assert all(torch.equal(a, b) for a, b in zip(drawn[:3], drawn[3:], strict=True))
    assert not torch.equal(drawn[0], drawn[1])
    assert torch.equal(torch.neuron.get_rng_state(), default)
    with pytest.raises(RuntimeError, match="Expected a 'neuron' device type for generator"):
        torch.empty(9, device="neuron").uniform_(generator=torch.Generator())


def test_each_device_has_numbers_of_its_own() -> None:
    torch.manual_seed(6)
    before = torch.neuron.get_rng_state(0)
    assert torch.equal(dropped("neuron:1").cpu(), dropped("cpu"))
    assert torch.equal(torch.neuron.get_rng_state(0), before)
    assert torch.equal(torch.neuron.get_rng_state(1), torch.get_rng_state())


def test_threads_do_not_draw_the_same_numbers() -> None:
    torch.manual_seed(8)
    blocks = [torch.rand(MANY) for _ in range(8)]
    drawn: list[torch.Tensor] = []

    def draw() -> None:
        drawn.extend(torch.rand(MANY, device="neuron").cpu() for _ in range(2))

    threads = [threading.Thread(target=draw) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(block[0].item() for block in drawn) == sorted(block[0].item() for block in blocks)
    assert all(any(torch.equal(block, each) for each in blocks) for block in drawn)


def test_a_program_draws_from_the_cache_on_disk_as_well(engine: str) -> None:
    torch.manual_seed(9)
    first = dropped("neuron")
    eager.forget()
    torch.manual_seed(9)
    assert torch.equal(dropped("neuron"), first)
    assert eager.statistics().compiled == 0
    assert (eager.statistics().loaded > 0) == (engine == "compiled")


def test_what_lies_otherwise_falls_back_where_a_program_would_draw(engine: str) -> None:
    drawn = []
    for device in ("cpu", "neuron"):
        torch.manual_seed(10)
        drawn.append(torch.native_dropout(torch.ones(30, 40, device=device).T, 0.4, True)[0].cpu())
    assert torch.equal(*drawn)
    assert routes("native_dropout") == {"native" if engine == "host" else "fallback"}
