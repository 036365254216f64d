"""Jobs as spark-submit runs them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.builders import Oracle, Row, batch_of, content_of, make_table

ROOT = Path(__file__).resolve().parents[2]
ROWS = [Row(f"k{n:03d}", "x", 1, "v") for n in range(100)]
STARTED = "Running Spark version"
"""What Spark says when it starts a context."""


def submit(table: str, batch: Path, run: str, *options: str) -> tuple[dict[str, int], str]:
    """What the job printed, and all that Spark said."""
    spark = ["--master", "local[2]", "--conf", "spark.ui.enabled=false"]
    words = [
        "--table",
        table,
        "--checkpoints",
        f"{table}.runs",
        "--run-id",
        run,
        "--batch-id",
        run,
        "--input",
        str(batch),
    ]
    command = [str(Path(sys.executable).with_name("spark-submit")), *spark, str(ROOT / "jobs/upsert.py"), *words]
    done = subprocess.run(
        [*command, *(w for o in options for w in ("-o", o))], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


@pytest.mark.spark
def test_a_job_starts_a_context_only_if_a_step_needs_executors(tmp_path: Path):
    table, oracle = make_table(tmp_path / "t"), Oracle()
    pq.write_table(batch_of(ROWS), tmp_path / "b.parquet")
    oracle.apply(ROWS)
    here, said = submit(str(tmp_path / "t"), tmp_path / "b.parquet", "one")
    assert (here["inserts"], STARTED in said) == (100, False)
    there, said = submit(str(tmp_path / "t"), tmp_path / "b.parquet", "two", "lakeindex.spark.driver.bytes=0")
    assert (there["updates"], STARTED in said) == (100, True)
    assert content_of(table) == oracle.content()


SESSION = """
from pyspark import SparkConf
from pyspark.sql import SparkSession
from lakeindex.runners import spark_session
from lakeindex.runners.spark_session import JobSession
session = JobSession()
print(SparkSession.getActiveSession() is None, session.setting("spark.app.note"), session.setting("no.such"))
print(session() is session() is SparkSession.getActiveSession())
session.stop()
asked = []
spark_session.spark_session = lambda: asked.append("at once")
class OnYarn(SparkConf):
    def get(self, name, default=None):
        return {"spark.submit.deployMode": "cluster", "spark.master": "yarn"}.get(name, default)
spark_session.SparkConf = OnYarn
JobSession()
print(asked)
"""


@pytest.mark.spark
def test_a_job_knows_its_settings_without_a_context_and_has_one_on_yarn(tmp_path: Path):
    script = tmp_path / "job.py"
    script.write_text(SESSION)
    command = [
        str(Path(sys.executable).with_name("spark-submit")),
        "--master",
        "local[2]",
        "--conf",
        "spark.app.note=x",
    ]
    done = subprocess.run([*command, str(script)], capture_output=True, text=True, timeout=120, check=False)
    assert done.stdout.splitlines() == ["True x None", "True", "['at once']"], done.stdout + done.stderr
