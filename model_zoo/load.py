"""From a fetched folder to a module on the CPU, without running anybody's code.

Policy: safetensors first; a pickle only through torch's ``weights_only`` reader; code that comes
with a repository never, unless its caller allowed it and locked itself in (:mod:`harness.sandbox`).
Sizes, headers and the number of parameters are checked before they cost anything. Weights that a
checkpoint lacks are initialised at random by the library without an error, so every load is checked
for them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import torch

from model_zoo import safety
from model_zoo.counting import at_most
from model_zoo.safety import RefusedError, check_index, elements_of, read_header, read_json
from model_zoo.support import ADAPTER_CONFIG, other_formats, quantised_by

_FACTOR = 4
_SLACK = 10_000_000
"""Parameters that any configuration may ask for, whatever its weights: tables of positions, say."""

_MAX_INDEX = 128 * 2**20  # Bytes; an index has about 100 for each weight.

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
    QUANTISED = "quantised"
    ADAPTER = "adapter"
    REFUSED = "refused"
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
    folder: Path | str,
    *,
    seed: int = 0,
    task: str | None = None,
    allow_missing: bool = False,
    allow_code: bool = False,
) -> LoadedModel:
    """Load the model of a folder that holds ``config.json`` and weights.

    Args:
        seed: for weights that are missing, where ``allow_missing`` admits them.
        task: pipeline tag that picks the class if ``config.json`` names no architecture.
        allow_missing: report missing weights instead of raising.
        allow_code: run the code of the folder where its class is defined by it. Only for a process that is
            locked in.

    Raises:
        LoadError: with the reason; a missing weight is ``missing_weights``.
    """
    folder = Path(folder)
    config = _read_config(folder)
    architecture = check_config(config, task, allow_code=allow_code)
    safetensors, most = _weights(folder)
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)  # torch.manual_seed would touch devices too.
        model, report = _from_pretrained(architecture, folder, safetensors, most, allow_code)
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
        config = read_json(folder / "config.json")
        if not isinstance(config, dict):
            raise ValueError("not an object")
    except FileNotFoundError:
        if (folder / ADAPTER_CONFIG).is_file():
            raise LoadError(LoadReason.ADAPTER, "the repository is an adapter to another model") from None
        raise LoadError(LoadReason.NO_CONFIG, "the repository has no config.json") from None
    except RefusedError as error:
        raise LoadError(LoadReason.REFUSED, str(error)) from error
    except (OSError, ValueError) as error:
        raise LoadError(LoadReason.NO_CONFIG, f"config.json cannot be read: {error}") from error
    return config


def check_config(config: Mapping[str, Any], task: str | None = None, *, allow_code: bool = False) -> Any:
    """The class that a configuration is loaded with, if this library can load it at all.

    Raises:
        LoadError: it cannot; needs nothing but the configuration, so it can be asked before a download.
    """
    try:
        safety.check_config(config)
    except RefusedError as error:
        raise LoadError(LoadReason.REFUSED, str(error)) from error
    method = quantised_by(config)
    if method:
        raise LoadError(
            LoadReason.QUANTISED, f"the weights are quantised by {method}, for kernels of one kind of device"
        )
    return _architecture(config, task, allow_code)


def _architecture(config: Mapping[str, Any], task: str | None, allow_code: bool) -> Any:
    """The class to load: the one the configuration names, else the task's, else the base model's."""
    import transformers
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING

    names = config.get("architectures") or []
    named = getattr(transformers, names[0], None) if names else None
    if isinstance(named, type):
        return named
    model_type = config.get("model_type", "")
    if "auto_map" in config and allow_code:
        return _auto([name for name in config["auto_map"] if name.startswith("AutoModel")], task)
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


def _auto(names: list[str], task: str | None) -> Any:
    """The auto class among those that a repository maps: the task's, else the first."""
    import transformers

    wanted = _TASK_CLASSES.get(task or "", "AutoModel")
    return getattr(transformers, wanted if wanted in names or not names else names[0])


def _weights(folder: Path) -> tuple[bool, int]:
    """Whether to read safetensors (False reads pickles), and how many parameters the weights allow for.

    Some are tied, some are missing by design and some are only built: hence the factor and the rest.
    """
    try:
        _check_indexes(folder)
        files = sorted(folder.glob("*.safetensors"))
        if files:
            return True, _SLACK + _FACTOR * sum(map(_elements, files))
    except RefusedError as error:
        raise LoadError(LoadReason.REFUSED, str(error)) from error
    except ValueError as error:
        raise LoadError(LoadReason.CORRUPT_WEIGHTS, f"the weights cannot be read: {error}") from error
    pickles = sorted(folder.glob("pytorch_model*.bin"))
    if pickles:
        return False, _SLACK + _FACTOR * sum(path.stat().st_size for path in pickles)
    others = ", ".join(other_formats([path.name for path in folder.iterdir()]))
    raise LoadError(
        LoadReason.NOT_PYTORCH_WEIGHTS,
        "the repository has neither model.safetensors nor pytorch_model.bin, so there are no PyTorch weights"
        + (f", only {others}" if others else ""),
    )


def _elements(path: Path) -> int:
    with path.open("rb") as file:
        return elements_of(read_header(file, path.stat().st_size, path.name))


def _check_indexes(folder: Path) -> None:
    """Refuse an index whose shards are elsewhere: the library would open whatever it names."""
    for path in folder.glob("*.index.json"):
        for shard in check_index(read_json(path, _MAX_INDEX), path.name):
            if not (folder / shard).is_file():
                raise ValueError(f"{path.name} names {shard}, which is not there")


def _from_pretrained(
    architecture: Any, folder: Path, safetensors: bool, most: int, allow_code: bool
) -> tuple[Any, dict[str, Any]]:
    import pickle

    from safetensors import SafetensorError

    from model_zoo.quiet import quiet

    try:
        with quiet(), at_most(most):
            model, report = architecture.from_pretrained(
                folder,
                use_safetensors=safetensors,
                weights_only=True,
                trust_remote_code=allow_code,
                local_files_only=True,
                dtype=torch.float32,
                output_loading_info=True,
            )
    except RefusedError as error:
        raise LoadError(LoadReason.REFUSED, str(error)) from error
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
