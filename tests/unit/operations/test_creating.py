"""A table made from Python: of a schema, of a file, of frames; and one that is there already."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import InputError, OptionError, TableExistsError, UsageError
from lakeindex.options.option import TIMESTAMP_TEXT_OPTION, TIMESTAMP_ZONE_OPTION
from tests.cli_support import lakeindex as command
from tests.cli_support import validate

COLUMNS = pa.schema([("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())])
ROWS = pa.table({"id": ["a"], "day": ["x"], "ts": [1], "v": ["p"]}, schema=COLUMNS)
BY_TIME = {
    "hoodie.table.keygenerator.type": "TIMESTAMP",
    "hoodie.keygen.timebased.timestamp.type": "DATE_STRING",
    "hoodie.keygen.timebased.input.dateformat": "yyyy-MM-dd",
    "hoodie.keygen.timebased.output.dateformat": "yyyy",
}
SAME: dict[str, Any] = {"key": "id", "partition": "day", "ordering": "ts"}


def make(folder: Path, **changed: Any) -> lakeindex.LakeTable:
    given: dict[str, Any] = {"schema": COLUMNS, **SAME, **changed}
    return lakeindex.create_table(folder / "t", **given)


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("index", ["BLOOM", "BUCKET", "RECORD_INDEX", "SIMPLE"])
def test_a_table_is_made_and_written_to(tmp_path: Path, version: int, index: str) -> None:
    table = make(tmp_path, index=index, table_version=version)
    assert (table.count(), table.files(), table.schema) == (0, (), COLUMNS)
    assert table.upsert(ROWS).inserts == 1
    seen = table.inspect()
    assert (seen.index_type, seen.version, seen.key_fields, seen.partition_fields) == (
        index,
        version,
        ("id",),
        ("day",),
    )
    assert bool(seen.metadata_partitions) is (version > 6)


def test_python_and_the_command_line_make_the_same(tmp_path: Path) -> None:
    like = tmp_path / "like.parquet"
    pq.write_table(ROWS, like)
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    buckets = {"hoodie.bucket.index.num.buckets": 3}
    made = make(tmp_path / "one", schema=None, like=like, index="BUCKET", properties=buckets)
    done = command(
        *("create", tmp_path / "two/t", "--like", like, "--key", "id", "--partition", "day", "--ordering", "ts"),
        *("--index", "BUCKET", "-o", "hoodie.bucket.index.num.buckets=3", "--json"),
    )
    validate("create", done.json)
    assert done.json["existed"] is False
    assert made.properties == lakeindex.open_table(tmp_path / "two/t").properties


LIKES: dict[str, Any] = {
    "table": ROWS,
    "batch": ROWS.to_batches()[0],
    "reader": ROWS.to_reader(),
    "dataset": pyarrow.dataset.dataset(ROWS),
    "pandas": ROWS.to_pandas(),
    "indexed pandas": ROWS.to_pandas().set_index("id"),
    "polars": pl.from_arrow(ROWS),
    "lazy polars": pl.from_arrow(ROWS).lazy(),  # type: ignore[union-attr] # a frame
    "batches": ROWS.to_batches(),
    "rows": ROWS.to_pylist(),
}


@pytest.mark.parametrize("name", LIKES)
def test_a_table_like_a_batch_is_empty_and_takes_the_batch(tmp_path: Path, name: str) -> None:
    table = make(tmp_path, schema=None, like=LIKES[name])
    assert sorted(table.schema.names) == sorted(COLUMNS.names)
    assert table.count() == 0
    again = make(tmp_path, schema=None, like=LIKES[name], exists="ok")
    assert again == table
    assert table.upsert(ROWS).inserts == 1


def test_columns_come_once(tmp_path: Path) -> None:
    for given in ({"schema": None}, {"like": ROWS}):
        with pytest.raises(UsageError, match="columns once"):
            make(tmp_path, **given)
    with pytest.raises(UsageError, match="schema cannot be a Table") as caught:
        make(tmp_path, schema=ROWS)
    assert "like=" in str(caught.value.hint)
    with pytest.raises(InputError, match="a batch cannot be a int"):
        make(tmp_path, schema=None, like=7)
    with pytest.raises(UsageError, match="key cannot be 7"):
        make(tmp_path, key=7)
    with pytest.raises(OptionError, match="exists cannot be 'yes'") as wrong:
        make(tmp_path, exists="yes")
    assert wrong.value.hint == "valid: error | ok"
    with pytest.raises(OptionError, match=r"properties say hoodie\.index\.type=SIMPLE"):
        make(tmp_path, index="BLOOM", properties={"hoodie.index.type": "SIMPLE"})
    with pytest.raises(OptionError, match="nothing"):
        make(tmp_path, key="nothing")
    assert list(tmp_path.iterdir()) == []


def test_a_table_that_is_there_is_an_error_unless_it_is_the_same(tmp_path: Path) -> None:
    table = make(tmp_path, index="SIMPLE", table_version=8, properties={"hoodie.index.type": "simple"})
    table.upsert(ROWS)
    with pytest.raises(TableExistsError, match="there is a table"):
        make(tmp_path, index="SIMPLE", table_version=8)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    assert make(tmp_path, index="SIMPLE", table_version=8, exists="ok").count() == 1
    assert make(tmp_path, exists="ok").count() == 1, "what is not asked for is as it is"
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize(
    ("changed", "difference"),
    [
        ({"key": ["id", "v"]}, "key is to be id, v, and is id"),
        ({"partition": ()}, "partition is to be none, and is day"),
        ({"partition": "v"}, "partition is to be v, and is day"),
        ({"ordering": None}, "ordering is to be none, and is ts"),
        ({"index": "BUCKET"}, "index is to be BUCKET"),
        ({"table_version": 9}, "version is to be 9, and is 6"),
        ({"properties": {"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"}}, "merge mode is to be COMMIT"),
        ({"properties": {"hoodie.datasource.write.hive_style_partitioning": True}}, "hive-style partitions"),
        ({"properties": {"hoodie.datasource.write.partitionpath.urlencode": True}}, "escaped partition paths"),
        ({"properties": {"hoodie.populate.meta.fields": False}}, "stored meta columns is to be False"),
        ({"properties": {"hoodie.database.name": "shop"}}, "database is to be shop"),
        ({"properties": {TIMESTAMP_TEXT_OPTION: True}}, f"{TIMESTAMP_TEXT_OPTION} is to be true, and is false"),
        ({"properties": {TIMESTAMP_ZONE_OPTION: "Asia/Tokyo"}}, f"{TIMESTAMP_ZONE_OPTION} is to be Asia/Tokyo"),
        ({"properties": BY_TIME}, "time-based key options is to be"),
        ({"properties": BY_TIME}, "key generator is to be TIMESTAMP"),
        ({"schema": COLUMNS.append(pa.field("w", pa.int32()))}, "column w is asked for, and not there"),
        ({"schema": COLUMNS.remove(3)}, "column v is there, and not asked for"),
        ({"schema": COLUMNS.set(3, pa.field("v", pa.int64()))}, "column v is to be int64, and is string"),
    ],
    ids=str,
)
def test_every_difference_is_named(tmp_path: Path, changed: dict[str, Any], difference: str) -> None:
    make(tmp_path)
    with pytest.raises(TableExistsError) as caught:
        make(tmp_path, exists="ok", **changed)
    assert difference in caught.value.message


@pytest.mark.parametrize(
    "given",
    [
        {TIMESTAMP_TEXT_OPTION: True, TIMESTAMP_ZONE_OPTION: "Asia/Tokyo"},
        {"hoodie.database.name": "shop"},
        {"hoodie.datasource.write.partitionpath.urlencode": True},
    ],
    ids=str,
)
def test_what_a_table_was_made_with_is_no_difference(tmp_path: Path, given: dict[str, Any]) -> None:
    made = make(tmp_path, properties=given)
    assert make(tmp_path, properties=given, exists="ok") == made
    if "hoodie.datasource.write.partitionpath.urlencode" not in given:  # compared in any case
        assert make(tmp_path, exists="ok") == made
        other = {key: "false" if value is True else "other" for key, value in given.items()}
        with pytest.raises((TableExistsError, OptionError)):
            make(tmp_path, properties=other, exists="ok")


def test_options_of_the_index_are_compared_if_they_are_given(tmp_path: Path) -> None:
    buckets = "hoodie.bucket.index.num.buckets"
    made = make(tmp_path, index="BUCKET", properties={buckets: 3})
    made.upsert(ROWS)
    made.rescale(5)
    assert make(tmp_path, index="BUCKET", exists="ok") == made
    assert make(tmp_path, index="BUCKET", properties={buckets: 5}, exists="ok") == made
    with pytest.raises(TableExistsError, match=f"{buckets} is to be 3, and is 5"):
        make(tmp_path, index="BUCKET", properties={buckets: 3}, exists="ok")


def test_all_differences_are_in_one_message(tmp_path: Path) -> None:
    make(tmp_path)
    with pytest.raises(TableExistsError) as caught:
        make(tmp_path, exists="ok", ordering=None, index="SIMPLE", schema=COLUMNS.remove(2))
    for part in ("ordering is to be none", "index is to be SIMPLE", "column ts is there"):
        assert part in caught.value.message


def test_what_is_left_of_a_table_is_no_table(tmp_path: Path) -> None:
    table = make(tmp_path)
    table.upsert(ROWS)
    (tmp_path / "t/.hoodie/hoodie.properties").unlink()
    with pytest.raises(TableExistsError, match="but files of a table"):
        make(tmp_path, exists="ok")


def test_the_command_line_leaves_a_table_that_is_there(tmp_path: Path) -> None:
    like = tmp_path / "like.parquet"
    pq.write_table(ROWS, like)
    given = ("create", tmp_path / "t", "--like", like, "--key", "id", "--exists", "ok")
    assert "created t" in command(*given).stdout
    assert "found t" in command(*given).stdout
    assert command(*given, "--json").json["existed"] is True
    other = command(*given, "--partition", "day", "--json")
    assert (other.exit_code, other.error["class"]) == (4, "TableExistsError")


def test_many_makers_make_one(tmp_path: Path) -> None:
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: make(tmp_path, exists="ok"), range(16)))
    assert len(set(map(repr, made))) == 1
    assert made[0].upsert(pd.DataFrame(ROWS.to_pandas())).inserts == 1


def test_a_metadata_table_that_was_dropped_stays_away(tmp_path: Path) -> None:
    """A job makes sure that its table is there in every run."""
    table = make(tmp_path, table_version=9)
    table.metadata_drop()
    assert make(tmp_path, table_version=9, exists="ok").inspect().metadata_partitions, (
        "it may be of a maker that was killed"
    )
    table.upsert(ROWS)
    table.metadata_drop()
    again = make(tmp_path, table_version=9, exists="ok")
    assert again.inspect().metadata_partitions == ()


@pytest.mark.parametrize("index", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
def test_a_record_index_of_keys_that_no_file_stores_is_beside_the_metadata_table(tmp_path: Path, index: str) -> None:
    table = make(
        tmp_path, index=index, table_version=9, metadata=True, properties={"hoodie.populate.meta.fields": False}
    )
    assert "record_index" not in {one.name for one in table.metadata_status().partitions}
    assert table.index_status().index_type == index
