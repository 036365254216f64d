"""Files of a stored index are folded or taken back by others while a run, a look-up or a command reads them."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable
from functools import partial

import pytest

from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import ConflictError, UsageError
from lakeindex.options.parse import parse_options
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from tests.builders import Oracle, Row, content_of, counts_of
from tests.meanwhile import MemoryTable
from tests.scheduling import some_of

FIRST = [Row(f"k{n}", "x", 1, "1") for n in range(6)]
SECOND = [Row("k1", "x", 2, "2"), Row("k9", "x", 2, "2")]
OURS = [Row("k1", "x", 3, "ours"), Row("k9", "x", 3, "ours"), Row("n", "x", 3, "ours")]
FOLD = {"hoodie__metadata__compact__max__delta__commits": "1"}
CALLS = 60


def reads_index(call: Call) -> bool:
    """A file of the index is about to be listed or read."""
    return call.name not in {"create", "write", "sync", "delete"} and "/.lakeindex/index/" in call.path


def at_read(world: MemoryTable, number: int, action: Callable[[], object]) -> list[Call]:
    """Do something before the n-th call that reads the index."""
    reads = itertools.count(1)
    return world.once(lambda call: reads_index(call) and next(reads) == number, action)


def taking_back(world: MemoryTable, instant: str | None) -> Callable[[], None]:
    """Somebody rolls an instant back, and settles what is left of it, unless the run is in the way by then."""
    assert instant is not None

    def act() -> None:
        with contextlib.suppress(ConflictError, UsageError):
            rollback_instant(Table.open(world.store), instant, parse_options({"lakeindex.lock.wait": "0"}))
            world.upsert([Row("z", "x", 2, "z")])  # finds its delta in the log, and forgets it

    return act


def folding(world: MemoryTable) -> Callable[[], None]:
    """Others write, and fold twice, so that nothing that was listed before is kept."""

    def act() -> None:
        for number in range(3):
            with contextlib.suppress(ConflictError):
                world.upsert([Row("z", "x", 2 + number, "z")], **FOLD)

    return act


@pytest.mark.parametrize(
    "index", some_of(["RECORD_LEVEL_INDEX", "RECORD_INDEX"], {"RECORD_LEVEL_INDEX"}.__contains__, pytest.mark.slow)
)
@pytest.mark.parametrize("how", ["taken back", "folded"])
@pytest.mark.few(1)
def test_a_run_goes_on_whenever_others_change_the_index(index: str, how: str):
    world = MemoryTable(index)
    world.upsert(FIRST)
    instant = world.upsert(SECOND).instant
    before = world.store.snapshot()
    # the two types share what reads and folds: of one every second call, of the other every third
    for number in range(1, CALLS, 2 if index == "RECORD_INDEX" else 3):
        world.store.restore(before)
        oracle = Oracle(is_global=index == "RECORD_INDEX")
        act = taking_back(world, instant) if how == "taken back" else folding(world)
        done = at_read(world, number, act)
        summary = world.upsert(OURS)
        world.store.hook = None
        if not done:
            break
        there = {one.instant for one in world.table.history()}
        oracle.apply(FIRST)
        if instant in there:
            oracle.apply(SECOND)
        counts = oracle.apply(OURS)
        found = {row for row in content_of(world.table) if row[1] != "z"}
        assert found == oracle.content(), number
        assert counts_of(summary) == counts, number
        if number % 10 == 1:
            assert world.table.index_verify().ok, number
            assert world.table.check().ok, number
    assert number > 8


COMMANDS: dict[str, Callable[[MemoryTable], bool]] = {
    "get": lambda world: world.table.get(["k1", "k9", "none"]).missing == ("none",),
    "verify": lambda world: world.table.index_verify().ok,
    "build": lambda world: world.table.index_build().rows >= len(FIRST),
    "status": lambda world: world.table.index_status().is_built,
    "compact": lambda world: bool(world.table.maintain(["compact"]).steps),
}
WRITING = ("build", "compact")


@pytest.mark.parametrize("command", some_of(COMMANDS, lambda command: command != "build", pytest.mark.slow))
@pytest.mark.few(2)
def test_a_command_begins_anew_when_others_fold_the_index(command: str):
    world = MemoryTable("RECORD_INDEX")
    world.upsert(FIRST)
    world.upsert(SECOND)
    before = world.store.snapshot()
    fold: Callable[[], object] = folding(world)
    if command not in WRITING:  # what others do does not depend on who only reads: it is done once, and put there
        fold()
        fold = partial(world.store.restore, world.store.snapshot())
    for number in range(1, CALLS, 3 if command == "compact" else 1):
        world.store.restore(before)
        done = at_read(world, number, fold)
        assert COMMANDS[command](world), number
        world.store.hook = None
        if not done:
            break
        if number % 3 == 1:
            assert world.table.index_verify().ok, number
    assert number > 3
