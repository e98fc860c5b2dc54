"""Where models come from: the real Hub, a mirror of it, or the one built into the store."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from harness import processes
from harness.errors import InfrastructureError, UsageError
from harness.job import ModelSettings
from harness.profiles import EMBEDDED_HUB, MODELS, Profile
from model_zoo.mirror import MirrorServer
from results.layout import CACHE_DIR

_BUILD_SECONDS = 900
HERE = "127.0.0.1"


@contextlib.contextmanager
def serve_for(profile: Profile, store: Path, host: str = HERE) -> Iterator[str]:
    """Give the URL of a profile's hub, ``""`` where the profile runs no model and so needs none.

    Args:
        host: as for :func:`serve`.

    Raises:
        UsageError: the hub is neither ``embedded`` nor a URL.
    """
    if MODELS not in profile.suites:
        yield ""
        return
    with serve(profile.hub, store, host) as endpoint:
        yield endpoint


@contextlib.contextmanager
def serve(hub: str, store: Path, host: str = HERE) -> Iterator[str]:
    """Give the URL of a Hub: the one named, or the embedded mirror's while the context lasts.

    Args:
        host: address of this machine that the mirror listens on; others reach it there.

    Raises:
        UsageError: the hub is neither ``embedded`` nor a URL.
    """
    if hub == EMBEDDED_HUB:
        with MirrorServer(embedded(store), host) as mirror:
            yield mirror.endpoint
    elif hub.startswith(("http://", "https://")):
        yield hub.rstrip("/")
    else:
        raise UsageError(f"hub is {EMBEDDED_HUB!r} or a URL such as https://huggingface.co, not {hub!r}")


def embedded(store: Path) -> Path:
    """The folder of the store's own mirror, built first if it is missing or of another builder."""
    folder = mirror_folder(store)
    processes.call(_build, folder, timeout=_BUILD_SECONDS)
    return folder


def mirror_folder(store: Path) -> Path:
    """Where the store keeps its own mirror."""
    return store / CACHE_DIR / "mirror"


def _build(folder: Path) -> None:
    """Runs in a child, because making models imports torch."""
    from model_zoo.builder import BuildError, build_mirror

    try:
        build_mirror(folder)
    except BuildError as error:
        raise InfrastructureError(f"the embedded mirror could not be built: {error}") from error


def model_settings(profile: Profile, endpoint: str, store: Path, host: str = HERE) -> ModelSettings:
    """What workers need to fetch models from an endpoint; ``host`` as for :func:`serve`."""
    return ModelSettings(
        endpoint=endpoint,
        cache=_cache(store, endpoint, host),
        max_bytes=profile.max_model_bytes,
        seed=profile.seed,
        max_cache_bytes=profile.max_cache_bytes,
    )


def _cache(store: Path, endpoint: str, own_host: str) -> Path:
    """Where downloads are kept; a hub has a cache of its own, since ids may mean other models there."""
    host = "".join(c if c.isalnum() else "-" for c in endpoint.split("://", 1)[-1])
    name = "embedded" if endpoint.startswith((f"http://{own_host}:", f"http://[{own_host}]:")) else host
    return store / CACHE_DIR / "hub" / name
