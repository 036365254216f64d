"""Batches that change the table's columns: by every index, job by job, beside other writers, and refused ones."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lakeindex import create_table
from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.errors import OptionError, SchemaMismatchError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.meanwhile import SMALL, MemoryTable, begins_to_write, writes_data
from tests.scheduling import some_of

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]
ADD = {"lakeindex.schema.mode": "add"}
WIDEN = {"lakeindex.schema.mode": "widen"}
INDEXES = ("BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX")


def wider(rows: list[Row], **columns: list[Any]) -> pa.Table:
    table = batch_of(rows)
    for name, values in columns.items():
        table = table.append_column(name, pa.array(values))
    return table


def rows_of(table: LakeTable, *names: str) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: tuple(row[name] for name in names) for row in table.read(meta=True).to_pylist()}


@pytest.mark.parametrize(
    ("index", "version"),
    some_of(
        [*((index, "69"[number % 2]) for number, index in enumerate(INDEXES)), ("BLOOM", "9")],
        lambda case: case[0] in ("BUCKET", "RECORD_INDEX", "BLOOM"),
        pytest.mark.slow,
    ),
)
def test_columns_are_added_and_made_wider(tmp_path: Path, index: str, version: str):
    options = {"hoodie__bucket__index__num__buckets": "2"} if index == "BUCKET" else {}
    table = make_table(tmp_path / "t", hoodie__index__type=index, hoodie__write__table__version=version, **options)
    if index.startswith("RECORD"):
        table.index_build()
    table.upsert(batch_of(FIRST))
    added = table.upsert(wider([Row("a", "x", 2, "2"), Row("n", "x", 2, "2")], e=[1, 2]), options=ADD)
    assert (added.updates, added.inserts, added.notes) == (1, 1, ("column 'e' is new: int64",))
    assert rows_of(table, "ts", "e") == {"a": (2, 1), "n": (2, 2), "b": (1, None), "c": (1, None)}
    widened = table.upsert(wider([Row("c", "y", 3, "3"), Row("a", "x", 3, "3")], e=[0.5, None]), options=WIDEN)
    assert widened.notes == ("column 'e' was int64 and is double now",)
    assert rows_of(table, "ts", "e") == {"a": (3, None), "n": (2, 2.0), "b": (1, None), "c": (3, 0.5)}
    assert table.upsert(wider([Row("b", "x", 4, "4")], e=[7]), options=WIDEN).notes == ()
    assert rows_of(table, "e")["b"] == (7.0,)
    assert table.check(deep=True).ok


def test_nothing_changes_without_being_asked(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    more = wider([Row("a", "x", 2, "2")], e=[1])
    with pytest.raises(SchemaMismatchError, match=r"no column 'e'.*schema_mode=.add."):
        table.upsert(more)
    table.upsert(more, options=ADD)
    with pytest.raises(SchemaMismatchError, match=r"'e' is double.*int64.*make the column double.*schema_mode=.widen."):
        table.upsert(wider([Row("a", "x", 3, "3")], e=[0.5]), options=ADD)
    with pytest.raises(SchemaMismatchError, match=r"'e' is string in the batch but int64") as refused:
        table.upsert(wider([Row("a", "x", 3, "3")], e=["x"]), options=WIDEN)
    assert "widen" not in str(refused.value.hint)
    with pytest.raises(SchemaMismatchError, match=r"lacks column 'e'.*partial=True") as refused:
        table.upsert(batch_of([Row("a", "x", 3, "3")]))
    assert "set.null" not in str(refused.value.hint)  # which would take the stored values
    assert len(table.history()) == 2


@pytest.mark.parametrize("write", ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table"])
def test_every_method_that_writes_a_batch_takes_the_mode_by_name(tmp_path: Path, write: str):
    table = make_table(tmp_path / "t")
    method = getattr(table, write)
    batch = wider([Row("a", "x", 1, "1")], e=[1])
    with pytest.raises(SchemaMismatchError) as refused:
        method(batch)
    assert 'with schema_mode="add" (--schema-mode add; option lakeindex.schema.mode)' in str(refused.value.hint)
    assert method(batch, schema_mode="add").notes == ("column 'e' is new: int64",)
    decimals = wider([Row("b", "new", 1, "1")], e=[0.5])
    with pytest.raises(SchemaMismatchError) as refused:
        method(decimals, options=ADD)
    assert 'make the column double with schema_mode="widen" (--schema-mode widen;' in str(refused.value.hint)
    assert method(decimals, schema_mode="widen").inserts == 1


def test_a_mode_that_is_none_names_those_that_are(tmp_path: Path):
    with pytest.raises(OptionError, match="schema_mode cannot be 'merge'") as refused:
        make_table(tmp_path / "t").upsert(batch_of(FIRST), schema_mode="merge")  # type: ignore[arg-type] # the test
    assert refused.value.hint == "valid: strict | add | widen"


def test_key_columns_keep_their_types(tmp_path: Path):
    schema = pa.schema([pa.field("id", pa.int32(), nullable=False), ("day", pa.string()), ("ts", pa.int64())])
    table = make_table(tmp_path / "t", schema=schema)
    batch = pa.table({"id": [0.5], "day": ["x"], "ts": [1]})
    with pytest.raises(SchemaMismatchError, match="'id' is double in the batch but int32"):
        table.upsert(batch, options=WIDEN)


def test_columns_that_a_batch_lacks_are_null_if_asked(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(wider(FIRST, e=[1, 2, 3]), options=ADD)
    missing = {"hoodie.write.set.null.for.missing.columns": "true"}
    table.upsert(batch_of([Row("a", "x", 2, "2"), Row("n", "x", 2, "2")]), options=missing)
    assert rows_of(table, "e") == {"a": (None,), "b": (2,), "c": (3,), "n": (None,)}
    for name in ("id", "day", "ts"):  # what makes the key, and what decides which version wins
        with pytest.raises(SchemaMismatchError, match=f"lacks column '{name}'"):
            table.upsert(batch_of([Row("a", "x", 2, "2")]).drop_columns([name]), options=missing)


def test_files_of_a_batch_may_have_different_columns(tmp_path: Path):
    table = make_table(tmp_path / "t")
    folder = tmp_path / "in"
    folder.mkdir()
    pq.write_table(wider([Row("a", "x", 1, "1")], e=pa.array([1], pa.int32())), folder / "1.parquet")
    pq.write_table(batch_of([Row("b", "x", 1, "1")]), folder / "2.parquet")
    pq.write_table(wider([Row("c", "x", 1, "1")], e=[2**40], f=["f"]), folder / "3.parquet")
    table.upsert([str(folder)], options=WIDEN)
    assert rows_of(table, "e", "f") == {"a": (1, None), "b": (None, None), "c": (2**40, "f")}


def test_new_columns_of_texts_are_typed_by_their_values(tmp_path: Path):
    table = make_table(tmp_path / "t")
    pa.csv.write_csv(wider([Row("a", "x", 1, "1")], e=[1.5]), tmp_path / "1.csv")
    row = {"id": "b", "day": "x", "ts": 1, "v": "1", "f": {"g": True}}
    (tmp_path / "2.jsonl").write_text(json.dumps(row) + "\n")
    table.upsert([str(tmp_path / "1.csv"), str(tmp_path / "2.jsonl")], options=ADD)
    assert rows_of(table, "e", "f") == {"a": (1.5, None), "b": (None, {"g": True})}


def test_job_by_job_and_again(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    pq.write_table(wider([Row("a", "x", 2, "2"), Row("n", "z", 2, "2")], e=[1, 2]), tmp_path / "in.parquet")
    options = tuple(sorted({**ADD, **SMALL}.items()))
    spec = RunSpec(
        table.uri, str(tmp_path / "runs"), "r", "b", Operation.UPSERT, (str(tmp_path / "in.parquet"),), options
    )
    for stage in Stage:
        run_stage(stage, spec, LocalRunner(1))
        if stage is not Stage.MERGE_WRITE:
            run_stage(stage, spec, LocalRunner(1))  # a retry takes over what is there
    assert rows_of(table, "e") == {"a": (1,), "b": (None,), "c": (None,), "n": (2,)}
    assert run_batch(spec, LocalRunner(1)).noop


def adding(world: MemoryTable, **column: list[Any]) -> None:
    """Somebody adds a column in the middle of a run."""
    batch = wider([Row("b", "x", 2, "theirs")], **column)
    world.table.upsert(batch, options={**ADD, "lakeindex.lock.wait": "0"}, runner=LocalRunner(1))


@pytest.mark.parametrize("when", [begins_to_write, writes_data])
def test_two_writers_that_add_a_column_at_once(when: Any):
    world = MemoryTable.holding(FIRST)
    done = world.once(when, lambda: adding(world, e=[7]))
    world.table.upsert(wider([Row("a", "x", 2, "ours")], e=[1]), options={**SMALL, **ADD}, runner=LocalRunner(1))
    assert done
    assert rows_of(world.table, "v", "e") == {"a": ("ours", 1), "b": ("theirs", 7), "c": ("1", None)}
    assert world.table.check().ok


@pytest.mark.parametrize("when", [begins_to_write, writes_data])
@pytest.mark.parametrize("may_lack", [False, True])
def test_two_writers_that_add_other_columns(when: Any, may_lack: bool):
    """The column of who was first is one that the other batch lacks."""
    world = MemoryTable.holding(FIRST)
    done = world.once(when, lambda: adding(world, f=[7]))
    batch = wider([Row("a", "x", 2, "ours")], e=[1])
    options = {**SMALL, **ADD, "hoodie.write.set.null.for.missing.columns": str(may_lack).lower()}
    if may_lack:
        world.table.upsert(batch, options=options, runner=LocalRunner(1))
        assert rows_of(world.table, "f", "e") == {"a": (None, 1), "b": (7, None), "c": (None, None)}
    else:
        with pytest.raises(SchemaMismatchError, match="lacks column 'f'"):
            world.table.upsert(batch, options=options, runner=LocalRunner(1))
        assert rows_of(world.table, "f") == {"a": (None,), "b": (7,), "c": (None,)}
    assert done
    assert world.table.check().ok


def test_a_column_that_another_writer_made_wider_meanwhile_stays_so():
    world = MemoryTable()
    world.table.upsert(wider(FIRST, e=[1, 2, 3]), options=ADD)

    def other() -> None:
        batch = wider([Row("b", "x", 2, "theirs")], e=[0.5])
        world.table.upsert(batch, options={**WIDEN, "lakeindex.lock.wait": "0"}, runner=LocalRunner(1))

    done = world.once(writes_data, other)
    world.table.upsert(wider([Row("a", "x", 2, "ours")], e=[9]), options=SMALL, runner=LocalRunner(1))
    assert done
    assert rows_of(world.table, "e") == {"a": (9.0,), "b": (0.5,), "c": (3.0,)}


def test_a_delete_changes_no_columns(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    assert table.delete(wider([Row("a", "x", 2, "2")], e=[1]), options=ADD).deletes == 1
    assert "e" not in table.read(meta=True).column_names


def test_statistics_are_defined_for_a_column_that_is_added(tmp_path: Path):
    """Hudi's next commit would define them, and readers would skip the files that have none."""
    table = make_table(tmp_path / "t", hoodie__write__table__version="9")
    table.upsert(batch_of(FIRST))
    table.metadata_build(("files", "column_stats", "partition_stats"))
    definitions = tmp_path / "t/.hoodie/.index_defs/index.json"

    def defined() -> list[str]:
        return json.loads(definitions.read_text())["indexDefinitions"]["column_stats"]["sourceFields"]

    before = defined()
    done = table.upsert(wider([Row("a", "x", 2, "2")], e=[1]), options=ADD)
    assert defined() == [*before, "e"]
    assert table.metadata_verify().ok
    assert table.scan(where="e = 1").to_arrow()["id"].to_pylist() == ["a"]
    table.rollback(done.instant or "")
    assert table.metadata_verify().ok
    assert "e" not in table.schema.names
    table.upsert(batch_of([Row("a", "x", 3, "3")]))
    assert table.metadata_verify().ok


def test_no_write_publishes_two_columns_of_one_name_but_for_case(tmp_path: Path):
    """Spark and Hudi would no longer read the table, whatever brought the second column."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    named = pa.struct([("y", pa.int32())])
    table.upsert(wider([Row("a", "x", 2, "2")], s=pa.array([{"y": 1}], named)), options=ADD)
    instants = len(table.history())
    more = batch_of([Row("a", "x", 3, "3")]).append_column("s", pa.array([{"y": 1}], named))
    twice = pa.struct([("y", pa.int32()), ("Y", pa.int32())])
    inside = more.set_column(more.num_columns - 1, "s", pa.array([{"y": 1, "Y": 2}], twice))
    listed = more.append_column("l", pa.array([[{"a": 1, "A": 1}]], pa.list_(pa.struct([("a", "i4"), ("A", "i4")]))))
    batches = {
        "ID": more.append_column("ID", pa.array(["a"])),
        "Ts": more.append_column("Ts", pa.array([1])),
        "S": more.append_column("S", pa.array([1])),
        "N": more.append_column("n", pa.array([1])).append_column("N", pa.array([1])),
        "s.Y": inside,
        "l.A": listed,
        "_HOODIE_RECORD_KEY": more.append_column("_HOODIE_RECORD_KEY", pa.array(["a"])),
        "_hoodie_Is_deleted": more.append_column("_hoodie_Is_deleted", pa.array([True])),
    }
    writes: dict[str, dict[str, Any]] = {
        "add": {"schema_mode": "add"},
        "widen": {"schema_mode": "widen"},
        "partial": {"partial": True, "schema_mode": "add"},
        "nulls": {"options": {**ADD, "hoodie.write.set.null.for.missing.columns": "true"}},
    }
    wrong = []
    for name, batch in batches.items():
        for how, said in writes.items():
            try:
                table.upsert(batch, **said)
            except SchemaMismatchError as error:
                if error.culprit != name or "upper and lower case" not in str(error.hint):
                    wrong.append((name, how, str(error)))
            else:
                wrong.append((name, how, "was written"))
    for write in (table.insert_overwrite, table.insert_overwrite_table, table.bulk_insert, table.insert):
        with pytest.raises(SchemaMismatchError, match="'ID'"):
            write(batches["ID"], schema_mode="add")
    with pytest.raises(SchemaMismatchError, match="'ID'"):
        table.replace_where(batches["ID"], where="ts > 0", schema_mode="add")
    assert wrong == []
    assert len(table.history()) == instants


def test_a_column_that_is_called_like_the_library_s_own_is_refused_by_name(tmp_path: Path):
    """What it puts beside a batch's columns would be there twice: a table that had one could not be written to."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    for name in ("_li_key", "_li_arrival", "_li_ordering_0", "_li_reason"):
        batch = wider([Row("a", "x", 2, "2")], **{name: ["why"]})
        for mode in ("strict", "add"):
            with pytest.raises(SchemaMismatchError, match=f"column '{name}' is called like") as refused:
                table.upsert(batch, schema_mode=mode)
            assert "leave out all columns that begin with '_li_'" in str(refused.value.hint)
        with pytest.raises(SchemaMismatchError, match=f"column '{name}' is called like"):
            create_table(tmp_path / "n", pa.schema([("id", pa.string()), (name, pa.string())]), key="id")
        assert table.delete(batch.slice(0, 0)).noop
    foreign = make_table(
        tmp_path / "f", schema=pa.schema([*SCHEMA, ("_seen", pa.string())]), hoodie__write__table__version="6"
    )
    foreign.upsert(wider(FIRST, _seen=[None, None, None]))
    hoodie = tmp_path / "f" / ".hoodie"
    for path in (hoodie / "hoodie.properties", *hoodie.rglob("*.commit")):
        path.write_text(path.read_text().replace("_seen", "_li_order"))
    assert foreign.get(["a"]).rows.num_rows == 1
    with pytest.raises(SchemaMismatchError, match="column '_li_order' is called like") as refused:
        foreign.upsert(batch_of(FIRST))
    assert "write to this table with Hudi" in str(refused.value.hint)


def test_a_name_in_another_case_is_said_and_only_columns_of_the_table_are_listed(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    named = batch_of([Row("a", "x", 2, "2")]).rename_columns({"id": "ID"})
    for write in (table.upsert, table.delete):
        with pytest.raises(SchemaMismatchError, match="'ID', which differs from 'id' only in") as refused:
            write(named)
        assert "call it 'id'" in str(refused.value.hint)
    lacking = wider([Row("a", "x", 2, "2")], new=[1]).drop_columns(["ts"])
    with pytest.raises(SchemaMismatchError, match="lacks column 'ts'") as refused:
        table.upsert(lacking, options=ADD)
    assert f"the table has: {', '.join(table.schema.names)};" in str(refused.value.hint)


def test_a_table_that_has_such_columns_is_not_written_again(tmp_path: Path):
    """Spark with case sensitivity, or an older release, made it."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    commit = next((tmp_path / "t" / ".hoodie").glob("*.commit"))
    said = json.loads(commit.read_text())
    schema = json.loads(said["extraMetadata"]["schema"])
    schema["fields"].append({"name": "TS", "type": ["null", "long"], "default": None})
    said["extraMetadata"]["schema"] = json.dumps(schema)
    commit.write_text(json.dumps(said))
    for write in (lambda: table.upsert(batch_of(FIRST)), table.truncate, lambda: table.delete(where="ts = 1")):
        with pytest.raises(SchemaMismatchError, match="the table has column 'TS', which differs from 'ts'"):
            write()
