"""The session: begin, plan, publish, abandon."""

import time
from pathlib import Path

import pytest
from msgspec.structs import asdict

from lakeindex.commit.recovery import recover
from lakeindex.commit.run_records import Claim, RunPlan, claim_path, newest_attempt
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    RunIdentity,
    WriteSession,
    begin_write,
)
from lakeindex.errors import (
    BatchIdReusedError,
    FencedError,
    InvariantError,
    LakeIndexError,
    LockTimeoutError,
    MetadataTableError,
    PendingInstantError,
    StorageError,
    TableCorruptError,
    TableUnsupportedError,
    TimelineChangedError,
    WriteConflictError,
)
from lakeindex.format.commit_metadata import CommitMetadata, parse_commit_metadata
from lakeindex.format.java_properties import format_properties
from lakeindex.format.partitions import parse_partition_metadata
from lakeindex.lock import lock
from lakeindex.lock.write_context import WriteContext
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import OWN_SYNC_MARKER, RollbackPlan, format_rollback_plan
from lakeindex.timeline.layout import layout_of_version
from lakeindex.timeline.pending_files import marked_files
from tests.model.world import (
    CONFIG,
    LAYOUT,
    PARTITION,
    Rows,
    check_metadata,
    completed_at,
    encode_rows,
    file_id,
    initial_objects,
    live_rows,
    merge,
    stat_of,
    verify_rows,
)
from tests.unit.commit.protocol_support import (
    BATCH,
    FIRST,
    GROUPS,
    OTHER,
    PROPERTIES,
    START_MS,
    Batch,
    KilledError,
    World,
)

ROWS: Rows = {"a1": "one", "x": "one"}


def begin(world: World, batch: Batch = BATCH, name: str = "writer", **options: object) -> WriteSession:
    session = begin_write(
        Table.open(world.store),
        batch.identity,
        "UPSERT",
        options.pop("config", CONFIG),  # type: ignore[arg-type]
        host=world.host(name),
        verify=verify_rows,
        **options,  # type: ignore[arg-type]
    )
    assert isinstance(session, WriteSession)
    return session


class Written:
    """A plan whose files are written, ready to be published."""

    def __init__(self, world: World, session: WriteSession, rows: Rows = ROWS, *, new_group: int = 9) -> None:
        self.session = session
        snapshot = Table.open(world.store).snapshot()
        self.merged = merge(world.store, snapshot, rows, file_id(new_group))
        self.plan: RunPlan = session.plan(self.merged.planned, snapshot.instant_time, self.merged.digest)
        stats, expected = [], []
        for file, one, content in zip(self.plan.files, self.plan.planned, self.merged.contents, strict=True):
            data = encode_rows(content)
            world.store.write(file.path, data)
            stats.append(stat_of(file, content, one.previous))
            expected.append(ExpectedFile(file.path, len(data), len(content)))
        self.commit = CommitMetadata({PARTITION: tuple(stats)}, "UPSERT", {"schema": "{}"})
        self.expected = tuple(expected)

    def publish(self, guards: PublishGuards | None = None, summary: str | None = None) -> str:
        return self.session.publish(self.commit, self.expected, guards, summary)


def test_everything_that_must_be_there_before_data(world: World) -> None:
    session = begin(world)
    snapshot = Table.open(world.store).snapshot()
    old = snapshot.base_files(PARTITION)[0]
    planned = (
        PlannedFile(PARTITION, old.file_id, "0-0-0", old, 3, 2),
        PlannedFile("new/deep", file_id(9), "1-0-0", None, 0, 5),
        PlannedFile("new/deep", file_id(8), "2-0-0", None, 0, 4),
    )
    plan = session.plan(planned, snapshot.instant_time, "digest")
    assert plan.instant == session.instant > FIRST
    assert [file.name for file in plan.files] == [
        f"{old.file_id}_0-0-0_{plan.instant}.parquet",
        f"{file_id(9)}_1-0-0_{plan.instant}.parquet",
        f"{file_id(8)}_2-0-0_{plan.instant}.parquet",
    ]
    assert world.store.read(f".hoodie/{plan.instant}.commit.requested") == b""
    inflight = parse_commit_metadata(world.store.read(f".hoodie/{plan.instant}.inflight"), "inflight")
    first, update = inflight.write_stats[PARTITION]
    assert (first.file_id, first.num_inserts) == ("", 2)
    assert (update.file_id, update.prev_commit, update.num_update_writes) == (old.file_id, FIRST, 3)
    assert inflight.write_stats["new/deep"][0].num_inserts == 5 + 4
    metadata = parse_partition_metadata(world.store.read("new/deep/.hoodie_partition_metadata"))
    assert (metadata.commit_time, metadata.depth) == (plan.instant, 2)
    assert marked_files(world.store, plan.instant) == {file.path for file in plan.files}


def test_a_commit_leaves_hudis_files_and_no_more(world: World) -> None:
    session = begin(world)
    written = Written(world, session)
    instant = written.publish(summary='{"rows": 2}')
    session.close()
    assert sorted(name for name in world.names() if name.startswith(instant)) == [
        f"{instant}.commit",
        f"{instant}.commit.requested",
        f"{instant}.inflight",
    ]
    assert world.store.list(".hoodie/.temp") == []
    assert [one.path for one in world.store.list(".hoodie/.lakeindex/instants")] == []
    assert [one.path for one in world.store.list(".hoodie/.lakeindex/runs")] == []
    assert live_rows(world.store) == {"a1": ["one"], "a2": ["0"], "b1": ["0"], "x": ["one"]}
    assert f".hoodie/{instant}.commit" in world.store.synced
    assert {file.path for file in written.plan.files} <= world.store.synced


def test_the_same_batch_again_is_done_already(world: World) -> None:
    session = begin(world)
    instant = Written(world, session).publish(summary='{"rows": 2}')
    session.close()
    for run_id in ("run-1", "another run"):
        run = RunIdentity(run_id, BATCH.identity.batch_id, "d1")
        done = begin_write(Table.open(world.store), run, "UPSERT", CONFIG, host=world.host("again"))
        assert done == AlreadyDone(instant, '{"rows": 2}')
    other = RunIdentity("run-1", BATCH.identity.batch_id, "other input")
    with pytest.raises(BatchIdReusedError, match=instant):
        begin_write(Table.open(world.store), other, "UPSERT", CONFIG, host=world.host("again"))
    forced = begin(world, Batch("run-1", ROWS, digest="other input"), "forced", force=True)
    assert Written(world, forced).publish() > instant
    forced.close()
    waiting = begin(world, OTHER, "closed")
    waiting.close()
    ended = newest_attempt(world.store, OTHER.identity.key)
    assert ended is not None
    assert ended.ended, "nobody waits for its lease"


def test_a_retry_follows_the_plan_of_the_first_attempt(world: World) -> None:
    first = Written(world, begin(world, name="a"))
    second = Written(world, begin(world, name="b"), new_group=77)
    assert second.plan == first.plan
    with pytest.raises(FencedError, match="attempt 1"):
        first.publish()
    assert second.publish() == first.plan.instant


def test_a_retry_with_another_plan_gets_another_instant(world: World) -> None:
    first = Written(world, begin(world, name="a"))
    second = Written(world, begin(world, name="b"), {"a2": "other"})
    assert second.plan.instant > first.plan.instant
    assert not [name for name in world.names() if name.startswith(f"{first.plan.instant}.")]
    assert not [path for path in world.store.snapshot() if path.endswith(f"{first.plan.instant}.parquet")]
    second.publish()


@pytest.mark.parametrize("done", [True, False])
def test_a_retry_does_not_follow_a_plan_that_another_writer_takes_back(world: World, done: bool) -> None:
    """It took the instant for dead, and left no trace of it, or is at it: what the retry writes would not be committed."""
    first = Written(world, begin(world, name="a"))
    for path in list(world.store.snapshot()) if done else ():
        if first.plan.instant in path and ".lakeindex" not in path:
            world.store.delete(path)
    if not done:
        plan = format_rollback_plan(RollbackPlan(first.plan.instant, "commit")).replace(OWN_SYNC_MARKER, b"x" * 16)
        world.store.write(f".hoodie/{first.plan.instant}9.rollback.requested", plan)
    second = Written(world, begin(world, name="b"))
    assert second.plan.instant > first.plan.instant
    second.publish()


def test_files_of_an_abandoned_plan_go_though_nothing_marks_them(world: World) -> None:
    """Its inflight file names their partitions."""
    mine = Written(world, begin(world))
    for one in world.store.list(".hoodie/.temp"):
        world.store.delete(one.path)
    mine.session.abandon()
    assert not [path for path in world.store.snapshot() if path.endswith(f"_{mine.plan.instant}.parquet")]


def test_who_is_second_with_a_batch_takes_his_own_files_away(world: World) -> None:
    """Another run has committed it while he wrote; he is told of that commit."""
    mine = Written(world, begin(world, Batch("a run", ROWS, "the batch"), "a"))
    theirs = Written(world, begin(world, Batch("another", ROWS, "the batch"), "b"), new_group=8).publish()
    assert mine.publish() == theirs
    assert not Table.open(world.store).load_timeline().find(mine.plan.instant)
    assert not [path for path in world.store.snapshot() if path.endswith(f"_{mine.plan.instant}.parquet")]


def test_a_decided_commit_whose_file_is_lost_is_taken_back(world: World) -> None:
    """Its writer was killed before the commit was put: nobody was told yet."""
    pending = world.decide(BATCH)
    world.store.delete(next(path for path in world.store.snapshot() if path.endswith(f"_{pending.time}.parquet")))
    world.upsert(OTHER, "next")
    assert not Table.open(world.store).load_timeline().find(pending.time)
    assert live_rows(world.store) == {"a1": ["0"], "a2": ["0"], "b1": ["two"]}


def test_an_abandoned_plan_is_rolled_back_and_the_next_one_is_new(world: World) -> None:
    session = begin(world)
    first = Written(world, session)
    session.abandon()
    session.abandon()
    assert not [path for path in world.store.snapshot() if path.endswith(f"{first.plan.instant}.parquet")]
    second = Written(world, session)
    assert second.plan.instant > first.plan.instant
    assert second.publish() == second.plan.instant


def test_a_moved_file_group_is_a_conflict(world: World) -> None:
    mine = Written(world, begin(world, name="a"))
    theirs = begin(world, Batch("run-9", {"a2": "two"}), "b")
    Written(world, theirs, {"a2": "two"}).publish()
    with pytest.raises(WriteConflictError, match=file_id(0)):
        mine.publish()


def test_a_replaced_or_clustered_group_is_a_conflict(world: World) -> None:
    from lakeindex.format.commit_metadata import format_commit_metadata
    from lakeindex.timeline.avro_instants import (
        ClusteringGroup,
        ClusteringSlice,
        RequestedReplace,
        format_requested_replace,
    )

    mine = Written(world, begin(world))
    later = "20260101000000900"
    replace = CommitMetadata({}, "CLUSTER", replaced_file_ids={PARTITION: (file_id(0),)})
    plan = format_requested_replace(
        RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice(PARTITION, file_id(0)),)),))
    )
    world.store.write(f".hoodie/{later}.replacecommit.requested", plan)
    with pytest.raises(WriteConflictError, match="clustering"):
        mine.publish()
    world.store.write(f".hoodie/{later}.replacecommit.inflight", b"")
    world.store.write(f".hoodie/{later}.replacecommit", format_commit_metadata(replace))
    with pytest.raises(WriteConflictError, match="was replaced"):
        mine.publish()


def test_the_recheck_sees_what_was_committed_since_the_snapshot(world: World) -> None:
    session = begin(world, name="a")
    mine = Written(world, session)
    theirs = Written(world, begin(world, OTHER, "b"), OTHER.rows)
    theirs.publish()
    seen: list[str] = []
    mine.publish(PublishGuards((lambda files: seen.extend(file.path for file in files),)))
    assert seen == [file.path for file in theirs.plan.files]


def test_a_recheck_that_objects_publishes_nothing(world: World) -> None:
    mine = Written(world, begin(world))

    def objects(_: object) -> None:
        raise WriteConflictError("key 'x'")

    with pytest.raises(WriteConflictError, match="key 'x'"):
        mine.publish(PublishGuards((objects,)))
    assert f"{mine.plan.instant}.commit" not in world.names()
    assert mine.publish() == mine.plan.instant


@pytest.mark.parametrize("damage", ["missing", "torn", "rows"])
def test_a_file_that_is_not_what_was_written_stops_the_commit(world: World, damage: str) -> None:
    mine = Written(world, begin(world))
    path = mine.expected[0].path
    if damage == "missing":
        world.store.delete(path)
    else:
        data = world.store.read(path)
        world.store.write(path, data[:-3] if damage == "torn" else data.replace(b'"a2": "0"', b'"a1": "0"'))
    with pytest.raises((StorageError, InvariantError), match=r"data file|row count"):
        mine.publish()
    assert f"{mine.plan.instant}.commit" not in world.names()


def test_the_real_check_reads_the_footer(world: World) -> None:
    session = begin_write(Table.open(world.store), BATCH.identity, "UPSERT", CONFIG, host=world.host("w"))
    assert isinstance(session, WriteSession)
    with pytest.raises(StorageError, match="damaged"):
        Written(world, session).publish()


@pytest.mark.parametrize("what", ["path", "rows", "bytes", "double"])
def test_a_commit_that_does_not_match_the_files_breaks_an_invariant(world: World, what: str) -> None:
    mine = Written(world, begin(world))
    one = mine.expected[0]
    mine.expected = {
        "path": (ExpectedFile("p/other.parquet", one.size_bytes, one.rows), *mine.expected[1:]),
        "rows": (ExpectedFile(one.path, one.size_bytes, one.rows + 1), *mine.expected[1:]),
        "bytes": (ExpectedFile(one.path, one.size_bytes + 1, one.rows), *mine.expected[1:]),
        "double": (one, *mine.expected),
    }[what]
    with pytest.raises(InvariantError):
        mine.publish()


def test_a_living_foreign_instant_is_named_at_the_start_and_before_the_commit(world: World) -> None:
    mine = Written(world, begin(world, name="a"))
    world.put_pending("20260101000000777")
    with pytest.raises(PendingInstantError) as caught:
        mine.publish()
    assert caught.value.culprit == "20260101000000777"
    assert caught.value.exit_code == 5
    with pytest.raises(PendingInstantError, match="20260101000000777"):
        begin(world, OTHER, "b")


@pytest.mark.parametrize("how", ["age", "force"])
def test_a_dead_foreign_instant_is_rolled_back_first(world: World, how: str) -> None:
    name = f"{file_id(5)}_0-0-0_20260101000000777.parquet"
    world.put_pending("20260101000000777", marked=name)
    if how == "age":
        world.clock.sleep(7_201)
    session = begin(world, force=how == "force")
    session.close()
    assert f"p/{name}" not in world.store.snapshot()
    assert not [one for one in world.names() if one.startswith("20260101000000777")]
    assert [one for one in world.names() if one.endswith(".rollback")]


def test_a_heartbeat_of_hudis_keeps_its_instant_alive(world: World) -> None:
    world.put_pending("20260101000000777")
    world.clock.sleep(7_201)
    world.store.write(".hoodie/.heartbeat/20260101000000777", b"")
    with pytest.raises(PendingInstantError):
        begin(world)


def test_an_old_instant_of_a_copied_table_is_dead_when_its_new_files_are_old(world: World) -> None:
    """It cannot be told from a long write that still goes on, so it is waited for."""
    world.put_pending("20251231000000001")
    with pytest.raises(PendingInstantError):
        begin(world)
    world.clock.sleep(CONFIG.pending_foreign_max_age_seconds + 1)
    begin(world).close()
    assert not [one for one in world.names() if one.startswith("20251231000000001")]


def test_a_scheduled_clustering_stands_in_nobodys_way(world: World) -> None:
    from lakeindex.timeline.avro_instants import (
        ClusteringGroup,
        ClusteringSlice,
        RequestedReplace,
        format_requested_replace,
    )

    plan = format_requested_replace(
        RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice(PARTITION, file_id(1)),)),))
    )
    world.store.write(".hoodie/20251231000000500.replacecommit.requested", plan)
    Written(world, begin(world)).publish()
    assert "20251231000000500.replacecommit.requested" in world.names()


@pytest.mark.parametrize("moment", ["read", "sync"])
def test_a_rolled_back_plan_is_a_conflict_not_a_storage_error(world: World, moment: str) -> None:
    mine = Written(world, begin(world))
    gone = [*(one.path for one in mine.expected), f".hoodie/{mine.plan.instant}.inflight"]
    gone.append(f".hoodie/{mine.plan.instant}.commit.requested")

    def roll_back(call: Call) -> Fault | None:
        if call.name == moment and call.path in {one.path for one in mine.expected}:
            world.store.hook = None
            for path in gone:
                world.store.delete(path)
        return None

    world.store.hook = roll_back
    with pytest.raises(WriteConflictError, match="rolled back by another writer"):
        mine.publish()
    mine.session.abandon()
    assert Written(world, mine.session).publish()


OTHER_VERSION = "6" if LAYOUT.has_completion_times else "9"


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("hoodie.table.version", "5", TableUnsupportedError),
        ("hoodie.table.version", OTHER_VERSION, TimelineChangedError),
        ("hoodie.table.metadata.partitions", "expr_index_a", MetadataTableError),
        ("hoodie.table.metadata.partitions", "files", TableCorruptError),
        ("hoodie.table.metadata.partitions.inflight", "column_stats", MetadataTableError),
    ],
)
def test_a_table_that_was_changed_meanwhile_is_refused(
    world: World, key: str, value: str, error: type[LakeIndexError]
) -> None:
    mine = Written(world, begin(world))
    changed = PROPERTIES | {key: value}
    if value == OTHER_VERSION:
        changed["hoodie.timeline.layout.version"] = str(layout_of_version(int(OTHER_VERSION)))
    world.store.write(".hoodie/hoodie.properties", format_properties(changed))
    with pytest.raises(error):
        mine.publish()
    assert completed_at(world.store.snapshot(), mine.plan.instant) is None


def test_an_instant_of_an_unknown_kind_is_refused_before_the_commit_too(world: World) -> None:
    mine = Written(world, begin(world))
    world.store.write(f"{LAYOUT.folder}/{mine.plan.instant}9.unheardof", b"")
    with pytest.raises(TableUnsupportedError, match="unheardof"):
        mine.publish()
    assert completed_at(world.store.snapshot(), mine.plan.instant) is None


def test_a_metadata_table_built_meanwhile_is_kept_up(world: World) -> None:
    mine = Written(world, begin(world))
    build_metadata_table(
        Table.open(world.store), WriteConfig(lock_lease_seconds=2), ("files",), host=world.host("builder")
    )
    mine.publish()
    check_metadata(world.store)
    assert Table.open(world.store).properties.metadata_partitions == ("files",)


def test_a_killed_run_makes_the_next_one_wait_no_time(world: World) -> None:
    dead = Written(world, begin(world, name="dead"))
    lock.acquire(world.store, world.host("dead"), lease_ms=60_000, wait_ms=0, purpose="publishing")
    world.gone.add("dead")
    before = world.clock.now_ms()
    Written(world, begin(world, OTHER, "next"), OTHER.rows).publish()
    assert world.clock.now_ms() == before
    assert not [name for name in world.names() if name.startswith(f"{dead.plan.instant}.")]


def test_the_checks_see_what_recovery_has_completed(world: World) -> None:
    """A run that was killed between its verdict and its commit is completed by the next one that publishes."""
    mine = Written(world, begin(world, name="a"))
    theirs = Written(world, begin(world, Batch("run-9", {"a2": "two"}), "b"), {"a2": "two"})

    def kill(call: Call) -> None:
        if call.name == "create" and call.path.endswith(f"{theirs.plan.instant}.commit"):
            raise KilledError

    world.store.hook = kill
    with pytest.raises(KilledError):
        theirs.publish()
    world.store.hook = None
    world.gone.add("b")
    with pytest.raises(WriteConflictError, match=file_id(0)):
        mine.publish()
    assert f"{theirs.plan.instant}.commit" in world.names()
    assert live_rows(world.store)["a2"] == ["two"]


def test_a_living_run_of_ours_is_left_alone(world: World) -> None:
    mine = Written(world, begin(world, name="a"))
    Written(world, begin(world, OTHER, "b"), OTHER.rows).publish()
    assert mine.publish() == mine.plan.instant


def test_the_lock_is_waited_for(world: World) -> None:
    lock.acquire(world.store, world.host("holder"), lease_ms=600_000, wait_ms=0, purpose="a long clean")
    with pytest.raises(LockTimeoutError, match="a long clean"):
        begin(world)


def test_publishing_needs_a_plan(world: World) -> None:
    with pytest.raises(InvariantError, match="no plan"):
        begin(world).publish(CommitMetadata(), ())


def test_an_instant_is_never_one_that_another_writer_has(world: World) -> None:
    world.store.write(".hoodie/20260101000000000.clean.requested", b"")
    world.store.write(".hoodie/20260101000000001.rollback", b"")
    assert Written(world, begin(world)).plan.instant > "20260101000000001"


def test_an_instant_that_turns_out_to_be_hudis_is_left_to_it(world: World) -> None:
    """The same millisecond: Hudi's inflight file is there when ours is to be written."""
    real = world.store.create

    def create(path: str, data: bytes) -> None:
        if path == ".hoodie/20260101000000000.inflight":
            world.store.write(path, b"{}")
        real(path, data)

    world.store.create = create  # type: ignore[method-assign]
    session = begin(world)
    plan = session.plan((PlannedFile(PARTITION, file_id(9), "0-0-0"),), FIRST, "digest")
    assert plan.instant == "20260101000000001"
    assert world.store.read(".hoodie/20260101000000000.inflight") == b"{}"
    assert ".hoodie/20260101000000000.commit.requested" in world.store.snapshot()


def test_heartbeats_renew_leases_while_work_goes_on(tmp_path: Path) -> None:
    store = open_storage(str(tmp_path))
    for path, data in initial_objects(GROUPS).items():
        store.write(path, data)
    config = WriteConfig(lock_lease_seconds=2)
    session = begin_write(Table.open(store), BATCH.identity, "UPSERT", config, verify=verify_rows)
    assert isinstance(session, WriteSession)
    folder = store.list(".hoodie/.lakeindex/runs")[0].path
    before = store.read(folder)
    deadline = time.monotonic() + 60
    while store.read(folder) == before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert store.read(folder) != before
    session.close()
    assert b'"ended": true' in store.read(folder)


def test_recovery_with_nothing_to_do_changes_nothing(world: World) -> None:
    context = WriteContext(Table.open(world.store), world.host("w"), CONFIG)
    with context.locked("test"):
        pass  # the first holder of the lock enters the release
    before = {path: data for path, data in world.store.snapshot().items() if "/lock/" not in path}
    with context.locked("test") as held:
        recover(context, held)
    assert {path: data for path, data in world.store.snapshot().items() if "/lock/" not in path} == before
    assert world.clock.now_ms() == START_MS


def test_a_claim_left_on_another_runs_commit_does_not_end_ones_own_run(world: World) -> None:
    """Killed between finding the instant taken and dropping the claim on it: the retry was told that its run is over."""
    theirs = world.upsert(OTHER, "theirs")
    claim = Claim(theirs, "token", BATCH.identity.key, BATCH.run_id, BATCH.identity.batch_id, 1)
    record = {name: value for name, value in asdict(claim).items() if name != "torn"}
    world.store.write(claim_path(theirs), records.encode(record))
    assert world.upsert(BATCH, "retry") > theirs
    assert claim_path(theirs) not in world.store.snapshot()
    assert live_rows(world.store)["b1"] == ["two"]
