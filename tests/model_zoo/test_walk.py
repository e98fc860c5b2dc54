"""A snapshot through the real client: whole, resumable, counted, and safe from listings that lie."""

from __future__ import annotations

import dataclasses
import shutil
from pathlib import Path
from typing import Any

import pytest

from model_zoo import pages, walk
from model_zoo.catalog import CatalogError, about_catalog, read_catalog, snapshot
from model_zoo.classes import class_key
from model_zoo.mirror import Fault, MirrorServer
from model_zoo.mirror.faults import ALWAYS
from model_zoo.walk import Wanted, take_snapshot
from tests.model_zoo.conftest import add_repository, tensor_file

ALL = ["acme/beta", "acme/gated", "acme/alpha", "solo", "other/gamma", "other/onnx"]


def take(server: MirrorServer, out: Path, attempts: int = 1, **wanted: Any) -> list[str]:
    take_snapshot(Wanted(endpoint=server.endpoint, **wanted), out, token=False, attempts=attempts)
    return [entry.id for entry in read_catalog(out)]


def cut_short(server: MirrorServer, out: Path, after: int, **wanted: Any) -> None:
    """A walk in which the Hub breaks down after so many models."""

    def break_down(sentence: str) -> None:
        if sentence == f"{after} models listed":
            server.faults.add(Fault("/api/models", status=503))

    with pytest.raises(OSError, match="503"):
        take_snapshot(
            Wanted(endpoint=server.endpoint, **wanted), out, token=False, attempts=1, say=break_down
        )
    assert not out.exists()


def test_a_snapshot_is_the_listing_with_configuration_and_sizes(hand: MirrorServer, tmp_path: Path) -> None:
    out = tmp_path / "hub.parquet"
    assert take(hand, out) == ALL
    entries = {entry.id: entry for entry in read_catalog(out)}
    listed = {entry.id: entry for entry in snapshot(hand.endpoint, token=False)}
    for name, entry in entries.items():
        assert dataclasses.replace(entry, config="", sizes=()) == listed[name]
    alpha = entries["acme/alpha"]
    assert alpha.sizes == (len(tensor_file(10)),)
    assert alpha.config == "{}"  # type and architecture are no part of it
    assert len(alpha.config_hash) == 64
    assert class_key(alpha) == class_key(dataclasses.replace(alpha, id="other"))
    assert entries["acme/gated"].config == ""
    about = about_catalog(out)
    assert (about.hub, about.selection) == (hand.endpoint, "all models")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["hand", "hub.parquet"]


@pytest.mark.parametrize("top", [1, 2, 3, 5, 6, 7])
def test_top_is_exact_whatever_the_pages(hand: MirrorServer, tmp_path: Path, top: int) -> None:
    assert take(hand, tmp_path / "hub.parquet", top=top, details=False) == ALL[:top]


@pytest.mark.parametrize(
    ("share", "models"), [(0.1, 1), (70 / 181, 1), (0.4, 2), (0.99, 3), (0.996, 4), (1.0, 4)]
)
def test_a_share_is_of_all_downloads_counted(
    hand: MirrorServer, tmp_path: Path, share: float, models: int
) -> None:
    out = tmp_path / "hub.parquet"
    assert take(hand, out, share=share, details=False) == ALL[:models]
    assert about_catalog(out).hub_downloads == 70 + 60 + 50 + 1


def test_a_walk_goes_on_where_it_was_cut_short(hand: MirrorServer, tmp_path: Path) -> None:
    out = tmp_path / "hub.parquet"
    cut_short(hand, out, 4)
    before = len(hand.requests)
    assert take(hand, out) == ALL
    asked = [request.path for request in list(hand.requests)[before:]]
    assert sum("/api/models?" in path for path in asked) == 1
    assert not any("acme/" in path for path in asked)  # the pages before are kept, details and all
    assert not out.with_name("hub.parquet.part").exists()


def test_a_busy_hub_is_asked_again(hand: MirrorServer, tmp_path: Path) -> None:
    for path in ("/api/models", "/resolve/", "/paths-info/"):
        hand.faults.add(Fault(path, status=429, headers={"Retry-After": "0"}))
    assert take(hand, tmp_path / "hub.parquet", attempts=3) == ALL


def test_other_options_do_not_go_on_with_a_walk(hand: MirrorServer, tmp_path: Path) -> None:
    out = tmp_path / "hub.parquet"
    cut_short(hand, out, 2, details=False)
    with pytest.raises(CatalogError, match=r"beginning of another snapshot .all models, listing only"):
        take(hand, out, top=3, details=False)
    shutil.rmtree(tmp_path / "hub.parquet.part")
    assert take(hand, out, top=3, details=False) == ALL[:3]


def test_a_second_snapshot_asks_only_for_what_changed(hand: MirrorServer, tmp_path: Path) -> None:
    out = tmp_path / "hub.parquet"
    take(hand, out)
    config = {"model_type": "bert", "architectures": ["BertModel"], "hidden_size": 8}
    add_repository(tmp_path / "hand", "solo", {"config.json": config})
    before = len(hand.requests)
    take(hand, out)
    asked = [r.path for r in list(hand.requests)[before:] if "/api/models?" not in r.path]
    assert {path for path in asked if "solo" not in path and "gated" not in path} == set()
    solo = {entry.id: entry for entry in read_catalog(out)}["solo"]
    assert solo.config == '{"hidden_size":8}'


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_an_endless_listing_is_refused(hand: MirrorServer, tmp_path: Path, share: float) -> None:
    hand.faults.add(Fault("/api/models", endless=True, times=ALWAYS))
    with pytest.raises(CatalogError, match="repeats itself after 2 models"):
        take(hand, tmp_path / "hub.parquet", share=share, details=False)


def test_a_server_that_is_no_hub_is_refused(
    hand: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(walk, "first_page", lambda *_: hand.endpoint + "/")
    with pytest.raises(CatalogError, match="is it a Hub"):
        take(hand, tmp_path / "hub.parquet")
    monkeypatch.undo()
    monkeypatch.setattr(pages, "LARGEST_PAGE", 10)
    with pytest.raises(CatalogError, match="larger than 10 bytes"):
        take(hand, tmp_path / "hub.parquet")


@pytest.mark.parametrize("following", ["https://elsewhere.example/api/models?cursor=2", "//evil.example/x"])
def test_a_listing_leads_to_no_other_host(following: str) -> None:
    with pytest.raises(CatalogError, match="another host"):
        pages._checked("https://huggingface.co/api/models?limit=2", following)


def test_what_cannot_be_described_is_left_out_and_said(
    hand: MirrorServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from model_zoo.mirror import documents

    def nonsense(repo: Any, **options: Any) -> dict[str, Any]:
        known = real(repo, **options)
        return known | {"config": {"architectures": 7}} if repo.id == "solo" else known

    real, said = documents.properties, []
    monkeypatch.setattr(documents, "properties", nonsense)
    out = tmp_path / "hub.parquet"
    take_snapshot(Wanted(endpoint=hand.endpoint, details=False), out, token=False, say=said.append)
    assert [entry.id for entry in read_catalog(out)] == [name for name in ALL if name != "solo"]
    assert any(sentence.startswith("solo is left out") for sentence in said)


def test_a_damaged_state_says_what_to_do(hand: MirrorServer, tmp_path: Path) -> None:
    out = tmp_path / "hub.parquet"
    parts = out.with_name("hub.parquet.part")
    parts.mkdir()
    (parts / "state.json").write_text("{")
    with pytest.raises(CatalogError, match=r"damaged: delete .*part to begin again"):
        take(hand, out)
