"""A batch that lacks columns: what is advised works, and what would take stored values is not advised."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import SchemaMismatchError
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.golden import made_once

FIRST = [Row("a", "x", 1, "1"), Row("b", "y", 1, "2")]
NULL = "hoodie.write.set.null.for.missing.columns"


@made_once
def started(folder: Path) -> LakeTable:
    table = make_table(folder)
    table.upsert(batch_of(FIRST))
    return table


def refused(write: object, *given: object, **arguments: object) -> SchemaMismatchError:
    with pytest.raises(SchemaMismatchError) as raised:
        write(*given, **arguments)  # type: ignore[operator] # a method of the table
    return raised.value


def test_the_batchs_own_columns_are_shown_and_a_partial_update_keeps_what_is_stored(tmp_path: Path) -> None:
    table = started(tmp_path / "t")
    batch = pa.table({"id": ["a"], "day": ["x"], "ts": [2]})
    error = refused(table.upsert, batch)
    assert error.message == "the batch lacks column 'v'; it has: id, day, ts"
    assert "partial=True (--partial" in str(error.hint)
    assert NULL not in str(error.hint)
    assert table.upsert(batch, partial=True).updates == 1
    assert table.scan(columns=["v"], where="id = 'a'").to_arrow().column("v").to_pylist() == ["1"]


def test_columns_that_decide_are_needed_and_no_option_is_advised(tmp_path: Path) -> None:
    """Of an upsert, also a partial one and one that makes nulls, an insert and a delete."""
    table = started(tmp_path / "t")
    whole = batch_of([Row("n", "x", 2, "2")]).drop_columns(["_hoodie_is_deleted"])
    asked = [
        (name, write, given)
        for name in ("id", "day", "ts")
        for write, given in (
            (table.upsert, {}),
            (table.upsert, {"partial": True}),
            (table.upsert, {"options": {NULL: "true"}}),
            (table.insert, {}),
            (table.delete, {}),
        )
        if not (name == "ts" and write == table.delete)
    ]
    for name, write, given in asked:
        error = refused(write, whole.drop_columns([name]), **given)
        assert f"lacks column '{name}'" in error.message
        assert "it has: " in error.message
        assert f"every row needs '{name}'" in str(error.hint), (name, given)
        assert NULL not in str(error.hint)
        assert "partial" not in str(error.hint)


MARKED = {
    "arrow": lambda folder, rows: rows,
    "parquet": lambda folder, rows: pq.write_table(rows, folder / "b.parquet") or str(folder / "b.parquet"),
    "json": lambda folder, rows: write_lines(folder / "b.jsonl", rows),
    "csv": lambda folder, rows: pyarrow.csv.write_csv(rows, folder / "b.csv") or str(folder / "b.csv"),
}


def write_lines(path: Path, rows: pa.Table) -> str:
    lines = [{name: one for name, one in row.items() if one is not None} for row in rows.to_pylist()]
    path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return str(path)


@pytest.mark.parametrize("form", MARKED)
def test_a_marked_delete_needs_no_value_where_no_null_may_be(tmp_path: Path, form: str) -> None:
    """A row beside it that is not marked needs one."""
    columns = pa.schema([*SCHEMA, pa.field("must", pa.string(), nullable=False)])
    table = make_table(tmp_path / "t", schema=columns)
    table.upsert(batch_of(FIRST).append_column("must", pa.array(["m", "m"])))
    batch = batch_of([Row("a", "x", 2, None, deleted=True), Row("c", "y", 2, "3")])
    batch = batch.append_column("must", pa.array([None, None], pa.string()))
    given = MARKED[form](tmp_path, batch)
    done = table.upsert(given, max_quarantined=1)
    assert done.fates == {"quarantined": 1, "deletes": 1}
    assert table.scan(columns=["id"]).to_arrow().column(0).to_pylist() == ["b"]


def test_where_no_row_is_updated_columns_become_null(tmp_path: Path) -> None:
    table = started(tmp_path / "t")
    batch = pa.table({"id": ["n"], "day": ["x"], "ts": [2]})
    for number, write in enumerate((table.insert, table.insert_overwrite)):
        new = batch.set_column(0, "id", pa.array([f"n{number}"]))
        error = refused(write, new)
        assert f"with {NULL}=true" in str(error.hint)
        assert write(new, options={NULL: "true"}).inserts == 1
    merged = refused(table.upsert, batch, merge=lambda old, new: new)
    assert f"with {NULL}=true" in str(merged.hint)
    assert table.upsert(batch, merge=lambda old, new: new, options={NULL: "true"}).inserts == 1


def test_a_name_that_looks_like_a_missing_one(tmp_path: Path) -> None:
    table = started(tmp_path / "t")
    batch = pa.table({"id": ["a"], "dya": ["x"], "ts": [2], "v": ["3"]})
    error = refused(table.upsert, batch)
    assert "'dya' looks like 'day'" in str(error.hint)
    assert table.upsert(batch.rename_columns({"dya": "day"})).updates == 1


@pytest.mark.parametrize(("sign", "said"), [(";", "';'"), ("\t", "'tab'"), ("|", "'|'")])
def test_a_csv_file_with_another_delimiter(tmp_path: Path, sign: str, said: str) -> None:
    table = started(tmp_path / "t")
    path = tmp_path / "rows.csv"
    path.write_text("".join(f"{sign.join(row)}\n" for row in (("id", "day", "ts", "v"), ("a", "x", "2", "3"))))
    error = refused(table.upsert, path)
    assert "the header is one column" in str(error.hint)
    assert f"lakeindex.csv.delimiter={said}" in str(error.hint)
    assert table.upsert(path, options={"lakeindex.csv.delimiter": said.strip("'")}).updates == 1
