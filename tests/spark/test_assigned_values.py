"""New values of an update are those of Spark's SQL, type for type, where documentation says that they are."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from lakeindex.predicates.assign import expression_for

pytestmark = pytest.mark.spark

ROWS = pa.table(
    {
        "i": pa.array([7, -3, None], pa.int32()),
        "l": pa.array([70_000_001, -2, None], pa.int64()),
        "f": pa.array([1.5, 0.1, None], pa.float32()),
        "d": [2.675, 1.005, None],
        "m": pa.array([Decimal("2.50"), Decimal("-0.01"), None], pa.decimal128(10, 2)),
        "w": pa.array([Decimal("2.565"), Decimal("-2.565"), None], pa.decimal128(38, 3)),
        "s": [" +5 ", "12", None],
        "b": [True, False, None],
        "day": pa.array([date(2026, 1, 31), date(1969, 12, 31), None]),
        "at": pa.array([datetime(2026, 1, 31, 12, 0, 0, 500, UTC), datetime(1969, 12, 31, tzinfo=UTC), None]),
    }
)
CASTS = {"i": "int", "l": "bigint", "f": "float", "d": "double", "m": "decimal(10, 2)", "w": "decimal(38, 3)"}
TEXTS = [
    *(f"cast({one} as {kind})" for one in CASTS for kind in (*CASTS.values(), "decimal(12, 1)", "decimal(38, 18)")),
    *(f"cast(s as {kind})" for kind in CASTS.values()),
    *(f"cast(b as {kind})" for kind in ("int", "double", "string")),
    *(f"cast({one} as string)" for one in ("i", "l", "m", "w", "b", "day", "at")),
    *(f"cast({one} as date)" for one in ("day", "at")),
    "cast(i as timestamp)",
    *(f"{one} {how} {other}" for one in "mw" for how in "+-*/" for other in ("m", "w", "i", "l", "3", "1.5")
      if not (one + other == "ww" and how in "*/")),
    *(f"{how} {one}" for one in "mwil" for how in ("3 +", "3 -", "2 *", "3 /")),
    *(f"{one} {how} {other}" for one in "il" for how in "+-/" for other in "ildf"),
    *(f"{how}({one})" for how in ("abs", "-") for one in "ilfdmw"),
    *(f"{how}(s)" for how in ("trim", "lower", "upper", "length")),
    *(f"substring(s || 'xyz', {one})" for one in ("1", "3", "0", "0, 2", "2, 3", "-2", "-2, 1", "-9, 7", "-9, 2", "9", "1, 0")),
    "concat(s, 'x', upper(s))", "concat(s)",
    *(f"day {how} interval {one}" for how in "+-" for one in ("7 day", "2 week", "-400 day")),
    *(f"cast(at {how} interval {one} as string)" for how in "+-" for one in ("1 day", "90 minute", "36 hour", "-61 second")),
    "s || 'x'", "coalesce(i, l)", "coalesce(l, d)", "coalesce(i, f)", "coalesce(m, w)", "coalesce(l, f)",
    "case when i > 0 then m when b then w else l end", "if(b, i, d)", "nvl(m, i)",
    "case when s = '12' then cast(s as int) when i > 0 then i else cast('x' || s as int) end",
    "if(i > 0, i, cast(2000000000 + l as int))", "if(l > -5, i, i * 2000000000 / 2000000000)",
    "coalesce(i, if(i is null, i, cast('x' as int)))", "coalesce(d, 0.5, cast('x' as double))",
]  # fmt: skip


ZEROS = pa.table({"f": pa.array([0.0, -0.0, None], pa.float32()), "d": [0.0, -0.0, None]})
OF_ZEROS = [
    *(f"{how}{one}" for one in "fd" for how in ("-", "0 - ", "0 + ", "-1 * ", "- -")),
    *(
        "cast(-0.0 as double)",
        "cast(-0e0 as double)",
        "cast('-0.0' as double)",
        "cast(-(0.0) as double)",
        "coalesce(d, -0.0)",
    ),
]


@pytest.mark.few(0)
def test_the_sign_of_zero(spark: SparkSession) -> None:
    expected = spark.createDataFrame(ZEROS).selectExpr(*(f"{one} as x{n}" for n, one in enumerate(OF_ZEROS))).toArrow()
    wrong = []
    for text, theirs in zip(OF_ZEROS, expected.columns, strict=True):
        found = expression_for(text, pa.field("x", pa.float64()), ZEROS.schema)
        ours = ds.dataset(ZEROS).to_table(columns={"x": found.expression}).column(0)
        if repr(ours.to_pylist()) != repr(theirs.to_pylist()):
            wrong.append((text, ours.to_pylist(), theirs.to_pylist()))
    assert not wrong, wrong


@pytest.mark.slow
def test_values_and_types(spark: SparkSession) -> None:
    before = {name: spark.conf.get(name) for name in ("spark.sql.ansi.enabled", "spark.sql.session.timeZone")}
    try:
        spark.conf.set("spark.sql.ansi.enabled", "true")
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        expected = spark.createDataFrame(ROWS).selectExpr(*(f"{one} as x{n}" for n, one in enumerate(TEXTS))).toArrow()
    finally:
        for name, value in before.items():
            spark.conf.set(name, str(value))
    wrong = []
    for text, theirs in zip(TEXTS, expected.columns, strict=True):
        wanted = pa.string() if pa.types.is_string(theirs.type) else pa.float64()
        found = expression_for(text, pa.field("x", wanted), ROWS.schema)
        ours = ds.dataset(ROWS).to_table(columns={"x": found.expression}).column(0)
        kind = pa.timestamp("us") if pa.types.is_timestamp(theirs.type) else theirs.type
        if ours.type != kind or ours.to_pylist() != theirs.cast(kind).to_pylist():
            wrong.append((text, ours.type, ours.to_pylist(), theirs.type, theirs.to_pylist()))
    assert not wrong, wrong
