"""Another kind of writer commits between our checks and our commit: it looked for no conflict, so that ours has to give way."""

from contextlib import suppress

import pytest

from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import PendingInstantError
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata
from lakeindex.model import BaseFile
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from tests.model.world import CONFIG, PARTITION, encode_rows, live_rows, read_rows, stat_of
from tests.unit.commit.protocol_support import BATCH, OTHER, KilledError, World


def commit_theirs(world: World, time: str) -> None:
    """What Hudi at its defaults does: it rewrites the group that it found, whoever is at work."""
    old = Table.open(world.store).snapshot().base_files(PARTITION)[0]
    rows = {**read_rows(world.store, old), "a2": "theirs"}
    new = BaseFile(PARTITION, old.file_id, time, "7-0-0")
    world.store.write(f".hoodie/{time}.commit.requested", b"")
    world.store.write(f".hoodie/{time}.inflight", b"")
    world.store.write(new.path, encode_rows(rows))
    metadata = CommitMetadata({PARTITION: (stat_of(new, rows, old),)}, "UPSERT", {"schema": "{}"})
    world.store.write(f".hoodie/{time}.commit", format_commit_metadata(metadata))


@pytest.mark.parametrize("later", [-1, 1])
@pytest.mark.parametrize("moment", ["/verdicts/", ".commit"])
def test_a_foreign_commit_beside_ours_is_noticed(world: World, later: int, moment: str) -> None:
    done: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name != "create" or done:
            return None
        if moment in call.path and call.path.endswith((".json", ".commit")):
            ours = call.path.rpartition("/")[2].partition(".")[0]
            done.append(ours)
            commit_theirs(world, str(int(ours) + later))
        return None

    world.store.hook = hook
    instant = world.upsert(BATCH)
    world.store.hook = None
    assert done
    assert done != [instant], "the plan that did not know of the other commit stands"
    assert live_rows(world.store) == {"a1": ["one"], "a2": ["theirs"], "b1": ["0"], "x": ["one"]}
    assert not Table.open(world.store).load_timeline().pending


def test_an_inflight_file_that_another_writer_has_begun_empty_is_not_filled(world: World) -> None:
    """Of the same instant, as Hudi begins one: whose it is was not told by the requested file."""
    theirs: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".inflight") and ".rollback" not in call.path and not theirs:
            theirs.append(call.path)
            world.store.write(call.path, b"")
        return None

    world.store.hook = hook
    with suppress(PendingInstantError):
        world.upsert(BATCH)
    world.store.hook = None
    assert world.store.read(theirs[0]) == b""
    taken = theirs[0].rpartition("/")[2].partition(".")[0]
    assert not [one for one in Table.open(world.store).load_timeline().find(taken) if one.is_completed]
    assert f"{taken}.json" not in world.names(".hoodie/.lakeindex/instants"), "nor is it ours any more"


def test_who_rolls_such_a_commit_back_is_not_told_that_it_was_committed(world: World) -> None:
    """Its verdict says so, but the recovery that comes first withdraws it: what was asked for is done."""
    killed: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".commit") and not killed:
            killed.append(call.path.rpartition("/")[2].partition(".")[0])
            commit_theirs(world, str(int(killed[0]) + 1))
            raise KilledError
        return None

    world.store.hook = hook
    with pytest.raises(KilledError):
        world.upsert(BATCH)
    world.store.hook = None
    world.gone.add("writer")
    done = rollback_instant(Table.open(world.store), killed[0], CONFIG, host=world.host("operator"))
    assert done.instant == killed[0]
    assert live_rows(world.store)["a2"] == ["theirs"]
    timeline = Table.open(world.store).load_timeline()
    assert not timeline.pending
    assert not timeline.find(killed[0])
    assert world.names(".hoodie/.lakeindex/instants") == []


def test_a_commit_that_hudi_rolls_back_while_it_is_tidied_up_does_not_come_back(world: World) -> None:
    """It was created again, from the verdict: a commit without files."""
    killed: list[str] = []

    def kill(call: Call) -> Fault | None:
        if call.name == "delete" and "/.temp/" in call.path and not killed:
            killed.append(call.path.split("/.temp/")[1].partition("/")[0])
            raise KilledError
        return None

    def roll_back(call: Call) -> Fault | None:
        if call.name in {"create", "read"} and call.path == f".hoodie/{killed[0]}.commit":
            world.store.hook = None
            for one in world.store.list():
                if killed[0] in one.path.rpartition("/")[2] and ".lakeindex/" not in one.path:
                    world.store.delete(one.path)
        return None

    world.store.hook = kill
    with pytest.raises(KilledError):
        world.upsert(BATCH)
    world.gone.add("writer")
    world.store.hook = roll_back
    world.upsert(OTHER, "next")
    assert world.store.hook is None
    assert not Table.open(world.store).load_timeline().find(killed[0])
    assert live_rows(world.store) == {"a1": ["0"], "a2": ["0"], "b1": ["two"]}
