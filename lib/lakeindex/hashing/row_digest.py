"""A digest of rows that does not depend on their order, nor on how they are spread over files: 128 bits.

Each value is hashed to 64 bits, a row's values are mixed in the order of the columns, and the rows' hashes are
added up modulo 2**64, twice with different mixing. Equal multisets of rows give equal digests; a lost, doubled or
changed row changes both sums. It proves that a rewrite kept every row, against mistakes; it is no defence against
somebody who wants a collision.

Values are compared by their bits: ``0.0`` and ``-0.0`` differ, a null differs from every value.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import without_dictionary
from lakeindex.hashing.loops import Bytes, Offsets, compiled

Hashes: TypeAlias = npt.NDArray[np.uint64]

_OFFSET: Final = np.uint64(0xCBF29CE484222325)
_PRIME: Final = np.uint64(0x100000001B3)
_NULL: Final = np.uint64(0x9E3779B97F4A7C15)
_SECOND: Final = np.uint64(0xD6E8FEB86659FD93)
_MASK: Final = (1 << 64) - 1


class RowDigest(Frozen):
    """Rows, and two sums of their hashes."""

    rows: int = 0
    first: int = 0
    second: int = 0

    def __add__(self, other: RowDigest) -> RowDigest:
        """The digest of both sets of rows together."""
        return RowDigest(
            self.rows + other.rows, (self.first + other.first) & _MASK, (self.second + other.second) & _MASK
        )


def sum_of(digests: Iterable[RowDigest]) -> RowDigest:
    """The digest of all rows together."""
    total = RowDigest()
    for one in digests:
        total = total + one
    return total


def digest_rows(rows: pa.Table) -> RowDigest:
    """The digest of a table's rows; all tables that are compared need the same columns, types and order of columns."""
    total = RowDigest()
    for batch in rows.to_batches():
        if batch.num_rows:
            hashes = np.full(batch.num_rows, _OFFSET, np.uint64)
            for number, column in enumerate(batch.columns):
                if pa.types.is_dictionary(column.type) and len(column.dictionary) <= len(column):
                    mix_entries(*_entries_of(column), number, hashes)
                else:
                    mix_in(_hash_array(column), number, hashes)
            first = int(np.add.reduce(hashes))
            hashes ^= _SECOND
            mix_all(0, hashes)
            total = total + RowDigest(batch.num_rows, first, int(np.add.reduce(hashes)))
    return total


def _mix(values: Hashes) -> Hashes:
    """A bijection of 64 bits in which every bit depends on every other (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hash_array(array: pa.Array) -> Hashes:
    """A hash of each value: uint64 [n]."""
    if pa.types.is_dictionary(array.type):
        return _hash_dictionary(array)
    if pa.types.is_null(array.type):
        return np.full(len(array), _NULL, np.uint64)
    hashes = _hash_values(array)
    if array.null_count:
        hashes[array.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _hash_dictionary(array: pa.DictionaryArray) -> Hashes:
    """As of the plain values, each entry hashed once."""
    if len(array.dictionary) > len(array):
        return _hash_array(without_dictionary(array))
    entries, places = _entries_of(array)
    return entries[places]


def _entries_of(array: pa.DictionaryArray) -> tuple[Hashes, npt.NDArray[np.int32]]:
    """The hashes of the entries and of a null behind them, and which of these each value has: int32 [n]."""
    entries = np.append(_hash_array(array.dictionary), _NULL)
    places = array.indices.cast(pa.int32())
    places = places.fill_null(len(entries) - 1) if places.null_count else places
    return entries, places.to_numpy()


def _hash_values(array: pa.Array) -> Hashes:
    kind = array.type
    if pa.types.is_struct(kind):
        hashes = np.full(len(array), _OFFSET, np.uint64)
        for child in array.flatten():
            hashes = _mix(hashes ^ _hash_array(child)) + _PRIME
        return hashes
    if pa.types.is_map(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        keys, items = array.keys.slice(start, end - start), array.items.slice(start, end - start)
        return _hash_lists(array.offsets, _mix(_hash_array(keys)) ^ _hash_array(items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        start, end = array.offsets[0].as_py(), array.offsets[-1].as_py()
        return _hash_lists(array.offsets, _hash_array(array.values.slice(start, end - start)))
    if _is_text(kind):
        return _hash_bytes(array)
    if pa.types.is_boolean(kind):
        return _mix(array.fill_null(False).to_numpy(zero_copy_only=False).astype(np.uint64) + np.uint64(1))
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind) or pa.types.is_fixed_size_binary(kind):
        return _hash_fixed(array, kind.bit_width // 8)
    return _hash_bytes(array.cast(pa.large_string()))


def _is_text(kind: pa.DataType) -> bool:
    return (
        pa.types.is_string(kind)
        or pa.types.is_large_string(kind)
        or pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
    )


def _hash_fixed(array: pa.Array, width: int) -> Hashes:
    """Values of a fixed number of bytes."""
    data = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if width in (1, 2, 4, 8):
        found = data.view(f"u{width}").astype(np.uint64)
        mix_all(1, found)
        return found
    return _hash_slices(data, np.arange(len(array) + 1, dtype=np.int64) * width)


def _hash_bytes(array: pa.Array) -> Hashes:
    _, offsets, data = array.buffers()
    wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
    places = np.frombuffer(offsets, np.int64 if wide else np.int32)[array.offset : array.offset + len(array) + 1]
    content = np.zeros(0, np.uint8) if data is None or not data.size else np.frombuffer(data, np.uint8)
    return _hash_slices(content, places.astype(np.int64))


def _hash_slices(data: npt.NDArray[np.uint8], offsets: npt.NDArray[np.int64]) -> Hashes:
    out = np.empty(len(offsets) - 1, np.uint64)
    fold_bytes(data, offsets, out)
    return out


def _hash_lists(offsets: pa.Array, values: Hashes) -> Hashes:
    places = offsets.to_numpy(zero_copy_only=False).astype(np.int64)
    out = np.empty(len(places) - 1, np.uint64)
    fold_hashes(values, places - places[0], out)
    return out


@compiled("int u8*")
def mix_all(added: int, values: Hashes) -> None:
    """Mix each value, a number added, in its place."""
    values[:] = _mix(values + np.uint64(added))


@compiled("u8* int u8*")
def mix_in(values: Hashes, number: int, hashes: Hashes) -> None:
    """Mix the values of a column into the hashes of the rows, in their places."""
    hashes[:] = _mix(hashes ^ (values + np.uint64(number)))


@compiled("u8* i4* int u8*")
def mix_entries(entries: Hashes, places: npt.NDArray[np.int32], number: int, hashes: Hashes) -> None:
    """As :func:`mix_in`, of values that are entries of a dictionary."""
    hashes[:] = _mix(hashes ^ (entries[places] + np.uint64(number)))


@compiled("u1* i8* u8*")
def fold_bytes(data: Bytes, offsets: Offsets, out: Hashes) -> None:
    """A hash of each byte string."""
    out[:] = _mix(_folded(data, offsets, 0))


@compiled("u8* i8* u8*")
def fold_hashes(values: Hashes, offsets: Offsets, out: Hashes) -> None:
    """A hash of each run of hashes."""
    out[:] = _mix(_folded(values, offsets, 29))


def _folded(values: npt.NDArray[Any], offsets: Offsets, shift: int) -> Hashes:
    """A step for each place, over all rows that are longer."""
    lengths = np.diff(offsets)
    found = _OFFSET ^ lengths.astype(np.uint64)
    rows = np.argsort(-lengths, kind="stable")
    for place in range(int(lengths.max(initial=0))):
        rows = rows[: np.searchsorted(-lengths[rows], -place)]
        step = (found[rows] ^ values[offsets[rows] + place].astype(np.uint64)) * _PRIME
        found[rows] = step ^ (step >> np.uint64(shift)) if shift else step
    return found
