"""Loading, forking and the build: what happens around the process the device lives in."""

import multiprocessing
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tests.torchneuron_backend.conftest import run_python

ROOT = Path(__file__).parents[2]
USE = "torch.ones(2, 2, device='neuron').mm(torch.ones(2, 2, device='neuron')).sum().item()"


def test_importing_torch_is_enough() -> None:
    done = run_python(f"import torch; print({USE}, torch.neuron.is_initialized())")
    assert done.stdout.split() == ["8.0", "True"], done.stderr


def test_importing_torch_does_not_use_the_device() -> None:
    done = run_python("import torch; print(torch.neuron.is_available(), torch.neuron.is_initialized())")
    assert done.stdout.split() == ["True", "False"], done.stderr


def test_importing_the_package_alone_is_enough_too() -> None:
    done = run_python(f"import torchneuron_backend, torch; print({USE})", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.split() == ["8.0"], done.stderr
    done = run_python("import torch; print(hasattr(torch, 'neuron'))", TORCH_DEVICE_BACKEND_AUTOLOAD="0")
    assert done.stdout.split() == ["False"], done.stderr


def test_the_device_adds_little_to_the_import_of_torch() -> None:
    code = (
        "import torch, time; start = time.perf_counter(); import torchneuron_backend; "
        "print(time.perf_counter() - start)"
    )
    seconds = min(float(run_python(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout) for _ in range(3))
    assert seconds < 0.3


def test_it_steps_aside_for_the_real_backend(tmp_path: Path) -> None:
    (tmp_path / "torch_neuronx.py").write_text("")
    done = run_python(
        "import torch, torchneuron_backend as backend\n"
        "print(hasattr(torch, 'neuron'), torch._C._get_privateuse1_backend_name())",
        PYTHONPATH=str(tmp_path),
    )
    assert done.stdout.split() == ["False", "privateuseone"], done.stderr


@pytest.mark.parametrize(("cores", "count"), [("1", "1"), ("7", "7"), ("many", "0"), ("0", "0")])
def test_the_number_of_devices_is_a_variable(cores: str, count: str) -> None:
    done = run_python("import torch; print(torch.neuron.device_count())", NEURON_RT_NUM_CORES=cores)
    assert done.stdout.split() == [count], done.stderr
    assert ("not a number from 1 to 64" in done.stderr) == (count == "0")


@pytest.mark.parametrize(
    ("cores", "count"),
    [("0", "1"), ("0-3", "4"), ("4,5,6", "3"), ("6,1-3", "4"), ("63", "1"), ("", "5")]
    + [(bad, "0") for bad in ("64", "3-1", "1,", ",1", "1,1", "0-2,2", "-1", "1-", "a", "1 2", "0-3x")],
)
def test_the_cores_that_a_process_sees_are_a_variable(cores: str, count: str) -> None:
    """It goes before the number of cores, unless it is empty."""
    code = "import torch; print(torch.neuron.device_count())"
    done = run_python(code, NEURON_RT_VISIBLE_CORES=cores, NEURON_RT_NUM_CORES="5")
    assert done.stdout.split() == [count], done.stderr
    assert ("not a list of cores from 0 to 63" in done.stderr) == (count == "0")


def test_the_memory_limit_is_a_variable() -> None:
    code = "import torch; print(torch.neuron.mem_get_info()); torch.empty(2**20, device='neuron')"
    done = run_python(code, NEURON_SIM_MEMORY_LIMIT="1000000")
    assert done.stdout.strip() == "(1000000, 1000000)"
    assert "OutOfMemoryError: neuron:0 out of memory" in done.stderr


FORK = """
import os, torch, transformers
{before}
pid = os.fork()
if pid == 0:
    try:
        x = torch.ones(600, 600, device='neuron', requires_grad=True)
        x.mm(x).sum().backward()
        print(x.grad[0, 0].item(), flush=True)
    except RuntimeError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(pid, 0)
"""


def test_a_fork_of_a_parent_that_preloaded_it_can_use_the_device() -> None:
    done = run_python(FORK.format(before="torch.neuron.is_available()"))
    assert done.stdout.split() == ["1200.0"], done.stderr


def test_a_fork_of_a_parent_that_used_it_gets_a_clear_error() -> None:
    done = run_python(FORK.format(before="torch.ones(1, device='neuron')"))
    assert done.stdout.startswith("Cannot re-initialize the neuron device in a forked subprocess"), (
        done.stderr
    )


def _in_worker(_: int) -> float:
    x = torch.ones(3, device="neuron")
    return float((x + x).sum().item())


def test_forkserver_workers_use_the_device() -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch"])
    with context.Pool(1) as pool:
        assert pool.map(_in_worker, range(2)) == [6.0, 6.0]


def test_data_loader_workers_may_be_forked_after_use() -> None:
    torch.ones(1, device="neuron")
    data = torch.utils.data.TensorDataset(torch.arange(4.0))
    loader = torch.utils.data.DataLoader(data, batch_size=2, num_workers=1, multiprocessing_context="fork")
    assert [batch[0].to("neuron").tolist() for batch in loader] == [[0, 1], [2, 3]]


def copy_of_package(tmp_path: Path) -> Path:
    shutil.copytree(
        ROOT / "torchneuron_backend",
        tmp_path / "torchneuron_backend",
        ignore=shutil.ignore_patterns("csrc", "compiler", "probe", "__pycache__"),
    )
    return tmp_path


@pytest.mark.parametrize(
    ("note", "sentence"),
    [
        ("2.12.1", "the neuron device was built for torch 2.12.1, and the installed torch is"),
        (None, "the C++ part of the neuron device has not been built"),
    ],
)
def test_a_build_for_another_torch_is_one_sentence(tmp_path: Path, note: str | None, sentence: str) -> None:
    folder = copy_of_package(tmp_path)
    file = folder / "torchneuron_backend/built_for_torch.txt"
    file.unlink()
    if note is not None:
        file.write_text(note)
    done = run_python(
        f"import sys; sys.path.insert(0, {str(folder)!r}); import torchneuron_backend",
        TORCH_DEVICE_BACKEND_AUTOLOAD="0",
    )
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith(f"ImportError: {sentence}")


def build(folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [
            sys.executable,
            str(ROOT / "setup.py"),
            "build_ext",
            "--build-temp",
            str(folder),
            "--build-lib",
            str(folder),
        ],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_a_missing_compiler_is_one_sentence(tmp_path: Path) -> None:
    done = build(tmp_path, CXX="no-such-compiler")
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        "torchneuron-harness: building the neuron device needs a C++ compiler, "
        "and no-such-compiler was not found."
    ]


@pytest.mark.parametrize(
    ("module", "sentence"),
    [
        ("raise ImportError", "building the neuron device needs torch 2.13, and no torch is installed here."),
        (
            "__version__ = '2.14.0'",
            "building the neuron device needs torch 2.13, and the installed torch is 2.14.0.",
        ),
    ],
)
def test_a_torch_that_does_not_match_is_one_sentence(tmp_path: Path, module: str, sentence: str) -> None:
    (tmp_path / "torch.py").write_text(module)
    done = build(tmp_path / "build", PYTHONPATH=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.splitlines() == [f"torchneuron-harness: {sentence}"]
