"""The command that shows a case again is one line, whatever the case is called."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from results.layout import STORE_VARIABLE
from results.reproducing import reproducer

_NAMES = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), min_size=1)


@given(_NAMES)
@settings(max_examples=30, deadline=None)
def test_a_shell_reads_back_what_was_meant(case: str) -> None:
    line = reproducer(case, "a run", Path("/else where"), program="printf '%s\\0'")
    assert line.isprintable()
    bare = line.replace(line[: line.index(" repro ")], "printf '%s\\0'", 1)
    done = subprocess.run(["bash", "-c", bare], capture_output=True, check=True, env={"LC_ALL": "C.UTF-8"})
    words = done.stdout.decode().split("\0")
    assert words == ["repro", case, "--run", "a run", "--store", "/else where", ""]


def test_the_store_that_is_used_anyway_is_not_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(STORE_VARIABLE, str(tmp_path))
    assert reproducer("opinfo::add", "night", tmp_path) == "harness repro opinfo::add --run night"
