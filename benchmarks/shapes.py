"""Rows of other shapes than an order's eight columns: those of the workloads ``wide``, ``nested`` and ``text``.

Each keeps the columns that a table is judged by (id, day, ts, n1), and adds its own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.rows import Ints, table_of, words

Shape = Callable[[np.random.Generator, pa.Array, pa.Array, Ints], pa.Table]

WIDE: Final = 200
"""Columns of a wide row."""
_TEXT_WORDS: Final = 128
_PRECISION: Final = pa.decimal128(12, 2)


def wide(rng: np.random.Generator, keys: pa.Array, days: pa.Array, ts: Ints) -> pa.Table:
    """200 columns: floats, integers, short texts, flags, days, amounts, moments and columns with nulls, in turns."""
    rows = table_of(rng, keys, days, ts)
    count = len(keys)
    makers: tuple[Callable[[], pa.Array], ...] = (
        lambda: pa.array(rng.normal(0, 1, count)),
        lambda: pa.array(rng.integers(0, 1_000_000, count)),
        lambda: words(rng, count),
        lambda: pa.array(rng.random(count) < 0.3),
        lambda: pa.array(rng.integers(18_000, 21_000, count).astype(np.int32)).cast(pa.date32()),
        lambda: pa.array(np.round(rng.gamma(2, 50, count), 2)).cast(_PRECISION, safe=False),
        lambda: pa.array(ts * 1000 - rng.integers(0, 10**9, count), pa.timestamp("us", "UTC")),
        lambda: pa.array(rng.integers(0, 50, count).astype(np.int32), mask=rng.random(count) < 0.5),
    )
    for number in range(WIDE - rows.num_columns):
        rows = rows.append_column(f"c{number:03d}", makers[number % len(makers)]())
    return rows


def nested(rng: np.random.Generator, keys: pa.Array, days: pa.Array, ts: Ints) -> pa.Table:
    """An order with a list of numbers, a struct, a map and a list of structs, of up to seven elements each."""
    rows, count = table_of(rng, keys, days, ts), len(keys)

    def offsets() -> pa.Array:
        return pa.array(np.concatenate([[0], np.cumsum(rng.integers(0, 8, count))]).astype(np.int32))

    numbers, attributes, items = offsets(), offsets(), offsets()
    of_numbers, of_attributes, of_items = (int(one[-1].as_py()) for one in (numbers, attributes, items))
    place = np.arange(of_attributes) - np.repeat(attributes.to_numpy()[:-1], np.diff(attributes.to_numpy()))
    names = pa.array([f"attribute_{number}" for number in range(8)]).take(pa.array(place))  # no name twice in a map
    item = pa.StructArray.from_arrays(
        [words(rng, of_items), pa.array(rng.integers(1, 9, of_items)), pa.array(rng.gamma(2, 20, of_items))],
        ["sku", "pieces", "price"],
    )
    address = pa.StructArray.from_arrays(
        [words(rng, count), words(rng, count), pa.array(rng.integers(10_000, 99_999, count))], ["street", "city", "zip"]
    )
    added = {
        "readings": pa.ListArray.from_arrays(numbers, pa.array(rng.normal(0, 1, of_numbers))),
        "address": address,
        "attributes": pa.MapArray.from_arrays(attributes, names, words(rng, of_attributes)),
        "items": pa.ListArray.from_arrays(items, item),
    }
    for name, column in added.items():
        rows = rows.append_column(name, column)
    return rows


def text(rng: np.random.Generator, keys: pa.Array, days: pa.Array, ts: Ints) -> pa.Table:
    """An order with a text of about a kilobyte of words."""
    rows = table_of(rng, keys, days, ts)
    body = pc.binary_join_element_wise(*(words(rng, len(keys)) for _ in range(_TEXT_WORDS)), " ")
    return rows.append_column("body", body)


SHAPES: Final[dict[str, Shape]] = {"order": table_of, "wide": wide, "nested": nested, "text": text}
