"""Refusing and dropping metadata tables."""

from pathlib import Path

import pytest

from lakeindex.errors import MetadataTableError
from lakeindex.format.properties import parse_properties
from lakeindex.options.types import MetadataTablePolicy
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.metadata_table import DROP_NOTE, check_or_drop_metadata_table, has_metadata_table
from tests.unit.commit.protocol_support import World
from tests.vectors_support import unpack_table

PATH = ".hoodie/hoodie.properties"


@pytest.mark.parametrize(("name", "lost"), [("h0150_v6_mdt", "files"), ("h120_v6_mdt", "column_stats")])
def test_a_refusal_names_what_would_be_lost(name: str, lost: str, tmp_path: Path) -> None:
    table = Table.open(open_storage(str(unpack_table(name, tmp_path))))
    before = [one.path for one in table.storage.list()]
    with pytest.raises(MetadataTableError, match=lost) as caught:
        check_or_drop_metadata_table(table, MetadataTablePolicy.REFUSE)
    assert "lakeindex.metadata.table=drop" in str(caught.value)
    assert [one.path for one in table.storage.list()] == before


@pytest.mark.parametrize("name", ["h0150_v6_mdt", "h120_v6_mdt"])
def test_dropping_leaves_the_rest_as_it_was(name: str, tmp_path: Path) -> None:
    root = unpack_table(name, tmp_path)
    table = Table.open(open_storage(str(root)))
    (root / ".hoodie/.hoodie.properties.crc").write_bytes(b"stale")
    before = parse_properties(table.storage.read(PATH))
    files = table.snapshot().base_files_all()
    properties = check_or_drop_metadata_table(table, MetadataTablePolicy.DROP)
    assert not has_metadata_table(properties)
    after = parse_properties(table.storage.read(PATH))
    dropped = ("hoodie.table.metadata.partitions", "hoodie.table.index.defs.path")
    assert {key: value for key, value in before.items() if not key.startswith(dropped)} == after
    assert not (root / ".hoodie/metadata").exists()
    assert not (root / ".hoodie/.hoodie.properties.crc").exists()
    assert not (root / ".hoodie/hoodie.properties.backup").exists()
    assert table.reload().snapshot().base_files_all() == files


def test_a_table_without_one_is_left_alone(world: World) -> None:
    before = world.store.snapshot()
    check_or_drop_metadata_table(Table.open(world.store), MetadataTablePolicy.DROP)
    assert world.store.snapshot() == before


def test_a_folder_without_a_note_of_ours_is_not_ours_to_delete(world: World) -> None:
    """Hudi makes the folder before the properties name it."""
    world.store.write(".hoodie/metadata/.hoodie/hoodie.properties", b"being built")
    check_or_drop_metadata_table(Table.open(world.store), MetadataTablePolicy.DROP)
    assert ".hoodie/metadata/.hoodie/hoodie.properties" in world.store.snapshot()
    world.store.write(DROP_NOTE, b"{}")
    check_or_drop_metadata_table(Table.open(world.store), MetadataTablePolicy.REFUSE)
    assert world.store.list(".hoodie/metadata") == []


def test_hudis_backup_is_not_removed(world: World) -> None:
    world.store.write(".hoodie/hoodie.properties.backup", b"hoodie.table.name=other\n")
    world.store.write(DROP_NOTE, b"{}")
    check_or_drop_metadata_table(Table.open(world.store), MetadataTablePolicy.REFUSE)
    assert ".hoodie/hoodie.properties.backup" in world.store.snapshot()
