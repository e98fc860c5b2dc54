"""What tensors a checkpoint holds, read from its headers without its weights.

A safetensors file begins with a length (u64, little endian) and so many bytes of JSON: for each tensor its
dtype, shape and place (https://github.com/huggingface/safetensors, "Format"). Needs no torch.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from model_zoo.catalog import CatalogEntry
from model_zoo.ranged import file_url, read_part

LIMIT = 32 * 2**20
"""Bytes of a header, or of a shard index, beyond which it is refused; the format itself allows 100 MB."""

_FIRST = 2**16
_INDEX = "model.safetensors.index.json"
_WHOLE = "model.safetensors"
_BITS: Mapping[str, int] = {
    **dict.fromkeys(("F64", "I64", "U64", "C64"), 64),
    **dict.fromkeys(("F32", "I32", "U32"), 32),
    **dict.fromkeys(("F16", "BF16", "I16", "U16"), 16),
    **dict.fromkeys(("BOOL", "I8", "U8", "F8_E4M3", "F8_E5M2", "F8_E8M0"), 8),
}

Tensors = dict[str, tuple[str, tuple[int, ...]]]
"""dtype and shape of each tensor, by name."""


class HeaderReason(StrEnum):
    """Why a header says nothing."""

    REFUSED = "refused"
    CORRUPT = "corrupt"
    UNAVAILABLE = "unavailable"


LASTING = (HeaderReason.REFUSED, HeaderReason.CORRUPT)
"""Reasons that stay, since a revision does not change."""


class HeaderError(RuntimeError):
    """A header that cannot be relied on; ``reason`` says which kind of fault it is."""

    def __init__(self, reason: HeaderReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def read_tensors(
    entry: CatalogEntry,
    endpoint: str,
    *,
    token: str | bool | None = None,
    limit: int = LIMIT,
    attempts: int = 5,
) -> Tensors:
    """The tensors of a model's safetensors files, by one or two ranged reads a file.

    Raises:
        HeaderError: a header is larger than ``limit``, is no header, contradicts the size of its file or the
            index of the shards; or the files cannot be had.
    """
    source = _Source(entry, endpoint, token, limit, attempts)
    try:
        if _WHOLE in entry.files:
            return source.header(_WHOLE)
        return source.shards()
    except OSError as error:
        raise HeaderError(HeaderReason.UNAVAILABLE, f"{entry.id}: {_first_line(error)}") from error


def digest(tensors: Tensors) -> str:
    """A hash of names, dtypes and shapes: two checkpoints that share it load alike into one class."""
    lines = (f"{name}\0{dtype}\0{shape}\n" for name, (dtype, shape) in sorted(tensors.items()))
    return hashlib.sha256("".join(lines).encode()).hexdigest()


def parse_header(header: bytes, data_bytes: int, name: str) -> Tensors:
    """The tensors that the JSON of a header lists.

    Args:
        data_bytes: bytes of the file after the header, -1 if unknown.

    Raises:
        HeaderError: it is no header, or its places are not those of the shapes, without gaps, to the end of
            the file.
    """
    try:
        listed = json.loads(header)
        listed.pop("__metadata__", None)
        found, places = {}, []
        for tensor, said in listed.items():
            dtype, shape = str(said["dtype"]), tuple(map(_extent, said["shape"]))
            begin, end = map(_extent, said["data_offsets"])
            bits = _BITS.get(dtype)
            if bits is not None and (end - begin) * 8 != bits * math.prod(shape):
                raise ValueError(f"{tensor} is {dtype}{list(shape)} and has {end - begin} bytes")
            found[tensor] = (dtype, shape)
            places.append((begin, end))
        _check_places(sorted(places), data_bytes)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        why = f"{name} has no valid header: {_first_line(error)}"
        raise HeaderError(HeaderReason.CORRUPT, why) from error
    return found


def _extent(value: Any) -> int:
    if type(value) is not int or value < 0:
        raise ValueError(f"{value!r} is no size")
    return value


def _check_places(places: list[tuple[int, int]], data_bytes: int) -> None:
    at = 0
    for begin, end in places:
        if begin != at or end < begin:
            raise ValueError(f"a tensor begins at byte {begin} where {at} is free")
        at = end
    if data_bytes not in (-1, at):
        raise ValueError(f"its tensors need {at} bytes and the file has {data_bytes}")


class _Source:
    """The files of one model on a Hub."""

    def __init__(
        self, entry: CatalogEntry, endpoint: str, token: str | bool | None, limit: int, attempts: int
    ) -> None:
        self._entry, self._endpoint, self._token = entry, endpoint, token
        self._limit, self._attempts = limit, attempts

    def header(self, name: str) -> Tensors:
        """The tensors of one file."""
        first = self._read(name, 0, _FIRST)
        length = int.from_bytes(first.data[:8], "little")
        if len(first.data) < 8 or not length:
            raise HeaderError(HeaderReason.CORRUPT, f"{name} of {self._entry.id} is too short for a header")
        if length > self._limit:
            raise HeaderError(
                HeaderReason.REFUSED,
                f"{name} of {self._entry.id} has a header of {length:,} bytes, more than {self._limit:,}",
            )
        data = first.data[8 : 8 + length]
        if len(data) < length and len(first.data) == _FIRST:
            data += self._read(name, _FIRST, 8 + length).data
        if len(data) < length:
            raise HeaderError(HeaderReason.CORRUPT, f"{name} of {self._entry.id} ends within its header")
        rest = first.total - 8 - length if first.total >= 0 else -1
        return parse_header(data, rest, f"{name} of {self._entry.id}")

    def shards(self) -> Tensors:
        """The tensors of all shards that the index names; each tensor lies where the index says."""
        read = self._read(_INDEX, 0, self._limit + 1)
        if len(read.data) > self._limit:
            raise HeaderError(
                HeaderReason.REFUSED, f"{_INDEX} of {self._entry.id} is larger than {self._limit:,} bytes"
            )
        try:
            where = {str(key): str(shard) for key, shard in json.loads(read.data)["weight_map"].items()}
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise HeaderError(
                HeaderReason.CORRUPT, f"{_INDEX} of {self._entry.id} is no index: {_first_line(error)}"
            ) from error
        found: Tensors = {}
        for shard in sorted(set(where.values())):
            if shard not in self._entry.files:  # only what the Hub lists is asked for, whatever an index says
                raise HeaderError(
                    HeaderReason.CORRUPT, f"{_INDEX} of {self._entry.id} names {shard!r}, which is not there"
                )
            tensors = self.header(shard)
            if set(tensors) != {key for key, place in where.items() if place == shard}:
                why = f"{shard} of {self._entry.id} holds other tensors than the index says"
                raise HeaderError(HeaderReason.CORRUPT, why)
            found |= tensors
        return found

    def _read(self, name: str, start: int, stop: int) -> Any:
        url = file_url(self._endpoint, self._entry.id, self._entry.revision, name)
        return read_part(url, start, stop, token=self._token, attempts=self._attempts)


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]
