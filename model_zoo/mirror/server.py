"""The server: lifetime, endpoint and the thread it answers from."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from types import TracebackType
from typing import Self

from model_zoo.mirror.faults import Faults
from model_zoo.mirror.handler import HubRequestHandler
from model_zoo.mirror.listening import ListeningServer
from model_zoo.mirror.listings import Listings
from model_zoo.mirror.repository import MirrorDirectory
from model_zoo.mirror.storage import Request, Storage, endpoint_of
from model_zoo.mirror.upstream import Upstream

PAGE_SIZE = 1000  # The Hub's largest page of a listing.
REMEMBERED = 10_000


class _Server(ListeningServer):
    directory: MirrorDirectory
    faults: Faults
    requests: deque[Request]
    page_size: int
    quiet: bool
    listings: Listings
    stopping: threading.Event
    storage: Storage | None = None
    upstream: Upstream | None = None


class MirrorServer:
    """Serves a mirror directory; a context manager that answers from a thread of its own.

    Args:
        directory: laid out as the package's docstring says.
        host: address to listen on; the default is reachable from this machine only.
        port: 0 picks a free one.
        page_size: most entries of one page of a listing.
        quiet: False prints a line per request to standard error.
        storage: send large files from a second port, by redirects with addresses that carry their own
            permission, as the Hub's storage does.
        upstream: URL of a Hub, or its :class:`~model_zoo.mirror.upstream.Upstream`: what the directory lacks
            is fetched from there and kept.

    Attributes:
        faults: failures to answer with, for tests of clients.
        requests: the last requests, oldest first, for the same.

    Raises:
        MirrorError: the directory does not exist.
        OSError: the address cannot be listened on.
    """

    def __init__(
        self,
        directory: Path | str,
        host: str = "127.0.0.1",
        port: int = 0,
        *,
        page_size: int = PAGE_SIZE,
        quiet: bool = True,
        storage: bool = False,
        upstream: str | Upstream | None = None,
    ) -> None:
        self.faults = Faults()
        self.requests: deque[Request] = deque(maxlen=REMEMBERED)
        mirrored = MirrorDirectory(Path(directory))
        self._server = _Server((host, port), HubRequestHandler)
        self._server.directory = mirrored
        self._server.faults = self.faults
        self._server.requests = self.requests
        self._server.page_size = page_size
        self._server.quiet = quiet
        self._server.listings = Listings()
        self._server.stopping = threading.Event()
        if upstream is not None:
            known = upstream if isinstance(upstream, Upstream) else Upstream(mirrored.root, upstream)
            self._server.upstream = known
        self._host = host
        if storage:
            self._server.storage = Storage(host, self.faults, self.requests)
        self._thread: threading.Thread | None = None

    @property
    def endpoint(self) -> str:
        """What ``HF_ENDPOINT`` is to be set to, without a slash at the end."""
        return endpoint_of(self._host, self.port)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    def start(self) -> Self:
        """Begin to answer, from a daemon thread."""
        self._thread = threading.Thread(
            target=self._server.serve_forever,
            kwargs={"poll_interval": 0.05},
            name="model-mirror",
            daemon=True,
        )
        self._thread.start()
        if self._server.storage is not None:
            self._server.storage.start()
        return self

    def stop(self) -> None:
        """Stop answering and release the port."""
        self._server.stopping.set()
        if self._server.storage is not None:
            self._server.storage.stop()
        if self._thread is not None:
            self._server.shutdown()
            self._thread.join()
            self._thread = None
        self._server.server_close()

    def serve_forever(self) -> None:
        """Answer from the calling thread until interrupted."""
        if self._server.storage is not None:
            self._server.storage.start()
        self._server.serve_forever()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
