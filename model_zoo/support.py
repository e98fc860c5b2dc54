"""What kind of repository this is: one this library can run, or which of the kinds that it cannot.

Told from names of files and from the configuration alone, before anything large is downloaded.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import PurePosixPath
from typing import Any

_OTHER_FORMATS = {
    ".gguf": "GGUF",
    ".ggml": "GGML",
    ".onnx": "ONNX",
    ".h5": "TensorFlow",
    ".tflite": "TensorFlow Lite",
    ".msgpack": "Flax",
    ".mlmodel": "Core ML",
    ".mlpackage": "Core ML",
    ".engine": "TensorRT",
    ".ot": "rust-bert",
    ".nemo": "NeMo",
    ".keras": "Keras",
}
ADAPTER_CONFIG = "adapter_config.json"


def other_formats(names: Collection[str]) -> list[str]:
    """The formats of weights that are not PyTorch's, e.g. ``["GGUF"]``."""
    return sorted(
        {_OTHER_FORMATS[s] for n in names if (s := PurePosixPath(n).suffix.lower()) in _OTHER_FORMATS}
    )


def is_adapter(names: Collection[str]) -> bool:
    """Whether a repository holds what peft adds to another model, and no model."""
    return ADAPTER_CONFIG in names and "config.json" not in names


def quantised_by(config: Mapping[str, Any]) -> str:
    """The method by which a checkpoint was quantised, ``""`` for none.

    Its weights are packed for kernels of one kind of device, so no other can be compared with the CPU.
    """
    for part in (config, *(value for value in config.values() if isinstance(value, Mapping))):
        found = part.get("quantization_config") or part.get("compression_config")
        if isinstance(found, Mapping):
            method = found.get("quant_method") or ("bitsandbytes" if _by_bitsandbytes(found) else "")
            return str(method or "a method it does not name")
    return ""


def _by_bitsandbytes(found: Mapping[str, Any]) -> bool:
    return bool(found.get("load_in_8bit") or found.get("load_in_4bit"))
