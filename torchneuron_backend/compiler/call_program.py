"""Compiled programs for single calls: made from the call, or taken from the cache on disk.

The host's kernels run once beside a program that is made, to learn what results look like; a program from
the cache knows that already.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from . import generator_state, isolate, lowering, memory, single
from .cache import key_of, open_cache
from .call import Answer, Call
from .errors import CallRefusedError, ExecutableError
from .executable import FLAGS, Executable
from .graph import ResultSpec, dtype_name, operator_name, overload_of
from .rewrites.random import numbers_drawn
from .single import tensors_of, trace

# As long as the probe gives a call.
TIMEOUT_S = 60.0

_HEADER_BYTES = 8
_CPU = torch.device("cpu")

# What one result of an operator looks like; None is no tensor.
Slot = ResultSpec | list[ResultSpec | None] | None


@dataclass(frozen=True)
class Layout:
    """What a program returns, in this order: ``results`` that are no arguments of the call, then what is
    written into arguments.

    ``places`` are those of the written ones among all tensors that the call may write, of which there are
    ``writable``.
    """

    results: list[Slot]
    written: list[ResultSpec | None]
    places: list[int]
    writable: int

    @property
    def dtype(self) -> torch.dtype | None:
        """The dtype of the first tensor that the call returns."""
        slots = [each for slot in self.results for each in (slot if isinstance(slot, list) else [slot])]
        return next((slot.dtype for slot in slots if slot is not None), None)


@dataclass(frozen=True)
class CallProgram:
    """Runs one call: takes its tensors on the host, gives what it returns and what it writes.

    The former is one value a result that is no argument: a tensor, a list of them, or None; the latter a
    tensor, or None, for each that the call may write, in the order of the schema. ``executable`` computes
    those that have elements, and is None where none has. One that ``draws`` goes on with the state of a
    generator.
    """

    layout: Layout
    executable: Executable | None
    draws: bool = False

    def __call__(
        self, inputs: list[torch.Tensor], generator: torch.Generator | None = None
    ) -> tuple[list[Any], list[torch.Tensor | None]]:
        """``generator`` is the host's, of which a random operator has the numbers. Raises ExecutableError."""
        computed = iter(self._run(inputs, generator))

        def fill(slot: Slot) -> Any:
            if slot is None:
                return None
            if isinstance(slot, list):
                return [fill(each) for each in slot]
            if 0 in slot.size:
                return torch.empty_strided(slot.size, slot.stride, dtype=slot.dtype)
            return memory.to_device(next(computed), slot)

        results = [fill(slot) for slot in self.layout.results]
        written: list[torch.Tensor | None] = [None] * self.layout.writable
        for place, slot in zip(self.layout.places, self.layout.written, strict=True):
            written[place] = fill(slot)
        return results, written

    def _run(self, inputs: list[torch.Tensor], generator: torch.Generator | None) -> list[torch.Tensor]:
        if self.executable is None:
            return []
        if not self.draws:
            return self.executable.run(inputs)
        assert generator is not None
        with generator_state.drawing:
            *computed, words, place = self.executable.run([*generator_state.read(generator), *inputs])
            generator_state.write(generator, words, place)
        return computed


@dataclass(frozen=True)
class Found:
    """A program, or None where what the call returns is nothing for a core, and where it came from."""

    program: CallProgram | None
    cached: bool


def find(call: Call, accept: Callable[[torch.dtype | None], bool]) -> Found:
    """The program of ``call``; none for one whose result has a dtype that ``accept`` declines.

    Raises CallRefusedError, and HostKernelError where the host's kernel does not take the call either.
    """
    cache = open_cache()
    key = key_of("call", str(call), str(torch.get_default_dtype()), FLAGS, os.environ.get("XLA_FLAGS", ""))
    known = _unpack(cache.get(key)) if cache is not None else None
    if known is not None:
        return Found(known if accept(known.layout.dtype) else None, cached=True)
    answer = call.on_host()
    layout = _layout(call, answer)
    if not accept(layout.dtype):
        return Found(None, cached=False)
    try:
        program = _compile(call, answer, layout)
    except CallRefusedError as error:
        if cache is not None and error.lasting:
            cache.put(key, _packed({"refused": str(error)}))
        raise
    content = _pack(program)
    if cache is not None and content is not None:
        cache.put(key, content)
    return Found(program, cached=False)


def _layout(call: Call, answer: Answer) -> Layout:
    if any(
        leaf is not None and not isinstance(leaf, torch.Tensor) for leaf in tree_flatten(answer.returned)[0]
    ):
        raise CallRefusedError("it returns a number to the host, and a program returns tensors")
    returned = [answer.returned] if len(call.functional._schema.returns) == 1 else list(answer.returned)
    results, written = returned[: call.results()], tree_flatten(returned[call.results() :])[0]
    targets = call.targets()
    if len(written) > len(targets):
        raise CallRefusedError(f"{len(written)} results for {len(targets)} tensors to write")
    pairs = list(zip(targets, written, strict=False))
    return Layout(
        results=[
            [_spec(each) for each in item] if isinstance(item, list) else _spec(item) for item in results
        ],
        written=[_written_spec(new, old, answer.written[place]) for (place, old), new in pairs],
        places=[place for (place, _), _ in pairs],
        writable=len(targets),
    )


def _spec(value: Any) -> ResultSpec | None:
    if not isinstance(value, torch.Tensor):
        return None
    return ResultSpec(tuple(value.shape), tuple(value.stride()), value.dtype, _CPU)


def _written_spec(new: Any, old: torch.Tensor, after: torch.Tensor) -> ResultSpec | None:
    """A tensor that keeps its size keeps its strides, whatever those of the values for it."""
    if not isinstance(new, torch.Tensor):
        return None
    if old.shape == new.shape:
        return _spec(torch.empty(new.shape, dtype=new.dtype, device="meta"))
    return ResultSpec(tuple(after.shape), tuple(after.stride()), new.dtype, _CPU)


def _compile(call: Call, answer: Answer, layout: Layout) -> CallProgram:
    if not tensors_of(answer.returned):
        return CallProgram(layout, None)
    try:
        return CallProgram(layout, Executable(_lower(call, answer)), _draws(call))
    except isolate.ChildTimeoutError as error:
        raise CallRefusedError(f"lowering took more than {TIMEOUT_S:g} s", lasting=False) from error
    except isolate.ChildDiedError as error:
        raise CallRefusedError(f"the compiler {error}", lasting=error.signal_name != "SIGKILL") from error
    except isolate.ChildFailedError as error:
        lasting = error.kind not in ("MemoryError", "OSError")
        raise CallRefusedError(lowering.summarise(error), lasting=lasting) from error
    except ExecutableError as error:
        raise CallRefusedError(lowering.summarise(error)) from error


def _draws(call: Call) -> bool:
    return numbers_drawn(call.functional, *call.functional_arguments()) > 0


def _lower(call: Call, answer: Answer) -> str:
    """StableHLO text. Raises as `isolate.call`."""
    lowering.preload()
    described = tree_map_only(torch.Tensor, _spec, (call.functional_arguments(), answer.returned))
    return str(
        _worker.ask(
            (operator_name(call.functional), _draws(call), torch.get_default_dtype(), *described), TIMEOUT_S
        )
    )


def _lower_here(request: tuple[Any, ...]) -> str:
    """As `_lower`, where the compiler may die, from what that has said about the call."""
    name, draws, default_dtype, arguments, returned = request
    torch.set_default_dtype(default_dtype)
    (args, kwargs), returned = tree_map_only(
        ResultSpec,
        lambda spec: torch.empty_strided(spec.size, spec.stride, dtype=spec.dtype),
        (arguments, returned),
    )
    graph, _ = trace(overload_of(name), args, kwargs, returned)
    (output,) = (node for node in graph.graph.nodes if node.op == "output")
    if len(output.args[0]) != len(tensors_of(returned)):
        raise NotImplementedError("lists of tensors among several results")
    return single.to_stablehlo(lowering.decompose(graph), draws)


# One for all calls, which come one at a time: the engine sees to that.
_worker = isolate.Worker(_lower_here)


def _pack(program: CallProgram) -> bytes | None:
    code = program.executable.serialise() if program.executable is not None else b""
    if code is None:
        return None
    layout = program.layout
    header = {
        "results": [[_to_json(each) for each in slot] if isinstance(slot, list) else _to_json(slot)
                    for slot in layout.results],
        "written": [_to_json(slot) for slot in layout.written],
        "places": layout.places,
        "writable": layout.writable,
        "draws": program.draws,
    }  # fmt: skip
    return _packed(header, code)


def _packed(header: dict[str, Any], code: bytes = b"") -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(_HEADER_BYTES, "little") + text + code


def _unpack(content: bytes | None) -> CallProgram | None:
    """None where XLA does not take the code back. Raises CallRefusedError for a refusal that was kept."""
    if content is None:
        return None
    end = _HEADER_BYTES + int.from_bytes(content[:_HEADER_BYTES], "little")
    header, code = json.loads(content[_HEADER_BYTES:end]), content[end:]
    if "refused" in header:
        raise CallRefusedError(header["refused"])
    executable = Executable.load(code) if code else None
    if code and executable is None:
        return None
    layout = Layout(
        results=[_from_json(slot) for slot in header["results"]],
        written=[_from_json(slot) for slot in header["written"]],
        places=header["places"],
        writable=header["writable"],
    )
    return CallProgram(layout, executable, header["draws"])


def _to_json(spec: ResultSpec | None) -> dict[str, Any] | None:
    if spec is None:
        return None
    return {"size": spec.size, "stride": spec.stride, "dtype": dtype_name(spec.dtype)}


def _from_json(slot: Any) -> Any:
    if isinstance(slot, list):
        return [_from_json(each) for each in slot]
    if slot is None:
        return None
    return ResultSpec(tuple(slot["size"]), tuple(slot["stride"]), getattr(torch, slot["dtype"]), _CPU)
