"""Inner loops of the library by themselves: ``python -m benchmarks.micro loops|checksums|pruning``.

``loops``: each compiled loop over two million keys, and its plain form over a fiftieth of them.
``checksums``: decoding, encoding and copying one base file, with page checksums and without.
``pruning``: one chunk of sorted keys against the key ranges of many files, by each of the three pruners, which must
agree. With ``growing`` keys each file has its own stretch of them, and the chunk's come from the newest twentieth;
with ``random`` keys every file spans nearly all.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.bloom import filter as bloom
from lakeindex.hashing import java_strings, murmur, row_digest
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index import key_ranges
from lakeindex.index.key_ranges import KeyRange, Pruner, prune
from lakeindex.metadata import record_index
from lakeindex.parquet.pages import open_pages, read_groups
from lakeindex.parquet.splice import parts_of, splice
from lakeindex.write.types import widening

KEYS: Final = 2_000_000
PLAIN_SHARE: Final = 50
WITHOUT_PLAIN: Final = ("find_values", "doubles_of_texts")
"""Others read entries and texts there, one by one."""
FILE_ROWS: Final = 200_000
GROUP_ROWS: Final = 25_000
PRUNED: Final = ((1_000, 40), (25_000, 40), (250_000, 40), (250_000, 1_000), (25_000, 10_000))
"""Keys of a chunk, and files."""
_SPACE: Final = 10**9


def milliseconds(
    *works: Callable[[], object], turns: int, clock: Callable[[], float] = time.perf_counter
) -> list[list[float]]:
    """What each of them took; they take turns."""
    took: list[list[float]] = [[] for _ in works]
    for _ in range(turns):
        for work, times in zip(works, took, strict=True):
            started = clock()
            work()
            times.append(1000 * (clock() - started))
    return took


def _compiled(count: int) -> Iterator[tuple[Callable[..., None], tuple[object, ...]]]:
    """The loops with their arguments, for so many keys of 32 characters, and of two fields."""
    keys = string_buffers(pa.array([f"{n:032d}" for n in range(count)]))
    pairs = string_buffers(pa.array([f"l_orderkey:{n},l_linenumber:{n % 7}" for n in range(count)]))
    names = string_buffers(pa.array(["l_orderkey", "l_linenumber"]))
    m, hash_count = int(28.8 * count), 20
    bits, rows = np.zeros((1, (m + 7) // 8), np.uint8), np.zeros(count, np.int64)
    hashes, wide, numbers = np.empty(count, np.uint32), np.empty(count, np.uint64), np.empty(count, np.int64)
    strings, fields = (keys.data, keys.offsets), (pairs.data, pairs.offsets, names.data, names.offsets)
    yield murmur.hash_all, (*strings, 1, hashes)
    yield bloom.add_keys, (*strings, m, hash_count, rows, bits)
    yield bloom.probe_keys, (*strings, m, hash_count, bits, np.empty(count, np.bool_))
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


def loops() -> None:
    """Best of three for all keys; the plain form once."""
    for (loop, args), (_, few) in zip(_compiled(KEYS), _compiled(KEYS // PLAIN_SHARE), strict=True):
        (compiled,) = milliseconds(partial(loop, *args), turns=3)
        plain = float("nan")
        if loop.__name__ not in WITHOUT_PLAIN:
            once = loop.__wrapped__  # type: ignore[attr-defined]
            plain = milliseconds(partial(once, *few), turns=1)[0][0] * PLAIN_SHARE
        print(f"{loop.__name__:18} {min(compiled):9.1f} {plain:11.1f}")


def _rows() -> pa.Table:
    """Numbers and texts, some of which repeat."""
    draw = np.random.default_rng(1)
    return pa.table(
        {
            "id": [f"k{n:09d}" for n in range(FILE_ROWS)],
            "a": draw.normal(size=FILE_ROWS),
            "b": draw.integers(0, 10**9, FILE_ROWS),
            "c": [f"text {n}" for n in draw.integers(0, 10**6, FILE_ROWS)],
            "d": draw.integers(0, 100, FILE_ROWS),
            "e": [str(n) for n in draw.integers(0, 50, FILE_ROWS)],
        }
    )


def _encoded(table: pa.Table, *, checksums: bool) -> pa.Buffer:
    """A file of the table, with a key/value as ours have."""
    sink = pa.BufferOutputStream()
    with pq.ParquetWriter(
        sink, table.schema, compression="zstd", store_schema=False, write_page_checksum=checksums
    ) as writer:
        writer.write_table(table, row_group_size=GROUP_ROWS)
        writer.add_key_value_metadata({"of": "the benchmark"})
    return sink.getvalue()


def checksums() -> None:
    """Least process time of 25 turns."""
    table = _rows()
    data = _encoded(table, checksums=True)
    metadata = pq.read_metadata(pa.BufferReader(data))
    parts = parts_of(memoryview(data), metadata)
    if parts is None:
        raise SystemExit("the file cannot be taken apart")
    groups = range(metadata.num_row_groups)
    works: dict[str, Callable[[], object]] = {
        "decode": lambda: pq.ParquetFile(pa.BufferReader(data)).read_row_groups(groups, use_threads=False),
        "decode and compare": lambda: read_groups(open_pages(pa.BufferReader(data)), groups, use_threads=False),
        "encode": lambda: _encoded(table, checksums=False),
        "encode with checksums": lambda: _encoded(table, checksums=True),
        "copy all chunks and compare": lambda: list(splice(parts, parts.groups())),
    }
    print(f"{len(data) / 1e6:.1f} MB, {metadata.num_row_groups * metadata.num_columns} column chunks")
    for name, times in zip(works, milliseconds(*works.values(), turns=25, clock=time.process_time), strict=True):
        print(f"{name:28} {min(times):7.1f}")


def _to_prune(keys: str, rows: int, files: int) -> tuple[pa.Array, list[KeyRange]]:
    rng = np.random.default_rng(5)
    if keys == "growing":
        numbers = rng.integers(_SPACE - _SPACE // 20, _SPACE, rows)
        step = _SPACE // files
        ends = [(i * step, (i + 1) * step - 1) for i in range(files)]
    else:
        numbers = rng.integers(0, _SPACE, rows)
        ends = [(low, _SPACE - high) for low, high in rng.integers(0, _SPACE // 1000, (files, 2)).tolist()]
    ranges = [KeyRange(f"k{low:012d}", f"k{high:012d}") for low, high in ends]
    return pa.array([f"k{number:012d}" for number in np.sort(numbers).tolist()]), ranges


def pruning() -> None:
    """Medians of five turns as Markdown."""
    print(f"| keys | rows | files | keys x files left | {' | '.join(Pruner)} |\n{'|---' * (4 + len(Pruner))}|")
    for keys in ("growing", "random"):
        for rows, files in PRUNED:
            asked, ranges = _to_prune(keys, rows, files)
            works = {one: partial(prune, asked, ranges, one) for one in Pruner}
            first, *others = (work() for work in works.values())  # loads what is compiled
            for other in others:
                assert np.array_equal(first.from_row, other.from_row)
                assert np.array_equal(first.to_row, other.to_row)
            medians = [f"{statistics.median(times):.2f}" for times in milliseconds(*works.values(), turns=5)]
            print(f"| {keys} | {rows:,} | {files:,} | {first.pairs:,} | {' | '.join(medians)} |", flush=True)


if __name__ == "__main__":
    {"loops": loops, "checksums": checksums, "pruning": pruning}[sys.argv[1]]()
