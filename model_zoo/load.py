"""From a fetched folder to a module on the CPU, without running anybody's code.

Policy: safetensors first; a pickle only through torch's ``weights_only`` reader; code that comes
with a repository never. Weights that a checkpoint lacks are initialised at random by the library
without an error, so every load is checked for them.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

_TASK_CLASSES = {
    "audio-classification": "AutoModelForAudioClassification",
    "automatic-speech-recognition": "AutoModelForSpeechSeq2Seq",
    "depth-estimation": "AutoModelForDepthEstimation",
    "fill-mask": "AutoModelForMaskedLM",
    "image-classification": "AutoModelForImageClassification",
    "image-segmentation": "AutoModelForSemanticSegmentation",
    "image-text-to-text": "AutoModelForImageTextToText",
    "object-detection": "AutoModelForObjectDetection",
    "question-answering": "AutoModelForQuestionAnswering",
    "summarization": "AutoModelForSeq2SeqLM",
    "text-classification": "AutoModelForSequenceClassification",
    "text-generation": "AutoModelForCausalLM",
    "token-classification": "AutoModelForTokenClassification",
    "translation": "AutoModelForSeq2SeqLM",
}


class LoadReason(StrEnum):
    """Why a folder did not become a model."""

    NO_CONFIG = "no_config"
    UNSUPPORTED_BY_LIBRARY = "unsupported_by_library"
    NEEDS_REMOTE_CODE = "needs_remote_code"
    NEEDS_PACKAGE = "needs_package"
    NOT_PYTORCH_WEIGHTS = "not_pytorch_weights"
    UNSAFE_PICKLE = "unsafe_pickle"
    CORRUPT_WEIGHTS = "corrupt_weights"
    MISSING_WEIGHTS = "missing_weights"
    FAILED = "failed"


class LoadError(RuntimeError):
    """A model that could not be loaded; ``reason`` says which kind of failure it is."""

    def __init__(self, reason: LoadReason, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class LoadedModel:
    """A model with the facts of its loading.

    Attributes:
        model: on the CPU, float32, eval mode, cache off.
        architecture: name of its class.
        parameters: number of elements of its parameters, tied ones once.
        dtype: of its parameters, e.g. ``"float32"``.
        missing_keys: weights the checkpoint lacks, hence random; empty unless asked for.
        unexpected_keys: weights the checkpoint has and the class does not use.
    """

    model: torch.nn.Module
    architecture: str
    parameters: int
    dtype: str
    missing_keys: tuple[str, ...]
    unexpected_keys: tuple[str, ...]


def load_model(folder: Path | str, *, seed: int = 0) -> torch.nn.Module:
    """The model of a folder; as :func:`load`, for callers that need nothing else."""
    return load(folder, seed=seed).model


def load(
    folder: Path | str, *, seed: int = 0, task: str | None = None, allow_missing: bool = False
) -> LoadedModel:
    """Load the model of a folder that holds ``config.json`` and weights.

    Args:
        seed: for weights that are missing, where ``allow_missing`` admits them.
        task: pipeline tag that picks the class if ``config.json`` names no architecture.
        allow_missing: report missing weights instead of raising.

    Raises:
        LoadError: with the reason; a missing weight is ``missing_weights``.
    """
    folder = Path(folder)
    config = _read_config(folder)
    architecture = _architecture(config, task)
    safetensors = _weights_format(folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would touch devices too.
        model, report = _from_pretrained(architecture, folder, safetensors)
    missing = tuple(sorted(report["missing_keys"])) + tuple(str(key) for key in report["mismatched_keys"])
    if missing and not allow_missing:
        shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
        raise LoadError(
            LoadReason.MISSING_WEIGHTS,
            f"the checkpoint lacks {len(missing)} weights of {type(model).__name__}: {shown}",
        )
    _switch_cache_off(model)
    model.eval()
    first = next(iter(model.parameters()), None)
    return LoadedModel(
        model=model,
        architecture=type(model).__name__,
        parameters=sum(parameter.numel() for parameter in model.parameters()),
        dtype=str(first.dtype).removeprefix("torch.") if first is not None else "",
        missing_keys=missing,
        unexpected_keys=tuple(sorted(report["unexpected_keys"])),
    )


def _read_config(folder: Path) -> dict[str, Any]:
    try:
        config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        if not isinstance(config, dict):
            raise ValueError("not an object")
    except FileNotFoundError:
        raise LoadError(LoadReason.NO_CONFIG, "the repository has no config.json") from None
    except (OSError, ValueError) as error:
        raise LoadError(LoadReason.NO_CONFIG, f"config.json cannot be read: {error}") from error
    return config


def _architecture(config: dict[str, Any], task: str | None) -> Any:
    """The class to load: the one the configuration names, else the task's, else the base model's."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = config.get("architectures") or []
    named = getattr(transformers, names[0], None) if names else None
    if isinstance(named, type):
        return named
    model_type = config.get("model_type", "")
    if "auto_map" in config:
        raise LoadError(
            LoadReason.NEEDS_REMOTE_CODE,
            f"{names[0] if names else model_type!r} is defined by code in the repository, which is never run",
        )
    if model_type not in CONFIG_MAPPING:
        raise LoadError(
            LoadReason.UNSUPPORTED_BY_LIBRARY,
            f"transformers {transformers.__version__} does not know the model type {model_type!r}",
        )
    if names:
        raise LoadError(
            LoadReason.UNSUPPORTED_BY_LIBRARY,
            f"transformers {transformers.__version__} has no class {names[0]!r}",
        )
    return getattr(transformers, _TASK_CLASSES.get(task or "", "AutoModel"))


def _weights_format(folder: Path) -> bool:
    """Whether to read safetensors; False reads pickles."""
    if any(folder.glob("*.safetensors")):
        return True
    if any(folder.glob("pytorch_model*.bin")):
        return False
    raise LoadError(
        LoadReason.NOT_PYTORCH_WEIGHTS,
        "the repository has neither model.safetensors nor pytorch_model.bin, so there are no PyTorch weights",
    )


def _from_pretrained(architecture: Any, folder: Path, safetensors: bool) -> tuple[Any, dict[str, Any]]:
    import pickle

    from safetensors import SafetensorError

    from model_zoo.quiet import quiet

    try:
        with quiet():
            model, report = architecture.from_pretrained(
                folder,
                use_safetensors=safetensors,
                weights_only=True,
                trust_remote_code=False,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except SafetensorError as error:
        raise LoadError(LoadReason.CORRUPT_WEIGHTS, f"the weights cannot be read: {error}") from error
    except pickle.UnpicklingError as error:
        raise LoadError(
            LoadReason.UNSAFE_PICKLE, f"the weights hold more than tensors: {_first_line(error)}"
        ) from error
    except ImportError as error:
        raise LoadError(LoadReason.NEEDS_PACKAGE, _first_line(error)) from error
    except ValueError as error:
        if "trust_remote_code" in str(error):
            raise LoadError(LoadReason.NEEDS_REMOTE_CODE, _first_line(error)) from error
        raise LoadError(LoadReason.FAILED, f"ValueError: {_first_line(error)}") from error
    except Exception as error:
        raise LoadError(LoadReason.FAILED, f"{type(error).__name__}: {_first_line(error)}") from error
    return model, report


def _first_line(error: BaseException) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def _switch_cache_off(model: Any) -> None:
    """A decoding cache is an output that no comparison wants, and a mutable one."""
    configs = [module.config for module in model.modules() if hasattr(module, "config")]
    for config in [*configs, getattr(model, "generation_config", None)]:
        if getattr(config, "use_cache", None):
            config.use_cache = False
