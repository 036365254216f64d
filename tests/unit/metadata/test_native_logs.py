"""Logs that are whole HFiles (table version 10): names, footers, both kinds in one slice, damage."""

from __future__ import annotations

import json
import random

import pytest
from msgspec.structs import replace

from lakeindex.errors import TableCorruptError, TableUnsupportedError
from lakeindex.format.hfile import HFile, format_hfile
from lakeindex.format.log_blocks import HeaderKey, format_footer, parse_footer
from lakeindex.metadata import column_stats, compaction, delta_commit
from lakeindex.metadata.metadata_changes import PartitionChange, change_of_files
from lakeindex.metadata.metadata_records import decode_record, format_native_deletes, format_native_puts, own_schema
from lakeindex.metadata.metadata_table import FILES, PARTITION_STATS, RECORD_INDEX
from lakeindex.metadata.slices import LogForm, instants_of_files, log_name, parse_log
from lakeindex.model import Instant, InstantState
from lakeindex.storage.port import ObjectMeta
from tests.unit.metadata.test_upkeep import RECORD, Kept, loose, time_of
from tests.vectors_support import VECTORS

FOLDER = ".hoodie/metadata/files"
ENTRY, PREFIX = b"hudi.log.format.metadata", "hudi.log.format."
TIME = time_of(1)
HUDIS = VECTORS / "native_logs"


def named(name: str) -> tuple[str, str, int, LogForm, str] | None:
    found = parse_log(ObjectMeta(f"{FOLDER}/{name}", 7, 0))
    if found is None:
        return None
    group, log = found
    return group, log.instant, log.number, log.form, log.token


def test_names_are_those_of_hudi() -> None:
    found = {
        f".files-0000-0_{TIME}.log.1_0-0-0": ("files-0000-0", TIME, 1, LogForm.BLOCKS, "0-0-0"),
        f"files-0000-0_1-0-12_{TIME}_3.log.hfile": ("files-0000-0", TIME, 3, LogForm.PUTS, "1-0-12"),
        f"files-0000-0_1-0-12_{TIME}_3.deletes.hfile": ("files-0000-0", TIME, 3, LogForm.DELETES, "1-0-12"),
        f"record-index-a%5Fb%2Dc-0000-0_0-0-0_{TIME}_1.log.hfile": (
            "record-index-a%5Fb%2Dc-0000-0", TIME, 1, LogForm.PUTS, "0-0-0",
        ),
        f"files-0000-0_0-0-0_{TIME}.hfile": None,
        f".files-0000-0_0-0-0_{TIME}_1.log.hfile.crc": None,
        f"files-0000-0_0-0-0_{TIME}_1.log.hfile.bak": None,
        ".hoodie_partition_metadata": None,
    }  # fmt: skip
    assert {name: named(name) for name in found} == found
    for name, parts in found.items():
        if parts is not None:
            assert log_name(*parts) == name
    for form in ("log.parquet", "cdc.hfile", "deletes.lance", "log.vortex", "updates.hfile", "LOG.hfile"):
        with pytest.raises(TableUnsupportedError, match=rf"form {form}.*hoodie\.metadata\.enable=false"):
            named(f"files-0000-0_0-0-0_{TIME}_1.{form}")


def test_what_is_put_counts_before_what_goes() -> None:
    names = [log_name("g", TIME, number, form, "0-0-0") for number in (1, 2) for form in LogForm]
    logs = [found[1] for name in reversed(names) if (found := parse_log(ObjectMeta(name, 1, 0))) is not None]
    assert [one.path for one in sorted(logs)] == names


def test_footers() -> None:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: TIME, HeaderKey.SCHEMA: '{"type":"string"}'}
    footer = format_footer(header)
    assert list(footer) == [ENTRY]
    assert json.loads(footer[ENTRY]) == {"VERSION": "2", "INSTANT_TIME": TIME, "SCHEMA": '{"type":"string"}'}
    assert parse_footer({**footer, b"schema": b"x"}, "x") == header
    apart = {f"{PREFIX}{name}".encode(): text.encode() for name, text in json.loads(footer[ENTRY]).items()}
    assert parse_footer(apart, "x") == header
    assert parse_footer({b"schema": b"x"}, "x") == {}
    tomorrow = {"SCHEMA": "s", "IS_TOMORROW": "true"}
    assert parse_footer({ENTRY: json.dumps(tomorrow).encode()}, "x") == {HeaderKey.SCHEMA: "s"}
    with pytest.raises(TableUnsupportedError, match="version 3"):
        parse_footer({ENTRY: b'{"VERSION":"3"}'}, "x")
    with pytest.raises(TableUnsupportedError, match="version 3"):
        parse_footer({f"{PREFIX}VERSION".encode(): b"3"}, "x")
    for damaged in (b"", b"{", b"[]", b'{"VERSION":2}', b'{"VERSION":"two"}', b'{"SCHEMA":null}', b"\xff"):
        with pytest.raises(TableCorruptError, match="x has a damaged footer"):
            parse_footer({ENTRY: damaged}, "x")


def put(kept: Kept, number: int, change: PartitionChange) -> None:
    """An action that adds a file, and changes the record index."""
    said = {**change_of_files({"p": {f"f{number}": number}}), RECORD_INDEX: change}
    delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(number), said), kept.end(number + 1))
    kept.done.append(Instant(time_of(number), "commit", InstantState.COMPLETED, kept.end(number + 2)))


def three_deltas() -> Kept:
    """A record index that is made, filled, and changed; tests/vectors/recipes/native_logs.py has Hudi write its logs."""
    kept = Kept(10)
    kept.add(RECORD_INDEX, 1, PartitionChange({}))
    kept.table = replace(kept.table, partitions=(FILES, RECORD_INDEX))
    put(kept, 10, PartitionChange({f"k{number}": RECORD for number in range(5)}))
    put(kept, 20, PartitionChange({"k7": RECORD}, frozenset({"k1", "k3"})))
    return kept


def test_logs_of_hudis_own_writer_say_what_ours_do() -> None:
    kept = three_deltas()
    paths = [path for path in kept.store.snapshot() if path.endswith((".log.hfile", ".deletes.hfile"))]
    assert {path.rpartition("/")[2] for path in paths} == {one.name for one in HUDIS.glob("*.hfile")}
    for path in paths:
        data = (HUDIS / path.rpartition("/")[2]).read_bytes()
        assert data != kept.store.read(path)
        kept.store.write(path, data)
    keys = [f"k{number}" for number in range(9)]
    for _ in range(2):
        assert kept.view.lookup(RECORD_INDEX, keys).keys() == {"k0", "k2", "k4", "k7"}
        assert kept.files == {"f10": 10, "f20": 20}
        kept.compact()
    assert not [log for one in kept.view.slices(RECORD_INDEX) for log in one.logs]


def test_an_instant_stays_on_the_timeline_as_long_as_a_log_has_it_in_its_name() -> None:
    kept = three_deltas()
    assert {time_of(10), time_of(20)} <= instants_of_files(kept.table)
    kept.compact()
    put(kept, 30, PartitionChange({"k9": RECORD}))
    assert time_of(10) in instants_of_files(kept.table)
    compacted = compaction.last_compaction(kept.view.timeline)
    kept.compact()
    assert time_of(10) in {log.rpartition("/")[2].split("_")[2] for log in compaction.clean(kept.view) if "log" in log}
    assert instants_of_files(kept.table) & {time_of(10), time_of(20), compacted} == {compacted}


@pytest.mark.parametrize("seed", range(3))
def test_a_story_of_a_table_that_hudi_upgrades(seed: int) -> None:
    """The logs that are there stay as they are; a slice has both kinds, and a compaction takes both."""
    chance, keys = random.Random(seed), [f"k{number}" for number in range(12)]
    kept, model, both, upgraded = Kept(9), set[str](), False, 0
    kept.add(RECORD_INDEX, 2, PartitionChange({}))
    kept.table = replace(kept.table, partitions=(FILES, RECORD_INDEX))
    for number in range(10, 260, 10):
        some = chance.sample(keys, 4)
        change = PartitionChange(dict.fromkeys(some[:2], RECORD), frozenset(some[2:]))
        put(kept, number, change)
        model = (model | set(some[:2])) - set(some[2:])
        if not upgraded and number >= 80 + 10 * seed and kept.view.slices(RECORD_INDEX)[0].logs:
            kept.table, upgraded = replace(kept.table, version=10), number
        if number > upgraded + 20 and chance.random() < 0.15:
            kept.compact()
            compaction.clean(kept.view)
        forms = {log.form for one in kept.view.slices(RECORD_INDEX) for log in one.logs}
        both = both or forms == set(LogForm)
        assert kept.view.lookup(RECORD_INDEX, keys).keys() == model
        assert kept.files == {f"f{done}": done for done in range(10, number + 1, 10)}
    assert both


@pytest.mark.parametrize(("before", "after"), [(9, 10), (10, 9)])
def test_a_delta_commit_that_was_begun_in_another_version_says_once_what_it_says(before: int, after: int) -> None:
    """A range that widens counts its rows once more for each log."""
    kept = Kept(before)
    kept.add(PARTITION_STATS, 1, PartitionChange({"c": loose(1, 5)}))
    kept.table = replace(kept.table, partitions=(FILES, PARTITION_STATS))
    said = {**change_of_files({"p": {"f": 1}}), PARTITION_STATS: PartitionChange({"c": loose(0, 3)})}
    for version in (before, after):
        kept.table = replace(kept.table, version=version)
        for path in [one for one in kept.store.snapshot() if one.endswith(f"{time_of(11)}.deltacommit")]:
            kept.store.delete(path)  # the writer was killed before he completed it, and Hudi came
        delta_commit.write(kept.view, delta_commit.prepare(kept.view, time_of(10), said), kept.end(11))
    kept.done.append(Instant(time_of(10), "commit", InstantState.COMPLETED, kept.end(12)))
    (one,) = kept.view.slices(PARTITION_STATS)
    assert kept.view.records(one)["c"][column_stats.FIELD]["valueCount"] == 18
    forms = {log.form for partition in kept.table.partitions for log in kept.view.slices(partition)[0].logs}
    assert forms == {LogForm.BLOCKS, LogForm.PUTS}  # as the partition was made, and as it went on


def test_a_file_group_without_records_begins_with_a_log() -> None:
    kept = Kept(10)
    kept.add(RECORD_INDEX, 3, PartitionChange({}))
    kept.table = replace(kept.table, partitions=(FILES, RECORD_INDEX))
    (made,) = {log.instant for one in kept.view.slices(RECORD_INDEX) for log in one.logs}
    for group in range(3):
        path = f".hoodie/metadata/record_index/record-index-{group:04d}-0_0-0-0_{made}_1.log.hfile"
        file = HFile.of(kept.store.read(path), path)
        assert (file.entry_count, list(file.entries())) == (0, [])
        header = {HeaderKey.INSTANT_TIME: made, HeaderKey.SCHEMA: own_schema(10)}
        assert parse_footer(file.info, path) == header
    assert kept.view.lookup(RECORD_INDEX, ["a"]) == {}


def test_one_delta_commit_puts_and_takes_away() -> None:
    """Each log is named with what is in it, and both go when it is taken back."""
    kept = Kept(10)
    kept.add(RECORD_INDEX, 1, PartitionChange({"a": RECORD}))
    kept.table = replace(kept.table, partitions=(FILES, RECORD_INDEX))
    before = kept.store.snapshot()
    put(kept, 20, PartitionChange({"b": RECORD}, frozenset({"a"})))
    done = kept.view.timeline.completed_write(time_of(20))
    assert done is not None
    told = [one for one in kept.view.timeline.commit_metadata(kept.store, done).stats() if "index" in (one.path or "")]
    stem = f"record_index/record-index-0000-0_0-0-0_{time_of(20)}_1"
    assert [(one.path, one.num_writes, one.num_deletes) for one in told] == [
        (f"{stem}.log.hfile", 1, 0), (f"{stem}.deletes.hfile", 0, 1)
    ]  # fmt: skip
    gone = HFile.of(kept.store.read(f".hoodie/metadata/{stem}.deletes.hfile"), stem)
    assert (json.loads(gone.schema or "")["name"], list(gone.entries())) == ("hudi_delete_log_record", [(b"a", b"\2a")])
    assert kept.view.lookup(RECORD_INDEX, ["a", "b"]).keys() == {"b"}
    kept.done.pop()
    delta_commit.undo(kept.view, time_of(20))
    assert kept.store.snapshot() == before


def test_a_log_of_another_instant_than_its_name_says_is_damage() -> None:
    kept = Kept(10)
    kept.act(10, {"a": 1})
    kept.act(20, {"b": 2})
    path = next(one for one in kept.store.snapshot() if f"_{time_of(10)}_1.log.hfile" in one)
    schema, entries = own_schema(10), list(HFile.of(kept.store.read(path), path).entries())
    for instant, is_right in ((time_of(10), True), (None, True), (time_of(20), False), (time_of(11), False)):
        said = {} if instant is None else {int(HeaderKey.INSTANT_TIME): instant}
        kept.store.write(path, format_hfile(entries, schema, info=format_footer(said)))
        if is_right:
            assert kept.files == {"a": 1, "b": 2}
        else:
            with pytest.raises(TableCorruptError, match=rf"{path}.*says that it is of instant '{instant}'"):
                _ = kept.files


def test_a_bit_that_is_wrong_hides_nothing() -> None:
    kept = Kept(10)
    kept.act(10, {"a": 1})
    kept.act(20, {"b": 2})
    right, refused = kept.files, 0
    for path in [one for one in kept.store.snapshot() if one.endswith(".log.hfile")]:
        data = kept.store.read(path)
        used = len(data.rstrip(b"\0"))
        chance = random.Random(path)
        for at in (*chance.sample(range(used), 60), len(data) - 1):
            kept.store.write(path, data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :])
            try:
                assert kept.files == right, (path, at)
            except (TableCorruptError, TableUnsupportedError):
                refused += 1
        for torn in (b"", data[: len(data) // 2], data[:-1]):
            kept.store.write(path, torn)
            with pytest.raises(TableCorruptError):
                _ = kept.files
        kept.store.delete(path)
        if time_of(0)[:14] in path:
            with pytest.raises(TableCorruptError, match="says nothing of commit"):
                _ = kept.files
        kept.store.write(path, data)
    assert kept.files == right
    assert refused > 30


def test_what_is_written_is_read_back() -> None:
    header: dict[int, str] = {HeaderKey.INSTANT_TIME: TIME, HeaderKey.SCHEMA: own_schema(10)}
    kept = Kept(10)
    kept.act(10, {"a": 1})
    path = next(one for one in kept.store.snapshot() if f"_{time_of(10)}_1.log.hfile" in one)
    entries = list(HFile.of(kept.store.read(path), path).entries())
    assert [key for key, _ in entries] == [b"__all_partitions__", b"p"]
    assert decode_record(entries[1][1], own_schema(10), path)["type"] == 2
    again = HFile.of(format_native_puts(entries, header), "x")
    assert list(again.entries()) == entries
    keys = [f"ключ {number}" for number in range(300)]
    gone = HFile.of(format_native_deletes(frozenset(keys), header), "x")
    assert [key.decode() for key, _ in gone.entries()] == sorted(keys)
