from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from lakeindex.errors import ObjectExistsError, OptionError, StorageError, TableExistsError, UnknownOutcomeError
from lakeindex.format.java_properties import parse_properties
from lakeindex.model import IndexType, KeyGeneratorType, MergeMode
from lakeindex.options.option import TABLE_VERSION_OPTION, TABLE_VERSIONS, VERSION10_OPTION
from lakeindex.options.option_table import CREATE_OPTIONS, options_table
from lakeindex.options.parse import parse_create_options, parse_options
from lakeindex.options.types import CreateConfig, WriteConfig
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.binding import BINDING_PATH, BINDING_PROPERTY, parse_binding
from lakeindex.table.create import CreateSpec, create_table, table_name_of
from lakeindex.table.handle import Table
from lakeindex.timeline.layout import VERSIONS
from tests.folder_storage import FolderStorage
from tests.vectors_support import unpack_table

SPEC = CreateSpec("t", ("id", "k2", "region", "ts", "val"), ("id",), ("region",), ("ts",))
EVENT, COMMIT = MergeMode.EVENT_TIME_ORDERING, MergeMode.COMMIT_TIME_ORDERING
TIMES = {
    "hoodie.keygen.timebased.timestamp.type": "EPOCHMILLISECONDS",
    "hoodie.keygen.timebased.output.dateformat": "yyyy/MM/dd HH:mm",
}


def spec_with(*, options: dict[str, str] | None = None, **changes: object) -> CreateSpec:
    changed = replace(SPEC, **changes)  # type: ignore[arg-type]  # a test names fields by keyword
    return replace(changed, config=parse_create_options(options or {}))


def entries_of(table: Table) -> dict[str, str]:
    return parse_properties(table.storage.read(".hoodie/hoodie.properties"))


def test_a_new_table(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    table = create_table(storage, SPEC)
    assert table == Table.open(storage)
    properties = table.properties
    assert (properties.name, properties.version, properties.layout, properties.timezone) == ("t", 6, 1, "UTC")
    assert (properties.key_fields, properties.partition_fields) == (("id",), ("region",))
    assert properties.ordering_fields == ("ts",)
    assert properties.key_generator is KeyGeneratorType.SIMPLE
    assert properties.declared_merge_mode is EVENT
    assert table.binding is not None
    assert (table.binding.index_type, table.binding.merge_mode) == (IndexType.BLOOM, EVENT)
    assert table.binding.created_by.startswith("lakeindex ")
    table.check_writable()
    assert table.load_timeline().instants == ()
    assert table.snapshot().base_files_all() == ()
    assert table.bind(WriteConfig()).binding == table.binding
    assert parse_binding(storage.read(BINDING_PATH), BINDING_PATH) == table.binding


def test_a_new_table_is_durable_before_it_is_told() -> None:
    storage = MemoryStorage()
    create_table(storage, SPEC)
    assert ".hoodie/hoodie.properties" in storage.synced


def test_what_hudi_reads_is_in_both_spellings(tmp_path: Path) -> None:
    entries = entries_of(create_table(FolderStorage(tmp_path), SPEC))
    assert entries["hoodie.table.precombine.field"] == entries["hoodie.table.ordering.fields"] == "ts"
    assert entries["hoodie.table.keygenerator.class"] == "org.apache.hudi.keygen.SimpleKeyGenerator"
    assert entries["hoodie.table.keygenerator.type"] == "SIMPLE"
    assert entries["hoodie.compaction.payload.class"] == "org.apache.hudi.common.model.DefaultHoodieRecordPayload"
    assert entries["hoodie.record.merge.strategy.id"] == "eeb8d96f-b1e4-49fd-bbf8-28ac514178e5"
    assert "hoodie.record.merge.mode" not in entries, "Hudi drops it from tables of version 6"


@pytest.mark.parametrize("name", ["h0150_v6_main", "h120_v6_main"])
def test_every_property_that_hudi_writes_is_there_and_equal(name: str, tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path / "new")
    ours = entries_of(create_table(storage, replace(SPEC, name="main")))
    theirs = parse_properties((unpack_table(name, tmp_path) / ".hoodie" / "hoodie.properties").read_bytes())
    different = {key for key in theirs if ours.get(key) != theirs[key]}
    assert different <= {
        "hoodie.table.timeline.timezone",  # theirs is LOCAL, ours UTC
        "hoodie.archivelog.folder",  # 1.2 says history, a name of the later layout
        "hoodie.timeline.path",
        "hoodie.timeline.history.path",
        "hoodie.table.format",
        "hoodie.table.partition_extractor_class",
    }


def test_commit_time_ordering(tmp_path: Path) -> None:
    table = create_table(
        FolderStorage(tmp_path), spec_with(options={"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"})
    )
    entries = entries_of(table)
    assert entries["hoodie.compaction.payload.class"].endswith(".OverwriteWithLatestAvroPayload")
    assert entries["hoodie.record.merge.strategy.id"] == "ce9acb64-bde0-424c-9b91-f6ebba25356d"
    assert table.properties.declared_merge_mode is COMMIT
    assert table.binding is not None
    assert table.binding.merge_mode is COMMIT


def test_without_an_ordering_field_commit_time_decides(tmp_path: Path) -> None:
    table = create_table(FolderStorage(tmp_path), spec_with(ordering_fields=()))
    assert table.binding is not None
    assert table.binding.merge_mode is COMMIT
    assert "hoodie.table.precombine.field" not in entries_of(table)


@pytest.mark.parametrize(
    ("keys", "partitions", "generator"),
    [
        (("id",), (), KeyGeneratorType.NON_PARTITION),
        (("id", "k2"), (), KeyGeneratorType.NON_PARTITION),
        (("id",), ("region",), KeyGeneratorType.SIMPLE),
        (("id", "k2"), ("region",), KeyGeneratorType.COMPLEX),
    ],
)
def test_the_key_generator_follows_from_the_fields(
    keys: tuple[str, ...], partitions: tuple[str, ...], generator: KeyGeneratorType, tmp_path: Path
) -> None:
    table = create_table(FolderStorage(tmp_path), spec_with(key_fields=keys, partition_fields=partitions))
    assert table.properties.key_generator is generator
    assert ("hoodie.table.partition.fields" in entries_of(table)) == bool(partitions)
    assert table.binding is not None
    assert table.binding.complex_key_new_encoding is None, "releases agree on keys of two fields, and on simple ones"


ONE_FIELD_COMPLEX = [
    (("region", "k2"), {}),
    (("region",), {"hoodie.table.keygenerator.type": "COMPLEX"}),
]


@pytest.mark.parametrize(("partitions", "options"), ONE_FIELD_COMPLEX)
def test_the_encoding_of_a_one_field_complex_key_is_asked_for(
    partitions: tuple[str, ...], options: dict[str, str], tmp_path: Path
) -> None:
    with pytest.raises(OptionError, match=r"`value` by Hudi 0\.15 and as `id:value` by Hudi 1\.2") as caught:
        create_table(FolderStorage(tmp_path), spec_with(options=options, partition_fields=partitions))
    assert caught.value.exit_code == 2
    assert caught.value.culprit == "hoodie.write.complex.keygen.new.encoding"
    assert "-o hoodie.write.complex.keygen.new.encoding=true" in (caught.value.hint or "")
    assert not list(tmp_path.rglob("*")), "nothing is made"


@pytest.mark.parametrize(("partitions", "options"), ONE_FIELD_COMPLEX)
@pytest.mark.parametrize("bare", [True, False])
def test_the_encoding_that_was_said_is_bound(
    partitions: tuple[str, ...], options: dict[str, str], bare: bool, tmp_path: Path
) -> None:
    said = {**options, "hoodie.write.complex.keygen.new.encoding": str(bare).lower()}
    table = create_table(FolderStorage(tmp_path), spec_with(options=said, partition_fields=partitions))
    assert table.properties.key_generator is KeyGeneratorType.COMPLEX
    assert table.binding is not None
    assert table.binding.complex_key_new_encoding is bare


def test_partitions_by_time(tmp_path: Path) -> None:
    options = {**TIMES, "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.TimestampBasedKeyGenerator"}
    table = create_table(FolderStorage(tmp_path), spec_with(options=options, partition_fields=("ts",)))
    assert table.properties.key_generator is KeyGeneratorType.TIMESTAMP
    assert table.properties.timebased == {
        "timestamp.type": "EPOCHMILLISECONDS",
        "output.dateformat": "yyyy/MM/dd HH:mm",
    }
    assert {key: value for key, value in entries_of(table).items() if "timebased" in key} == TIMES


def test_custom_keys(tmp_path: Path) -> None:
    options = {**TIMES, "hoodie.table.keygenerator.type": "CUSTOM"}
    storage = FolderStorage(tmp_path)
    table = create_table(storage, spec_with(options=options, partition_fields=("region:simple", "ts:TIMESTAMP")))
    assert entries_of(table)["hoodie.table.partition.fields"] == "region,ts", "version 6 has bare names"
    for one in (table, Table.open(storage)):
        assert one.properties.partition_types == ("SIMPLE", "TIMESTAMP")
        assert one.key_properties()["hoodie.datasource.write.partitionpath.field"] == "region:SIMPLE,ts:TIMESTAMP"
        one.check_writable()


def test_the_other_options(tmp_path: Path) -> None:
    options = {
        "hoodie.datasource.write.hive_style_partitioning": "true",
        "hoodie.datasource.write.partitionpath.urlencode": "TRUE",
        "hoodie.database.name": "db",
        "hoodie.index.type": "global_bloom",
    }
    table = create_table(FolderStorage(tmp_path), spec_with(options=options))
    assert table.properties.hive_style
    assert table.properties.url_encode
    assert table.properties.database == "db"
    assert table.binding is not None
    assert table.binding.index_type is IndexType.GLOBAL_BLOOM
    with pytest.raises(OptionError, match="bound to GLOBAL_BLOOM"):
        table.bind(parse_options({"hoodie.index.type": "BLOOM"}))


def test_bound_values_appear_with_the_table(tmp_path: Path) -> None:
    """A crash between the two files leaves a whole table: its properties hold the binding."""
    storage = FolderStorage(tmp_path)
    made = create_table(storage, spec_with(options={"hoodie.index.type": "GLOBAL_BLOOM"}))
    storage.delete(BINDING_PATH)
    assert BINDING_PROPERTY in entries_of(made)
    again = Table.open(storage)
    assert again.binding == made.binding
    assert again.bind(WriteConfig()).binding == made.binding
    assert (tmp_path / BINDING_PATH).exists()


def test_the_schema_of_an_empty_table(tmp_path: Path) -> None:
    text = '{"type":"record","name":"r","fields":[{"name":"é","type":"string","doc":"a=b\\n"}]}'
    table = create_table(FolderStorage(tmp_path), spec_with(schema_text=text))
    assert table.properties.create_schema == text


class Crash(BaseException):
    """The process dies."""


@pytest.mark.parametrize("how", [*Fault, Crash])
def test_whatever_fails_there_is_no_table_or_a_whole_one(how: Fault | type[Crash]) -> None:
    spec = spec_with(options={"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.write.record.merge.mode": str(COMMIT)})
    whole = create_table(MemoryStorage(), spec)
    outcomes = set()
    for failing in range(1, 20):
        storage = MemoryStorage()

        def hook(call: Call, failing: int = failing) -> Fault | None:
            if call.number == failing and isinstance(how, type):
                raise how
            return how if call.number == failing and isinstance(how, Fault) else None

        storage.hook = hook
        made = True
        try:
            create_table(storage, spec)
        except (StorageError, Crash):
            made = False
        storage.hook = None
        there = ".hoodie/hoodie.properties" in storage.snapshot()
        outcomes.add((made, there))
        found = Table.open(storage) if there else create_table(storage, spec)
        assert (found.properties, found.binding) == (whole.properties, whole.binding)
        if storage.calls < failing:
            break
    assert outcomes == {(False, False), (False, True), (True, True)}


def test_a_table_is_made_once(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    create_table(storage, SPEC)
    before = storage.read(".hoodie/hoodie.properties")
    with pytest.raises(TableExistsError) as caught:
        create_table(storage, spec_with(ordering_fields=()))
    assert caught.value.exit_code == 4
    assert storage.read(".hoodie/hoodie.properties") == before


def test_a_table_whose_properties_are_being_replaced_is_there(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    create_table(storage, SPEC)
    (tmp_path / ".hoodie/hoodie.properties").rename(tmp_path / ".hoodie/hoodie.properties.backup")
    with pytest.raises(TableExistsError):
        create_table(storage, SPEC)


@pytest.mark.parametrize("left", [".hoodie", "us"])
@pytest.mark.parametrize("name", ["py_simple", "h120_v9_main"])
def test_files_of_a_table_that_was_half_removed_are_no_ones(name: str, left: str, tmp_path: Path) -> None:
    """A new table there would take them for its own: they would be older than its timeline."""
    table = unpack_table(name, tmp_path)
    storage = FolderStorage(tmp_path / "new")
    for path in (table / left).rglob("*"):
        if path.is_file() and path.name != "hoodie.properties":
            storage.write(str(path.relative_to(table)), path.read_bytes())
    with pytest.raises(TableExistsError, match="but files of a table"):
        create_table(storage, SPEC)
    assert not (tmp_path / "new/.hoodie/hoodie.properties").exists()


def test_other_files_are_in_nobodys_way(tmp_path: Path) -> None:
    storage = FolderStorage(tmp_path)
    storage.write("README.md", b"hello")
    storage.write("batches/part-0.parquet", b"hello")
    create_table(storage, replace(SPEC, columns=(*SPEC.columns, "_hoodie_is_deleted")))  # by which Hudi deletes rows


class Racer(FolderStorage):
    """Another creator puts the properties between our look and our put; or the answer to our put is lost."""

    def __init__(self, root: Path, theirs: bytes | None) -> None:
        super().__init__(root)
        self.theirs = theirs

    def create(self, path: str, data: bytes) -> None:
        if not path.endswith("hoodie.properties"):
            super().create(path, data)
        elif self.theirs is None:
            super().create(path, data)
            raise UnknownOutcomeError("time-out", culprit=path)
        else:
            self.write(path, self.theirs)
            raise ObjectExistsError(path, culprit=path)


def test_of_two_creators_one_wins(tmp_path: Path) -> None:
    with pytest.raises(TableExistsError):
        create_table(Racer(tmp_path, b"hoodie.table.name=theirs\nhoodie.table.version=6\n"), SPEC)
    assert Table.open(FolderStorage(tmp_path)).name == "theirs"
    assert not (tmp_path / BINDING_PATH).exists(), "the loser leaves nothing"


def test_a_lost_answer_is_looked_up(tmp_path: Path) -> None:
    assert create_table(Racer(tmp_path, None), SPEC).binding is not None


class Lossy(FolderStorage):
    """The put fails, and so does not happen, but nobody says so."""

    def create(self, path: str, data: bytes) -> None:
        raise UnknownOutcomeError("time-out", culprit=path)


def test_a_lost_put_is_an_unknown_outcome(tmp_path: Path) -> None:
    with pytest.raises(UnknownOutcomeError):
        create_table(Lossy(tmp_path), SPEC)


@pytest.mark.parametrize(
    ("changes", "options", "blamed"),
    [
        ({"key_fields": ()}, {}, "--key"),
        ({"key_fields": ("nope",)}, {}, "nope"),
        ({"key_fields": ("id", "id")}, {}, "--key"),
        ({"partition_fields": ("region", "region")}, {}, "--partition"),
        ({"ordering_fields": ("ts", "ts")}, {TABLE_VERSION_OPTION: "9"}, "--ordering"),
        *(({"ordering_fields": ("ts", "val")}, {TABLE_VERSION_OPTION: version}, "--ordering") for version in "68"),
        ({}, {TABLE_VERSION_OPTION: "10"}, TABLE_VERSION_OPTION),
        *(({"columns": (name,), "key_fields": (name,), "partition_fields": (), "ordering_fields": ()}, {}, name)
          for name in ("a:b", " a", "a ", "")),
        ({"partition_fields": ("nope",)}, {}, "nope"),
        ({"ordering_fields": ("nope",)}, {}, "nope"),
        ({"columns": ("a,b",), "key_fields": ("a,b",), "partition_fields": (), "ordering_fields": ()}, {}, "a,b"),
        ({"columns": (*SPEC.columns, "_hoodie_commit_time")}, {}, "_hoodie_commit_time"),
        ({"name": "a b"}, {}, "a b"),
        ({"partition_fields": ("region:SIMPLE",)}, {}, "--partition"),
        ({"partition_fields": ()}, {"hoodie.table.keygenerator.type": "SIMPLE"}, "hoodie.table.keygenerator.type"),
        ({}, {"hoodie.table.keygenerator.type": "NON_PARTITION"}, "hoodie.table.keygenerator.type"),
        ({"key_fields": ("id", "k2")}, {"hoodie.table.keygenerator.type": "SIMPLE"}, "hoodie.table.keygenerator.type"),
        ({}, {"hoodie.table.keygenerator.type": "CUSTOM"}, "--partition"),
        ({"partition_fields": ("region:DATE",)}, {"hoodie.table.keygenerator.type": "CUSTOM"}, "--partition"),
        ({}, TIMES, "hoodie.keygen.timebased.timestamp.type"),
        ({}, {"hoodie.table.keygenerator.type": "TIMESTAMP"}, "hoodie.keygen.timebased.timestamp.type"),
        ({}, {"hoodie.table.keygenerator.type": "TIMESTAMP", "hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP"},
         "hoodie.keygen.timebased.output.dateformat"),
        *(({}, {**TIMES, "hoodie.table.keygenerator.type": "TIMESTAMP",
                "hoodie.keygen.timebased.timestamp.type": kind}, "hoodie.keygen.timebased.input.dateformat")
          for kind in ("DATE_STRING", "MIXED")),
        ({}, {"hoodie.write.complex.keygen.new.encoding": "true"}, "hoodie.write.complex.keygen.new.encoding"),
        ({"ordering_fields": ()}, {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"},
         "hoodie.write.record.merge.mode"),
    ],
)  # fmt: skip
def test_choices_that_make_no_table(
    changes: dict[str, object], options: dict[str, str], blamed: str, tmp_path: Path
) -> None:
    with pytest.raises(OptionError) as caught:
        create_table(FolderStorage(tmp_path), spec_with(options=options, **changes))
    assert caught.value.culprit == blamed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("uri", "name"),
    [
        ("/data/flights", "flights"), ("flights/", "flights"), ("s3://bucket/a/flights_v2.1/", "flights_v2.1"),
        ("file:///tmp/my-table", "my-table"), ("file:///tmp/my%2Dtable", None), ("memory://flights", "flights"), ("/", None), ("", None), ("/a/.hidden", None),
        ("/a/b c", None), ("s3://bucket", "bucket"), ("s3://", None), ("/a/t\u00e4ble", None),
    ],
)  # fmt: skip
def test_the_last_element_of_the_path_names_the_table(uri: str, name: str | None) -> None:
    if name is not None:
        assert table_name_of(uri) == name
        return
    with pytest.raises(OptionError, match="cannot be a table name"):
        table_name_of(uri)


def test_options_of_a_new_table() -> None:
    assert parse_create_options({}) == CreateConfig()
    config = parse_create_options([("hoodie.table.keygenerator.type", "complex"), ("hoodie.database.name", "db")])
    assert (config.key_generator, config.database) == (KeyGeneratorType.COMPLEX, "db")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"hoodie.tabel.keygenerator.type": "SIMPLE"}, r"did you mean hoodie\.table\.keygenerator\.type"),
        ({"hoodie.table.keygenerator.type": "SIMPEL"}, r"valid: SIMPLE \| COMPLEX"),
        ({"hoodie.table.keygenerator.class": "com.example.Mine"}, "valid: org.apache.hudi"),
        ({"hoodie.database.name": " "}, "valid: a name"),
        ({"hoodie.keygen.timebased.timestamp.type": "NOW"}, "valid: EPOCHMILLISECONDS"),
        ({"hoodie.parquet.max.file.size": "1"}, "belongs to a write"),
        ({"hoodie.table.keygenerator.type": "SIMPLE",
          "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.ComplexKeyGenerator"}, "give one of the two"),
    ],
)  # fmt: skip
def test_options_that_are_none(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        parse_create_options(options)


def test_options_of_a_table_are_none_of_a_write() -> None:
    with pytest.raises(OptionError, match="when the table is created"):
        parse_options({"hoodie.table.keygenerator.type": "SIMPLE"})


def test_the_table_of_options_names_each_once() -> None:
    text = options_table(CREATE_OPTIONS)
    for option in CREATE_OPTIONS:
        assert text.count(f"| `{option.key}` |") == 1
    assert "hoodie.parquet.max.file.size" in options_table()


@pytest.mark.parametrize(("version", "layout"), [(6, "1"), (8, "2"), (9, "2")])
def test_a_table_of_each_version_says_what_hudis_says(tmp_path: Path, version: int, layout: str) -> None:
    entries = entries_of(create_table(FolderStorage(tmp_path), spec_with(options={TABLE_VERSION_OPTION: str(version)})))
    assert (entries["hoodie.table.version"], entries["hoodie.timeline.layout.version"]) == (str(version), layout)
    assert ("hoodie.record.merge.mode" in entries) is (version > 6)
    assert ("hoodie.compaction.payload.class" in entries) is (version < 9)
    assert ("hoodie.table.precombine.field" in entries) is (version < 9)
    assert (tmp_path / ".hoodie" / "timeline").is_dir() is (version > 6), "Hudi 1.x lists it"
    if version > 6:
        theirs = entries_of(Table.open(open_storage(str(unpack_table(f"h120_v{version}_main", tmp_path)))))
        ours_alone = {"hoodie.database.name", "hoodie.table.create.schema", "lakeindex.table.binding"}
        if version == 8:  # Hudi 1.2 says the newer name alone, which 1.0 drops when it registers the table
            ours_alone |= {"hoodie.table.precombine.field"}
        assert entries.keys() - theirs.keys() <= ours_alone
        assert theirs.keys() - entries.keys() == {"hoodie.table.partition_extractor_class"}
        said = {"hoodie.record.merge.mode", "hoodie.record.merge.strategy.id", "hoodie.compaction.payload.class"}
        said |= {
            "hoodie.timeline.path",
            "hoodie.timeline.history.path",
            "hoodie.archivelog.folder",
            "hoodie.table.format",
        }
        assert {key: entries.get(key) for key in said} == {key: theirs.get(key) for key in said}


@pytest.mark.parametrize(("populate", "mode"), [("true", "ALL"), ("false", "NONE")])
def test_a_table_of_version_10_says_which_meta_columns_it_stores(tmp_path: Path, populate: str, mode: str) -> None:
    options = {TABLE_VERSION_OPTION: "10", VERSION10_OPTION: "write", "hoodie.populate.meta.fields": populate}
    entries = entries_of(create_table(FolderStorage(tmp_path), spec_with(options=options)))
    assert entries["hoodie.meta.fields.mode"] == mode


def test_versions_that_can_be_chosen_are_those_that_are_known() -> None:
    assert tuple(VERSIONS) == TABLE_VERSIONS


def test_a_custom_generators_types_are_kept_in_later_versions(tmp_path: Path) -> None:
    said = {"hoodie.table.keygenerator.type": "CUSTOM", TABLE_VERSION_OPTION: "9"}
    table = create_table(FolderStorage(tmp_path), spec_with(options=said, partition_fields=("region:SIMPLE",)))
    assert entries_of(table)["hoodie.table.partition.fields"] == "region:SIMPLE"
    assert table.properties.partition_types == ("SIMPLE",)
