"""Statistics of partitions are as narrow as the rows after each commit that touches the partition, as Hudi keeps them."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.commit.write_session import AlreadyDone, PublishGuards, Replacement, RunIdentity, begin_write
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from lakeindex.metadata import delta_commit
from lakeindex.metadata.column_stats import FIELD
from lakeindex.metadata.metadata_changes import PartitionChange, change_of_files
from lakeindex.metadata.metadata_keys import column_stats_key, partition_stats_key
from lakeindex.metadata.metadata_table import COLUMN_STATS, PARTITION_STATS
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.keeping import change_of_commit, change_of_undone
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.table.properties import metadata_table_of
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.types.avro_schema import schema_to_avro
from tests.builders import SCHEMA, make_table
from tests.golden import made_once
from tests.scheduling import some_of

STATISTICS = ("files", "column_stats", "partition_stats")
COLUMNS = ("_hoodie_commit_time", "_hoodie_record_key", "id", "ts", "v")
WIDEST = ("", "\U0010ffff" * 64)
BUCKETS = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "4"}


def view_of(table: LakeTable) -> MetadataView:
    opened = Table.open(open_storage(table.uri))
    metadata = metadata_table_of(opened.storage, opened.properties)
    assert metadata is not None
    return MetadataView.load(metadata, opened.load_timeline())


def stored(table: LakeTable) -> dict[str, Any]:
    """The records of the statistics of partitions, by their keys."""
    view = view_of(table)
    return {key: it[FIELD] for one in view.slices(PARTITION_STATS) for key, it in view.records(one).items()}


def live_files(table: LakeTable, partition: str) -> tuple[BaseFile, ...]:
    return Table.open(open_storage(table.uri)).listed_snapshot().base_files(partition)


def said(table: LakeTable, partition: str) -> dict[str, tuple[Any, ...]]:
    """By column: least value, greatest, how many, how many nulls, whether the range is tight."""
    records = stored(table)
    found = {}
    for column in COLUMNS:
        one = records.get(partition_stats_key(column, partition))
        if one is not None:
            ends = (None if one[end] is None else one[end][1]["value"] for end in ("minValue", "maxValue"))
            found[column] = (*ends, one["valueCount"], one["nullCount"], one["isTightBound"])
    return found


def brute(table: LakeTable, partition: str) -> dict[str, tuple[Any, ...]]:
    """The same of the rows."""
    files = live_files(table, partition)
    rows = pa.concat_tables([pq.ParquetFile(Path(table.uri) / one.path).read(list(COLUMNS)) for one in files])
    found = {}
    for column in COLUMNS:
        values = rows[column].to_pylist()
        there = [one for one in values if one is not None]
        ends = (min(there), max(there)) if there else (None, None)  # code points are in the order of UTF-8 bytes
        found[column] = (*ends, len(values), len(values) - len(there), True)
    return found


def check(table: LakeTable, *partitions: str) -> None:
    """Compare them; a partition without rows keeps what was said of it, which hides nothing."""
    for one in partitions:
        wanted = brute(table, one)
        if wanted["id"][2]:
            assert said(table, one) == wanted, one


def rows(numbers: list[int], day: str, version: int, value: str | None = "m") -> pa.Table:
    count = len(numbers)
    columns: dict[str, list[object]] = {
        "id": [f"k{number:03d}" for number in numbers],
        "day": [day] * count,
        "ts": [version] * count,
        "v": [value] * count,
    }
    return pa.table(columns, pa.schema([("id", "string"), ("day", "string"), ("ts", "int64"), ("v", "string")]))


@made_once
def with_statistics(folder: Path, version: str) -> LakeTable:
    """Four file groups in one partition, and a metadata table with statistics."""
    made = make_table(folder, hoodie__write__table__version=version, **BUCKETS)
    made.upsert(rows(list(range(40)), "d", 1))
    have = made.metadata_status().partitions
    made.metadata_build(STATISTICS) if not have else None
    return made


@pytest.fixture(params=["8", "9"])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> LakeTable:
    return with_statistics(tmp_path / "t", request.param)


def test_rows_that_are_gone_are_in_no_range(table: LakeTable) -> None:
    table.upsert(rows([100], "d", 900, "zzz"))
    check(table, "d")
    assert said(table, "d")["v"][1] == "zzz"
    table.delete(rows([100], "d", 0).select(["id", "day"]))
    check(table, "d")
    table.upsert(rows(list(range(40)), "d", 2, None))
    table.upsert(rows([7], "d", 3, "a"))
    check(table, "d")
    assert said(table, "d")["v"] == ("a", "a", 40, 39, True)


@pytest.mark.parametrize("compacted", [False, True])
def test_a_rollback_gives_the_range_back(table: LakeTable, compacted: bool) -> None:
    done = table.upsert(rows([5, 100], "d", 900, "zzz"))
    if compacted:
        table.maintain(["metadata"])
    table.rollback(done.instant or "")
    check(table, "d")
    assert said(table, "d")["ts"][:2] == (1, 1)


def test_a_rescale_replaces_the_ranges(table: LakeTable) -> None:
    table.upsert(rows([100], "d", 900, "zzz"))
    rescale_table(table.uri, LocalRunner(1), buckets=8)
    check(table, "d")


def test_footers_of_files_that_stay_are_not_read(table: LakeTable) -> None:
    """What column_stats knows of them is enough."""
    paths = [Path(table.uri) / one.path for one in live_files(table, "d")]
    held = {path: path.read_bytes() for path in paths}
    for path, data in held.items():
        path.write_bytes(b"x" * len(data))
    mine = next(path for path, data in held.items() if b"k007" in data_keys(data))
    mine.write_bytes(held[mine])
    table.upsert(rows([7], "d", 900, "zzz"))
    for path, data in held.items():
        path.write_bytes(data)
    check(table, "d")


def data_keys(data: bytes) -> set[bytes]:
    read = pq.ParquetFile(pa.BufferReader(data)).read(["_hoodie_record_key"])
    return {key.encode() for key in read.column(0).to_pylist()}


@pytest.mark.parametrize("seed", some_of(range(3), lambda seed: seed == 0, pytest.mark.slow))
@pytest.mark.few(1)
def test_a_random_story(table: LakeTable, seed: int) -> None:
    chance = random.Random(seed)
    days = ["d", "e", "f"]
    for turn in range(2, 14):
        day = chance.choice(days)
        numbers = chance.sample(range(60), chance.randint(1, 25))
        act = chance.random()
        if act < 0.6:
            done = table.upsert(
                rows(numbers, day, turn * chance.choice([1, 10]), chance.choice(["a", "m", "zz", None, "é"]))
            )
            if chance.random() < 0.3:
                if chance.random() < 0.5:
                    table.maintain(["metadata"])
                table.rollback(done.instant or "")
        elif act < 0.85:
            table.delete(rows(numbers, day, 0).select(["id", "day"]))
        else:
            table.clean(2)
            table.maintain(["metadata", "archive"])
        assert table.metadata_verify().ok
        check(table, *(one for one in days if live_files(table, one)))


def test_a_file_of_which_nothing_is_known_gives_its_partition_the_widest_range(table: LakeTable) -> None:
    """Also after commits beside it: a range of the other files alone would hide its rows, and so would none at all."""
    table.upsert(rows([7], "d", 2, "x" * 70_000))
    assert said(table, "d")["v"][:2] == WIDEST
    beside = next(key for key in range(40) if file_of(table, key) != file_of(table, 7))
    table.upsert(rows([beside], "d", 3, "a"))
    assert said(table, "d")["v"][:2] == WIDEST
    assert said(table, "d").keys() == brute(table, "d").keys()
    assert table.metadata_verify().ok
    table.upsert(rows([7], "d", 4, "b"))
    check(table, "d")


def replaced_partition(table: LakeTable, partition: str) -> str:
    """A replacecommit that takes every file group of a partition away, as Hudi's delete_partition does."""
    opened = Table.open(open_storage(table.uri))
    snapshot = opened.snapshot()
    session = begin_write(opened, RunIdentity("r", "gone", "d"), "DELETE_PARTITION", WriteConfig())
    assert not isinstance(session, AlreadyDone)
    gone = tuple(snapshot.base_files(partition))
    session.plan([], snapshot.instant_time, "digest", Replacement(gone))
    schema = {SCHEMA_KEY: schema_to_avro(SCHEMA, opened.name)}
    replaced = {partition: tuple(one.file_id for one in gone)}
    commit = CommitMetadata({}, "DELETE_PARTITION", schema, replaced_file_ids=replaced)
    instant = session.publish(commit, [], PublishGuards.of(snapshot.timeline))
    session.close()
    return instant


@pytest.mark.parametrize("is_known", [True, False])
def test_a_partition_that_a_rollback_brings_back_has_its_ranges_again(table: LakeTable, is_known: bool) -> None:
    """Hudi takes them away with the partition, and skips one without a record where others have one."""
    table.upsert(rows([50], "e", 2))
    wanted = brute(table, "d")
    instant = replaced_partition(table, "d")
    view, properties = view_of(table), Table.open(open_storage(table.uri)).properties
    after = replace(view, data=view.data.without_completed({instant}))
    change = change_of_undone(after, properties, {instant}, (), frozenset({"d"}) if is_known else None)
    found = change[PARTITION_STATS].puts
    assert {partition_stats_key(name, "d") for name in wanted} <= found.keys()
    assert {one[FIELD]["isTightBound"] for one in found.values()} == {True}


def test_a_partition_without_ranges_is_found(table: LakeTable) -> None:
    """Readers skip it, as other partitions have some."""
    folder = Path(table.uri) / ".hoodie/metadata/partition_stats"
    before = set(folder.iterdir())
    table.upsert(rows([50], "e", 2))
    for log in set(folder.iterdir()) - before:
        log.unlink()
    found = table.metadata_verify()
    assert not found.ok
    assert {(one.kind, one.path[:3], one.said) for one in found.examples} == {("statistics", "e (", "nothing")}


def file_of(table: LakeTable, number: int) -> str:
    key = f"k{number:03d}".encode()
    return next(
        one.file_id for one in live_files(table, "d") if key in data_keys((Path(table.uri) / one.path).read_bytes())
    )


def test_beside_an_earlier_instant_that_is_pending_a_range_only_widens(table: LakeTable) -> None:
    """Hudi reads logs in the order of instants: what that one writes later would stand before, and be replaced."""
    table.upsert(rows([7], "d", 2, "a"))
    view, properties = view_of(table), Table.open(open_storage(table.uri)).properties
    newest = view.data.completed_writes[-1]
    commit = view.data.commit_metadata(view.table.storage, newest)
    early, late = (f"{int(newest.time) + by}" for by in (-1, 1))
    for time, tight in ((early, False), (late, True)):
        pending = Instant(time, names.COMMIT, InstantState.INFLIGHT)
        data = Timeline.of(view.data.layout, [*view.data.files, pending], view.table.storage)
        change = change_of_commit(replace(view, data=data), properties, newest.time, commit)
        assert {one[FIELD]["isTightBound"] for one in change[PARTITION_STATS].puts.values()} == {tight}


def test_beside_another_write_that_is_pending_what_a_rollback_gives_back_only_widens(table: LakeTable) -> None:
    """Whatever its instant is: what it writes is not there yet."""
    instant = table.upsert(rows([7], "d", 2, "a")).instant or ""
    view, properties = view_of(table), Table.open(open_storage(table.uri)).properties
    paths = [one.path for one in live_files(table, "d") if one.instant_time == instant]
    for by in (-1, 0, 1):
        beside = [Instant(f"{int(instant) + by}", names.COMMIT, InstantState.INFLIGHT)] if by else []
        data = Timeline.of(view.data.layout, [*view.data.files, *beside], view.table.storage)
        after = replace(view, data=data.without_completed({instant}))
        change = change_of_undone(after, properties, {instant}, paths, frozenset())
        assert {one[FIELD]["isTightBound"] for one in change[PARTITION_STATS].puts.values()} == {not by}, by


def test_without_statistics_of_files_new_files_widen(table: LakeTable) -> None:
    """As far as all that was there before is known."""
    table.metadata_drop(["column_stats", "partition_stats"])
    table.metadata_build(["partition_stats"])
    table.metadata_drop(["column_stats"])
    table.upsert(rows([7], "d", 2, "a"))
    assert said(table, "d")["v"][:2] == ("a", "m")
    table.upsert(rows([8], "d", 3, "x" * 70_000))
    assert said(table, "d")["v"][:2] == WIDEST
    beside = next(key for key in range(40) if file_of(table, key) != file_of(table, 8))
    table.upsert(rows([beside], "d", 4, "b"))
    assert said(table, "d")["v"][:2] == WIDEST
    table.upsert(rows([1], "e", 5, "b"))
    assert said(table, "e")["v"][:2] == ("b", "b")


def change_metadata(table: LakeTable, partition: str, puts: dict[str, Any], gone: frozenset[str] = frozenset()) -> None:
    """A delta commit of the metadata table that no write of the table belongs to."""
    view = view_of(table)
    newest = max(one.completion_time or one.time for one in view.timeline.completed_writes)
    time, end = (f"{int(newest[:17]) + later}" for later in (1, 2))
    change = {**change_of_files({}), partition: PartitionChange(puts, gone)}
    delta_commit.write(
        view, delta_commit.prepare(view, time, change), end if view.table.layout.has_completion_times else None
    )


def without(table: LakeTable, number: int, column: str, **said: object) -> None:
    """Let ``column_stats`` say something else of a column in the file of a key, or nothing at all."""
    name = next(one.name for one in live_files(table, "d") if one.file_id == file_of(table, number))
    key = column_stats_key(column, "d", name)
    record = view_of(table).lookup(COLUMN_STATS, [key])[key]
    change_metadata(table, COLUMN_STATS, {}, frozenset({key}))
    if said:
        change_metadata(table, COLUMN_STATS, {key: {**record, FIELD: {**record[FIELD], **said}}})


@pytest.mark.parametrize("lacking", [{}, {"minValue": None, "maxValue": None}, {"minValue": None}], ids=str)
def test_what_column_stats_does_not_say_of_a_file_that_stays_its_footer_does(
    table: LakeTable, lacking: dict[str, object]
) -> None:
    """A record without ends is no column of nulls, as long as there are values; one column may lack its record."""
    table.upsert(rows([7], "d", 2, "zz"))
    without(table, 7, "v", **lacking)
    beside = next(key for key in range(40) if file_of(table, key) != file_of(table, 7))
    table.upsert(rows([beside], "d", 3, "a"))
    check(table, "d")
    assert brute(table, "d")["v"][:2] == ("a", "zz")


def test_a_partition_of_which_nothing_was_known_gets_the_range_of_all_its_files(table: LakeTable) -> None:
    """Without statistics of files what the others hold is in their footers alone."""
    table.upsert(rows(list(range(40)), "e", 2))
    wanted = said(table, "e")
    table.metadata_drop(["column_stats"])
    keys = frozenset(partition_stats_key(column, "e") for column in (*COLUMNS, "day", "_hoodie_partition_path"))
    change_metadata(table, PARTITION_STATS, {}, keys)
    assert said(table, "e") == {}
    table.upsert(rows([7], "e", 3, "a"))
    assert said(table, "e")["v"][:2] == ("a", wanted["v"][1])
    assert said(table, "e")["ts"][:2] == (2, 3)
    table.upsert(rows([7], "d", 3, "a"))
    assert said(table, "d")["v"][:2] == ("a", "m")


def test_a_column_of_which_nothing_was_known_gets_the_range_of_all_files(table: LakeTable) -> None:
    """What is known of another column says nothing of it: a range of the new file alone would hide what others hold."""
    wanted = said(table, "d")["v"]
    table.metadata_drop(["column_stats"])
    change_metadata(table, PARTITION_STATS, {}, frozenset({partition_stats_key("v", "d")}))
    table.upsert(rows([7], "d", 3, "a"))
    assert said(table, "d")["v"][:2] == ("a", wanted[1])
    assert said(table, "d")["ts"][:2] == (1, 3)


def test_a_rollback_of_a_replacement_that_was_compacted_gives_the_ranges_back(table: LakeTable) -> None:
    """Hudi takes the records away with the partition."""
    wanted = said(table, "d")
    instant = replaced_partition(table, "d")
    keys = frozenset(partition_stats_key(column, "d") for column in (*COLUMNS, "day", "_hoodie_partition_path"))
    change_metadata(table, PARTITION_STATS, {}, keys)
    table.maintain(["metadata"])
    table.rollback(instant)
    assert said(table, "d") == wanted
    check(table, "d")


@pytest.mark.parametrize("alone", [False, True])
def test_a_column_that_a_commit_adds_has_statistics_from_then_on(table: LakeTable, *, alone: bool) -> None:
    """It is defined before the commit; else readers skip its rows, as other columns have a range."""
    if alone:
        table.metadata_drop(["column_stats"])
    wide = rows([7], "d", 2, "a").append_column("extra", pa.array([5], pa.int64()))
    table.upsert(wide, options={"lakeindex.schema.mode": "add"})
    found = stored(table)[partition_stats_key("extra", "d")]
    assert (found["minValue"][1], found["maxValue"][1], found["valueCount"]) == ({"value": 5}, {"value": 5}, 40)
    assert found["nullCount"] == 39
    assert table.metadata_verify().ok
    assert table.check().ok
