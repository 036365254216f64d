"""Exact match of candidate keys against a file's key column: the only answer that counts.

Filters and ranges propose; here the file decides, and says where the key is: row group and row within it.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, StringArray, plain_strings

Ints = npt.NDArray[np.int32]


class Matches(Frozen, eq=False):
    """Candidate keys that were found, in the candidates' order; one that a file holds more than once, once a row.

    Attributes:
        candidate: int64 [found], ordinal among the candidates.
        row_group: int32 [found], row group in the file.
        row_in_group: int32 [found], row in the row group.
        rows_read: keys of the file that were looked at.
    """

    candidate: RowNumbers
    row_group: Ints
    row_in_group: Ints
    rows_read: int


def match_keys(
    candidates: StringArray, row_groups: Iterable[StringArray], files: tuple[np.ndarray, np.ndarray] | None = None
) -> Matches:
    """Find candidate keys in a file, or in several.

    Args:
        candidates: keys, in any order; distinct in each file.
        row_groups: the files' ``_hoodie_record_key`` column, one array a row group, in file order.
        files: number of each candidate's file, in which alone it is looked for, and of each row group's; int64.
            None: there is one file.

    Raises:
        InvariantError: a candidate occurs twice (batches hold each key once).
    """
    asked = plain_strings(candidates)
    groups = [plain_strings(group).cast(asked.type) for group in row_groups]
    starts = np.concatenate(([0], np.cumsum([len(group) for group in groups], dtype=np.int64)))
    places, found = _places_found(asked, pa.chunked_array(groups, type=asked.type), starts, files)
    order = np.lexsort((places, found))
    places, found = places[order], found[order]
    group_of = _group_of(places, starts)
    return Matches(
        candidate=found,
        row_group=group_of.astype(np.int32),
        row_in_group=(places - starts[group_of]).astype(np.int32),
        rows_read=int(starts[-1]),
    )


def _group_of(places: RowNumbers, starts: RowNumbers) -> RowNumbers:
    return np.searchsorted(starts, places, side="right") - 1


def _places_found(
    asked: pa.Array, stored: pa.ChunkedArray, starts: RowNumbers, files: tuple[np.ndarray, np.ndarray] | None
) -> tuple[RowNumbers, RowNumbers]:
    """Place in the files and ordinal of the candidate, of each stored key that is one."""
    nothing = np.zeros(0, dtype=np.int64)
    if len(asked) == 0 or len(stored) == 0:
        return nothing, nothing
    encoded = asked.dictionary_encode()
    distinct, codes = len(encoded.dictionary), encoded.indices.to_numpy()
    ordinals = pc.index_in(stored, value_set=encoded.dictionary, skip_nulls=True)
    places = np.flatnonzero(ordinals.is_valid().to_numpy())
    found = ordinals.drop_null().to_numpy().astype(np.int64, copy=False)
    if files is None and distinct == len(asked):  # their codes are their ordinals
        return places, found
    of_asked, of_group = (np.zeros(len(asked), np.int64), np.zeros(len(starts), np.int64)) if files is None else files
    wanted = of_asked * distinct + codes
    order = np.argsort(wanted, kind="stable")
    if (wanted[order][1:] == wanted[order][:-1]).any():
        raise InvariantError("a key is looked up twice", hint="combine duplicate keys before looking them up")
    there = of_group[_group_of(places, starts)] * distinct + found
    near = np.minimum(np.searchsorted(wanted[order], there), len(order) - 1)
    hits = wanted[order][near] == there
    return places[hits], order[near[hits]]
