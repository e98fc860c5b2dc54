"""What the environment tells the device before torch is imported."""

from __future__ import annotations

import os
from pathlib import Path

import torch

from suites.claims.checks import host_only_operator, numbers, require, require_equal
from suites.claims.claim import A_FOLDER, Source, Subject, Topic

topic = Topic("environment")


@topic.claim(
    "NEURON_RT_NUM_CORES says how many cores a process gets.",
    Source.DOCUMENTATION,
    fresh={"NEURON_RT_NUM_CORES": "1", "NEURON_RT_VISIBLE_CORES": None},
)
def number_of_cores(subject: Subject) -> None:
    count = torch.accelerator.device_count()
    require(count == 1, f"with NEURON_RT_NUM_CORES=1 there are {count} devices")


@topic.claim(
    "NEURON_RT_VISIBLE_CORES says which cores a process gets.",
    Source.DOCUMENTATION,
    fresh={"NEURON_RT_VISIBLE_CORES": "0", "NEURON_RT_NUM_CORES": None},
)
def visible_cores(subject: Subject) -> None:
    count = torch.accelerator.device_count()
    require(count == 1, f"with NEURON_RT_VISIBLE_CORES=0 there are {count} devices")


@topic.claim(
    "TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION=0 lets a graph that does not compile run eagerly.",
    Source.DOCUMENTATION,
    fresh={"TORCH_NEURONX_DISABLE_FALLBACK_EXECUTION": "0"},
)
def fallback_execution(subject: Subject) -> None:
    x = numbers(4)
    with host_only_operator() as operator:
        compiled = torch.compile(lambda x: operator(x), backend=subject.name, fullgraph=True)
        require_equal(subject, compiled(x.to(subject.name)), 2 * x, "the result of the eager graph")


@topic.claim(
    "TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS=1 keeps what a compile makes in TORCH_NEURONX_DEBUG_DIR.",
    Source.DOCUMENTATION,
    fresh={"TORCH_NEURONX_PRESERVE_COMPILATION_ARTIFACTS": "1", "TORCH_NEURONX_DEBUG_DIR": A_FOLDER},
)
def kept_artefacts(subject: Subject) -> None:
    x = numbers(os.getpid() % 4093 + 3)  # a shape of its own, lest a cache answers
    torch.compile(lambda x: x * 3 + 1, backend=subject.name)(x.to(subject.name)).cpu()
    kept = list(Path(os.environ["TORCH_NEURONX_DEBUG_DIR"]).rglob("*"))
    require(bool(kept), "a compile left nothing in the folder that it was given")
