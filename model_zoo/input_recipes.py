"""Models whose inputs follow rules of their own, by model type."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from model_zoo.input_fields import BATCH, TEXT_LENGTH, Context, attention_mask, input_ids, input_values


def _lagged_series(context: Context) -> dict[str, Any]:
    """Autoformer and its relatives: history as long as the context and the longest lag together."""
    history = int(context.get("context_length", "prediction_length")) + max(context.config.lags_sequence)
    future = int(context.config.prediction_length)
    width = int(context.get("input_size", default=1))
    channels = () if width == 1 else (width,)
    features = int(context.config.num_time_features)
    kwargs = {
        "past_values": context.normal(BATCH, history, *channels),
        "past_time_features": context.normal(BATCH, history, features),
        "past_observed_mask": torch.ones(BATCH, history, *channels),
        "future_values": context.normal(BATCH, future, *channels),
        "future_time_features": context.normal(BATCH, future, features),
    }
    kinds = int(context.config.num_static_categorical_features)
    if kinds:
        columns = [context.integers(0, int(size), BATCH, 1) for size in context.config.cardinality]
        kwargs["static_categorical_features"] = torch.cat(columns, dim=1)
    if int(context.config.num_static_real_features):
        kwargs["static_real_features"] = context.normal(BATCH, int(context.config.num_static_real_features))
    return kwargs


def _patched_series(context: Context) -> dict[str, Any]:
    """PatchTST and PatchTSMixer: [batch, time, channels]."""
    channels = int(context.config.num_input_channels)
    history, future = int(context.config.context_length), int(context.config.prediction_length)
    return {
        "past_values": context.normal(BATCH, history, channels),
        "future_values": context.normal(BATCH, future, channels),
    }


def _spectrogram_with_labels(context: Context) -> dict[str, Any]:
    """FastSpeech2: durations are given, so that the length of the output is not a matter of rounding."""
    durations = context.integers(1, 4, BATCH, TEXT_LENGTH) * attention_mask(context)
    frames = int(durations.sum(dim=1).max())
    return {
        "input_ids": input_ids(context),
        "attention_mask": attention_mask(context),
        "duration_labels": durations,
        "pitch_labels": context.normal(BATCH, TEXT_LENGTH, 1),
        "energy_labels": context.normal(BATCH, TEXT_LENGTH, 1),
        "spectrogram_labels": context.normal(BATCH, frames, int(context.config.num_mel_bins)),
    }


def _image_pairs(context: Context) -> dict[str, Any]:
    """Keypoint matchers: [batch, 2, channels, height, width], the second a moved copy of the first."""
    one = context.normal(BATCH, 3, 64, 64)
    return {"pixel_values": torch.stack([one, one.roll(4, dims=-1)], dim=1)}


def _waveform_with_channels(context: Context) -> dict[str, Any]:
    """Audio codecs: [batch, channels, samples]."""
    channels = int(context.get("audio_channels", default=1))
    return {"input_values": input_values(context).unsqueeze(1).repeat(1, channels, 1)}


RECIPES: dict[str, Callable[[Context], dict[str, Any]]] = {
    "autoformer": _lagged_series,
    "dac": _waveform_with_channels,
    "encodec": _waveform_with_channels,
    "fastspeech2_conformer": _spectrogram_with_labels,
    "informer": _lagged_series,
    "lightglue": _image_pairs,
    "mimi": _waveform_with_channels,
    "patchtsmixer": _patched_series,
    "patchtst": _patched_series,
    "time_series_transformer": _lagged_series,
}
