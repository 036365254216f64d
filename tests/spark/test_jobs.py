"""Jobs as spark-submit runs them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.pipeline import Stage
from lakeindex.run.summary import RunSummary
from tests.builders import Oracle, Row, RowRules, batch_of, content_of, make_table

pytestmark = [pytest.mark.spark, pytest.mark.slow]  # a spark-submit each
ROOT = Path(__file__).resolve().parents[2]
ROWS = [Row(f"k{n:03d}", "x", 1, "v") for n in range(100)]
STARTED = "Running Spark version"
"""What Spark says when it starts a context."""


def submit(table: str, batch: Path, run: str, *options: str, job: str = "upsert") -> tuple[dict[str, int], str]:
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
    command = [str(Path(sys.executable).with_name("spark-submit")), *spark, str(ROOT / f"jobs/{job}.py"), *words]
    done = subprocess.run(
        [*command, *(w for o in options for w in ("-o", o))], capture_output=True, text=True, timeout=240, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout.splitlines()[-1]), done.stdout + done.stderr


def test_a_job_starts_a_context_only_if_a_step_needs_executors(tmp_path: Path):
    table, oracle = make_table(tmp_path / "t"), Oracle()
    pq.write_table(batch_of(ROWS), tmp_path / "b.parquet")
    oracle.apply(ROWS)
    here, said = submit(str(tmp_path / "t"), tmp_path / "b.parquet", "one")
    assert (here["inserts"], STARTED in said) == (100, False)
    there, said = submit(str(tmp_path / "t"), tmp_path / "b.parquet", "two", "lakeindex.spark.driver.bytes=0")
    assert (there["updates"], STARTED in said) == (100, True)
    assert content_of(table) == oracle.content()


def test_five_jobs_ask_conditions(tmp_path: Path):
    table, oracle = make_table(tmp_path / "t"), Oracle()
    table.upsert(batch_of(ROWS))
    oracle.apply(ROWS)
    batch = [Row(f"k{n:03d}", "x", n % 3, "new") for n in range(50, 150)]
    pq.write_table(batch_of(batch), tmp_path / "b.parquet")
    conditions = ("lakeindex.update.if=new.ts > old.ts AND new.ts = old.ts + 1", "lakeindex.insert.if=new.ts >= 1")
    printed = [submit(str(tmp_path / "t"), tmp_path / "b.parquet", "one", *conditions, job=job)[0] for job in Stage]
    oracle.conditions = RowRules(update=lambda old, new: new.ts == old.ts + 1, insert=lambda new: new.ts >= 1)
    counts = oracle.apply(batch)
    assert {name: printed[-1][name] for name in counts} == counts
    assert content_of(table) == oracle.content()


def test_five_jobs_tell_their_start_up_by_stage_and_in_sum(tmp_path: Path):
    make_table(tmp_path / "t")
    pq.write_table(batch_of(ROWS), tmp_path / "b.parquet")
    options = ("lakeindex.spark.driver.bytes=0",)  # executors for everything
    stages, walls = [], []
    for job in Stage:
        begun = time.perf_counter()
        stages.append(submit(str(tmp_path / "t"), tmp_path / "b.parquet", "one", *options, job=job)[0])
        walls.append(time.perf_counter() - begun)
    run = RunSummary.from_json(json.dumps(stages[-1]))
    assert [stage.name for stage in run.stages] == list(Stage)
    assert run.startup_seconds == pytest.approx(sum(stage.startup_seconds for stage in run.stages), abs=0.001)
    for stage, wall in zip(run.stages, walls, strict=True):
        assert 0.2 < stage.startup_seconds < wall  # a JVM, Python, the library, and where it has tasks a session
        assert stage.seconds + stage.startup_seconds + stage.waiting_seconds + stage.other_seconds <= wall
    assert run.stages[0].startup_seconds > run.stages[0].seconds
    assert [stage["startup_seconds"] for stage in stages[:-1]] == [stage.startup_seconds for stage in run.stages[:-1]]


def test_any_command_is_a_job(tmp_path: Path):
    """Its tasks run on executors, its output and exit code are those of the command."""
    table = make_table(tmp_path / "t")
    for part in range(3):
        batch = batch_of([Row(f"k{n:03d}", "x", 1, "v") for n in range(part, 300, 3)])
        table.upsert(batch, options={"hoodie.parquet.small.file.limit": "0"})
    spark = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    words = [str(ROOT / "jobs/command.py"), "maintain", str(tmp_path / "t"), "--runner", "spark", "--json"]
    steps = ["--steps", "cluster,check", "-o", "lakeindex.clustering.least.candidates=2"]
    command = [*spark, *words, *steps, "-o", "lakeindex.spark.driver.bytes=0"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert STARTED in done.stderr
    clustered, checked = json.loads(done.stdout.splitlines()[-1])["steps"]
    assert (clustered["counts"]["files"], checked["note"]) == (3, "300 rows in 1 files are sound")
    assert table.count() == 300
    command[command.index("cluster,check")] = "tidy"
    wrong = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert (wrong.returncode, json.loads(wrong.stdout.splitlines()[-1])["error"]["class"]) == (2, "UsageError")


SESSION = """
import sys
from lakeindex.runners import jobs
from lakeindex.runners import jobs as job_arguments
from lakeindex.runners.spark_session import JobSession
session = JobSession()
loaded = [name for name in ("pyspark", "pandas") if name in sys.modules]
from pyspark.sql import SparkSession
print(SparkSession.getActiveSession() is None, loaded, session.setting("spark.app.note"), session.setting("no.such"))
print(session() is session() is SparkSession.getActiveSession())
session.stop()
"""
ON_YARN = """
from lakeindex.runners.spark_session import JobSession
session = JobSession()
from pyspark.sql import SparkSession
print(session.is_made, SparkSession.getActiveSession() is not None)
session.stop()
"""


def run_script(folder: Path, text: str, **env: str) -> list[str]:
    """What a script that spark-submit runs prints."""
    script = folder / "job.py"
    script.write_text(text)
    command = [str(Path(sys.executable).with_name("spark-submit")), "--master", "local[2]"]
    command += ["--conf", "spark.app.note=x", str(script)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env={**os.environ, **env})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def test_a_job_loads_and_starts_no_spark_before_it_needs_it(tmp_path: Path):
    assert run_script(tmp_path, SESSION) == ["True [] x None", "True"]


def test_a_job_in_a_container_of_yarn_starts_spark_at_once(tmp_path: Path):
    assert run_script(tmp_path, ON_YARN, CONTAINER_ID="container_1_0001_01_000001", LOCAL_DIRS=str(tmp_path)) == [
        "True True"
    ]
