"""What a table of lowerings means: the OpInfo entries and tiny models all of whose calls are native."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch

from ..compiler.graph import dtype_name
from .attempt import NATIVE
from .calls import Key, key_of, run_entry
from .table import Entry

_SHOWN = 15


class Reached:
    """Stands in for ``Calls``: keeps which keys were called, and no examples."""

    def __init__(self) -> None:
        self.keys: set[Key] = set()

    def offer(
        self, overload: torch._ops.OpOverload, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any
    ) -> None:
        """Note the call, unless it leaves nothing to compute."""
        found = key_of(overload, args, kwargs, out)
        if found is not None:
            self.keys.add(found[0])


@dataclass(frozen=True)
class Share:
    """Of ``total`` programs or overloads, ``native`` are native; ``alone`` counts the programs for which one
    key is all that is missing, by that key.
    """

    native: int
    total: int
    alone: Counter[Key]

    def __str__(self) -> str:
        return f"{self.native} of {self.total} ({self.native / max(self.total, 1):.1%})"


def entries_reached(dtype: torch.dtype, samples: int = 4) -> dict[str, set[Key]]:
    """The keys that each OpInfo entry reaches in ``dtype``, forward and backward, by its full name."""
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, set[Key]] = {}
    for info in op_db:
        if dtype in info.supported_dtypes("cpu"):
            reached = Reached()
            run_entry(reached, info, dtype, samples)
            found[info.name + ("." + info.variant_test_name if info.variant_test_name else "")] = reached.keys
    return found


def models_reached() -> set[Key]:
    """The keys that the tiny models reach: training steps in float32 and inference in bfloat16."""
    from .models import collect_models

    reached = Reached()
    collect_models(reached)
    return reached.keys


def share_of_programs(programs: dict[str, set[Key]], native: set[Key]) -> Share:
    """Programs all of whose keys are in ``native``."""
    missing = {name: keys - native for name, keys in programs.items()}
    alone = Counter(next(iter(keys)) for keys in missing.values() if len(keys) == 1)
    return Share(sum(not keys for keys in missing.values()), len(missing), alone)


def summarise(table: Iterable[Entry], say: Callable[[str], None] = print) -> None:
    """Collect again what programs call, and say how much of it ``table`` makes native."""
    native = {Key(entry.op, entry.dtype) for entry in table if entry.status == NATIVE}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (torch.float32, torch.bfloat16):
            share = share_of_programs(entries_reached(dtype), native)
            say(f"op_db entries with every reached overload native in {dtype_name(dtype)}: {share}")
            for key, count in share.alone.most_common(_SHOWN):
                say(f"{count:6d} wait for {key.op} {key.dtype} alone")
        keys = models_reached()
    overloads = {key.op for key in keys}
    lacking = sorted({key.op for key in keys - native})
    count = len(overloads) - len(lacking)
    say(f"overloads that the tiny models reach, native in every dtype met: {count} of {len(overloads)}")
    say("not native: " + (", ".join(lacking) or "none"))
