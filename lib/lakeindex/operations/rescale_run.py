"""The run of a rescaling: what has to be rewritten, the two phases of tasks, the replacecommit.

Two phases, so that every base file is read once and written once whatever the counts are, and no task holds more than
one base file: *split* takes one old file apart into one object of Arrow streams, one a bucket, in the run's folder;
*build* reads one bucket's stream of every split file of the partition and writes the new base file. Both leave a record
of what they did: a run that is started again after a kill goes on where it was.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commit.run_records import run_folder
from lakeindex.commit.write_queue import EVERYTHING
from lakeindex.commit.write_session import (
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    Replacement,
    RunIdentity,
    WriteSession,
)
from lakeindex.conductor.open_for_write import retry_on_conflict
from lakeindex.errors import (
    MOVED_ERRORS,
    REPAIR_KEYS,
    InvariantError,
    ObjectNotFoundError,
    TableCorruptError,
    WriteConflictError,
    first_line,
)
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, footer_entry
from lakeindex.format.file_names import write_token
from lakeindex.hashing.row_digest import RowDigest, digest_rows, sum_of
from lakeindex.index.bucket import bucket_ids, bucket_of, file_id_of, groups_by_bucket
from lakeindex.index.bucket_options import COUNT_OPTION, FIELDS_OPTION, RULES_OPTION, BucketLayout, spec_of
from lakeindex.model import ARRANGING_OPERATION, BaseFile
from lakeindex.operations.rows.aligned_rows import align, aligned_row_groups, open_base_file, row_schema
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import open_pages, read_groups
from lakeindex.parquet.stamps import digest_in
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.spec import BoundTable
from lakeindex.showing.json_result import TableResult
from lakeindex.showing.json_values import json_of
from lakeindex.stages.merge_write.file_slices import new_file_stat
from lakeindex.storage.port import Storage
from lakeindex.table.index_changes import index_change_times, index_record, newest_in_force
from lakeindex.table.refusals import check_stores_keys
from lakeindex.table.table_columns import written_schema
from lakeindex.tasks.runner import Runner, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records
from lakeindex.timeline.records import key_of
from lakeindex.write.base_file import FILE_NAME, RECORD_KEY, constant_column, encode_base_file
from lakeindex.write.types.avro_schema import schema_to_avro

OPERATION: Final = ARRANGING_OPERATION
"""Incremental readers may pass it over."""
_OPEN_COST: Final = 1_000_000.0
_HUDI_OPTIONS: Final = (COUNT_OPTION, FIELDS_OPTION, RULES_OPTION)


@dataclass(frozen=True, slots=True)
class BucketPiece:
    """Rows of one old file that go into one bucket: where their Arrow stream is."""

    path: str
    start: int
    length: int
    rows: int


@dataclass(frozen=True, slots=True)
class SplitTask:
    """Take one old base file apart.

    Attributes:
        schema: its columns, without meta columns.
        layout: where keys belong from now on.
        target: the object to write, without its ending.
    """

    table_uri: str
    schema: pa.Schema
    old: BaseFile
    layout: BucketLayout
    target: str


@dataclass(frozen=True, slots=True)
class SplitFile:
    """An old base file that was taken apart.

    Attributes:
        pieces: bucket -> its rows.
        digest: of all rows, without the file's name.
    """

    old: BaseFile
    pieces: dict[int, BucketPiece]
    digest: RowDigest


@dataclass(frozen=True, slots=True)
class BuildTask:
    """Write one new base file.

    Attributes:
        table_uri: the table.
        table_name: for the Avro schema in the footer.
        record: where to leave what was written.
    """

    table_uri: str
    table_name: str
    schema: pa.Schema
    config: WriteConfig
    new: BaseFile
    pieces: tuple[BucketPiece, ...]
    record: str


@dataclass(frozen=True, slots=True)
class BuiltFile:
    """A new base file, with its size, the digest of its rows as they are read back, and that of its footer."""

    file: BaseFile
    digest: RowDigest
    footer: str = ""


def split_files(tasks: tuple[SplitTask, ...]) -> tuple[SplitFile, ...]:
    return tuple(_split(task) for task in tasks)


def build_files(tasks: tuple[BuildTask, ...]) -> tuple[BuiltFile, ...]:
    """Several files, one after the other."""
    return tuple(_build(task) for task in tasks)


def digest_without_name(rows: pa.Table) -> RowDigest:
    """Digest of every column but the file's name, which a rewrite changes."""
    return digest_rows(rows.drop_columns([FILE_NAME]))


def _split(task: SplitTask) -> SplitFile:
    store = storage_at(task.table_uri)
    done = records.load(store, f"{task.target}.json")
    if done:
        known = {int(bucket): BucketPiece(**piece) for bucket, piece in done["pieces"].items()}
        return SplitFile(task.old, known, RowDigest(**done["digest"]))
    schema = row_schema(task.schema)
    groups = list(aligned_row_groups(open_base_file(store, task.old), task.old, schema))
    rows = pa.concat_tables(groups) if groups else schema.empty_table()
    keys = rows.column(RECORD_KEY)
    if keys.null_count:
        raise TableCorruptError(
            f"base file {task.old.path!r} has a row without a record key",
            culprit=task.old.path,
            hint="run `lakeindex check`",
        )
    buckets = bucket_ids(keys, task.layout.count_of(task.old.partition_path), task.layout)
    order = np.argsort(buckets, kind="stable")
    found, starts = np.unique(buckets[order], return_index=True)
    data = bytearray()
    pieces: dict[int, BucketPiece] = {}
    for bucket, places in zip(found.tolist(), np.split(order, starts[1:]) if len(found) else [], strict=True):
        stream = _stream(rows.take(pa.array(places)))
        pieces[bucket] = BucketPiece(f"{task.target}.arrow", len(data), len(stream), len(places))
        data += stream
    split = SplitFile(task.old, pieces, digest_without_name(rows))
    store.write(f"{task.target}.arrow", bytes(data))
    record = {"pieces": {str(b): json_of(p) for b, p in pieces.items()}, "digest": json_of(split.digest)}
    store.sync([f"{task.target}.arrow"])  # a note must not outlive what it is about
    store.write(f"{task.target}.json", records.encode(record))
    return split


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def _build(task: BuildTask) -> BuiltFile:
    store = storage_at(task.table_uri)
    done = _built_before(store, task)
    if done is not None:
        return done
    schema = row_schema(task.schema)
    rows = pa.concat_tables([schema.empty_table(), *(_read_piece(store, piece) for piece in task.pieces)])
    rows = rows.take(pc.sort_indices(rows.column(RECORD_KEY)))
    _check_unique(rows.column(RECORD_KEY), task.new)
    named = rows.set_column(
        rows.column_names.index(FILE_NAME), FILE_NAME, constant_column(task.new.name, rows.num_rows)
    )
    data = encode_base_file(named, task.table_name, task.schema, task.config)
    encoded = open_pages(pa.BufferReader(data))
    again = align(read_groups(encoded, range(encoded.num_row_groups)), task.new, schema)
    digest = digest_without_name(again)
    store.write(task.new.path, data)
    store.sync([task.new.path])
    built = BuiltFile(_sized(task.new, len(data)), digest, digest_in(data))
    store.write(task.record, records.encode({"size": len(data), "digest": json_of(digest), "footer": built.footer}))
    return built


def _built_before(store: Storage, task: BuildTask) -> BuiltFile | None:
    done = records.load(store, task.record)
    if not done:
        return None
    try:
        size = store.head(task.new.path).size_bytes
    except ObjectNotFoundError:
        return None
    if size != done["size"]:
        return None
    return BuiltFile(_sized(task.new, size), RowDigest(**done["digest"]), done.get("footer", ""))


def _sized(file: BaseFile, size: int) -> BaseFile:
    return BaseFile(file.partition_path, file.file_id, file.instant_time, file.write_token, size)


def _read_piece(store: Storage, piece: BucketPiece) -> pa.Table:
    try:
        data = store.read_range(piece.path, piece.start, piece.length)
        rows = pa.ipc.open_stream(data).read_all()
    except (pa.ArrowException, OSError) as error:
        records.remove(store, [_record_of(piece.path)])  # the next run makes it again
        raise InvariantError(
            f"{piece.path} cannot be read: {first_line(error)}",
            culprit=piece.path,
            hint="nothing was published; run again",
        ) from error
    return rows


def _record_of(path: str) -> str:
    return f"{path.removesuffix('.arrow')}.json"


def _check_unique(keys: pa.ChunkedArray, file: BaseFile) -> None:
    """Sorted keys have no twins: a bucket that held a key twice could not be upserted into."""
    joined = keys.combine_chunks()
    joined = joined.chunk(0) if isinstance(joined, pa.ChunkedArray) and joined.num_chunks else joined
    if len(joined) < 2:
        return
    twins = pc.equal(joined.slice(1), joined.slice(0, len(joined) - 1))
    place = pc.index(twins, value=True).as_py()
    if place >= 0:
        key = joined[place].as_py()
        raise TableCorruptError(
            f"key {key!r} is stored more than once in partition {file.partition_path!r}",
            culprit=key,
            hint=f"{REPAIR_KEYS}; then rescale",
        )


@dataclass(frozen=True, slots=True)
class RescaledPartition:
    """A partition that is rewritten.

    Attributes:
        partition: its path.
        buckets_before: its count; None if the table was no bucket table.
        buckets_after: its count from now on.
        files: base files that are replaced.
        bytes: their size.
    """

    partition: str
    buckets_before: int | None
    buckets_after: int
    files: int
    bytes: int


@dataclass(frozen=True, slots=True)
class RescaleSummary(TableResult):
    """What a rescaling did, or would do.

    Attributes:
        instant: the replacecommit; None if nothing was to be done, or nothing was done yet.
        noop: whether the table was as asked already.
        dry_run: whether only the plan was asked for.
        partitions: what is rewritten, by path.
        rows: rows that were rewritten.
        files_replaced: base files that are no part of the table any more.
        files_created: base files that are there instead.
        bytes_written: size of the latter.
        hudi_options: what Hudi writers have to say from now on.
        seconds: how long it took.
        notes: what was done to other writers' instants.
    """

    shown_by: ClassVar[str] = "results:show_rescaled"

    instant: str | None
    noop: bool
    dry_run: bool
    partitions: tuple[RescaledPartition, ...]
    rows: int
    files_replaced: int
    files_created: int
    bytes_written: int
    hudi_options: Mapping[str, str]
    seconds: float
    notes: tuple[str, ...] = ()


class Rescale:
    """One rewrite, attempt by attempt."""

    def __init__(
        self,
        opened: BoundTable,
        layout: BucketLayout | None,
        target: BucketLayout,
        runner: Runner,
        config: WriteConfig,
    ) -> None:
        check_stores_keys(opened.table.properties, "a rewrite into other buckets")
        self._table = opened.table
        self._facts = opened.facts
        self._layout = layout
        self._target = target
        self._runner = runner
        self._config = config
        changed = newest_in_force(opened.snapshot.timeline, index_change_times(opened.table.storage))
        self._asked = digest_of_text(str(opened.index), str(spec_of(target)), changed or "")

    def identity(self) -> RunIdentity:
        """The same for the same change of the same index, so that a killed run is taken up again."""
        name = f"rescale {self._asked}"
        return RunIdentity(name, name, self._asked)

    def partitions(self, snapshot: Snapshot) -> dict[str, tuple[BaseFile, ...]]:
        """Live files of the partitions that have to be rewritten:
        another count, or groups that no bucket index makes.
        """
        found: dict[str, tuple[BaseFile, ...]] = {}
        for path in snapshot.partitions():
            files = snapshot.base_files(path)
            if files and not self._is_right(path, files):
                found[path] = files
        return found

    def run(self, session: WriteSession, identity: RunIdentity, started: float) -> RescaleSummary:
        """Rewrite and publish; anew while other writers change what it rests on.

        Raises:
            WriteConflictError: they do so too often, or have changed the index.
        """
        session.take_turn(EVERYTHING)  # later writers wait: one small batch would make all of this in vain

        def attempt(snapshot: Snapshot) -> RescaleSummary:
            try:
                return self._attempt(session, identity, snapshot, started)
            except (*MOVED_ERRORS, InvariantError):
                session.abandon()  # whether or not there is another try: nothing is left pending
                raise

        return retry_on_conflict(self._table, self._config, attempt, who=f"run {identity.run_id}")

    def _attempt(
        self, session: WriteSession, identity: RunIdentity, snapshot: Snapshot, started: float
    ) -> RescaleSummary:
        self._check_index(snapshot)
        self._facts = replace(self._facts, schema=written_schema(self._table, snapshot))
        built = self._write(session, identity, snapshot)
        report = self.summary(snapshot, session.instant, built, started)
        instant = self._publish(session, snapshot, built, report)
        seconds = round(time.perf_counter() - started, 4)
        return replace(report, instant=instant, seconds=seconds, notes=session.notes)

    def summary(
        self,
        snapshot: Snapshot,
        instant: str | None,
        built: Sequence[BuiltFile],
        started: float,
        *,
        noop: bool = False,
        dry_run: bool = False,
    ) -> RescaleSummary:
        plan = self.partitions(snapshot)
        options = {key: text for key, text in self._target.options().items() if key in _HUDI_OPTIONS and text}
        return RescaleSummary(
            table=self._table.name,
            uri=self._table.uri,
            instant=instant,
            noop=noop,
            dry_run=dry_run,
            partitions=tuple(
                RescaledPartition(
                    path,
                    None if self._layout is None else self._layout.count_of(path),
                    self._target.count_of(path),
                    len(files),
                    sum(file.size_bytes for file in files),
                )
                for path, files in sorted(plan.items())
            ),
            rows=sum(one.digest.rows for one in built),
            files_replaced=0 if dry_run else sum(len(files) for files in plan.values()),
            files_created=len(built),
            bytes_written=sum(one.file.size_bytes for one in built),
            hudi_options=options,
            seconds=round(time.perf_counter() - started, 4),
        )

    def _is_right(self, path: str, files: Sequence[BaseFile]) -> bool:
        if self._layout is None or self._layout.count_of(path) != self._target.count_of(path):
            return False
        try:
            groups_by_bucket(path, (file.file_id for file in files), self._target)
        except TableCorruptError:
            return False
        return True

    def _check_index(self, snapshot: Snapshot) -> None:
        now = self._table.index(snapshot.timeline)
        if now != self._facts.index:
            raise WriteConflictError(
                "the index of the table was changed meanwhile by another run",
                culprit=str(snapshot.instant_time),
                hint="look at `lakeindex history`, and run again if the change is still wanted",
            )

    def _write(self, session: WriteSession, identity: RunIdentity, snapshot: Snapshot) -> tuple[BuiltFile, ...]:
        old = self.partitions(snapshot)
        for files in old.values():
            snapshot.refuse_clustered(files)
        split = self._split(identity, [file for files in old.values() for file in files])
        wanted = sorted({(one.old.partition_path, bucket) for one in split for bucket in one.pieces})
        planned = [
            PlannedFile(path, self._file_id(path, bucket), write_token(n, 0, 0), inserts=_rows(split, path, bucket))
            for n, (path, bucket) in enumerate(wanted)
        ]
        replaced = tuple(file for files in old.values() for file in files)
        everywhere = self._layout is None or _drops_a_rule(self._layout, self._target)
        record = index_record(spec_of(self._target))
        digest = digest_of_text(self._asked, self._columns(), *(file.path for file in replaced))
        replacement = Replacement(replaced, record, everywhere)
        plan = session.plan(planned, snapshot.instant_time, digest, replacement)
        built = self._build(identity, split, plan.files)
        before, after = sum_of(one.digest for one in split), sum_of(one.digest for one in built)
        if before != after:
            raise InvariantError(
                f"{before.rows} rows were read, the new files hold {after.rows}, or other ones",
                culprit=plan.instant,
                hint="nothing was published; report this",
            )
        return built

    def _columns(self) -> str:
        """Names the columns that the files are read with: they may be others in the next try."""
        return digest_of_text(self._facts.schema.to_string())

    def _file_id(self, path: str, bucket: int) -> str:
        """A function of the run, so that attempts agree; unique in the table."""
        return file_id_of(bucket, bytes.fromhex(key_of(f"{self._asked}\0{path}\0{bucket}")))

    def _split(self, identity: RunIdentity, files: Sequence[BaseFile]) -> tuple[SplitFile, ...]:
        folder = f"{run_folder(identity.key)}/split"
        tasks = [
            SplitTask(self._table.uri, self._facts.schema, file, self._target, f"{folder}/{name}")
            for file in files
            for name in [key_of(f"{file.path}\0{self._columns()}")]
        ]
        packs = pack([_OPEN_COST + file.size_bytes for file in files], self._runner.slots * 3) if files else []
        work = run_tasks(
            self._runner,
            split_files,
            [tuple(tasks[i] for i in one) for one in packs],
            "rescale: split base files by bucket",
        )
        return tuple(sorted((one for result in work for one in result), key=lambda one: one.old))

    def _build(
        self, identity: RunIdentity, split: Sequence[SplitFile], files: Sequence[BaseFile]
    ) -> tuple[BuiltFile, ...]:
        folder = f"{run_folder(identity.key)}/built"
        tasks, costs = [], []
        for file in files:
            bucket = bucket_of(file.file_id)
            pieces = tuple(
                one.pieces[bucket]
                for one in split
                if one.old.partition_path == file.partition_path and bucket is not None and bucket in one.pieces
            )
            record = f"{folder}/{key_of(file.path)}.json"
            tasks.append(
                BuildTask(self._table.uri, self._facts.name, self._facts.schema, self._config, file, pieces, record)
            )
            costs.append(_OPEN_COST + sum(piece.length for piece in pieces))
        packs = pack(costs, self._runner.slots * 3) if tasks else []
        work = run_tasks(
            self._runner,
            build_files,
            [tuple(tasks[i] for i in one) for one in packs],
            "rescale: write the new base files",
        )
        by_path = {one.file.path: one for result in work for one in result}
        return tuple(by_path[file.path] for file in files)

    def _publish(
        self, session: WriteSession, snapshot: Snapshot, built: Sequence[BuiltFile], report: RescaleSummary
    ) -> str:
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for one in built:
            stats[one.file.partition_path] = (
                *stats.get(one.file.partition_path, ()),
                new_file_stat(one.file, one.digest.rows),
            )
        commit = CommitMetadata(
            stats,
            OPERATION,
            {
                SCHEMA_KEY: schema_to_avro(self._facts.schema, self._facts.name),
                **footer_entry({one.file.path: one.footer for one in built if one.footer}),
            },
            replaced_file_ids={
                path: tuple(file.file_id for file in files) for path, files in self.partitions(snapshot).items()
            },
        )
        expected = tuple(ExpectedFile(one.file.path, one.file.size_bytes, one.digest.rows) for one in built)
        guards = PublishGuards.of(snapshot.timeline)
        return session.publish(commit, expected, guards, report.to_json())


def _drops_a_rule(before: BucketLayout, after: BucketLayout) -> bool:
    """Whether partitions that are not there yet may have another count from now on."""
    return before.count != after.count or bool(set(before.rules) - set(after.rules))


def _rows(split: Sequence[SplitFile], path: str, bucket: int) -> int:
    return sum(one.pieces[bucket].rows for one in split if one.old.partition_path == path and bucket in one.pieces)
