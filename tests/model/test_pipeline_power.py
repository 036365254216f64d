"""Whole operations with the power cut at storage calls: create, upsert by every kind of index, rescale, migrate, index build.

The table and its run folders lie on two disks that one power supply feeds. Afterwards the same command is run again, as a user
would; the table is compared with a dictionary, every key is written once more (one that an index lost would be doubled), and
``check`` has nothing to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableExistsError, UsageError
from lakeindex.model import IndexType
from lakeindex.operations.migrate_index import migrate_index
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.parse import parse_options
from lakeindex.storage.memory import MemoryStorage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.model.harness import Operation
from tests.model.power import DiskStorage, Machine, PowerReport, cut_power_everywhere
from tests.model.test_pipeline_faults import FIRST, OPTIONS, SECOND, is_global

pytestmark = pytest.mark.usefixtures("time_leaps")

SEEDS = int(os.environ.get("LAKEINDEX_POWER_SEEDS", "2"))
INDEXES = ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX")
_numbers = count()


def machine() -> Machine:
    """Two disks, of other names each time: what a process has cached goes by a store's name."""
    name = f"power-{next(_numbers)}"
    return Machine(DiskStorage.on_machine(name), DiskStorage.on_machine(f"{name}-runs"))


def runs_of(store: MemoryStorage) -> str:
    return f"{store.uri}-runs"


def put_batch(store: MemoryStorage, rows: list[Row], batch_id: str = "second") -> None:
    LakeTable(store.uri).upsert(
        batch_of(rows),
        checkpoints=runs_of(store),
        batch_id=batch_id,
        run_id=batch_id,
        options=OPTIONS,
        runner=LocalRunner(1),
    )


def prepared(index: str) -> Callable[[], dict[str, bytes]]:
    """A table that holds the first batch."""

    def prepare() -> dict[str, bytes]:
        store = machine().stores[0]
        make_table(store.uri, hoodie__index__type=index)
        put_batch(store, FIRST, "first")
        return store.snapshot()

    return prepare


def holds(batches: list[list[Row]], *, is_global: bool, moves: bool = True) -> Callable[[MemoryStorage], None]:
    def check(store: MemoryStorage) -> None:
        oracle = Oracle(is_global=is_global, moves=moves)
        for batch in batches:
            oracle.apply(batch)
        assert content_of(LakeTable(store.uri)) == oracle.content()
        again = [replace(row, ts=9) for row in FIRST]
        put_batch(store, again, "again")
        oracle.apply(again)
        assert content_of(LakeTable(store.uri)) == oracle.content()
        report = LakeTable(store.uri).check()
        assert report.ok, report.violations

    return check


def upsert(index: str) -> Operation:
    moves = index != "RECORD_INDEX"
    check = holds([FIRST, SECOND], is_global=is_global(index), moves=moves)
    return Operation(f"upsert {index}", prepared(index), lambda store: put_batch(store, SECOND), check)


def rescale(store: MemoryStorage) -> None:
    rescale_table(store.uri, LocalRunner(1), buckets=3, config=parse_options(OPTIONS))


def migrate(store: MemoryStorage) -> None:
    try:
        migrate_index(store.uri, IndexType.RECORD_INDEX, LocalRunner(1), runs_of(store), options=OPTIONS)
    except UsageError as error:
        if "RECORD_INDEX" not in str(error):  # it has it already
            raise


def build(store: MemoryStorage) -> None:
    LakeTable(store.uri).index_build(checkpoints=runs_of(store), options=OPTIONS, runner=LocalRunner(1))


def create(store: MemoryStorage) -> None:
    try:
        make_table(store.uri)
    except TableExistsError:
        assert content_of(LakeTable(store.uri)) == set()


def is_written(store: MemoryStorage) -> None:
    put_batch(store, FIRST, "first")
    holds([FIRST], is_global=False)(store)


OPERATIONS = {
    **{f"upsert {index}": upsert(index) for index in INDEXES},
    "rescale": Operation("rescale", prepared("BUCKET"), rescale, holds([FIRST], is_global=False)),
    "migrate": Operation("migrate", prepared("GLOBAL_BLOOM"), migrate, holds([FIRST], is_global=True)),
    "index build": Operation("index build", prepared("RECORD_INDEX"), build, holds([FIRST], is_global=True)),
    "create": Operation("create", dict, create, is_written),
}
CHOSEN = {"create": 5, "upsert GLOBAL_BLOOM": 223, "upsert RECORD_INDEX": 211, "rescale": 149, "migrate": 227}
"""What every run of the suite plays: each n-th call. The whole depth is ``make model``'s."""


def cut(operation: Operation, *, every: int = 1, first: int = 1, seeds: int) -> PowerReport:
    return cut_power_everywhere(operation, seeds=seeds, every=every, first=first, after=4, machine=machine)


@pytest.mark.parametrize("name", CHOSEN)
def test_power_may_be_cut_at_some_calls(name: str) -> None:
    report = cut(OPERATIONS[name], every=CHOSEN[name], first=min(7, CHOSEN[name]), seeds=0)
    assert report.histories >= 4


@pytest.mark.model
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", OPERATIONS)
def test_power_may_be_cut_at_every_call(name: str, part: int) -> None:
    """In four parts, so that they can be done beside each other."""
    report = cut(OPERATIONS[name], every=4, first=1 + part, seeds=SEEDS)
    print(name, report.calls, "calls,", report.histories, "histories")  # noqa: T201 - for docs/reliability.md
