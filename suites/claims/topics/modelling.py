"""What models are made of: experts, attention, checkpoints, and loading them onto the device."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint

from suites.claims.checks import NotApplicableError, numbers, require, require_equal
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("models")


@topic.claim("torch._grouped_mm is supported, forward and backward.", Source.DOCUMENTATION, scope=Scope.ANY)
def grouped_mm(subject: Subject) -> None:
    results = []
    for device in (subject.name, "cpu"):
        x = numbers(16, 32, dtype=torch.bfloat16).to(device).requires_grad_()
        experts = numbers(3, 32, 16, dtype=torch.bfloat16, seed=1).to(device).requires_grad_()
        ends = torch.tensor([4, 9, 16], dtype=torch.int32, device=device)
        result = torch._grouped_mm(x, experts, offs=ends)
        result.float().square().mean().backward()
        results.append([result.detach(), x.grad, experts.grad])
    require_equal(subject, results[0], results[1], "what three experts gave")


@topic.claim("torch._scaled_grouped_mm is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST)
def scaled_grouped_mm(subject: Subject) -> None:
    x, experts = numbers(16, 32), numbers(3, 16, 32, seed=1)
    small = torch.float8_e4m3fn
    rows, columns = torch.ones(16), torch.ones(3, 16)
    ends = torch.tensor([4, 9, 16], dtype=torch.int32)
    moved = [each.to(subject.name) for each in (x.to(small), experts.to(small), rows, columns, ends)]
    left, right, row_scales, column_scales, offs = moved
    result = torch._scaled_grouped_mm(
        left, right.transpose(-2, -1), row_scales, column_scales, offs=offs, out_dtype=torch.bfloat16
    )
    rounded = x.to(small).float(), experts.to(small).float().transpose(-2, -1)
    parts = [rounded[0][a:b] @ rounded[1][n] for n, (a, b) in enumerate(((0, 4), (4, 9), (9, 16)))]
    require_equal(subject, result, torch.cat(parts).to(torch.bfloat16), "what three experts gave")


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    """What :func:`_flex` is by definition: causal, and the further away the less."""
    place = torch.arange(q.shape[-2])
    distance = place[:, None] - place[None, :]
    scores = q @ k.transpose(-2, -1) / q.shape[-1] ** 0.5 - 0.1 * distance
    return torch.softmax(scores.masked_fill(distance < 0, float("-inf")), -1) @ v


def _further_is_less(score: torch.Tensor, b: Any, h: Any, q: Any, k: Any) -> torch.Tensor:
    return score - 0.1 * (q - k)


def _flex(subject: Subject, compiled: bool, trained: bool) -> None:
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    attend: Callable[..., torch.Tensor] = flex_attention
    if compiled:
        attend = torch.compile(flex_attention, backend=subject.name, fullgraph=True)
    size, device = 16, subject.name
    mask = create_block_mask(lambda b, h, q, k: q >= k, None, None, size, size, device=device)
    inputs = [numbers(1, 2, size, 8, seed=seed) for seed in range(3)]
    results = []
    for place, function in (
        (device, lambda q, k, v: attend(q, k, v, score_mod=_further_is_less, block_mask=mask)),
        ("cpu", _attention),
    ):
        leaves = [each.detach().to(place, copy=True).requires_grad_(trained) for each in inputs]
        result = function(*leaves)
        if trained:
            result.square().sum().backward()
        results.append([result.detach(), *(leaf.grad for leaf in leaves if trained)])
    require_equal(subject, results[0], results[1], "attention")


@topic.claim("FlexAttention is supported in eager mode.", Source.DOCUMENTATION, scope=Scope.ANY)
def flex_attention_eager(subject: Subject) -> None:
    _flex(subject, compiled=False, trained=False)


@topic.claim("FlexAttention is supported when compiled, forward and backward.", Source.DOCUMENTATION)
def flex_attention_compiled(subject: Subject) -> None:
    _flex(subject, compiled=True, trained=True)


@topic.claim(
    "Activation checkpointing is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY
)
def activation_checkpointing(subject: Subject) -> None:
    expected = _gradients("cpu", lambda layer, x: layer(x))
    for reentrant in (True, False):
        actual = _gradients(
            subject.name,
            lambda layer, x: checkpoint(layer, x, use_reentrant=reentrant),  # noqa: B023 - called at once
        )
        require_equal(subject, actual, expected, f"a gradient with use_reentrant={reentrant}")


def _gradients(
    device: str, apply: Callable[[torch.nn.Module, torch.Tensor], torch.Tensor]
) -> list[torch.Tensor | None]:
    torch.manual_seed(0)
    layers = [torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Tanh()).to(device) for _ in range(3)]
    x = start = numbers(4, 8).to(device).requires_grad_()
    for layer in layers:
        x = apply(layer, x)
    x.square().sum().backward()
    return [start.grad, *(p.grad for layer in layers for p in layer.parameters())]


@topic.claim(
    "The layers of a checkpointed model run once more in the backward pass.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    scope=Scope.ANY,
)
def checkpoints_compute_again(subject: Subject) -> None:
    runs = []

    def layer(x: torch.Tensor) -> torch.Tensor:
        runs.append(x.device.type)
        return x.sin()

    x = numbers(4).to(subject.name).requires_grad_()
    checkpoint(layer, x, use_reentrant=False).sum().backward()
    require(runs == [subject.name] * 2, f"the layer ran on {runs}")


@topic.claim(
    'Hugging Face models load with device_map="neuron".', Source.LAUNCH_POST, scope=Scope.ACCELERATOR
)
def device_map(subject: Subject) -> None:
    _require_device_map(subject, subject.name)


@topic.claim('Hugging Face models load with device_map="auto".', Source.LAUNCH_POST, scope=Scope.ACCELERATOR)
def device_map_auto(subject: Subject) -> None:
    _require_device_map(subject, "auto")


def _require_device_map(subject: Subject, device_map: str) -> None:
    for package in ("transformers", "accelerate"):
        if importlib.util.find_spec(package) is None:
            raise NotApplicableError(f"device_map needs the package {package}, which is not installed")
    from transformers import BertConfig, BertModel

    sizes = BertConfig(
        vocab_size=32, hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=16
    )
    expected = BertModel(sizes).eval()
    with tempfile.TemporaryDirectory() as folder:
        expected.save_pretrained(folder)
        model = BertModel.from_pretrained(folder, device_map=device_map).eval()
    places = {parameter.device.type for parameter in model.parameters()}
    require(places == {subject.name}, f"with device_map={device_map!r} parameters are on {sorted(places)}")
    ids = torch.arange(6)[None]
    with torch.no_grad():
        actual, wanted = (
            each(tokens).last_hidden_state
            for each, tokens in ((model, ids.to(subject.name)), (expected, ids))
        )
    require(torch.allclose(actual.cpu(), wanted, atol=1e-4), "the model's output is another than on the CPU")
