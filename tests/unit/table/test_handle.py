from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.errors import (
    MetadataTableError,
    OptionError,
    TableCorruptError,
    TableNotFoundError,
    TableUnsupportedError,
)
from lakeindex.model import IndexType, MergeMode
from lakeindex.options.types import CreateConfig, MetadataTablePolicy, WriteConfig
from lakeindex.table.binding import BINDING_PATH, COPY_PATH, BoundKeys
from lakeindex.table.create import CreateSpec, create_table
from lakeindex.table.handle import Table
from lakeindex.table.properties import parse_table_properties
from lakeindex.table.refusals import check_writable
from tests.folder_storage import FolderStorage
from tests.vectors_support import table_names, unpack_table

GOOD = {
    "hoodie.table.name": "t",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": "6",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "p",
    "hoodie.table.precombine.field": "ts",
}
EVENT, COMMIT = MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING
FINE = (
    '{"format":1,"index_type":"BLOOM","merge_mode":"EVENT_TIME_ORDERING","complex_key_new_encoding":null,'
    '"partition_types":null,"created_by":""}'
)
NOT_READ = {
    "hoodie.table.type": "MERGE_ON_READ",
    "hoodie.table.version": "5",
    "hoodie.timeline.layout.version": "2",
    "hoodie.table.base.file.format": "ORC",
    "hoodie.bootstrap.base.path": "s3://old",
    "hoodie.datasource.write.drop.partition.columns": "true",
}
NOT_WRITTEN = {
    "hoodie.table.cdc.enabled": "true",
    "hoodie.table.partial.update.mode": "FILL_DEFAULTS",
    "hoodie.table.recordkey.fields": "",
    "hoodie.table.keygenerator.class": "com.example.Mine",
    "hoodie.table.ordering.fields": "ts,n",
}


def open_table(name: str, folder: Path) -> Table:
    return Table.open(FolderStorage(unpack_table(name, folder)))


@pytest.mark.parametrize("name", [name for name in table_names() if "_v6_" in name and "mdt" not in name])
def test_tables_of_version_6_are_written(name: str, tmp_path: Path) -> None:
    open_table(name, tmp_path).check_writable()


@pytest.mark.parametrize("name", ["h120_v8_main", "h120_v9_main"])
def test_later_versions_are_read_and_written(name: str, tmp_path: Path) -> None:
    table = open_table(name, tmp_path)
    assert table.snapshot().base_files_all()
    table.check_writable()


def test_a_metadata_table_of_files_is_kept_or_refused(tmp_path: Path) -> None:
    table = open_table("h0150_v6_mdt", tmp_path)
    table.check_writable()
    with pytest.raises(MetadataTableError, match=r"files \(file listing\)"):
        table.check_writable(WriteConfig(metadata_table=MetadataTablePolicy.REFUSE))


def test_what_of_a_metadata_table_is_not_kept_up_is_named_with_the_way_out(tmp_path: Path) -> None:
    open_table("h120_v6_mdt", tmp_path).check_writable()
    entries = {**GOOD, "hoodie.table.metadata.partitions": "files,secondary_index_x,column_stats"}
    with pytest.raises(MetadataTableError, match=r"would leave stale: secondary_index_x \(an index\)") as caught:
        Table(FolderStorage(Path()), parse_table_properties(entries)).check_writable()
    assert "lakeindex metadata drop TABLE --partition secondary_index_x`" in str(caught.value)


def test_a_metadata_table_in_the_making_counts() -> None:
    entries = {**GOOD, "hoodie.table.metadata.partitions.inflight": "record_index"}
    with pytest.raises(MetadataTableError, match="the record index"):
        Table(FolderStorage(Path()), parse_table_properties(entries)).check_writable()


@pytest.mark.parametrize(("key", "value"), NOT_READ.items())
def test_what_is_not_read_is_refused_by_name(key: str, value: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    entries = {**GOOD, key: value}
    storage.write(".hoodie/hoodie.properties", "".join(f"{k}={v}\n" for k, v in entries.items()).encode())
    with pytest.raises(TableUnsupportedError) as caught:
        Table.open(storage)
    assert caught.value.culprit == key
    assert caught.value.hint
    assert value in str(caught.value)


@pytest.mark.parametrize(("key", "value"), NOT_WRITTEN.items())
def test_what_is_not_written_is_refused_by_name(key: str, value: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    entries = {**GOOD, key: value}
    storage.write(".hoodie/hoodie.properties", "".join(f"{k}={v}\n" for k, v in entries.items()).encode())
    table = Table.open(storage)
    with pytest.raises(TableUnsupportedError) as caught:
        table.check_writable()
    assert caught.value.culprit == key
    assert caught.value.hint


def test_a_plain_table_is_not_refused() -> None:
    check_writable(parse_table_properties(GOOD))


def test_a_table_that_does_not_say_how_it_merges_needs_the_choice_once(tmp_path: Path) -> None:
    table = open_table("h0150_v6_main", tmp_path)
    assert table.binding is None
    with pytest.raises(OptionError) as caught:
        table.bind(WriteConfig())
    assert caught.value.exit_code == 2
    for choice in MergeMode:
        assert f"-o hoodie.write.record.merge.mode={choice}" in str(caught.value)
    assert not (tmp_path / "h0150_v6_main" / BINDING_PATH).exists()

    bound = table.bind(WriteConfig(merge_mode=COMMIT))
    assert bound.binding is not None
    assert (bound.binding.merge_mode, bound.binding.index_type) == (COMMIT, IndexType.BLOOM)
    again = table.reload()
    assert again.binding == bound.binding
    assert again.bind(WriteConfig()).binding == bound.binding
    with pytest.raises(OptionError, match="bound to COMMIT_TIME_ORDERING"):
        again.bind(WriteConfig(merge_mode=EVENT))


def test_a_table_that_says_how_it_merges_needs_no_choice(tmp_path: Path) -> None:
    table = open_table("h120_v6_main", tmp_path)
    with pytest.raises(OptionError, match="bound to EVENT_TIME_ORDERING"):
        table.bind(WriteConfig(merge_mode=COMMIT))
    bound = table.bind(WriteConfig(index_type=IndexType.GLOBAL_BLOOM))
    assert bound.binding is not None
    assert (bound.binding.merge_mode, bound.binding.index_type) == (EVENT, IndexType.GLOBAL_BLOOM)
    with pytest.raises(
        OptionError, match=r"hoodie\.index\.type cannot be BLOOM: the table is bound to GLOBAL_BLOOM"
    ) as refused:
        table.reload().bind(WriteConfig(index_type=IndexType.BLOOM))
    assert "lakeindex index migrate TABLE --to BLOOM" in str(refused.value.hint)


def test_the_first_of_two_writers_binds_the_table(tmp_path: Path) -> None:
    one, other = open_table("h120_v6_main", tmp_path), Table.open(FolderStorage(tmp_path / "h120_v6_main"))
    first = one.bind(WriteConfig(index_type=IndexType.GLOBAL_BLOOM))
    with pytest.raises(OptionError, match="bound to GLOBAL_BLOOM"):
        other.bind(WriteConfig(index_type=IndexType.BLOOM))
    assert other.bind(WriteConfig()).binding == first.binding


def test_the_encoding_that_the_keys_show_is_bound(tmp_path: Path) -> None:
    table = open_table("h120_v6_main", tmp_path)
    bound = table.bind(WriteConfig(), spelling=BoundKeys(complex_key_new_encoding=True))
    assert bound.binding is not None
    assert bound.binding.complex_key_new_encoding is True
    assert bound.key_properties()["hoodie.write.complex.keygen.new.encoding"] == "true"
    with pytest.raises(OptionError, match="cannot be false: the table is bound to true"):
        table.reload().bound_for(WriteConfig(complex_key_new_encoding=False))


def test_a_bound_table_whose_properties_change_is_refused(tmp_path: Path) -> None:
    table = open_table("h120_v6_main", tmp_path)
    table.bind(WriteConfig())
    path = tmp_path / "h120_v6_main" / ".hoodie" / "hoodie.properties"
    text = path.read_text().replace("DefaultHoodieRecordPayload", "OverwriteWithLatestAvroPayload")
    path.write_text(text)
    with pytest.raises(TableUnsupportedError, match="bound to EVENT_TIME_ORDERING, but its properties now say COMMIT"):
        table.reload().bound_for(WriteConfig())


def test_a_payload_of_ones_own_is_refused_for_writing() -> None:
    entries = {**GOOD, "hoodie.compaction.payload.class": "com.example.Mine"}
    with pytest.raises(TableUnsupportedError, match=r"com\.example\.Mine"):
        Table(FolderStorage(Path()), parse_table_properties(entries)).bound_for(WriteConfig())


def test_event_time_needs_an_ordering_field() -> None:
    entries = {**GOOD, "hoodie.table.precombine.field": "", "hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
    with pytest.raises(OptionError, match="no ordering field"):
        Table(FolderStorage(Path()), parse_table_properties(entries)).bound_for(WriteConfig())


@pytest.mark.parametrize(
    "text",
    [
        "[]", "{}", '{"format": "x"}',
        FINE.replace("BLOOM", "NO"), FINE.replace("null", '"yes"', 1), FINE.replace('"partition_types":null,', ""),
    ],
)  # fmt: skip
def test_a_damaged_binding_is_named(text: str, tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("py_simple", tmp_path))
    storage.write(BINDING_PATH, text.encode())
    with pytest.raises(TableCorruptError) as caught:
        Table.open(storage)
    assert caught.value.culprit == BINDING_PATH


@pytest.mark.parametrize("text", ["", "{", FINE[:-1], "\0" * 40])
def test_a_torn_binding_says_nothing_and_the_next_write_stores_it_anew(text: str, tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("py_simple", tmp_path))
    config = WriteConfig(index_type=IndexType.SIMPLE, merge_mode=MergeMode.COMMIT_TIME_ORDERING)
    storage.write(BINDING_PATH, text.encode())
    assert Table.open(storage).binding is None
    bound = Table.open(storage).bind(config).binding
    assert Table.open(storage).binding == bound
    storage.write(BINDING_PATH, text.encode())
    assert Table.open(storage).binding == bound  # by the copy: no other write may bind another index
    Table.open(storage).bind(WriteConfig())
    storage.delete(COPY_PATH)
    assert Table.open(storage).binding == bound


@pytest.mark.parametrize("text", ["", "{", "\0" * 40])
def test_a_torn_binding_is_told_by_the_properties(text: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    table = create_table(
        storage, CreateSpec("t", ("id",), ("id",), config=CreateConfig(index_type=IndexType.GLOBAL_BLOOM))
    )
    storage.write(BINDING_PATH, text.encode())
    assert Table.open(storage).binding == table.binding


@pytest.mark.parametrize("cut", [0, 1, 60, 400, -1])
def test_creating_goes_on_where_a_power_loss_left_a_part_of_the_properties(cut: int, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    spec = CreateSpec("t", ("id", "region"), ("id",), ("region",))
    table = create_table(storage, spec)
    data = storage.read(".hoodie/hoodie.properties")
    storage.delete(BINDING_PATH)
    storage.write(".hoodie/hoodie.properties", data[:cut])
    with pytest.raises(TableNotFoundError):
        Table.open(storage)
    assert create_table(storage, spec).properties == table.properties
    assert storage.read(".hoodie/hoodie.properties") == data


def test_a_binding_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("py_simple", tmp_path))
    storage.write(BINDING_PATH, b'{"format": 3}')
    with pytest.raises(TableUnsupportedError, match="format 3"):
        Table.open(storage)


def test_bound_types_must_fit_the_partition_fields(tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("py_simple", tmp_path))
    storage.write(
        BINDING_PATH,
        FINE.replace('"partition_types":null', '"partition_types":["SIMPLE","TIMESTAMP"]').encode(),
    )
    with pytest.raises(TableCorruptError, match="1 partition fields, 2 are bound"):
        Table.open(storage)
