"""What must be on disk before what: a power loss may take whatever was not synced."""

from collections.abc import Callable

from msgspec.structs import replace

from lakeindex.commit.import_mark import ImportMark, PlannedCommit, load_mark, put_complete, put_mark
from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from lakeindex.timeline.records import OWN_FOLDER
from lakeindex.timeline.verdicts import verdict_path
from tests.model.world import CONFIG
from tests.unit.commit.protocol_support import BATCH, FIRST, Batch, World


def synced_before(world: World, name: str, is_it: Callable[[str], bool], action: Callable[[], object]) -> set[str]:
    """What was synced when a call came for the first time; all paths that were there, and were not, are left out."""
    seen: list[set[str]] = []

    def hook(call: Call) -> Fault | None:
        if not seen and call.name == name and is_it(call.path):
            there = set(world.store.snapshot())
            seen.append(world.store.synced & there)
        return None

    world.store.hook = hook
    action()
    world.store.hook = None
    return seen[0]


def paths_of(world: World, instant: str, *parts: str) -> set[str]:
    """Paths that are there now, of an instant, with one of the parts in them."""
    return {path for path in world.store.snapshot() if instant in path and any(part in path for part in parts)}


def test_data_files_are_synced_before_the_verdict(world: World) -> None:
    """And the metadata of a partition that is new; files of an older one were committed with it."""
    world.store.restore(
        {path: data for path, data in world.store.snapshot().items() if FIRST not in path and not path.startswith("p/")}
    )
    synced = synced_before(world, "create", lambda path: "/verdicts/" in path, lambda: world.upsert(BATCH))
    instant = Table.open(world.store).load_timeline().completed_writes[-1].time
    assert paths_of(world, instant, ".parquet", ".requested", ".inflight") <= synced
    assert "p/.hoodie_partition_metadata" in synced


def test_the_verdict_is_synced_before_the_commit(world: World) -> None:
    synced = synced_before(world, "create", lambda path: path.endswith(".commit"), lambda: world.upsert(BATCH))
    assert [path for path in synced if "/verdicts/" in path]


def test_the_commit_is_synced_before_it_is_told_and_the_ledger_when_it_was(world: World) -> None:
    synced = synced_before(world, "create", lambda path: "/ledger/" in path, lambda: world.upsert(BATCH))
    instant = Table.open(world.store).load_timeline().completed_writes[-1].time
    assert f".hoodie/{instant}.commit" in synced
    assert paths_of(world, instant, "/ledger/")
    assert paths_of(world, instant, "/ledger/") <= world.store.synced


def test_the_archive_is_synced_before_anything_leaves_the_timeline(world: World) -> None:
    for number in range(3):
        world.upsert(Batch(f"run {number}", {"a1": str(number)}))

    def archive() -> None:
        archive_table(Table.open(world.store), 1, CONFIG, host=world.host("archiver"))

    def is_instant(path: str) -> bool:
        return path.startswith(".hoodie/2")

    synced = synced_before(world, "delete", is_instant, archive)
    assert [path for path in synced if path.startswith(".hoodie/archived/")]


def test_what_is_deleted_stays_deleted_before_what_follows_from_it(world: World) -> None:
    """Files that a clean deleted, before it says that they are gone; a commit that is rolled back, before its files."""
    for number in range(3):
        world.upsert(Batch(f"run {number}", {"a1": str(number)}))
    unsure: set[str] = set()
    told: dict[str, set[str]] = {}

    def hook(call: Call) -> Fault | None:
        folder, _, name = call.path.rpartition("/")
        if call.name == "delete" and name.endswith(".parquet"):
            told.setdefault("a file goes", set(unsure))
            unsure.add(folder)
        elif call.name == "delete" and name.endswith(".commit"):
            unsure.add(folder)
        elif call.name == "sync_folders":
            unsure.discard(call.path)
        elif call.name in ("create", "write") and name.endswith(".clean"):
            told["a clean is completed"] = set(unsure)
        return None

    world.store.hook = hook
    clean_table(Table.open(world.store), 1, CONFIG, host=world.host("cleaner"))
    assert told == {"a file goes": set(), "a clean is completed": set()}
    world.store.hook = None
    newest = world.upsert(Batch("late", {"b1": "1"}))
    told.clear()
    world.store.hook = hook
    rollback_instant(Table.open(world.store), newest, CONFIG, host=world.host("other"))
    world.store.hook = None
    assert told == {"a file goes": set()}


def test_the_verdict_on_a_commit_is_overruled_for_good_before_the_commit_goes(world: World) -> None:
    """Else a power loss would bring back that it is committed, and recovery the commit, without its files."""
    time = world.upsert(BATCH)

    def roll_back() -> None:
        rollback_instant(Table.open(world.store), time, CONFIG, host=world.host("other"))

    synced = synced_before(world, "delete", lambda path: path.endswith(".commit"), roll_back)
    assert verdict_path(time) in synced


def test_what_an_import_says_is_on_disk_before_it_goes_on(world: World) -> None:
    """What it is of, before its first commit; that it is complete, before anybody is told."""
    mark = ImportMark("/lake/old", None, 1, 1, (PlannedCommit("batch", "bulk_insert", {"a.parquet": "1"}),))
    put_mark(world.store, mark)
    assert {path for path in world.store.snapshot() if "import" in path} <= world.store.synced
    put_complete(world.store)
    assert {path for path in world.store.snapshot() if "import" in path} <= world.store.synced
    assert load_mark(world.store) == replace(mark, is_complete=True)
    complete, begun = (f"{OWN_FOLDER}/import{what}.json" for what in ("-complete", ""))
    for torn, said in ((complete, mark), (begun, None)):
        world.store.write(torn, b"{")
        assert load_mark(world.store) == said
