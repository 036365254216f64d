"""What a rescaling and a clustering have in common: rows of whole file groups are moved to new ones, as they are, in
one replacecommit.

Two phases of tasks, so that every base file is read once and written once: *split* takes one old file apart into one
object of Arrow streams, some a place, in the run's folder; *build* reads the streams of its places, or whole old files,
and writes a new base file, a place after the other. Both leave a record of what they did: a run that is started again
after a kill goes on where it was. What a task holds is the rows of one place, or an eighth of its share of an old file,
and the file as it is encoded.

The digest of all rows as they were read is compared with that of all rows as they are read back from the new files.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
from msgspec import field

from lakeindex.bloom import marks
from lakeindex.commit.run_records import run_folder
from lakeindex.commit.write_session import ExpectedFile, PublishGuards, WriteSession
from lakeindex.errors import InvariantError, ObjectNotFoundError, TableCorruptError, first_line
from lakeindex.files.footers import read_parquet_footer
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, footer_entry
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.hashing.row_digest import RowDigest, digest_rows, sum_of
from lakeindex.model import ARRANGING_OPERATION, BaseFile
from lakeindex.operations.rows.aligned_rows import (
    align,
    aligned_batches,
    blamed,
    dictionaries_of,
    in_dictionaries,
    open_base_file,
    row_schema,
)
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import DamagedPagesError, open_pages, read_groups
from lakeindex.parquet.splice import GroupOf, ParquetParts, splice
from lakeindex.parquet.stamps import digest_in
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.replaced import ids_by_partition
from lakeindex.run.spec import TableFacts
from lakeindex.showing.json_values import from_known, json_of
from lakeindex.stages.merge_write.file_slices import new_file_stat
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.tasks.memory_bound import chunk_bytes, current_share
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.threads import in_cores
from lakeindex.timeline import records
from lakeindex.timeline.records import key_of
from lakeindex.write.base_file import (
    FILE_NAME,
    RECORD_KEY,
    constant_column,
    dictionaries_for,
    file_schema_of,
    schema_footer,
)
from lakeindex.write.file_parts import OldSlice, WholeFile, encoded_file_names, encoded_parts, open_slice
from lakeindex.write.single_columns import without_unused
from lakeindex.write.types.avro_schema import schema_to_avro

OPERATION: Final = ARRANGING_OPERATION
"""Incremental readers may pass it over."""
_OPEN_COST: Final = 1_000_000.0
_TASKS_A_SLOT: Final = 3
_GROUPS_AT_ONCE: Final = 4
_LARGEST_TEXTS: Final = 1024**3
_ROWS_AT_ONCE: Final = 65_536
_WIDE: Final = {pa.string(): pa.large_string(), pa.binary(): pa.large_binary()}


class Placing(Protocol):
    """Says where rows go, and in which order they are there. Values, which travel to tasks."""

    def places(self, rows: pa.Table, file: BaseFile) -> np.ndarray:
        """The place of each row of an old file: int64 [n]. Raises: TableCorruptError: a row has none."""

    def order(self, rows: pa.Table, file: BaseFile) -> pa.Array:
        """The order of the rows of a place of a new file: their numbers, uint64 [n].

        Raises:
            TableCorruptError: they cannot be there.
        """


class RowsPiece(Frozen):
    """Rows of one old file that go to one place: where their Arrow stream is."""

    path: str
    start: int
    length: int
    rows: int


class SplitTask(Frozen):
    """Take one old base file apart.

    Attributes:
        schema: its columns, without meta columns.
        target: the object to write, without its ending.
    """

    table_uri: str
    schema: pa.Schema
    old: BaseFile
    placing: Placing
    target: str


class SplitFile(Frozen):
    """An old base file that was taken apart.

    Attributes:
        pieces: place -> its rows.
        digest: of all rows, without the file's name.
    """

    old: BaseFile
    pieces: dict[int, tuple[RowsPiece, ...]]
    digest: RowDigest


class CopiedFile(Frozen):
    """A whole old file, a part by itself, whose rows may stay in their order: its column chunks are copied where a file
    of the table's schema can take them.
    """

    file: BaseFile

    @property
    def path(self) -> str:
        return self.file.path

    @property
    def size_bytes(self) -> int:
        return self.file.size_bytes


Source: TypeAlias = RowsPiece | BaseFile | CopiedFile


class BuildTask(Frozen):
    """Write one new base file.

    Attributes:
        table_name: for the Avro schema in the footer.
        parts: where the rows of each of its places are, one place after the other.
        record: where to leave what was written.
        held_bytes: what it holds, about.
    """

    table_uri: str
    table_name: str
    schema: pa.Schema
    config: WriteConfig
    new: BaseFile
    placing: Placing
    parts: tuple[tuple[Source, ...], ...]
    record: str
    held_bytes: int = 0

    @property
    def cost(self) -> float:
        sources = [one for part in self.parts for one in part]
        return _OPEN_COST + sum(one.length if isinstance(one, RowsPiece) else one.size_bytes for one in sources)


class BuiltFile(Frozen):
    """A new base file, with its size, the digest of its rows as they are read back, that of its footer, and that of the
    rows that were read of whole old files.
    """

    file: BaseFile
    digest: RowDigest
    footer: str = ""
    read: RowDigest = field(default_factory=RowDigest)


def split_files(tasks: tuple[SplitTask, ...]) -> tuple[SplitFile, ...]:
    return tuple(_split(task) for task in tasks)


def build_files(tasks: tuple[BuildTask, ...]) -> tuple[BuiltFile, ...]:
    """Several files, one after the other."""
    return tuple(_build(task) for task in tasks)


def moved_schema(schema: pa.Schema) -> pa.Schema:
    """What is moved of a row: every column but the file's name, which a rewrite changes."""
    return pa.schema([field for field in row_schema(schema) if field.name != FILE_NAME])


def digest_without_name(rows: pa.Table) -> RowDigest:
    """Digest of what is moved of rows."""
    return digest_rows(rows.drop_columns([FILE_NAME]))


def _split(task: SplitTask) -> SplitFile:
    store = storage_at(task.table_uri)
    done = records.load(store, f"{task.target}.json")
    if done:
        known = {
            int(place): tuple(from_known(RowsPiece, one) for one in found) for place, found in done["pieces"].items()
        }
        return SplitFile(task.old, known, from_known(RowDigest, done["digest"]))
    data, digest = bytearray(), RowDigest()
    pieces: dict[int, tuple[RowsPiece, ...]] = {}
    for rows in _batches(store, task.old, moved_schema(task.schema), chunk_bytes(current_share())):
        digest = digest + digest_rows(rows)
        places = task.placing.places(rows, task.old)
        order = np.argsort(places, kind="stable")
        found, starts = np.unique(places[order], return_index=True)
        for place, taken in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
            stream = _stream(rows.take(pa.array(taken)))
            piece = RowsPiece(f"{task.target}.arrow", len(data), len(stream), len(taken))
            pieces[place] = (*pieces.get(place, ()), piece)
            data += stream
    split = SplitFile(task.old, pieces, digest)
    store.write(f"{task.target}.arrow", bytes(data))
    record = {"pieces": {str(p): json_of(found) for p, found in pieces.items()}, "digest": json_of(split.digest)}
    store.sync([f"{task.target}.arrow"])  # a note must not outlive what it is about
    store.write(f"{task.target}.json", records.encode(record))
    return split


def _batches(store: Storage, file: BaseFile, schema: pa.Schema, most: int) -> Iterator[pa.Table]:
    """The rows of a base file, at least so many bytes at once where there are as many."""
    metadata, held, size = read_parquet_footer(store, file).metadata, [], 0
    schema = in_dictionaries(metadata, schema)
    source = open_base_file(store, file, metadata, dictionaries=dictionaries_of(schema))
    for group in range(source.num_row_groups):
        for rows in aligned_batches(source, file, [group], schema, use_threads=False):
            _check_keys(rows.column(RECORD_KEY), file)
            held.append(rows)
            size += rows.nbytes
            if size >= most:
                yield pa.concat_tables(held)
                held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _check_keys(keys: pa.Array | pa.ChunkedArray, file: BaseFile) -> None:
    if keys.null_count:
        raise TableCorruptError(
            f"base file {file.path!r} has a row without a record key",
            culprit=file.path,
            hint="run `lakeindex check`",
        )


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
    schema, read = moved_schema(task.schema), RowDigest()

    def parts() -> Iterator[Part | CopiedPart]:
        nonlocal read
        for sources in task.parts:
            copied = _copied(store, sources, task)
            if copied is not None:
                read = read + RowDigest(copied.slice.rows)
                yield copied
                continue
            found = list(in_cores(lambda source: _rows_of(store, source, schema), sources))
            read = read + sum_of(digest for _, digest in found)
            rows = _in_one(_together([rows for rows, _ in found], schema))
            del found  # the pieces go before the part is encoded
            yield Part(rows, task.placing.order(rows, task.new))

    data, copied_groups = encode_parts(parts(), task)
    footer = open_pages(pa.BufferReader(data)).metadata
    stored = in_dictionaries(footer, schema)

    def again(group: int) -> RowDigest:
        if group in copied_groups:  # compared with its checksums when it was copied
            return RowDigest(footer.row_group(group).num_rows)
        source = open_pages(pa.BufferReader(data), metadata=footer, read_dictionary=dictionaries_of(stored))
        return digest_rows(align(read_groups(source, [group], schema.names, use_threads=False), task.new, stored))

    digest = sum_of(in_cores(again, range(footer.num_row_groups)))
    store.write(task.new.path, data)
    store.sync([task.new.path])
    built = BuiltFile(_sized(task.new, len(data)), digest, digest_in(data), read)
    record = {"size": len(data), "digest": json_of(digest), "footer": built.footer, "read": json_of(read)}
    store.write(task.record, records.encode(record))
    return built


def _copied(store: Storage, sources: Sequence[Source], task: BuildTask) -> CopiedPart | None:
    """A whole file whose chunks are copied; None if they cannot be."""
    if len(sources) != 1 or not isinstance(sources[0], CopiedFile):
        return None
    file = sources[0].file
    with blamed(file):
        found = open_slice(WholeFile(store.read(file.path)), task.schema, task.config)
        if not isinstance(found, OldSlice):
            return None
        keys = found.keys()
        _check_keys(keys, file)
        return CopiedPart(file, found, keys)


def _together(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Rows behind each other; a column stays in dictionaries if it is so in all tables."""
    tables = [rows for rows in tables if rows.num_rows] or [schema.empty_table()]
    kinds = {field: {rows.schema.field(field.name).type for rows in tables} for field in schema}
    alike = pa.schema([field.with_type(kind.pop()) if len(kind) == 1 else field for field, kind in kinds.items()])
    return pa.concat_tables([rows if rows.schema == alike else rows.cast(alike) for rows in tables])


def _in_one(rows: pa.Table) -> pa.Table:
    """Each column in one array; texts of 1 GiB with long offsets, which are never one array of short ones."""

    def joined(column: pa.ChunkedArray) -> pa.Array:
        coded = pa.types.is_dictionary(column.type)
        wide = _WIDE.get(column.type.value_type if coded else column.type)
        if wide is not None and column.nbytes >= _LARGEST_TEXTS:
            return one_array(column.cast(wide))
        return one_array(column.unify_dictionaries() if coded else column)

    return pa.table(list(in_cores(joined, rows.columns)), names=rows.column_names)


def _taken(column: pa.ChunkedArray, order: pa.Array, kind: pa.DataType) -> pa.ChunkedArray:
    """Some values, in their type; so many at once that no texts are too many for short offsets."""
    found = one_array(column).take(order)
    if pa.types.is_dictionary(found.type):
        return pa.chunked_array([without_unused(found)])
    pieces = (found.slice(at, _ROWS_AT_ONCE).cast(kind) for at in range(0, len(found), _ROWS_AT_ONCE))
    return pa.chunked_array([found] if found.type == kind else list(pieces), kind)


class Part(Frozen, eq=False):
    """Rows of a new file.

    Attributes:
        rows: what is moved of them, see :func:`moved_schema`.
        order: their numbers, uint64 [n].
    """

    rows: pa.Table
    order: pa.Array


class CopiedPart(Frozen, eq=False):
    """An old file whose column chunks are copied, and its keys."""

    file: BaseFile
    slice: OldSlice
    keys: pa.Array

    def groups(self, schema: pa.Schema, task: BuildTask) -> Iterator[GroupOf]:
        """Its row groups with the new file's name."""
        place = schema.get_field_index(FILE_NAME)
        columns, sizes = range(len(self.slice.parts.columns)), self.slice.parts.rows
        names = encoded_file_names(task.new.name, set(sizes), task.schema, task.config)
        for number, rows in enumerate(sizes):
            name = names[rows].chunk(0, 0)
            chunks = (name if column == place else self.slice.chunk(number, column) for column in columns)
            yield GroupOf(rows, tuple(chunks))


def encode_parts(parts: Iterable[Part | CopiedPart], task: BuildTask) -> tuple[bytes, frozenset[int]]:
    """A base file of rows in their order, which are encoded or copied a part after the other; and which of its row
    groups were copied.

    Raises:
        TableCorruptError: what is copied is not what was written.
    """
    schema, limit = file_schema_of(task.schema), task.config.row_group_rows
    groups: list[GroupOf] = []
    copied: dict[int, BaseFile] = {}
    keys: list[pa.Array] = []
    for part in parts:
        if isinstance(part, CopiedPart):
            copied.update(dict.fromkeys(range(len(groups), len(groups) + len(part.slice.parts.rows)), part.file))
            groups += part.groups(schema, task)
            keys += [part.keys] if len(part.keys) else []
            continue
        if not part.rows.num_rows:  # as Hudi's writer: no rows, no row group
            continue
        dictionaries = [*dictionaries_for(part.rows), FILE_NAME]
        starts = range(0, part.rows.num_rows, limit)
        lots = [starts[at : at + _GROUPS_AT_ONCE] for at in range(0, len(starts), _GROUPS_AT_ONCE)]
        encode = partial(_encoded, part, dictionaries=dictionaries, schema=schema, task=task)
        groups += (group for one in in_cores(encode, lots) for group in one.groups())
        keys.append(plain_strings(part.rows.column(RECORD_KEY)))
    shell = encoded_parts([], schema, task.config, schema_footer(task.schema, task.table_name))
    stored = pa.concat_arrays(_of_one_type(keys)) if keys else pa.array([], pa.string())
    entries = marks.footer_of_keys(stored, task.config)
    try:
        return b"".join(splice(shell, groups, entries)), frozenset(copied)
    except DamagedPagesError:
        for number, file in copied.items():  # which one it is
            with blamed(file):
                deque(splice(shell, [groups[number]]), maxlen=0)
        raise


def _of_one_type(keys: Sequence[pa.Array]) -> list[pa.Array]:
    """Texts that can be put together: with long offsets, if some have them or they are too many for short ones."""
    is_wide = any(pa.types.is_large_string(one.type) for one in keys)
    wide = is_wide or sum(one.nbytes for one in keys) >= _LARGEST_TEXTS
    return [one.cast(pa.large_string()) for one in keys] if wide else list(keys)


def _encoded(
    part: Part, starts: Sequence[int], *, dictionaries: Sequence[str], schema: pa.Schema, task: BuildTask
) -> ParquetParts:
    groups = [_row_group(part, at, task.config.row_group_rows, schema, task.new.name) for at in starts]
    return encoded_parts(groups, schema, task.config, dictionaries=dictionaries)


def _row_group(part: Part, at: int, rows: int, schema: pa.Schema, name: str) -> pa.Table:
    order = part.order.slice(at, rows)
    columns = [
        constant_column(name, len(order))
        if field.name == FILE_NAME
        else _taken(part.rows.column(field.name), order, field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)


def _rows_of(store: Storage, source: Source, schema: pa.Schema) -> tuple[pa.Table, RowDigest]:
    """The rows, and of a whole old file their digest."""
    if isinstance(source, RowsPiece):
        return _read_piece(store, source), RowDigest()
    file = source.file if isinstance(source, CopiedFile) else source
    rows = _together(list(_batches(store, file, schema, file.size_bytes + 1)), schema)
    return rows, digest_rows(rows)


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
    read = from_known(RowDigest, done["read"])
    return BuiltFile(_sized(task.new, size), from_known(RowDigest, done["digest"]), done["footer"], read)


def _sized(file: BaseFile, size: int) -> BaseFile:
    return BaseFile(file.partition_path, file.file_id, file.instant_time, file.write_token, size)


def _read_piece(store: Storage, piece: RowsPiece) -> pa.Table:
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


class Mover(Frozen):
    """Moves rows of one table for one run.

    Attributes:
        what: the operation's name, for titles.
        run_key: folder of the run.
    """

    what: str
    table: Table
    facts: TableFacts
    runner: Runner
    config: WriteConfig
    run_key: str

    @property
    def columns(self) -> str:
        """Names the columns that the files are read with: they may be others in the next try."""
        return digest_of_text(moved_schema(self.facts.schema).to_string())

    @property
    def writes(self) -> str:
        """Names how new files are written: a try with other options does not take over what this one has written."""
        return digest_of_text(self.columns, *self.config.encoding)

    def split(self, files: Sequence[BaseFile], placing: Callable[[BaseFile], Placing], mark: str) -> list[SplitFile]:
        """Take old files apart.

        Args:
            mark: names the placing.
        """
        folder, columns = f"{run_folder(self.run_key)}/split", self.columns
        tasks = [
            SplitTask(self.table.uri, self.facts.schema, file, placing(file), f"{folder}/{key_of(name)}")
            for file in files
            for name in [f"{file.path}\0{columns}\0{mark}"]
        ]
        done = self._map(split_files, tasks, [_OPEN_COST + file.size_bytes for file in files], "take base files apart")
        return sorted(done, key=lambda one: one.old)

    def put_rows(self, new: BaseFile, rows: pa.Table) -> RowsPiece:
        """Leave rows for the task that writes a new file."""
        path = f"{run_folder(self.run_key)}/split/{key_of(new.path)}.arrow"
        stream = _stream(rows.drop_columns([FILE_NAME]))
        self.table.storage.write(path, stream)
        return RowsPiece(path, 0, len(stream), rows.num_rows)

    def task(
        self, new: BaseFile, placing: Placing, parts: Sequence[Sequence[Source]], held_bytes: int = 0
    ) -> BuildTask:
        """The task that writes a new file."""
        record = f"{run_folder(self.run_key)}/built/{key_of(new.path)}.json"
        given = tuple(tuple(part) for part in parts)
        facts = self.facts
        return BuildTask(self.table.uri, facts.name, facts.schema, self.config, new, placing, given, record, held_bytes)

    def build(self, tasks: Sequence[BuildTask]) -> list[BuiltFile]:
        """Write new files, in the order of the tasks."""
        done = self._map(build_files, tasks, [task.cost for task in tasks], "write the new base files")
        by_path = {one.file.path: one for one in done}
        return [by_path[task.new.path] for task in tasks]

    def _map(
        self,
        function: Callable[[Any], tuple[Any, ...]],
        tasks: Sequence[Any],
        costs: list[float],
        title: str,
    ) -> list[Any]:
        runner = for_work(self.runner, sum(costs) - _OPEN_COST * len(costs), self.config)
        packs = pack(costs, runner.slots * _TASKS_A_SLOT) if tasks else []
        work = run_tasks(runner, function, [tuple(tasks[n] for n in one) for one in packs], f"{self.what}: {title}")
        return [one for result in work for one in result]

    def publish(
        self,
        session: WriteSession,
        guards: PublishGuards,
        built: Sequence[BuiltFile],
        replaced: Sequence[BaseFile],
        summary: str,
        more: Mapping[str, str] | None = None,
    ) -> str:
        """Commit what was built. Raises: as :meth:`WriteSession.publish`."""
        stats: dict[str, tuple[WriteStat, ...]] = {}
        for one in built:
            path = one.file.partition_path
            stats[path] = (*stats.get(path, ()), new_file_stat(one.file, one.digest.rows))
        extra = {
            SCHEMA_KEY: schema_to_avro(self.facts.schema, self.facts.name),
            **footer_entry({one.file.path: one.footer for one in built if one.footer}),
            **(more or {}),
        }
        commit = CommitMetadata(stats, OPERATION, extra, replaced_file_ids=ids_by_partition(tuple(replaced)))
        expected = tuple(ExpectedFile(one.file.path, one.file.size_bytes, one.digest.rows) for one in built)
        return session.publish(commit, expected, guards, summary)


def check_same_rows(instant: str, split: Iterable[SplitFile], built: Sequence[BuiltFile]) -> None:
    """What was read is what the new files hold. Raises: InvariantError."""
    before = sum_of([*(one.digest for one in split), *(one.read for one in built)])
    after = sum_of(one.digest for one in built)
    if before != after:
        raise InvariantError(
            f"{before.rows} rows were read, the new files hold {after.rows}, or other ones",
            culprit=instant,
            hint="nothing was published; report this",
        )
