"""A new HFile from an old one and some changes: data blocks in which nothing changes are copied as they are."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lakeindex.format.hfile import blocks
from lakeindex.format.hfile.reading import Entry, HFile, Place
from lakeindex.format.hfile.writing import BLOCK_BYTES, DataBlocks, finish_hfile

Change: TypeAlias = tuple[bytes, bytes | None]
"""A key, and its new value; None if it goes."""

_READ_BYTES: Final = 8 << 20


@dataclass(frozen=True, slots=True)
class MergedHFile:
    """An HFile.

    Attributes:
        data: its bytes.
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
    raw = _Raw(base, places)
    changed = _by_block(places, changes)
    # the first and the last key of the file are those of its first and last entries: an index need not have them
    last = next((n for n in reversed(range(len(places))) if _merged(base.entries_at(places[n]), changed[n])), 0)
    for number, (place, mine) in enumerate(zip(places, changed, strict=True)):
        whole = None if mine or is_empty or number >= last else raw.copyable(number)
        if whole is None:
            found = base.entries_at(place)
            merged = _merged(found, mine)
            added += len(merged) - len(found)
            is_empty = is_empty and not merged
            for entry in merged:
                out.add(*entry)
        else:
            out.copy(place.key, whole)
    if not places:
        for key, value in changes:
            if value is not None:
                out.add(key, value)
                added += 1
    count = base.entry_count + added
    return MergedHFile(finish_hfile(out, schema, count, out.key_range), count)


class _Raw:
    """Encoded blocks of a file, fetched many at a time."""

    def __init__(self, base: HFile, places: Sequence[Place]) -> None:
        self._base = base
        self._places = places
        self._start = self._stop = 0
        self._data = b""
        self._from = 0

    def copyable(self, number: int) -> bytes | None:
        """The bytes of a block that another file can have; None of one whose checksums say where it is."""
        if not self._base.is_plain:
            return None
        place = self._places[number]
        if not self._start <= number < self._stop:
            self._fetch(number)
        start = place.offset - self._from
        found = self._data[start : start + place.size]
        return found if blocks.is_copyable(found) else None

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


def _merged(entries: Sequence[Entry], changes: Sequence[Change]) -> list[Entry]:
    if not changes:
        return list(entries)
    found = dict(entries)
    for key, value in changes:
        if value is None:
            found.pop(key, None)
        else:
            found[key] = value
    return sorted(found.items())
