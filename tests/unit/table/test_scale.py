"""How costs grow with the number of files, by counting: requests and comparisons between 1,000 and 10,000 files."""

from __future__ import annotations

import math
from collections import Counter
from functools import cache

import numpy as np
import pyarrow as pa
import pytest

from benchmarks.scaling_steps import STEPS, TOUCHED_PARTITIONS, World
from benchmarks.scaling_table import FILES_A_PARTITION, ScalingTable, Shape, key, key_ends
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata
from lakeindex.hashing.arrow import StringBuffers
from lakeindex.index import key_ranges
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import Instant, InstantState
from lakeindex.storage.memory import MemoryStorage
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.timeline import Timeline

SMALL, LARGE = 1_000, 10_000
INSTANTS = 400


@cache
def requests(files: int) -> dict[str, Counter[str]]:
    """Requests of every step, in the order in which they need each other."""
    world = World(Shape(files, INSTANTS))
    found = {}
    for name, prepare in STEPS.items():
        if name.startswith(("prune", "pack", "bloom_check", "index_lookup, BLOOM, all", "index_lookup, GLOBAL")):
            continue  # these ask for nothing, or take long
        work = prepare(world)
        for store in (world.table.store, world.table.checkpoints):
            store.reset()
        work()
        found[name] = world.table.store.requests + world.table.checkpoints.requests
    world.close()
    return found


def of(step: str, files: int) -> Counter[str]:
    return next(found for name, found in requests(files).items() if name.startswith(step))


@pytest.mark.slow
@pytest.mark.parametrize(
    "step",
    [
        "list and order the timeline",
        f"list {TOUCHED_PARTITIONS} touched partitions",
        "footer facts, written",
        "footer facts, read by a new process",
        "index_lookup, BLOOM, newest partition",
        "merge plan",
    ],
)
def test_requests_do_not_grow_with_files(step: str):
    assert of(step, LARGE) == of(step, SMALL)


@pytest.mark.few(0)
def test_listing_everything_asks_once_a_top_folder():
    for files in (SMALL, LARGE):
        assert of("list every partition", files) == {"list_folder": 1, "list": files // FILES_A_PARTITION}


def test_footer_facts_of_all_files_are_one_read():
    assert of("footer facts, read", LARGE) == {"list_folder": 1, "read": 1}


def test_a_commit_asks_a_few_times_a_file_and_lists_as_often_as_a_small_one():
    for step in ("plan the commit", "publish"):
        small, large = of(step, SMALL), of(step, LARGE)
        a_file = {kind: (large[kind] - small[kind]) / (LARGE - SMALL) for kind in large}
        assert max(a_file.values()) <= 1.01, a_file
        assert a_file.get("list", 0) == 0
        folders = (large["list_folder"] - small["list_folder"]) / (LARGE - SMALL)
        assert folders <= 2 / FILES_A_PARTITION + 0.001


@pytest.mark.parametrize("keys", ["growing", "random"])
def test_pruning_compares_two_binary_searches_a_file(keys: str, monkeypatch: pytest.MonkeyPatch):
    plain = key_ranges.search_strings.__wrapped__  # in Python, where comparisons can be counted
    monkeypatch.setattr(key_ranges, "search_strings", plain)
    compared = Counter[int]()
    value = StringBuffers.value

    def counting(buffers: StringBuffers, row: int) -> bytes:
        compared[files] += 1
        return value(buffers, row)

    monkeypatch.setattr(StringBuffers, "value", counting)
    rows = 1_000
    for files in (SMALL, LARGE):
        numbers = np.sort(np.random.default_rng(5).integers(0, files * 100_000, rows)).tolist()
        prune(pa.array([key(n) for n in numbers]), [KeyRange(*ends) for ends in key_ends(Shape(files, 1, keys))])
        assert compared[files] <= 2 * files * (
            math.ceil(math.log2(rows + 1)) + 1
        )  # one more to read what is searched for


def test_an_instant_is_found_as_by_looking_at_all():
    timeline = ScalingTable(Shape(10, 1_000)).open().load_timeline()
    for time in (timeline.instants[0].time, timeline.instants[-1].time, "20990101000000000"):
        assert timeline.find(time) == tuple(one for one in timeline.instants if one.time == time)


def test_savepoint_and_its_commit_are_found_by_their_time():
    both = [Instant("20260101000000000", action, InstantState.COMPLETED) for action in ("commit", "savepoint")]
    assert Timeline.of(TimelineLayout(), both).find("20260101000000000") == tuple(both)


@pytest.mark.parametrize("count", [1, 3, 40])
def test_replaced_groups_of_few_and_many_replacecommits_are_all_found(count: int):
    store = MemoryStorage()
    times = [f"202601010000{n:05d}" for n in range(count)]
    for n, time in enumerate(times):
        metadata = CommitMetadata(operation="CLUSTER", replaced_file_ids={"p": (f"group-{n}",)})
        store.write(f".hoodie/{names.completed_name(time, names.REPLACE_COMMIT)}", format_commit_metadata(metadata))
    timeline = Timeline.of(
        TimelineLayout(), [Instant(time, names.REPLACE_COMMIT, InstantState.COMPLETED) for time in times]
    )
    assert frozenset(timeline.replaced_at(store)) == {("p", f"group-{n}") for n in range(count)}
    assert frozenset(timeline.replaced_at(store, as_of=times[0])) == {("p", "group-0")}


@pytest.mark.slow
def test_every_step_of_the_scaling_benchmark_runs():
    world = World(Shape(200, 20))
    for prepare in STEPS.values():
        prepare(world)()
    assert world.lookups.keys() == {"newest", "all"}
    world.close()
