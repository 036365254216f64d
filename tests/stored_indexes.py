"""Commits that a stored index does not see being made."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    RunIdentity,
    begin_write,
)
from lakeindex.format.commit_metadata import NO_PREVIOUS, SCHEMA_KEY, CommitMetadata, WriteStat
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.binding import BINDING_PATH
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.types.avro_schema import META_COLUMNS, schema_to_avro
from tests.builders import SCHEMA, Row, batch_of


def runner_of(index: str) -> LocalRunner:
    """Plays the index's part of a run in this process."""
    if index != "STATE":
        return LocalRunner(1)
    if find_spec("pyspark.sql.streaming.tws_tester") is None:  # the locked PySpark has it; others: docs/versions.md
        pytest.skip("this PySpark has no keyed state of rows")
    from tests.contract.state_tester import StateRunnerForTests

    return StateRunnerForTests()


@contextmanager
def bound_to(table: LakeTable, index: str) -> Iterator[None]:
    """For a while, as if the table had another index: its commits are ones that the stored index does not see."""
    store = open_storage(table.uri)
    text = store.read(BINDING_PATH)
    store.write(BINDING_PATH, json.dumps({**json.loads(text), "index_type": index}).encode())
    yield
    store.write(BINDING_PATH, text)


def unseen(table: LakeTable, by: str, rows: list[Row], **options: str) -> str:
    """A commit made with another index."""
    with bound_to(table, by):
        instant = table.upsert(batch_of(rows), options={n.replace("__", "."): v for n, v in options.items()}).instant
    assert instant is not None
    return instant


def clustered(table: LakeTable, partition: str) -> str:
    """A replacecommit that puts all rows of a partition into one new file group, as a clustering does."""
    opened = Table.open(open_storage(table.uri))
    old = tuple(opened.snapshot().base_files(partition))
    rows = pa.concat_tables([_rows_in(opened, file) for file in old]).sort_by("_hoodie_record_key")
    return _committed(opened, "CLUSTER", rows, PlannedFile(partition, f"{uuid.uuid4()}-0", "0-0-0"), old)


def inserted(table: LakeTable, rows: list[Row], *, into: str | None = None, places: Sequence[str] = ()) -> str:
    """Rows of one partition as Hudi's `insert` stores them: it looks no key up, and keeps what the batch has twice.

    Args:
        table: the table, of the tests' columns.
        rows: the rows.
        into: file group that gets them, besides what it has; by default a new one.
        places: of each row of a new one what wrote it, as `<task>_<row>`; by default one task.
    """
    opened = Table.open(open_storage(table.uri))
    partition = f"day={rows[0].day}" if "day=" in "".join(opened.snapshot().partitions()) else rows[0].day
    old = next((file for file in opened.snapshot().base_files(partition) if file.file_id == into), None)
    batch = batch_of(rows).drop_columns(["_hoodie_is_deleted"])
    n = len(rows)
    meta = {
        "_hoodie_commit_time": pa.nulls(n, pa.string()),
        "_hoodie_commit_seqno": pa.nulls(n, pa.string()),
        "_hoodie_record_key": batch.column("id"),
        "_hoodie_partition_path": pa.array([partition] * n),
        "_hoodie_file_name": pa.array([""] * n),
    }
    new = pa.table({**meta, **{name: batch.column(name) for name in batch.column_names}})
    there = [] if old is None else [_rows_in(opened, old).select(new.column_names).cast(new.schema)]
    planned = PlannedFile(partition, into or f"{uuid.uuid4()}-0", "0-0-0", old, 0, n)
    return _committed(opened, "INSERT", pa.concat_tables([*there, new]), planned, places=places)


def _rows_in(opened: Table, file: BaseFile) -> pa.Table:
    return pq.read_table(pa.BufferReader(opened.storage.read(file.path)), use_threads=False)


def _committed(
    opened: Table,
    operation: str,
    rows: pa.Table,
    planned: PlannedFile,
    replaced: tuple[BaseFile, ...] = (),
    places: Sequence[str] = (),
) -> str:
    """A commit of one file, with a footer as another writer makes it; rows without a commit time are new ones."""
    snapshot = opened.snapshot()
    identity = RunIdentity(f"r-{uuid.uuid4()}", f"b-{uuid.uuid4()}", "d")
    session = begin_write(opened, identity, operation, WriteConfig())
    assert not isinstance(session, AlreadyDone)
    plan = session.plan([planned], snapshot.instant_time, "digest", Replacement(replaced) if replaced else None)
    file, old = plan.files[0], planned.previous
    times = pc.fill_null(rows.column("_hoodie_commit_time").cast(pa.string()), plan.instant)
    numbers = pa.array([f"{plan.instant}_{place}" for place in places or [f"0_{n}" for n in range(rows.num_rows)]])
    numbers = pc.coalesce(rows.column("_hoodie_commit_seqno").cast(pa.string()), numbers)
    for place, column in ((0, times), (1, numbers), (4, pa.array([file.name] * rows.num_rows))):
        rows = rows.set_column(place, META_COLUMNS[place], column)
    if not opened.properties.populate_meta_fields:
        for place, name in enumerate(META_COLUMNS):
            rows = rows.set_column(place, name, pa.nulls(rows.num_rows, pa.string()))
    sink = pa.BufferOutputStream()
    schema = schema_to_avro(SCHEMA, opened.name)
    pq.write_table(rows.replace_schema_metadata({"parquet.avro.schema": schema}), sink)
    data = sink.getvalue().to_pybytes()
    opened.storage.write(file.path, data)
    stat = WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=planned.partition_path,
        prev_commit=NO_PREVIOUS if old is None else old.instant_time,
        num_writes=rows.num_rows,
        num_inserts=planned.inserts if old is not None else rows.num_rows,
        total_write_bytes=len(data),
        file_size_bytes=len(data),
        prev_base_file=None if old is None else old.name,
    )
    gone = {planned.partition_path: tuple(f.file_id for f in replaced)} if replaced else {}
    commit = CommitMetadata({planned.partition_path: (stat,)}, operation, {SCHEMA_KEY: schema}, replaced_file_ids=gone)
    guards = PublishGuards.of(snapshot.timeline)
    instant = session.publish(commit, [ExpectedFile(file.path, len(data), rows.num_rows)], guards)
    session.close()
    return instant
