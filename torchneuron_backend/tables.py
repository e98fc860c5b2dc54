"""The lowering table: which (overload, dtype) pairs a NeuronCore can run, and why the others cannot.

``lowerings.json`` is data that ``python -m torchneuron_backend.probe`` measures and writes; nothing
here decides what is native.
"""

import functools
import json
from pathlib import Path
from typing import Any

import torch

TABLE = Path(__file__).parent / "lowerings.json"


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


def native_table(path: Path = TABLE) -> tuple[list[tuple[str, int]], list[tuple[str, int, str]]]:
    """What registration needs of the table: overload names, each with a bit per native dtype, and the same of
    what is native where a condition (``when``) holds, with the condition's name.
    """
    numbers = dtype_numbers()
    masks: dict[tuple[str, str], int] = {}
    for entry in read_table(path)["entries"]:
        if entry["status"] == "native" and entry["dtype"] in numbers:
            key = entry["op"], entry.get("when", "")
            masks[key] = masks.get(key, 0) | 1 << numbers[entry["dtype"]]
    always = [(op, mask) for (op, when), mask in masks.items() if not when]
    return always, [(op, mask, when) for (op, when), mask in masks.items() if when]
