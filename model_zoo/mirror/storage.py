"""The host that large files come from: another origin than the Hub's, with addresses that carry a permission.

A client must not send its token there; one that does is refused, as object stores refuse two kinds of
authorization at once.
"""

from __future__ import annotations

import json
import secrets
import threading
from collections import OrderedDict, deque
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import quote, urlsplit

from model_zoo.digests import Digest
from model_zoo.mirror.faults import Fault, Faults
from model_zoo.mirror.files import send_file, send_head
from model_zoo.mirror.listening import ListeningServer
from model_zoo.mirror.pull import Pull
from model_zoo.mirror.repository import Repository

_REMEMBERED = 10_000

Stored = tuple[Repository, str, Digest, str | None]


@dataclass(frozen=True, slots=True)
class Request:
    """What a client asked: method, path with query, and the ``Range`` header ("" for none)."""

    method: str
    path: str
    range: str


class Storage:
    """A server of blobs on a port of its own.

    Args:
        host: address to listen on.
        faults: failures to answer with; they match paths that begin with ``/blobs/``.
        requests: takes each request.
    """

    def __init__(self, host: str, faults: Faults, requests: deque[Request]) -> None:
        self._host = host
        self._server = _Server((host, 0), _Handler)
        self._server.faults, self._server.requests, self._server.permitted = faults, requests, OrderedDict()
        self._thread: threading.Thread | None = None

    def address(self, repo: Repository, name: str, token: str | None) -> str:
        """An address at which the bearer, whoever that is, may read one file."""
        permission = secrets.token_urlsafe(16)
        permitted = self._server.permitted
        permitted[permission] = repo, name, repo.files[name], token
        while len(permitted) > _REMEMBERED:
            permitted.popitem(last=False)
        path = f"/blobs/{quote(repo.id)}/{repo.sha}/{quote(name)}"
        return f"{endpoint_of(self._host, int(self._server.server_address[1]))}{path}?signature={permission}"

    def start(self) -> None:
        """Begin to answer, from a daemon thread."""
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="storage", daemon=True
        )
        self._thread.start()

    def stop(self) -> None:
        """Stop answering and release the port."""
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()


class _Server(ListeningServer):
    faults: Faults
    requests: deque[Request]
    permitted: OrderedDict[str, Stored]


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    timeout = 60
    server: _Server

    def do_GET(self) -> None:
        self._answer()

    def do_HEAD(self) -> None:
        self._answer()

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def _answer(self) -> None:
        url = urlsplit(self.path)
        self.server.requests.append(Request(self.command, self.path, self.headers.get("Range", "")))
        fault = self.server.faults.take(self.command, url.path) or Fault()
        stored = self.server.permitted.get(url.query.removeprefix("signature="))
        if fault.drop:
            self.close_connection = True
        elif fault.status:
            self._refuse(fault.status, "A fault was asked for.")
        elif "Authorization" in self.headers:
            self._refuse(400, "Only one kind of authorization is allowed.")
        elif stored is None:
            self._refuse(403, "The signature is not valid.")
        else:
            self._send(*stored, fault)

    def _send(self, repo: Repository, name: str, digest: Digest, token: str | None, fault: Fault) -> None:
        content = repo.content(name, token)
        try:
            if isinstance(content, Pull):
                content.begin()
            send_file(self, content, name, digest, {}, fault)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except OSError as error:
            self._refuse(502, str(error))

    def _refuse(self, status: int, message: str) -> None:
        body = json.dumps({"error": message}).encode()
        send_head(self, status, {"Content-Length": str(len(body)), "Content-Type": "application/json"})
        if self.command != "HEAD":
            self.wfile.write(body)


def endpoint_of(host: str, port: int) -> str:
    """The URL of a port that listens on an address, without a slash at the end."""
    name = "127.0.0.1" if host in ("", "0.0.0.0") else host
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"
