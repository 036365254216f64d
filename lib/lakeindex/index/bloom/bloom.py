"""BLOOM and GLOBAL_BLOOM: key ranges and filters in the footers of base files. Nothing is stored beside them.

After a commit there is nothing to tell the index: writing the files wrote it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from lakeindex.bloom import BloomFilter, FilterProblem, parse_filter
from lakeindex.hashing.arrow import StringArray, StringBuffers
from lakeindex.index.contract import FileFacts, IndexTraits
from lakeindex.index.key_ranges import KeyRange, RowSlices, prune, pruner_for
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class BloomIndex:
    """The bloom index; "global" is part of the spec."""

    spec: IndexSpec

    @property
    def traits(self) -> IndexTraits:
        """Narrows by range, then by filter; stores nothing."""
        return IndexTraits(needs_footers=True, has_filters=True)

    def propose(self, keys: StringArray, files: Sequence[FileFacts], config: WriteConfig) -> RowSlices:
        """The slice of the chunk inside each file's key range; all of it if ranges are not to be used."""
        if not config.prune_by_ranges:
            ranges = [KeyRange(None, None)] * len(files)
        else:
            ranges = [file.key_range for file in files]
        return prune(keys, ranges, pruner_for(config.treebased_filter))


def make_index(spec: IndexSpec) -> BloomIndex:
    """The kind."""
    return BloomIndex(spec)


def usable_filter(filter_text: bytes | None, filter_type: str | None, rows: int | None = None) -> BloomFilter | None:
    """The filter in a footer's text; None if there is none, or it is damaged: then every key is a candidate."""
    if filter_text is None:
        return None
    parsed = parse_filter(filter_text, filter_type, rows)
    return None if isinstance(parsed, FilterProblem) else parsed


def filter_candidates(bloom_filter: BloomFilter | None, keys: StringBuffers, from_row: int, to_row: int) -> Rows:
    """Row numbers from ``from_row`` to ``to_row`` (exclusive) that the filter may hold.

    Args:
        bloom_filter: a file's filter, parsed once for all its chunks; None keeps every row.
        keys: the chunk's keys, their buffers taken once for all files.
        from_row: first row of the slice.
        to_row: the row behind it.
    """
    if bloom_filter is None:
        return np.arange(from_row, to_row, dtype=np.int64)
    return from_row + np.flatnonzero(bloom_filter.probe_buffers(keys, from_row, to_row))
