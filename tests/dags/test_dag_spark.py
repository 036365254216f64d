"""The DAG for real: Airflow in a process of its own, five spark-submit jobs, a table on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api import open_table
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

    def upsert(self, rows: pa.Table, *, fails: bool = False) -> str:
        """One run of the DAG."""
        pq.write_table(rows, self.folder / "in.parquet")
        conf = json.dumps({"table": "trips", "input": str(self.folder / "in.parquet")})
        return self("airflow", "dags", "test", "upsert_table", "-c", conf, fails=fails)

    def rows(self) -> list[tuple[str, str, int]]:
        """The table's rows."""
        found = open_table(str(self.table)).read().select(["id", "day", "ts"]).to_pylist()
        return sorted((r["id"], r["day"], r["ts"]) for r in found)


def test_dag_upserts_through_five_jobs_and_fails_at_once_on_bad_rows(tmp_path: Path) -> None:
    lab = Lab(tmp_path)
    open_table(str(lab.table)).upsert(ROWS)
    said = lab.upsert(pa.table({"id": ["a", "b", "d"], "day": ["1", "1", "2"], "ts": [2, 0, 1]}))
    wanted = [("a", "1", 2), ("b", "1", 1), ("c", "2", 1), ("d", "2", 1)]
    assert lab.rows() == wanted
    assert "'inserts': 1, 'updates': 1" in said
    assert "'ignored': 1" in said
    assert "bloom_check" in said
    assert len(list(lab.runs.glob("upsert_table-*/merge_write*"))) >= 1

    said = lab.upsert(pa.table({"id": ["e", None], "day": ["1", "1"], "ts": [9, 9]}), fails=True)
    assert "QuarantineExceededError: 1 bad rows, 0 allowed" in said
    errors = [json.loads(f.read_text()) for f in lab.runs.glob("upsert_table-*/stage_input.error.json")]
    assert [e["exit_code"] for e in errors] == [3]
    assert lab.rows() == wanted
