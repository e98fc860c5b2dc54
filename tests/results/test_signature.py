"""Equal failures have one signature, different ones do not."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from results.signature import normalise, signature


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("object at 0x7f00deadbeef", "object at 0x55aa"),
        ("tensor on neuron:0", "tensor on neuron:1"),
        ("expected cpu tensor", "expected cuda:3 tensor"),
        ("open /home/a/x.py failed", "open /srv/b/c/y.py failed"),
        ("max abs error 0.5 exceeds 1e-05", "max abs error 12.25 exceeds 1e-3"),
        ("size 3\nstride 4", "size 7 stride 9"),
        ("shape '[2, 3]' is invalid", "shape '[4, 5]' is invalid"),
        ("privateuseone:0 failed", "PrivateUse1:1 failed"),
    ],
)
def test_messages_that_differ_in_detail_are_one(one: str, two: str) -> None:
    assert signature("E", one) == signature("E", two)


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("aten::add has no kernel", "aten::mul has no kernel"),
        ("expected float32", "expected int64"),
        ("conv2d failed", "conv3d failed"),
        ("CudaError", "Error"),
    ],
)
def test_messages_that_say_different_things_are_two(one: str, two: str) -> None:
    assert signature("E", one) != signature("E", two)


def test_the_exception_is_part_of_it() -> None:
    assert signature("ValueError", "x") != signature("TypeError", "x")


def test_it_is_the_same_on_every_machine() -> None:
    assert signature("RuntimeError", "bad value 3 at 0xff") == "c61d71142c9b2fb1"


@given(st.text())
def test_normalising_twice_changes_nothing_and_a_signature_is_sixteen_digits(message: str) -> None:
    once = normalise(message)
    assert normalise(once) == once
    assert len(signature("", message)) == 16
    assert int(signature("", message), 16) >= 0


@example("0/_/_", 0, 0)
@example("cpu/_/_", 0, 0)
@example("0x1/_/_", 0, 0)
@given(st.text("abc /.:0x1_<>-e~", max_size=40), st.integers(0, 10**9), st.integers(0, 10**9))
def test_numbers_never_matter(words: str, one: int, two: int) -> None:
    assert normalise(f"{words} {one} end") == normalise(f"{words} {two} end")
    assert normalise(normalise(words)) == normalise(words)
