"""Parts of structs, lists and maps that may not be null: a null that is hidden by one above it is no null."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import SchemaMismatchError
from tests.builders import make_table

INNER = pa.struct([pa.field("a", pa.int64(), nullable=False), pa.field("t", pa.string())])
DEEP = pa.struct([pa.field("in", INNER, nullable=False), pa.field("t", pa.string())])
KINDS: dict[str, pa.DataType] = {
    "one": INNER,
    "deep": DEEP,
    "texts": pa.struct([pa.field("s", pa.string(), nullable=False), pa.field("y", pa.bool_(), nullable=False)]),
    "of_list": pa.struct([pa.field("l", pa.list_(pa.field("element", pa.int64(), nullable=False)), nullable=False)]),
    "list": pa.list_(pa.field("element", INNER)),
    "firm_list": pa.list_(pa.field("element", INNER, nullable=False)),
    "map": pa.map_(pa.string(), pa.field("value", INNER)),
    "firm_map": pa.map_(pa.string(), pa.field("value", pa.int64(), nullable=False)),
    "map_of_deep": pa.map_(pa.string(), pa.field("value", DEEP, nullable=False)),
}
FULL: dict[str, Any] = {
    "one": {"a": 1, "t": None},
    "deep": {"in": {"a": 1, "t": None}, "t": "x"},
    "texts": {"s": "x", "y": True},
    "of_list": {"l": [1, 2]},
    "list": [{"a": 1, "t": "x"}, None, {"a": 2, "t": None}],
    "firm_list": [{"a": 1, "t": "x"}],
    "map": [("k", {"a": 1, "t": None}), ("n", None)],
    "firm_map": [("k", 5)],
    "map_of_deep": [("k", {"in": {"a": 1, "t": "x"}, "t": None})],
}
BAD: dict[str, Any] = {
    "one": {"a": None, "t": "x"},
    "deep": {"in": None, "t": "x"},
    "texts": {"s": None, "y": True},
    "of_list": {"l": [None]},
    "list": [{"a": None, "t": "x"}],
    "firm_list": [None],
    "map": [("k", {"a": None, "t": "x"})],
    "firm_map": [("k", None)],
    "map_of_deep": [("k", {"in": {"a": None, "t": "x"}, "t": None})],
}
SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), *(pa.field(name, kind) for name, kind in KINDS.items())]
)
NOTHING = dict.fromkeys(KINDS)
ROWS = [{"id": "a", **FULL}, {"id": "b", **NOTHING}, {"id": "c", **FULL}, {"id": "d", **NOTHING}]


def loose(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_struct(kind):
        return pa.struct([pa.field(one.name, loose(one.type)) for one in kind])
    if pa.types.is_map(kind):
        return pa.map_(pa.string(), loose(kind.item_type))
    return pa.list_(loose(kind.value_type)) if pa.types.is_list(kind) else kind


def arrow(rows: list[dict[str, Any]]) -> pa.Table:
    return pa.Table.from_pylist(rows, pa.schema([(one.name, loose(one.type)) for one in SCHEMA]))


def slots(rows: list[dict[str, Any]]) -> pa.Table:
    """The table's own types, and null wherever a null hides it."""
    return pa.table([_slots([row[one.name] for row in rows], one.type) for one in SCHEMA], schema=SCHEMA)


def _slots(values: list[Any], kind: pa.DataType) -> pa.Array:
    if not pa.types.is_struct(kind):
        return pa.array(values, kind)
    inner = [_slots([None if one is None else one[field.name] for one in values], field.type) for field in kind]
    return pa.StructArray.from_arrays(inner, fields=list(kind), mask=pa.array([one is None for one in values]))


def parquet(rows: list[dict[str, Any]], folder: Path) -> Path:
    pq.write_table(arrow(rows), folder / "batch.parquet", row_group_size=1)
    return folder / "batch.parquet"


def json_lines(rows: list[dict[str, Any]], folder: Path) -> Path:
    path = folder / "batch.json"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


FORMS: dict[str, Callable[[list[dict[str, Any]], Path], Any]] = {
    "Arrow": lambda rows, _: arrow(rows),
    "a slice": lambda rows, _: arrow([ROWS[0], ROWS[1], *rows]).slice(2),
    "the table's types": lambda rows, _: slots(rows),
    "a reader": lambda rows, _: pa.RecordBatchReader.from_batches(arrow(rows).schema, arrow(rows).to_batches(1)),
    "pandas": lambda rows, _: arrow(rows).to_pandas(types_mapper=pd.ArrowDtype),
    "Polars": lambda rows, _: pl.from_arrow(arrow(rows)),
    "Parquet": parquet,
    "JSON": json_lines,
}  # fmt: skip


def make(folder: Path, **options: str) -> LakeTable:
    return make_table(folder, schema=SCHEMA, partitions=(), ordering=None, **options)


def rows_in(table: LakeTable, out: Path) -> list[dict[str, Any]]:
    """All rows, which can be written anew as they are read."""
    rows = table.scan(columns=SCHEMA.names).to_arrow()
    pq.write_table(rows, out)
    files = [pq.read_table(Path(table.uri) / one.path).select(SCHEMA.names) for one in table.files()]
    found = sorted(rows.to_pylist(), key=lambda row: str(row["id"]))
    assert found == sorted(pa.concat_tables(files).to_pylist(), key=lambda row: str(row["id"]))
    return found


def test_every_form_brings_null_structs_whose_fields_may_not_be_null(tmp_path: Path) -> None:
    expected = [{"id": one, **(FULL if one in "bc" else NOTHING)} for one in "abcde"]
    wrong: dict[str, object] = {}
    for form, made in FORMS.items():
        folder = tmp_path / form
        folder.mkdir()
        table = make(folder / "t")
        try:
            table.upsert(made(ROWS, folder))
            table.upsert(made([{"id": "a", **NOTHING}, {"id": "b", **FULL}, {"id": "e", **NOTHING}], folder))
            found = rows_in(table, folder / "out.parquet")
        except Exception as error:  # noqa: BLE001 - each form is told of
            wrong[form] = repr(error)
        else:
            if found != expected or not table.check().ok:
                wrong[form] = found
    assert not wrong


def test_a_null_that_shows_is_refused_by_name(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(arrow(ROWS))
    history = len(table.history())
    wrong: dict[str, object] = {}
    for form, made in FORMS.items():
        for name in KINDS:
            if form == "the table's types" and name not in ("one", "deep", "texts"):
                continue  # no lists and maps of it are made above
            folder = tmp_path / f"{form} {name}"
            folder.mkdir()
            try:
                table.upsert(made([{"id": "z", **NOTHING}, {"id": "x", **FULL, name: BAD[name]}], folder))
            except SchemaMismatchError as error:
                if f"'{name}'" not in error.message or "is null, the table has none there" not in error.message:
                    wrong[f"{form} {name}"] = error.message
            else:
                wrong[f"{form} {name}"] = "taken"
    assert not wrong
    assert len(table.history()) == history


def test_other_doors(tmp_path: Path) -> None:
    """Columns that a batch lacks, values that an update sets, a merge function, other operations, other files."""
    table = make(tmp_path / "t")
    rows = {row["id"]: row for row in ROWS}
    table.upsert(arrow(ROWS))

    def compare(**changed: dict[str, Any]) -> None:
        rows.update(changed)
        assert rows_in(table, tmp_path / "out.parquet") == [rows[one] for one in sorted(rows)]

    table.upsert(pa.table({"id": ["a", "n"]}), partial=True)
    compare(n={"id": "n", **NOTHING})
    table.upsert(pa.table({"id": ["m"]}), options={"hoodie.write.set.null.for.missing.columns": "true"})
    compare(m={"id": "m", **NOTHING})
    table.upsert(arrow(ROWS[:2]), partial="keep")
    compare()
    table.update(dict.fromkeys(KINDS, "NULL"), where="id = 'a'")
    compare(a={"id": "a", **NOTHING})
    table.update(FULL, where="id = 'b'")
    compare(b={"id": "b", **FULL})
    table.update({"one": "CASE WHEN id = 'b' THEN NULL ELSE one END"}, where="id IS NOT NULL")
    compare(b={**rows["b"], "one": None})
    for operation in (table.insert, table.insert_overwrite_table):
        operation(arrow([{"id": "q", **NOTHING}, {"id": "r", **FULL}]))
    rows.clear()
    compare(q={"id": "q", **NOTHING}, r={"id": "r", **FULL})
    with pytest.raises(Exception, match="one"):
        table.update({"one": {"a": None, "t": "x"}}, where="id = 'r'")
    more = SCHEMA.append(pa.field("new", DEEP))
    given = pa.Table.from_pylist([{"id": "s", **FULL, "new": FULL["deep"]}, {"id": "q", **NOTHING}], more)
    table.upsert(given, schema_mode="add")
    found = {row["id"]: row["new"] for row in table.scan(columns=["id", "new"]).to_arrow().to_pylist()}
    assert found == {"q": None, "r": None, "s": FULL["deep"]}
    assert table.check().ok


def test_a_merge_function(tmp_path: Path) -> None:
    table = make(tmp_path / "t")
    table.upsert(arrow(ROWS))

    def merge(stored: pa.Table, incoming: pa.Table) -> pa.Table:
        return incoming.set_column(1, "one", stored.column("one"))

    table.upsert(arrow([{"id": "a", **NOTHING}, {"id": "b", **FULL}]), merge=merge)
    found = rows_in(table, tmp_path / "out.parquet")
    assert found[:2] == [{"id": "a", **NOTHING, "one": FULL["one"]}, {"id": "b", **FULL, "one": None}]
