"""What the source says around a skip: the decorator that made it, the condition it stands under.

A file is parsed once, and only if a test in it was skipped by a mark or by its own code.
"""

from __future__ import annotations

import ast
import dataclasses
import functools
import inspect
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

_LONGEST = 300
_FACTORIES = {"skip", "skipIf", "skipUnless", "skipif", "skip_but_pass_in_sandcastle_if", "lazy_skip_if"}
_UNCONDITIONAL = {"unittest.skip", "skip", "pytest.mark.skip", "skip_but_pass_in_sandcastle"}
_UNLESS = ("unittest.skipUnless", "skipUnless")

Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclasses.dataclass(frozen=True, slots=True)
class Decorator:
    """A decorator, or a ``pytestmark``, that can skip.

    Attributes:
        name: what is called, dotted, e.g. ``unittest.skipIf``.
        text: the whole of it, shortened.
        condition: the expression under which it skips, ``None`` if there is none to see.
        line: where it stands.
    """

    name: str
    text: str
    condition: ast.expr | None
    line: int


def skipping_decorator(definition: object, reason: str, names: frozenset[str]) -> Decorator | None:
    """The decorator of a function or class that gave a reason; ``None`` if it cannot be told.

    Where none gives just this reason as a literal, the only candidate is it. Candidates are the factories
    of unittest and pytest and the decorators called one of ``names``.
    """
    node = _definition(definition)
    if node is None:
        return None
    found = [
        (expression, decorator)
        for expression in _marks(node)
        if (decorator := _decorator(expression, names)) is not None
    ]
    exact = [decorator for expression, decorator in found if reason in _literals(expression)]
    unclear = [decorator for expression, decorator in found if not _literals(expression)]
    for candidates in (exact, unclear):
        if len(candidates) == 1:
            return candidates[0]
    return None


def module_mark(path: str, reason: str) -> Decorator | None:
    """The ``pytestmark`` of a file that gave a reason."""
    tree = _tree(path)
    for expression in _pytestmarks(tree.body) if tree else ():
        decorator = _decorator(expression, frozenset())
        if decorator is not None and reason in _literals(expression):
            return decorator
    return None


@functools.lru_cache(maxsize=1024)
def called_mark(path: str, reason: str) -> Decorator | None:
    """The mark of a test that a file makes by a call, ``unittest.skipIf(…)(test)``.

    ``None`` unless all calls in the file that give this very reason have the same condition.
    """
    found: dict[str, Decorator] = {}
    for node in ast.walk(_tree(path) or ast.Module([], [])):
        if isinstance(node, ast.Call) and reason in _literals(node):
            decorator = _decorator(node, frozenset())
            if decorator is not None:
                found.setdefault(decorator.text, decorator)
    return next(iter(found.values())) if len(found) == 1 else None


def enclosing_condition(path: str, line: int) -> ast.expr | None:
    """The condition of the innermost ``if`` around a line of a file, negated if the line is its ``else``."""
    innermost: tuple[int, ast.expr] | None = None
    for start, end, condition in _branches(path):
        if start <= line <= end and (innermost is None or start >= innermost[0]):
            innermost = start, condition
    return innermost[1] if innermost else None


def true_names(condition: ast.expr, scope: Mapping[str, Any]) -> tuple[str, ...]:
    """Dotted names in the alternative of a condition that made it true.

    ``IS_WINDOWS or not TEST_SCIPY`` gives ``TEST_SCIPY`` where ``IS_WINDOWS`` is false, the first where both
    hold, as Python asks no further. Only a plain name, or the negation of one, is looked up and nothing
    is called; while no alternative is known to hold, all that may hold are named.
    """
    possible: dict[str, None] = {}
    for alternative in _alternatives(condition, negated=False):
        holds = _value(alternative, scope)
        if holds:
            return tuple(_dotted_names(alternative))
        if holds is None:
            possible |= dict.fromkeys(_dotted_names(alternative))
    return tuple(possible)


def _alternatives(node: ast.expr, *, negated: bool) -> Iterator[ast.expr]:
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield from _alternatives(node.operand, negated=not negated)
    elif isinstance(node, ast.BoolOp) and isinstance(node.op, ast.And if negated else ast.Or):
        for value in node.values:
            yield from _alternatives(value, negated=negated)
    else:
        yield ast.UnaryOp(ast.Not(), node) if negated else node


def _value(node: ast.expr, scope: Mapping[str, Any]) -> bool | None:
    """Whether an alternative holds, ``None`` if that is not known."""
    negated = isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not)
    name = node.operand if isinstance(node, ast.UnaryOp) and negated else node
    if not isinstance(name, ast.Name) or name.id not in scope:
        return None
    try:
        return bool(scope[name.id]) is not negated
    except Exception:  # noqa: BLE001 - an upstream flag may be lazy and fail; then nothing is known
        return None


def _dotted_names(node: ast.expr) -> Iterator[str]:
    if isinstance(node, ast.Attribute | ast.Name):
        dotted = _dotted(node)
        if dotted:
            yield dotted
            return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield from _dotted_names(child)
        elif isinstance(child, ast.keyword):
            yield from _dotted_names(child.value)


def _dotted(node: ast.expr) -> str:
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = _dotted(node.value)
        return f"{head}.{node.attr}" if head else ""
    return ""


def _decorator(node: ast.expr, names: frozenset[str]) -> Decorator | None:
    call = node if isinstance(node, ast.Call) else None
    name = _dotted(call.func if call else node)
    last = name.rpartition(".")[2]
    if last not in _FACTORIES and last not in names and name not in _UNCONDITIONAL:
        return None
    text = ast.unparse(node)
    condition: ast.expr | None = None
    if call and call.args and name not in _UNCONDITIONAL and last not in names:
        condition = call.args[0]
        if name in _UNLESS:
            condition = ast.UnaryOp(ast.Not(), condition)
    return Decorator(name, text[:_LONGEST], condition, node.lineno)


def _literals(node: ast.expr) -> set[str]:
    if not isinstance(node, ast.Call):
        return set()
    values = [*node.args, *(keyword.value for keyword in node.keywords)]
    return {
        value.value for value in values if isinstance(value, ast.Constant) and isinstance(value.value, str)
    }


def _marks(node: Definition) -> list[ast.expr]:
    marks = list(node.decorator_list)
    if isinstance(node, ast.ClassDef):
        marks += _pytestmarks(node.body)
    return marks


def _pytestmarks(body: Sequence[ast.stmt]) -> Iterator[ast.expr]:
    for statement in body:
        if not isinstance(statement, ast.Assign):
            continue
        if any(isinstance(target, ast.Name) and target.id == "pytestmark" for target in statement.targets):
            value = statement.value
            yield from value.elts if isinstance(value, ast.List | ast.Tuple) else [value]


def _definition(defined: object) -> Definition | None:
    """The node of a function or class, by its qualified name."""
    code = getattr(defined, "__code__", None)
    if code is not None:
        path, name = code.co_filename, code.co_qualname
    else:
        module = inspect.getmodule(defined)
        path = getattr(module, "__file__", None) or ""
        name = getattr(defined, "__qualname__", "")
    candidates = _definitions(path).get(name, [])
    if code is not None:  # a name may be defined twice; a function begins at its first decorator
        candidates = [node for node in candidates if _first_line(node) == code.co_firstlineno] or candidates
    return candidates[-1] if candidates else None


def _first_line(node: Definition) -> int:
    return min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])


@functools.lru_cache(maxsize=64)
def _tree(path: str) -> ast.Module | None:
    try:
        with open(path, encoding="utf-8") as file:
            return ast.parse(file.read())
    except (OSError, ValueError, SyntaxError):
        return None


@functools.lru_cache(maxsize=64)
def _definitions(path: str) -> Mapping[str, list[Definition]]:
    tree = _tree(path)
    found: dict[str, list[Definition]] = {}
    if tree is not None:
        _collect(tree, "", found)
    return found


def _collect(node: ast.AST, prefix: str, found: dict[str, list[Definition]]) -> None:
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found.setdefault(prefix + child.name, []).append(child)
            local = "" if isinstance(child, ast.ClassDef) else "<locals>."
            inner = f"{prefix}{child.name}.{local}"
        _collect(child, inner, found)


@functools.lru_cache(maxsize=64)
def _branches(path: str) -> Sequence[tuple[int, int, ast.expr]]:
    """First and last line of each branch of each ``if``, with its condition."""
    tree = _tree(path)
    found: list[tuple[int, int, ast.expr]] = []
    for node in ast.walk(tree) if tree else ():
        if not isinstance(node, ast.If):
            continue
        found.append((*_lines(node.body), node.test))
        if node.orelse:
            found.append((*_lines(node.orelse), ast.UnaryOp(ast.Not(), node.test)))
    return found


def _lines(body: Sequence[ast.stmt]) -> tuple[int, int]:
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno
