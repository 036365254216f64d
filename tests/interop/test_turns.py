"""Both sides write one table in turns: no row lost, none doubled, untouched rows left alone, in any order of turns."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tests.interop import ours
from tests.interop.hudi_client import HudiServer
from tests.interop.rows import COMPLEX, LAYOUTS, NONPARTITIONED, SIMPLE, Layout, assert_state
from tests.interop.story import Story, keeping_story, rust_since

pytestmark = pytest.mark.interop

#: A table of Hudi 0.15 does not say how it merges; the first of our writes has to.
_SAY_ONCE = {"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_hudi_upserts_and_deletes_in_our_table(hudi: HudiServer, layout: Layout, folder: Path) -> None:
    story = keeping_story(folder, layout, hudi)
    story.we_create()
    story.we_upsert(range(120), 1)
    story.we_upsert([*range(30), *range(120, 140)], 2)
    before = story.instants[-1]
    story.hudi_upserts([*range(20, 40), *range(135, 150)], 3)
    story.hudi_deletes([*range(5), *range(145, 148), 999])
    story.judge("after Hudi's upsert and delete")
    story.we_upsert([*range(3, 12), *range(148, 160)], 4)
    story.we_delete([*range(40, 45), 149])
    story.judge("after our second turn", sound=True)
    assert_state(rust_since(story.path, before), story.replay.since(before), "hudi-rs since our second commit")
    assert_state(ours.read(story.path, since=before), story.replay.since(before), "we since our second commit")


@pytest.mark.parametrize("layout", LAYOUTS, ids=lambda layout: layout.name)
def test_we_upsert_and_delete_in_hudis_table(hudi: HudiServer, layout: Layout, folder: Path) -> None:
    story = keeping_story(folder, layout, hudi)
    if layout is NONPARTITIONED:
        # The row writer lays files out in its own way: other names of list items, no Avro schema. No upsert of Hudi's
        # may follow here: 0.15 loses the lists of such files in its own merge.
        story.hudi_writes("bulk_insert", range(120), 1)
    else:
        story.hudi_writes("insert", range(120), 1)
        story.hudi_upserts([*range(30), *range(120, 140)], 2)
    before = story.instants[-1]
    story.our_options = _SAY_ONCE if hudi.version == "0.15.0" else {}
    story.we_upsert([*range(20, 40), *range(135, 150)], 3)
    story.our_options = {}
    story.we_delete([*range(5), *range(145, 148), 999])
    story.judge("after our upsert and delete", sound=True)
    story.hudi_upserts([*range(3, 12), *range(148, 160)], 4)
    story.hudi_deletes([*range(40, 45), 149])
    story.judge("after Hudi's second turn")
    assert_state(rust_since(story.path, before), story.replay.since(before), "hudi-rs since before our turn")
    assert_state(hudi.as_of(story.path, before), story.states[before], "Hudi as of before our turn")


def _random_turn(story: Story, choose: random.Random, version: int) -> str:
    present = sorted(story.replay.rows)
    some = choose.sample(present, min(len(present), choose.randint(1, 25)))
    new = choose.sample(range(400), choose.randint(0, 25))
    turn = choose.choice(("we upsert", "hudi upserts", "we upsert", "hudi upserts", "we delete", "hudi deletes"))
    match turn:
        case "we upsert":
            story.we_upsert(sorted({*some, *new}), version)
        case "hudi upserts":
            story.hudi_upserts(sorted({*some, *new}), version)
        case "we delete":
            story.we_delete(sorted({*some[: len(some) // 2 + 1], *new[:3]}))
        case "hudi deletes":
            story.hudi_deletes(sorted({*some[: len(some) // 2 + 1], *new[:3]}))
    return turn


@pytest.mark.parametrize(("seed", "layout"), [(1, SIMPLE), (2, COMPLEX), (3, NONPARTITIONED)])
def test_random_turns(hudi: HudiServer, seed: int, layout: Layout, folder: Path) -> None:
    choose = random.Random(f"{seed} {hudi.version}")
    story = keeping_story(folder, layout, hudi)
    story.we_create()
    story.we_upsert(range(0, 400, 4), 1)
    told = []
    for version in range(2, 9):
        told.append(_random_turn(story, choose, version))
        assert_state(hudi.read(story.path), story.replay, f"seed {seed}, after {told}: Hudi reads")
        assert_state(ours.read(story.path), story.replay, f"seed {seed}, after {told}: we read")
    story.judge(f"seed {seed}, at the end of {told}", sound=True)
    middle = story.instants[4]
    assert_state(hudi.as_of(story.path, middle), story.states[middle], f"seed {seed}: time travel over {told}")


@pytest.mark.parametrize(("version", "older"), [(6, "0.15.0"), (8, "1.0.2"), (9, "1.1.1")])
def test_all_three_writers_take_turns(servers: dict[str, HudiServer], version: int, older: str, folder: Path) -> None:
    """Ours, an older release and 1.2 on one table: what one release leaves in the properties must not disturb the next."""
    story = keeping_story(folder, SIMPLE, servers[older].writing(version))
    story.we_create()
    story.we_upsert(range(90), 1)
    for turn, release in enumerate((older, "1.2.0", older), start=1):
        guest = keeping_story(folder, SIMPLE, servers[release].writing(version))
        story.hudi, story.options = guest.hudi, guest.options
        story.hudi_upserts(range(turn * 10, turn * 10 + 70, 3), 2 * turn)
        story.we_upsert(range(turn * 20, turn * 20 + 70, 3), 2 * turn + 1)
        story.judge(f"after {release}")
    ours.assert_sound(story.path, "at the end")
