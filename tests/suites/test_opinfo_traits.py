"""The list of random operators is complete and true for the installed torch."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.testing._internal import common_methods_invocations as op_db_module

from results.vocabulary import Outcome
from suites.compare import compare
from suites.device import Tolerance
from suites.opinfo import load_selection
from suites.opinfo.entries import OP_DB, entries, operators
from suites.opinfo.samples import chosen_samples, place, seed_everything
from suites.opinfo.traits import load_traits

TRAITS = load_traits()
RANDOM = [op for op, reason in TRAITS.uncompared.items() if reason == "random"]


@pytest.fixture
def unseeded(monkeypatch):
    """op_db hides randomness by seeding inside random operators; here it does not."""
    monkeypatch.setattr(op_db_module, "wrapper_set_seed", lambda op, *args, **kwargs: op(*args, **kwargs))


def differs(op):
    """Whether the operator gives something else for another seed, and whether it could be run."""
    info, ran = operators()[op], False
    dtype = torch.float32 if torch.float32 in info.supported_dtypes("cpu") else torch.int64
    for call in chosen_samples(entries(OP_DB)[op], dtype, 0):
        if TRAITS.why_uncompared(op, call.kwargs).startswith("random with"):
            continue
        results = []
        for seed in (1, 2):
            seed_everything(seed)
            arguments = place(call, "cpu", op, TRAITS)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                results.append(info.op(*arguments.args, **arguments.kwargs))
        ran = True
        if compare(*results, lambda _: Tolerance(1e-6, 1e-6)).outcome is Outcome.FAILED_NUMERIC:
            return True, ran
    return False, ran


@pytest.mark.parametrize("op", RANDOM)
def test_what_is_listed_as_random_is(unseeded, op):
    assert differs(op) == (True, True)


def test_what_op_db_seeds_and_is_not_listed_is_not_random(unseeded):
    """An operator that op_db runs under a fixed seed is random, unless it is shown here that it is not."""
    seeded = [
        op
        for op, info in operators().items()
        if "wrapper_set_seed" in getattr(getattr(info.op, "__code__", None), "co_names", ())
    ]
    assert len(seeded) > 20
    unlisted = [op for op in seeded if op not in TRAITS.uncompared]
    assert unlisted
    assert {op: differs(op) for op in unlisted} == dict.fromkeys(unlisted, (False, True))


def test_the_first_slice_draws_no_random_numbers_elsewhere():
    """Of what op_db does not seed: nothing moves the generator."""
    guilty = []
    for op in load_selection().ops:
        info = operators()[op]
        if torch.float32 not in info.supported_dtypes("cpu") or op in TRAITS.uncompared:
            continue
        for call in chosen_samples(entries(OP_DB)[op], torch.float32, 0)[:3]:
            arguments = place(call, "cpu", op, TRAITS)
            before = torch.get_rng_state()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                info.op(*arguments.args, **arguments.kwargs)
            if not torch.equal(before, torch.get_rng_state()):
                guilty.append(op)
                break
    assert guilty == []
