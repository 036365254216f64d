"""Tables of real Hudi whose keys are spelled in a way that their properties do not say: no row is ever stored twice."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.errors import (
    LakeIndexError,
    OptionError,
    SchemaMismatchError,
    TableCorruptError,
    TableUnsupportedError,
)
from lakeindex.files.file_system_view import Snapshot
from lakeindex.model import BaseFile, Instant
from lakeindex.storage import open_storage
from lakeindex.table import stored_keys
from lakeindex.table.binding import format_binding, parse_binding
from lakeindex.table.handle import Table
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import schema_to_avro
from tests.builders import Row, as_hudis, batch_of, make_table, rows_of
from tests.scheduling import some_of
from tests.unit.operations.tables import flip, live_files, rewrite
from tests.vectors_support import KEYS, unpack_table

TEXTS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
ZONE = "lakeindex.keygenerator.timestamp.timezone"
FIELDS = "hoodie.datasource.write.partitionpath.field"
TIMES = "hoodie.keygen.timebased."
ENCODING = "hoodie.write.complex.keygen.new.encoding"
MERGE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
HOURS = {f"{TIMES}timestamp.type": "EPOCHMILLISECONDS", f"{TIMES}output.dateformat": "yyyy-MM-dd HH"}


def day(month: int, hour: int, microseconds: int = 0) -> dt.datetime:
    return dt.datetime(2016, month, 29, hour, 54, 0, microseconds, tzinfo=dt.UTC)


# what tests/vectors/recipes/key_tables.py wrote, with a newer version
ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "ts": pa.array([day(12, 9), day(7, 5, 123_456), day(12, 23)], pa.timestamp("us", "UTC")),
        "urn": ["urn:isbn:1", "urn:isbn:2", "urn:isbn:3"],
        "some": ["some:1", "plain", "some:"],
        "city": ["rome", "oslo", "rome"],
        "ms": pa.array([1711927815250, 1711931415250, 1711927815251], pa.int64()),
        "v": pa.array([5, 5, 5], pa.int64()),
    }
)


def table_of(name: str, folder: Path) -> LakeTable:
    return LakeTable(str(unpack_table(name, folder, KEYS)))


def binding_of(table: LakeTable) -> dict[str, object]:
    found: dict[str, object] = json.loads(Path(table.uri, ".hoodie/.lakeindex/table.json").read_text())
    return found


def upserted(table: LakeTable, rows: pa.Table = ROWS, **options: str) -> list[tuple[str, int]]:
    """Stored keys and versions afterwards."""
    table.upsert(rows, options={**MERGE, **options})
    stored = table.read(meta=True)
    return sorted(zip(stored["_hoodie_record_key"].to_pylist(), stored["v"].to_pylist(), strict=True))


@pytest.mark.parametrize(
    "name",
    ["h0150_v6_timestamp", "h0150_v6_timestamp_upsert", "h0150_v6_composite", "h120_v9_timestamp", "h120_v9_composite"],
)
def test_timestamps_that_are_texts_are_found_and_written_alike(name: str, tmp_path: Path) -> None:
    table = table_of(name, tmp_path)
    assert table.check().ok, "the untouched table"
    keys = ["2016-07-29 05:54:00.123", "2016-12-29 09:54:00.0", "2016-12-29 23:54:00.0"]
    if "composite" in name:
        keys = [f"ts:{text},id:{one}" for text, one in zip(keys, "bac", strict=True)]
    assert upserted(table) == [(key, 5) for key in keys]
    assert table.check().ok
    # a timestamp within the same millisecond has the same key, and is stored as it is
    later = ROWS.slice(1, 1).set_column(1, "ts", pa.array([day(7, 5, 123_999)], pa.timestamp("us", "UTC")))
    assert len(upserted(table, later)) == 3
    assert day(7, 5, 123_999) in table.read(meta=False)["ts"].to_pylist()
    assert binding_of(table)["key_options"] == {TEXTS: "true", "lakeindex.keygenerator.timestamp.parts": "record_key"}


def test_the_zone_of_its_writer_is_asked_for_and_compared(tmp_path: Path) -> None:
    table = table_of("h0150_v6_zone", tmp_path)
    with pytest.raises(OptionError, match=r"2016-07-29 01:54:00\.123") as caught:
        table.upsert(ROWS, options=MERGE)
    assert caught.value.culprit == ZONE
    assert "2016-07-29 05:54:00.123" in caught.value.message
    assert "GMT-4:00 or GMT-5:00" in str(caught.value.hint) or "GMT-5:00 or GMT-4:00" in str(caught.value.hint)
    with pytest.raises(OptionError, match="another zone than Europe/Paris"):
        table.upsert(ROWS, options={**MERGE, ZONE: "Europe/Paris"})
    assert [version for _, version in upserted(table, **{ZONE: "America/New_York"})] == [5, 5, 5]
    assert [version for _, version in upserted(table)] == [5, 5, 5]
    with pytest.raises(OptionError, match="bound to America/New_York"):
        table.upsert(ROWS, options={ZONE: "UTC"})


def test_numbers_and_texts_in_one_table_are_refused(tmp_path: Path) -> None:
    table = table_of("h0150_v6_mixed", tmp_path)
    with pytest.raises(TableCorruptError, match="1483055640000000") as caught:
        table.upsert(ROWS, options=MERGE)
    assert "2016-" in caught.value.message
    assert not Path(table.uri, ".hoodie/.lakeindex/table.json").exists()


def test_an_option_that_the_stored_keys_contradict(tmp_path: Path) -> None:
    table = table_of("h0150_v6_timestamp", tmp_path)
    with pytest.raises(OptionError, match="timestamps in stored record keys are texts"):
        table.upsert(ROWS, options={**MERGE, TEXTS: "false"})
    assert len(upserted(table, **{TEXTS: "true"})) == 3


def test_paths_alone_may_have_timestamps_as_texts(tmp_path: Path) -> None:
    table = table_of("h0150_v6_paths", tmp_path)
    found = upserted(table)
    assert [key for key, _ in found] == ["1469771640123456", "1483005240000000", "1483055640000000"]
    assert [version for _, version in found] == [5, 5, 5]
    assert "2016-12-29 09%3A54%3A00.0/rome" in table.read(meta=True)["_hoodie_partition_path"].to_pylist()


@pytest.mark.parametrize("name", ["h0150_v6_custom", "h120_v9_custom"])
def test_times_of_a_custom_generator_are_asked_for(name: str, tmp_path: Path) -> None:
    table = table_of(name, tmp_path)
    with pytest.raises(OptionError) as caught:
        table.upsert(ROWS, options=MERGE)
    assert caught.value.culprit.startswith((FIELDS, TIMES))
    assert TIMES in str(caught.value)
    wrong = {**HOURS, f"{TIMES}output.dateformat": "yyyy-MM-dd"}
    with pytest.raises(LakeIndexError, match=r"2024-03-31 23/rome"):
        table.upsert(ROWS, options={**MERGE, FIELDS: "ms:TIMESTAMP,city:SIMPLE", **wrong})
    assert [version for _, version in upserted(table, **HOURS)] == [5, 5, 5]  # the types are found by the paths
    assert [version for _, version in upserted(table)] == [5, 5, 5]
    with pytest.raises(OptionError, match="the table is bound to"):
        table.upsert(ROWS, options={f"{TIMES}output.dateformat": "yyyy"})


def test_plain_fields_of_a_custom_generator_need_no_word(tmp_path: Path) -> None:
    table = table_of("h0150_v6_custom_simple", tmp_path)
    rows = ROWS.set_column(6, "v", pa.array([1, 1, 1], pa.int64()))
    assert len(upserted(table, rows)) == 3
    assert binding_of(table)["partition_types"] == ["SIMPLE", "SIMPLE"]


def test_the_type_of_times_that_hudi_leaves_out_is_asked_for(tmp_path: Path) -> None:
    table = table_of("h0150_v6_timebased", tmp_path)
    with pytest.raises(OptionError, match=r"timebased\.timestamp\.type") as caught:
        table.upsert(ROWS, options=MERGE)
    assert "-o" in str(caught.value.hint)
    with pytest.raises(TableUnsupportedError, match="56218-11-01 08") as refused:
        table.upsert(ROWS, options={**MERGE, f"{TIMES}timestamp.type": "SCALAR"})
    assert "2024-03-31 23" in refused.value.message
    assert len(upserted(table, **{f"{TIMES}timestamp.type": "EPOCHMILLISECONDS"})) == 3


@pytest.mark.parametrize(
    ("name", "field", "is_bare"),
    [("h0150_v6_urn", "urn", True), ("h0150_v6_some", "some", True), ("h120_v9_urn", "urn", False)],
)
def test_keys_that_begin_with_the_name_of_their_field(name: str, field: str, is_bare: bool, tmp_path: Path) -> None:
    table = table_of(name, tmp_path)
    assert table.check().ok
    rows = ROWS.set_column(6, "v", pa.array([1, 1, 1], pa.int64()))  # v is a level of the path
    with pytest.raises(OptionError, match="leave the option out"):
        table.upsert(rows, options={**MERGE, ENCODING: str(not is_bare).lower()})
    stored = [key for key, _ in upserted(table, rows)]
    assert stored == sorted(text if is_bare else f"{field}:{text}" for text in rows[field].to_pylist())
    assert binding_of(table)["complex_key_new_encoding"] is is_bare


def test_a_row_in_another_partition_shows_a_global_index(tmp_path: Path) -> None:
    table = table_of("h0150_v6_global", tmp_path)
    with pytest.raises(OptionError, match=r"'rome'.*'oslo'") as caught:
        table.upsert(ROWS, options=MERGE)
    assert "hoodie.index.type=GLOBAL_BLOOM" in str(caught.value.hint)
    assert table.scan(where="city = 'oslo'").to_arrow().num_rows == 2
    table.delete(where="city = 'rome'", options={**MERGE, "hoodie.index.type": "GLOBAL_BLOOM"})
    assert sorted(table.read(meta=False)["id"].to_pylist()) == ["a", "b"]


def test_an_index_that_was_found_is_no_evidence_of_paths(tmp_path: Path) -> None:
    for options, is_evidence in (({}, False), ({"hoodie.index.type": "BLOOM"}, True)):
        table = table_of("h0150_v6_custom_simple", tmp_path / str(is_evidence))
        upserted(table, ROWS.set_column(6, "v", pa.array([1, 1, 1], pa.int64())), **options)
        opened = Table.open(open_storage(table.uri))
        assert (opened.why_paths_are_no_evidence() is None) is is_evidence
        found = table.scan(where="city = 'rome'")
        assert found.to_arrow().num_rows == 2


def _rebound(table: LakeTable, **changed: object) -> None:
    """As a release bound it that did not note who said the index."""
    bound = {name: value for name, value in binding_of(table).items() if name != "is_stated"} | changed
    for name in ("table.json", "table.copy.json"):
        Path(table.uri, ".hoodie/.lakeindex", name).write_text(json.dumps(bound))


def test_the_index_of_a_bound_table_can_be_said_later(tmp_path: Path) -> None:
    rows = ROWS.set_column(6, "v", pa.array([1, 1, 1], pa.int64()))
    table = table_of("h0150_v6_custom_simple", tmp_path)
    upserted(table, rows)
    assert "-o hoodie.index.type=BLOOM" in str(Table.open(open_storage(table.uri)).why_paths_are_no_evidence())
    with pytest.raises(OptionError, match="the table is bound to BLOOM"):
        table.upsert(rows, options={"hoodie.index.type": "SIMPLE"})
    assert "is_stated" not in binding_of(table)
    before = table.scan(where="city = 'rome'").explain()
    table.upsert(rows, options={"hoodie.index.type": "BLOOM"})
    assert binding_of(table)["is_stated"] is True
    copy = Path(table.uri, ".hoodie/.lakeindex/table.copy.json").read_text()
    assert json.loads(copy) == binding_of(table)
    assert Table.open(open_storage(table.uri)).why_paths_are_no_evidence() is None
    after = table.scan(where="city = 'rome'").explain()
    assert (before.files, after.files, after.files_left < after.files) == (before.files, before.files, True)
    assert len(upserted(table, rows)) == 3
    assert table.check().ok


@pytest.mark.parametrize("whose", ["theirs", "ours"])
def test_an_index_that_rows_contradict_cannot_be_said(whose: str, tmp_path: Path) -> None:
    """A row lies in rome and says oslo, in another writer's file and in one that we wrote under a global index."""
    table = table_of("h0150_v6_global", tmp_path)
    rows = table.read(meta=False)
    table.upsert(
        rows if whose == "ours" else rows.slice(0, 0),
        options={**MERGE, "hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "false"},
    )
    _rebound(table, index_type="BLOOM")
    bound = binding_of(table)
    with pytest.raises(OptionError, match=r"'rome'.*'oslo'.*global") as caught:
        table.upsert(rows, options={"hoodie.index.type": "BLOOM"})
    assert "index migrate" in str(caught.value.hint)
    assert binding_of(table) == bound


def test_a_file_that_does_not_say_where_its_rows_belong_keeps_an_index_from_being_said(tmp_path: Path) -> None:
    """Another writer may have left the partition's column out of it."""
    for left in ("rows", "none"):
        table = make_table(tmp_path / left)
        rows = [Row("a", "x", 1, "v"), Row("b", "x", 1, "v")]
        table.upsert(batch_of(rows))
        as_hudis(table)
        table = LakeTable(table.uri)
        table.upsert(batch_of(rows[:1]), options=MERGE)
        if left == "none":
            table.delete(batch_of(rows).select(["id", "day"]))
        (file,) = live_files(Path(table.uri))
        rewrite(file, lambda stored: stored.drop_columns(["day"]))
        again = batch_of([Row("c", "y", 1, "v")])
        if left == "rows":
            with pytest.raises(OptionError, match="'x'"):
                table.upsert(again, options={"hoodie.index.type": "BLOOM"})
        else:
            table.upsert(again, options={"hoodie.index.type": "BLOOM"})
            assert binding_of(table)["is_stated"] is True


def test_a_file_that_cannot_be_compared_is_named(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{number}", "x", 1, "v") for number in range(9)]))
    as_hudis(table)
    (file,) = live_files(Path(table.uri))
    place = pq.read_schema(file).get_field_index("id")
    flip(file, pq.read_metadata(file).row_group(0).column(place).data_page_offset + 2)
    with pytest.raises(TableCorruptError, match="parquet' cannot be read") as caught:
        LakeTable(table.uri).upsert(batch_of([Row("k0", "x", 2, "v")]), options=MERGE)
    assert caught.value.culprit == file.relative_to(table.uri).as_posix()


def test_a_global_index_can_be_said_later_whatever_rows_show(tmp_path: Path) -> None:
    """Its rows may lie elsewhere: as it was bound, and after the migration that the refusal of another advises."""
    whole = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "false"}
    for bound in ("GLOBAL_BLOOM", "BLOOM"):
        table = table_of("h0150_v6_global", tmp_path / bound)
        rows = table.read(meta=False)
        table.upsert(rows.slice(0, 0), options={**MERGE, **whole})
        _rebound(table, index_type=bound)
        if bound == "BLOOM":
            table.index_migrate("GLOBAL_BLOOM")
        table.upsert(rows, options=whole)
        assert table.scan(where="city = 'oslo'").to_arrow().num_rows == rows["city"].to_pylist().count("oslo")
        assert "global" in str(Table.open(open_storage(table.uri)).why_paths_are_no_evidence())


def test_every_row_is_looked_at_before_an_index_is_said(tmp_path: Path) -> None:
    """The one that lies elsewhere is in the middle of a file, where no sample is taken."""
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    leave = {"hoodie.bloom.index.update.partition.path": "false", "lakeindex.parquet.row.group.rows": "10"}
    table.upsert(batch_of(Row(f"k{number:03d}", "x", 1, "v") for number in range(90)), options=leave)
    table.upsert(batch_of([Row("k045", "y", 2, "v")]), options=leave)
    as_hudis(table)
    table = LakeTable(table.uri)
    table.upsert(batch_of([Row("k000", "x", 2, "v")]), options=MERGE | {"hoodie.index.type": "GLOBAL_BLOOM"} | leave)
    _rebound(table, index_type="BLOOM")
    with pytest.raises(OptionError, match=r"'x'.*'y'"):
        table.upsert(batch_of([Row("k000", "x", 3, "v")]), options={"hoodie.index.type": "BLOOM"})
    table.upsert(batch_of([Row("k000", "x", 3, "v")]))


def test_what_another_writer_adds_is_compared_again(tmp_path: Path) -> None:
    """As if the table had been bound when it only had texts: the instant with a number is new."""
    table = table_of("h0150_v6_mixed", tmp_path)
    texts = table_of("h0150_v6_timestamp", tmp_path)
    upserted(texts)
    bound = Path(texts.uri, ".hoodie/.lakeindex/table.json").read_bytes()
    Path(table.uri, ".hoodie/.lakeindex").mkdir(exist_ok=True)
    Path(table.uri, ".hoodie/.lakeindex/table.json").write_bytes(bound)
    with pytest.raises(TableCorruptError, match="1483055640000000") as caught:
        table.upsert(ROWS)
    assert "2016-12-29 23:54:00.0" in caught.value.message


def test_a_table_is_compared_once(tmp_path: Path) -> None:
    table = table_of("h0150_v6_timestamp", tmp_path)
    upserted(table, ROWS.slice(1, 1))
    opened = Table.open(open_storage(table.uri))
    assert stored_keys.not_compared(opened, opened.snapshot()) == []
    assert [file.partition_path for file in opened.snapshot().base_files_all()] == ["oslo", "rome"]
    path = Path(table.uri, ".hoodie/hoodie.properties")
    path.write_text(path.read_text().replace("urlencode=false", "urlencode=true"))
    changed = Table.open(open_storage(table.uri))
    assert [one.partition_path for one in stored_keys.not_compared(changed, changed.snapshot())] == ["oslo", "rome"]


def test_an_older_release_does_not_pass_over_the_spelling(tmp_path: Path) -> None:
    table = table_of("h0150_v6_timestamp", tmp_path)
    upserted(table)
    bound = parse_binding(json.dumps(binding_of(table)).encode(), "b")
    assert binding_of(table)["format"] == 2
    assert json.loads(format_binding(replace(bound, key_options=())))["format"] == 1


def test_a_table_without_rows_is_asked_for_its_encoding(tmp_path: Path) -> None:
    table = table_of("h0150_v6_urn", tmp_path)
    root = Path(table.uri)
    schema = schema_to_avro(ROWS.schema, "t")
    for path in sorted(root.rglob("*"), reverse=True):
        if path.is_file() and path.name != "hoodie.properties":
            path.unlink()
    properties = root / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if "metadata.partitions" not in line]
    properties.write_text("\n".join([*lines, f"hoodie.table.create.schema={schema}"]) + "\n")
    index = {"hoodie.index.type": "BLOOM"}
    with pytest.raises(OptionError, match="has no row yet"):
        table.upsert(ROWS, options={**MERGE, **index})
    assert not Path(root, ".hoodie/.lakeindex/table.json").exists()
    keys = [key for key, _ in upserted(table, **{ENCODING: "true"}, **index)]
    assert keys == ROWS["urn"].to_pylist()


def test_types_are_given_to_the_tables_own_partition_fields(tmp_path: Path) -> None:
    table = table_of("h0150_v6_custom", tmp_path)
    for fields in ("ms:TIMESTAMP,town:SIMPLE", "city:SIMPLE,ms:TIMESTAMP", "ms:TIMESTAMP"):
        with pytest.raises(OptionError, match="the partition fields are ms, city"):
            table.upsert(ROWS, options={**MERGE, FIELDS: fields, **HOURS})
    assert len(upserted(table, **{FIELDS: "ms:TIMESTAMP,city:SIMPLE", **HOURS})) == 3


def test_blanks_and_case_in_the_types_of_partition_fields_are_no_other_types(tmp_path: Path) -> None:
    """Neither at the first write, which would bind the table and then fail, nor beside what is bound or stated."""
    texts = ("ms:TIMESTAMP, city:SIMPLE", " ms : timestamp , city : simple ", "ms:TIMESTAMP,city:SIMPLE,")
    for name in ("h0150_v6_custom", "h120_v9_custom"):
        for text in texts:
            table = table_of(name, tmp_path / f"{name} {texts.index(text)}")
            assert len(upserted(table, **{FIELDS: text, **HOURS})) == 3
            assert binding_of(table)["partition_types"] == ["TIMESTAMP", "SIMPLE"]
        for text in texts:
            assert len(upserted(table, **{FIELDS: text})) == 3


def test_rows_of_the_first_and_the_last_row_group_are_compared(tmp_path: Path) -> None:
    """An upsert appends those that it inserts."""
    table = make_table(tmp_path / "t", schema=ROWS.schema, keys=("id",), partitions=(), ordering=None)
    table.upsert(ROWS, options={"lakeindex.parquet.row.group.rows": "1"})
    opened = Table.open(open_storage(table.uri))
    spec = KeySpec.from_properties(opened.key_properties())
    samples = stored_keys.sample_rows(opened, opened.snapshot().base_files_all(), spec, ROWS.schema)
    assert [one.record_key.to_pylist() for one in samples if one.record_key is not None] == [["a"], ["c"]]


def test_files_of_each_layout_and_of_the_newest_instants_are_compared() -> None:
    def file(partition: str, number: int, instant: int, size: int = 1) -> BaseFile:
        return BaseFile(partition, f"{number:08d}-0", f"202601010000000{instant:02d}", "0-0-0", size)

    files = [file("a/b", number, number % 3) for number in range(40)]
    files[17] = file("x=1/y=2", 17, 1)
    files[23] = file("x=1", 23, 2)
    files[31] = file("a/b", 31, 50)
    chosen = stored_keys._chosen(files)
    assert {files[number] for number in (0, 17, 23, 31, 39)} <= set(chosen)
    assert len(chosen) == len(set(chosen)) == 8
    large = [file("a", number, number, 1 << 23) for number in range(20)]
    assert len(stored_keys._chosen(large)) == 4
    assert stored_keys._chosen(large[:1]) == large[:1]


def test_files_of_new_foreign_instants_are_compared_and_no_others(tmp_path: Path) -> None:
    """An instant on which there is no verdict of ours is another writer's."""
    table = table_of("h0150_v6_timestamp", tmp_path)
    upserted(table, ROWS.slice(1, 1))
    upserted(table, ROWS.slice(0, 1))
    opened = Table.open(open_storage(table.uri))
    newest = opened.load_timeline().completed_writes[-1].time
    assert stored_keys.not_compared(opened, opened.snapshot()) == []
    for verdict in Path(table.uri, ".hoodie/.lakeindex/verdicts").glob(f"{newest}*"):
        verdict.unlink()
    stored_keys._COMPARED.clear()
    theirs = stored_keys.not_compared(opened, opened.snapshot())
    assert {one.instant_time for one in theirs} == {newest}
    stored_keys.remember_compared(opened, opened.snapshot())
    stored_keys._COMPARED.clear()
    assert stored_keys.not_compared(opened, opened.snapshot()) == []


def test_rows_of_another_writer_may_lie_elsewhere_once_the_index_has_become_global(tmp_path: Path) -> None:
    """What a table was bound to does not say so: its index has changed since."""
    table = make_table(tmp_path / "t", hoodie__index__type="BLOOM")
    leave = {"hoodie.bloom.index.update.partition.path": "false"}
    table.upsert(batch_of([Row("a", "x", 1, "v")]))
    table.index_migrate("GLOBAL_BLOOM")
    newest = table.upsert(batch_of([Row("a", "y", 2, "v"), Row("c", "x", 2, "v")]), options=leave).instant
    for verdict in Path(table.uri, ".hoodie/.lakeindex/verdicts").glob(f"{newest}*"):
        verdict.unlink()
    stored_keys._COMPARED.clear()
    table.upsert(batch_of([Row("b", "x", 3, "v")]), options=leave)
    assert sorted(table.read(meta=False)["id"].to_pylist()) == ["a", "b", "c"]


def test_a_commit_that_comes_as_another_one_goes_is_compared(tmp_path: Path) -> None:
    """Its instant may be older than the newest: the writes are as many as before, and end with the same."""
    table = table_of("h0150_v6_timestamp", tmp_path)
    upserted(table, ROWS.slice(1, 1))
    opened = Table.open(open_storage(table.uri))
    now = opened.load_timeline()
    (late, *_), newest = now.completed_writes, now.completed_writes[-1]
    gone = Instant(f"{int(late.time) - 1}", late.action, late.state)

    def state(*writes: Instant) -> Snapshot:
        return opened.snapshot(timeline=Timeline.of(now.layout, writes, now.storage))

    stored_keys.remember_compared(opened, state(gone, newest))
    assert stored_keys.not_compared(opened, state(gone, newest)) == []
    theirs = stored_keys.not_compared(opened, state(late, newest))
    assert {one.instant_time for one in theirs} == {late.time}


@pytest.mark.parametrize("zone", some_of(["UTC", None], bool, pytest.mark.slow))
@pytest.mark.parametrize("place", ["record key", "partition", "ordering"])
def test_a_column_of_milliseconds_stays_one(tmp_path: Path, place: str, zone: str | None) -> None:
    """Flink and HoodieStreamer make such: its number is what keys and paths are made of, in whatever unit a batch is."""
    at = dt.datetime(2026, 1, 1, 1, 2, 3, tzinfo=None if zone is None else dt.UTC)
    names = {"id": pa.string(), "day": pa.string(), "at": pa.timestamp("ms", zone), "v": pa.string()}
    table = make_table(
        tmp_path / "t",
        schema=pa.schema([pa.field(name, kind, nullable=name != "id") for name, kind in names.items()]),
        keys=("at",) if place == "record key" else ("id",),
        partitions=("at",) if place == "partition" else ("day",),
        ordering="at" if place == "ordering" else None,
    )

    def rows(v: str, unit: str, moment: dt.datetime = at) -> pa.Table:
        return pa.table({"id": ["a"], "day": ["x"], "at": pa.array([moment], pa.timestamp(unit, zone)), "v": [v]})

    for unit in ("us", "ms", "s", "ns"):
        table.upsert(rows(unit, unit))
        table.update({"v": f"'{unit}, updated'"}, where="v IS NOT NULL")
    table.upsert(rows("last", "ms"))
    with pytest.raises(SchemaMismatchError, match="would lose data"):
        table.upsert(rows("finer", "us", at.replace(microsecond=1)))
    (row,) = rows_of(table)
    assert (row["at"], row["v"]) == (at, "last")
    stored = {"record key": row["_hoodie_record_key"], "partition": row["_hoodie_partition_path"]}
    assert stored.get(place, "1767229323000") == "1767229323000"
    table.truncate()
    table.upsert(rows("again", "us"))
    opened = Table.open(open_storage(table.uri))
    timeline = opened.load_timeline()
    said = [timeline.commit_metadata(opened.storage, one).schema_text or "" for one in timeline.completed_writes]
    assert said
    assert all("timestamp-millis" in text and "micros" not in text for text in said)
