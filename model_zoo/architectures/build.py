"""A model of a pair, by a ladder of attempts; the first that works is recorded."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import torch
import transformers
from transformers.models.auto.configuration_auto import CONFIG_MAPPING

from model_zoo.architectures.pairs import Pair
from model_zoo.architectures.shrink import shrink

RUNGS = ("override", "shrunk", "narrow", "filled", "gentle", "default")
PARAMETERS_AT_MOST = 150_000_000
OVERRIDES = Path(__file__).with_name("overrides.toml")


class TooBigError(ValueError):
    """A model above the limit of parameters, found before any memory is taken."""


@cache
def overrides() -> dict[str, dict[str, Any]]:
    """The override table: model type → reason and fields."""
    with OVERRIDES.open("rb") as file:
        return tomllib.load(file)


def model_class(pair: Pair) -> Any:
    """The class of a pair; raises what its import raises."""
    return getattr(transformers, pair.architecture)


def configurations(pair: Pair, architecture: Any) -> Iterator[tuple[str, Any]]:
    """(rung, function without arguments that makes the configuration), in the order to try."""
    config_class = CONFIG_MAPPING[pair.model_type]
    row = overrides().get(pair.model_type)
    if row is not None:
        yield "override", lambda: _for_class(shrink(config_class, given=row["config"]), architecture)
    for rung, make in (
        ("shrunk", lambda kind: shrink(kind)),
        ("narrow", lambda kind: shrink(kind, narrow=True)),
        ("filled", lambda kind: shrink(kind, fill=True)),
        ("gentle", lambda kind: shrink(kind, gentle=True)),
        ("default", lambda kind: kind()),
    ):
        yield rung, lambda make=make: _for_class(make(config_class), architecture)


def _for_class(config: Any, architecture: Any) -> Any:
    """The configuration itself, or the part of it that the class is a model of."""
    if (
        getattr(config, "is_encoder_decoder", False)
        and getattr(config, "decoder_start_token_id", None) is None
    ):
        config.decoder_start_token_id = 0  # Published checkpoints set it; classes leave it out.
    wanted = architecture.config_class
    if wanted is None or isinstance(config, wanted):
        return config
    return next((part for part in vars(config).values() if isinstance(part, wanted)), config)


def build(architecture: Any, config: Any, *, seed: int = 0) -> Any:
    """The model on the CPU, float32, eval mode; the same weights for the same seed.

    Raises:
        TooBigError: more than :data:`PARAMETERS_AT_MOST` parameters, counted on the meta device.
    """
    with torch.device("meta"):
        count = sum(parameter.numel() for parameter in architecture(config).parameters())
    if count > PARAMETERS_AT_MOST:
        raise TooBigError(f"{count} parameters, above the limit of {PARAMETERS_AT_MOST}")
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return architecture(config).eval()
