"""Savepoints and restores of whole tables: rows, index, buckets, columns, ledger, history, changes, check, the command."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import time
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.archive import archive_instants
from lakeindex.errors import (
    LakeIndexError,
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    UsageError,
    WriteConflictError,
)
from lakeindex.format.instants import iso_of_instant_time, next_instant_time, previous_instant_time
from lakeindex.model import Instant, InstantState
from lakeindex.operations import restore as restoring
from lakeindex.operations.table_states import commit_points
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import OWN_SYNC_MARKER, RestorePlan, format_restore_plan
from tests.builders import Row, batch_of, make_table, rows_of
from tests.meanwhile import MemoryTable, writes_data
from tests.model.power import pass_for_dead
from tests.model.scheduling import Killed
from tests.scheduling import some_of

INDEXES = ("BLOOM", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX", "INMEMORY")
FIRST = [Row(key, "xyz"[number % 3], 1, f"first {key}") for number, key in enumerate("abcdef")]
SECOND = [Row(key, "xyz"["abcdefgh".index(key) % 3], 2, f"second {key}") for key in "defgh"]
THIRD = [Row("g", "y", 3, "third g"), Row("i", "z", 3, "third i")]


def told(table: LakeTable) -> list[tuple[object, ...]]:
    return sorted((row["id"], row["day"], row["ts"], row["v"], row["_hoodie_commit_time"]) for row in rows_of(table))


def upsert(table: LakeTable, rows: list[Row], name: str, **options: object):
    return table.upsert(batch_of(rows), batch_id=name, **options)


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("index", some_of(INDEXES, {"BLOOM", "RECORD_INDEX"}.__contains__, pytest.mark.slow))
@pytest.mark.few(2)
def test_a_table_goes_back_and_its_batches_come_again(tmp_path: Path, index: str, version: str) -> None:
    """What an index, the ledger and the metadata table say follows: keys are found, inserted, and none is doubled."""
    table = make_table(str(tmp_path / "t"), hoodie__index__type=index, hoodie__write__table__version=version)
    if index == "RECORD_INDEX" and version == "9":
        table.metadata_build(["record_index", "column_stats", "partition_stats", "bloom_filters"])
    upsert(table, FIRST, "one")
    before, then = told(table), {one.path for one in table.files()}
    kept = table.savepoint_create(comment="before").savepoint.instant
    second = upsert(table, SECOND, "two")
    third = upsert(table, THIRD, "three")
    table.delete(pa.table({"id": ["a"], "day": ["x"]}), batch_id="gone")
    after = [row[:4] for row in told(table)]
    table.clean(1)
    table.maintain(["metadata"])
    planned = table.restore(kept, dry_run=True)
    assert [one.batch_id for one in planned.commits] == ["gone", "three", "two"]
    counts = [(0, 0, 1), *((one.inserts + one.moved, one.updates, one.moved) for one in (third, second))]
    assert [(one.inserts, one.updates, one.deletes) for one in planned.commits] == counts
    now = {one.path for one in table.files()}
    assert planned.files_back == len(then - now)
    assert planned.bytes_deleted == sum((tmp_path / "t" / path).stat().st_size for path in planned.files_deleted)
    assert (planned.rows_before, planned.rows_after, planned.dry_run) == (len(after), len(before), True)
    assert [row[:4] for row in told(table)] == after, "a dry run changes nothing"
    done = table.restore(kept)
    assert done.rows_before - done.rows_gone + done.rows_back == done.rows_after == table.count()
    assert told(table) == before
    assert table.get(list("abcdefghi")).rows.num_rows == len(FIRST)
    assert table.check().ok
    if table.properties.get("hoodie.table.metadata.partitions"):
        assert table.metadata_verify().ok
    again = upsert(table, SECOND, "two")
    assert (again.updates, again.inserts) == (second.updates, second.inserts)
    again = upsert(table, THIRD, "three")
    assert (again.updates, again.inserts) == (third.updates, third.inserts)
    assert table.check().ok


def made(path: Path, version: str = "9", **options: str) -> tuple[LakeTable, str, list[tuple[object, ...]]]:
    """A table with one commit, which is told."""
    table = make_table(str(path), hoodie__write__table__version=version, **options)
    instant = upsert(table, FIRST, "one").instant
    return table, str(instant), told(table)


def test_a_key_that_a_later_write_took_away_again_is_where_it_was(tmp_path: Path) -> None:
    """Of a file group that several writes changed the newest slice says which keys the index has: an older one of them names a
    key that moved away since, and would call it gone where it is stored now. One that only the newest lacks is there again. Base files of the metadata table have taken in all of
    these writes, or the oldest.
    """
    for version, all_are_taken_in in (("6", True), ("9", True), ("9", False)):
        table = make_table(
            str(tmp_path / version / str(all_are_taken_in)),
            hoodie__index__type="GLOBAL_SIMPLE",
            hoodie__write__table__version=version,
        )
        upsert(table, [Row("a", "x", 1, "1"), Row("c", "x", 1, "1"), Row("b", "y", 1, "1")], "one")
        table.metadata_build(["record_index"])
        first = str(table.history()[0].instant)
        options = {"hoodie.simple.index.update.partition.path": "true"}
        upsert(table, [Row("n", "x", 2, "2")], "two", options=options)
        if not all_are_taken_in:
            table.maintain(["metadata"])
        table.delete(pa.table({"id": ["c", "n"], "day": ["x", "x"]}), batch_id="gone")
        upsert(table, [Row("m", "x", 3, "3"), Row("n", "y", 3, "3")], "three", options=options)
        if all_are_taken_in:
            table.maintain(["metadata"])
        table.restore(first)
        assert table.metadata_verify().ok, version
        assert table.get(["a", "b", "c", "m", "n"]).missing == ("m", "n"), version


def test_what_was_replaced_lives_again(tmp_path: Path) -> None:
    replacing = {
        "overwrite": lambda table: table.insert_overwrite(batch_of(THIRD)),
        "whole": lambda table: table.insert_overwrite_table(batch_of(THIRD)),
        "partitions": lambda table: table.delete_partitions(["x", "z"]),
        "truncate": lambda table: table.truncate(),
    }
    for version in ("6", "9"):
        for name, replace in replacing.items():
            table, first, before = made(tmp_path / f"{name}{version}", version)
            then = {one.path for one in table.files()}
            upsert(table, SECOND, "two")
            replace(table)
            upsert(table, THIRD, "three")
            now = {one.path for one in table.files()}
            done = table.restore(first)
            assert (done.rows_after, done.files_back) == (len(before), len(then - now)), name
            assert told(table) == before, name
            upsert(table, SECOND, "two")
            assert table.check().ok, name


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_damaged_commit_is_in_the_way_of_a_rollback_only_where_it_may_say_what_is_missing(version: str) -> None:
    """Of file groups that were replaced the newest slice has to be there: what was written before that does not matter."""
    world = MemoryTable.holding(
        [Row("a", "x", 1, "1")], [Row("b", "y", 2, "2")], [Row("a", "x", 3, "3")], hoodie__write__table__version=version
    )
    timeline = world.timeline()
    path = timeline.path(timeline.completed_writes[1])
    whole, before = world.store.read(path), told(world.table)
    for partition, is_refused in (("x", False), ("y", True)):
        done = world.table.insert_overwrite(batch_of([Row("c", partition, 4, "4")])).instant
        now = told(world.table)
        world.store.write(path, b"no commit")
        if is_refused:
            with pytest.raises(TableCorruptError, match="damaged") as caught:
                world.table.rollback(str(done))
            assert caught.value.culprit == path
        else:
            world.table.rollback(str(done))
        world.store.write(path, whole)
        assert told(world.table) == (now if is_refused else before)


@pytest.mark.parametrize("version", ["6", "9"])
def test_what_was_replaced_does_not_live_again_as_it_was_at_a_savepoint_before(version: str) -> None:
    """A clean takes the last slice of a file group that was replaced, and leaves the older one that a savepoint names:
    without the replacecommit that one would be live."""
    replacing = {
        "overwrite": lambda table: table.insert_overwrite(batch_of([Row("c", "x", 3, "c")])),
        "whole": lambda table: table.insert_overwrite_table(batch_of([Row("c", "x", 3, "c")])),
        "partitions": lambda table: table.delete_partitions(["x"]),
        "truncate": lambda table: table.truncate(),
        "cluster": lambda table: table.cluster(sort="columns", columns=["v"]),
    }
    for name, replace in replacing.items():
        world = MemoryTable.holding(
            [Row("a", "x", 1, "1"), Row("b", "x", 1, "1")], index="SIMPLE", hoodie__write__table__version=version
        )
        table = world.table
        saved = table.savepoint_create().savepoint.instant
        before, second = told(table), str(world.upsert([Row("a", "x", 2, "2")]).instant)
        replaced = str(replace(table).instant)
        last = str(world.upsert([Row("d", "y", 4, "4")]).instant)
        table.clean(1)
        with pytest.raises(TableUnsupportedError, match="cleaned away"):
            table.restore(second)
        table.rollback(last)
        now = told(table)
        with pytest.raises(TableUnsupportedError, match="cleaned away"):
            table.rollback(replaced)
        assert told(table) == now, name
        table.restore(saved)
        assert told(table) == before, name


def test_the_number_of_buckets_is_that_of_then(tmp_path: Path) -> None:
    table, first, before = made(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    table.rescale(5)
    upsert(table, SECOND, "two")
    table.restore(first)
    assert told(table) == before
    assert not table.rescale(2).dry_run
    assert table.rescale(2).noop
    upsert(table, SECOND, "two")
    assert table.check().ok


def test_columns_are_those_of_then(tmp_path: Path) -> None:
    table, first, before = made(tmp_path / "t")
    table.metadata_build()
    wide = batch_of(SECOND).append_column("more", pa.array(["m"] * len(SECOND)))
    table.upsert(wide, batch_id="wide", schema_mode="add")
    assert "more" in table.schema.names
    table.restore(first)
    assert "more" not in table.schema.names
    assert told(table) == before
    upsert(table, SECOND, "two")
    table.upsert(wide, batch_id="wide", schema_mode="add")
    assert table.metadata_verify().ok
    assert table.check().ok


def test_a_savepoint_can_be_read_after_a_clean(tmp_path: Path) -> None:
    table, first, before = made(tmp_path / "t")
    table.savepoint_create()
    for rows, name in ((SECOND, "two"), (THIRD, "three"), (SECOND, "four")):
        upsert(table, rows, name)
    assert table.clean(1).kept_for_savepoints
    assert table.archive(1, options={"hoodie.cleaner.commits.retained": "1"}).held_by == f"savepoint {first}"
    assert table.read(as_of=first, meta=True).num_rows == len(before)
    assert table.restore(first).files_back
    assert told(table) == before


def test_several_are_rolled_back_in_one_step(tmp_path: Path) -> None:
    table, first, before = made(tmp_path / "t")
    second = upsert(table, SECOND, "two").instant
    third = upsert(table, THIRD, "three").instant
    assert [one.instant for one in table.restore(before=second).commits] == [third, second]
    assert told(table) == before
    with pytest.raises(UsageError, match="first commit of the timeline"):
        table.restore(before=first)
    for wrong in ({}, {"to": first, "before": first}):
        with pytest.raises(UsageError, match="to one commit, or before one"):
            table.restore(**wrong)
    done = table.restore(first)
    assert (done.instant, done.commits, done.rows_after) == (None, (), len(before)), "nothing is later"


def test_history_tells_what_went(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t")
    table.savepoint_create(comment="why")
    second, third = upsert(table, SECOND, "two").instant, upsert(table, THIRD, "three").instant
    done = table.restore(first)
    by_action = {one.action: one for one in table.history()}
    told_of = by_action["restore"]
    assert (told_of.instant, told_of.target, told_of.undone) == (done.instant, first, (third, second))
    assert told_of.files_removed == len(done.files_deleted)
    assert by_action["savepoint"].comment == "why"


def test_changes_do_not_go_on_from_what_went(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t")
    second = upsert(table, SECOND, "two").instant
    assert table.changes(since=first).to_arrow().num_rows
    done = table.restore(first)
    with pytest.raises(UsageError, match=f"commit {second}, which the table had then, was taken away by restore") as no:
        table.changes(since=second).to_arrow()
    assert f"changes since {first}" in no.value.hint
    assert table.changes(since=first).to_arrow().num_rows == 0
    third = upsert(table, THIRD, "three").instant
    for since in (first, done.instant):
        kinds = table.changes(since=since).to_arrow()["_change_type"].to_pylist()
        assert kinds == ["insert"] * len(THIRD)
    assert table.changes(since=third).to_arrow().num_rows == 0


def test_changes_do_not_go_on_from_a_commit_that_was_rolled_back(tmp_path: Path) -> None:
    for version in ("6", "9"):
        path = tmp_path / version
        table = make_table(path / "t", hoodie__write__table__version=version)
        first = str(upsert(table, FIRST, "one").instant)
        second = str(upsert(table, SECOND, "two").instant)
        ended = commit_points(str(path / "t"), second)
        assert ended is not None
        then = iso_of_instant_time(ended.completion_time or second)
        table.rollback(second)
        for since in (second, ended.completion_time or second, str(then)):
            with pytest.raises(UsageError, match=f"commit {second}, which .* taken away by rollback") as no:
                table.changes(since=since).to_arrow()
            assert f"changes since {first}" in no.value.hint
        upsert(table, THIRD, "three")
        with pytest.raises(UsageError, match="taken away by rollback"):
            table.changes(since=second).to_arrow()
        assert table.changes(since=first).to_arrow()["_change_type"].to_pylist() == ["insert"] * len(THIRD)


@pytest.mark.usefixtures("time_leaps")
def test_changes_go_on_beside_the_rollback_of_a_writer_that_died(tmp_path: Path) -> None:
    """It may have begun before the commit that is gone on from, or while that was being made: it is not what the table had."""
    for version, timeline in (("6", ".hoodie"), ("9", ".hoodie/timeline")):
        table, _, _ = made(tmp_path / version, version)
        folder = tmp_path / version / timeline
        second = str(upsert(table, SECOND, "two").instant)
        ended = commit_points(table.uri, second)
        ends = {str((ended and ended.completion_time) or second), second}
        for dead in {previous_instant_time(one) for one in ends}:
            (folder / f"{dead}.commit.requested").write_bytes(b"")
            (folder / f"{dead}.inflight").write_bytes(b"")
            table.rollback(dead, force=True)
        assert sum(one.action == "rollback" for one in table.history()) == len(ends)
        for since in ends:
            assert table.changes(since=since).to_arrow().num_rows == 0


def overlapping(version: str) -> tuple[MemoryTable, str, str, str]:
    """A commit, and two of which the one that began first was completed last; their instants."""
    world = MemoryTable(hoodie__write__table__version=version)
    first, inner = str(world.upsert([Row("a", "x", 1, "")]).instant), list[str]()
    world.once(writes_data, lambda: inner.append(str(world.upsert([Row("b", "y", 1, "")]).instant)))
    outer = str(world.upsert([Row("c", "z", 1, "")]).instant)
    assert first < outer < inner[0]
    return world, first, inner[0], outer


def test_changes_do_not_go_on_from_what_had_a_commit_that_was_taken_back_though_it_began_later() -> None:
    """It was completed before the one that is gone on from. A lost attempt that began between them was never completed."""
    for taken_back in ("rollback", "restore"):
        world, first, inner, outer = overlapping("9")
        ended = commit_points(world.table.uri, outer)
        assert ended is not None
        if taken_back == "rollback":
            world.table.rollback(inner)
        else:
            world.table.restore(first)
        for since in (outer, str(ended.completion_time)):
            with pytest.raises(UsageError, match=f"was taken away by {taken_back}") as no:
                world.table.changes(since=since)
            assert f"changes since {first}" in no.value.hint
        assert world.table.changes(since=first).to_arrow()["id"].to_pylist() == ["c"] * (taken_back == "rollback")
    world = MemoryTable.holding([Row("a", "x", 1, "")], hoodie__write__table__version="9")
    inner = list[str]()
    world.once(writes_data, lambda: inner.append(str(world.upsert([Row("a", "x", 2, "")]).instant)))
    world.upsert([Row("a", "x", 3, "")])
    lost = world.timeline().undone.instants
    assert lost
    assert max(lost) < inner[0]
    assert world.table.changes(since=inner[0]).to_arrow()["ts"].to_pylist() == [2, 3]


def test_changes_go_on_from_what_did_not_have_the_commit_that_was_taken_back() -> None:
    """It began before the one that is gone on from, and was completed later."""
    world, _, inner, outer = overlapping("9")
    assert [one.instant for one in world.table.restore(inner).commits] == [outer]
    assert world.table.changes(since=inner).to_arrow().num_rows == 0


def test_the_point_before_a_commit_is_the_end_of_the_one_that_was_completed_before_it() -> None:
    for version in ("6", "9"):
        world, first, inner, outer = overlapping(version)
        points = {time: commit_points(world.table.uri, time) for time in (first, inner, outer)}
        ends = {time: (one and one.completion_time) or time for time, one in points.items()}
        assert sorted(ends, key=ends.__getitem__) == (
            [first, inner, outer] if version == "9" else [first, outer, inner]
        )
        before = dict(zip([None, *sorted(ends.values())], sorted(ends, key=ends.__getitem__), strict=False))
        assert {time: one and one.previous for time, one in points.items()} == {t: end for end, t in before.items()}


def test_changes_do_not_go_on_from_what_a_restore_took_away_that_was_cut_short(tmp_path: Path) -> None:
    """Of another writer, which has written since: it is over, and what it had taken away by then is gone."""
    for version, taken in itertools.product(("6", "9"), (True, False)):
        world = MemoryTable(hoodie__write__table__version=version)
        first, second, third = (str(world.upsert([Row(key, "x", 1, "")]).instant) for key in "abc")
        timeline, time = world.timeline(), previous_instant_time(third)
        for state, data in (
            ("requested", format_restore_plan(RestorePlan(first, ((second, "commit"),)))),
            ("inflight", b""),
        ):
            path = timeline.path(Instant(time, "restore", InstantState(state)))
            world.store.write(path, data.replace(OWN_SYNC_MARKER, b"another-writer-1"))
        if not taken:
            assert world.table.changes(since=second).to_arrow()["id"].to_pylist() == ["c"]
            continue
        done = timeline.completed_write(second)
        assert done is not None
        world.store.delete(timeline.path(done))
        with pytest.raises(
            UsageError, match=f"commit {second}, which the table had then, was taken away by restore"
        ) as no:
            world.table.changes(since=second)
        assert f"changes since {first}" in no.value.hint
        assert world.table.changes(since=third).to_arrow().num_rows == 0


@pytest.mark.parametrize("version", ["6", "9"])
def test_changes_go_on_beside_a_restore_that_has_not_begun_and_names_what_was_archived(version: str) -> None:
    """It has taken nothing away: what is not on the timeline any more is in the archive."""
    world = MemoryTable(hoodie__write__table__version=version)
    _, second, third = (str(world.upsert([Row(key, "x", 1, "")]).instant) for key in "abc")
    opened = Table.open(world.store)
    before = [one for one in opened.load_timeline().completed_writes if one.time != third]
    with maintaining(opened, "archiving") as (_, lock):
        assert archive_instants(opened.storage, opened.load_timeline, lock, before)
    timeline = world.timeline()
    plan = format_restore_plan(RestorePlan(before[0].time, ((third, "commit"), (second, "commit"))))
    late = Instant(next_instant_time(timeline.max_time, 0), "restore", InstantState.REQUESTED)
    world.store.write(timeline.path(late), plan.replace(OWN_SYNC_MARKER, b"another-writer-1"))
    assert world.table.changes(since=third).to_arrow().num_rows == 0


def test_changes_go_on_from_what_was_completed_after_a_roll_back_that_it_began_before() -> None:
    """What was taken back while the commit was in flight, the table did not have when it was completed."""
    for version in ("6", "9"):
        world, undone = MemoryTable.holding([Row("a", "x", 1, "")], hoodie__write__table__version=version), list[str]()

        def come_and_go(world: MemoryTable = world, undone: list[str] = undone) -> None:
            undone.append(str(world.upsert([Row("b", "y", 1, "")]).instant))
            world.table.rollback(undone[0])

        world.once(writes_data, come_and_go)
        outer = str(world.upsert([Row("c", "z", 1, "")]).instant)
        assert outer < undone[0]
        assert world.table.changes(since=outer).to_arrow().num_rows == 0


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_newest_commit_that_is_kept_is_the_one_that_was_completed_last(version: str) -> None:
    """All that was committed by then is in it."""
    world, _, inner, outer = overlapping(version)
    done = world.table.savepoint_create().savepoint
    assert (done.instant, done.files) == (outer if version == "9" else inner, 3)
    assert world.table.restore(done.instant, dry_run=True).commits == ()
    with pytest.raises(TableUnsupportedError, match=f"instant {inner} is .*savepoint") as kept:
        world.table.rollback(inner)  # its files are named, by whatever commit was completed after it
    assert kept.value.culprit == done.instant
    assert f"savepoint delete TABLE {done.instant}" in kept.value.hint
    world.table.savepoint_delete(done.instant)
    world.table.rollback(inner)


def test_a_restore_is_to_a_time_or_before_one(tmp_path: Path) -> None:
    table, first, before = made(tmp_path / "t")
    at_first = dt.datetime.now(dt.UTC).isoformat()
    second = upsert(table, SECOND, "two").instant
    at_second = dt.datetime.now(dt.UTC).isoformat()
    third = upsert(table, THIRD, "three").instant
    assert [one.instant for one in table.restore(at_first, dry_run=True).commits] == [third, second]
    assert table.restore(before=at_second, dry_run=True).to == second
    ended = commit_points(str(tmp_path / "t"), str(second))
    exactly = str(iso_of_instant_time(str(ended and (ended.completion_time or second))))
    assert table.restore(before=exactly, dry_run=True).to == first
    assert table.restore(exactly, dry_run=True).to == second
    with pytest.raises(UsageError, match="nothing of the timeline was committed by then"):
        table.restore("2020-01-01")
    for wrong in ("yesterday", "2999-01-01"):
        with pytest.raises(LakeIndexError, match="--to cannot be"):
            table.restore(wrong)
    assert table.restore(at_second).to == second
    assert table.restore(at_first).to == first
    assert told(table) == before


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_commit_before_one_is_the_last_that_was_completed(version: str) -> None:
    """From version 8 on a write that began first may end last; before that, it is the newest one that began."""
    world = MemoryTable(hoodie__write__table__version=version)
    world.upsert(FIRST)
    inner: list[str] = []
    happened = world.once(writes_data, lambda: inner.append(str(world.upsert([THIRD[1]]).instant)))
    outer = str(world.upsert([SECOND[0]]).instant)
    assert happened
    assert outer < inner[0]
    last = str(world.upsert([THIRD[0]]).instant)
    expected = outer if version == "9" else inner[0]
    moments = [str(iso_of_instant_time(time)) for time in (previous_instant_time(last), last)]
    assert world.table.restore(before=last, dry_run=True).to == expected
    assert world.table.restore(moments[0], dry_run=True).to == expected
    assert world.table.restore(before=moments[1], dry_run=True).to == expected


@pytest.mark.usefixtures("time_leaps")
def test_a_savepoint_is_made_beside_a_writer_that_died_if_forced(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t", "6")
    later = next_instant_time(first, 0)
    for name in (f"{later}.commit.requested", f"{later}.inflight"):
        (tmp_path / "t" / ".hoodie" / name).write_bytes(b"")
    with pytest.raises(LakeIndexError, match=later):
        table.savepoint_create()
    assert table.savepoint_create(force=True).savepoint.instant == first


def test_a_restore_to_a_time_goes_by_the_zone_of_the_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Instants of a table without a zone are local ones, here three hours before UTC."""
    table, first, _ = made(tmp_path / "t")
    upsert(table, SECOND, "two")
    properties = tmp_path / "t" / ".hoodie/hoodie.properties"
    lines = properties.read_text().splitlines(keepends=True)
    properties.write_text("".join(line for line in lines if "timezone" not in line))
    monkeypatch.setenv("TZ", "XXX3")
    time.tzset()
    try:
        ended = commit_points(str(tmp_path / "t"), first)
        end = str(ended and (ended.completion_time or first))
        moment = dt.datetime.strptime(f"{end}000+0000", "%Y%m%d%H%M%S%f%z") + dt.timedelta(hours=3)
        assert table.restore(moment.isoformat(), dry_run=True).to == first
        assert table.restore(moment, dry_run=True).to == first
    finally:
        monkeypatch.undo()
        time.tzset()


@pytest.mark.usefixtures("time_leaps")
def test_the_plan_of_a_restore_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    """Not taken for none: nobody knows which rows it hides. What the error says mends it."""
    table, first, before = made(tmp_path / "t", "6")
    second = upsert(table, SECOND, "two").instant
    rows = told(table)
    folder = tmp_path / "t" / ".hoodie"
    plan, begun = (folder / f"20991231000000000.restore.{state}" for state in ("requested", "inflight"))
    plan.write_bytes(b"Obj\x01torn")
    assert told(table) == rows, "it has not begun"
    begun.write_bytes(b"")
    for look in (
        table.history,
        lambda: told(table),
        lambda: upsert(table, THIRD, "three"),
        lambda: table.restore(first),
    ):
        with pytest.raises(TableCorruptError, match="the plan of restore 20991231000000000 cannot be read") as no:
            look()
        assert no.value.culprit == f".hoodie/{plan.name}"
        assert "delete all files of 20991231000000000" in no.value.hint
    plan.unlink()
    begun.unlink()
    assert told(table) == rows
    assert [one.instant for one in table.restore(first).commits] == [second]
    assert told(table) == before
    done = next(folder.glob("*.restore.requested"))
    done.write_bytes(b"torn")
    with pytest.raises(UsageError, match=f"commit {second}, which .* taken away by restore"):
        table.changes(since=second).to_arrow()  # the completed restore says it, too
    next(folder.glob("*.restore")).write_bytes(b"torn")
    with pytest.raises(TableCorruptError, match="cannot be read"):
        table.changes(since=second).to_arrow()
    assert any(one.action == "restore" for one in table.history())


def test_what_was_archived_is_not_restored_to(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t", "6")
    for number in range(4):
        upsert(table, SECOND, f"later {number}")
    keep = {"hoodie.cleaner.commits.retained": "1"}
    table.clean(1)
    assert table.archive(2, options=keep).instants
    with pytest.raises(UsageError, match="was archived"):
        table.restore(first)


def test_a_later_write_that_was_archived_because_it_began_first_is_not_left_behind() -> None:
    """By the order in which writes were completed it would go, too, and nothing says what it changed. We leave it on the
    timeline; a writer that archives by instants alone, as Hudi does, may not.
    """
    world = MemoryTable(hoodie__write__table__version="9")
    inner: list[str] = []
    happened = world.once(writes_data, lambda: inner.append(str(world.upsert([THIRD[1]]).instant)))
    outer = str(world.upsert([SECOND[0]]).instant)
    assert happened
    world.upsert([THIRD[0]])
    world.table.clean(1)
    assert not world.table.archive(2, options={"hoodie.cleaner.commits.retained": "1"}).instants
    opened = Table.open(world.store)
    late = [one for one in opened.load_timeline().completed_writes if one.time == outer]
    with maintaining(opened, "archiving") as (_, lock):
        assert archive_instants(opened.storage, opened.load_timeline, lock, late)
    before = rows_of(world.table)
    with pytest.raises(TableUnsupportedError, match=f"{outer}, which is not older, was archived") as no:
        world.table.restore(inner[0])
    assert "restore to a later instant" in str(no.value.hint)
    assert rows_of(world.table) == before
    assert world.table.restore(world.table.history()[0].instant).commits == ()


def test_nothing_goes_that_was_not_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody commits between the look at the table and the restore."""
    table, first, _ = made(tmp_path / "t")
    upsert(table, SECOND, "two")
    planned = restoring._planned

    def meanwhile(*arguments: object) -> object:
        upsert(table, THIRD, "three")
        return planned(*arguments)

    monkeypatch.setattr(restoring, "_planned", meanwhile)
    before = [row[:4] for row in told(table)]
    with pytest.raises(WriteConflictError, match="completed meanwhile"):
        table.restore(first)
    assert {row[:4] for row in told(table)} > {row for row in before if row[0] != "g"}


def test_a_restore_that_is_pending_is_noted(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t")
    folder = next(path for path in (tmp_path / "t/.hoodie/timeline", tmp_path / "t/.hoodie") if path.is_dir())
    (folder / f"{first}.savepoint.inflight").write_bytes(b"")
    assert any("savepoint" in note for note in table.check().notes)
    (cut,) = table.savepoint_list().savepoints
    assert (cut.instant, cut.made_at, cut.files) == (first, None, 0)
    table.savepoint_delete(first)
    assert table.savepoint_list().savepoints == ()


def test_the_command_asks_on_a_terminal_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, first, before = made(tmp_path / "t")
    second = upsert(table, SECOND, "two").instant
    run = CliRunner().invoke
    uri = str(tmp_path / "t")
    for words, culprit in (([], "--to"), (["--to", "20200101000000000"], "20200101000000000"), (["--to", "x"], "x")):
        wrong = run(main, ["restore", uri, *words, "--json"])
        assert (wrong.exit_code, json.loads(wrong.stdout)["error"]["culprit"]) == (2, culprit), "before it asks"
    answer = run(main, ["restore", uri, "--to", first, "--json"])
    assert (answer.exit_code, json.loads(answer.stdout)["error"]["culprit"]) == (2, "--yes")
    monkeypatch.setattr("lakeindex.cli.commands.restore.is_terminal", lambda **_: True)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    refused = run(main, ["restore", uri, "--to", first], input="n\n")
    assert refused.exit_code == 130, "as every command that is broken off"
    assert str(second) in refused.output
    assert len(told(table)) > len(before)
    planned = run(main, ["restore", uri, "--before", str(second), "--dry-run", "--json"])
    assert json.loads(planned.stdout)["to"] == first
    agreed = run(main, ["restore", uri, "--before", str(second)], input="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert told(table) == before
    made_here = run(main, ["savepoint", "create", uri, "--comment", "by hand", "--json"])
    assert json.loads(made_here.stdout)["savepoint"]["comment"] == "by hand"
    assert "by hand" in run(main, ["savepoint", "list", uri]).output
    assert run(main, ["savepoint", "delete", uri, first]).exit_code == 0
    assert "no savepoints" in run(main, ["savepoint", "list", uri]).output


@pytest.mark.parametrize("named", ["--to", "--before"])
def test_no_commit_goes_that_was_not_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, named: str) -> None:
    """Somebody writes while the question stands on the screen."""
    table, first, before = made(tmp_path / "t")
    second = str(upsert(table, SECOND, "two").instant)
    monkeypatch.setattr("lakeindex.cli.commands.restore.is_terminal", lambda **_: True)
    monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
    words = ["restore", str(tmp_path / "t"), named, first if named == "--to" else second]
    monkeypatch.setattr("click.confirm", lambda *_, **__: upsert(table, THIRD, "three"))
    refused = CliRunner().invoke(main, [*words, "--json"])
    third = table.history()[0]
    error = json.loads(refused.stdout)["error"]
    assert (third.batch_id, refused.exit_code, error["culprit"]) == ("three", 5, third.instant), refused.output
    assert "would go, too" in error["message"]
    assert len(table.history()) == 3
    monkeypatch.setattr("click.confirm", lambda *_, **__: True)
    again = json.loads(CliRunner().invoke(main, [*words, "--json"]).stdout)
    assert [one["batch_id"] for one in again["commits"]] == ["three", "two"]
    assert told(table) == before


def test_a_savepoint_refuses_what_was_cleaned(tmp_path: Path) -> None:
    table, first, _ = made(tmp_path / "t")
    for number in range(3):
        upsert(table, SECOND, f"later {number}")
    table.clean(1)
    with pytest.raises(TableUnsupportedError, match="cleaned away"):
        table.savepoint_create(first)
    with pytest.raises(TableUnsupportedError, match="cleaned away"):
        table.restore(first, dry_run=True)
    flat = make_table(tmp_path / "flat", partitions=())
    times = [str(flat.upsert(batch_of([Row("a", "x", version, "v")])).instant) for version in range(3)]
    flat.clean(1)
    with pytest.raises(TableUnsupportedError, match=r"what [0-9a-f-]+ was then is gone"):
        flat.restore(times[0])


@pytest.mark.parametrize("left", ["overwrite", "clean"])
def test_what_a_dead_writer_left_is_not_in_the_way(left: str) -> None:
    world = MemoryTable()
    times = [str(world.upsert([Row("a", "x", version, str(version))]).instant) for version in range(4)]

    def kill(call: Call) -> None:
        if call.path.endswith(".parquet") and not call.path.startswith(".hoodie") and call.name in ("write", "delete"):
            raise Killed

    world.store.hook = kill
    with pytest.raises(Killed):
        world.table.clean(keep_commits=2) if left == "clean" else world.table.insert_overwrite_table(
            batch_of([Row("b", "y", 1, "")])
        )
    world.store.hook = None
    pass_for_dead(world.store)
    there = world.store.snapshot()
    with pytest.raises(PendingInstantError):
        world.table.restore(times[2], dry_run=True)
    assert world.store.snapshot() == there, "a dry run settles nothing"
    assert [one.instant for one in world.table.restore(times[2]).commits] == [times[3]]
    assert [row["v"] for row in world.table.read(meta=False).to_pylist()] == ["2"]
    assert not world.timeline().pending


@pytest.mark.parametrize("by_hand", [False, True])
@pytest.mark.few(1)
def test_what_was_rolled_back_of_other_writers_is_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by_hand: bool
) -> None:
    table = make_table(tmp_path / "t")
    first = table.upsert(batch_of([Row("a", "x", 1, "1")])).instant
    table.upsert(batch_of([Row("a", "x", 2, "2")]))
    theirs = next_instant_time(Table.at(table.uri).load_timeline().max_time, 0)
    for state in ("requested", "inflight"):
        (tmp_path / f"t/.hoodie/{theirs}.replacecommit.{state}").write_bytes(b"")
    if by_hand:
        monkeypatch.setattr("lakeindex.cli.commands.restore.is_terminal", lambda **_: True)
        monkeypatch.setattr("click.testing._NamedTextIOWrapper.isatty", lambda _: True, raising=False)
        words = ["restore", table.uri, "--to", str(first), "--json"]
        refused = CliRunner().invoke(main, words, input="y\n")
        assert (refused.exit_code, json.loads(refused.stdout)["error"]["culprit"]) == (5, theirs), refused.output
        done = CliRunner().invoke(main, [*words, "--force"], input="y\n")
        assert done.exit_code == 0, done.output
        (note,) = json.loads(done.stdout)["notes"]
    else:
        (note,) = table.restore(first, force=True).notes
    assert note.startswith(f"instant {theirs} (replacecommit) of another writer was rolled back")
    assert [row["v"] for row in table.read(meta=False).to_pylist()] == ["1"]
