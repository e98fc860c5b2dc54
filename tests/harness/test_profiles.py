"""Profiles: defaults, a user's own, overrides, and what is said of mistakes."""

from __future__ import annotations

from pathlib import Path

import pytest

from harness.errors import UsageError
from harness.profiles import load_profile, parse_assignment, profile_names
from results.vocabulary import Stage


@pytest.mark.parametrize("name", profile_names(Path("/nowhere")))
def test_the_packaged_profiles_load(tmp_path: Path, name: str) -> None:
    assert load_profile(name, folder=tmp_path).worker_count >= 1


def test_a_profile_takes_what_it_does_not_set_from_its_base(tmp_path: Path) -> None:
    (tmp_path / "harness.toml").write_text(
        '[profiles.mine]\nbase = "smoke"\ndevice = "cpu"\n[profiles.mine.deadlines]\nforward = 7\n'
    )
    mine, smoke = load_profile("mine", folder=tmp_path), load_profile("smoke", folder=tmp_path)
    assert (mine.device, mine.models) == ("cpu", smoke.models)
    assert mine.deadlines.of(Stage.FORWARD) == 7
    assert mine.deadlines.of(Stage.COMPILE) == smoke.deadlines.of(Stage.COMPILE)


def test_overrides_reach_every_field(tmp_path: Path) -> None:
    profile = load_profile("default", {"models": 3, "deadlines.test": 1.5, "suites": "opinfo"}, tmp_path)
    assert (profile.models, profile.deadlines.test, profile.suites) == (3, 1.5, ("opinfo",))


@pytest.mark.parametrize("url", ["", "/mnt/logs", "file:///mnt/logs", "s3://bucket/logs", "gs://b"])
@pytest.mark.parametrize("address", ["", "10.0.0.1:6379", "head.example.org:6379", "[fd00::1]:6379"])
def test_a_cluster_and_a_place_for_its_logs_can_be_named(tmp_path: Path, url: str, address: str) -> None:
    fields = {"engine": "ray", "ray_address": address, "events_url": url}
    assert load_profile("default", fields, tmp_path).engine == "ray"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("models=3", ("models", 3)),
        ('suites=["opinfo"]', ("suites", ["opinfo"])),
        ("device=cpu", ("device", "cpu")),
        ("model_filter=*/tiny=x", ("model_filter", "*/tiny=x")),
    ],
)
def test_assignments_are_toml_or_text(text: str, expected: tuple[str, object]) -> None:
    assert parse_assignment(text) == expected


@pytest.mark.parametrize(
    ("name", "overrides", "words"),
    [
        ("defualt", {}, "did you mean 'default'"),
        ("default", {"modles": 1}, "did you mean 'models'"),
        ("default", {"deadlines.tset": 1}, "did you mean 'test'"),
        ("default", {"models": "many"}, "whole number"),
        ("default", {"models": True}, "whole number"),
        ("default", {"suites": ["opinfo", "nope"]}, "unknown suite 'nope'"),
        ("default", {"batch": 0}, "batch is at least 1"),
        ("default", {"deadlines.test": 0}, "seconds above 0"),
        ("default", {"deadlines.test": "soon"}, "soon"),
        ("default", {"expectations": 3}, "list of strings"),
        ("default", {"engine": "slurm"}, "unknown engine 'slurm'; known: local, ray"),
        ("default", {"ray_address": "ray://head:10001"}, "HOST:PORT of a cluster's head"),
        ("default", {"ray_address": "head"}, "HOST:PORT of a cluster's head"),
        ("default", {"events_url": "logs"}, "absolute path or a URL"),
        ("default", {"events_url": "memory://logs"}, "that every node reaches"),
    ],
)
def test_mistakes_are_named(tmp_path: Path, name: str, overrides: dict[str, object], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        load_profile(name, overrides, tmp_path)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[profiles.a]\nbase = 'b'\n[profiles.b]\nbase = 'a'\n", "each other's base"),
        ("[profiles.a]\nmodels = ", "not valid TOML"),
        ("profiles.a = 3\n", "must be a table"),
        ("[profiles.a]\nmodels = 1\nspeed = 2\n", "unknown field 'speed'"),
        ("[profiles.a]\n[profiles.a.deadlines]\nlunch = 2\n", "unknown deadline 'lunch'"),
    ],
)
def test_mistakes_in_a_file_are_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "harness.toml").write_text(text)
    with pytest.raises(UsageError, match=words):
        load_profile("a", folder=tmp_path)


def test_an_assignment_without_a_value_is_refused() -> None:
    with pytest.raises(UsageError, match="KEY=VALUE"):
        parse_assignment("models")
