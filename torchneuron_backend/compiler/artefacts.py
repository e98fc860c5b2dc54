"""What the compiler builds, from the cache where it has been built before.

Two things are kept: the outcome of lowering a graph (StableHLO, or the operators that refuse) and the
compiled program. Each costs about as much as the other. What a process built or found also goes into
``torch.compiler.save_cache_artifacts``, which hands it on to another machine of the same kind.
"""

from __future__ import annotations

import json
import os

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from torch.fx import GraphModule

from . import lowering, metrics
from .cache import Cache, key_of, open_cache
from .errors import UnsupportedOperatorError
from .executable import FLAGS, Executable
from .graph import describe

# Refusals for want of time or memory may not happen again.
_PASSING = ("no answer in time", "SIGKILL", "MemoryError", "bad_alloc")


_ARTIFACT_TYPE = "neuron"


@CacheArtifactFactory.register
class NeuronArtifact(CacheArtifact):
    """One entry of the cache, on its way to or from ``torch.compiler.save_cache_artifacts``."""

    def populate_cache(self) -> None:
        """What ``torch.compiler.load_cache_artifacts`` does with it."""
        cache = open_cache()
        if cache is not None:
            cache.put(self.key, self.content)

    @staticmethod
    def type() -> str:
        """The name under which torch knows such entries."""
        return _ARTIFACT_TYPE


def lower(module: GraphModule) -> str:
    """As `lowering.lower`."""
    cache = open_cache()
    if cache is None:
        return lowering.lower(module)
    key = key_of("lowering", describe(module))
    known = _read(cache, key)
    if known is not None:
        metrics.record_lowering_hit()
        if known["unsupported"]:
            raise UnsupportedOperatorError(known["unsupported"])
        return str(known["stablehlo"])
    try:
        text = lowering.lower(module)
    except UnsupportedOperatorError as error:
        _keep_refusals(cache, key, error.details)
        raise
    _write(cache, key, {"stablehlo": text, "unsupported": {}})
    return text


def find_unsupported(module: GraphModule) -> dict[str, str]:
    """As `lowering.find_unsupported`."""
    cache = open_cache()
    if cache is None:
        return lowering.find_unsupported(module)
    key = key_of("unsupported", describe(module))
    known = _read(cache, key)
    if known is not None:
        return dict(known["unsupported"])
    found = lowering.find_unsupported(module)
    _keep_refusals(cache, key, found)
    return found


def build(stablehlo: str) -> Executable:
    """The program of ``stablehlo``. Raises ExecutableError."""
    cache = open_cache()
    if cache is None:
        return Executable(stablehlo)
    key = key_of("executable", stablehlo, FLAGS, os.environ.get("XLA_FLAGS", ""))
    serialised = _get(cache, key)
    if serialised is not None:
        loaded = Executable.load(serialised)
        if loaded is not None:
            metrics.record_cache_hit()
            return loaded
        cache.remove(key)
    built = Executable(stablehlo)
    content = built.serialise()
    if content is not None:
        _put(cache, key, content)
    return built


def _keep_refusals(cache: Cache, key: str, refusals: dict[str, str]) -> None:
    if not any(word in reason for reason in refusals.values() for word in _PASSING):
        _write(cache, key, {"stablehlo": "", "unsupported": refusals})


def _read(cache: Cache, key: str) -> dict[str, dict[str, str]] | None:
    content = _get(cache, key)
    return None if content is None else json.loads(content)


def _write(cache: Cache, key: str, outcome: dict[str, object]) -> None:
    _put(cache, key, json.dumps(outcome).encode())


def _get(cache: Cache, key: str) -> bytes | None:
    content = cache.get(key)
    if content is not None:
        CacheArtifactManager.record_artifact(_ARTIFACT_TYPE, key, content)
    return content


def _put(cache: Cache, key: str, content: bytes) -> None:
    cache.put(key, content)
    CacheArtifactManager.record_artifact(_ARTIFACT_TYPE, key, content)
