"""``hop_db``: operators that take functions."""

from __future__ import annotations

import pytest
import torch
from torch.nn.attention.flex_attention import BlockMask, create_block_mask

from results.vocabulary import Outcome
from suites.opinfo import run_case
from suites.opinfo.entries import entries
from suites.opinfo.samples import Call, place
from suites.opinfo.traits import load_traits
from tests.suites.fakes import FakeDevice
from tests.suites.opinfo_faults import case_of, other_on_device

HOP_DB = "hop_db"


def run(name, check="forward", dtype="float32"):
    return run_case(case_of(name, check, dtype, HOP_DB), FakeDevice())


@pytest.mark.parametrize("check", ["forward", "determinism"])
@pytest.mark.parametrize("name", ["cond.simple", "auto_functionalize.simple", "invoke_quant.simple"])
def test_the_cpu_agrees_with_itself(name, check):
    assert run(name, check).outcome is Outcome.PASSED


def test_the_other_branch_fails(monkeypatch):
    info = entries(HOP_DB)["cond.simple"].info
    other_on_device(
        monkeypatch, info, "op", lambda right, x: torch.cond(x.sum() <= 2, torch.cos, torch.sin, [x])[None]
    )
    assert run("cond.simple").outcome is Outcome.FAILED_NUMERIC


def test_what_a_custom_operator_mutates_is_compared(monkeypatch):
    info = entries(HOP_DB)["auto_functionalize.simple"].info
    other_on_device(monkeypatch, info, "op", lambda right, x, z: right(x.clone(), z.clone()))
    result = run("auto_functionalize.simple")
    assert result.outcome is Outcome.FAILED_NUMERIC
    assert "written into" in result.message


def test_entries_listed_for_cuda_alone_run_where_they_can():
    assert torch.float32 in entries(HOP_DB)["flex_attention.simple"].dtypes
    assert run("flex_attention.simple").outcome is Outcome.PASSED
    result = run("inline_asm_elementwise.simple")
    assert (result.outcome, result.message) == (
        Outcome.UNSUPPORTED,
        "hop_db lists no float32 for this operator",
    )


def test_a_hook_is_seen_in_backward(monkeypatch):
    """It has no other effect."""
    assert run("register_hook.simple").message == "a hook does nothing before backward"
    assert run("register_hook.simple", "backward").outcome is Outcome.PASSED
    other_on_device(monkeypatch, entries(HOP_DB)["register_hook.simple"].info, "op", lambda right, x: x * 1)
    assert run("register_hook.simple", "backward").outcome is Outcome.FAILED_NUMERIC


def test_gaps_that_an_operator_refuses_are_left_out():
    """``while_loop`` wants the strides that its body returns."""
    result = run("while_loop.simple", "noncontiguous")
    assert result.outcome is Outcome.SKIPPED_UPSTREAM


def test_no_dispatch_mode_is_used():
    device = FakeDevice()
    run_case(case_of("cond.simple", "forward", database=HOP_DB), device)
    assert device.recordings == 1
    assert not device.paired


def test_variants_of_one_operator_are_entries():
    assert {"map.simple", "map.nested", "map.triple_nested"} <= set(entries(HOP_DB))


def test_a_block_mask_is_moved():
    mask = create_block_mask(lambda b, h, m, n: m >= n, 1, 1, 128, 128, device="cpu")
    moved = place(Call((mask,), {}), "meta", "", load_traits()).args[0]
    assert isinstance(moved, BlockMask)
    assert moved.kv_num_blocks.device.type == "meta"
    assert mask.kv_num_blocks.device.type == "cpu"
