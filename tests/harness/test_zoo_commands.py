"""``harness zoo serve``: what cannot be served is one sentence, what can is served with its faults."""

from __future__ import annotations

import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from harness.cli import main
from harness.errors import ExitCode


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["none"], "none is not a directory"),
        ([".", "--fault", "meltdown"], "there is no fault 'meltdown'"),
        ([".", "--faults", "none.toml"], "none.toml"),
        ([".", "--upstream", "hub"], "an upstream is a URL"),
        ([".", "--page-size", "0"], "at least 1 entry"),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    arguments: list[str],
    sentence: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["zoo", "serve", *arguments]) == ExitCode.USAGE
    said = capsys.readouterr().err
    assert sentence in said
    assert said.count("\n") == 1


def test_a_folder_is_served_with_a_fault(tmp_path: Path) -> None:
    (tmp_path / "acme/one").mkdir(parents=True)
    (tmp_path / "acme/one/config.json").write_text("{}")
    fault = "rate-limit,path=/api/models,retry-after=9"
    command = [sys.executable, "-m", "harness.cli", "zoo", "serve", str(tmp_path), "--port", "0", "--quiet"]
    with subprocess.Popen([*command, "--fault", fault], stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            endpoint = server.stdout.readline().strip().removeprefix("export HF_ENDPOINT=")
            with pytest.raises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(f"{endpoint}/api/models")
            assert (caught.value.code, caught.value.headers["Retry-After"]) == (429, "9")
            assert b"acme/one" in urllib.request.urlopen(f"{endpoint}/api/models").read()
        finally:
            server.terminate()
