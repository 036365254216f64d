"""A clustering moves rows to other file groups, and the index that HBase keeps finds them there."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, content_of
from tests.hbase.conftest import Bench
from tests.hbase.test_upserts import oracle_of

pytestmark = pytest.mark.hbase

FIRST = [Row(f"k{n * 7 % 30:02d}", "x", 1, "1") for n in range(30)]
SECOND = [Row(f"k{n:02d}", "x", 2, "2") for n in range(0, 40, 2)]


def clustered(bench: Bench, runner: str) -> LakeTable:
    """Three files of one partition, put together."""
    table = bench.table()
    for at in range(0, 30, 10):
        table.upsert(batch_of(FIRST[at : at + 10]), options=bench.options(hoodie__parquet__small__file__limit="0"))
    done = table.cluster(options=bench.options(), runner=runner)
    assert (done.files_before, done.files_after, done.rows_after) == (3, 1, 30)
    return table


def assert_found(bench: Bench, table: LakeTable) -> None:
    """The next upsert finds what was moved."""
    summary = table.upsert(batch_of(SECOND), options=bench.options())
    assert (summary.updates, summary.inserts) == (15, 5)
    assert content_of(table) == oracle_of(FIRST, SECOND).content()
    assert table.check().ok
    assert table.index_verify(options=bench.options()).ok


def test_moved_rows_are_found(bench: Bench) -> None:
    assert_found(bench, clustered(bench, "local"))


def test_rows_that_executors_moved_are_found(bench: Bench, spark: SparkSession) -> None:
    assert_found(bench, clustered(bench, "spark"))
