"""Families: every file in exactly one, selection by family or by name."""

from __future__ import annotations

from pathlib import Path

import pytest

from suites.upstream.families import OTHER, Families, Family, FamilyError, files_of, load_families
from tests.suites.upstream_tree import write_tree

FAMILIES = Families([Family("a", "A", ("test_a.py", "x/*")), Family("b", "B", ("x/test_b.py", "test_b*"))])
KNOWN = ["test_a.py", "test_b1.py", "test_c.py", "x/test_b.py", "x/y/test_z.py"]


def test_every_file_is_in_one_family_and_an_exact_name_goes_first() -> None:
    assert [FAMILIES.of(file) for file in KNOWN] == ["a", "b", OTHER, "b", "a"]


def test_a_file_in_two_families_is_an_error() -> None:
    with pytest.raises(FamilyError, match=r"test_a\.py is in two families, a and b"):
        Families([Family("a", "A", ("test_a.py",)), Family("b", "B", ("test_a.py",))])
    overlapping = Families([Family("a", "A", ("x/*",)), Family("b", "B", ("x/test_*",))])
    with pytest.raises(FamilyError, match=r"x/test_c\.py is in two families, a and b"):
        overlapping.of("x/test_c.py")


def test_selection() -> None:
    assert FAMILIES.select(KNOWN, [], []) == ["test_a.py", "test_b1.py", "x/test_b.py", "x/y/test_z.py"]
    assert FAMILIES.select(KNOWN, ["b", OTHER], []) == ["test_b1.py", "test_c.py", "x/test_b.py"]
    assert FAMILIES.select(KNOWN, ["b"], ["test_c.py", "x/*"]) == [
        "test_c.py",
        "x/test_b.py",
        "x/y/test_z.py",
    ]
    with pytest.raises(FamilyError, match=r"no family 'c'.*a, b, other"):
        FAMILIES.select(KNOWN, ["c"], [])
    with pytest.raises(FamilyError, match=r"no test file 'test_cc\.py' \(did you mean 'test_c\.py'\?\)"):
        FAMILIES.select(KNOWN, [], ["test_cc.py"])


def test_the_families_that_come_with_the_package() -> None:
    families = load_families()
    expected = {
        "test_ops.py": "operators", "nn/test_pooling.py": "nn", "test_modules.py": "modules",
        "test_optim.py": "optim",
        "test_ops_gradients.py": "autograd", "test_view_ops.py": "tensors", "test_foreach.py": "foreach",
        "test_meta.py": "decomposition", "test_serialization.py": "serialization",
        "test_transformers.py": "transformers", "dynamo/test_misc.py": "compile",
        "functorch/test_vmap.py": "compile", "distributed/_tensor/test_api.py": "distributed",
        "distributed/optim/test_x.py": "distributed", "test_cuda.py": OTHER,
    }  # fmt: skip
    assert {file: families.of(file) for file in expected} == expected


def test_a_file_that_lists_no_families_is_named(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text("[a]\ntitle = 'A'\n")
    with pytest.raises(FamilyError, match=r"mine\.toml"):
        load_families(tmp_path / "mine.toml")


def test_the_files_of_a_tree(tmp_path: Path) -> None:
    root = write_tree(tmp_path) / "test"
    (root / ".hidden").mkdir()
    (root / ".hidden" / "test_x.py").touch()
    assert files_of(root) == ["nn/test_layer.py", "test_broken.py", "test_tiny.py"]
