"""The cache: what is in use stays, what was not used for longest goes first, kills leave nothing behind."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from model_zoo.cache import ModelCache, NoRoomError
from model_zoo.digests import Digest, digest
from model_zoo.download import PART_SUFFIX, download, is_being_written
from model_zoo.fetch import FetchError, FetchReason, fetch, sweep_incomplete
from model_zoo.mirror import ALWAYS, Fault, MirrorServer
from tests.model_zoo.conftest import add_repository

SIZE = 1000


@pytest.fixture
def cache(tmp_path: Path) -> ModelCache:
    return ModelCache(tmp_path / "cache")


def keep(cache: ModelCache, number: int, *, size: int = SIZE, repo_id: str = "", used: float = 0.0) -> Path:
    """A snapshot of one file, last used at a time."""
    repo_id, commit = repo_id or f"acme/{number}", f"{number:040x}"
    content = cache.root.parent / "content"
    content.write_bytes(bytes([number]) * size)
    known = digest(content)
    cache.hold(repo_id, commit)
    cache.reserve(repo_id, commit, size)
    blob = cache.blob(repo_id, known)
    blob.parent.mkdir(parents=True, exist_ok=True)
    content.rename(blob)
    folder = cache.settle(repo_id, commit, {"sub/weights.txt": known})
    cache.let_go(repo_id, commit)
    lease = next((cache.root / ".fetched").rglob(f"{commit}.lease"))
    os.utime(lease, (used or number, used or number))
    return folder


def there(cache: ModelCache, number: int, repo_id: str = "") -> bool:
    return cache.complete(repo_id or f"acme/{number}", f"{number:040x}") is not None


def test_what_was_not_used_for_longest_goes_first(cache: ModelCache) -> None:
    for number in (1, 2, 3):
        keep(cache, number, used=10.0 - number)
    cache.hold("acme/new", "a" * 40)
    cache.reserve("acme/new", "a" * 40, SIZE, budget=3 * SIZE)
    assert [there(cache, number) for number in (1, 2, 3)] == [True, True, False]
    assert not cache.repository("acme/3").exists()


def test_what_is_in_use_stays_and_the_next_goes(cache: ModelCache) -> None:
    for number in (1, 2, 3):
        keep(cache, number)
    program = (
        "import sys; from pathlib import Path; from model_zoo.cache import ModelCache\n"
        f"ModelCache(Path({str(cache.root)!r})).hold('acme/1', '{1:040x}')\n"
        "print('held', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        lease = next((cache.root / ".fetched").rglob(f"{1:040x}.lease"))
        os.utime(lease, (1, 1))
        cache.hold("acme/new", "a" * 40)
        cache.reserve("acme/new", "a" * 40, SIZE, budget=3 * SIZE)
        assert [there(cache, number) for number in (1, 2, 3)] == [True, False, True]
        other.kill()
    cache.hold("acme/newer", "b" * 40)
    cache.reserve("acme/newer", "b" * 40, SIZE, budget=3 * SIZE)
    assert not there(cache, 1), "a process that was killed holds nothing"


def test_no_room_beside_what_is_in_use_is_waited_for_and_then_said(cache: ModelCache) -> None:
    keep(cache, 1)
    cache.hold("acme/1", f"{1:040x}")
    cache.hold("acme/new", "a" * 40)
    waits: list[float] = []
    with pytest.raises(NoRoomError, match="all in use"):
        cache.reserve("acme/new", "a" * 40, SIZE, budget=SIZE, patience=3, sleep=waits.append)
    assert waits == [1.0] * 3

    def let_go(_: float) -> None:
        cache.let_go("acme/1", f"{1:040x}")

    cache.reserve("acme/new", "a" * 40, SIZE, budget=SIZE, patience=3, sleep=let_go)
    assert not there(cache, 1)
    for repo_id in ("acme/new", "acme/1"):
        cache.let_go(repo_id, "a" * 40)


def test_a_running_download_counts_and_a_killed_one_goes(cache: ModelCache) -> None:
    cache.hold("acme/running", "a" * 40)
    cache.reserve("acme/running", "a" * 40, SIZE)
    cache.hold("acme/new", "b" * 40)
    with pytest.raises(NoRoomError):
        cache.reserve("acme/new", "b" * 40, 1, budget=SIZE, patience=0)
    blob = cache.blob("acme/running", Digest(1, "c" * 40))
    blob.parent.mkdir(parents=True)
    blob.with_name(blob.name + PART_SUFFIX).write_bytes(b"part")
    cache.let_go("acme/running", "a" * 40)  # As the end of its process does.
    cache.reserve("acme/new", "b" * 40, SIZE, budget=SIZE, patience=0)
    assert not cache.repository("acme/running").exists()
    cache.let_go("acme/new", "b" * 40)


def test_blobs_that_another_revision_uses_stay(cache: ModelCache) -> None:
    first = keep(cache, 1, repo_id="acme/same")
    keep(cache, 2, repo_id="acme/same")
    shared = {"sub/weights.txt": digest((first / "sub/weights.txt").resolve())}
    cache.hold("acme/same", f"{3:040x}")
    cache.settle("acme/same", f"{3:040x}", shared)
    cache.let_go("acme/same", f"{3:040x}")
    cache.hold("acme/new", "a" * 40)
    cache.reserve("acme/new", "a" * 40, SIZE, budget=2 * SIZE)
    cache.let_go("acme/new", "a" * 40)
    assert [there(cache, number, "acme/same") for number in (1, 2, 3)] == [False, False, True]
    assert len(list((cache.repository("acme/same") / "blobs").iterdir())) == 1


def test_fetching_keeps_to_its_budget(hand: MirrorServer, hand_dir: Path, tmp_path: Path) -> None:
    for name in ("one", "two"):
        add_repository(
            hand_dir, f"acme/{name}", {"config.json": {}, "model.safetensors": name.encode() * 300}
        )
    cache, options = tmp_path / "cache", {"token": False, "budget": 1000, "sleep": lambda _: None}
    first = fetch("acme/one", "main", cache, hand.endpoint, **options)
    second = fetch("acme/two", "main", cache, hand.endpoint, **options)
    assert (first.exists(), second.exists()) == (False, True)
    with pytest.raises(FetchError) as caught:
        fetch("acme/one", "main", cache, hand.endpoint, **{**options, "budget": 100})
    assert caught.value.reason == FetchReason.DISK


def test_two_processes_download_one_file_once(hand: MirrorServer, hand_dir: Path, tmp_path: Path) -> None:
    content = bytes(range(256)) * 1000
    add_repository(hand_dir, "acme/large", {"config.json": {}, "model.safetensors": content})
    hand.faults.add(Fault("model.safetensors", rate=10**6))
    program = (
        "from model_zoo.fetch import fetch\n"
        f"print(fetch('acme/large', 'main', {str(tmp_path / 'cache')!r}, {hand.endpoint!r}, token=False))"
    )
    running = [
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(2)
    ]
    said = [process.communicate(timeout=60)[0].strip() for process in running]
    assert said[0] == said[1]
    assert Path(said[0], "model.safetensors").read_bytes() == content
    assert len([r for r in hand.requests if "model.safetensors" in r.path]) == 1


def test_a_download_goes_on_where_a_killed_process_stopped(
    hand: MirrorServer, hand_dir: Path, tmp_path: Path
) -> None:
    content = bytes(range(256)) * 4
    add_repository(hand_dir, "acme/large", {"config.json": {}, "model.safetensors": content})
    hand.faults.add(Fault("model.safetensors", cut_after=700, times=ALWAYS))
    options = {"token": False, "sleep": lambda _: None}
    with pytest.raises(FetchError):
        fetch("acme/large", "main", tmp_path / "cache", hand.endpoint, attempts=1, **options)
    hand.faults.clear()
    folder = fetch("acme/large", "main", tmp_path / "cache", hand.endpoint, **options)
    assert (folder / "model.safetensors").read_bytes() == content
    assert [r.range for r in hand.requests if "model.safetensors" in r.path] == ["", "bytes=700-"]


def test_sweeping_beside_a_running_download_leaves_it_alone(hand: MirrorServer, tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"x" * 1000)
    add_repository(tmp_path / "hand", "acme/large", {"config.json": {}, "weights.txt": b"x" * 1000})
    target = tmp_path / "cache/models--acme--large/blobs/blob"
    hand.faults.add(Fault("weights.txt", rate=2000))
    url = f"{hand.endpoint}/acme/large/resolve/main/weights.txt"
    thread = threading.Thread(target=download, args=(url, target, digest(source)))
    thread.start()
    part = target.with_name(target.name + PART_SUFFIX)
    while not part.exists() or not is_being_written(part):
        time.sleep(0.005)
    os.utime(part, (1, 1))
    leftover = part.with_name("left" + PART_SUFFIX)
    leftover.write_bytes(b"12345")
    os.utime(leftover, (1, 1))
    assert sweep_incomplete(tmp_path / "cache") == 5
    thread.join()
    assert target.read_bytes() == b"x" * 1000
