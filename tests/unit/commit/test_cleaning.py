"""Cleaning: which files go, what keeps them, and what a kill leaves."""

from collections.abc import Mapping

import pytest

from lakeindex.commit.services.clean import Cleaned, clean_table, plan_clean
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import FencedError, PendingInstantError, TableUnsupportedError
from lakeindex.format.commit_metadata import CommitMetadata, format_commit_metadata
from lakeindex.lock.lock import acquire
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    ClusteringGroup,
    ClusteringSlice,
    parse_clean_metadata,
    parse_clean_plan,
)
from tests.model.world import CONFIG, check_metadata, file_id, live_rows
from tests.unit.commit.protocol_support import FIRST, Batch, World
from tests.unit.commit.savepoints import savepoint_bytes

A, B = file_id(0), file_id(1)


def clean(world: World, keep: int, name: str = "cleaner", **options: bool) -> Cleaned:
    return clean_table(Table.open(world.store), keep, CONFIG, host=world.host(name), **options)


def slices(store: MemoryStorage, group: str) -> list[str]:
    """Instants of the files of a group."""
    names = [one.path for one in store.list_folder("p").objects if f"/{group}_" in one.path]
    return sorted(name.rpartition("_")[2].removesuffix(".parquet") for name in names)


@pytest.fixture
def history(world: World) -> list[str]:
    """Five commits: the first, and four upserts, of which the third is into the second group."""
    rows: list[Mapping[str, str]] = [{"a1": "1"}, {"a1": "2"}, {"b1": "3"}, {"a1": "4"}]
    return [FIRST, *(world.upsert(Batch(f"run {n}", one)) for n, one in enumerate(rows))]


def test_what_the_last_commits_read_stays(world: World, history: list[str]) -> None:
    done = clean(world, 2)
    assert done.instant is not None
    assert done.plan.earliest is not None
    assert done.plan.earliest.time == history[3]
    # group A had 0, 1, 2, 4: at commit 3 it was read at 2; group B is rewritten in 3 itself, which found the first
    assert slices(world.store, A) == [history[2], history[4]]
    assert slices(world.store, B) == [FIRST, history[3]]
    assert live_rows(world.store) == {"a1": ["4"], "a2": ["0"], "b1": ["3"]}


@pytest.mark.parametrize("keep", [5, 6, 100])
def test_few_commits_lose_nothing(world: World, history: list[str], keep: int) -> None:
    before = world.store.snapshot()
    assert clean(world, keep) == Cleaned(None, plan_clean(Table.open(world.store), keep))
    left = {path: data for path, data in world.store.snapshot().items() if "/lock/" not in path}
    assert left == {path: data for path, data in before.items() if "/lock/" not in path}


def test_a_second_clean_does_nothing(world: World, history: list[str]) -> None:
    clean(world, 1)
    names = world.names()
    assert clean(world, 1).instant is None
    assert world.names() == names


def test_the_three_files_that_hudi_expects(world: World, history: list[str]) -> None:
    done = clean(world, 2)
    path = f".hoodie/{done.instant}.clean"
    plan = parse_clean_plan(world.store.read(f"{path}.requested"), path)
    assert plan.policy == "KEEP_LATEST_COMMITS"
    assert plan.earliest == (history[3], "commit")
    assert plan.last_completed == history[4]
    assert plan.files == {"p": tuple(f"memory://unnamed/{file.path}" for file in done.plan.files)}
    assert world.store.read(f"{path}.inflight") == world.store.read(f"{path}.requested")
    metadata = parse_clean_metadata(world.store.read(path), path)
    assert (metadata.earliest_retained, metadata.last_completed) == (history[3], history[4])
    assert metadata.deleted == {"p": tuple(file.name for file in done.plan.files)}


def test_a_file_counts_from_when_it_was_replaced(world: World) -> None:
    """An old file that was live until just now is not old."""
    world.upsert(Batch("a", {"a1": "1"}))
    world.upsert(Batch("b", {"a1": "2"}))
    newest = world.upsert(Batch("c", {"b1": "3"}))
    clean(world, 1)
    assert slices(world.store, B) == [FIRST, newest]


def test_an_inflight_file_without_its_plan_goes_only_if_it_is_ours(world: World, history: list[str]) -> None:
    path = ".hoodie/20350101000000000.clean.inflight"
    for content, stays in ((b"another writer's", True), (b"ours " + OWN_SYNC_MARKER, False)):
        world.store.write(path, content)
        assert clean(world, 100).finished == ()
        assert (path in world.store.snapshot()) is stays


def test_a_savepoint_keeps_its_files(world: World, history: list[str]) -> None:
    name = next(one.path for one in world.store.list_folder("p").objects if FIRST in one.path and A in one.path)
    (live,) = (one for one in Table.open(world.store).snapshot().base_files("p") if one.file_id == B)
    saved = savepoint_bytes({"p": (name.rpartition("/")[2], live.name)})
    world.store.write(f".hoodie/{FIRST}.savepoint.inflight", b"")
    world.store.write(f".hoodie/{FIRST}.savepoint", saved)
    done = clean(world, 1)
    assert done.plan.kept_for_savepoints == 1, "the live file is not kept for it"
    plan = parse_clean_plan(world.store.read(f".hoodie/{done.instant}.clean.requested"), "plan")
    said = parse_clean_metadata(world.store.read(f".hoodie/{done.instant}.clean"), "metadata")
    assert plan.savepoints == said.savepoints == (FIRST,), "Hudi looks again once it is kept no more"
    assert slices(world.store, A) == [FIRST, history[2], history[4]]
    world.store.delete(f".hoodie/{FIRST}.savepoint")
    world.store.delete(f".hoodie/{FIRST}.savepoint.inflight")
    clean(world, 1)
    assert slices(world.store, A) == [history[2], history[4]]


def test_a_pending_plan_keeps_what_was_there_when_it_was_made(world: World, history: list[str]) -> None:
    """A scheduled clustering may wait for long; the files it is going to read stay."""
    from lakeindex.timeline.avro_instants import RequestedReplace, format_requested_replace

    time = str(int(history[1]) + 1)
    plan = format_requested_replace(RequestedReplace("CLUSTER", (ClusteringGroup((ClusteringSlice("p", A),)),)))
    world.store.write(f".hoodie/{time}.replacecommit.requested", plan)
    assert clean(world, 1).plan.earliest.time == history[1]
    assert slices(world.store, A) == [FIRST, *history[1:3], history[4]]


def test_replaced_groups_go(world: World, history: list[str]) -> None:
    replacing = str(int(history[4]) + 5)
    metadata = CommitMetadata({}, "CLUSTER", replaced_file_ids={"p": (A,)})
    for state in ("replacecommit.requested", "replacecommit.inflight"):
        world.store.write(f".hoodie/{replacing}.{state}", b"")
    world.store.write(f".hoodie/{replacing}.replacecommit", format_commit_metadata(metadata))
    clean(world, 1)
    assert slices(world.store, A) == [history[4]], "the commit before can still be read"
    world.upsert(Batch("after", {"b1": "9"}))
    clean(world, 1)
    assert slices(world.store, A) == []


def test_another_writer_in_flight_is_waited_for(world: World, history: list[str]) -> None:
    world.put_pending(str(int(history[4]) + 7))
    with pytest.raises(PendingInstantError):
        clean(world, 1)


def killed_while_deleting(world: World, keep: int) -> None:
    deleted: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name == "delete" and call.path.endswith(".parquet"):
            deleted.append(call.path)
            return Fault.ERROR if len(deleted) > 1 else None
        return None

    world.store.hook = hook
    with pytest.raises(Exception, match=r"parquet"):
        clean(world, keep)
    world.store.hook = None
    world.gone.add("cleaner")


def test_what_a_kill_left_is_finished_first(world: World, history: list[str]) -> None:
    killed_while_deleting(world, 1)
    pending = Table.open(world.store).load_timeline().pending
    assert [one.action for one in pending] == ["clean"]
    done = clean(world, 1, "next")
    assert done.finished == (pending[0].time,)
    assert done.instant is None
    assert Table.open(world.store).load_timeline().pending == ()
    assert slices(world.store, A) == [history[2], history[4]]


def test_the_metadata_table_is_told_of_what_the_first_try_deleted_too(world: World, history: list[str]) -> None:
    build_metadata_table(Table.open(world.store), CONFIG, ("files",), host=world.host("builder"))
    killed_while_deleting(world, 1)
    assert clean(world, 1, "next").finished
    check_metadata(world.store)


def test_an_instant_that_another_writer_has_taken_is_left_to_it(world: World, history: list[str]) -> None:
    """It asks for a commit at the same moment: two actions of one time are one too many."""
    taken: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name == "create" and call.path.endswith(".clean.requested") and not taken:
            taken.append(call.path.rpartition("/")[2].partition(".")[0])
            world.store.write(f".hoodie/{taken[0]}.commit.requested", b"")
        return None

    world.store.hook = hook
    done = clean(world, 1)
    world.store.hook = None
    assert done.instant is not None
    assert done.instant > taken[0]
    assert [name for name in world.names() if name.startswith(taken[0])] == [f"{taken[0]}.commit.requested"]


def test_a_left_plan_spares_what_was_savepointed_since(world: World, history: list[str]) -> None:
    """The plan was right when it was made; the savepoint came before it was carried out."""
    killed_while_deleting(world, 1)
    before = slices(world.store, A)
    names = [one.path.rpartition("/")[2] for one in world.store.list_folder("p").objects]
    left = next(time for time in before if time not in (history[2], history[4]))
    saved = tuple(name for name in names if A in name and name.endswith(f"_{left}.parquet"))
    assert len(saved) == 1
    world.store.write(f".hoodie/{left}.savepoint.inflight", b"")
    world.store.write(f".hoodie/{left}.savepoint", savepoint_bytes({"p": saved}))
    clean(world, 1, "next")
    assert left in slices(world.store, A)
    assert Table.open(world.store).load_timeline().pending == ()


def test_a_left_plan_spares_what_is_live(world: World, history: list[str]) -> None:
    """Somebody else took commits back since: a file of the plan may be the newest again."""
    killed_while_deleting(world, 1)
    names = world.names()
    plan = next(name for name in names if name.endswith("clean.requested"))
    live = Table.open(world.store).snapshot().base_files("p")
    from lakeindex.timeline.avro_instants import CleanPlan, format_clean_plan

    urls = tuple(f"memory://unnamed/{file.path}" for file in live)
    world.store.write(f".hoodie/{plan}", format_clean_plan(CleanPlan("KEEP_LATEST_COMMITS", {"p": urls})))
    before = live_rows(world.store)
    clean(world, 1, "next")
    assert live_rows(world.store) == before


def test_hudis_fresh_clean_is_left_to_it(world: World, history: list[str]) -> None:
    time = str(int(history[4]) + 9)
    theirs = world.store
    clean(world, 2)
    ours = next(name for name in world.names() if name.endswith("clean.requested"))
    data = theirs.read(f".hoodie/{ours}").replace(b"lakeindex-sync-1", b"another--writer1")
    theirs.write(f".hoodie/{time}.clean.requested", data)
    assert clean(world, 2).finished == ()
    world.clock.sleep(CONFIG.pending_foreign_max_age_seconds + 1)
    assert clean(world, 2).finished == (time,)


def test_a_commit_whose_predecessors_were_cleaned_cannot_be_taken_back(world: World, history: list[str]) -> None:
    clean(world, 1)
    table = Table.open(world.store)
    rollback_instant(table, history[4], CONFIG, host=world.host("operator"))
    with pytest.raises(TableUnsupportedError, match=r"cleaned away"):
        rollback_instant(table, history[3], CONFIG, host=world.host("operator"))
    assert live_rows(world.store)["b1"] == ["3"]


def test_a_replacement_whose_files_were_cleaned_cannot_be_taken_back(world: World, history: list[str]) -> None:
    """As soon as one of the file groups that it replaced has no file left."""
    replacing = str(int(history[4]) + 5)
    metadata = CommitMetadata({}, "INSERT_OVERWRITE", replaced_file_ids={"p": (A, B)})
    for state in ("replacecommit.requested", "replacecommit.inflight"):
        world.store.write(f".hoodie/{replacing}.{state}", b"")
    world.store.write(f".hoodie/{replacing}.replacecommit", format_commit_metadata(metadata))
    whole = world.store.snapshot()
    assert rollback_instant(Table.open(world.store), replacing, CONFIG, host=world.host("operator")).finished
    for group in (A, B):
        world.store.restore({path: data for path, data in whole.items() if not path.startswith(f"p/{group}_")})
        with pytest.raises(TableUnsupportedError, match=f"p/{group} was before it was cleaned away"):
            rollback_instant(Table.open(world.store), replacing, CONFIG, host=world.host("operator"))
        assert [one.time for one in Table.open(world.store).load_timeline().completed_writes][-1] == replacing


def test_a_rollback_finishes_a_killed_clean_first(world: World, history: list[str]) -> None:
    """Else the clean would go on and delete what the rollback brings back."""
    killed_while_deleting(world, 1)
    rollback_instant(Table.open(world.store), history[4], CONFIG, host=world.host("operator"))
    assert [one.action for one in Table.open(world.store).load_timeline().pending] == []
    assert slices(world.store, A) == [history[2]]
    assert live_rows(world.store)["a1"] == ["2"]


def lose_the_lock(world: World, who: str, at: str) -> None:
    """Somebody passes for dead at the first such call of a requested clean, and another has the lock from then on."""

    def hook(call: Call) -> Fault | None:
        if call.name == at and call.path.endswith("clean.requested"):
            world.store.hook = None
            world.gone.add(who)
            acquire(world.store, world.host("other"), lease_ms=2000, wait_ms=0, purpose="x")
        return None

    world.store.hook = hook


def test_a_cleaner_that_lost_its_lock_deletes_nothing(world: World, history: list[str]) -> None:
    before = slices(world.store, A)

    lose_the_lock(world, "cleaner", at="create")
    with pytest.raises(FencedError):
        clean(world, 1)
    assert slices(world.store, A) == before
    assert not [name for name in world.names() if ".clean" in name]


def test_who_lost_the_lock_does_not_finish_what_another_cleaner_left(world: World, history: list[str]) -> None:
    """Meanwhile a savepoint may be made of what the plan names."""
    killed_while_deleting(world, 1)
    before = slices(world.store, A)

    lose_the_lock(world, "next", at="read")
    with pytest.raises(FencedError):
        clean(world, 1, "next")
    assert slices(world.store, A) == before
    assert [one.action for one in Table.open(world.store).load_timeline().pending] == ["clean"]
