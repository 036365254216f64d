"""A tiny bucket table: keys live in the file group of their bucket, and the count changes while others write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    WriteSession,
    begin_write,
)
from lakeindex.errors import WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from lakeindex.table.index_changes import index_in_force, index_record
from tests.model.world import (
    CONFIG,
    PARTITION,
    Batch,
    Overwrite,
    Rows,
    encode_rows,
    read_rows,
    stat_of,
    until_published,
    verify_rows,
)

COUNT: Final = "hoodie.bucket.index.num.buckets"
Begin = Callable[..., WriteSession | AlreadyDone]


@dataclass(frozen=True)
class Rescale(Batch):
    """A run that rewrites the table into another number of buckets."""

    count: int = 0


def spec_of(count: int) -> IndexSpec:
    return IndexSpec(IndexType.BUCKET, ((COUNT, str(count)),))


BOUND: Final = spec_of(2)


def bucket_of_key(key: str, count: int) -> int:
    return sum(key.encode()) % count


def bucket_groups(rows: Rows, count: int = 2) -> list[Rows]:
    """Rows by bucket."""
    return [{k: v for k, v in rows.items() if bucket_of_key(k, count) == b} for b in range(count)]


def group_id(bucket: int, tail: str = "0") -> str:
    return f"{bucket:08d}-{tail}-0"


def count_in_force(storage: Storage, snapshot: Snapshot) -> int:
    return int(index_in_force(storage, snapshot.timeline, BOUND).option(COUNT))


def write(
    storage: Storage, batch: Batch, host: Host, *, config: WriteConfig = CONFIG, begin: Begin = begin_write
) -> str:
    """One attempt of a run: an upsert, a rescaling, or an overwrite. Returns the instant."""
    table = Table.open(storage)
    session = begin(table, batch.identity, "UPSERT", config, host=host, verify=verify_rows)
    if isinstance(session, AlreadyDone):
        return session.instant
    attempt = rescale if isinstance(batch, Rescale) else overwrite if isinstance(batch, Overwrite) else upsert
    return until_published(session, config, lambda: attempt(table, session, batch, host))


def upsert(table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    """Rows into the group of their bucket, a new one where there is none."""
    storage, snapshot = table.storage, table.snapshot()
    count = count_in_force(storage, snapshot)
    live = {file.file_id[:8]: file for file in snapshot.base_files(PARTITION)}
    planned: list[PlannedFile] = []
    contents: list[Rows] = []
    new_keys: set[str] = set()
    for bucket, rows in enumerate(bucket_groups(batch.rows, count)):
        if not rows:
            continue
        old = live.get(f"{bucket:08d}")
        stored = {} if old is None else read_rows(storage, old)
        new_keys |= rows.keys() - stored.keys()
        name = old.file_id if old is not None else group_id(bucket, host.new_token())
        planned.append(PlannedFile(PARTITION, name, "0-0-0", old, len(rows), 0))
        contents.append({**stored, **rows})

    def recheck(files: Sequence[BaseFile]) -> None:
        for file in files:
            if new_keys & set(read_rows(storage, file)):
                raise WriteConflictError("key committed meanwhile", culprit=file.path)

    digest = str([(one.previous.path if one.previous else "", count) for one in planned])
    return _put(table, session, snapshot, (planned, contents, digest), recheck)


def rescale(table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    """Every file group into new ones of the new count."""
    assert isinstance(batch, Rescale)
    storage, snapshot = table.storage, table.snapshot()
    old = snapshot.base_files(PARTITION)
    everything: dict[str, str] = {}
    for file in old:
        everything.update(read_rows(storage, file))
    groups = [(b, rows) for b, rows in enumerate(bucket_groups(everything, batch.count)) if rows]
    tail = host.new_token()
    planned = [PlannedFile(PARTITION, group_id(b, tail), "0-0-0", None, 0, len(rows)) for b, rows in groups]
    replaced = Replacement(old, index_record(spec_of(batch.count)), everywhere=True)
    digest = str([one.path for one in old])
    return _put(table, session, snapshot, (planned, [rows for _, rows in groups], digest), lambda _: None, replaced)


def overwrite(table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    """New groups of the batch's rows in the place of all that are there."""
    storage, snapshot = table.storage, table.snapshot()
    old = snapshot.base_files(PARTITION)
    groups = [(b, rows) for b, rows in enumerate(bucket_groups(batch.rows, count_in_force(storage, snapshot))) if rows]
    tail = host.new_token()
    planned = [PlannedFile(PARTITION, group_id(b, tail), "0-0-0", None, 0, len(rows)) for b, rows in groups]
    digest = str(("overwrite", [one.path for one in old], len(groups)))
    content = (planned, [rows for _, rows in groups], digest)
    return _put(table, session, snapshot, content, lambda _: None, Replacement(old))


def _put(
    table: Table,
    session: WriteSession,
    snapshot: Snapshot,
    content: tuple[Sequence[PlannedFile], Sequence[Rows], str],
    recheck: Callable[[Sequence[BaseFile]], None],
    replaced: Replacement | None = None,
) -> str:
    planned, contents, digest = content
    plan = session.plan(planned, snapshot.instant_time, digest, replaced)
    stats, expected = [], []
    for file, one, rows in zip(plan.files, plan.planned, contents, strict=True):
        data = encode_rows(rows)
        table.storage.write(file.path, data)
        stats.append(stat_of(file, rows, one.previous))
        expected.append(ExpectedFile(file.path, len(data), len(rows)))
    gone: dict[str, tuple[str, ...]] = (
        {PARTITION: tuple(file.file_id for file in plan.replacement.files)} if plan.replacement is not None else {}
    )
    written = {PARTITION: tuple(stats)}
    rewrites = replaced is not None and replaced.index is not None
    operation = "CLUSTER" if rewrites else "UPSERT" if replaced is None else "INSERT_OVERWRITE"
    gone = {partition: ids for partition, ids in gone.items() if ids}
    commit = CommitMetadata(written, operation, {"schema": "{}"}, replaced_file_ids=gone)
    known, alone_in = snapshot.timeline.completed_write_times, frozenset({PARTITION} if replaced is not None else ())
    guards = PublishGuards((recheck,), known, alone_in=alone_in)
    return session.publish(commit, tuple(expected), guards, "{}")


def check_buckets(store: MemoryStorage) -> None:
    """Every key is where the count in force puts it, and no bucket has two groups."""
    snapshot = Table.open(store).snapshot()
    count = count_in_force(store, snapshot)
    seen: dict[int, str] = {}
    for file in snapshot.base_files(PARTITION):
        bucket = int(file.file_id[:8])
        assert bucket < count, f"bucket {bucket} of {count}: {file.path}"
        assert seen.setdefault(bucket, file.path) == file.path, f"bucket {bucket} has two groups"
        for key in read_rows(store, file):
            assert bucket_of_key(key, count) == bucket, f"key {key!r} is in bucket {bucket} of {count}"
    changes = [path for path in store.snapshot() if "/.lakeindex/buckets/" in path]
    completed = snapshot.timeline.completed_write_times
    dead = [path for path in changes if path.rpartition("/")[2].removesuffix(".json") not in completed]
    assert not dead, f"dead changes left: {dead}"


def counts_of(store: MemoryStorage) -> Mapping[str, int]:
    """Live file groups and their rows."""
    files = Table.open(store).snapshot().base_files(PARTITION)
    return {file.file_id: len(read_rows(store, file)) for file in files}
