"""A partitioned record index is built where the table's index is unique in each partition: Hudi 1.1 and later."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError
from lakeindex.metadata.indexed_columns import is_partitioned_index, read_definitions
from lakeindex.metadata.metadata_table import RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.operations.create_table import create_empty, create_like
from lakeindex.options.parse import parse_create_options
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from tests.builders import SCHEMA, make_table
from tests.unit.metadata.located import located

LEVEL = {"hoodie__index__type": "RECORD_LEVEL_INDEX"}
KEYS = [f"k{number:03d}" for number in range(30)]


def rows(days: list[str], version: int, keys: list[str] = KEYS) -> pa.Table:
    several = [(key, day) for day in days for key in keys]
    columns = {"id": [key for key, _ in several], "day": [day for _, day in several]}
    return pa.table({**columns, "ts": [version] * len(several), "v": [f"v{version}"] * len(several)})


def view_of(table: LakeTable) -> tuple[Table, MetadataView]:
    opened = Table.open(open_storage(table.uri))
    metadata = metadata_table_of(opened.storage, opened.properties)
    assert metadata is not None
    return opened, MetadataView.load(metadata, opened.load_timeline())


def groups_of(table: LakeTable) -> list[str]:
    return [one.file_id for one in view_of(table)[1].slices(RECORD_INDEX)]


def check_found(table: LakeTable, *days: str, keys: list[str] = KEYS) -> None:
    opened, view = view_of(table)
    for day in days:
        (file,) = opened.snapshot().base_files(day)
        found = located(view, [*keys, "nowhere"], day)
        assert {key: (one.partition, one.file_id) for key, one in found.items()} == dict.fromkeys(
            keys, (day, file.file_id)
        )
    assert table.metadata_verify().ok


@pytest.mark.parametrize("version", ["8", "9"])
def test_a_key_is_found_in_each_of_its_partitions(version: str, tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__write__table__version=version, **LEVEL)
    table.upsert(rows(["eu-1", "as_ia"], 1))
    assert table.metadata_build(["files", "record_index"]).built == ("files", "record_index")
    assert groups_of(table) == ["record-index-as%5Fia-0000-0", "record-index-eu%2D1-0000-0"]
    assert is_partitioned_index(read_definitions(open_storage(table.uri)))
    check_found(table, "eu-1", "as_ia")
    table.upsert(rows(["eu-1", "new"], 2))
    assert len(groups_of(table)) == 3
    check_found(table, "eu-1", "as_ia", "new")
    table.delete(rows(["eu-1"], 0, KEYS[:10]).select(["id", "day"]))
    table.maintain(["metadata"])
    check_found(table, "as_ia", "new")
    check_found(table, "eu-1", keys=KEYS[10:])
    table.metadata_drop([RECORD_INDEX])
    assert not is_partitioned_index(read_definitions(open_storage(table.uri)))
    table.metadata_build([RECORD_INDEX])
    check_found(table, "as_ia", "new")


def test_a_table_without_partitions_has_one_group(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", partitions=(), hoodie__write__table__version="9", **LEVEL)
    table.upsert(rows(["x"], 1))
    table.metadata_build(["files", "record_index"])
    assert groups_of(table) == ["record-index--0000-0"]
    check_found(table, "")


@pytest.mark.parametrize("version", ["6", "8", "9", "10"])
def test_create_makes_it(version: str, tmp_path: Path) -> None:
    """As far as readers know it. Of a table without rows it has no file group yet; its first commit brings them."""
    like = tmp_path / "like.parquet"
    pq.write_table(SCHEMA.empty_table(), like)
    write = {"lakeindex.table.version10": "write"}
    said = {"hoodie.index.type": "RECORD_LEVEL_INDEX", "hoodie.write.table.version": version}
    config = parse_create_options({**said, **write})
    uri = str(tmp_path / "t")
    made = create_like(uri, str(like), keys=["id"], partitions=["day"], ordering=["ts"], config=config, metadata=True)
    table = LakeTable(uri)
    assert set(made.metadata) == {"files", *(["record_index"] if version != "6" else [])}
    if version == "6":
        return
    assert groups_of(table) == []
    table.upsert(rows(["a", "b"], 1), options=write)
    check_found(table, "a", "b")


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_who_asks_for_no_metadata_table_gets_statistics_and_none(version: str, tmp_path: Path) -> None:
    made = {}
    for index in ("RECORD_LEVEL_INDEX", "RECORD_INDEX", "SIMPLE"):
        config = parse_create_options({"hoodie.index.type": index, "hoodie.write.table.version": version})
        made[index] = create_empty(
            str(tmp_path / index), SCHEMA, keys=["id"], partitions=["day"], config=config
        ).metadata
    assert made["RECORD_LEVEL_INDEX"] == made["SIMPLE"]
    assert "record_index" not in made["SIMPLE"]
    assert {*made["RECORD_INDEX"]} == {*made["SIMPLE"], *(["record_index"] if version != "6" else [])}
    assert ("column_stats" in made["SIMPLE"]) is (version != "6")


def test_version_6_has_none(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__write__table__version="6", **LEVEL)
    table.upsert(rows(["a"], 1))
    with pytest.raises(MetadataTableError, match="of version 6 cannot have a record index for each partition"):
        table.metadata_build(["files", "record_index"])
    assert not table.metadata_status().partitions


def test_other_kinds_get_a_global_one(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__write__table__version="9", hoodie__index__type="RECORD_INDEX")
    table.upsert(rows(["a"], 1))
    table.metadata_build(["files", "record_index"])
    assert groups_of(table) == [f"record-index-{number:04d}-0" for number in range(10)]
