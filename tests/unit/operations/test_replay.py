"""Random batches against a plain dictionary: after each one the table holds the same rows, and every invariant holds."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.api.run import run
from lakeindex.model import Operation
from lakeindex.operations.check import check_table
from lakeindex.operations.create_table import create_like
from lakeindex.options.parse import parse_create_options
from tests.strategies import examples
from tests.unit.operations.tables import read_rows

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("val", pa.int64()),
        ("_hoodie_is_deleted", pa.bool_()),
    ]
)
COLUMNS = ("id", "region", "ts", "val")
Row = dict[str, Any]

keys = st.builds(lambda n, tail: f"k{n}{tail}", st.integers(0, 12), st.sampled_from(["", "é", "\uffee", "\U00010000"]))
rows = st.fixed_dictionaries(
    {
        "id": keys,
        "region": st.sampled_from(["eu", "us", "a s"]),
        "ts": st.integers(0, 4),
        "val": st.integers(0, 10**6),
        "_hoodie_is_deleted": st.sampled_from([False, False, False, True]),
    }
)
batches = st.lists(
    st.tuples(st.sampled_from([Operation.UPSERT, Operation.UPSERT, Operation.DELETE]), st.lists(rows, max_size=40)),
    min_size=2,
    max_size=4,
)


@dataclass(frozen=True)
class Kind:
    """How the table is made and written."""

    is_global: bool
    event_time: bool
    partitioned: bool
    small: bool

    @property
    def options(self) -> dict[str, str]:
        """Options of a write: many row groups, chunks and files, or one of each."""
        if not self.small:
            return {}
        return {
            "lakeindex.parquet.row.group.rows": "3",
            "lakeindex.chunk.rows": "4",
            "hoodie.parquet.max.file.size": "3000",
            "hoodie.parquet.small.file.limit": "2000",
            "hoodie.copyonwrite.record.size.estimate": "300",
        }

    def place(self, row: Row) -> object:
        """What identifies a row."""
        return row["id"] if self.is_global or not self.partitioned else (row["id"], row["region"])


kinds = st.builds(Kind, st.booleans(), st.booleans(), st.booleans(), st.booleans())


def _replay(kind: Kind, stored: dict[object, Row], operation: Operation, batch: list[Row]) -> None:
    newest: dict[object, Row] = {}
    for row in batch:
        place = kind.place(row)
        if place not in newest or not kind.event_time or row["ts"] >= newest[place]["ts"]:
            newest[place] = row
    for place, row in newest.items():
        if place in stored and kind.event_time and row["ts"] < stored[place]["ts"]:
            continue
        if operation is Operation.DELETE or row["_hoodie_is_deleted"]:
            stored.pop(place, None)
        else:
            stored[place] = row


@settings(max_examples=examples(12))
@given(kinds, batches)
def test_the_table_is_what_a_dictionary_says(
    tmp_path_factory: pytest.TempPathFactory, kind: Kind, batches: list[tuple[Operation, list[Row]]]
):
    folder: Path = tmp_path_factory.mktemp("replay")
    pq.write_table(SCHEMA.empty_table(), folder / "like.parquet")
    table = str(folder / "t")
    create_like(
        table,
        str(folder / "like.parquet"),
        keys=["id"],
        partitions=["region"] if kind.partitioned else [],
        ordering=["ts"] if kind.event_time else [],
        config=parse_create_options({"hoodie.index.type": "GLOBAL_BLOOM" if kind.is_global else "BLOOM"}),
    )
    stored: dict[object, Row] = {}
    for operation, batch in batches:
        data = pa.Table.from_pylist(batch, schema=SCHEMA)
        if operation is Operation.DELETE:
            data = data.drop_columns(["val", "_hoodie_is_deleted"])
        summary = run(table, data, operation, options=kind.options)
        summary.check_identity()
        assert summary.rows_in == len(batch)
        _replay(kind, stored, operation, batch)
        found = [tuple(row[name] for name in COLUMNS) for row in read_rows(table).to_pylist()]
        assert sorted(found) == sorted(tuple(row[name] for name in COLUMNS) for row in stored.values())
        assert check_table(table).violations == ()
    shutil.rmtree(folder)
