"""Where a run's batches run: on this machine, or on the nodes of a Ray cluster."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.util
from collections.abc import Iterator, Sequence
from typing import Protocol

from harness import devices, processes, pytest_sessions
from harness.devices.base import Description
from harness.engine import Engine
from harness.errors import UsageError
from harness.hub import HERE
from harness.local import LocalEngine
from harness.profiles import RAY, Profile
from harness.pytest_sessions import Session
from results.plan import Case


class Site(Protocol):
    """A place that has the device."""

    @property
    def host(self) -> str:
        """Address of this machine at which batches reach it."""

    def describe(self, device: str) -> Description:
        """Describe the device as it is there.

        Raises:
            HarnessError: looking at it failed.
        """

    def collect(self, paths: Sequence[str], session: Session) -> list[Case]:
        """What pytest collects there; see :func:`harness.pytest_sessions.collect`.

        Raises:
            HarnessError: as there.
        """

    def engine(self) -> Engine:
        """What runs batches there.

        Raises:
            HarnessError: it cannot be used as the profile says.
        """


@contextlib.contextmanager
def site(profile: Profile) -> Iterator[Site]:
    """The place that a profile names, for as long as the context lasts.

    Raises:
        HarnessError: it cannot be reached, or lacks what it needs.
    """
    if profile.engine != RAY:
        yield LocalSite(profile)
        return
    if importlib.util.find_spec("ray") is None:
        raise UsageError("engine ray needs Ray; install it with `pip install 'torchneuron-harness[ray]'`")
    from harness.ray_site import ray_site

    with ray_site(profile) as place:
        yield place


@dataclasses.dataclass(frozen=True, slots=True)
class LocalSite:
    """This machine."""

    profile: Profile
    host: str = HERE

    def describe(self, device: str) -> Description:
        """Describe the device, in a child."""
        return processes.call(devices.describe, device)

    def collect(self, paths: Sequence[str], session: Session) -> list[Case]:
        """Collect in children."""
        return pytest_sessions.collect(paths, session)

    def engine(self) -> Engine:
        """Processes of this machine."""
        return LocalEngine(self.profile.worker_count, self.profile.limits)
