"""Exact match of candidate keys against a file's key column: the only answer that counts.

Filters and ranges propose; here the file decides, and says where the key is: row group and row within it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import RowNumbers, StringArray, plain_strings

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Candidate keys that were found, in the candidates' order.

    Attributes:
        candidate: int64 [found], ordinal among the candidates.
        row_group: int32 [found], row group in the file.
        row_in_group: int32 [found], row in the row group.
        rows_read: keys of the file that were looked at.
        duplicates: candidate keys that the file holds more than once, sorted; no upsert can be right then. Their first
            place is in the arrays above.
    """

    candidate: RowNumbers
    row_group: Ints
    row_in_group: Ints
    rows_read: int
    duplicates: tuple[str, ...]


def match_keys(candidates: StringArray, row_groups: Iterable[StringArray]) -> Matches:
    """Find candidate keys in a file.

    Args:
        candidates: distinct keys, in any order.
        row_groups: the file's ``_hoodie_record_key`` column, one array a row group, in file order.

    Raises:
        InvariantError: a candidate occurs twice (batches hold each key once).
    """
    asked = plain_strings(candidates)
    groups = [plain_strings(group).cast(asked.type) for group in row_groups]
    starts = np.concatenate(([0], np.cumsum([len(group) for group in groups], dtype=np.int64)))
    places, found = _places_found(asked, pa.chunked_array(groups, type=asked.type))
    order = np.lexsort((places, found))
    places, found = places[order], found[order]
    again = np.zeros(len(found), dtype=np.bool_)
    again[1:] = found[1:] == found[:-1]
    first = places[~again]
    group_of = np.searchsorted(starts, first, side="right") - 1
    return Matches(
        candidate=found[~again],
        row_group=group_of.astype(np.int32),
        row_in_group=(first - starts[group_of]).astype(np.int32),
        rows_read=int(starts[-1]),
        duplicates=tuple(sorted(asked.take(pa.array(np.unique(found[again]))).to_pylist())),
    )


def _places_found(asked: pa.Array, stored: pa.ChunkedArray) -> tuple[RowNumbers, RowNumbers]:
    """Place in the file and ordinal of the candidate, of each stored key that is one."""
    nothing = np.zeros(0, dtype=np.int64)
    if len(asked) == 0 or len(stored) == 0:
        return nothing, nothing
    if len(asked.unique()) != len(asked):
        raise InvariantError("a key is looked up twice", hint="combine duplicate keys before looking them up")
    ordinals = pc.index_in(stored, value_set=asked, skip_nulls=True)
    hits = ordinals.is_valid().to_numpy()
    return np.flatnonzero(hits), ordinals.drop_null().to_numpy().astype(np.int64, copy=False)
