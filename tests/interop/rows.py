"""Rows of every column type, and the oracle: a plain dictionary that replays what was done to a table.

A row is a function of its number and version, so that any side can make it anew and any reader can be judged on
every column. Every seventh row is null wherever a column may be; every eleventh key is not ASCII.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

REGIONS: Final = ("us", "eu", "as ia")
#: Values that make no folder name as they are; only a layout that url-encodes uses them.
PLACES: Final = ("a/b=%c", "ñ x")
META: Final = (
    "_hoodie_commit_time",
    "_hoodie_commit_seqno",
    "_hoodie_record_key",
    "_hoodie_partition_path",
    "_hoodie_file_name",
)
SCHEMA: Final = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("k2", pa.int32()),
        ("region", pa.string()),
        ("place", pa.string()),
        ("ts", pa.int64()),
        ("flag", pa.bool_()),
        ("whole", pa.int32()),
        ("small", pa.float32()),
        ("wide", pa.float64()),
        ("money", pa.decimal128(10, 2)),
        ("huge", pa.decimal128(30, 5)),
        ("day", pa.date32()),
        ("at", pa.timestamp("us", "UTC")),
        ("raw", pa.binary()),
        ("pair", pa.struct([("x", pa.int32()), ("y", pa.string())])),
        ("list", pa.list_(pa.int32())),
        ("map", pa.map_(pa.string(), pa.float64())),
        ("val", pa.string()),
    ]
)

Row = dict[str, Any]


def key_of(number: int) -> str:
    """Record key of a row, before any key generator."""
    return f"k{number:05d}" + ("é中" if number % 11 == 0 else "")


def make_row(number: int, version: int, ts: int | None = None) -> Row:
    """One row; ``ts`` (the ordering field) grows with the version unless it is given."""
    row: Row = {
        "id": key_of(number),
        "k2": number % 5,
        "region": REGIONS[number % 3],
        "place": PLACES[number % 2],
        "ts": 1000 * version + number if ts is None else ts,
        "wide": number * 1.25 + version,
        "val": f"v{version}-{number}",
    }
    if number % 7 == 0:
        return {name: row.get(name) for name in SCHEMA.names}
    return row | {
        "flag": number % 2 == 0,
        "whole": number - 50,
        "small": number * 0.5,
        "money": Decimal(number) / 4,
        "huge": Decimal(number) * Decimal("1000000.12345"),
        "day": dt.date(1965, 1, 1) + dt.timedelta(days=37 * number),
        "at": dt.datetime(1969, 6, 1, tzinfo=dt.UTC) + dt.timedelta(days=number, microseconds=number),
        "raw": bytes([number % 256, 0, 255]),
        "pair": {"x": number, "y": None if number % 2 else f"y{number}"},
        "list": [] if number % 5 == 0 else [number, number + 1],
        "map": [(f"m{number}", float(number)), ("z", None)],
    }


def make_table(rows: Iterable[Row], schema: pa.Schema = SCHEMA) -> pa.Table:
    """Rows as an Arrow table of the suite's schema."""
    return pa.Table.from_pylist(list(rows), schema=schema)


def _hive_escape(text: str) -> str:
    """Hive's escape of a folder name, for the characters that the suite's values have."""
    return "".join(f"%{ord(c):02X}" if c in "\"#%'*/:=?\\[]^{" else c for c in text)


@dataclass(frozen=True)
class Layout:
    """How a table is keyed and partitioned, and the same in the words of both sides."""

    name: str
    keys: tuple[str, ...]
    partitions: tuple[str, ...]
    hive_style: bool = False
    url_encode: bool = False

    @property
    def key_generator(self) -> str:
        """Hudi's key generator class for these fields."""
        kind = "Nonpartitioned" if not self.partitions else "Simple"
        if self.partitions and max(len(self.keys), len(self.partitions)) > 1:
            kind = "Complex"
        return f"org.apache.hudi.keygen.{kind}KeyGenerator"

    def record_key(self, row: Row) -> str:
        """``_hoodie_record_key`` as Hudi writes it."""
        if self.key_generator.endswith("ComplexKeyGenerator") or len(self.keys) > 1:
            return ",".join(f"{name}:{row[name]}" for name in self.keys)
        return str(row[self.keys[0]])

    def partition_path(self, row: Row) -> str:
        """``_hoodie_partition_path`` as Hudi writes it."""
        texts = [_hive_escape(str(row[name])) if self.url_encode else str(row[name]) for name in self.partitions]
        if self.hive_style:
            texts = [f"{name}={text}" for name, text in zip(self.partitions, texts, strict=True)]
        return "/".join(texts)

    def hudi_options(self) -> dict[str, str]:
        """Write options that name keys and partitions to Hudi."""
        return {
            "hoodie.table.name": self.name,
            "hoodie.datasource.write.recordkey.field": ",".join(self.keys),
            "hoodie.datasource.write.partitionpath.field": ",".join(self.partitions),
            "hoodie.datasource.write.precombine.field": "ts",
            "hoodie.datasource.write.keygenerator.class": self.key_generator,
            "hoodie.datasource.write.hive_style_partitioning": str(self.hive_style).lower(),
            "hoodie.datasource.write.partitionpath.urlencode": str(self.url_encode).lower(),
        }


SIMPLE: Final = Layout("plain", ("id",), ("region",))
COMPLEX: Final = Layout("cplx", ("id", "k2"), ("region", "place"), hive_style=True, url_encode=True)
NONPARTITIONED: Final = Layout("flat", ("id",), ())
LAYOUTS: Final = (SIMPLE, COMPLEX, NONPARTITIONED)


def _plain(value: Any) -> Any:
    """A value as both Arrow and Spark mean it: maps without order, timestamps in UTC."""
    if isinstance(value, list) and value and all(isinstance(pair, tuple) for pair in value):
        return dict(value)
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC)
    return value


@dataclass
class Replay:
    """The oracle: what a table must hold, as a dictionary from key number to row.

    ``written`` follows which instant wrote each row last; a step's instant is given after the step, when it is known.
    """

    layout: Layout
    rows: dict[int, Row] = field(default_factory=dict)
    written: dict[int, str] = field(default_factory=dict)

    def upsert(self, numbers: Iterable[int], version: int, instant: str) -> None:
        """Rows that an upsert put there."""
        for number in numbers:
            self.rows[number] = make_row(number, version)
            self.written[number] = instant

    def delete(self, numbers: Iterable[int]) -> None:
        """Rows that a delete took away; deleting what is not there does nothing."""
        for number in numbers:
            self.rows.pop(number, None)
            self.written.pop(number, None)

    def copy(self) -> Replay:
        """A state to come back to (time travel)."""
        return Replay(self.layout, dict(self.rows), dict(self.written))

    def since(self, begin: str) -> Replay:
        """What an incremental read from ``begin`` (exclusive) to this state must give."""
        kept = {n: row for n, row in self.rows.items() if self.written[n] > begin}
        return Replay(self.layout, kept, {n: self.written[n] for n in kept})

    def differences(self, found: pa.Table, *, meta: bool = True) -> list[str]:
        """Everything in which a read table is not this state; empty when it is.

        Row order does not matter. With ``meta`` the meta columns are judged too: key, partition, writing instant, and
        a file name and sequence number that are there.
        """
        problems: list[str] = []
        seen: dict[str, Row] = {}
        for row in found.to_pylist(maps_as_pydicts="strict"):
            if row["id"] in seen:
                problems.append(f"doubled key {row['id']}")
            seen[row["id"]] = row
        expected = {row["id"]: (number, row) for number, row in self.rows.items()}
        problems += [f"lost row {key}" for key in expected if key not in seen]
        problems += [f"row that should not be there: {key} ({seen[key]['val']})" for key in seen if key not in expected]
        for key, (number, row) in expected.items():
            if key in seen:
                problems += _row_differences(seen[key], row)
                problems += self._meta_differences(seen[key], number) if meta else []
        return problems

    def _meta_differences(self, found: Mapping[str, Any], number: int) -> list[str]:
        row = self.rows[number]
        wanted = {
            "_hoodie_commit_time": self.written[number],
            "_hoodie_record_key": self.layout.record_key(row),
            "_hoodie_partition_path": self.layout.partition_path(row),
        }
        problems = [f"{row['id']}.{n}: {found[n]!r}, not {v!r}" for n, v in wanted.items() if found[n] != v]
        if not str(found["_hoodie_commit_seqno"]).startswith(self.written[number]):
            problems.append(f"{row['id']}: sequence number {found['_hoodie_commit_seqno']!r}")
        # Hudi 1.2 writes the file group alone where its row writer made the file (clustering, bulk insert).
        if "-" not in str(found["_hoodie_file_name"]):
            problems.append(f"{row['id']}: file name {found['_hoodie_file_name']!r}")
        return problems


def _row_differences(found: Mapping[str, Any], wanted: Row) -> list[str]:
    return [
        f"{wanted['id']}.{name}: {found.get(name)!r}, not {wanted[name]!r}"
        for name in SCHEMA.names
        if _plain(found.get(name)) != _plain(wanted[name])
    ]


def assert_state(found: pa.Table, expected: Replay, what: str, *, meta: bool = True) -> None:
    """Fail with the first differences, and how many there are."""
    problems = expected.differences(found, meta=meta)
    shown = "\n  ".join(problems[:8])
    assert not problems, f"{what}: {len(problems)} differences\n  {shown}"
