"""A new HFile from an old one and some changes: data blocks in which nothing changes are copied as they are, and so are
those of a single entry, which may come from any file: a filter is large, and decoded and encoded for nothing.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lakeindex.format.hfile import blocks
from lakeindex.format.hfile.blocks import LoneBlock
from lakeindex.format.hfile.reading import HFile, Part, Place
from lakeindex.format.hfile.writing import BLOCK_BYTES, DataBlocks, finish_hfile

Change: TypeAlias = tuple[bytes, bytes | LoneBlock | None]
"""A key, and its new value, or the block in which it is alone; None if it goes."""

_READ_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class MergedHFile:
    """An HFile.

    Attributes:
        entry_count: keys and values in it; without any, nobody needs the file.
    """

    data: bytes = field(repr=False)
    entry_count: int


def merge_hfile(base: HFile, changes: Sequence[Change], schema: str, *, block_bytes: int = BLOCK_BYTES) -> MergedHFile:
    """The bytes of an HFile with what is in another one, changed.

    Args:
        base: the other one; its values are of the same schema.
        changes: what changes, in the order of the keys' bytes, each key once. A key that goes need not be there.
        schema: the Avro schema of the values, JSON.
        block_bytes: decoded size at which a data block that is written ends.

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
