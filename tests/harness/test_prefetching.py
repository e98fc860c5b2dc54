"""Models are in the cache before their worker asks, and no more of them than wanted."""

from __future__ import annotations

import json
import multiprocessing
import time
from pathlib import Path
from typing import Any

import pytest

from harness.job import ModelSettings
from harness.prefetching import prefetch
from model_zoo.cache import ModelCache
from model_zoo.mirror import MirrorServer


@pytest.fixture
def mirror(tmp_path: Path) -> Any:
    for number in range(4):
        folder = tmp_path / f"hub/acme/m{number}"
        folder.mkdir(parents=True)
        config = {"model_type": "bert", "architectures": ["BertModel"]}
        (folder / "config.json").write_text(json.dumps(config))
        (folder / "model.safetensors").write_bytes(b"\2\0\0\0\0\0\0\0{}")
        (folder / "note.json").write_text(str(number))
    (tmp_path / "hub/acme/m1/model.safetensors").rename(tmp_path / "hub/acme/m1/model.gguf")
    with MirrorServer(tmp_path / "hub") as server:
        yield server


def specs_of(server: MirrorServer) -> list[dict[str, str]]:
    repos = server._server.directory.all()
    return [{"repo_id": repo.id, "revision": repo.sha} for repo in repos]


def test_a_few_are_fetched_ahead_and_the_next_when_one_is_used(mirror: MirrorServer, tmp_path: Path) -> None:
    settings = ModelSettings(endpoint=mirror.endpoint, cache=tmp_path / "cache", max_bytes=0, seed=0)
    cache, specs = ModelCache(settings.cache), specs_of(mirror)
    seen: list[list[bool]] = []

    def whole() -> list[bool]:
        return [cache.complete(spec["repo_id"], spec["revision"]) is not None for spec in specs]

    def look(_: float) -> None:
        seen.append(whole())
        time.sleep(0.01)  # so that the next use has another time
        used = multiprocessing.get_context("fork").Process(
            target=cache.hold, args=(specs[0]["repo_id"], specs[0]["revision"])
        )
        used.start()
        used.join()

    prefetch(specs, settings, 2, look)
    assert seen == [[True, False, True, False]], "m1 has no weights; its worker says so"
    assert whole() == [True, False, True, True]
    asked = len(mirror.requests)
    prefetch(specs[:1], settings, 2, look)
    assert len(mirror.requests) == asked
