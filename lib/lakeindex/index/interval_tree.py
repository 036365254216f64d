"""Which of many key ranges meet an interval: an implicit, augmented interval tree over sorted arrays.

The ranges are sorted by their lower end; node ``i`` of the balanced tree over the sorted array also knows the
greatest upper end below it, so a search skips every subtree that ends before the interval begins. Building takes
``n log n`` comparisons, a search ``log n + found``. Ends are UTF-8 bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence


class IntervalTree:
    """Closed intervals ``[low, high]`` with an ordinal each."""

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
