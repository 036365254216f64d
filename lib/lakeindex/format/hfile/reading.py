"""Reading an HFile: all of it in key order, or the blocks that can hold some keys."""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Final, NamedTuple, Protocol, TypeAlias, TypeVar

from lakeindex.errors import METADATA_ANEW, TableCorruptError, TableUnsupportedError
from lakeindex.format.hfile import blocks
from lakeindex.format.hfile.blocks import (
    Block,
    LoneBlock,
    Message,
    check_codec,
    parse_block,
    parse_message,
    read_varint,
    read_vint,
)
from lakeindex.frozen import Frozen

ReadRange: TypeAlias = Callable[[int, int], bytes]
"""Gives the bytes of a file from an offset on, so many."""

Entry: TypeAlias = tuple[bytes, bytes]
"""A key and its value."""

Part: TypeAlias = tuple[bytes, bytes | LoneBlock]
"""A key and its value, or the block in which it is alone."""

TRAILER_BYTES: Final = 4_096
VERSION: Final = 3
SCHEMA: Final = b"schema"

_TAIL_BYTES: Final = 64 << 10
"""Bytes that are fetched first: of most files they hold trailer and index, and a small file is read as a whole."""
_GAP_BYTES: Final = 256 << 10
"""So many bytes that nobody wants are fetched along: as long as a request takes."""
_REQUEST_BYTES: Final = 8 << 20

_T = TypeVar("_T")
_DAMAGE: Final = (ValueError, IndexError, KeyError, TypeError, OverflowError, struct.error, blocks.GZIP_ERROR)

_ENTRY: Final = struct.Struct(">iih")
_KEY: Final = struct.Struct(">h")
_PLACE: Final = struct.Struct(">qi")
_INT: Final = struct.Struct(">i")
_KEY_TAIL: Final = 10
_DEEPEST: Final = 16
_PBUF: Final = b"PBUF"
_WITH_MVCC: Final = b"KEY_VALUE_VERSION"
_MVCC: Final = b"MAX_MEMSTORE_TS_KEY"
_TAGS: Final = b"MAX_TAGS_LEN"

# Field numbers of the trailer.
_FILE_INFO_AT: Final = 1
_INDEX_AT: Final = 2
_DATA_BLOCKS: Final = 5
_ENTRIES: Final = 7
_LEVELS: Final = 8
_CODEC: Final = 12


class Place(NamedTuple):
    """Where a block is, and its first key (the name, of a meta block)."""

    key: bytes
    offset: int
    size: int


class Keys(Protocol):
    """Keys in the order of their bytes, each once."""

    def __len__(self) -> int: ...

    def __getitem__(self, number: int, /) -> bytes: ...


class AskedBlock(NamedTuple):
    """A data block that can hold some of the keys that are looked for.

    Attributes:
        start: number of the first such key.
        end: behind the last one.
    """

    place: Place
    content: bytes
    start: int
    end: int


class HFile(Frozen):
    """An HFile that can be read. Get one by :meth:`open` or :meth:`of`. A damaged block is a TableCorruptError.

    Attributes:
        entry_count: keys and values in it.
        codec: its compression: 1 gzip, 2 none.
        levels: of the data index, 1 or more.
        info: facts about the file by their names.
    """

    source: str
    entry_count: int
    codec: int
    levels: int
    info: Mapping[bytes, bytes]
    _read: ReadRange
    _end: int
    _roots: tuple[Place, ...]

    @staticmethod
    def of(data: bytes, source: str) -> HFile:
        """The HFile in some bytes. Raises: TableCorruptError, TableUnsupportedError."""
        return HFile.open(len(data), lambda at, size: data[at : at + size], source)

    @staticmethod
    def open(size_bytes: int, read: ReadRange, source: str) -> HFile:
        """An HFile whose bytes are fetched when they are asked for: its end now, blocks later, neighbours together.

        Raises:
            TableCorruptError: it is damaged, or no HFile.
            TableUnsupportedError: its codec, or what it keeps beside each value, is not read.
        """
        if size_bytes < TRAILER_BYTES:
            raise _damaged(source, f"it has {size_bytes} bytes, fewer than its trailer")
        read = _with_tail(read, size_bytes)
        trailer = _guarded(source, lambda: _trailer(read(size_bytes - TRAILER_BYTES, TRAILER_BYTES)))
        codec = _guarded(source, lambda: _number(trailer, _CODEC, blocks.NONE))
        check_codec(codec, source)

        def parse() -> HFile:
            start, end = _number(trailer, _INDEX_AT), size_bytes - TRAILER_BYTES
            if not 0 <= start <= end:
                raise ValueError(f"an index at byte {start} of {size_bytes}")
            loaded = read(start, end - start)
            root = _expect(parse_block(loaded, 0, codec), blocks.ROOT_INDEX)
            roots, _ = _root_places(root.content, _number(trailer, _DATA_BLOCKS))
            info = _file_info(parse_block(loaded, _number(trailer, _FILE_INFO_AT) - start, codec))
            levels = max(_number(trailer, _LEVELS, 1), 1)
            count = _number(trailer, _ENTRIES)
            return HFile(source, count, codec, levels, info, read, end, roots)

        found = _guarded(source, parse)
        _check_plain(found)
        return found

    @property
    def schema(self) -> str | None:
        """The Avro schema of the values, JSON, if the file says it."""
        text = self.info.get(SCHEMA)
        return None if text is None else text.decode("utf-8", "replace")

    @property
    def is_plain(self) -> bool:
        """Whether a block of it can be one of a file as we write it: gzip, and a version beside each value."""
        return self.codec == blocks.GZIP and self.has_mvcc

    def places(self) -> list[Place]:
        """Where all data blocks are, in the order of their keys. Raises: TableCorruptError."""
        return _guarded(self.source, lambda: self._leaves(self._roots, self.levels))

    def raw(self, offset: int, size: int) -> bytes:
        """Bytes of the file as they are. Raises: TableCorruptError: it has not so many."""
        found = self._read(offset, size) if 0 <= offset <= offset + size <= self._end else b""
        if len(found) != size:
            raise _damaged(self.source, f"{size} bytes at byte {offset} of {self._end}")
        return found

    def entries(self) -> Iterator[Entry]:
        """All keys and values, in the order of the keys' bytes. Raises: TableCorruptError."""
        for place in self.places():
            yield from self.entries_at(place)

    def parts(self, least_bytes: int) -> Iterator[Part]:
        """All keys in the order of their bytes, with their values, or with the blocks in which they are alone.

        Args:
            least_bytes: decoded size from which on such a block is given as it is.

        Raises:
            TableCorruptError: a block is damaged; one that is given as it is was not looked at.
        """
        for place in self.places():
            yield from self.parts_in(place, self.raw(place.offset, place.size), least_bytes)

    def parts_in(self, place: Place, block: bytes, least_bytes: int) -> Sequence[Part]:
        """The same of a data block. One that is given as it is begins with the key that the index says."""
        lone = _guarded(self.source, lambda: _lone(block, self.codec, least_bytes)) if self.is_plain else None
        if lone is not None and lone[0] == place.key:
            return (lone,)
        return self.entries_of(self._parsed(block, blocks.DATA))

    def lookup(self, keys: Keys) -> Iterator[Entry]:
        """The entries of some keys; only blocks that can hold one are fetched."""
        for block in self.asked_blocks(keys):
            chosen = frozenset(keys[number] for number in range(block.start, block.end))
            yield from (entry for entry in self.entries_of(block.content) if entry[0] in chosen)

    def asked_blocks(self, keys: Keys) -> Iterator[AskedBlock]:
        """The data blocks that can hold some keys; neighbours are fetched together."""
        for run in self._runs(self._descend(self._roots, self.levels, keys, 0, len(keys))):
            first, last = run[0][0], run[-1][0]
            data = self.raw(first.offset, last.offset + last.size - first.offset)
            for place, start, end in run:
                at = place.offset - first.offset
                content = self._parsed(data[at : at + place.size], blocks.DATA)
                yield AskedBlock(place, content, start, end)

    def entries_at(self, place: Place) -> list[Entry]:
        """What is in one data block. Raises: TableCorruptError."""
        return self.entries_of(self._block(place, blocks.DATA))

    def entries_of(self, content: bytes) -> list[Entry]:
        """What is in the decoded bytes of a data block. Raises: TableCorruptError."""
        return _guarded(self.source, lambda: _entries(content, with_mvcc=self.has_mvcc))

    @property
    def has_mvcc(self) -> bool:
        """Whether a byte, its version 0, is behind each value."""
        return int.from_bytes(self.info.get(_WITH_MVCC, b""), "big") == 1

    def _block(self, place: Place, magic: bytes) -> bytes:
        return self._parsed(self.raw(place.offset, place.size), magic)

    def _parsed(self, data: bytes, magic: bytes) -> bytes:
        return _guarded(self.source, lambda: _expect(parse_block(data, 0, self.codec), magic).content)

    def _runs(self, asked: Iterable[tuple[Place, int, int]]) -> Iterator[list[tuple[Place, int, int]]]:
        """Blocks that are fetched with one request: they follow each other, with little between them."""
        run: list[tuple[Place, int, int]] = []
        for one in asked:
            place = one[0]
            if place.offset < 0 or place.size < 0 or place.offset + place.size > self._end:
                raise _damaged(self.source, f"a block at byte {place.offset} of {self._end}")
            if run:
                first, last = run[0][0], run[-1][0]
                between = place.offset - last.offset - last.size
                size = place.offset + place.size - first.offset
                if not 0 <= between <= _GAP_BYTES or size > _REQUEST_BYTES:
                    yield run
                    run = []
            run.append(one)
        if run:
            yield run

    def _descend(
        self, places: Sequence[Place], level: int, keys: Keys, at: int, stop: int
    ) -> Iterator[tuple[Place, int, int]]:
        """Data blocks that can hold some of the keys from a number on, with the numbers of those."""
        firsts = [place.key for place in places]
        at = bisect_left(keys, firsts[0], at, stop) if firsts else stop
        while at < stop:
            number = bisect_right(firsts, keys[at]) - 1
            end = stop if number + 1 == len(firsts) else bisect_left(keys, firsts[number + 1], at, stop)
            if level <= 1:
                yield places[number], at, end
            else:
                yield from self._descend(self._below(places[number], level), level - 1, keys, at, end)
            at = end

    def _leaves(self, places: Sequence[Place], level: int) -> list[Place]:
        if level <= 1:
            return list(places)
        return [leaf for place in places for leaf in self._leaves(self._below(place, level), level - 1)]

    def _below(self, place: Place, level: int) -> list[Place]:
        magic = blocks.LEAF_INDEX if level == _LEAF_LEVEL else blocks.INNER_INDEX
        content = self._block(place, magic)
        return _guarded(self.source, lambda: _inner_places(content))


_LEAF_LEVEL: Final = 2


def _with_tail(read: ReadRange, size_bytes: int) -> ReadRange:
    """The same, with the end of the file fetched once."""
    start = max(size_bytes - _TAIL_BYTES, 0)
    tail = read(start, size_bytes - start)

    def read_range(at: int, size: int) -> bytes:
        return tail[at - start : at - start + size] if at >= start else read(at, size)

    return read_range


def _trailer(data: bytes) -> Message:
    if data[:8] != blocks.TRAILER or data[-1] != VERSION:
        raise ValueError("no trailer of version 3")
    length, at = read_varint(data, 8)
    if at + length > len(data):
        raise ValueError("the trailer is cut off")
    found = parse_message(data[at : at + length])
    if _number(found, _LEVELS, 1) > _DEEPEST:
        raise ValueError("an index of too many levels")
    return found


def _number(message: Message, number: int, default: int | None = None) -> int:
    found = message.get(number, [default])[0]
    if not isinstance(found, int):
        raise TypeError(f"the trailer says nothing in field {number}")
    return found


def _expect(block: Block, magic: bytes) -> Block:
    if block.magic != magic:
        raise ValueError(f"a block {block.magic!r} where {magic!r} is to be")
    return block


def _root_places(content: bytes, count: int) -> tuple[tuple[Place, ...], int]:
    """The entries of a root index; behind them HBase says where its middle is."""
    at, found = 0, []
    for _ in range(count):
        offset, size = _PLACE.unpack_from(content, at)
        length, at = read_vint(content, at + _PLACE.size)
        found.append(Place(_row(content[at : at + length]), offset, size))
        at += length
    return tuple(found), at


def _inner_places(content: bytes) -> list[Place]:
    """The entries of a leaf or inner index block: their number, where each begins, then the entries."""
    (count,) = _INT.unpack_from(content, 0)
    start = _INT.size * (count + 2)
    if count < 0 or start > len(content):
        raise ValueError(f"an index block of {count} entries")
    begins = struct.unpack_from(f">{count + 1}i", content, _INT.size)
    found = []
    for begin, end in pairwise(begins):
        if not 0 <= begin < end <= len(content) - start:
            raise ValueError("an index block whose entries leave it")
        offset, size = _PLACE.unpack_from(content, start + begin)
        found.append(Place(_row(content[start + begin + _PLACE.size : start + end]), offset, size))
    return found


def _row(key: bytes) -> bytes:
    """The record key in a key of HBase's: int16 size, the key, then family, time and type, which say nothing."""
    (length,) = _KEY.unpack_from(key)
    if length < 0 or _KEY.size + length > len(key):
        raise ValueError("a key is cut off")
    return key[_KEY.size : _KEY.size + length]


def _file_info(block: Block) -> dict[bytes, bytes]:
    content = _expect(block, blocks.FILE_INFO).content
    if content[:4] != _PBUF:
        raise ValueError("file information that is no protobuf")
    length, at = read_varint(content, 4)
    found = {}
    for one in parse_message(content[at : at + length]).get(1, ()):
        if not isinstance(one, bytes):
            raise TypeError("file information without a name")
        pair = parse_message(one)
        key, value = pair[1][0], pair.get(2, [b""])[0]
        if not isinstance(key, bytes) or not isinstance(value, bytes):
            raise TypeError("file information that is no bytes")
        found[key] = value
    return found


def _entries(content: bytes, *, with_mvcc: bool) -> list[Entry]:
    """What is in a data block; behind each value one byte, 0, where the file says so."""
    found: list[Entry] = []
    unpack, size, end = _ENTRY.unpack_from, _ENTRY.size, len(content)
    at = 0
    while at < end:
        keys, values, length = unpack(content, at)
        start = at + size
        value = at + 8 + keys
        stop = value + values
        if length < 0 or values < 0 or start + length > value or stop > end:
            raise ValueError(f"an entry at byte {at} of {end}")
        found.append((content[start : start + length], content[value:stop]))
        at = stop
        if with_mvcc:
            if content[at] != 0:
                raise ValueError(f"an entry at byte {at} with a version of its own")
            at += 1
    return found


def _lone(block: bytes, codec: int, least_bytes: int) -> tuple[bytes, LoneBlock] | None:
    """The only entry of a block, with a version behind its value; None if there are several, or the block must stay."""
    if not blocks.is_copyable(block) or blocks.decoded_bytes(block) < least_bytes:
        return None
    keys, values, length = _ENTRY.unpack_from(blocks.beginning(block, _ENTRY.size, codec))
    if 8 + keys + values + 1 != blocks.decoded_bytes(block) or not 0 <= length <= keys:
        return None
    return blocks.beginning(block, _ENTRY.size + length, codec)[_ENTRY.size :], LoneBlock(block, values)


def _check_plain(file: HFile) -> None:
    """Refuse what HBase may keep beside each value, and Hudi never does. Raises: TableUnsupportedError."""
    beside = "tags" if _TAGS in file.info else "versions" if any(file.info.get(_MVCC, b"")) else None
    if beside is not None:
        raise TableUnsupportedError(
            f"{file.source} keeps {beside} beside its values", culprit=file.source, hint="it is no file of Hudi's"
        )


def _guarded(source: str, parse: Callable[[], _T]) -> _T:
    try:
        return parse()
    except _DAMAGE as error:
        raise _damaged(source, f"{type(error).__name__}: {error}") from None


def _damaged(source: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{source} is damaged: {why}",
        culprit=source,
        hint=METADATA_ANEW,
    )
