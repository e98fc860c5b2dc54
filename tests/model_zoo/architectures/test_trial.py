"""Real pairs of different kinds, from configuration to gradients."""

import json
import subprocess
import sys

import pytest
import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from model_zoo.architectures.build import TooBigError, build, configurations, model_class, overrides
from model_zoo.architectures.pairs import Pair, all_pairs, types_without_classes
from model_zoo.architectures.reasons import Reason, reason_of
from model_zoo.architectures.trial import STAGES, try_pair

PAIRS = {pair.key: pair for pair in all_pairs()}


def test_the_base_classes_and_heads_of_a_type_are_there():
    assert "base" in PAIRS["bert/BertModel"].tasks
    assert "for_masked_lm" in PAIRS["bert/BertForMaskedLM"].tasks
    assert {pair.model_type for pair in PAIRS.values()}.isdisjoint(types_without_classes())


@pytest.mark.parametrize(
    ("key", "modality"),
    [
        ("bert/BertForMaskedLM", "text"),
        ("llama/LlamaForCausalLM", "text"),
        ("t5/T5ForConditionalGeneration", "text"),
        ("vit/ViTForImageClassification", "image"),
        ("clip/CLIPModel", "image"),
        ("wav2vec2/Wav2Vec2ForCTC", "audio"),
        ("informer/InformerModel", "time_series"),
        ("detr/DetrModel", "image"),
        ("qwen2_vl/Qwen2VLModel", "image"),
        ("ministral/MinistralModel", "text"),
        ("esm/EsmModel", "text"),
        ("lfm2_moe/Lfm2MoeModel", "text"),
    ],
)
def test_runs_forward_and_backward(key, modality):
    told = []
    record = try_pair(PAIRS[key], lambda so_far: told.append(so_far["stage"]))
    assert record["stage"] == "done", record
    assert modality in record["modalities"]
    assert 0.5 < record["gradient_share"] <= 1
    assert any(name.startswith("aten.") for name in record["operators"])
    last = len(told) - told[::-1].index("config") - 1  # where the rung that worked begins
    assert sorted(told[last:], key=STAGES.index) == told[last:]
    assert json.loads(json.dumps(record))["pair"] == key


def test_the_same_seed_gives_the_same_weights():
    architecture = model_class(PAIRS["bert/BertModel"])
    _, make = next(iter(configurations(PAIRS["bert/BertModel"], architecture)))
    one, two, other = (build(architecture, make(), seed=seed).state_dict() for seed in (3, 3, 4))
    assert all(torch.equal(one[name], two[name]) for name in one)
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_a_model_too_big_is_refused_before_it_takes_memory():
    architecture = model_class(PAIRS["llama/LlamaModel"])
    with pytest.raises(TooBigError, match="parameters"):
        build(architecture, architecture.config_class(hidden_size=65536, num_attention_heads=64))


def test_a_class_that_cannot_be_imported_is_listed():
    record = try_pair(Pair("bert", "NoSuchClass", ()), lambda _: None)
    assert record["reason"] == Reason.NOT_IMPORTABLE
    assert "NoSuchClass" in record["error"]


@pytest.mark.parametrize(
    ("stage", "error", "reason"),
    [
        ("build", ImportError("timm is not installed"), Reason.PACKAGE_MISSING),
        ("config", TypeError("x"), Reason.CONFIG_INVALID),
        ("forward", IndexError("index out of range in self"), Reason.INDEX_OUT_OF_RANGE),
        ("forward", RuntimeError("mat1 and mat2 shapes cannot be multiplied"), Reason.SHAPE_MISMATCH),
        ("forward", RuntimeError("never seen"), Reason.OTHER),
    ],
)
def test_every_error_has_a_reason_of_the_list(stage, error, reason):
    assert reason_of(stage, error) is reason


def test_overrides_name_known_types_and_say_why():
    assert set(overrides()) <= set(CONFIG_MAPPING_NAMES)
    assert all(row["reason"] and row["config"] for row in overrides().values())


def _command(*arguments):
    """In a process of its own: a fork of one whose torch has worker threads already may hang."""
    command = [sys.executable, "-m", "model_zoo.architectures", *map(str, arguments)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_try_resumes_and_cover_writes_the_set(tmp_path):
    out, covering = tmp_path / "out.jsonl", tmp_path / "covering.toml"
    command = ("try", "--types", "bert", "--classes", "BertModel", "--out", out)
    assert "1 of 1 pairs" in _command(*command)
    first = out.read_text()
    out.write_text(first + '{"pair": "cut o')
    _command(*command)
    assert out.read_text().startswith(first)
    assert "1 pairs reach all" in _command("cover", out, "--to", covering)
    assert '"bert/BertModel"' in covering.read_text()
