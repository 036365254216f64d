"""The tasks of a rescaling: split old base files by bucket, build new ones from the pieces.

Two phases, so that every base file is read once and written once whatever the counts are, and no task holds more than
one base file: *split* takes one old file apart into one object of Arrow streams, one a bucket, in the run's folder;
*build* reads one bucket's stream of every split file of the partition and writes the new base file. Both leave a record
of what they did: a run that is started again after a kill goes on where it was.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commands.rescale.aligned_rows import align, aligned_row_groups, open_base_file, row_schema
from lakeindex.errors import REPAIR_KEYS, InvariantError, ObjectNotFoundError, TableCorruptError, first_line
from lakeindex.hashing.row_digest import RowDigest, digest_rows
from lakeindex.index.bucket.bucket import bucket_ids
from lakeindex.index.bucket.bucket_layout import BucketLayout
from lakeindex.json_values import json_of
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.read_pages import open_pages, read_groups
from lakeindex.parquet.stamps import digest_in
from lakeindex.storage.port import Storage
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline import records
from lakeindex.write.base_file import FILE_NAME, RECORD_KEY, constant_column, encode_base_file


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
        table_uri: the table.
        schema: its columns, without meta columns.
        old: the file.
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
        old: the file.
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
        schema: the table's columns, without meta columns.
        config: how files are encoded.
        new: the file to write.
        pieces: its rows.
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
    """Several files, one after the other."""
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
