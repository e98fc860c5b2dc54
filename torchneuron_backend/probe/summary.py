"""What the registered table means: OpInfo entries and tiny models are run on the device, and those of which
nothing falls back to the host are native.

Counted are kernels that ran, by the device's own counters: a composite operator counts as its parts, and data
movement and views need no lowering, as they compute nothing.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import torch

from .. import observe
from ..compiler.graph import dtype_name
from .calls import Key, entry_runs

_SHOWN = 15


@dataclass
class Ran:
    """What a program did on the device: the computing kernels it ran, the kernels that fell back (computing
    or not), and the names of the errors it raised there though the CPU ran it.
    """

    computed: set[Key] = field(default_factory=set)
    fell_back: set[Key] = field(default_factory=set)
    raised: set[str] = field(default_factory=set)

    @property
    def missing(self) -> set[str]:
        """What keeps the program from being native; empty if it is."""
        return {f"{key.op} {key.dtype}" for key in self.fell_back} | self.raised


@dataclass(frozen=True)
class Share:
    """Of ``total`` programs or overloads, ``native`` are native; ``alone`` counts the programs for which one
    thing is all that is missing, by that thing.
    """

    native: int
    total: int
    alone: Counter[str]

    def __str__(self) -> str:
        return f"{self.native} of {self.total} ({self.native / max(self.total, 1):.1%})"


def run_on_device(program: Callable[[], Any], ran: Ran) -> None:
    """Add to ``ran`` what ``program()`` does, which may raise."""
    observe.reset_op_counters()
    try:
        program()
    except Exception as error:  # noqa: BLE001 - every refusal is an answer
        ran.raised.add(_named(error))
    for row in observe.op_counters():
        key = Key(row["op"], row["dtype"])
        if row["kind"] == "compute":
            ran.computed.add(key)
        if row["route"] == "fallback":
            ran.fell_back.add(key)


def entries_on_device(dtype: torch.dtype, samples: int = 4) -> dict[str, Ran]:
    """What each OpInfo entry does on the device in ``dtype``, forward and backward, by its full name.

    An entry none of whose samples the CPU runs is left out, and so is each such sample.
    """
    from torch.testing._internal.common_methods_invocations import op_db

    found: dict[str, Ran] = {}
    for info in op_db:
        if dtype in info.supported_dtypes("cpu"):
            ran = _run_entry(info, dtype, samples)
            if ran is not None:
                found[info.name + ("." + info.variant_test_name if info.variant_test_name else "")] = ran
    return found


def _run_entry(info: Any, dtype: torch.dtype, samples: int) -> Ran | None:
    """What the samples do; None if the CPU runs none of them. It is asked where the device refuses one."""
    ran, seen = Ran(), False
    try:
        runs = list(entry_runs(info, dtype, samples, "neuron"))
    except NotImplementedError as error:  # the samples themselves are of a kind that the device refuses
        return Ran(raised={_named(error)})
    for index, run in enumerate(runs):
        here = Ran()
        run_on_device(run, here)
        if here.raised and not _works(_nth(entry_runs(info, dtype, samples, "cpu"), index)):
            continue
        seen = True
        ran.computed |= here.computed
        ran.fell_back |= here.fell_back
        ran.raised |= here.raised
    return ran if seen else None


def _nth(runs: Iterable[Callable[[], Any]], index: int) -> Callable[[], Any]:
    return list(runs)[index]


def _works(run: Callable[[], Any]) -> bool:
    try:
        run()
    except Exception:  # noqa: BLE001 - a sample that fails on the CPU has nothing to teach
        return False
    return True


def _named(error: Exception) -> str:
    return f"({type(error).__name__} on the device)"


def models_on_device() -> Ran:
    """What the tiny models do on the device: training steps in float32 and inference in bfloat16."""
    from .models import run_models

    ran = Ran()
    run_models("neuron", lambda program: run_on_device(program, ran))
    return ran


def share_of_programs(programs: Iterable[Ran]) -> Share:
    """Programs of which nothing is missing."""
    missing = [ran.missing for ran in programs]
    alone = Counter(next(iter(names)) for names in missing if len(names) == 1)
    return Share(sum(not names for names in missing), len(missing), alone)


def summarise(say: Callable[[str], None] = print) -> None:
    """Run everything and say how much of it is native."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for dtype in (torch.float32, torch.bfloat16):
            share = share_of_programs(entries_on_device(dtype).values())
            say(f"op_db entries of which nothing falls back in {dtype_name(dtype)}: {share}")
            for name, count in share.alone.most_common(_SHOWN):
                say(f"{count:6d} wait for {name} alone")
        models = models_on_device()
    overloads = {key.op for key in models.computed}
    lacking = sorted({key.op for key in models.fell_back} | models.raised)
    count = len(overloads) - len(lacking)
    say(f"computing overloads that the tiny models run, native in every call: {count} of {len(overloads)}")
    say("not native: " + (", ".join(lacking) or "none"))
