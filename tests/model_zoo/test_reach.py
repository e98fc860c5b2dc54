"""The count of operators that the choice of models rests on."""

from __future__ import annotations

from pathlib import Path

import pytest

from model_zoo.reach import greedy_cover, main, overloads_of


def test_forward_and_backward_are_both_counted(few_dir: Path) -> None:
    reached = overloads_of(few_dir / "mirror/tiny-resnet")
    assert {"aten::convolution", "aten::convolution_backward", "aten::native_batch_norm_backward"} <= reached


def test_the_cover_takes_what_adds_most() -> None:
    reached = {"a": {"1", "2"}, "b": {"2", "3", "4"}, "c": {"4"}}
    assert greedy_cover(reached) == [("b", 3), ("a", 1), ("c", 0)]
    assert greedy_cover({}) == []


def test_the_command_prints_every_model(few_dir: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(few_dir)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5
    assert lines[-1].endswith("overloads over 4 models")
    assert int(lines[-1].split()[0]) > 60
