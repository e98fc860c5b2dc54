"""One pair, from its configuration to its gradients, with every stage told as it begins."""

from __future__ import annotations

import inspect
import re
import resource
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode

from model_zoo.architectures.build import build, configurations, model_class
from model_zoo.architectures.pairs import Pair
from model_zoo.architectures.reasons import Reason, reason_of
from model_zoo.inputs import make_inputs
from model_zoo.outputs import loss_of

STAGES = ("import", "config", "build", "inputs", "forward", "backward", "done")
Tell = Callable[[dict[str, Any]], None]


class _Operators(TorchDispatchMode):
    """Names of the overloads that run."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        self.seen.add(str(func))
        return func(*args, **(kwargs or {}))


def try_pair(pair: Pair, tell: Tell) -> dict[str, Any]:
    """Climb the ladder until forward and backward work; the record of the furthest attempt.

    Args:
        pair: what to try.
        tell: called with the record so far whenever a stage begins, so that a killed process has
            said how far it was.
    """
    record: dict[str, Any] = {
        "pair": pair.key,
        "type": pair.model_type,
        "tasks": pair.tasks,
        "stage": "import",
    }
    tell(record)
    try:
        architecture = model_class(pair)
        if _has_no_forward(architecture):
            return {**record, "reason": Reason.NOT_A_FORWARD_MODEL}
    except Exception as error:  # noqa: BLE001 - a model may raise anything; it becomes the record.
        return _failed(record, error)
    best = record
    for rung, make in configurations(pair, architecture):
        attempt = _attempt({**record, "rung": rung}, architecture, make, tell)
        if best is record or STAGES.index(attempt["stage"]) > STAGES.index(best["stage"]):
            best = attempt
        if best["stage"] == "done" or attempt.get("reason") == Reason.PACKAGE_MISSING:
            break
    return best


def _attempt(
    record: dict[str, Any], architecture: Any, make: Callable[[], Any], tell: Tell
) -> dict[str, Any]:
    def begin(stage: str) -> float:
        record["stage"] = stage
        tell(record)
        return time.monotonic()

    try:
        begin("config")
        config = make()
        begin("build")
        model = build(architecture, config)
        record["parameters"] = sum(parameter.numel() for parameter in model.parameters())
        begin("inputs")
        inputs = make_inputs(model, seed=0)
        record["modalities"] = inputs.modalities
        operators = _Operators()
        with operators:
            begun = begin("forward")
            output, inputs = _forward(model, inputs)
            record["forward_s"] = round(time.monotonic() - begun, 4)
            record["labels"] = inputs.has_labels
            begun = begin("backward")
            loss_of(output).backward()
            record["backward_s"] = round(time.monotonic() - begun, 4)
        record["gradient_share"] = gradient_share(model)
        record["operators"] = sorted(operators.seen)
        record["peak_mb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        begin("done")
    except Exception as error:  # noqa: BLE001 - a model may raise anything; it becomes the record.
        return _failed(record, error)
    return record


def _forward(model: Any, inputs: Any) -> tuple[Any, Any]:
    """One call; if the model says how many places in the text its image needs, one more."""
    try:
        return model(**inputs.kwargs), inputs
    except Exception as error:
        found = re.search(r"tokens:? (\d+),? features:? (\d+)", str(error))
        if found is None:
            raise
        features = int(found[2])
    inputs = make_inputs(model, seed=0, image_tokens=max(1, features // 2))
    return model(**inputs.kwargs), inputs


def gradient_share(model: Any) -> float:
    """Share of the elements of trainable parameters that got a gradient, 0 to 1."""
    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
    reached = sum(parameter.numel() for parameter in trainable if parameter.grad is not None)
    return round(reached / max(1, sum(parameter.numel() for parameter in trainable)), 4)


def _has_no_forward(architecture: Any) -> bool:
    return inspect.getattr_static(architecture, "forward", None) in (None, torch.nn.Module.forward)


def _failed(record: dict[str, Any], error: Exception) -> dict[str, Any]:
    first = (str(error).splitlines() or [""])[0][:200]
    reason = reason_of(record["stage"], error)
    return {**record, "reason": reason, "error": f"{type(error).__name__}: {first}"}
