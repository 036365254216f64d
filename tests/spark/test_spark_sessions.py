"""Settings of a session that somebody else chose: nothing is collected that grows with the rows, no plan depends on AQE."""

import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from lakeindex.runners.java import find_java_home
from lakeindex.runners.spark import SparkRunner
from tests.builders import make_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]

ROWS = 400_000
OPTIONS = {"lakeindex.spark.driver.bytes": "0", "hoodie.parquet.max.file.size": "250000"}


def rows(first: int, last: int, ts: int) -> pa.Table:
    """Rows whose keys alone are more than a megabyte, compressed too."""
    numbers = range(first, last)
    keys = [f"{n * 2_654_435_761 % 2**32:08x}{n:08x}" for n in numbers]
    return pa.table(
        {"id": keys, "day": [f"d{n % 4}" for n in numbers], "ts": [ts] * len(keys), "v": [f"v{ts}"] * len(keys)}
    )


@pytest.mark.parametrize("adaptive", ["true", "false"])
def test_an_upsert_needs_no_room_for_results_and_no_adaptive_plans(
    adaptive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(find_java_home()))
    monkeypatch.setenv("SPARK_LOCAL_IP", "127.0.0.1")
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    pq.write_table(rows(ROWS // 2, ROWS + ROWS // 2, 2), tmp_path / "feed.parquet")
    settings = {"spark.driver.maxResultSize": "1m", "spark.sql.adaptive.enabled": adaptive, "spark.ui.enabled": "false"}
    session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    try:
        assert {name: session.conf.get(name) for name in settings} == settings
        table, runner = make_table(tmp_path / "t"), SparkRunner(session)
        loaded = table.upsert(rows(0, ROWS, 1), runner=runner, options=OPTIONS)
        feed = session.read.parquet(str(tmp_path / "feed.parquet"))
        summary = table.upsert(feed.repartition("day"), runner=runner, options=OPTIONS)
    finally:
        session.stop()
    assert (loaded.inserts, loaded.files_created > 20) == (ROWS, True)
    assert (summary.updates, summary.inserts) == (ROWS // 2, ROWS // 2)
    assert table.read(meta=True).group_by("ts").aggregate([("id", "count")]).sort_by("ts").to_pydict() == {
        "ts": [1, 2],
        "id_count": [ROWS // 2, ROWS],
    }
