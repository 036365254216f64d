"""Whether stored record keys and partition paths are what we would make of their rows' columns, asked before a write.

Options of other writers' jobs decide how a key is spelled, and a table does not keep all of them. A sample of its rows
does: of a few files, of each layout of partition paths and of several instants, keys and paths are made anew and
compared. Where one spelling fits every row, it is bound; where none does, the write is refused and both are shown.
What was compared is remembered (``.hoodie/.lakeindex/stored_keys.json``): later writes look at files of new foreign
instants only, and at all of it if the properties changed.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import LakeIndexError, TableCorruptError, first_line
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_structure
from lakeindex.format.instants import comparable
from lakeindex.format.partitions import partition_path_problem
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.model import BaseFile
from lakeindex.parquet.pages import open_pages, read_group_batches, read_groups
from lakeindex.storage import decoded_in_parallel
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.binding import BINDING_PROPERTY
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import written_schema
from lakeindex.timeline import records
from lakeindex.timeline.verdicts import verdict_times
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.types.widening import widened

COMPARED_PATH: Final = f"{records.OWN_FOLDER}/stored_keys.json"

_MOST_FILES: Final = 8
_MOST_LARGE_FILES: Final = 4
"""Opening one takes milliseconds: its footer has a filter of all of its keys."""
_LARGE_BYTES: Final = 4_194_304
_MOST_LAYOUTS: Final = 4
_ROWS: Final = 256
_WHOLE_GROUP_ROWS: Final = 4_096
_BUFFER: Final = 65_536

Mask = npt.NDArray[np.bool_]


class Sample(Frozen):
    """Some rows of a base file.

    Attributes:
        rows: columns of record key and partition path, in the table's types.
        record_key: as stored; None if the rows do not store it.
    """

    file: BaseFile
    rows: pa.Table
    record_key: pa.Array | None


class Example(Frozen):
    """A stored value that is not what is made."""

    file: BaseFile
    stored: str | None
    made: str | None


class Compared(Frozen):
    """Stored values beside those that a spec makes.

    Attributes:
        same: of each row of all samples.
        example: the first that is not.
    """

    same: Mask
    example: Example | None

    @property
    def fits(self) -> bool:
        return self.example is None


def compare_keys(samples: Iterable[Sample], spec: KeySpec) -> Compared:
    """Record keys. Raises: SchemaMismatchError."""
    generator = KeyGenerator(spec)
    return _compared(
        (one.file, one.record_key, generator.record_keys(one.rows)[0]) for one in samples if one.record_key is not None
    )


def compare_paths(samples: Iterable[Sample], spec: KeySpec) -> Compared:
    """Partition paths; rows of partitions that no upsert writes to count as the same. Raises: SchemaMismatchError."""
    generator = KeyGenerator(spec)

    def pairs() -> Iterator[tuple[BaseFile, pa.Array, pa.Array]]:
        for one in samples:
            made, problem = generator.partition_paths(one.rows)
            folder = pa.repeat(pa.scalar(one.file.partition_path, pa.string()), one.rows.num_rows)
            is_refused = partition_path_problem(one.file.partition_path) is not None
            yield one.file, folder, pc.if_else(problem.is_valid(), folder, made) if is_refused else made

    return _compared(pairs())


def difference(stored: pa.Array, made: pa.Array) -> tuple[Mask, int | None]:
    """Which values are the same, and the first row that is not."""
    same = np.asarray(pc.fill_null(pc.equal(stored, made.cast(stored.type)), fill_value=False))
    return same, None if same.all() else int(np.flatnonzero(~same)[0])


def _compared(values: Iterable[tuple[BaseFile, pa.Array, pa.Array]]) -> Compared:
    masks, example = [np.ones(0, np.bool_)], None
    for file, stored, made in values:
        same, row = difference(stored, made)
        masks.append(same)
        if row is not None and example is None:
            example = Example(file, stored[row].as_py(), made[row].as_py())
    return Compared(np.concatenate(masks), example)


def sample_rows(table: Table, files: Sequence[BaseFile], spec: KeySpec, schema: pa.Schema) -> list[Sample]:
    """Rows of some of these files.

    Args:
        files: those to choose from.

    Raises:
        TableCorruptError: a file cannot be read.
    """
    stored = [RECORD_KEY] if table.properties.populate_meta_fields else []
    read = SampleReader(table.storage, (*stored, *spec.columns), schema)
    return [one for found in decoded_in_parallel(table.uri, read, _chosen(files)) for one in found]


def _chosen(files: Sequence[BaseFile]) -> list[BaseFile]:
    """One of each layout of paths, the first, the last, and as many of other instants as there is room for."""
    layouts: dict[tuple[str, ...], BaseFile] = {}
    instants: dict[str, BaseFile] = {}
    for file in files:
        levels = file.partition_path.split("/")
        layouts.setdefault(tuple(level.partition("=")[0] if "=" in level else "" for level in levels), file)
        instants.setdefault(file.instant_time, file)
    by_time = [instants[time] for time in sorted(instants, key=comparable, reverse=True)]
    step = -(-len(files) // _MOST_FILES)
    ends = (files[0], files[-1])
    wanted = (*list(layouts.values())[:_MOST_LAYOUTS], *ends, *by_time, *files[::step])
    order = list(dict.fromkeys(wanted))
    small = [file for file in order if file.size_bytes < _LARGE_BYTES]
    large = [file for file in order if file.size_bytes >= _LARGE_BYTES][:_MOST_LARGE_FILES]
    return [*large, *small][:_MOST_FILES]


def row_elsewhere(table: Table, snapshot: Snapshot) -> Example | None:
    """The first row of all live files that lies in another partition than its columns say, or may do so, as they are
    not in its file; None if there is none. Errors as of :func:`sample_rows`.
    """
    spec = KeySpec.from_properties(table.key_properties())
    if not spec.partition_fields:
        return None
    names = tuple(dict.fromkeys(name.partition(".")[0] for name, _ in spec.partition_fields))
    looks = PathReader(SampleReader(table.storage, names, written_schema(table, snapshot), whole=True), spec)
    read = decoded_in_parallel(table.uri, looks, snapshot.base_files_all())
    return next((one for one in read if one is not None), None)


class PathReader(Frozen):
    """Compares the partition path of a file with what its rows say."""

    reader: SampleReader
    spec: KeySpec

    def __call__(self, file: BaseFile) -> Example | None:
        """The first row that says otherwise; arguments and errors as of :func:`row_elsewhere`."""
        samples = self.reader(file)
        if not samples and read_structure(self.reader.storage, file).shape.rows:
            return Example(file, file.partition_path, None)
        return compare_paths(samples, self.spec).example


class SampleReader(Frozen):
    """Reads rows of a file.

    Attributes:
        names: the columns; with that of the record key, if it is stored.
        whole: all rows, else those of the first and of the last row group.
    """

    storage: Storage
    names: tuple[str, ...]
    schema: pa.Schema
    whole: bool = False

    def __call__(self, file: BaseFile) -> list[Sample]:
        """Rows; none of a file that lacks a column."""
        try:
            return list(self._read(file))
        except LakeIndexError:
            raise
        except (pa.ArrowException, OSError) as error:
            raise TableCorruptError(
                f"base file {file.path!r} cannot be read: {first_line(error)}",
                culprit=file.path,
                hint="restore the file, or roll the table back to an instant before it",
            ) from error

    def _read(self, file: BaseFile) -> Iterator[Sample]:
        """Rows; of a sample from both ends of the file: an upsert appends those that it inserts."""
        structure = read_structure(self.storage, file)
        if not set(self.names) <= set(structure.shape.arrow_schema.names):
            return
        whole = structure.whole
        source = StorageFile(self.storage, file.path, file.size_bytes) if whole is None else pa.BufferReader(whole)
        reader = open_pages(source, metadata=structure.metadata, buffer_size=_BUFFER)
        filled = [group for group, rows in enumerate(structure.shape.row_group_rows) if rows]
        for group in filled if self.whole else sorted({*filled[:1], *filled[-1:]}):
            if self.whole or structure.shape.row_group_rows[group] <= _WHOLE_GROUP_ROWS:
                rows = read_groups(reader, [group], self.names, use_threads=False)
            else:
                first = next(read_group_batches(reader, [group], self.names, _ROWS, use_threads=False))
                rows = pa.Table.from_batches([first])
            keys = plain_strings(one_array(rows.column(RECORD_KEY))) if RECORD_KEY in self.names else None
            typed = {name: self._typed(name, rows.column(name)) for name in self.names if name != RECORD_KEY}
            yield Sample(file, pa.table(typed), keys)

    def _typed(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if name not in self.schema.names or column.type == self.schema.field(name).type:
            return column
        return widened(column, self.schema.field(name).type)


_COMPARED: dict[str, tuple[object, ...]] = {}
"""Of each table the last state that was found to be compared: the stages of a run ask once."""


def not_compared(table: Table, snapshot: Snapshot) -> list[BaseFile]:
    """Files of a bound table that another writer wrote since its keys were last compared; all, if it never was, or if
    the properties changed.

    Our verdicts say which commits are ours: for a table that only we write to, nothing else is read.
    """
    writes, digest = _writes(snapshot), _digest(table)
    state = (digest, writes)
    if _COMPARED.get(table.uri) == state:
        return []
    foreign = writes - verdict_times(table.storage)
    made_here = BINDING_PROPERTY in table.properties.entries
    known = (records.load(table.storage, COMPARED_PATH) if foreign or not made_here else None) or {}
    anew = known.get("properties", digest if made_here else None) != digest
    new = foreign - set(known.get("instants", ()))
    files = [one for one in snapshot.base_files_all() if anew or one.instant_time in new] if new or anew else []
    if not files:
        if new:
            remember_compared(table, snapshot)
        _COMPARED[table.uri] = state
    return files


def remember_compared(table: Table, snapshot: Snapshot) -> None:
    """Note that the keys of this state, and the properties, were compared."""
    foreign = sorted(_writes(snapshot) - verdict_times(table.storage))
    records.put(table.storage, COMPARED_PATH, records.encode({"properties": _digest(table), "instants": foreign}))


def _writes(snapshot: Snapshot) -> frozenset[str]:
    return snapshot.timeline.completed_write_times


def _digest(table: Table) -> int:
    """Of all properties that may say something of keys."""
    entries = table.key_properties()
    said = {key: text for key, text in entries.items() if not key.startswith(_NOT_OF_KEYS)}
    return zlib.crc32(json.dumps(said, sort_keys=True).encode("utf-8", "surrogatepass"))


_NOT_OF_KEYS: Final = ("hoodie.table.metadata.", "hoodie.table.checksum", "lakeindex.table.")
