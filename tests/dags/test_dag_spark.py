"""Two DAGs at one table for real: an Airflow each, in processes of their own, spark-submit jobs, a table on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import open_table
from lakeindex.lock.write_context import locked
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from tests.dags.conftest import ROOT

pytestmark = pytest.mark.dag_spark

ROWS = pa.table({"id": ["a", "b", "c"], "day": ["1", "1", "2"], "ts": [1, 1, 1]})


class Lab:
    """A table, its yaml, and an Airflow that knows it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table = folder / "lake" / "trips"
        self.runs = folder / "runs"
        (folder / "conf").mkdir()
        (folder / "conf/trips.yaml").write_text(f"uri: {self.table}\ncheckpoints: {self.runs}\n")
        env = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
        self.env = {**env, "AIRFLOW_HOME": str(folder / "airflow"), "LAKEINDEX_TABLES": str(folder / "conf")}
        pq.write_table(ROWS, folder / "like.parquet")
        self("lakeindex", "create", str(self.table), "--like", str(folder / "like.parquet"),
             "--key", "id", "--partition", "day", "--ordering", "ts")  # fmt: skip
        self("airflow", "db", "migrate")

    def __call__(self, *words: str, fails: bool = False) -> str:
        """Run one of the environment's commands."""
        command = [sys.executable, str(ROOT / "scripts/env.py"), "run", "--", *words]
        done = subprocess.run(command, cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        output = done.stdout + done.stderr
        assert (done.returncode != 0) == fails, output[-4000:]
        return output

    def start(self, home: str, dag: str, *words: str) -> subprocess.Popen[str]:
        """Begin a run in an Airflow of its own."""
        env = {**self.env, "AIRFLOW_HOME": str(self.folder / home)}
        command = [sys.executable, str(ROOT / "scripts/env.py"), "run", "--"]
        subprocess.run([*command, "airflow", "db", "migrate"], cwd=ROOT, env=env, capture_output=True, check=True)
        return subprocess.Popen(
            [*command, "airflow", "dags", "test", dag, *words],
            cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def rows(self) -> list[tuple[str, str, int]]:
        """The table's rows."""
        found = open_table(str(self.table)).read(meta=True).select(["id", "day", "ts"]).to_pylist()
        return sorted((r["id"], r["day"], r["ts"]) for r in found)


def test_runs_of_two_dags_wait_for_the_tables_lock_and_are_tried_again(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    (tmp_path / "conf/trips.yaml").write_text(
        f"uri: {lab.table}\ncheckpoints: {lab.runs}\nexecution: single\noptions: {{lakeindex.lock.wait: 1}}\n"
        f"input: {tmp_path}/one.parquet\n"
    )
    pq.write_table(pa.table({"id": ["a", "b"], "day": ["1", "1"], "ts": [1, 3]}), tmp_path / "one.parquet")
    pq.write_table(pa.table({"id": ["b", "c"], "day": ["1", "1"], "ts": [2, 2]}), tmp_path / "other.parquet")
    conf = json.dumps({"table": "trips", "input": str(tmp_path / "other.parquet"), "lock_wait": 1})
    with locked(open_storage(str(lab.table)), WriteConfig(), "a long write"):
        runs = [lab.start("one", "upsert_tables"), lab.start("other", "upsert_table", "-c", conf)]
        errors: dict[str, str] = {}
        deadline = time.monotonic() + 400
        while len(errors) < 2 and time.monotonic() < deadline and all(run.poll() is None for run in runs):
            time.sleep(0.2)
            for file in lab.runs.glob("*/upsert.error.json"):  # a retry takes its own away first
                errors.setdefault(file.parent.name, file.read_text())
    said = [run.communicate(timeout=400)[0] for run in runs]
    assert [run.returncode for run in runs] == [0, 0], said[0][-3000:] + said[1][-3000:]
    assert [(e["error"], e["exit_code"]) for e in map(json.loads, errors.values())] == [("LockTimeoutError", 5)] * 2
    assert all("the table's lock is held by" in text and "'a long write'" in text for text in errors.values())
    assert lab.rows() == [("a", "1", 1), ("b", "1", 3), ("c", "1", 2)]
