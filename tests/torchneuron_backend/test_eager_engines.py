"""The compiled engine of eager mode gives what the host's kernels give, and says what it cannot."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch.nn import functional as F

import torchneuron_backend
from torchneuron_backend import _C, eager, numerics
from torchneuron_backend.probe.attempt import tolerance

from .conftest import run_python

# Native by the table of this test, and without a lowering.
LIBRARY = torch.library.Library("neuron_eager", "DEF")
LIBRARY.define("thirds(Tensor x) -> Tensor")
LIBRARY.define("halve_(Tensor(a!) x) -> Tensor(a!)")
LIBRARY.impl("thirds", lambda x: x / 3, "CPU")
LIBRARY.impl("halve_", lambda x: x.mul_(0.5), "CPU")
FLOAT32 = 1 << _C.dtype_number(torch.float32)
_C.register_lowerings([("neuron_eager::thirds", FLOAT32), ("neuron_eager::halve_", FLOAT32)])


@pytest.fixture(autouse=True)
def compiled(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The compiled engine, with a cache that the tests of this file share."""
    monkeypatch.setenv("TORCHNEURON_CACHE", "1")
    folder = tmp_path_factory.getbasetemp() / "eager-programs"
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(folder))
    eager.forget()
    with eager.engine("compiled"):
        yield


def routes() -> dict[str, str]:
    rows = [row for row in torchneuron_backend.op_counters() if row["kind"] == "compute"]
    return {row["op"]: row["route"] for row in rows}


def numbers(*shape: int, device: str, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(device)


def agree(make: Callable[[str], Any]) -> None:
    """``make(device)`` is the same on both, in every respect, at its first call and at later ones."""
    expected = make("cpu")
    for _ in range(2):
        actual = make("neuron")
        leaves, theirs = (torch.utils._pytree.tree_flatten(value)[0] for value in (actual, expected))
        for ours, reference in zip(leaves, theirs, strict=True):
            if not isinstance(reference, torch.Tensor):
                assert ours == reference
                continue
            assert ours.device.type == "neuron"
            assert (ours.dtype, ours.shape, ours.stride()) == (
                reference.dtype,
                reference.shape,
                reference.stride(),
            )
            rtol, atol = tolerance(reference.detach())
            torch.testing.assert_close(
                ours.detach().cpu(), reference.detach(), rtol=rtol, atol=atol, equal_nan=True
            )


CALLS: dict[str, Callable[[torch.Tensor], Any]] = {
    "add": lambda x: x + x,
    "mul by a number": lambda x: x * 2.5,
    "mm": lambda x: x @ x.T,
    "softmax": lambda x: x.softmax(-1),
    "sum": lambda x: (x.sum(), x.sum(0, keepdim=True)),
    "layer_norm": lambda x: F.layer_norm(x, (4,)),
    "sort": lambda x: x.sort(-1),
    "topk": lambda x: x.topk(2),
    "cat": lambda x: torch.cat([x, x[:1]]),
    "where": lambda x: torch.where(x > 0, x, 0),
    "gelu": lambda x: F.gelu(x),
    "convolution": lambda x: F.conv1d(x[None], x[:2, :3, None].repeat(1, 1, 2)),
    "no result has elements": lambda x: (x[:0] + 1, x[:0] @ x.T),
    "a sum of nothing": lambda x: x[:0].sum(0),
    "a scalar": lambda x: x[0, 0] * 3 + x[1, 1],
}  # fmt: skip


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_results_and_their_strides_are_those_of_the_host(call: Callable[[torch.Tensor], Any]) -> None:
    agree(lambda device: call(numbers(3, 4, device=device)))
    assert set(routes().values()) == {"native"}
    assert eager.refused() == []


def test_the_program_computes_and_not_the_host() -> None:
    x = numbers(64, 64, device="neuron")
    assert not torch.equal(torch.exp(x).cpu(), torch.exp(x.cpu()))  # another exp, by an ulp or two
    assert eager.statistics().compiled + eager.statistics().loaded == 1


def test_a_number_for_the_host_is_no_result_of_a_program() -> None:
    x = numbers(3, 4, device="neuron")
    assert torch.equal(x, x.clone())
    assert routes()["aten::equal"] == "fallback"
    (refused,) = eager.refused()
    assert "returns a number to the host" in refused.reason


def test_non_contiguous_tensors_and_memory_formats() -> None:
    def images(device: str) -> torch.Tensor:
        return numbers(2, 3, 4, 5, device=device).to(memory_format=torch.channels_last)

    agree(lambda device: numbers(3, 4, device=device).t() + 1)
    agree(lambda device: numbers(3, 1, device=device).expand(3, 4).exp())
    agree(lambda device: images(device).relu())
    agree(lambda device: F.conv2d(images(device), numbers(2, 3, 2, 2, device=device)))


def test_type_promotion_with_numbers_and_scalars() -> None:
    def promoted(device: str) -> list[torch.Tensor]:
        whole, half = torch.arange(3, device=device), torch.ones(2, dtype=torch.bfloat16, device=device)
        return [
            whole * 2,
            whole / 2,
            whole + 0.5,
            half * 0.1,
            half + torch.tensor(2.0, dtype=torch.float64),
            half[0] * torch.tensor(1.5, device=device),
            whole > 1.5,
        ]

    agree(promoted)


def test_in_place_writes_into_the_memory_that_is_there() -> None:
    def written(device: str) -> list[Any]:
        base = numbers(4, 4, device=device)
        address, version = base.data_ptr(), base._version
        view = base[1:3].t()
        view.mul_(2).add_(1)
        return [base, view, base.data_ptr() == address, base._version - version]

    agree(written)
    assert routes()["aten::mul_.Tensor"] == routes()["aten::add_.Tensor"] == "native"


def test_autograd_sees_what_is_written_in_place() -> None:
    def spoilt(device: str) -> None:
        y = numbers(3, device=device).requires_grad_().exp()
        y.add_(1)
        y.sum().backward()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        spoilt("neuron")


def test_out_is_resized_cast_and_aliased_as_on_the_host() -> None:
    def filled(device: str) -> list[Any]:
        x = numbers(3, 4, device=device)
        empty, doubles = torch.empty(0, device=device), torch.empty(3, 4, dtype=torch.float64, device=device)
        turned, same = torch.empty(4, 3, device=device).t(), x.clone()
        assert torch.add(x, 1, out=empty) is empty
        torch.mul(x, 2, out=doubles)
        torch.sub(x, 1, out=turned)
        torch.neg(same, out=same)
        best = torch.topk(
            x, 2, out=(torch.empty(0, device=device), torch.empty(0, dtype=torch.int64, device=device))
        )
        return [empty, doubles, turned, same, *best]  # fmt: skip

    agree(filled)
    assert set(routes().values()) == {"native"}


def test_resizing_a_full_out_warns_once_a_call() -> None:
    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            torch.mul(numbers(3, device="neuron"), 3, out=torch.ones(2, device="neuron"))
        assert [str(each.message)[:44] for each in caught] == ["An output with one or more elements was resi"]


def test_what_the_host_refuses_is_refused_in_its_words() -> None:
    x = numbers(6, device="neuron")
    for _ in range(2):
        with pytest.raises(RuntimeError, match="can't be cast to the desired output type"):
            torch.add(x, 1, out=torch.empty(6, dtype=torch.int64, device="neuron"))
        with pytest.raises(RuntimeError, match="refer to a single memory location"):
            torch.add(x[:-1], 1, out=x[1:])
        with pytest.raises(RuntimeError, match="must match the size"):
            torch.add(x, x[:5])
    assert eager.refused() == []
    assert routes() == {}


def test_batch_norm_updates_its_statistics() -> None:
    def trained(device: str) -> list[torch.Tensor]:
        norm = torch.nn.BatchNorm1d(5).to(device)
        norm(numbers(6, 5, device=device)).square().sum().backward()
        assert norm.weight.grad is not None
        assert norm.running_mean is not None
        assert norm.running_var is not None
        results = [norm.weight.grad, norm.running_mean, norm.running_var]
        return [*results, norm.eval()(numbers(6, 5, device=device))]

    agree(trained)
    assert routes()["aten::native_batch_norm"] == "native"


def test_factories_follow_the_dtype_of_their_result() -> None:
    agree(lambda device: [torch.arange(5, device=device), torch.full((2, 2), 0.5, device=device)])
    assert routes() == {"aten::arange": "native", "aten::full": "native"}
    torchneuron_backend.reset_op_counters()
    agree(lambda device: torch.ones(2, dtype=torch.float64, device=device))
    assert routes() == {"aten::ones": "fallback"}
    assert eager.refused() == []  # the table does not have it


def test_the_default_dtype_is_part_of_a_call() -> None:
    whole = torch.arange(4, device="neuron")
    assert (whole / 2).dtype == torch.float32
    torch.set_default_dtype(torch.bfloat16)
    try:
        assert (whole / 2).dtype == torch.bfloat16
    finally:
        torch.set_default_dtype(torch.float32)


def test_random_numbers_are_the_hosts() -> None:
    def drawn(device: str) -> list[torch.Tensor]:
        torch.manual_seed(3)
        x = torch.rand(4, device=device)
        return [
            x,
            F.dropout(torch.ones(8, device=device)),
            torch.randn(2, device=device),
            x.clone().normal_(),
        ]

    agree(drawn)
    assert routes()["aten::native_dropout"] == routes()["aten::uniform_"] == "native"
    assert routes()["aten::normal_"] == "fallback"


def test_a_call_without_a_program_falls_back_and_is_listed() -> None:
    x = numbers(3, device="neuron")
    for _ in range(2):
        assert torch.equal(torch.ops.neuron_eager.thirds(x).cpu(), x.cpu() / 3)
    assert routes() == {"neuron_eager::thirds": "fallback"}
    ((operator, signature, reason),) = eager.refused()
    assert (operator, signature) == ("neuron_eager::thirds", "neuron_eager::thirds(float32[3])")
    assert "neuron_eager.thirds" in reason
    before = x.cpu()
    torch.ops.neuron_eager.halve_(x)
    assert torch.equal(x.cpu(), before / 2)
    assert eager.refused()[1].reason == "no overload computes the same without writing to an argument"
    assert eager.statistics().refused == 2


def test_a_call_is_counted_once_and_traced_once() -> None:
    x = numbers(3, 5, device="neuron")
    torchneuron_backend.reset_op_counters()
    torchneuron_backend.start_op_trace()
    for _ in range(3):
        x.exp()
    assert torchneuron_backend.take_op_trace() == [("aten::exp", "float32", "native")] * 3
    assert [row["calls"] for row in torchneuron_backend.op_counters()] == [3]


def test_modes_of_the_program_see_only_what_it_calls() -> None:
    class Names(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    names: list[str] = []
    x = numbers(2, 7, device="neuron").requires_grad_()
    with torch.device("neuron"), Names():
        x.sin().sum().backward()
    assert [name for name in names if "sin" in name or "cos" in name] == [
        "aten.sin.default",
        "aten.cos.default",
    ]
    assert "aten.detach.default" not in names[: names.index("aten.sum.default")]
    assert x.grad is not None
    assert torch.allclose(x.grad.cpu(), x.detach().cpu().cos())


def test_inference_mode_and_functional_transforms() -> None:
    def inferred(device: str) -> torch.Tensor:
        with torch.inference_mode():
            return numbers(3, 3, device=device).exp().add_(1)

    agree(inferred)
    agree(lambda device: torch.func.grad(lambda x: x.sin().square().sum())(numbers(4, device=device)))
    agree(lambda device: torch.vmap(lambda x: x.softmax(0) @ x)(numbers(4, 3, device=device)))


def test_dynamo_does_not_trace_how_a_call_is_computed() -> None:
    """Between two graphs it looks at every frame, those that run the program included."""

    def loss(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        lengths = torch.tensor([4, 4]), torch.tensor([2, 1])
        return F.ctc_loss(x.log_softmax(-1), torch.tensor([[1, 2], [2, 0]], device=x.device), *lengths)

    torch._dynamo.reset()
    x = torch.randn(4, 2, 3, generator=torch.Generator().manual_seed(0))
    found = torch.compile(loss, backend="neuron")(x.to("neuron"))
    torch.testing.assert_close(found.cpu(), loss(x))
    assert not [entry for entry in eager.refused() if "ctc" in entry.operator]


def test_autocast_chooses_the_program() -> None:
    def cast(device: str) -> torch.Tensor:
        with torch.autocast(device, dtype=torch.bfloat16):
            return F.linear(numbers(2, 3, device=device), numbers(4, 3, device=device))

    agree(cast)
    rows = [row for row in torchneuron_backend.op_counters() if row["op"] == "aten::mm"]
    assert [(row["dtype"], row["route"]) for row in rows] == [("bfloat16", "native")]


def test_the_64_bit_policy_holds() -> None:
    big = torch.tensor([2**31 - 1], device="neuron")
    assert (big + 1).tolist() == [2**31]
    numerics.set_64_bit_policy("32")
    try:
        assert (big + 1).tolist() == [-(2**31)]
        assert big.tolist() == [2**31 - 1]
    finally:
        numerics.set_64_bit_policy("exact")


def test_many_threads_may_ask_at_once() -> None:
    errors: list[BaseException] = []

    def work(size: int) -> None:
        try:
            for _ in range(5):
                x = torch.full((size,), 1.5, device="neuron", requires_grad=True)
                (x * x).sum().backward()
                assert x.grad is not None
                assert x.grad.tolist() == [3.0] * size
        except BaseException as error:  # noqa: BLE001 - shown by the assertion below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(2 + index % 3,)) for index in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=120)
    assert not any(thread.is_alive() for thread in threads)
    assert errors == []
    assert eager.refused() == []


def test_a_tiny_model_trains_the_same_on_both_engines() -> None:
    config = transformers.BertConfig(
        vocab_size=40, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32
    )
    torch.manual_seed(0)
    model = transformers.BertForMaskedLM(config).eval().to("neuron")
    tokens = torch.arange(3, 13).view(2, 5).to("neuron")

    def step() -> dict[str, torch.Tensor]:
        model.zero_grad()
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
        return {"loss": loss.detach().cpu(), **gradients}

    ours = step()
    assert eager.statistics().compiled + eager.statistics().loaded > 30
    assert eager.refused() == []
    with eager.engine("host"):
        theirs = step()
    largest = max(float(value.abs().max()) for value in theirs.values())
    assert ours.keys() == theirs.keys()
    for name, value in theirs.items():
        torch.testing.assert_close(ours[name], value, rtol=1e-4, atol=1e-4 * largest, msg=name)


SCRIPT = """
import torch
from torchneuron_backend import eager
x = torch.arange(6.0, device="neuron").view(2, 3)
print((x.exp() / 3).sum().item(), x.addmm(x @ x.T, x).tolist(), torch.ops.aten.sinc(x).sum().item())
print(eager.get_engine(), eager.statistics().compiled, eager.statistics().loaded)
"""


def test_a_second_process_finds_the_programs_on_disk(tmp_path: Path) -> None:
    first, second = (
        run_python(SCRIPT, TORCHNEURON_EAGER="compiled", TORCHNEURON_CACHE_DIR=str(tmp_path))
        for _ in range(2)
    )
    result, made = first.stdout.splitlines()
    result_again, found = second.stdout.splitlines()
    engine, compiled, loaded = made.split()
    assert (engine, loaded) == ("compiled", "0")
    assert int(compiled) >= 6
    assert found.split() == ["compiled", "0", compiled]
    assert result == result_again
    host = run_python(SCRIPT, TORCHNEURON_EAGER="host", TORCHNEURON_CACHE_DIR=str(tmp_path))
    assert host.stdout.splitlines()[1] == "host 0 0"


def test_the_engine_is_a_choice_of_two() -> None:
    assert eager.get_engine() == "compiled"
    with eager.engine("host"):
        assert eager.get_engine() == "host"
        numbers(3, device="neuron").exp()
    assert eager.get_engine() == "compiled"
    assert eager.statistics() == eager.Statistics(compiled=0, loaded=0, refused=0)
    with pytest.raises(ValueError, match="'fast' is not an engine for eager mode: use 'host' or 'compiled'"):
        eager.set_engine("fast")  # type: ignore[arg-type]
    assert (
        "TORCHNEURON_EAGER: 'fast' is not an engine"
        in run_python("import torch", TORCHNEURON_EAGER="fast").stderr
    )
    assert run_python("import torch", TORCHNEURON_EAGER="").returncode == 0
