"""The nodes of a Ray cluster as the place where batches run."""

from __future__ import annotations

import contextlib
import dataclasses
import uuid
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import ray

from harness import devices, processes, ray_node
from harness.devices.base import Description
from harness.engine import Engine
from harness.errors import HarnessError, InfrastructureError, UsageError
from harness.hub import HERE
from harness.processes import ChildError
from harness.profiles import Profile
from harness.pytest_sessions import Session
from harness.ray_cluster import Cluster, Resource, connected
from harness.ray_engine import RayEngine, file_system, said
from results.plan import Case

_DESCRIBE_SECONDS = 600.0
_COLLECT_SECONDS = 3600.0


@dataclasses.dataclass(frozen=True, slots=True)
class RaySite:
    """A cluster that this process is connected to."""

    profile: Profile
    cluster: Cluster

    @property
    def host(self) -> str:
        """Address at which the cluster's nodes reach this machine; a cluster started here has no others."""
        return str(ray.util.get_node_ip_address()) if self.cluster.address else HERE

    def describe(self, device: str) -> Description:
        """Describe the device as a node that offers it has it."""
        what = f"describe {device!r}"
        description: Description = on_node(self.cluster, what, _DESCRIBE_SECONDS, ray_node.describe, device)
        return description

    def collect(self, paths: Sequence[str], session: Session) -> list[Case]:
        """Collect on a node that offers the device; here it may be absent."""
        cases: list[Case] = on_node(
            self.cluster, "collect the tests", _COLLECT_SECONDS, ray_node.collect, paths, session
        )
        return cases

    def engine(self) -> Engine:
        """Tasks of the cluster; a batch's memory is its share of its node's where no limit is set."""
        profile = self.profile
        limits = dataclasses.replace(profile.limits, memory=profile.max_memory_bytes)
        return RayEngine(self.cluster, limits, most=profile.workers, url=profile.events_url)


def on_node(cluster: Cluster, what: str, seconds: float, function: Callable[..., Any], *args: Any) -> Any:
    """Call a function on a node that offers the device, and return its result.

    Raises:
        HarnessError: as raised by the function.
        InfrastructureError: it raised anything else, its node died, or it took longer than ``seconds``.
    """
    task = ray.remote(max_retries=0, **cluster.resource.options)(function)
    try:
        return ray.get(task.remote(*args), timeout=seconds)
    except ray.exceptions.RayError as error:
        cause = getattr(error, "cause", None)
        if isinstance(cause, HarnessError) and not isinstance(cause, ChildError):
            raise cause from None
        raise InfrastructureError(f"no node of {cluster.name} could {what}: {said(error)}") from error


def require_meeting_place(cluster: Cluster, url: str) -> None:
    """Check that what a node leaves at a URL can be read here, before a night is spent on finding out.

    Raises:
        UsageError: the node cannot write there, or what it wrote cannot be read here.
    """
    files, root = file_system(url)
    name = f"harness-{uuid.uuid4().hex}"
    on_node(cluster, f"write to {url}", _DESCRIBE_SECONDS, ray_node.leave, url, name, name.encode())
    try:
        files.cat_file(f"{root}/{name}")
    except Exception as error:  # each storage raises errors of its own
        raise UsageError(
            f"event logs cannot go to {url}: a node can write there, but here it cannot be read: {error}"
        ) from error
    with contextlib.suppress(Exception):  # not everyone who may read may remove
        files.rm_file(f"{root}/{name}")


@contextlib.contextmanager
def ray_site(profile: Profile) -> Iterator[RaySite]:
    """Be connected to the cluster that a profile names while the context lasts.

    Raises:
        HarnessError: it does not answer, no node offers the device, or event logs do not get here.
    """
    resource = processes.call(resource_of, profile.device)
    with connected(profile.ray_address, resource, profile.worker_count) as cluster:
        if profile.events_url:
            require_meeting_place(cluster, profile.events_url)
        yield RaySite(profile, cluster)


def resource_of(device: str) -> Resource:
    """What a batch for a device asks for; runs in a child, because an adapter may import torch."""
    adapter = devices.get(device)
    return Resource(adapter.cluster_resource, adapter.visible_variable)
