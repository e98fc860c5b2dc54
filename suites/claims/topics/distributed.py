"""Training on more than one core: each claim is checked by two processes, each with a core of its own."""

from __future__ import annotations

import torch

from suites.claims import ranks
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("distributed", recorded=False)


@topic.claim(
    'init_process_group(backend="neuron") makes a group whose collectives work.',
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
)
def process_group(subject: Subject) -> None:
    ranks.check(subject, "process_group", backend=subject.name)


@topic.claim(
    'init_device_mesh("neuron", ...) makes a mesh of devices.', Source.DOCUMENTATION, Source.LAUNCH_POST
)
def device_mesh(subject: Subject) -> None:
    ranks.check(subject, "device_mesh", backend=subject.name)


def _default_backend(subject: Subject) -> str:
    """The backend that torch uses for a device; the device's own name where none is known."""
    try:
        return torch.distributed.get_default_backend_for_device(subject.name)
    except ValueError:
        return subject.name


@topic.claim(
    "DistributedDataParallel is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY
)
def distributed_data_parallel(subject: Subject) -> None:
    ranks.check(subject, "distributed_data_parallel", backend=_default_backend(subject))


@topic.claim(
    "FullyShardedDataParallel (FSDP1) is supported.",
    Source.DOCUMENTATION,
    Source.LAUNCH_POST,
    scope=Scope.ANY,
)
def fully_sharded_data_parallel(subject: Subject) -> None:
    ranks.check(subject, "fully_sharded_data_parallel", backend=_default_backend(subject))


@topic.claim("fully_shard (FSDP2) is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def fully_shard(subject: Subject) -> None:
    ranks.check(subject, "fully_shard", backend=_default_backend(subject))


@topic.claim("DTensor is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def dtensor(subject: Subject) -> None:
    ranks.check(subject, "dtensor", backend=_default_backend(subject))


@topic.claim("Tensor parallelism is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def tensor_parallel(subject: Subject) -> None:
    ranks.check(subject, "tensor_parallel", backend=_default_backend(subject))


@topic.claim("Pipeline parallelism is supported.", Source.DOCUMENTATION, Source.LAUNCH_POST, scope=Scope.ANY)
def pipeline_parallel(subject: Subject) -> None:
    ranks.check(subject, "pipeline_parallel", backend=_default_backend(subject))
