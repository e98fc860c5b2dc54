"""The mirror's HTTP, byte by byte: ranges, conditions, limits, and nothing outside the directory."""

from __future__ import annotations

import http.client
import json
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from model_zoo.mirror import Fault, MirrorServer
from model_zoo.mirror.files import RangeError, parse_range
from model_zoo.mirror.repository import MirrorDirectory, MirrorError

WEIGHTS = "/acme/alpha/resolve/main/model.safetensors"


def ask(
    server: MirrorServer, path: str, method: str = "GET", body: bytes | None = None, **headers: str
) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=10)
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request(method, path, body=body, headers=named)
    response = connection.getresponse()
    answer = response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    connection.close()
    return answer


@pytest.mark.parametrize(
    ("header", "expected"),
    [
        (None, None),
        ("bytes=0-3", (0, 4)),
        ("bytes=4-", (4, 10)),
        ("bytes=-3", (7, 10)),
        ("bytes=-30", (0, 10)),
        ("bytes=8-100", (8, 10)),
        ("bytes=5-2", None),
        ("bytes=0-1,4-5", None),
        ("lines=1-2", None),
        ("bytes=-", None),
    ],
)
def test_ranges(header: str | None, expected: tuple[int, int] | None) -> None:
    assert parse_range(header, 10) == expected


@pytest.mark.parametrize("header", ["bytes=10-", "bytes=11-12", "bytes=-0"])
def test_ranges_outside(header: str) -> None:
    with pytest.raises(RangeError):
        parse_range(header, 10)


def test_a_range_is_answered_with_that_part(hand: MirrorServer, hand_dir: Path) -> None:
    whole = (hand_dir / "acme/alpha/model.safetensors").read_bytes()
    status, headers, body = ask(hand, WEIGHTS, Range="bytes=5-8")
    assert (status, body) == (206, whole[5:9])
    assert headers["content-range"] == f"bytes 5-8/{len(whole)}"
    assert headers["accept-ranges"] == "bytes"
    status, headers, body = ask(hand, WEIGHTS, Range=f"bytes={len(whole)}-")
    assert (status, body, headers["content-range"]) == (416, b"", f"bytes */{len(whole)}")


def test_a_range_of_another_version_gives_the_whole(hand: MirrorServer) -> None:
    status, _, _ = ask(hand, WEIGHTS, Range="bytes=5-8", If_Range='"another"')
    assert status == 200


def test_head_and_get_agree_and_a_known_etag_is_not_sent_again(hand: MirrorServer) -> None:
    head_status, head, nothing = ask(hand, WEIGHTS, "HEAD")
    status, headers, body = ask(hand, WEIGHTS)
    assert (head_status, status, nothing) == (200, 200, b"")
    assert head["content-length"] == str(len(body)) == head["x-linked-size"]
    assert head["etag"] == headers["etag"] == head["x-linked-etag"]
    assert len(head["x-repo-commit"]) == 40
    status, _, body = ask(hand, WEIGHTS, If_None_Match=head["etag"])
    assert (status, body) == (304, b"")


def test_next_page_is_an_absolute_address_that_keeps_the_query(hand: MirrorServer) -> None:
    _, headers, body = ask(hand, "/api/models?sort=downloads&limit=2&filter=bert&filter=transformers")
    assert len(json.loads(body)) == 2
    link = headers["link"]
    assert link.startswith(f"<{hand.endpoint}/api/models?")
    assert link.endswith('>; rel="next"')
    assert "filter=bert" in link
    assert "filter=transformers" in link
    _, last, _ = ask(hand, "/api/models?limit=2&cursor=4")
    assert "link" not in last


@pytest.mark.parametrize(
    "path",
    [
        "/acme/alpha/resolve/main/../../../secret.txt",
        "/acme/alpha/resolve/main/%2e%2e/%2e%2e/%2e%2e/secret.txt",
        "/acme/alpha/resolve/main/..%2f..%2f..%2fsecret.txt",
        "/acme/alpha/resolve/main//etc/passwd",
        "/acme/alpha/resolve/main/%2fetc%2fpasswd",
        "/acme/alpha/resolve/main/.mirror.json",
        "/acme/alpha/resolve/main/outside.json",
        "/acme/alpha/resolve/main/config.json%00.txt",
        "/../hand/resolve/main/secret.txt",
        "/%2e%2e/hand/resolve/main/acme/alpha/config.json",
        "/acme/../solo/resolve/main/config.json",
        "/api/models/..%2fhand/tree/main",
        "/api/models/%00/%00",
    ],
)
def test_nothing_outside_is_served(hand: MirrorServer, hand_dir: Path, path: str) -> None:
    (hand_dir.parent / "secret.txt").write_text("secret")
    os.symlink(hand_dir.parent / "secret.txt", hand_dir / "acme/alpha/outside.json")
    status, _, body = ask(hand, path)
    assert status in (401, 404)
    assert b"secret" not in body.replace(b"secret.txt", b"")


def test_a_link_inside_the_mirror_is_served(hand: MirrorServer, hand_dir: Path) -> None:
    os.symlink(hand_dir / "solo/config.json", hand_dir / "acme/alpha/linked.json")
    status, _, body = ask(hand, "/acme/alpha/resolve/main/linked.json")
    assert (status, body) == (200, (hand_dir / "solo/config.json").read_bytes())


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("GET", "/api/models?sort=beauty", 400),
        ("GET", "/api/models?limit=many", 400),
        ("GET", "/api/models?num_parameters=huge", 400),
        ("GET", "/api/datasets", 404),
        ("GET", "/api/models/acme/alpha/tree/v9", 404),
        ("GET", "/api/models/acme/alpha/paint/main", 404),
        ("GET", "/acme/alpha/blob/main/config.json", 404),
        ("POST", "/acme/alpha/resolve/main/config.json", 404),
        ("GET", "/api/whoami-v2", 401),
        ("DELETE", "/acme/alpha", 501),
    ],
)
def test_bad_requests_get_an_error_and_not_a_traceback(
    hand: MirrorServer, method: str, path: str, expected: int
) -> None:
    assert ask(hand, path, method)[0] == expected


def test_a_body_without_end_is_refused(hand: MirrorServer) -> None:
    assert ask(hand, "/api/models", "POST", Content_Length=str(10**9))[0] == 413


def test_paths_info_takes_json_too(hand: MirrorServer) -> None:
    body = json.dumps({"paths": ["config.json"]}).encode()
    path = "/api/models/acme/alpha/paths-info/main"
    status, _, answer = ask(hand, path, "POST", body, Content_Type="application/json")
    assert (status, [entry["path"] for entry in json.loads(answer)]) == (200, ["config.json"])
    status, _, _ = ask(hand, path, "POST", b"{not json", Content_Type="application/json")
    assert status == 400


def test_a_fault_hits_as_often_as_asked(hand: MirrorServer) -> None:
    hand.faults.add(Fault("/api/models", status=503, times=2, headers={"Retry-After": "7"}))
    answers = [ask(hand, "/api/models") for _ in range(3)]
    assert [answer[0] for answer in answers] == [503, 503, 200]
    assert answers[0][1]["retry-after"] == "7"


def test_many_clients_at_once_get_whole_files(hand: MirrorServer, hand_dir: Path) -> None:
    whole = (hand_dir / "acme/alpha/model.safetensors").read_bytes()
    bodies: list[bytes] = []
    threads = [threading.Thread(target=lambda: bodies.append(ask(hand, WEIGHTS)[2])) for _ in range(24)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert bodies == [whole] * 24


def test_stopping_releases_the_port(hand_dir: Path) -> None:
    with MirrorServer(hand_dir) as first:
        port = first.port
    with MirrorServer(hand_dir, port=port) as second:
        assert ask(second, "/api/models")[0] == 200


def test_a_missing_directory_and_broken_metadata_are_named(tmp_path: Path, hand_dir: Path) -> None:
    with pytest.raises(MirrorError, match="not a directory"):
        MirrorServer(tmp_path / "none")
    (hand_dir / "acme/alpha/.mirror.json").write_text("{")
    with pytest.raises(MirrorError, match=r"mirror\.json"):
        MirrorDirectory(hand_dir).all()
    with MirrorServer(hand_dir) as server:
        assert ask(server, "/api/models/acme/alpha")[0] == 500


def test_the_command_serves_and_needs_no_torch(hand_dir: Path) -> None:
    code = (
        "import sys, urllib.request; from model_zoo.mirror import MirrorServer\n"
        f"with MirrorServer({str(hand_dir)!r}) as mirror:\n"
        "    urllib.request.urlopen(mirror.endpoint + '/api/models').read()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
    command = [sys.executable, "-m", "model_zoo.mirror", str(hand_dir / "none"), "--port", "0"]
    failed = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert failed.returncode == 2
    assert "cannot serve" in failed.stderr
    process = subprocess.Popen(
        [*command[:3], str(hand_dir), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("export HF_ENDPOINT=http://127.0.0.1:")
        port = int(line.rsplit(":", 1)[1])
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/")
        assert json.loads(connection.getresponse().read())["models"] == 6
        connection.close()
    finally:
        process.terminate()
        process.wait(timeout=10)
        process.communicate()


def test_a_stopped_server_answers_nobody_who_was_connected(hand_dir: Path) -> None:
    with MirrorServer(hand_dir) as server:
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=5)
        connection.request("GET", "/api/models")
        connection.getresponse().read()
    assert connection.sock.recv(1) == b"", "the connection was kept"
    connection.close()
