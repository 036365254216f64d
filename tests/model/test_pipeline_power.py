"""Whole operations with the power cut at storage calls: create, upsert by every kind of index, rescale, migrate, index build,
cluster, repair, import.

The table, its run folders and what a repair keeps lie on disks that one power supply feeds. Afterwards the same command is run again, as a user
would; the table is compared with a dictionary, every key is written once more (one that an index lost would be doubled), and
``check`` has nothing to say.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import TableExistsError, UsageError
from lakeindex.model import IndexType
from lakeindex.operations.migrate_index import migrate_index
from lakeindex.operations.repair_plan import MendKind
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import KEPT_ENDING, RUNS_ENDING
from lakeindex.storage.memory import MemoryStorage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, content_of, make_table
from tests.model.harness import Operation
from tests.model.power import DiskStorage, Machine, PowerReport, cut_power_everywhere
from tests.model.test_import_faults import importing
from tests.model.test_pipeline_faults import FIRST, OPTIONS, SECOND, batch_of_operation, clustering, is_global
from tests.model.test_repair_faults import footer, lost_file, properties
from tests.scheduling import some_of

pytestmark = pytest.mark.usefixtures("time_leaps")

SEEDS = int(os.environ.get("LAKEINDEX_POWER_SEEDS", "2"))
INDEXES = ("BLOOM", "SIMPLE", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX")
_numbers = count()


def machine() -> Machine:
    """Disks of other names each time: what a process has cached goes by a store's name."""
    name = f"power-{next(_numbers)}"
    return Machine(*(DiskStorage.on_machine(f"{name}{ending}") for ending in ("", "-runs", RUNS_ENDING, KEPT_ENDING)))


def runs_of(store: MemoryStorage) -> str:
    return f"{store.uri}-runs"


def prepared(index: str) -> Callable[[], dict[str, bytes]]:
    """A table that holds the first batch."""

    def prepare() -> dict[str, bytes]:
        store = machine().stores[0]
        make_table(store.uri, hoodie__index__type=index)
        batch_of_operation(store, FIRST, "first")
        return store.snapshot()

    return prepare


def holds(batches: list[list[Row]], *, is_global: bool, moves: bool = True) -> Callable[[MemoryStorage], None]:
    def check(store: MemoryStorage) -> None:
        oracle = Oracle(is_global=is_global, moves=moves)
        for batch in batches:
            oracle.apply(batch)
        assert content_of(LakeTable(store.uri)) == oracle.content()
        again = [replace(row, ts=9) for row in FIRST]
        batch_of_operation(store, again, "again")
        oracle.apply(again)
        assert content_of(LakeTable(store.uri)) == oracle.content()
        report = LakeTable(store.uri).check()
        assert report.ok, report.violations

    return check


def upsert(index: str) -> Operation:
    moves = index != "RECORD_INDEX"
    check = holds([FIRST, SECOND], is_global=is_global(index), moves=moves)
    return Operation(f"upsert {index}", prepared(index), lambda store: batch_of_operation(store, SECOND), check)


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
    batch_of_operation(store, FIRST, "first")
    holds([FIRST], is_global=False)(store)


def twice(operation: Operation) -> Operation:
    """Markers and heartbeats that a repair removed need not be synced, and may be back: the next one finds them."""

    def check(store: MemoryStorage) -> None:
        assert {mend.kind for mend in LakeTable(store.uri).repair().mends} <= {MendKind.LEFTOVER}
        operation.run(store)
        operation.check(store)

    return replace(operation, check=check)


OPERATIONS = {
    **{f"upsert {index}": upsert(index) for index in INDEXES},
    "rescale": Operation("rescale", prepared("BUCKET"), rescale, holds([FIRST], is_global=False)),
    "migrate": Operation("migrate", prepared("GLOBAL_BLOOM"), migrate, holds([FIRST], is_global=True)),
    "index build": Operation("index build", prepared("RECORD_INDEX"), build, holds([FIRST], is_global=True)),
    "create": Operation("create", dict, create, is_written),
    "cluster BLOOM": clustering("BLOOM", "6"),
    "cluster RECORD_INDEX": clustering("RECORD_INDEX", "9"),
    **{f"repair {make.__name__} {version}": twice(make(version)) for make in (lost_file, footer) for version in "69"},
    **{f"repair properties {version}": properties(version) for version in "69"},
}
IMPORTS = {f"import {version}": version for version in "69"}
CHOSEN = {
    "create": (5, 5, 4),
    "upsert GLOBAL_BLOOM": (7, 223, 4),
    "upsert RECORD_INDEX": (7, 211, 4),
    "rescale": (7, 149, 4),
    "migrate": (7, 227, 4),
    "cluster BLOOM": (80, 999, 0),
    "repair footer 6": (100, 999, 0),
    "repair properties 6": (40, 999, 0),
    "import 6": (210, 999, 0),
}
"""The first call, each n-th of the later ones, random subsets after the last. The whole depth is weekly."""
IN_SHORT = ("upsert GLOBAL_BLOOM", "repair footer 6", "import 6")
"""Those that ``make test`` plays; ``make model`` in ``.ci/run`` the others."""


def cut(name: str, folder: Path, *, every: int, first: int, seeds: int, after: int = 4) -> PowerReport:
    operation = importing(folder, IMPORTS[name]) if name in IMPORTS else OPERATIONS[name]
    return cut_power_everywhere(operation, seeds=seeds, every=every, first=first, after=after, machine=machine)


@pytest.mark.parametrize("name", some_of(CHOSEN, IN_SHORT.__contains__, pytest.mark.model))
@pytest.mark.few(1)
def test_power_may_be_cut_at_some_calls(name: str, tmp_path: Path) -> None:
    first, every, after = CHOSEN[name]
    report = cut(name, tmp_path, every=every, first=first, seeds=0, after=after)
    assert report.histories >= 4


@pytest.mark.model
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("part", range(4))
@pytest.mark.parametrize("name", [*OPERATIONS, *IMPORTS])
def test_power_may_be_cut_at_every_call(name: str, part: int, tmp_path: Path) -> None:
    """In four parts, so that they can be done beside each other."""
    report = cut(name, tmp_path, every=4, first=1 + part, seeds=SEEDS)
    print(name, report.calls, "calls,", report.histories, "histories")  # noqa: T201 - for docs/reliability.md
