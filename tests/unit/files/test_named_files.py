"""The files of a table as its metadata table names them: the same as a listing of the folders gives, or an error."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.metadata_service import build_metadata_table, compact_metadata_table, drop_metadata_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import LakeIndexError, MetadataTableError, TableCorruptError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.metadata.metadata_table import METADATA_ROOT
from lakeindex.metadata_upkeep.switch import METADATA_FOLDERS
from lakeindex.model import InstantState
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from tests.model.world import CONFIG, check_named, check_rows, timeline_path
from tests.unit.commit.protocol_support import Batch, World
from tests.vectors_support import table_names, unpack_table

LISTING_A_PARTITION = "p"


@pytest.fixture
def kept() -> World:
    world = World()
    build_metadata_table(Table.open(world.store), CONFIG, ("files",), host=world.host("builder"))
    return world


def live(snapshot: Snapshot) -> list[str]:
    return [file.name for file in snapshot.base_files_all()]


def lists(world: World, work: Callable[[], object]) -> int:
    """How often some work lists the folder of the world's partition."""
    found: list[str] = []

    def hook(call: Call) -> Fault | None:
        if call.name in ("list", "list_folder") and call.path in ("", LISTING_A_PARTITION):
            found.append(call.path)
        return None

    world.store.hook = hook
    work()
    world.store.hook = None
    return len(found)


class Story:
    """Random actions on a table with a metadata table; beside them a dictionary of its rows."""

    def __init__(self, chance: random.Random) -> None:
        self.world = World()
        self.chance = chance
        self.rows = {key: value for group in self.world.groups for key, value in group.items()}
        self.before: dict[str, dict[str, str]] = {}
        self.number = 0
        self.newest: list[str] = []
        build_metadata_table(Table.open(self.world.store), CONFIG, ("files",), host=self.world.host("builder"))

    def act(self) -> None:
        """One action, which may be cut short at any call: then another writer finds what is left of it."""
        self.number += 1
        actions = [self.upsert, self.upsert, self.upsert, self.roll_back, self.clean, self.archive, self.compact]
        chosen = self.chance.choice(actions)
        if self.chance.random() < 0.3:
            self.cut_short(chosen)
        else:
            chosen()

    def cut_short(self, action: Callable[[], None]) -> None:
        left = self.chance.randrange(80)
        rows, before, newest = dict(self.rows), dict(self.before), list(self.newest)

        def hook(_: Call) -> Fault | None:
            nonlocal left
            left -= 1
            if left < 0:
                raise RuntimeError("killed")
            return None

        self.world.store.hook = hook
        try:
            action()
        except RuntimeError:
            self.rows, self.before, self.newest = rows, before, newest
        self.world.store.hook = None
        self.world.gone |= {self.name}
        self.world.clock.sleep(10_000)

    @property
    def name(self) -> str:
        return f"w{self.number}"

    def table(self) -> Table:
        return Table.open(self.world.store)

    def upsert(self) -> None:
        keys = self.chance.sample(["a1", "a2", "b1", "x", "y", "z"], self.chance.randint(1, 3))
        rows = dict.fromkeys(keys, f"{self.number}")
        before = dict(self.rows)
        self.rows |= rows  # a run that was killed after its verdict is finished by others: see settle
        time = self.world.upsert(Batch(f"run-{self.number}", rows), self.name)
        self.before[time] = before
        self.newest.append(time)

    def roll_back(self) -> None:
        if not self.newest or self.newest[-1] != self.table().load_timeline().last_completed_write_time:
            return
        try:
            rollback_instant(self.table(), self.newest[-1], CONFIG, host=self.world.host(self.name))
        except LakeIndexError:
            return  # what was before it is cleaned or archived
        self.rows = self.before[self.newest.pop()]

    def clean(self) -> None:
        clean_table(self.table(), self.chance.randint(1, 3), CONFIG, host=self.world.host(self.name))

    def archive(self) -> None:
        archive_table(self.table(), self.chance.randint(1, 3), CONFIG, host=self.world.host(self.name))

    def compact(self) -> None:
        compact_metadata_table(self.table(), CONFIG, host=self.world.host(self.name))


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_after_any_history_the_metadata_table_names_what_the_folders_hold(seed: int) -> None:
    """Also while something is half done."""
    story = Story(random.Random(seed))
    for _ in range(14):
        story.act()
        check_named(story.table())


@settings(max_examples=8, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_history_that_nobody_cuts_short_gives_the_rows_of_a_dictionary(seed: int) -> None:
    story = Story(random.Random(seed))
    for _ in range(12):
        story.number += 1
        story.chance.choice([story.upsert, story.upsert, story.roll_back, story.clean, story.archive, story.compact])()
        check_rows(story.world.store, story.rows)


@pytest.mark.parametrize("name", [name for name in table_names() if not name.startswith("py_")])
def test_tables_of_hudi_are_seen_alike_both_ways(name: str, tmp_path: Path) -> None:
    table = Table.open(open_storage(str(unpack_table(name, tmp_path))))
    named, listed = table.snapshot(), table.listed_snapshot()
    assert live(named) == live(listed) != []
    assert bool(named.partitions_named) is bool(table.properties.metadata_partitions)


def test_nothing_is_listed_where_the_metadata_table_tells(kept: World) -> None:
    table = Table.open(kept.store)
    assert lists(kept, lambda: table.snapshot().base_files_all()) == 0
    assert lists(kept, lambda: table.snapshot().preload(["p"])) == 0
    without = Table.open(kept.store, use_metadata=False)
    assert lists(kept, lambda: without.snapshot().base_files_all()) == 2
    assert without.snapshot().partitions_named == 0


def test_a_file_that_is_not_named_is_not_read_and_what_deletes_still_sees_it(kept: World) -> None:
    """As Hudi's readers do; it stands under the instant of a commit, as if a task of it had run twice."""
    table = Table.open(kept.store)
    file = table.snapshot().base_files("p")[0]
    stray = f"p/{file.file_id}_9-9-9_{file.instant_time}.parquet"
    kept.store.write(stray, kept.store.read(file.path))
    assert live(table.snapshot()) == [one.name for one in table.snapshot().base_files("p")]
    assert stray.rpartition("/")[2] not in live(table.snapshot())
    assert [one.path for one in table.listed_snapshot().files_of("p").doubles] == [stray]


def test_a_commit_that_the_metadata_table_was_not_told_of_is_an_error(kept: World) -> None:
    """A writer that keeps no metadata table up leaves files that it does not name."""
    time = kept.upsert(Batch("run-1", {"a1": "one"}))
    for path in kept.store.snapshot():
        if path.startswith(METADATA_ROOT) and f"{time}" in path.rpartition("/")[2]:
            kept.store.delete(path)
    table = Table.open(kept.store)
    with pytest.raises(MetadataTableError, match=f"does not know of commit {time}") as caught:
        table.snapshot().base_files("p")
    assert "metadata drop" in caught.value.hint
    assert live(Table.open(kept.store, use_metadata=False).snapshot())
    drop_metadata_table(table, (), CONFIG, host=kept.host("dropper"))
    build_metadata_table(Table.open(kept.store), CONFIG, ("files",), host=kept.host("builder"))
    check_named(Table.open(kept.store))


def test_a_pending_commit_is_not_seen_and_not_missed(kept: World) -> None:
    kept.upsert(Batch("run-1", {"a1": "one"}))
    kept.put_pending("20270101000000000", marked="new-0_0-0-0_20270101000000000.parquet")
    named = Table.open(kept.store).snapshot()
    assert live(named) == live(Table.open(kept.store).listed_snapshot())
    assert timeline_path("20270101000000000", InstantState.INFLIGHT) in kept.store.snapshot()


@pytest.mark.parametrize("part", METADATA_FOLDERS)
def test_a_damaged_metadata_table_is_an_error_with_the_way_out(kept: World, part: str) -> None:
    kept.upsert(Batch("run-1", {"a1": "one"}))
    for path in kept.store.snapshot():
        if path.startswith(f"{METADATA_ROOT}/files/"):
            kept.store.write(path, kept.store.read(path)[:-9])
    with pytest.raises(TableCorruptError) as caught:
        Table.open(kept.store).snapshot().partitions()
    assert "metadata drop" in caught.value.hint or "restore the file" in caught.value.hint
    assert part


def cut(world: World, handle: Table, work: Callable[[], object]) -> Iterator[Snapshot]:
    """Snapshots of a handle that is older than some work, which is done at each call of taking one."""
    start = world.store.snapshot()
    for at in range(40):
        world.store.restore(start)
        left = at

        def hook(_: Call) -> Fault | None:
            nonlocal left
            left -= 1
            if left == -1:
                world.store.hook = None
                work()
            return None

        world.store.hook = hook
        found = handle.snapshot()
        found.partitions()
        done = world.store.hook is None
        world.store.hook = None
        if not done:
            return
        yield found


def test_who_reads_while_a_metadata_table_is_dropped_lists(kept: World) -> None:
    """And a commit follows at once, of which nothing tells any more: at every call of the reader."""
    for number in range(3):
        kept.upsert(Batch(f"run-{number}", {"a1": f"{number}"}), f"w{number}")
    table = Table.open(kept.store)
    known = set(live(table.snapshot()))
    count = 0

    def drop() -> None:
        drop_metadata_table(Table.open(kept.store), (), CONFIG, host=kept.host("dropper"))
        kept.upsert(Batch("late", {"b1": "late"}), "late")

    for found in cut(kept, table, drop):
        count += 1
        then = {time: live(found) for time in [found.instant_time]}
        assert len(live(found)) == len(known)
        assert live(found) == live(Table.open(kept.store).snapshot(found.instant_time)), then
    assert count > 6


def test_who_reads_while_it_is_compacted_and_cleaned_sees_the_same(kept: World) -> None:
    for number in range(3):
        kept.upsert(Batch(f"run-{number}", {"a1": f"{number}"}), f"w{number}")
    table = Table.open(kept.store)
    known = live(table.snapshot())
    count = 0

    def compact_thrice() -> None:
        for number in range(3):
            compact_metadata_table(Table.open(kept.store), CONFIG, host=kept.host("keeper"))
            kept.upsert(Batch(f"more-{number}", {"new": f"{number}"}), f"m{number}")

    for found in cut(kept, table, compact_thrice):
        count += 1
        assert live(found) == known or live(found) == live(Table.open(kept.store).listed_snapshot(found.timeline))
    assert count > 6
