"""Images as rows of patches with a grid, for the models that take them so (Qwen-VL and its kin)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from model_zoo.input_fields import BATCH, Context

GRID = 4  # Patches a side; a multiple of every usual merge size.


def with_grids(context: Context, arguments: Mapping[str, bool], kwargs: dict[str, Any]) -> dict[str, Any]:
    """The same inputs, with the pixels in the layout that the class's other arguments show it wants.

    ``image_grid_thw`` [images, 3]: time, height and width of each image in patches; the pixels are
    then [patches, values of a patch]. ``image_sizes`` [images, 2]: height and width in pixels.
    """
    if "pixel_values" not in kwargs:
        return kwargs
    if "image_grid_thw" in arguments:
        side = int(context.get("patch_size", "spatial_patch_size", of="vision_config", default=14))
        frames = int(context.get("temporal_patch_size", of="vision_config", default=1))
        channels = int(context.get("in_channels", "in_chans", "num_channels", of="vision_config", default=3))
        pixels = context.normal(BATCH * GRID * GRID, channels * frames * side * side)
        grid = torch.tensor([[1, GRID, GRID]] * BATCH)
        kwargs = {**kwargs, "pixel_values": pixels, "image_grid_thw": grid}
        if "mm_token_type_ids" in arguments and "input_ids" in kwargs:
            # [batch, tokens]: 0 for text, 1 for an image's places.
            kwargs["mm_token_type_ids"] = (kwargs["input_ids"] == context.image_token).long()
        return kwargs
    if "image_sizes" in arguments and context.get("image_grid_pinpoints") is not None:
        sizes = torch.tensor([list(context.image_size)] * BATCH)
        pixels = kwargs["pixel_values"]  # An overview and one tile of each image follow.
        pixels = torch.stack([pixels, pixels.flip(-1)], dim=1)
        return {**kwargs, "pixel_values": pixels, "image_sizes": sizes}
    return kwargs
