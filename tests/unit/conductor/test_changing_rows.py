"""Rows that meet a condition are deleted, updated or replaced: one commit, with what others commit meanwhile."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from itertools import product
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.errors import (
    BatchIdReusedError,
    QuarantineExceededError,
    SchemaMismatchError,
    UsageError,
    WriteConflictError,
)
from lakeindex.operations.change_by_condition import _by_path
from lakeindex.options.types import WriteConfig
from lakeindex.predicates.predicate import predicate_of
from lakeindex.run.summary import RunSummary
from lakeindex.storage.memory import Call
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import SCHEMA, Oracle, Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import OVERTAKES, SMALL, MemoryTable, begins_to_write, writes_data
from tests.unit.operations.test_rescaling import put_pending

FIRST = [Row(f"k{n}", "xyz"[n % 3], n, None if n % 4 == 0 else str(n)) for n in range(24)]
Work = Callable[[LakeTable], Any]


@made_once
def made(folder: Path, **options: str) -> tuple[LakeTable, Oracle]:
    table, oracle = make_table(folder / "t", **options), Oracle()
    table.upsert(batch_of(FIRST), batch_id="first")
    oracle.apply(FIRST)
    return table, oracle


def without(oracle: Oracle, meets: Callable[[Row], bool]) -> None:
    oracle.rows = {key: one for key, one in oracle.rows.items() if not meets(one[1])}


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_rows_that_meet_a_condition_are_deleted(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, hoodie__write__table__version=version)
    done = table.delete(where="ts > 8 and v is not null")
    without(oracle, lambda row: row.ts > 8 and row.v is not None)
    assert content_of(table) == oracle.content()
    assert (done.operation, done.fates, done.rows_in) == ("DELETE", {"deletes": 12}, 12)
    (entry,) = [one for one in table.history() if one.instant == done.instant]
    assert (entry.action, entry.operation, entry.deletes) == ("commit", "DELETE", 12)
    again = table.delete(where=pc.field("ts") > 100)
    assert (again.noop, again.instant) == (True, None)
    table.rollback(str(done.instant))
    assert content_of(table) == {*oracle.content(), *((r.day, r.id, r.day, r.ts, r.v) for r in FIRST)}
    assert table.check().ok


@pytest.mark.parametrize("version", ["6", "9"])
def test_rows_that_meet_a_condition_are_updated(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, hoodie__write__table__version=version)
    done = table.update({"v": "case when v is null then 'none' else v || '!' end"}, where="ts < 5")
    new = [Row(r.id, r.day, r.ts, "none" if r.v is None else f"{r.v}!") for r in FIRST if r.ts < 5]
    oracle.apply(new)
    assert content_of(table) == oracle.content()
    assert (done.operation, done.fates) == ("UPSERT", {"updates": 5})
    assert table.update({"v": pa.scalar("k")}, where="id = 'k7'").fates == {"updates": 1}
    assert table.update({"v": None}, where="id = 'k8'").fates == {"updates": 1}
    values = {row["id"]: row["v"] for row in table.scan(where="id in ('k7', 'k8')").to_arrow().to_pylist()}
    assert values == {"k7": "k", "k8": None}
    assert table.check().ok


def test_an_update_reads_the_row_as_it_was(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("a", pa.int32()), ("b", pa.int64()), ("f", pa.float64())])
    table = make_table(tmp_path / "t", schema=schema, partitions=(), ordering=None)
    rows = pa.table({"id": ["x", "y", "z"], "a": [1, 2, None], "b": [10, 20, 30], "f": [1.5, float("nan"), None]})
    table.upsert(rows.cast(schema))
    table.update({"a": "b", "b": "a", "f": "f * 2"}, where="a is not null")
    assert table.read(meta=False).sort_by("id").to_pydict()["a"] == [10, 20, None]
    assert table.read(meta=False).sort_by("id").to_pydict()["b"] == [1, 2, 30]
    assert table.delete(where="f > 1000").fates == {"deletes": 1}, "NaN is greater than every number, as in Spark"
    with pytest.raises(SchemaMismatchError, match="'a'"):
        table.update({"a": "b * 1000000000"}, where="true")
    assert not table.scan(where="a / 0 > 1").to_arrow().num_rows
    table.update({"f": "b / 0"}, where="true")
    assert table.read(meta=False)["f"].null_count == 2, "a quotient by zero is null, as in a condition"
    with pytest.raises(UsageError, match=r"float|double"):
        table.update({"a": "f"}, where="true")
    assert not table.scan(where="a = 1000000000").to_arrow().num_rows


def test_an_update_encodes_what_it_sets(tmp_path: Path) -> None:
    """Columns that it does not set are copied, lists and structs too, of which nobody compares the values."""
    rows: list[dict[str, Any]] = [{"id": f"k{n}", "a": n, "b": f"b{n}", "l": [n], "s": {"x": n}} for n in range(9)]
    kinds = {"l": pa.list_(pa.int64()), "s": pa.struct({"x": pa.int64()})}
    schema = pa.schema({"id": pa.string(), "a": pa.int64(), "b": pa.string(), **kinds})
    table = lakeindex.create_table(tmp_path / "t", schema, key="id")
    table.upsert(pa.Table.from_pylist(rows, schema=schema))
    done = table.update({"a": "a + 1"}, where="a > 3")
    assert (done.updates, done.chunks_encoded, done.chunks_copied) == (5, 4, 6)  # time, number, file name, a
    assert 0 < done.bytes_copied < done.bytes_written
    found = table.read(meta=False).sort_by("id")
    assert found.to_pylist() == [row | {"a": row["a"] + (row["a"] > 3)} for row in rows]


@pytest.mark.parametrize(
    ("values", "written"),
    [
        ({"v": "s.x || case when w = 'w1' then v else 'n' end"}, ["ts", "v", "op"]),
        ({"w": None, "s": pc.field("s")}, ["ts", "w", "s", "op"]),
    ],
)
def test_rows_are_chosen_with_what_an_update_sets(tmp_path: Path, values: dict[str, Any], written: list[str]) -> None:
    """And with what says that a row goes or comes too late; the values may be computed from any column."""
    schema = pa.schema(
        {"id": pa.string(), "ts": pa.int64(), "v": pa.string(), "w": pa.string(), "s": pa.struct({"x": pa.string()}),
         "op": pa.string()}
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"id": f"k{n}", "ts": n, "v": f"v{n}", "w": f"w{n}", "s": {"x": f"x{n}"}, "op": "I"} for n in range(4)
    ]
    mark = {"hoodie.payload.delete.field": "op", "hoodie.payload.delete.marker": "D"}
    table = lakeindex.create_table(tmp_path / "t", schema, key="id", ordering="ts")
    with (tmp_path / "t/.hoodie/hoodie.properties").open("a", encoding="utf-8") as file:
        file.writelines(f"hoodie.record.merge.property.{name}={value}\n" for name, value in mark.items())
    table.upsert(pa.Table.from_pylist(rows, schema=schema))
    done = table.update(values, where="w <> 'w3'")
    assert (done.fates, done.notes) == ({"updates": 3}, ())
    for row in rows[:3]:
        new = {"v": row["s"]["x"] + (row["v"] if row["w"] == "w1" else "n")} if "v" in values else {"w": None}
        row.update(new)
    assert table.read(meta=False).sort_by("id").to_pylist() == rows
    chosen = (tmp_path / "t.lakeindex" / done.run_id).glob("chosen/*/*.arrow")
    names = [pa.ipc.open_file(file.read_bytes()).schema.names for file in chosen]
    assert names == [["_hoodie_record_key", "_hoodie_partition_path", *written]]
    assert table.update({"op": "case when id = 'k0' then 'D' else op end"}, where="true").fates == {
        "updates": 3, "deletes": 1,
    }  # fmt: skip
    assert table.read(meta=False).sort_by("id").to_pylist() == rows[1:]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({"id": "'x'"}, "'id'.*record key"),
        ({"day": "'x'"}, "'day'.*partition path"),
        ({"ts": "1"}, "'ts'.*ordering field"),
        ({"nope": "1"}, "'nope'"),
        ({"v": "1"}, "'v'.*1 is no value of the type string"),
        ({"v": "ts"}, "'v' is string.*int64"),
        ({"v": 3}, "'v' is string"),
        ({"v": "frobnicate(v)"}, "no function 'frobnicate'"),
        ({}, "sets nothing"),
    ],
)
def test_what_cannot_be_set_is_refused_by_name(tmp_path: Path, values: dict[str, Any], told: str) -> None:
    table, oracle = made(tmp_path)
    with pytest.raises(UsageError, match=told):
        table.update(values, where="true")
    assert content_of(table) == oracle.content()
    assert table.upsert(batch_of(FIRST)).updates == 24, "nothing was left behind"


TYPED = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.date32()),
        ("t", pa.timestamp("us")),
        ("z", pa.timestamp("us", "UTC")),
        ("s", pa.struct([("n", pa.int32())])),
        ("l", pa.list_(pa.date32())),
        ("m", pa.map_(pa.string(), pa.int32())),
    ]
)
NOON = dt.datetime(2026, 1, 2, 12)  # noqa: DTZ001 - one without
STORED: dict[str, list[Any]] = {
    "n": [1, 2.0, Decimal(3)],
    "f": [0.5, math.inf],
    "d": [NOON.date(), None],
    "t": [NOON],
    "z": [NOON.replace(tzinfo=dt.UTC)],
    "s": [{"n": 1}, {}],
    "l": [[NOON.date(), None]],
    "m": [[("k", 1)]],
}
LOSING: dict[str, list[Any]] = {
    "n": [1.5, Decimal("1.5")],
    "f": [1e39],
    "d": [NOON],
    "t": STORED["z"],
    "z": STORED["t"],
    "s": [{"n": 1.5}, {"o": 1}],
    "l": [[NOON]],
    "m": [{"k": 1.5}],
}
"""Of which Arrow makes other values of the columns' types."""


def test_a_constant_is_stored_as_it_is_or_not_at_all(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", schema=TYPED, partitions=(), ordering=None)
    table.upsert(pa.Table.from_pylist([{"id": "a"}], schema=TYPED))
    for name, value in ((name, value) for name, some in LOSING.items() for value in some):
        with pytest.raises(UsageError, match=f"column '{name}' is .* cannot be set to "):
            table.update({name: value}, where="true")
    assert len(table.history()) == 1
    for number in range(3):
        values = {name: some[number] for name, some in STORED.items() if number < len(some)}
        table.update(values, where="true")
        (row,) = table.read(meta=False).to_pylist()
        assert {name: row[name] for name in values} == {**values, **({"s": {"n": None}} if number == 1 else {})}


@pytest.mark.parametrize("value", ["null", "case when id = 'a' then null else 'x' end"])
def test_an_update_stores_no_null_where_none_may_be(tmp_path: Path, value: str) -> None:
    """Neither in all rows nor in one of them."""
    table = make_table(tmp_path / "t", schema=pa.schema([*SCHEMA, pa.field("must", pa.string(), nullable=False)]))
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]).append_column("must", pa.array(["m", "m"])))
    with pytest.raises(SchemaMismatchError, match="the update cannot be stored: column 'must' must not be null"):
        table.update({"must": value}, where="true")
    assert table.scan(columns=["must"]).to_arrow().column(0).to_pylist() == ["m", "m"]


def test_the_ordering_field_is_set_where_it_decides_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__write__record__merge__mode="COMMIT_TIME_ORDERING")
    table.upsert(batch_of(FIRST))
    assert table.update({"ts": "ts - 100"}, where="id = 'k9'").fates == {"updates": 1}
    assert table.scan(where="ts = -91").count() == 1


def test_a_batch_takes_the_place_of_rows(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    batch = [Row("k3", "x", 1, "older, and in its place"), Row("n", "new", 3, "n"), Row("n", "new", 2, "combined")]
    done = table.replace_where(batch_of(batch), where="ts < 6")
    without(oracle, lambda row: row.ts < 6)
    oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert (done.rows_in, done.fates) == (9, {"combined": 2, "inserts": 1, "updates": 1, "deletes": 5})
    for wrong, told in [
        (Row("m", "x", 7, "7"), "does not meet the condition ts < 6"),
        (Row("k7", "y", 3, "3"), "'k7'.*stores no key twice"),
        (Row("k0", "x", 3, "3", deleted=True), "marked as deleted"),
    ]:
        with pytest.raises(QuarantineExceededError, match=told):
            table.replace_where(batch_of([wrong]), where="ts < 6")
    assert content_of(table) == oracle.content()
    assert table.check().ok


def test_a_deletion_of_partitions_reads_no_row(tmp_path: Path) -> None:
    """The pages of all files are garbage: nobody sees it."""
    table, _ = made(tmp_path)
    for path in (tmp_path / "t").glob("*/*.parquet"):
        data = bytearray(path.read_bytes())
        footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
        data[4:footer] = b"?" * (footer - 4)
        path.write_bytes(data)
    assert table.delete(where="day in ('x', 'z')").rows_replaced == 16
    with pytest.raises(Exception, match="parquet"):
        table.delete(where="day = 'y' and v is null")


def test_a_condition_on_partitions_takes_them_whole(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    done = table.delete(where="day in ('x', 'nowhere') or day > 'y'")
    without(oracle, lambda row: row.day in "xz")
    assert content_of(table) == oracle.content()
    assert (done.operation, done.files_replaced, done.rows_replaced, done.rows_in) == ("DELETE_PARTITION", 2, 16, 0)
    assert table.delete(where="day = 'nowhere'").noop
    assert table.delete(where="true").rows_replaced == 8
    assert content_of(table) == set()
    assert table.check().ok


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "BLOOM"])
def test_paths_decide_only_where_they_say_what_the_rows_say(tmp_path: Path, index: str) -> None:
    """Under a global index a row may stay where its column does not say; a row without a value is in a folder of its own."""
    stays = {"hoodie.bloom.index.update.partition.path": "false"} if index == "GLOBAL_BLOOM" else {}
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    table.upsert(batch_of([*FIRST, Row("null", None, 1, "1")]))  # type: ignore[arg-type] # a null
    if index == "GLOBAL_BLOOM":
        table.upsert(batch_of([Row("k0", "y", 50, "stays in x")]), options=stays)
    done = table.delete(where="day = 'y'")
    assert (done.operation, done.deletes) == ("DELETE", 9 if index == "GLOBAL_BLOOM" else 8)
    assert table.scan(where="day = 'y'").count() == 0
    assert table.count() == (16 if index == "GLOBAL_BLOOM" else 17)


def test_a_batch_id_is_committed_once(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    done = table.delete(where="ts < 3", batch_id="small")
    table.upsert(batch_of([Row("late", "x", 1, "1")]))
    again = table.delete(where="ts < 3", batch_id="small")
    assert (again.noop, again.instant, again.deletes) == (True, done.instant, 3)
    assert table.scan(where="id = 'late'").count() == 1
    for other in ("ts < 4", pc.field("ts") < 3):
        with pytest.raises(BatchIdReusedError):
            table.delete(where=other, batch_id="small")
    with pytest.raises(BatchIdReusedError):
        table.update({"v": "v"}, where="ts < 3", batch_id="small")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ({}, "takes keys or a condition"),
        ({"data": batch_of(FIRST), "where": "true"}, "takes either keys or a condition"),
        ({"where": " "}, "there is no condition for the delete"),
    ],
)
def test_a_delete_takes_keys_or_a_condition(tmp_path: Path, asked: dict[str, Any], told: str) -> None:
    table, _ = made(tmp_path)
    with pytest.raises(UsageError, match=told):
        table.delete(**asked)


@pytest.mark.parametrize(
    "work",
    [
        lambda table, **more: table.delete(where="ts < 3", **more),
        lambda table, **more: table.update({"v": "'new'"}, where="ts < 3", **more),
        lambda table, **more: table.replace_where(batch_of([Row("k0", "x", 1, "1")]), where="ts < 3", **more),
        lambda table, **more: table.delete(where="day = 'x'", **more),
    ],
    ids=["delete", "update", "replace", "partitions"],
)
def test_a_dry_run_says_what_the_run_does(tmp_path: Path, work: Callable[..., Any]) -> None:
    table, oracle = made(tmp_path)
    before = sorted(path for path in tmp_path.rglob("*") if path.is_file())
    told = work(table, dry_run=True)
    assert told.dry_run
    assert not told.noop
    assert sorted(path for path in tmp_path.rglob("*") if path.is_file()) == before
    assert content_of(table) == oracle.content()
    done = work(table)
    assert (told.fates, told.rows_in, told.operation) == (done.fates, done.rows_in, done.operation)
    assert (told.rows_replaced, told.files_replaced) == (done.rows_replaced, done.files_replaced)
    assert (told.files_created, told.files_rewritten) == (done.files_created, done.files_rewritten)
    assert len(told.changes) == done.files_created + done.files_rewritten


def change(world: MemoryTable, what: str) -> Any:
    runs = {"checkpoints": f"memory://{world.name}-runs", "runner": LocalRunner(1), "options": SMALL}
    if what == "delete":
        return world.table.delete(where="ts < 3", **runs)
    if what == "update":
        return world.table.update({"v": "'new'"}, where="ts < 3", **runs)
    return world.table.replace_where(batch_of([Row("r", "x", 1, "new")]), where="ts < 3", **runs)


def changed(oracle: Oracle, what: str) -> None:
    met = [row for _, row in oracle.rows.values() if row.ts < 3]
    if what == "update":
        oracle.apply(Row(row.id, row.day, row.ts, "new") for row in met)
        return
    without(oracle, lambda row: row.ts < 3)
    if what == "replace":
        oracle.apply([Row("r", "x", 1, "new")])


MEANWHILE = [
    [Row("n", "x", 1, "new row that meets it")],
    [Row("n", "elsewhere", 1, "in a new partition")],
    [Row("k0", "x", 9, "meets it no more")],
    [Row("k3", "x", 3, "", deleted=True), Row("k5", "z", 7, "has nothing to do with it")],
    [Row("k9", "x", 9, "in a group that is rewritten")],
]


@pytest.mark.parametrize(
    ("what", "other", "when"),
    [
        (*case, (begins_to_write, writes_data)[n % 2])
        for n, case in enumerate(product(("delete", "update", "replace"), MEANWHILE))
    ],
)
@pytest.mark.few(5)
def test_rows_that_are_committed_meanwhile_are_among_them(what: str, other: list[Row], when: Any) -> None:
    """What was chosen is chosen again: nothing that meets the condition is left, or is changed that meets it no more."""
    world, oracle = MemoryTable.holding(FIRST[:12], FIRST[12:]), Oracle()
    oracle.apply(FIRST)
    happened = world.once(when, lambda: world.upsert(other, hoodie__parquet__small__file__limit="0"))
    change(world, what)
    assert happened
    oracle.apply(other)
    changed(oracle, what)
    assert content_of(world.table) == oracle.content()
    assert not world.timeline().pending
    assert world.table.check().ok


def test_each_file_that_is_committed_meanwhile_is_searched() -> None:
    """Also one behind a file without such a row."""
    world, oracle = MemoryTable("BLOOM"), Oracle()
    world.upsert(FIRST)
    other = [Row("m", "a", 9, "does not meet it"), Row("n", "elsewhere", 1, "meets it")]
    happened = world.once(writes_data, lambda: world.upsert(other))
    change(world, "delete")
    assert happened
    oracle.apply([*FIRST, *other])
    changed(oracle, "delete")
    assert content_of(world.table) == oracle.content()


def test_a_commit_that_is_taken_back_meanwhile_brings_rows_back() -> None:
    """Its rows did not meet the condition, those of before do."""
    world, oracle = MemoryTable("BLOOM"), Oracle()
    for batch in (FIRST, [Row("far", "w", 1, "meets it")]):
        world.upsert(batch)
        oracle.apply(batch)
    moved = world.upsert([Row("far", "w", 50, "does not")])
    happened = world.once(writes_data, lambda: world.table.rollback(str(moved.instant), options=OVERTAKES))
    change(world, "delete")
    assert happened
    changed(oracle, "delete")
    assert content_of(world.table) == oracle.content()


def test_a_partition_that_is_made_meanwhile_goes_too() -> None:
    world, oracle = MemoryTable.holding(FIRST), Oracle()
    oracle.apply(FIRST)

    def plans(call: Call) -> bool:
        return call.path.endswith(".replacecommit.requested")

    happened = world.once(plans, lambda: world.upsert([Row("n", "xx", 1, "1"), Row("m", "zz", 1, "1")]))
    done = world.table.delete(
        where="day < 'y'", checkpoints=f"memory://{world.name}-runs", options=SMALL, runner=LocalRunner(1)
    )
    assert happened
    oracle.apply([Row("m", "zz", 1, "1")])
    without(oracle, lambda row: row.day == "x")
    assert (done.operation, done.rows_replaced) == ("DELETE_PARTITION", 9)
    assert content_of(world.table) == oracle.content()


def test_zeros_keep_the_sign_that_is_computed(tmp_path: Path) -> None:
    """As DuckDB has it; files with and without a dictionary, a value that becomes the other zero."""
    schema = pa.schema([("id", pa.int64()), ("f", pa.float32()), ("d", pa.float64()), ("few", pa.float64())])
    table = make_table(tmp_path / "t", schema=schema, partitions=(), ordering=None)
    values = [0.0, -0.0, 1.5, None, math.nan]
    rows = pa.table([range(500), *([[values[n % 5] for n in range(500)]] * 3)], schema=schema)
    table.upsert(rows)
    for _ in range(3):
        table.update({name: f"-{name}" for name in ("f", "d", "few")}, where="id IS NOT NULL")
        rows = (
            duckdb.sql("SELECT id, -f AS f, -d AS d, -few AS few FROM rows ORDER BY id").to_arrow_table().cast(schema)
        )
        found = table.scan(columns=schema.names).to_arrow().sort_by("id")
        for name in schema.names[1:]:
            signs = [
                [None if one is None else math.copysign(1, one) for one in rows_of.column(name).to_pylist()]
                for rows_of in (found, rows)
            ]
            numbers = [
                place for place, one in enumerate(rows.column(name).to_pylist()) if one is None or not math.isnan(one)
            ]
            assert [signs[0][place] for place in numbers] == [signs[1][place] for place in numbers], name


@pytest.mark.parametrize(
    ("partitions", "fields", "why"),
    [((), "recordkey.fields=", "record key"), (("id",), "partition.fields=", "partition path")],
)
def test_a_struct_of_the_key_or_of_the_path_is_not_set(
    tmp_path: Path, partitions: tuple[str, ...], fields: str, why: str
) -> None:
    """Another writer's table: we name whole columns."""
    schema = pa.schema(
        [("st", pa.struct([("id", pa.string()), ("x", pa.int64())])), ("id", pa.string()), ("v", pa.string())]
    )
    table = make_table(tmp_path / "t", schema=schema, keys=("id",), partitions=partitions, ordering=None)
    properties = tmp_path / "t/.hoodie/hoodie.properties"
    text = properties.read_text()
    assert f"{fields}id\n" in text
    properties.write_text(text.replace(f"{fields}id\n", f"{fields}st.id\n"))
    table.upsert(pa.Table.from_pylist([{"st": {"id": "a", "x": 1}, "id": "i", "v": "1"}], schema))
    with pytest.raises(UsageError, match=f"'st'.*{why}"):
        table.update({"st": pa.scalar({"id": "b", "x": 1}, schema.field("st").type)}, where="true")
    assert table.update({"v": "'2'"}, where="st.x = 1").fates == {"updates": 1}


def test_a_partition_whose_path_decides_nothing_is_no_part_of_a_deletion_by_paths(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    opened = open_for_write(table.uri, WriteConfig())
    chooser = _by_path(opened, predicate_of("day is null or day = 'x'", opened.facts.schema))
    assert chooser is not None
    assert chooser.partitions(["x", "y", "z"]) == ["x"]
    with pytest.raises(WriteConflictError, match="made meanwhile"):
        chooser.partitions(["x", "__HIVE_DEFAULT_PARTITION__"])
    assert _by_path(opened, predicate_of("day = 'x' and ts > 3", opened.facts.schema)) is None
    assert _by_path(opened, predicate_of("day = 'x' or ts > 3", opened.facts.schema)) is None


def test_meta_columns_choose_rows_to_delete_and_none_to_replace(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    where = "_hoodie_record_key = 'k3'"
    with pytest.raises(UsageError, match="_hoodie_record_key"):
        table.replace_where(batch_of([Row("k3", "x", 9, "9")]), where=where)
    assert content_of(table) == oracle.content()
    assert table.delete(where=where).fates == {"deletes": 1}


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
def test_what_was_found_of_other_rows_is_not_taken_over(index: str) -> None:
    """As many rows are chosen again, but others: a file that did not change meanwhile is searched for these."""
    world, oracle = MemoryTable(index), Oracle()
    stays = [Row("k5", "x", 1, "old"), Row("k6", "x", 1, "kept")]
    for batch in (stays, [Row("k1", "x", 1, "kept"), Row("k9", "x", 1, "old")]):
        world.upsert(batch, hoodie__parquet__small__file__limit="0")
        oracle.apply(batch)
    other = [Row("k1", "x", 2, "old"), Row("k9", "x", 2, "kept")]
    happened = world.once(writes_data, lambda: world.upsert(other))
    runs = {"checkpoints": f"memory://{world.name}-runs", "runner": LocalRunner(1), "options": SMALL}
    done = world.table.update({"v": "'new'"}, where="v = 'old'", **runs)
    assert happened
    oracle.apply([*other, Row("k1", "x", 2, "new"), Row("k5", "x", 1, "new")])
    assert (done.updates, done.ignored) == (2, 0)
    assert content_of(world.table) == oracle.content()


@pytest.mark.parametrize(
    "comes_to_nothing",
    [
        lambda table: table.delete(where="id = 'none'", force=True),
        lambda table: table.delete(where="day = 'none'", force=True),
        lambda table: table.update({"v": "'new'"}, where="id = 'none'", force=True),
        lambda table: table.delete(pa.table({"id": ["none"], "day": ["x"]}), force=True),
        lambda table: table.upsert(batch_of([Row("k", "x", 0, "late")]), force=True),
        lambda table: table.insert(batch_of([Row("k", "x", 9, "there")]), "ignore", force=True),
    ],
)
def test_what_was_done_to_other_writers_is_noted_where_no_row_changes_too(
    tmp_path: Path, comes_to_nothing: Callable[[LakeTable], RunSummary]
) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("k", "x", 1, "1")]))
    theirs = put_pending(table)
    done = comes_to_nothing(table)
    assert done.noop
    assert [note for note in done.notes if note.startswith(f"instant {theirs} (commit) of another writer")]
    assert [one.state for one in table.history()] == ["completed"] * 2  # the rollback, and the first commit
