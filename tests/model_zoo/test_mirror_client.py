"""The mirror against the real client: what ``huggingface_hub`` asks, the mirror answers as the Hub does."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from huggingface_hub import HfApi, get_hf_file_metadata, hf_hub_download, hf_hub_url, snapshot_download
from huggingface_hub.errors import (
    EntryNotFoundError,
    GatedRepoError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from model_zoo.mirror import Fault, MirrorServer
from tests.model_zoo.conftest import TOKEN, add_repository, tensor_file


@pytest.fixture
def api(hand: MirrorServer) -> HfApi:
    return HfApi(endpoint=hand.endpoint, token=False)


def ids(models: object) -> list[str]:
    return [model.id for model in models]  # type: ignore[attr-defined]


def test_listing_is_sorted_by_downloads_over_all_pages(api: HfApi) -> None:
    listed = ids(api.list_models(sort="downloads"))
    assert listed == ["acme/beta", "acme/gated", "acme/alpha", "solo", "other/gamma", "other/onnx"]


def test_limit_stops_the_listing_inside_a_page(api: HfApi) -> None:
    assert ids(api.list_models(sort="downloads", limit=3)) == ["acme/beta", "acme/gated", "acme/alpha"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({"author": "other"}, ["other/gamma", "other/onnx"]),
        ({"search": "ALPH"}, ["acme/alpha"]),
        ({"pipeline_tag": "fill-mask"}, ["acme/alpha"]),
        ({"filter": ["transformers", "bert", "en"]}, ["acme/alpha"]),
        ({"filter": "onnx"}, ["other/onnx"]),
        ({"gated": True}, ["acme/gated"]),
        ({"gated": False, "author": "acme"}, ["acme/alpha", "acme/beta"]),
        ({"num_parameters": "min:4,max:9"}, ["solo"]),
        ({"author": "nobody"}, []),
    ],
)
def test_filters(api: HfApi, query: dict, expected: list[str]) -> None:
    assert ids(api.list_models(**query)) == expected


def test_expand_brings_what_was_asked_for_and_nothing_else(api: HfApi) -> None:
    (model,) = api.list_models(search="alpha", expand=["safetensors", "sha", "config"])
    assert model.safetensors is not None
    assert model.safetensors.parameters == {"F32": 10}
    assert model.safetensors.total == 10
    assert model.config == {"architectures": ["BertModel"], "model_type": "bert"}
    assert model.sha is not None
    assert model.downloads is None


def test_info_has_the_facts_and_the_files_with_their_hashes(api: HfApi, hand_dir: Path) -> None:
    info = api.model_info("acme/alpha", files_metadata=True)
    weights = (hand_dir / "acme/alpha/model.safetensors").read_bytes()
    config = (hand_dir / "acme/alpha/config.json").read_bytes()
    files = {sibling.rfilename: sibling for sibling in info.siblings or ()}
    assert set(files) == {"config.json", "model.safetensors", "sub/deep/note.json"}
    lfs = files["model.safetensors"].lfs
    assert lfs is not None
    assert (lfs.sha256, lfs.size) == (hashlib.sha256(weights).hexdigest(), len(weights))
    blob = hashlib.sha1(b"blob %d\0" % len(config) + config).hexdigest()  # As `git hash-object` does.
    assert (files["config.json"].blob_id, files["config.json"].size) == (blob, len(config))
    assert (info.author, info.library_name, info.downloads, info.gated) == ("acme", "transformers", 50, False)
    assert {"bert", "safetensors", "en", "fill-mask"} <= set(info.tags or ())


def test_a_revision_is_a_hash_of_the_contents(hand_dir: Path, api: HfApi) -> None:
    before = api.model_info("acme/alpha").sha
    assert before is not None
    assert api.model_info("acme/alpha", revision=before).sha == before
    assert api.list_repo_refs("acme/alpha").branches[0].target_commit == before
    assert api.list_repo_commits("acme/alpha")[0].commit_id == before
    add_repository(hand_dir, "acme/alpha", {"model.safetensors": tensor_file(10, fill=1)})
    after = api.model_info("acme/alpha").sha
    assert after != before
    with pytest.raises(RevisionNotFoundError):
        api.model_info("acme/alpha", revision=before)
    add_repository(hand_dir, "copy/alpha", {}).mkdir(parents=True)
    for name in ("config.json", "model.safetensors", "sub/deep/note.json"):
        content = (hand_dir / "acme/alpha" / name).read_bytes()
        add_repository(hand_dir, "copy/alpha", {name: content})
    assert api.model_info("copy/alpha").sha == after


def test_tree_and_paths(api: HfApi) -> None:
    flat = {entry.path for entry in api.list_repo_tree("acme/alpha")}
    deep = {entry.path for entry in api.list_repo_tree("acme/alpha", recursive=True)}
    assert flat == {"config.json", "model.safetensors", "sub"}
    assert deep == {"config.json", "model.safetensors", "sub", "sub/deep", "sub/deep/note.json"}
    below = [entry.path for entry in api.list_repo_tree("acme/alpha", path_in_repo="sub/deep")]
    assert below == ["sub/deep/note.json"]
    assert [f.path for f in api.get_paths_info("acme/alpha", ["config.json", "none"])] == ["config.json"]
    with pytest.raises(EntryNotFoundError):
        list(api.list_repo_tree("acme/alpha", path_in_repo="nowhere"))


def test_an_id_without_an_organisation(api: HfApi, hand: MirrorServer, tmp_path: Path) -> None:
    assert api.model_info("solo", revision="main").downloads == 1
    path = hf_hub_download("solo", "config.json", endpoint=hand.endpoint, cache_dir=tmp_path, token=False)
    assert "bert" in Path(path).read_text()


def test_metadata_of_a_file(hand: MirrorServer, hand_dir: Path, api: HfApi) -> None:
    url = hf_hub_url("acme/alpha", "model.safetensors", endpoint=hand.endpoint)
    metadata = get_hf_file_metadata(url, token=False, endpoint=hand.endpoint)
    weights = (hand_dir / "acme/alpha/model.safetensors").read_bytes()
    assert metadata.etag == hashlib.sha256(weights).hexdigest()
    assert metadata.size == len(weights)
    assert metadata.commit_hash == api.model_info("acme/alpha").sha


def test_snapshot_has_every_file_byte_for_byte(hand: MirrorServer, hand_dir: Path, tmp_path: Path) -> None:
    folder = snapshot_download("acme/alpha", endpoint=hand.endpoint, cache_dir=tmp_path, token=False)
    for name in ("config.json", "model.safetensors", "sub/deep/note.json"):
        assert Path(folder, name).read_bytes() == (hand_dir / "acme/alpha" / name).read_bytes()


def test_errors_are_the_clients_own_types(hand: MirrorServer, api: HfApi, tmp_path: Path) -> None:
    where = {"endpoint": hand.endpoint, "cache_dir": tmp_path, "token": False}
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/nothing")
    with pytest.raises(RepositoryNotFoundError):
        HfApi(endpoint=hand.endpoint, token="hf_any").model_info("acme/nothing")
    with pytest.raises(RevisionNotFoundError):
        hf_hub_download("acme/alpha", "config.json", revision="v2", **where)
    with pytest.raises(EntryNotFoundError):
        hf_hub_download("acme/alpha", "none.json", **where)
    assert list(tmp_path.glob("models--acme--alpha/.no_exist/*/none.json"))
    assert api.whoami(token="hf_any")["type"] == "user"


@pytest.mark.parametrize(("token", "status"), [(False, 401), ("hf_stranger", 403)])
def test_gated_files_are_refused(hand: MirrorServer, tmp_path: Path, token: object, status: int) -> None:
    with pytest.raises(GatedRepoError) as caught:
        hf_hub_download("acme/gated", "config.json", endpoint=hand.endpoint, cache_dir=tmp_path, token=token)
    assert caught.value.response.status_code == status


def test_gated_metadata_is_public_and_a_granted_token_reads(
    hand: MirrorServer, api: HfApi, tmp_path: Path
) -> None:
    assert api.model_info("acme/gated").gated == "manual"
    path = hf_hub_download(
        "acme/gated", "config.json", endpoint=hand.endpoint, cache_dir=tmp_path, token=TOKEN
    )
    assert "bert" in Path(path).read_text()


def test_a_download_that_breaks_off_is_resumed(hand_dir: Path, tmp_path: Path) -> None:
    # The client resumes inside one call, at steps of 10 MiB.
    content = bytes(range(256)) * (25 * 4096)
    add_repository(hand_dir, "acme/large", {"config.json": {}, "model.safetensors": content})
    with MirrorServer(hand_dir) as server:
        server.faults.add(Fault("large/resolve", method="GET", cut_after=15 * 2**20))
        path = hf_hub_download(
            "acme/large", "model.safetensors", endpoint=server.endpoint, cache_dir=tmp_path, token=False
        )
        ranges = [request.range for request in server.requests if request.range]
    assert Path(path).read_bytes() == content
    assert ranges == [f"bytes={10 * 2**20}-"], "the client began again from the start"
