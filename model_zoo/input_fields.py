"""One rule per argument name: what a tensor of that name looks like, given a configuration.

Names are the library's own and mean the same in every model that has them; shapes are those its
``forward`` docstrings state.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch

BATCH = 2
TEXT_LENGTH = 16  # Tokens beside those that stand for an image.
PADDED = 3  # Tokens of padding at the end of the last row.
AUDIO_SAMPLES = 1600  # A tenth of a second at 16 kHz.

MODALITIES = {
    "input_ids": "text",
    "pixel_values": "image",
    "pixel_values_videos": "video",
    "input_values": "audio",
    "input_features": "audio",
    "past_values": "time_series",
}


class Context:
    """A configuration with the generator of one set of inputs.

    Rules read fields through :meth:`get`, which also looks into the sub-configurations a rule names.
    """

    def __init__(self, config: Any, architecture: str, seed: int, image_tokens: int | None = None) -> None:
        self.config = config
        self._image_tokens = image_tokens
        self.architecture = architecture
        self.generator = torch.Generator().manual_seed(seed)

    def get(self, *names: str, of: str = "", default: Any = None) -> Any:
        """The first of these fields that is set, in a sub-configuration if it exists, else at the top."""
        for config in (getattr(self.config, of, None) if of else None, self.config):
            for name in names:
                value = getattr(config, name, None)
                if value is not None:
                    return value
        return default

    def takes(self, name: str) -> bool:
        """Whether the model has the part that would read this input."""
        if name == "input_values":  # Beside other modalities; alone it is the main input.
            return self.get("audio_config", "audio_encoder") is not None
        if name == "pixel_values":
            return self.get("vision_config", "image_size", "num_channels", "backbone_config") is not None
        return self.get("vocab_size", of="text_config") is not None

    def integers(self, low: int, high: int, *shape: int) -> torch.Tensor:
        """Whole numbers in [low, high)."""
        return torch.randint(low, max(high, low + 1), shape, generator=self.generator)

    def normal(self, *shape: int) -> torch.Tensor:
        """Standard normal numbers, float32."""
        return torch.randn(shape, generator=self.generator)

    @property
    def vocabulary(self) -> int:
        """Number of tokens."""
        return int(self.get("vocab_size", of="text_config", default=100))

    @property
    def image_token(self) -> int | None:
        """The token that stands for a piece of an image; None for models that do not mix the two."""
        token = self.get("image_token_id", "image_token_index")
        return int(token) if token is not None else None

    @property
    def image_size(self) -> tuple[int, int]:
        """Height and width of an image, in pixels; no more than 64 where the model leaves it open."""
        size = self.get("image_size", of="vision_config")
        size = size if size is not None else self.get("image_size", of="backbone_config", default=64)
        if isinstance(size, dict):
            return int(size["height"]), int(size["width"])
        height, width = size if isinstance(size, list | tuple) else (size, size)
        return int(height), int(width)

    @property
    def image_tokens(self) -> int:
        """How many tokens one image becomes in the text."""
        if self.image_token is None:
            return 0
        if self._image_tokens is not None:
            return self._image_tokens
        stated = self.get("image_seq_length", "mm_tokens_per_image")
        if stated is not None:
            return int(stated)
        patch = int(self.get("patch_size", of="vision_config", default=16))
        return math.prod(extent // patch for extent in self.image_size)


def input_ids(context: Context) -> torch.Tensor:
    """[batch, tokens]: ordinary tokens, the image's tokens after the first, ``eos`` before padding."""
    vocabulary = context.vocabulary
    ids = context.integers(min(5, vocabulary - 1), vocabulary, BATCH, TEXT_LENGTH)
    image = context.image_token
    eos = context.get("eos_token_id", of="text_config")
    eos = eos[0] if isinstance(eos, list) else eos
    pad = context.get("pad_token_id", of="text_config", default=0)
    specials = {image, eos, pad}
    ordinary = next((token for token in range(5, vocabulary) if token not in specials), 0)
    for special in specials - {None}:
        ids[ids == special] = ordinary
    if image is not None:
        pieces = torch.full((BATCH, context.image_tokens), image)
        ids = torch.cat([ids[:, :1], pieces, ids[:, 1:]], dim=1)
    if eos is not None and eos < vocabulary:
        ids[:, -1] = eos
        ids[-1, -PADDED - 1] = eos
    ids[-1, -PADDED:] = pad if 0 <= pad < vocabulary else 0
    return ids


def attention_mask(context: Context) -> torch.Tensor:
    """[batch, tokens]: 1 for a token, 0 for padding, which the last row ends with."""
    mask = torch.ones(BATCH, TEXT_LENGTH + context.image_tokens, dtype=torch.int64)
    mask[-1, -PADDED:] = 0
    return mask


def token_type_ids(context: Context) -> torch.Tensor | None:
    """[batch, tokens]: two segments, for models that tell segments apart."""
    if int(context.get("type_vocab_size", default=0)) < 2 or context.image_token is not None:
        return None
    types = torch.zeros(BATCH, TEXT_LENGTH, dtype=torch.int64)
    types[:, TEXT_LENGTH // 2 :] = 1
    return types


def decoder_input_ids(context: Context) -> torch.Tensor:
    """[batch, tokens / 2]: a start token and ordinary ones."""
    vocabulary = context.vocabulary
    ids = context.integers(min(5, vocabulary - 1), vocabulary, BATCH, TEXT_LENGTH // 2)
    ids[:, 0] = context.get("decoder_start_token_id", "bos_token_id", default=0)
    return ids


def pixel_values(context: Context) -> torch.Tensor:
    """[batch, channels, height, width], as if normalised."""
    channels = context.get("num_channels", of="vision_config")
    channels = channels or context.get("num_channels", of="backbone_config", default=3)
    return context.normal(BATCH, int(channels), *context.image_size)


def input_features(context: Context) -> torch.Tensor:
    """[batch, mel bins, frames]: a log-mel spectrogram; Whisper wants two frames a position."""
    bins = int(context.get("num_mel_bins", "input_feat_per_channel", default=80))
    positions = context.get("max_source_positions", of="audio_config", default=32)
    return context.normal(BATCH, bins, 2 * int(positions))


def input_values(context: Context) -> torch.Tensor:
    """[batch, samples]: a tone with noise; [batch, frames, mel bins] for spectrogram transformers."""
    bins, frames = context.get("num_mel_bins"), context.get("max_length")
    if bins is not None and frames is not None and context.get("conv_dim") is None:
        return context.normal(BATCH, int(frames), int(bins))
    time = torch.arange(AUDIO_SAMPLES) / 16_000
    tone = torch.sin(2 * math.pi * 440 * time)
    return tone + 0.1 * context.normal(BATCH, AUDIO_SAMPLES)


def pixel_values_videos(context: Context) -> torch.Tensor:
    """[batch, frames, channels, height, width]."""
    frames = int(context.get("num_frames", "frames_per_clip", of="vision_config", default=4))
    return torch.stack([pixel_values(context) for _ in range(frames)], dim=1)


def bbox(context: Context) -> torch.Tensor:
    """[batch, tokens, 4]: left, top, right, bottom of each word, of 1000."""
    corners = context.integers(0, 400, BATCH, TEXT_LENGTH + context.image_tokens, 2)
    return torch.cat([corners, corners + 100], dim=-1)


# Taken where a model has them, though its ``forward`` does not insist.
OPTIONAL = ("input_ids", "pixel_values", "bbox", "input_values")

FIELDS: dict[str, Callable[[Context], Any]] = {
    "input_ids": input_ids,
    "attention_mask": attention_mask,
    "token_type_ids": token_type_ids,
    "decoder_input_ids": decoder_input_ids,
    "pixel_values": pixel_values,
    "pixel_values_videos": pixel_values_videos,
    "bbox": bbox,
    "input_features": input_features,
    "input_values": input_values,
}
