"""Tiny transformers models whose training steps show the probe what real programs call.

They are made from configurations alone: nothing is downloaded. A few architectures reach nearly all the
operators that transformers models use, as they share most of them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch

from .calls import Offered, collect_program

_TEXT = {"vocab_size": 99, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
_TEXT |= {"intermediate_size": 37, "max_position_embeddings": 64}
_BLOCKS = {"d_model": 32, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4}
_BLOCKS |= {"decoder_attention_heads": 4, "encoder_ffn_dim": 37, "decoder_ffn_dim": 37, "vocab_size": 99}
_IMAGE = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 37}
_IMAGE |= {"image_size": 32, "patch_size": 8}
_STAGES = {"hidden_sizes": [8, 16, 16, 32], "depths": [1, 1, 1, 1], "num_labels": 3}


def _ids() -> torch.Tensor:
    return torch.randint(3, 99, (2, 8))


def _masked(**more: Any) -> dict[str, Any]:
    mask = torch.ones(2, 8, dtype=torch.long)
    mask[1, 5:] = 0
    return {"input_ids": _ids(), "attention_mask": mask, **more}


def _images() -> dict[str, Any]:
    return {"pixel_values": torch.randn(2, 3, 32, 32), "labels": torch.tensor([0, 2])}


def _bert(t: Any) -> tuple[Any, dict[str, Any]]:
    return t.BertForSequenceClassification(t.BertConfig(**_TEXT)), _masked(labels=torch.tensor([0, 1]))


def _gpt2(t: Any) -> tuple[Any, dict[str, Any]]:
    sizes = {"vocab_size": 99, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64}
    return t.GPT2LMHeadModel(t.GPT2Config(**sizes, bos_token_id=1, eos_token_id=2)), _masked(labels=_ids())


def _llama(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.LlamaConfig(**_TEXT, num_key_value_heads=2)
    return t.LlamaForCausalLM(config), _masked(labels=_ids())


def _gemma(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.GemmaConfig(**_TEXT, num_key_value_heads=2, head_dim=8)
    return t.GemmaForCausalLM(config), _masked(labels=_ids())


def _t5(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.T5Config(
        vocab_size=99, d_model=32, d_kv=8, d_ff=37, num_layers=2, num_heads=4, decoder_start_token_id=0
    )
    return t.T5ForConditionalGeneration(config), _masked(labels=_ids())


def _vit(t: Any) -> tuple[Any, dict[str, Any]]:
    return t.ViTForImageClassification(t.ViTConfig(**_IMAGE, num_labels=3)), _images()


def _resnet(t: Any) -> tuple[Any, dict[str, Any]]:
    return t.ResNetForImageClassification(
        t.ResNetConfig(**_STAGES, embedding_size=8, layer_type="basic")
    ), _images()


def _convnext(t: Any) -> tuple[Any, dict[str, Any]]:
    return t.ConvNextForImageClassification(t.ConvNextConfig(**_STAGES)), _images()


def _swin(t: Any) -> tuple[Any, dict[str, Any]]:
    sizes = {"image_size": 32, "patch_size": 2, "embed_dim": 8, "depths": [2, 2], "num_heads": [2, 2]}
    return t.SwinForImageClassification(t.SwinConfig(**sizes, window_size=4, num_labels=3)), _images()


def _clip(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.CLIPConfig(text_config={**_TEXT, "eos_token_id": 2}, vision_config=_IMAGE, projection_dim=16)
    return t.CLIPModel(config), _masked(pixel_values=torch.randn(2, 3, 32, 32), return_loss=True)


def _whisper(t: Any) -> tuple[Any, dict[str, Any]]:
    tokens = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}
    config = t.WhisperConfig(
        **_BLOCKS, **tokens, num_mel_bins=16, max_source_positions=30, max_target_positions=32,
        suppress_tokens=None, begin_suppress_tokens=None,
    )  # fmt: skip
    return t.WhisperForConditionalGeneration(config), {
        "input_features": torch.randn(2, 16, 60),
        "labels": _ids(),
    }


def _wav2vec2(t: Any) -> tuple[Any, dict[str, Any]]:
    config = t.Wav2Vec2Config(
        **{**_TEXT, "vocab_size": 32}, conv_dim=(16, 16), conv_stride=(4, 4), conv_kernel=(8, 8),
        num_feat_extract_layers=2, num_conv_pos_embeddings=8, num_conv_pos_embedding_groups=2,
    )  # fmt: skip
    inputs = {"input_values": torch.randn(2, 800), "labels": torch.tensor([0, 1])}
    return t.Wav2Vec2ForSequenceClassification(config), inputs


BUILDERS: dict[str, Callable[[Any], tuple[Any, dict[str, Any]]]] = {
    "bert": _bert,
    "gpt2": _gpt2,
    "llama": _llama,
    "gemma": _gemma,
    "t5": _t5,
    "vit": _vit,
    "resnet": _resnet,
    "convnext": _convnext,
    "swin": _swin,
    "clip": _clip,
    "whisper": _whisper,
    "wav2vec2": _wav2vec2,
}


def build(name: str) -> tuple[torch.nn.Module, dict[str, Any]]:
    """The model ``name`` of BUILDERS with random weights from a fixed seed, and inputs with a loss."""
    import transformers

    torch.manual_seed(0)
    return BUILDERS[name](transformers)


def collect_models(calls: Offered) -> None:
    """Offer what training steps of all models call, in float32 and, for the forward pass, bfloat16."""
    run_models("cpu", lambda program: collect_program(calls, program))


def run_models(device: str, run: Callable[[Callable[[], None]], None]) -> None:
    """Hand ``run`` one program after the other: for each model, on ``device``, a training step in float32 and
    a forward pass in bfloat16.
    """
    for name in BUILDERS:
        for step in (_train, _infer):
            model, inputs = build(name)
            moved = {
                key: value.to(device) if isinstance(value, torch.Tensor) else value
                for key, value in inputs.items()
            }
            run(functools.partial(step, model.to(device), moved))


def _train(model: torch.nn.Module, inputs: dict[str, Any]) -> None:
    model.train()
    # One tensor at a time: fused and foreach optimizers reach the device as these same operators.
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    model(**inputs).loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
    optimizer.step()
    optimizer.zero_grad()


def _infer(model: torch.nn.Module, inputs: dict[str, Any]) -> None:
    model.eval().to(torch.bfloat16)
    cast = {
        name: value.to(torch.bfloat16)
        if isinstance(value, torch.Tensor) and value.is_floating_point()
        else value
        for name, value in inputs.items()
    }
    with torch.no_grad():
        model(**cast)
