"""Which models execute the same operators on the same shapes, so that one of them can run for all.

The class key holds architecture, model type, dtype, task and what of the configuration is not known to be
irrelevant (``class_keys.toml``); within a key, models whose safetensors headers list other tensors
part again. Needs no torch.
"""

from __future__ import annotations

import functools
import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from model_zoo.catalog import CatalogEntry

LARGEST_CONFIG = 32_000
"""Characters of a relevant configuration; one beyond it makes no class."""

_KEY_DIGITS = 16
_DEEPEST = 8


@dataclass(frozen=True, slots=True)
class Placed:
    """A model and how its result is come by.

    Attributes:
        key: its class, ``""`` if nothing is known of it but itself.
        representative: the model of the class that runs for it; ``None`` if it runs for itself.
    """

    entry: CatalogEntry
    key: str = ""
    representative: CatalogEntry | None = None


@functools.cache
def irrelevant() -> frozenset[str]:
    """Keys of a configuration that decide neither operators nor shapes."""
    tables = tomllib.loads((files("model_zoo") / "class_keys.toml").read_text(encoding="utf-8"))
    return frozenset(key for table in tables.values() for key in table["keys"])


def relevant(config: Mapping[str, Any]) -> str:
    """What of a configuration decides the class, as canonical JSON; ``""`` if too large or deep."""
    try:
        text = json.dumps(_relevant(config, _DEEPEST), sort_keys=True, separators=(",", ":"))
    except RecursionError:
        return ""
    return text if len(text) <= LARGEST_CONFIG else ""


def _relevant(value: Any, depth: int) -> Any:
    if depth < 0:
        raise RecursionError("a configuration is nested too deeply")
    if isinstance(value, list):
        return [_relevant(item, depth - 1) for item in value]
    if not isinstance(value, Mapping):
        return value
    kept = {key: _relevant(item, depth - 1) for key, item in value.items() if key not in irrelevant()}
    labels = value.get("id2label") or value.get("label2id")
    if isinstance(labels, Mapping):
        kept["num_labels"] = len(labels)
    return kept


def class_key(entry: CatalogEntry) -> str:
    """The class of a model by its configuration; ``""`` for one that has to run for itself.

    That is one whose configuration, dtype or architecture is unknown, that brings code or has no safetensors.
    """
    known = entry.config and entry.architecture and entry.dtype and "safetensors" in entry.formats
    if not known or entry.custom_code or entry.gated:
        return ""
    return _digest(entry.architecture, entry.model_type, entry.dtype, entry.task, entry.config)


def undecided(entries: Sequence[CatalogEntry], own: int) -> list[CatalogEntry]:
    """The models whose headers have to be known before a class can be relied on, in their order.

    Args:
        entries: most downloaded first.
        own: so many of the first run for themselves whatever their class.
    """
    keys = [class_key(entry) for entry in entries]
    sizes: dict[str, int] = {}
    followers: set[str] = set()
    for index, key in enumerate(keys):
        sizes[key] = sizes.get(key, 0) + 1
        if index >= own and sizes[key] > 1:
            followers.add(key)
    return [entry for entry, key in zip(entries, keys, strict=True) if key and key in followers]


def place(entries: Iterable[CatalogEntry], own: int, headers: Mapping[str, str]) -> list[Placed]:
    """Give each model its class and the model that runs for it.

    The representative is the most downloaded model of its class: its result matters most, what is to be
    fetched is the same for all of a class, and it most often runs for itself anyway.

    Args:
        entries: most downloaded first.
        own: so many of the first run for themselves.
        headers: digest of the header of a model, by its id; one that is missing makes it run for itself.
    """
    placed: list[Placed] = []
    first: dict[str, CatalogEntry] = {}
    for index, entry in enumerate(entries):
        key, header = class_key(entry), headers.get(entry.id, "")
        if not (key and header):
            placed.append(Placed(entry, key))
            continue
        key = _digest(key, header)
        representative = first.setdefault(key, entry)
        alone = index < own or representative is entry
        placed.append(Placed(entry, key, None if alone else representative))
    return placed


def _digest(*parts: str) -> str:
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:_KEY_DIGITS]
