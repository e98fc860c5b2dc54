"""Classes: what parts models, what does not, and who runs for whom."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from model_zoo.catalog import CatalogEntry
from model_zoo.classes import class_key, irrelevant, place, relevant, undecided


def entry(name: str, downloads: int = 0, **more: Any) -> CatalogEntry:
    known = {
        "revision": "0" * 40,
        "architecture": "BertModel",
        "model_type": "bert",
        "dtype": "F32",
        "config": "{}",
        "formats": ("safetensors",),
        "downloads": downloads,
    }
    return CatalogEntry(id=name, **known | more)


@pytest.mark.parametrize(
    "change",
    [
        {"architecture": "BertForMaskedLM"},
        {"model_type": "roberta"},
        {"dtype": "BF16"},
        {"task": "fill-mask"},
        {"config": '{"n":1}'},
    ],
)
def test_what_decides_operators_or_shapes_parts_models(change: dict[str, Any]) -> None:
    assert class_key(entry("a")) == class_key(entry("b", 9))
    assert class_key(entry("a", **change)) not in ("", class_key(entry("a")))


@pytest.mark.parametrize(
    "change",
    [
        {"config": ""},
        {"dtype": ""},
        {"architecture": ""},
        {"formats": ("pickle",)},
        {"custom_code": True},
        {"gated": "auto"},
    ],
)
def test_a_model_of_which_too_little_is_known_has_no_class(change: dict[str, Any]) -> None:
    assert class_key(entry("a", **change)) == ""
    assert place([entry("a", 2), entry("b", 1, **change)], 0, {"a": "h", "b": "h"})[1].representative is None


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


@given(
    st.dictionaries(st.text(max_size=8), values, max_size=5), st.sampled_from(sorted(irrelevant())), values
)
def test_an_irrelevant_key_changes_nothing_at_any_depth(config: dict[str, Any], key: str, value: Any) -> None:
    if key in ("id2label", "label2id"):
        value = [value]  # only its length would count
    assert relevant(config | {key: value}) == relevant({k: v for k, v in config.items() if k != key})
    assert relevant({"text_config": config | {key: value}}) == relevant(
        {"text_config": {k: v for k, v in config.items() if k != key}}
    )


@given(st.dictionaries(st.sampled_from("abcd"), values))
def test_what_is_not_known_to_be_irrelevant_is_kept(config: dict[str, Any]) -> None:
    kept = relevant(config)
    assert kept == "" or set(json.loads(kept)) == set(config)
    assert relevant(dict(reversed(config.items()))) == kept


def test_names_of_labels_do_not_part_models_and_their_number_does() -> None:
    assert relevant({"id2label": {"0": "x"}}) == relevant({"id2label": {"0": "y"}})
    assert relevant({"id2label": {"0": "x"}}) != relevant({"id2label": {"0": "x", "1": "y"}})


def test_an_absurd_configuration_makes_no_class() -> None:
    deep: Any = 0
    for _ in range(50):
        deep = [deep]
    assert relevant({"a": deep}) == relevant({"a": "x" * 40_000}) == ""


def test_the_most_downloaded_stands_for_its_class_and_the_first_run_for_themselves() -> None:
    entries = [entry(name, 9 - n) for n, name in enumerate("abcd")]
    placed = place(entries, 2, dict.fromkeys("abcd", "h"))
    assert [one.representative and one.representative.id for one in placed] == [None, None, "a", "a"]
    assert len({one.key for one in placed}) == 1
    assert [one.id for one in undecided(entries, 2)] == ["a", "b", "c", "d"]
    assert undecided(entries, 4) == []


def test_other_tensors_in_the_header_part_a_class_and_an_unread_header_leaves_one_alone() -> None:
    entries = [entry(name, 9 - n) for n, name in enumerate("abcd")]
    placed = place(entries, 0, {"a": "one", "b": "two", "c": "one"})
    assert [one.representative and one.representative.id for one in placed] == [None, None, "a", None]


@given(
    st.lists(st.tuples(st.sampled_from("xyz"), st.sampled_from(["h", "i", ""])), max_size=12),
    st.integers(0, 4),
)
def test_a_representative_runs_for_itself_and_shares_the_class(
    kinds: list[tuple[str, str]], own: int
) -> None:
    entries = [entry(f"m{n}", 100 - n, task=task) for n, (task, _) in enumerate(kinds)]
    placed = place(entries, own, {f"m{n}": header for n, (_, header) in enumerate(kinds) if header})
    by_id = {one.entry.id: one for one in placed}
    assert len(by_id) == len(entries)
    for index, one in enumerate(placed):
        if one.representative is not None:
            stands = by_id[one.representative.id]
            assert stands.representative is None
            assert (stands.key, stands.entry.task) == (one.key, one.entry.task)
            assert index >= own
    assert {e.id for e in undecided(entries, own)} >= {p.entry.id for p in placed if p.representative}


def test_an_entry_is_not_changed_by_what_does_not_matter() -> None:
    one = entry("a")
    for change in ({"downloads": 7}, {"id": "b"}, {"revision": "1" * 40}, {"parameters": 5}):
        assert class_key(dataclasses.replace(one, **change)) == class_key(one)
