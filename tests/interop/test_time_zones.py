"""Hudi in another time zone: its instants are local time unless the table says UTC, and every reader orders by them.

A commit of ours whose instant runs ahead of Hudi's clock would hide Hudi's next commits, whose files look older.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.hudi_client import HudiServer, in_zone
from tests.interop.rows import NONPARTITIONED
from tests.interop.story import keeping_story

pytestmark = pytest.mark.interop

_ZONE = "America/Los_Angeles"


@pytest.fixture(scope="module", params=["0.15.0_v6", "1.2.0_v6"])
def western_hudi(
    request: pytest.FixtureRequest, environment: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[HudiServer]:
    server = HudiServer(request.param.partition("_")[0], tmp_path_factory.mktemp("western"), zone=_ZONE)
    yield server
    server.close()


@pytest.fixture
def western() -> Iterator[None]:
    """We run on the same machine as Hudi does."""
    with in_zone(_ZONE):
        yield


@pytest.mark.usefixtures("western")
@pytest.mark.parametrize("creator", ["Hudi", "we"])
def test_turns_in_a_western_time_zone(western_hudi: HudiServer, creator: str, folder: Path) -> None:
    story = keeping_story(folder, NONPARTITIONED, western_hudi)
    if creator == "we":
        story.we_create()  # says UTC, which Hudi keeps to
        story.we_upsert(range(60), 1)
    else:
        story.hudi_writes("insert", range(60), 1)
    if creator == "Hudi" and western_hudi.version == "0.15.0":
        story.our_options = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}
    story.we_upsert(range(50, 80), 2)
    story.hudi_upserts(range(10), 3)
    story.we_upsert(range(5, 15), 4)
    story.hudi_upserts(range(8, 12), 5)
    story.judge("after turns in a western time zone", sound=True)
