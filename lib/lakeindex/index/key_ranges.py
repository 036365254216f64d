"""Range pruning: which slice of a chunk's sorted keys can live in which file.

A chunk's keys are sorted by UTF-8 bytes, so those inside a file's ``[min, max]`` are one slice, found by two binary
searches; keys x files is never exploded. Three pruners give the same answer:

* ``SLICES`` searches both ends of every file, all at once in compiled code;
* ``TREE`` asks an interval tree for the files that meet the chunk, and searches only for those
  (``hoodie.bloom.index.use.treebased.filter=true``);
* ``LIST`` compares every key with every range (``=false``), with no use of the order.

Ranges written by Hudi are in Java's order, which differs from ours only for characters from U+E000 up: a range with
one in an end counts as unbounded. If no end has one, both orders agree on every key. A file without a range keeps
the whole chunk.
"""

from __future__ import annotations

import bisect
from collections.abc import Iterator, Sequence
from enum import StrEnum

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, StringArray, StringBuffers, plain_strings, string_buffers
from lakeindex.hashing.java_strings import orders_may_differ
from lakeindex.hashing.loops import Bytes, Offsets, compiled


class Pruner(StrEnum):
    """How files are pruned; the answer is the same."""

    SLICES = "slices"
    TREE = "tree"
    LIST = "list"


def pruner_for(treebased_filter: bool | None) -> Pruner:  # noqa: FBT001 - a tri-state option's value
    """The pruner that ``hoodie.bloom.index.use.treebased.filter`` asks for; unset means sorted slices."""
    if treebased_filter is None:
        return Pruner.SLICES
    return Pruner.TREE if treebased_filter else Pruner.LIST


class KeyRange(Frozen):
    """Range of a file's record keys as its footer says it; None where it says none."""

    min_key: str | None
    max_key: str | None

    def bounds(self) -> tuple[bytes, bytes] | None:
        """Both ends as UTF-8 bytes; None if the range excludes nothing for sure (in our order, or being reversed)."""
        if self.min_key is None or self.max_key is None:
            return None
        low, high = self.min_key.encode("utf-8", "surrogatepass"), self.max_key.encode("utf-8", "surrogatepass")
        is_ascii = self.min_key.isascii() and self.max_key.isascii()  # known without looking at every byte
        if low > high or (not is_ascii and (orders_may_differ(low) or orders_may_differ(high))):
            return None
        return low, high


class IntervalTree:
    """Closed intervals ``[low, high]`` with an ordinal each: an implicit, augmented interval tree over sorted arrays.

    The intervals are sorted by their lower end; node ``i`` of the balanced tree over the sorted array also knows the
    greatest upper end below it, so a search skips every subtree that ends before the interval begins. Building takes
    ``n log n`` comparisons, a search ``log n + found``. Ends are UTF-8 bytes.
    """

    def __init__(self, intervals: Sequence[tuple[bytes, bytes, int]]) -> None:
        self._nodes = sorted(intervals)
        self._greatest: list[bytes] = [high for _, high, _ in self._nodes]
        if self._nodes:
            self._augment(0, len(self._nodes))

    def _augment(self, first: int, end: int) -> bytes:
        """Greatest upper end among the nodes ``first`` to ``end``; their depth is log n, so is the recursion's."""
        middle = (first + end) // 2
        greatest = self._nodes[middle][1]
        if first < middle:
            greatest = max(greatest, self._augment(first, middle))
        if middle + 1 < end:
            greatest = max(greatest, self._augment(middle + 1, end))
        self._greatest[middle] = greatest
        return greatest

    def meeting(self, low: bytes, high: bytes) -> Iterator[int]:
        """Ordinals of the intervals that share a point with ``[low, high]``, in no particular order."""
        open_parts = [(0, len(self._nodes))]
        while open_parts:
            first, end = open_parts.pop()
            if first >= end:
                continue
            middle = (first + end) // 2
            if self._greatest[middle] < low:
                continue
            open_parts.append((first, middle))
            node_low, node_high, ordinal = self._nodes[middle]
            if node_low <= high:
                if node_high >= low:
                    yield ordinal
                open_parts.append((middle + 1, end))


class RowSlices(Frozen, eq=False):
    """For each file, the rows of the chunk that it may hold.

    Attributes:
        from_row: int64 [files], inclusive.
        to_row: int64 [files], exclusive; equal to ``from_row`` where the file can hold none.
    """

    from_row: RowNumbers
    to_row: RowNumbers

    @property
    def pairs(self) -> int:
        """Keys x files that are left."""
        return int((self.to_row - self.from_row).sum())

    def kept(self) -> RowNumbers:
        """Ordinals of the files that may hold a key."""
        return np.flatnonzero(self.to_row > self.from_row)


def prune(keys: StringArray, ranges: Sequence[KeyRange], pruner: Pruner = Pruner.SLICES) -> RowSlices:
    """Rows of the chunk that each file may hold.

    Args:
        keys: the chunk's keys, sorted by UTF-8 bytes (ascending, duplicates allowed), none null.
        pruner: how; the answer does not depend on it.
    """
    rows = len(keys)
    slices = RowSlices(np.zeros(len(ranges), dtype=np.int64), np.full(len(ranges), rows, dtype=np.int64))
    if rows == 0:
        return slices
    bounds = [key_range.bounds() for key_range in ranges]
    bounded = [(place, pair) for place, pair in enumerate(bounds) if pair is not None]
    if pruner is Pruner.LIST:
        _by_list(plain_strings(keys), bounded, slices)
        return slices
    buffers = string_buffers(keys)
    if pruner is Pruner.TREE:
        bounded = _meeting(buffers, bounded, slices)
    _by_search(buffers, bounded, slices)
    return slices


_Bounded = list[tuple[int, tuple[bytes, bytes]]]


def _by_search(buffers: StringBuffers, bounded: _Bounded, slices: RowSlices) -> None:
    places = [place for place, _ in bounded]
    slices.from_row[places] = search_sorted(buffers, [low for _, (low, _) in bounded], right=False)
    slices.to_row[places] = search_sorted(buffers, [high for _, (_, high) in bounded], right=True)
    _close_empty(slices)


def _meeting(buffers: StringBuffers, bounded: _Bounded, slices: RowSlices) -> _Bounded:
    """The files whose range meets the chunk's; the others' slices are closed."""
    tree = IntervalTree([(low, high, place) for place, (low, high) in bounded])
    met = set(tree.meeting(buffers.value(0), buffers.value(len(buffers) - 1)))
    for place, _ in bounded:
        if place not in met:
            slices.to_row[place] = 0
    return [(place, pair) for place, pair in bounded if place in met]


def _by_list(keys: pa.Array, bounded: _Bounded, slices: RowSlices) -> None:
    raw = keys.cast(pa.large_binary() if pa.types.is_large_string(keys.type) else pa.binary())
    for place, (low, high) in bounded:
        inside = pc.and_(pc.greater_equal(raw, pa.scalar(low, raw.type)), pc.less_equal(raw, pa.scalar(high, raw.type)))
        rows = np.flatnonzero(inside.to_numpy(zero_copy_only=False))
        slices.from_row[place], slices.to_row[place] = (rows[0], rows[-1] + 1) if len(rows) else (0, 0)


def _close_empty(slices: RowSlices) -> None:
    """A file between two keys has an empty slice; all empty ones look alike."""
    empty = slices.to_row <= slices.from_row
    slices.from_row[empty] = 0
    slices.to_row[empty] = 0


def search_sorted(buffers: StringBuffers, ends: Sequence[bytes], *, right: bool) -> RowNumbers:
    """Where each of ``ends`` would be put into the sorted strings, int64 [len(ends)].

    Args:
        buffers: strings sorted by their bytes.
        ends: byte strings, in any order.
        right: behind equal strings (True) or before them.
    """
    asked = string_buffers(pa.array(ends, pa.large_binary()).cast(pa.large_string(), safe=False))
    out = np.empty(len(ends), dtype=np.int64)
    search_strings(buffers.data, buffers.offsets, asked.data, asked.offsets, right, out)
    return out


@compiled("u1* i8* u1* i8* int i8*")
def search_strings(data: Bytes, offsets: Offsets, ends: Bytes, end_offsets: Offsets, right: int, out: Offsets) -> None:
    """The loop of :func:`search_sorted`."""
    strings, asked = StringBuffers(data, offsets), StringBuffers(ends, end_offsets)
    find = bisect.bisect_right if right else bisect.bisect_left
    rows = range(len(strings))
    out[:] = [find(rows, asked.value(number), key=strings.value) for number in range(len(asked))]
