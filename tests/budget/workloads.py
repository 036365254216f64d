"""Small fixed workloads, and what each costs in counts that are the same on every machine.

The store is in memory and counts requests as an object store would see them; tasks run one after the other, cut for four slots.
What a process has read before is forgotten first. No figure is a time. Instants and file ids differ from run to run, so that
bytes differ by far less than the budget's margin.
"""

from __future__ import annotations

import pickle
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.scaling_store import CountingStorage
from lakeindex.api.table import LakeTable
from lakeindex.commit.services.metadata_service import build_metadata_table
from lakeindex.files import footer_cache
from lakeindex.format.partitions import PartitionMetadata, format_partition_metadata, partition_metadata_path
from lakeindex.pipeline import default_checkpoints
from lakeindex.run import chunks
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.timeline import archived_timeline
from tests.builders import make_table

ROWS: Final = 40_000
DAYS: Final = 4
BATCH_ROWS: Final = 400
OPTIONS: Final = {
    "hoodie.parquet.max.file.size": str(5_000 * 100),
    "hoodie.copyonwrite.record.size.estimate": "100",
    "hoodie.parquet.small.file.limit": "0",
    "lakeindex.parquet.row.group.rows": "1000",
    "lakeindex.lock.lease": "3600",  # no heartbeat while it runs, however slow the machine
}
Figures = dict[str, int]


class CountingRunner(LocalRunner):
    """Runs tasks one at a time, cut for four; adds up the bytes that a cluster would send for them."""

    def __init__(self) -> None:
        super().__init__(1)
        self.tasks = 0
        self.task_bytes = 0
        self.result_bytes = 0

    @property
    def slots(self) -> int:
        return 4

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        self.tasks += len(tasks)
        self.task_bytes += sum(len(pickle.dumps((function, task))) for task in tasks)
        results = super().map(function, tasks, title)
        self.result_bytes += sum(len(pickle.dumps(result)) for result in results)
        return results


@cache
def _base_load() -> dict[str, bytes]:
    """Objects of a table with 40,000 rows of growing keys in 4 partitions, 8 files; made once a process."""
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    make_table(store.uri).upsert(rows_of(np.arange(ROWS), 1), options=OPTIONS, runner=CountingRunner())
    return store.snapshot()


class Bench:
    """A table with the base load, its run folders, and a runner."""

    def __init__(self) -> None:
        self.store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
        self.store.restore(_base_load())
        self.table = LakeTable(self.store.uri)
        self.checkpoints = CountingStorage.fresh(default_checkpoints(self.store.uri).removeprefix("memory://"))
        self.runner = CountingRunner()

    def upsert(self, numbers: np.ndarray, batch_id: str = "batch") -> None:
        self.table.upsert(rows_of(numbers, 2), options=OPTIONS, runner=self.runner, batch_id=batch_id)

    @contextmanager
    def counted(self) -> Iterator[Figures]:
        """Count the body; the figures are there when it ends."""
        self.runner = CountingRunner()
        for store in (self.store, self.checkpoints):
            store.reset()
        footer_cache._remembered.clear()
        chunks._decoded = type(chunks._decoded)(chunks.CACHE_BYTES)
        figures: Figures = {}
        allocated = pa.default_memory_pool().total_bytes_allocated()
        yield figures
        figures.update(_of_store("table", self.store))
        figures.update(_of_store("run folder", self.checkpoints))
        figures["tasks"] = self.runner.tasks
        figures["bytes of pickled tasks"] = self.runner.task_bytes
        figures["bytes of pickled results"] = self.runner.result_bytes
        figures["bytes allocated by Arrow"] = pa.default_memory_pool().total_bytes_allocated() - allocated


def _of_store(name: str, store: CountingStorage) -> Figures:
    counts = {f"{name}: {kind} requests": count for kind, count in sorted(store.requests.items())}
    return counts | {f"{name}: bytes read": store.bytes_read, f"{name}: bytes written": store.bytes_written}


def rows_of(numbers: np.ndarray, ts: int) -> pa.Table:
    """Rows of the builders' table: keys grow, and so does the day."""
    days = np.minimum(numbers * DAYS // ROWS, DAYS - 1)
    return pa.table(
        {
            "id": [f"k{n:08d}" for n in numbers],
            "day": [f"2026-01-0{day + 1}" for day in days],
            "ts": pa.array(np.full(len(numbers), ts, np.int64)),
            "v": [f"{n * 7919 % 10_007}" for n in numbers],
        }
    )


def _tail(count: int = BATCH_ROWS) -> np.ndarray:
    """Mostly updates of the newest keys, a tenth of them new."""
    return np.arange(ROWS - count + count // 10, ROWS + count // 10)


def _scattered() -> np.ndarray:
    """Updates everywhere."""
    return np.sort(np.random.default_rng(11).choice(ROWS, BATCH_ROWS, replace=False))


def upsert_tail() -> Figures:
    bench = Bench()
    with bench.counted() as figures:
        bench.upsert(_tail())
    return figures


def upsert_scattered() -> Figures:
    bench = Bench()
    with bench.counted() as figures:
        bench.upsert(_scattered())
    return figures


def upsert_uncached() -> Figures:
    """Footers are not cached: all in the touched partitions are read."""
    bench = Bench()
    for one in bench.store.list(footer_cache.CACHE_FOLDER):
        bench.store.delete(one.path)
    with bench.counted() as figures:
        bench.upsert(_scattered())
    return figures


def upsert_again() -> Figures:
    """The same batch id: done already."""
    bench = Bench()
    bench.upsert(_tail())
    with bench.counted() as figures:
        bench.upsert(_tail())
    return figures


def upsert_late() -> Figures:
    """Every row is older than the stored one: looked up, nothing written."""
    bench = Bench()
    with bench.counted() as figures:
        bench.table.upsert(rows_of(_scattered(), 0), options=OPTIONS, runner=bench.runner)
    return figures


FILES, PARTITIONS = 10, DAYS
"""What a batch into ten of many files touches."""


def least_requests(files: int, partitions: int) -> int:
    """Requests of the table that the commit protocol needs, of three files or more: docs/commit-protocol.md counts them
    step by step.
    """
    return 83 + 6 * files + 4 * partitions


def upsert_ten_files() -> Figures:
    """1,000 rows into ten of 200 files, in all four partitions; syncs are no requests of an object store."""
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    CountingStorage.fresh(default_checkpoints(store.uri).removeprefix("memory://"))
    options = {**OPTIONS, "hoodie.parquet.max.file.size": str(ROWS // 200 * 100)}
    table, numbers = make_table(store.uri), np.arange(ROWS)
    table.upsert(rows_of(numbers, 1), options=options, runner=CountingRunner())
    footer_cache._remembered.clear()
    store.reset()
    each, apart = ROWS // 200, ROWS // FILES
    some = np.concatenate([numbers[first : first + each // 2] for first in range(0, ROWS, apart)])
    done = table.upsert(rows_of(some, 2), options=options, runner=CountingRunner())
    assert (done.updates, done.files_rewritten) == (len(some), FILES)
    asked = sum(count for kind, count in store.requests.items() if kind != "sync")
    assert asked <= 1.3 * least_requests(FILES, PARTITIONS), store.requests
    return _of_store("table", store)


def delete_keys() -> Figures:
    bench = Bench()
    with bench.counted() as figures:
        keys = rows_of(_tail(), 2).select(["id", "day"])
        bench.table.delete(keys, options=OPTIONS, runner=bench.runner)
    return figures


def delete_where_partition() -> Figures:
    """No row is read: footers are, for the count."""
    bench = Bench()
    with bench.counted() as figures:
        done = bench.table.delete(where="day = '2026-01-01'", options=OPTIONS, runner=bench.runner)
        assert done.rows_replaced == ROWS // DAYS
    return figures


def delete_where_rows() -> Figures:
    """Rows of one partition, by their values."""
    bench = Bench()
    with bench.counted() as figures:
        where = "day = '2026-01-01' and v like '12%'"
        assert bench.table.delete(where=where, options=OPTIONS, runner=bench.runner).deletes
    return figures


def get_one_key() -> Figures:
    bench = Bench()
    with bench.counted() as figures:
        found = bench.table.get([f"k{ROWS // 3:08d}"], runner=bench.runner)
        assert found.rows.num_rows == 1
    return figures


def bulk_load() -> Figures:
    bench = Bench()
    with bench.counted() as figures:
        bench.upsert(np.arange(ROWS, 2 * ROWS))
    return figures


@cache
def _many_files() -> dict[str, bytes]:
    """Objects of a table of 10,000 files in 500 partitions, of archived commits, with a metadata table; made once a
    process. What is in the files does not matter.
    """
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    make_table(store.uri).upsert(rows_of(np.arange(100), 1), options=OPTIONS, runner=CountingRunner())
    time = "20200101000000000"
    for partition in range(500):
        folder = f"p={partition:03d}"
        marker = format_partition_metadata(PartitionMetadata(time, 1))
        store.write(partition_metadata_path(folder), marker)
        for number in range(20):
            file_id = f"{uuid.UUID(int=partition * 20 + number)}-0"
            store.write(f"{folder}/{file_id}_0-0-0_{time}.parquet", b"PAR1")
    build_metadata_table(Table.open(store), partitions=("files",))
    return store.snapshot()


def open_many_files() -> Figures:
    """Nothing is listed: the aim of issue 19 is at most 10 requests."""
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    store.restore(_many_files())
    store.reset()
    files = Table.open(store).snapshot().base_files_all()
    assert len(files) == 10_001
    assert sum(store.requests.values()) <= 10
    return _of_store("table", store)


def table_of_many_files(count: int) -> LakeTable:
    """A table of so many files with five rows each, in memory."""
    options = {**OPTIONS, "hoodie.parquet.max.file.size": "500", "hoodie.index.bloom.num_entries": "10"}
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    table = make_table(store.uri, partitions=())
    table.upsert(rows_of(np.arange(5 * count), 1), options=options, runner=CountingRunner())
    return table


def changes_behind_archive() -> Figures:
    """Of archived commits no more is read than manifest and footers: all of them were completed before."""
    store = CountingStorage.fresh(f"budget-{uuid.uuid4().hex}")
    table = make_table(store.uri, hoodie__write__table__version="9")
    for number in range(8):
        table.upsert(rows_of(np.arange(number, number + 1), 1), options=OPTIONS, runner=CountingRunner())
    table.archive(keep_commits=3, options={"hoodie.cleaner.commits.retained": "1"})
    since = table.history()[1].instant
    archived_timeline._read_log.cache_clear()
    store.reset()
    assert table.changes(since=since).to_arrow().num_rows == 1
    return _of_store("table", store)


WORKLOADS: Final[dict[str, Callable[[], Figures]]] = {
    "upsert of the newest keys": upsert_tail,
    "upsert of random keys": upsert_scattered,
    "upsert of random keys, no footer cached": upsert_uncached,
    "upsert into ten files of many": upsert_ten_files,
    "the same batch again": upsert_again,
    "upsert of late rows": upsert_late,
    "delete": delete_keys,
    "delete of a partition by a condition": delete_where_partition,
    "delete of rows by a condition": delete_where_rows,
    "get of one key": get_one_key,
    "load of new keys": bulk_load,
    "open a table of many files": open_many_files,
    "changes behind an archive": changes_behind_archive,
}
