"""Inputs: seeded, complete, and really of every modality a model takes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from model_zoo.inputs import InputsError, ModelInputs, make_inputs, to_device
from model_zoo.load import load_model


def equal(one: ModelInputs, two: ModelInputs) -> bool:
    return one.kwargs.keys() == two.kwargs.keys() and all(
        torch.equal(value, two.kwargs[name]) if isinstance(value, torch.Tensor) else value == two.kwargs[name]
        for name, value in one.kwargs.items()
    )


def test_the_seed_alone_decides(few_dir: Path) -> None:
    model = load_model(few_dir / "mirror/tiny-bert")
    first = make_inputs(model, seed=3)
    torch.manual_seed(99)
    state = torch.get_rng_state()
    assert equal(first, make_inputs(model, seed=3))
    assert not equal(first, make_inputs(model, seed=4))
    assert torch.equal(torch.get_rng_state(), state), "the global generator is left alone"


def test_text_has_padding_that_labels_ignore(few_dir: Path) -> None:
    inputs = make_inputs(load_model(few_dir / "mirror/tiny-bert"), seed=0)
    ids, mask, labels = (inputs.kwargs[name] for name in ("input_ids", "attention_mask", "labels"))
    assert ids.shape == mask.shape == labels.shape
    assert bool((mask == 0).any())
    assert bool((ids[mask == 0] == 0).all())
    assert bool((labels[mask == 0] == -100).all())
    assert torch.equal(labels[mask == 1], ids[mask == 1])
    assert inputs.has_labels
    assert inputs.modalities == ("text",)


def test_an_image_and_text_model_gets_pixels_and_their_places(few_dir: Path) -> None:
    model: Any = load_model(few_dir / "mirror/tiny-llava")
    inputs = make_inputs(model, seed=0)
    assert inputs.modalities == ("image", "text")
    places = inputs.kwargs["input_ids"] == model.config.image_token_index
    assert places.sum(dim=1).tolist() == [16, 16]  # (32 / 8)² patches
    assert bool((inputs.kwargs["labels"][places] == -100).all())
    with torch.no_grad():
        one = model(**inputs.kwargs).logits
        other = model(**{**inputs.kwargs, "pixel_values": -inputs.kwargs["pixel_values"]}).logits
    assert not torch.equal(one, other), "the picture must reach the text"


def test_a_vision_model_gets_its_image_size(few_dir: Path) -> None:
    inputs = make_inputs(load_model(few_dir / "mirror/tiny-resnet"), seed=0)
    assert inputs.kwargs["pixel_values"].shape[:2] == (2, 3)
    assert inputs.modalities == ("image",)
    assert inputs.kwargs["labels"].shape == (2,)


def test_moving_reaches_nested_tensors_and_leaves_the_rest() -> None:
    inputs = ModelInputs({"a": torch.ones(2), "b": [{"c": torch.ones(1)}], "flag": True}, ("text",), False)
    moved = to_device(inputs, "meta")
    assert moved.kwargs["a"].device.type == "meta"
    assert moved.kwargs["b"][0]["c"].device.type == "meta"
    assert moved.kwargs["flag"] is True
    assert inputs.kwargs["a"].device.type == "cpu"
    assert (moved.modalities, moved.has_labels) == (("text",), False)


class _Strange(torch.nn.Module):
    main_input_name = "input_ids"
    config = SimpleNamespace(model_type="strange", is_encoder_decoder=False, vocab_size=30)

    def forward(self, input_ids: torch.Tensor, spin: torch.Tensor) -> torch.Tensor:
        return input_ids + spin


def test_an_argument_without_a_rule_is_named() -> None:
    with pytest.raises(InputsError, match="'spin'"):
        make_inputs(_Strange(), seed=0)
