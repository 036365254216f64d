"""Conditions of an upsert: which rows are updated, deleted and inserted."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import LakeIndexError, OptionError, UsageError
from lakeindex.model import IndexType, Operation
from lakeindex.options.option import CONDITION_OPTIONS
from lakeindex.pipeline import stages_for
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, RowRules, batch_of, content_of, counts_of, make_table, rows_of
from tests.golden import table_of
from tests.meanwhile import MemoryTable, begins_to_write, writes_data

STORED = [Row("a", "x", 5, "stored"), Row("b", "x", 5, "stored"), Row("c", "y", 5, "stored")]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return table_of(tmp_path / "t", STORED, ordering=None)


def rows(table: LakeTable) -> dict[str, tuple[object, ...]]:
    return {str(key): (place, ts, v) for place, key, _, ts, v in content_of(table)}


def test_a_stored_row_is_updated_only_where_the_condition_holds(table: LakeTable):
    batch = batch_of([Row("a", "x", 6, "new"), Row("b", "x", 5, "new"), Row("n", "x", 0, "new")])
    done = table.upsert(batch, update_if="new.ts > old.ts")
    assert done.fates == {"inserts": 1, "updates": 1, "ignored": 1}
    assert done.unmet == 1
    assert rows(table) == {
        "a": ("x", 6, "new"), "b": ("x", 5, "stored"), "c": ("y", 5, "stored"), "n": ("x", 0, "new"),
    }  # fmt: skip
    again = table.upsert(batch, update_if="new.ts > old.ts")
    assert again.noop
    assert again.unmet == 3


def test_new_rows_are_inserted_only_where_the_condition_holds(table: LakeTable):
    batch = batch_of([Row("a", "x", 6, "new"), Row("n", "x", 1, "new"), Row("m", "y", 9, "new")])
    done = table.upsert(batch, insert_if="new.ts > 5")
    assert done.fates == {"inserts": 1, "updates": 1, "ignored": 1}
    assert done.unmet == 1
    assert set(rows(table)) == {"a", "b", "c", "m"}


def test_a_deleting_condition_is_asked_first(table: LakeTable):
    batch = batch_of(
        [Row("a", "x", 9, "drop"), Row("b", "x", 9, "new"), Row("c", "y", 1, "drop"), Row("n", "x", 1, "drop")]
    )
    done = table.upsert(batch, delete_if="new.v = 'drop' AND old.ts < new.ts", update_if="new.ts >= 9")
    assert done.fates == {"inserts": 1, "updates": 1, "deletes": 1, "ignored": 1}
    assert rows(table) == {"b": ("x", 9, "new"), "c": ("y", 5, "stored"), "n": ("x", 1, "drop")}


def test_a_marked_row_deletes_only_where_it_may_update(table: LakeTable):
    batch = batch_of([Row("a", "x", 6, "", deleted=True), Row("b", "x", 4, "", deleted=True)])
    assert table.upsert(batch, update_if="new.ts > old.ts").fates == {"deletes": 1, "ignored": 1}
    assert set(rows(table)) == {"b", "c"}


def test_what_a_condition_lets_through_is_compared_by_event_time(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(STORED))
    batch = batch_of([Row("a", "x", 6, "yes"), Row("b", "x", 6, "no"), Row("c", "y", 4, "yes")])
    done = table.upsert(batch, update_if="new.v = 'yes'")
    assert done.fates == {"updates": 1, "ignored": 2}
    assert done.unmet == 1
    late = batch_of([Row("a", "x", 5, "late"), Row("b", "x", 5, "tie")])
    assert table.upsert(late, delete_if="TRUE").fates == {"deletes": 1, "ignored": 1}


@pytest.mark.parametrize("moves", [True, False])
def test_a_row_moves_only_where_the_condition_holds(tmp_path: Path, moves: bool):
    table = make_table(tmp_path / "t", ordering=None, hoodie__index__type="GLOBAL_SIMPLE")
    table.upsert(batch_of(STORED))
    batch = batch_of([Row("a", "y", 6, "new"), Row("b", "y", 5, "new"), Row("c", "x", 7, "drop")])
    options = {"hoodie.simple.index.update.partition.path": moves}
    done = table.upsert(
        batch, update_if="new.ts > old.ts AND old.day = 'x'", delete_if="new.v = 'drop'", options=options
    )
    assert done.fates == {"moved" if moves else "updates": 1, "deletes": 1, "ignored": 1}
    assert rows(table) == {"a": ("y" if moves else "x", 6, "new"), "b": ("x", 5, "stored")}


def test_fields_of_structs_and_columns_that_old_files_lack(tmp_path: Path):
    place = pa.struct([("city", pa.string()), ("n", pa.int32())])
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("at", place)])
    table = make_table(tmp_path / "t", ordering=None, partitions=(), schema=schema)
    table.upsert([{"id": "a", "at": {"city": "Rome", "n": 1}}, {"id": "b", "at": None}])
    wider = pa.struct([("city", pa.string()), ("n", pa.int32()), ("z", pa.int64())])
    rows_in = [{"id": key, "at": {"city": "Rome", "n": 2, "z": 3}, "x": 1} for key in "ab"]
    batch = pa.Table.from_pylist(rows_in, pa.schema([("id", pa.string()), ("at", wider), ("x", pa.int64())]))
    done = table.upsert(
        batch,
        update_if="new.at.n > old.at.n + 0.5 AND old.at.z IS NULL AND new.x > 0 AND old.x IS NULL",
        options={"lakeindex.schema.mode": "add"},
    )
    assert done.fates == {"updates": 1, "ignored": 1}


def test_values_of_files_from_before_a_column_was_widened_are_compared_as_they_are_read(tmp_path: Path):
    day, moment = pa.date32(), pa.timestamp("us", "UTC")
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int32()), ("d", day), ("t", moment)])
    table = make_table(tmp_path / "t", ordering=None, partitions=(), schema=schema)
    before = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    table.upsert(pa.Table.from_pylist([{"id": key, "n": 5, "d": before.date(), "t": before} for key in "abc"], schema))
    later = before + dt.timedelta(microseconds=1)
    rows_in = [
        {"id": "a", "n": 2**40, "d": before.date(), "t": later},
        {"id": "b", "n": 2**40, "d": before.date(), "t": before},
        {"id": "c", "n": 5, "d": before.date(), "t": later},
    ]
    batch = pa.Table.from_pylist(rows_in, schema.set(1, pa.field("n", pa.int64())))
    done = table.upsert(
        batch,
        update_if="new.n > old.n AND new.t > old.t AND new.d = old.d AND old.t = '2026-01-01'",
        options={"lakeindex.schema.mode": "widen"},
    )
    assert done.fates == {"updates": 1, "ignored": 2}


def test_files_from_before_and_after_a_column_was_widened_are_compared_at_once(tmp_path: Path):
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("n", pa.int32())])
    table = make_table(tmp_path / "t", ordering=None, partitions=("day",), schema=schema)
    days = [f"d{number:02d}" for number in range(24)]  # a task has several files
    table.upsert(pa.Table.from_pylist([{"id": day, "day": day, "n": 5} for day in days], schema))
    wider = schema.set(2, pa.field("n", pa.int64()))
    widen = {"lakeindex.schema.mode": "widen"}
    table.upsert(pa.Table.from_pylist([{"id": day, "day": day, "n": 2**40} for day in days[::2]], wider), options=widen)
    batch = pa.Table.from_pylist([{"id": day, "day": day, "n": 2**39} for day in days], wider)
    assert table.upsert(batch, update_if="new.n > old.n").fates == {"updates": 12, "ignored": 12}
    found = {row["id"]: row["n"] for row in table.read(meta=False).to_pylist()}
    assert found == dict.fromkeys(days[::2], 2**40) | dict.fromkeys(days[1::2], 2**39)


def test_a_dry_run_says_the_same(table: LakeTable):
    batch = batch_of(
        [Row("a", "x", 6, "new"), Row("b", "x", 4, "new"), Row("n", "x", 4, "new"), Row("c", "y", 0, "drop")]
    )
    conditions = {"update_if": "new.ts > old.ts", "insert_if": "new.ts > 4", "delete_if": "new.v = 'drop'"}
    planned = table.upsert(batch, dry_run=True, **conditions)
    done = table.upsert(batch, **conditions)
    assert planned.fates == done.fates == {"updates": 1, "deletes": 1, "ignored": 2}
    assert planned.unmet == done.unmet == 2


def test_conditions_change_when_a_run_is_repeated(table: LakeTable):
    """The checkpoints of the run are not taken over: they are of other conditions."""
    batch = batch_of([Row("a", "x", 6, "new"), Row("n", "x", 4, "new")])
    assert table.upsert(batch, run_id="r", batch_id="1", update_if="FALSE", insert_if="FALSE").fates == {"ignored": 2}
    done = table.upsert(batch, run_id="r", batch_id="1", update_if="new.v = 'new'", insert_if="TRUE")
    assert done.fates == {"inserts": 1, "updates": 1}


@pytest.mark.parametrize(
    ("conditions", "said", "hint"),
    [
        ({"update_if": "new.tz > old.ts"}, "update_if: the table has no column 'new.tz'", "did you mean 'new.ts'"),
        ({"update_if": "ts > 1"}, "no column 'ts'", "old.<column> and new.<column>; columns: id, day, ts, v"),
        (
            {"insert_if": "old.ts > 1"},
            "names old.ts, and a row that is inserted has no stored row",
            "name columns as new.<column>;",
        ),
        ({"update_if": "new.ts > old.v"}, "int64 and string are not compared", "valid are"),
        ({"delete_if": "new.ts + old.v > 1"}, "there is no + of int64 and string", "valid are"),
        ({"update_if": "old IS NULL"}, "'old' is a row", "old.<column> and new.<column>"),
        ({"update_if": "new.ts >"}, "cannot be read", "valid are"),
        ({"update_if": " "}, "lakeindex.update.if cannot be ' '", "old.<column>"),
        ({"insert_if": ""}, "lakeindex.insert.if cannot be ''", "new.<column>"),
    ],
)
def test_a_wrong_condition_fails_before_anything_is_staged(
    table: LakeTable, conditions: dict[str, str], said: str, hint: str
):
    before = sorted(Path(f"{table.uri}.lakeindex").rglob("staged/*"))
    with pytest.raises(LakeIndexError) as caught:
        table.upsert(batch_of([Row("a", "x", 6, "new")]), **conditions)
    assert isinstance(caught.value, UsageError | OptionError)
    assert said in str(caught.value)
    assert hint in str(caught.value.hint)
    assert sorted(Path(f"{table.uri}.lakeindex").rglob("staged/*")) == before


def test_other_operations_have_no_conditions(table: LakeTable):
    options = {"lakeindex.update.if": "new.ts > old.ts"}
    with pytest.raises(OptionError, match="no meaning with INSERT"):
        table.insert(batch_of([Row("n", "x", 6, "new")]), options=options)
    rows = batch_of([Row("a", "x", 6, "new")])
    for name in ("bulk_insert", "insert_overwrite", "insert_overwrite_table"):
        with pytest.raises(OptionError, match=f"no meaning with {name.upper()}"):
            getattr(table, name)(rows, options=options)
    with pytest.raises(OptionError, match="no meaning with DELETE"):
        table.delete(rows, options=options)
    for condition in CONDITION_OPTIONS.values():
        holds = {condition: "new.ts > 0"}
        with pytest.raises(OptionError, match="no meaning with update"):
            table.update({"v": "'w'"}, where="true", options=holds)
        with pytest.raises(OptionError, match="no meaning with delete"):
            table.delete(where="id = 'a'", options=holds)
        with pytest.raises(OptionError, match="no meaning with replace"):
            table.replace_where(rows, where="id = 'a'", options=holds)
    with pytest.raises(OptionError, match="give one of the two"):
        table.upsert(batch_of([Row("a", "x", 6, "new")]), update_if="FALSE", options=options)


def test_five_stages_ask_them_with_columns_that_the_batch_brings(table: LakeTable, tmp_path: Path):
    rows_in = [{"id": key, "day": "x", "ts": 6, "v": "new", "more": n} for n, key in enumerate("abno")]
    pq.write_table(pa.Table.from_pylist(rows_in), tmp_path / "b.parquet")
    options = {
        "lakeindex.schema.mode": "add",
        "lakeindex.update.if": "new.more > 0 AND old.more IS NULL",
        "lakeindex.insert.if": "new.more = 2",
    }
    spec = RunSpec(
        table.uri, f"{table.uri}.runs", "r", "r", Operation.UPSERT, (str(tmp_path / "b.parquet"),),
        tuple(sorted(options.items())),
    )  # fmt: skip
    done = [run_stage(stage, spec, LocalRunner(1)) for stage in stages_for(IndexType.BLOOM)][-1]
    assert isinstance(done, RunSummary)
    assert done.fates == {"inserts": 1, "updates": 1, "ignored": 2}
    assert {row["id"]: row.get("more") for row in rows_of(table) if row["v"] == "new"} == {"b": 1, "n": 2}


NEWER = RowRules(update=lambda old, new: new.ts > old.ts)
OURS = [Row("a", "x", 7, "ours"), Row("n", "x", 7, "ours"), Row("b", "x", 4, "ours")]


@pytest.mark.parametrize(
    "other",
    [
        Row("a", "x", 6, "theirs"),  # still older than ours
        Row("a", "x", 8, "theirs"),  # the condition held when the keys were looked up, and does not any more
        Row("n", "x", 8, "theirs"),  # was to be inserted, and is to be left now
        Row("n", "x", 6, "theirs"),  # was to be inserted, and is to be updated now
        Row("b", "x", 3, "theirs"),  # did not hold, and does now
        Row("a", "x", 0, "", deleted=True),
    ],
)
@pytest.mark.parametrize("when", [begins_to_write, writes_data])
@pytest.mark.parametrize("index", ["BLOOM", pytest.param("RECORD_INDEX", marks=pytest.mark.slow)])
@pytest.mark.few(6)
def test_conditions_are_asked_again_when_another_writer_was_first(index: str, when: Any, other: Row):
    mode = {"hoodie__write__record__merge__mode": "COMMIT_TIME_ORDERING"}
    world, oracle = MemoryTable.holding(STORED, index=index, **mode), Oracle(index == "RECORD_INDEX", event_time=False)
    oracle.apply(STORED)
    done = world.once(when, lambda: world.upsert([other]))
    summary = world.upsert(OURS, lakeindex__update__if="new.ts > old.ts")
    assert done
    oracle.apply([other])
    oracle.conditions = NEWER
    assert counts_of(summary) == oracle.apply(OURS)
    assert content_of(world.table) == oracle.content()
