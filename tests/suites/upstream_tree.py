"""A small tree of tests in the shape of PyTorch's own, and a git repository of it."""

from __future__ import annotations

import subprocess
from pathlib import Path

TINY = """
import unittest
import torch
from torch.testing._internal.common_device_type import (
    dtypes, instantiate_device_type_tests, onlyCUDA, ops)
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase, run_tests
from helper import ONE

class TestTiny(TestCase):
    @dtypes(torch.int64, torch.float32)
    def test_add(self, device, dtype):
        one = torch.ones(2, device=device, dtype=dtype)
        self.assertEqual(one + ONE, torch.full((2,), 2, device=device, dtype=dtype))
    def test_add_more(self, device):
        self.assertEqual(torch.device(device).type, torch.ones(1, device=device).device.type)
    def test_wrong(self, device):
        self.assertEqual(torch.ones(1, device=device), torch.zeros(1, device=device))
    @onlyCUDA
    def test_cuda_only(self, device):
        raise AssertionError

class TestTinyOps(TestCase):
    @ops([op for op in op_db if op.name in ("neg", "abs")], allowed_dtypes=(torch.float64, torch.float32))
    def test_runs(self, device, dtype, op):
        for sample in op.sample_inputs(device, dtype):
            op(sample.input)

class TestPlain(TestCase):
    def test_plain(self):
        pass

instantiate_device_type_tests(TestTiny, globals())
instantiate_device_type_tests(TestTinyOps, globals())
if __name__ == "__main__":
    run_tests()
"""

FILES = {
    "version.txt": "9.8.7\n",
    "test/conftest.py": "raise RuntimeError('files of the tree other than tests are not loaded')\n",
    "test/helper.py": "ONE = 1\n",
    "test/test_tiny.py": TINY,
    "test/nn/test_layer.py": "from helper import ONE\ndef test_layer(): assert ONE == 1\n",
    "test/test_broken.py": "import nonesuch\n",
    "tools/tool.py": "",
    "torch/__init__.py": "raise RuntimeError('the sources are not checked out')\n",
}

TINY_TESTS = [
    "test_tiny.py::TestPlain::test_plain",
    "test_tiny.py::TestTiny::test_add_float32",
    "test_tiny.py::TestTiny::test_add_int64",
    "test_tiny.py::TestTiny::test_add_more",
    "test_tiny.py::TestTiny::test_cuda_only",
    "test_tiny.py::TestTiny::test_wrong",
    "test_tiny.py::TestTinyOps::test_runs_abs_float32",
    "test_tiny.py::TestTinyOps::test_runs_abs_float64",
    "test_tiny.py::TestTinyOps::test_runs_neg_float32",
    "test_tiny.py::TestTinyOps::test_runs_neg_float64",
]


def write_tree(folder: Path) -> Path:
    """The tree in a folder."""
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def git(folder: Path, *arguments: str) -> str:
    """What git prints."""
    identity = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.invalid")
    done = subprocess.run(
        ["git", "-C", str(folder), *identity, *arguments], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def make_repository(folder: Path, tag: str = "v9.8.7") -> tuple[str, str]:
    """A repository of the tree with one tag and a later commit; its ``file://`` URL and the tag's commit."""
    write_tree(folder)
    git(folder, "init", "--quiet", "--initial-branch=main")
    git(folder, "config", "uploadpack.allowFilter", "true")
    git(folder, "config", "uploadpack.allowAnySHA1InWant", "true")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=first")
    commit = git(folder, "rev-parse", "HEAD")
    git(folder, "tag", "--annotate", tag, "--message=release")
    (folder / "test" / "test_later.py").write_text("")
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message=second")
    return f"file://{folder}", commit
