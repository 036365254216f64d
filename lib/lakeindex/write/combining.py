"""Combine duplicates of a batch and sort it: one row a key, the one that wins by the ordering field."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.model import MergeMode
from lakeindex.pipeline import STAGED_KEY, STAGED_PARTITION

ARRIVAL = "_li_arrival"


@dataclass(frozen=True, slots=True)
class Combined:
    """Rows sorted by key (or partition, then key), one a key, and how many older duplicates were dropped."""

    rows: pa.Table
    combined: int


def combine_and_sort(rows: pa.Table, *, is_global: bool, ordering_field: str | None, mode: MergeMode) -> Combined:
    """Sort by the lookup key and keep the winner of each key.

    Under event time the largest ordering value wins and, on a tie, the row that came last; under commit time the row that
    came last. Keys sort by their UTF-8 bytes.

    Args:
        rows: staged columns plus ``_li_arrival`` (int64, the place in the whole input).
        is_global: the lookup key is the record key alone; else (partition path, record key).
        ordering_field: column of ordering values, or None.
        mode: event time needs ``ordering_field``.

    Returns:
        The rows without ``_li_arrival``; order: lookup key, ascending.
    """
    lookup = [STAGED_KEY] if is_global else [STAGED_PARTITION, STAGED_KEY]
    by_event_time = mode is MergeMode.EVENT_TIME_ORDERING and ordering_field is not None
    ranking = [(ordering_field, "ascending")] if by_event_time else []
    keys = [(name, "ascending") for name in lookup] + ranking + [(ARRIVAL, "ascending")]
    needed = list(dict.fromkeys(name for name, _ in keys))
    order = pc.sort_indices(rows.select(needed), sort_keys=keys)
    sorted_lookup = [rows.column(name).take(order).combine_chunks() for name in lookup]
    last = _is_last_of_its_key(sorted_lookup)
    winners = order.filter(pa.array(last))
    return Combined(rows.drop_columns([ARRIVAL]).take(winners).combine_chunks(), rows.num_rows - len(winners))


def _is_last_of_its_key(columns: list[pa.Array]) -> np.ndarray:
    """Bool per sorted row: the next row has another key."""
    rows = len(columns[0])
    last = np.ones(rows, np.bool_)
    if rows < 2:
        return last
    differs = np.zeros(rows - 1, np.bool_)
    for column in columns:
        differs |= pc.not_equal(column.slice(0, rows - 1), column.slice(1)).to_numpy(zero_copy_only=False)
    last[:-1] = differs
    return last
