"""Expectation files are strict: exact ids, explicit globs, a reason for each."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.expectations import ExpectationError, declare, load_expectations
from results.plan import Declared
from results.vocabulary import Category, Expectation
from tests.results.factory import opinfo_case

CASES = [
    opinfo_case("add"),
    opinfo_case("cumsum", "int64"),
    opinfo_case("cumsum", "int32"),
    opinfo_case("sub"),
]
CUMSUM = "opinfo::cumsum::forward[int64]"


def _entry(**changes: str | None) -> str:
    fields = {
        "id": f'"{CUMSUM}"',
        "expectation": '"fail"',
        "category": '"no_native_lowering"',
        "reason": '"not lowered"',
        "added": "2026-11-03",
    } | changes
    return "[[expect]]\n" + "".join(
        f"{key} = {value}\n" for key, value in fields.items() if value is not None
    )


def _glob(glob: str, **changes: str | None) -> str:
    return _entry(id=None, glob=f'"{glob}"', **changes)


def _load(tmp_path: Path, *entries: str):
    path = tmp_path / "x.toml"
    path.write_text("".join(entries))
    return load_expectations([path])


def test_an_exact_id_declares_its_case_alone(tmp_path: Path) -> None:
    entries = _load(tmp_path, _entry(owner='"kernels"', link='"https://example.org/1"'))
    found = {case.id: case.declared for case in declare(CASES, entries, "neuron", "2.13.0").cases}
    assert found[CUMSUM] == Declared(
        expectation=Expectation.FAIL,
        category=Category.NO_NATIVE_LOWERING,
        reason="not lowered",
        link="https://example.org/1",
        owner="kernels",
    )
    assert [declared for case, declared in found.items() if case != CUMSUM] == [Declared()] * 3


def test_a_glob_matches_whole_ids_and_brackets_are_plain(tmp_path: Path) -> None:
    entries = _load(tmp_path, _glob("opinfo::cumsum::*[int??]"))
    declared = declare(CASES, entries, "neuron", "2.13.0").cases
    assert [case.declared.expectation.value for case in declared] == ["pass", "fail", "fail", "pass"]
    assert declare(CASES, _load(tmp_path, _glob("cumsum")), "neuron", "2.13.0").cases == tuple(CASES)


def test_an_exact_id_goes_before_a_glob_and_neither_is_dead(tmp_path: Path) -> None:
    exact = _entry(expectation='"skip"')
    found = declare(CASES, _load(tmp_path, _glob(CUMSUM[:-6] + "*"), exact), "neuron", "2.13.0")
    assert [case.declared.expectation.value for case in found.cases] == ["pass", "skip", "fail", "pass"]
    narrow = declare(CASES, _load(tmp_path, _glob("*[int64]"), exact), "neuron", "2.13.0")
    assert narrow.unmatched == ()


def test_two_globs_for_a_case_are_an_error_that_names_both(tmp_path: Path) -> None:
    entries = _load(tmp_path, _glob("opinfo::cumsum::*"), _glob("*[int64]"))
    with pytest.raises(
        ExpectationError, match=r"'opinfo::cumsum::\*' \(.*entry 1\) and '\*\[int64\]' \(.*entry 2\)"
    ):
        declare(CASES, entries, "neuron", "2.13.0")


def test_conditions_choose_device_and_torch(tmp_path: Path) -> None:
    entries = _load(tmp_path, _entry(conditions='{ device = "neuron", torch = "2.13.*" }'))
    for device, torch, expected in [
        ("neuron", "2.13.1", "fail"),
        ("cpu", "2.13.1", "pass"),
        ("neuron", "2.14.0", "pass"),
    ]:
        found = declare(CASES, entries, device, torch)
        assert found.cases[1].declared.expectation == expected
        assert found.unmatched == ()


def test_one_id_may_have_entries_for_two_devices(tmp_path: Path) -> None:
    entries = _load(
        tmp_path,
        _entry(conditions='{ device = "neuron" }'),
        _entry(conditions='{ device = "cuda" }', expectation='"skip"'),
    )
    assert declare(CASES, entries, "cuda", "2.13.0").cases[1].declared.expectation is Expectation.SKIP


def test_an_entry_that_matches_nothing_is_listed_with_the_nearest_id(tmp_path: Path) -> None:
    entries = _load(tmp_path, _entry(id='"opinfo::cumsun::forward[int64]"'))
    (unmatched,) = declare(CASES, entries, "neuron", "2.13.0").unmatched
    assert unmatched.nearest == CUMSUM
    assert str(unmatched).endswith(f"matches no case; did it mean {CUMSUM!r}?")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (_entry(reason=None), "entry 1: reason is missing"),
        (_entry(category=None), "entry 1: category is missing"),
        (_entry(added=None), "entry 1: added is missing"),
        (_entry(expectation=None), "entry 1: expectation is missing"),
        (_entry(reason='"  "'), "reason must be text and not empty"),
        (_entry(reason="7"), "reason must be text and not empty"),
        (_entry(category='"laziness"'), "category 'laziness' is none of no_native_lowering"),
        (_entry(category="[1]"), "category .* is none of"),
        (_entry(expectation='"maybe"'), "expectation 'maybe' is none of pass, fail, skip, flaky"),
        (_entry(reasn='"x"'), "unknown key 'reasn'; did it mean 'reason'"),
        (_entry(id=None), "either an id or a glob"),
        (_entry(glob='"*"'), "either an id or a glob"),
        (_entry(id='""'), "id must be text and not empty"),
        (_entry(added='"2026-11-03"'), "added must be a date"),
        (_entry(added="2026-11-03T10:00:00"), "added must be a date"),
        (_entry(conditions='{ colour = "red" }'), "conditions may hold device and torch"),
        (_entry(conditions="{ device = 1 }"), "conditions may hold device and torch"),
        (_entry() + _entry(), r"entry 2: 'opinfo::cumsum::forward\[int64\]' stands already at .*entry 1"),
        ("[expect]\n", "is not a list"),
        ("[[expects]]\n", "unknown table 'expects'"),
        ("nonsense", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_refused_by_file_and_entry(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ExpectationError, match=message) as caught:
        _load(tmp_path, text)
    assert "x.toml" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ExpectationError, match=r"gone\.toml cannot be read"):
        load_expectations([tmp_path / "gone.toml"])


def test_a_duplicate_across_files_is_refused(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / f"{name}.toml").write_text(_entry())
    with pytest.raises(ExpectationError, match=r"b\.toml, entry 1: .* stands already at .*a\.toml, entry 1"):
        load_expectations([tmp_path / "a.toml", tmp_path / "b.toml"])
