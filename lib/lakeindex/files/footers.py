"""Footers of base files: row groups, key range and filter, read with one or two range requests.

Nothing in a Parquet file protects its footer, so nothing in it is believed unchecked:

* sizes it claims are checked against the bytes that are there before they are read or allocated;
* a footer that cannot be read, or that is not what its checksum says (:mod:`lakeindex.parquet.stamps`; those of other
  writers have none), makes the file unreadable: TableCorruptError;
* pyarrow parses it, but is not asked for column chunks: on some damaged footers that ends the process
  (:mod:`lakeindex.parquet.footer_text`);
* a range or filter that is missing or damaged is left out and named in ``problem``: the file then stays a candidate
  for every key. A range is widened to what the key column's statistics say; our own files carry a checksum
  (:mod:`lakeindex.bloom.marks`); a filter of another writer must have as many bits set as its rows explain, and hold
  the least and the greatest key. (A single bit lost there cannot be seen without reading the keys: ``check`` does.)
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import field
from msgspec.structs import replace

from lakeindex.bloom import marks
from lakeindex.bloom.filter import FilterProblem, parse_filter
from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.files.file_system_view import missing_file
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.hashing.java_strings import java_order_key, orders_may_differ
from lakeindex.model import BaseFile
from lakeindex.parquet import stamps
from lakeindex.parquet.footer_text import ColumnChunk, column_chunks
from lakeindex.storage.port import Storage

RECORD_KEY: Final = "_hoodie_record_key"

_MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_END_BYTES: Final = 8
_TAIL_BYTES: Final = 65_536
_MOST_LIST_ENTRIES: Final = 100_000
_NO_FILTER: Final = "footer has no bloom filter"


class Footer(ComparedInPart):
    """What a base file's footer says, as far as it can be believed.

    Attributes:
        min_key: least record key in Java's order; None if there is no range that can be trusted.
        max_key: greatest record key; None exactly if ``min_key`` is.
        filter_text: base64 text of the filter; None if there is none that can be trusted, or it was not asked for.
        filter_type: ``hoodie_bloom_filter_type_code``; None means SIMPLE.
        problem: what is wrong with range or filter; None if nothing is.
        arrow_schema: the file's columns; None for a footer that comes from the cache.
        key_value: the footer's entries that are text, without filter; empty for one from the cache.
    """

    aside: ClassVar = frozenset({"arrow_schema", "key_value"})
    rows: int
    row_group_rows: tuple[int, ...]
    min_key: str | None = None
    max_key: str | None = None
    filter_text: bytes | None = None
    filter_type: str | None = None
    problem: str | None = None
    arrow_schema: pa.Schema | None = None
    key_value: dict[str, str] = field(default_factory=dict)

    def without_filter(self) -> Footer:
        """The same without the filter's text and the schema: small enough to send to the driver."""
        return replace(self, filter_text=None, arrow_schema=None, key_value={})

    def with_filter(self, filter_text: bytes) -> Footer:
        return replace(self, filter_text=filter_text)


class Shape(Frozen):
    """What a base file's footer says, but for what it says of the keys."""

    rows: int
    row_group_rows: tuple[int, ...]
    arrow_schema: pa.Schema


def read_footer(storage: Storage, base_file: BaseFile) -> Footer:
    """The footer of a base file.

    Args:
        base_file: which file; its listed size must be right.

    Raises:
        TableCorruptError: the file is missing, or its footer cannot be read.
    """
    return parse_footer(_tail_of(storage, base_file).footer, base_file)


def read_shape(storage: Storage, base_file: BaseFile) -> Shape:
    """As :func:`read_footer`, for who asks nothing of the keys: range and filter are not looked at."""
    return parse_shape(_tail_of(storage, base_file).footer, base_file)


class ParquetFooter(Frozen):
    """What reading rows takes, and nothing of the keys.

    Attributes:
        paths: of the columns that hold values, in the file's order, with dots.
    """

    metadata: pq.FileMetaData
    arrow_schema: pa.Schema
    paths: tuple[str, ...]


def read_parquet_footer(storage: Storage, base_file: BaseFile) -> ParquetFooter:
    """As :func:`read_footer`, for who reads rows: where the keys lie is not looked at, either."""
    return _parquet_footer(_tail_of(storage, base_file).footer, base_file)


def _tail_of(storage: Storage, base_file: BaseFile) -> _Tail:
    try:
        return _read_tail(storage, base_file)
    except ObjectNotFoundError:
        raise missing_file(base_file.path, base_file.instant_time) from None


class FileLayout(Frozen):
    """What it takes to read parts of a base file.

    Attributes:
        footer: what the footer says, with its filter.
        key_ends: least and greatest record key of each row group by its statistics (UTF-8 bytes);
            None where it has none.
        key_bytes: compressed bytes of the key column.
        whole: the file's bytes, if all of them came with the footer; else None.
    """

    footer: Footer
    metadata: pq.FileMetaData
    key_ends: tuple[tuple[bytes, bytes] | None, ...]
    key_bytes: int
    whole: bytes | None = None


class Structure(Frozen):
    """What it takes to read parts of a base file, but for what its footer says of the keys.

    Attributes:
        key_chunks: the key column's chunk in each row group.
    """

    shape: Shape
    metadata: pq.FileMetaData
    key_chunks: tuple[ColumnChunk, ...]
    whole: bytes | None = None

    def layout(self) -> FileLayout:
        return _layout_of(self)


def read_structure(storage: Storage, base_file: BaseFile) -> Structure:
    """As :func:`read_layout`, for who may need nothing of the filter: it is parsed when it is asked for."""
    tail = _tail_of(storage, base_file)
    return replace(_structure(tail.footer, base_file), whole=tail.whole)


def read_layout(storage: Storage, base_file: BaseFile) -> FileLayout:
    """The footer of a base file, and what is needed to read parts of the file without reading the footer again. Errors
    as of :func:`read_footer`.
    """
    return read_structure(storage, base_file).layout()


def parse_layout(raw: bytes, base_file: BaseFile) -> FileLayout:
    """The same, from the footer's thrift bytes. Raises: TableCorruptError."""
    return _structure(raw, base_file).layout()


def _layout_of(structure: Structure) -> FileLayout:
    shape, metadata = structure.shape, structure.metadata
    chunk_ends = [chunk.ends for chunk in structure.key_chunks]
    values = metadata.metadata or {}
    filter_text = values.pop(marks.FILTER.encode(), None) or values.pop(marks.OLD_FILTER.encode(), None)
    values.pop(marks.OLD_FILTER.encode(), None)
    entries, problems = _text_entries(values)
    ends = _range(entries, _column_ends(chunk_ends), problems) if shape.rows else None
    known = _known_keys(entries, chunk_ends) if shape.rows else ()
    text = _checked_filter(filter_text, entries, shape.rows, known, problems)
    if not _checksum_agrees(filter_text, entries):
        problems.append("key range or bloom filter is damaged: their checksum does not agree")
        ends, text = None, None
    footer = Footer(
        rows=shape.rows,
        row_group_rows=shape.row_group_rows,
        min_key=ends[0] if ends else None,
        max_key=ends[1] if ends else None,
        filter_text=text,
        filter_type=entries.get(marks.FILTER_TYPE),
        problem="; ".join(problems) or None,
        arrow_schema=shape.arrow_schema,
        key_value=entries,
    )
    size = sum(chunk.size for chunk in structure.key_chunks)
    return FileLayout(footer, metadata, tuple(chunk_ends), size, structure.whole)


class _Tail(Frozen):
    """The thrift bytes of a footer; and the whole file, if that is what was read for them."""

    footer: bytes
    whole: bytes | None


def read_footer_bytes(storage: Storage, base_file: BaseFile) -> bytes:
    """The thrift bytes of the footer: the file's tail, and what is missing of a long one.

    Raises:
        TableCorruptError: the file has no footer, one that claims to be longer than the file,
            or one that does not agree with its checksum.
        ObjectNotFoundError: there is no such file.
    """
    return _read_tail(storage, base_file).footer


def _read_tail(storage: Storage, base_file: BaseFile) -> _Tail:
    size = base_file.size_bytes
    if size < len(_MAGIC) + _END_BYTES:
        raise _corrupt(base_file, f"it has {size} bytes, too few for a Parquet file")
    start = max(0, size - _TAIL_BYTES)
    tail = storage.read_range(base_file.path, start, size - start + 1)  # one more, which must not be there
    if len(tail) != size - start:
        found = f"ends at {start + len(tail)}" if len(tail) < size - start else "is longer"
        raise _corrupt(base_file, f"it is listed with {size} bytes but {found}")
    if tail[-4:] != _MAGIC:
        what = "it is encrypted" if tail[-4:] == _ENCRYPTED else "it does not end as a Parquet file does"
        raise _corrupt(base_file, what)
    (length,) = struct.unpack("<I", tail[-_END_BYTES:-4])
    if length == 0 or length > size - _END_BYTES - len(_MAGIC):
        raise _corrupt(base_file, f"its footer claims {length} bytes, the file has {size}")
    head = b""
    first = size - _END_BYTES - length
    if first < start:
        head = storage.read_range(base_file.path, first, start - first)
        if len(head) != start - first:
            raise _corrupt(base_file, f"reading its footer gave {len(head)} bytes instead of {start - first}")
    raw = b"".join((head, memoryview(tail)[max(first - start, 0) : -_END_BYTES]))
    problem = stamps.footer_problem(raw)
    if problem is not None:
        raise _corrupt(base_file, problem)
    return _Tail(raw, None if start else tail)


def footer_of(row_group_rows: Sequence[int], entries: Mapping[str, str]) -> Footer:
    """The footer of a base file that was just made: what :func:`read_footer` says of it.

    Args:
        entries: what the footer says of the keys (:mod:`lakeindex.bloom.marks`); nothing where rows store none.
    """
    rows, problems = sum(row_group_rows), list[str]()
    ends = _range(entries, None, problems) if rows else None
    text = entries.get(marks.FILTER)
    if text is None:
        problems.append(_NO_FILTER)
    return Footer(
        rows,
        tuple(row_group_rows),
        ends[0] if ends else None,
        ends[1] if ends else None,
        None if text is None else text.encode(),
        entries.get(marks.FILTER_TYPE),
        "; ".join(problems) or None,
    )


def parse_footer(raw: bytes, base_file: BaseFile) -> Footer:
    """The footer in its thrift bytes. Raises: TableCorruptError."""
    return parse_layout(raw, base_file).footer


def parse_shape(raw: bytes, base_file: BaseFile) -> Shape:
    """The same, without what it says of the keys. Raises: TableCorruptError."""
    return _structure(raw, base_file).shape


def _structure(raw: bytes, base_file: BaseFile) -> Structure:
    parquet = _parquet_footer(raw, base_file)
    metadata, schema = parquet.metadata, parquet.arrow_schema
    chunks = _key_chunks(raw, metadata, schema, parquet.paths, base_file)
    return Structure(Shape(metadata.num_rows, _row_group_rows(metadata), schema), metadata, tuple(chunks))


def _row_group_rows(metadata: pq.FileMetaData) -> tuple[int, ...]:
    return tuple(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups))


def _parquet_footer(raw: bytes, base_file: BaseFile) -> ParquetFooter:
    """Parsed metadata and schema, and paths of the columns that hold values.

    What thrift may allocate is bounded by the bytes that are there. ``metadata.schema`` is never asked for: it and the
    metadata, which hold the filter, keep each other until Python looks for cycles, and it does that seldom.
    """
    whole = pa.BufferReader(b"".join((_MAGIC, raw, struct.pack("<I", len(raw)), _MAGIC)))  # a filter: copied once
    try:
        parsed = pq.ParquetFile(
            whole,
            thrift_string_size_limit=len(raw) + 1,
            thrift_container_size_limit=min(len(raw) // 4 + 16, _MOST_LIST_ENTRIES),
        )
        paths = tuple(".".join(path) for path in parsed.reader.column_paths)
        found = ParquetFooter(parsed.metadata, parsed.schema_arrow, paths)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, KeyError) as error:
        raise _corrupt(base_file, f"its footer cannot be read: {error}") from error
    rows = _row_group_rows(found.metadata)
    if any(count < 0 for count in rows) or sum(rows) != found.metadata.num_rows:
        raise _corrupt(base_file, f"its row groups have {rows} rows, its footer says {found.metadata.num_rows}")
    return found


def _key_chunks(
    raw: bytes, metadata: pq.FileMetaData, schema: pa.Schema, paths: Sequence[str], base_file: BaseFile
) -> list[ColumnChunk]:
    """The key column's chunk in each row group."""
    try:
        place = paths.index(RECORD_KEY)
    except ValueError:
        raise _corrupt(
            base_file,
            f"it has no column {RECORD_KEY}",
            "files of Hudi have its meta columns, if with nulls (hoodie.populate.meta.fields=false): restore the file",
        ) from None
    field_index = schema.get_field_index(RECORD_KEY)
    if field_index < 0 or not _is_text(schema.field(field_index).type):
        raise _corrupt(base_file, f"its column {RECORD_KEY} is not text")
    chunks = column_chunks(raw, place, metadata.num_row_groups)
    if chunks is None:
        raise _corrupt(base_file, "its row groups cannot be read")
    data_end = base_file.size_bytes - len(raw) - _END_BYTES
    for group, chunk in enumerate(chunks):
        if not metadata.row_group(group).num_rows:
            continue  # some writers have no page for them
        if chunk.start < len(_MAGIC) or chunk.size < 0 or chunk.start + chunk.size > data_end:
            raise _corrupt(base_file, f"the key column of row group {group} lies outside the file")
    return chunks


def _is_text(kind: pa.DataType) -> bool:
    """Whether values are stored as Parquet's BYTE_ARRAY: texts, or bytes of any length, also with a dictionary."""
    types = pa.types
    plain = kind.value_type if types.is_dictionary(kind) else kind
    texts = types.is_string(plain) or types.is_large_string(plain) or types.is_string_view(plain)
    return texts or types.is_binary(plain) or types.is_large_binary(plain) or types.is_binary_view(plain)


def _column_ends(chunk_ends: list[tuple[bytes, bytes] | None]) -> tuple[bytes, bytes] | None:
    """Least and greatest key of the column; None if a row group does not say."""
    known = [pair for pair in chunk_ends if pair is not None]
    if not known or len(known) < len(chunk_ends):
        return None
    return min(low for low, _ in known), max(high for _, high in known)


def _text_entries(entries: dict[bytes, bytes]) -> tuple[dict[str, str], list[str]]:
    """Entries that are UTF-8 text, and complaints about those of ours that are not."""
    found: dict[str, str] = {}
    bad: list[str] = []
    for key, value in entries.items():
        try:
            found[key.decode()] = value.decode()
        except UnicodeDecodeError:
            name = key.decode("utf-8", "replace")
            if name in (marks.MIN_KEY, marks.MAX_KEY, marks.FILTER_TYPE, marks.MARK):
                bad.append(f"footer entry {name} is not text")
    return found, bad


def _range(
    entries: Mapping[str, str], statistics: tuple[bytes, bytes] | None, problems: list[str]
) -> tuple[str, str] | None:
    """The key range, widened to the statistics of the key column."""
    low, high = entries.get(marks.MIN_KEY), entries.get(marks.MAX_KEY)
    if low is None or high is None:
        problems.append("footer has no key range")
        return None
    if java_order_key(low) > java_order_key(high):
        problems.append(f"key range is reversed: {low!r} to {high!r}")
        return None
    if statistics is None:
        return low, high
    try:
        least, greatest = statistics[0].decode(), statistics[1].decode()
    except UnicodeDecodeError:
        problems.append("statistics of the key column are not text")
        return None
    wide = min(low, least, key=java_order_key), max(high, greatest, key=java_order_key)
    if wide != (low, high) and not any(map(orders_may_differ, (low, high, least, greatest))):
        problems.append(f"key range {low!r} to {high!r} is narrower than the key column's statistics; widened")
    return wide


def _known_keys(entries: dict[str, str], chunk_ends: list[tuple[bytes, bytes] | None]) -> tuple[str, ...]:
    """Keys that went into the filter if the footer is whole: the ends of the range it says, and of the row groups."""
    said = [entries.get(marks.MIN_KEY), entries.get(marks.MAX_KEY)]
    stored = [end.decode("utf-8", "replace") for pair in chunk_ends if pair is not None for end in pair]
    return tuple(key for key in dict.fromkeys([*said, *stored]) if key)


def _checked_filter(
    text: bytes | None, entries: dict[str, str], rows: int, known_keys: tuple[str, ...], problems: list[str]
) -> bytes | None:
    if text is None:
        problems.append(_NO_FILTER)
        return None
    parsed = parse_filter(text, entries.get(marks.FILTER_TYPE), rows, known_keys)
    if isinstance(parsed, FilterProblem):
        problems.append(parsed.reason)
        return None
    return text


def _checksum_agrees(filter_text: bytes | None, entries: dict[str, str]) -> bool:
    """False if the footer carries our mark and does not agree with it. Footers of others carry none."""
    if marks.MARK not in entries:
        return not any(marks.looks_like_mark(value) for value in entries.values())
    mark = marks.parse_mark(entries[marks.MARK])
    low, high = entries.get(marks.MIN_KEY), entries.get(marks.MAX_KEY)
    if mark is None or filter_text is None or low is None or high is None:
        return False
    return mark.crc32 == marks.keys_checksum(filter_text, low, high)


def _corrupt(base_file: BaseFile, what: str, hint: str | None = None) -> TableCorruptError:
    return TableCorruptError(
        f"base file {base_file.path} is damaged: {what}",
        culprit=base_file.path,
        hint=hint or "restore the file from a copy, or roll back the commit that wrote it",
    )
