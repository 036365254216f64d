"""STATE: what it has taken in is known, whoever dies in between, and whatever is put back; on Spark's tester of its processor."""

import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import IndexNotBuiltError, StorageError
from lakeindex.index.locations import state
from lakeindex.operations.index import opened_index
from lakeindex.operations.table_services import rollback_table
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table, rows_of
from tests.meanwhile import MemoryTable, writes_data
from tests.stored_indexes import runner_of

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]


class World:
    """A table with an index of the kind, and the runner that has its state."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.runner: Any = runner_of("STATE")
        self.table: LakeTable = make_table(folder, hoodie__index__type="STATE")
        self.upsert(FIRST)

    def upsert(self, rows: list[Row], **options: str) -> Any:
        named = {name.replace("__", "."): text for name, text in options.items()}
        return self.table.upsert(batch_of(rows), runner=self.runner, options=named)

    def delete(self, key: str, ts: int = 2) -> str:
        """A commit that takes a row of the first batch away."""
        return str(self.upsert([Row(key, "x", ts, None, deleted=True)]).instant)

    @property
    def state(self) -> Any:
        return list(self.runner._states.values())[-1]

    def keys(self) -> list[object]:
        return sorted(str(row["id"]) for row in rows_of(self.table))


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "t")


def dies(monkeypatch: pytest.MonkeyPatch, state: Any, *, late: bool) -> None:
    """The driver dies in the next micro-batch: before it, or when all was taken in and nobody has written so."""
    real: Callable[[], None] = state.run

    def run() -> None:
        monkeypatch.setattr(state, "run", real)
        if late:
            real()
        raise StorageError("the driver is gone")

    monkeypatch.setattr(state, "run", run)


def test_a_commit_that_was_taken_back_is_doubted_though_a_write_came_behind_that_had_not_seen_it():
    """That one tells the state of itself; what was taken in before is still known to be in it."""
    world, runner = MemoryTable("STATE"), runner_of("STATE")
    world.upsert(FIRST, runner=runner, lakeindex__state__folder="/state")

    def others() -> None:
        gone = world.upsert([Row("a", "x", 2, None, deleted=True)], runner=runner)
        rollback_table(world.table.uri, str(gone.instant))

    done = world.once(writes_data, others)
    world.upsert([Row("c", "y", 2, "2")], runner=runner)
    assert done
    again = world.upsert([Row("a", "x", 3, "3"), Row("b", "x", 3, "3")], runner=runner)
    assert (again.updates, again.inserts) == (2, 0)
    assert sorted(str(row["id"]) for row in rows_of(world.table)) == ["a", "b", "c"]


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
@pytest.mark.parametrize("taken_back", [False, True], ids=["stands", "is taken back"])
def test_the_next_run_needs_no_hand_where_a_driver_died_in_a_micro_batch(
    world: World, monkeypatch: pytest.MonkeyPatch, late: bool, taken_back: bool
):
    """Whether the commit stands or is taken back before anybody writes again."""
    dies(monkeypatch, world.state, late=late)
    gone = world.delete("a")
    if taken_back:
        rollback_table(world.table.uri, gone)
    done = world.upsert([Row("a", "x", 3, "3"), Row("b", "x", 3, "3")])
    assert (done.updates, done.inserts) == ((2, 0) if taken_back else (1, 1))
    assert world.keys() == ["a", "b", "c"]


@pytest.mark.parametrize("late", [False, True], ids=["before", "behind"])
def test_what_was_taken_back_is_doubted_again_where_a_driver_died_meanwhile(
    world: World, monkeypatch: pytest.MonkeyPatch, late: bool
):
    rollback_table(world.table.uri, world.delete("a"))
    dies(monkeypatch, world.state, late=late)
    with pytest.raises(StorageError, match="the driver is gone"):
        world.upsert([Row("b", "x", 3, "3")])
    assert world.upsert([Row("a", "x", 4, "4")]).updates == 1
    assert world.keys() == ["a", "b", "c"]


def test_a_state_that_goes_on_with_another_table_is_none(world: World, tmp_path: Path):
    """A table that was put back from a backup: the state knows nothing of keys that were deleted since."""
    shutil.copytree(world.folder, tmp_path / "backup")
    world.delete("a")
    shutil.rmtree(world.folder)
    shutil.copytree(tmp_path / "backup", world.folder)
    with pytest.raises(IndexNotBuiltError, match="changes that the table does not have") as caught:
        world.upsert([Row("a", "x", 3, "3")])
    assert "lakeindex index build" in str(caught.value.hint)
    world.table.index_build(runner=world.runner)
    assert world.upsert([Row("a", "x", 3, "3")]).updates == 1
    assert world.keys() == ["a", "b", "c"]


def test_a_backup_of_the_moment_of_a_micro_batch_is_told_from_a_death(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    dies(monkeypatch, world.state, late=True)
    world.delete("a")
    shutil.copytree(world.folder, tmp_path / "backup")
    world.upsert([Row("a", "x", 3, "3")])
    world.delete("b", 4)
    shutil.rmtree(world.folder)
    shutil.copytree(tmp_path / "backup", world.folder)
    with pytest.raises(IndexNotBuiltError, match="changes that the table does not have"):
        world.upsert([Row("b", "x", 3, "3")])


def test_a_state_that_was_lost_after_a_compaction_is_said_to_be(world: World):
    """It keeps its name when it has taken deltas in: that another number stands in the log says nothing."""
    world.upsert([Row("a", "x", 2, "2")], hoodie__metadata__compact__max__delta__commits="1")
    world.runner._states.clear()
    with pytest.raises(IndexNotBuiltError, match="holds nothing"):
        world.upsert([Row("a", "x", 3, "3")])
    world.table.index_build(runner=world.runner)
    assert world.upsert([Row("a", "x", 3, "3")]).updates == 1


@pytest.mark.parametrize("read", [1, 2, 3, 4])
def test_keys_are_no_new_ones_where_others_build_the_state_anew_meanwhile(read: int):
    """Its record is gone then, whenever it is read: nothing is said of any key."""
    world, runner = MemoryTable("STATE"), runner_of("STATE")
    world.upsert(FIRST, runner=runner, lakeindex__state__folder="/state")
    reads = itertools.count(1)
    done = world.once(
        lambda call: call.name == "read" and "/state-" in call.path and next(reads) == read,
        lambda: world.table.index_build(runner=runner, options={"lakeindex.state.folder": "/state"}),
    )
    summary = world.upsert([Row("a", "x", 2, "2"), Row("b", "x", 2, "2")], runner=runner)
    assert done
    assert (summary.updates, summary.inserts) == (2, 0)
    assert sorted(str(row["id"]) for row in rows_of(world.table)) == ["a", "b", "c"]


def test_a_state_that_has_grown_is_worn_by_what_it_holds_then(world: World, monkeypatch: pytest.MonkeyPatch):
    """Else it is written anew, whole, by every few rows."""
    monkeypatch.setattr(state, "_WORN", 0)
    monkeypatch.setattr(state, "_ROWS_A_BUCKET", 1)
    monkeypatch.setattr(state, "_FEWEST_BUCKETS", 2)
    seen = []
    for count in (20, 5):
        rows = [Row(f"{count}-{number}", "x", 1, "1") for number in range(count)]
        world.upsert(rows, hoodie__metadata__compact__max__delta__commits="1")
        (path,) = (world.folder / ".hoodie/.lakeindex/index/state").glob("state-*.json")
        record = json.loads(path.read_text())
        seen.append((record["generation"], record["rows"], record["fed"], record["buckets"]))
    assert [one[1:] for one in seen] == [(23, 23, 23), (23, 28, 23)]
    assert seen[0][0] == seen[1][0]
    assert world.upsert([Row(key, "x", 2, "2") for key in ("a", "20-3", "5-4")]).updates == 3


def test_a_build_under_way_is_not_removed_with_what_was_built_before():
    world, runner = MemoryTable("STATE"), runner_of("STATE")
    options = {"lakeindex.state.folder": "/state"}
    world.upsert(FIRST, runner=runner, lakeindex__state__folder="/state")
    table = Table.open(world.store)
    snapshot, runs = table.snapshot(), f"memory://{world.name}-runs"
    spec = table.index(snapshot.timeline)
    assert spec is not None

    def others() -> None:
        """They have compacted before, and stood still."""
        with opened_index(table, snapshot, spec, runner, runs, options) as opened:
            built = opened.session.built_state(snapshot)
            assert built.built is not None
            opened.session._open(built).retire(built.built.generation)

    done = world.once(lambda call: call.name == "create" and "/built-" in call.path, others)
    world.table.index_build(runner=runner, options=options)
    assert done
    assert world.upsert([Row("a", "x", 2, "2")], runner=runner).updates == 1
    (left,) = [path for path in world.store.snapshot() if "/state-" in path]
    assert "/state-00000002-" in left
