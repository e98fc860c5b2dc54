"""The catalog: what the Hub says, kept without loss."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from model_zoo.catalog import (
    CatalogEntry,
    CatalogError,
    CatalogWriter,
    lookup,
    read_catalog,
    snapshot,
    write_catalog,
)
from model_zoo.mirror import Fault, MirrorServer
from model_zoo.mirror.documents import properties
from model_zoo.mirror.repository import MirrorDirectory
from tests.model_zoo.conftest import add_repository


def test_entries_say_what_the_hub_says(hand: MirrorServer, hand_dir: Path) -> None:
    entries = {entry.id: entry for entry in snapshot(hand.endpoint, token=False)}
    repository = MirrorDirectory(hand_dir).get("acme/alpha")
    assert repository is not None
    assert entries["acme/alpha"] == CatalogEntry(
        id="acme/alpha",
        revision=repository.sha,
        library="transformers",
        task="fill-mask",
        architecture="BertModel",
        model_type="bert",
        parameters=10,
        dtype="F32",
        downloads=50,
        files=("model.safetensors",),
        formats=("safetensors",),
    )
    assert entries["acme/gated"].gated == "manual"
    assert (entries["acme/beta"].files, entries["acme/beta"].formats) == (("pytorch_model.bin",), ("pickle",))
    assert entries["other/onnx"].formats == ("onnx",)
    assert entries["other/gamma"].architecture == ""


def test_most_downloaded_come_first_and_the_limit_holds_over_pages(hand: MirrorServer) -> None:
    assert [entry.id for entry in snapshot(hand.endpoint, 3, token=False)] == [
        "acme/beta",
        "acme/gated",
        "acme/alpha",
    ]
    assert len([r for r in hand.requests if r.path.startswith("/api/models?")]) == 2
    assert [entry.id for entry in snapshot(hand.endpoint, task="fill-mask", token=False)] == ["acme/alpha"]


def test_custom_code_is_marked(hand: MirrorServer, hand_dir: Path) -> None:
    config = {"model_type": "new", "architectures": ["New"], "auto_map": {"AutoModel": "code.New"}}
    add_repository(hand_dir, "acme/code", {"config.json": config})
    (entry,) = snapshot(hand.endpoint, search="acme/code", token=False)
    assert entry.custom_code


def test_a_missing_hash_is_asked_for_and_a_busy_hub_asked_again(
    hand: MirrorServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from model_zoo.mirror import documents

    def without_sha(repo: object, *, blobs: bool = False) -> dict:
        known = properties(repo, blobs=blobs)  # type: ignore[arg-type]
        asked = hand.requests[-1].path
        return {k: v for k, v in known.items() if k != "sha" or not asked.startswith("/api/models?")}

    monkeypatch.setattr(documents, "properties", without_sha)
    # model_info is not repeated by the client itself.
    hand.faults.add(Fault("/api/models/acme", status=429, headers={"Retry-After": "0"}))
    (entry,) = snapshot(hand.endpoint, search="alpha", token=False)
    assert len(entry.revision) == 40


def test_one_model_is_looked_up_as_it_is_listed(hand: MirrorServer) -> None:
    listed = {entry.id: entry for entry in snapshot(hand.endpoint, token=False)}
    entry = listed["acme/alpha"]
    assert lookup(hand.endpoint, "acme/alpha", token=False) == entry
    assert lookup(hand.endpoint, "acme/alpha", entry.revision, token=False) == entry
    with pytest.raises(CatalogError, match="no model acme/nothing"):
        lookup(hand.endpoint, "acme/nothing", token=False)
    with pytest.raises(CatalogError, match="no model not an id"):
        lookup(hand.endpoint, "not an id", token=False)
    with pytest.raises(CatalogError, match="no revision v9"):
        lookup(hand.endpoint, "acme/alpha", "v9", token=False)


def test_an_unreachable_hub_is_an_os_error(hand_dir: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import huggingface_hub.utils._http as http

    monkeypatch.setattr(http.time, "sleep", lambda _: None)  # The client waits 20 s before it gives up.
    with MirrorServer(hand_dir) as server:
        pass
    with pytest.raises(OSError, match="cannot be reached"):
        lookup(server.endpoint, "acme/alpha", token=False)
    with pytest.raises(OSError, match="cannot be reached"):
        snapshot(server.endpoint, token=False)


def test_a_file_gives_back_what_was_written(hand: MirrorServer, tmp_path: Path) -> None:
    entries = snapshot(hand.endpoint, token=False)
    path = tmp_path / "deep" / "catalog.parquet"
    write_catalog(path, entries)
    assert read_catalog(path) == entries
    write_catalog(path, [])
    assert read_catalog(path) == []
    assert [p.name for p in path.parent.iterdir()] == ["catalog.parquet"]


def test_files_that_are_no_catalogs_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "catalog.parquet"
    path.write_text("not parquet")
    with pytest.raises(CatalogError, match="not a Parquet file"):
        read_catalog(path)
    pq.write_table(pa.table({"id": ["a/b"]}), path)
    with pytest.raises(CatalogError, match="not a model catalog"):
        read_catalog(path)
    write_catalog(path, [])
    table = pq.read_table(path)
    pq.write_table(table.replace_schema_metadata({"model_zoo.catalog.schema": "99"}), path)
    with pytest.raises(CatalogError, match="schema 99"):
        read_catalog(path)
    with pytest.raises(FileNotFoundError):
        read_catalog(tmp_path / "none.parquet")


def test_a_catalog_of_the_first_schema_is_read(tmp_path: Path) -> None:
    path = tmp_path / "catalog.parquet"
    entry = CatalogEntry(id="a/b", revision="0" * 40, files=("model.safetensors",), dtype="F32", sizes=(4,))
    write_catalog(path, [entry])
    older = pq.read_table(path).drop_columns(["dtype", "config", "sizes"])
    pq.write_table(older.replace_schema_metadata({"model_zoo.catalog.schema": "1"}), path)
    assert read_catalog(path) == [dataclasses.replace(entry, dtype="", sizes=())]
    pq.write_table(older.replace_schema_metadata({"model_zoo.catalog.schema": "2"}), path)
    with pytest.raises(CatalogError, match="not a model catalog"):
        read_catalog(path)


def test_a_file_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    path = tmp_path / "catalog.parquet"

    def interrupted() -> None:
        with CatalogWriter(path) as writer:
            writer.write([CatalogEntry(id="a/b", revision="0" * 40)])
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        interrupted()
    assert [*tmp_path.iterdir()] == []


def test_a_later_column_is_ignored(tmp_path: Path) -> None:
    path = tmp_path / "catalog.parquet"
    entry = CatalogEntry(id="a/b", revision="0" * 40)
    write_catalog(path, [entry])
    table = pq.read_table(path)
    pq.write_table(
        table.append_column("mood", [["good"]]).replace_schema_metadata(table.schema.metadata), path
    )
    assert read_catalog(path) == [entry]


def test_a_snapshot_needs_no_torch(hand: MirrorServer) -> None:
    code = (
        "import sys; from model_zoo.catalog import snapshot\n"
        f"assert len(snapshot({hand.endpoint!r}, token=False)) == 6\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
