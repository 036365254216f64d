"""Read a split of the batch in pieces of bounded size. What is small is read with one request and decoded at once.

A piece's columns have the types that the whole would have: Parquet and Arrow files say them;
CSV and JSON values are typed by the table's schema, and the delete mark is boolean.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.options.types import PLAIN_CSV, CsvFormat, InputFormat
from lakeindex.run.input_rows import check_values, repeated_text
from lakeindex.stages.stage_input.inputs import InputFile, Split, format_of, unreadable
from lakeindex.stages.stage_input.text_files import BAD_VALUE, csv_columns, read_csv, read_json
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.memory_bound import MIB
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.moments import MomentsFile

_BATCH_ROWS = 65_536
_PAGE_BUFFER = MIB
_WHOLE = 2**62


def read_split(split: Split, schema: pa.Schema, wanted: InputFormat, csv: CsvFormat = PLAIN_CSV) -> pa.Table:
    """All rows of a split; arguments and errors as of :func:`read_pieces`."""
    return pa.concat_tables(read_pieces(split, schema, wanted, _WHOLE, csv=csv), promote_options="default")


def content_of(split: Split, wanted: InputFormat, limit: int) -> bytes | None:
    """The bytes of a Parquet file that is read as a whole, for :func:`read_pieces`; None of other splits."""
    if not _is_whole(split, limit) or format_of(split.file, wanted) is not InputFormat.PARQUET:
        return None
    return storage_at(split.file.root).read(split.file.path)


def read_pieces(
    split: Split,
    schema: pa.Schema,
    wanted: InputFormat,
    limit: int,
    content: bytes | None = None,
    csv: CsvFormat = PLAIN_CSV,
    *,
    known_only: bool = False,
) -> Iterator[pa.Table]:
    """The split's rows with the columns the file has, in order; one piece at least, though it may be empty. Of CSV and
    JSON files a piece may have :data:`~lakeindex.stages.stage_input.text_files.BAD_VALUE`.

    Args:
        schema: the table's columns, which type CSV and JSON values.
        limit: decoded bytes of a piece, about; a single row may be larger.
        content: what :func:`content_of` has read; None: it is read here.
        known_only: whether JSON's fields that ``schema`` has not got may be left out.

    Raises:
        InputError: the file is missing, truncated or not what its name says, or holds what its types do not allow;
            names the file.
    """
    fills = format_of(split.file, wanted) is InputFormat.JSON
    try:
        for piece in _pieces(split, schema, wanted, limit, content, csv, known_only=known_only):
            check_values(piece)
            yield _with_constants(piece, split, schema, fills=fills)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise unreadable(split.file, error) from error


def _with_constants(piece: pa.Table, split: Split, schema: pa.Schema, *, fills: bool) -> pa.Table:
    """A piece with the columns that its file does not hold, and that are asked for.

    Args:
        fills: the reader makes a column of nulls of one that is not there: what a row lacks is the constant.
    """
    if not split.file.constants:
        return piece
    there = frozenset(piece.column_names)
    asked = frozenset(schema.names if split.columns is None else split.columns) & frozenset(schema.names)
    for name, text in split.file.constants:
        if name in asked - there:
            piece = piece.append_column(name, repeated_text(text, schema.field(name).type, piece.num_rows))
        elif fills and name in asked and piece.column(name).null_count:
            place, said = piece.schema.get_field_index(name), repeated_text(text, piece.column(name).type, 1)[0]
            piece = piece.set_column(place, name, piece.column(name).fill_null(said))
    return piece


def _pieces(
    split: Split,
    schema: pa.Schema,
    wanted: InputFormat,
    limit: int,
    content: bytes | None,
    csv: CsvFormat,
    *,
    known_only: bool,
) -> Iterator[pa.Table]:
    match format_of(split.file, wanted):
        case None:
            yield from _cut(_arrow(split, limit), limit)
        case InputFormat.CSV:
            for part in read_csv(split.file, schema, limit, csv):
                yield from _cut([part], limit)
        case InputFormat.JSON:
            for part in read_json(
                split.file, schema, limit, known_only=known_only
            ):  # parts may lack columns: they are not joined
                yield from _cut([part], limit)
        case _:
            yield from _cut(_parquet(split, limit, content), limit)


def read_columns(file: InputFile, schema: pa.Schema, wanted: InputFormat, csv: CsvFormat = PLAIN_CSV) -> pa.Schema:
    """The columns of a file: Parquet and Arrow files say them; new ones of CSV and JSON are typed by the first block.

    Args:
        schema: the table's columns, which type CSV and JSON values.

    Raises:
        InputError: the file is missing, truncated or not what its name says; names the file.
    """
    try:
        found = _columns(file, schema, wanted, csv)
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise unreadable(file, error) from error
    lacking = frozenset(schema.names) - frozenset(found.names)
    return pa.schema([*found, *(schema.field(name) for name, _ in file.constants if name in lacking)])


def _columns(file: InputFile, schema: pa.Schema, wanted: InputFormat, csv: CsvFormat) -> pa.Schema:
    match format_of(file, wanted):
        case None:
            store = storage_at(file.root)
            return pa.ipc.open_file(pa.PythonFile(StorageFile(store, file.path, file.size_bytes), mode="r")).schema
        case InputFormat.CSV:
            return csv_columns(file, schema, csv)
        case InputFormat.JSON:
            first = next(iter(read_pieces(Split(file), schema, wanted, MIB))).schema
            return pa.schema([field for field in first if field.name != BAD_VALUE])
        case _:
            return MomentsFile(StorageFile(storage_at(file.root), file.path, file.size_bytes)).schema_arrow


def _cut(tables: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Join and cut tables of one schema to pieces of at most ``limit`` bytes."""
    some: list[pa.Table] = []
    size = 0
    for table in tables:
        if not table.num_columns:  # Arrow joins such tables to one without rows
            yield table
            continue
        pieces = min(max(-(-table.nbytes // limit), 1), max(table.num_rows, 1))
        rows = max(-(-table.num_rows // pieces), 1)
        for start in range(0, max(table.num_rows, 1), rows):
            part = table.slice(start, rows)
            if some and size + part.nbytes > limit:
                yield pa.concat_tables(some)
                some, size = [], 0
            some.append(part)
            size += part.nbytes
    if some:
        yield pa.concat_tables(some)


def _is_small(file: InputFile, limit: int) -> bool:
    return file.size_bytes <= limit


def _arrow(split: Split, limit: int) -> Iterator[pa.Table]:
    file = split.file
    store = storage_at(file.root)
    if _is_small(file, limit):
        yield pa.ipc.open_file(pa.BufferReader(store.read(file.path))).read_all()
        return
    reader = pa.ipc.open_file(pa.PythonFile(StorageFile(store, file.path, file.size_bytes), mode="r"))
    yield reader.schema.empty_table()
    for number in range(reader.num_record_batches):
        yield pa.Table.from_batches([reader.get_batch(number)])


def _is_whole(split: Split, limit: int) -> bool:
    return split.decoded_bytes <= limit and split.last_row_group is None


def _parquet(split: Split, limit: int, content: bytes | None) -> Iterator[pa.Table]:
    file, store = split.file, storage_at(split.file.root)
    is_small, columns = split.decoded_bytes <= limit, split.columns
    if _is_whole(split, limit):
        yield MomentsFile(pa.BufferReader(store.read(file.path) if content is None else content)).read(columns)
        return
    source = StorageFile(store, file.path, file.size_bytes)
    metadata = pq.ParquetFile(source).metadata
    groups = range(split.first_row_group, split.last_row_group or metadata.num_row_groups)
    if is_small:
        yield MomentsFile(source, metadata=metadata, pre_buffer=True).read_row_groups(list(groups), columns)
        return
    largest = max((_compressed(metadata.row_group(g)) for g in groups), default=0)
    # A row group is fetched as a whole if there is room for it, else page by page.
    how = {"pre_buffer": True} if largest <= limit else {"pre_buffer": False, "buffer_size": _PAGE_BUFFER}
    reader = MomentsFile(source, metadata=metadata, **how)
    empty = reader.schema_arrow.empty_table()
    yield empty if columns is None else empty.select([name for name in empty.column_names if name in columns])
    for group in groups:
        facts = metadata.row_group(group)
        row_bytes = max(facts.total_byte_size // max(facts.num_rows, 1), 1)
        rows = min(max(limit // (4 * row_bytes), 1), _BATCH_ROWS)
        for batch in reader.iter_batches(batch_size=rows, row_groups=[group], columns=columns):
            yield pa.Table.from_batches([batch])


def _compressed(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(c).total_compressed_size for c in range(group.num_columns))
