"""A batch's columns become the table's without loss, or not at all."""

from datetime import UTC, datetime

import pyarrow as pa
import pytest

from lakeindex.errors import SchemaMismatchError
from lakeindex.write.types.schema_fit import fit_batch

MOMENT = datetime(2026, 11, 21, 12, tzinfo=UTC)


def fit(values: pa.Array, kind: pa.DataType) -> pa.Array:
    fitted = fit_batch(pa.table({"c": values}), pa.schema([("c", kind)]))
    return fitted.columns.column(0).combine_chunks()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([2**31], pa.int64()), pa.int32()),
        (pa.array([-1], pa.int32()), pa.uint32()),
        (pa.array([2**53 + 1], pa.int64()), pa.float64()),
        (pa.array(["123.45"], pa.string()).cast(pa.decimal128(5, 2)), pa.decimal128(5, 1)),
        (pa.array([1.5], pa.float64()), pa.int32()),
        (pa.array([1.0], pa.float64()), pa.int64()),
        (pa.array([1_001], pa.timestamp("us")), pa.timestamp("ms")),
        (pa.array([MOMENT], pa.timestamp("us", "UTC")), pa.timestamp("us")),
        (pa.array([0], pa.timestamp("us")), pa.timestamp("us", "UTC")),
        (pa.array([0], pa.timestamp("us")), pa.int64()),
        (pa.array(["1"]), pa.int64()),
        (pa.array([1]), pa.string()),
        (pa.array([True]), pa.int32()),
    ],
)
def test_what_would_lose_something_is_refused_by_name(values: pa.Array, kind: pa.DataType):
    with pytest.raises(SchemaMismatchError, match="'c'") as caught:
        fit(values, kind)
    assert caught.value.culprit == "c"


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (pa.array([1, None], pa.int32()), pa.int64()),
        (pa.array([1, None], pa.int64()), pa.int32()),
        (pa.array([1, None], pa.int32()), pa.float64()),
        (pa.array(["a", None]).dictionary_encode(), pa.string()),
        (pa.array(["a", None], pa.large_string()), pa.string()),
        (pa.array([MOMENT], pa.timestamp("ms", "UTC")), pa.timestamp("us", "UTC")),
        (pa.nulls(2), pa.decimal128(9, 2)),
    ],
)
def test_what_loses_nothing_is_cast(values: pa.Array, kind: pa.DataType):
    found = fit(values, kind)
    assert found.type == kind
    assert found.to_pylist() == values.to_pylist()


def test_a_single_null_where_none_may_be_is_a_bad_row():
    schema = pa.schema([pa.field("c", pa.int64(), nullable=False), pa.field("d", pa.int64(), nullable=False)])
    fitted = fit_batch(pa.table({"c": [1, None, 2], "d": [1, 2, None]}), schema)
    assert fitted.null_problem.to_pylist() == [None, "column 'c' must not be null", "column 'd' must not be null"]
