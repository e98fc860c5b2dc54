"""The artefact cache: what it saves, what it survives, and how it stays small."""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch.compiler._cache import CacheArtifactManager

import torchneuron_backend.compiler as compiler
from torchneuron_backend.compiler import executable, lowering, search
from torchneuron_backend.compiler.cache import Cache, key_of, open_cache

from .opaque import NAME, opaque


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_cache_on_disk: None) -> Path:
    monkeypatch.setenv("TORCHNEURON_CACHE", "1")
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.delenv("TORCHNEURON_CACHE_SIZE", raising=False)
    return tmp_path / "cache"


def entries(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def compile_and_run() -> tuple[list[float], dict[str, object]]:
    """Compile from scratch, as a new process would, a graph with a piece that does not lower."""
    torch._dynamo.reset()
    compiler.reset_dynamo_metrics()
    x = torch.tensor([[3.0, 1.0], [1.0, 2.0]], device="neuron")
    run = torch.compile(lambda v: opaque(v.exp()).abs().sum(0), backend="neuron", fullgraph=True)
    return run(x).tolist(), compiler.get_dynamo_metrics()


def test_a_second_compilation_neither_lowers_nor_compiles(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected, cold = compile_and_run()
    assert (cold["cache_hits"], cold["lowering_hits"]) == (0, 0)
    monkeypatch.setattr(lowering, "lower", None)
    monkeypatch.setattr(search, "refused", None)
    monkeypatch.setattr(executable.Executable, "__init__", None)
    result, warm = compile_and_run()
    assert result == expected
    # Two pieces, and the whole graph, which is known not to lower.
    assert (warm["cache_hits"], warm["lowering_hits"]) == (2, 3)
    assert (warm["partitions"], warm["ops_eager"]) == (2, [(NAME, 1)])


def test_damaged_entries_are_built_again(folder: Path) -> None:
    expected, _ = compile_and_run()
    files = entries(folder)
    for number, path in enumerate(files):
        data = path.read_bytes()
        path.write_bytes(data[: len(data) // 2] if number % 2 else data[:-1] + bytes([data[-1] ^ 1]))
    result, metrics = compile_and_run()
    assert result == expected
    assert (metrics["cache_hits"], metrics["lowering_hits"]) == (0, 0)
    assert entries(folder) == files
    assert compile_and_run()[1]["cache_hits"] == 2


def test_torch_hands_the_entries_on(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with CacheArtifactManager.with_fresh_cache():
        compile_and_run()
        saved = torch.compiler.save_cache_artifacts()
        assert saved is not None
        monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(tmp_path / "elsewhere"))
        torch.compiler.load_cache_artifacts(saved[0])
        assert len(entries(tmp_path / "elsewhere")) == len(entries(folder))
        assert compile_and_run()[1]["cache_hits"] == 2


def test_a_program_that_xla_does_not_take_is_compiled_again(folder: Path) -> None:
    assert executable.Executable.load(b"no program") is None


def test_a_folder_that_cannot_be_written_is_as_good_as_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TORCHNEURON_CACHE_DIR", str(tmp_path / "file" / "below"))
    compile_and_run()
    assert compile_and_run()[1]["cache_hits"] == 0


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=1000)
    for number, key in enumerate(["aa1", "bb2", "cc3"]):
        cache.put(key, bytes(200))
        os.utime(tmp_path / key[:2] / key, (number, number))
    assert cache.get("aa1") == bytes(200)
    cache.put("dd4", bytes(400))
    assert [cache.get(key) is not None for key in ("aa1", "bb2", "cc3", "dd4")] == [True, False, True, True]
    cache.put("ee5", bytes(2000))
    assert cache.get("ee5") is None
    assert cache.get("dd4") is not None


def _write_and_read(folder: Path, seed: int) -> None:
    cache = Cache(folder, limit_bytes=20_000)
    for number in range(150):
        key = key_of(str(number % 7))
        cache.put(key, str(number % 7).encode() * (1000 + 500 * seed))
        content = cache.get(key)
        assert content is None or set(content) == set(str(number % 7).encode())


def test_processes_that_write_and_read_at_once_see_whole_entries(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    writers = [context.Process(target=_write_and_read, args=(tmp_path, seed)) for seed in range(3)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)
    assert [writer.exitcode for writer in writers] == [0, 0, 0]
    assert sum(path.stat().st_size for path in entries(tmp_path)) <= 20_000


def test_the_environment_says_where_how_much_and_whether(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: Path
) -> None:
    assert open_cache() == Cache(folder, 1 << 30)
    monkeypatch.setenv("TORCHNEURON_CACHE_SIZE", "5000")
    monkeypatch.delenv("TORCHNEURON_CACHE_DIR")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert open_cache() == Cache(tmp_path / "torchneuron", 5000)
    monkeypatch.setenv("TORCHNEURON_CACHE_SIZE", "a lot")
    with pytest.raises(ValueError, match="TORCHNEURON_CACHE_SIZE must be a number of bytes, not 'a lot'"):
        open_cache()
    monkeypatch.setenv("TORCHNEURON_CACHE", "0")
    assert open_cache() is None


OTHER_PROCESS = """
import torch, torchneuron_backend.compiler as compiler
x = torch.arange(12.0, device="neuron").reshape(3, 4).requires_grad_()
torch.compile(lambda v: (v.softmax(1) @ v.t()).sum(), backend="neuron")(x).backward()
metrics = compiler.get_dynamo_metrics()
print(metrics["cache_hits"], metrics["lowering_hits"], x.grad.sum().item())
"""


def test_another_process_loads_what_the_first_one_built(folder: Path) -> None:
    lines = [
        subprocess.run(
            [sys.executable, "-c", OTHER_PROCESS], capture_output=True, text=True, check=True, timeout=120
        ).stdout.split()
        for _ in range(2)
    ]
    assert lines[0][:2] == ["0", "0"]
    assert lines[1][:2] == ["2", "2"]
    assert lines[0][2] == lines[1][2]
