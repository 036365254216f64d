"""A digest of rows in their order, by names and values alone: not by how they are divided, encoded or laid out.

Each value is hashed to 64 bits and mixed with its column's name, a row's hash is the sum of those, so that a column
without values is none, and the digest is a polynomial of the rows' hashes, twice with different factors: the digest of
rows that come in pieces is made of those of the pieces. Numbers of another width are the same numbers, all NaN are one.
It tells mistakes; it is no defence against somebody who wants a collision.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.frozen import Frozen

Hashes: TypeAlias = npt.NDArray[np.uint64]

ROWS_DIGEST: Final = "rows-1"
"""Name of the algorithm; it stands before its digests."""
_FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F)
_MODULUS: Final = 1 << 64
_STEP: Final = np.uint64(0x9FB21C651E98DF25)
_LENGTH: Final = np.uint64(0xD6E8FEB86659FD93)
_SHORT_BYTES: Final = 512
"""Texts up to here are hashed together, longer ones one by one."""
_BLOCK_WORDS: Final = 1 << 17


class BatchDigest(Frozen):
    """Rows, and two polynomials of their hashes."""

    rows: int = 0
    sums: tuple[int, int] = (0, 0)

    def followed_by(self, other: BatchDigest) -> BatchDigest:
        """The digest of these rows and then those."""
        first, second = (
            (mine + pow(factor, self.rows, _MODULUS) * theirs) % _MODULUS
            for factor, mine, theirs in zip(_FACTORS, self.sums, other.sums, strict=True)
        )
        return BatchDigest(self.rows + other.rows, (first, second))

    def text(self, *more: object) -> str:
        """The digest as it is recorded, with what else makes the batch what it is."""
        said = "\n".join(map(str, (self.rows, *self.sums, *more)))
        return f"{ROWS_DIGEST}:{mmh3.hash_bytes(said.encode()).hex()}"


NO_ROWS: Final = BatchDigest()


def digest_batch(rows: pa.Table) -> BatchDigest:
    """The digest of a table's rows."""
    total = NO_ROWS
    for batch in rows.to_batches():
        hashes = _mix(_hash_fields(zip(batch.schema.names, batch.columns, strict=True), batch.num_rows))
        sums = []
        for factor in _FACTORS:
            powers = np.full(batch.num_rows, factor, np.uint64)
            powers[:1] = 1
            np.multiply.accumulate(powers, out=powers)
            sums.append(int(np.add.reduce(_mix(hashes + np.uint64(factor)) * powers)))
        total = total.followed_by(BatchDigest(batch.num_rows, (sums[0], sums[1])))
    return total


def _mix(values: Hashes) -> Hashes:
    """A bijection of 64 bits in which every bit depends on every other (the finisher of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def _hash_fields(fields: Iterable[tuple[str, pa.Array]], rows: int) -> Hashes:
    hashes = np.zeros(rows, np.uint64)
    for name, column in fields:
        if column.null_count < rows:
            seed = np.uint64(mmh3.hash64(name.encode(), signed=False)[0])
            found = _mix(_hash_values(column) ^ seed)
            if column.null_count:
                found[column.is_null().to_numpy(zero_copy_only=False)] = 0
            hashes += found
    return hashes


def _hash_values(array: pa.Array) -> Hashes:
    """A hash of each value; of a null any."""
    kind = array.type
    if pa.types.is_struct(kind):
        return _hash_fields(zip([field.name for field in kind], array.flatten(), strict=True), len(array))
    if pa.types.is_map(kind):
        first, count = _span(array)
        keys, items = array.keys.slice(first, count), array.items.slice(first, count)
        return _hash_lists(array, _mix(_hash_elements(keys)) + _hash_elements(items))
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _hash_lists(array, _hash_elements(array.values.slice(*_span(array))))
    if pa.types.is_floating(kind):
        values = array.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        return np.where(np.isnan(values), np.nan, values).view(np.uint64)
    if pa.types.is_boolean(kind):
        return np.asarray(array.fill_null(False).to_numpy(zero_copy_only=False), np.uint64)
    if pa.types.is_primitive(kind) or pa.types.is_decimal(kind):
        return _hash_fixed(array.cast(pa.int64()) if pa.types.is_integer(kind) else array)
    return _hash_bytes(array if pa.types.is_large_binary(kind) else array.cast(pa.large_binary()))


def _hash_fixed(array: pa.Array) -> Hashes:
    """Values of a fixed number of bytes: 4, 8, or 16 of decimals."""
    width = array.type.bit_width // 8
    content = np.frombuffer(array.buffers()[1], np.uint8)[array.offset * width : (array.offset + len(array)) * width]
    if width <= 8:
        return content.view(f"u{width}").astype(np.uint64)
    halves = content.view(np.uint64).reshape(-1, 2)
    return _mix(halves[:, 0] + _STEP) ^ halves[:, 1]


def _span(array: pa.Array) -> tuple[int, int]:
    """Where a list's elements begin below it, and how many there are."""
    first, last = array.offsets[0].as_py(), array.offsets[-1].as_py()
    return first, last - first


def _hash_elements(array: pa.Array) -> Hashes:
    return _hash_fields([("", array)], len(array))


def _hash_lists(array: pa.Array, values: Hashes) -> Hashes:
    lengths = np.diff(array.offsets.to_numpy(zero_copy_only=False).astype(np.int64))
    return _folded(values, lengths, lengths)


def _folded(values: Hashes, counts: npt.NDArray[np.int64], lengths: npt.NDArray[np.int64]) -> Hashes:
    """One hash of each run of ``counts`` values, by their places in it."""
    ends = np.cumsum(counts)
    places = np.arange(len(values), dtype=np.uint64) - np.repeat(ends - counts, counts).astype(np.uint64)
    terms = _mix(values + (places + np.uint64(1)) * _STEP)
    found = np.zeros(len(counts), np.uint64)
    some = counts > 0
    if some.any():
        found[some] = np.add.reduceat(terms, (ends - counts)[some])
    return _mix(found + (lengths.astype(np.uint64) + np.uint64(1)) * _LENGTH)


def _hash_bytes(array: pa.Array) -> Hashes:
    """Texts and bytes, eight at a time."""
    _, offsets, data = array.buffers()
    places = np.frombuffer(offsets, np.int64)[array.offset : array.offset + len(array) + 1]
    content = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)
    lengths = np.diff(places)
    is_long = lengths > _SHORT_BYTES
    counts = np.where(is_long, 0, (lengths + 7) // 8)
    hashes = np.empty(len(array), np.uint64)
    words_before = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    while first < len(array):
        end = max(int(np.searchsorted(words_before, words_before[first] + _BLOCK_WORDS, "right")) - 1, first + 1)
        some = slice(first, end)
        words = _words(content, places[some], lengths[some], counts[some])
        hashes[some] = _folded(words, counts[some], lengths[some])
        first = end
    for row in np.flatnonzero(is_long):
        hashes[row] = mmh3.hash64(content[places[row] : places[row + 1]].tobytes(), signed=False)[0]
    return hashes


def _words(
    content: npt.NDArray[np.uint8],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
    counts: npt.NDArray[np.int64],
) -> Hashes:
    """Eight bytes at a time of each text, zeros behind its end."""
    total = int(counts.sum())
    if not total:
        return np.zeros(0, np.uint64)
    low, high = int(starts[0]), int(starts[-1] + lengths[-1])
    padded = np.concatenate([content[low:high], np.zeros(8, np.uint8)])
    unaligned = np.ndarray((len(padded) - 7,), "<u8", padded, strides=(1,))
    at = 8 * (np.arange(total) - np.repeat(np.cumsum(counts) - counts, counts))
    left = np.minimum(np.repeat(lengths, counts) - at, 8)
    words = unaligned[np.repeat(starts - low, counts) + at]
    masks = np.uint64(0xFFFFFFFFFFFFFFFF) >> ((8 - left) * 8).astype(np.uint64)
    return np.asarray(words & masks, np.uint64)
