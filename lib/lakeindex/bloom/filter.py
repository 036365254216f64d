"""Bloom filters as Hudi's footers hold them, SIMPLE (fixed) and DYNAMIC_V0 (grows by rows), as frozen values; and their
text in a footer. Big-endian, as Java's ``DataOutput`` writes it::

    SIMPLE      header, bits
    DYNAMIC_V0  header, int32 entries of a row, int32 keys in the last row, int32 rows, then a SIMPLE filter a row
    header      int32 version = -1, int32 hashes, int8 hash type = 1 (Murmur), int32 bits
    bits        ceil(bits / 8) bytes; bit i is byte i >> 3, mask 1 << (i & 7)

in standard, padded base64. A version above 0 is the old unversioned form (its first number was the hash count);
Hudi itself no longer reads it, and neither do we.

What a header claims is checked against the bytes that are there before anything is allocated; the bits of a
parsed filter are a view of the decoded text.

For ``n`` entries and false-positive probability ``p`` (Hudi ``BloomFilterUtils``; Bloom 1970)::

    bits    m = ceil(n * -ln(p) / ln(2)**2)     at most 2**31 - 1
    hashes  k = ceil(ln(2) * m / n)
    false positives with i keys in it  = (1 - exp(-k * i / m)) ** k

================  =========  ======  ==========================
p asked for       bits/key   hashes  base64 text of 100,000 keys
================  =========  ======  ==========================
1e-2                    9.6       7                     160 kB
1e-4                   19.2      14                     320 kB
1e-6 (default)         28.8      20                     479 kB
1e-9 (Hudi's)          43.1      30                     719 kB
================  =========  ======  ==========================

Hudi's defaults (60,000 entries, 1e-9, growth bounded by 100,000 entries) stop filtering silently on large
files: measured false positives are 0.6 % at 300,000 rows a file, 33 % at 500,000 and 99 % at 1,000,000. So by
default a filter is sized for its file: 1.25 x the rows (room for the next merges), at 1e-6.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pybase64

from lakeindex.errors import InvariantError, OptionError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray, StringBuffers, string_buffers
from lakeindex.hashing.loops import Bytes, Offsets, compiled
from lakeindex.hashing.murmur import Alike, Words, alike
from lakeindex.options.types import FilterSizing, FilterType, WriteConfig

HEADER: Final = struct.Struct(">iibi")
GROWTH: Final = struct.Struct(">iii")
VERSION: Final = -1
MURMUR: Final = 1

# ceil(ln2 * m / n) for n = 1 and the least positive double as probability is 1,075
MAX_HASHES: Final = 1_100

TYPE_CODES: Final = {"SIMPLE": FilterType.SIMPLE, "DYNAMIC_V0": FilterType.DYNAMIC_V0}


@compiled("u1* i8* int int i8* u1**")
def add_keys(data: Bytes, offsets: Offsets, m: int, k: int, rows: Offsets, bits: Bytes) -> None:
    """Set the bits of each key ``i`` in filter row ``rows[i]``."""
    flat, width = bits.reshape(-1), bits.shape[1]
    for keys in alike(data, offsets):
        for place in _places(keys, m, k):
            mask = np.uint8(1) << (place & np.uint32(7)).astype(np.uint8)
            np.bitwise_or.at(flat, rows[keys.rows] * width + (place >> np.uint32(3)), mask)


@compiled("u1* i8* int int u1** b1*")
def probe_keys(data: Bytes, offsets: Offsets, m: int, k: int, bits: Bytes, out: npt.NDArray[np.bool_]) -> None:
    """``out[i]``: whether some filter row holds all positions of key ``i``."""
    for keys in alike(data, offsets):
        held = np.ones((len(bits), len(keys.rows)), np.uint8)
        for place in _places(keys, m, k):
            held &= bits[:, place >> np.uint32(3)] >> (place & np.uint32(7)).astype(np.uint8)
        out[keys.rows] = held.any(axis=0)


def _places(keys: Alike, m: int, k: int) -> Iterator[Words]:
    """The ``k`` positions of each key, one after the other. They are chained: ``x[0] = murmur(key, 0)``,
    ``x[j + 1] = murmur(key, x[j])``, position = ``abs(x[j] % m)`` with Java's remainder, which takes the sign of the
    dividend.
    """
    hashes = np.zeros(len(keys.rows), np.uint32)
    for _ in range(k):
        hashes = keys.hashes(hashes)
        yield np.where(hashes.view(np.int32) < 0, -hashes, hashes) % np.uint32(m)


MAX_BITS: Final = 2**31 - 1
MAX_ENTRIES: Final = 2**31 - 1
EXACT_ROOM: Final = 1.25
EXACT_FPP: Final = 1e-6
HUDI_FPP: Final = 1e-9
_LN2: Final = math.log(2.0)


def bits_for(entries: int, fpp: float) -> int:
    """Bits of a filter row for this many entries (``m``)."""
    return min(math.ceil(entries * (-math.log(fpp) / (_LN2 * _LN2))), MAX_BITS)


def hashes_for(bits: int, entries: int) -> int:
    """Hashes a key (``k``)."""
    return math.ceil(_LN2 * bits / entries)


class FilterSize(Frozen):
    """What a new filter is made for.

    Attributes:
        filter_type: SIMPLE or DYNAMIC_V0.
        entries: entries of one filter row.
        max_entries: bound of a DYNAMIC_V0 filter's growth, in entries.
        fpp: false-positive probability asked for.
    """

    filter_type: FilterType
    entries: int
    max_entries: int
    fpp: float

    @property
    def bits(self) -> int:
        """Bits of one filter row."""
        return bits_for(self.entries, self.fpp)

    @property
    def hashes(self) -> int:
        """Hashes a key."""
        return hashes_for(self.bits, self.entries)

    @property
    def max_rows(self) -> int:
        """Most rows the filter grows to."""
        if self.filter_type is FilterType.SIMPLE:
            return 1
        return max(1, -(-self.max_entries // self.entries))


def size_for(rows: int, config: WriteConfig) -> FilterSize:
    """The size of the filter of a file with this many rows.

    Raises:
        OptionError: the options ask for more bits than Hudi's format can say.
    """
    if config.filter_sizing is FilterSizing.FIXED:
        fpp = HUDI_FPP if config.filter_fpp is None else config.filter_fpp
        size = FilterSize(config.filter_type, config.filter_entries, config.filter_max_entries, fpp)
    else:
        fpp = EXACT_FPP if config.filter_fpp is None else config.filter_fpp
        entries = min(max(1, math.ceil(rows * EXACT_ROOM)), MAX_ENTRIES)
        size = FilterSize(config.filter_type, entries, entries, fpp)
    if size.bits < 1 or size.hashes < 1:
        raise OptionError(
            f"a filter of {size.entries} entries at false-positive probability {size.fpp} has no bits",
            culprit="hoodie.index.bloom.fpp",
            hint="ask for a smaller probability",
        )
    return size


class BloomFilter(Frozen, eq=False):
    """A filter and what its serialised header says. Immutable: the bits are read-only.

    Attributes:
        filter_type: SIMPLE or DYNAMIC_V0.
        m: bits of one filter row.
        k: hashes a key.
        entries: keys a row is made for (DYNAMIC_V0's header); 0 where the header does not say (SIMPLE).
        active_keys: keys added since the last row was appended (DYNAMIC_V0's header); 0 for SIMPLE.
        bits: uint8 [rows, ceil(m / 8)].
    """

    filter_type: FilterType
    m: int
    k: int
    entries: int
    active_keys: int
    bits: npt.NDArray[np.uint8]

    @property
    def rows(self) -> int:
        """Filter rows; 1 for SIMPLE."""
        return int(self.bits.shape[0])

    def probe(self, keys: StringArray, from_row: int = 0, to_row: int | None = None) -> npt.NDArray[np.bool_]:
        """Which of ``keys[from_row:to_row]`` the filter may hold, bool [to_row - from_row].

        False is certain. An empty key, which no filter can hold, is answered with True: it proves nothing.

        Raises:
            InvariantError: a key is null.
        """
        return self.probe_buffers(string_buffers(keys), from_row, to_row)

    def probe_buffers(
        self, buffers: StringBuffers, from_row: int = 0, to_row: int | None = None
    ) -> npt.NDArray[np.bool_]:
        """As :meth:`probe`, for keys whose buffers are at hand (many filters are probed with one chunk)."""
        part = buffers.slice(from_row, len(buffers) if to_row is None else to_row)
        out = np.empty(len(part), dtype=np.bool_)
        if len(part):
            probe_keys(part.data, part.offsets, self.m, self.k, self.bits, out)
            out |= part.offsets[1:] == part.offsets[:-1]
        return out

    def fill(self) -> tuple[float, ...]:
        """Share of set bits, a value a row; 0.5 is what a filter is made for."""
        return tuple(int(np.bitwise_count(row).sum(dtype=np.int64)) / self.m for row in self.bits)

    def to_text(self) -> bytes:
        """The filter as it stands in a footer: base64 of Hudi's serialised form."""
        header = HEADER.pack(VERSION, self.k, MURMUR, self.m)
        if self.filter_type is FilterType.SIMPLE:
            return pybase64.b64encode(header + self.bits[0].tobytes())
        parts = [header, GROWTH.pack(self.entries, self.active_keys, self.rows)]
        for row in self.bits:
            parts += (header, row.tobytes())
        return pybase64.b64encode(b"".join(parts))


def build_filter(keys: StringArray, config: WriteConfig, rows: int | None = None) -> BloomFilter:
    """The filter of a file that holds these keys, byte for byte what Hudi builds with the same sizing.

    Args:
        keys: record keys in file order (the order matters only to a DYNAMIC_V0 filter that grows).
        config: filter type and sizing.
        rows: rows to size for, if not the number of keys.

    Raises:
        InvariantError: a key is null or empty; Hudi's reader cannot look such a key up.
    """
    size = size_for(len(keys) if rows is None else rows, config)
    return build_sized(keys, size)


def build_sized(keys: StringArray, size: FilterSize) -> BloomFilter:
    """As :func:`build_filter`, with the size at hand."""
    buffers = _checked(keys)
    count = len(buffers)
    targets, filter_rows = _rows_of_keys(count, size)
    bits = np.zeros((filter_rows, (size.bits + 7) // 8), dtype=np.uint8)
    if count:
        add_keys(buffers.data, buffers.offsets, size.bits, size.hashes, targets, bits)
    bits.setflags(write=False)
    if size.filter_type is FilterType.SIMPLE:
        return BloomFilter(FilterType.SIMPLE, size.bits, size.hashes, 0, 0, bits)
    active = count - (filter_rows - 1) * size.entries
    return BloomFilter(FilterType.DYNAMIC_V0, size.bits, size.hashes, size.entries, active, bits)


def extend_filter(old: BloomFilter, keys: StringArray) -> BloomFilter:
    """The filter with more keys in it; the old one is unchanged.

    Only a filter of one row can be extended, and the caller must know that it has room
    (:mod:`lakeindex.bloom.marks`): the header does not say how full a SIMPLE one is.

    Raises:
        InvariantError: the filter has several rows, or a key is null or empty.
    """
    if old.rows != 1:
        raise InvariantError(
            f"a filter of {old.rows} rows cannot take more keys", hint="build it anew from all keys of the file"
        )
    buffers = _checked(keys)
    bits = old.bits.copy()
    if len(buffers):
        targets = np.zeros(len(buffers), dtype=np.int64)
        add_keys(buffers.data, buffers.offsets, old.m, old.k, targets, bits)
    bits.setflags(write=False)
    active = old.active_keys + len(buffers) if old.filter_type is FilterType.DYNAMIC_V0 else 0
    return BloomFilter(old.filter_type, old.m, old.k, old.entries, active, bits)


def expected_fpp(bloom_filter: BloomFilter) -> float:
    """False-positive probability of the filter as it is: from the share of bits that are set.

    A key that is not in it is found by chance if all its ``k`` positions are set in some row:
    ``1 - prod(1 - fill[row] ** k)``.
    """
    miss = 1.0
    for fill in bloom_filter.fill():
        miss *= 1.0 - fill**bloom_filter.k
    return 1.0 - miss


def lacks_bits(bloom_filter: BloomFilter, keys: int) -> bool:
    """Whether the filter has fewer bits set than this many distinct keys set, beyond chance: then it lost some.

    Such a filter would answer "certainly not" for keys that are there. With load ``c = k * keys / m`` the share of set
    bits is ``1 - exp(-c)`` with variance ``(exp(-c) - (1 + c) * exp(-2c)) / m``; six deviations are allowed. A file
    that holds keys twice fails as well, and loses only its filter's help.
    """
    m, k = bloom_filter.m, bloom_filter.k
    for fill, load in zip(bloom_filter.fill(), _keys_by_row(bloom_filter, keys), strict=True):
        clear = math.exp(-k * load / m)
        variance = (clear - (1.0 + k * load / m) * clear * clear) / m
        if fill < 1.0 - clear - 6.0 * math.sqrt(max(variance, 0.0)) - 1.0 / m:
            return True
    return False


def _keys_by_row(bloom_filter: BloomFilter, keys: int) -> list[float]:
    """Keys that each filter row must hold at least, if the whole filter holds so many."""
    rows, entries = bloom_filter.rows, bloom_filter.entries
    if rows == 1:
        return [keys]
    # a row is filled with `entries` keys before the next one is appended
    full = [float(entries)] * (rows - 1)
    return [*full, float(min(max(keys - entries * (rows - 1), 0), entries))]


def _checked(keys: StringArray) -> StringBuffers:
    buffers = string_buffers(keys)
    if buffers.has_empty():
        raise InvariantError("an empty record key cannot be put into a filter", hint="Hudi refuses empty keys as well")
    return buffers


def _rows_of_keys(count: int, size: FilterSize) -> tuple[npt.NDArray[np.int64], int]:
    """Filter row of each key in order, and how many rows there are.

    DYNAMIC_V0 fills a row with ``entries`` keys, then appends one, up to ``max_rows``; the key that finds all rows
    full goes to row 0, and those after it to the rows in turn, beginning with row 0 again (Hudi
    ``InternalDynamicBloomFilter``).
    """
    keys = np.arange(count, dtype=np.int64)
    last = size.max_rows
    if size.filter_type is FilterType.SIMPLE or last == 1:
        return np.zeros(count, dtype=np.int64), 1
    limit = last * size.entries
    rows = np.where(keys < limit, keys // size.entries, np.where(keys == limit, 0, (keys - limit - 1) % last))
    return rows, max(1, min(last, -(-count // size.entries)))


def filter_candidates(
    bloom_filter: BloomFilter | None, keys: StringBuffers, from_row: int, to_row: int
) -> npt.NDArray[np.int64]:
    """Row numbers from ``from_row`` to ``to_row`` (exclusive) that the filter may hold.

    Args:
        bloom_filter: a file's filter, parsed once for all its chunks; None keeps every row.
        keys: the chunk's keys, their buffers taken once for all files.
        to_row: the row behind it.
    """
    if bloom_filter is None:
        return np.arange(from_row, to_row, dtype=np.int64)
    return from_row + np.flatnonzero(bloom_filter.probe_buffers(keys, from_row, to_row))


class FilterProblem(Frozen):
    """Why a filter cannot be used; its file then stays a candidate for every key."""

    reason: str


def parse_filter(
    text: bytes | str, type_code: str | None, rows: int | None = None, known_keys: Sequence[str] = ()
) -> BloomFilter | FilterProblem:
    """The filter in a footer's text, or what is wrong with it.

    Args:
        type_code: ``hoodie_bloom_filter_type_code`` of the footer; None means SIMPLE (Hudi writes it only for
            dynamic filters). Case does not matter.
        rows: rows of the file, if known: a filter with clearly fewer bits than so many keys set is refused.
        known_keys: keys that are in the file for sure: a filter that does not hold one of them is refused. It is of
            another file, or its header was damaged in a way that its length does not show.
    """
    filter_type = TYPE_CODES.get("SIMPLE" if type_code is None else type_code.upper())
    if filter_type is None:
        return FilterProblem(f"bloom filter type {type_code!r} is not known")
    try:
        raw = pybase64.b64decode(text, validate=True)
    except ValueError as error:  # binascii.Error is one; so is text that is not ASCII
        return FilterProblem(f"bloom filter is not base64 text: {error}")
    parsed = _parse_simple(raw) if filter_type is FilterType.SIMPLE else _parse_dynamic(raw)
    return parsed if isinstance(parsed, FilterProblem) else _of_this_file(parsed, rows, known_keys)


def _of_this_file(parsed: BloomFilter, rows: int | None, known_keys: Sequence[str]) -> BloomFilter | FilterProblem:
    if rows is not None and lacks_bits(parsed, rows):
        return FilterProblem(f"bloom filter has too few bits set for the {rows} rows of its file")
    if known_keys:
        held = parsed.probe(pa.array(known_keys, pa.string()))
        if not held.all():
            missed = known_keys[int(held.argmin())]
            return FilterProblem(f"bloom filter does not hold key {missed!r}, which is in its file")
    return parsed


def _parse_header(raw: bytes) -> tuple[int, int] | FilterProblem:
    """Bits and hashes of the header."""
    if len(raw) < HEADER.size:
        return FilterProblem(f"bloom filter ends inside its header ({len(raw)} bytes)")
    version, hashes, hash_type, bits = HEADER.unpack_from(raw)
    if version != VERSION:
        old = ", the old unversioned form" if version > 0 else ""
        return FilterProblem(f"bloom filter has version {version}{old}; only version {VERSION} is read")
    if hash_type != MURMUR:
        return FilterProblem(f"bloom filter has hash type {hash_type}; only {MURMUR} (Murmur) is read")
    if not 1 <= hashes <= MAX_HASHES:
        return FilterProblem(f"bloom filter claims {hashes} hashes a key")
    if bits < 1:
        return FilterProblem(f"bloom filter claims {bits} bits")
    return bits, hashes


def _parse_simple(raw: bytes) -> BloomFilter | FilterProblem:
    header = _parse_header(raw)
    if isinstance(header, FilterProblem):
        return header
    bits, hashes = header
    expected = HEADER.size + (bits + 7) // 8
    if len(raw) != expected:
        return FilterProblem(f"bloom filter of {bits} bits must have {expected} bytes, has {len(raw)}")
    view = np.frombuffer(raw, dtype=np.uint8, offset=HEADER.size).reshape(1, -1)
    return _with_clean_tail(BloomFilter(FilterType.SIMPLE, bits, hashes, 0, 0, view))


def _parse_dynamic(raw: bytes) -> BloomFilter | FilterProblem:
    header = _parse_header(raw)
    if isinstance(header, FilterProblem):
        return header
    bits, hashes = header
    start = HEADER.size + GROWTH.size
    if len(raw) < start:
        return FilterProblem(f"bloom filter ends inside its header ({len(raw)} bytes)")
    entries, active, rows = GROWTH.unpack_from(raw, HEADER.size)
    if entries < 1 or active < 0 or rows < 1:
        return FilterProblem(f"bloom filter claims {rows} rows of {entries} entries, {active} keys in the last")
    if hashes != hashes_for(bits, entries):
        return FilterProblem(f"bloom filter claims {hashes} hashes for {bits} bits and {entries} entries")
    row_bytes = HEADER.size + (bits + 7) // 8
    if len(raw) != start + rows * row_bytes:
        return FilterProblem(
            f"bloom filter of {rows} x {bits} bits must have {start + rows * row_bytes} bytes, has {len(raw)}"
        )
    matrix = np.frombuffer(raw, dtype=np.uint8, offset=start).reshape(rows, row_bytes)
    if (matrix[:, : HEADER.size] != np.frombuffer(raw, dtype=np.uint8, count=HEADER.size)).any():
        return FilterProblem("bloom filter rows disagree with their header")
    view = _row_bits(matrix)
    return _with_clean_tail(BloomFilter(FilterType.DYNAMIC_V0, bits, hashes, entries, active, view))


def _row_bits(matrix: npt.NDArray[np.uint8]) -> npt.NDArray[np.uint8]:
    bits = matrix[:, HEADER.size :]
    if len(matrix) == 1:
        return bits.reshape(-1).reshape(1, -1)  # one row lies in one piece: no copy
    whole = np.ascontiguousarray(bits)
    whole.setflags(write=False)
    return whole


def _with_clean_tail(parsed: BloomFilter) -> BloomFilter | FilterProblem:
    """Refuse a filter whose last byte has bits set beyond its size: no writer sets them."""
    beyond = -parsed.m % 8
    if beyond and (parsed.bits[:, -1] >> np.uint8(8 - beyond)).any():
        return FilterProblem("bloom filter has bits set beyond its size")
    return parsed


def usable_filter(filter_text: bytes | None, filter_type: str | None, rows: int | None = None) -> BloomFilter | None:
    """The filter in a footer's text; None if there is none, or it is damaged: then every key is a candidate."""
    if filter_text is None:
        return None
    parsed = parse_filter(filter_text, filter_type, rows)
    return None if isinstance(parsed, FilterProblem) else parsed
