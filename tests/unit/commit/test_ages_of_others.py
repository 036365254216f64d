"""When another writer's pending instant counts as dead: by its age and by what it has last touched."""

import pytest

from lakeindex.commit.recovery import recover
from lakeindex.commit.write_session import WriteSession, begin_write
from lakeindex.errors import PendingInstantError
from lakeindex.format.instants import instant_time_of
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import InstantState
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from tests.model.world import CONFIG, file_id, timeline_path
from tests.unit.commit.protocol_support import BATCH, START_MS, World

LIMIT = CONFIG.pending_foreign_max_age_seconds
THEIRS = instant_time_of(START_MS)


def recovered(world: World, config: WriteConfig = CONFIG) -> bool:
    """Whether the instant was taken for dead."""
    context = WriteContext(Table.open(world.store), world.host("ours"), config)
    try:
        with context.locked("recovery") as lock:
            recover(context, lock)
    except PendingInstantError:
        return False
    return not [name for name in world.names() if name.startswith(THEIRS)]


@pytest.mark.parametrize(("age", "dead"), [(0, False), (60, False), (LIMIT - 1, False), (LIMIT + 1, True)])
def test_nothing_touched_for_longer_than_the_limit_is_dead(world: World, age: int, dead: bool):
    world.put_pending(THEIRS)
    world.clock.sleep(age)
    assert recovered(world) is dead


def test_the_limit_is_the_options_in_seconds(world: World):
    config = WriteConfig(lock_lease_seconds=2, pending_foreign_max_age_seconds=100)
    world.put_pending(THEIRS)
    world.clock.sleep(99)
    assert not recovered(world, config)
    world.clock.sleep(2)
    assert recovered(world, config)


@pytest.mark.parametrize(("since", "dead"), [(LIMIT - 1, False), (LIMIT + 1, True)])
def test_a_heartbeat_counts_for_as_long_as_it_is_young(world: World, since: int, dead: bool):
    world.put_pending(THEIRS)
    world.clock.sleep(3 * LIMIT)
    world.store.write(f".hoodie/.heartbeat/{THEIRS}", b"")
    world.clock.sleep(since)
    assert recovered(world) is dead


@pytest.mark.parametrize(
    "sign",
    [
        f".hoodie/.temp/{THEIRS}/p/{file_id(5)}_0-0-0_{THEIRS}.parquet.marker.CREATE",
        f".hoodie/.temp/{THEIRS}/MARKERS0",
        f"p/{file_id(5)}_0-0-0_{THEIRS}.parquet",
        f"elsewhere/deep/{file_id(5)}_0-0-0_{THEIRS}.parquet",
        timeline_path(THEIRS, InstantState.REQUESTED),
        timeline_path(THEIRS, InstantState.INFLIGHT),
    ],
)
def test_a_long_write_lives_as_long_as_it_writes(world: World, sign: str):
    """A backfill of two hours was rolled back while it ran: only its instant was old."""
    world.put_pending(THEIRS)
    world.clock.sleep(20 * LIMIT)
    world.store.write(sign, b"{}")
    world.clock.sleep(LIMIT - 1)
    assert not recovered(world)
    world.clock.sleep(2)
    assert recovered(world)


def test_what_was_rolled_back_is_noted(world: World):
    world.put_pending(THEIRS, marked=f"{file_id(5)}_0-0-0_{THEIRS}.parquet")
    world.clock.sleep(LIMIT + 1)
    session = begin_write(Table.open(world.store), BATCH.identity, "UPSERT", CONFIG, host=world.host("ours"))
    assert isinstance(session, WriteSession)
    (note,) = session.notes
    assert note.startswith(f"instant {THEIRS} (commit) of another writer was rolled back, with 1 data files")
    assert "lakeindex.pending.foreign.max.age" in note
