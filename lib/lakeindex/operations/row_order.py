"""In which order clustering puts rows: by record key, by columns, or along a curve through the space of the columns.

Along a curve, each column is cut at quantiles of a sample into 2**b ranges of equal counts; a row's place on the curve
is made of the numbers of its ranges. Texts are compared by eight bytes behind what all sampled ones begin with.

Sources: Morton, "A computer oriented geodetic data base" (1966), for the Z-order curve; Skilling, "Programming the
Hilbert curve", AIP Conference Proceedings 707, 381 (2004), for the Hilbert curve in any number of dimensions.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.hashing.loops import compiled
from lakeindex.model import BaseFile
from lakeindex.options.clustering_options import Curve
from lakeindex.write.base_file import RECORD_KEY

Numbers: TypeAlias = npt.NDArray[np.uint64]

_CURVE_BITS: Final = 60
_MOST_BITS: Final = 12
_PREFIX_BYTES: Final = 8
_NO_CURVE: Final = (Curve.LINEAR, Curve.NONE)


class Ranges(Frozen):
    """How the values of one column become numbers.

    Attributes:
        edges: quantiles of a sample: uint64 or float64 [n], ascending.
        prefix: what all sampled texts begin with.
    """

    edges: npt.NDArray[np.generic]
    prefix: bytes = b""

    @staticmethod
    def of(sample: pa.ChunkedArray, bits: int) -> Ranges:
        """The ranges of a column by some of its values."""
        prefix = _common_prefix(sample) if _is_text(sample.type) else b""
        values = np.sort(_numbers(sample.drop_null(), prefix))
        places = np.linspace(0, max(len(values) - 1, 0), 2**bits + 1).astype(np.int64)[1:-1]
        return Ranges(np.unique(values[places]) if len(values) else values, prefix)

    def numbers(self, column: pa.ChunkedArray) -> Numbers:
        """The number of the range of each value, uint64 [n]; nulls are behind all others."""
        found = counted_edges(self.edges, _numbers(column, self.prefix))
        if column.null_count:
            found[pc.is_null(column).to_numpy(zero_copy_only=False)] = len(self.edges)
        return found


class RowOrder(Frozen):
    """The order, and where it is cut.

    Attributes:
        columns: columns of base files, the first one first.
        ranges: of the columns, along a curve.
        cuts: the least rows of all places but the first: of each a value a column; along a curve its place on it.
    """

    columns: tuple[str, ...] = (RECORD_KEY,)
    curve: Curve = Curve.LINEAR
    ranges: tuple[Ranges, ...] = ()
    cuts: tuple[tuple[object, ...], ...] = ()

    @property
    def by_key(self) -> bool:
        return self.columns == (RECORD_KEY,) and self.curve is Curve.LINEAR

    @property
    def text(self) -> str:
        """The order in words, as commits keep it: two of one text put rows alike."""
        if self.curve is Curve.NONE:
            return str(self.curve)
        names = ",".join(self.columns)
        return names if self.curve is Curve.LINEAR else f"{self.curve}({names})"

    def fitted(self, sample: pa.Table, places: int) -> RowOrder:
        """The order, cut into places of about equal counts.

        Args:
            sample: its columns of some rows.
        """
        if self.curve in _NO_CURVE:
            by = [(name, "ascending") for name in self.columns]
            rows = sample.select(list(self.columns)).sort_by(by)
            at = _even(rows.num_rows, places)
            cuts = [tuple(one.values()) for one in rows.take(pa.array(at, pa.int64())).to_pylist()]
            return RowOrder(self.columns, self.curve, (), tuple(dict.fromkeys(cuts)))
        bits = min(_CURVE_BITS // len(self.columns), _MOST_BITS)
        ranges = tuple(Ranges.of(sample.column(name), bits) for name in self.columns)
        order = RowOrder(self.columns, self.curve, ranges)
        values = np.sort(order._on_curve(sample))
        cuts = np.unique(values[_even(len(values), places)]).tolist()
        return RowOrder(self.columns, self.curve, ranges, tuple((one,) for one in cuts))

    def places(self, rows: pa.Table, file: BaseFile) -> np.ndarray:  # noqa: ARG002 - of every placing
        """As :class:`~lakeindex.operations.rewrite_run.Placing`."""
        if self.curve not in _NO_CURVE:
            edges = np.array([one[0] for one in self.cuts], np.uint64)
            return np.searchsorted(edges, self._on_curve(rows), side="right").astype(np.int64)
        found = np.zeros(rows.num_rows, np.int64)
        columns = [_plain(rows, name) for name in self.columns]
        for cut in self.cuts:
            found += _not_before(columns, cut)
        return found

    def order(self, rows: pa.Table, file: BaseFile) -> pa.Array:  # noqa: ARG002 - of every placing
        """As :class:`~lakeindex.operations.rewrite_run.Placing`. Rows of one place in it are sorted by key."""
        if self.curve is Curve.NONE:
            return pa.array(np.arange(rows.num_rows, dtype=np.uint64))
        if self.curve is Curve.LINEAR:
            by = [(name, "ascending") for name in dict.fromkeys((*self.columns, RECORD_KEY))]
            return pc.sort_indices(pa.table({name: _plain(rows, name) for name, _ in by}), by)
        keyed = pa.table([pa.array(self._on_curve(rows)), rows.column(RECORD_KEY)], names=["at", "key"])
        return pc.sort_indices(keyed, [("at", "ascending"), ("key", "ascending")])

    def _on_curve(self, rows: pa.Table) -> Numbers:
        """The place of each row on the curve: uint64 [n]."""
        bits = min(_CURVE_BITS // len(self.columns), _MOST_BITS)
        points = [one.numbers(_plain(rows, name)) for name, one in zip(self.columns, self.ranges, strict=True)]
        return interleaved(points if self.curve is Curve.Z_ORDER else hilbert_axes(points, bits), bits)


def counted_edges(edges: npt.NDArray[Any], values: npt.NDArray[Any]) -> Numbers:
    """How many edges are not above each value, uint64 [n]; what is not a number is above all. Both are of one type."""
    found = np.empty(len(values), np.uint64)
    _COUNTED[edges.dtype.str](edges, values, found)
    return found


@compiled("f8* f8* u8*")
def count_edges_f8(edges: npt.NDArray[np.float64], values: npt.NDArray[np.float64], out: Numbers) -> None:
    """Of doubles."""
    out[:] = np.searchsorted(edges, values, side="right")


@compiled("i8* i8* u8*")
def count_edges_i8(edges: npt.NDArray[np.int64], values: npt.NDArray[np.int64], out: Numbers) -> None:
    """Of numbers with a sign."""
    out[:] = np.searchsorted(edges, values, side="right")


@compiled("u8* u8* u8*")
def count_edges_u8(edges: Numbers, values: Numbers, out: Numbers) -> None:
    """Of numbers without one."""
    out[:] = np.searchsorted(edges, values, side="right")


_COUNTED: Final[Mapping[str, Callable[..., None]]] = {
    "<f8": count_edges_f8,
    "<i8": count_edges_i8,
    "<u8": count_edges_u8,
}


def interleaved(points: Sequence[Numbers], bits: int) -> Numbers:
    """Z-order: the bits of the numbers in turn, the highest first. ``points``: uint64 [n] a dimension."""
    bit = np.arange(bits, dtype=np.uint64)
    apart = (np.arange(1 << bits, dtype=np.uint64)[:, None] >> bit & np.uint64(1)) << bit * np.uint64(len(points))
    table = np.bitwise_or.reduce(apart, axis=1)
    found = np.zeros_like(points[0])
    for axis in points:
        found = found << np.uint64(1) | table[axis]
    return found


def hilbert_axes(points: Sequence[Numbers], bits: int) -> list[Numbers]:
    """The transposed Hilbert index of points: its bits, in turn, are their places on the curve (Skilling's
    AxestoTranspose). ``points``: uint64 [n] a dimension, below 2**bits.
    """
    axes = [axis.copy() for axis in points]
    zero, last = np.uint64(0), len(axes) - 1
    for bit in reversed(range(1, bits)):
        high, low = np.uint64(1 << bit), np.uint64((1 << bit) - 1)
        for axis in range(len(axes)):
            is_set = (axes[axis] & high) != zero
            swapped = np.where(is_set, zero, (axes[0] ^ axes[axis]) & low)
            axes[0] = np.where(is_set, axes[0] ^ low, axes[0] ^ swapped)
            axes[axis] = axes[axis] ^ swapped if axis else axes[0]
    for axis in range(1, len(axes)):
        axes[axis] = axes[axis] ^ axes[axis - 1]
    turned = np.zeros_like(axes[0])
    for bit in reversed(range(1, bits)):
        low = np.uint64((1 << bit) - 1)
        turned = np.where((axes[last] & np.uint64(1 << bit)) != zero, turned ^ low, turned)
    return [axis ^ turned for axis in axes]


def _even(count: int, places: int) -> npt.NDArray[np.int64]:
    """Where so many sorted values are cut into places of equal counts."""
    return np.arange(1, places if count else 1, dtype=np.int64) * count // max(places, 1)


def _not_before(columns: Sequence[pa.ChunkedArray], cut: Sequence[object]) -> npt.NDArray[np.bool_]:
    """Whether each row is not before a cut, nulls behind all values: bool [n]."""

    def compared(column: pa.ChunkedArray, value: object) -> tuple[pa.ChunkedArray, pa.ChunkedArray]:
        if value is None:
            return pc.and_(pc.is_null(column), pa.scalar(value=False)), pc.is_null(column)
        bound = pa.scalar(value, column.type)
        after, same = pc.greater(column, bound), pc.equal(column, bound)
        if isinstance(value, float):
            is_nan = pc.is_nan(column)  # behind all numbers, as where rows are sorted
            after, same = (after, is_nan) if math.isnan(value) else (pc.or_(after, is_nan), same)
        return pc.fill_null(after, fill_value=True), pc.fill_null(same, fill_value=False)

    pairs = [compared(column, value) for column, value in zip(columns, cut, strict=True)]
    last_after, last_same = pairs[-1]
    found = reduce(
        lambda rest, pair: pc.or_(pair[0], pc.and_(pair[1], rest)), reversed(pairs[:-1]), pc.or_(last_after, last_same)
    )
    return one_array(found).to_numpy(zero_copy_only=False).astype(bool)


def _plain(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A column, not in dictionaries: few values may be more text than short offsets reach."""
    column = rows.column(name)
    return column.cast(pa.large_string()) if pa.types.is_dictionary(column.type) else column


def _is_text(kind: pa.DataType) -> bool:
    is_bytes = pa.types.is_binary(kind) or pa.types.is_fixed_size_binary(kind)
    return is_bytes or pa.types.is_string(kind) or pa.types.is_large_string(kind)


def _common_prefix(sample: pa.ChunkedArray) -> bytes:
    ends = pc.min_max(sample).as_py()
    low, high = (value if isinstance(value, bytes) else str(value or "").encode() for value in ends.values())
    same = next((n for n, (a, b) in enumerate(zip(low, high, strict=False)) if a != b), min(len(low), len(high)))
    return low[:same]


def _numbers(column: pa.ChunkedArray, prefix: bytes) -> npt.NDArray[np.generic]:
    """Numbers in the order of the values; of nulls any."""
    kind = column.type
    if _is_text(kind):
        return _text_numbers(column, len(prefix))
    if pa.types.is_boolean(kind):
        column = column.cast(pa.int64())
    elif pa.types.is_date32(kind) or pa.types.is_time32(kind):
        column = column.cast(pa.int32()).cast(pa.int64())
    elif pa.types.is_temporal(kind):
        column = column.cast(pa.int64())
    else:
        column = column.cast(pa.float64(), safe=False)
    return one_array(column.fill_null(0)).to_numpy(zero_copy_only=False)


def _text_numbers(column: pa.ChunkedArray, skipped: int) -> Numbers:
    """The bytes behind a prefix as a number: uint64 [n]."""
    raw = column.cast(pa.binary()) if not pa.types.is_large_string(column.type) else column.cast(pa.large_binary())
    cut = pc.binary_slice(raw.fill_null(b""), skipped, skipped + _PREFIX_BYTES)
    array = one_array(cut)
    width = _PREFIX_BYTES
    lengths = pc.binary_length(array).to_numpy(zero_copy_only=False).astype(np.int64)
    ends = np.cumsum(lengths)
    data = np.frombuffer(b"".join(array.to_pylist()), np.uint8) if len(array) else np.zeros(0, np.uint8)
    rows = np.repeat(np.arange(len(array)), lengths)
    within = np.arange(len(data)) - np.repeat(ends - lengths, lengths)
    padded = np.zeros((len(array), width), np.uint8)
    padded[rows, within] = data
    return padded.view(">u8").reshape(-1).astype(np.uint64)
