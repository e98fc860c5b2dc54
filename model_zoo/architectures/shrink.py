"""A small valid configuration from a configuration class alone, by rules on field names.

A configuration is built again through its constructor from its declared fields; what is None by
default is left to the class to derive, so that no derived value (a head width, say) goes stale.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any

from transformers import ResNetConfig

WIDTH = 128
HEADS = 4
DEPTH = 2
VOCABULARY = 300
IMAGE = 64

_DEPTH = re.compile(
    r"^(num_(hidden_|encoder_|decoder_)?layers|n_layers?|(encoder|decoder|num_encoder|num_decoder)_layers"
    r"|depth|num_blocks|num_hidden_blocks|prenet_layers|postnet_layers)$"
)
_WIDTH = re.compile(
    r"^(hidden_size|d_model|n_embd|embed_dim|dim|hidden_dim|projection_dim|text_embed_dim|emb_dim"
    r"|embedding_size|model_dim|vision_feature_size|out_hidden_size|encoder_hidden_dim|decoder_hidden_size)$"
)
_INNER = re.compile(r"(^|_)(intermediate_size|ffn_dim|ffn_hidden_size|d_ff|n_inner|feedforward_dim)$")
_HEADS = re.compile(r"^(num_attention_heads|num_heads|n_heads?|(encoder|decoder)_(num_)?attention_heads)$")
_EXPERTS = re.compile(r"^(num|n)_(routed_|local_)?experts$|^moe_num_experts$")
_TOP = re.compile(r"experts_per_tok(en)?$|^moe_top_?k$|^moe_topk$")
_TOKEN = re.compile(r"(token_id|token_index|_token)$")
_OPEN = (
    (r"head_dim$", WIDTH // HEADS),
    (r"heads?$", HEADS),
    (r"(intermediate|ffn)_(size|dim)$", 2 * WIDTH),
    (r"(dim|hidden_size|width)$", WIDTH),
    (r"experts$", 8),
    (r"(experts_per_tok|top_?k)$", 2),
    (r"(rank|window|window_size)$", 16),
    (r"layers$", DEPTH),
    (r"vocab_size$", VOCABULARY),
)
_MROPE = (16, 24, 24)  # What Qwen2-VL's classes take where the configuration has no sections.
_LOW_TOKENS = {"pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, "decoder_start_token_id": 1}


def shrink(
    config_class: Any,
    *,
    gentle: bool = False,
    narrow: bool = False,
    fill: bool = False,
    given: Mapping[str, Any] | None = None,
) -> Any:
    """The small configuration.

    Args:
        config_class: a class of ``transformers`` configurations; its fields are a dataclass's.
        gentle: only depths, vocabularies and token ids shrink: for models whose widths hang
            together in ways their names do not tell.
        narrow: heads get the width that the hidden size leaves them, though the class declares one.
        fill: whole numbers that the class leaves open get one by the end of their name.
        given: fields that an override sets; a table for a sub-configuration is merged into it.
    """
    given = dict(given or {})
    try:
        default = config_class()
    except Exception:  # noqa: BLE001 - a configuration class may raise anything.
        default = None  # A class without valid defaults: declared values have to do.
    settings = {}
    for field in dataclasses.fields(config_class):
        declared = _declared(field)
        value = getattr(default, field.name, declared) if default is not None else declared
        if getattr(value, "model_type", None) == "timm_backbone":
            settings[field.name] = small_backbone(value)
        elif hasattr(value, "to_dict"):
            part = given.pop(field.name, None)
            settings[field.name] = shrink(type(value), gentle=gentle, narrow=narrow, fill=fill, given=part)
        elif fill and value is None and "int" in str(field.type):
            settings[field.name] = _open_integer(field.name)
        elif declared is not None and field.init:
            settings[field.name] = declared
    old_depth = next((settings[name] for name in settings if _DEPTH.match(name)), None)
    kinds = settings.get("layer_types")
    depth = max(DEPTH, len(set(kinds))) if isinstance(kinds, list) else DEPTH
    small = {name: _small(name, value, old_depth, depth, gentle) for name, value in settings.items()}
    _agree(small, settings)
    if narrow and isinstance(small.get("head_dim"), int):
        small["head_dim"] = WIDTH // HEADS
    small.update(given)
    config = config_class(**small)
    _fit_sections(config)
    return config


def small_backbone(named: Any) -> Any:
    """A small ResNet with as many outputs as a backbone that only the package timm can make."""
    stages = len(named.out_indices or (1,))
    small = ResNetConfig(
        embedding_size=16, hidden_sizes=[16, 16, 32, 32], depths=[1, 1, 1, 1], layer_type="basic"
    )
    small.out_features = [f"stage{stage}" for stage in range(5 - stages, 5)]
    return small


def _open_integer(name: str) -> int | None:
    """A number for a field without a default; None where the name does not tell."""
    return next((number for ending, number in _OPEN if re.search(ending, name)), None)


def _declared(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    if field.default_factory is not dataclasses.MISSING:
        return field.default_factory()
    return None


def _small(name: str, value: Any, old_depth: Any, depth: int, gentle: bool) -> Any:
    if isinstance(value, bool):
        return False if name == "use_cache" else value
    if isinstance(value, int):
        return _small_integer(name, value, depth, gentle)
    if isinstance(value, list | tuple) and value:
        if name == "layer_types":
            return (list(dict.fromkeys(value)) + [value[-1]] * depth)[:depth]
        if old_depth == len(value) and name not in ("out_features", "out_indices"):
            return type(value)(value[:depth])
        if name == "depths":
            return type(value)([1] * len(value))
    return value


def _small_integer(name: str, value: int, depth: int, gentle: bool) -> int:
    if name.endswith("vocab_size"):
        return min(value, VOCABULARY)
    if _TOKEN.search(name) and value >= VOCABULARY:
        # Special tokens must differ from each other: a place near the end for each name.
        return _LOW_TOKENS.get(name, VOCABULARY - 1 - sum(name.encode()) % 90)
    if _DEPTH.match(name):
        return min(value, depth)
    if gentle:
        return value
    rules = ((_WIDTH, WIDTH), (_INNER, 2 * WIDTH), (_HEADS, HEADS), (_EXPERTS, 8), (_TOP, 2))
    for pattern, small in rules:
        if pattern.search(name):
            return min(value, small) if pattern is not _WIDTH else small
    if name == "mm_tokens_per_image":
        return min(value, 4)
    if name in ("n_group", "topk_group", "num_expert_groups"):
        return 1
    if name in ("num_queries", "num_object_queries"):
        return min(value, 10)
    if name == "prediction_length":
        return 8
    return value


def _agree(small: dict[str, Any], native: Mapping[str, Any]) -> None:
    """Fields that hang together: key heads with heads, an image with its patches."""
    if "num_key_value_heads" in small:
        full = native["num_key_value_heads"] == native.get("num_attention_heads")
        heads = small.get("num_attention_heads", HEADS)
        small["num_key_value_heads"] = heads if full else 1
    size, patch = small.get("image_size"), small.get("patch_size")
    if isinstance(size, int) and isinstance(patch, int) and 0 < patch < IMAGE < size:
        small["image_size"] = patch * max(1, IMAGE // patch)


def _fit_sections(config: Any) -> None:
    """Rotary sections in about the native proportions that sum to half the rotated width of a head."""
    rope = getattr(config, "rope_parameters", None)
    known = getattr(config, "ignore_keys_at_rope_validation", None) or ()
    if not isinstance(rope, dict) or not ("mrope_section" in known or "mrope_section" in rope):
        return
    head = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    total = int(head * rope.get("partial_rotary_factor", 1.0)) // 2
    native = rope.get("mrope_section") or _MROPE
    if sum(native) != total:
        rest = [number * total // sum(native) for number in native[1:]]
        rope["mrope_section"] = [total - sum(rest), *rest]
