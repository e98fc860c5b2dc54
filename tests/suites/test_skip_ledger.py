"""A tree in the style of PyTorch's own tests: each source of a skip gets its one category."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

import results
from results.events import Ended
from results.ingest import ingest
from results.skips import read_balance
from results.vocabulary import Outcome

pytest_plugins = ["pytester"]

TREE = Path(__file__).parent / "upstream_style"
MODES = pytest.mark.parametrize("workers", [(), ("-n", "2")], ids=["alone", "xdist"])
ISSUE = "https://github.com/pytorch/pytorch/issues/1"

DEVICE = {
    "TestOutcomes::test_passes": "passed",
    "TestOutcomes::test_dtypes_float32": "passed",
    "TestOutcomes::test_dtypes_int64": "passed",
    "TestOutcomes::test_subtest_skips": "passed",
    "TestOutcomes::test_gates_let_it_through": "passed",
    "TestOutcomes::test_wrong": "failed_exception",
    "TestOutcomes::test_raises": "failed_exception",
    "TestOutcomes::test_unexpected": "failed_exception",
    "TestOutcomes::test_runs_out": "out_of_memory",
    "TestOutcomes::test_expected": "expected_failure",
    "TestGates::test_only_cuda": "device_gate",
    "TestGates::test_only_cuda_dtypes_float32": "device_gate",
    "TestGates::test_only_cpu": "device_gate",
    "TestGates::test_only_two": "device_gate",
    "TestGates::test_not_on_privateuse1": "device_gate",
    "TestGates::test_lazy_condition": "device_gate",
    "TestGates::test_local_condition": "device_gate",
    "TestGates::test_local_text": "device_gate",
    "TestGates::test_library": "missing_library",
    "TestGates::test_many": "device_count",
    "TestGates::test_large": "memory",
    "TestGates::test_slow": "slow",
    "TestGates::test_listed_slow": "slow",
    "TestGates::test_listed_disabled": "disabled_upstream",
    "TestGates::test_mystery": "uncategorised",
    "TestMarks::test_unconditional": "disabled_upstream",
    "TestMarks::test_always": "disabled_upstream",
    "TestMarks::test_condition": "device_gate",
    "TestMarks::test_second_alternative": "python_dependency",
    "TestMarks::test_unless": "device_gate",
    "TestMarks::test_named_decorator": "python_dependency",
    "TestMarks::test_set_by_hand": "device_gate",
    "TestMarks::test_called": "device_gate",
    "TestMarks::test_unknown_condition": "uncategorised",
    "TestMarks::test_parameter_value_1": "passed",
    "TestMarks::test_parameter_value_2": "disabled_upstream",
    "TestMarks::test_parameter_value_3": "disabled_upstream",
    "TestBodies::test_skip_test": "body",
    "TestBodies::test_raise": "body",
    "TestBodies::test_helper": "body",
    "TestBodies::test_condition": "device_gate",
    "TestBodies::test_no_samples": "needs_samples",
    "TestBodies::test_not_implemented": "not_implemented",
    "TestSetUp::test_anything": "body",
    "TestSetUpClass::test_one": "device_gate",
    "TestSetUpClass::test_two": "device_gate",
    "TestSkippedClass::test_anything": "device_gate",
}
ENTRIES = {
    "TestEntries::test_runs_neg_float32": "passed",
    "TestEntries::test_skipped_neg_float32": "opinfo_entry",
    "TestEntries::test_fails_neg_float32": "opinfo_entry",
    "TestEntries::test_module_skipped_nn_Identity_float32": "opinfo_entry",
    "TestEntries::test_gated_neg_float32": "device_gate",
    "TestEntries::test_slow_neg_float32": "slow",
    "TestEntries::test_body_neg_float32": "body",
    "TestEntries::test_own_mark_neg_float32": "disabled_upstream",
    "TestEntries::test_own_failure_neg_float32": "expected_failure",
}
MARKS = {
    "-::test_unconditional": "disabled_upstream",
    "-::test_condition": "device_gate",
    "-::test_parameter[1]": "passed",
    "-::test_parameter[2]": "disabled_upstream",
    "-::test_body": "body",
    "-::test_package": "python_dependency",
    "-::test_fixture": "body",
    "-::test_xfail": "expected_failure",
    "-::test_xfail_unrun": "expected_failure",
    "-::test_xfail_in_body": "expected_failure",
    "-::test_marked_from_outside": "uncategorised",
    "TestMarked::test_anything": "device_gate",
    "TestWholeClass::test_anything": "disabled_upstream",
}
FILES = {
    "test_no_cuda.py::-::<collection>": "device_gate",
    "test_no_package.py::-::<collection>": "python_dependency",
    "test_broken.py::-::<collection>": "collection_error",
}
EXPECTED = {
    **{f"test_device.py::{name}": word for name, word in DEVICE.items()},
    **{f"test_entries.py::{name}": word for name, word in ENTRIES.items()},
    **{f"test_marks.py::{name}": word for name, word in MARKS.items()},
    **FILES,
}
"""What each test comes to: an outcome, or the category of its skip."""


@pytest.fixture
def tree(pytester, monkeypatch):
    """The files under the names that pytest looks for, and upstream's two lists of tests."""
    for source in TREE.glob("*.py"):
        name = source.name if source.stem == "conftest" else f"test_{source.name}"
        shutil.copy(source, pytester.path / name)
    slow = {"test_listed_slow_neuron (__main__.TestGates)": 99}
    disabled = {"test_listed_disabled_neuron (__main__.TestGates)": [ISSUE, []]}
    for variable, content in (("SLOW_TESTS_FILE", slow), ("DISABLED_TESTS_FILE", disabled)):
        path = pytester.path / f"{variable}.json"
        path.write_text(json.dumps(content))
        monkeypatch.setenv(variable, str(path))
    monkeypatch.setenv("PYTORCH_TESTING_DEVICE_ONLY_FOR", "neuron")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


@MODES
def test_each_source_has_its_category_and_the_ledger_adds_up(tree, record, workers, tmp_path):
    _, run = record("--harness-device", "neuron", "--continue-on-collection-errors", *workers, timeout=300)
    found = {}
    for event in run.of(Ended):
        category = event.facts.get("category", "")
        assert (event.outcome is Outcome.SKIPPED_UPSTREAM) == bool(category), event
        found[event.case.removeprefix("pytest::")] = category or event.outcome.value
    assert found == EXPECTED

    ingest(tmp_path / "store", run.folder)
    with results.open(tmp_path / "store") as store:
        balance = read_balance(store, run.plan.run)
        ledger = store.rows("v_skips")
    assert balance.balanced
    assert balance.planned == len(EXPECTED)
    assert balance.uncategorised == list(EXPECTED.values()).count("uncategorised") == 3
    assert ledger[0]["category"] == "uncategorised"
    assert sum(row["cases"] for row in ledger) == balance.skips

    facts = {event.case.rpartition("::")[2]: event.facts for event in run.of(Ended)}
    assert facts["test_only_cpu"]["frames"].startswith(
        "torch.testing._internal.common_device_type:onlyOn.__call__.<locals>.only_fn"
    )
    assert facts["test_only_cpu"]["location"].startswith("torch/testing/_internal/common_device_type.py:")
    assert facts["test_lazy_condition"]["named"] == "skipIfNoXPU"
    assert facts["test_unless"]["decorator"].startswith("unittest.skipUnless(TEST_NUMPY and TEST_CUDA")
    assert facts["test_unless"]["condition"] == "TEST_CUDA"
    assert facts["test_second_alternative"]["condition"] == "TEST_FAIRSEQ"
    assert facts["test_helper"]["location"].startswith("test_device.py:")
    assert facts["test_expected"]["raised"].startswith("RuntimeError: known to fail")
    assert facts["test_subtest_skips"]["subtests_skipped"] == "1"
    assert ISSUE in facts["test_listed_disabled"]["reason"]
