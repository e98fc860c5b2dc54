"""The lowering table: which (overload, dtype) pairs a NeuronCore can run, and why the others cannot.

``lowerings.json`` is data that ``python -m torchneuron_backend.probe`` measures and writes; nothing
here decides what is native. A process may go without some lowerings, by environment before the device loads::

    TORCHNEURON_WITHOUT="aten::cumsum;aten::topk"

Eager calls of these operators, of their in-place and ``out=`` forms too, fall back to the host then, or are
made of their parts, as if they had never been lowered: so what a gap costs can be measured, and a harness's
report of it be tested. Compiled graphs are not affected.
"""

import functools
import json
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch

TABLE = Path(__file__).parent / "lowerings.json"
WITHOUT = "TORCHNEURON_WITHOUT"


def read_table(path: Path = TABLE) -> dict[str, Any]:
    """The table as written: ``{"versions": {...}, "entries": [{"op", "dtype", "status", ...}]}``.

    A missing file is a table without entries, in which nothing is native: the probe, which makes the
    file, needs the device. Raises RuntimeError, in one sentence, when the file is not such a table.
    """
    try:
        table = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {"versions": {}, "entries": []}
    except json.JSONDecodeError as error:
        raise RuntimeError(f"the lowering table {path.name} is not JSON: {error}.") from None
    if not isinstance(table, dict) or not isinstance(table.get("entries"), list):
        raise RuntimeError(f"the lowering table {path.name} has no list of entries.")
    return table


@functools.cache
def dtype_numbers() -> dict[str, int]:
    """The number torch's C++ gives each dtype, by its name without ``torch.``."""
    from torchneuron_backend import _C

    dtypes = {name: value for name, value in vars(torch).items() if isinstance(value, torch.dtype)}
    return {name: _C.dtype_number(value) for name, value in dtypes.items()}


def native_table(
    path: Path = TABLE, without: Collection[str] = ()
) -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """What registration needs of the table: overload names, each with a bit per native dtype, and the same of
    what is native where a condition (``when``) holds, with the condition's name.

    ``without`` names overloads that are taken as not native. Raises ValueError when one of them has no
    lowering in the table.
    """
    numbers = dtype_numbers()
    masks: dict[tuple[str, str], int] = {}
    for entry in read_table(path)["entries"]:
        if entry["status"] == "native" and entry["dtype"] in numbers:
            key = entry["op"], entry.get("when", "")
            masks[key] = masks.get(key, 0) | 1 << numbers[entry["dtype"]]
    unknown = sorted(set(without) - {op for op, _ in masks})
    if unknown:
        raise ValueError(f"the lowering table has no lowering of {unknown[0]!r} to go without.")
    kept = {key: mask for key, mask in masks.items() if key[0] not in without}
    always = [(op, mask) for (op, when), mask in kept.items() if not when]
    return always, [(op, mask, when) for (op, when), mask in kept.items() if when]


def without_from_environment() -> frozenset[str]:
    """The overloads that TORCHNEURON_WITHOUT names, between semicolons."""
    return frozenset(filter(None, (name.strip() for name in os.environ.get(WITHOUT, "").split(";"))))


def table_from_environment() -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """The table without what TORCHNEURON_WITHOUT names. Raises ValueError naming the variable."""
    try:
        return native_table(without=without_from_environment())
    except ValueError as error:
        raise ValueError(f"{WITHOUT}: {error}") from None
