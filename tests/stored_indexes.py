"""Commits that a stored index does not see being made."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.api.table import LakeTable
from lakeindex.commit.session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    RunIdentity,
    begin_write,
)
from lakeindex.format.commit_metadata import NO_PREVIOUS, SCHEMA_KEY, CommitMetadata, WriteStat
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.binding import BINDING_PATH
from lakeindex.table.handle import Table
from lakeindex.write.types.avro_schema import schema_to_avro
from tests.builders import SCHEMA, Row, batch_of
from tests.unit.commands.tables import unstamped


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
    snapshot = opened.snapshot()
    old = tuple(snapshot.base_files(partition))
    session = begin_write(opened, RunIdentity(f"r-{uuid.uuid4()}", f"b-{uuid.uuid4()}", "d"), "CLUSTER", WriteConfig())
    assert not isinstance(session, AlreadyDone)
    new = PlannedFile(partition, f"{uuid.uuid4()}-0", "0-0-0")
    plan = session.plan([new], snapshot.instant_time, "digest", Replacement(old))
    file = plan.files[0]
    rows = pa.concat_tables(
        pq.read_table(pa.BufferReader(opened.storage.read(f.path)), use_threads=False) for f in old
    ).sort_by("_hoodie_record_key")
    rows = rows.set_column(4, "_hoodie_file_name", pa.array([file.name] * rows.num_rows))
    sink = pa.BufferOutputStream()
    footer = pq.read_metadata(pa.BufferReader(opened.storage.read(old[0].path))).metadata
    pq.write_table(
        rows.replace_schema_metadata({k: v for k, v in unstamped(footer).items() if b"hoodie" not in k}), sink
    )
    data = sink.getvalue().to_pybytes()
    opened.storage.write(file.path, data)
    stat = WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=partition,
        prev_commit=NO_PREVIOUS,
        num_writes=rows.num_rows,
        num_inserts=rows.num_rows,
        total_write_bytes=len(data),
        file_size_bytes=len(data),
    )
    commit = CommitMetadata(
        {partition: (stat,)},
        "CLUSTER",
        {SCHEMA_KEY: schema_to_avro(SCHEMA, opened.name)},
        replaced_file_ids={partition: tuple(f.file_id for f in old)},
    )
    guards = PublishGuards.of(snapshot.timeline)
    instant = session.publish(commit, [ExpectedFile(file.path, len(data), rows.num_rows)], guards)
    session.close()
    return instant
