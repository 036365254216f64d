"""Hudi reads every type that a batch may have, as the type that stands for it in a table, and updates rows of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from tests.interop.hudi_client import HudiServer, keep_options
from tests.interop.rows import Layout
from tests.unit.write.test_types import KEPT, Line, array_of, instants

pytestmark = pytest.mark.interop

ROWS = 2
WITHOUT_ZONE = pa.timestamp("us")
"""Neither read nor written by Hudi 0.15 and 1.0 on Spark 3.5."""
NAMES = {f"c{number}": (kind, line) for number, (kind, line) in enumerate(KEPT)}


def a_value(line: Line) -> Any:
    """The last one, which is of our time: of others Spark asks in which calendar they are."""
    return [one for one in line.values if one is not None][-1]


def batch(hudi: HudiServer) -> pa.Table:
    """Two rows, with a value of each type that a release reads and with none."""
    columns = {
        name: array_of([a_value(line), None], kind)
        for name, (kind, line) in NAMES.items()
        if hudi.release >= (1, 1) or line.stored != WITHOUT_ZONE
    }
    keys = {"id": pa.array(["a", "b"]), "ts": pa.array([1, 1], pa.int64())}
    return pa.table(keys | columns)


def flat(column: pa.ChunkedArray) -> list[Any]:
    """Values without what Spark's reader has its own form of: the order of a map, the class of a moment."""
    return [sorted(one) if pa.types.is_map(column.type) and one else one for one in instants(column)]


def made(hudi: HudiServer, folder: Path) -> LakeTable:
    """A table of ours with these rows."""
    rows = batch(hudi)
    version = {"hoodie.write.table.version": str(hudi.table_version)}
    table = lakeindex.create_table(
        str(folder / "flat"), schema=rows.schema, key="id", ordering="ts", properties=version
    )
    table.upsert(rows)
    return table


def test_every_type_is_read(hudi: HudiServer, folder: Path) -> None:
    table = made(hudi, folder)
    ours = table.scan().to_arrow().sort_by("id")
    theirs = hudi.read(Path(table.uri)).sort_by("id")
    assert ours.num_rows == theirs.num_rows == ROWS
    for name in ours.column_names[2:]:
        kind, line = NAMES[name]
        assert ours.schema.field(name).type == line.stored, kind
        assert [repr(one) for one in flat(theirs.column(name))] == [repr(one) for one in flat(ours.column(name))], kind
    assert table.check(deep=True).ok


def test_rows_of_every_type_are_updated_by_hudi(hudi: HudiServer, folder: Path) -> None:
    """Hudi gives each row the other one's values and copies none, then one row more, and copies both; then we update."""
    table = made(hudi, folder)
    rows = table.scan().to_arrow().sort_by("id")
    options = keep_options(hudi.version, hudi.table_version) | Layout("flat", ("id",), ()).hudi_options()

    def turned(order: list[int], names: str, ts: int) -> pa.Table:
        taken = rows.take(order)
        newer = {"id": pa.array(list(names)), "ts": pa.array([ts] * len(order), pa.int64())}
        return pa.table(newer | {name: taken.column(name) for name in rows.column_names[2:]})

    expected: dict[str, int] = {"a": 0, "b": 1}
    for turn, (names, order) in enumerate((("ab", [1, 0]), ("c", [0]), ("a", [0])), start=2):
        update = turned(order, names, turn)
        if turn % 4:
            hudi.write(Path(table.uri), update, {**options, "hoodie.datasource.write.operation": "upsert"})
        else:
            table.upsert(update)
        expected |= dict(zip(names, order, strict=True))
        wanted = turned(list(expected.values()), "".join(expected), turn)
        for who, found in (("we", table.scan().to_arrow()), ("Hudi", hudi.read(Path(table.uri)))):
            by_key = found.sort_by("id")
            assert by_key.column("id").to_pylist() == sorted(expected), who
            for name in rows.column_names[2:]:
                seen, told = flat(by_key.column(name)), flat(wanted.sort_by("id").column(name))
                assert [repr(one) for one in seen] == [repr(one) for one in told], f"{who}, turn {turn}: {NAMES[name]}"
    assert table.check(deep=True).ok
