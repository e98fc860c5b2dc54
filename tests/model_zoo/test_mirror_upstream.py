"""A mirror of a mirror: fetched once, kept by commit, and never half-written."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download, snapshot_download
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError

from model_zoo.download import PART_SUFFIX
from model_zoo.mirror import ALWAYS, Fault, MirrorServer, Upstream, named_fault
from model_zoo.mirror.upstream import KEPT
from tests.model_zoo.conftest import TOKEN, add_repository
from tests.model_zoo.test_mirror_http import WEIGHTS, ask

OFTEN = 4
"""Attempts of the mirror under test."""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "near"
    folder.mkdir()
    return folder


@pytest.fixture
def near(root: Path, hand: MirrorServer) -> Iterator[MirrorServer]:
    """A mirror with nothing of its own, in front of ``hand``."""
    upstream = Upstream(root, hand.endpoint, sleep=lambda _: None, attempts=OFTEN, fresh=0.0)
    with MirrorServer(root, upstream=upstream) as server:
        yield server


def blobs(root: Path) -> list[str]:
    return sorted(path.name for path in root.glob(f"{KEPT}/*/blobs/*"))


def test_the_real_client_gets_through_it_what_the_upstream_has(
    near: MirrorServer, hand: MirrorServer, hand_dir: Path, tmp_path: Path
) -> None:
    far, api = HfApi(endpoint=hand.endpoint, token=False), HfApi(endpoint=near.endpoint, token=False)
    assert [m.id for m in api.list_models(sort="downloads")] == [
        m.id for m in far.list_models(sort="downloads")
    ]
    assert len([r for r in near.requests if r.path.startswith("/api/models?")]) == 3, "pages stay pages"
    ours, theirs = (a.model_info("acme/alpha", files_metadata=True) for a in (api, far))
    assert (ours.sha, ours.siblings, ours.tags, ours.safetensors) == (
        theirs.sha,
        theirs.siblings,
        theirs.tags,
        theirs.safetensors,
    )
    folder = snapshot_download("acme/alpha", endpoint=near.endpoint, cache_dir=tmp_path / "c", token=False)
    for name in ("config.json", "model.safetensors", "sub/deep/note.json"):
        assert Path(folder, name).read_bytes() == (hand_dir / "acme/alpha" / name).read_bytes()
    assert api.model_info("solo").sha == far.model_info("solo").sha
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/nothing")


def test_what_was_fetched_is_served_without_the_upstream(hand_dir: Path, root: Path, tmp_path: Path) -> None:
    with MirrorServer(hand_dir) as far:
        upstream = Upstream(root, far.endpoint, sleep=lambda _: None, fresh=0.0)
        with MirrorServer(root, upstream=upstream) as near:
            first = snapshot_download(
                "acme/alpha", endpoint=near.endpoint, cache_dir=tmp_path / "a", token=False
            )
    again = Upstream(root, far.endpoint, sleep=lambda _: None, attempts=1)
    with MirrorServer(root, upstream=again) as near:
        second = snapshot_download(
            "acme/alpha", endpoint=near.endpoint, cache_dir=tmp_path / "b", token=False
        )
        assert Path(first).name == Path(second).name
        assert Path(second, "model.safetensors").read_bytes() == Path(first, "model.safetensors").read_bytes()
        assert [model.id for model in HfApi(endpoint=near.endpoint, token=False).list_models()] == [
            "acme/alpha"
        ]
        status, headers, _ = ask(near, "/api/models/acme/beta")
        assert status == 502
        assert "cannot be reached" in headers["x-error-message"]


def test_a_commit_that_is_kept_costs_no_request(near: MirrorServer, hand: MirrorServer) -> None:
    sha = HfApi(endpoint=near.endpoint, token=False).model_info("acme/alpha").sha
    weights = WEIGHTS.replace("main", str(sha))
    assert ask(near, weights)[0] == 200
    asked = len(hand.requests)
    assert ask(near, weights, Range="bytes=2-4")[0] == 206
    assert ask(near, f"/api/models/acme/alpha/tree/{sha}")[0] == 200
    assert len(hand.requests) == asked


def test_both_commits_are_kept_when_the_upstream_moves_on(
    near: MirrorServer, hand_dir: Path, root: Path
) -> None:
    old, old_body = ask(near, WEIGHTS)[1]["x-repo-commit"], ask(near, WEIGHTS)[2]
    add_repository(hand_dir, "acme/alpha", {"model.safetensors": b"another"})
    _, headers, body = ask(near, WEIGHTS)
    assert (headers["x-repo-commit"] == old, body) == (False, b"another")
    assert ask(near, WEIGHTS.replace("main", old))[2] == old_body
    assert len(blobs(root)) == 2


def test_many_who_ask_at_once_cost_one_download(
    near: MirrorServer, hand: MirrorServer, hand_dir: Path
) -> None:
    content = bytes(range(256)) * 1200
    add_repository(hand_dir, "acme/large", {"config.json": {}, "model.safetensors": content})
    hand.faults.add(Fault("large/resolve", rate=10**6))
    bodies: list[bytes] = []
    path = "/acme/large/resolve/main/model.safetensors"
    threads = [threading.Thread(target=lambda: bodies.append(ask(near, path)[2])) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bodies == [content] * 8
    assert len([request for request in hand.requests if "/resolve/" in request.path]) == 1


@pytest.mark.parametrize(
    "fault",
    [
        Fault("/resolve/", cut_after=3, times=ALWAYS),
        Fault("/resolve/", garble=True, times=ALWAYS),
        Fault("/resolve/", status=503, times=ALWAYS),
        Fault("/resolve/", drop=True, times=ALWAYS),
    ],
    ids=["truncate", "garble", "unavailable", "drop"],
)
def test_an_upstream_that_fails_leaves_nothing_that_is_served(
    near: MirrorServer, hand: MirrorServer, hand_dir: Path, root: Path, fault: Fault, tmp_path: Path
) -> None:
    config = "/acme/alpha/resolve/main/config.json"
    hand.faults.add(fault)
    try:
        status, _, body = ask(near, config)
    except OSError:
        status, body = 0, b""
    except Exception as error:  # noqa: BLE001 - http.client's own for a body that was cut short
        status, body = 0, error.partial  # type: ignore[attr-defined]
    assert status in (0, 502)
    assert body != (hand_dir / "acme/alpha/config.json").read_bytes()
    assert [name for name in blobs(root) if not name.endswith(PART_SUFFIX)] == []
    hand.faults.clear()
    assert ask(near, config)[2] == (hand_dir / "acme/alpha/config.json").read_bytes()
    assert len(blobs(root)) == 1, "the part became the file"


def test_an_upstream_that_breaks_off_is_resumed_where_it_stopped(
    near: MirrorServer, hand: MirrorServer, hand_dir: Path
) -> None:
    hand.faults.add(Fault("/resolve/", cut_after=7))
    body = ask(near, WEIGHTS)[2]
    assert body == (hand_dir / "acme/alpha/model.safetensors").read_bytes()
    assert [r.range for r in hand.requests if "/resolve/" in r.path] == ["", "bytes=7-"]


def test_a_busy_upstream_is_asked_again_and_a_refusing_one_is_passed_on(
    near: MirrorServer, hand: MirrorServer
) -> None:
    hand.faults.add(named_fault("rate-limit", {"times": OFTEN - 1, "path": "/revision/"}))
    assert ask(near, "/api/models/acme/alpha")[0] == 200
    hand.faults.add(named_fault("error", {"times": OFTEN, "path": "/revision/"}))
    assert ask(near, "/api/models/acme/beta")[0] == 500
    assert ask(near, "/api/models/acme/alpha/revision/v9")[1]["x-error-code"] == "RevisionNotFound"


def test_gated_files_are_for_those_whom_the_upstream_granted(
    near: MirrorServer, hand: MirrorServer, root: Path, tmp_path: Path
) -> None:
    where = {"endpoint": near.endpoint, "cache_dir": tmp_path}
    hf_hub_download("acme/gated", "config.json", token=TOKEN, **where)
    for token in (False, "hf_stranger"):
        with pytest.raises(GatedRepoError):
            hf_hub_download("acme/gated", "model.safetensors", token=token, **where)
    kept = b"".join(path.read_bytes() for path in root.rglob("*.json"))
    assert TOKEN.encode() not in kept
    hand.faults.add(Fault(drop=True, times=ALWAYS))
    sha = ask(near, "/acme/gated/resolve/main/config.json", Authorization=f"Bearer {TOKEN}")[1][
        "x-repo-commit"
    ]
    assert ask(near, f"/acme/gated/resolve/{sha}/config.json")[0] == 401


def test_a_private_model_is_seen_by_whom_the_upstream_granted_even_without_it(
    near: MirrorServer, hand: MirrorServer, hand_dir: Path
) -> None:
    add_repository(hand_dir, "acme/secret", {"config.json": {"a": 1}}, private=True, granted=[TOKEN])
    owner, stranger = (HfApi(endpoint=near.endpoint, token=token) for token in (TOKEN, "hf_stranger"))
    assert owner.model_info("acme/secret").private
    hand.faults.add(Fault(drop=True, times=ALWAYS))
    assert [model.id for model in owner.list_models()] == ["acme/secret"]
    assert [model.id for model in stranger.list_models()] == []
    with pytest.raises(RepositoryNotFoundError):
        stranger.model_info("acme/secret")


def test_what_the_directory_has_itself_goes_first(near: MirrorServer, root: Path, hand: MirrorServer) -> None:
    add_repository(root, "acme/alpha", {"config.json": {"model_type": "own"}})
    assert b"own" in ask(near, "/acme/alpha/resolve/main/config.json")[2]
    assert list(hand.requests) == []


def test_a_repository_with_names_that_lead_outside_is_refused(
    near: MirrorServer, hand: MirrorServer, root: Path
) -> None:
    info = json.loads(ask(hand, "/api/models/acme/alpha?blobs=true")[2])
    for entry in info["siblings"]:
        entry["rfilename"] = "../../../" + entry["rfilename"]
    hand.faults.add(Fault("/revision/", body=json.dumps(info).encode()))
    before = set(root.parent.rglob("*"))
    status, headers, _ = ask(near, "/acme/alpha/resolve/main/%2e%2e/%2e%2e/%2e%2e/config.json")
    assert (status, "leave its folder" in headers["x-error-message"]) == (502, True)
    assert set(root.parent.rglob("*")) == before


def test_a_description_without_hashes_is_refused(near: MirrorServer, hand: MirrorServer) -> None:
    sha = "a" * 40
    for siblings in ('[{"rfilename": "x"}]', '[{"rfilename": "x", "size": 1, "blobId": "../../x"}]'):
        body = f'{{"id": "acme/alpha", "sha": "{sha}", "siblings": {siblings}}}'
        hand.faults.add(Fault("/revision/", body=body.encode()))
        assert ask(near, "/api/models/acme/alpha")[0] == 502
    for repo_id in ("..", "../../acme/alpha", ""):
        hand.faults.add(Fault("/revision/", body=json.dumps({"id": repo_id, "sha": sha}).encode()))
        assert ask(near, "/api/models/acme/alpha")[0] == 502
    hand.faults.add(Fault("/revision/", body=b'{"id": "acme/alpha"}'))
    with pytest.raises(HfHubHTTPError):
        HfApi(endpoint=near.endpoint, token=False).model_info("acme/alpha")
