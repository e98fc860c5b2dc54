"""What a repository may ask of this machine: checks of names, headers and numbers before they are acted on.

A repository is written by strangers. Nothing here runs or unpickles anything, and nothing reads more than
it checked the size of. Needs no torch.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

MAX_NAME = 255
"""Characters of one part of a file name, which file systems allow."""

MAX_FILES = 20_000
"""Files of one repository; the Hub asks its users to stay below 100,000, and no model needs them."""

MAX_HEADER = 100_000_000
"""Bytes of a safetensors header: the format's own limit (safetensors, ``MAX_HEADER_SIZE``)."""

MAX_CONFIG = 32 * 2**20
"""Bytes of a ``config.json``. The largest known are below 1 MB: those with a table of labels."""

MAX_LAYERS = 10_000
"""Of anything that a configuration counts layers, blocks or experts of; what it derives is as long."""

MAX_NUMBER = 2**40
"""Of any whole number in a configuration, token ids and time stamps included."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")
_COUNTED = re.compile(r"(^|_)(layers?|blocks?|depths?|experts?|heads?|stages?|groups?)(_|$)|n_?layers?$")


class RefusedError(ValueError):
    """A repository asks for something that is never done; the sentence says what."""


def check_name(name: object) -> None:
    """Refuse a file name that could lead out of its repository's folder.

    Raises:
        RefusedError: it is absolute, has an empty, ``.`` or ``..`` part, a backslash, a colon at its
            second place, a control character, or a part that is too long.
    """
    if not isinstance(name, str) or not name:
        raise RefusedError(f"A file of the repository is named {name!r}.")
    parts = name.split("/")
    bad = (
        any(part in ("", ".", "..") or len(part.encode()) > MAX_NAME for part in parts)
        or _CONTROL.search(name) is not None
        or name[1:2] == ":"
    )
    if bad:
        raise RefusedError(f"A file of the repository is named {name[:200]!r}, which could leave its folder.")


def check_names(names: Iterable[object]) -> None:
    """Refuse unsafe names, and a file that stands where a folder of another does.

    Raises:
        RefusedError: as :func:`check_name`, and for too many files.
    """
    seen: set[str] = set()
    for name in names:
        check_name(name)
        seen.add(str(name))
        if len(seen) > MAX_FILES:
            raise RefusedError(f"The repository lists more than {MAX_FILES:,} files.")
    for name in seen:
        parts = name.split("/")
        above = ["/".join(parts[:length]) for length in range(1, len(parts))]
        if not seen.isdisjoint(above):
            raise RefusedError(f"{name!r} lies below a file of the repository.")


def read_json(path: Path, limit: int = MAX_CONFIG) -> Any:
    """Parse a JSON file of a bounded size.

    Raises:
        RefusedError: it is larger than ``limit`` bytes, or nested deeper than Python reads.
        ValueError: it is no JSON.
        OSError: it cannot be read.
    """
    size = path.stat().st_size
    if size > limit:
        raise RefusedError(f"{path.name} is {size:,} bytes, more than the {limit:,} that are read.")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise RefusedError(f"{path.name} is nested too deeply to be read.") from None


def read_header(file: IO[bytes], size: int, name: str) -> dict[str, Any]:
    """The header of a safetensors file: tensor name → dtype, shape and offsets.

    Args:
        file: at its beginning.
        size: bytes of the whole file.
        name: for the sentence.

    Raises:
        RefusedError: it claims a header that is larger than :data:`MAX_HEADER`.
        ValueError: it is no safetensors file.
    """
    start = file.read(8)
    if len(start) < 8:
        raise ValueError(f"{name} is no safetensors file: it has {len(start)} bytes")
    length = struct.unpack("<Q", start)[0]
    if length > MAX_HEADER:
        raise RefusedError(
            f"{name} claims a header of {length:,} bytes, more than the {MAX_HEADER:,} of the format."
        )
    if length > size - 8:
        raise ValueError(f"{name} claims a header of {length:,} bytes and has {size:,} in all")
    try:
        header = json.loads(file.read(length))
    except RecursionError:
        raise RefusedError(f"The header of {name} is nested too deeply to be read.") from None
    if not isinstance(header, dict):
        raise ValueError(f"the header of {name} is no object")
    return header


def elements_of(header: Mapping[str, Any]) -> int:
    """How many elements the tensors of a header have.

    Raises:
        ValueError: an entry has no shape of whole numbers.
    """
    total = 0
    for tensor, entry in header.items():
        if tensor == "__metadata__":
            continue
        shape = entry.get("shape") if isinstance(entry, dict) else None
        if not isinstance(shape, list) or not all(isinstance(n, int) and n >= 0 for n in shape):
            raise ValueError(f"tensor {tensor[:100]!r} of the header has no shape")
        elements = 1
        for extent in shape:
            elements *= extent
        total += elements
    return total


def check_config(config: Mapping[str, Any]) -> None:
    """Refuse a configuration whose numbers alone would use up this machine.

    What is built from a configuration is counted as it is built (:mod:`model_zoo.counting`); this is for what
    a configuration's own class derives from its numbers, e.g. a list with an entry for each layer.

    Raises:
        RefusedError: a number is beyond :data:`MAX_NUMBER`, or a count of layers, say, beyond
            :data:`MAX_LAYERS`.
    """
    for key, number in _numbers(config):
        if abs(number) > MAX_NUMBER:
            raise RefusedError(f"The configuration asks for {key} = {number:,}.")
        if number > MAX_LAYERS and _COUNTED.search(key) and not key.endswith(("_size", "_dim", "_id")):
            raise RefusedError(
                f"The configuration asks for {key} = {number:,}, more than the {MAX_LAYERS:,} built here."
            )


def _numbers(value: Any, key: str = "") -> Iterator[tuple[str, int]]:
    """Every whole number of a configuration with the innermost key it stands under."""
    waiting: list[tuple[Any, str]] = [(value, key)]
    while waiting:
        value, key = waiting.pop()
        if isinstance(value, Mapping):
            waiting += [(inner, str(name)) for name, inner in value.items()]
        elif isinstance(value, list):
            waiting += [(inner, key) for inner in value]
        elif isinstance(value, int) and not isinstance(value, bool):
            yield key, value
        elif isinstance(value, float) and abs(value) > MAX_NUMBER and value.is_integer():
            continue  # e.g. the 1e30 that stands for "no limit" of a tokenizer


def check_index(index: Mapping[str, Any], name: str) -> list[str]:
    """The shards that an index names.

    Raises:
        RefusedError: one of them is not the name of a file inside the repository.
        ValueError: it is no index.
    """
    shards = index.get("weight_map") if isinstance(index, Mapping) else None
    if not isinstance(shards, Mapping):
        raise ValueError(f"{name} maps no weights to files")
    wanted = sorted({str(shard) for shard in shards.values()})
    check_names(wanted)
    return wanted
