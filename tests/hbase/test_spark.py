"""The tasks of the Spark runner ask HBase themselves."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from tests.builders import batch_of, content_of
from tests.hbase.conftest import Bench
from tests.hbase.test_upserts import FIRST, SECOND, assert_follows, oracle_of

pytestmark = pytest.mark.hbase


def test_upserts_with_the_spark_runner(bench: Bench, spark: SparkSession) -> None:
    table = bench.table()
    for batch in (FIRST, SECOND):
        table.upsert(batch_of(batch), options=bench.options(), runner="spark")
    assert content_of(table) == oracle_of(FIRST, SECOND).content()
    assert_follows(bench, table)
