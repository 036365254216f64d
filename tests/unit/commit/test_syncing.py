"""What must be on disk before what: a power loss may take whatever was not synced."""

from collections.abc import Callable

from lakeindex.commit.services.archive import archive_table
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
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
