"""The workflow that backend teams copy: the harness takes its commands, its scripts do what they say."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import parser

WORKFLOW = Path(__file__).parents[2] / "docs" / "ci" / "nightly.yml"
VALUES = {"DEVICE": "cuda", "PROFILE": "default", "GATE": "--gate", "RUN": "20261130-021700-cuda"}


def workflow() -> dict[Any, Any]:
    loaded = yaml.safe_load(WORKFLOW.read_text())
    assert isinstance(loaded, dict)
    return loaded


def steps() -> dict[str, dict[str, Any]]:
    return {step["name"]: step for step in workflow()["jobs"]["sweep"]["steps"] if "name" in step}


def commands() -> list[list[str]]:
    """The arguments of each call of the harness, as the shell would pass them."""
    found = []
    for step in steps().values():
        script = step.get("run", "").replace("\\\n", " ")
        for line in script.splitlines():
            call = re.search(r"(?:^|\s)harness ([^|>;]*)", line.partition("#")[0])
            if call:
                text = re.sub(r"\$(\w+)", lambda name: VALUES[name[1]], call[1])
                found.append(shlex.split(text))
    return found


def test_it_runs_by_the_clock_and_by_hand_and_does_not_run_here() -> None:
    triggers = workflow()[True]  # YAML 1.1 reads the key `on` so
    assert set(triggers) == {"schedule", "workflow_dispatch"}
    assert ".github" not in WORKFLOW.parts


def test_every_command_in_it_is_one_that_the_harness_takes() -> None:
    called = commands()
    assert {arguments[0] for arguments in called} == {
        "doctor",
        "nightly",
        "resume",
        "ingest",
        "report",
        "gaps",
    }
    for arguments in called:
        parser().parse_args(arguments)
    forms = {arguments[arguments.index("--format") + 1] for arguments in called if "--format" in arguments}
    assert forms == {"md", "json", "junit", "csv"}


def test_a_command_the_harness_does_not_take_would_be_found() -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["nightly", "--no-such-option"])


def test_a_later_night_finds_the_store_of_the_one_before() -> None:
    restore, save = steps()["Restore the store"]["with"], steps()["Save the store"]["with"]
    assert restore["path"] == save["path"] == "harness-data"
    assert restore["key"] == save["key"]
    assert save["key"].startswith(restore["restore-keys"])


def test_every_expression_names_a_step_that_is_there() -> None:
    text = WORKFLOW.read_text()
    ids = {step["id"] for step in workflow()["jobs"]["sweep"]["steps"] if "id" in step}
    assert set(re.findall(r"steps\.(\w+)\.", text)) == ids == {"night", "rest"}


class Shell:
    """Runs the scripts of steps as GitHub's runner does, with a harness that does what a test says."""

    def __init__(self, folder: Path, harness: str) -> None:
        self.folder = folder
        program = folder / "bin" / "harness"
        program.parent.mkdir()
        program.write_text(f'#!/bin/bash\necho "$@" >> "{folder}/calls"\n{harness}\n')
        program.chmod(0o755)

    def run(self, step: str, **environment: str) -> tuple[int, dict[str, str]]:
        """The exit status of a step, and its outputs."""
        output = self.folder / "output"
        output.write_text("")
        given = {"GITHUB_OUTPUT": str(output), "GITHUB_STEP_SUMMARY": str(self.folder / "summary")}
        path = f"{self.folder / 'bin'}:{os.environ['PATH']}"
        done = subprocess.run(
            ["bash", "-eo", "pipefail", "-c", steps()[step]["run"]],
            cwd=self.folder,
            env={**os.environ, **VALUES, **given, **environment, "PATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
        return done.returncode, dict(line.split("=", 1) for line in output.read_text().splitlines())

    def calls(self) -> list[str]:
        """What the harness was called with."""
        return (self.folder / "calls").read_text().splitlines()


MAKES_A_RUN = "mkdir -p harness-data/runs/20261130-021700-cuda"


@pytest.mark.parametrize(
    ("harness", "code", "run"),
    [
        (f"{MAKES_A_RUN}; exit 0", "0", VALUES["RUN"]),
        (f"{MAKES_A_RUN}; exit 3", "3", VALUES["RUN"]),
        (f"{MAKES_A_RUN}; kill -9 $$", "137", VALUES["RUN"]),
        ("exit 4", "4", ""),
    ],
)
@pytest.mark.parametrize("earlier", [True, False])
def test_a_night_tells_the_steps_after_it_how_it_ended_and_which_run_it_was(
    tmp_path: Path, harness: str, code: str, run: str, earlier: bool
) -> None:
    shell = Shell(tmp_path, harness)
    if earlier:
        (tmp_path / "harness-data" / "runs" / "20261129-021700-cuda").mkdir(parents=True)
    assert shell.run("Run") == (0, {"code": code, "run": run})


def test_the_rest_of_a_night_is_run_and_its_status_counts(tmp_path: Path) -> None:
    shell = Shell(tmp_path, "exit 1")
    assert shell.run("Go on if it was cut short") == (0, {"code": "1"})
    assert shell.calls() == [f"resume {VALUES['RUN']} --gate --quiet --junit junit.xml"]
    assert shell.run("Gate", CODE="1")[0] == 1
    assert shell.run("Gate", CODE="0")[0] == 0


def test_a_night_that_was_killed_for_good_is_summarised(tmp_path: Path) -> None:
    shell = Shell(tmp_path, '[ "$1" != ingest ] || exit 3; echo "$1"')
    assert shell.run("Summarise")[0] == 0
    assert (tmp_path / "summary").read_text() == "report\n"
    assert (tmp_path / "gaps.csv").read_text() == "gaps\n"
    assert shell.calls()[0] == f"ingest harness-data/runs/{VALUES['RUN']}"
