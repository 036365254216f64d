"""Which splits of a batch hold keys that no other split holds, as far as the footers of its Parquet files tell.

The rows of such a split need not be scattered: each key's rows are all in it. Footers are believed for the plan only;
stage 1 compares the keys themselves once they are sorted.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import pyarrow.parquet as pq

from lakeindex.options.types import InputFormat
from lakeindex.stages.stage_input.inputs import Split, format_of, parquet_footer
from lakeindex.storage import in_parallel
from lakeindex.tasks.memory_bound import MIB
from lakeindex.write.keys.key_spec import KeySpec, PartitionKind

_LEAST_BYTES: Final = MIB
"""Smaller splits are scattered and joined: each would be a staged file of its own."""

Bounds: TypeAlias = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Lowest and highest values of the partition fields and the first record key field."""


def splits_apart(splits: Sequence[Split], keys: KeySpec, wanted: InputFormat, *, is_global: bool) -> frozenset[int]:
    """Numbers of the splits whose lookup keys lie apart from those of all others.

    Args:
        splits: the batch.
        keys: which columns the keys are made of.
        wanted: the input's format, or ``auto``.
        is_global: the lookup key is the record key alone.

    Returns:
        None of them unless every split has bounds: Parquet with statistics, no nulls among the fields,
        keys that are texts or numbers of one length, partition paths that are made of the values themselves.

    Raises:
        InputError: a file's footer cannot be read; names the file.
    """
    if not any(split.bytes >= _LEAST_BYTES for split in splits):
        return frozenset()
    if any(format_of(split.file, wanted) is not InputFormat.PARQUET for split in splits):
        return frozenset()
    fields = [] if is_global else list(keys.partition_fields)
    if any(kind is not PartitionKind.SIMPLE for _, kind in fields):
        return frozenset()
    names = [*(name for name, _ in fields), keys.record_key_fields[0]]
    files = list(dict.fromkeys(split.file for split in splits))
    footers = dict(zip(files, in_parallel(files[0].root, parquet_footer, files), strict=True))
    groups = {number: _row_groups(split, footers[split.file]) for number, split in enumerate(splits)}
    filled = [number for number, mine in groups.items() if mine]
    bounds = [_bounds(groups[number], names) for number in filled]
    known = [found for found in bounds if found is not None]
    if len(known) < len(bounds) or len({tuple(map(type, low)) for low, _ in known}) > 1:
        return frozenset()
    return frozenset(filled[n] for n in _alone(known) if splits[filled[n]].bytes >= _LEAST_BYTES)


def _row_groups(split: Split, footer: pq.FileMetaData) -> list[pq.RowGroupMetaData]:
    """Those of the split that have rows."""
    stop = footer.num_row_groups if split.last_row_group is None else split.last_row_group
    groups = (footer.row_group(number) for number in range(split.first_row_group, stop))
    return [group for group in groups if group.num_rows]


def _bounds(groups: Sequence[pq.RowGroupMetaData], names: Sequence[str]) -> Bounds | None:
    places = {groups[0].column(c).path_in_schema: c for c in range(groups[0].num_columns)}
    lows, highs = [], []
    for name in names:
        if name not in places:
            return None
        facts = [group.column(places[name]).statistics for group in groups]
        if any(f is None or not f.has_min_max or f.null_count != 0 for f in facts):
            return None
        lows.append(min(f.min for f in facts))
        highs.append(max(f.max for f in facts))
    ends = _as_texts(lows[-1], highs[-1])
    return None if ends is None else ((*lows[:-1], ends[0]), (*highs[:-1], ends[1]))


def _as_texts(low: object, high: object) -> tuple[str, str] | None:
    """The ends of a range of keys as record keys are ordered, by their text."""
    if isinstance(low, str) and isinstance(high, str):
        return low, high
    is_number = type(low) is int and type(high) is int and low >= 0
    return (str(low), str(high)) if is_number and len(str(low)) == len(str(high)) else None


def _alone(bounds: Sequence[Bounds]) -> list[int]:
    """Those that overlap with no other."""
    order = sorted(range(len(bounds)), key=lambda number: bounds[number][0])
    lows = [bounds[number][0] for number in order]
    reached = list(itertools.accumulate((bounds[number][1] for number in order), max))
    is_after = [True, *(high < low for high, low in zip(reached, lows[1:], strict=False))]
    is_before = [*(bounds[n][1] < low for n, low in zip(order, lows[1:], strict=False)), True]
    return [number for number, *free in zip(order, is_after, is_before, strict=True) if all(free)]
