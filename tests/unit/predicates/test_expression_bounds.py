"""What is known of a column without reading it never hides a row that an expression of pyarrow chooses."""

from __future__ import annotations

import itertools
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeindex.predicates.bounds import ALL_NULL, Bounds
from lakeindex.predicates.predicate import predicate_of

NAN = float("nan")
VALUES: dict[pa.DataType, list[Any]] = {
    pa.float64(): [-0.0, 0.0, 1.5, NAN],
    pa.float32(): [-0.0, 0.0, 1.5, NAN],
    pa.int64(): [-1, 0, 3],
    pa.string(): ["", "a", "\N{LATIN SMALL LETTER E WITH ACUTE}"],
    pa.bool_(): [False, True],
    pa.decimal128(9, 2): [Decimal("-0.01"), Decimal("0.00"), Decimal("7.00")],
    pa.timestamp("us", "UTC"): [datetime(1969, 1, 1, tzinfo=UTC), datetime(2026, 1, 1, tzinfo=UTC)],
}
COMPARED = (pc.equal, pc.not_equal, pc.less, pc.less_equal, pc.greater, pc.greater_equal)


def known_of(column: pa.Array) -> Bounds:
    """What statistics tell: NaN is left aside, and -0.0 may be."""
    if column.null_count == len(column):
        return ALL_NULL
    real = column.filter(pc.invert(pc.is_nan(column))) if pa.types.is_floating(column.type) else column
    if pa.types.is_timestamp(column.type):
        real = real.cast(pa.int64())
    elif pa.types.is_decimal(column.type):
        real = pa.array([int(value.scaleb(2)) for value in real.drop_null().to_pylist()], pa.int64())
    ends = pc.min_max(real).as_py()
    return Bounds(ends["min"], ends["max"], may_be_null=bool(column.null_count))


@pytest.mark.parametrize("kind", VALUES, ids=str)
def test_no_chosen_row_is_hidden(kind: pa.DataType) -> None:
    schema = pa.schema([("x", kind)])
    x, pruned = pc.field("x"), 0
    asked = [compare(x, pa.scalar(value, kind)) for compare in COMPARED for value in VALUES[kind]]
    asked += [x.is_null(), x.is_valid(), x.isin(pa.array(VALUES[kind][:2], kind))]
    if pa.types.is_floating(kind):
        asked += [pc.is_nan(x), x.is_null(nan_is_null=True)]
    asked += [~one for one in asked]
    predicates = [predicate_of(one, schema) for one in asked]
    several = [*VALUES[kind], None]
    for rows in itertools.chain.from_iterable(itertools.combinations(several, count) for count in (1, 2)):
        column = pa.array(rows, kind)
        facts = {("x",): known_of(column)}
        for predicate in predicates:
            may = predicate.may_match(facts)
            pruned += not may
            assert may or not predicate.filter(pa.table([column], schema=schema)).num_rows, (rows, predicate.text)
    assert pruned > 10 or pa.types.is_floating(kind)
