"""Headers of checkpoints: read in part, refused where they lie, remembered where they say something."""

from __future__ import annotations

import contextlib
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from safetensors.numpy import save

from model_zoo.catalog import CatalogEntry, snapshot
from model_zoo.header_book import header_book
from model_zoo.headers import HeaderError, HeaderReason, digest, parse_header, read_tensors
from model_zoo.mirror import Fault, MirrorServer
from model_zoo.mirror.faults import ALWAYS
from model_zoo.ranged import read_part
from tests.model_zoo.conftest import add_repository, tensor_file

CONFIG = {"model_type": "bert", "architectures": ["BertModel"]}


def file_of(header: Any, data: int = 0) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + bytes(data)


def tensor(shape: list[Any], begin: Any, end: Any, dtype: str = "F32") -> dict[str, Any]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


HOSTILE = {
    "a header of 1 GB": (struct.pack("<Q", 2**30) + b"{}", "has a header of 1,073,741,824 bytes, more than"),
    "a header of 16 EB": (b"\xff" * 8 + b"{}", "bytes, more than"),
    "no header": (b"\0" * 8, "too short for a header"),
    "an empty file": (b"", "too short for a header"),
    "a header cut short": (struct.pack("<Q", 500) + b"{}", "ends within its header"),
    "no JSON": (file_of(b"hello world"), "no valid header"),
    "a list": (file_of([1, 2]), "no valid header"),
    "negative offsets": (file_of({"w": tensor([1], -4, 0)}), "-4 is no size"),
    "a negative shape": (file_of({"w": tensor([-1], 0, 4)}, 4), "-1 is no size"),
    "a true shape": (file_of({"w": tensor([True], 0, 4)}, 4), "True is no size"),
    "offsets backwards": (file_of({"w": tensor([1], 4, 0)}), "has -4 bytes"),
    "a gap": (file_of({"w": tensor([1], 8, 12)}, 12), "begins at byte 8 where 0 is free"),
    "an overlap": (file_of({"v": tensor([2], 0, 8), "w": tensor([1], 4, 8)}, 8), "where 8 is free"),
    "the wrong size": (file_of({"w": tensor([3], 0, 4)}, 4), "w is F32[3] and has 4 bytes"),
    "more than the file": (file_of({"w": tensor([10**9], 0, 4 * 10**9)}, 4), "need 4000000000 bytes"),
    "bytes left over": (file_of({"w": tensor([1], 0, 4)}, 400), "need 4 bytes and the file has 400"),
    "nested without end": (file_of(b"[" * 5000 + b"]" * 5000), "no valid header"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_lies_is_refused_with_a_sentence(name: str, tmp_path: Path) -> None:
    content, sentence = HOSTILE[name]
    add_repository(tmp_path, "evil/model", {"config.json": CONFIG, "model.safetensors": content})
    with MirrorServer(tmp_path) as server:
        (entry,) = snapshot(server.endpoint, token=False)
        with pytest.raises(HeaderError) as caught:
            read_tensors(entry, server.endpoint, token=False)
        asked = [r.range for r in server.requests if r.path.endswith(".safetensors")]
    assert sentence in str(caught.value)
    assert "\n" not in str(caught.value)
    refused = name in ("a header of 1 GB", "a header of 16 EB")
    assert caught.value.reason is (HeaderReason.REFUSED if refused else HeaderReason.CORRUPT)
    assert asked == ["bytes=0-65535"]  # nothing more was asked for


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[MirrorServer, CatalogEntry]]:
    """A model whose file is far larger than its header."""
    root = tmp_path / "hub"
    add_repository(root, "acme/one", {"config.json": CONFIG, "model.safetensors": tensor_file(10**6)})
    with MirrorServer(root) as server:
        yield server, snapshot(server.endpoint, token=False)[0]


@pytest.mark.parametrize("storage", [False, True])
def test_only_the_beginning_of_a_file_is_read(tmp_path: Path, storage: bool) -> None:
    add_repository(tmp_path, "acme/one", {"config.json": CONFIG, "model.safetensors": tensor_file(10**6)})
    with MirrorServer(tmp_path, storage=storage) as server:
        (entry,) = snapshot(server.endpoint, token=False)
        assert read_tensors(entry, server.endpoint, token=False) == {"w": ("F32", (10**6,))}


def test_a_long_header_takes_a_second_read(tmp_path: Path) -> None:
    tensors = {f"layer.{n}.{'x' * 60}": tensor([1], 4 * n, 4 * n + 4) for n in range(1000)}
    add_repository(
        tmp_path, "acme/long", {"config.json": CONFIG, "model.safetensors": file_of(tensors, 4000)}
    )
    with MirrorServer(tmp_path) as server:
        (entry,) = snapshot(server.endpoint, token=False)
        assert len(read_tensors(entry, server.endpoint, token=False)) == 1000
        assert len([r for r in server.requests if r.path.endswith(".safetensors")]) == 2
        with pytest.raises(HeaderError, match="more than 70,000"):
            read_tensors(entry, server.endpoint, token=False, limit=70_000)


def sharded(root: Path, weight_map: Any, **files: bytes) -> None:
    index = {"model.safetensors.index.json": {"weight_map": weight_map}}
    shards = {f"{name}.safetensors": content for name, content in files.items()}
    add_repository(root, "acme/shards", {"config.json": CONFIG, **index, **shards})


@pytest.mark.parametrize(
    ("weight_map", "sentence"),
    [
        ({"w": "one.safetensors", "v": "two.safetensors"}, ""),
        ({"w": "one.safetensors"}, ""),
        ({"w": "one.safetensors", "v": "three.safetensors"}, "names 'three.safetensors', which is not there"),
        ({"w": "../../etc/passwd"}, "names '../../etc/passwd', which is not there"),
        ({"v": "one.safetensors"}, "holds other tensors than the index says"),
        (["w"], "is no index"),
    ],
)
def test_shards_are_what_the_index_says(tmp_path: Path, weight_map: Any, sentence: str) -> None:
    sharded(tmp_path, weight_map, one=tensor_file(3), two=file_of({"v": tensor([1], 0, 4)}, 4))
    with MirrorServer(tmp_path) as server:
        (entry,) = snapshot(server.endpoint, token=False)
        if sentence:
            with pytest.raises(HeaderError, match=sentence):
                read_tensors(entry, server.endpoint, token=False)
        else:
            assert set(read_tensors(entry, server.endpoint, token=False)) == set(weight_map)


def test_a_server_that_ignores_ranges_is_not_read_to_the_end(
    served: tuple[MirrorServer, CatalogEntry],
) -> None:
    server, entry = served
    url = f"{server.endpoint}/acme/one/resolve/{entry.revision}/model.safetensors"
    server.faults.add(Fault(".safetensors", status=200, body=b"0123456789"))
    part = read_part(url, 2, 5, token=False)
    assert (part.data, part.total) == (b"234", 10)


def test_what_was_read_is_not_read_again_and_what_failed_is(
    served: tuple[MirrorServer, CatalogEntry], tmp_path: Path
) -> None:
    server, entry = served
    book_path = tmp_path / "cache" / "headers.sqlite"
    server.faults.add(Fault(".safetensors", status=404, code="EntryNotFound"))
    with header_book(book_path) as book:
        failed = book.check([entry], server.endpoint, token=False, attempts=1)[entry.id]
        assert (failed.digest, failed.lasting) == ("", False)
        assert failed.why
        read = book.check([entry], server.endpoint, token=False)[entry.id]
    server.faults.add(Fault("", status=500, times=ALWAYS))
    with header_book(book_path) as book:
        assert book.check([entry], server.endpoint, token=False, attempts=1)[entry.id] == read
    assert read.digest == digest({"w": ("F32", (10**6,))})


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8).filter(lambda name: name != "__metadata__"),
        st.lists(st.integers(0, 4), max_size=3),
        max_size=6,
    )
)
def test_every_header_that_safetensors_writes_is_read(shapes: dict[str, list[int]]) -> None:
    written = save({name: np.zeros(shape, np.float32) for name, shape in shapes.items()})
    length = struct.unpack("<Q", written[:8])[0]
    found = parse_header(written[8 : 8 + length], len(written) - 8 - length, "it")
    assert found == {name: ("F32", tuple(shape)) for name, shape in shapes.items()}


@given(st.binary(max_size=60) | st.text(alphabet='{}[]":,0-9a', max_size=40).map(str.encode))
def test_anything_else_is_read_or_refused(header: bytes) -> None:
    with contextlib.suppress(HeaderError):  # and no other exception
        found = parse_header(header, -1, "it")
        assert all(min(shape, default=0) >= 0 for _, shape in found.values())
