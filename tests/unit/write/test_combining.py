"""Combining duplicates: against a dictionary, whatever the order rows come in."""

import itertools

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.pipeline import OP_DELETE, OP_UPSERT, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.write import combine as combining
from lakeindex.write.combine import ARRIVAL, Combining, combine, combine_and_sort
from lakeindex.write.merge_function import MergeFunction
from lakeindex.write.merge_rows import UpdateRule

ROWS = st.lists(
    st.tuples(
        st.sampled_from(["p", "q"]), st.sampled_from(["a", "b", "é", "中", "\U0001f600", "￿"]), st.integers(0, 3)
    ),
    max_size=30,
)


def staged(rows: list[tuple[str, str, int]]):
    return pa.table(
        {
            STAGED_PARTITION: pa.array([r[0] for r in rows], pa.string()),
            STAGED_KEY: pa.array([r[1] for r in rows], pa.string()),
            "ts": pa.array([r[2] for r in rows], pa.int64()),
            "n": pa.array(range(len(rows)), pa.int64()),
            ARRIVAL: pa.array(range(len(rows)), pa.int64()),
        }
    )


@given(rows=ROWS, is_global=st.booleans(), event_time=st.booleans(), is_large=st.booleans())
def test_combine_and_sort_keeps_the_winner_of_each_key(
    rows: list[tuple[str, str, int]], is_global: bool, event_time: bool, *, is_large: bool
):
    with pytest.MonkeyPatch.context() as patch:
        if is_large:  # keys are sorted partition by partition, and more rows come than are looked at first
            patch.setattr(combining, "_ROWS_OF_A_PARTITION", 1)
            patch.setattr(combining, "_SAMPLE_ROWS", 2)
        result = combine_and_sort(staged(rows), Combining(is_global, ("ts",) if event_time else ()))
    winners = {}
    for n, (partition, key, ts) in enumerate(rows):
        lookup = (key,) if is_global else (partition, key)
        if lookup not in winners or not event_time or ts >= winners[lookup][0]:
            winners[lookup] = (ts, n)
    got = result.rows.to_pylist()
    expected = [winners[k][1] for k in sorted(winners, key=lambda k: tuple(part.encode() for part in k))]
    assert [r["n"] for r in got] == expected
    assert result.combined == len(rows) - len(winners)
    assert ARRIVAL not in result.rows.column_names


@given(ROWS, st.booleans(), st.booleans(), st.lists(st.integers(0, 30), max_size=4))
def test_winners_of_parts_combined_again_are_the_winners_of_the_whole(
    rows: list[tuple[str, str, int]], is_global: bool, event_time: bool, cuts: list[int]
):
    rule = Combining(is_global, ("ts",) if event_time else ())
    whole = staged(rows)
    edges = [0, *sorted(min(c, len(rows)) for c in cuts), len(rows)]
    parts = [combine(whole.slice(a, b - a), rule) for a, b in itertools.pairwise(edges)]
    again = combine_and_sort(pa.concat_tables([p.rows for p in reversed(parts)]), rule)
    at_once = combine_and_sort(whole, rule)
    assert again.rows.equals(at_once.rows)
    assert again.combined + sum(p.combined for p in parts) == at_once.combined


@st.composite
def keys_of_one_length(draw: st.DrawFn) -> list[tuple[str, str, int]]:
    """Rows whose keys share a beginning, of no bytes to more than a word, and differ behind it in bytes of any value."""
    begin = draw(st.text(max_size=12))
    width = draw(st.integers(1, 12))
    ends = st.text(st.sampled_from("\x00\x01/09az\x7f"), min_size=width, max_size=width)
    row = st.tuples(st.sampled_from(["p", "é", "", "\U0001f600"]), ends.map(lambda end: begin + end), st.integers(0, 3))
    return draw(st.lists(row, max_size=30))


@given(keys_of_one_length(), st.booleans(), st.booleans())
def test_keys_of_one_length_are_sorted_like_all_others(
    rows: list[tuple[str, str, int]], is_global: bool, event_time: bool
):
    test_combine_and_sort_keeps_the_winner_of_each_key.hypothesis.inner_test(
        rows, is_global, event_time, is_large=False
    )


@pytest.mark.parametrize(
    ("keys", "is_told"),
    [
        (["a2", "a1"], True),
        (["中", "abc"], True),  # bytes have no sign
        (["ord-000000000002", "ord-000000000001"], True),
        (["prefix-00000002-x", "prefix-00000001-x"], True),
        (["1-behind-the-word", "1-behind-the-wore"], True),  # a word begins where keys differ
        (["1-behind-the-word", "2-behind-the-word", "1-behind-the-wore"], False),
        (["a", "b", "a"], False),
        (["a", "bb"], False),
        (["", ""], False),
        (["a"], True),
        ([], False),
    ],
)
def test_which_keys_are_told_apart_by_a_word(keys: list[str], is_told: bool):
    rows = staged([("p", key, 0) for key in keys])
    order = combining._order_by_words(rows, [STAGED_PARTITION, STAGED_KEY])
    assert (order is not None) is is_told
    if order is not None:
        assert [keys[n] for n in order] == sorted(keys)


SOME = st.none() | st.integers(0, 9)


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 3), st.booleans(), SOME, SOME), min_size=1, max_size=12)
)
def test_nulls_are_filled_from_the_rows_before_back_to_a_delete(
    rows: list[tuple[str, int, bool, int | None, int | None]],
):
    keys, times, deleted, some, more = zip(*rows, strict=True)
    columns = {
        "x": pa.array(some, pa.int64()),
        "l": pa.array([None if m is None else [m] for m in more], pa.list_(pa.int64())),
    }
    table = pa.table(
        {
            STAGED_PARTITION: pa.array(["p"] * len(rows)),
            STAGED_KEY: pa.array(keys, pa.string()),
            STAGED_OP: pa.array([OP_DELETE if one else OP_UPSERT for one in deleted], pa.int8()),
            "ts": pa.array(times, pa.int64()),
            **columns,
            ARRIVAL: pa.array(range(len(rows)), pa.int64()),
        }
    )
    rule = UpdateRule(filled=frozenset({"x", "l"}))
    got = combine_and_sort(table, Combining(is_global=False, ordering_fields=("ts",), rule=rule))
    expected = {}
    for row in sorted(rows, key=lambda row: row[1]):
        key, time, is_delete, x, m = row
        before = expected.get(key)
        if before is not None and not before[1] and not is_delete:
            x, m = before[2] if x is None else x, before[3] if m is None else m
        expected[key] = (time, is_delete, x, m)
    found = [tuple(row[name] for name in (STAGED_KEY, "ts", STAGED_OP, "x", "l")) for row in got.rows.to_pylist()]
    assert found == [(k, t, int(d), x, None if m is None else [m]) for k, (t, d, x, m) in sorted(expected.items())]


def test_what_a_function_makes_of_rows_one_by_one_lies_in_the_order_of_their_keys():
    keys = ["c", "c", "c", "m", "k", "k"]
    rows = staged([("p", key, n) for n, key in enumerate(keys)])
    rows = rows.append_column(STAGED_OP, pa.array([OP_UPSERT] * len(keys), pa.int8()))

    def added(old: pa.Table, new: pa.Table) -> pa.Table:
        return new.set_column(new.column_names.index("n"), "n", pc.add(old["n"], new["n"]))

    rule = UpdateRule(function=MergeFunction("added", added))
    got = combine_and_sort(rows, Combining(is_global=False, ordering_fields=("ts",), rule=rule))
    assert [(row[STAGED_KEY], row["n"]) for row in got.rows.to_pylist()] == [("c", 3), ("k", 9), ("m", 3)]


@given(ROWS, st.lists(st.booleans(), min_size=30, max_size=30), st.booleans(), st.booleans())
@example(rows=[("p", "a", 1), ("p", "a", 3)], deletes=[False, True] * 15, is_global=True, loses=True)
def test_a_delete_wins_by_its_place_unless_it_loses_to_all(
    rows: list[tuple[str, str, int]], deletes: list[bool], is_global: bool, loses: bool
):
    """Of a feed a delete counts only where nothing else comes of the key, whatever its ordering value and place."""
    ops = pa.array([OP_DELETE if deletes[n] else OP_UPSERT for n in range(len(rows))], pa.int8())
    table = staged(rows).append_column(STAGED_OP, ops)
    rule = Combining(is_global, ("ts",), deletes_lose=loses)
    winners: dict[tuple[str, ...], tuple[bool, int, int]] = {}
    for n, (partition, key, ts) in enumerate(rows):
        lookup = (key,) if is_global else (partition, key)
        rank = (loses and not deletes[n], ts, n)
        winners[lookup] = max(rank, winners.get(lookup, rank))
    expected = [winners[k][2] for k in sorted(winners, key=lambda k: tuple(part.encode() for part in k))]
    assert combine_and_sort(table, rule).rows["n"].to_pylist() == expected
    assert combine_and_sort(combine(table, rule).rows, rule).rows["n"].to_pylist() == expected
