"""The orders of a shop: six days of them, and the news of the seventh. Made by counting: no randomness, no clock."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

KEY: Final = "order_id"
PARTITION: Final = "day"
ORDERING: Final = "updated_at"
DAYS: Final = tuple(f"2026-11-{day:02d}" for day in range(1, 8))
A_DAY: Final = 10_000
SCHEMA: Final = pa.schema(
    [
        pa.field(KEY, pa.string()),
        pa.field(PARTITION, pa.string(), nullable=False),
        pa.field("customer", pa.string()),
        pa.field("amount", pa.float64()),
        pa.field("status", pa.string()),
        pa.field(ORDERING, pa.int64(), nullable=False),
    ]
)
DELETE_MARK: Final = "_hoodie_is_deleted"
WATCHED: Final = f"{DAYS[5]}-09990"
"""An order that is placed in the first batch and paid in the second."""

_FORGOTTEN: Final = 7  # of each fifty orders one is not heard of before the seventh day
_FIFTY: Final = 50
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = 1_793_491_200_000  # 2026-11-01T00:00:00Z
_MULTIPLIER: Final = 2_654_435_761  # Knuth's: spreads numbers

Numbers = npt.NDArray[np.int64]


def first_days() -> pa.Table:
    """Six days of orders, as they were placed. One in fifty is missing."""
    numbers = np.arange(A_DAY, dtype=np.int64)
    heard = numbers[numbers % _FIFTY != _FORGOTTEN]
    return pa.concat_tables([_orders(day, heard, "placed") for day in range(6)])


def seventh_day() -> tuple[pa.Table, dict[str, int]]:
    """What is heard on the seventh day, and what must become of its rows.

    Returns:
        The batch, and its rows by what must happen to them.
    """
    numbers = np.arange(A_DAY, dtype=np.int64)
    known = numbers[numbers % _FIFTY != _FORGOTTEN]
    new = _orders(6, numbers[:1000], "placed")
    forgotten = _orders(5, numbers[numbers % _FIFTY == _FORGOTTEN], "placed")
    paid = _orders(5, known[-600:], "paid", hours=20)
    returned = pa.concat_tables([_orders(day, known[500:512], "returned", hours=99) for day in range(5)])
    late = _orders(4, known[9000:9040], "placed", hours=-1)
    twice = paid.slice(0, 50)
    cancelled = _orders(5, known[100:130], "cancelled", hours=2)
    without_key = _orders(6, numbers[:3], "placed").set_column(0, SCHEMA.field(0), [pa.nulls(3, pa.string())])
    kept = pa.concat_tables([new, forgotten, paid, returned, late, twice, without_key])
    batch = pa.concat_tables([_marked(kept, deleted=False), _marked(cancelled, deleted=True)])
    expected = {
        "combined": twice.num_rows,
        "quarantined": without_key.num_rows,
        "inserts": new.num_rows + forgotten.num_rows,
        "updates": paid.num_rows + returned.num_rows,
        "deletes": cancelled.num_rows,
        "ignored": late.num_rows,
    }
    return batch, expected


def _orders(day: int, numbers: Numbers, status: str, hours: int = 0) -> pa.Table:
    """Orders of a day, with a state that they had so many hours after they were placed."""
    mixed = (numbers + A_DAY * day) * _MULTIPLIER % 2**32
    placed_ms = _FIRST_MS + day * _DAY_MS + numbers * (_DAY_MS // A_DAY)
    columns = {
        KEY: [f"{DAYS[day]}-{number:05d}" for number in numbers.tolist()],
        PARTITION: [DAYS[day]] * len(numbers),
        "customer": [f"c{one:04d}" for one in (mixed % 5000).tolist()],
        "amount": (mixed // 5000 % 20_000) / 100,
        "status": [status] * len(numbers),
        ORDERING: placed_ms + hours * (_DAY_MS // 24),
    }
    return pa.table(columns, schema=SCHEMA)


def _marked(orders: pa.Table, *, deleted: bool) -> pa.Table:
    return orders.append_column(DELETE_MARK, pa.array([deleted] * orders.num_rows))
