"""Which (model type, class) pairs the installed transformers has, from its own auto-mappings."""

from __future__ import annotations

from dataclasses import dataclass

from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

_PREFIX, _SUFFIX = "MODEL_", "MAPPING_NAMES"


@dataclass(frozen=True, order=True, slots=True)
class Pair:
    """One class of one type.

    Attributes:
        model_type: key of the configuration mapping, e.g. ``bert``.
        architecture: class name, e.g. ``BertForMaskedLM``.
        tasks: the mappings that name it, e.g. ``for_masked_lm``; ``base`` for MODEL_MAPPING.
    """

    model_type: str
    architecture: str
    tasks: tuple[str, ...]

    @property
    def key(self) -> str:
        """``type/class``, unique."""
        return f"{self.model_type}/{self.architecture}"


def all_pairs() -> list[Pair]:
    """Every pair, sorted; a class that several mappings name stands once, with all its tasks."""
    tasks: dict[tuple[str, str], set[str]] = {}
    for name in dir(modeling_auto):
        if not (name.startswith(_PREFIX) and name.endswith(_SUFFIX)):
            continue
        task = name.removeprefix(_PREFIX).removesuffix(_SUFFIX).strip("_").lower() or "base"
        for model_type, classes in getattr(modeling_auto, name).items():
            for architecture in (classes,) if isinstance(classes, str) else classes:
                tasks.setdefault((model_type, architecture), set()).add(task)
    return sorted(Pair(*pair, tuple(sorted(found))) for pair, found in tasks.items())


def types_without_classes() -> list[str]:
    """Types that no auto-mapping has a model for: parts of other models."""
    return sorted(set(CONFIG_MAPPING_NAMES) - {pair.model_type for pair in all_pairs()})
