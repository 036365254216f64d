"""Writers as those of :mod:`tests.model.world`, at a table of real base files: what is checked under the lock is the library's own code.

Keys are unique in the whole table, whatever partition a batch puts them into. A publish asks
:func:`lakeindex.stages.merge_write.planning.find_committed_inserts`, as a merge does, with a staged batch and lists of new rows in a run
folder of its own, and :func:`lakeindex.commit.guards.verify_file` of each file.
"""

from __future__ import annotations

import itertools
import json
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    WriteSession,
    begin_write,
)
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.java_properties import format_properties
from lakeindex.format.partitions import PartitionMetadata, format_partition_metadata, partition_metadata_path
from lakeindex.index.contract import NOWHERE
from lakeindex.model import BaseFile, IndexSpec, IndexType, InstantState, MergeMode, Operation
from lakeindex.options.types import WriteConfig
from lakeindex.pipeline import INSERTS, STAGED_KEY
from lakeindex.run.checkpoints import RunFolder, arrow_schema
from lakeindex.run.chunks import Chunk, pack_rows_of, without_repeated
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.stages.merge_write.file_slices import new_file_stat
from lakeindex.stages.merge_write.planning import find_committed_inserts
from lakeindex.stages.merge_write.tags import NewRows
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.write.base_file import sequence_numbers
from lakeindex.write.keys.key_generators import KeySpec
from tests.base_files import encode_base_file
from tests.model.world import (
    CONFIG,
    FIRST,
    LAYOUT,
    PROPERTIES,
    Batch,
    Rows,
    file_id,
    read_rows,
    timeline_path,
    until_published,
)

PARTITIONS = ("p", "q")
SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False), ("region", pa.string()), ("v", pa.string())])
WRITING = WriteConfig(row_group_rows=2)
INDEX = IndexSpec(IndexType.GLOBAL_BLOOM)
_numbers = itertools.count()


@dataclass(frozen=True)
class Placed(Batch):
    """A batch whose new keys go into one partition."""

    partition: str = PARTITIONS[0]


def new_name() -> str:
    """A name of a store that no other story has."""
    return f"model-{next(_numbers)}"


def named(store: MemoryStorage, name: str) -> str:
    """Let tasks find a story's store by a URI, and give them an empty one for run folders; the URI."""
    MemoryStorage._named[name] = store
    MemoryStorage._named[f"{name}-runs"] = MemoryStorage(f"{name}-runs")
    return f"memory://{name}"


def encode(file: BaseFile, rows: Rows) -> bytes:
    """A base file of these rows."""
    keys = sorted(rows)
    n = len(keys)
    table = pa.table(
        {
            "_hoodie_commit_time": [file.instant_time] * n,
            "_hoodie_commit_seqno": sequence_numbers(file.instant_time, 0, np.arange(n, dtype=np.int64)),
            "_hoodie_record_key": keys,
            "_hoodie_partition_path": [file.partition_path] * n,
            "_hoodie_file_name": [file.name] * n,
            "id": keys,
            "region": [file.partition_path] * n,
            "v": [rows[key] for key in keys],
        }
    )
    return encode_base_file(table, "model", SCHEMA, WRITING)


def parquet_objects(groups: Sequence[Rows]) -> dict[str, bytes]:
    """A table with one commit, and a file group in each partition."""
    files = [BaseFile(part, file_id(n), FIRST, "0-0-0") for n, part in enumerate(PARTITIONS)]
    data = [encode(file, rows) for file, rows in zip(files, groups, strict=True)]
    stats = {
        one.partition_path: (new_file_stat(_sized(one, content), len(rows)),)
        for one, content, rows in zip(files, data, groups, strict=True)
    }
    objects = {
        ".hoodie/hoodie.properties": format_properties(PROPERTIES),
        timeline_path(FIRST, InstantState.REQUESTED): b"",
        timeline_path(FIRST, InstantState.INFLIGHT): b"",
        timeline_path(FIRST, InstantState.COMPLETED): LAYOUT.encode_commit(CommitMetadata(stats, "UPSERT")),
    }
    marks = {partition_metadata_path(p): format_partition_metadata(PartitionMetadata(FIRST, 1)) for p in PARTITIONS}
    return {**objects, **marks, **{file.path: content for file, content in zip(files, data, strict=True)}}


def _sized(file: BaseFile, data: bytes) -> BaseFile:
    return BaseFile(file.partition_path, file.file_id, file.instant_time, file.write_token, len(data))


def upserting(uri: str) -> Callable[..., str]:
    """One attempt of a run at the table at this URI, from look-up to publish. Returns the instant."""

    def upsert(
        storage: Storage,
        batch: Batch,
        host: Host,
        *,
        config: WriteConfig = CONFIG,
        begin: Callable[..., WriteSession | AlreadyDone] = begin_write,
    ) -> str:
        table = Table.open(storage)
        session = begin(table, batch.identity, "UPSERT", config, host=host)
        if isinstance(session, AlreadyDone):
            return session.instant
        return until_published(session, config, lambda: _merge_and_publish(uri, table, session, batch, host))

    return upsert


def _merge_and_publish(uri: str, table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    storage, snapshot = table.storage, table.snapshot()
    planned: list[PlannedFile] = []
    contents: list[Rows] = []
    left = dict(batch.rows)
    for file in (one for partition in PARTITIONS for one in snapshot.base_files(partition)):
        stored = read_rows(storage, file)
        touched = {key: left.pop(key) for key in list(left) if key in stored}
        if touched:
            planned.append(PlannedFile(file.partition_path, file.file_id, "0-0-0", file, len(touched)))
            contents.append({**stored, **touched})
    token = host.new_token()
    if left:
        partition = batch.partition if isinstance(batch, Placed) else PARTITIONS[0]
        planned.append(PlannedFile(partition, file_id(zlib.crc32(token.encode())), "1-0-0", None, 0, len(left)))
        contents.append(left)
    digest = json.dumps(
        [[one.previous.path if one.previous else "", sorted(rows)] for one, rows in zip(planned, contents, strict=True)]
    )
    plan = session.plan(planned, snapshot.instant_time, digest)
    stats, expected = {}, []
    for file, rows in zip(plan.files, contents, strict=True):
        data = encode(file, rows)
        storage.write(file.path, data)
        stats[file.partition_path] = (*stats.get(file.partition_path, ()), new_file_stat(_sized(file, data), len(rows)))
        expected.append(ExpectedFile(file.path, len(data), len(rows)))
    recheck = _recheck(uri, token, left, plan.files[-1].partition_path) if left else lambda _: None
    guards = PublishGuards((recheck,), snapshot.timeline.completed_write_times)
    return session.publish(CommitMetadata(stats, "UPSERT", {"schema": "{}"}), tuple(expected), guards, "{}")


def _recheck(uri: str, run_id: str, new: Rows, partition: str) -> Callable[[Sequence[BaseFile]], None]:
    """The library's look for inserted keys, with what it finds in a run folder."""
    spec = RunSpec(uri, f"{uri}-runs", run_id, run_id, Operation.UPSERT, ())
    facts = TableFacts("model", SCHEMA, KeySpec.from_properties(PROPERTIES), (), MergeMode.COMMIT_TIME_ORDERING, INDEX)
    folder = RunFolder(MemoryStorage.named(f"{uri.removeprefix('memory://')}-runs"), run_id)
    keys = sorted([*new, "a1"])  # an update is in the chunk, too: it is not among the new rows
    part = folder.write_table(
        f"{run_id}/staged.parquet", without_repeated(pa.table({STAGED_KEY: keys}), {STAGED_KEY: STAGED_KEY})
    )
    chunk = Chunk(0, "", part, 0, len(keys), 0, keys[0], keys[-1])
    rows = np.array([place for place, key in enumerate(keys) if key in new], np.int64)
    line = {"chunk": 0, "partition": partition, "home": NOWHERE, "count": len(rows), "rows": pack_rows_of(chunk, rows)}
    listed = folder.write_table(f"{run_id}/inserts.parquet", pa.Table.from_pylist([line], schema=arrow_schema(INSERTS)))
    added = NewRows(0, partition, NOWHERE, len(rows), listed)
    return lambda files: find_committed_inserts(spec, facts, [chunk], [added], files)
