"""Read a split of the batch in pieces of bounded size. What is small is read with one request and decoded at once.

A piece's columns have the types that the whole would have: Parquet and Arrow files say them;
CSV and JSON values are typed by the table's schema, and the delete mark is boolean.
"""

from __future__ import annotations

import io
import itertools
import zlib
from collections.abc import Iterable, Iterator
from typing import BinaryIO

import pyarrow as pa
import pyarrow.csv
import pyarrow.json
import pyarrow.parquet as pq

from lakeindex.errors import first_line
from lakeindex.options.types import InputFormat
from lakeindex.stages.stage_input.inputs import InputFile, Split, format_of, unreadable
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.memory_bound import MIB
from lakeindex.tasks.stores import storage_at
from lakeindex.write.types.avro_schema import DELETE_MARK

_BATCH_ROWS = 65_536
_PAGE_BUFFER = MIB
_CSV_BLOCK = MIB
_WHOLE = 2**62


def read_split(split: Split, schema: pa.Schema, wanted: InputFormat) -> pa.Table:
    """All rows of a split; arguments and errors as of :func:`read_pieces`."""
    return pa.concat_tables(read_pieces(split, schema, wanted, _WHOLE), promote_options="default")


def content_of(split: Split, wanted: InputFormat, limit: int) -> bytes | None:
    """The bytes of a Parquet file that is read as a whole, for :func:`read_pieces`; None of other splits."""
    if not _is_whole(split, limit) or format_of(split.file, wanted) is not InputFormat.PARQUET:
        return None
    return storage_at(split.file.root).read(split.file.path)


def read_pieces(
    split: Split, schema: pa.Schema, wanted: InputFormat, limit: int, content: bytes | None = None
) -> Iterator[pa.Table]:
    """The split's rows with the columns the file has, in order; one piece at least, though it may be empty.

    Args:
        split: what to read.
        schema: the table's columns, which type CSV and JSON values.
        wanted: the format, or ``auto``.
        limit: decoded bytes of a piece, about; a single row may be larger.
        content: what :func:`content_of` has read; None: it is read here.

    Raises:
        InputError: the file is missing, truncated or not what its name says, or holds what its types do not allow;
            names the file.
    """
    try:
        for piece in _pieces(split, schema, wanted, limit, content):
            _check_values(piece)
            yield piece
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise unreadable(split.file, error) from error


def _pieces(
    split: Split, schema: pa.Schema, wanted: InputFormat, limit: int, content: bytes | None
) -> Iterator[pa.Table]:
    match format_of(split.file, wanted):
        case None:
            yield from _cut(_arrow(split, limit), limit)
        case InputFormat.CSV:
            yield from _cut(_csv(split.file, schema, limit), limit)
        case InputFormat.JSON:
            for block in _json(split.file, schema, limit):  # blocks may lack columns: they are not joined
                yield from _cut([block], limit)
        case _:
            yield from _cut(_parquet(split, limit, content), limit)


def read_columns(file: InputFile, schema: pa.Schema, wanted: InputFormat) -> pa.Schema:
    """The columns of a file: Parquet and Arrow files say them; new ones of CSV and JSON are typed by the first block.

    Args:
        file: what to read.
        schema: the table's columns, which type CSV and JSON values.
        wanted: the format, or ``auto``.

    Raises:
        InputError: the file is missing, truncated or not what its name says; names the file.
    """
    try:
        match format_of(file, wanted):
            case None:
                store = storage_at(file.root)
                return pa.ipc.open_file(pa.PythonFile(StorageFile(store, file.path, file.size_bytes), mode="r")).schema
            case InputFormat.CSV | InputFormat.JSON:
                return next(iter(read_pieces(Split(file), schema, wanted, _CSV_BLOCK))).schema
            case _:
                return pq.ParquetFile(StorageFile(storage_at(file.root), file.path, file.size_bytes)).schema_arrow
    except (pa.ArrowException, OSError, EOFError, UnicodeDecodeError, zlib.error) as error:
        raise unreadable(file, error) from error


def _check_values(piece: pa.Table) -> None:
    """Readers of Parquet and Arrow files do not look whether a text is UTF-8.

    Raises:
        ArrowInvalid: a value is not what its type says; names the column.
    """
    for name, column in zip(piece.column_names, piece.columns, strict=True):
        try:
            column.validate(full=True)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(f"column {name!r}: {first_line(error)}") from error


def _cut(tables: Iterable[pa.Table], limit: int) -> Iterator[pa.Table]:
    """Join and cut tables of one schema to pieces of at most ``limit`` bytes."""
    some: list[pa.Table] = []
    size = 0
    for table in tables:
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
    """Whether a Parquet file is read with one request."""
    return split.decoded_bytes <= limit and split.last_row_group is None


def _parquet(split: Split, limit: int, content: bytes | None) -> Iterator[pa.Table]:
    file, store = split.file, storage_at(split.file.root)
    is_small = split.decoded_bytes <= limit
    if _is_whole(split, limit):
        yield pq.ParquetFile(pa.BufferReader(store.read(file.path) if content is None else content)).read()
        return
    source = StorageFile(store, file.path, file.size_bytes)
    metadata = pq.ParquetFile(source).metadata
    groups = range(split.first_row_group, split.last_row_group or metadata.num_row_groups)
    if is_small:
        yield pq.ParquetFile(source, metadata=metadata, pre_buffer=True).read_row_groups(list(groups))
        return
    largest = max((_compressed(metadata.row_group(g)) for g in groups), default=0)
    # A row group is fetched as a whole if there is room for it, else page by page.
    how = {"pre_buffer": True} if largest <= limit else {"pre_buffer": False, "buffer_size": _PAGE_BUFFER}
    reader = pq.ParquetFile(source, metadata=metadata, **how)
    yield reader.schema_arrow.empty_table()
    for group in groups:
        facts = metadata.row_group(group)
        row_bytes = max(facts.total_byte_size // max(facts.num_rows, 1), 1)
        rows = min(max(limit // (4 * row_bytes), 1), _BATCH_ROWS)
        for batch in reader.iter_batches(batch_size=rows, row_groups=[group]):
            yield pa.Table.from_batches([batch])


def _compressed(group: pq.RowGroupMetaData) -> int:
    return sum(group.column(c).total_compressed_size for c in range(group.num_columns))


def _csv(file: InputFile, schema: pa.Schema, limit: int) -> Iterator[pa.Table]:
    types = {f.name: f.type for f in schema if not pa.types.is_nested(f.type)} | {DELETE_MARK: pa.bool_()}
    options = pa.csv.ConvertOptions(column_types=types, strings_can_be_null=True, quoted_strings_can_be_null=False)
    whole = _whole(file, limit)
    if whole is not None:
        yield pa.csv.read_csv(io.BytesIO(whole), convert_options=options)
        return
    block = pa.csv.ReadOptions(block_size=_CSV_BLOCK)
    names = pa.csv.open_csv(_plain(file), read_options=block).schema.names
    options.column_types = dict.fromkeys(names, pa.string()) | types  # what the table has not got is never used
    with pa.csv.open_csv(_plain(file), read_options=block, convert_options=options) as reader:
        for batch in reader:
            yield pa.Table.from_batches([batch])


def _json(file: InputFile, schema: pa.Schema, limit: int) -> Iterator[pa.Table]:
    options = pa.json.ParseOptions(explicit_schema=pa.schema([f.with_nullable(True) for f in schema]))
    whole = _whole(file, limit)
    blocks = _line_blocks(_plain(file), limit) if whole is None else iter([whole])
    filled = (block for block in blocks if block.strip())
    first = next(filled, None)
    if first is None:
        yield schema.empty_table()
        return
    for block in itertools.chain([first], filled):
        yield pa.json.read_json(io.BytesIO(block), parse_options=options)


def _line_blocks(source: BinaryIO, limit: int) -> Iterator[bytes]:
    """Whole lines, half of ``limit`` at a time: parsed values stand beside the text."""
    step = max(limit // 2, 1)
    rest = b""
    while data := source.read(step):
        head, newline, tail = data.rpartition(b"\n")
        if newline:
            yield rest + head + newline
            rest = tail
        else:
            rest += tail
    yield rest


def _plain(file: InputFile) -> pa.NativeFile:
    """The file's text as a stream; what ends in ``.gz`` is unpacked."""
    source = pa.PythonFile(StorageFile(storage_at(file.root), file.path, file.size_bytes), mode="r")
    return (
        pa.CompressedInputStream(source, "gzip") if _is_packed(file) else pa.BufferedInputStream(source, _PAGE_BUFFER)
    )


def _is_packed(file: InputFile) -> bool:
    return file.path.lower().endswith(".gz")


def _whole(file: InputFile, limit: int) -> bytes | None:
    """The file's text, fetched with one request; None if it is larger than ``limit``."""
    if not _is_small(file, limit):
        return None
    data = storage_at(file.root).read(file.path)
    if not _is_packed(file):
        return data
    text: bytes = pa.CompressedInputStream(pa.BufferReader(data), "gzip").read(min(limit, _WHOLE) + 1)
    return text if len(text) <= limit else None
