"""What a batch id stands for: the rows in their order, whatever they come in."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.commit.run_records import RunIdentity
from lakeindex.errors import BatchIdReusedError
from lakeindex.hashing.batch_digest import NO_ROWS
from lakeindex.model import Operation
from lakeindex.run.spec import RunSpec
from lakeindex.stages.stage_input.batch_columns import rows_digest
from lakeindex.write.types.schema_fit import FittedBatch
from tests.builders import make_table

ROWS = pa.table({"id": ["a", "b", "c"], "day": ["x", "y", "x"], "ts": [1, 2, 3], "v": ["1", None, "3"]})


def written(folder: Path, name: str) -> Path:
    path = folder / name
    if name.endswith("parquet"):
        pq.write_table(ROWS, path, row_group_size=1)
    elif name.endswith("csv"):
        pa.csv.write_csv(ROWS, path)
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in ROWS.to_pylist()))
    return path


def two_files(folder: Path) -> list[Path]:
    pq.write_table(ROWS.slice(0, 1), folder / "0.parquet")
    pq.write_table(ROWS.slice(1), folder / "1.parquet")
    return [folder / "0.parquet", folder / "1.parquet"]


def sliced() -> pa.Table:
    return pa.concat_tables([ROWS, ROWS]).combine_chunks().slice(3, 3)


FORMS: dict[str, Callable[[Path], Any]] = {
    "table": lambda _: ROWS,
    "chunks": lambda _: pa.concat_tables([ROWS.slice(0, 1), ROWS.slice(1)]),
    "slice": lambda _: sliced(),
    "metadata": lambda _: ROWS.replace_schema_metadata({"pandas": "{}"}),
    "dictionaries": lambda _: ROWS.set_column(3, "v", ROWS["v"].dictionary_encode()),
    "other order of columns": lambda _: ROWS.select(["v", "ts", "day", "id"]),
    "narrow numbers": lambda _: ROWS.set_column(2, "ts", ROWS["ts"].cast(pa.int16())),
    "list": lambda _: ROWS.to_pylist(),
    "reader": lambda _: ROWS.to_reader(1),
    "generator": lambda _: iter(ROWS.to_batches(2)),
    "pandas": lambda _: ROWS.to_pandas(),
    "pandas with attrs": lambda _: with_attrs(),
    "polars": lambda _: pl.from_arrow(ROWS),
    "lazy": lambda _: pl.from_arrow(ROWS).lazy(),  # type: ignore[union-attr] # a frame
    "dataset": lambda _: pyarrow.dataset.dataset(ROWS),
    "parquet": lambda folder: written(folder, "b.parquet"),
    "csv": lambda folder: written(folder, "b.csv"),
    "json": lambda folder: written(folder, "b.jsonl"),
    "files": two_files,
}


def with_attrs() -> Any:
    frame = ROWS.to_pandas()
    frame.attrs["made"] = "today"
    return frame


def test_the_same_rows_are_the_same_batch_in_every_form(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    assert table.upsert(ROWS, batch_id="b").inserts == 3
    assert table.upsert(written(tmp_path, "first.csv"), batch_id="of a file").updates == 3
    for name, made in FORMS.items():
        for batch in ("b", "of a file"):
            assert table.upsert(made(tmp_path), batch_id=batch).noop, (name, batch)


def test_other_rows_are_another_batch(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(ROWS, batch_id="b")
    for name, other in {
        "order": ROWS.take([1, 0, 2]),
        "value": ROWS.set_column(3, "v", pa.array(["1", "", "3"])),
        "twice": pa.concat_tables([ROWS, ROWS.slice(0, 1)]),
        "fewer": ROWS.slice(1),
        "marked": ROWS.append_column("_hoodie_is_deleted", pa.array([True, None, None])),
    }.items():
        with pytest.raises(BatchIdReusedError):
            table.upsert(other, batch_id="b")
        assert len(table.history()) == 1, name
    assert table.upsert(ROWS.append_column("_hoodie_is_deleted", pa.array([False] * 3)), batch_id="b").noop
    table.upsert(ROWS.drop_columns(["v"]), batch_id="part", partial=True)
    with pytest.raises(BatchIdReusedError):  # there its nulls would be stored
        table.upsert(ROWS.set_column(3, "v", pa.nulls(3, pa.string())), batch_id="part", partial=True)


def test_a_batch_that_something_else_was_done_with_is_not_done(tmp_path: Path) -> None:
    """An id stands for what is done with the rows, too: a delete of the rows that were upserted is not done by that."""
    table = make_table(tmp_path / "t")
    done = table.upsert(ROWS, batch_id="b")
    others = (table.delete, table.insert, table.bulk_insert, table.insert_overwrite, table.insert_overwrite_table)
    for operation in others:
        with pytest.raises(BatchIdReusedError, match=r"as UPSERT, and this is [DIB]"):
            operation(ROWS, batch_id="b")
        with pytest.raises(BatchIdReusedError, match="as UPSERT"):
            operation(ROWS, batch_id="b", dry_run=True)
    assert [one.instant for one in table.history()] == [done.instant]
    assert table.upsert(ROWS, batch_id="b").noop
    table.delete(ROWS, batch_id="keys")
    with pytest.raises(BatchIdReusedError, match="as DELETE, and this is UPSERT"):
        table.upsert(ROWS, batch_id="keys")
    assert table.delete(ROWS, batch_id="keys").noop
    assert table.upsert(ROWS, batch_id="keys", force=True).inserts == 3


def test_a_batch_that_was_inserted_is_inserted_in_either_way(tmp_path: Path) -> None:
    """An import begins with a bulk insert, and once rows are there it goes on with inserts."""
    table = make_table(tmp_path / "t")
    table.bulk_insert(ROWS, batch_id="b")
    assert table.insert(ROWS, batch_id="b").noop
    assert table.bulk_insert(ROWS, batch_id="b").noop
    with pytest.raises(BatchIdReusedError, match="as BULK_INSERT, and this is UPSERT"):
        table.upsert(ROWS, batch_id="b")


def test_a_batch_of_which_nothing_tells_what_was_done_is_done(tmp_path: Path) -> None:
    """Its entry was torn, or is of a release that did not say it, and the verdict is shrunk."""
    table = make_table(tmp_path / "t")
    done = table.upsert(ROWS, batch_id="b")
    (entry,) = (tmp_path / "t/.hoodie/.lakeindex/ledger").rglob("*.json")
    said = json.loads(entry.read_text())
    for text in (json.dumps({**said, "summary": None}), ""):
        entry.write_text(text)
        for dry_run in (True, False):
            again = table.upsert(ROWS, batch_id="b", dry_run=dry_run)
            assert (again.noop, again.instant) == (True, done.instant)


def test_the_batch_is_known_when_the_table_has_other_columns(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(ROWS.to_reader(1), batch_id="b")
    more = pa.table({"id": ["z"], "day": ["x"], "ts": [9], "v": ["9"], "new": ["n"]})
    table.upsert(more, schema_mode="add")
    options = {"hoodie.write.set.null.for.missing.columns": True}
    assert table.upsert(pa.concat_tables([ROWS.slice(0, 2), ROWS.slice(2)]), batch_id="b", options=options).noop


def test_rows_that_take_the_place_of_others_are_known_in_every_form(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(ROWS)
    assert table.replace_where(ROWS, where="ts > 0", batch_id="b").updates == 3
    for name, made in FORMS.items():
        assert table.replace_where(made(tmp_path), where="ts > 0", batch_id="b").noop, name
    for other, where in ((ROWS.slice(1), "ts > 0"), (ROWS, "ts > -1")):
        with pytest.raises(BatchIdReusedError):
            table.replace_where(other, where=where, batch_id="b")


def test_what_was_written_as_it_came_still_is(tmp_path: Path) -> None:
    """Entries of older releases know a batch in memory by the bytes of its Arrow files."""
    from lakeindex.api.given_rows import RowStream, rows_in

    odd = ROWS.set_column(3, "v", ROWS["v"].cast(pa.string_view())).set_column(0, "id", ROWS["id"].dictionary_encode())
    stream = rows_in(odd.to_reader())
    assert isinstance(stream, RowStream)
    assert [str(field.type) for field in stream.schema] == ["string", "string", "int64", "string_view"]
    table = make_table(tmp_path / "t")
    run = table.upsert(odd)
    (written,) = (tmp_path / "t.lakeindex" / run.run_id).rglob("input/*/*.arrow")
    assert pa.ipc.open_file(written).schema == odd.schema


def test_digests_are_compared_by_the_algorithm_that_made_them() -> None:
    run = RunIdentity("r", "b", "content-1:aa rows-1:bb", ("cc",))
    said = {
        "content-1:aa": True,
        "content-1:asked:aa": False,
        "content-1:ab": False,
        "cc": True,
        "cd": False,
        "content-1:xx rows-1:bb": True,
        "content-1:aa rows-1:xx": True,
        "content-1:xx rows-1:yy": False,
        "rows-2:bb": None,
        "rows-2:bb content-1:aa": True,
    }
    assert {digest: run.has_input(digest) for digest in said} == said
    assert RunIdentity("r", "b", "content-1:aa").has_input("content-1:aa rows-1:bb")


def test_what_is_wrong_with_a_row_is_a_part_of_what_it_is() -> None:
    """A value that could not be read is null there, as one that is missing; and so is the mark of a delete."""
    spec = RunSpec("t", "c", "run", "batch", Operation.UPSERT, ())
    none, some = pa.nulls(3, pa.string()), pa.array([None, "no number", None])
    digests = set()
    for bad in (none, some, pa.array(["no number", None, None]), pa.array([None, "no date", None])):
        for deleted in ([False] * 3, [True, False, False], [True] * 3):
            fitted = FittedBatch(ROWS, pa.array(deleted), none)
            digests.add(rows_digest(spec, fitted, bad).text())
    assert len(digests) == 12
    fitted = FittedBatch(ROWS, pa.array([True] * 3), none)
    assert rows_digest(replace(spec, batch_id="run"), fitted, some) == NO_ROWS, "nobody asks"
