"""The plugin in a pytest of its own: names and order that no process changes, no test made in vain."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from suites.upstream.repeatable import IndexedTests, SortedSet
from tests.suites.conftest import ROOT
from tests.suites.upstream_tree import TINY_TESTS, write_tree

ONLY_FOR = {"neuron": "privateuse1", "cpu": "cpu"}


def run_pytest(root: Path, device: str, *arguments: str, **variables: str) -> str:
    """Run pytest with the plugin as the harness does; gives its output."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment["PYTORCH_TESTING_DEVICE_ONLY_FOR"] = ONLY_FOR[device]
    options = (f"--rootdir={root}", "--config-file=/dev/null", "--noconftest", "-p", "suites.upstream.plugin")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options,
         f"--harness-device={device}", "--harness-suite=upstream", *arguments],
        cwd=root, env={**environment, **variables}, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    return done.stdout + done.stderr


def collect(root: Path, device: str, file: str = "test_tiny.py", **variables: str) -> list[dict[str, object]]:
    """The cases of a file, in the order of the collection."""
    found = root / f"collected-{device}.json"
    output = run_pytest(root, device, "--collect-only", f"--harness-collect={found}", file, **variables)
    assert found.exists(), output
    cases: list[dict[str, object]] = json.loads(found.read_text())["cases"]
    found.unlink()
    return cases


def test_ids_name_no_device_and_processes_agree(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    first = collect(root, "neuron", PYTHONHASHSEED="1")
    assert sorted(str(case["id"]) for case in first) == [f"upstream::{test}" for test in TINY_TESTS]
    owners = {str(case["nodeid"]).split("::")[1] for case in first}
    assert owners == {"TestTinyNEURON", "TestTinyOpsNEURON", "TestPlain"}
    assert collect(root, "neuron", PYTHONHASHSEED="2") == first
    assert {str(case["id"]) for case in collect(root, "cpu")} == {str(case["id"]) for case in first}


def test_a_batch_makes_only_the_templates_it_needs(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    wanted = ("TestTiny::test_add_float32", "TestTinyOps::test_runs_neg_float64")
    cases = [case for case in collect(root, "neuron") if str(case["id"]).endswith(wanted)]
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"log": str(tmp_path / "log.jsonl"), "attempt": 1, "cases": cases}))
    output = run_pytest(root, "neuron", f"--harness-job={job}", "test_tiny.py")
    # Of TestTiny the two of test_add, of TestTinyOps the four of its one template.
    assert "2 passed, 4 deselected" in output
    kinds = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert len(kinds) == 4, kinds


def test_a_test_that_the_plan_has_and_the_file_has_not_is_reported(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    gone = {
        "id": "upstream::x",
        "nodeid": "test_tiny.py::TestTinyNEURON::test_gone_neuron",
        "collection": False,
    }
    job = tmp_path / "job.json"
    job.write_text(json.dumps({"log": str(tmp_path / "log.jsonl"), "attempt": 1, "cases": [gone]}))
    run_pytest(root, "neuron", f"--harness-job={job}", "test_tiny.py")
    assert "is not collected now" in (tmp_path / "log.jsonl").read_text()


def test_sets_of_dtypes_iterate_by_name_and_so_does_what_they_derive() -> None:
    dtypes = SortedSet([torch.int64, torch.bfloat16, torch.float32, torch.bool])
    names = ["torch.bfloat16", "torch.bool", "torch.float32", "torch.int64"]
    assert [str(dtype) for dtype in dtypes] == names
    assert [str(dtype) for dtype in dtypes.difference({torch.bool})] == [names[0], *names[2:]]
    assert [str(dtype) for dtype in dtypes.intersection({torch.int64, torch.bool})] == names[1::2]
    assert SortedSet("abc") == set("abc")


LISTED = {
    "test_x (__main__.TestY)": ["url0", []],
    "test_x_neuron_float32 (module.TestY)": ["url1", []],
    "test_other (module.TestY)": ["url2", []],
    "malformed": ["url3", []],
    "test_x (module.TestZ)": ["url4", ["nowhere"]],
}


def test_an_index_shows_the_entries_that_name_a_test_in_the_order_of_the_list() -> None:
    index = IndexedTests(LISTED)
    assert list(index) == []
    index.look_for("test_x_neuron_float32", "test_x")
    assert list(index) == [name for name in LISTED if name.startswith("test_x")]
    assert index.items() == [(name, LISTED[name]) for name in LISTED if name.startswith("test_x")]
    index.look_for("test_nothing")
    assert index.items() == []


DISABLED = """
import torch
from torch.testing._internal import common_utils
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestY(TestCase):
    def test_x(self, device): pass
    def test_slow(self, device): pass
    def test_free(self, device): pass

class TestOther(TestCase):
    def test_x(self): pass

class TestList(TestCase):
    def test_what_a_test_goes_through(self):
        common_utils.check_if_enable(self)
        assert len(list(common_utils.disabled_tests_dict)) == EXPECTED

instantiate_device_type_tests(TestY, globals())
"""


@pytest.mark.parametrize("indexed", [True, False])
def test_disabled_and_slow_lists_say_the_same_with_an_index(tmp_path: Path, indexed: bool) -> None:
    root = write_tree(tmp_path) / "test"
    lists = {"DISABLED_TESTS_FILE": {"test_x_neuron (module.TestY)": ["https://example.invalid/1", []]},
             "SLOW_TESTS_FILE": {"test_slow_neuron (module.TestY)": 100.0}}  # fmt: skip
    lists["DISABLED_TESTS_FILE"] |= {f"test_{n} (module.TestN)": ["url", []] for n in range(50)}
    variables = {}
    for name, entries in lists.items():
        (tmp_path / name).write_text(json.dumps(entries))
        variables[name] = str(tmp_path / name)
    (root / "test_listed.py").write_text(DISABLED.replace("EXPECTED", "0" if indexed else "51"))
    off = () if indexed else ("-p", "no:suites.upstream.plugin")
    output = run_pytest(root, "neuron", "-rs", *off, "test_listed.py", **variables)
    assert "3 passed, 2 skipped" in output, output
    assert "example.invalid/1" in output
    assert "test is slow" in output


ORDERED = """
import torch
from torch.testing._internal.common_device_type import instantiate_device_type_tests, ops
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.common_utils import TestCase

class TestOrdered(TestCase):
    @ops([op for op in op_db if op.name == "neg"])
    def test_op(self, device, dtype, op): pass
    def test_b(self, device): pass
    def test_c(self, device): pass
    def test_a(self, device): pass

instantiate_device_type_tests(TestOrdered, globals())

def test_order():
    defined = [name for name in vars(TestOrderedNEURON) if name.startswith("test")]
    assert len(defined) > 10
    assert defined == sorted(defined, key=lambda name: name.replace("_neuron", "")), defined
"""


def test_tests_are_defined_in_the_order_of_their_names(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    (root / "test_ordered.py").write_text(ORDERED)
    output = run_pytest(root, "neuron", "test_ordered.py::test_order", PYTHONHASHSEED="3")
    assert "1 passed" in output, output


CUDA_ONLY = """
from torch.testing._internal.common_device_type import instantiate_device_type_tests
from torch.testing._internal.common_utils import TestCase

class TestOne(TestCase):
    def test_one(self, device): assert device == "neuron:0"

class TestTwo(TestCase):
    def test_two(self, device): assert device == "neuron:0"

instantiate_device_type_tests(TestOne, globals(), only_for="cuda")
instantiate_device_type_tests(TestTwo, globals(), only_for="xpu", allow_xpu=True)
"""


def test_files_for_other_devices_can_be_made_for_this_one(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    (root / "test_cuda_only.py").write_text(CUDA_ONLY)
    custom = {"PYTORCH_TESTING_DEVICE_FOR_CUSTOM": "privateuse1"}
    assert "2 passed" in run_pytest(root, "neuron", "test_cuda_only.py", **custom)
    assert "no tests ran" in run_pytest(root, "neuron", "test_cuda_only.py")
