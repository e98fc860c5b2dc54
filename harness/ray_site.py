"""The nodes of a Ray cluster as the place where batches run."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator

import ray

from harness import devices, processes
from harness.devices.base import Description
from harness.engine import Engine
from harness.errors import InfrastructureError
from harness.hub import HERE
from harness.profiles import Profile
from harness.ray_cluster import Cluster, Resource, connected
from harness.ray_engine import RayEngine, said
from harness.ray_node import describe

_DESCRIBE_SECONDS = 600.0


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
        task = ray.remote(max_retries=0, **self.cluster.resource.options)(describe)
        try:
            description: Description = ray.get(task.remote(device), timeout=_DESCRIBE_SECONDS)
        except ray.exceptions.RayError as error:
            raise InfrastructureError(
                f"no node of {self.cluster.name} could describe {device!r}: {said(error)}"
            ) from error
        return description

    def engine(self) -> Engine:
        """Tasks of the cluster; a batch's memory is its share of its node's where no limit is set."""
        profile = self.profile
        limits = dataclasses.replace(profile.limits, memory=profile.max_memory_bytes)
        return RayEngine(self.cluster, limits, most=profile.workers, url=profile.events_url)


@contextlib.contextmanager
def ray_site(profile: Profile) -> Iterator[RaySite]:
    """Be connected to the cluster that a profile names while the context lasts.

    Raises:
        HarnessError: it does not answer, or no node offers the device.
    """
    resource = processes.call(resource_of, profile.device)
    with connected(profile.ray_address, resource, profile.worker_count) as cluster:
        yield RaySite(profile, cluster)


def resource_of(device: str) -> Resource:
    """What a batch for a device asks for; runs in a child, because an adapter may import torch."""
    adapter = devices.get(device)
    return Resource(adapter.cluster_resource, adapter.visible_variable)
