"""A mirror that all tests of one session share, also across xdist's workers."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from filelock import FileLock
from hypothesis import settings

from model_zoo.builder import build_mirror
from model_zoo.mirror import MirrorServer
from tests.harness.night import MODELS

# A shell's background jobs ignore Ctrl-C, and what `nohup` starts ignores SIGHUP; so would their children, to
# which tests send both.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A deadline would make a test of a busy machine out of a test of a property.
settings.register_profile("harness", deadline=None)
settings.load_profile("harness")


@pytest.fixture(scope="session")
def hub(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Iterator[str]:
    """URL of a mirror that serves :data:`MODELS`."""
    base = tmp_path_factory.getbasetemp()
    shared: Path = base if worker_id == "master" else base.parent
    with FileLock(shared / "mirror.lock"):
        build_mirror(shared / "mirror", only=MODELS, pretrained=False)
    with MirrorServer(shared / "mirror") as server:
        yield server.endpoint
