"""What one of two processes does to check a claim about distributed training.

The process group is there when these are called; the current device is the process's own. Each compares with
what one process computes alone on the CPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from suites.claims.checks import numbers, require, require_equal
from suites.claims.claim import Subject

_BATCH = 4


def _model() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 8))


def _mesh(subject: Subject) -> DeviceMesh:
    return init_device_mesh(subject.name, (dist.get_world_size(),))


def _own_part(subject: Subject) -> torch.Tensor:
    """This process's half of the batch."""
    return numbers(_BATCH, 8).chunk(dist.get_world_size())[dist.get_rank()].to(subject.name)


def _expected_step() -> list[torch.Tensor]:
    """The parameters after a step of one process on the whole batch."""
    model = _model()
    _step(model, numbers(_BATCH, 8))
    return [p.detach() for p in model.parameters()]


def _step(model: nn.Module, x: torch.Tensor) -> None:
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    model(x).square().mean().backward()
    optimizer.step()


def process_group(subject: Subject) -> None:
    """all_reduce, broadcast and all_gather."""
    rank = dist.get_rank()
    x = torch.full((4,), float(rank + 1), device=subject.name)
    total = x.clone()
    dist.all_reduce(total)
    require_equal(subject, total, torch.full((4,), 3.0), "the sum over the processes")
    first = x.clone()
    dist.broadcast(first, src=0)
    require_equal(subject, first, torch.ones(4), "what process 0 sent")
    gathered = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(gathered, x)
    require_equal(subject, gathered, [torch.ones(4), torch.full((4,), 2.0)], "what was gathered")


def device_mesh(subject: Subject) -> None:
    """A mesh of one dimension, and a collective over it."""
    mesh = _mesh(subject)
    require(mesh.device_type == subject.name, f"the mesh is one of {mesh.device_type}")
    require(mesh.size() == dist.get_world_size(), f"the mesh has {mesh.size()} devices")
    require(mesh.get_local_rank() == dist.get_rank(), f"this process is number {mesh.get_local_rank()} there")
    total = torch.ones(2, device=subject.name)
    dist.all_reduce(total, group=mesh.get_group())
    require_equal(subject, total, torch.full((2,), 2.0), "the sum over the mesh")


def distributed_data_parallel(subject: Subject) -> None:
    """A step on halves of a batch is a step on the whole."""
    model = _model().to(subject.name)
    _step(nn.parallel.DistributedDataParallel(model), _own_part(subject))
    require_equal(subject, [p.detach() for p in model.parameters()], _expected_step(), "a parameter")


def fully_sharded_data_parallel(subject: Subject) -> None:
    """The same, with parameters in shards that are gathered to be compared."""
    from torch.distributed.fsdp import FullyShardedDataParallel

    place = torch.device(subject.name) if subject.name == "cpu" else torch.accelerator.current_device_index()
    sharded = FullyShardedDataParallel(_model(), device_id=place)
    _step(sharded, _own_part(subject))
    with FullyShardedDataParallel.summon_full_params(sharded):
        require_equal(subject, [p.detach() for p in sharded.parameters()], _expected_step(), "a parameter")


def fully_shard(subject: Subject) -> None:
    """The same, with each parameter a DTensor."""
    from torch.distributed.fsdp import fully_shard as shard

    model = _model().to(subject.name)
    shard(model, mesh=_mesh(subject))
    _step(model, _own_part(subject))
    whole = [p.full_tensor().detach() for p in model.parameters()]  # type: ignore[attr-defined]
    require_equal(subject, whole, _expected_step(), "a parameter")


def dtensor(subject: Subject) -> None:
    """A product of a tensor in parts and one that every process has."""
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    x, weight, mesh = numbers(4, 8), numbers(8, 6, seed=1), _mesh(subject)
    parts = distribute_tensor(x.to(subject.name), mesh, [Shard(0)])
    product: Any = parts @ distribute_tensor(weight.to(subject.name), mesh, [Replicate()])
    require(
        product.to_local().shape == (2, 6), f"a process holds {tuple(product.to_local().shape)} of (4, 6)"
    )
    require_equal(subject, product.full_tensor(), x @ weight, "the product")


def tensor_parallel(subject: Subject) -> None:
    """The first layer by columns, the second by rows."""
    from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

    expected, model, x = _model(), _model().to(subject.name), numbers(_BATCH, 8)
    split = parallelize_module(model, _mesh(subject), {"0": ColwiseParallel(), "2": RowwiseParallel()})
    require_equal(subject, split(x.to(subject.name)).detach(), expected(x).detach(), "the output")


def pipeline_parallel(subject: Subject) -> None:
    """A stage in each process, two micro-batches."""
    from torch.distributed.pipelining import PipelineStage, ScheduleGPipe

    rank, model, x = dist.get_rank(), _model(), numbers(_BATCH, 8)
    part = (model[:2] if rank == 0 else model[2:]).to(subject.name)
    stage = PipelineStage(part, rank, dist.get_world_size(), torch.device(subject.name))
    schedule = ScheduleGPipe(stage, n_microbatches=2)
    if rank == 0:
        schedule.step(x.to(subject.name))
    else:
        require_equal(subject, schedule.step().detach(), model.cpu()(x).detach(), "the output")


WORK: Mapping[str, Callable[[Subject], None]] = {
    work.__name__: work
    for work in (
        process_group,
        device_mesh,
        distributed_data_parallel,
        fully_sharded_data_parallel,
        fully_shard,
        dtensor,
        tensor_parallel,
        pipeline_parallel,
    )
}
"""By the name that a claim asks for."""
