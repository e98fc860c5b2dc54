"""Random numbers. Users saw a beta without a generator of the device; these are about one that has it."""

from __future__ import annotations

import torch
from torch.nn import functional

from suites.claims.checks import numbers, require, require_equal
from suites.claims.claim import Scope, Source, Subject, Topic

topic = Topic("random")


@topic.claim(
    "The device has a generator of its own (a beta had none), and its seed decides on the numbers.",
    Source.USERS,
    scope=Scope.ANY,
)
def own_generator(subject: Subject) -> None:
    generator = torch.Generator(device=subject.name)
    require(generator.device.type == subject.name, f"a generator was made on {generator.device}")
    drawn = [
        torch.rand(64, device=subject.name, generator=generator.manual_seed(seed)).cpu() for seed in (1, 1, 2)
    ]
    require(torch.equal(drawn[0], drawn[1]), "one seed gave two rows of numbers")
    require(not torch.equal(drawn[0], drawn[2]), "two seeds gave the same numbers")
    require(bool((drawn[0] >= 0).all() and (drawn[0] < 1).all()), "rand left [0, 1)")


@topic.claim(
    "torch.manual_seed seeds the device (a beta had no generator to seed).", Source.USERS, scope=Scope.ANY
)
def seeded_by_torch(subject: Subject) -> None:
    drawn = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        x = torch.randn(64, device=subject.name)
        drawn.append(functional.dropout(x, 0.5).cpu())
    require(torch.equal(drawn[0], drawn[1]), "one seed gave two rows of numbers")
    require(not torch.equal(drawn[0], drawn[2]), "two seeds gave the same numbers")


@topic.claim("What is drawn on the CPU, as libraries do, arrives unchanged.", Source.USERS, scope=Scope.ANY)
def drawn_on_the_cpu(subject: Subject) -> None:
    x = numbers(1000)
    moved = x.to(subject.name)
    require_equal(subject, moved, x, "what was moved")
    require(torch.equal(moved.cpu(), x), "numbers changed on the way")
