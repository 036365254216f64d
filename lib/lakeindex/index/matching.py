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
from lakeindex.hashing.arrow import StringArray, plain_strings

Ints = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class DuplicateKey:
    """A key that a file holds more than once: no upsert can be right then.

    Attributes:
        key: the record key.
        places: (row group, row in it) of each copy.
    """

    key: str
    places: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class Matches:
    """Where candidate keys were found, sorted by chunk row.

    Attributes:
        row: int64 [found], row number in the chunk.
        row_group: int32 [found], row group in the file.
        row_in_group: int32 [found], row in the row group.
        rows_read: keys of the file that were looked at.
        duplicates: candidate keys that the file holds more than once; ``row`` has their first place.
    """

    row: Rows
    row_group: Ints
    row_in_group: Ints
    rows_read: int
    duplicates: tuple[DuplicateKey, ...]


def match_keys(candidates: StringArray, candidate_rows: Rows, row_groups: Iterable[StringArray]) -> Matches:
    """Find candidate keys in a file.

    Args:
        candidates: distinct keys of a chunk.
        candidate_rows: int64 [len(candidates)], their row numbers in the chunk.
        row_groups: the file's ``_hoodie_record_key`` column, one array a row group, in file order.

    Raises:
        InvariantError: a candidate occurs twice (chunks hold each key once).
    """
    asked = plain_strings(candidates)
    if len(asked) != len(candidate_rows):
        raise InvariantError(f"{len(asked)} candidate keys have {len(candidate_rows)} row numbers")
    groups = [plain_strings(group).cast(asked.type) for group in row_groups]
    sizes = np.array([len(group) for group in groups], dtype=np.int64)
    stored = pa.chunked_array(groups, type=asked.type)
    places, found = _places_found(asked, stored)
    starts = np.concatenate(([0], np.cumsum(sizes)))
    group_of = np.searchsorted(starts, places, side="right") - 1
    order = np.lexsort((places, found))
    places, found, group_of = places[order], found[order], group_of[order]
    in_group = places - starts[group_of]
    first = np.ones(len(found), dtype=np.bool_)
    first[1:] = found[1:] != found[:-1]
    rows = candidate_rows[found[first]]
    by_row = np.argsort(rows, kind="stable")
    return Matches(
        row=rows[by_row].astype(np.int64, copy=False),
        row_group=group_of[first][by_row].astype(np.int32),
        row_in_group=in_group[first][by_row].astype(np.int32),
        rows_read=int(sizes.sum()),
        duplicates=_duplicates(asked, found, group_of, in_group, first),
    )


def _places_found(asked: pa.Array, stored: pa.ChunkedArray) -> tuple[Rows, Rows]:
    """Place in the file and ordinal of the candidate, of each stored key that is one."""
    nothing = np.zeros(0, dtype=np.int64)
    if len(asked) == 0 or len(stored) == 0:
        return nothing, nothing
    if len(asked.unique()) != len(asked):
        raise InvariantError("a chunk holds a key twice", hint="combine duplicate keys before looking them up")
    ordinals = pc.index_in(stored, value_set=asked, skip_nulls=True)
    hits = ordinals.is_valid()
    return (
        np.flatnonzero(hits.to_numpy()),
        ordinals.drop_null().to_numpy().astype(np.int64, copy=False),
    )


def _duplicates(
    asked: pa.Array, found: Rows, group_of: Rows, in_group: Rows, first: npt.NDArray[np.bool_]
) -> tuple[DuplicateKey, ...]:
    reports = []
    for ordinal in np.unique(found[~first]):
        same = slice(*np.searchsorted(found, [ordinal, ordinal + 1]))
        places = zip(group_of[same].tolist(), in_group[same].tolist(), strict=True)
        reports.append(DuplicateKey(asked[int(ordinal)].as_py(), tuple(places)))
    return tuple(reports)
