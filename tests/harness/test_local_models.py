"""Models that no hub serves: which names are paths, and what becomes of one on a device."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from harness import devices
from harness.errors import UsageError
from harness.job import ModelSettings
from harness.local_models import local_case, packaged_cases
from harness.model_stages import run_stages
from model_zoo.packages import packaged_models
from results.vocabulary import Outcome

LINEAR = """
import torch
def make_model():
    return torch.nn.Linear(3, 2)
def make_inputs(model, seed):
    return {"input": torch.ones(4, 3)}
"""


def settings(cache: Path) -> ModelSettings:
    return ModelSettings(endpoint="", cache=cache, max_bytes=0, seed=0)


@pytest.mark.parametrize("name", ["org/name", "org/name@main", "bert", "org/name.d"])
def test_the_name_of_a_model_of_a_hub_is_no_path(name: str) -> None:
    assert local_case(name) is None


@pytest.mark.parametrize("name", ["./absent", "absent.py", "~/absent", "/absent", ".."])
def test_a_path_without_a_model_is_one_sentence(name: str) -> None:
    with pytest.raises(UsageError, match="neither a Python file nor a folder with"):
        local_case(name)


def test_another_text_of_a_file_is_another_case(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(LINEAR)
    first = local_case(str(path))
    path.write_text(LINEAR + "# more\n")
    assert first is not None
    assert first.id.startswith("model::mine.py@")
    assert local_case(str(path)) != first


def test_a_file_goes_through_all_stages(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(LINEAR)
    case = local_case(str(path))
    assert case is not None
    results = list(run_stages(case, devices.get("neuron"), settings(tmp_path)))
    assert [result.outcome for result in results] == [Outcome.PASSED] * 5


def test_a_file_that_needs_a_package_is_skipped_with_the_reason(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text("import no_such_package")
    case = local_case(str(path))
    assert case is not None
    stages = run_stages(case, devices.get("cpu"), settings(tmp_path))
    assert next(stages).outcome is Outcome.PASSED
    loaded = next(stages)
    assert loaded.outcome is Outcome.SKIPPED_UPSTREAM
    assert loaded.facts["category"] == "python_dependency"
    assert loaded.message == "mine.py needs no_such_package, which is not installed"


def test_a_folder_goes_through_all_stages(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForMaskedLM

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=50,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=64,
    )
    BertForMaskedLM(config).save_pretrained(tmp_path / "bert")
    case = local_case(str(tmp_path / "bert"))
    assert case is not None
    results = list(run_stages(case, devices.get("neuron"), settings(tmp_path)))
    assert [result.outcome for result in results] == [Outcome.PASSED] * 5


def test_a_night_has_the_packaged_models_that_are_installed() -> None:
    cases = packaged_cases()
    assert [case.spec["repo_id"] for case in cases] == [m.id for m in packaged_models() if m.installed]
    assert cases


UNTRACED = """
import torch

class Untraced(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 2)

    @torch._dynamo.disable
    def forward(self, input):
        return self.layer(input)

def make_model():
    return Untraced()
def make_inputs(model, seed):
    return {"input": torch.ones(4, 3)}
"""


def test_a_model_in_which_dynamo_finds_no_graph_on_any_device_is_not_judged(tmp_path: Path) -> None:
    path = tmp_path / "mine.py"
    path.write_text(UNTRACED)
    case = local_case(str(path))
    assert case is not None
    *_, compiled = run_stages(case, devices.get("neuron"), settings(tmp_path))
    assert compiled.outcome is Outcome.SKIPPED_UPSTREAM
    assert compiled.facts["category"] == "reference_failed"
    assert compiled.message == "Dynamo finds no graph to compile in it, on the CPU neither"
