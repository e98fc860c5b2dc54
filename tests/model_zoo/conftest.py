"""Mirrors for the tests: one written by hand that needs no torch, and built ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from model_zoo.builder import build_mirror
from model_zoo.mirror import METADATA_FILE, MirrorServer

FEW = ("mirror/tiny-bert", "mirror/tiny-gpt2", "mirror/tiny-llava", "mirror/tiny-resnet")
TOKEN = "hf_granted"


def add_repository(root: Path, repo_id: str, files: dict[str, Any], **metadata: Any) -> Path:
    """Write a repository: bytes and strings as they are, anything else as JSON."""
    folder = root / repo_id
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, bytes):
            path.write_bytes(content)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    if metadata:
        (folder / METADATA_FILE).write_text(json.dumps(metadata))
    return folder


def tensor_file(elements: int, fill: int = 0) -> bytes:
    """A safetensors file with one float32 vector, written by hand: length, header, data."""
    header = json.dumps({"w": {"dtype": "F32", "shape": [elements], "data_offsets": [0, 4 * elements]}})
    return len(header).to_bytes(8, "little") + header.encode() + bytes([fill]) * (4 * elements)


@pytest.fixture(autouse=True, scope="package")
def _one_thread() -> Iterator[None]:
    """Tiny tensors gain nothing from threads, and lose much where tests run side by side."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def hand_dir(tmp_path: Path) -> Path:
    """Six small repositories with known contents."""
    root = tmp_path / "hand"
    bert = {"model_type": "bert", "architectures": ["BertModel"]}
    add_repository(
        root,
        "acme/alpha",
        {"config.json": bert, "model.safetensors": tensor_file(10), "sub/deep/note.json": {"a": 1}},
        pipeline_tag="fill-mask",
        downloads=50,
        tags=["en"],
    )
    add_repository(
        root, "acme/beta", {"config.json": bert, "pytorch_model.bin": b"pickled"}, downloads=70, likes=3
    )
    add_repository(
        root,
        "acme/gated",
        {"config.json": bert, "model.safetensors": tensor_file(3)},
        gated="manual",
        granted=[TOKEN],
        downloads=60,
    )
    add_repository(root, "other/gamma", {"config.json": {"model_type": "gpt2"}, "README.md": "hello"})
    add_repository(root, "other/onnx", {"config.json": bert, "model.onnx": b"x"}, library_name="onnx")
    add_repository(root, "solo", {"config.json": bert, "model.safetensors": tensor_file(5)}, downloads=1)
    return root


@pytest.fixture
def hand(hand_dir: Path) -> Iterator[MirrorServer]:
    """A server over ``hand_dir`` with small pages."""
    with MirrorServer(hand_dir, page_size=2) as server:
        yield server


@pytest.fixture(scope="session")
def few_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A mirror of four built models."""
    root = tmp_path_factory.mktemp("few")
    build_mirror(root, only=FEW, pretrained=False)
    return root


@pytest.fixture(scope="session")
def full_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The whole mirror, as a nightly run serves it."""
    root = tmp_path_factory.mktemp("full")
    build_mirror(root)
    return root
