"""Seeded inputs for a model, from its configuration and the signature of its ``forward``.

A model gets every modality it can take (an image-and-text model really gets pixels), padding in
one row of text, and labels where its class computes a loss from them without drawing random
numbers. The same model and seed give the same inputs; a model with its own ideas has a recipe in
``input_recipes``.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from model_zoo.input_fields import FIELDS, MODALITIES, OPTIONAL, Context
from model_zoo.input_labels import labels_for
from model_zoo.input_patches import with_grids
from model_zoo.input_recipes import RECIPES


class InputsError(ValueError):
    """A model that inputs cannot be made for; names the argument that is not understood."""


@dataclass(frozen=True)
class ModelInputs:
    """Keyword arguments for one call of a model.

    Attributes:
        kwargs: argument name → value; tensors are on the CPU until :func:`to_device`.
        modalities: what the call exercises, of ``text, image, video, audio, time_series``, sorted.
        has_labels: whether the model will compute its own loss.
    """

    kwargs: Mapping[str, Any]
    modalities: tuple[str, ...]
    has_labels: bool


def make_inputs(model: Any, *, seed: int, image_tokens: int | None = None) -> ModelInputs:
    """Inputs for one forward call of a model: batch 2, short sequences, small images.

    Args:
        model: a loaded model; anything with ``config``, ``main_input_name`` and ``forward``.
        seed: of the generator that every value is drawn from.
        image_tokens: how many tokens one image becomes, for a model whose configuration does not say.

    Raises:
        InputsError: ``forward`` requires an argument that there is no rule for.
    """
    arguments = _arguments(model)
    context = Context(model.config, type(model).__name__, seed, image_tokens)
    recipe = RECIPES.get(model.config.model_type)
    kwargs = recipe(context) if recipe is not None else _generic(model, arguments, context)
    for name in list(kwargs):
        if name not in arguments:
            del kwargs[name]  # A recipe serves every head of its type; not all take all.
    if recipe is None:
        kwargs = with_grids(context, arguments, kwargs)
    if context.architecture.endswith("ForMultipleChoice"):
        kwargs = {name: _choices(value) for name, value in kwargs.items()}
    labels = labels_for(context, arguments, kwargs)
    missing = sorted(name for name, required in arguments.items() if required and name not in kwargs)
    if missing:
        raise InputsError(f"there is no rule for {missing[0]!r}, which {type(model).__name__} requires")
    modalities = {MODALITIES[name] for name in kwargs if name in MODALITIES}
    has_labels = bool(labels) or bool(set(kwargs) & {"future_values", "spectrogram_labels"})
    return ModelInputs({**kwargs, **labels}, tuple(sorted(modalities)), has_labels)


def to_device(inputs: ModelInputs, device: torch.device | str) -> ModelInputs:
    """The same inputs with every tensor, also inside lists and dictionaries, copied to a device."""
    return ModelInputs(
        {name: _move(value, device) for name, value in inputs.kwargs.items()},
        inputs.modalities,
        inputs.has_labels,
    )


def _arguments(model: Any) -> dict[str, bool]:
    """Names of the arguments of ``forward`` → whether they are required."""
    parameters = inspect.signature(model.forward).parameters.values()
    kinds = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return {p.name: p.default is inspect.Parameter.empty for p in parameters if p.kind not in kinds}


def _generic(model: Any, arguments: Mapping[str, bool], context: Context) -> dict[str, Any]:
    """The main input, whatever is required, the other modalities, and what goes with text."""
    wanted = [name for name, required in arguments.items() if required]
    wanted.append(model.main_input_name)
    wanted += [name for name in OPTIONAL if name in arguments and context.takes(name)]
    if "input_ids" in wanted:
        wanted += ["attention_mask", "token_type_ids"]
    if context.config.is_encoder_decoder and "labels" not in arguments:
        wanted.append("decoder_input_ids")
    kwargs: dict[str, Any] = {}
    for name in dict.fromkeys(wanted):
        if name in arguments and name in FIELDS:
            value = FIELDS[name](context)
            if value is not None:
                kwargs[name] = value
    return kwargs


def _choices(value: Any) -> Any:
    """[batch, 2, tokens]: the row and its mirror image, for models that choose between texts."""
    return torch.stack([value, value.flip(-1)], dim=1) if isinstance(value, torch.Tensor) else value


def _move(value: Any, device: torch.device | str) -> Any:
    if isinstance(value, torch.Tensor):
        return value.to(device)
    if isinstance(value, Mapping):
        return {key: _move(item, device) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_move(item, device) for item in value)
    return value
