"""pytest under the supervisor: whatever a file does to the process, every test has its own result."""

from __future__ import annotations

from pathlib import Path

import pytest

import results
from harness.errors import InfrastructureError, UsageError
from harness.pytest_sessions import Session, collect
from tests.harness.night import Night, outcomes

SICK = """
import os, time
import pytest
state = []
def test_passes(): pass
def test_fails(): assert 1 == 2
@pytest.mark.skip(reason="not today")
def test_skipped(): pass
def test_segfaults(): os.kill(os.getpid(), 11)
def test_hangs(): time.sleep(1000)
def test_poison(): state.append(1)
def test_poisoned(): assert not state
@pytest.mark.parametrize("n", range(3))
def test_many(n): pass
"""


def write(root: Path, **files: str) -> None:
    for name, text in files.items():
        (root / f"{name}.py").write_text(text)


def short(rows: list[tuple[str, ...]]) -> dict[str, str]:
    return {case.rsplit("::", 1)[-1] if "<" not in case else case.split("::")[1]: o for case, _, o in rows}


@pytest.mark.nightly
def test_every_way_a_test_file_can_hurt_a_session(tmp_path: Path) -> None:
    root = tmp_path / "tests"
    root.mkdir()
    write(
        root, test_a=SICK, test_gone="import nonesuch", test_abort="import os; os.abort()",
        test_z="def test_z(): pass",
    )  # fmt: skip
    store = tmp_path / "store"
    night = Night(
        store, "embedded", "--suites", "pytest", "--device", "cpu", "--set", f'pytest_root="{root}"',
        "--set", 'pytest_paths=["."]', "--set", "deadlines.test=5", "--workers", "1",
    )  # fmt: skip
    code, output = night.wait()
    assert code == 1, output
    assert short(outcomes(store)) == {
        "test_passes": "passed",
        "test_fails": "failed_exception",
        "test_skipped": "skipped_upstream",
        "test_segfaults": "crashed",
        "test_hangs": "timed_out",
        "test_poison": "passed",
        "test_poisoned": "passed",
        **{f"test_many[{n}]": "passed" for n in range(3)},
        "test_gone.py": "collection_error",
        "test_abort.py": "crashed",
        "test_z": "passed",
    }
    with results.open(store) as reader:
        (flake,) = reader.rows("v_flakes", run=reader.latest_run())
    assert flake["case_id"] == "pytest::test_a.py::-::test_poisoned"
    assert flake["disturbed_by"] == ["pytest::test_a.py::-::test_poison"]
    assert list(flake["outcomes"]) == ["failed_exception", "passed"]


def test_a_path_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="nonesuch does not exist"):
        collect(["nonesuch"], Session(tmp_path, "cpu", {}))


def test_a_file_that_kills_collection_is_one_case_beside_the_others(tmp_path: Path) -> None:
    write(tmp_path, test_a="def test_one(): pass", test_b="import os; os.abort()")
    found = collect(["."], Session(tmp_path, "cpu", {}))
    assert [case.id for case in found] == [
        "pytest::test_a.py::-::test_one",
        "pytest::test_b.py::-::<collection>",
    ]


def test_several_files_are_collected_one_by_one_where_one_of_them_kills_collection(tmp_path: Path) -> None:
    write(tmp_path, test_a="def test_one(): pass", test_b="import os; os.abort()")
    found = collect(["test_a.py", "test_b.py"], Session(tmp_path, "cpu", {}))
    assert [case.id for case in found] == [
        "pytest::test_a.py::-::test_one",
        "pytest::test_b.py::-::<collection>",
    ]


def test_a_death_at_collection_that_no_file_explains_is_told(tmp_path: Path) -> None:
    write(tmp_path, conftest="import os; os.abort()")
    with pytest.raises(InfrastructureError, match=r"pytest died \(killed by SIGABRT\) while it collected \."):
        collect(["."], Session(tmp_path, "cpu", {}))
