"""Every storage call of an operation fails once, at a table whose metadata table has every partition that we keep up.

After the fault the same command is run again. Then the rows are compared with a dictionary, the metadata table with files, footers and keys,
and every key is written once more: one that the record index lost would be doubled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import UsageError
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS, FILES, PARTITION_STATS, RECORD_INDEX
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, make_table
from tests.model.harness import Operation, fail_every_call
from tests.model.test_pipeline_faults import FIRST, MORE, OPTIONS, SECOND, TABLE, rescale_to, run_batch_of, table_equals
from tests.scheduling import some_of

pytestmark = pytest.mark.usefixtures("time_leaps")

THIRD = [Row("e", "x", 1, "e"), Row("f", "z", 1, "f")]
WITH_STATISTICS = (FILES, COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)
EVERY = (*WITH_STATISTICS, RECORD_INDEX)
NAMES = {"6": tuple(one for one in EVERY if one != PARTITION_STATS), "9": EVERY}
VERSIONS = ("6", "9")
EVERY_NTH = {
    "upsert": 71,
    "rescale": 89,
    "cluster": 59,
    "roll back": 37,
    "clean": 17,
    "add the record index": 29,
    "roll back what was built in": 31,
    "restore": 61,
}
"""Of the calls that fail in the short test: four of each at least, though a first upsert in a process makes 60 calls more than the next."""


def stores() -> tuple[MemoryStorage, MemoryStorage]:
    return MemoryStorage.named("pipeline"), MemoryStorage.named("pipeline-runs")


def prepared(
    version: str, index: str, partitions: tuple[str, ...], batches: list[list[Row]], built: int = 0
) -> Callable[[], dict[str, bytes]]:
    """A table that holds some batches, whose metadata table was built behind one of them."""

    def prepare() -> dict[str, bytes]:
        store, runs = stores()
        store.restore({})
        runs.restore({})
        table = make_table(TABLE, hoodie__write__table__version=version, hoodie__index__type=index)
        for number, batch in enumerate(batches):
            run_batch_of(batch, f"batch-{number}")
            if number == built and partitions:
                table.metadata_build([one for one in partitions if one in names_of(version, index)])
        runs.restore({})
        return store.snapshot()

    return prepare


def names_of(version: str, index: str) -> frozenset[str]:
    """What a metadata table has in the end: of keys of a partition there is a record index in version 9 only."""
    return frozenset(NAMES[version]) - ({RECORD_INDEX} if index == "BUCKET" and version != "9" else set())


def holds(
    names: frozenset[str], batches: list[list[Row]], *, is_global: bool, moves: bool = True
) -> Callable[..., None]:
    """Rows and metadata table are right (``check`` compares all that ``metadata verify`` does), and again after every key was written once more."""
    again = [replace(row, ts=9) for row in FIRST]

    def check(store: MemoryStorage) -> None:
        for number, known in enumerate((batches, [*batches, again])):
            if number:
                run_batch_of(again, "again")
            table_equals(known, is_global=is_global, moves=moves)(store)
            assert set(Table.open(store).properties.metadata_partitions) == names

    return check


def readers_agree(_: MemoryStorage) -> None:
    """Who asks the record index finds what who reads the table does."""
    table = LakeTable(TABLE)
    rows = table.read(meta=True).column("_hoodie_record_key").to_pylist()
    found = table.get([row.id for row in (*FIRST, *THIRD, *MORE)]).rows.column("_hoodie_record_key").to_pylist()
    assert sorted(found) == sorted(rows)


def operation(name: str, version: str) -> Operation:
    """One at a table of a version."""
    index, partitions, before, built = "RECORD_INDEX", EVERY, [FIRST], 0
    moves, is_global = False, True
    if name == "upsert":
        after, run = [FIRST, SECOND], lambda: run_batch_of(SECOND)
    elif name == "rescale":
        index, is_global, after, run = "BUCKET", False, [FIRST], lambda: rescale_to(3)
    elif name == "cluster":
        index, moves = "GLOBAL_BLOOM", True
        before = after = [FIRST, MORE]
        run = cluster
    elif name.startswith("roll back"):
        before, after, run = [FIRST, SECOND], [FIRST], roll_back_newest
        built = int(name != "roll back")
    elif name == "restore":
        before, after, run, built = [FIRST, SECOND, THIRD], [FIRST], restore_first, 1
    elif name == "clean":
        before = after = [FIRST, SECOND, THIRD]
        run = clean
    else:
        after, partitions = [FIRST], WITH_STATISTICS
        run = add_record_index
    return Operation(
        f"{name}, version {version}",
        prepare=prepared(version, index, partitions, before, built),
        run=lambda _: run(),
        check=holds(names_of(version, index), after, is_global=is_global, moves=moves),
        store=lambda: stores()[0],
        meanwhile=readers_agree,
    )


def add_record_index() -> None:
    """As an operator: build it, and after an error look whether it is there."""
    if RECORD_INDEX not in Table.open(stores()[0]).properties.metadata_partitions:
        LakeTable(TABLE).metadata_build([RECORD_INDEX])


def cluster() -> None:
    """Put all files of a partition together, in an order of their columns."""
    LakeTable(TABLE).cluster(sort="columns", columns=["v", "ts"], options=OPTIONS, runner=LocalRunner(1))


def clean() -> None:
    """Keep the files of one commit."""
    LakeTable(TABLE).clean(1)


def roll_back_newest() -> None:
    """As an operator: of two commits the newer one; one that is gone needs no more."""
    writes = Table.open(stores()[0]).load_timeline().completed_writes
    if len(writes) == 2:
        with suppress(UsageError):  # the roll-back that failed is settled first, and was the one that is wanted
            LakeTable(TABLE).rollback(writes[1].time)


def restore_first() -> None:
    """To the first commit; what is there already needs no more."""
    LakeTable(TABLE).restore(Table.open(stores()[0]).load_timeline().completed_writes[0].time)


@pytest.mark.parametrize(
    ("version", "first", "name"),
    some_of(
        [(*((("6", 5), ("9", 11))[n % 2]), one) for n, one in enumerate(EVERY_NTH)],
        lambda case: case[2] in ("upsert", "restore", "roll back what was built in"),
        pytest.mark.model,
    ),
)
@pytest.mark.few(1)
def test_some_calls_may_fail(name: str, version: str, first: int) -> None:
    """Of some operations one of the versions; the others, and every call, under the mark ``model``."""
    report = fail_every_call(operation(name, version), every=EVERY_NTH[name], first=first)
    assert report.histories >= 4


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", [1, 2, 3], ids="part{}".format)
@pytest.mark.parametrize("name", EVERY_NTH)
def test_every_call_may_fail(name: str, first: int) -> None:
    """A third of the calls on each version and in each part: together each call on one version or the other."""
    report = fail_every_call(operation(name, VERSIONS[first % 2]), every=3, first=first)
    assert report.histories > 10
