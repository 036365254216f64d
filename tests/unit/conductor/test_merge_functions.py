"""Merge functions: what is stored of a stored row and a row of the batch, against a dictionary, and what is refused."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.commit.write_session import WriteSession
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import OptionError, UsageError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write import merge_function
from tests.builders import make_table
from tests.strategies import examples

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("day", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("count", pa.int64()),
        pa.field("seen", pa.list_(pa.string())),
        pa.field("must", pa.string(), nullable=False),
    ]
)
MARK = "_hoodie_is_deleted"
SMALL = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
Rows = list[tuple[str, str, int, int]]


def added(old: pa.Table, new: pa.Table) -> pa.Table:
    """Counts are added, lists joined: associative."""
    seen = [(a or []) + (b or []) for a, b in zip(old["seen"].to_pylist(), new["seen"].to_pylist(), strict=True)]
    new = new.set_column(3, "count", pc.add(old["count"], new["count"]))
    return new.set_column(4, "seen", pa.array(seen, pa.list_(pa.string())))


class Functions:
    """A name may have several parts."""

    added = staticmethod(added)


def batch(rows: Rows) -> pa.Table:
    ids, days, times, counts = (list(column) for column in zip(*rows, strict=True))
    seen = [[f"{row[2]}/{row[3]}"] for row in rows]
    return pa.table([ids, days, times, counts, seen, ["m"] * len(rows)], schema=SCHEMA)


def made(folder: Path | str, index: str = "BLOOM") -> LakeTable:
    return make_table(folder, schema=SCHEMA, hoodie__index__type=index)


def content(table: LakeTable) -> list[tuple[Any, ...]]:
    names = ("_hoodie_partition_path", "id", "ts", "count", "seen")
    return sorted(tuple(row[name] for name in names) for row in table.read(meta=True).to_pylist())


ROWS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from("xy"), st.integers(0, 4), st.integers(0, 9)),
    min_size=1,
    max_size=8,
)


@pytest.mark.parametrize("index", [pytest.param("SIMPLE", marks=pytest.mark.slow), "GLOBAL_SIMPLE"])
@settings(max_examples=examples(8))
@given(batches=st.lists(ROWS, min_size=1, max_size=4))
def test_any_batches_equal_rows_one_by_one(index: str, batches: list[Rows]):
    """A function that is associative says the same however rows come in batches, if no batch brings older rows."""
    with tempfile.TemporaryDirectory() as folder:
        table = made(f"{folder}/t", index)
        expected: dict[tuple[str, ...], tuple[Any, ...]] = {}
        for number, rows in enumerate(batches):
            later = [(key, day, ts + 5 * number, count) for key, day, ts, count in rows]
            table.upsert(batch(later), merge=added, options=SMALL)
            for row in sorted(later, key=lambda row: row[2]):
                key, day, ts, count = row
                where = (key,) if index.startswith("GLOBAL") else (day, key)
                before = expected.get(where, (None, None, 0, 0, []))
                expected[where] = (day, key, ts, before[3] + count, [*before[4], f"{ts}/{count}"])
            assert content(table) == sorted(expected.values())
        assert table.check().ok


def calls(function: Callable[..., Any]) -> tuple[list[tuple[pa.Table, pa.Table]], Callable[..., Any]]:
    seen: list[tuple[pa.Table, pa.Table]] = []

    def watched(old: pa.Table, new: pa.Table) -> Any:
        seen.append((old, new))
        return function(old, new)

    return seen, watched


def test_it_is_called_with_matched_rows_of_all_columns_a_bounded_number_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(merge_function, "ROWS_OF_A_CALL", 2)
    table = made(tmp_path / "t")
    seen, watched = calls(added)
    table.upsert(batch([(key, "x", 1, 1) for key in "abcde"]), merge=watched)
    assert seen == []
    table.upsert(batch([(key, "x", 2, 1) for key in "abcdefg"]), merge=watched)
    assert sorted(row for old, _ in seen for row in old["id"].to_pylist()) == list("abcde")
    assert max(len(old) for old, _ in seen) == 2
    assert all(old.column_names == new.column_names == SCHEMA.names for old, new in seen)
    table.upsert(batch([("a", "x", 1, 1)]), merge=watched)  # late
    assert {row[1]: row[3] for row in content(table)} == dict.fromkeys("abcde", 2) | dict.fromkeys("fg", 1)


def test_a_row_of_the_batch_behind_a_delete_of_it_is_made_of_itself(tmp_path: Path) -> None:
    """A delete leaves nothing that a function could add to, and takes nothing of the rows before it."""
    table = made(tmp_path / "t")
    rows = batch([("k", "x", 1, 1), ("k", "x", 2, 10), ("k", "x", 3, 100), ("k", "x", 4, 1000)])
    marks = pa.array([False, True, False, False])
    seen, watched = calls(added)
    table.upsert(rows.append_column("_hoodie_is_deleted", marks), merge=watched)
    assert content(table) == [("x", "k", 4, 1100, ["3/100", "4/1000"])]
    assert [(old["ts"].to_pylist(), new["ts"].to_pylist()) for old, new in seen] == [([3], [4])]


def replacing(name: str, value: Any) -> Callable[..., pa.Table]:
    def function(_: pa.Table, new: pa.Table) -> pa.Table:
        column = pa.array([value] * len(new), new.schema.field(name).type)
        return new.set_column(new.schema.get_field_index(name), name, column)

    return function


def test_what_a_function_may_not_do_with_one_row_of_several(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.upsert(batch([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    before = content(table)
    for name, bad, why in (
        ("must", None, "cannot be stored"),
        ("ts", 0, "changed column 'ts'"),
        (MARK, True, "marked rows"),
    ):

        def function(_: pa.Table, new: pa.Table, name: str = name, bad: Any = bad) -> pa.Table:
            place = new.schema.get_field_index(name)
            values = [False] * len(new) if place < 0 else new[name].to_pylist()
            column = pa.array([*values[:-1], bad], pa.bool_() if place < 0 else new.schema.field(name).type)
            return new.append_column(name, column) if place < 0 else new.set_column(place, name, column)

        with pytest.raises(UsageError, match=why):
            table.upsert(batch([("a", "x", 2, 1), ("b", "x", 2, 1)]), merge=function)
    assert content(table) == before


@pytest.mark.parametrize(
    ("function", "why"),
    [
        (lambda old, new: 1 // 0, r"lambda> raised ZeroDivisionError for rows of .*\.parquet: integer division"),
        (lambda old, new: new.to_pylist(), "returned list for rows of"),
        (lambda old, new: pa.concat_tables([old, new]), "returned 2 rows for 1 of"),
        (lambda old, new: new.slice(1), "returned 0 rows for 1 of"),
        (lambda old, new: new.drop_columns(["count"]), "do not fit the table: the batch lacks column 'count'"),
        (lambda old, new: new.append_column("more", new["ts"]), "no column 'more'"),
        (replacing("id", "z"), "changed column 'id'"),
        (replacing("day", "z"), "changed column 'day'"),
        (replacing("ts", 0), "changed column 'ts'"),
        (replacing("must", None), "cannot be stored: column 'must' must not be null"),
        (lambda old, new: new.append_column(MARK, pa.repeat(True, len(new))), "marked rows of .* as deleted"),
    ],
)
def test_what_a_function_may_not_do(tmp_path: Path, function: Callable[..., Any], why: str):
    table = made(tmp_path / "t")
    table.upsert(batch([("a", "x", 1, 1), ("b", "x", 1, 1)]))
    before = content(table)
    with pytest.raises(UsageError, match=why):
        table.upsert(batch([("a", "x", 2, 1), ("n", "x", 2, 1)]), merge=function)
    assert content(table) == before
    table.upsert(batch([("a", "x", 2, 1)]), merge=added)
    assert [row[3] for row in content(table)] == [2, 1]
    assert table.check().ok


def test_rows_of_one_batch_have_all_columns_too_and_a_run_that_failed_leaves_nothing(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    table.upsert(batch([("a", "x", 1, 1)]))
    before = content(table)
    twice = batch([("n", "x", 2, 1), ("n", "x", 3, 1)])
    with pytest.raises(UsageError, match="for the batch that cannot be stored: column 'must' must not be null"):
        table.upsert(twice, merge=replacing("must", None))
    assert content(table) == before
    table.upsert(twice, merge=added)
    assert [row[3] for row in content(table)] == [1, 2]


def test_rows_of_one_batch_are_not_marked_either_and_no_mark_is_none(tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    twice = batch([("n", "x", 2, 1), ("n", "x", 3, 1)])

    def marking(*, deleted: bool) -> Callable[..., pa.Table]:
        return lambda old, new: added(old, new).append_column(MARK, pa.repeat(deleted, len(new)))

    with pytest.raises(UsageError, match="marked rows of the batch as deleted"):
        table.upsert(twice, merge=marking(deleted=True))
    table.upsert(twice, merge=marking(deleted=False))
    assert [row[3] for row in content(table)] == [2]


def test_a_name_instead_of_a_function(tmp_path: Path):
    table = made(tmp_path / "t")
    table.upsert(batch([("a", "x", 1, 1)]))
    pq.write_table(batch([("a", "x", 2, 1)]), tmp_path / "in.parquet")
    named = f"{__name__}:added"
    options = (("lakeindex.merge.function", named),)
    inputs = (str(tmp_path / "in.parquet"),)
    spec = RunSpec(table.uri, str(tmp_path / "runs"), "r", "b", Operation.UPSERT, inputs, options)
    for stage in Stage:
        run_stage(stage, spec, LocalRunner(1))
    table.upsert(batch([("a", "x", 3, 1)]), merge=f"{__name__}:Functions.added")
    assert content(table) == [("x", "a", 3, 3, ["1/1", "2/1", "3/1"])]
    for wrong, why in (
        ("nowhere:f", "No module named"),
        (f"{__name__}:nothing", "no attribute"),
        (f"{__name__}:SMALL", "is no function"),
    ):
        with pytest.raises(UsageError, match=rf"{wrong} .*{why}"):
            table.upsert(batch([("a", "x", 4, 1)]), merge=wrong)
    for not_a_name in ("added", "a:b:c", ":f"):
        with pytest.raises(OptionError, match="valid: module:function"):
            table.upsert(batch([("a", "x", 4, 1)]), merge=not_a_name)
    with pytest.raises(OptionError, match="gets whole rows"):
        table.upsert(batch([("a", "x", 4, 1)]), merge=added, partial=True)
    with pytest.raises(OptionError, match="it is for upserts of a batch"):
        table.insert(batch([("n", "x", 4, 1)]), options={"lakeindex.merge.function": named})
    with pytest.raises(UsageError, match="merge cannot be 1"):
        table.upsert(batch([("a", "x", 4, 1)]), merge=1)  # type: ignore[arg-type]


FLOATS = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.float64()), ("v", pa.int64())])


def floats(ts: float, v: int) -> pa.Table:
    return pa.table([["a"], ["x"], [ts], [v]], schema=FLOATS)


def test_an_ordering_value_that_is_no_number_is_what_it_was(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", schema=FLOATS)
    table.upsert(floats(1.0, 1))
    table.upsert(floats(float("nan"), 2), merge=lambda _, new: new)
    table.upsert(floats(float("nan"), 3), merge=lambda _, new: new)
    assert table.read(meta=False)["v"].to_pylist() == [3]


@pytest.mark.parametrize("other", [-0.0, None, float("nan")])
def test_the_sign_of_an_ordering_zero_is_not_changed_nor_is_it_lost(tmp_path: Path, other: float | None) -> None:
    table = make_table(tmp_path / "t", schema=FLOATS)
    table.upsert(floats(-1.0, 1))
    value = pa.array([other], pa.float64())
    with pytest.raises(UsageError, match="changed column 'ts'"):
        table.upsert(floats(0.0, 2), merge=lambda _, new: new.set_column(2, FLOATS.field(2), value))


@pytest.mark.parametrize("form", [pa.Table, pa.RecordBatch])
def test_what_a_function_returns_is_a_table_or_a_record_batch(tmp_path: Path, form: type) -> None:
    """Within a batch, as against stored rows."""

    def function(old: pa.Table, new: pa.Table) -> Any:
        made_of = added(old, new)
        return made_of if form is pa.Table else made_of.combine_chunks().to_batches()[0]

    table = made(tmp_path / "t")
    table.upsert(batch([("k", "x", 1, 1), ("other", "x", 1, 5)]), merge=function)
    done = table.upsert(batch([("k", "x", 2, 10), ("k", "x", 3, 100)]), merge=function)
    assert done.fates == {"combined": 1, "updates": 1}
    assert [(row[1], row[3]) for row in content(table)] == [("k", 111), ("other", 5)]


def test_what_a_function_made_of_rows_of_one_batch_is_made_anew_once_it_is_corrected(tmp_path: Path) -> None:
    """The error says to correct it, and the same batch id is tried again: its checkpoint knows the function by its name."""

    def function(*, is_right: bool) -> Callable[..., pa.Table]:
        def merged(old: pa.Table, new: pa.Table) -> pa.Table:
            if is_right:
                return added(old, new)
            return replacing("count", 10 // len(new.filter(pc.equal(new["id"], "n"))))(old, new)

        return merged

    table = made(tmp_path / "t")
    table.upsert(batch([("a", "x", 1, 1)]))
    twice = batch([("n", "x", 2, 1), ("n", "x", 3, 10), ("a", "x", 2, 1)])
    assert function(is_right=True).__qualname__ == function(is_right=False).__qualname__
    with pytest.raises(UsageError, match=r"raised ZeroDivisionError .*correct the function"):
        table.upsert(twice, merge=function(is_right=False), batch_id="b")
    done = table.upsert(twice, merge=function(is_right=True), batch_id="b")
    assert done.fates == {"combined": 1, "inserts": 1, "updates": 1}
    assert [(row[1], row[3]) for row in content(table)] == [("a", 2), ("n", 11)]


def test_a_killed_run_is_not_gone_on_with_under_its_names_where_a_function_makes_the_rows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was taken for dead, and is not, writes what the function of then makes."""
    table, killed = made(tmp_path / "t"), list[str]()
    table.upsert(batch([("a", "x", 1, 1)]))

    def kill(self: WriteSession, *_: Any) -> None:
        killed.append(self.instant)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(WriteSession, "publish", kill)
        with pytest.raises(KeyboardInterrupt):
            table.upsert(batch([("a", "x", 2, 1)]), merge=added, run_id="r")
    done = table.upsert(batch([("a", "x", 2, 1)]), merge=added, run_id="r")
    assert done.instant not in killed
    assert content(table) == [("x", "a", 2, 2, ["1/1", "2/1"])]
    assert table.check().ok
