"""The covering set, on made-up operators."""

from hypothesis import given
from hypothesis import strategies as st

from model_zoo.architectures.covering import by_pair, covering_set


def test_takes_the_largest_first_and_the_first_name_on_a_tie():
    assert covering_set({"c": "ab", "b": "ab", "a": "c", "d": "abx"}) == ["d", "a"]
    assert covering_set({"z": "ab", "y": "ab"}) == ["y"]


def test_takes_out_what_later_choices_made_needless():
    seen = {"first": "abcd", "left": "abxyz"[:4], "right": "cdzw"}
    assert "first" not in covering_set(seen)


@given(st.dictionaries(st.text(min_size=1, max_size=3), st.frozensets(st.sampled_from("abcdefgh"))))
def test_covers_everything_with_no_name_to_spare(seen):
    chosen = covering_set(seen)
    everything = set().union(*seen.values())
    assert set().union(*(seen[name] for name in chosen)) == everything
    for name in chosen:
        assert set().union(*(seen[other] for other in chosen if other != name)) != everything
    assert chosen == covering_set(dict(reversed(seen.items())))


def test_only_pairs_that_got_through_count():
    records = [
        {"pair": "a/A", "stage": "done", "operators": ["x"]},
        {"pair": "b/B", "stage": "backward"},
    ]
    assert by_pair(records) == {"a/A": ["x"]}
