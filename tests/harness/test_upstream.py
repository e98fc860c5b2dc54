"""Suite ``upstream`` by the real command line: fetch, run, list, and a denominator that shrinks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import results
from tests.suites.upstream_tree import TINY_TESTS, make_repository, write_tree


def harness(store: Path, *arguments: str) -> tuple[int, str]:
    """Exit status and output of a command."""
    command = [sys.executable, "-m", "harness.cli", *arguments, "--store", str(store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=dict(os.environ))
    return done.returncode, done.stdout + done.stderr


def nightly(store: Path, *arguments: str) -> tuple[int, str]:
    """A night of the suite on the simulated device, one attempt a test."""
    profile = (
        "--profile",
        "upstream",
        "--device",
        "neuron",
        "--workers",
        "1",
        "--quiet",
        "--set",
        "attempts=1",
    )
    return harness(store, "nightly", *profile, *arguments)


def rows(store: Path, view: str, **equals: object) -> list[dict[str, object]]:
    with results.open(store) as reader:
        return reader.rows(view, run=reader.latest_run(), **equals)


def test_fetching_by_git_says_what_it_brought_and_what_does_not_fit(tmp_path: Path) -> None:
    url, commit = make_repository(tmp_path / "repository")
    fetch = ("suites", "fetch", "--url", url, "--torch-version", "9.8.7")
    code, output = harness(tmp_path / "store", *fetch)
    assert code == 2
    assert f"of PyTorch 9.8.7, commit {commit[:12]}, but torch" in output
    code, output = harness(tmp_path / "store", *fetch, "--allow-mismatch")
    assert code == 0, output
    checkout = tmp_path / "store" / "cache" / "upstream" / "v9.8.7" / "test"
    assert f"3 test files of PyTorch 9.8.7, commit {commit[:12]}: {checkout}" in output
    code, output = harness(tmp_path / "store", "suites", "list", "--format", "csv")
    assert code == 0, output
    assert output.splitlines()[1:] == [
        "nn,nn/test_layer.py,,",
        "other,test_broken.py,,",
        "other,test_tiny.py,,",
    ]
    code, output = harness(tmp_path / "store", "suites", "fetch", "--url", f"file://{tmp_path}/nonesuch")
    assert code == 4
    assert len(output.splitlines()) == 1
    assert "--from DIR" in output


@pytest.mark.nightly
def test_a_night_of_a_tree_of_tests(tmp_path: Path) -> None:
    store, tree = tmp_path / "store", write_tree(tmp_path / "tree")
    code, output = nightly(store)
    assert code == 2
    assert "no PyTorch test files yet" in output
    assert harness(store, "suites", "fetch", "--from", str(tree))[0] == 2
    code, output = harness(store, "suites", "fetch", "--from", str(tree), "--allow-mismatch")
    assert code == 0, output
    assert "3 test files of PyTorch 9.8.7" in output
    assert "taken in spite of this" in output

    code, output = nightly(store, "--upstream-families", "other,nn")
    assert code == 1, output
    found = {str(row["case_id"]).removeprefix("upstream::"): row["outcome"] for row in rows(store, "v_cases")}
    expected = dict.fromkeys(TINY_TESTS, "passed") | {
        "test_tiny.py::TestTiny::test_wrong": "failed_exception",
        "test_tiny.py::TestTiny::test_cuda_only": "skipped_upstream",
        "test_broken.py::-::<collection>": "collection_error",
        "nn/test_layer.py::-::test_layer": "passed",
    }
    assert found == expected
    (failure,) = rows(store, "v_stages", outcome="failed_exception")
    said = f"{failure['message']}\n{failure['traceback']}"
    assert "Tensor-likes are not close" in said
    assert "To execute this test" not in said  # would make each of a hundred equal failures one of a kind
    collected = {row["file"]: (row["collected"], row["not_collected"]) for row in rows(store, "v_collected")}
    assert collected == {"test_tiny.py": (10, 0), "test_broken.py": (0, 1), "nn/test_layer.py": (1, 0)}
    with results.open(store) as reader:
        environment = reader.rows("v_runs")[0]["environment"]
        first = reader.latest_run()
    assert environment["upstream.version"] == "9.8.7"
    assert "9.8.7" in environment["upstream.mismatch"]

    _lists(store)
    _shrinks(store, tree, first)


def _lists(store: Path) -> None:
    code, output = harness(store, "suites", "list", "--format", "json")
    listed = {row["file"]: (row["family"], row["collected"]) for row in json.loads(output)}
    assert code == 0
    assert listed == {
        "nn/test_layer.py": ("nn", 1), "test_broken.py": ("other", 0), "test_tiny.py": ("other", 10),
    }  # fmt: skip
    code, output = harness(store, "suites", "list", "--family", "ops")
    assert (code, "no family 'ops'" in output) == (2, True)


def _shrinks(store: Path, tree: Path, first: str) -> None:
    """Fewer tests in a file fail a night until a run is accepted; changed files are refused before that."""
    tiny = tree / "test" / "test_tiny.py"
    tiny.write_text(tiny.read_text().replace("def test_add(", "def no_test_add(").replace("zeros", "ones"))
    only = ("--upstream-files", "test_tiny.py")
    code, output = nightly(store, *only)
    assert (code, "not what they were" in output) == (2, True), output
    assert harness(store, "suites", "fetch", "--from", str(tree), "--allow-mismatch")[0] == 0
    code, output = nightly(store, *only)
    assert code == 1, output
    assert "1 test file(s) with fewer tests than before, first test_tiny.py: 8 instead of 10" in output
    assert "Test files with fewer tests than before: 1" in output
    code, output = nightly(store, *only, "--set", "max_collected_drop=20")
    assert code == 0, output
    with results.open(store) as reader:
        last = reader.latest_run()
    assert harness(store, "report", last, "--gate")[0] == 0
    code, output = nightly(store, *only)
    assert code == 1, (
        output
    )  # the most of earlier runs counts, so the drop does not become the rule by itself
    assert harness(store, "suites", "accept", last)[0] == 0
    with results.open(store) as reader:
        last = reader.latest_run()
    code, output = harness(store, "report", last, "--gate")
    assert code == 0, output
    assert first != last
