"""What a table's clock shows: its instants must not run ahead of the clocks of its other writers."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from lakeindex.commit.run_records import RunIdentity, claim_new_instant
from lakeindex.format.instants import instant_time_of
from lakeindex.lock.write_context import WriteContext
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.timeline.clock import timeline_ms
from tests.unit.commit.protocol_support import World

# 2026-01-15 and 2026-07-15, 08:00 UTC
WINTER, SUMMER = 1_768_464_000_000, 1_784_102_400_000


@pytest.fixture
def los_angeles(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("TZ", "America/Los_Angeles")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("los_angeles")
def test_a_local_timeline_shows_local_time_with_its_daylight_saving() -> None:
    assert instant_time_of(timeline_ms("LOCAL", WINTER + 7)) == "20260115000000007"
    assert instant_time_of(timeline_ms("LOCAL", SUMMER + 7)) == "20260715010000007"


@pytest.mark.usefixtures("los_angeles")
def test_a_utc_timeline_shows_utc_wherever_we_are() -> None:
    assert timeline_ms("UTC", WINTER) == WINTER
    assert instant_time_of(timeline_ms("UTC", WINTER)) == "20260115080000000"


@pytest.mark.usefixtures("los_angeles")
def test_instants_are_claimed_in_the_tables_own_time(world: World) -> None:
    """Hudi's default is local time: a commit of ours in UTC would hide a western Hudi writer's next ones."""
    table = Table.open(world.store)
    run = RunIdentity("run-1", "batch-1", "digest")
    claimed = {}
    for timezone in ("LOCAL", "UTC"):
        here = replace(table, properties=replace(table.properties, timezone=timezone))
        claimed[timezone] = claim_new_instant(WriteContext(here, world.host("writer"), WriteConfig()), run, 1)
    assert claimed == {"LOCAL": "20251231160000000", "UTC": "20260101000000000"}
