"""Every form of a batch with every type: the same rows, or a refusal that names the column."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.errors import InputError, QuarantineExceededError, SchemaMismatchError

UTC = dt.UTC
KINDS: dict[str, tuple[pa.DataType, list[Any]]] = {
    "string": (pa.string(), ["NA", "", None]),
    "bool": (pa.bool_(), [True, False, None]),
    "int": (pa.int32(), [2**31 - 1, -1, None]),
    "long": (pa.int64(), [2**53 + 1, -(2**63), None]),
    "float": (pa.float32(), [0.5, float("inf"), None]),
    "double": (pa.float64(), [0.1, -0.0, None]),
    "decimal": (pa.decimal128(38, 10), [Decimal("1234567890123456789012345678.0123456789"), Decimal("-0.5"), None]),
    "date": (pa.date32(), [dt.date(2026, 1, 2), dt.date(1969, 12, 31), None]),
    "timestamp": (pa.timestamp("us", "UTC"), [dt.datetime(2026, 1, 2, 3, 4, 5, 678901, UTC), dt.datetime(1960, 1, 1, tzinfo=UTC), None]),
    "local": (pa.timestamp("us"), [dt.datetime(2026, 1, 2, 3, 4, 5, 678901), dt.datetime(1960, 1, 1), None]),  # noqa: DTZ001 - local
    "binary": (pa.binary(), [b"bytes", b"", None]),
    "list": (pa.list_(pa.int64()), [[2**53 + 1, None], [], None]),
    "struct": (pa.struct([("x", pa.int64()), ("y", pa.string())]), [{"x": 1, "y": None}, {"x": None, "y": "NA"}, None]),
    "map": (pa.map_(pa.string(), pa.int64()), [[("a", 2**53 + 1)], [], None]),
    "dates": (pa.list_(pa.date32()), [[dt.date(2026, 1, 2), None], [], None]),
}  # fmt: skip
IDS = ["a", "b", "c"]


def as_json(value: Any) -> Any:
    if isinstance(value, (dt.date, Decimal)):
        return str(value)
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, float) and value == float("inf"):
        return "inf"
    if isinstance(value, list):
        return [list(map(as_json, one)) if isinstance(one, tuple) else as_json(one) for one in value]
    return value


def write_csv(rows: pa.Table, path: Path) -> Path:
    lines = [",".join(rows.column_names)]
    for row in rows.to_pylist():
        fields = map(as_json, row.values())
        lines.append(",".join("" if one is None else '"' + str(one).replace('"', '""') + '"' for one in fields))
    path.write_text("\n".join(lines) + "\n")
    return path


def write_json(rows: pa.Table, path: Path) -> Path:
    lines = [{name: as_json(value) for name, value in row.items()} for row in rows.to_pylist()]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def write_parquet(rows: pa.Table, path: Path) -> Path:
    pq.write_table(rows, path, row_group_size=2)
    return path


class Stream:
    def __init__(self, rows: pa.Table) -> None:
        self._rows = rows

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self._rows.__arrow_c_stream__(requested_schema)


def relation(rows: pa.Table) -> Any:
    return duckdb.connect().from_arrow(rows)


FORMS: dict[str, Callable[[pa.Table, Path], Any]] = {
    "table": lambda rows, _: rows,
    "batches": lambda rows, _: rows.to_batches(2),
    "generator": lambda rows, _: iter(rows.to_batches(1)),
    "reader": lambda rows, _: rows.to_reader(2),
    "stream": lambda rows, _: Stream(rows),
    "dicts": lambda rows, _: rows.to_pylist(),
    "dataset": lambda rows, _: pyarrow.dataset.dataset(rows),
    "pandas": lambda rows, _: rows.to_pandas(types_mapper=pd_types),
    "polars": lambda rows, _: pl.from_arrow(rows),
    "lazy": lambda rows, _: pl.from_arrow(rows).lazy(),  # type: ignore[union-attr] # a frame
    "duckdb": lambda rows, _: relation(rows),
    "parquet": lambda rows, folder: write_parquet(rows, folder / "b.parquet"),
    "csv": lambda rows, folder: write_csv(rows, folder / "b.csv"),
    "json": lambda rows, folder: write_json(rows, folder / "b.jsonl"),
}


def pd_types(kind: pa.DataType) -> Any:
    import pandas as pd

    return pd.ArrowDtype(kind)


REFUSED = {
    "csv": {"list", "struct", "map", "dates"},  # a field holds none
    "dicts": {"map"},  # pairs in Python are lists of two types to Arrow
}


def rows_with(names: Iterable[str]) -> pa.Table:
    return pa.table({"id": IDS, **{name: pa.array(KINDS[name][1], KINDS[name][0]) for name in names}})


def test_every_form_brings_the_same_rows(tmp_path: Path) -> None:
    tables: dict[int, Any] = {}
    for form, made in FORMS.items():
        rows = rows_with(name for name in KINDS if name not in REFUSED.get(form, ()))
        count = rows.num_columns
        if count not in tables:
            tables[count] = lakeindex.create_table(tmp_path / f"t{count}", rows.schema, key="id")
        tables[count].upsert(made(rows, tmp_path))
        found = tables[count].read(meta=False).sort_by("id")
        for name in rows.column_names:
            assert repr(found[name].to_pylist()) == repr(rows[name].to_pylist()), (form, name)
        assert tables[count].delete(made(rows, tmp_path)).deletes == len(IDS), form


def test_what_a_form_cannot_hold_is_refused_by_its_column(tmp_path: Path) -> None:
    for form, names in REFUSED.items():
        for name in names:
            rows = rows_with([name])
            table = lakeindex.create_table(tmp_path / f"{form}-{name}", rows.schema, key="id")
            with pytest.raises(InputError) as caught:
                table.upsert(FORMS[form](rows, tmp_path))
            assert caught.value.culprit == name, (form, name)
            assert caught.value.hint


OTHERS: dict[str, Any] = {
    "string": 5, "bool": 2.5, "int": "x", "long": 1.5, "double": "x", "date": "x", "timestamp": "x", "decimal": "x",
    "binary": 5, "list": 5, "struct": 5, "map": 5,
}  # fmt: skip


def test_a_value_of_another_type_is_refused_by_its_column_in_every_form(tmp_path: Path) -> None:
    """Forms whose columns have types say both types, the others the value and its row."""
    for name, other in OTHERS.items():
        kind, _ = KINDS[name]
        table = lakeindex.create_table(tmp_path / name, pa.schema([("id", pa.string()), ("v", kind)]), key="id")
        rows = pa.table({"id": IDS, "v": [other] * 3})
        for form, made in FORMS.items():
            if (form, name) in (("csv", "string"), ("csv", "binary")):
                continue  # 5 is a text there
            with pytest.raises((SchemaMismatchError, QuarantineExceededError), match="column 'v'") as caught:
                table.upsert(made(rows, tmp_path))
            assert caught.value.hint, (form, name)
        assert table.history() == ()


def test_like_takes_every_form_and_makes_the_same_columns(tmp_path: Path) -> None:
    names = [name for name in KINDS if name not in ("map", "float")]
    rows = rows_with(names)
    wanted = lakeindex.create_table(tmp_path / "wanted", rows.schema, key="id").schema
    for form, made in FORMS.items():
        if form in ("csv", "json"):  # whose types are guessed
            continue
        table = lakeindex.create_table(tmp_path / form, like=made(rows, tmp_path), key="id")
        different = [(one, other) for one, other in zip(wanted, table.schema, strict=True) if one.type != other.type]
        allowed = {"int", "decimal"} if form == "dicts" else set()
        assert {one.name for one, _ in different} <= allowed, (form, different)
