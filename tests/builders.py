"""Small tables and batches, built through the public doors, and a dictionary that says what must come out."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.api.table import LakeTable
from lakeindex.options.option import TABLE_VERSION_OPTION
from lakeindex.options.parse import parse_create_options
from lakeindex.storage import open_storage
from lakeindex.table.create import CreateSpec, create_table, table_name_of
from lakeindex.table.handle import Table
from lakeindex.write.types.avro_schema import schema_to_avro

VERSION = os.environ.get("LAKEINDEX_TABLE_VERSION", "")
"""Version of the tests' tables, where a test does not choose one; what is made without saying, if it is empty."""

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)


def make_table(
    folder: Path | str,
    *,
    ordering: str | tuple[str, ...] | None = "ts",
    partitions: tuple[str, ...] = ("day",),
    schema: pa.Schema = SCHEMA,
    keys: tuple[str, ...] = ("id",),
    **options: str,
) -> LakeTable:
    """An empty table; options by keyword with ``__`` for the dots of a name."""
    uri = str(folder)
    if "://" not in uri:
        Path(uri).mkdir(parents=True, exist_ok=True)
    given = {name.replace("__", "."): value for name, value in options.items()}
    if VERSION:
        given.setdefault(TABLE_VERSION_OPTION, VERSION)
    config = parse_create_options(given)
    name = table_name_of(uri)
    fields = (ordering,) if isinstance(ordering, str) else ordering or ()
    spec = CreateSpec(name, schema.names, keys, partitions, fields, config, schema_to_avro(schema, name))
    create_table(open_storage(uri), spec)
    return LakeTable(uri)


def as_hudis(table: LakeTable) -> Path:
    """The same table, as if nothing of ours were bound to it."""
    folder = Path(table.uri)
    (folder / ".hoodie" / ".lakeindex" / "table.json").unlink()
    properties = folder / ".hoodie" / "hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if not line.startswith("lakeindex.")]
    properties.write_text("\n".join(lines) + "\n")
    return folder


def rows_of(table: LakeTable) -> list[dict[str, object]]:
    """All live rows, straight from the base files; where they do not store their keys, with what they would store."""
    snapshot = Table.open(open_storage(table.uri)).snapshot()
    store = open_storage(table.uri)
    return [
        row
        if row["_hoodie_record_key"] is not None
        else {**row, "_hoodie_record_key": row["id"], "_hoodie_partition_path": file.partition_path}
        for file in snapshot.base_files_all()
        for row in pq.ParquetFile(pa.BufferReader(store.read(file.path))).read().to_pylist()
    ]


@dataclass(frozen=True)
class Row:
    """One incoming row of the tests' table."""

    id: str
    day: str
    ts: int
    v: str | None
    deleted: bool = False


def batch_of(rows: Iterable[Row]) -> pa.Table:
    """Rows as an Arrow table with the delete mark."""
    listed = list(rows)
    return pa.table(
        {
            "id": pa.array([r.id for r in listed], pa.string()),
            "day": pa.array([r.day for r in listed], pa.string()),
            "ts": pa.array([r.ts for r in listed], pa.int64()),
            "v": pa.array([r.v for r in listed], pa.string()),
            "_hoodie_is_deleted": pa.array([r.deleted for r in listed], pa.bool_()),
        }
    )


@dataclass(frozen=True)
class RowRules:
    """Conditions of an upsert as functions of the stored row and the incoming one."""

    update: Callable[[Row, Row], bool] = lambda old, new: True
    delete: Callable[[Row, Row], bool] = lambda old, new: False
    insert: Callable[[Row], bool] = lambda new: True


@dataclass
class Oracle:
    """What a table must hold, replayed row by row into a dictionary.

    Attributes:
        is_global: a key is unique in the whole table.
        event_time: the larger ``ts`` wins, also against what is stored; else the last row.
        moves: under a global index, a row follows its partition value.
        conditions: of an upsert.
    """

    is_global: bool = False
    event_time: bool = True
    moves: bool = True
    conditions: RowRules = RowRules()
    rows: dict[tuple[str, ...], tuple[str, Row]] = field(default_factory=dict)

    def apply(self, batch: Iterable[Row]) -> dict[str, int]:
        """Replay a batch; counts as the summary has them."""
        counts = dict.fromkeys(("combined", "inserts", "updates", "deletes", "moved", "ignored"), 0)
        winners: dict[tuple[str, ...], Row] = {}
        for row in batch:
            key = self.key(row)
            if key in winners:
                counts["combined"] += 1
            if key not in winners or not self.event_time or row.ts >= winners[key].ts:
                winners[key] = row
        for key, row in winners.items():
            counts[self._apply_one(key, row)] += 1
        return counts

    def _apply_one(self, key: tuple[str, ...], row: Row) -> str:
        stored = self.rows.get(key)
        if stored is None:
            if row.deleted or not self.conditions.insert(row):
                return "ignored"
            self.rows[key] = (row.day, row)
            return "inserts"
        deletes = self.conditions.delete(stored[1], row)
        if not deletes and not self.conditions.update(stored[1], row):
            return "ignored"
        if self.event_time and row.ts < stored[1].ts:
            return "ignored"
        if row.deleted or deletes:
            del self.rows[key]
            return "deletes"
        place = row.day if self.moves else stored[0]
        self.rows[key] = (place, row)
        return "updates" if place == stored[0] else "moved"

    def key(self, row: Row) -> tuple[str, ...]:
        """What a row is unique by."""
        return (row.id,) if self.is_global else (row.day, row.id)

    def content(self) -> set[tuple[str, str, str, int, str | None]]:
        """(partition path, key, day, ts, v) of every live row."""
        return {(place, r.id, r.day, r.ts, r.v) for place, r in self.rows.values()}


def content_of(table: LakeTable) -> set[tuple[object, ...]]:
    """As :meth:`Oracle.content`, from the table; fails on a doubled row."""
    rows = rows_of(table)
    names = ("_hoodie_partition_path", "_hoodie_record_key", "day", "ts", "v")
    found = {tuple(row[name] for name in names) for row in rows}
    assert len(found) == len(rows), "a row is doubled"
    return found


def counts_of(summary: object) -> Mapping[str, int]:
    """The counts of a summary that the oracle gives too."""
    return {n: getattr(summary, n) for n in ("combined", "inserts", "updates", "deletes", "moved", "ignored")}
