"""Tiny models of seven kinds train on the device as they do on the CPU: losses, gradients, parameters."""

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import transformers
from torch import nn

import torchneuron_backend

STEPS = 2
TEXT = {"vocab_size": 64, "hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2}
Inputs = dict[str, torch.Tensor]
Case = tuple[nn.Module, Inputs]


def ids(rows: int = 2, columns: int = 8) -> torch.Tensor:
    return torch.randint(3, 60, (rows, columns))


def bert() -> Case:
    config = transformers.BertConfig(**TEXT, intermediate_size=32, attn_implementation="eager")
    tokens = ids()
    mask = torch.ones_like(tokens)
    mask[1, 5:] = 0
    return transformers.BertForMaskedLM(config), {
        "input_ids": tokens,
        "attention_mask": mask,
        "labels": tokens,
    }


def gpt2() -> Case:
    config = transformers.GPT2Config(
        vocab_size=64, n_embd=16, n_layer=2, n_head=2, attn_implementation="eager"
    )
    tokens = ids()
    return transformers.GPT2LMHeadModel(config), {"input_ids": tokens, "labels": tokens}


def llama() -> Case:
    config = transformers.LlamaConfig(
        **TEXT, intermediate_size=32, num_key_value_heads=1, attn_implementation="eager"
    )
    tokens = ids()
    return transformers.LlamaForCausalLM(config), {"input_ids": tokens, "labels": tokens}


def t5() -> Case:
    config = transformers.T5Config(
        vocab_size=64, d_model=16, d_kv=8, d_ff=32, num_layers=2, num_heads=2, decoder_start_token_id=0
    )
    return transformers.T5ForConditionalGeneration(config), {"input_ids": ids(), "labels": ids()}


def vit() -> Case:
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=32,
        image_size=16,
        patch_size=8,
        attn_implementation="eager",
    )
    model = transformers.ViTForImageClassification(config)
    return model, {"pixel_values": torch.randn(2, 3, 16, 16), "labels": torch.tensor([0, 1])}


def resnet() -> Case:
    config = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic"
    )
    model = transformers.ResNetForImageClassification(config)
    return model, {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 1])}


def whisper() -> Case:
    config = transformers.WhisperConfig(
        vocab_size=64,
        d_model=16,
        encoder_layers=1,
        decoder_layers=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=32,
        decoder_ffn_dim=32,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        attn_implementation="eager",
    )
    model = transformers.WhisperForConditionalGeneration(config)
    return model, {"input_features": torch.randn(2, 8, 40), "labels": ids(2, 6)}


def train(
    model: nn.Module, inputs: Inputs, device: str
) -> tuple[list[float], dict[str, torch.Tensor], dict[str, Any]]:
    """Losses, last gradients and final state after a few AdamW steps on ``device``, all on the CPU."""
    torch.manual_seed(11)  # dropout draws the same numbers on both devices
    model = copy.deepcopy(model).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = model(**{name: value.to(device) for name, value in inputs.items()}).loss
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    gradients = {name: p.grad.cpu() for name, p in model.named_parameters() if p.grad is not None}
    return losses, gradients, {name: value.cpu() for name, value in model.state_dict().items()}


@pytest.mark.parametrize("make", [bert, gpt2, llama, t5, vit, resnet, whisper])
def test_training_equals_the_cpu_bit_for_bit(make: Callable[[], Case]) -> None:
    torch.manual_seed(0)
    model, inputs = make()
    torchneuron_backend.reset_op_counters()
    on_device = train(model, inputs, "neuron")
    rows = torchneuron_backend.op_counters()
    on_cpu = train(model, inputs, "cpu")

    assert on_device[0] == on_cpu[0]
    for here, there in zip(on_device[1:], on_cpu[1:], strict=True):
        assert here.keys() == there.keys()
        different = [name for name in here if not torch.equal(here[name], there[name])]
        assert different == []
    assert any(row["op"].startswith("aten::") and row["kind"] == "compute" for row in rows)


@pytest.mark.parametrize("make", [bert, llama])
def test_training_with_fused_attention_equals_the_cpu_within_rounding(make: Callable[[], Case]) -> None:
    # The CPU's fused attention sums in blocks; the device takes the plain formula.
    torch.manual_seed(0)
    model, inputs = make()
    model.set_attn_implementation("sdpa")
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    for config in {id(m.config): m.config for m in model.modules() if hasattr(m, "config")}.values():
        if hasattr(config, "attention_probs_dropout_prob"):
            config.attention_probs_dropout_prob = 0.0
    on_device, on_cpu = train(model, inputs, "neuron"), train(model, inputs, "cpu")
    torch.testing.assert_close(on_device[0], on_cpu[0], rtol=1e-4, atol=1e-4)
    for name, gradient in on_cpu[1].items():
        torch.testing.assert_close(on_device[1][name], gradient, rtol=1e-3, atol=1e-4, msg=name)
