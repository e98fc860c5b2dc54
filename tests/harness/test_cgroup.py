"""The files of control groups, in a folder that stands for the kernel's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.cgroup import groups


@pytest.fixture
def kernel(tmp_path: Path) -> tuple[Path, Path]:
    """A hierarchy with a delegated group, and the membership file of a process in it."""
    own = tmp_path / "cgroup" / "user" / "run.scope"
    own.mkdir(parents=True)
    (own / "cgroup.controllers").write_text("cpu memory pids\n")
    (own / "cgroup.subtree_control").write_text("\n")
    membership = tmp_path / "membership"
    membership.write_text("4:memory:/elsewhere\n0::/user/run.scope\n")
    return tmp_path / "cgroup", membership


def test_a_delegated_group_gets_the_controller_and_the_supervisor_a_leaf(kernel: tuple[Path, Path]) -> None:
    mount, membership = kernel
    assert groups(mount, membership) is not None
    own = mount / "user" / "run.scope"
    assert (own / "cgroup.subtree_control").read_text() == "+memory"
    assert (own / "harness-supervisor" / "cgroup.procs").read_text() == str(os.getpid())


def test_a_worker_is_limited_and_its_death_told(kernel: tuple[Path, Path]) -> None:
    found = groups(*kernel)
    assert found is not None
    group = found.worker("worker-00001", 1 << 30)
    assert group is not None
    (folder,) = (kernel[0] / "user" / "run.scope").glob("harness-*-worker-00001")
    assert (folder / "memory.max").read_text() == str(1 << 30)
    group.take(4711)
    assert (folder / "cgroup.procs").read_text() == "4711"
    assert (group.oom_killed(), group.peak) == (False, 0)
    (folder / "memory.events").write_text("low 0\nhigh 0\nmax 7\noom 1\noom_kill 1\noom_group_kill 1\n")
    (folder / "memory.peak").write_text("1073741824\n")
    assert (group.oom_killed(), group.peak) == (True, 1 << 30)


def test_a_second_supervisor_in_the_same_group_finds_it_prepared(kernel: tuple[Path, Path]) -> None:
    mount, membership = kernel
    groups(mount, membership)
    (mount / "user" / "run.scope" / "cgroup.subtree_control").write_text("memory\n")
    membership.write_text("0::/user/run.scope/harness-supervisor\n")
    assert groups(mount, membership) is not None


@pytest.mark.parametrize("text", ["4:memory:/only/version/1\n", "0::/not/there\n", ""])
def test_without_a_usable_group_there_is_none(kernel: tuple[Path, Path], text: str) -> None:
    kernel[1].write_text(text)
    assert groups(*kernel) is None


def test_without_the_memory_controller_there_is_none(kernel: tuple[Path, Path]) -> None:
    (kernel[0] / "user" / "run.scope" / "cgroup.controllers").write_text("cpu\n")
    assert groups(*kernel) is None


def test_a_group_that_cannot_be_limited_is_not_left_behind(
    kernel: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    found = groups(*kernel)
    assert found is not None

    def refuse(self: Path, _text: str) -> int:
        raise PermissionError(self)

    monkeypatch.setattr(Path, "write_text", refuse)
    assert found.worker("worker-00001", 1 << 30) is None
    assert not list((kernel[0] / "user" / "run.scope").glob("harness-*-worker-*"))
