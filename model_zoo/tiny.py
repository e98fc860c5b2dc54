"""One small model from its definition, with weights that are the same on every machine.

torch's own random initialisation may differ in the last bits between processors, and a model's
revision is a hash of its weights; the ids of a run's cases contain that revision. So the random
weights are drawn again from NumPy's PCG64, whose integers and the few exact operations made of
them do not depend on the machine. A weight is random if two seeds disagree on it; what both seeds
agree on (norms, biases, position tables) is the architecture's own and stays.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from model_zoo.quiet import quiet


def save_tiny(definition: dict[str, Any], folder: Path) -> None:
    """Make the model that a table of ``models.toml`` defines and save it with safetensors."""
    with quiet():
        make_tiny(definition).save_pretrained(folder)
    for name in ("config.json", "generation_config.json"):
        _drop_version(folder / name)


def make_tiny(definition: dict[str, Any]) -> Any:
    """The model itself, on the CPU in float32 and eval mode."""
    architecture = getattr(transformers, definition["architecture"])
    settings = dict(definition["config"])
    for key, name in definition.get("subconfigs", {}).items():
        settings[key] = getattr(transformers, name)(**settings[key])
    model = _seeded(architecture, settings, 0)
    other = _seeded(architecture, settings, 1)
    generator = np.random.Generator(np.random.PCG64(zlib.crc32(definition["id"].encode())))
    learned = tuple(definition.get("random_buffers", ()))
    with torch.no_grad():
        for parameter, twin in zip(model.parameters(), other.parameters(), strict=True):
            if not torch.equal(parameter, twin):
                parameter.copy_(_draw(parameter.shape, generator))
        for name, buffer in model.named_buffers():
            if name.rpartition(".")[2] in learned:
                buffer.copy_(_draw(buffer.shape, generator))
    return model.eval()


def _seeded(architecture: Any, settings: dict[str, Any], seed: int) -> Any:
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would touch devices too.
        return architecture(architecture.config_class(**settings))


def _draw(shape: torch.Size, generator: np.random.Generator) -> torch.Tensor:
    """Uniform numbers of variance 1 / fan_in, so that signals neither die nor explode with depth."""
    fan_in = math.prod(shape[1:]) if len(shape) > 1 else shape[0]
    bound = np.float32(math.sqrt(3.0 / max(fan_in, 1)))
    uniform = generator.random(tuple(shape), dtype=np.float32)
    return torch.from_numpy((uniform * np.float32(2) - np.float32(1)) * bound)


def _drop_version(path: Path) -> None:
    """Leave the writing library's version out, so that it alone does not change the revision."""
    if path.exists():
        config = json.loads(path.read_text())
        config.pop("transformers_version", None)
        path.write_text(json.dumps(config, indent=2, sort_keys=True) + "\n")
