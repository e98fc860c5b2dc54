"""A Ray cluster as the harness sees it: so many of one resource, as nodes come and go."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import socket
import time
from collections.abc import Iterator
from typing import Any

import ray

from harness.errors import InfrastructureError, UsageError

CONNECT_SECONDS = 10.0
PATIENCE = 300.0
"""Seconds that a run waits for a node when none is left."""

_COUNT_SECONDS = 2.0
_ALWAYS_THERE = ("CPU", "GPU")


@dataclasses.dataclass(frozen=True, slots=True)
class Resource:
    """What a batch asks a cluster for, one of it.

    Attributes:
        name: as Ray has it, e.g. ``neuron_cores``.
        visible: environment variable in which Ray says which one was given, ``""`` if there is none.
    """

    name: str
    visible: str = ""

    @property
    def options(self) -> dict[str, Any]:
        """Options of a task that asks for one; whatever has a device needs no processor for itself."""
        if self.name == "CPU":
            return {"num_cpus": 1}
        if self.name == "GPU":
            return {"num_cpus": 0, "num_gpus": 1}
        return {"num_cpus": 0, "resources": {self.name: 1}}

    @property
    def advice(self) -> str:
        """How a node is made to offer it."""
        if self.name in _ALWAYS_THERE:
            return f"start one with `ray start --num-{self.name.lower()}s N`"
        return f"start one with `ray start --resources '{{\"{self.name}\": N}}'`"


class Cluster:
    """The cluster this process is connected to.

    Attributes:
        resource: what batches ask for.
        address: HOST:PORT of its head, ``""`` if it was started here.
    """

    def __init__(self, resource: Resource, address: str = "") -> None:
        self.resource = resource
        self.address = address
        self._total = 0
        self._counted = -_COUNT_SECONDS
        self._last_seen = time.monotonic()

    @property
    def name(self) -> str:
        """The cluster in a sentence."""
        return f"the Ray cluster at {self.address}" if self.address else "the Ray cluster of this machine"

    @property
    def total(self) -> int:
        """How many of the resource its nodes have now.

        Raises:
            InfrastructureError: there have been none for ``PATIENCE`` seconds.
        """
        now = time.monotonic()
        if now - self._counted >= _COUNT_SECONDS:
            self._counted = now
            self._total = self._count()
            if self._total:
                self._last_seen = now
        if now - self._last_seen > PATIENCE:
            raise InfrastructureError(
                f"no node of {self.name} has offered {self.resource.name!r} for {PATIENCE:.0f} s"
            )
        return self._total

    def _count(self) -> int:
        try:
            return int(ray.cluster_resources().get(self.resource.name, 0))
        except ray.exceptions.RayError as error:
            raise InfrastructureError(
                f"{self.name} does not answer any more: {_first_line(error)}"
            ) from error

    def require(self) -> None:
        """Check that there is something to run on.

        Raises:
            InfrastructureError: no node offers the resource.
        """
        if not self.total:
            raise InfrastructureError(
                f"no node of {self.name} offers {self.resource.name!r}; {self.resource.advice}"
            )


@contextlib.contextmanager
def connected(address: str, resource: Resource, slots: int) -> Iterator[Cluster]:
    """Be connected to a cluster while the context lasts.

    A connection that the program has already is used, and kept.

    Args:
        address: HOST:PORT of its head; ``""`` is ``$RAY_ADDRESS``, and without that one is started here.
        slots: how many of the resource a cluster that is started here shall have, unless Ray finds them.

    Raises:
        UsageError: ``$RAY_ADDRESS`` is not HOST:PORT.
        InfrastructureError: the cluster does not answer, or no node offers the resource.
    """
    address = address or os.environ.get("RAY_ADDRESS", "")
    address = "" if address == "local" else address
    ours = not ray.is_initialized()
    if ours:
        _connect(address, resource, slots)
    try:
        cluster = Cluster(resource, address)
        cluster.require()
        yield cluster
    finally:
        if ours:
            ray.shutdown()


def _connect(address: str, resource: Resource, slots: int) -> None:
    if address:
        _reach(address)
        where: dict[str, Any] = {"address": address}
    else:
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
        where = {"address": "local", "include_dashboard": False}
        if resource.name == "CPU":
            where["num_cpus"] = slots
        elif resource.name not in _ALWAYS_THERE:
            where["resources"] = {resource.name: slots}
    try:
        ray.init(**where, log_to_driver=False, logging_level="ERROR")
        _quieten()
    except (Exception, SystemExit) as error:  # Ray raises whatever its parts raise, and even exits
        failed = f"the Ray cluster at {address} cannot be joined" if address else "Ray cannot be started here"
        raise InfrastructureError(f"{failed}: {_first_line(error)}") from error


def _quieten() -> None:
    """Ray prints pages on lost nodes to standard output, where reports go, and has no setting for that."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


def _reach(address: str) -> None:
    """Ray itself tries for minutes and then ends the process, so the door is tried first."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        raise UsageError(f"the address of a Ray cluster is HOST:PORT of its head, not {address!r}")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise InfrastructureError(
            f"the Ray cluster at {address} does not answer: {error}; start its head with `ray start --head`"
        ) from error


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__
