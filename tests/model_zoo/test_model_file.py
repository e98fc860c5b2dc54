"""A model that a Python file makes: what the file must define, and what is said where it does not."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from model_zoo.load import LoadError, LoadReason
from model_zoo.model_file import inputs_of_file, load_file

WHOLE = """
import torch
MODALITIES = ("text", "image")

def make_model():
    return torch.nn.Linear(3, 2)

def make_inputs(model, seed):
    return {"input": torch.randn(4, model.in_features, generator=torch.Generator().manual_seed(seed))}
"""


@pytest.fixture
def written(tmp_path: Path):
    def write(text: str) -> Path:
        path = tmp_path / "mine.py"
        path.write_text(text)
        return path

    return write


def test_a_file_makes_its_model_and_seeded_inputs(written) -> None:
    path = written(WHOLE)
    loaded = load_file(path)
    assert (loaded.architecture, loaded.parameters, loaded.dtype) == ("Linear", 8, "float32")
    first, again, other = (inputs_of_file(path, loaded.model, seed=seed) for seed in (1, 1, 2))
    assert first.modalities == ("image", "text")
    assert torch.equal(first.kwargs["input"], again.kwargs["input"])
    assert not torch.equal(first.kwargs["input"], other.kwargs["input"])
    assert loaded.model(**first.kwargs).shape == (4, 2)


@pytest.mark.parametrize(
    ("text", "reason", "said"),
    [
        ("x = 1", LoadReason.FAILED, "mine.py defines no function make_model"),
        ("make_model = 3", LoadReason.FAILED, "mine.py defines no function make_model"),
        ("def make_model(:", LoadReason.FAILED, "mine.py raised SyntaxError: "),
        ("import no_such_package", LoadReason.NEEDS_PACKAGE, "mine.py needs no_such_package, which is not"),
        (
            "def make_model(): return 3",
            LoadReason.FAILED,
            "make_model of mine.py gave a int, not a ",
        ),
        ("def make_model(): 1 / 0", LoadReason.FAILED, "mine.py raised ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_with_a_file_is_one_sentence(written, text: str, reason: LoadReason, said: str) -> None:
    with pytest.raises(LoadError) as raised:
        load_file(written(text))
    assert raised.value.reason is reason
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize(
    ("function", "said"),
    [
        ("", "mine.py defines no function make_inputs"),
        ("def make_inputs(model, seed): return [1]", "make_inputs of mine.py gave a list, not the key"),
        (
            "def make_inputs(model, seed): return {1: 2}",
            "make_inputs of mine.py gave a dict, not the key",
        ),
        ("def make_inputs(model): return {}", "mine.py raised TypeError: "),
    ],
)
def test_what_is_wrong_with_its_inputs_is_one_sentence(written, function: str, said: str) -> None:
    path = written(f"import torch\ndef make_model(): return torch.nn.Linear(3, 2)\n{function}\n")
    with pytest.raises(LoadError, match="^" + said):
        inputs_of_file(path, load_file(path).model, seed=0)
