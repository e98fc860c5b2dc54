"""Every fault the mirror can commit, as the real client and plain HTTP meet it."""

from __future__ import annotations

import http.client
import itertools
import json
import time
from pathlib import Path

import pytest
from huggingface_hub import HfApi, hf_hub_download
from huggingface_hub.errors import GatedRepoError, RepositoryNotFoundError, RevisionNotFoundError

from model_zoo.mirror import ALWAYS, Fault, FaultError, MirrorServer, named_fault, parse_fault, read_faults
from model_zoo.mirror.faults import KINDS
from tests.model_zoo.conftest import TOKEN, add_repository, tensor_file
from tests.model_zoo.test_mirror_http import WEIGHTS, ask


@pytest.fixture
def api(hand: MirrorServer) -> HfApi:
    return HfApi(endpoint=hand.endpoint, token=False)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"renamed"}))
def test_every_kind_can_be_asked_for_by_name(kind: str) -> None:
    fault = parse_fault(f"{kind},times=3,path=/x/")
    assert (fault.times, fault.path) == (3, "/x/")
    assert fault != Fault("/x/", times=3), "it does nothing"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("meltdown", "there is no fault 'meltdown'"),
        ("slow,speed=3", "no option 'speed'"),
        ("slow,delay=long", "delay of a fault is a number"),
        ("slow,delay", "is not OPTION=VALUE"),
        ("renamed", "needs moved-to"),
    ],
)
def test_a_fault_that_cannot_be_understood_is_one_sentence(text: str, sentence: str) -> None:
    with pytest.raises(FaultError, match=sentence):
        parse_fault(text)


def test_faults_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "faults.toml"
    path.write_text('[[fault]]\nkind = "rate-limit"\nretry-after = 7\ntimes = -1\n[[fault]]\nkind = "drop"\n')
    limited, dropped = read_faults(path)
    assert (limited.status, limited.headers, limited.times) == (429, {"Retry-After": "7"}, ALWAYS)
    assert dropped.drop
    for text in ("[[fault]]\nkind = 'melt'\n", "fault = 3\n", "["):
        path.write_text(text)
        with pytest.raises(FaultError, match=r"faults\.toml"):
            read_faults(path)


def test_a_dropped_connection_answers_nothing(hand: MirrorServer) -> None:
    hand.faults.add(named_fault("drop"))
    with pytest.raises(http.client.RemoteDisconnected):
        ask(hand, "/api/models")
    assert ask(hand, "/api/models")[0] == 200


def test_a_slow_answer_and_a_slow_body(hand: MirrorServer) -> None:
    hand.faults.add(named_fault("slow", {"delay": 0.2}))
    begun = time.monotonic()
    assert ask(hand, "/api/models")[0] == 200
    assert time.monotonic() - begun >= 0.2
    size = len(ask(hand, WEIGHTS)[2])
    hand.faults.add(Fault(WEIGHTS, rate=5 * size))
    begun = time.monotonic()
    assert len(ask(hand, WEIGHTS)[2]) == size
    assert time.monotonic() - begun >= 0.2


def test_stopping_does_not_wait_for_a_slow_answer(hand_dir: Path) -> None:
    with MirrorServer(hand_dir) as server:
        server.faults.add(named_fault("slow", {"delay": 60}))
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET", "/api/models")
        begun = time.monotonic()
    assert time.monotonic() - begun < 5
    connection.close()


def test_a_truncated_and_a_garbled_body(hand: MirrorServer) -> None:
    whole = ask(hand, WEIGHTS)[2]
    hand.faults.add(named_fault("truncate", {"cut-after": 5}))
    with pytest.raises(http.client.IncompleteRead) as caught:
        ask(hand, WEIGHTS)
    assert caught.value.partial == whole[:5]
    hand.faults.add(named_fault("garble"))
    status, headers, body = ask(hand, WEIGHTS)
    assert (status, len(body)) == (200, len(whole))
    assert body != whole
    hand.faults.add(named_fault("wrong-etag"))
    _, wrong, body = ask(hand, WEIGHTS)
    assert body == whole
    assert wrong["etag"] != headers["etag"]


def test_gated_private_and_deleted_are_the_clients_own_errors(
    hand: MirrorServer, api: HfApi, tmp_path: Path
) -> None:
    where = {"endpoint": hand.endpoint, "cache_dir": tmp_path, "token": False}
    hand.faults.add(named_fault("gated", {"times": ALWAYS}))
    with pytest.raises(GatedRepoError):
        hf_hub_download("acme/alpha", "config.json", **where)
    hand.faults.clear()
    hand.faults.add(named_fault("private"))
    with pytest.raises(RepositoryNotFoundError):
        api.model_info("acme/alpha")
    hand.faults.add(named_fault("deleted-revision"))
    with pytest.raises(RevisionNotFoundError):
        api.model_info("acme/alpha", revision="main")


def test_a_private_repository_is_there_for_its_tokens_only(hand_dir: Path, hand: MirrorServer) -> None:
    files = {"config.json": {"model_type": "bert"}, "model.safetensors": tensor_file(2)}
    add_repository(hand_dir, "acme/secret", files, private=True, granted=[TOKEN])
    stranger, owner = (HfApi(endpoint=hand.endpoint, token=token) for token in ("hf_stranger", TOKEN))
    with pytest.raises(RepositoryNotFoundError):
        stranger.model_info("acme/secret")
    assert owner.model_info("acme/secret").private
    assert "acme/secret" not in [model.id for model in stranger.list_models()]
    assert "acme/secret" in [model.id for model in owner.list_models()]


@pytest.mark.parametrize("by_fault", [True, False])
def test_a_renamed_model_is_found_under_its_old_name(
    hand_dir: Path, hand: MirrorServer, api: HfApi, tmp_path: Path, by_fault: bool
) -> None:
    if by_fault:
        add_repository(hand_dir, "old/name", {"config.json": {}})
        hand.faults.add(parse_fault("renamed,path=old/name,times=-1,moved-to=acme/alpha"))
    else:
        add_repository(hand_dir, "old/name", {}).mkdir(parents=True)
        add_repository(hand_dir, "old/name", {}, moved_to="acme/alpha")
        assert "old/name" not in [model.id for model in api.list_models()]
    assert api.model_info("old/name").id == "acme/alpha"
    path = hf_hub_download("old/name", "config.json", endpoint=hand.endpoint, cache_dir=tmp_path, token=False)
    assert Path(path).read_bytes() == (hand_dir / "acme/alpha/config.json").read_bytes()


def test_an_endless_listing_has_always_one_more_page(hand: MirrorServer, api: HfApi) -> None:
    hand.faults.add(named_fault("endless-listing", {"times": ALWAYS}))
    assert len(list(itertools.islice(api.list_models(), 50))) == 50


def test_any_document_can_be_sent_in_place_of_an_answer(hand: MirrorServer) -> None:
    hand.faults.add(Fault("/tree/", body=b'[{"type": "file"}]'))
    status, _, body = ask(hand, "/api/models/acme/alpha/tree/main")
    assert (status, json.loads(body)) == (200, [{"type": "file"}])


def test_a_listing_does_not_change_between_its_pages(hand_dir: Path, hand: MirrorServer) -> None:
    first = json.loads(ask(hand, "/api/models?sort=downloads")[2])
    add_repository(hand_dir, "acme/new", {"config.json": {}}, downloads=10**6)
    second = json.loads(ask(hand, "/api/models?sort=downloads&cursor=2")[2])
    assert [model["id"] for model in first + second] == ["acme/beta", "acme/gated", "acme/alpha", "solo"]
    assert json.loads(ask(hand, "/api/models?sort=downloads")[2])[0]["id"] == "acme/new"


def test_a_tree_has_pages_too(hand: MirrorServer, api: HfApi) -> None:
    _, headers, body = ask(hand, "/api/models/acme/alpha/tree/main?recursive=true")
    assert len(json.loads(body)) == 2
    assert "cursor=2" in headers["link"]
    assert len(list(api.list_repo_tree("acme/alpha", recursive=True))) == 5


def test_a_field_that_the_hub_does_not_have_is_refused(hand: MirrorServer) -> None:
    assert ask(hand, "/api/models?expand=sha&expand=beauty")[0] == 400


def test_large_files_come_from_the_storage_host_without_the_token(hand_dir: Path, tmp_path: Path) -> None:
    with MirrorServer(hand_dir, storage=True) as server:
        status, headers, _ = ask(
            server, "/acme/gated/resolve/main/model.safetensors", Authorization=f"Bearer {TOKEN}"
        )
        assert status == 302
        assert headers["x-linked-size"] == str((hand_dir / "acme/gated/model.safetensors").stat().st_size)
        assert f":{server.port}/" not in headers["location"]
        path = hf_hub_download(
            "acme/gated", "model.safetensors", endpoint=server.endpoint, cache_dir=tmp_path, token=TOKEN
        )
        asked = [request.path for request in server.requests if request.path.startswith("/blobs/")]
        assert ask(server, "/acme/alpha/resolve/main/config.json")[0] == 200, "small files come from the Hub"
        port = int(headers["location"].split(":")[2].split("/")[0])
        address = headers["location"].partition(f":{port}")[2]
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        answers = []
        for path_, sent in (
            (address, {"Authorization": "Bearer x"}),
            (address.split("?")[0], {}),
            (address, {}),
        ):
            connection.request("GET", path_, headers={**sent, "Range": "bytes=0-3"})
            response = connection.getresponse()
            answers.append((response.status, len(response.read())))
        connection.close()
    assert Path(path).read_bytes() == (hand_dir / "acme/gated/model.safetensors").read_bytes()
    assert asked
    assert [status for status, _ in answers] == [400, 403, 206]
    assert answers[-1][1] == 4
