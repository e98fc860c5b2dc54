"""Fetching through the mirror with the real client: whole, or a named reason."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from huggingface_hub import hf_hub_download

from model_zoo import cache as cache_module
from model_zoo import fetch as fetch_module
from model_zoo.fetch import FetchError, FetchReason, fetch, sweep_incomplete, wanted_files
from model_zoo.mirror import Fault, MirrorServer
from tests.model_zoo.conftest import TOKEN, add_repository, tensor_file


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    return tmp_path / "cache"


def reason_of(server: MirrorServer, repo_id: str, cache: Path, revision: str = "main", **more: object) -> str:
    with pytest.raises(FetchError) as caught:
        fetch(repo_id, revision, cache, server.endpoint, token=False, **more)  # type: ignore[arg-type]
    message = str(caught.value)
    assert message.endswith(".")
    assert "\n" not in message
    return caught.value.reason


def test_a_fetched_folder_holds_configuration_and_weights(
    hand: MirrorServer, hand_dir: Path, cache: Path
) -> None:
    folder = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    assert (folder / "model.safetensors").read_bytes() == (
        hand_dir / "acme/alpha/model.safetensors"
    ).read_bytes()
    assert (folder / "sub/deep/note.json").is_file()
    assert len(folder.name) == 40
    assert folder.is_relative_to(cache)


def test_a_pinned_revision_is_fetched_once_and_then_costs_no_request(hand_dir: Path, cache: Path) -> None:
    with MirrorServer(hand_dir) as server:
        folder = fetch("acme/alpha", "main", cache, server.endpoint, token=False)
        asked = len(server.requests)
        assert fetch("acme/alpha", folder.name, cache, server.endpoint, token=False) == folder
        assert len(server.requests) == asked
        assert fetch("acme/alpha", "main", cache, server.endpoint, token=False) == folder
        assert len(server.requests) == asked + 1, "a name costs one look-up"
    assert fetch("acme/alpha", folder.name, cache, server.endpoint, token=False) == folder


def test_pickles_are_fetched_only_where_there_is_nothing_else(
    hand: MirrorServer, hand_dir: Path, cache: Path
) -> None:
    add_repository(hand_dir, "acme/alpha", {"pytorch_model.bin": b"pickled", "model.onnx": b"x"})
    both = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    assert not (both / "pytorch_model.bin").exists()
    only = fetch("acme/beta", "main", cache, hand.endpoint, token=False)
    assert (only / "pytorch_model.bin").read_bytes() == b"pickled"


@pytest.mark.parametrize(
    ("names", "weights"),
    [
        (["model.safetensors", "consolidated.safetensors", "fp16/model.safetensors"], ["model.safetensors"]),
        (
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors", "pytorch_model.bin"],
            ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"],
        ),
        (["unet/weights.safetensors"], ["unet/weights.safetensors"]),
        (["pytorch_model.bin", "training_args.bin"], ["pytorch_model.bin"]),
        (["training_args.bin", "model.onnx"], []),
    ],
)
def test_which_weights_are_wanted(names: list[str], weights: list[str]) -> None:
    chosen = wanted_files(dict.fromkeys([*names, "config.json"], 1))
    assert chosen == (sorted(["config.json", *weights]) if weights else [])


def test_file_names_are_no_patterns(hand: MirrorServer, hand_dir: Path, cache: Path) -> None:
    add_repository(hand_dir, "acme/alpha", {"odd[1].json": {}, "odd1.json": {}})
    folder = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    assert (folder / "odd[1].json").is_file()


def test_reasons(hand: MirrorServer, cache: Path) -> None:
    assert reason_of(hand, "acme/nothing", cache) == FetchReason.NOT_FOUND
    assert reason_of(hand, "not an id", cache) == FetchReason.NOT_FOUND
    assert reason_of(hand, "acme/alpha", cache, "v9") == FetchReason.REVISION_NOT_FOUND
    assert reason_of(hand, "acme/alpha", cache, "a" * 40) == FetchReason.REVISION_NOT_FOUND
    assert reason_of(hand, "acme/gated", cache) == FetchReason.GATED
    assert reason_of(hand, "other/onnx", cache) == FetchReason.NO_WEIGHTS
    assert reason_of(hand, "acme/alpha", cache, max_bytes=10) == FetchReason.TOO_LARGE
    assert not list(cache.glob("models--*/snapshots/*/*.safetensors"))


def test_a_granted_token_fetches_and_a_stranger_does_not(hand: MirrorServer, cache: Path) -> None:
    with pytest.raises(FetchError) as caught:
        fetch("acme/gated", "main", cache, hand.endpoint, token="hf_stranger")
    assert caught.value.reason == FetchReason.GATED
    assert fetch("acme/gated", "main", cache, hand.endpoint, token=TOKEN).is_dir()


@pytest.mark.parametrize(
    ("status", "reason"), [(429, "rate_limited"), (503, "server_error"), (500, "server_error")]
)
def test_a_failing_hub_is_told_apart(hand: MirrorServer, cache: Path, status: int, reason: str) -> None:
    hand.faults.add(Fault("/revision/", status=status, times=99))
    assert reason_of(hand, "acme/alpha", cache, attempts=1) == reason


@pytest.mark.parametrize(
    ("headers", "reason"),
    [
        ({"X-Error-Message": "Access to this resource is disabled."}, "disabled"),
        ({"X-Error-Message": "Invalid credentials in Authorization header"}, "unauthorized"),
    ],
)
def test_a_refusing_hub_is_told_apart(
    hand: MirrorServer, cache: Path, headers: dict[str, str], reason: str
) -> None:
    hand.faults.add(Fault("/revision/", status=401, times=9, headers=headers))
    assert reason_of(hand, "acme/alpha", cache) == reason


def test_a_hub_that_recovers_is_asked_again_when_it_says(hand: MirrorServer, cache: Path) -> None:
    waits: list[float] = []
    for path in ("/revision/", "/tree/", "/resolve/"):
        hand.faults.add(Fault(path, status=429, times=2, headers={"Retry-After": "7"}))
    assert fetch("solo", "main", cache, hand.endpoint, token=False, sleep=waits.append).is_dir()
    assert waits == [7.0] * 6
    for path in ("/revision/", "/tree/"):
        assert len([r for r in hand.requests if path in r.path]) == 3


def test_an_hour_is_not_waited_for(hand: MirrorServer, cache: Path) -> None:
    waits: list[float] = []
    for path in ("/tree/", "/resolve/"):
        hand.faults.add(Fault(path, status=429, headers={"Retry-After": "3600"}))
        assert reason_of(hand, "solo", cache, sleep=waits.append) == FetchReason.RATE_LIMITED
    assert waits == []


def test_no_server_is_offline(cache: Path, hand_dir: Path) -> None:
    with MirrorServer(hand_dir) as server:
        pass  # Its port is free again: nobody listens there.
    assert reason_of(server, "acme/alpha", cache, attempts=1) == FetchReason.OFFLINE


def test_a_partial_cache_is_completed_not_believed(hand: MirrorServer, cache: Path) -> None:
    folder = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    (folder / "model.safetensors").unlink()
    assert fetch("acme/alpha", folder.name, cache, hand.endpoint, token=False) == folder
    assert (folder / "model.safetensors").is_file()


def test_one_cached_file_of_a_gated_repository_is_not_a_success(hand: MirrorServer, cache: Path) -> None:
    """``snapshot_download`` was seen to return such a folder."""
    one = hf_hub_download("acme/gated", "config.json", endpoint=hand.endpoint, cache_dir=cache, token=TOKEN)
    commit = Path(one).parent.name
    assert reason_of(hand, "acme/gated", cache, commit) == FetchReason.GATED
    hand.faults.add(Fault("/tree/", status=403, times=9))
    assert reason_of(hand, "acme/gated", cache, commit) == FetchReason.UNAUTHORIZED


def test_a_listing_that_fails_once_is_repeated(hand: MirrorServer, cache: Path) -> None:
    hand.faults.add(Fault("/tree/", status=503, headers={"Retry-After": "0"}))
    assert fetch("acme/alpha", "main", cache, hand.endpoint, token=False).is_dir()
    assert len([request for request in hand.requests if "/tree/" in request.path]) >= 2


@pytest.mark.parametrize("damage", [lambda body: body[:-1], lambda body: b"x" + body[1:]])
def test_a_damaged_file_is_fetched_again_not_believed(
    hand: MirrorServer, cache: Path, damage: Callable[[bytes], bytes]
) -> None:
    # The client believes a cached file of any size and content.
    folder = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    blob = (folder / "model.safetensors").resolve()
    whole = blob.read_bytes()
    blob.write_bytes(damage(whole))
    os.utime(blob, ns=(1, 1))
    assert fetch("acme/alpha", folder.name, cache, hand.endpoint, token=False) == folder
    assert blob.read_bytes() == whole


def test_a_file_that_was_only_touched_is_hashed_and_believed(hand: MirrorServer, cache: Path) -> None:
    folder = fetch("acme/alpha", "main", cache, hand.endpoint, token=False)
    os.utime((folder / "model.safetensors").resolve(), ns=(1, 1))
    asked = len(hand.requests)
    assert fetch("acme/alpha", folder.name, cache, hand.endpoint, token=False) == folder
    assert len(hand.requests) == asked


def test_a_full_disk_is_named(hand: MirrorServer, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 5}))
    assert reason_of(hand, "acme/alpha", cache, sleep=lambda _: None) == FetchReason.DISK


def test_a_disk_that_fills_up_while_writing_is_named(
    hand: MirrorServer, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import errno

    def full(*_: object, **__: object) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(fetch_module, "download", full)
    assert reason_of(hand, "acme/alpha", cache) == FetchReason.DISK


def test_leftovers_of_killed_downloads_are_swept(cache: Path) -> None:
    blobs = cache / "models--acme--alpha/blobs"
    blobs.mkdir(parents=True)
    for name, age in (("old.incomplete", 7200), ("young.incomplete", 5), ("whole", 7200)):
        (blobs / name).write_bytes(b"12345")
        os.utime(blobs / name, (time.time() - age,) * 2)
    assert sweep_incomplete(cache) == 5
    assert sorted(path.name for path in blobs.iterdir()) == ["whole", "young.incomplete"]


def test_nothing_is_written_outside_the_cache_and_no_torch_is_imported(
    hand: MirrorServer, tmp_path: Path, cache: Path
) -> None:
    home = tmp_path / "home"
    code = (
        "import sys; from model_zoo.fetch import fetch\n"
        f"fetch('acme/alpha', 'main', {str(cache)!r}, {hand.endpoint!r})\n"
        "assert 'torch' not in sys.modules"
    )
    environment = {
        **os.environ,
        "HOME": str(home),
        "HF_HOME": str(home / "hf"),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", code], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert [path for path in home.rglob("*") if path.is_file()] == []


def test_shards_are_fetched_with_their_index(hand: MirrorServer, hand_dir: Path, cache: Path) -> None:
    files = {f"model-0000{n}-of-00002.safetensors": tensor_file(4, n) for n in (1, 2)}
    add_repository(hand_dir, "acme/sharded", {**files, "config.json": {}, "model.safetensors.index.json": {}})
    folder = fetch("acme/sharded", "main", cache, hand.endpoint, token=False)
    assert sorted(path.name for path in folder.iterdir()) == sorted(
        [*files, "config.json", "model.safetensors.index.json"]
    )
