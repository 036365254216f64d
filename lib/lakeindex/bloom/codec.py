"""Text of a footer <-> filter. Big-endian, as Java's ``DataOutput`` writes it::

    SIMPLE      header, bits
    DYNAMIC_V0  header, int32 entries of a row, int32 keys in the last row, int32 rows, then a SIMPLE filter a row
    header      int32 version = -1, int32 hashes, int8 hash type = 1 (Murmur), int32 bits
    bits        ceil(bits / 8) bytes; bit i is byte i >> 3, mask 1 << (i & 7)

in standard, padded base64. A version above 0 is the old unversioned form (its first number was the hash count);
Hudi itself no longer reads it, and neither do we.

What a header claims is checked against the bytes that are there before anything is allocated; the bits of a
parsed filter are a view of the decoded text.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pybase64

from lakeindex.bloom.filter import GROWTH, HEADER, MURMUR, VERSION, BloomFilter, lacks_bits
from lakeindex.bloom.sizing import hashes_for
from lakeindex.options.types import FilterType

if TYPE_CHECKING:
    import numpy.typing as npt

# ceil(ln2 * m / n) for n = 1 and the least positive double as probability is 1,075
MAX_HASHES: Final = 1_100

TYPE_CODES: Final = {"SIMPLE": FilterType.SIMPLE, "DYNAMIC_V0": FilterType.DYNAMIC_V0}


@dataclass(frozen=True, slots=True)
class FilterProblem:
    """Why a filter cannot be used; its file then stays a candidate for every key."""

    reason: str


def parse_filter(
    text: bytes | str, type_code: str | None, rows: int | None = None, known_keys: Sequence[str] = ()
) -> BloomFilter | FilterProblem:
    """The filter in a footer's text, or what is wrong with it.

    Args:
        text: the footer's value.
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
