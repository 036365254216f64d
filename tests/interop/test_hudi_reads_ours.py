"""Hudi 0.15, Hudi 1.2 and hudi-rs read what we write: every type, time travel, incremental, keys and partitions."""

from __future__ import annotations

import itertools
import shutil
from pathlib import Path

import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import LAYOUTS, assert_state
from tests.interop.story import Story, hudi_since, keeping_story, read_with_rust, rows_of, rust_as_of, rust_since

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory, servers: dict[str, HudiServer]) -> dict[tuple[int, str], Story]:
    """One table per version and layout: insert, upsert of old and new rows, delete; nobody else writes to it."""
    stories = {}
    for version, layout in itertools.product((6, 8, 9), LAYOUTS):
        story = keeping_story(tmp_path_factory.mktemp("ours"), layout, servers["1.2.0"].writing(version))
        story.we_create()
        story.we_upsert(range(200), 1)
        story.we_upsert([*range(50), *range(200, 230)], 2)
        story.we_delete([*range(90, 100), 900])
        stories[version, layout.name] = story
    return stories


@pytest.fixture(params=LAYOUTS, ids=lambda layout: layout.name)
def story(request: pytest.FixtureRequest, written: dict[tuple[int, str], Story], hudi: HudiServer) -> Story:
    return written[hudi.table_version, request.param.name]


def test_snapshot(hudi: HudiServer, story: Story) -> None:
    assert_state(hudi.read(story.path), story.replay, "snapshot")


def test_time_travel_to_every_instant(hudi: HudiServer, story: Story) -> None:
    for instant, state in story.states.items():
        assert_state(hudi.as_of(story.path, instant), state, f"as of {instant}")


def test_incremental_from_every_instant(hudi: HudiServer, story: Story) -> None:
    first, second, third = story.instants
    for begin, end in (("000", first), (first, second), (second, third), (first, None)):
        state = story.states[end or third].since(begin)
        found = hudi_since(hudi, story, begin, end)
        if state.rows:
            assert_state(found, state, f"from {begin} to {end}")
        else:
            assert found.num_rows == 0


def test_filters_on_key_and_partition_column(hudi: HudiServer, story: Story) -> None:
    found = hudi.read(story.path, where="_hoodie_record_key like '%k00042%' or (region = 'eu' and val like 'v2-%')")
    rows = story.replay.rows
    wanted = {row["id"] for n, row in rows.items() if n == 42 or (row["region"] == "eu" and row["val"][:3] == "v2-")}
    assert set(found["id"].to_pylist()) == wanted


def test_table_registered_in_spark_sql(hudi: HudiServer, story: Story, tmp_path: Path) -> None:
    copy = tmp_path / story.layout.name
    shutil.copytree(story.path, copy)  # registering a table writes to its properties
    name = f"registered_{story.layout.name}"
    hudi.sql(f"create table {name} using hudi location '{copy}'")
    try:
        counted = hudi.sql(f"select count(*), count(distinct _hoodie_record_key), sum(ts) from {name}")
    finally:
        hudi.sql(f"drop table {name}")
    rows = story.replay.rows
    assert counted == [[str(len(rows)), str(len(rows)), str(sum(row["ts"] for row in rows.values()))]]
    # it leaves a schema, a database and another checksum in the properties: the table is still ours to write
    assert ours.upsert(copy, rows_of(range(3), 9)).updates == 3


def test_rust_reads_snapshot_time_travel_and_incremental(story: Story) -> None:
    assert_state(read_with_rust(story.path), story.replay, "hudi-rs snapshot")
    for instant, state in story.states.items():
        assert_state(rust_as_of(story.path, instant), state, f"hudi-rs as of {instant}")
    first = story.instants[0]
    assert_state(rust_since(story.path, first), story.replay.since(first), f"hudi-rs since {first}")


def test_we_read_snapshot_time_travel_and_incremental(story: Story) -> None:
    assert_state(ours.read(story.path), story.replay, "our snapshot")
    for instant, state in story.states.items():
        assert_state(ours.read(story.path, as_of=instant), state, f"we as of {instant}")
        if state.since(instant).rows:
            assert_state(ours.read(story.path, since=instant), story.replay.since(instant), f"we since {instant}")
    ours.assert_sound(story.path, "after our writes")
