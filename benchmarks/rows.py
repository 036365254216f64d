"""The rows that all workloads are made of: keys, columns, and how a file is written."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.compression import CODEC, LEVEL

_FIRST_DAY: Final = np.datetime64("2026-10-01")


def day(number: int) -> str:
    """The day that a partition is named after, counted from 0."""
    return str(_FIRST_DAY + np.timedelta64(number, "D"))


#: As many as most workloads have.
DAYS: Final = tuple(day(number) for number in range(20))
FIRST_TS: Final = 1_790_000_000_000
_STATES: Final = ("new", "paid", "packed", "shipped", "returned")

Ints = NDArray[np.int64]


def _strings(letters: NDArray[np.uint8]) -> pa.Array:
    """Rows of a (n, width) matrix of ASCII codes as Arrow strings."""
    rows, width = letters.shape
    offsets = np.arange(0, (rows + 1) * width, width, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(letters))]
    return pa.Array.from_buffers(pa.string(), rows, buffers)


def growing_keys(numbers: Ints) -> pa.Array:
    """``ord-`` and twelve digits."""
    letters = np.empty((len(numbers), 16), np.uint8)
    letters[:, :4] = np.frombuffer(b"ord-", np.uint8)
    rest = numbers.copy()
    for column in range(15, 3, -1):
        letters[:, column] = ord("0") + rest % 10
        rest //= 10
    return _strings(letters)


def random_keys(rng: np.random.Generator, rows: int) -> pa.Array:
    """Texts that look like UUIDs."""
    digits = np.frombuffer(rng.bytes(16 * rows).hex().encode(), np.uint8).reshape(rows, 32)
    letters = np.full((rows, 36), ord("-"), np.uint8)
    taken = 0
    for start, end in ((0, 8), (9, 13), (14, 18), (19, 23), (24, 36)):
        letters[:, start:end] = digits[:, taken : taken + end - start]
        taken += end - start
    return _strings(letters)


@functools.cache
def _vocabulary() -> pa.Array:
    rng = np.random.default_rng(7)
    return pa.array(["".join(chr(97 + c) for c in rng.integers(0, 26, 7)) for _ in range(2000)])


def words(rng: np.random.Generator, rows: int) -> pa.Array:
    """One of 2,000 words of seven letters in each row."""
    vocabulary = _vocabulary()
    return vocabulary.take(pa.array(rng.integers(0, len(vocabulary), rows)))


def table_of(rng: np.random.Generator, keys: pa.Array, days: pa.Array, ts: Ints) -> pa.Table:
    """Orders with these keys; the other columns are drawn."""
    rows = len(keys)
    note = [words(rng, rows) for _ in range(5)]
    return pa.table(
        {
            "id": keys,
            "day": days,
            "ts": pa.array(ts),
            "amount": pa.array(np.round(rng.gamma(2, 50, rows), 2)),
            "status": pa.array(_STATES).take(pa.array(rng.integers(0, len(_STATES), rows))),
            "note": pc.binary_join_element_wise(*note, " "),
            "n1": pa.array(rng.integers(0, 1_000_000, rows)),
            "n2": pa.array(rng.normal(0, 1, rows)),
        }
    )


def write(table: pa.Table, path: Path, repeating: Sequence[str] = ("day", "status")) -> None:
    """One file, one row group; columns that repeat get a dictionary."""
    pq.write_table(
        table,
        path,
        compression=CODEC,
        compression_level=LEVEL,
        use_dictionary=[*repeating],
        row_group_size=1 << 20,
    )


def repeat(value: str, rows: int) -> pa.Array:
    """One value in every row."""
    return pa.array([value]).take(pa.array(np.zeros(rows, np.int64)))
