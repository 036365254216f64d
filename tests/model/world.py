"""A tiny table whose data files are JSON, and writers that run the real commit protocol on it."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.commit.run_records import RunIdentity
from lakeindex.commit.services.archive import entry_key
from lakeindex.commit.services.metadata_service import committed_files
from lakeindex.commit.sweep import Stray, find_strays, sweep_all
from lakeindex.commit.write_session import (
    AlreadyDone,
    Clustering,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    WriteSession,
    begin_write,
)
from lakeindex.errors import InvariantError, ObjectNotFoundError, StorageError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.instants import (
    CLEAN,
    COMMIT,
    DELTA_COMMIT,
    REPLACE_COMMIT,
    ROLLBACK,
    TIME_DIGITS,
    WRITE_ACTIONS,
    parse_instant,
)
from lakeindex.format.java_properties import format_properties
from lakeindex.format.partitions import PartitionMetadata, format_partition_metadata
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.operations.metadata import find_faults
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import MemoryStorage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, Process
from lakeindex.table.properties import metadata_table_of, parse_table_properties
from lakeindex.timeline import lsm_archive
from lakeindex.timeline.archived_timeline import read_avro_records
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    format_requested_replace,
    parse_clean_metadata,
)
from lakeindex.timeline.layout import layout_of_version
from lakeindex.timeline.timeline import Timeline
from tests.builders import VERSION

PARTITION = "p"
FIRST = "20251231000000000"
# the stores of the model keep no time: their files are as old as the story
CONFIG = WriteConfig(lock_lease_seconds=2, lock_wait_seconds=60, conflict_retries=5, clock_max_skew_seconds=0)
PROPERTIES = {
    "hoodie.table.name": "model",
    "hoodie.table.type": "COPY_ON_WRITE",
    "hoodie.table.version": VERSION or "6",
    "hoodie.timeline.layout.version": str(layout_of_version(int(VERSION or 6))),
    "hoodie.table.base.file.format": "PARQUET",
    "hoodie.archivelog.folder": "archived",
    "hoodie.populate.meta.fields": "true",
    "hoodie.table.recordkey.fields": "id",
    "hoodie.table.partition.fields": "region",
    "hoodie.table.keygenerator.class": "org.apache.hudi.keygen.SimpleKeyGenerator",
    "hoodie.table.timeline.timezone": "UTC",
}
LAYOUT = parse_table_properties(PROPERTIES).timeline_layout
Rows = Mapping[str, str]


def timeline_path(time: str, state: InstantState, action: str = COMMIT) -> str:
    """Path of an instant's file; what is completed was so half a second after it was requested."""
    ended = f"{int(time) + 500}" if state is InstantState.COMPLETED and LAYOUT.has_completion_times else None
    return LAYOUT.path(Instant(time, action, state, ended))


def completed_at(objects: Iterable[str], time: str) -> str | None:
    """Path of the completed write of an instant, if it is there."""
    for path in objects:
        folder, _, name = path.rpartition("/")
        found = parse_instant(name) if folder == LAYOUT.folder else None
        if found is not None and found.time == time and found.is_completed and found.action in WRITE_ACTIONS:
            return path
    return None


@dataclass(frozen=True)
class Batch:
    """What one run writes."""

    run_id: str
    rows: Rows
    batch_id: str = ""
    digest: str = "d1"

    @property
    def identity(self) -> RunIdentity:
        return RunIdentity(self.run_id, self.batch_id or f"batch of {self.run_id}", self.digest)


@dataclass(frozen=True)
class Overwrite(Batch):
    """What one run puts in the place of all rows; nothing, if it has none: the partition is emptied."""


@dataclass(frozen=True)
class Cluster(Batch):
    """A run that puts the rows of all file groups, as they are, into one."""


def file_id(number: int) -> str:
    return f"{uuid.UUID(int=number)}-0"


def encode_rows(rows: Rows) -> bytes:
    return json.dumps(dict(sorted(rows.items()))).encode()


def initial_objects(groups: Sequence[Rows], id_of: Callable[[int], str] = file_id) -> dict[str, bytes]:
    """A table with one commit, and one file group for each of ``groups``."""
    files = [BaseFile(PARTITION, id_of(n), FIRST, "0-0-0") for n in range(len(groups))]
    stats = tuple(stat_of(file, rows, None) for file, rows in zip(files, groups, strict=True))
    objects = {
        ".hoodie/hoodie.properties": format_properties(PROPERTIES),
        f"{PARTITION}/.hoodie_partition_metadata": format_partition_metadata(PartitionMetadata(FIRST, 1)),
        timeline_path(FIRST, InstantState.REQUESTED): b"",
        timeline_path(FIRST, InstantState.INFLIGHT): b"",
        timeline_path(FIRST, InstantState.COMPLETED): LAYOUT.encode_commit(
            CommitMetadata({PARTITION: stats}, "UPSERT")
        ),
    }
    objects.update({file.path: encode_rows(rows) for file, rows in zip(files, groups, strict=True)})
    return objects


def stat_of(file: BaseFile, rows: Rows, previous: BaseFile | None) -> WriteStat:
    size = len(encode_rows(rows))
    return WriteStat(
        file.file_id,
        file.path,
        PARTITION,
        previous.instant_time if previous else "null",
        num_writes=len(rows),
        file_size_bytes=size,
        total_write_bytes=size,
    )


def verify_rows(storage: Storage, file: BaseFile, expected: ExpectedFile) -> None:
    """The stand-in for reading a Parquet footer."""
    try:
        data = storage.read(file.path)
        rows = json.loads(data)
    except (ObjectNotFoundError, ValueError) as error:
        raise StorageError(f"data file {file.path} is missing or torn: {error}", culprit=file.path) from None
    if len(data) != expected.size_bytes:
        raise StorageError(f"data file {file.path} has another size", culprit=file.path)
    if len(rows) != expected.rows:
        raise InvariantError("row count", culprit=file.path)


def read_rows(storage: Storage, file: BaseFile) -> dict[str, str]:
    """Values by key: of a stand-in, or of a real base file."""
    data = storage.read(file.path)
    if data.startswith(b"PAR1"):
        rows = pq.ParquetFile(pa.BufferReader(data)).read(["_hoodie_record_key", "v"], use_threads=False)
        return dict(zip(*(column.to_pylist() for column in rows.columns), strict=True))
    return dict(json.loads(data))


def live_rows(storage: Storage) -> dict[str, list[str]]:
    """key -> its values in all live files; more than one is a doubled key."""
    found: dict[str, list[str]] = {}
    for file in Table.open(storage).snapshot().base_files_all():
        for key, value in read_rows(storage, file).items():
            found.setdefault(key, []).append(value)
    return found


@dataclass(frozen=True)
class Merge:
    """New content of the files, from a snapshot and a batch."""

    planned: tuple[PlannedFile, ...]
    contents: tuple[Rows, ...]

    @property
    def digest(self) -> str:
        return json.dumps([[one.previous.path if one.previous else "", sorted(rows)] for one, rows in self._pairs()])

    def _pairs(self) -> list[tuple[PlannedFile, Rows]]:
        return list(zip(self.planned, self.contents, strict=True))


def merge(storage: Storage, snapshot: Snapshot, rows: Rows, new_group: str) -> Merge:
    planned: list[PlannedFile] = []
    contents: list[Rows] = []
    left = dict(rows)
    for file in snapshot.base_files(PARTITION):
        stored = read_rows(storage, file)
        touched = {key: left.pop(key) for key in list(left) if key in stored}
        if touched:
            planned.append(PlannedFile(PARTITION, file.file_id, "0-0-0", file, len(touched)))
            contents.append({**stored, **touched})
    if left:
        planned.append(PlannedFile(PARTITION, new_group, "1-0-0", None, 0, len(left)))
        contents.append(left)
    return Merge(tuple(planned), tuple(contents))


def upsert(
    storage: Storage,
    batch: Batch,
    host: Host,
    *,
    config: WriteConfig = CONFIG,
    begin: Callable[..., WriteSession | AlreadyDone] = begin_write,
) -> str:
    """One attempt of a run, from look-up to publish, as the merge stage does it. Returns the instant.

    Inserted keys are not looked for again: batches of this world share none. Those of :mod:`tests.model.parquet_world` do.
    """
    table = Table.open(storage)
    session = begin(table, batch.identity, "UPSERT", config, host=host, verify=verify_rows)
    if isinstance(session, AlreadyDone):
        return session.instant
    attempt = _cluster_and_publish if isinstance(batch, Cluster) else _merge_and_publish
    return until_published(session, config, lambda: attempt(storage, table, session, batch, host))


def sweep_strays(table: Table, config: WriteConfig, host: Host) -> tuple[Stray, ...]:
    """What a table's upkeep does about strays: under the lock, of the whole table."""
    context = WriteContext(table, host, config)
    with context.locked("sweeping strays"):
        return sweep_all(context)


def until_published(session: WriteSession, config: WriteConfig, attempt: Callable[[], str]) -> str:
    """Attempts of a run, as many as it has; the instant of the one that was published. Closes the session."""
    try:
        for left in reversed(range(config.conflict_retries + 1)):
            try:
                return attempt()
            except WriteConflictError:
                session.abandon()
                if not left:
                    raise
    finally:
        session.close()
    raise AssertionError("unreachable")


def _merge_and_publish(storage: Storage, table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    snapshot = table.snapshot()
    new_group = f"{uuid.uuid5(uuid.NAMESPACE_OID, host.new_token())}-0"
    merged = merge(storage, snapshot, batch.rows, new_group)
    plan = session.plan(merged.planned, snapshot.instant_time, merged.digest)
    stats, expected = [], []
    for file, one, rows in zip(plan.files, plan.planned, merged.contents, strict=True):
        data = encode_rows(rows)
        storage.write(file.path, data)
        stats.append(stat_of(file, rows, one.previous))
        expected.append(ExpectedFile(file.path, len(data), len(rows)))
    commit = CommitMetadata({PARTITION: tuple(stats)}, "UPSERT", {"schema": "{}"})
    guards = PublishGuards(known_writes=snapshot.timeline.completed_write_times)
    return session.publish(commit, tuple(expected), guards, "{}")


def _cluster_and_publish(storage: Storage, table: Table, session: WriteSession, batch: Batch, host: Host) -> str:
    snapshot = table.snapshot()
    old = snapshot.base_files(PARTITION)
    rows = {key: value for file in old for key, value in read_rows(storage, file).items()}
    new_group = f"{uuid.uuid5(uuid.NAMESPACE_OID, host.new_token())}-0"
    planned = (PlannedFile(PARTITION, new_group, "2-0-0", None, 0, len(rows)),)
    slices = tuple(ClusteringSlice(PARTITION, file.file_id, file.path) for file in old)
    requested = format_requested_replace(RequestedReplace("CLUSTER", (ClusteringGroup(slices),)))
    replaced = Replacement(old, begins_as=LAYOUT.clustering, groups_only=True)
    digest = json.dumps(["cluster", *(file.path for file in old)])
    plan = session.plan(planned, snapshot.instant_time, digest, replaced, Clustering(requested))
    (file,), data = plan.files, encode_rows(rows)
    storage.write(file.path, data)
    gone = {PARTITION: tuple(one.file_id for one in old)}
    commit = CommitMetadata(
        {PARTITION: (stat_of(file, rows, None),)}, "CLUSTER", {"schema": "{}"}, replaced_file_ids=gone
    )
    guards = PublishGuards(known_writes=snapshot.timeline.completed_write_times)
    return session.publish(commit, (ExpectedFile(file.path, len(data), len(rows)),), guards, "{}")


def make_host(name: str, clock: object, gone: Callable[[Process], bool]) -> Host:
    """A deterministic host: its tokens are counted."""
    counter = iter(range(1_000_000))
    process = Process("model", sum(name.encode()), name)
    return Host(clock, process, gone, lambda: f"{name}-{next(counter)}", heartbeat=False)  # type: ignore[arg-type]


class PlainClock:
    """Time for what runs alone: sleeping passes it."""

    def __init__(self, now_ms: int) -> None:
        self._now = now_ms

    def now_ms(self) -> int:
        return self._now

    def sleep(self, seconds: float) -> None:
        self._now += max(int(seconds * 1000), 1)


def check_commit_is_whole(store: MemoryStorage, path: str) -> None:
    """At the moment a commit appears, every file it names is there and whole."""
    objects = store.snapshot()
    metadata = LAYOUT.decode_commit(objects[path], path)
    for stat in metadata.stats():
        assert stat.path in objects, f"{path} was published without {stat.path}"
        size = len(objects[stat.path])
        assert size == stat.file_size_bytes, f"{path} was published with {stat.path} torn ({size} bytes)"


def check_table(
    store: MemoryStorage,
    batches: Sequence[Batch],
    base: Rows,
    committed: Mapping[str, str],
    foreign: Sequence[Rows] = (),
    *,
    order: Sequence[str] | None = None,
) -> None:
    """The invariants, after everything has come to rest and was recovered.

    Args:
        store: the table.
        batches: all batches; every one has been committed.
        base: rows of the initial table.
        committed: batch id -> instants that were reported to callers.
        foreign: rows that another kind of writer has committed.
        order: instants in the order in which they were completed; None: as they were taken, where writers came one after another.
    """
    timeline = Table.open(store).load_timeline()
    commits = _check_timeline(store, timeline)
    by_batch: dict[str, list[str]] = {}
    for time, metadata in commits.items():
        batch_id = metadata.extra_metadata.get("lakeindex.batch_id")
        if batch_id is not None:
            by_batch.setdefault(batch_id, []).append(time)
    for batch in batches:
        times = by_batch.get(batch.identity.batch_id, [])
        assert len(times) == 1, f"{batch.identity.batch_id!r} was committed {len(times)} times: {times}"
        told = committed.get(batch.identity.batch_id, times[0])
        assert told == times[0], f"{batch.identity.batch_id!r} was reported as {told}, and is {times[0]}"
    ordered = {time: commits[time] for time in (sorted(commits) if order is None else order)}
    assert ordered.keys() == commits.keys(), f"completed {order}, on the timeline {sorted(commits)}"
    check_rows(store, _last_committed(ordered, batches, base, foreign))
    _check_files(store, commits)


def check_metadata(store: MemoryStorage) -> None:
    """The metadata table, if there is one, says what is there, and of no instant that the table does not have."""
    table = Table.open(store)
    metadata = metadata_table_of(store, table.properties)
    if metadata is None:
        return
    view = MetadataView.load(metadata, table.load_timeline())
    assert list(find_faults(view, committed_files(table.listed_snapshot()))) == []
    check_named(table)
    times = {one.time for one in view.timeline.files if one.action == DELTA_COMMIT and len(one.time) == TIME_DIGITS}
    unknown = {time for time in times if not view.data.find(time) and time >= (view.data.first_write_time or "")}
    assert not unknown, "a delta commit outlived its instant"
    pending = {one.time for one in view.timeline.pending} - view.data.pending_times
    assert not pending, "what keeps up with a completed action is completed"


def check_named(table: Table) -> None:
    """Who takes the files from the metadata table sees what who lists the folders does: what a clean that was cut short
    has deleted it still names.
    """
    timeline = table.load_timeline()
    named, listed = table.snapshot(timeline=timeline), table.listed_snapshot(timeline)
    is_cleaning = any(one.action == CLEAN for one in timeline.pending)
    for partition in {*named.partitions(), *listed.partitions()}:
        ours, theirs = named.files_of(partition), listed.files_of(partition)
        assert (ours.live, ours.doubles) == (theirs.live, ()), partition
        assert set(ours.older) >= set(theirs.older), partition
        assert set(ours.older) == set(theirs.older) or is_cleaning, partition
    assert named.partitions_named


def _check_timeline(store: MemoryStorage, timeline: Timeline) -> dict[str, CommitMetadata]:
    others = _rollbacks_of_others(store, timeline)
    pending = [one for one in timeline.pending if one.time not in others]
    assert not pending, f"left pending: {pending}"
    actions: dict[str, str] = {}
    states: dict[tuple[str, str], set[InstantState]] = {}
    for one in timeline.files:
        assert actions.setdefault(one.time, one.action) == one.action, f"{one.time} is shared by two actions"
        states.setdefault((one.time, one.action), set()).add(one.state)
    for (time, action), found in states.items():
        if action in (COMMIT, REPLACE_COMMIT, ROLLBACK) and time not in others:
            assert found == set(InstantState), f"{time} {action} has only {sorted(found)}"
    return {one.time: timeline.commit_metadata(store, one) for one in timeline.completed_writes}


def _rollbacks_of_others(store: MemoryStorage, timeline: Timeline) -> frozenset[str]:
    """Rollbacks that Hudi did not finish: its own next run takes them up; they are in nobody's way."""
    objects = store.snapshot()
    paths = {one.time: timeline_path(one.time, InstantState.REQUESTED, ROLLBACK) for one in timeline.files}
    return frozenset(time for time, path in paths.items() if path in objects and OWN_SYNC_MARKER not in objects[path])


def _last_committed(
    commits: Mapping[str, CommitMetadata], batches: Sequence[Batch], base: Rows, foreign: Sequence[Rows]
) -> dict[str, str]:
    """The value of each key that was committed last; the commits come in the order in which they were completed."""
    batch_of = {batch.identity.batch_id: batch for batch in batches}
    expected = dict(base)
    for time, metadata in commits.items():
        if time == FIRST:
            continue
        batch_id = metadata.extra_metadata.get("lakeindex.batch_id")
        if batch_id is not None and isinstance(batch_of[batch_id], Overwrite):
            expected.clear()
        for rows in foreign if batch_id is None else [batch_of[batch_id].rows]:
            expected.update(rows)
    return expected


def check_rows(store: MemoryStorage, expected: Rows) -> None:
    """Every key once, with this value; no other keys."""
    found = live_rows(store)
    doubled = {key: values for key, values in found.items() if len(values) > 1}
    assert not doubled, f"doubled keys: {doubled}"
    assert set(found) == set(expected), (
        f"lost {sorted(set(expected) - set(found))}, odd {sorted(set(found) - set(expected))}"
    )
    wrong = {key: values[0] for key, values in found.items() if values[0] != expected[key]}
    assert not wrong, f"lost updates: {wrong}, last committed: { {key: expected[key] for key in wrong} }"


def _cleaned(store: MemoryStorage) -> frozenset[str]:
    """Paths of the files that completed cleans deleted."""
    timeline = Table.open(store).load_timeline()
    cleans = (timeline.path(one) for one in timeline.completed if one.action == CLEAN)
    found = (parse_clean_metadata(store.read(path), path).deleted for path in cleans)
    return frozenset(f"{part}/{name}" for deleted in found for part, names in deleted.items() for name in names)


def _check_files(store: MemoryStorage, commits: Mapping[str, CommitMetadata]) -> None:
    objects = store.snapshot()
    named = {stat.path: stat.file_size_bytes for metadata in commits.values() for stat in metadata.stats()}
    cleaned = _cleaned(store)
    for path, size in named.items():
        if path in cleaned:
            assert path not in objects, f"{path} was cleaned and is there"
            continue
        assert path in objects, f"{path} is committed and gone"
        assert len(objects[path]) == size, f"{path} is torn"
    strays = find_strays(Table.open(store))
    assert not strays, f"strays: {strays}"
    unnamed = {path for path in objects if path.endswith(".parquet")} - set(named)
    assert not unnamed, f"not in any commit: {sorted(unnamed)}"
    ours = {path.rpartition("/")[2].removesuffix(".json") for path in objects if "/.lakeindex/verdicts/" in path}
    temp = [path for path in objects if path.startswith(".hoodie/.temp/") and path.split("/")[2] in ours]
    assert not temp, f"markers left: {temp}"
    claims = [path for path in objects if "/.lakeindex/instants/" in path]
    assert not claims, f"claims left: {claims}"


def archived_instants(store: MemoryStorage) -> list[tuple[str, str]]:
    """Time and action of each completed instant in the archive, as often as it is there."""
    folder = LAYOUT.archive_folder
    if LAYOUT.has_completion_times:
        files = [f"{folder}/{one.name}" for one in lsm_archive.load_manifest(store, folder).files]
        return [(row.time, row.action) for path in files for row in lsm_archive.parse_rows(store.read(path), path)]
    logs = [path for path in store.snapshot() if path.startswith(f"{folder}/")]
    keys = (entry_key(one) for path in logs for one in read_avro_records(store.read(path), path))
    return [key for key in keys if key is not None]
