"""The unlock ranking against brute force, and read from a run whose gaps are known."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

import results
from harness.cli import main
from results.unlock import Blocked, By, Gain, rank, unlocked
from results.unlock_report import read_blocked, sentence
from tests.results.factory import COMPLETE_RUN

_OPS = "abcdef"
_SETS = st.lists(
    st.builds(
        Blocked,
        st.frozensets(st.sampled_from(_OPS), min_size=1, max_size=4),
        st.builds(Gain, st.integers(0, 3), st.integers(0, 50), st.integers(0, 3)),
    ),
    max_size=9,
)


def _value(blocked: list[Blocked], ops: tuple[str, ...] | frozenset[str], by: By) -> int:
    return sum(getattr(row.cases, by) for row in blocked if all(op in ops for op in row.ops))


def _optimum(blocked: list[Blocked], limit: int, by: By) -> int:
    return max(_value(blocked, ops, by) for ops in itertools.combinations(_OPS, min(limit, len(_OPS))))


def _one_at_a_time(blocked: list[Blocked], limit: int, by: By) -> int:
    chosen: frozenset[str] = frozenset()
    for _ in range(limit):
        gains = {op: _value(blocked, chosen | {op}, by) for op in _OPS if op not in chosen}
        best = max(gains, key=lambda op: gains[op], default="")
        if not best or gains[best] == _value(blocked, chosen, by):
            break  # no single operator frees anything
        chosen |= {best}
    return _value(blocked, chosen, by)


@given(_SETS, st.integers(0, 6), st.sampled_from(list(By)))
def test_it_lies_between_simple_choices_and_the_optimum(blocked: list[Blocked], limit: int, by: By) -> None:
    found = rank(blocked, limit, by)
    assert len(found.ops) == len(set(found.ops)) <= limit
    reached = _value(blocked, frozenset(found.ops), by)
    assert getattr(found.total, by) == reached
    assert reached <= _optimum(blocked, limit, by) <= found.at_most
    assert reached >= _one_at_a_time(blocked, limit, by)
    for row in blocked:
        if len(row.ops) <= limit:
            assert reached >= _value(blocked, row.ops, by)


@given(_SETS, st.sampled_from(list(By)))
def test_more_operators_never_free_less_and_enough_free_all(blocked: list[Blocked], by: By) -> None:
    freed = [getattr(rank(blocked, limit, by).total, by) for limit in range(len(_OPS) + 1)]
    assert freed == sorted(freed)
    assert freed[-1] == sum(getattr(row.cases, by) for row in blocked)


@given(_SETS, st.frozensets(st.sampled_from(_OPS)), st.integers(0, 3), st.randoms())
def test_steps_add_up_and_order_does_not_matter(
    blocked: list[Blocked], ticked: frozenset[str], limit: int, dice: random.Random
) -> None:
    found = rank(blocked, limit, given=ticked)
    total, ops = Gain(), frozenset()
    for step in found.steps:
        total, ops = total + step.gain, ops | set(step.ops)
        assert step.total == total == unlocked(blocked, ops)
        assert step.operators == len(ops)
    assert ticked <= ops
    assert len(ops - ticked) <= limit
    shuffled = blocked[:]
    dice.shuffle(shuffled)
    assert rank(shuffled, limit, given=ticked) == found


def test_operators_that_pay_off_together_are_found_together() -> None:
    blocked = [
        Blocked(frozenset("ab"), Gain(models=10)),
        Blocked(frozenset("c"), Gain(models=3)),
        Blocked(frozenset("abd"), Gain(models=1)),
    ]
    found = rank(blocked, 2)
    assert [(step.ops, step.gain.models) for step in found.steps] == [(("a", "b"), 10)]
    assert [step.ops for step in rank(blocked, 4).steps] == [("a", "b"), ("c",), ("d",)]
    assert rank(blocked, 0).total == Gain()


def test_a_model_is_freed_by_all_of_its_operators_only(store: results.Store) -> None:
    blocked = read_blocked(store, COMPLETE_RUN)
    # Of the three models that fall back, llama fails its gradients and gpt2 does not compile, for a named op.
    assert unlocked(blocked, ["aten::cumsum"]) == Gain(models=1, downloads=900_000)
    assert unlocked(blocked, ["aten::cumsum", "aten::topk"]) == Gain(models=1, downloads=900_000)
    all_three = ["aten::cumsum", "aten::topk", "aten::tril"]
    assert unlocked(blocked, all_three) == Gain(models=2, downloads=1_700_000, unsupported=1)
    found = rank(blocked, 3)
    assert [step.ops for step in found.steps] == [("aten::cumsum",), ("aten::topk", "aten::tril")]
    assert "2 of 2 waiting models (1,700,000 downloads)" in sentence(found)
    llama = next(row for row in store.rows("v_blocked", run=COMPLETE_RUN) if "llama" in row["case_id"])
    assert (llama["ops"], llama["outcome"], llama["freeable"]) == (["aten::cumsum"], "failed_numeric", False)


def test_gaps_by_dtype_add_up_to_the_gaps(store: results.Store) -> None:
    whole = {row["op"]: row for row in store.rows("v_gaps", run=COMPLETE_RUN)}
    parts = store.rows("v_gap_dtypes", run=COMPLETE_RUN)
    assert {row["op"] for row in parts} == set(whole)
    for op, row in whole.items():
        mine = [part for part in parts if part["op"] == op]
        assert sorted(part["dtype"] for part in mine) == row["dtypes"]
        for column in ("fallback_calls", "fallback_ns", "bytes_moved"):
            assert sum(part[column] for part in mine) == row[column]


def _unlock(store: results.Store, *arguments: str) -> list[str]:
    return ["gaps", COMPLETE_RUN, "--store", str(store.path), *arguments]


def test_the_command_prints_steps_and_what_they_come_to(
    store: results.Store, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(_unlock(store, "--unlock", "3", "--format", "json")) == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["lower"], first["models"], first["all_models"]) == (["aten::cumsum"], 1, 1)
    assert (second["operators"], second["models"], second["all_downloads"]) == (3, 1, 1_700_000)
    assert main(_unlock(store, "--unlock", "0", "--with", "aten::cumsum", "--format", "csv")) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith('1,"[""aten::cumsum""]",1,900000')
    assert main(_unlock(store, "--unlock", "1", "--by", "tests")) == 0
    assert "No choice of so many operators gives more than 4 tests" in " ".join(
        capsys.readouterr().out.split()
    )
    assert main(_unlock(store, "--dtypes", "--format", "json")) == 0
    assert json.loads(capsys.readouterr().out)[0]["dtype"] == "int64"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--with", "aten::cumsum"], "give --unlock K"),
        (["--unlock", "1", "--with", "aten::cumsun"], "did you mean 'aten::cumsum'"),
    ],
)
def test_a_mistake_is_one_sentence(
    store: results.Store, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert main(_unlock(store, *arguments)) == 2
    assert words in capsys.readouterr().err
