"""Each compiled loop over two million keys, and its plain form over a fiftieth: ``python -m benchmarks.loops``.

Prints the best of three, in milliseconds for all keys.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.bloom import filter as bloom
from lakeindex.hashing import java_strings, murmur, row_digest
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index import key_ranges
from lakeindex.metadata import record_index
from lakeindex.write.types import widening

KEYS: Final = 2_000_000
PLAIN_SHARE: Final = 50
BITS_A_KEY: Final = 28.8
HASHES: Final = 20
WITHOUT_PLAIN: Final = ("find_values", "doubles_of_texts")
"""Others read entries and texts there, one by one."""


def loops(count: int) -> Iterator[tuple[Callable[..., None], tuple[object, ...]]]:
    """The loops with their arguments, for so many keys of 32 characters, and of two fields."""
    keys = string_buffers(pa.array([f"{n:032d}" for n in range(count)]))
    pairs = string_buffers(pa.array([f"l_orderkey:{n},l_linenumber:{n % 7}" for n in range(count)]))
    names = string_buffers(pa.array(["l_orderkey", "l_linenumber"]))
    m = int(BITS_A_KEY * count)
    bits, rows = np.zeros((1, (m + 7) // 8), np.uint8), np.zeros(count, np.int64)
    hashes, wide, numbers = np.empty(count, np.uint32), np.empty(count, np.uint64), np.empty(count, np.int64)
    strings, fields = (keys.data, keys.offsets), (pairs.data, pairs.offsets, names.data, names.offsets)
    yield murmur.hash_all, (*strings, 1, hashes)
    yield bloom.add_keys, (*strings, m, HASHES, rows, bits)
    yield bloom.probe_keys, (*strings, m, HASHES, bits, np.empty(count, np.bool_))
    yield java_strings.hash_strings, (*strings, hashes)
    yield java_strings.hash_new, (*fields, hashes)
    yield java_strings.hash_old, (*fields, hashes)
    yield row_digest.fold_bytes, (*strings, wide)
    yield key_ranges.search_strings, (*strings, *strings, False, numbers)
    entry = b"".join((b"\0\0\0\x2c", b"\0\0\0\x08", b"\0\x20", b"%s", bytes(10), b"v" * 8))
    block = np.frombuffer(b"".join(entry.replace(b"%s", b"%032d" % n) for n in range(count)), np.uint8)
    places, found = np.array([[len(block), 0, count]]), np.full((count + 1, 2), -1, np.int64)
    yield record_index.find_values, (block, places, False, *strings, found)
    offsets = np.arange(count + 1, dtype=np.int64) * 16
    values = np.zeros(count * 16, np.uint8)
    yield record_index.copy_values, (values, offsets[:-1], offsets, np.empty_like(values))
    floats = np.random.default_rng(1).random(count, np.float32) * 1e6
    yield widening.doubles_of_texts, (floats.astype(np.float32), np.empty(count))


def milliseconds(loop: Callable[..., None], args: tuple[object, ...], runs: int = 3) -> float:
    """The best of some runs."""
    found = []
    for _ in range(runs):
        begin = time.perf_counter()
        loop(*args)
        found.append(time.perf_counter() - begin)
    return min(found) * 1000


def main() -> None:
    """Measure all."""
    for (loop, args), (_, few) in zip(loops(KEYS), loops(KEYS // PLAIN_SHARE), strict=True):
        has_plain = loop.__name__ not in WITHOUT_PLAIN
        plain = milliseconds(loop.__wrapped__, few, 1) * PLAIN_SHARE if has_plain else float("nan")  # type: ignore[attr-defined]
        print(f"{loop.__name__:18} {milliseconds(loop, args):9.1f} {plain:11.1f}")


if __name__ == "__main__":
    main()
