"""Metadata tables as the properties have them: refused, switched on, dropped; what a kill leaves half done."""

import json
from pathlib import Path

import pytest

from lakeindex.commit.services.metadata_service import build_metadata_table, drop_metadata_table
from lakeindex.errors import MetadataTableError
from lakeindex.format.file_names import crc_path
from lakeindex.format.java_properties import parse_properties, table_checksum
from lakeindex.metadata.indexed_columns import DEFINITIONS_PATH
from lakeindex.metadata_upkeep.keeping import check_metadata_table
from lakeindex.metadata_upkeep.switch import (
    NOTE,
    begin_adding,
    begin_building,
    put_definitions,
)
from lakeindex.options.types import MetadataTablePolicy, WriteConfig
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from tests.model.power import DiskStorage
from tests.model.world import check_metadata
from tests.unit.commit.protocol_support import World
from tests.vectors_support import unpack_table

PATH = ".hoodie/hoodie.properties"
KEEP, REFUSE = (WriteConfig(metadata_table=policy) for policy in MetadataTablePolicy)


@pytest.mark.parametrize(("partitions", "policy"), [("column_stats,files", REFUSE), ("files,secondary_index_x", KEEP)])
def test_a_refusal_changes_nothing(partitions: str, policy: WriteConfig, tmp_path: Path) -> None:
    root = unpack_table("h120_v6_mdt", tmp_path)
    text = (root / PATH).read_text()
    (root / PATH).write_text(text.replace("partitions=column_stats,files", f"partitions={partitions}"))
    table = Table.open(open_storage(str(root)))
    before = [one.path for one in table.storage.list()]
    with pytest.raises(MetadataTableError, match="lakeindex metadata drop"):
        check_metadata_table(table, policy)
    assert [one.path for one in table.storage.list()] == before


@pytest.mark.parametrize("name", ["h0150_v6_mdt", "h120_v6_mdt"])
def test_dropping_leaves_the_rest_as_it_was(name: str, tmp_path: Path) -> None:
    root = unpack_table(name, tmp_path)
    table = Table.open(open_storage(str(root)))
    (root / ".hoodie/.hoodie.properties.crc").write_bytes(b"stale")
    before = parse_properties(table.storage.read(PATH))
    files = table.snapshot().base_files_all()
    assert drop_metadata_table(table) == table.properties.metadata_partitions
    assert not table.current_properties().metadata_partitions
    after = parse_properties(table.storage.read(PATH))
    dropped = ("hoodie.table.metadata.partitions", "hoodie.table.index.defs.path")
    assert {key: value for key, value in before.items() if not key.startswith(dropped)} == after
    assert not (root / ".hoodie/metadata").exists()
    assert not (root / ".hoodie/.hoodie.properties.crc").exists()
    assert not (root / ".hoodie/hoodie.properties.backup").exists()
    assert table.reload().snapshot().base_files_all() == files


def test_one_partition_may_go_alone(tmp_path: Path) -> None:
    root = unpack_table("h120_v6_mdt", tmp_path)
    table = Table.open(open_storage(str(root)))
    definitions = root / ".hoodie/.index_defs/index.json"
    definitions.parent.mkdir(exist_ok=True)
    definitions.write_text('{"indexDefinitions": {"column_stats": {}, "other": {}}}')
    assert drop_metadata_table(table, ["column_stats"]) == ("column_stats",)
    properties = check_metadata_table(table, KEEP)
    assert properties.metadata_partitions == ("files",)
    assert not (root / ".hoodie/metadata/column_stats").exists()
    assert (root / ".hoodie/metadata/files").exists()
    assert json.loads(definitions.read_text()) == {"indexDefinitions": {"other": {}}}
    with pytest.raises(MetadataTableError, match="no partition 'column_stats'"):
        drop_metadata_table(table, ["column_stats"])


def test_without_files_nothing_is_left(tmp_path: Path) -> None:
    table = Table.open(open_storage(str(unpack_table("h120_v6_mdt", tmp_path))))
    assert set(drop_metadata_table(table, ["files"])) == {"files", "column_stats"}
    assert not table.current_properties().metadata_partitions


def test_a_table_without_one_is_left_alone(world: World) -> None:
    before = world.store.snapshot()
    check_metadata_table(Table.open(world.store), KEEP)
    assert world.store.snapshot() == before


def test_a_folder_without_a_note_of_ours_is_not_ours_to_delete(world: World) -> None:
    """Hudi makes the folder before the properties name it."""
    world.store.write(".hoodie/metadata/.hoodie/hoodie.properties", b"being built")
    check_metadata_table(Table.open(world.store), KEEP)
    world.store.write(NOTE, b"")  # torn: nothing followed from it
    check_metadata_table(Table.open(world.store), KEEP)
    assert ".hoodie/metadata/.hoodie/hoodie.properties" in world.store.snapshot()
    with pytest.raises(MetadataTableError, match="a Hudi writer may be building one"):
        begin_building(world.store)
    drop_metadata_table(Table.open(world.store), host=world.host("a"))
    assert world.store.list(".hoodie/metadata") == []


def test_what_a_killed_builder_left_goes_and_can_be_built(world: World) -> None:
    begin_building(world.store)
    world.store.write(".hoodie/metadata/files/half", b"x")
    check_metadata_table(Table.open(world.store), KEEP)
    assert world.store.list(".hoodie/metadata") == []
    assert NOTE not in world.store.snapshot()
    assert build_metadata_table(Table.open(world.store), partitions=("files",), host=world.host("a")).files > 0
    check_metadata(world.store)
    entries = parse_properties(world.store.read(PATH))
    assert entries["hoodie.table.checksum"] == str(table_checksum("", entries["hoodie.table.name"])), "there was none"
    with pytest.raises(MetadataTableError, match="has a metadata table"):
        build_metadata_table(Table.open(world.store), host=world.host("b"))


def test_a_partition_is_not_added_where_something_is_in_its_place(world: World) -> None:
    build_metadata_table(Table.open(world.store), partitions=("files",), host=world.host("a"))
    world.store.write(".hoodie/metadata/record_index/half", b"x")
    with pytest.raises(MetadataTableError, match="name no partition record_index"):
        begin_adding(world.store, "record_index", "20260101000000000")
    assert NOTE not in world.store.snapshot()
    assert drop_metadata_table(Table.open(world.store), ["record_index"], host=world.host("b")) == ("record_index",)
    assert not world.store.list(".hoodie/metadata/record_index"), "what the error says helps"
    check_metadata(world.store)


def test_who_builds_and_is_overtaken_switches_nothing_on(world: World) -> None:
    """Who holds the lock then commits without a word to it."""

    def hook(call: Call) -> Fault | None:
        if call.name == "write" and call.path.endswith("hoodie.properties.backup"):
            lock = max(path for path in world.store.snapshot() if "/lock/" in path)
            number = int(lock.rpartition("/")[2].removesuffix(".json")) + 1
            world.store.hook = None
            world.store.write(f"{lock.rpartition('/')[0]}/{number:012d}.json", world.store.read(lock))
        return None

    world.store.hook = hook
    with pytest.raises(Exception, match="was taken over"):
        build_metadata_table(Table.open(world.store), partitions=("files",), host=world.host("slow"))
    assert not Table.open(world.store).properties.metadata_partitions


@pytest.mark.parametrize("note", [b'{"partitions": ["files"]}', b'{"partitions": ["files"], "whole": true}'])
def test_a_drop_that_was_cut_short_is_finished(world: World, note: bytes) -> None:
    """An earlier release's note does not say that all goes; the properties name nothing any more."""
    for path in ("files/x", ".hoodie/hoodie.properties"):
        world.store.write(f".hoodie/metadata/{path}", b"x")
    world.store.write(NOTE, note)
    check_metadata_table(Table.open(world.store), KEEP)
    assert world.store.list(".hoodie/metadata") == []
    assert NOTE not in world.store.snapshot()


def test_hudis_backup_is_not_removed(world: World) -> None:
    world.store.write(".hoodie/hoodie.properties.backup", b"hoodie.table.name=other\n")
    world.store.write(NOTE, b'{"partitions": [], "whole": true}')
    check_metadata_table(Table.open(world.store), REFUSE)
    assert ".hoodie/hoodie.properties.backup" in world.store.snapshot()


def test_a_partition_in_the_making_that_goes_is_not_named_any_more(tmp_path: Path) -> None:
    root = unpack_table("h120_v6_mdt", tmp_path)
    text = (root / PATH).read_text()
    inflight = "hoodie.table.metadata.partitions.inflight"
    (root / PATH).write_text(f"{text}{inflight}=record_index\n")
    table = Table.open(open_storage(str(root)))
    assert drop_metadata_table(table, ["record_index"]) == ("record_index",)
    properties = check_metadata_table(table, KEEP)
    assert (set(properties.metadata_partitions), properties.metadata_partitions_inflight) == (
        {"files", "column_stats"},
        (),
    )


def test_definitions_are_durable_before_anything_names_them() -> None:
    store = DiskStorage()
    store.write(DEFINITIONS_PATH, b"older")
    store.write(crc_path(DEFINITIONS_PATH), b"of the older ones")
    put_definitions(store, "{}")
    assert store.read(DEFINITIONS_PATH) == b"{}"
    assert store.is_durable(DEFINITIONS_PATH)
    assert crc_path(DEFINITIONS_PATH) not in {one.path for one in store.list()}
