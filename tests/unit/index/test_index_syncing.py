"""What of a stored index must be on disk before it counts."""

from pathlib import Path

import pytest

from lakeindex.storage.memory import Call, Fault
from tests.builders import Row
from tests.meanwhile import MemoryTable

FIRST = [Row(f"k{n}", "x", 1, "v") for n in range(20)]


@pytest.mark.parametrize(
    ("made", "counts_by"), [("/log/", ".commit"), ("/base/", "shards.json"), ("shards.json", "built-")]
)
def test_what_is_made_is_synced_before_it_counts(made: str, counts_by: str):
    world = MemoryTable("RECORD_INDEX")
    unsynced: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name in {"create", "write"} and counts_by in Path(call.path).name:
            there = world.store.snapshot()
            seen.append(call.path)
            unsynced.extend(path for path in there if made in path and path not in world.store.synced)
        return None

    seen: list[str] = []
    world.upsert(FIRST)
    world.store.hook = hook
    options = {"hoodie__metadata__compact__max__delta__commits": "1"}
    for number in range(2):
        world.upsert([Row("k1", "x", 2 + number, "w"), Row(f"n{number}", "x", 2, "w")], **options)
    world.store.hook = None
    assert seen
    assert not unsynced


def test_everything_of_it_is_synced_in_the_end():
    world = MemoryTable("RECORD_INDEX")
    world.upsert(FIRST)
    world.upsert([Row("k1", "x", 2, "w")], hoodie__metadata__compact__max__delta__commits="1")
    left = [p for p in world.store.snapshot() if "/.lakeindex/index/" in p and p not in world.store.synced]
    assert not left
