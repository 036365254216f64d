"""Parquet files put together from column chunks of other files, copied as bytes.

A chunk's pages say nothing of where they stand, so they can be moved; only the footer counts from the start of the file. A
new file gets the pages, their ColumnChunk structs with the offsets moved, and the rest of its footer (schema, key/values,
``created_by``) from a file without rows that was written for it. All parts must have one and the same Parquet schema.
A chunk that has more than pages (page index, filter of Parquet's own, encryption) is not copied.

Source of the format: parquet.thrift (parquet-format 2.12), as far as :mod:`lakeindex.parquet.footer_text` names it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow.parquet as pq

from lakeindex.errors import InvariantError
from lakeindex.parquet.footer_text import ChunkText, FooterText, footer_text

_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8
_LIST_OF_STRUCTS: Final = 12
_MOST_IN_HEAD: Final = 15
_PIECE_BYTES: Final = 8 * 1024 * 1024


class Content(Protocol):
    """A file's bytes, in memory or read where they are sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> bytes | memoryview: ...


@dataclass(frozen=True, slots=True, eq=False)
class ParquetParts:
    """A Parquet file whose column chunks can be copied.

    Attributes:
        data: the whole file.
        footer: thrift bytes of its footer.
        text: where things stand in the footer.
        rows: rows of each row group.
        columns: path of each leaf column.
    """

    data: Content
    footer: bytes
    text: FooterText
    rows: tuple[int, ...]
    columns: tuple[str, ...]

    @property
    def schema(self) -> bytes:
        """The schema elements, as they stand in the footer: equal if and only if the Parquet schemas are."""
        return self.footer[slice(*self.text.schema)]


def parts_of(data: Content, metadata: pq.FileMetaData) -> ParquetParts | None:
    """The parts of a Parquet file.

    Args:
        data: the whole file.
        metadata: its parsed footer.

    Returns:
        None if chunks of the file cannot be copied: one lies outside of the file, or has more than pages.
    """
    (length,) = struct.unpack("<I", data[-_END_BYTES:-4])
    end = len(data) - _END_BYTES - length
    footer = bytes(data[end:-_END_BYTES])
    groups = metadata.num_row_groups
    text = footer_text(footer, metadata.num_columns, groups)
    if text is None:
        return None
    for chunk in (c for group in text.chunks for c in group):
        if chunk.has_more or chunk.start < len(_MAGIC) or chunk.size < 0 or chunk.start + chunk.size > end:
            return None
    rows = tuple(metadata.row_group(g).num_rows for g in range(groups))
    columns = tuple(metadata.schema.column(c).path for c in range(metadata.num_columns))
    return ParquetParts(data, footer, text, rows, columns)


@dataclass(frozen=True, slots=True)
class ChunkOf:
    """A column chunk of a file."""

    source: ParquetParts
    row_group: int
    column: int

    @property
    def text(self) -> ChunkText:
        """Where it stands."""
        return self.source.text.chunks[self.row_group][self.column]


@dataclass(frozen=True, slots=True)
class GroupOf:
    """A row group of the new file: rows, and a chunk a leaf column, in the schema's order."""

    rows: int
    chunks: tuple[ChunkOf, ...]


def splice(shell: ParquetParts, groups: Iterable[GroupOf]) -> Iterator[bytes | memoryview]:
    """A new Parquet file.

    Args:
        shell: a file without rows: its schema and key/values become the new file's.
        groups: the row groups; each is asked for when those before it were given out.

    Yields:
        The file in pieces, the footer in the last; the others are parts of the sources, as they slice.

    Raises:
        InvariantError: a row group does not have the schema's columns, or a chunk not the row group's rows.
    """
    yield _MAGIC
    at = len(_MAGIC)
    rows = 0
    structs: list[bytes] = []
    span: tuple[ParquetParts, int, int] | None = None
    for ordinal, group in enumerate(groups):
        _check(shell, group)
        first = at
        texts = []
        for chunk in group.chunks:
            source, text = chunk.source, chunk.text
            if span is not None and span[0] is source and span[2] == text.start:
                span = (source, span[1], text.start + text.size)
            else:
                yield from _cut(span)
                span = (source, text.start, text.start + text.size)
            texts.append(_moved(source.footer, text, at - text.start))
            at += text.size
        full = sum(chunk.text.full_size for chunk in group.chunks)
        structs.append(_row_group(texts, full, group.rows, first, at - first, ordinal))
        rows += group.rows
    yield from _cut(span)
    footer = [*_footer(shell, structs, rows)]
    yield b"".join([*footer, struct.pack("<I", sum(map(len, footer))), _MAGIC])


def _cut(span: tuple[ParquetParts, int, int] | None) -> Iterator[bytes | memoryview]:
    """Bytes of a file, in pieces of bounded size."""
    if span is None:
        return
    source, start, stop = span
    for at in range(start, stop, _PIECE_BYTES):
        yield source.data[at : min(at + _PIECE_BYTES, stop)]


def _check(shell: ParquetParts, group: GroupOf) -> None:
    names = tuple(chunk.source.columns[chunk.column] for chunk in group.chunks)
    if names != shell.columns:
        raise InvariantError(f"a row group has the columns {names}, the schema {shell.columns}", culprit="splice")
    rows = {chunk.source.rows[chunk.row_group] for chunk in group.chunks}
    if rows != {group.rows}:
        raise InvariantError(f"a row group of {group.rows} rows got chunks of {sorted(rows)} rows", culprit="splice")


def _moved(footer: bytes, chunk: ChunkText, by: int) -> bytes:
    """The chunk's struct for pages that moved; ``file_offset``, which nobody needs, becomes 0."""
    pieces = []
    at, end = chunk.span
    for begin, stop, value in chunk.offsets:
        pieces += [footer[at:begin], _number(value + by if value > 0 else 0)]
        at = stop
    return b"".join([*pieces, footer[at:end]])


def _row_group(chunks: Sequence[bytes], full_size: int, rows: int, start: int, size: int, ordinal: int) -> bytes:
    """A RowGroup struct; a head byte is (id delta << 4) | type: 9 list, 6 i64, 4 i16."""
    ordinals = b"\x14" + _number(ordinal) if ordinal < 2**15 else b""
    parts = [b"\x19", _list_head(len(chunks)), *chunks, b"\x16", _number(full_size), b"\x16", _number(rows)]
    parts += [b"\x26", _number(start), b"\x16", _number(size), ordinals, b"\x00"]
    return b"".join(parts)


def _footer(shell: ParquetParts, groups: Sequence[bytes], rows: int) -> Iterator[bytes]:
    raw, text = shell.footer, shell.text
    yield raw[: text.rows[0]]
    yield _number(rows)
    yield raw[text.rows[1] : text.groups[0]]
    yield _list_head(len(groups))
    yield from groups
    yield raw[text.groups[1] :]


def _list_head(count: int) -> bytes:
    if count < _MOST_IN_HEAD:
        return bytes([count << 4 | _LIST_OF_STRUCTS])
    return bytes([_MOST_IN_HEAD << 4 | _LIST_OF_STRUCTS]) + _varint(count)


def _number(value: int) -> bytes:
    """A thrift number: zigzag varint of a value that is not negative."""
    return _varint(value << 1)


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
