"""What a table's columns become by a batch's."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import SchemaMismatchError
from lakeindex.options.types import SchemaMode
from lakeindex.write.types.schema_fit import differences, evolved, fit_batch

TABLE = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("n", pa.int32()),
        ("s", pa.struct([("x", pa.int32()), pa.field("y", pa.string(), nullable=False)])),
        ("l", pa.list_(pa.struct([("x", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.float32())),
        ("d", pa.decimal128(10, 2)),
    ]
)


def with_type(name: str, kind: pa.DataType) -> pa.Schema:
    """The table's columns with another type of one."""
    return pa.schema([field.with_type(kind) if field.name == name else field for field in TABLE])


def test_strict_changes_nothing():
    assert evolved(TABLE, pa.schema([("new", pa.int8()), ("n", pa.float64())]), SchemaMode.STRICT) is TABLE


def test_new_columns_go_to_the_end_in_the_types_of_tables_and_may_be_null():
    batch = pa.schema(
        [
            pa.field("b", pa.dictionary(pa.int8(), pa.large_string()), nullable=False),
            ("n", pa.float64()),
            ("a", pa.uint16()),
            ("_hoodie_commit_time", pa.string()),
            ("_hoodie_is_deleted", pa.bool_()),
        ]
    )
    grown = evolved(TABLE, batch, SchemaMode.ADD)
    assert grown == pa.schema([*TABLE, ("b", pa.string()), ("a", pa.int32())])
    assert differences(TABLE, grown) == ("column 'b' is new: string", "column 'a' is new: int32")


@pytest.mark.parametrize(
    ("name", "kind", "added"),
    [
        (
            "s",
            pa.struct([("z", pa.int64()), ("x", pa.int32())]),
            pa.struct([*TABLE.field("s").type, ("z", pa.int64())]),
        ),
        (
            "l",
            pa.large_list(pa.struct([("y", pa.bool_())])),
            pa.list_(pa.struct([("x", pa.int32()), ("y", pa.bool_())])),
        ),
    ],
)
def test_fields_of_structs_are_added(name: str, kind: pa.DataType, added: pa.DataType):
    assert evolved(TABLE, pa.schema([(name, kind)]), SchemaMode.ADD) == with_type(name, added)


@pytest.mark.parametrize(
    ("name", "kind", "becomes"),
    [
        ("n", pa.int64(), pa.int64()),
        ("n", pa.uint32(), pa.int64()),
        ("n", pa.float32(), pa.float32()),
        ("n", pa.float64(), pa.float64()),
        ("n", pa.int8(), pa.int32()),
        ("n", pa.string(), pa.int32()),
        ("n", pa.bool_(), pa.int32()),
        ("m", pa.map_(pa.string(), pa.float64()), pa.map_(pa.string(), pa.float64())),
        ("d", pa.decimal128(12, 2), pa.decimal128(12, 2)),
        ("d", pa.decimal128(10, 4), pa.decimal128(12, 4)),
        ("d", pa.decimal128(38, 20), pa.decimal128(38, 20)),
        ("d", pa.decimal128(38, 36), pa.decimal128(10, 2)),
    ],
)
def test_numbers_become_wider_only_if_asked(name: str, kind: pa.DataType, becomes: pa.DataType):
    batch = pa.schema([(name, kind)])
    assert evolved(TABLE, batch, SchemaMode.ADD) == TABLE
    assert evolved(TABLE, batch, SchemaMode.WIDEN) == with_type(name, becomes)
    assert evolved(TABLE, batch, SchemaMode.WIDEN, {name}) == TABLE


@pytest.mark.parametrize("kind", [pa.null(), pa.time64("ns"), pa.month_day_nano_interval()])
def test_a_new_column_without_a_type_that_tables_have_is_refused(kind: pa.DataType):
    with pytest.raises(SchemaMismatchError, match="new"):
        evolved(TABLE, pa.schema([("new", kind)]), SchemaMode.ADD)


numbers = st.sampled_from([pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()])
fields = st.dictionaries(st.sampled_from(["id", "n", "p", "q", "r"]), numbers, max_size=4)


@given(fields, fields)
def test_the_order_of_batches_decides_the_order_of_columns_and_nothing_else(one: dict, other: dict):
    a, b = (pa.schema(list(named.items())) for named in (one, other))
    table = pa.schema([("n", pa.int32())])
    there = evolved(evolved(table, a, SchemaMode.WIDEN), b, SchemaMode.WIDEN)
    back = evolved(evolved(table, b, SchemaMode.WIDEN), a, SchemaMode.WIDEN)
    assert set(there) == set(back)
    assert evolved(there, a, SchemaMode.WIDEN) == there


@given(fields)
def test_a_batch_fits_the_columns_that_it_made(named: dict):
    batch = pa.table({name: pa.array([1, None], kind) for name, kind in named.items()})
    schema = evolved(pa.schema([("n", pa.int32())]), batch.schema, SchemaMode.WIDEN)
    fitted = fit_batch(batch, schema, may_lack=frozenset({"n"})).columns
    assert fitted.schema == schema
    assert all(fitted.column(name).to_pylist() == [1, None] for name in named)


def test_what_has_nothing_in_common_stays_and_what_stands_before_it_hides_nothing():
    """A struct, list or map and something else; meta columns first; decimals of more digits than there are."""
    other = {
        "s": pa.int32(),
        "l": pa.struct([("x", pa.int32())]),
        "m": pa.list_(pa.int32()),
        "n": pa.struct([("x", pa.int32())]),
    }
    batch = pa.schema([("_hoodie_commit_time", pa.string()), *other.items(), ("d", pa.map_(pa.string(), pa.int32()))])
    for mode in (SchemaMode.ADD, SchemaMode.WIDEN):
        assert evolved(TABLE, batch, mode) == TABLE
    first = pa.schema([("_hoodie_record_key", pa.string()), ("_hoodie_is_deleted", pa.bool_()), ("n", pa.int64())])
    assert evolved(TABLE, first, SchemaMode.WIDEN) == with_type("n", pa.int64())
    for digits, scale, becomes in ((38, 30, pa.decimal128(38, 30)), (38, 31, pa.decimal128(10, 2))):
        assert evolved(TABLE, pa.schema([("d", pa.decimal128(digits, scale))]), SchemaMode.WIDEN) == with_type(
            "d", becomes
        )
