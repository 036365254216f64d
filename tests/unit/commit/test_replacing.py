"""A write that takes file groups out of the table: names and bytes on the timeline, and what it is refused for."""

import pytest

from lakeindex.commit.run_records import RunPlan, newest_plan
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.write_session import (
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    WriteSession,
    begin_write,
)
from lakeindex.errors import InvariantError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.model import BaseFile
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import RequestedReplace, parse_requested_replace
from tests.model import buckets
from tests.model.buckets import Rescale as RescaleBatch
from tests.model.buckets import check_buckets, counts_of, group_id
from tests.model.buckets import write as write_buckets
from tests.model.stories import BUCKET_GROUPS
from tests.model.world import CONFIG, PARTITION, Batch, encode_rows, initial_objects, stat_of, verify_rows
from tests.unit.commit.protocol_support import World

RESCALING = RescaleBatch("rescale", {}, count=3)


@pytest.fixture
def world() -> World:
    made = World()
    made.store.restore(initial_objects(BUCKET_GROUPS, group_id))
    return made


def begin(world: World) -> WriteSession:
    session = begin_write(
        Table.open(world.store), RESCALING.identity, "CLUSTER", CONFIG, host=world.host("w"), verify=verify_rows
    )
    assert isinstance(session, WriteSession)
    return session


def live(world: World) -> tuple[BaseFile, ...]:
    return Table.open(world.store).snapshot().base_files(PARTITION)


def plan_of(world: World, session: WriteSession, files: tuple[BaseFile, ...]) -> RunPlan:
    planned = [PlannedFile(PARTITION, group_id(0, "new"), "0-0-0", None, 0, 1)]
    return session.plan(planned, "20251231000000000", "digest", Replacement(files, None))


def publish(world: World, session: WriteSession, plan: RunPlan, replaced: dict[str, tuple[str, ...]]) -> str:
    rows = {"a1": "0"}
    (file,) = plan.files
    world.store.write(file.path, encode_rows(rows))
    commit = CommitMetadata({PARTITION: (stat_of(file, rows, None),)}, "CLUSTER", replaced_file_ids=replaced)
    known = frozenset({"20251231000000000"})
    expected = (ExpectedFile(file.path, len(encode_rows(rows)), 1),)
    return session.publish(commit, expected, PublishGuards(known_writes=known))


def test_names_and_bytes_are_those_of_an_insert_overwrite(world: World) -> None:
    session = begin(world)
    plan = plan_of(world, session, live(world))
    time = plan.instant
    assert f"{time}.replacecommit.requested" in world.names()
    assert f"{time}.replacecommit.inflight" in world.names()
    data = world.store.read(f".hoodie/{time}.replacecommit.requested")
    assert parse_requested_replace(data, "") == RequestedReplace()
    assert not Table.open(world.store).snapshot().pending_clustering, "the groups are not blocked"
    groups = tuple(file.file_id for file in live(world))
    assert publish(world, session, plan, {PARTITION: groups}) == time
    assert f"{time}.replacecommit" in world.names()
    metadata = Table.open(world.store).load_timeline().replaced_at(world.store)
    assert metadata.keys() == {(PARTITION, group) for group in groups}
    assert [file.file_id for file in live(world)] == [group_id(0, "new")]


def test_the_commit_must_replace_what_was_planned(world: World) -> None:
    session = begin(world)
    plan = plan_of(world, session, live(world))
    with pytest.raises(InvariantError, match="replaces 1 file groups, the plan 2"):
        publish(world, session, plan, {PARTITION: (group_id(0),)})


def test_a_stored_plan_is_read_back_whole(world: World) -> None:
    session = begin(world)
    replacement = Replacement(live(world), {"format": 1, "index_type": "BUCKET", "options": {}}, everywhere=True)
    planned = [PlannedFile(PARTITION, group_id(0, "new"), "0-0-0")]
    plan = session.plan(planned, None, "digest", replacement)
    assert newest_plan(world.store, RESCALING.identity.key) == plan
    assert plan.replacement == replacement
    assert plan.partitions == (PARTITION,)


@pytest.mark.parametrize("batch", [Batch("b", {"a1": "x"}), Batch("b", {"brand new": "x"})], ids=["update", "insert"])
def test_a_write_into_the_partition_is_a_conflict(world: World, batch: Batch) -> None:
    session = begin(world)
    files = live(world)
    plan = plan_of(world, session, files)
    write_buckets(world.store, batch, world.host("other"))
    with pytest.raises(WriteConflictError):
        publish(world, session, plan, {PARTITION: tuple(file.file_id for file in files)})


def test_a_rescaling_and_its_rollback(world: World) -> None:
    before = counts_of(world.store)
    time = write_buckets(world.store, RESCALING, world.host("w"))
    assert len(counts_of(world.store)) == 3
    table = Table.open(world.store)
    assert table.load_timeline().completed_writes[-1].action == "replacecommit"
    done = rollback_instant(table, time, CONFIG, host=world.host("r"))
    assert done.instant == time
    assert counts_of(world.store) == before
    assert not [name for name in world.names() if name.startswith(time)]
    assert not [path for path in world.store.snapshot() if "/buckets/" in path]
    check_buckets(world.store)


def test_a_plan_of_another_index_is_looked_up_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """The upsert of the small table reads the count at each try; a change in between makes it try again."""
    tries: list[int] = []
    real = buckets.count_in_force

    def count(storage: Storage, snapshot: Snapshot) -> int:
        tries.append(real(storage, snapshot))
        if len(tries) == 1:
            write_buckets(world.store, RESCALING, world.host("rescale"))
        return tries[-1]

    monkeypatch.setattr(buckets, "count_in_force", count)
    write_buckets(world.store, Batch("b", {"k": "x"}), world.host("w"))
    monkeypatch.undo()
    assert tries == [2, 3]
    check_buckets(world.store)
