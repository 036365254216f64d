from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.errors import TableCorruptError, TableNotFoundError
from lakeindex.model import KeyGeneratorType, MergeMode
from lakeindex.storage import open_storage
from lakeindex.table.properties import TableProperties, generator_class, load_table_properties, parse_table_properties
from lakeindex.timeline.layout import TimelineLayout
from tests.builders import Row, batch_of, make_table
from tests.folder_storage import FolderStorage
from tests.vectors_support import table_names, unpack_table

NAME = {"hoodie.table.name": "t"}
PAYLOADS = "org.apache.hudi.common.model."


def parsed(**entries: str) -> TableProperties:
    return parse_table_properties({**NAME, **{key.replace("__", "."): value for key, value in entries.items()}})


def load(name: str, folder: Path) -> TableProperties:
    return load_table_properties(FolderStorage(unpack_table(name, folder)))


@pytest.mark.parametrize(("old", "new"), [("h0150_v6_main", "h120_v6_main"), ("h0150_v6_nonpart", "h120_v6_nonpart")])
def test_both_spellings_say_the_same(old: str, new: str, tmp_path: Path) -> None:
    one, other = load(old, tmp_path / "old"), load(new, tmp_path / "new")
    for name in ("name", "database", "version", "layout", "key_fields", "partition_fields", "ordering_fields",
                 "key_generator", "hive_style", "url_encode", "is_partitioned"):  # fmt: skip
        assert getattr(one, name) == getattr(other, name), name
    assert one.timeline_layout == TimelineLayout(1, ".hoodie", ".hoodie/archived")
    assert other.timeline_layout == TimelineLayout(1, ".hoodie", ".hoodie/history")
    assert one.ordering_fields == ("ts",)
    assert (one.declared_merge_mode, one.undeclared_merge) == (None, True)
    assert (other.declared_merge_mode, other.undeclared_merge) == (MergeMode.EVENT_TIME_ORDERING, False)


def test_complex_table(tmp_path: Path) -> None:
    properties = load("h0150_v6_complex", tmp_path)
    assert properties.key_generator is KeyGeneratorType.COMPLEX
    assert properties.key_fields == ("id", "k2")
    assert properties.partition_fields == ("region", "k2")
    assert properties.hive_style
    assert properties.url_encode
    assert properties.is_partitioned


@pytest.mark.parametrize("version", [8, 9])
def test_later_versions(version: int, tmp_path: Path) -> None:
    properties = load(f"h120_v{version}_main", tmp_path)
    assert (properties.version, properties.layout) == (version, 2)
    assert properties.timeline_layout == TimelineLayout(2, ".hoodie/timeline", ".hoodie/timeline/history")
    assert properties.declared_merge_mode is MergeMode.EVENT_TIME_ORDERING


def test_metadata_partitions(tmp_path: Path) -> None:
    assert load("h120_v6_mdt", tmp_path).metadata_partitions == ("column_stats", "files")
    assert load("h120_v6_main", tmp_path).metadata_partitions == ()


@pytest.mark.parametrize("name", table_names())
def test_every_table_is_understood(name: str, tmp_path: Path) -> None:
    properties = load(name, tmp_path)
    assert properties.key_generator is not None
    assert properties.table_type == "COPY_ON_WRITE"
    assert not properties.timebased


@pytest.mark.parametrize(
    ("entries", "generator"),
    [
        ({"hoodie.table.keygenerator.type": "timestamp"}, KeyGeneratorType.TIMESTAMP),
        ({"hoodie.table.keygenerator.type": "COMPLEX_AVRO"}, KeyGeneratorType.COMPLEX),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.CustomAvroKeyGenerator"}, KeyGeneratorType.CUSTOM),
        ({"hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"},
         KeyGeneratorType.TIMESTAMP),
        ({"hoodie.table.keygenerator.class": "com.example.SimpleKeyGenerator"}, None),
        ({"hoodie.table.keygenerator.type": "AUTO_RECORD"}, None),
        ({}, KeyGeneratorType.NON_PARTITION),
        ({"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "p"}, KeyGeneratorType.SIMPLE),
        ({"hoodie.table.recordkey.fields": "id,k", "hoodie.table.partition.fields": "p"}, KeyGeneratorType.COMPLEX),
        ({"hoodie.table.recordkey.fields": "id", "hoodie.table.partition.fields": "p,q"}, KeyGeneratorType.COMPLEX),
    ],
)  # fmt: skip
def test_key_generators(entries: dict[str, str], generator: KeyGeneratorType | None) -> None:
    assert parse_table_properties({**NAME, **entries}).key_generator is generator


def test_classes_and_types_name_the_same_generators() -> None:
    for kind in KeyGeneratorType:
        assert (
            parse_table_properties({**NAME, "hoodie.table.keygenerator.class": generator_class(kind)}).key_generator
            is kind
        )


def test_types_of_a_custom_key_generator() -> None:
    properties = parsed(hoodie__table__partition__fields="p:simple, q:TIMESTAMP")
    assert properties.partition_fields == ("p", "q")
    assert properties.partition_types == ("SIMPLE", "TIMESTAMP")
    assert parsed(hoodie__table__partition__fields="p,q").partition_types is None


def test_time_options_in_both_spellings() -> None:
    properties = parse_table_properties(
        {
            **NAME,
            "hoodie.deltastreamer.keygen.timebased.timestamp.type": "SCALAR",
            "hoodie.deltastreamer.keygen.timebased.timezone": "UTC",
            "hoodie.keygen.timebased.timestamp.type": "MIXED",
        }
    )
    assert properties.timebased == {"timestamp.type": "MIXED", "timezone": "UTC"}


@pytest.mark.parametrize(
    ("entries", "mode"),
    [
        ({"hoodie.compaction.payload.class": PAYLOADS + "DefaultHoodieRecordPayload"}, MergeMode.EVENT_TIME_ORDERING),
        ({"hoodie.compaction.payload.class": PAYLOADS + "EventTimeAvroPayload"}, MergeMode.EVENT_TIME_ORDERING),
        ({"hoodie.compaction.payload.class": PAYLOADS + "OverwriteWithLatestAvroPayload"},
         MergeMode.COMMIT_TIME_ORDERING),
        ({"hoodie.compaction.payload.class": "com.example.Mine"}, None),
        ({"hoodie.record.merge.strategy.id": "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"}, MergeMode.EVENT_TIME_ORDERING),
        ({"hoodie.compaction.record.merger.strategy": "ce9acb64-bde0-424c-9b91-f6ebba25356d"},
         MergeMode.COMMIT_TIME_ORDERING),
        ({"hoodie.record.merge.strategy.id": "mine"}, None),
        ({"hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
          "hoodie.compaction.payload.class": PAYLOADS + "DefaultHoodieRecordPayload"}, None),
        ({"hoodie.record.merge.mode": "CUSTOM"}, None),
    ],
)  # fmt: skip
def test_stated_merge_modes(entries: dict[str, str], mode: MergeMode | None) -> None:
    properties = parse_table_properties({**NAME, "hoodie.table.precombine.field": "ts", **entries})
    assert properties.declared_merge_mode is mode
    assert not properties.undeclared_merge


def test_without_an_ordering_field_there_is_one_merge_mode() -> None:
    assert parsed().declared_merge_mode is MergeMode.COMMIT_TIME_ORDERING


def test_several_ordering_fields() -> None:
    properties = parsed(hoodie__table__ordering__fields="a,b")
    assert properties.ordering_fields == ("a", "b")


def test_the_backup_counts_while_the_file_is_gone_or_empty(tmp_path: Path) -> None:
    storage = FolderStorage(unpack_table("py_simple", tmp_path))
    path, backup = (storage.root / ".hoodie" / name for name in ("hoodie.properties", "hoodie.properties.backup"))
    expected = load_table_properties(storage)
    path.rename(backup)
    assert load_table_properties(storage) == expected
    path.write_bytes(b"")
    assert load_table_properties(storage) == expected


@pytest.mark.parametrize("content", [None, b""])
def test_no_table(content: bytes | None, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    if content is not None:
        storage.write(".hoodie/hoodie.properties", content)
    with pytest.raises(TableNotFoundError) as caught:
        load_table_properties(storage)
    assert caught.value.culprit == storage.uri
    assert caught.value.exit_code == 4


@pytest.mark.parametrize(
    ("entries", "blamed"),
    [
        ({"hoodie.table.version": "6"}, "hoodie.table.name"),
        ({**NAME, "hoodie.table.version": "six"}, "hoodie.table.version"),
        ({**NAME, "hoodie.populate.meta.fields": "perhaps"}, "hoodie.populate.meta.fields"),
        ({**NAME, "hoodie.table.checksum": "7"}, "hoodie.table.checksum"),
        ({**NAME, "hoodie.timeline.path": "../../elsewhere"}, "hoodie.timeline.path"),
        ({**NAME, "hoodie.archivelog.folder": "/etc"}, "hoodie.archivelog.folder"),
    ],
)
def test_damage_is_named(entries: dict[str, str], blamed: str) -> None:
    with pytest.raises(TableCorruptError, match=blamed) as caught:
        parse_table_properties(entries, ".hoodie/hoodie.properties")
    assert caught.value.culprit == ".hoodie/hoodie.properties"


def test_properties_that_somebody_cut_are_those_of_a_table_that_has_commits(tmp_path: Path) -> None:
    """Without the last line they look like those of a table that is just being created; its commits tell better."""
    table = make_table(tmp_path / "t")
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    whole = path.read_text()
    cut = "\n".join(line for line in whole.splitlines() if "checksum" not in line)
    path.write_text(cut)
    with pytest.raises(TableNotFoundError):
        load_table_properties(open_storage(table.uri))
    path.write_text(whole)
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    path.write_text(cut)
    assert load_table_properties(open_storage(table.uri)).name == "t"
