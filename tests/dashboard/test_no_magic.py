"""Streamlit writes a bare expression of a page's script onto the page; none of ours has one to write."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import dashboard

SCREENS = sorted((Path(dashboard.__file__).parent / "screens").glob("*.py"))


@pytest.mark.parametrize("path", SCREENS, ids=lambda path: path.stem)
def test_a_page_has_no_bare_value(path: Path) -> None:
    body = ast.parse(path.read_text()).body[1:]  # the first is the module's docstring, which is not shown
    bare = [
        node.lineno for node in body if isinstance(node, ast.Expr) and not isinstance(node.value, ast.Call)
    ]
    assert bare == []
