"""What a merge rests on changes while it runs, or is not what it should be."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import ConflictError, InvariantError, PendingInstantError, UsageError, WriteConflictError
from lakeindex.format.instants import next_instant_time
from lakeindex.model import Operation
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.avro_instants import (
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    format_requested_replace,
)
from tests.builders import Oracle, Row, batch_of, content_of, counts_of
from tests.meanwhile import OVERTAKES, SMALL, MemoryTable, begins_to_write, writes_data
from tests.stored_indexes import bound_to

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]
OURS = [Row("n", "x", 2, "ours"), Row("a", "x", 2, "ours")]
NEW_GROUPS = {"hoodie__parquet__small__file__limit": "0"}
OVERTAKEN = {name.replace(".", "__"): text for name, text in OVERTAKES.items()}


def started(index: str = "BLOOM") -> tuple[MemoryTable, Oracle]:
    world, oracle = MemoryTable.holding(FIRST, index=index), Oracle(is_global=index.startswith("GLOBAL"))
    oracle.apply(FIRST)
    return world, oracle


@pytest.mark.parametrize(
    ("ours", "other"),
    [
        (OURS[:1], Row("n", "x", 1, "theirs")),  # into new file groups: only a look-up finds it
        (OURS, Row("n", "x", 1, "theirs")),
        (OURS, Row("b", "x", 2, "theirs")),
        (OURS, Row("a", "x", 3, "theirs")),
    ],
)
@pytest.mark.parametrize("when", [begins_to_write, writes_data])
def test_keys_are_looked_up_again_when_somebody_has_committed_since(when: Any, ours: list[Row], other: Row):
    world, oracle = started()
    done = world.once(when, lambda: world.upsert([other], **NEW_GROUPS))
    summary = world.upsert(ours, **NEW_GROUPS)
    assert done
    oracle.apply([other])
    assert counts_of(summary) == oracle.apply(ours)
    assert content_of(world.table) == oracle.content()
    assert not world.timeline().pending


def test_a_commit_that_completes_late_with_an_older_instant_is_looked_up_too():
    """Our keys are looked up while a writer is at work; he ends when a later instant is there already."""
    world, oracle = started()
    late, between = [Row("n", "x", 1, "late")], [Row("c", "y", 2, "between")]
    table = f"memory://{world.name}"
    runs = f"memory://{world.name}-stages"
    storage_at(runs).write("in.parquet", _parquet(batch_of(OURS[:1])))
    options = tuple(sorted({**SMALL, "hoodie.parquet.small.file.limit": "0"}.items()))
    spec = RunSpec(table, runs, "ours", "ours", Operation.UPSERT, (f"{runs}/in.parquet",), options)

    def commit_and_look_up() -> None:
        world.upsert(between, **NEW_GROUPS)
        for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS):
            run_stage(stage, spec, LocalRunner(1))

    done = world.once(writes_data, commit_and_look_up)
    world.upsert(late, **NEW_GROUPS)
    assert done
    summary = run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    oracle.apply(late)
    oracle.apply(between)
    assert counts_of(summary) == oracle.apply(OURS[:1])
    assert content_of(world.table) == oracle.content()


def _parquet(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    pq.write_table(rows, sink)
    return sink.getvalue().to_pybytes()


def test_a_plan_that_lost_leaves_nothing_behind_when_there_is_no_retry_left():
    world, oracle = started()
    other = [Row("a", "x", 3, "theirs")]
    world.once(writes_data, lambda: world.upsert(other))
    with pytest.raises(WriteConflictError, match="changed"):
        world.upsert(OURS, lakeindex__conflict__retries="0")
    oracle.apply(other)
    assert not world.timeline().pending
    assert len(world.rollbacks()) == 1
    assert content_of(world.table) == oracle.content()
    assert world.table.check().ok


class LyingRunner(LocalRunner):
    """One thread, on which the first result of one kind of work is not what was done."""

    def __init__(self, title: str, lie: Callable[[Any], Any]) -> None:
        super().__init__(1)
        self._title, self._lie = title, lie

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        first, *rest = super().map(function, tasks, title)
        return [replace(first, value=self._lie(first.value)) if self._title in title else first, *rest]


@pytest.mark.parametrize(
    ("title", "lie", "message"),
    [
        ("rewrite", lambda done: (replace(done[0], rows=done[0].rows - 1), *done[1:]), "rows stored"),
        ("rewrite", lambda done: (replace(done[0], updates=0), *done[1:]), "rows updated"),
        ("rewrite", lambda done: (replace(done[0], removed=done[0].removed + 1), *done[1:]), "rows removed"),
        ("rewrite", lambda done: (replace(done[0], inserts=done[0].inserts + 1), *done[1:]), "rows inserted"),
        ("tag inserts", lambda tags: replace(tags, inserts=tags.inserts - 1), "rows came in"),
        ("tag inserts", lambda tags: replace(tags, ignored_missing=1), "rows came in"),
    ],
)
def test_a_merge_that_lost_count_is_not_published(title: str, lie: Callable[[Any], Any], message: str):
    world, oracle = started()
    with pytest.raises(InvariantError, match=message):
        world.upsert(OURS, runner=LyingRunner(title, lie))
    assert content_of(world.table) == oracle.content()
    world.upsert(OURS)
    oracle.apply(OURS)
    assert content_of(world.table) == oracle.content()


def test_a_key_that_one_file_holds_twice_is_refused():
    world, _ = started()
    file = Table.open(world.store).snapshot().base_files("x")[0]
    rows = pq.read_table(pa.BufferReader(world.store.read(file.path)))
    marks = {key: text for key, text in (rows.schema.metadata or {}).items() if not key.startswith(b"lakeindex.")}
    rows = rows.replace_schema_metadata(marks)  # as another writer would have it, without our checksums
    world.store.write(file.path, _parquet(pa.concat_tables([rows, rows.slice(0, 1)])))
    # it is named also beside other small files, which have the same key once; a task has several
    others = [Row("a", f"w{number}", 1, "1") for number in range(12)]
    world.upsert(others)
    with pytest.raises(InvariantError, match=f"'a' is stored 2 times: in {file.path}"):
        world.upsert([*OURS, *others], hoodie__bloom__index__prune__by__ranges="false", runner=LocalRunner(1))


def test_a_key_that_two_files_hold_is_refused_by_a_global_index():
    world, _ = started("SIMPLE")
    world.upsert([Row("a", "y", 1, "1")])
    for ours in (OURS, [Row("a", "z", 2, "moved from both")]):
        with (
            bound_to(world.table, "GLOBAL_SIMPLE"),
            pytest.raises(InvariantError, match=r"'a' is stored 2 times: in x/.*, y/"),
        ):
            world.upsert(ours)


def test_new_rows_do_not_go_into_a_file_group_that_is_being_clustered():
    world, oracle = started()
    file = Table.open(world.store).snapshot().base_files("x")[0]
    plan = format_requested_replace(
        RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice("x", file.file_id),)),))
    )
    time = next_instant_time(world.timeline().max_time, 0)
    world.store.write(f".hoodie/{time}.replacecommit.requested", plan)
    new = [Row("n", "x", 2, "ours")]
    assert world.upsert(new).files_created == 1
    oracle.apply(new)
    assert content_of(world.table) == oracle.content()


def rescaled_world(number: int) -> tuple[MemoryTable, list[Call]]:
    """A rescaled table; the rescaling is taken back just before its replacecommit is read for the n-th time from now on."""
    world = MemoryTable("BUCKET", hoodie__bucket__index__num__buckets="2")
    world.upsert(FIRST)
    rescaled = rescale_table(world.table.uri, LocalRunner(1), buckets=3).instant
    assert rescaled is not None
    reads = itertools.count(1)

    def is_read(call: Call) -> bool:
        return call.name == "read" and call.path.endswith(f"{rescaled}.replacecommit") and next(reads) == number

    def take_back() -> None:
        with contextlib.suppress(ConflictError, UsageError):  # the run has the lock, or has committed
            rollback_instant(Table.open(world.store), rescaled, parse_options({"lakeindex.lock.wait": "0"}))

    return world, world.once(is_read, take_back)


@pytest.mark.parametrize("number", range(1, 7))
def test_a_rewrite_may_be_taken_back_whenever_the_run_reads_it(number: int):
    """While it takes a snapshot, too: the replacecommit that the timeline listed is gone when it is read."""
    world, done = rescaled_world(number)
    oracle = Oracle()
    oracle.apply(FIRST)
    assert counts_of(world.upsert(OURS)) == oracle.apply(OURS)
    assert done
    assert content_of(world.table) == oracle.content()
    assert not world.timeline().pending


@pytest.mark.parametrize("number", [1, 2])
def test_a_rewrite_may_be_taken_back_while_a_rescaling_opens_the_table(number: int):
    world, done = rescaled_world(number)
    oracle = Oracle()
    oracle.apply(FIRST)
    rescaled = rescale_table(world.table.uri, LocalRunner(1), buckets=5)
    assert done
    assert {one.buckets_before for one in rescaled.partitions} == {2}
    assert content_of(world.table) == oracle.content()


def test_as_many_tries_are_lost_as_the_option_says():
    """And told; one more is one too many."""
    for retries, losses in ((0, 0), (1, 1), (2, 2), (0, 1), (1, 2)):
        world, left = started()[0], list(range(losses))

        def hook(call: Call, world: MemoryTable = world, left: list[int] = left) -> None:
            if left and writes_data(call):
                number = left.pop()
                world.store.hook = None
                world.upsert([Row("a", "x", 1, f"theirs {number}")], **OVERTAKEN)
                world.store.hook = hook

        world.store.hook = hook
        if losses > retries:
            with pytest.raises(WriteConflictError, match="changed"):
                world.upsert(OURS, lakeindex__conflict__retries=str(retries))
        else:
            assert world.upsert(OURS, lakeindex__conflict__retries=str(retries)).retries == losses
        assert not left
        assert not world.timeline().pending


def test_a_stage_that_is_told_as_done_outlives_a_power_loss(monkeypatch: pytest.MonkeyPatch):
    """A job of its own goes on from it: its tables and then what says that they are whole, synced when it is told."""
    world, _ = started()
    runs = f"memory://{world.name}-stages"
    storage_at(runs).write("in.parquet", _parquet(batch_of(OURS)))
    options = tuple(sorted(SMALL.items()))
    spec = RunSpec(f"memory://{world.name}", runs, "ours", "ours", Operation.UPSERT, (f"{runs}/in.parquet",), options)
    store = MemoryStorage.named(f"{world.name}-stages")
    synced, sync = list[str](), MemoryStorage.sync
    monkeypatch.setattr(MemoryStorage, "sync", lambda self, paths: synced.extend(paths) or sync(self, paths))
    for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS):
        before = store.snapshot()
        run_stage(stage, spec, LocalRunner(1))
        made = {path for path in store.snapshot() if path not in before and path.endswith((".parquet", ".arrow"))}
        assert made <= store.synced
        assert f"ours/{stage}.json" in store.synced
        assert synced[-1] == f"ours/{stage}.json"


def test_partitions_are_not_deleted_while_they_are_clustered():
    """In another partition a clustering is in nobody's way."""
    world, oracle = started()
    file = Table.open(world.store).snapshot().base_files("x")[0]
    plan = format_requested_replace(
        RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice("x", file.file_id),)),))
    )
    time = next_instant_time(world.timeline().max_time, 0)
    world.store.write(f".hoodie/{time}.replacecommit.requested", plan)
    runs = {"checkpoints": f"memory://{world.name}-runs"}
    for dry_run in (True, False):
        for delete in (
            lambda dry_run=dry_run: world.table.delete_partitions(["x"], dry_run=dry_run, **runs),
            lambda dry_run=dry_run: world.table.truncate(dry_run=dry_run, **runs),
        ):
            with pytest.raises(PendingInstantError, match=r"cluster"):
                delete()
    assert content_of(world.table) == oracle.content()
    assert [one.time for one in world.timeline().pending] == [time]
    assert world.table.delete_partitions(["y"], **runs).rows_replaced == 1


def test_no_new_row_goes_into_a_file_group_that_is_going_to_be_clustered() -> None:
    """Small as it is; and where it has to go there, as the only one of its bucket, the write waits."""
    for index, options in (("BLOOM", {}), ("BUCKET", {"hoodie__bucket__index__num__buckets": "1"})):
        world = MemoryTable.holding([Row("a", "x", 1, "1")], index=index, **options)
        (file,) = Table.open(world.store).snapshot().base_files("x")
        group = ClusteringGroup((ClusteringSlice("x", file.file_id),))
        time = next_instant_time(world.timeline().max_time, 0)
        plan = format_requested_replace(RequestedReplace("CLUSTER", (group,)))
        world.store.write(f".hoodie/{time}.replacecommit.requested", plan)
        world.upsert([Row("b", "y", 1, "1")])
        if index == "BUCKET":
            with pytest.raises(PendingInstantError, match=f"part of the pending clustering {time}"):
                world.upsert([Row("n", "x", 1, "1")])
        else:
            assert world.upsert([Row("n", "x", 1, "1")]).files_created == 1
        assert file in Table.open(world.store).snapshot().base_files("x")


def test_a_batch_that_recovery_finds_committed_tells_what_else_was_done():
    """Its run was killed before it could say so; beside it another writer left an instant, which is rolled back now."""

    class KilledError(BaseException):
        pass

    def kill(call: Call) -> None:
        if call.name == "create" and call.path.endswith(".commit"):
            raise KilledError

    world, oracle = started()
    runs = {"checkpoints": f"memory://{world.name}-runs", "batch_id": "ours", "runner": LocalRunner(1)}
    world.store.hook = kill
    with pytest.raises(KilledError):
        world.table.upsert(batch_of(OURS), options=SMALL, **runs)
    world.store.hook = None
    for state in ("commit.requested", "inflight"):
        world.store.write(f".hoodie/20260101000000000.{state}", b"")
    options = {**SMALL, "lakeindex.pending.foreign.max.age": "0"}
    again = world.table.upsert(batch_of(OURS), options=options, **runs)
    assert again.noop
    assert [
        note for note in again.notes if "instant 20260101000000000 (commit) of another writer was rolled back" in note
    ]
    oracle.apply(OURS)
    assert content_of(world.table) == oracle.content()
    assert not world.timeline().pending
