"""The floor: what rewriting a Hudi table's files costs when nothing has to be found.

Two processes, one pyarrow thread each; a map made beforehand says which file holds each key, so there is no index, no
filter in the footers, no timeline and no commit. The meta columns of a Hudi table are read, kept up and written.
"""

from __future__ import annotations

import multiprocessing
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.bases import DELETE
from benchmarks.measuring import apart
from benchmarks.peers.base import totals_of_files
from benchmarks.rows import repeat, write
from benchmarks.workloads import Totals, Workload

_INSTANTS: Final = ("20261001000000000", "20261101000000000")
_CONSTANT: Final = ("day", "status", "_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name")


def _with_meta(rows: pa.Table, instant: str, partition: str, file_name: str) -> pa.Table:
    count = rows.num_rows
    numbers = pc.cast(pa.array(np.arange(count)), pa.string())
    meta = {
        "_hoodie_commit_time": repeat(instant, count),
        "_hoodie_commit_seqno": pc.binary_join_element_wise(f"{instant}_0", numbers, "_"),
        "_hoodie_record_key": rows["id"],
        "_hoodie_partition_path": repeat(partition, count),
        "_hoodie_file_name": repeat(file_name, count),
    }
    return pa.table({**meta, **{name: rows[name] for name in rows.column_names}})


def _write(rows: pa.Table, path: Path) -> None:
    write(rows, path, [name for name in _CONSTANT if name in rows.column_names])


@dataclass(frozen=True)
class _Job:
    source: Path
    updates: pa.Table
    inserts: pa.Table
    deletes: bool = False


def _rewrite(job: _Job) -> None:
    partition = job.source.parent.name
    target = job.source.with_name(f"{job.source.stem.split('_')[0]}_{_INSTANTS[1]}.parquet")
    old = pq.read_table(job.source, use_threads=False, partitioning=None)
    position = pc.index_in(old["id"], value_set=job.updates["id"].combine_chunks()).combine_chunks()
    stay = np.arange(old.num_rows, dtype=np.int64)
    found = position.is_valid().to_numpy(zero_copy_only=False)
    moved = position.fill_null(0).to_numpy(zero_copy_only=False) + old.num_rows
    if job.deletes:
        left = old.filter(pc.invert(pa.array(found)))
        _write(_named(left, target.name), target)
        job.source.unlink()
        return
    new = pa.concat_tables([job.updates, job.inserts])
    first_insert = old.num_rows + job.updates.num_rows
    order = np.concatenate([np.where(found, moved, stay), np.arange(first_insert, old.num_rows + new.num_rows)])
    added = _with_meta(new, _INSTANTS[1], partition, target.name).cast(old.schema)
    rows = pa.concat_tables([old, added]).combine_chunks().take(pa.array(order))
    _write(_named(rows, target.name), target)
    job.source.unlink()


def _named(rows: pa.Table, file_name: str) -> pa.Table:
    place = rows.schema.get_field_index("_hoodie_file_name")
    return rows.set_column(place, "_hoodie_file_name", repeat(file_name, rows.num_rows))


def _write_base(job: tuple[Path, Path]) -> None:
    source, target = job
    target.parent.mkdir(parents=True, exist_ok=True)
    _write(_with_meta(pq.read_table(source), _INSTANTS[0], target.parent.name, target.name), target)


def _start() -> None:
    """One thread, and everything loaded that a rewrite needs: the first job may come to a worker late."""
    pa.set_cpu_count(1)
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "day=0" / "0_0.parquet"
        source.parent.mkdir()
        rows = pa.table({"id": ["a", "b"], "day": ["0", "0"]})
        _write(_with_meta(rows, _INSTANTS[0], "day=0", source.name), source)
        _rewrite(_Job(source, rows.slice(0, 1), rows.slice(0, 0)))


class Floor:
    """See the module."""

    def __init__(self) -> None:
        self._pool = multiprocessing.get_context("spawn").Pool(2, _start)
        self._pool.map(len, ["up", "up"])

    def load(self, workload: Workload, table: Path) -> None:
        """The generated files with meta columns, one folder a day."""
        jobs = [
            (source, table / f"day={workload.day_of(index)}" / f"{index:04d}_{_INSTANTS[0]}.parquet")
            for index, source in enumerate(workload.base_files)
        ]
        self._pool.map(_write_base, jobs, chunksize=1)

    def upsert(self, workload: Workload, table: Path) -> None:
        """Rewrite the files that the map names; inserts join the last file of their day."""
        files = sorted(table.rglob("*.parquet"), key=lambda path: path.name)
        batch = pq.read_table(workload.batch)
        owners = workload.owners()
        order = np.argsort(owners, kind="stable")
        cuts: Sequence[int] = np.searchsorted(owners[order], np.arange(len(files) + 1)).tolist()
        inserts = batch.take(pa.array(order[: cuts[0]]))
        jobs = []
        for index, source in enumerate(files):
            updates = batch.take(
                pa.array(order[cuts[index] : cuts[index + 1]])
            )  # a slice is sent with all of its table
            last = index % workload.files_per_partition == workload.files_per_partition - 1
            day = workload.day_of(index)
            new = inserts.filter(pc.equal(inserts["day"], day)) if last else inserts.slice(0, 0)
            if updates.num_rows or new.num_rows:
                is_delete = workload.operation == DELETE
                jobs.append(_Job(source, updates.combine_chunks(), new.combine_chunks(), is_delete))
        self._pool.map(_rewrite, jobs, chunksize=1)

    def totals(self, table: Path) -> Totals:
        return apart(_totals, table)

    def close(self) -> None:
        self._pool.terminate()
        self._pool.join()


def _totals(table: Path) -> Totals:
    return totals_of_files(list(table.rglob("*.parquet")))
