"""Cures that errors name, followed: what led in a circle before. Others have their tests beside what they are about."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeindex.api.creating import create_table
from lakeindex.api.table import LakeTable
from lakeindex.errors import InvariantError, LakeIndexError, MetadataTableError, TableUnsupportedError
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.stored_indexes import inserted

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]


def doubled(folder: Path, index: str) -> LakeTable:
    table = make_table(folder, hoodie__index__type=index)
    table.upsert(batch_of(FIRST))
    inserted(table, [Row("a", "x", 2, "2")])
    return table


def follow(table: LakeTable, error: LakeIndexError) -> None:
    """The cure of keys that are stored more than once."""
    assert "lakeindex repair keys" in str(error.hint)
    assert table.repair_keys(apply=True).keys == 1


def test_an_index_and_a_record_index_can_be_built_when_keys_are_repaired(tmp_path: Path) -> None:
    table = doubled(tmp_path / "index", "RECORD_INDEX")
    with pytest.raises(InvariantError) as refused:
        table.index_build()
    follow(table, refused.value)
    assert table.index_build().rows == 2
    table = doubled(tmp_path / "metadata", "GLOBAL_SIMPLE")
    with pytest.raises(MetadataTableError) as kept:
        table.metadata_build(["record_index"])
    follow(table, kept.value)
    table.metadata_build(["record_index"])
    assert table.metadata_verify().ok


def test_buckets_can_be_divided_anew_when_keys_are_repaired(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="1")
    table.upsert(batch_of(FIRST))
    file = table.files()[0]
    inserted(table, [Row("a", "x", 2, "2")], into=file.file_id)
    with pytest.raises(LakeIndexError) as refused:
        table.rescale(2)
    follow(table, refused.value)
    assert table.rescale(2).instant is not None
    assert table.check().ok


def test_a_table_that_does_not_say_its_columns_is_made_again(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if "create.schema" not in line]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(TableUnsupportedError) as refused:
        table.upsert(batch_of(FIRST))
    assert "remove the folder" in str(refused.value.hint)
    shutil.rmtree(tmp_path / "t")
    again = create_table(str(tmp_path / "t"), SCHEMA, key="id", partition="day", ordering="ts")
    assert again.upsert(batch_of(FIRST)).inserts == 2
