"""What a claim is: a statement, who made it, where it applies, and a function that may refute it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from enum import StrEnum

import torch

from suites.compare import ToleranceOf


class Source(StrEnum):
    """Who said so; kind and title."""

    DOCUMENTATION = "AWS Neuron documentation 2.33"
    LAUNCH_POST = "AWS launch post of TorchNeuron, as quoted by the press"
    USERS = "users' public texts"


class Scope(StrEnum):
    """The devices that a statement can be put to."""

    ANY = "any device"
    ACCELERATOR = "a device that torch.accelerator drives"
    NEURON = "the device neuron"

    def why_not(self, device: str) -> str:
        """Why the statement says nothing of a device, ``""`` if it does."""
        if self is Scope.NEURON and device != "neuron":
            return f"it says something of the device neuron only, not of {device}"
        if self is Scope.ACCELERATOR and not _is_accelerator(device):
            return f"it says something of accelerators only, and {device} is not the one of torch.accelerator"
        return ""


def _is_accelerator(device: str) -> bool:
    current = torch.accelerator.current_accelerator()
    return current is not None and current.type == device


A_FOLDER = "<an empty folder>"
"""Stands for the path of a folder that is there while a claim is checked; a value in ``fresh``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Subject:
    """What a claim is checked on.

    Attributes:
        name: torch device type.
        tolerance: bounds by the name of a dtype.
    """

    name: str
    tolerance: ToleranceOf


Check = Callable[[Subject], None]
"""Returns if the statement holds, and raises what refutes it (:mod:`suites.claims.checks`)."""


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """One statement that can be executed.

    Attributes:
        topic, name: make the id of its case.
        statement: one sentence.
        fresh: if not ``None``, it is checked in a process of its own with these variables in its
            environment; one that is ``None`` is removed.
        recorded: whether op calls are recorded, and at least one has to be seen. Not where a check itself
            reads what is recorded, or runs an operator that was made for it and is no gap of the device.
    """

    topic: str
    name: str
    statement: str
    sources: tuple[Source, ...]
    scope: Scope
    check: Check
    fresh: Mapping[str, str | None] | None = None
    recorded: bool = True

    @property
    def key(self) -> str:
        """``topic::name``."""
        return f"{self.topic}::{self.name}"

    @property
    def likely(self) -> bool:
        """Whether only users say so: likely, but no fact."""
        return self.sources == (Source.USERS,)

    @property
    def said_by(self) -> str:
        """The sources in words."""
        return "; ".join(self.sources) + (" (likely, no fact)" if self.likely else "")


class Topic:
    """The claims of one module, in the order in which they stand there."""

    def __init__(self, name: str, *, recorded: bool = True) -> None:
        self.name = name
        self.claims: list[Claim] = []
        self._recorded = recorded

    def claim(
        self,
        statement: str,
        *sources: Source,
        scope: Scope = Scope.NEURON,
        fresh: Mapping[str, str | None] | None = None,
        recorded: bool | None = None,
    ) -> Callable[[Check], Check]:
        """Decorator for the function that checks a statement; the function's name is the claim's."""

        def add(check: Check) -> Check:
            self.claims.append(
                Claim(
                    topic=self.name,
                    name=check.__name__,
                    statement=statement,
                    sources=sources,
                    scope=scope,
                    check=check,
                    fresh=fresh,
                    recorded=fresh is None and (self._recorded if recorded is None else recorded),
                )
            )
            return check

        return add
