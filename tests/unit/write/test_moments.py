"""What Spark stores in 96 bits is a moment in UTC at every door, whatever its year."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import SchemaMismatchError
from lakeindex.write.types.moments import MomentsFile

LOCAL, UTC = pa.timestamp("us"), pa.timestamp("us", "UTC")
_TEXTS = ("1500-01-02T03:00", "2026-03-29T02:30:00.000001", "9999-12-31")
TIMES = [*map(dt.datetime.fromisoformat, _TEXTS), None]
MOMENTS = [time and time.replace(tzinfo=dt.UTC) for time in TIMES]
KEYS = list("abcd")


def stored(times: pa.DataType = LOCAL, values: list[Any] = TIMES) -> pa.Table:
    """A column, and what it is within a list, a struct beside others, a map and a list of one size."""
    at = pa.array(values, times)
    inner = pa.struct([("x", pa.int32()), ("at", times), ("y", pa.string())])
    return pa.table(
        {
            "id": KEYS,
            "at": at,
            "l": pa.array([[one] for one in values], pa.list_(times)),
            "s": pa.array([{"x": 1, "at": one, "y": "y"} for one in values], inner),
            "m": pa.array([[("k", one)] for one in values], pa.map_(pa.string(), times)),
            "n": pa.array([1] * len(values), pa.int64()),
        }
    )


def spark_file(path: Path, rows: pa.Table | None = None) -> str:
    pq.write_table(stored() if rows is None else rows, path, use_deprecated_int96_timestamps=True, store_schema=False)
    return str(path)


def rows_of(table: LakeTable) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = table.scan().to_arrow().sort_by("id").to_pylist()
    return rows


def test_moments_of_96_bits_are_the_same_at_every_door(tmp_path: Path) -> None:
    expected = stored(UTC, MOMENTS)
    file = spark_file(tmp_path / "f.parquet")
    lakeindex.import_table(file, str(tmp_path / "imported"), key="id")
    made = lakeindex.create_table(str(tmp_path / "made"), like=file, key="id")
    beside = lakeindex.create_table(str(tmp_path / "beside"), expected.schema, key="id")
    beside.upsert(expected.slice(0, 1).set_column(5, "n", [[7]]))
    for table in (lakeindex.open_table(str(tmp_path / "imported")), made, beside):
        table.upsert(file)
        assert rows_of(table) == expected.to_pylist()
        assert table.scan().to_arrow().schema.field("at").type == UTC
    keyed = lakeindex.create_table(str(tmp_path / "keyed"), expected.select(["id", "at"]).schema, key="at")
    keyed.upsert(expected.select(["id", "at"]).slice(0, 3))
    two = Path(spark_file(tmp_path / "keys.parquet", stored().select(["at"]).slice(0, 2)))
    assert len(keyed.get(two).rows) == 2
    keyed.delete(str(two))
    assert [row["id"] for row in rows_of(keyed)] == ["c"]


def test_a_local_time_of_a_table_is_no_moment(tmp_path: Path) -> None:
    table = lakeindex.create_table(str(tmp_path / "t"), stored().schema, key="id")
    with pytest.raises(SchemaMismatchError, match=r"'at'.*time zone"):
        table.upsert(spark_file(tmp_path / "f.parquet"))


def test_base_files_with_moments_of_96_bits_hold_every_year(tmp_path: Path) -> None:
    expected = stored(UTC, MOMENTS)
    table = lakeindex.create_table(str(tmp_path / "t"), expected.schema, key="id")
    table.upsert(expected)
    (file,) = Path(table.uri).glob("*.parquet")
    of_footer = pq.read_metadata(file).metadata
    kept = {name: of_footer[name] for name in of_footer if name.startswith(b"hoodie") or b"bloom" in name}
    spark_file(file, pq.read_table(file).replace_schema_metadata(kept))
    assert rows_of(table) == expected.to_pylist()
    changed = expected.slice(0, 1).set_column(5, "n", [[7]])
    table.upsert(changed)
    assert rows_of(table) == [*changed.to_pylist(), *expected.slice(1).to_pylist()]


def test_pieces_of_a_file_are_moments_too(tmp_path: Path) -> None:
    file = spark_file(tmp_path / "f.parquet", pa.table({"at": stored()["at"], "l": pa.array(TIMES, LOCAL)}))
    opened = MomentsFile(file)
    wanted = opened.schema_arrow.empty_table().schema
    assert wanted.types == [UTC, UTC]
    assert opened.read_row_group(0, columns=["l"]).schema.types == [UTC]
    assert pa.Table.from_batches(opened.iter_batches(batch_size=3)).to_pydict() == {"at": MOMENTS, "l": MOMENTS}
    pq.write_table(pa.table({"l": pa.array(TIMES, LOCAL)}), tmp_path / "local.parquet")
    assert MomentsFile(str(tmp_path / "local.parquet")).schema_arrow.types == [LOCAL]


def test_dictionaries_inside_of_columns_are_read_from_several_row_groups(tmp_path: Path) -> None:
    """pyarrow alone reads them from one row group at a time."""
    coded = pa.array(["a", "b", "a", None]).dictionary_encode()
    columns = {
        "struct": pa.StructArray.from_arrays([coded], names=["x"]),
        "list": pa.ListArray.from_arrays([0, 1, 2, 3, 4], coded),
        "map": pa.MapArray.from_arrays([0, 1, 2, 3, 4], ["k"] * 4, coded),
    }
    rows = pa.table({"id": list("abcd"), **columns})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path, row_group_size=2)
    table = lakeindex.create_table(tmp_path / "t", like=path, key="id")
    assert table.upsert(path).inserts == 4
    assert table.read(meta=False).sort_by("id").to_pylist() == rows.to_pylist()
    assert table.get(path).rows.num_rows == 4
    assert lakeindex.import_table(path, tmp_path / "i", key="id").inserted == 4
    reader = MomentsFile(path)
    assert pa.Table.from_batches(reader.iter_batches(3)).to_pylist() == rows.to_pylist()
    assert reader.read(["id", "list"]).num_rows == reader.read_row_groups([0, 1], ["list"]).num_rows == 4
    pq.write_table(rows.slice(0, 0), path)
    assert MomentsFile(path).read().equals(rows.slice(0, 0))
    assert table.upsert(path).noop
