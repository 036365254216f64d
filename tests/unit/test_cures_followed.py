"""Errors are reached, and what they say is done: commands as they stand in the error, options, or the same call again.

Then what was refused is accepted, and nothing is lost or doubled. A message that names a command, or says "again", has a case here, or a reason in
``ELSEWHERE``.
"""

from __future__ import annotations

import inspect
import re
import shlex
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from lakeindex.api.creating import import_table
from lakeindex.api.table import LakeTable
from lakeindex.cli import main
from lakeindex.errors import LakeIndexError
from lakeindex.run.feeds import FEED_KEY
from lakeindex.runners.jobs import stage_command
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.binding import BINDING_PATH
from lakeindex.table.handle import Table
from tests import stored_indexes
from tests.builders import Row, as_hudis, batch_of, content_of, make_table
from tests.golden import table_of
from tests.meanwhile import MemoryTable, writes_data
from tests.stored_indexes import inserted, unseen
from tests.unit.test_advice import COMMAND, FLAG, KEYWORD, all_said, leaf
from tests.unit.test_both_doors import COMMANDS, methods

ROWS = (Row("a", "x", 1, "1"), Row("b", "y", 1, "1"), Row("c", "x", 1, "1"))
NEXT = (Row("a", "x", 2, "2"), Row("d", "y", 2, "2"))
SAME, AFTER = "a1 b1 c1", "a2 b1 c1 d2"
FOUR_BUCKETS = {"hoodie.bucket.index.num.buckets": "4"}
NO_TRY = {"lakeindex.conflict.retries": "0"}


class Reached(NamedTuple):
    """A table in a state in which a call is refused."""

    table: LakeTable
    call: Callable[[], object]
    more: str = ""
    """What is left to be said in a command: arguments behind it."""
    cure: Callable[[], object] = lambda: None
    """What is said in words, done."""


class Case(NamedTuple):
    reach: Callable[..., Reached]
    follow: tuple[str, ...]
    version: str
    holds: str


CASES: list[Case] = []
_Reach = Callable[[Path, str], Reached]


def case(*follow: str, version: str = "", holds: str = AFTER) -> Callable[[_Reach], _Reach]:
    """A state whose error is cured by commands that begin so, one after the other; without any, by the same call.

    Args:
        version: of the table; by default in turns.
        holds: keys and values of ``v`` in the table afterwards.
    """

    def taken(reach: _Reach) -> _Reach:
        CASES.append(Case(reach, follow, version or ("9", "6")[len(CASES) % 2], holds))
        return reach

    return taken


def made(folder: Path, version: str, index: str = "BLOOM", **options: str) -> LakeTable:
    return table_of(folder, ROWS, hoodie__write__table__version=version, hoodie__index__type=index, **options)


def upsert(table: LakeTable, rows: tuple[Row, ...] = NEXT, **options: str) -> Callable[[], object]:
    return lambda: table.upsert(batch_of(rows), options={key.replace("__", "."): text for key, text in options.items()})


def in_turn(*calls: Callable[[], object]) -> Callable[[], object]:
    """What is refused, and then what is done instead."""
    left = list(calls)

    def called() -> object:
        return left.pop(0)()

    return called


def properties_of(table: LakeTable) -> Path:
    return Path(table.uri, ".hoodie", "hoodie.properties")


def pending(folder: Path, version: str, action: str = "commit") -> str:
    """A living writer of another kind has an instant in flight."""
    time = datetime.now(UTC).strftime("%Y%m%d%H%M%S") + "999"
    timeline = folder / ".hoodie" / ("" if version == "6" else "timeline")
    (timeline / f"{time}.{action}.requested").touch()
    (timeline / (f"{time}.inflight" if action == "commit" else f"{time}.{action}.inflight")).touch()
    return time


def refused(
    follow: str,
    call: Callable[[LakeTable], Callable[[], object]],
    index: str = "BLOOM",
    *partitions: str,
    holds: str = SAME,
    version: str = "",
    more: str = "",
) -> None:
    """What a table refuses as it is: of an index, and with partitions of a metadata table."""

    def reach(folder: Path, version: str) -> Reached:
        buckets = {"hoodie__bucket__index__num__buckets": "2"} if index == "BUCKET" else {}
        table = made(folder, version, index, **buckets)
        if partitions:
            table.metadata_build(list(partitions))
        return Reached(table, call(table), more)

    case(*follow.split(", "), version=version, holds=holds)(reach)


refused("metadata build", lambda table: table.metadata_verify)
refused("metadata verify, metadata drop", lambda table: table.metadata_build, "BLOOM", "files")
refused("metadata drop", partial(upsert, lakeindex__metadata__table="refuse"), "BLOOM", "files", holds=AFTER)
refused("index migrate", lambda table: partial(table.metadata_build, ["record_index"]), version="6")
refused(
    "metadata drop, index build",
    partial(upsert, hoodie__metadata__enable="false"),
    "RECORD_INDEX",
    "record_index",
    holds=AFTER,
)
refused("metadata drop", lambda table: table.index_build, "RECORD_INDEX", "record_index")
refused(
    "metadata drop", lambda table: partial(table.index_migrate, "RECORD_INDEX"), "BLOOM", "record_index", version="9"
)
refused("index migrate", lambda table: partial(table.rescale, 2), more="-o hoodie.bucket.index.num.buckets=4")
refused("index migrate", partial(upsert, hoodie__index__type="GLOBAL_SIMPLE"), holds=AFTER)
refused("rescale", partial(upsert, hoodie__bucket__index__num__buckets="4"), "BUCKET", holds=AFTER)
refused("rescale", lambda table: partial(table.index_migrate, "BUCKET", options=FOUR_BUCKETS), "BUCKET", more="4")


# -- the metadata table


def with_metadata(folder: Path, version: str, *partitions: str, index: str = "GLOBAL_BLOOM") -> LakeTable:
    table = made(folder, version, index)
    table.metadata_build(list(partitions))
    return table


@case("metadata drop", holds=SAME)
def a_folder_of_a_partition_that_nobody_names(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "files")
    left = folder / ".hoodie" / "metadata" / "record_index" / "left"
    left.parent.mkdir()
    left.touch()
    return Reached(table, lambda: table.metadata_build(["record_index"]))


@case("metadata drop", holds=SAME)
def a_folder_of_a_metadata_table_that_nobody_names(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    left = folder / ".hoodie" / "metadata" / "files" / "left"
    left.parent.mkdir(parents=True)
    left.touch()
    return Reached(table, table.metadata_build)


@case("metadata drop", "metadata build", holds="a2 b1 c1 d2 e1")
def a_metadata_table_that_does_not_know_of_a_commit(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "record_index")
    text, kept = properties_of(table).read_text(), folder / ".hoodie" / "kept"
    there = folder / ".hoodie" / "metadata"
    properties_of(table).write_text(re.sub("(?m)^hoodie.table.metadata.partitions=.*$", "", text))
    there.rename(kept)
    table.upsert(batch_of([Row("e", "x", 1, "1")]))
    kept.rename(there)
    properties_of(table).write_text(text)
    return Reached(table, upsert(table))


@case("metadata drop", "metadata build", version="9")
def damaged_definitions_of_indexes(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "column_stats")
    (folder / ".hoodie" / ".index_defs" / "index.json").write_text("{no")
    return Reached(table, upsert(table))


@case("metadata drop")
def a_partition_that_another_writer_builds(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "files")
    with properties_of(table).open("a") as file:
        file.write("hoodie.table.metadata.partitions.inflight=column_stats\n")
    return Reached(table, upsert(table))


@case("metadata drop")
def a_partition_that_is_not_kept_up(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "files")
    text = properties_of(table).read_text()
    properties_of(table).write_text(text.replace("metadata.partitions=", "metadata.partitions=secondary_index_v,"))
    return Reached(table, upsert(table))


@case("metadata build", version="9")
def a_record_index_of_another_scope(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "record_index", index="RECORD_INDEX")
    path = folder / BINDING_PATH
    path.write_text(path.read_text().replace("RECORD_INDEX", "RECORD_LEVEL_INDEX"))
    properties_of(table).write_text(properties_of(table).read_text().replace("RECORD_INDEX", "RECORD_LEVEL_INDEX"))
    return Reached(table, upsert(table))


@case("metadata drop", holds="a1 a1 b1 c1")
def a_key_twice_beside_a_record_index(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "record_index", index="GLOBAL_BLOOM")
    return Reached(table, lambda: unseen(table, "BLOOM", [Row("a", "y", 1, "1")]))


# -- the index


@case("index build")
def an_index_that_is_not_built(folder: Path, version: str) -> Reached:
    table = made(folder, version, "RECORD_INDEX")
    table.index_drop()
    return Reached(table, upsert(table))


@case("index build")
def an_index_whose_files_are_damaged(folder: Path, version: str) -> Reached:
    table = made(folder, version, "RECORD_INDEX")
    for path in (folder / ".hoodie" / ".lakeindex" / "index").rglob("*.*"):
        if path.is_file():
            path.write_bytes(b"no")
    return Reached(table, upsert(table))


@case("rescale", version="6", holds="a2 b1 c1 d2 q1")
def a_file_group_of_no_bucket(folder: Path, version: str) -> Reached:
    table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="2")
    inserted(table, [Row("q", "x", 1, "1")])
    return Reached(table, upsert(table))


@case("index migrate")
def a_table_of_another_index_as_one_of_buckets(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    as_hudis(table)
    asked = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"}
    return Reached(table, upsert(table, **asked), "-o hoodie.bucket.index.num.buckets=2")


@case("rescale", holds="a2 b1 c1 d2 q1")
def a_bucket_with_two_file_groups(folder: Path, version: str) -> Reached:
    table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="2")
    bucket, place = table.files()[0].file_id[:8], uuid.uuid4
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stored_indexes.uuid, "uuid4", lambda: f"{bucket}{str(place())[8:]}")
        inserted(table, [Row("q", "x", 1, "1")])
    return Reached(table, upsert(table))


@case("rescale")
def more_buckets_than_are_bound(folder: Path, version: str) -> Reached:
    table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="8")
    path, text = folder / BINDING_PATH, properties_of(table).read_text()
    path.write_text(path.read_text().replace('"8"', '"2"'))
    properties_of(table).write_text(re.sub(r"(?m)^(lakeindex\..*)\b8\b", r"\g<1>2", text))
    return Reached(table, upsert(table), "8")


@case("index migrate")
def another_index_than_that_of_the_buckets(folder: Path, version: str) -> Reached:
    table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="2")
    as_hudis(table)
    return Reached(table, upsert(table, hoodie__index__type="BLOOM"))


@case("repair keys", holds="a2 b1 c1")
def a_key_twice_in_an_index_that_is_built(folder: Path, version: str) -> Reached:
    table = made(folder, version, "RECORD_INDEX")
    inserted(table, [Row("a", "x", 2, "2")])
    return Reached(table, table.index_build, "--apply")


@case("repair keys", holds="a2 b1 c1")
def a_key_twice_in_buckets_that_are_made_anew(folder: Path, version: str) -> Reached:
    table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="1")
    inserted(table, [Row("a", "x", 2, "2")], into=next(f.file_id for f in table.files() if f.path.startswith("x/")))
    return Reached(table, lambda: table.rescale(2), "--apply")


@case("repair keys", holds="a2 b1 c1")
def a_key_twice_in_a_partition_of_a_table_that_gets_a_global_index(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    inserted(table, [Row("a", "x", 2, "2")])
    return Reached(table, lambda: table.index_migrate("GLOBAL_BLOOM"), "--apply")


# -- the timeline


@case("rollback", holds=SAME)
def a_writer_of_another_kind_in_flight(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    pending(folder, version)
    return Reached(table, lambda: table.maintain(["settle"]))


def scheduled(folder: Path, version: str) -> tuple[LakeTable, str]:
    table = made(folder, version)
    for number in range(2):
        inserted(table, [Row(f"q{number}", "x", 1, "1")])
    time = table.cluster(schedule=True).instant
    assert time is not None
    return table, time


@case("cluster", holds="a2 b1 c1 d2 q01 q11")
def a_pending_clustering_that_is_carried_out(folder: Path, version: str) -> Reached:
    table, _ = scheduled(folder, version)
    return Reached(table, upsert(table))


@case("rollback", holds="a2 b1 c1 d2 q01 q11")
def a_pending_clustering_that_is_rolled_back(folder: Path, version: str) -> Reached:
    table, _ = scheduled(folder, version)
    return Reached(table, upsert(table))


@case("rollback", holds=SAME)
def a_restore_beside_a_pending_clustering(folder: Path, version: str) -> Reached:
    table, _ = scheduled(folder, version)
    first = min(one.instant for one in table.history() if one.action == "commit")
    return Reached(table, lambda: table.restore(first))


@case("restore", holds=SAME)
def a_commit_that_is_not_the_newest(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    before = content_of(table)
    table.upsert(batch_of(NEXT))
    time = table.history()[0].instant
    table.upsert(batch_of([Row("e", "x", 1, "1")]))

    def undone() -> None:
        if content_of(table) != before:
            table.rollback(time)

    return Reached(table, undone, "--yes")


@case("savepoint delete", holds=SAME)
def a_commit_that_a_savepoint_keeps(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    table.upsert(batch_of(NEXT))
    table.savepoint_create()
    return Reached(table, lambda: table.rollback(table.history()[0].instant))


@case("savepoint delete", holds=SAME)
def a_restore_before_a_savepoint(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    first = table.history()[0].instant
    table.upsert(batch_of(NEXT))
    table.savepoint_create()
    return Reached(table, lambda: table.restore(first))


def damaged(folder: Path, version: str, *partitions: str) -> LakeTable:
    table = with_metadata(folder, version, *partitions) if partitions else made(folder, version)
    table.upsert(batch_of(NEXT))
    time = table.history()[0].instant
    for path in (folder / ".hoodie" / ("" if version == "6" else "timeline")).glob(f"{time}*.commit"):
        path.write_bytes(b"no")
    return table


@case("rollback", version="6")
def a_commit_that_cannot_be_read(folder: Path, version: str) -> Reached:
    table = damaged(folder, version)
    return Reached(table, upsert(table))


@case("rollback", version="9")
def a_commit_that_cannot_be_read_beside_a_metadata_table(folder: Path, version: str) -> Reached:
    table = damaged(folder, version, "record_index", "column_stats")
    return Reached(table, upsert(table))


def lost(folder: Path, version: str) -> LakeTable:
    table = made(folder, version)
    table.upsert(batch_of(NEXT))
    Path(folder, next(one.path for one in table.files() if one.path.startswith("x/"))).unlink()
    return table


@case("rollback")
def a_lost_file_whose_commit_is_rolled_back(folder: Path, version: str) -> Reached:
    table = lost(folder, version)
    return Reached(table, upsert(table))


@case("repair")
def a_lost_file_that_is_mended(folder: Path, version: str) -> Reached:
    table = lost(folder, version)
    return Reached(table, upsert(table), "--apply")


@case("repair")
def a_partition_that_no_reader_finds(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    (folder / "x" / ".hoodie_partition_metadata").unlink()
    return Reached(table, upsert(table))


# -- the call


def looked_up(command: str, wrong: str, call: Callable[[LakeTable, str], object], holds: str = SAME) -> None:
    """A name of nothing: a command lists those that there are."""

    def reach(folder: Path, version: str) -> Reached:
        table = made(folder, version, "BUCKET", hoodie__bucket__index__num__buckets="2")
        table.upsert(batch_of(NEXT))
        right = "x" if wrong == "z" else table.history()[0].instant
        return Reached(table, in_turn(lambda: call(table, wrong), lambda: call(table, right)))

    case(command, holds=holds)(reach)


looked_up("inspect", "z", lambda table, name: table.delete_partitions([name]), "b1 d2")
looked_up("inspect", "z", lambda table, name: table.rescale(partitions={name: 4}), AFTER)
looked_up("inspect", "z", lambda table, name: table.cluster([name]), AFTER)
looked_up("partitions", "z", lambda table, name: table.files(partition=name), AFTER)
looked_up("history", "20200101000000000", lambda table, name: table.rollback(name))
looked_up("history", "20200101000000000", lambda table, name: table.restore(name), AFTER)
looked_up("history", "20200101000000000", lambda table, name: table.restore(before=name))
looked_up("history", "20200101000000000", lambda table, name: table.savepoint_create(name), AFTER)
looked_up(
    "history", "20200101000000000", lambda table, name: table.cluster(instant=name if name < "2021" else None), AFTER
)
looked_up("history", "20990101000000000", lambda table, name: table.count(as_of=name), AFTER)


@case("truncate", holds="")
def an_empty_batch_in_the_place_of_a_table(folder: Path, version: str) -> Reached:
    table = made(folder, version)

    def emptied() -> None:
        if content_of(table):
            table.insert_overwrite_table(batch_of([]))

    return Reached(table, emptied)


@case("apply", holds="a2 b1 c1 d2 e01 e11")
def a_feed_that_leaves_changes_out(folder: Path, version: str) -> Reached:
    source, table = made(folder / "source", version), make_table(folder / "t", hoodie__write__table__version=version)
    table.apply(source.changes())
    for number in range(2):
        source.upsert(batch_of([Row(f"e{number}", "x", 1, "1")]))
    late = source.changes(since=source.history()[0].instant)
    source.upsert(batch_of(NEXT))

    def follows() -> None:
        if content_of(table) != content_of(source):
            table.apply(source.changes(since=source.history()[1].instant))

    del late
    return Reached(table, follows)


@case("create", holds="a2 d2")
def no_table(folder: Path, version: str) -> Reached:
    like = folder / "like.parquet"
    pq.write_table(batch_of(ROWS), like)
    table = LakeTable(str(folder / "none"))
    return Reached(table, upsert(table), f"--like {like} --key id --partition day --ordering ts")


# -- the same again


def meanwhile(world: MemoryTable, when: Callable[[Call], bool], does: Callable[[], object]) -> MemoryTable:
    """Something happens in the next run, once."""
    world.once(when, does)
    return world


def world_of(version: str, index: str = "BLOOM") -> MemoryTable:
    return MemoryTable.holding(ROWS, index=index, hoodie__write__table__version=version)


def in_world(world: MemoryTable, rows: tuple[Row, ...] = NEXT) -> Reached:
    return Reached(world.table, lambda: world.upsert(rows, lakeindex__conflict__retries="0"))


@case()
def a_file_group_that_another_writer_changed(_: Path, version: str) -> Reached:
    world = world_of(version)
    return in_world(meanwhile(world, writes_data, lambda: world.upsert([Row("a", "x", 1, "0")])))


@case(holds="a2 b0 c1 d2")
def a_key_that_another_writer_inserted(_: Path, version: str) -> Reached:
    world = world_of(version)
    return in_world(meanwhile(world, writes_data, lambda: world.upsert([Row("d", "y", 1, "0"), Row("b", "y", 1, "0")])))


@case(holds="a9 b1 c9 e9")
def rows_that_meet_a_condition_and_came_meanwhile(_: Path, version: str) -> Reached:
    world = world_of(version)
    meanwhile(world, writes_data, lambda: world.upsert([Row("e", "z", 1, "1")]))
    where = {"where": "v = '1' and id <> 'b'", "checkpoints": f"memory://{world.name}-runs"}
    return Reached(world.table, lambda: world.table.update({"v": "'9'"}, options=NO_TRY, **where))


@case(holds="b1")
def partitions_that_meet_a_condition_and_came_meanwhile(_: Path, version: str) -> Reached:
    world = world_of(version)
    meanwhile(world, lambda call: call.path.endswith(".requested"), lambda: world.upsert([Row("e", "xx", 1, "1")]))
    where = {"where": "day like 'x%'", "checkpoints": f"memory://{world.name}-runs"}
    return Reached(world.table, lambda: world.table.delete(options=NO_TRY, **where))


@case("check", holds="a2 b1 c1")
def a_savepoint_of_what_was_cleaned(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    named = [table.history()[0].instant, None]
    for number in (2, 3):
        table.upsert(batch_of([Row("a", "x", number, "2")]))
    table.clean(1)
    return Reached(table, lambda: table.savepoint_create(named.pop(0)))


@case("rollback", holds="a2 b1 c1 d2 q01 q11")
def files_of_a_scheduled_clustering_that_changed(folder: Path, version: str) -> Reached:
    table, time = scheduled(folder, version)
    kept = {path: path.read_bytes() for path in (folder / ".hoodie").rglob(f"{time}*") if path.is_file()}
    for path in kept:
        path.unlink()
    table.upsert(batch_of(NEXT))
    for path, data in kept.items():
        path.write_bytes(data)
    named = [time, None]
    return Reached(table, lambda: table.cluster(instant=named.pop(0)))


@case("rollback", holds=SAME)
def a_writer_in_flight_that_a_repair_meets(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    pending(folder, version)

    def repaired() -> None:
        for one in table.repair(["pending"]).unmended:
            raise LakeIndexError(one.found, hint=one.cure)

    return Reached(table, repaired)


@case("metadata drop", holds=SAME)
def a_record_index_of_keys_that_are_not_stored(folder: Path, version: str) -> Reached:
    table = with_metadata(folder, version, "files")
    text = properties_of(table).read_text() + "hoodie.populate.meta.fields=false\n"
    properties_of(table).write_text(text.replace("metadata.partitions=", "metadata.partitions=record_index,"))

    def checked() -> None:
        Table.open(open_storage(table.uri)).check_writable()

    return Reached(table, checked)


@case("repair properties")
def lost_properties(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    properties_of(table).unlink()
    return Reached(
        table, upsert(table), "--key id --partition day --ordering ts --apply -o hoodie.write.table.version=" + version
    )


@case(holds="a2 b1 c1")
def a_row_that_lies_elsewhere(folder: Path, version: str) -> Reached:
    table, move = made(folder, version, "GLOBAL_BLOOM"), "hoodie__bloom__index__update__partition__path"
    upsert(table, (Row("a", "y", 2, "2"),), **{move: "false"})()
    cure = upsert(table, (Row("a", "y", 2, "2"), Row("c", "x", 1, "1")), **{move: "true"})
    return Reached(table, lambda: table.index_migrate("BLOOM"), cure=cure)


@case(holds=SAME)
def a_feed_that_is_upserted(folder: Path, version: str) -> Reached:
    table = made(folder / "t", version)
    changes = made(folder / "source", version).changes().to_arrow()
    doors = [table.upsert, table.apply]
    return Reached(table, lambda: doors.pop(0)(changes))


@case(holds=SAME)
def a_feed_whose_source_cannot_be_read(folder: Path, version: str) -> Reached:
    table = made(folder / "t", version)
    changes = made(folder / "source", version).changes().to_arrow()
    given = [changes.replace_schema_metadata({FEED_KEY: b"[]"}), changes]
    return Reached(table, lambda: table.apply(given.pop(0)))


@case(holds=SAME)
def a_feed_since_what_was_rolled_back(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    first = table.history()[0].instant
    table.upsert(batch_of(NEXT))
    named = [table.history()[0].instant, first]
    table.rollback(named[0])
    return Reached(table, lambda: table.changes(since=named.pop(0)).to_arrow())


@case(holds="a2 d2")
def a_feed_since_what_was_all(folder: Path, version: str) -> Reached:
    table = made(folder, version)
    named = [table.history()[0].instant, None]
    table.rollback(str(named[0]))
    table.upsert(batch_of(NEXT))
    return Reached(table, lambda: table.changes(since=named.pop(0)).to_arrow())


@case("repair", holds="a1 b1 c1 d2")
def a_lost_file_of_the_past(folder: Path, version: str) -> Reached:
    table = lost(folder, version)
    named = [table.history()[0].instant, None]
    return Reached(table, lambda: table.count(as_of=named.pop(0)), "--apply")


@case()
def an_index_of_another_scope_since_the_run_began(_: Path, version: str) -> Reached:
    world = world_of(version)
    meanwhile(world, writes_data, lambda: world.table.index_migrate("GLOBAL_BLOOM"))
    return Reached(world.table, lambda: world.upsert(NEXT))


@case(holds=SAME)
def a_commit_whose_writer_was_killed_before_it_was_there(_: Path, version: str) -> Reached:
    world = world_of(version)

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".commit"):
            raise KeyboardInterrupt
        return None

    world.store.hook = hook
    with pytest.raises(KeyboardInterrupt):
        world.upsert(NEXT)
    world.store.hook = None
    (time,) = (one.time for one in world.timeline().pending)
    return Reached(world.table, lambda: world.table.rollback(time))


@case("index build", version="6")
def a_record_index_of_each_partition(folder: Path, version: str) -> Reached:
    table = made(folder, version, "RECORD_LEVEL_INDEX")
    return Reached(table, in_turn(lambda: table.metadata_build(["record_index"]), upsert(table)))


@case("advise", holds=SAME)
def a_dry_run_that_would_change_an_index(folder: Path, version: str) -> Reached:
    table, file = made(folder / "t", version, "SIMPLE"), folder / "in.parquet"
    pq.write_table(batch_of(NEXT), file)
    path = folder / "t" / BINDING_PATH
    text = path.read_text()
    path.write_text(text.replace("SIMPLE", "STATE"))
    refused = in_turn(lambda: table.upsert(batch_of(NEXT), dry_run=True), lambda: path.write_text(text))
    return Reached(table, refused, str(file))


@case()
def a_data_file_that_is_gone(_: Path, version: str) -> Reached:
    world, written = world_of(version), list[str]()

    def hook(call: Call) -> Fault | None:
        if writes_data(call):
            written.append(call.path)
        elif call.path in written:
            written.clear()
            world.store.hook = None
            world.store.delete(call.path)
        return None

    world.store.hook = hook
    return in_world(world)


@case(holds="a2 b1 c1 d2 e1")
def an_input_that_changes_while_it_is_read(folder: Path, version: str) -> Reached:
    table, file = made(folder / "t", version), folder / "in.parquet"
    pq.write_table(batch_of(NEXT), file)
    done = list[int]()

    def changes(call: Any) -> None:
        del call
        if not done:
            done.append(1)
            pq.write_table(batch_of([*NEXT, Row("e", "x", 1, "1")]), file)

    from lakeindex.stages.stage_input import stage

    real = stage.content_digest

    def called(*given: Any, **named: Any) -> str:
        found = real(*given, **named)
        changes(None)
        return found

    def run() -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(stage, "content_digest", called)
            table.upsert(str(file))

    return Reached(table, run)


@case()
def a_stream_that_fails(folder: Path, version: str) -> Reached:
    table, fails = made(folder, version), [True, False]

    def batches(*, fail: bool) -> Iterator[pa.RecordBatch]:
        yield from batch_of(NEXT[:1]).to_batches()
        if fail:
            raise OSError("gone")
        yield from batch_of(NEXT[1:]).to_batches()

    def run() -> None:
        reader = pa.RecordBatchReader.from_batches(batch_of(NEXT).schema, batches(fail=fails.pop(0)))
        table.upsert(reader)

    return Reached(table, run)


@case()
def a_reader_that_was_read(folder: Path, version: str) -> Reached:
    table, given = made(folder, version), list[pa.RecordBatchReader]()

    def run() -> None:
        reader = given.pop() if given else batch_of(NEXT).to_reader()
        table.upsert(reader)

    given.append(batch_of(NEXT).to_reader())
    given[0].read_all()
    return Reached(table, run)


@case()
def a_file_that_is_not_whole(folder: Path, version: str) -> Reached:
    table, file = made(folder / "t", version), folder / "in.parquet"
    file.write_bytes(b"PAR1")

    def run() -> None:
        try:
            table.upsert(str(file))
        finally:
            pq.write_table(batch_of(NEXT), file)

    return Reached(table, run)


def commands_in(hint: str) -> list[str]:
    return [(match[1] or f"lakeindex {match[2]}").strip() for match in COMMAND.finditer(hint)]


def run(line: str, reached: Reached) -> None:
    """Give a command as it stands in an error, with the table, and what is left to be said."""
    words = [word for word in shlex.split(line)[1:] if word != "..."]
    command, rest = leaf(words)
    if "TABLE" not in words:
        words.insert(len(words) - len(rest), "TABLE")
    allowed = {flag for one in command.params for flag in one.opts}
    more = [one for one in shlex.split(reached.more) if not one.startswith("--") or one in allowed]
    words = [reached.table.uri if word == "TABLE" else word for word in (*words, *more)]
    done = CliRunner().invoke(main, words)
    assert done.exit_code == 0, (words, done.output)


def messages() -> dict[str, re.Pattern[str]]:
    """Texts of errors that name a command or say "again", as patterns of what comes of them."""
    shown = ("airflow", "report", "options", "showing", "cli", "runners.jobs")
    found = {}
    for one in all_said():
        module = one.module.removeprefix("lakeindex.")
        if module.startswith(shown) or " " not in one.text or not (_AGAIN.search(one.text) or COMMAND.search(one.text)):
            continue
        found[f"{module}: {one.text}"] = re.compile(
            re.escape(one.text).replace("X", ".*").replace(r"\{\}", ".*"), re.DOTALL
        )
    return found


_AGAIN = re.compile(r"\bagain\b")


@case(holds="a1 b1 c1 d2")
def an_overwrite_that_would_empty_a_partition(folder: Path, version: str) -> Reached:
    table = made(folder, version, "GLOBAL_BLOOM")
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    taken, left = Row("a", "y", 2, "2"), Row("d", "z", 2, "2")
    refused = in_turn(
        lambda: table.insert_overwrite(batch_of([taken, left]), options=drop),
        lambda: table.insert_overwrite(batch_of([left]), options=drop),
    )
    return Reached(table, refused)


ELSEWHERE = {
    "catalogs.glue": (1, "tests/unit/catalogs/test_glue.py"),
    "catalogs.hive": (1, "tests/unit/catalogs"),
    "catalogs.places": (1, "tests/unit/catalogs"),
    "catalogs.sync": (2, "tests/unit/catalogs"),
    "commit.recovery": (3, "tests/model"),
    "commit.services.archive": (3, "tests/unit/commit/test_archiving.py; what is said of instants that stay is a note"),
    "commit.services.metadata_service": (1, "a table that does not say its columns is refused before"),
    "commit.services.restore": (2, "tests/model"),
    "commit.services.rollback": (1, "tests/model"),
    "commit.write_session": (2, "tests/model"),
    "conductor.upsert": (1, "is logged"),
    "errors": (3, "tests/unit/test_doors.py"),
    "table.index_inference": (1, "tests/unit/table/test_bucket_facts.py"),
    "index.bucket": (2, "tests/unit/operations/test_rescaling.py; advice"),
    "index.bucket_options": (1, "describes an option"),
    "index.hbase.hbase_options": (1, "describes an option"),
    "index.hbase.hbase_rows": (1, "tests/hbase"),
    "index.hbase.hbase_store": (3, "tests/hbase"),
    "index.locations.change_log": (3, "tests/unit/conductor/test_index_changes.py"),
    "lock.hudi_lock": (2, "tests/unit/lock"),
    "lock.lock": (1, "tests/unit/lock"),
    "metadata_upkeep.index_entries": (1, "tests/unit/metadata_upkeep/test_indexes_kept.py"),
    "metadata_upkeep.keeping": (2, "tests/unit/metadata_upkeep"),
    "operations.advise": (1, "advice"),
    "operations.changes": (2, "says which files are feeds"),
    "operations.check": (
        4,
        "notes, and what a check says of its own invariants: tests/unit/operations/test_checking.py",
    ),
    "operations.check_base_files": (2, "tests/unit/operations/test_checking.py"),
    "operations.cluster": (1, "tests/unit/operations/test_clustering.py"),
    "operations.cluster_plan": (2, "advice"),
    "operations.consistent_read": (1, "tests/unit/operations/test_reading_beside_others.py"),
    "operations.importing.import_table": (1, "tests/unit/operations/test_importing.py"),
    "operations.importing.sources": (1, "says which files can be imported"),
    "operations.look.find_tables": (1, "a note; the case of the error is here"),
    "operations.maintain": (1, "is put behind another cure"),
    "operations.metadata": (2, "tests/unit/cli/test_metadata.py"),
    "operations.repair_kept": (1, "tests/unit/operations/test_repair.py"),
    "operations.repair_plan": (5, "tests/unit/operations/test_repair.py"),
    "operations.repair_properties": (2, "tests/unit/operations/test_repair_properties.py"),
    "operations.rescale": (1, "another run made buckets between two looks of a migration"),
    "operations.rescale_run": (1, "a base file without record keys"),
    "run.checkpoints": (1, "tests/unit/run/test_damaged_checkpoints.py"),
    "run.feeds": (1, "a part of a message that has a case"),
    "run.index.stored_session": (3, "tests/unit/operations/test_indexing.py"),
    "run.input_rows": (2, "tests/unit/stages"),
    "run.table_facts": (1, "tests/unit/table"),
    "runners.spark": (1, "tests/spark/test_spark_runner.py"),
    "stages.merge_write.file_slices": (1, "advice"),
    "stages.merge_write.planning": (2, "an invariant"),
    "stages.stage_input.inputs": (1, "tests/unit/conductor/test_stages_hours_apart.py"),
    "table.refusals": (1, "a source to import is no part of the table"),
    "table.table_columns": (1, "tests/unit/test_cures.py"),
    "timeline.timeline": (1, "tests/unit/commit/test_restore.py"),
}
"""Modules with messages that no case here reaches: how many, and where they are played, or why there is nothing to play."""


@pytest.mark.usefixtures("time_leaps")
@pytest.mark.few(0)
def test_what_errors_say_helps(tmp_path: Path) -> None:
    left, wrong = messages(), dict[str, str]()
    for number, one in enumerate(CASES):
        name, folder = f"{one.reach.__qualname__} {number}", tmp_path / str(number)
        folder.mkdir()
        reached = one.reach(folder, one.version)
        try:
            reached.call()
            wrong[name] = "was accepted"
            continue
        except LakeIndexError as error:
            hint = str(error.hint)
        left = {text: pattern for text, pattern in left.items() if not pattern.search(hint)}
        try:
            for begin in one.follow:
                run(next(line for line in commands_in(hint) if line.startswith(f"lakeindex {begin}")), reached)
            reached.cure()
            reached.call()
            assert reached.table.check().ok, "is not sound"
            found = " ".join(sorted(f"{row[1]}{row[4]}" for row in content_of(reached.table)))
            assert found == one.holds, f"holds {found}"
        except (LakeIndexError, AssertionError, StopIteration) as error:
            wrong[name] = f"{hint} -> {type(error).__name__} {error}"
    assert wrong == {}
    unplayed = Counter(text.partition(":")[0] for text in left)
    other = {module for module in unplayed | ELSEWHERE if unplayed[module] != ELSEWHERE.get(module, (0, ""))[0]}
    assert [text for text in left if text.partition(":")[0] in other] == [], "give it a case, or count it in ELSEWHERE"
    assert not other, "count what ELSEWHERE has"
    named = (where.partition(";")[0] for _, where in ELSEWHERE.values() if where.startswith("tests/"))
    assert [path for path in named if not Path(__file__).parents[2].joinpath(path).exists()] == []


BAD: dict[str, Callable[[pa.Table], pa.Table]] = {
    "a column is missing": lambda rows: rows.drop_columns(["v"]),
    "a column is new": lambda rows: rows.append_column("note", pa.array(["n"] * len(rows))),
    "a key is null": lambda rows: rows.set_column(0, "id", pa.array([None, *rows["id"].to_pylist()[1:]], pa.string())),
    "an order is null": lambda rows: rows.set_column(
        2, "ts", pa.array([None, *rows["ts"].to_pylist()[1:]], pa.int64())
    ),
}
DOORS: dict[str, tuple[str, Callable[[LakeTable, pa.Table], object]]] = {
    "upsert": ("upsert", lambda table, rows: table.upsert(rows)),
    "insert": ("insert", lambda table, rows: table.insert(rows)),
    "bulk_insert": ("bulk_insert", lambda table, rows: table.bulk_insert(rows)),
    "overwrite": ("insert_overwrite", lambda table, rows: table.insert_overwrite(rows)),
    "replace_where": ("replace_where", lambda table, rows: table.replace_where(rows, where="day = 'x'")),
    "delete": ("delete", lambda table, rows: table.delete(rows)),
    "apply": (
        "apply",
        lambda table, rows: table.apply(rows.append_column("_change_type", pa.array(["insert"] * len(rows)))),
    ),
    "import": ("import_table", lambda table, rows: imported(Path(table.uri).with_name("other"), rows)),
}


def imported(folder: Path, rows: pa.Table) -> None:
    (folder / "in").mkdir(parents=True)
    pq.write_table(rows, folder / "in" / "a.parquet")
    import_table(folder / "in", folder / "t", key="id", partition="day", ordering="ts")


@pytest.mark.parametrize("bad", BAD)
def test_what_errors_name_is_an_option_of_the_door(tmp_path: Path, bad: str) -> None:
    wrong = {}
    for command, (method, call) in DOORS.items():
        table = made(tmp_path / command / "t", "9")
        flags = {flag for one in COMMANDS[command].params for flag in one.opts}
        arguments = inspect.signature(methods()[method]).parameters
        try:
            call(table, BAD[bad](batch_of(NEXT).drop_columns(["_hoodie_is_deleted"])))
        except LakeIndexError as error:
            said = COMMAND.sub("", str(error.hint))
            named = {*FLAG.findall(said)} - flags, {*KEYWORD.findall(said)} - {*arguments}
            wrong |= {command: (said, *named)} if any(named) else {}
            of_jobs = {flag for one in stage_command(None, lambda *_, **__: 0).params for flag in one.opts}
            if command == "upsert" and not {*FLAG.findall(said)} <= of_jobs and "option lakeindex." not in said:
                wrong["jobs and DAGs"] = said, "no option"
    assert wrong == {}
