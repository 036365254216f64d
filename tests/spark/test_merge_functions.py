"""A merge function on Spark: workers get the function itself, whatever module it is of."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeindex.errors import UsageError
from lakeindex.runners.spark import SparkRunner
from tests.builders import Row, batch_of, make_table, rows_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark
ALL_JOBS = {"lakeindex.spark.driver.bytes": "0"}


@pytest.mark.slow
def test_workers_get_a_function_that_is_in_no_module(tmp_path: Path, spark: SparkSession):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    between = "+"

    def joined(old: pa.Table, new: pa.Table) -> pa.Table:
        return new.set_column(3, "v", pc.binary_join_element_wise(old["v"], new["v"], between))

    table.upsert(batch_of([Row("a", "x", 2, "2")]), merge=joined, runner=SparkRunner(spark), options=ALL_JOBS)
    assert [row["v"] for row in rows_of(table)] == ["1+2"]

    def wrong(old: pa.Table, new: pa.Table) -> pa.Table:
        raise KeyError(old["v"][0].as_py())

    with pytest.raises(UsageError, match=r"wrong raised KeyError for rows of .*\.parquet: '1\+2'"):
        table.upsert(batch_of([Row("a", "x", 3, "3")]), merge=wrong, runner=SparkRunner(spark), options=ALL_JOBS)
    assert [row["v"] for row in rows_of(table)] == ["1+2"]
