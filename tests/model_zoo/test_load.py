"""Loading: the right class, the right weights, nobody's code, and a named reason otherwise."""

from __future__ import annotations

import json
import os
import pickle
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from model_zoo.inputs import make_inputs
from model_zoo.load import LoadError, LoadReason, load, load_model


@pytest.fixture
def bert(few_dir: Path, tmp_path: Path) -> Path:
    """A copy of a folder that loads, for a test to damage."""
    return Path(shutil.copytree(few_dir / "mirror/tiny-bert", tmp_path / "bert"))


def change_config(folder: Path, **changes: Any) -> None:
    config = json.loads((folder / "config.json").read_text())
    config = {key: value for key, value in {**config, **changes}.items() if value is not None}
    (folder / "config.json").write_text(json.dumps(config))


def reason_of(folder: Path) -> tuple[LoadReason, str]:
    with pytest.raises(LoadError) as caught:
        load(folder)
    assert "\n" not in str(caught.value)
    return caught.value.reason, str(caught.value)


def test_a_model_is_what_its_configuration_names(bert: Path) -> None:
    loaded = load(bert)
    assert loaded.architecture == "BertForMaskedLM"
    assert (loaded.missing_keys, loaded.unexpected_keys, loaded.dtype) == ((), (), "float32")
    assert loaded.parameters == sum(p.numel() for p in loaded.model.parameters())
    assert not loaded.model.training
    saved = load_file(bert / "model.safetensors")
    state = loaded.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in saved.items())
    assert load_model(bert).state_dict().keys() == state.keys()


def test_half_precision_checkpoints_become_float32(bert: Path) -> None:
    halves = {name: tensor.half() for name, tensor in load_file(bert / "model.safetensors").items()}
    save_file(halves, bert / "model.safetensors", metadata={"format": "pt"})
    change_config(bert, dtype="float16")
    assert load(bert).dtype == "float32"


@pytest.mark.parametrize("name", ["mirror/tiny-gpt2", "mirror/tiny-llava"])
def test_the_cache_is_switched_off(few_dir: Path, name: str) -> None:
    model = load_model(few_dir / name)
    output = model(**make_inputs(model, seed=0).kwargs)
    assert {"loss", "logits"} <= set(output) <= {"loss", "logits", "image_outputs"}


def test_missing_weights_are_never_random_in_silence(bert: Path) -> None:
    tensors = load_file(bert / "model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    del tensors[name]
    save_file({**tensors, "extra": torch.zeros(2)}, bert / "model.safetensors", metadata={"format": "pt"})
    reason, message = reason_of(bert)
    assert reason == LoadReason.MISSING_WEIGHTS
    assert name in message
    loaded = load(bert, seed=5, allow_missing=True)
    assert loaded.missing_keys == (name,)
    assert loaded.unexpected_keys == ("extra",)
    torch.manual_seed(1)  # What is random depends on the seed alone.
    before = torch.get_rng_state()
    again = load(bert, seed=5, allow_missing=True)
    assert torch.equal(again.model.state_dict()[name], loaded.model.state_dict()[name])
    assert torch.equal(torch.get_rng_state(), before), "loading must leave the caller's generator alone"


def test_a_weight_of_another_shape_is_an_error(bert: Path) -> None:
    change_config(bert, vocab_size=301)
    reason, _ = reason_of(bert)
    assert reason in (LoadReason.MISSING_WEIGHTS, LoadReason.FAILED)


def test_reasons_that_a_configuration_gives(bert: Path) -> None:
    change_config(bert, architectures=["NoSuchModel"])
    assert reason_of(bert)[0] == LoadReason.UNSUPPORTED_BY_LIBRARY
    change_config(bert, model_type="nosuch", architectures=None)
    reason, message = reason_of(bert)
    assert reason == LoadReason.UNSUPPORTED_BY_LIBRARY
    assert "'nosuch'" in message
    (bert / "config.json").write_text("[")
    assert reason_of(bert)[0] == LoadReason.NO_CONFIG
    (bert / "config.json").unlink()
    assert reason_of(bert)[0] == LoadReason.NO_CONFIG


def test_code_of_a_repository_is_not_run(bert: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (bert / "code.py").write_text(f"open({str(marker)!r}, 'w')\nclass Own: pass\n")
    change_config(bert, model_type="own", architectures=["Own"], auto_map={"AutoModel": "code.Own"})
    reason, message = reason_of(bert)
    assert reason == LoadReason.NEEDS_REMOTE_CODE
    assert "Own" in message
    assert not marker.exists()


def test_a_class_the_library_has_is_preferred_to_code_of_a_repository(bert: Path, tmp_path: Path) -> None:
    marker = tmp_path / "ran"
    (bert / "code.py").write_text(f"open({str(marker)!r}, 'w')\n")
    change_config(bert, auto_map={"AutoModel": "code.Own", "AutoConfig": "code.OwnConfig"})
    assert load(bert).architecture == "BertForMaskedLM"
    assert not marker.exists()


def test_without_architectures_the_task_picks_the_class(bert: Path) -> None:
    change_config(bert, architectures=None)
    assert load(bert, task="fill-mask").architecture == "BertForMaskedLM"
    assert load(bert, allow_missing=True).architecture == "BertModel"


def test_a_pickle_loads_where_it_holds_tensors_only(bert: Path) -> None:
    torch.save(load_file(bert / "model.safetensors"), bert / "pytorch_model.bin")
    (bert / "model.safetensors").unlink()
    assert load(bert).missing_keys == ()


class _Trap:
    """Unpickling it creates a file."""

    def __init__(self, marker: str) -> None:
        self.marker = marker

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.mkdir, (self.marker,))


@pytest.mark.parametrize("plain", [True, False])
def test_a_pickle_that_would_run_code_is_refused(bert: Path, tmp_path: Path, plain: bool) -> None:
    marker = tmp_path / "ran"
    (bert / "model.safetensors").unlink()
    trap = {"weight": _Trap(str(marker))}
    if plain:
        (bert / "pytorch_model.bin").write_bytes(pickle.dumps(trap, protocol=2))
    else:
        torch.save(trap, bert / "pytorch_model.bin")
    assert reason_of(bert)[0] == LoadReason.UNSAFE_PICKLE
    assert not marker.exists()


def test_damaged_and_absent_weights_are_told_apart(bert: Path) -> None:
    weights = bert / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert reason_of(bert)[0] == LoadReason.CORRUPT_WEIGHTS
    weights.rename(bert / "model.onnx")
    assert reason_of(bert)[0] == LoadReason.NOT_PYTORCH_WEIGHTS
