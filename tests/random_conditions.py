"""Random rows and conditions on them, and DuckDB's answers: what conditions are compared with, thousands in a second."""

from __future__ import annotations

import datetime as dt
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

PLACE = pa.struct(
    [
        ("a", pa.int64()),
        ("in", pa.struct([pa.field("x", pa.string()), pa.field("must", pa.int32(), nullable=False)])),
    ]
)
"""With a field that a struct which is there must have: it is null only where the struct is."""

TYPES: dict[str, pa.DataType] = {
    "i": pa.int64(),
    "k": pa.int32(),
    "f": pa.float64(),
    "g": pa.float32(),
    "s": pa.string(),
    "b": pa.bool_(),
    "d": pa.date32(),
    "t": pa.timestamp("us"),
    "m": pa.decimal128(9, 2),
    "y": pa.binary(),
    "st": PLACE,
}
SCHEMA = pa.schema([("row", pa.int64()), *TYPES.items()])
"""Columns of random rows; ``row`` is their number."""

FLOATS = [-1.5, -0.0, 0.0, 0.5, 1.0, 2.5, math.inf, -math.inf, math.nan]
VALUES: dict[str, list[Any]] = {
    "i": [-3, -1, 0, 1, 2, 3],
    "k": [-3, -1, 0, 1, 2, 3],
    "f": FLOATS,
    "g": FLOATS,
    "s": ["", "a", "A", "ab", "abc", "abcx", "ac", "b", "ba", "é", "a%", "a_c", "a\nb", "abx", "\U0001f600"],
    "b": [True, False],
    "d": [dt.date(1969, 12, 31), dt.date(2026, 1, 1), dt.date(2026, 1, 2)],
    "t": [
        dt.datetime.fromisoformat(text)
        for text in ("1969-12-31 23:59:59.000005", "2026-01-01", "2026-01-01 00:00:00.000001")
    ],
    "m": [Decimal("-1.50"), Decimal("0.00"), Decimal("0.10"), Decimal("2.00")],
    "y": [b"", b"\x00", b"\x01", b"\xff"],
}
NUMBERS = ["-3", "-1", "0", "1", "2", "3", "1.5", "-0.25", "0.10", "2e0", "99999999999", "0.105"]
OPERATORS = ["=", "!=", "<", "<=", ">", ">=", "<>"]
COLUMNS = [*VALUES, "st.a", 'st."in".x', 'st."in".must']


def quoted(text: str) -> str:
    """A text as SQL writes it."""
    return "'" + text.replace("'", "''") + "'"


LITERALS: dict[str, list[str]] = {
    "i": NUMBERS,
    "k": NUMBERS,
    "f": NUMBERS,
    "g": ["-1", "0", "1", "0.5", "2.5"],
    "s": [quoted(one) for one in VALUES["s"]],
    "b": ["true", "false"],
    "d": ["'2026-01-01'", "DATE '2026-01-02'"],
    "t": ["'2026-01-01'", "TIMESTAMP '2026-01-01 00:00:00.000001'", "'1969-12-31 23:59:59'"],
    "m": NUMBERS,
    "st.a": NUMBERS,
    'st."in".x': [quoted(one) for one in VALUES["s"]],
    'st."in".must': NUMBERS,
}


@dataclass
class Random:
    """Draws rows and conditions."""

    dice: random.Random

    def rows(self, count: int, nulls: float = 0.2) -> list[dict[str, Any]]:
        """Rows of :data:`SCHEMA`; of some runs of them, all have one value in most columns, as sorted files have."""
        found: list[dict[str, Any]] = []
        while len(found) < count:
            like = self._row(nulls)
            is_run = self.dice.random() < 0.5
            for _ in range(self.dice.randint(1, 6)):
                other = self._row(nulls)
                row = {name: like[name] if is_run and self.dice.random() < 0.8 else other[name] for name in other}
                found.append({"row": len(found), **row})
        return found[:count]

    def _row(self, nulls: float) -> dict[str, Any]:
        def maybe(values: Sequence[Any]) -> Any:
            return None if self.dice.random() < nulls else self.dice.choice(values)

        row = {name: maybe(values) for name, values in VALUES.items()}
        inner = maybe([{"x": maybe(VALUES["s"]), "must": self.dice.choice(VALUES["k"])}])
        return {**row, "st": maybe([{"a": maybe(VALUES["i"]), "in": inner}])}

    def condition(self, depth: int = 3) -> str:
        """A condition as a text that DuckDB and lakeindex read."""
        if depth == 0 or self.dice.random() < 0.3:
            return self._leaf()
        one = self.condition(depth - 1)
        match self.dice.randrange(6):
            case 0:
                return f"NOT ({one})"
            case 1:
                return f"({one}) IS {self._no()}{self.dice.choice(['TRUE', 'FALSE'])}"
            case _:
                joint = self.dice.choice([" AND ", " OR "])
                return (
                    "(" + joint.join([one, *(self.condition(depth - 1) for _ in range(self.dice.randint(1, 2)))]) + ")"
                )

    def _no(self) -> str:
        return self.dice.choice(["", "NOT "])

    def _leaf(self) -> str:
        kinds: list[Callable[[str], str]] = [
            self._compared, self._compared, self._flipped, self._listed, self._between, self._null, self._distinct,
            self._text, self._text, self._columns, self._columns, self._sums, self._truth,
        ]  # fmt: skip
        return self.dice.choice(kinds)(self.dice.choice(list(LITERALS)))

    def _literal(self, column: str) -> str:
        return self.dice.choice(LITERALS[column])

    def _compared(self, column: str) -> str:
        return f"{column} {self.dice.choice(OPERATORS)} {self._literal(column)}"

    def _flipped(self, column: str) -> str:
        return f"{self._literal(column)} {self.dice.choice(OPERATORS)} {column}"

    def _listed(self, column: str) -> str:
        items = [self._literal(column) for _ in range(self.dice.randint(1, 3))]
        return f"{column} {self._no()}IN ({', '.join([*items, *self.dice.choice([[], [], ['NULL']])])})"

    def _between(self, column: str) -> str:
        return f"{column} {self._no()}BETWEEN {self._literal(column)} AND {self._literal(column)}"

    def _null(self, _: str) -> str:
        return f"{self.dice.choice(COLUMNS)} IS {self._no()}NULL"

    def _distinct(self, column: str) -> str:
        other = self.dice.choice([self._literal(column), "NULL", column])
        return f"{column} IS {self._no()}DISTINCT FROM {other}"

    def _text(self, _: str) -> str:
        column = self.dice.choice(["s", "s", 'st."in".x'])
        text = self.dice.choice(VALUES["s"])
        start, end = text[: self.dice.randint(0, 3)], self.dice.choice(VALUES["s"])[-1:]
        pattern = self.dice.choice([text, start + "%", "%" + end, start + "%" + end, start + "_" + end, start + "_%"])
        return self.dice.choice(
            [
                f"{column} {self._no()}LIKE {quoted(pattern)}",
                f"{column} {self._no()}LIKE {quoted(start + '!%' + end + '%')} ESCAPE '!'",
                f"{column} {self._no()}ILIKE {quoted(pattern)}",
                f"starts_with({column}, {quoted(start)})",
                f"ends_with({column}, {quoted(end)})",
                f"contains({column}, {quoted(start)})",
                f"lower({column}) = {quoted(text)}",
                f"length({column}) {self.dice.choice(OPERATORS)} {self.dice.randint(0, 3)}",
                f"upper({column}) IS {self._no()}NULL",
            ]
        )

    def _columns(self, _: str) -> str:
        left, right = self.dice.choice(["fg", "gf", "if", "ik", "im", "mf", "ff", "gk", "dt", "tt", "ss", "yy", "bb"])
        how = self.dice.choice([*OPERATORS, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"])
        return f"{left} {how} {right}"

    def _sum(self, depth: int) -> str:
        if depth == 0:
            return self.dice.choice(["i", "k", "f", "m", "st.a", "2", "-1", "0.5"])
        one, other = self._sum(depth - 1), self._sum(depth - 1)
        how = self.dice.choice("+-*/N")
        return f"(-({one}))" if how == "N" else f"({one} {how} ({other}))"

    def _sums(self, _: str) -> str:
        left = self.dice.choice([f"({self.dice.choice('ikfm')} + {self._sum(1)})", f"(f / {self._sum(0)})", "(k * i)"])
        right = self.dice.choice([f"(m - {self._sum(1)})", *NUMBERS[:8], "f", "g", "(i / k)"])
        return f"{left} {self.dice.choice(OPERATORS)} {right}"

    def _truth(self, _: str) -> str:
        return self.dice.choice(["b", "NOT b", "b IS TRUE", "b IS NOT FALSE", "NULL", "TRUE", "FALSE", "b = b"])


@dataclass
class Duck:
    """DuckDB with the rules for quotients that lakeindex has: one by zero is null."""

    connection: duckdb.DuckDBPyConnection = field(default_factory=duckdb.connect)

    def __post_init__(self) -> None:
        for name in ("error_on_division_by_zero", "ieee_floating_point_ops"):
            self.connection.execute(f"SET {name} = false")

    def answers(self, rows: pa.Table, conditions: Sequence[str]) -> pa.Table:
        """Of each row the answer to each condition: bool columns by number."""
        self.connection.register("given_rows", rows)
        listed = ", ".join(f'({one})::BOOLEAN AS "{number}"' for number, one in enumerate(conditions))
        return self.connection.sql(f"SELECT {listed} FROM given_rows ORDER BY row").to_arrow_table()


def arrow_answers(rows: pa.Table, expressions: Sequence[pc.Expression]) -> pa.Table:
    """The same of Arrow expressions."""
    return ds.dataset(rows).to_table(columns={str(number): one for number, one in enumerate(expressions)})
