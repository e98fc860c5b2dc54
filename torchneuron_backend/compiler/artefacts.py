"""What the compiler builds, from the cache where it has been built before.

Kept are the outcome of lowering a graph (StableHLO, or why there is none), the compiled program, and what it
took long to find out: which calls do not lower, and where a graph has to be cut. What a process built or
found also goes into ``torch.compiler.save_cache_artifacts``, which hands it on to another machine of the same
kind.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from torch.compiler._cache import CacheArtifact, CacheArtifactFactory, CacheArtifactManager
from torch.fx import GraphModule, Node

from . import bisection, lowering, metrics, search
from .cache import Cache, key_of, open_cache
from .errors import LoweringError, UnsupportedOperatorError
from .executable import FLAGS, Executable
from .graph import attribute, call_signature, describe, operator_name

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
    """StableHLO text of ``module``. Raises UnsupportedOperatorError with the overloads at fault, or
    LoweringError where none can be named.
    """
    cache = open_cache()
    if cache is None:
        return _lower(module)
    key = key_of("lowering", describe(module))
    known = _read(cache, key)
    if known is not None:
        metrics.record_lowering_hit()
        return _outcome(**known)
    try:
        text = _lower(module)
    except UnsupportedOperatorError as error:
        _keep(cache, key, {"unsupported": error.details}, error.details.values())
        raise
    except LoweringError as error:
        _keep(cache, key, {"failure": str(error)}, [str(error)])
        raise
    _keep(cache, key, {"stablehlo": text})
    return text


def _outcome(stablehlo: str = "", unsupported: dict[str, str] | None = None, failure: str = "") -> str:
    if unsupported:
        raise UnsupportedOperatorError(unsupported)
    if failure:
        raise LoweringError(failure)
    return stablehlo


def _lower(module: GraphModule) -> str:
    try:
        return lowering.lower(module)
    except LoweringError as error:
        refused = refused_calls(module)
        if not refused:
            raise LoweringError(f"{error}. Each of its operators lowers by itself") from None
        reasons: dict[str, str] = {}
        for node, reason in refused.items():
            reasons.setdefault(operator_name(node.target), reason)  # type: ignore[arg-type]
        raise UnsupportedOperatorError(reasons) from None


def refused_calls(module: GraphModule) -> dict[Node, str]:
    """The calls of ATen overloads in ``module`` that do not lower on their own, each with a line of reason.

    The verdict on a call is kept for every graph that has one like it.
    """
    for node in module.graph.nodes:
        if node.op == "get_attr":
            node.meta.setdefault("val", attribute(module, node))
    alike = search.distinct(module, call_signature)
    cache = open_cache()
    keys = {signature: key_of("call", signature) for signature in alike} if cache is not None else {}
    verdicts: dict[str, str | None] = {name: _verdict(cache, key) for name, key in keys.items()}
    unknown = [signature for signature in alike if verdicts.get(signature) is None]
    refused = search.refused([alike[signature][0] for signature in unknown]) if unknown else {}
    for position, signature in enumerate(unknown):
        found = verdicts[signature] = refused.get(position, "")
        if cache is not None:
            _keep(cache, keys[signature], {"refused": found}, [found])
    return {
        node: reason
        for signature, nodes in alike.items()
        if (reason := verdicts[signature])
        for node in nodes
    }


def _verdict(cache: Cache | None, key: str) -> str | None:
    known = None if cache is None else _read(cache, key)
    return None if known is None else str(known["refused"])


def spans(module: GraphModule, calls: int, compiles: Callable[[int, int], bool]) -> list[bisection.Span]:
    """As `bisection.find_spans` for the calls of ``module``; what was found once is not looked for again."""
    cache = open_cache()
    key = key_of("spans", describe(module), FLAGS)
    known = None if cache is None else _read(cache, key)
    if known is not None:
        return [bisection.Span(*span) for span in known["spans"]]
    found = bisection.find_spans(calls, compiles)
    if cache is not None:
        _keep(cache, key, {"spans": found})
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


def _keep(cache: Cache, key: str, outcome: dict[str, Any], reasons: Iterable[str] = ()) -> None:
    if not any(word in reason for reason in reasons for word in _PASSING):
        _put(cache, key, json.dumps(outcome).encode())


def _read(cache: Cache, key: str) -> dict[str, Any] | None:
    content = _get(cache, key)
    return None if content is None else json.loads(content)


def _get(cache: Cache, key: str) -> bytes | None:
    content = cache.get(key)
    if content is not None:
        CacheArtifactManager.record_artifact(_ARTIFACT_TYPE, key, content)
    return content


def _put(cache: Cache, key: str, content: bytes) -> None:
    cache.put(key, content)
    CacheArtifactManager.record_artifact(_ARTIFACT_TYPE, key, content)
