"""Rows by key on a real Spark session: the same answer as on threads."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeindex.runners.spark import SparkRunner
from lakeindex.runners.spark_session import spark_session
from tests.builders import Row, batch_of, make_table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    made = spark_session("local[2]", "lakeindex tests")
    yield made
    made.stop()


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE", "BUCKET"])
def test_get_on_spark_equals_get_on_threads(session: SparkSession, tmp_path: Path, index: str):
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    rows = [Row(f"k{n:05d}", f"d{n % 3}", 1, f"v{n}") for n in range(3000)]
    table.upsert(batch_of(rows), options={"lakeindex.parquet.row.group.rows": "100"})
    keys = pa.array([f"k{n:05d}" for n in range(500, 6000, 7)])
    here, there = table.get(keys), table.get(keys, runner=SparkRunner(session))
    assert here.rows.num_rows == len([n for n in range(500, 6000, 7) if n < 3000])
    assert there.rows.equals(here.rows)
    assert there.missing == here.missing
    assert there.report.bytes_read > 0
    assert (there.report.files_opened, there.report.row_groups_read) == (
        here.report.files_opened,
        here.report.row_groups_read,
    )
