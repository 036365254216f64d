from __future__ import annotations

import pyarrow as pa
import pytest

from lakeindex.errors import TableCorruptError
from lakeindex.model import BaseFile
from lakeindex.operations.rows.aligned_rows import align

FILE = BaseFile("eu", "f-0", "20260101000000000", "0-0-0", 10)


def test_columns_come_out_in_the_tables_order_and_types():
    rows = pa.table(
        {"b": pa.array([1, 2], pa.int32()), "gone": ["x", "y"], "a": pa.array(["p", "q"]).dictionary_encode()}
    )
    schema = pa.schema([("a", pa.string()), ("new", pa.date32()), ("b", pa.int64())])
    aligned = align(rows, FILE, schema)
    assert aligned.schema == schema
    assert aligned.to_pydict() == {"a": ["p", "q"], "new": [None, None], "b": [1, 2]}


def test_lists_of_another_element_name_are_the_same_lists():
    rows = pa.table({"l": pa.array([[1, 2]], pa.list_(pa.field("array", pa.int32(), nullable=False)))})
    schema = pa.schema([("l", pa.list_(pa.field("element", pa.int32())))])
    assert align(rows, FILE, schema).to_pydict() == {"l": [[1, 2]]}


@pytest.mark.parametrize(
    ("rows", "field", "says"),
    [
        (pa.table({"a": ["no number"]}), pa.field("a", pa.int64()), "'a' is string, not int64"),
        (pa.table({"a": [2**40]}), pa.field("a", pa.int32()), "'a' is int64, not int32"),
        (pa.table({"a": [1]}), pa.field("b", pa.int64(), nullable=False), "lacks column 'b'"),
    ],
)
def test_what_does_not_fit_names_file_and_column(rows: pa.Table, field: pa.Field, says: str):
    with pytest.raises(TableCorruptError, match=says) as caught:
        align(rows, FILE, pa.schema([field]))
    assert caught.value.culprit == FILE.path
