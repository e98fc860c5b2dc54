"""The engine and its rules, without pytest: what decides, in which order; nothing is by substring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from results.vocabulary import UNCATEGORISED, Category
from suites.skips.engine import categorise, category_again
from suites.skips.evidence import Evidence, Origin
from suites.skips.rules import RuleError, load_rules, parse_rules
from suites.skips.source import true_names

INTERNAL = "torch.testing._internal"
ONLY_ON = f"{INTERNAL}.common_device_type:onlyOn.__call__.<locals>.only_fn"
SKIP_IF = f"{INTERNAL}.common_device_type:skipIf.__call__.<locals>.dep_fn"


def category(origin: Origin = Origin.RAISED, reason: str = "because", **fields: object) -> str:
    return categorise(Evidence(origin=origin, reason=reason, **fields)).category  # type: ignore[arg-type]


def test_the_place_goes_before_what_is_said() -> None:
    assert category(reason="SciPy not found", frames=(ONLY_ON,)) == "device_gate"
    assert category(reason="SciPy not found", frames=("m:f",)) == "python_dependency"


def test_only_the_frame_that_raised_decides() -> None:
    """Each decorator around a test is on the stack when its body skips, and has nothing to do with it."""
    memory = f"{INTERNAL}.common_device_type:_has_sufficient_memory"
    assert category(frames=(memory, ONLY_ON)) == "memory"
    assert category(Origin.OWN_CODE, frames=("m:TestA.test_a", ONLY_ON)) == "body"
    assert category(frames=("m:helper", ONLY_ON)) == UNCATEGORISED


def test_a_shared_wrapper_is_told_apart_by_its_name_or_its_text() -> None:
    assert category(frames=(SKIP_IF,), named="skipMetaIf") == "device_gate"
    assert category(frames=(SKIP_IF,), named="skipCUDAIf:no_magma") == "missing_library"
    assert category(frames=(SKIP_IF,), named="skipIf", reason="cuSOLVER not available") == "missing_library"
    assert category(frames=(SKIP_IF,), named="skipIf", reason="no such luck") == UNCATEGORISED


@pytest.mark.parametrize(
    "reason", ["SciPy not found, or so it seems", "it says SciPy not found", "only when CUDA is available"]
)
def test_a_part_of_a_text_is_not_the_text(reason: str) -> None:
    assert category(reason=reason) == UNCATEGORISED


def test_what_another_backend_s_files_ask_for_is_known() -> None:
    """intel/torch-xpu-ops, release 2.13: a flag of its own, and a condition of a library or a device."""
    flag = "PLATFORM_SUPPORTS_XPU_FLASH_ATTENTION"
    mark = f"unittest.skipIf(not {flag}, 'XPU Flash Attention is not supported')"
    assert category(Origin.DECORATOR, decorator=mark, condition=(flag,)) == "device_gate"
    both = ("TEST_CUDNN", "TEST_XPU")
    mark = "unittest.skipIf(not TEST_CUDNN and (not TEST_XPU), 'needs cudnn or xpu')"
    assert (
        category(Origin.DECORATOR, "needs cudnn or xpu", decorator=mark, condition=both) == "missing_library"
    )
    assert category(Origin.DECORATOR, decorator=mark, condition=both) == UNCATEGORISED


def test_an_unconditional_mark_is_a_decision_of_upstream_whatever_it_says() -> None:
    assert category(Origin.DECORATOR, "CUDA not available", decorator="unittest.skip('x')") == (
        "disabled_upstream"
    )
    assert category(Origin.DECORATOR, decorator="unittest.skipIf(f(), 'x')") == UNCATEGORISED


def test_names_of_a_condition_that_disagree_decide_nothing() -> None:
    given = {"origin": Origin.DECORATOR, "decorator": "unittest.skipIf(x, 'y')"}
    assert category(**given, condition=("TEST_CUDA", "TEST_XPU")) == "device_gate"  # type: ignore[arg-type]
    assert category(**given, condition=("TEST_CUDA", "TEST_SCIPY")) == UNCATEGORISED  # type: ignore[arg-type]
    assert category(**given, condition=("common.TEST_CUDA",)) == "device_gate"  # type: ignore[arg-type]


def test_an_expected_failure_is_not_explained_by_its_words() -> None:
    assert category(Origin.EXPECTED_FAILURE, "expected to fail: SciPy not found") == "expected_failure"
    assert category(Origin.EXPECTED_FAILURE, "CUDA not available") == "expected_failure"


@pytest.mark.parametrize(
    ("condition", "scope", "names"),
    [
        ("not TEST_A", {"TEST_A": False}, ("TEST_A",)),
        ("not TEST_A or TEST_B", {"TEST_A": True, "TEST_B": True}, ("TEST_B",)),
        ("not (TEST_A and TEST_B)", {"TEST_A": True, "TEST_B": False}, ("TEST_B",)),
        ("not (TEST_A and TEST_B)", {"TEST_A": False, "TEST_B": False}, ("TEST_A",)),
        ("f() or not TEST_A", {"TEST_A": False}, ("TEST_A",)),
        ("f() or not TEST_A", {}, ("f", "TEST_A")),
        ("not (TEST_A or TEST_B)", {}, ("TEST_A", "TEST_B")),
        ("torch.cuda.device_count() < 2", {}, ("torch.cuda.device_count",)),
        ("not f(TEST_A)", {}, ("f", "TEST_A")),
        ("True", {}, ()),
    ],
)
def test_only_alternatives_that_can_hold_are_named(
    condition: str, scope: dict[str, object], names: tuple[str, ...]
) -> None:
    assert true_names(ast.parse(condition, mode="eval").body, scope) == names


def test_a_flag_that_cannot_be_asked_is_not_known() -> None:
    class Lazy:
        def __bool__(self) -> bool:
            raise RuntimeError("asked too early")

    assert true_names(ast.parse("FLAG", mode="eval").body, {"FLAG": Lazy()}) == ("FLAG",)


def test_evidence_survives_the_log() -> None:
    evidence = Evidence(
        origin=Origin.OWN_CODE,
        reason="no < yes",
        frames=("a:b.<locals>.c", "d:e"),
        named="f",
        condition=("g", "h.i"),
        decorator="unittest.skip('x')",
        location="t.py:3",
    )
    assert Evidence.of(evidence.facts()) == evidence


def test_a_recorded_skip_is_told_anew_from_its_evidence() -> None:
    evidence = Evidence(origin=Origin.RAISED, reason="because", frames=(ONLY_ON,))
    assert category_again({**evidence.facts(), "category": "uncategorised"}) == "device_gate"
    assert category_again({"category": "model_unavailable"}) == "model_unavailable"
    assert category_again({}) == UNCATEGORISED


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[text]]\ncategory = 'sparse'\nsource = 's'\npatterns = ['x']", "no category of skips"),
        ("[[text]]\ncategory = 'body'\npatterns = ['x']", "does not say where it was read"),
        ("[[text]]\ncategory = 'body'\nsource = 's'\npatterns = ['(']", "not valid"),
        (
            "[[condition]]\ncategory = 'body'\nsource = 's'\nnames = ['A', 'A']",
            "'A' stands in two rules",
        ),
        ("[[", "not TOML"),
    ],
)
def test_a_rule_that_cannot_be_used_is_refused(text: str, message: str) -> None:
    with pytest.raises(RuleError, match=message):
        parse_rules(text)


_RAISES = (".skipTest", ".SkipTest", "pytest.xfail", "pytest.skip")
UNKNOWN = {
    f"{INTERNAL}.common_distributed:MultiProcContinuousTest.setUp": "an earlier failure hides the test",
    f"{INTERNAL}.common_distributed:MultiProcContinuousTest._worker_loop": "sent to the parent process",
}
"""Places without a rule: such a skip ought to be looked at each time."""


def test_each_place_in_the_installed_torch_that_raises_a_skip_has_a_rule() -> None:
    """A new torch may add some: then this test names them."""
    rules = load_rules()
    known = {*rules.raised, *rules.named_by, *UNKNOWN}
    found = set(_raising_places())
    assert sorted(found - known) == []
    assert len(found) > 40


def test_each_place_of_a_rule_is_there() -> None:
    """A rule for a place that this torch does not have would never hold."""
    places = {site for site in load_rules().raised if site.startswith(INTERNAL)}
    assert sorted(places - set(_raising_places())) == []


def test_every_category_that_a_rule_can_give_is_one_of_eligibility() -> None:
    given = {rule.category for rules in load_rules().raised.values() for rule in rules}
    assert given <= set(Category)


def _raising_places() -> Iterator[str]:
    """``module:qualified_name`` of what raises SkipTest, or calls skipTest or pytest's xfail, itself."""
    for path in _sources():
        module = f"{INTERNAL}.{'.'.join(path.relative_to(_root()).with_suffix('').parts)}"
        yield from (f"{module}:{name}" for name in _raising(ast.parse(path.read_text()), ()))


def _sources() -> Iterator[Path]:
    """The shared helpers; whole test suites (``distributed``) are no helpers."""
    yield from (_root().glob("*_utils.py"))
    yield from (_root().glob("common_*.py"))
    yield from ((_root() / "opinfo").rglob("*.py"))
    yield _root() / "optests" / "generate_tests.py"


def _root() -> Path:
    return Path(torch.__file__).parent / "testing" / "_internal"


def _raising(node: ast.AST, stack: tuple[str, ...]) -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.ClassDef):
            yield from _raising(child, (*stack, child.name))
        elif isinstance(child, ast.FunctionDef):
            yield from _raising(child, (*stack, child.name, "<locals>"))
        else:
            if isinstance(child, ast.Call) and ast.unparse(child.func).endswith(_RAISES):
                yield ".".join(stack[:-1] if stack[-1:] == ("<locals>",) else stack)
            yield from _raising(child, stack)
