"""Partial updates: what the dictionary of tests/partial_model.py does not say."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.errors import InputError, OptionError, QuarantineExceededError, SchemaMismatchError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table
from tests.golden import made_once
from tests.meanwhile import SMALL, MemoryTable, begins_to_write, writes_data

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]
KEEP = {"lakeindex.partial.update": "keep"}
OVERWRITE = {"lakeindex.partial.update": "overwrite"}
ADD = {"lakeindex.schema.mode": "add"}
WIDE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("day", pa.string()),
        pa.field("ts", pa.int64()),
        *(pa.field(f"c{n:02d}", pa.int64()) for n in range(20)),
        pa.field("must", pa.string(), nullable=False),
    ]
)


def few(ids: list[str], ts: int = 2, day: str = "x", **columns: list[Any]) -> pa.Table:
    n = len(ids)
    return pa.table({"id": ids, "day": [day] * n, "ts": [ts] * n, **columns})


def rows_of(table: LakeTable, *names: str) -> dict[str, tuple[Any, ...]]:
    return {row["id"]: tuple(row[name] for name in names) for row in table.read(meta=True).to_pylist()}


@made_once
def wide(folder: Path) -> LakeTable:
    table = make_table(folder, schema=WIDE)
    columns = {f"c{n:02d}": list(range(n, n + 50)) for n in range(20)}
    table.upsert(few([f"k{n:02d}" for n in range(50)], 1, must=["m"] * 50, **columns))
    return table


def test_columns_that_are_not_given_are_copied_as_bytes(tmp_path: Path):
    table = wide(tmp_path / "t")
    done = table.upsert(few(["k07"], c03=[-1]), partial=True)
    # the file's name, commit time and sequence number, ts and c03
    assert (done.updates, done.chunks_encoded, done.chunks_copied) == (1, 5, 5 + len(WIDE) - 5)
    assert rows_of(table, "c02", "c03", "must")["k07"] == (9, -1, "m")
    named = "c00, c01, c02, c04, c05, c06, c07, c08 and 12 more"
    assert done.notes == (f"the batch lacks {named}: kept in the rows that it updates",)
    whole = table.upsert(few(["k07"], 3, must=["n"], **{f"c{n:02d}": [0] for n in range(20)}), partial=True)
    assert whole.notes == ()
    assert table.check(deep=True).ok


def test_new_rows_that_lack_what_must_not_be_null_are_bad_rows(tmp_path: Path):
    table = wide(tmp_path / "t")
    batch = few(["k01", "new"], c01=[-1, -1])
    with pytest.raises(QuarantineExceededError, match=r"1 rows cannot be inserted, 'new'.*'must' must not be null"):
        table.upsert(batch, partial=True)
    with pytest.raises(QuarantineExceededError, match="'new'"):
        table.upsert(batch, partial=True, dry_run=True)
    assert rows_of(table, "c01")["k01"] == (2,)
    planned = table.upsert(batch, partial=True, dry_run=True, max_quarantined=1)
    done = table.upsert(batch, partial=True, max_quarantined=1)
    assert planned.fates == done.fates == {"quarantined": 1, "updates": 1}
    found = list(Path(f"{table.uri}.lakeindex").rglob("*quarantine*/*.parquet"))
    assert pq.read_table(found[-1]).column("_li_reason").to_pylist() == ["column 'must' must not be null"]
    assert rows_of(table, "c01")["k01"] == (-1,)
    both = few(["k01", "new", None], 2, c01=[-2, -2, -2])  # one that is bad by itself, and one that would be new
    with pytest.raises(QuarantineExceededError, match=r"1 rows cannot be inserted, 'new'.*2 bad rows, 1 allowed"):
        table.upsert(both, partial=True, max_quarantined=1)
    assert rows_of(table, "c01")["k01"] == (-1,)
    assert table.upsert(both, partial=True, max_quarantined=2).fates == {"quarantined": 2, "updates": 1}
    # a null that keeps is no bad row where there is something to keep
    batch = few(["k01", "new"], 3, must=[None, "n"])
    assert table.upsert(batch, partial=True, nulls="keep").fates == {"inserts": 1, "updates": 1}
    assert rows_of(table, "must", "c01")["new"] == ("n", None)
    lacking = few(["k01", "fresh"], 3, must=pa.array([None, None], pa.string()))
    with pytest.raises(QuarantineExceededError, match="'fresh' for example: column 'must' must not be null"):
        table.upsert(lacking, partial=True, nulls="keep")
    assert table.upsert(lacking, partial=True, nulls="keep", max_quarantined=1).fates == {
        "quarantined": 1,
        "updates": 1,
    }
    with pytest.raises(QuarantineExceededError, match="'must' must not be null"):
        table.upsert(few(["k01"], 4, must=pa.array([None], pa.string())), partial=True)


def test_a_row_that_moves_takes_what_was_not_given_with_it(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_SIMPLE")
    table.upsert(batch_of(FIRST))
    done = table.upsert(few(["a", "c"], 2, "y"), partial=True)
    assert done.fates == {"updates": 1, "moved": 1}
    assert rows_of(table, "_hoodie_partition_path", "ts", "v") == {
        "a": ("y", 2, "1"),
        "b": ("x", 1, "1"),
        "c": ("y", 2, "1"),
    }
    assert table.check().ok


@pytest.mark.parametrize("at_once", ["100", "5"])
def test_each_of_many_rows_that_move_takes_its_own_with_it(tmp_path: Path, at_once: str):
    """Of two files and several row groups, in another order than they are stored, beside rows that stay, in one chunk and in several."""
    options = {**SMALL, "lakeindex.chunk.rows": at_once}
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_SIMPLE")
    table.upsert(batch_of([Row(f"k{n:02d}", "xz"[n % 2], 1, str(n)) for n in range(20)]), options=options)
    order = [17, 4, 15, 2, 11, 9, 8, 0, 16, 3]
    moving = {n for n in order if n not in (2, 11)}
    days = ["y" if n in moving else "xz"[n % 2] for n in order]
    batch = pa.table({"id": [f"k{n:02d}" for n in order], "day": days, "ts": [2] * len(order)})
    done = table.upsert(batch, partial=True, options=options)
    assert done.fates == {"updates": 2, "moved": 8}
    expected = {f"k{n:02d}": ("y" if n in moving else "xz"[n % 2], 1 + (n in order), str(n)) for n in range(20)}
    assert rows_of(table, "_hoodie_partition_path", "ts", "v") == expected
    assert table.check(deep=True).ok


def test_a_null_partition_value_is_one(tmp_path: Path):
    """The partition's column is what a row's place is made of: its nulls keep nothing."""
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_SIMPLE")
    table.upsert(batch_of(FIRST))
    moved = pa.table({"id": ["a", "a"], "day": pa.array(["y", None]), "ts": [2, 3]})
    assert table.upsert(moved, partial=True, nulls="keep").fates == {"combined": 1, "moved": 1}
    assert rows_of(table, "day", "v")["a"] == (None, "1")


def test_duplicates_of_a_batch_give_their_values_where_nulls_keep(tmp_path: Path):
    table = wide(tmp_path / "t")
    rows = pa.table(
        {
            "id": ["k00"] * 3,
            "day": ["x"] * 3,
            "ts": [4, 2, 3],
            "c00": [None, 20, None],
            "c01": [41, 21, 31],
            "c02": pa.array([None, None, 32], pa.int64()),
        }
    )
    together, one_by_one = wide(tmp_path / "u"), wide(tmp_path / "w")
    assert together.upsert(rows, partial=True, nulls="keep").combined == 2
    for at in (1, 2, 0):
        one_by_one.upsert(rows.slice(at, 1), partial=True, nulls="keep")
    names = ("ts", "c00", "c01", "c02", "c03")
    assert rows_of(together, *names)["k00"] == rows_of(one_by_one, *names)["k00"] == (4, 20, 41, 32, 3)
    table.upsert(rows, partial=True)
    assert rows_of(table, *names)["k00"] == (4, None, 41, None, 3)


def test_duplicates_in_pieces_of_a_batch(tmp_path: Path):
    """An older value of one piece wins over none, and not over a newer one of another, whatever the pieces are."""
    table = wide(tmp_path / "t")
    folder = tmp_path / "in"
    folder.mkdir()
    first = few(["k00"] * 2, c00=[-1, None], c01=[-2, None])
    pq.write_table(first.set_column(2, "ts", pa.array([2, 5])), folder / "1.parquet")
    pq.write_table(few(["k00"], 3, c00=[-3]), folder / "2.parquet")
    table.upsert(str(folder), partial=True, nulls="keep")
    assert rows_of(table, "ts", "c00", "c01")["k00"] == (5, -3, -2)


@pytest.mark.parametrize("name", ["id", "day", "ts"])
def test_what_decides_cannot_be_left_out(tmp_path: Path, name: str):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    for nulls in ("keep", "overwrite"):
        with pytest.raises(SchemaMismatchError, match=f"lacks column '{name}'"):
            table.upsert(few(["a"], v=["2"]).drop_columns([name]), options={"lakeindex.partial.update": nulls})


def test_what_makes_no_sense_is_refused(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    with pytest.raises(OptionError, match=r"'keep' for INSERT, which stores whole rows"):
        table.insert(few(["n"]), options=KEEP)
    with pytest.raises(OptionError, match=r"the one keeps.*the other makes them null"):
        table.upsert(few(["a"]), options={**KEEP, "hoodie.write.set.null.for.missing.columns": True})
    with pytest.raises(OptionError, match=r"cannot be 'ignore'.*off \| overwrite \| keep"):
        table.upsert(few(["a"]), options={"lakeindex.partial.update": "ignore"})
    with pytest.raises(OptionError, match="nulls cannot be 'ignore'"):
        table.upsert(few(["a"]), partial=True, nulls="ignore")  # type: ignore[arg-type]
    for nulls in ("keep", ""):
        with pytest.raises(OptionError, match="nulls belongs to a partial update"):
            table.upsert(few(["a"]), nulls=nulls)  # type: ignore[arg-type] # what a caller without types may say
    with pytest.raises(SchemaMismatchError, match="no column 'e'"):
        table.upsert(few(["a"], e=[1]), partial=True)
    assert table.delete(few(["c"], day="y"), options=KEEP).deletes == 1


def test_files_of_other_columns(tmp_path: Path):
    table = wide(tmp_path / "t")
    folder = tmp_path / "in"
    folder.mkdir()
    pyarrow.csv.write_csv(few(["k00"], c00=[-1]), folder / "1.csv")
    pq.write_table(few(["k01"], c01=[-1]), folder / "2.parquet")
    with pytest.raises(SchemaMismatchError, match=r"1\.csv' lacks column 'c01'"):
        table.upsert(str(folder), partial=True)
    table.upsert(str(folder), partial=True, nulls="keep")
    assert rows_of(table, "c00", "c01") | {"k00": (-1, 1), "k01": (1, -1)} == rows_of(table, "c00", "c01")
    (tmp_path / "3.jsonl").write_text(json.dumps({"id": "k02", "day": "x", "ts": 2, "c02": -1}) + "\n")
    with pytest.raises(InputError, match="JSON, where a field that a line lacks cannot be told from a null"):
        table.upsert(str(tmp_path / "3.jsonl"), partial=True)
    table.upsert(str(tmp_path / "3.jsonl"), partial=True, nulls="keep")
    assert rows_of(table, "c01", "c02")["k02"] == (3, -1)


def test_job_by_job_and_again(tmp_path: Path):
    table = wide(tmp_path / "t")
    pq.write_table(few(["k00", "k01"], c01=[-1, None]), tmp_path / "in.parquet")
    options = tuple(sorted({**KEEP, **SMALL}.items()))
    spec = RunSpec(
        table.uri, str(tmp_path / "runs"), "r", "b", Operation.UPSERT, (str(tmp_path / "in.parquet"),), options
    )
    for stage in Stage:
        run_stage(stage, spec, LocalRunner(1))
        if stage is not Stage.MERGE_WRITE:
            run_stage(stage, spec, LocalRunner(1))  # a retry takes over what is there
    assert rows_of(table, "ts", "c01", "c02")["k00"] == (2, -1, 2)
    assert rows_of(table, "ts", "c01", "c02")["k01"] == (2, 2, 3)
    assert run_batch(spec, LocalRunner(1)).noop


@pytest.mark.parametrize("when", [begins_to_write, writes_data])
def test_a_column_that_another_writer_adds_meanwhile_is_kept(when: Any):
    world = MemoryTable.holding(FIRST)

    def other() -> None:
        batch = batch_of([Row("a", "x", 2, "theirs"), Row("b", "x", 2, "theirs")]).append_column("e", pa.array([7, 8]))
        world.table.upsert(batch, options={**ADD, "lakeindex.lock.wait": "0"}, runner=LocalRunner(1))

    done = world.once(when, other)
    world.table.upsert(few(["a", "n"], 3), options={**SMALL, **OVERWRITE}, runner=LocalRunner(1))
    assert done
    found = rows_of(world.table, "ts", "v", "e")
    assert found == {"a": (3, "theirs", 7), "b": (2, "theirs", 8), "c": (1, "1", None), "n": (3, None, None)}


def test_statistics_are_those_of_the_columns_that_were_kept(tmp_path: Path):
    table = make_table(tmp_path / "t", schema=WIDE, hoodie__write__table__version="9")
    columns = {f"c{n:02d}": list(range(n, n + 50)) for n in range(20)}
    table.upsert(few([f"k{n:02d}" for n in range(50)], 1, must=["m"] * 50, **columns))
    table.metadata_build(("files", "column_stats", "partition_stats"))
    table.upsert(few(["k07"], c03=[1000]), partial=True)
    assert table.metadata_verify().ok
    assert table.scan(where="c03 = 1000 AND c02 = 9").to_arrow()["id"].to_pylist() == ["k07"]
    assert table.scan(where="c04 = 53").to_arrow()["id"].to_pylist() == ["k49"]


def test_changes_are_whole_rows(tmp_path: Path):
    table = wide(tmp_path / "t")
    done = table.upsert(few(["k07"], c03=[-1]), partial=True)
    row = table.read(since=table.history()[1].instant, meta=True).to_pylist()[0]
    assert (row["_hoodie_commit_time"], row["id"], row["c02"], row["c03"]) == (done.instant, "k07", 9, -1)


def test_rows_of_dicts_update_the_same_columns(tmp_path: Path) -> None:
    """What one of them lacks would be null in the others' columns, as it was stored: files are refused so, too."""
    table = make_table(tmp_path / "t", schema=pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()),
                                                         ("a", pa.int64()), ("b", pa.string())]))  # fmt: skip
    key = {"day": "x", "ts": 2}
    table.upsert([{"id": "k", **key, "a": 1, "b": "old"}, {"id": "m", **key, "a": 1, "b": "old"}])
    rows: list[dict[str, Any]] = [{"id": "k", **key, "a": 5}, {"id": "m", **key, "b": "new"}]
    for given in ({"partial": True}, {"options": OVERWRITE}):
        with pytest.raises(InputError, match="row number 0 of the batch lacks column 'b'"):
            table.upsert(rows, **given)
    assert rows_of(table, "a", "b") == {"k": (1, "old"), "m": (1, "old")}
    table.upsert(rows, partial=True, nulls="keep")
    assert rows_of(table, "a", "b") == {"k": (5, "old"), "m": (1, "new")}
    table.upsert([{"id": "k", **key, "a": 6}, {"id": "m", **key, "_hoodie_is_deleted": True}], partial=True)
    assert rows_of(table, "a", "b") == {"k": (6, "old")}
    table.upsert([{"id": "k", **key, "a": 7}, {"id": "n", **key, "b": "x"}])  # whole rows
    assert rows_of(table, "a", "b") == {"k": (7, None), "n": (None, "x")}
