"""Savepoints and restores: what Hudi finds afterwards, what is refused, and what is done by whoever comes next."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress

import pytest
from msgspec.structs import replace

from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.restore import Going, later_writes, plan_restore, restore_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.services.savepoints import create_savepoint, delete_savepoint, list_savepoints
from lakeindex.errors import (
    LakeIndexError,
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    UsageError,
)
from lakeindex.format import instants as names
from lakeindex.model import Instant, InstantState
from lakeindex.options.types import LockProvider
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    RestorePlan,
    avro_record,
    format_restore_plan,
    parse_restore,
    parse_restore_plan,
    parse_savepoint,
)
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import decisions, forget_verdict
from tests.model.world import CONFIG, LAYOUT, Batch, live_rows
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, World

THIRD = Batch("run-3", {"a1": "three", "y": "three"})
LATE = "20360101000000000"
WENT = 3
"""Data files of the second and the third of :func:`three`."""


def restore(world: World, to: str, name: str = "operator", **options: bool) -> tuple[Going, object]:
    return restore_table(Table.open(world.store), to, CONFIG, host=world.host(name), **options)


def savepoint(world: World, time: str | None = None) -> str:
    return create_savepoint(Table.open(world.store), time, "me", "why", CONFIG, host=world.host("keeper")).time


def three(world: World) -> tuple[str, str, str]:
    return world.upsert(BATCH), world.upsert(OTHER, "two"), world.upsert(THIRD, "three")


def files_at(world: World, action: str) -> list[str]:
    timeline = Table.open(world.store).load_timeline()
    return [timeline.path(one) for one in timeline.files if one.action == action]


def test_all_that_came_later_goes_and_may_be_sent_again(world: World) -> None:
    first = world.upsert(BATCH)
    before = live_rows(world.store)
    second, third = world.upsert(OTHER, "two"), world.upsert(THIRD, "three")
    going, done = restore(world, first)
    assert live_rows(world.store) == before
    assert [one.time for one in going.writes] == [third, second] == list(done.gone)
    timeline = Table.open(world.store).load_timeline()
    assert timeline.last_completed_write_time == first
    assert not timeline.pending
    assert not decisions(world.store)
    left = {path for path in world.store.snapshot() if path.startswith("p/")}
    assert not {path for path in left if second in path or third in path}
    assert world.upsert(OTHER, "again") > done.instant
    assert live_rows(world.store)["b1"] == ["two"]


def test_the_three_files_that_hudi_expects(world: World) -> None:
    first, second, third = three(world)
    own = restore(world, first)[1].instant
    requested, inflight, completed = files_at(world, names.RESTORE)
    plan = parse_restore_plan(world.store.read(requested), requested)
    assert plan == RestorePlan(first, ((third, "commit"), (second, "commit")))
    assert world.store.read(inflight) == b""
    record = avro_record(world.store.read(completed), completed)
    assert record["startRestoreTime"] == own
    assert record["instantsToRollback"] == [third, second]
    assert {key: len(value) for key, value in record["hoodieRestoreMetadata"].items()} == {third: 1, second: 1}
    undone = parse_restore(world.store.read(completed), completed)
    assert undone.instants == {second, third}
    assert len(undone.files) == 3


def test_again_there_is_nothing_to_do(world: World) -> None:
    first, *_ = three(world)
    restore(world, first)
    there = world.store.snapshot().keys()
    assert restore(world, first)[1].instant is None
    assert {path for path in world.store.snapshot() if names.RESTORE in path} == {
        path for path in there if names.RESTORE in path
    }


@pytest.mark.parametrize("time", ["20300101000000000", "x", ""])
def test_an_instant_that_is_not_there(world: World, time: str) -> None:
    with pytest.raises(UsageError, match="not a completed write"):
        restore(world, time)


def test_a_later_savepoint_is_in_the_way(world: World) -> None:
    first, second, _ = three(world)
    savepoint(world, second)
    there = world.store.snapshot()
    with pytest.raises(TableUnsupportedError, match=f"later instant {second} is savepointed") as refused:
        restore(world, first)
    assert {k: v for k, v in world.store.snapshot().items() if k in there and "lakeindex" not in k} == {
        k: v for k, v in there.items() if "lakeindex" not in k
    }
    assert f"lakeindex savepoint delete TABLE {second}" in refused.value.hint
    delete_savepoint(Table.open(world.store), second, CONFIG, host=world.host("keeper"))
    restore(world, first)


def test_what_was_cleaned_away_refuses_before_anything_is_changed(world: World) -> None:
    first, *_ = three(world)
    clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    rows = live_rows(world.store)
    with pytest.raises(TableUnsupportedError, match="cleaned away"):
        restore(world, first)
    with pytest.raises(TableUnsupportedError, match="cleaned away"):
        savepoint(world, first)
    assert live_rows(world.store) == rows
    assert not files_at(world, names.RESTORE)
    assert world.upsert(Batch("run-4", {"z": "four"}), "four"), "the lock remembers nothing of it"


def test_a_savepoint_keeps_what_a_clean_would_take(world: World) -> None:
    first = world.upsert(BATCH)
    before = live_rows(world.store)
    assert savepoint(world) == first
    world.upsert(OTHER, "two")
    world.upsert(THIRD, "three")
    cleaned = clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    assert cleaned.plan.kept_for_savepoints
    for path in files_at(world, names.CLEAN)[::2]:  # Hudi's archiving asks the plan, and its next clean what was done
        assert avro_record(world.store.read(path), path)["extraMetadata"] == {"savepointed_timestamps": first}
    restore(world, first)
    assert live_rows(world.store) == before


def test_a_slice_between_two_writes_that_go_is_not_missed(world: World) -> None:
    """It was cleaned, and only a write needed it that goes, too: the savepoint has what was before both."""
    first = world.upsert(BATCH)
    before = live_rows(world.store)
    savepoint(world)
    for number in range(3):
        world.upsert(Batch(f"later-{number}", {"a1": str(number), "b1": str(number)}), f"later-{number}")
    cleaned = clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    assert cleaned.plan.files
    restore(world, first)
    assert live_rows(world.store) == before


def test_a_file_that_a_savepoint_names_and_is_gone(world: World) -> None:
    """No commit after it touched its file group: only the savepoint tells that it was there."""
    first = world.upsert(BATCH)
    savepoint(world)
    world.upsert(OTHER, "two")
    gone = next(path for path in world.store.snapshot() if path.startswith("p/") and first in path)
    world.store.delete(gone)
    with pytest.raises(TableUnsupportedError, match=gone):
        restore(world, first)


def test_a_savepoint_is_listed_and_deleted(world: World) -> None:
    first, second, _ = three(world)
    assert [savepoint(world, time) for time in (second, first, second)] == [second, first, second]
    table = Table.open(world.store)
    found = list_savepoints(table)
    assert [one.time for one in found] == [first, second]
    live = {one.name for one in table.snapshot(as_of=first).base_files("p")}
    assert set(found[0].savepoint.files["p"]) == live
    assert (found[0].savepoint.user, found[0].savepoint.comments) == ("me", "why")
    assert delete_savepoint(table, first, CONFIG, host=world.host("keeper")).time == first
    assert [one.time for one in list_savepoints(table)] == [second]
    assert sorted(files_at(world, names.SAVEPOINT)) == [
        path for path in sorted(files_at(world, names.SAVEPOINT)) if second in path
    ]
    with pytest.raises(UsageError, match="no savepoint"):
        delete_savepoint(table, first, CONFIG, host=world.host("keeper"))
    for time in ("20300101000000000", "x"):
        with pytest.raises(UsageError, match="not a completed write"):
            savepoint(world, time)


def test_the_two_files_of_a_savepoint(world: World) -> None:
    first = world.upsert(BATCH)
    world.store.write("q/.hoodie_partition_metadata", world.store.read("p/.hoodie_partition_metadata"))
    savepoint(world)
    inflight = LAYOUT.path(Instant(first, names.SAVEPOINT, InstantState.INFLIGHT))
    assert world.store.read(inflight) == b""
    (done,) = (path for path in files_at(world, names.SAVEPOINT) if path != inflight)
    said = parse_savepoint(world.store.read(done), done)
    assert (said.made_ms, list(said.files)) == (world.clock.now_ms(), ["p"])


def test_a_deletion_of_a_savepoint_that_was_killed_can_be_made_again(world: World) -> None:
    """A completed savepoint always has its inflight file, as Hudi's has; what is left keeps nothing, and can be deleted."""
    first, *_ = three(world)
    savepoint(world, first)
    start = world.store.snapshot()
    for at in (1, 2, 3, 4):
        world.store.restore(start)
        deleted: list[str] = []

        def hook(call: Call, at: int = at, deleted: list[str] = deleted) -> Fault | None:
            if call.name == "delete" and "savepoint" in call.path:
                deleted.append(call.path)
            return Fault.ERROR if len(deleted) >= at else None

        world.store.hook = hook
        with suppress(LakeIndexError):
            delete_savepoint(Table.open(world.store), first, CONFIG, host=world.host(f"killed-{at}"))
        world.store.hook = None
        world.gone.add(f"killed-{at}")
        states = [one.rpartition(".")[2] for one in files_at(world, names.SAVEPOINT) if ".crc" not in one]
        assert sorted(states) in (["inflight", "savepoint"], ["inflight"], []), (at, states)
        if states:
            assert [one.time for one in list_savepoints(Table.open(world.store))] == [first]
            delete_savepoint(Table.open(world.store), first, CONFIG, host=world.host("keeper"))
        assert not [path for path in world.store.snapshot() if "savepoint" in path]


def _killed_in_between(world: World, to: str, at: int) -> bool:
    """A restore whose process ends at its n-th deletion; whether there was one."""
    deletions = 0

    def hook(call: Call) -> Fault | None:
        nonlocal deletions
        deletions += call.name == "delete" and not call.path.startswith(".hoodie/.lakeindex")
        return Fault.ERROR if deletions >= at and call.name != "read" and not call.name.startswith("list") else None

    world.store.hook = hook
    try:
        restore(world, to, name=f"killed-{at}")
    except LakeIndexError:
        return True
    finally:
        world.store.hook = None
        world.gone.add(f"killed-{at}")
    return False


def _each_kill(world: World) -> Iterator[str]:
    first, *_ = three(world)
    start = world.store.snapshot()
    for at in range(1, 30):
        world.store.restore(start)
        if not _killed_in_between(world, first, at):
            assert at > 3
            return
        yield first


def test_readers_see_the_old_or_the_new_and_whoever_writes_next_finishes_it(world: World) -> None:
    for first in _each_kill(world):
        rows = live_rows(world.store)
        assert (rows["a1"], rows.get("y"), rows["b1"]) == (["one"], None, ["0"])
        assert Table.open(world.store).load_timeline().last_completed_write_time == first
        world.upsert(OTHER, "again")
        timeline = Table.open(world.store).load_timeline()
        assert not timeline.pending
        assert not decisions(world.store)
        assert {key: value for key, value in live_rows(world.store).items() if key != "b1"} == {
            key: value for key, value in rows.items() if key != "b1"
        }
        assert live_rows(world.store)["b1"] == ["two"], "the batch that went was sent again"
        done = parse_restore(world.store.read(files_at(world, names.RESTORE)[-1]), "done")
        assert len(done.files) == WENT, "whatever the first try had deleted: Hudi's metadata table goes by them"


def test_a_damaged_commit_of_which_no_verdict_is_left_can_be_restored_away(world: World) -> None:
    """It is what one restores for; what batch it was nobody can tell any more."""
    _, second, third = three(world)
    forget_verdict(world.store, third)
    world.store.write(LAYOUT.path(Table.open(world.store).load_timeline().find(third)[0]), b"another one's")
    restore(world, second)
    assert Table.open(world.store).load_timeline().last_completed_write_time == second
    assert live_rows(world.store)["a1"] == ["one"]


@pytest.mark.parametrize("begun", [b"{", None])
def test_a_damaged_commit_that_nothing_says_anything_of_is_named(world: World, begun: bytes | None) -> None:
    _, second, third = three(world)
    forget_verdict(world.store, third)
    done, *_ = (one for one in Table.open(world.store).load_timeline().find(third))
    world.store.write(LAYOUT.path(done), b"another one's")
    inflight = LAYOUT.path(replace(done, state=InstantState.INFLIGHT))
    if begun is None:
        world.store.delete(inflight)
    else:
        world.store.write(inflight, begun)
    with pytest.raises(TableCorruptError) as caught:
        restore(world, second)
    assert caught.value.culprit == LAYOUT.path(done)


def test_an_instant_that_a_killed_archiver_has_in_its_log_is_not_restored_to(world: World) -> None:
    """The next archiver takes it off the timeline, though nothing newer is in the archive."""
    _, second, _ = three(world)
    before = world.store.snapshot()
    archive_table(Table.open(world.store), 1, CONFIG, host=world.host("archiver"))
    world.store.restore({**before, **world.store.snapshot()})
    with pytest.raises(TableUnsupportedError, match=f"{second}, which is not older, was archived"):
        plan_restore(Table.open(world.store), second)


@pytest.mark.parametrize("take_back", ["restore", "rollback"])
def test_nothing_is_taken_back_beside_a_writer_that_shares_hudis_lock(world: World, take_back: str) -> None:
    """It may be in flight beside a write; but what it has read would not be there any more."""
    _, second, third = three(world)
    world.put_pending(f"{third}9")
    config = replace(CONFIG, lock_provider=LockProvider.FILE_SYSTEM)
    table, host = Table.open(world.store), world.host("operator")
    act, time = (restore_table, second) if take_back == "restore" else (rollback_instant, third)
    with pytest.raises(PendingInstantError, match=f"{third}9"):
        act(table, time, config, host=host)  # type: ignore[operator] # either takes these
    assert Table.open(world.store).load_timeline().last_completed_write_time == third


def test_what_a_killed_cleaner_left_is_finished_before_a_restore(world: World) -> None:
    """It would be in the way, as it is later than the instant; nobody is at it."""
    *_, third = three(world)
    world.store.hook = lambda call: Fault.ERROR if call.name == "delete" and call.path.endswith(".parquet") else None
    with suppress(LakeIndexError):
        clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    world.store.hook = None
    world.gone.add("cleaner")
    assert [one.action for one in Table.open(world.store).load_timeline().pending] == [names.CLEAN]
    going, _ = restore(world, third)
    assert (going.writes, Table.open(world.store).load_timeline().pending) == ((), ())


def put_restore(
    world: World, plan: RestorePlan, *, time: str = LATE, begun: bool = True, marker: bytes = b"another-writer-1"
) -> None:
    """Another writer's restore, as far as it came."""
    data = format_restore_plan(plan).replace(OWN_SYNC_MARKER, marker)
    world.store.write(LAYOUT.path(Instant(time, names.RESTORE, InstantState.REQUESTED)), data)
    if begun:
        world.store.write(LAYOUT.path(Instant(time, names.RESTORE, InstantState.INFLIGHT)), b"")


def test_the_restore_of_another_writer_is_waited_for_then_finished(world: World) -> None:
    first, second, third = three(world)
    put_restore(world, RestorePlan(first, ((third, "commit"), (second, "commit"))), time=f"{int(third) + 700}")
    assert live_rows(world.store)["a1"] == ["one"], "it has begun"
    with pytest.raises(PendingInstantError, match="restore"):
        world.upsert(OTHER, "again")
    restore(world, first, force=True)
    assert live_rows(world.store)["a1"] == ["one"]
    assert not Table.open(world.store).load_timeline().pending


def test_one_that_had_not_begun_is_called_off(world: World) -> None:
    first, second, third = three(world)
    put_restore(world, RestorePlan(first, ((third, "commit"), (second, "commit"))), begun=False)
    assert live_rows(world.store)["a1"] == ["three"]
    rollback_instant(Table.open(world.store), third, CONFIG, host=world.host("operator"), force=True)
    assert Table.open(world.store).load_timeline().last_completed_write_time == second
    assert not files_at(world, names.RESTORE)


def test_what_was_written_since_ends_a_restore_that_was_left(world: World) -> None:
    """Another kind of writer does not know of it: the write that stays is not hidden, and what it was built on stays."""
    first, second, third = three(world)
    put_restore(world, RestorePlan(first, ((second, "commit"),)), time=f"{int(third) - 1}")
    assert live_rows(world.store)["a1"] == ["three"]
    assert live_rows(world.store)["b1"] == ["two"]
    rows = live_rows(world.store)
    with maintaining(Table.open(world.store), "looking", CONFIG, force=True, host=world.host("next")) as (context, _):
        assert any("what it had not taken away stays" in note for note in context.notes)
    timeline = Table.open(world.store).load_timeline()
    assert (timeline.pending, timeline.completed_write_times) == ((), {FIRST, first, second, third})
    assert live_rows(world.store) == rows
    assert not parse_restore(world.store.read(files_at(world, names.RESTORE)[-1]), "").instants


def test_what_a_restore_that_is_over_has_left_is_taken_away_by_the_next_one(world: World) -> None:
    """It has the same plan, byte for byte, and is another one all the same, also for whoever finishes it."""
    first, second, third = three(world)
    put_restore(world, RestorePlan(first, ((second, "commit"),)), time=f"{int(third) - 1}", marker=OWN_SYNC_MARKER)
    rollback_instant(Table.open(world.store), third, CONFIG, host=world.host("operator"))
    left = world.store.snapshot()
    for at in range(30):
        world.store.restore(left)
        is_killed = at > 0 and _killed_in_between(world, first, at)
        _, done = restore(world, first, name=f"next-{at}")
        assert is_killed or at > 3 or done.gone == (second,)
        assert Table.open(world.store).load_timeline().completed_write_times == {FIRST, first}, at
        assert live_rows(world.store)["a1"] == ["one"], at
        if at > 0 and not is_killed:
            break
    assert at > 3
    world.store.restore(left)
    world.store.hook = lambda call: Fault.ERROR if call.path.endswith(f"{names.RESTORE}.requested") else None
    with suppress(LakeIndexError):
        restore(world, first, name="decided")
    world.store.hook = None
    world.gone.add("decided")
    with maintaining(Table.open(world.store), "looking", CONFIG, force=True, host=world.host("next")):
        assert Table.open(world.store).load_timeline().completed_write_times == {FIRST, first}


def test_of_a_restore_that_is_over_a_write_that_was_half_taken_away_goes(world: World) -> None:
    """Its commit is gone: what is left of it is neither of the table nor of a writer."""
    first, second = world.upsert(BATCH), world.upsert(OTHER, "two")
    world.clock.sleep(1)
    third = world.upsert(THIRD, "three")
    put_restore(world, RestorePlan(first, ((second, "commit"),)), time=f"{int(third) - 1}")
    world.store.delete(LAYOUT.path(Instant(second, names.COMMIT, InstantState.COMPLETED)))
    with maintaining(Table.open(world.store), "looking", CONFIG, force=True, host=world.host("next")):
        pass
    timeline = Table.open(world.store).load_timeline()
    assert (timeline.pending, timeline.completed_write_times) == ((), {FIRST, first, third})
    assert not [path for path in world.store.snapshot() if second in path and not path.startswith(".hoodie/.lakeindex")]
    assert parse_restore(world.store.read(files_at(world, names.RESTORE)[-1]), "").instants == {second}


def test_what_another_writer_has_under_way_is_in_the_way(world: World) -> None:
    first, *_ = three(world)
    for action in (names.CLEAN, names.REPLACE_COMMIT, names.INDEXING, names.CLUSTERING):
        path = LAYOUT.path(Instant(LATE, action, InstantState.REQUESTED))
        world.store.write(path, b"")
        with pytest.raises(PendingInstantError, match=action) as caught:
            plan_restore(Table.open(world.store), first)
        cures = {
            names.CLEAN: "(--force) it is taken for dead, and the restore",
            names.INDEXING: "let its writer finish it",
        }
        cure = cures.get(action, f"`lakeindex rollback TABLE {LATE} --force`")
        assert cure in str(caught.value.hint)
        assert ("--force" in str(caught.value.hint)) is (action != names.INDEXING)
        if action == names.INDEXING:
            with pytest.raises(PendingInstantError, match=action):
                plan_restore(Table.open(world.store), first, force=True)  # nobody settles it but its writer
        else:
            assert plan_restore(Table.open(world.store), first, force=True).writes, "whoever it was is taken for dead"
        world.store.delete(path)
    world.store.write(
        LAYOUT.path(Instant("20200101000000000", names.CLEAN, InstantState.REQUESTED)), b"x"
    )  # an earlier one
    assert plan_restore(Table.open(world.store), first).writes


def test_what_was_completed_later_goes_whenever_it_began() -> None:
    """Hudi 1.x restores by completion; a timeline that does not say when something was completed, by time."""
    one, two, three = (Instant(f"2026010100000000{n}", names.COMMIT, InstantState.COMPLETED) for n in (1, 2, 3))
    assert later_writes(Timeline.of(TimelineLayout(), [one, two, three]), two) == (three,)
    done = [replace(one, completion_time=f"2026010100000000{end}") for one, end in ((one, 9), (two, 7), (three, 8))]
    assert [write.time[-1] for write in later_writes(Timeline.of(TimelineLayout(2), done), done[1])] == ["1", "3"]
