"""Differences of catalogs: each change once, none invented."""

from __future__ import annotations

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from model_zoo.catalog import CatalogEntry
from model_zoo.catalog_diff import Change, differences

entries = st.lists(
    st.builds(
        CatalogEntry,
        id=st.sampled_from(["a/a", "a/b", "b/c", "d"]),
        revision=st.sampled_from(["0" * 40, "1" * 40]),
        gated=st.sampled_from(["", "auto"]),
        config=st.sampled_from(["", "{}", '{"n":1}']),
        downloads=st.integers(0, 5),
        formats=st.sampled_from([(), ("safetensors",), ("gguf", "safetensors")]),
    ),
    unique_by=lambda entry: entry.id,
)


@given(entries)
def test_a_catalog_does_not_differ_from_itself(catalog: list[CatalogEntry]) -> None:
    assert differences(catalog, catalog, 0) == []
    assert differences(catalog, catalog[::-1], 0) == []


@given(entries, entries)
def test_what_one_way_adds_the_other_removes(one: list[CatalogEntry], two: list[CatalogEntry]) -> None:
    there, back = differences(one, two, 0), differences(two, one, 0)
    opposite = {Change.ADDED: Change.REMOVED, Change.REMOVED: Change.ADDED}
    assert {(d.id, opposite.get(d.change, d.change), d.after, d.before) for d in there} == {
        (d.id, d.change, d.before, d.after) for d in back
    }


@given(entries, entries)
def test_exactly_what_differs_is_told(one: list[CatalogEntry], two: list[CatalogEntry]) -> None:
    told = {d.id for d in differences(one, two, 0)}
    old, new = {e.id: e for e in one}, {e.id: e for e in two}
    total = [sum(e.downloads for e in catalog) or 1 for catalog in (one, two)]
    for name in old.keys() | new.keys():
        same = name in old and name in new
        if same:
            shares = old[name].downloads / total[0], new[name].downloads / total[1]
            same = dataclasses.replace(old[name], downloads=0) == dataclasses.replace(new[name], downloads=0)
            same = same and shares[0] == shares[1]
        assert (name in told) is not same


def test_a_small_move_is_not_told_and_the_most_downloaded_come_first() -> None:
    before = [CatalogEntry(id=name, revision="0" * 40, downloads=n) for name, n in (("a", 1000), ("b", 1000))]
    after = [
        dataclasses.replace(before[0], downloads=1001),
        dataclasses.replace(before[1], revision="1" * 40),
    ]
    assert [(d.id, d.change) for d in differences(before, after)] == [("b", Change.REVISION)]
    after = [dataclasses.replace(entry, revision="1" * 40) for entry in after]
    assert [d.id for d in differences(before, after)] == ["a", "b"]
