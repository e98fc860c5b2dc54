"""Nights from a catalog: one of a class runs, its members follow it, and what did not change is kept."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import results
from harness.cli import main
from model_zoo.catalog import read_catalog, write_catalog
from model_zoo.mirror import MirrorServer
from results.layout import run_folders
from tests.harness.night import Night
from tests.harness.zoo import BERT, MEMBERS, OTHER, RESNET, build_zoo, snapshot

pytestmark = pytest.mark.nightly

ALL = {BERT, RESNET, *MEMBERS, OTHER}


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MirrorServer, Path, Path]]:
    """A server, a catalog of it, and a store."""
    base = tmp_path_factory.mktemp("zoo")
    build_zoo(base / "hub")
    with MirrorServer(base / "hub") as server:
        snapshot(server.endpoint, base / "hub.parquet")
        yield server, base / "hub.parquet", base / "store"


def run_night(zoo: tuple[MirrorServer, Path, Path], *arguments: str) -> tuple[int, str]:
    server, catalog, store = zoo
    options = ("--suites", "models", "--catalog", str(catalog), "--set", "always_run=0")
    return Night(store, server.endpoint, *options, *arguments).wait()


@pytest.fixture(scope="module")
def first(zoo: tuple[MirrorServer, Path, Path]) -> str:
    code, output = run_night(zoo)
    assert code == 0, output
    return output


@pytest.fixture(scope="module")
def second(zoo: tuple[MirrorServer, Path, Path], first: str) -> str:
    before = len(zoo[0].requests)
    code, output = run_night(zoo)
    assert code == 0, output
    assert [r.path for r in list(zoo[0].requests)[before:]] == []  # an unchanged night asks for nothing
    return output


def models(store: Path, run: int) -> dict[str, dict[str, object]]:
    with results.open(store) as reader:
        rows = reader.rows("v_models", run=run_folders(store)[run].name)
    return {row["model_id"]: row for row in rows}


def test_a_class_runs_once_and_every_result_says_its_evidence(
    zoo: tuple[MirrorServer, Path, Path], first: str
) -> None:
    found = models(zoo[2], 0)
    assert set(found) == ALL
    representative = found[BERT]
    assert {name for name, row in found.items() if row["evidence"] == "ran"} == {
        BERT,
        RESNET,
        OTHER,
    }
    for name in MEMBERS:
        row = found[name]
        assert (row["evidence"], row["evidence_from"]) == ("representative", representative["case_id"])
        for column in ("fetch", "load", "forward", "backward", "compile", "outcome", "device_calls"):
            assert row[column] == representative[column]
        assert row["device_calls"]
    assert "by 3 ran, 2 representative; downloads of 205 counted" in " ".join(first.split())
    with results.open(zoo[2]) as reader:
        stages = reader.rows("v_stages", run=run_folders(zoo[2])[0].name)
        told = {row["evidence"]: row["models"] for row in reader.rows("v_evidence")}
    evidence = [row["evidence"] for row in stages if row["case_id"].startswith(f"model::{MEMBERS[0]}@")]
    assert evidence == ["header", "header", "representative", "representative", "representative"]
    assert told == {"ran": 3, "representative": 2}


def test_no_weights_of_a_member_are_downloaded(zoo: tuple[MirrorServer, Path, Path], first: str) -> None:
    asked = [r for r in zoo[0].requests if "/resolve/" in r.path and r.path.endswith(".safetensors")]
    whole = {r.path for r in asked if r.method == "GET" and not r.range}
    for name in MEMBERS:
        assert not any(f"/{name}/" in path for path in whole)
        assert any(f"/{name}/" in r.path and r.range == "bytes=0-65535" for r in asked)
    assert any(BERT in path for path in whole)


def test_an_unchanged_night_runs_nothing_and_says_the_same(
    zoo: tuple[MirrorServer, Path, Path], first: str, second: str
) -> None:
    before, after = models(zoo[2], 0), models(zoo[2], 1)
    source = run_folders(zoo[2])[0].name
    same = (
        "outcome",
        "stage",
        "verdict",
        "forward",
        "compile",
        "device_calls",
        "fallback_ops",
        "device_share",
    )
    for name in ALL:
        assert {key: after[name][key] for key in same} == {key: before[name][key] for key in same}
    for name in (BERT, RESNET, OTHER):
        assert (after[name]["evidence"], after[name]["evidence_from"]) == ("cached", source)
    assert {after[name]["evidence"] for name in MEMBERS} == {"representative"}
    assert not list((run_folders(zoo[2])[1] / "events").glob("worker-*"))
    with results.open(zoo[2]) as reader:
        rows = reader.rows("v_completeness", run=run_folders(zoo[2])[1].name)
    assert rows[0]["complete"]


def test_fresh_runs_again_and_a_changed_model_is_not_taken_from_before(
    zoo: tuple[MirrorServer, Path, Path], second: str
) -> None:
    server, catalog, store = zoo
    code, output = run_night(zoo, "--fresh", "--model-filter", RESNET)
    assert code == 0, output
    assert models(store, -1)[RESNET]["evidence"] == "ran"
    config = server._server.directory.root / RESNET / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"problem_type": None}))
    snapshot(server.endpoint, catalog)
    code, output = run_night(zoo, "--model-filter", "mirror/*")
    assert code == 0, output
    found = models(store, -1)
    assert (found[RESNET]["evidence"], found[BERT]["evidence"]) == ("ran", "cached")


def test_another_seed_is_other_work(zoo: tuple[MirrorServer, Path, Path], second: str) -> None:
    code, output = run_night(zoo, "--model-filter", RESNET, "--set", "seed=1")
    assert code == 0, output
    assert models(zoo[2], -1)[RESNET]["evidence"] == "ran"


def test_classes_are_told_with_their_numbers(
    zoo: tuple[MirrorServer, Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    server, catalog, store = zoo
    command = ["zoo", "classes", str(catalog), "--store", str(store), "--hub", server.endpoint, "--quiet"]
    assert main([*command, "--always-run", "0", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert told["totals"]["models that run"] == 3
    assert told["totals"]["models that another stands for"] == 2
    assert (told["classes"][0]["models"], told["classes"][0]["representative"]) == (3, BERT)
    assert main([*command, "--always-run", "0"]) == 0
    assert "models that another stands for" in capsys.readouterr().out


def test_members_that_run_do_what_their_representative_does(zoo: tuple[MirrorServer, Path, Path]) -> None:
    server, catalog, store = zoo
    command = [sys.executable, "-m", "harness.cli", "zoo", "verify-classes", "--catalog", str(catalog)]
    command += ["--store", str(store), "--hub", server.endpoint, "--always-run", "0", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done
    rows = json.loads(done.stdout)
    assert {row["member"] for row in rows} == set(MEMBERS)
    assert all(row["agrees"] and row["op calls"] > 20 for row in rows)


def test_a_member_that_does_not_agree_is_told(zoo: tuple[MirrorServer, Path, Path], tmp_path: Path) -> None:
    server, catalog, store = zoo
    entries = [
        dataclasses.replace(entry, config="{}", architecture="Same", model_type="same", task="")
        for entry in read_catalog(catalog)
        if entry.id in (BERT, OTHER)
    ]
    false = tmp_path / "false.parquet"
    write_catalog(false, entries)  # as if the activation were taken to be irrelevant
    command = [sys.executable, "-m", "harness.cli", "zoo", "verify-classes", "--catalog", str(false)]
    command += ["--store", str(store), "--hub", server.endpoint, "--always-run", "0", "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done
    (row,) = json.loads(done.stdout)
    assert row["agrees"] is False
    assert any("relu" in op for op in row["op calls that differ"])


def test_a_store_rebuilt_from_its_logs_keeps_the_evidence(
    zoo: tuple[MirrorServer, Path, Path], second: str
) -> None:
    before = [models(zoo[2], run) for run in (0, 1)]
    assert main(["ingest", "--rebuild", "--store", str(zoo[2])]) == 0
    assert [models(zoo[2], run) for run in (0, 1)] == before


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (
            ["nightly", "--catalog", "none.parquet"],
            "there is no catalog none.parquet; `harness zoo",
        ),
        (["zoo", "classes", "none.parquet"], "there is no catalog none.parquet"),
        (["zoo", "diff", "none.parquet", "b"], "there is no catalog none.parquet"),
        (["zoo", "snapshot", "--out", "."], "is a folder"),
    ],
)
def test_what_is_no_catalog_is_one_sentence(
    arguments: list[str], sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "harness.cli", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2, done
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
