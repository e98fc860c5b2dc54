"""Labels, for the heads whose loss is a plain function of them.

Left out on purpose: losses that draw random numbers inside ``forward`` (Mask2Former samples
points, ViLT and masked-image models draw masks), because each device has its own generator and
two devices could then not be compared; and detection losses, which match on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from model_zoo.input_fields import BATCH, TEXT_LENGTH, Context

_SPAN = {"start_positions", "end_positions"}
IGNORED = -100  # The library's and torch's ignore_index.


def labels_for(context: Context, arguments: Mapping[str, bool], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments that make this class compute a loss; empty if it does not, or not repeatably."""
    if "return_loss" in arguments:  # Contrastive models: the batch labels itself.
        return {"return_loss": True}
    if set(arguments) >= _SPAN:
        return {name: context.integers(0, TEXT_LENGTH, BATCH) for name in sorted(_SPAN)}
    if "labels" not in arguments:
        return {}
    for ending, rule in _RULES.items():
        if context.architecture.endswith(ending):
            return {"labels": rule(context, kwargs)}
    return {}


def _same_tokens(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """[batch, tokens]: the input itself; padding and the image's places are ignored."""
    ids: torch.Tensor = kwargs["input_ids"]
    labels = ids.clone()
    if "attention_mask" in kwargs:
        labels[kwargs["attention_mask"] == 0] = IGNORED
    if context.image_token is not None:
        labels[ids == context.image_token] = IGNORED
    return labels


def _target_tokens(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """[batch, tokens / 2] of the target side; a decoder-only model gets its input instead."""
    if not context.config.is_encoder_decoder:
        return _same_tokens(context, kwargs)
    vocabulary = context.vocabulary
    return context.integers(min(5, vocabulary - 1), vocabulary, BATCH, TEXT_LENGTH // 2)


def _class_of_each(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """[batch]: a class, or a number where there is only one."""
    if context.config.num_labels == 1:
        return context.normal(BATCH)
    return context.integers(0, context.config.num_labels, BATCH)


def _class_of_each_token(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    labels = context.integers(0, context.config.num_labels, *kwargs["input_ids"].shape)
    labels[kwargs["attention_mask"] == 0] = IGNORED
    return labels


def _class_of_each_pixel(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """[batch, height, width]."""
    height, width = kwargs["pixel_values"].shape[-2:]
    return context.integers(0, context.config.num_labels, BATCH, height, width)


def _transcript(context: Context, kwargs: Mapping[str, Any]) -> torch.Tensor:
    """[batch, 6]: short enough for the few frames of a tiny clip, without the blank (the pad token)."""
    return context.integers(min(3, context.vocabulary - 1), context.vocabulary, BATCH, 6)


_RULES: Mapping[str, Callable[[Context, Mapping[str, Any]], torch.Tensor]] = {
    "ForCausalLM": _same_tokens,
    "LMHeadModel": _same_tokens,
    "ForMaskedLM": _same_tokens,
    "ForConditionalGeneration": _target_tokens,
    "ForSequenceClassification": _class_of_each,
    "ForImageClassification": _class_of_each,
    "ForAudioClassification": _class_of_each,
    "ForVideoClassification": _class_of_each,
    "ForTokenClassification": _class_of_each_token,
    "ForSemanticSegmentation": _class_of_each_pixel,
    "ForCTC": _transcript,
}
