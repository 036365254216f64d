"""A table of many kinds of columns, partial updates of it, and a dictionary that says what must come out."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        pa.field("day", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("text", pa.string()),
        pa.field("number", pa.float64()),
        pa.field("list", pa.list_(pa.int32())),
        pa.field("pair", pa.struct([("a", pa.int64()), ("b", pa.string())])),
        pa.field("map", pa.map_(pa.string(), pa.int64())),
    ]
)
DECIDING = ("id", "day", "ts")
OTHERS = tuple(name for name in SCHEMA.names if name not in DECIDING)
Values = dict[str, Any]

_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "text": st.none() | st.sampled_from(("", "a", "é")),
    "number": st.none() | st.sampled_from((0.0, -0.0, 1.5)),
    "list": st.none() | st.lists(st.none() | st.integers(0, 3), max_size=2),
    "pair": st.none() | st.fixed_dictionaries({"a": st.none() | st.integers(0, 3), "b": st.none() | st.just("b")}),
    "map": st.none() | st.lists(st.tuples(st.sampled_from("kl"), st.none() | st.integers(0, 3)), max_size=1),
}


@dataclass(frozen=True)
class PartialBatch:
    """Rows with these columns, what their nulls do, and in which files they come."""

    given: tuple[str, ...]
    rows: tuple[Values, ...]
    keeps: bool = False

    @property
    def nulls(self) -> Any:
        """As the argument of an upsert."""
        return "keep" if self.keeps else "overwrite"

    def table(self, rows: Iterable[Values] | None = None) -> pa.Table:
        """All rows, or some, as an Arrow table."""
        listed = list(self.rows if rows is None else rows)
        names = [*(name for name in SCHEMA.names if name in (*DECIDING, *self.given))]
        columns = {name: pa.array([row[name] for row in listed], SCHEMA.field(name).type) for name in names}
        return pa.table({**columns, "_hoodie_is_deleted": pa.array([row["deleted"] for row in listed], pa.bool_())})


def batches(keys: tuple[str, ...] = ("a", "b", "c", "d"), days: tuple[str, ...] = ("x", "y")) -> Any:
    """Any partial updates."""

    def rows(given: tuple[str, ...]) -> Any:
        row = st.fixed_dictionaries(
            {
                "id": st.sampled_from(keys),
                "day": st.sampled_from(days),
                "ts": st.integers(0, 4),
                "deleted": st.sampled_from((False, False, False, True)),
                **{name: _VALUES[name] for name in given},
            }
        )
        return st.builds(PartialBatch, st.just(given), st.lists(row, min_size=1, max_size=8).map(tuple), st.booleans())

    given = st.lists(st.sampled_from(OTHERS), unique=True).map(lambda names: tuple(sorted(names)))
    return given.flatmap(rows)


@dataclass
class PartialOracle:
    """What a table must hold.

    Attributes:
        is_global: a key is unique in the whole table.
        moves: under a global index, a row follows its partition value.
    """

    is_global: bool = False
    moves: bool = True
    rows: dict[tuple[str, ...], tuple[str, Values]] = field(default_factory=dict)

    def apply(self, batch: PartialBatch) -> None:
        """Replay a batch."""
        of_key: dict[tuple[str, ...], list[Values]] = {}
        for row in batch.rows:
            key = (row["id"],) if self.is_global else (row["day"], row["id"])
            of_key.setdefault(key, []).append(row)
        for key, rows in of_key.items():
            self._apply_one(key, self._one(sorted(rows, key=lambda row: row["ts"]), batch), batch)

    def _one(self, rows: list[Values], batch: PartialBatch) -> Values:
        """The newest row; where nulls keep, with the newest values of the others since a delete."""
        one = rows[0]
        for row in rows[1:]:
            takes = batch.keeps and not one["deleted"] and not row["deleted"]
            one = _over(one, row, batch) if takes else row
        return one

    def _apply_one(self, key: tuple[str, ...], row: Values, batch: PartialBatch) -> None:
        stored = self.rows.get(key)
        if stored is not None and row["ts"] < stored[1]["ts"]:
            return
        if row["deleted"]:
            self.rows.pop(key, None)
        elif stored is None:
            self.rows[key] = (row["day"], {name: row.get(name) for name in SCHEMA.names})
        else:
            place = row["day"] if self.moves else stored[0]
            self.rows[key] = (place, _over(stored[1], row, batch))

    def content(self) -> list[Values]:
        """Every live row, with the partition that it is in."""
        return sorted(({"place": place, **row} for place, row in self.rows.values()), key=_by_key)


def _over(one: Values, other: Values, batch: PartialBatch) -> Values:
    """A row, with what another says."""
    said = {name: other[name] for name in (*DECIDING, *batch.given)}
    if batch.keeps:
        said = {name: value for name, value in said.items() if name in DECIDING or value is not None}
    return {**one, **said, "deleted": other["deleted"]} if "deleted" in one else {**one, **said}


def content_of(table: LakeTable) -> list[Values]:
    """As :meth:`PartialOracle.content`."""
    rows = table.read(meta=True).select(["_hoodie_partition_path", *SCHEMA.names]).to_pylist()
    return sorted(({"place": row.pop("_hoodie_partition_path"), **row} for row in rows), key=_by_key)


def _by_key(row: Values) -> tuple[str, str]:
    return row["place"], row["id"]
