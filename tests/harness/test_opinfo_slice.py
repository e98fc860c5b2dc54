"""Forty operators through every check of suite ``opinfo`` on the device, as a night runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import results
from suites.opinfo.checks import CHECKS

pytestmark = pytest.mark.nightly

OPERATORS = 40
DTYPES = ["bfloat16", "float32", "int64"]
SELECTION = Path(__file__).with_name("opinfo_slice.toml")
LEAST = 5
"""Operators that have to pass a check in some dtype: fewer would mean that it hardly runs."""


def test_every_check_of_forty_operators_holds_on_the_device(tmp_path: Path) -> None:
    settings = {
        "opinfo_selection": str(SELECTION),
        "opinfo_dtypes": DTYPES,
        "opinfo_databases": ["op_db"],
    }
    command = [sys.executable, "-m", "harness.cli", "run", "--suite", "opinfo", "--store", str(tmp_path)]
    command += ["--quiet", *(f"--set={name}={json.dumps(value)}" for name, value in settings.items())]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    with results.open(tmp_path) as store:
        checks = store.rows("v_checks")
        (balance,) = store.rows("v_skip_balance")
        passed = store.query_rows(
            "SELECT check_name, count(DISTINCT op) AS ops FROM v_cases WHERE outcome = 'passed' GROUP BY 1"
        )
    assert {row["check_name"] for row in checks} == set(CHECKS)
    assert {row["planned"] for row in checks} == {OPERATORS * len(DTYPES)}
    for row in checks:
        assert row["planned"] == row["passed"] + row["failed"] + row["unsupported"] + row["skipped"]
    assert balance["uncategorised"] == 0
    assert {row["check_name"]: row["ops"] for row in passed if row["ops"] < LEAST} == {}
