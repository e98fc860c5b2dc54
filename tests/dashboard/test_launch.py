"""How the server is started, and on which store."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from dashboard.launch import APP, command, parser, store_path


def test_the_command_serves_this_machine_and_reports_nothing() -> None:
    argv = command(Path("/data/store"), 9000)
    assert argv[:4] == [sys.executable, "-m", "streamlit", "run"]
    assert argv[-3:] == ["--", "--store", "/data/store"]
    assert "--server.address=localhost" in argv
    assert "--server.port=9000" in argv
    assert "--browser.gatherUsageStats=false" in argv
    assert not any("server.port" in part for part in command(Path("x")))


def test_a_named_store_comes_before_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESS_STORE", "/env/store")
    assert store_path(["--store", "/named"]) == Path("/named")
    assert store_path(["-q", "other"]) == Path("/env/store")
    assert parser().parse_args([]).store == Path("/env/store")
    monkeypatch.delenv("HARNESS_STORE")
    assert store_path([]) == Path("harness-data")


def test_streamlit_reports_nothing_however_it_is_started() -> None:
    assert "gatherUsageStats = false" in (APP.parent / ".streamlit/config.toml").read_text()
