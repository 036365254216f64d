"""Hudi's heartbeats of our pending instants: there before the instant, renewed by the thread, gone after it."""

import time

import pytest
from msgspec.structs import force_setattr

from lakeindex.commit.recovery import recover
from lakeindex.commit.write_session import WriteSession, begin_write
from lakeindex.lock.write_context import Heartbeat, WriteContext
from lakeindex.model import InstantState
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.pending_files import HEARTBEATS_FOLDER, RENEWAL_SECONDS, InstantHeartbeat, list_heartbeats
from tests.model.world import CONFIG, merge, sweep_strays, verify_rows
from tests.unit.commit.protocol_support import BATCH, World, timeline_path


def begin(world: World, name: str = "writer") -> WriteSession:
    session = begin_write(
        Table.open(world.store), BATCH.identity, "UPSERT", CONFIG, host=world.host(name), verify=verify_rows
    )
    assert isinstance(session, WriteSession)
    return session


def plan(world: World, session: WriteSession) -> str:
    snapshot = Table.open(world.store).snapshot()
    merged = merge(world.store, snapshot, BATCH.rows, "new-0")
    return session.plan(merged.planned, snapshot.instant_time, merged.digest).instant


def test_a_heartbeat_is_there_before_the_requested_file_and_until_the_commit(world: World) -> None:
    seen: list[tuple[str, str]] = []
    world.store.hook = lambda call: seen.append((call.name, call.path))
    instant = world.upsert(BATCH)
    world.store.hook = None
    beat = f"{HEARTBEATS_FOLDER}/{instant}"
    requested, completed = (timeline_path(instant, one) for one in (InstantState.REQUESTED, InstantState.COMPLETED))
    begun, asked = seen.index(("create", beat)), seen.index(("create", requested))
    done, ended = seen.index(("create", completed)), seen.index(("delete", beat))
    assert begun < asked < done < ended
    assert not list_heartbeats(world.store)


def test_the_thread_beats_for_the_pending_instant_and_stops_with_it(world: World) -> None:
    """As often as Hudi's own writers need it, however long the lease is."""
    instant = plan(world, begin(world))
    first = world.store.head(f"{HEARTBEATS_FOLDER}/{instant}")
    assert first.size_bytes == 0
    world.clock.sleep(60)
    beat = InstantHeartbeat(world.store, instant)
    thread = Heartbeat(0.03)
    thread.add(beat)
    thread.start()
    deadline = time.monotonic() + 20
    while world.store.head(first.path).modified_ms == first.modified_ms:
        assert time.monotonic() < deadline
    beat.end()
    world.store.delete(first.path)
    time.sleep(0.1)
    thread.stop()
    assert not list_heartbeats(world.store)
    assert Heartbeat(86_400)._pause == RENEWAL_SECONDS


def test_the_session_hands_its_heartbeat_to_the_thread(world: World) -> None:
    class Thread(Heartbeat):
        def __init__(self) -> None:
            super().__init__(60)

    session = begin(world)
    thread = Thread()
    force_setattr(session._context, "heartbeat", thread)
    instant = plan(world, session)
    assert [one for one in thread._renewed if isinstance(one, InstantHeartbeat)]
    world.store.delete(f"{HEARTBEATS_FOLDER}/{instant}")
    thread._renewed[-1].renew()
    assert list_heartbeats(world.store) == [instant]
    session.abandon()
    assert not thread._renewed
    assert not list_heartbeats(world.store)


def test_a_retry_that_follows_the_plan_beats_for_it_from_its_first_step(world: World) -> None:
    instant = plan(world, begin(world))
    world.gone.add("writer")
    world.clock.sleep(600)
    seen: list[tuple[str, str]] = []
    session = begin(world, "again")
    world.store.hook = lambda call: seen.append((call.name, call.path))
    again = plan(world, session)
    world.store.hook = None
    assert again == instant
    inflight = ("create", timeline_path(instant, InstantState.INFLIGHT))
    assert seen.index(("write", f"{HEARTBEATS_FOLDER}/{instant}")) < seen.index(inflight)
    assert list_heartbeats(world.store) == [again]


def test_the_heartbeat_of_a_dead_run_goes_with_its_instant(world: World) -> None:
    instant = plan(world, begin(world))
    assert list_heartbeats(world.store) == [instant]
    world.gone.add("writer")
    context = WriteContext(Table.open(world.store), world.host("next"), CONFIG)
    with context.locked("recovery") as lock:
        recover(context, lock)
    assert not Table.open(world.store).load_timeline().find(instant)
    assert not list_heartbeats(world.store)


def test_a_zombies_heartbeat_is_swept_by_the_verdict_and_no_other_writers_is(world: World) -> None:
    done = world.upsert(BATCH)
    theirs, unknown = "20260101000000777", "20260101000000888"
    world.put_pending(theirs)
    for one in (done, theirs, unknown):
        world.store.write(f"{HEARTBEATS_FOLDER}/{one}", b"")
    world.store.write(f"{HEARTBEATS_FOLDER}/.{theirs}.crc", b"")
    sweep_strays(Table.open(world.store), CONFIG, world.host("janitor"))
    assert list_heartbeats(world.store) == [theirs, unknown]


def test_an_instant_for_which_another_writer_beats_is_not_taken(world: World) -> None:
    taken: list[str] = []

    def hook(call: Call) -> None:
        if not taken and call.name == "create" and call.path.startswith(f"{HEARTBEATS_FOLDER}/"):
            taken.append(call.path.rpartition("/")[2])
            world.store.hook = None
            world.store.write(call.path, b"")

    world.store.hook = hook
    instant = world.upsert(BATCH)
    assert instant > taken[0]
    assert list_heartbeats(world.store) == taken


@pytest.mark.parametrize("fault", [Fault.DONE_BUT_FAILED, Fault.TORN])
def test_a_lost_answer_takes_the_heartbeat_for_ours(world: World, fault: Fault) -> None:
    hit: list[str] = []

    def hook(call: Call) -> Fault | None:
        if hit or call.name != "create" or not call.path.startswith(f"{HEARTBEATS_FOLDER}/"):
            return None
        hit.append(call.path)
        return fault

    world.store.hook = hook
    instant = world.upsert(BATCH)
    assert hit == [f"{HEARTBEATS_FOLDER}/{instant}"]
    assert not list_heartbeats(world.store)
