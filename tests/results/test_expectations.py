"""Expectation files are strict: exact ids, explicit globs, a reason for each."""

from __future__ import annotations

import datetime
import difflib
import fnmatch
import tomllib
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from results.expectation_files import blocks, quoted
from results.expectations import ExpectationError, declare, dtype_of, load_expectations
from results.globs import GlobIndex
from results.nearest import Nearest
from results.plan import Case, Declared
from results.vocabulary import CaseKind, Category, Expectation, Outcome, Stage, Verdict
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
    assert found.unmatched == found.shadowed == ()


def test_a_glob_that_exact_ids_overrule_for_every_case_is_shadowed(tmp_path: Path) -> None:
    entries = _load(tmp_path, _entry(expectation='"skip"'), _glob("*[int64]"))
    found = declare(CASES, entries, "neuron", "2.13.0")
    assert found.unmatched == ()
    (shadowed,) = found.shadowed
    assert str(shadowed).startswith(f"{tmp_path / 'x.toml'}:7: '*[int64]' is shadowed")


def test_two_globs_for_a_case_are_an_error_that_names_both(tmp_path: Path) -> None:
    entries = _load(tmp_path, _glob("opinfo::cumsum::*"), _glob("*[int64]"))
    with pytest.raises(
        ExpectationError, match=r"'opinfo::cumsum::\*' \(.*x\.toml:1\) and '\*\[int64\]' \(.*x\.toml:7\)"
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
        (_entry(reason=None), r"x\.toml:1: reason is missing"),
        (_entry(category=None), r"x\.toml:1: category is missing"),
        (_entry(added=None), r"x\.toml:1: added is missing"),
        (_entry(expectation=None), r"x\.toml:1: expectation is missing"),
        (_entry() + _entry(id='"x"', reason='"  "'), r"x\.toml:11: reason must be text and not empty"),
        (_entry(reason="7"), "reason must be text and not empty"),
        (_entry(category='"laziness"'), "category 'laziness' is none of no_native_lowering"),
        (_entry(category="[1]"), "category .* is none of"),
        (_entry(expectation='"maybe"'), "expectation 'maybe' is none of pass, fail, skip, flaky"),
        (_entry(reasn='"x"'), r"x\.toml:7: unknown key 'reasn'; did it mean 'reason'"),
        (_entry(id=None), "either an id or a glob"),
        (_entry(glob='"*"'), "either an id or a glob"),
        (_entry(id='""'), "id must be text and not empty"),
        (_entry(added='"2026-11-03"'), "added must be a date"),
        (_entry(added="2026-11-03T10:00:00"), "added must be a date"),
        (_entry(conditions='{ colour = "red" }'), "conditions may hold device, dtype, torch"),
        (_entry(conditions="{ device = 1 }"), "conditions may hold device, dtype, torch"),
        (_entry() + _entry(), r"x\.toml:7: 'opinfo::cumsum::forward\[int64\]' stands already at .*x\.toml:1"),
        ("[expect]\n", "is not a list"),
        ("expect = []\n", "is not a list"),
        (_entry() + "[other]\n", r"x\.toml:1: unknown table 'other'"),
        (_entry() + "oops", r"x\.toml:7 cannot be read as TOML"),
        (_entry() + _entry(added="2026-02-30"), r"x\.toml:12 cannot be read as TOML"),
        (_entry() + 'reason = "again"\n', r"x\.toml:7 cannot be read as TOML"),
        (_entry(outcome='"smoke"'), r"x\.toml:7: outcome 'smoke' is none of passed"),
        (_entry(stage='"beforehand"'), r"x\.toml:7: stage 'beforehand' is none of fetch"),
        (_entry(outcome='"passed"'), "outcome 'passed' is what an entry with expectation 'pass' expects"),
        (_entry(expectation='"skip"', outcome='"crashed"'), "outcome narrows fail and flaky, not skip"),
        (_entry(id='"opinfo::fft_*"'), r"x\.toml:2: the id 'opinfo::fft_\*' is a glob"),
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
    with pytest.raises(ExpectationError, match=r"b\.toml:1: .* stands already at .*a\.toml:1"):
        load_expectations([tmp_path / "a.toml", tmp_path / "b.toml"])


def test_a_dtype_chooses_among_the_cases_of_a_glob(tmp_path: Path) -> None:
    entries = _load(tmp_path, _glob("opinfo::cumsum::*", conditions='{ dtype = "int6?" }'))
    declared = declare(CASES, entries, "neuron", "2.13.0").cases
    assert [case.declared.expectation.value for case in declared] == ["pass", "fail", "pass", "pass"]
    none = _load(tmp_path, _glob("opinfo::cumsum::*", conditions='{ dtype = "bool" }'))
    (unmatched,) = declare(CASES, none, "neuron", "2.13.0").unmatched
    assert "matches no case of dtype bool" in str(unmatched)


@pytest.mark.parametrize(
    ("case", "dtype"),
    [
        ("upstream::test_ops.py::TestCommon::test_out_add_bfloat16", "bfloat16"),
        ("upstream::test_ops.py::TestCommon::test_cast_float32_int8", "int8"),
        ("pytest::test_a.py::-::test_many[float8_e4m3fn]", "float8_e4m3fn"),
        ("pytest::test_a.py::-::test_pointfloat", ""),
        ("pytest::test_a.py::-::test_print", ""),
    ],
)
def test_a_test_names_its_dtype_at_its_end(case: str, dtype: str) -> None:
    assert dtype_of(Case(id=case, kind=CaseKind.PYTEST)) == dtype


@pytest.mark.parametrize(
    ("one", "two", "shadowed"),
    [
        (None, '{ device = "neuron" }', True),
        ('{ torch = "2.*" }', '{ torch = "2.13.*" }', True),
        ('{ dtype = "int*" }', '{ dtype = "int64", device = "neuron" }', True),
        ('{ dtype = "int*" }', '{ dtype = "float*" }', False),
        ('{ device = "neuron", torch = "2.13.*" }', '{ device = "neuron", torch = "2.14.*" }', False),
    ],
)
def test_conditions_that_another_entry_of_the_id_covers_are_refused(
    tmp_path: Path, one: str | None, two: str, shadowed: bool
) -> None:
    for first, second in ((one, two), (two, one)):
        texts = (_entry(conditions=first), _entry(conditions=second))
        if not shadowed:
            assert len(_load(tmp_path, *texts)) == 2
            continue
        with pytest.raises(ExpectationError, match=r"x\.toml:\d+: .* is shadowed by .*x\.toml:\d+"):
            _load(tmp_path, *texts)


def test_an_outcome_and_a_stage_narrow_what_is_the_known_failure(tmp_path: Path) -> None:
    entries = _load(tmp_path, _entry(outcome='"failed_numeric"', stage='"test"'))
    declared = declare(CASES, entries, "neuron", "2.13.0").cases[1].declared
    assert (declared.outcome, declared.stage) == ("failed_numeric", "test")
    assert declared.verdict(Outcome.FAILED_NUMERIC, Stage.TEST) is Verdict.KNOWN_FAILURE
    assert declared.verdict(Outcome.CRASHED, Stage.TEST) is Verdict.REGRESSION
    assert declared.verdict(Outcome.FAILED_NUMERIC, Stage.FORWARD) is Verdict.REGRESSION
    assert declared.verdict(Outcome.PASSED, Stage.TEST) is Verdict.UNEXPECTED_PASS


def test_entries_know_their_lines_whatever_stands_between_them(tmp_path: Path) -> None:
    text = (
        "# a file\n\n"
        + _entry(id='"a::b"', reason="'''\n[[expect]]\nnot a header\n'''")
        + "# \"quoted\" ''' comment\n"
        + _entry(id="'c::d'").replace("[[expect]]", "  [[ 'expect' ]]  # why")
        + '\n[expect.conditions]\ndevice = "neuron"\n'
        + _entry(id='"e::f"', reason=r'"with \"quotes\" and é"')
    )
    entries = _load(tmp_path, text)
    lines = text.splitlines()
    assert [entry.pattern for entry in entries] == ["a::b", "c::d", "e::f"]
    assert [lines[entry.line - 1].strip()[:2] for entry in entries] == ["[["] * 3
    assert [entry.line for entry in entries] == [3, 13, 22]
    assert entries[1].device == "neuron"
    assert entries[2].reason == 'with "quotes" and é'


_KEYS = st.sampled_from(["id", "reason", "link", "added", "review_by", "conditions", "Odd", "category"])
_VALUES = st.one_of(
    st.text(max_size=12).map(quoted),
    st.dates(datetime.date(1000, 1, 1)).map(str),
    st.sampled_from(['{ dtype = "x" }', "{}", "'x'", "1", "2026-02-30", "[1]", '"a" # c', '""', '"x', "{"]),
)
_LINES = st.one_of(
    st.builds("{} = {}\n".format, _KEYS, _VALUES),
    st.sampled_from(["\n", "# c\n", " \t\n", "[a]\n", "\x01\n"]),
)


@given(st.lists(st.lists(_LINES, max_size=5).map(lambda lines: "[[expect]]\n" + "".join(lines)), max_size=4))
def test_files_say_what_tomllib_says_they_do(parts: list[str]) -> None:
    text = "".join(parts)
    try:
        expected = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        expected = None
    if expected is None or set(expected) - {"expect"}:
        with pytest.raises(ExpectationError):
            list(blocks(text, "x"))
    else:
        assert [block.table for block in blocks(text, "x")] == expected.get("expect", [])


_IDS = [f"opinfo::op_db::{op}::{check}[{dtype}]"
        for op in ("add", "addmm", "cumsum", "fft_fft") for check in ("forward", "out")
        for dtype in ("float32", "int64")]  # fmt: skip


@given(st.lists(st.text("*?adf:_[", max_size=8).map(lambda t: t.replace("d", "add")), max_size=12))
def test_an_index_of_globs_finds_what_trying_each_one_finds(globs: list[str]) -> None:
    globs = [*globs, "*", "*[int64]", "opinfo::op_db::f*::*", _IDS[0]]
    index = GlobIndex((glob, number) for number, glob in enumerate(globs))
    for case in _IDS:
        tried = {n for n, glob in enumerate(globs) if fnmatch.fnmatchcase(case, glob.replace("[", "[[]"))}
        assert set(index.matches(case)) == tried


@pytest.mark.parametrize(
    ("pattern", "nearest"),
    [
        ("opinfo::op_db::cumsun::out[int64]", "opinfo::op_db::cumsum::out[int64]"),
        ("opinfo::op_bd::cumsum::out[int46]", "opinfo::op_db::cumsum::out[int64]"),
        ("opinfo::op_db::fft_ftf::*", "opinfo::op_db::fft_fft::forward[float32]"),
        ("opinfo::op_db::fft_fft", "opinfo::op_db::fft_fft::forward[float32]"),
        ("upstream::entirely::different", ""),
    ],
)
def test_the_nearest_id_differs_in_as_few_segments_as_can_be(pattern: str, nearest: str) -> None:
    assert Nearest(_IDS).find(pattern) == nearest


@pytest.mark.parametrize("wrong", ["test_name_61O_x", "tset_name_610_x"])
def test_the_nearest_of_many_names_is_found_by_its_beginning_or_its_end(wrong: str) -> None:
    index = Nearest(f"s::f::c::test_name_{n}_x" for n in range(100, 5000))
    found = index.find(f"s::f::c::{wrong}").removeprefix("s::f::c::")
    assert difflib.SequenceMatcher(a=found, b=wrong).ratio() > 0.9
