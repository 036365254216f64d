"""A clock or a time zone that does not fit the table is told before an instant is taken from it."""

import pytest
from msgspec.structs import replace

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.write_session import WriteSession, begin_write
from lakeindex.errors import ClockError
from lakeindex.format.instants import instant_time_of
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.timeline.clock import timeline_ms
from tests.model.world import CONFIG, PlainClock
from tests.unit.commit.protocol_support import BATCH, START_MS, World

CHECKED = WriteConfig(lock_lease_seconds=2, lock_wait_seconds=60)
HOUR_MS = 3_600_000


def begin(world: World, config: WriteConfig = CHECKED, host: Host | None = None) -> WriteSession:
    table = Table.open(world.store)
    session = begin_write(table, BATCH.identity, "UPSERT", config, host=host or world.host("writer"))
    assert isinstance(session, WriteSession)
    return session


@pytest.mark.parametrize("seconds", [-601, 601, 14 * 365 * 86_400])
def test_a_clock_far_from_the_stores_is_refused(world: World, seconds: int) -> None:
    wrong = replace(world.host("wrong"), clock=PlainClock(START_MS + seconds * 1000))
    with pytest.raises(ClockError, match="the table's store says 2026-01-01 00:00:00 UTC"):
        begin(world, host=wrong)
    with pytest.raises(ClockError):
        archive_table(Table.open(world.store), 1, CHECKED, host=wrong)
    assert not [name for name in world.names() if name.startswith("20")][3:], "no instant was taken"
    begin(world, CONFIG, wrong).close()


def test_a_clock_near_the_stores_is_right(world: World) -> None:
    begin(world, host=replace(world.host("near"), clock=PlainClock(START_MS + 590_000))).close()


@pytest.mark.parametrize(("hours", "is_refused"), [(1.9, False), (2.1, True), (9.0, True)])
def test_an_instant_hours_ahead_is_of_another_zone(world: World, hours: float, is_refused: bool) -> None:
    """Nine hours: a writer in Tokyo, on a table in local time, and we in London. All our instants were jumps behind it."""
    ahead = instant_time_of(START_MS + int(hours * HOUR_MS))
    for state in ("commit.requested", "inflight", "commit"):
        world.store.write(f".hoodie/{ahead}.{state}", b"{}")
    if is_refused:
        with pytest.raises(ClockError, match=rf"instant {ahead} is {hours} hours ahead of now.* UTC"):
            begin(world)
        begin(world, CONFIG).close()
    else:
        begin(world).close()


def test_local_time_is_that_of_here(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    import time

    from lakeindex.format.java_properties import format_properties
    from tests.model.world import PROPERTIES

    local = {**PROPERTIES, "hoodie.table.timeline.timezone": "LOCAL"}
    world.store.write(".hoodie/hoodie.properties", format_properties(local))
    try:
        monkeypatch.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        tokyo = instant_time_of(timeline_ms("LOCAL", START_MS))
        for state in ("commit.requested", "inflight", "commit"):
            world.store.write(f".hoodie/{tokyo}.{state}", b"{}")
        begin(world).close()
        monkeypatch.setenv("TZ", "Europe/London")
        time.tzset()
        with pytest.raises(ClockError, match=rf"instant {tokyo} is 9.0 hours ahead .*LOCAL"):
            begin(world)
    finally:
        monkeypatch.undo()
        time.tzset()
