"""Column chunks with values that are not a number claim no least and greatest value, wherever they come from."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.operations.check_violations import Broken, Writer
from lakeindex.operations.rescale import rescale_table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import make_table
from tests.unit.operations.tables import live_files, rewrite

NAN = math.nan
SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("ts", pa.int64()),
        ("x", pa.float64()),
        ("f", pa.float32()),
        ("in", pa.struct([("a", pa.string()), ("d", pa.list_(pa.float64()))])),
        ("m", pa.map_(pa.string(), pa.float32())),
        (
            "deep",
            pa.struct(
                [("m", pa.map_(pa.string(), pa.int64())), ("s", pa.struct([("a", pa.string())])), ("d", pa.float64())]
            ),
        ),
    ]
)
FLOATS = ["x", "f", "in.d.list.element", "m.key_value.value", "deep.d"]
OPTIONS = {"lakeindex.parquet.row.group.rows": "10"}


def batch(numbers: range, nan: int | None, ts: int = 1) -> pa.Table:
    """Rows; that with the number ``nan`` has one in every leaf."""

    def value(number: int) -> float:
        return NAN if number == nan else number * 1.5

    columns: list[list[Any]] = [
        [f"k{n:03d}" for n in numbers],
        [ts] * len(numbers),
        [value(n) if n % 7 else None for n in numbers],
        [value(n) for n in numbers],
        [{"a": f"a{n}", "d": [0.5, value(n)]} if n % 5 else None for n in numbers],
        [[("k", value(n))] for n in numbers],
        [{"m": [("k", n)], "s": {"a": f"a{n}"}, "d": value(n)} for n in numbers],
    ]
    return pa.table(columns, schema=SCHEMA)


def with_ends(path: Path) -> list[set[str]]:
    """Of each row group the float columns whose statistics claim ends; all of them count nulls."""
    metadata = pq.ParquetFile(path).metadata
    found = []
    for group in range(metadata.num_row_groups):
        names = set()
        for column in range(metadata.num_columns):
            chunk = metadata.row_group(group).column(column)
            assert chunk.statistics is not None
            assert chunk.statistics.has_null_count
            if chunk.path_in_schema in FLOATS and chunk.statistics.has_min_max:
                names.add(chunk.path_in_schema)
            if chunk.path_in_schema == "id":
                assert chunk.statistics.has_min_max
        found.append(names)
    return found


def same(table: LakeTable, expected: pa.Table) -> bool:
    found = table.read(meta=True).select(SCHEMA.names).sort_by("id")
    return str(found.to_pylist()) == str(expected.sort_by("id").to_pylist())


def test_only_chunks_with_nan_have_no_ends(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partitions=(), schema=SCHEMA)
    rows = batch(range(30), 13)
    table.upsert(rows, options=OPTIONS, batch_id="one")
    (path,) = live_files(tmp_path / "t")
    assert with_ends(path) == [set(FLOATS), set(), set(FLOATS)]
    assert same(table, rows)
    # a rewrite that copies chunks, encodes some and adds a NaN elsewhere
    update = batch(range(21, 23), 22, ts=2)
    table.upsert(update, options=OPTIONS, batch_id="two")
    (path,) = live_files(tmp_path / "t")
    assert with_ends(path) == [set(FLOATS), set(), set()]
    assert same(table, pa.concat_tables([rows.slice(0, 21), update, rows.slice(23)]))
    assert table.check(deep=True).ok


def test_a_rescaled_file(tmp_path: Path) -> None:
    table = make_table(
        tmp_path / "t",
        partitions=(),
        schema=SCHEMA,
        hoodie__index__type="BUCKET",
        hoodie__bucket__index__num__buckets="2",
    )
    table.upsert(batch(range(30), 13), options=OPTIONS, batch_id="one")
    rescale_table(table.uri, LocalRunner(), buckets=1)
    path = max((tmp_path / "t").glob("*.parquet"), key=lambda one: one.name.rsplit("_", 1)[1])
    assert with_ends(path) == [set()]


def older(path: Path) -> None:
    """The file as it was written before: no checksums, and statistics that leave NaN out."""
    rewrite(path)
    assert with_ends(path) == [set(FLOATS)]


@pytest.mark.parametrize("nan", [13, None])
def test_a_chunk_of_an_older_file_is_looked_through_when_it_is_copied(tmp_path: Path, nan: int | None) -> None:
    table = make_table(tmp_path / "t", partitions=(), schema=SCHEMA)
    rows = batch(range(30), nan)
    table.upsert(rows, batch_id="one")
    (path,) = live_files(tmp_path / "t")
    older(path)
    broken = {one.culprit: one.writer for one in table.check().violations if one.kind is Broken.STATISTICS}
    assert broken == ({} if nan is None else {path.name: Writer.LAKEINDEX})
    update = batch(range(3, 4), None, ts=2)
    summary = table.upsert(update, batch_id="two")
    assert summary.chunks_copied >= len(FLOATS)
    (path,) = live_files(tmp_path / "t")
    assert with_ends(path) == [set() if nan is not None else set(FLOATS)]
    assert same(table, pa.concat_tables([rows.slice(0, 3), update, rows.slice(4)]))
    assert table.check().ok


def test_an_end_that_is_not_a_number_misleads_nobody(tmp_path: Path) -> None:
    """As writers leave it that compare with NaN: readers pass over such ends."""
    table = make_table(tmp_path / "t", partitions=(), schema=SCHEMA)
    table.upsert(batch(range(30), 13), batch_id="one")
    (path,) = live_files(tmp_path / "t")
    older(path)
    data = path.read_bytes()
    begin = -8 - int.from_bytes(data[-8:-4], "little")
    footer = data[begin:]
    for kind in ("<f", "<d"):
        assert struct.pack(kind, 43.5) in footer, "the greatest value"
        footer = footer.replace(struct.pack(kind, 43.5), struct.pack(kind, NAN))
    path.write_bytes(data[:begin] + footer)
    assert Broken.STATISTICS not in {one.kind for one in table.check().violations}


@pytest.mark.parametrize("kind", [pa.float32(), pa.float64()])
def test_an_update_may_change_the_sign_of_a_zero_alone(tmp_path: Path, kind: pa.DataType) -> None:
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("ts", pa.int64()), ("x", kind)])
    table = make_table(tmp_path / "t", schema=schema, partitions=())
    for ts, zero in enumerate((0.0, -0.0, 0.0)):
        table.upsert(pa.table([["a", "b"][: 2 - ts % 2], [ts] * (2 - ts % 2), [zero] * (2 - ts % 2)], schema=schema))
        (found,) = table.get(["a"]).rows["x"].to_pylist()
        assert math.copysign(1, found) == math.copysign(1, zero)
