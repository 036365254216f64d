"""A record index of the metadata table that is right is believed, whatever was done to its table, and who is at work."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import LakeIndexError, LockTimeoutError, StorageError
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, Fault
from lakeindex.table.handle import Table
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.meanwhile import MemoryTable
from tests.scheduling import some_of
from tests.stored_indexes import inserted

FORMS = [("6", "RECORD_INDEX"), ("8", "RECORD_LEVEL_INDEX"), ("9", "RECORD_INDEX")]
FIRST = [Row(f"k{number:02d}", "x" if number % 2 else "y", 1, "1") for number in range(20)]


def indexed(table: LakeTable) -> None:
    table.upsert(batch_of(FIRST))
    table.metadata_build(["files", "record_index"])


@pytest.mark.parametrize(("version", "kind"), some_of(FORMS, lambda form: form[0] == "9", pytest.mark.slow))
def test_after_whatever_was_done(version: str, kind: str, tmp_path: Path) -> None:
    """Inserts, deletes of all there is of a partition, roll-backs, replaced partitions, compactions, cleans."""
    chance = random.Random(int(version))
    table = make_table(tmp_path / "t", hoodie__index__type=kind, hoodie__write__table__version=version)
    indexed(table)
    for turn in range(2, 12):  # tests/contract/test_lives.py goes on
        day = {key: chance.choice("xyz") for key in (f"k{chance.randrange(40):02d}" for _ in range(8))}
        batch = batch_of([Row(key, at, turn, "v") for key, at in day.items()])
        act = turn % 6
        if act == 1:
            table.delete(where=f"day = '{chance.choice('xyz')}'")
        elif act == 2:
            table.insert_overwrite(batch)
        elif act == 3:
            instant = table.upsert(batch).instant or ""
            if chance.random() < 0.5:
                table.maintain(["metadata"])
            table.rollback(instant)
        elif act == 4:
            table.clean(1)
            table.maintain(["metadata", "archive"])
        table.upsert(batch, options={"hoodie.parquet.small.file.limit": chance.choice(["0", "1000000"])})
        assert table.metadata_verify().ok, turn


@pytest.mark.parametrize("within", [True, False])
def test_rows_of_one_key_are_no_holes(within: bool, tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="RECORD_LEVEL_INDEX", hoodie__write__table__version="9")
    indexed(table)
    (file,) = Table.open(open_storage(table.uri)).snapshot().base_files("x")
    inserted(table, [Row("k01", "x", 0, "copy")], into=file.file_id if within else None)
    found = table.metadata_verify()
    assert (found.record_index["copy"], sum(found.record_index.values())) == (1, 1)
    assert "repair keys" in found.examples[0].mend
    assert table.upsert(batch_of([Row("k03", "x", 2, "2"), Row("new", "x", 2, "2")])).updates == 1
    assert table.delete(batch_of([Row("k01", "x", 3, None)]).select(["id", "day"])).deletes == 1


def of_metadata(call: Call) -> bool:
    return call.path.startswith((".hoodie/metadata", ".hoodie/hoodie.properties"))


@pytest.mark.parametrize("stops", some_of([False, True], bool, pytest.mark.slow))
@pytest.mark.few(0)
def test_a_commit_that_is_made_while_it_is_compared(stops: bool) -> None:
    """Before each look at the metadata table another writer commits; or stops when his delta commit is there, and the
    commit is not.
    """
    world = MemoryTable("RECORD_INDEX", hoodie__write__table__version="9")
    indexed(world.table)
    oracle = Oracle(is_global=True, moves=False)
    oracle.apply(FIRST)
    happened = 0
    for number in range(stops, 60, 3):  # the two look before other calls
        theirs, ours = (
            [Row(f"t{number:02d}", "x", 2, "t")],
            [Row(f"o{number:02d}", "x", 2, "o"), Row("k01", "x", 3, "o")],
        )
        looks: list[Call] = []
        committed: list[Row] = []

        def is_turn(call: Call, turn: int = number, looks: list[Call] = looks) -> bool:
            if of_metadata(call):
                looks.append(call)
            return len(looks) > turn

        def other(theirs: list[Row] = theirs, committed: list[Row] = committed) -> None:
            held, world.store.hook = world.store.hook, stopping if stops else None
            try:
                world.upsert(theirs)
                committed += theirs
            except LockTimeoutError:  # we hold it: his turn is over
                pass
            except StorageError:
                committed += theirs
            world.store.hook = held

        done = world.once(is_turn, other)
        world.upsert(ours)
        world.store.hook = None
        if not done:
            break
        happened += bool(committed)
        oracle.apply(committed)
        oracle.apply(ours)
        assert content_of(world.table) == oracle.content(), (number, done)
        assert world.table.metadata_verify().ok, (number, done)
    assert happened > 5


def stopping(call: Call) -> Fault | None:
    """The storage fails where the commit is to be put, which is decided by then."""
    is_commit = call.path.startswith(".hoodie/timeline/") and call.path.endswith(".commit")
    return Fault.ERROR if is_commit and call.name in ("create", "write") else None


@pytest.mark.parametrize("version", some_of(["6", "9"], {"6"}.__contains__, pytest.mark.slow))
@pytest.mark.few(0)
def test_it_is_made_anew_beside_readers_and_across_crashes(version: str) -> None:
    """Before each call of the storage a reader finds every key; a build that stops there is made good by the next."""
    world = MemoryTable("RECORD_INDEX", hoodie__write__table__version=version)
    indexed(world.table)
    keys, calls = [one.id for one in FIRST], list[Call]()

    def read() -> None:
        held, world.store.hook = world.store.hook, None
        assert len(world.table.get(keys).rows) == len(keys)
        world.store.hook = held

    def noted(call: Call) -> None:
        calls.append(call)
        if call.name not in ("list", "read"):
            read()

    world.store.hook = noted
    world.table.metadata_build(["record_index"])
    for stop in range(0, len(calls), 6):
        left = iter(range(stop))
        world.store.hook = partial(_stopped, left)
        with suppress(LakeIndexError):
            world.table.metadata_build(["record_index"])
        world.store.hook = None
        read()
        world.upsert([Row("k01", "x", 2 + stop, "v")])
        assert world.table.metadata_verify().ok, stop
    assert len(calls) > 40


def _stopped(left: Iterator[int], _: Call) -> Fault | None:
    return Fault.ERROR if next(left, None) is None else None
