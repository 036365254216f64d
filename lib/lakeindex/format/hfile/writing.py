"""Writing an HFile as Hudi 1.x does: one level of index, no checksums.

A new HFile from an old one and some changes copies data blocks in which nothing changes as they are, and those of a
single entry, which may come from any file: a filter is large, and would be decoded and encoded for nothing.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final, TypeAlias

from lakeindex.errors import InvariantError
from lakeindex.format.hfile import blocks
from lakeindex.format.hfile.blocks import LoneBlock, format_block, format_message, format_varint, format_vint
from lakeindex.format.hfile.reading import SCHEMA, TRAILER_BYTES, VERSION, HFile, Part, Place
from lakeindex.frozen import Frozen

MIN_KEY: Final = b"minRecordKey"
MAX_KEY: Final = b"maxRecordKey"
COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
BLOCK_BYTES: Final = 1 << 20

_ENTRY: Final = struct.Struct(">iih")
_PLACE: Final = struct.Struct(">qi")
_SHORT: Final = struct.Struct(">h")
_INT: Final = struct.Struct(">i")
_LONG: Final = struct.Struct(">q")
# Behind a key: no column family, the latest time, "put"; behind a value: version 0.
_KEY_TAIL: Final = b"\0" + _LONG.pack(2**63 - 1) + b"\x04"
_VALUE_TAIL: Final = b"\0"
_KEY_BYTES: Final = _SHORT.size + len(_KEY_TAIL)
_BESIDE_BYTES: Final = _ENTRY.size + len(_KEY_TAIL) + len(_VALUE_TAIL)


def format_hfile(
    entries: Iterable[Part],
    schema: str,
    *,
    info: Mapping[bytes, bytes] | None = None,
    codec: int = blocks.GZIP,
    block_bytes: int = BLOCK_BYTES,
    created_ms: int = 0,
) -> bytes:
    """The bytes of an HFile.

    Args:
        entries: keys and values, in the order of the keys' bytes, each key once. A value may be a block of another
            file with the same codec.
        schema: the Avro schema of the values, JSON.
        info: further facts about the file, by their names.
        codec: ``blocks.GZIP`` or ``blocks.NONE``.
        block_bytes: decoded size at which a data block ends.
        created_ms: when, milliseconds since the epoch.

    Raises:
        InvariantError: the keys are not in order, or one comes twice.
    """
    out = DataBlocks(codec, block_bytes)
    out.extend(entries)
    return finish_hfile(out, schema, out.count, info, created_ms)


def finish_hfile(
    out: DataBlocks, schema: str, count: int, info: Mapping[bytes, bytes] | None = None, created_ms: int = 0
) -> bytes:
    """The bytes of an HFile with some data blocks, which hold so many keys and values."""
    out.flush()
    load_at, codec = out.size, out.codec
    root = b"".join(_PLACE.pack(at, size) + format_vint(len(key) + 2) + _named(key) for key, at, size in out.places)
    indexes = format_block(blocks.ROOT_INDEX, root, codec) + format_block(blocks.ROOT_INDEX, b"", codec)
    facts = out.facts(schema, created_ms) | dict(info or {})
    fields = [(1, format_message({1: key, 2: value})) for key, value in sorted(facts.items())]
    body = format_message(fields)
    file_info = format_block(blocks.FILE_INFO, b"PBUF" + format_varint(len(body)) + body, codec)
    trailer = out.trailer(load_at, load_at + len(indexes), count)
    head = blocks.TRAILER + format_varint(len(trailer)) + trailer
    return b"".join((*out.pieces, indexes, file_info, head, bytes(TRAILER_BYTES - len(head) - 1), bytes([VERSION])))


class DataBlocks:
    """The data blocks of a file that is being written."""

    def __init__(self, codec: int, block_bytes: int) -> None:
        self.codec = codec
        self._block_bytes = block_bytes
        self._content = bytearray()
        self._first = b""
        self._last: bytes | None = None
        self.first_key: bytes | None = None
        self.count = self._decoded = self._keys = self._values = 0
        self.pieces: list[bytes] = []
        self.places: list[tuple[bytes, int, int]] = []
        self.size = 0

    def extend(self, entries: Iterable[Part]) -> None:
        """Add entries. Raises: InvariantError: a key is not behind the one before."""
        last, content, most = self._last, self._content, self._block_bytes
        count = keys = values = 0
        for key, value in entries:
            if last is not None and key <= last:
                raise InvariantError(
                    f"the key {key!r} follows {last!r}", culprit=repr(key), hint="this is a bug: please report it"
                )
            last, length = key, len(key)
            if self.first_key is None:
                self.first_key = key
            count += 1
            keys += length
            if isinstance(value, LoneBlock):
                self.flush()
                content = self._content
                self._put(key, blocks.moved_block(value.data, self._previous), blocks.decoded_bytes(value.data))
                values += value.value_bytes
                continue
            size = len(value)
            if content and len(content) + length + size + _BESIDE_BYTES > most:
                self.flush()
                content = self._content
            if not content:
                self._first = key
            content += _ENTRY.pack(length + _KEY_BYTES, size, length) + key + _KEY_TAIL + value + _VALUE_TAIL
            values += size
        self._last = last
        self.count += count
        self._keys += keys
        self._values += values

    def flush(self) -> None:
        """End the block that is being filled, if there is one."""
        if self._content:
            block = format_block(blocks.DATA, bytes(self._content), self.codec, self._previous)
            self._put(self._first, block, len(self._content))
        self._content = bytearray()

    def copy(self, first_key: bytes, block: bytes) -> None:
        """Add a block of another file with the same codec, whose entries are not counted.

        Args:
            first_key: of the block; an entry comes before it and behind it.
            block: its bytes, without checksums.
        """
        self.flush()
        self._last = None
        self._put(first_key, blocks.moved_block(block, self._previous), blocks.decoded_bytes(block))

    @property
    def key_range(self) -> dict[bytes, bytes]:
        """The first and the last key, as a base file names them; the last block is none that was copied."""
        return {} if self.first_key is None else {MIN_KEY: self.first_key, MAX_KEY: self._last or b""}

    @property
    def _previous(self) -> int:
        return self.places[-1][1] if self.places else -1

    def _put(self, first_key: bytes, block: bytes, decoded_bytes: int) -> None:
        self._decoded += decoded_bytes
        self.places.append((first_key, self.size, len(block)))
        self.pieces.append(block)
        self.size += len(block)

    def facts(self, schema: str, created_ms: int) -> dict[bytes, bytes]:
        """What the file's information says of them."""
        count = max(self.count, 1)
        return {
            SCHEMA: schema.encode(),
            b"hfile.LASTKEY": _named(self._last or b""),
            b"hfile.AVG_KEY_LEN": _INT.pack(self._keys // count),
            b"hfile.AVG_VALUE_LEN": _INT.pack(self._values // count),
            b"hfile.CREATE_TIME_TS": _LONG.pack(created_ms),
            b"KEY_VALUE_VERSION": _INT.pack(1),
            b"MAX_MEMSTORE_TS_KEY": _LONG.pack(0),
        }

    def trailer(self, index_at: int, info_at: int, entries: int) -> bytes:
        """The trailer's message: where the indexes and the file information are, and what was counted."""
        first, last = (self.places[0][1], self.places[-1][1]) if self.places else (0, 0)
        count = len(self.places)
        numbers = (info_at, index_at, self._decoded, self._decoded, count, 0, entries, 1, first, last)
        return format_message([*enumerate(numbers, 1), (11, COMPARATOR), (12, self.codec)])


def _named(key: bytes) -> bytes:
    return _SHORT.pack(len(key)) + key


Change: TypeAlias = tuple[bytes, bytes | LoneBlock | None]
"""A key, and its new value, or the block in which it is alone; None if it goes."""

_READ_BYTES: Final = 8 << 20


class MergedHFile(Frozen):
    """An HFile; without any entry nobody needs it."""

    data: bytes
    entry_count: int


def merge_hfile(base: HFile, changes: Sequence[Change], schema: str, *, block_bytes: int = BLOCK_BYTES) -> MergedHFile:
    """The bytes of an HFile with what is in another one, changed.

    Args:
        base: the other one; its values are of the same schema.
        changes: what changes, in the order of the keys' bytes, each key once. A key that goes need not be there.

    Raises:
        TableCorruptError: a block of the other one is damaged.
    """
    out = DataBlocks(blocks.GZIP, block_bytes)
    places, added, is_empty = base.places(), 0, True
    raw = _Raw(base, places, block_bytes)
    changed = _by_block(places, changes)
    # the first and the last key of the file are those of its first and last entries: an index need not have them
    last = next((n for n in reversed(range(len(places))) if _merged(raw.parts(n), changed[n])), 0)
    for number, (place, mine) in enumerate(zip(places, changed, strict=True)):
        whole = None if mine or is_empty or number >= last else raw.copyable(number)
        if whole is None:
            found = raw.parts(number)
            merged = _merged(found, mine)
            added += len(merged) - len(found)
            is_empty = is_empty and not merged
            out.extend(merged)
        else:
            out.copy(place.key, whole)
    if not places:
        new = _merged((), changes)
        added = len(new)
        out.extend(new)
    count = base.entry_count + added
    return MergedHFile(finish_hfile(out, schema, count, out.key_range), count)


class _Raw:
    """Encoded blocks of a file, fetched many at a time."""

    def __init__(self, base: HFile, places: Sequence[Place], block_bytes: int) -> None:
        self._base = base
        self._places = places
        self._block_bytes = block_bytes
        self._start = self._stop = 0
        self._data = b""
        self._from = 0

    def copyable(self, number: int) -> bytes | None:
        """The bytes of a block that another file can have; None of one whose checksums say where it is."""
        found = self._block(number) if self._base.is_plain else b""
        return found if blocks.is_copyable(found) else None

    def parts(self, number: int) -> Sequence[Part]:
        """What is in a block; of a large entry, which is alone in it, the block. Raises: TableCorruptError."""
        return self._base.parts_in(self._places[number], self._block(number), self._block_bytes)

    def _block(self, number: int) -> bytes:
        if not self._start <= number < self._stop:
            self._fetch(number)
        start = self._places[number].offset - self._from
        return self._data[start : start + self._places[number].size]

    def _fetch(self, number: int) -> None:
        first = self._places[number]
        stop, end = number, first.offset
        while (
            stop < len(self._places)
            and self._places[stop].offset + self._places[stop].size - first.offset <= _READ_BYTES
        ):
            end = self._places[stop].offset + self._places[stop].size
            stop += 1
        if stop == number:
            stop, end = number + 1, first.offset + first.size
        self._start, self._stop, self._from = number, stop, first.offset
        self._data = self._base.raw(first.offset, end - first.offset)


def _by_block(places: Sequence[Place], changes: Sequence[Change]) -> list[Sequence[Change]]:
    """The changes in each data block: those from its first key on, and in the first block what is before it."""
    keys = [key for key, _ in changes]
    starts = [0, *(bisect_left(keys, place.key) for place in places[1:])]
    return [changes[start:end] for start, end in zip(starts, [*starts[1:], len(keys)], strict=True)] if places else []


def _merged(parts: Sequence[Part], changes: Sequence[Change]) -> list[Part]:
    if not changes:
        return list(parts)
    found: dict[bytes, bytes | LoneBlock | None] = dict(parts)
    found.update(changes)
    return sorted((key, value) for key, value in found.items() if value is not None)
