"""Archiving: what leaves the timeline, what holds it back, in which order, and what a kill leaves."""

from collections.abc import Mapping

import pytest

from lakeindex.commit.ledger import find_batch
from lakeindex.commit.services.archive import Archived, archive_table, plan_archiving
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import FencedError, LakeIndexError, TableUnsupportedError
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata
from lakeindex.format.instants import instant_time_of
from lakeindex.lock.lock import acquire
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.archived_timeline import read_avro_records
from lakeindex.timeline.avro_instants import (
    ClusteringGroup,
    ClusteringSlice,
    RollbackMetadata,
    format_rollback_metadata,
)
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.model.world import CONFIG, file_id, live_rows
from tests.unit.commit.protocol_support import FIRST, Batch, World
from tests.unit.commit.savepoints import savepoint_bytes

A = file_id(0)
LOG = ".hoodie/archived/.commits_.archive.{}_1-0-1"


def archive(world: World, keep: int, name: str = "archiver", **options: bool) -> Archived:
    return archive_table(Table.open(world.store), keep, CONFIG, host=world.host(name), **options)


def writes(world: World) -> list[str]:
    return [one.time for one in Table.open(world.store).load_timeline().completed_writes]


def in_log(world: World, number: int = 1) -> list[tuple[str, str, str]]:
    records = read_avro_records(world.store.read(LOG.format(number)), "log")
    return [(one["commitTime"], one["actionType"], one["actionState"]) for one in records]


@pytest.fixture
def history(world: World) -> list[str]:
    rows: list[Mapping[str, str]] = [{"a1": "1"}, {"a1": "2"}, {"b1": "3"}, {"a1": "4"}]
    return [FIRST, *(world.upsert(Batch(f"run {n}", one)) for n, one in enumerate(rows))]


def test_the_newest_stay(world: World, history: list[str]) -> None:
    before = live_rows(world.store)
    done = archive(world, 2)
    assert writes(world) == history[3:]
    assert [one.time for one in done.plan.instants] == history[:3]
    assert done.logs == (LOG.format(1),)
    states = ("REQUESTED", "INFLIGHT", "COMPLETED")
    assert in_log(world) == [(time, "commit", state) for time in history[:3] for state in states]
    assert not [name for name in world.names() if name.startswith(tuple(history[:3]))]
    assert live_rows(world.store) == before


def test_what_the_log_says_of_a_commit(world: World, history: list[str]) -> None:
    world.clock.sleep(5)
    world.store.write(f".hoodie/{history[1]}.inflight", b"")  # as a client of Hudi's begins
    modified = [world.store.head(f".hoodie/{history[1]}.{state}").modified_ms for state in ("inflight", "commit")]
    archive(world, 2)
    records = list(read_avro_records(world.store.read(LOG.format(1)), "log"))
    begun, done = (
        next(one for one in records if (one["commitTime"], one["actionState"]) == (history[1], state))
        for state in ("INFLIGHT", "COMPLETED")
    )
    assert modified[0] > modified[1]
    assert [one["stateTransitionTime"] for one in (begun, done)] == [instant_time_of(one) for one in modified]
    assert begun["hoodieCommitMetadata"]["operationType"] == "UNKNOWN"
    commit = done["hoodieCommitMetadata"]
    assert commit["operationType"] == "UPSERT"
    (stat,) = commit["partitionToWriteStats"]["p"]
    assert (stat["fileId"], stat["prevCommit"], stat["numWrites"]) == (A, FIRST, 2)
    assert commit["extraMetadata"]["lakeindex.batch_id"] == "batch of run 0"


def test_again_and_again(world: World, history: list[str]) -> None:
    archive(world, 2)
    names = world.names()
    assert archive(world, 2) == Archived(plan_archiving(Table.open(world.store), 2))
    assert world.names() == names
    world.upsert(Batch("more", {"a1": "5"}))
    assert archive(world, 2).logs == (LOG.format(2),)
    assert in_log(world, 2)[-1] == (history[3], "commit", "COMPLETED")


def test_a_batch_that_was_archived_is_known(world: World, history: list[str]) -> None:
    archive(world, 1)
    assert world.upsert(Batch("run 0", {"a1": "1"})) == history[1]


def test_cleans_go_but_the_newest(world: World, history: list[str]) -> None:
    first = clean_table(Table.open(world.store), 3, CONFIG, host=world.host("c")).instant
    world.upsert(Batch("more", {"a1": "5"}))
    second = clean_table(Table.open(world.store), 1, CONFIG, host=world.host("c")).instant
    world.upsert(Batch("even more", {"a1": "6"}))
    archive(world, 1)
    assert [name for name in world.names() if name.endswith(".clean")] == [f"{second}.clean"]
    assert (first, "clean", "COMPLETED") in in_log(world)
    cleans = [one for one in read_avro_records(world.store.read(LOG.format(1)), "log") if one["actionType"] == "clean"]
    said = ("hoodieCleanerPlan", "hoodieCleanMetadata")
    assert [tuple(one[name] is not None for name in said) for one in cleans] == [
        (True, False),
        (True, False),
        (False, True),
    ]


def test_a_savepoint_stops_it(world: World, history: list[str]) -> None:
    world.store.write(f".hoodie/{history[1]}.savepoint.inflight", b"")
    world.store.write(f".hoodie/{history[1]}.savepoint", savepoint_bytes({}))
    done = archive(world, 1)
    assert writes(world) == history[1:]
    assert done.plan.held_by == f"savepoint {history[1]}"


def test_a_pending_instant_stops_it(world: World, history: list[str]) -> None:
    from lakeindex.timeline.avro_instants import RequestedReplace, format_requested_replace

    time = str(int(history[1]) + 1) if int(history[2]) > int(history[1]) + 1 else f"{history[1]}0"
    plan = format_requested_replace(RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice("p", A),)),)))
    world.store.write(f".hoodie/{time}.replacecommit.requested", plan)
    done = archive(world, 1)
    assert writes(world) == history[2:]
    assert done.plan.held_by == f"pending replacecommit {time}"


def replaces(world: World, group: int, time: str) -> str:
    metadata = CommitMetadata({}, "INSERT_OVERWRITE", replaced_file_ids={"p": (file_id(group),)})
    for state, data in (("requested", b""), ("inflight", b"")):
        world.store.write(f".hoodie/{time}.replacecommit.{state}", data)
    world.store.write(f".hoodie/{time}.replacecommit", format_commit_metadata(metadata))
    return time


def test_the_oldest_that_holds_it_up_counts(world: World, history: list[str]) -> None:
    """Of several of a kind; a clean of Hudi's that is under way is one, too."""
    start = world.store.snapshot()
    for time in (history[3], history[1]):
        world.store.write(f".hoodie/{time}.savepoint.inflight", b"")
        world.store.write(f".hoodie/{time}.savepoint", savepoint_bytes({}))
    assert plan_archiving(Table.open(world.store), 1).held_by == f"savepoint {history[1]}"
    world.store.restore(start)
    for time, group in ((history[4], A), (history[3], file_id(1))):
        lost = next(one.path for one in world.store.list("p") if f"{group}_" in one.path and time in one.path)
        world.store.delete(lost)
    assert str(plan_archiving(Table.open(world.store), 1).held_by).startswith(f"commit {history[3]}, whose file")
    world.store.restore(start)
    first, second = (replaces(world, group, str(int(history[4]) + 5 + group)) for group in (0, 1))
    world.upsert(Batch("after", {"c1": "1"}))
    assert str(plan_archiving(Table.open(world.store), 1).held_by).startswith(f"files that replacecommit {first} ")
    assert second > first
    world.store.restore(start)
    world.store.write(f".hoodie/{history[1]}0.clean.requested", b"x")
    done = archive(world, 1)
    assert (done.plan.held_by, writes(world)) == (f"pending clean {history[1]}0", history[2:])


def test_what_a_killed_cleaner_left_holds_nothing_up(world: World, history: list[str]) -> None:
    world.store.hook = lambda call: Fault.ERROR if call.name == "delete" and call.path.endswith(".parquet") else None
    with pytest.raises(LakeIndexError):
        clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    world.store.hook = None
    world.gone.add("cleaner")
    assert archive(world, 1).plan.held_by is None
    assert Table.open(world.store).load_timeline().pending == ()


def test_files_of_a_folder_that_is_no_partition_any_more_are_not_lost(world: World, history: list[str]) -> None:
    world.store.delete("p/.hoodie_partition_metadata")
    assert plan_archiving(Table.open(world.store), 1).held_by is None


def test_writes_before_a_file_that_nothing_explains_go_but_one(world: World, history: list[str]) -> None:
    world.clock.sleep(5)
    later = world.upsert(Batch("later", {"c1": "5"}))
    unknown = f"p/{file_id(9)}_0-0-0_{int(history[4]) + 1}.parquet"
    world.store.write(unknown, b'{"a1": "unknown"}')
    before = live_rows(world.store)
    archive(world, 1)
    assert writes(world) == [history[4], later]
    assert live_rows(world.store) == before


@pytest.mark.parametrize(("call", "folder", "recorded"), [("list", "", False), ("create", ".hoodie/archived/", True)])
def test_an_archiver_that_lost_its_lock_takes_nothing_away(
    world: World, history: list[str], call: str, folder: str, recorded: bool
) -> None:
    """While it looks for strays, or once its instants are in the archive: another one may put them there, too."""

    def hook(one: Call) -> Fault | None:
        if one.name == call and one.path.startswith(folder):
            world.store.hook = None
            world.gone.add("archiver")
            acquire(world.store, world.host("other"), lease_ms=2000, wait_ms=0, purpose="x")
        return None

    world.store.hook = hook
    with pytest.raises(FencedError):
        archive(world, 1)
    assert writes(world) == history
    assert bool(world.store.list(".hoodie/archived")) is recorded


def test_a_replacecommit_stays_until_its_files_are_gone(world: World, history: list[str]) -> None:
    """Without it the replaced group would be live again."""
    replacing = replaces(world, 0, str(int(history[4]) + 5))
    for n in range(3):
        world.upsert(Batch(f"after {n}", {"b1": str(n)}))
    before = live_rows(world.store)
    assert archive(world, 1).plan.held_by == f"files that replacecommit {replacing} replaced: clean first"
    assert writes(world)[0] == replacing
    assert live_rows(world.store) == before
    clean_table(Table.open(world.store), 1, CONFIG, host=world.host("c"))
    assert archive(world, 1).plan.held_by is None
    assert len(writes(world)) == 1
    assert live_rows(world.store) == before
    assert (replacing, "replacecommit", "COMPLETED") in in_log(world, 2)


BETWEEN = f"{FIRST[:8]}235959999"
"""A time between two commits that no instant has: Hudi would take its files for an archived commit's."""


def test_strays_are_swept_before_they_could_show(world: World, history: list[str]) -> None:
    stray = f"p/{file_id(9)}_0-0-0_{BETWEEN}.parquet"
    world.store.write(stray, b'{"a1": "stray"}')
    decide(world.store, Verdict(BETWEEN, Outcome.ROLLED_BACK, "token"))
    before = live_rows(world.store)
    done = archive(world, 1)
    assert [one.file.path for one in done.strays] == [stray]
    assert live_rows(world.store) == before


def test_a_file_that_nothing_explains_stays_and_holds_up_its_instant(world: World, history: list[str]) -> None:
    unknown = f"p/{file_id(9)}_0-0-0_{BETWEEN}.parquet"
    world.store.write(unknown, b'{"a1": "unknown"}')
    before = live_rows(world.store)
    done = archive(world, 1)
    assert done.strays == ()
    assert done.plan.held_by == f"{unknown}, which no instant explains: see `lakeindex check`"
    assert writes(world) == history
    assert live_rows(world.store) == before
    assert unknown in world.store.snapshot()


def test_a_rollback_of_hudis_is_remembered_when_it_is_archived(world: World) -> None:
    """The first commit of the table, ours, rolled back by Hudi: its batch is not in the table, for ever."""
    world.store.restore({path: data for path, data in world.store.snapshot().items() if FIRST not in path})
    undone = world.upsert(Batch("undone", {"k": "1"}))
    for name in [name for name in world.names() if name.startswith(undone)]:
        world.store.delete(f".hoodie/{name}")
    for one in world.store.list_folder("p").objects:
        if undone in one.path:
            world.store.delete(one.path)
    time = str(int(undone) + 1)
    for state in ("rollback.requested", "rollback.inflight"):
        world.store.write(f".hoodie/{time}.{state}", b"")
    world.store.write(f".hoodie/{time}.rollback", format_rollback_metadata(RollbackMetadata(time, undone, "commit")))
    world.clock.sleep(10)
    for n in range(3):
        world.upsert(Batch(f"later {n}", {"k": str(n)}))
    archive(world, 1)
    archive(world, 1)
    assert not [name for name in world.names() if ".rollback" in name]
    table = Table.open(world.store)
    assert find_batch(world.store, table.load_timeline(), "batch of undone") is None


@pytest.mark.parametrize("at", range(1, 10))
def test_readers_see_the_same_at_every_moment(world: World, history: list[str], at: int) -> None:
    """Also one that lists between two deletions; a kill there is finished by the next run, without a second entry,
    even if that archives newer ones, too."""
    before = live_rows(world.store)
    count = 0

    def hook(call: Call) -> Fault | None:
        nonlocal count
        if call.name != "delete" or not call.path.startswith(".hoodie/2"):
            return None
        count += 1
        if count == at:
            world.store.hook = None
            assert live_rows(world.store) == before
            assert Table.open(world.store).load_timeline().pending == ()
            return Fault.ERROR
        return None

    world.store.hook = hook
    with pytest.raises(LakeIndexError):
        archive(world, 2)
    world.gone.add("archiver")
    newer = [world.upsert(Batch("newer", {"c1": "5"}))] if at % 2 else []
    before = live_rows(world.store)
    assert archive(world, 2, "next").logs == ((LOG.format(2),) if newer else ())
    assert writes(world) == [*history[3:], *newer][-2:]
    assert live_rows(world.store) == before
    assert len(in_log(world)) == 9
    assert {time for time, _, _ in (in_log(world, 2) if newer else ())} == ({history[3]} if newer else set())
    assert len(world.store.list_folder(".hoodie/archived").objects) == 1 + len(newer)


@pytest.mark.parametrize("kept", [1, 2])
def test_the_last_commit_that_a_killed_archiver_leaves_is_not_rolled_back(
    world: World, history: list[str], kept: int
) -> None:
    """Those beside it are in the newest log: the next archiver takes them away, and no reader would see a file."""
    before = world.store.snapshot()
    archive(world, kept)
    world.store.restore({**before, **world.store.snapshot()})
    assert writes(world) == history
    operator = world.host("operator")
    if kept == 1:
        with pytest.raises(TableUnsupportedError, match="last commit on the timeline"):
            rollback_instant(Table.open(world.store), history[-1], CONFIG, host=operator)
        assert writes(world) == history
    else:
        rollback_instant(Table.open(world.store), history[-1], CONFIG, host=operator)
        assert writes(world)[-1] == history[-2]
