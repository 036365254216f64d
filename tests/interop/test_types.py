"""Hudi reads every type that a batch may have, as the type that stands for it in a table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeindex
from tests.interop.hudi_client import HudiServer
from tests.unit.write.test_types import KEPT, Line, array_of, instants

pytestmark = pytest.mark.interop

ROWS = 2
WITHOUT_ZONE = pa.timestamp("us")
"""Neither read nor written by Hudi 0.15 on Spark 3.5."""
NAMES = {f"c{number}": (kind, line) for number, (kind, line) in enumerate(KEPT)}


def a_value(line: Line) -> Any:
    """The last one, which is of our time: of others Spark asks in which calendar they are."""
    return [one for one in line.values if one is not None][-1]


def batch(hudi: HudiServer) -> pa.Table:
    """Two rows, with a value of each type that a release reads and with none."""
    columns = {
        name: array_of([a_value(line), None], kind)
        for name, (kind, line) in NAMES.items()
        if hudi.version != "0.15.0" or line.stored != WITHOUT_ZONE
    }
    keys = {"id": pa.array(["a", "b"]), "ts": pa.array([1, 1], pa.int64())}
    return pa.table(keys | columns)


def flat(column: pa.ChunkedArray) -> list[Any]:
    """Values without what Spark's reader has its own form of: the order of a map, the class of a moment."""
    return [sorted(one) if pa.types.is_map(column.type) and one else one for one in instants(column)]


def test_every_type_is_read(hudi: HudiServer, folder: Path) -> None:
    rows = batch(hudi)
    version = {"hoodie.write.table.version": str(hudi.table_version)}
    table = lakeindex.create_table(str(folder / "t"), schema=rows.schema, key="id", ordering="ts", properties=version)
    table.upsert(rows)
    ours = table.scan().to_arrow().sort_by("id")
    theirs = hudi.read(Path(table.uri)).sort_by("id")
    assert ours.num_rows == theirs.num_rows == ROWS
    for name in rows.column_names[2:]:
        kind, line = NAMES[name]
        assert ours.schema.field(name).type == line.stored, kind
        assert [repr(one) for one in flat(theirs.column(name))] == [repr(one) for one in flat(ours.column(name))], kind
    assert table.check(deep=True).ok
