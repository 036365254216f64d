"""Strays: what is one, and what is never deleted."""

import pytest

from lakeindex.commit.run_records import RUNS_FOLDER
from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.sweep import StrayKind, find_strays, find_unexplained
from lakeindex.format.file_names import parse_base_path
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import RollbackMetadata, format_rollback_metadata
from lakeindex.timeline.pending_files import heartbeat_path
from lakeindex.timeline.verdicts import (
    Outcome,
    Verdict,
    decide,
    decision_name,
    decisions,
    load_verdict,
    overrule,
    verdict_path,
    verdict_times,
)
from tests.model.world import CONFIG, file_id, live_rows, sweep_strays
from tests.unit.commit.protocol_support import BATCH, FIRST, OTHER, Batch, World
from tests.unit.timeline.archives import put_log


def stray(number: int, time: str, folder: str = "p") -> str:
    return f"{folder}/{file_id(number)}_0-0-0_{time}.parquet"


def put_rollback(world: World, undone: str, *paths: str) -> None:
    """A rollback of Hudi's that names these files, one of them as not deleted."""
    time = str(int(undone) + 1)
    files: dict[str, tuple[str, ...]] = {}
    for path in paths:
        folder = path.rpartition("/")[0]
        files[folder] = (*files.get(folder, ()), f"file:/lake/table/{path}")
    done = RollbackMetadata(time, undone, "commit", deleted={}, failed=files)
    world.store.write(f".hoodie/{time}.rollback", format_rollback_metadata(done))


def test_nothing_is_inferred_from_a_missing_instant(world: World) -> None:
    """It may have been archived beyond a savepoint, or the timeline may have been moved by an upgrade."""
    unknown = stray(8, "20251231000000001")
    world.store.write(unknown, b"{}")
    world.store.write(f".hoodie/.temp/20251231000000001/{unknown}.marker.CREATE", b"")
    world.upsert(BATCH)
    assert kinds(world) == {}
    assert find_unexplained(Table.open(world.store).snapshot()) == (parse_base_path(unknown, 2),)
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert unknown in world.store.snapshot()


def kinds(world: World) -> dict[str, StrayKind]:
    return {one.file.path: one.kind for one in find_strays(Table.open(world.store))}


def test_a_clean_table_has_none(world: World) -> None:
    world.upsert(BATCH)
    assert kinds(world) == {}


def test_each_kind(world: World) -> None:
    first = world.upsert(BATCH)
    second = world.upsert(OTHER, "two")
    rollback_instant(Table.open(world.store), second, CONFIG, host=world.host("operator"))
    expected = {
        stray(7, second): StrayKind.ROLLED_BACK,
        stray(8, "20251231000000001"): StrayKind.NAMED_BY_ROLLBACK,
        stray(9, first): StrayKind.NOT_IN_COMMIT,
        stray(9, first, "q/r"): StrayKind.NOT_IN_COMMIT,
    }
    for path in expected:
        world.store.write(path, b"{}")
    put_rollback(world, "20251231000000001", stray(8, "20251231000000001"))
    assert kinds(world) == expected
    swept = sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert {one.file.path for one in swept} == set(expected)
    assert kinds(world) == {}
    assert live_rows(world.store)["x"] == ["one"]


@pytest.mark.parametrize("torn", [False, True])
def test_a_commit_that_is_being_rolled_back_proves_nothing(world: World, torn: bool) -> None:
    instant = world.upsert(BATCH)
    overrule(world.store, Verdict(instant, Outcome.ROLLED_BACK, "token"))
    if torn:
        world.store.write(f".hoodie/{instant}.commit", b"")
    world.store.write(stray(9, instant), b"{}")
    assert kinds(world) == {}


def test_a_writer_that_begins_while_strays_are_looked_for_loses_nothing(world: World) -> None:
    """Its requested file, then its data file, appear before any of the calls."""
    world.upsert(BATCH)
    objects = world.store.snapshot()
    time = "20260101000000777"
    path = stray(1, time)
    for number in range(1, 30):
        world.store.restore(objects)
        calls: list[Call] = []

        def begin(call: Call, number: int = number, calls: list[Call] = calls) -> None:
            calls.append(call)
            if len(calls) == number:
                world.store.hook = None
                world.store.write(f".hoodie/{time}.commit.requested", b"")
                world.store.write(f".hoodie/{time}.inflight", b"{}")
                world.store.write(path, b"{}")

        world.store.hook = begin
        found = find_strays(Table.open(world.store))
        world.store.hook = None
        assert found == (), f"before call {number}: {calls[number - 1]}"
        if len(calls) < number:
            break
    assert number > 3


def test_a_commit_that_is_archived_while_strays_are_looked_for_proves_nothing(world: World) -> None:
    first = world.upsert(BATCH)
    world.store.write(stray(9, first), b"{}")

    def hook(call: Call) -> None:
        if call.name == "read" and call.path == f".hoodie/{first}.commit":
            world.store.hook = None
            world.store.delete(call.path)

    world.store.hook = hook
    assert find_strays(Table.open(world.store)) == ()


def test_what_may_be_archived_pending_or_hudis_is_never_deleted(world: World) -> None:
    world.upsert(BATCH)
    world.put_pending("20260101000000777")
    kept = [
        stray(1, "20200101000000000"),  # older than the timeline: archived
        stray(2, "20260101000000777"),  # pending
        stray(3, FIRST),  # beside another writer's commit
        "p/notes.txt",
        "nested/.hoodie/hoodie.properties",
        stray(4, "20251231000000001", "nested/p"),  # another table
    ]
    for path in kept:
        world.store.write(path, b"{}")
    assert kinds(world) == {}
    assert find_unexplained(Table.open(world.store).snapshot()) == ()
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert set(kept) <= set(world.store.snapshot())


def test_a_file_that_an_archived_rollback_names_is_a_stray(world: World) -> None:
    """Another writer's zombie wrote it after both were archived."""
    world.upsert(BATCH)
    undone, time = "20251231000000001", "20251231000000002"
    named, other = stray(8, undone), stray(9, undone)
    for path in (named, other):
        world.store.write(path, b"{}")
    assert kinds(world) == {}
    put_log(world.store, (), rolled_back=[(time, undone)], files={"p": [f"file:/lake/table/{named}"]})
    assert kinds(world) == {named: StrayKind.NAMED_BY_ROLLBACK}
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert named not in world.store.snapshot()
    assert other in world.store.snapshot(), "nothing is known of it"


def test_an_archived_instant_that_we_rolled_back_is_still_known(world: World) -> None:
    """As soon as the timeline begins after it, Hudi would take its files for committed ones."""
    instant = world.upsert(BATCH)
    rollback_instant(Table.open(world.store), instant, CONFIG, host=world.host("operator"))
    world.upsert(OTHER, "two")
    for path in list(world.store.snapshot()):
        if path.startswith((f".hoodie/{FIRST}", f".hoodie/{instant}")) or ".rollback" in path:
            world.store.delete(path)
    zombie = stray(7, instant)
    world.store.write(zombie, b"{}")
    assert kinds(world) == {zombie: StrayKind.ROLLED_BACK}


def test_publishing_sweeps_the_partitions_it_wrote_to(world: World) -> None:
    here, there = stray(8, "20251231000000001"), stray(8, "20251231000000001", "elsewhere")
    world.store.write(here, b"{}")
    world.store.write(there, b"{}")
    put_rollback(world, "20251231000000001", here, there)
    world.upsert(BATCH)
    assert list(kinds(world)) == [there]


def test_old_records_of_ours_go(world: World) -> None:
    from tests.unit.commit.test_commit import begin

    begin(world, name="gone").close()
    world.upsert(OTHER, "two")
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert world.store.list(".hoodie/.lakeindex/runs")
    world.clock.sleep(8 * 86_400)
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert world.store.list(".hoodie/.lakeindex/runs") == []


@pytest.mark.parametrize("whose", ["ours", "ours, its verdict torn", "Hudi's", "nobody's", "rolled back"])
def test_markers_and_heartbeats_are_removed_only_of_decided_instants(world: World, whose: str) -> None:
    ours = world.upsert(BATCH)
    time = {"Hudi's": FIRST, "nobody's": "20260101000000999", "rolled back": "20260101000000999"}.get(whose, ours)
    if whose == "ours, its verdict torn":
        world.store.write(verdict_path(time), b"")
    elif whose == "rolled back":
        decide(world.store, Verdict(time, Outcome.ROLLED_BACK, "token"))
    marker, beat = f".hoodie/.temp/{time}/p/x.parquet.marker.CREATE", heartbeat_path(time)
    world.store.write(marker, b"")
    world.store.write(beat, b"")
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    stays = whose in ("Hudi's", "nobody's")
    assert [path in world.store.snapshot() for path in (marker, beat)] == [stays, stays]


def test_of_verdicts_those_on_archived_commits_go(world: World) -> None:
    """What was rolled back stays so, whoever wakes up, and what was decided about a rollback; so does what is on the
    timeline.
    """
    undone, called_off, left = "20200101000000000", decision_name(FIRST, "a"), decision_name(FIRST, "b")
    for name, outcome in ((undone, "rolled_back"), (called_off, "rolled_back"), (left, "committed")):
        decide(world.store, Verdict(name, Outcome(outcome), "token"))
    times = [world.upsert(Batch(f"run {number}", {"a1": str(number)})) for number in range(3)]
    archive_table(Table.open(world.store), 2, CONFIG, host=world.host("archiver"))
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    assert verdict_times(world.store) == {undone, *times[1:]}
    assert decisions(world.store) == [called_off, left]


def test_a_commit_of_ours_that_hudi_took_back_is_overruled_once_it_has_left_the_timeline(world: World) -> None:
    """Once the rollback is archived, too, nothing else tells that the batch is not in the table."""
    undone = world.upsert(BATCH)
    put_rollback(world, undone, stray(8, undone))
    for path in world.store.snapshot():
        if path.startswith((f".hoodie/{undone}.", f".hoodie/{FIRST}.")):
            world.store.delete(path)
    world.upsert(OTHER, "two")
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    verdict = load_verdict(world.store, undone)
    assert verdict is not None
    assert verdict.outcome is Outcome.ROLLED_BACK
    assert not [path for path in world.store.snapshot() if "/ledger/" in path and undone in path]


def test_a_stray_that_was_swept_is_gone_for_good(world: World) -> None:
    """Archiving relies on it: one that a power loss brought back would show."""
    path = stray(9, world.upsert(BATCH))
    world.store.write(path, b"{}")
    calls: list[tuple[str, str]] = []
    world.store.hook = lambda call: calls.append((call.name, call.path))
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    world.store.hook = None
    assert path not in world.store.snapshot()
    assert ("sync_folders", "p") in calls[calls.index(("delete", path)) :]


def test_records_of_a_run_stay_for_a_week_and_those_of_a_claimed_one_longer(world: World) -> None:
    """Who takes the run up again finds its plan; recovery finds what a claim is of, however old that is."""
    from tests.unit.commit.test_commit import Written, begin

    killed, closed = begin(world, name="killed"), begin(world, OTHER, "closed")
    Written(world, killed)
    closed.close()
    left = []
    for days in (6, 2):
        world.clock.sleep(days * 86_400)
        sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
        left.append({folder.rpartition("/")[2] for folder in world.store.list_folder(RUNS_FOLDER).folders})
    assert left == [{BATCH.identity.key, OTHER.identity.key}, {BATCH.identity.key}]


@pytest.mark.parametrize("folder", ["nested", "q/nested"])
def test_files_of_a_table_below_are_not_this_ones(world: World, folder: str) -> None:
    """Its writers count as we do: an instant of theirs may be one that was committed, or rolled back, here."""
    world.store.write(f"{folder}/.hoodie/hoodie.properties", b"hoodie.table.name=inner")
    first, second = world.upsert(BATCH), world.upsert(OTHER, "two")
    theirs = [stray(number, time, f"{folder}/p") for number, time in ((8, first), (9, second))]
    ours = stray(8, first, f"{folder}-too/p")
    for path in (*theirs, ours):
        world.store.write(path, b"{}")
    assert list(kinds(world)) == [ours]
    rollback_instant(Table.open(world.store), second, CONFIG, host=world.host("operator"))
    sweep_strays(Table.open(world.store), CONFIG, world.host("sweeper"))
    left = world.store.snapshot()
    assert [path in left for path in (*theirs, ours)] == [True, True, False]
