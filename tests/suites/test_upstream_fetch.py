"""Test files by git and from a folder: what is brought, and what is said when it does not fit."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from suites.upstream.fetch import UnreachableError, fetch, wanted_ref
from suites.upstream.source import (
    Installed,
    MismatchError,
    SourceError,
    examine,
    installed_torch,
    load,
    save,
    usable,
)
from tests.suites.upstream_tree import git, make_repository, write_tree

NINE = Installed("9.8.7+cpu", "")


def test_what_is_installed_is_read_as_torch_says_it() -> None:
    import torch

    assert installed_torch() == Installed(torch.__version__, torch.version.git_version)


def test_a_release_is_its_tag_and_a_development_build_its_commit() -> None:
    assert wanted_ref(Installed("2.13.0+cpu", "c0ffee")) == "refs/tags/v2.13.0"
    assert wanted_ref(Installed("2.14.0.dev20261101+cpu", "c0ffee")) == "c0ffee"
    assert wanted_ref(Installed("2.14.0.dev20261101", ""), "2.13.0") == "refs/tags/v2.13.0"
    with pytest.raises(SourceError, match="names no commit"):
        wanted_ref(Installed("2.14.0a0", ""))


def test_git_brings_the_tests_at_the_tag_and_nothing_else(tmp_path: Path) -> None:
    url, commit = make_repository(tmp_path / "repository")
    torch = dataclasses.replace(NINE, commit=commit)
    source = fetch(tmp_path / "cache", "refs/tags/v9.8.7", torch, url=url)
    checkout = tmp_path / "cache" / "v9.8.7"
    assert (source.version, source.commit, source.mismatch) == ("9.8.7", commit, "")
    assert Path(source.root) == checkout / "test"
    assert sorted(path.name for path in checkout.iterdir()) == [".git", "test", "tools", "version.txt"]
    assert not (checkout / "test" / "test_later.py").exists()
    assert git(checkout, "rev-list", "--count", "HEAD") == "1"
    save(source, tmp_path / "cache")
    assert usable(load(tmp_path / "cache"), torch) == source
    again = fetch(tmp_path / "cache", "refs/tags/v9.8.7", torch, url=url)
    assert again == source
    assert [path.name for path in (tmp_path / "cache").iterdir() if path.is_dir()] == ["v9.8.7"]


def test_git_brings_a_commit_that_no_tag_names(tmp_path: Path) -> None:
    url, _ = make_repository(tmp_path / "repository")
    head = git(tmp_path / "repository", "rev-parse", "HEAD")
    source = fetch(tmp_path / "cache", head, Installed("9.8.7.dev1", head), url=url)
    assert source.commit == head
    assert (Path(source.root) / "test_later.py").exists()


def test_a_tag_of_another_commit_than_torch_was_built_from_needs_leave(tmp_path: Path) -> None:
    url, commit = make_repository(tmp_path / "repository")
    torch = Installed("9.8.7", "f" * 40)
    with pytest.raises(
        MismatchError, match=f"commit {commit[:12]}, but torch 9.8.7 was built from ffffffffffff"
    ):
        fetch(tmp_path / "cache", "refs/tags/v9.8.7", torch, url=url)
    assert list((tmp_path / "cache").iterdir()) == []
    source = fetch(tmp_path / "cache", "refs/tags/v9.8.7", torch, url=url, allow_mismatch=True)
    assert commit[:12] in source.mismatch


def test_a_tag_that_is_not_there_and_a_repository_that_is_not_there_are_told_apart(tmp_path: Path) -> None:
    url, _ = make_repository(tmp_path / "repository")
    with pytest.raises(SourceError, match=r"has no v1\.2\.3"):
        fetch(tmp_path / "cache", "refs/tags/v1.2.3", NINE, url=url)
    with pytest.raises(UnreachableError, match=r"could not be reached .*--from DIR"):
        fetch(tmp_path / "cache", "refs/tags/v9.8.7", NINE, url=f"file://{tmp_path}/nonesuch")
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize("below", ["", "test"])
def test_a_folder_is_known_by_its_version(tmp_path: Path, below: str) -> None:
    folder = write_tree(tmp_path / "tree") / below
    source = examine(folder, "folder", NINE, allow_mismatch=False)
    assert (source.root, source.version, source.commit) == (str(tmp_path / "tree" / "test"), "9.8.7", "")
    with pytest.raises(MismatchError, match=r"of PyTorch 9\.8\.7, but torch 9\.8\.6 is installed"):
        examine(folder, "folder", Installed("9.8.6", ""), allow_mismatch=False)


def test_a_folder_that_does_not_say_its_version_needs_leave(tmp_path: Path) -> None:
    folder = write_tree(tmp_path / "tree")
    (folder / "version.txt").unlink()
    with pytest.raises(MismatchError, match=r"neither a version\.txt nor git"):
        examine(folder, "folder", NINE, allow_mismatch=False)
    assert examine(folder, "folder", NINE, allow_mismatch=True).version == ""


def test_the_commit_of_an_unrelated_repository_around_a_folder_is_not_its_own(tmp_path: Path) -> None:
    make_repository(tmp_path)
    inner = write_tree(tmp_path / "inner")
    assert examine(inner, "folder", NINE, allow_mismatch=False).commit == ""


def test_a_folder_without_tests_is_none(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no test_"):
        examine(tmp_path, "folder", NINE, allow_mismatch=True)


def test_files_that_changed_since_they_were_taken_are_refused(tmp_path: Path) -> None:
    source = examine(write_tree(tmp_path), "folder", NINE, allow_mismatch=False)
    assert usable(source, NINE) is source
    with pytest.raises(SourceError, match=r"taken for torch 9\.8\.7"):
        usable(source, Installed("9.9.0", ""))
    (tmp_path / "test" / "helper.py").write_text("ONE = 2\n")
    with pytest.raises(SourceError, match="not what they were"):
        usable(source, NINE)


def test_a_store_without_test_files_says_how_to_bring_them(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="harness suites fetch"):
        load(tmp_path)
    (tmp_path / "source.json").write_text("{")
    with pytest.raises(SourceError, match="cannot be read"):
        load(tmp_path)
