"""Parquet files put together from column chunks of other files, copied as bytes.

A chunk's pages say nothing of where they stand, so they can be moved; only the footer counts from the start of the
file. A new file gets the pages, their ColumnChunk structs with the offsets moved, and the rest of its footer (schema,
key/values, ``created_by``) from a file without rows that was written for it. All parts must have one and the same
Parquet schema. A chunk that has more than pages (page index, filter of Parquet's own, encryption) is not copied.

What is copied from a stored file is checked on its way: each page against its checksum, the page headers against theirs
(:mod:`lakeindex.parquet.stamps`). A page without a checksum is copied as it is and gets none, since that would vouch
for what nobody has checked. The new footer has the checksums of all page headers that are known, and one of its own.

Source of the format: parquet.thrift (parquet-format 2.12), as far as :mod:`lakeindex.parquet.footer_text` names it.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow.parquet as pq

from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen
from lakeindex.parquet import stamps
from lakeindex.parquet.footer_text import ChunkText, FooterText, footer_text
from lakeindex.parquet.pages import ChunkWalk, DamagedPagesError

_MAGIC: Final = b"PAR1"
_END_BYTES: Final = 8
_LIST_OF_STRUCTS: Final = 12
_MOST_IN_HEAD: Final = 15
_PIECE_BYTES: Final = 8 * 1024 * 1024


class Content(Protocol):
    """A file's bytes, in memory or read where they are sliced."""

    def __len__(self) -> int: ...

    def __getitem__(self, span: slice, /) -> bytes | memoryview: ...


class ParquetParts(Frozen, eq=False):
    """A Parquet file whose column chunks can be copied.

    Attributes:
        footer: thrift bytes of its footer.
        columns: path of each leaf column.
        headers: ``headers[row group][column]``: CRC-32 of the chunk's page headers; None where the file does not say.
        is_stored: it was read from a storage, not just encoded: nothing of it is believed unchecked.
        nan: (row group, column) of chunks that have values which are not a number.
    """

    data: Content
    footer: bytes
    text: FooterText
    rows: tuple[int, ...]
    columns: tuple[str, ...]
    headers: tuple[tuple[int | None, ...], ...] = ()
    is_stored: bool = True
    nan: frozenset[tuple[int, int]] = frozenset()

    @property
    def schema(self) -> bytes:
        """The schema elements, as they stand in the footer: equal if and only if the Parquet schemas are."""
        return self.footer[slice(*self.text.schema)]

    def groups(self) -> Iterator[GroupOf]:
        for number, rows in enumerate(self.rows):
            yield GroupOf(rows, tuple(self.chunk(number, column) for column in range(len(self.columns))))

    def chunk(self, row_group: int, column: int) -> ChunkOf:
        """One of its chunks; its statistics say no ends if some of its values are not a number."""
        return ChunkOf(self, row_group, column, without_ends=(row_group, column) in self.nan)


def footer_bytes(data: Content) -> bytes:
    """The thrift bytes of a file's footer. Raises: DamagedPagesError: there is none, or it is not what was written."""
    size = len(data)
    tail = bytes(data[-_END_BYTES:])
    length = int.from_bytes(tail[:4], "little") if len(tail) == _END_BYTES and tail[4:] == _MAGIC else 0
    if not 0 < length <= size - _END_BYTES - len(_MAGIC):
        raise DamagedPagesError("it does not end as a Parquet file does")
    footer = bytes(data[size - _END_BYTES - length : -_END_BYTES])
    problem = stamps.footer_problem(footer)
    if problem is not None:
        raise DamagedPagesError(problem)
    return footer


def parts_of(
    data: Content,
    metadata: pq.FileMetaData,
    *,
    footer: bytes | None = None,
    entries: Mapping[bytes, bytes] | None = None,
    is_stored: bool = True,
    nan: frozenset[tuple[int, int]] = frozenset(),
) -> ParquetParts | None:
    """The parts of a Parquet file.

    Args:
        footer: what :func:`footer_bytes` gave, if it was asked before.
        entries: the metadata's key/values, if they were: a filter among them is copied each time.

    Returns:
        None if chunks of the file cannot be copied: one lies outside of the file, or has more than pages.

    Raises:
        DamagedPagesError: the footer is not what was written.
    """
    if footer is None:
        footer = footer_bytes(data)
    end = len(data) - _END_BYTES - len(footer)
    text = footer_text(footer, metadata.num_columns, metadata.num_row_groups)
    if text is None:
        return None
    for chunk in (c for group in text.chunks for c in group):
        if chunk.has_more or chunk.start < len(_MAGIC) or chunk.size < 1 or chunk.start + chunk.size > end:
            return None
    rows = tuple(metadata.row_group(g).num_rows for g in range(metadata.num_row_groups))
    schema = metadata.schema
    columns = tuple(schema.column(c).path for c in range(metadata.num_columns))
    return ParquetParts(data, footer, text, rows, columns, known_headers(metadata, entries), is_stored, nan)


def known_headers(
    metadata: pq.FileMetaData, entries: Mapping[bytes, bytes] | None = None
) -> tuple[tuple[int | None, ...], ...]:
    """CRC-32 of the page headers of each chunk, ``[row group][column]``; None where the file does not say.

    Raises:
        DamagedPagesError: what it says does not fit the file.
    """
    groups, width = metadata.num_row_groups, metadata.num_columns
    known = (metadata.metadata or {}) if entries is None else entries
    entry = known.get(stamps.HEADERS.encode()) or b""
    try:
        crcs = stamps.parse_headers(entry.decode("ascii", "replace") or None, groups * width)
    except ValueError as error:
        raise DamagedPagesError(str(error)) from error
    return tuple(tuple(crcs[g * width : (g + 1) * width]) for g in range(groups))


class ChunkOf(NamedTuple):
    """A column chunk of a file; ``without_ends``: its statistics are to say no least and greatest value. A tuple, as
    there are dozens in every file.
    """

    source: ParquetParts
    row_group: int
    column: int
    without_ends: bool = False

    @property
    def text(self) -> ChunkText:
        return self.source.text.chunks[self.row_group][self.column]


class GroupOf(Frozen):
    """A row group of the new file: rows, and a chunk a leaf column, in the schema's order."""

    rows: int
    chunks: tuple[ChunkOf, ...]


def splice(
    shell: ParquetParts, groups: Iterable[GroupOf], entries: Mapping[str, str] | None = None
) -> Iterator[bytes | memoryview]:
    """A new Parquet file.

    Args:
        shell: a file without rows: its schema and key/values become the new file's.
        groups: the row groups; each is asked for when those before it were given out.
        entries: key/values that stand before those of the shell, which has some.

    Yields:
        The file in pieces, the footer in the last; the others are parts of the sources, as they slice.

    Raises:
        InvariantError: a row group does not have the schema's columns, or a chunk not the row group's rows.
        DamagedPagesError: what is copied from a stored file is not what was written.
    """
    yield _MAGIC
    at = len(_MAGIC)
    rows = 0
    structs: list[bytes] = []
    headers: list[int | None] = []
    run: _Run | None = None
    for ordinal, group in enumerate(groups):
        _check(shell, group)
        first, full = at, 0
        texts = []
        for chunk in group.chunks:
            if run is None or not run.takes(chunk):
                yield from () if run is None else run.pieces(headers)
                run = _Run(chunk)
            run.add(chunk)
            text = chunk.text
            texts.append(_moved(chunk, at - text.start))
            at += text.size
            full += text.full_size
        structs.append(_row_group(texts, len(texts), (full, group.rows, first, at - first, ordinal)))
        rows += group.rows
    yield from () if run is None else run.pieces(headers)
    footer = stamps.stamped(b"".join(_footer(shell, structs, rows, headers, entries or {})))
    yield b"".join([*footer, struct.pack("<I", sum(map(len, footer))), _MAGIC])


def joined(sources: Sequence[tuple[ParquetParts, Sequence[int]]], columns: Collection[str] | None) -> bytes:
    """A Parquet file, to be decoded at once, of row groups of several.

    Args:
        sources: files of one schema, and their row groups.
        columns: top-level columns that will be decoded; None: all. Where others begin, the file does not say rightly.
    """
    first = sources[0][0]
    wanted = [n for n, path in enumerate(first.columns) if columns is None or path.partition(".")[0] in columns]
    pieces: list[bytes | memoryview] = [_MAGIC]
    structs: list[bytes] = []
    at, rows = len(_MAGIC), 0
    for parts, groups in sources:
        end = len(parts.data) - _END_BYTES - len(parts.footer)
        body = parts.data[len(_MAGIC) : end]
        by = at - len(_MAGIC)
        for group in groups:
            chunks = parts.text.chunks[group]
            places = [place for n in wanted for place in chunks[n].offsets]
            struct_of = _with_numbers(parts.footer, (chunks[0].span[0], chunks[-1].span[1]), places, by)
            structs.append(_row_group([struct_of], len(chunks), (0, parts.rows[group], at, 0, len(structs))))
            rows += parts.rows[group]
        pieces.append(body)
        at += len(body)
    footer = b"".join(_footer(first, structs, rows, [], {}))
    return b"".join([*pieces, footer, struct.pack("<I", len(footer)), _MAGIC])


class _Run:
    """Chunks of a file that lie behind each other, checked while they are copied."""

    def __init__(self, first: ChunkOf) -> None:
        self._source = first.source
        self._start = self._stop = first.text.start
        self._chunks: deque[ChunkOf] = deque()

    def takes(self, chunk: ChunkOf) -> bool:
        return chunk.source is self._source and chunk.text.start == self._stop

    def add(self, chunk: ChunkOf) -> None:
        self._chunks.append(chunk)
        self._stop += chunk.text.size

    def pieces(self, headers: list[int | None]) -> Iterator[bytes | memoryview]:
        """The bytes, in pieces of bounded size; ``headers`` gets the CRC of each chunk's page headers, if it is known.

        Raises:
            DamagedPagesError: a chunk is not what was written.
        """
        walk = ChunkWalk(checks_bodies=self._source.is_stored)
        for at in range(self._start, self._stop, _PIECE_BYTES):
            piece = self._source.data[at : min(at + _PIECE_BYTES, self._stop)]
            view, done = memoryview(piece), 0
            while done < len(view):
                text = self._chunks[0].text
                part = view[done : text.start + text.size - at]
                walk.feed(part)
                done += len(part)
                if at + done == text.start + text.size:
                    headers.append(_headers_crc(self._chunks.popleft(), walk))
                    walk = ChunkWalk(checks_bodies=self._source.is_stored)
            yield piece


def _headers_crc(chunk: ChunkOf, walk: ChunkWalk) -> int | None:
    """The CRC of a chunk's page headers; None if nobody knows what they were.

    Raises:
        DamagedPagesError: the chunk is not what was written.
    """
    walked, source = walk.end(), chunk.source
    known = source.headers[chunk.row_group][chunk.column] if source.is_stored else walked.headers_crc
    problem = walked.against(known)
    if problem is not None:
        raise DamagedPagesError(f"row group {chunk.row_group}, column {source.columns[chunk.column]!r}: {problem}")
    return known


def _check(shell: ParquetParts, group: GroupOf) -> None:
    names = tuple(chunk.source.columns[chunk.column] for chunk in group.chunks)
    if names != shell.columns:
        raise InvariantError(f"a row group has the columns {names}, the schema {shell.columns}", culprit="splice")
    rows = {chunk.source.rows[chunk.row_group] for chunk in group.chunks}
    if rows != {group.rows}:
        raise InvariantError(f"a row group of {group.rows} rows got chunks of {sorted(rows)} rows", culprit="splice")


def _moved(chunk: ChunkOf, by: int) -> bytes:
    """The chunk's struct for pages that moved; ``file_offset``, which nobody needs, becomes 0."""
    text = chunk.text
    others = []
    if chunk.without_ends and text.statistics is not None:
        others.append((*text.statistics, _statistics(text.nulls)))
    return _with_numbers(chunk.source.footer, text.span, text.offsets, by, others)


def _with_numbers(
    footer: bytes,
    span: tuple[int, int],
    offsets: Iterable[tuple[int, int, int]],
    by: int,
    others: Iterable[tuple[int, int, bytes]] = (),
) -> bytes:
    """A part of a footer with offsets moved, and with other bytes at ``others``."""
    changes = [(begin, end, _number(value + by) if value > 0 else b"\x00") for begin, end, value in offsets]
    pieces = []
    at, end = span
    for begin, stop, new in sorted([*changes, *others]):
        pieces += [footer[at:begin], new]
        at = stop
    return b"".join([*pieces, footer[at:end]])


def _statistics(nulls: int | None) -> bytes:
    """A Statistics struct that says how many nulls there are, if that is known: 3 null_count, i64."""
    return b"\x00" if nulls is None else b"\x36" + _number(nulls) + b"\x00"


def _row_group(chunks: Sequence[bytes], count: int, numbers: tuple[int, int, int, int, int]) -> bytes:
    """A RowGroup struct; a head byte is (id delta << 4) | type: 9 list, 6 i64, 4 i16.

    Args:
        chunks: the ColumnChunk structs, behind each other.
        numbers: bytes before compression, rows, where its pages start, their bytes, its place among the row groups.
    """
    full_size, rows, start, size, ordinal = numbers
    ordinals = b"\x14" + _number(ordinal) if ordinal < 2**15 else b""
    parts = [b"\x19", _list_head(count), *chunks, b"\x16", _number(full_size), b"\x16", _number(rows)]
    parts += [b"\x26", _number(start), b"\x16", _number(size), ordinals, b"\x00"]
    return b"".join(parts)


def _footer(
    shell: ParquetParts,
    groups: Sequence[bytes],
    rows: int,
    headers: Sequence[int | None],
    entries: Mapping[str, str],
) -> Iterator[bytes]:
    raw, text = shell.footer, shell.text
    yield raw[: text.rows[0]]
    yield _number(rows)
    yield raw[text.rows[1] : text.groups[0]]
    yield _list_head(len(groups))
    yield from groups
    if text.entries is None:  # a shell without entries gets none
        yield raw[text.groups[1] :]
        return
    begin, end = text.entries
    count, first = _read_list_head(raw, begin)
    yield raw[text.groups[1] : begin]
    yield _list_head(len(entries) + count + 2)
    yield from (_entry(key, value) for key, value in entries.items())
    yield raw[first:end]
    yield _entry(stamps.HEADERS, stamps.headers_text(headers))
    yield stamps.footer_entry(_varint(len(stamps.FOOTER)))
    yield raw[end:]


def _entry(key: str, value: str) -> bytes:
    """A KeyValue struct: 1 key, 2 value, both texts."""
    name, text = key.encode(), value.encode()
    return b"".join([b"\x18", _varint(len(name)), name, b"\x18", _varint(len(text)), text, b"\x00"])


def _read_list_head(raw: bytes, at: int) -> tuple[int, int]:
    """How many elements a list has, and where the first one stands."""
    if raw[at] >> 4 < _MOST_IN_HEAD:
        return raw[at] >> 4, at + 1
    count = shift = 0
    for place, byte in enumerate(raw[at + 1 :], at + 2):
        count |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return count, place
    raise InvariantError("a list without an end in a footer that was just written", culprit="splice")


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
