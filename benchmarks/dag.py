"""The whole DAG, Airflow and its spark-submits included:
``python -m benchmarks.dag [--workload L_small] [--peer dag]``.

It is compared with one spark-submit that does all stages, and with one cold spark-submit of Hudi's upsert. Each
command is timed from its start to its end, on a fresh copy of the table, and its result is checked.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import timings
from benchmarks.harness import ROOT, Part
from benchmarks.measuring import Usage, restore, with_stored_modules
from benchmarks.peers import hudi
from benchmarks.peers.base import hudi_totals
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.peers.spark35 import COMMON
from benchmarks.timings import Timing
from benchmarks.worker import PeerProcess
from benchmarks.workloads import DATA, Workload, names, workload
from scripts import interop_env

BIN: Final = Path(sys.executable).parent
PEERS: Final = {
    "dag": "Airflow, five spark-submits",
    "dag-single": "Airflow, one spark-submit (execution = single)",
    "submit": "jobs/upsert.py, one spark-submit without Airflow",
    "hudi-submit": "Hudi 1.2.0 BLOOM upsert, one spark-submit",
}
_ERROR_TAIL: Final = 3000


class Dag:
    """Tables of lakeindex and of Hudi, an Airflow that knows the first, and the commands."""

    def __init__(self, wanted: Workload, folder: Path) -> None:
        self._wanted, self._folder = wanted, folder
        self._table, self._runs = folder / "work" / "orders", folder / "runs"
        places = {"AIRFLOW_HOME": str(folder / "airflow"), "LAKEINDEX_TABLES": str(folder / "conf")}
        self._env = with_stored_modules(os.environ) | places

    def load(self, peers: tuple[str, ...]) -> None:
        """Base tables, each where it is worked on and then moved aside; Airflow's database."""
        shutil.rmtree(self._folder, ignore_errors=True)
        (self._folder / "conf").mkdir(parents=True)
        (self._folder / "conf" / "orders.yaml").write_text(f"uri: {self._table}\ncheckpoints: {self._runs}\n")
        self._table.parent.mkdir()
        LakeIndexLocal(sync=True).load(self._wanted, self._table)
        self._table.parent.rename(self._folder / "lakeindex")
        if "hudi-submit" in peers:
            self._table.parent.mkdir()
            process = PeerProcess("hudi")
            process.load(self._wanted, self._table)
            process.close()
            self._table.parent.rename(self._folder / "hudi")
        if set(peers) & {"dag", "dag-single"}:
            self._run([str(BIN / "airflow"), "db", "migrate"])

    def once(self, peer: str) -> Usage:
        """One run on a fresh copy."""
        shutil.rmtree(self._runs, ignore_errors=True)
        restore(self._folder / ("hudi" if peer == "hudi-submit" else "lakeindex"), self._table.parent)
        step: dict[str, Callable[[], None]] = {
            "dag": self._airflow,
            "dag-single": lambda: self._airflow(execution="single"),
            "submit": self._submit,
            "hudi-submit": self._hudi,
        }
        usage = timings.timed(step[peer])
        found = hudi_totals(self._table)
        if found != self._wanted.truth:
            raise RuntimeError(f"{found}, expected {self._wanted.truth}")
        return usage

    def _airflow(self, **params: str) -> None:
        conf = {"table": "orders", "input": str(self._wanted.batch), **params}
        self._run([str(BIN / "airflow"), "dags", "test", "upsert_table", "-c", json.dumps(conf)])

    def _submit(self) -> None:
        run = f"bench-{uuid.uuid4().hex[:8]}"
        words = ["--table", str(self._table), "--checkpoints", str(self._runs), "--run-id", run, "--batch-id", run]
        spark = ["--master", "local[2]", "--conf", "spark.ui.enabled=false", "--conf", "spark.log.level=WARN"]
        script = [str(ROOT / "jobs" / "upsert.py"), *words, "--input", str(self._wanted.batch)]
        self._run([str(BIN / "spark-submit"), *spark, *script])

    def _hudi(self) -> None:
        jar = interop_env.bundle("1.2.0")
        conf = {**COMMON, **hudi.CONF, "spark.driver.extraClassPath": str(jar)}
        settings = [word for key, value in conf.items() for word in ("--conf", f"{key}={value}")]
        submit = [str(interop_env.python().with_name("spark-submit")), "--master", "local[2]", "--jars", str(jar)]
        upsert = {**hudi.OPTIONS, "hoodie.datasource.write.operation": "upsert"}
        script = str(ROOT / "benchmarks" / "peers" / "hudi_submit.py")
        words = [script, str(self._wanted.batch), str(self._table), json.dumps(upsert)]
        self._run([*submit, *settings, *words], with_stored_modules(interop_env.environment()))

    def _run(self, command: list[str], env: dict[str, str] | None = None) -> None:
        done = subprocess.run(command, env=env or self._env, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(
                f"{command[0]} ended with {done.returncode}: {(done.stdout + done.stderr)[-_ERROR_TAIL:]}"
            )

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    if "LAKEINDEX_HOME" not in os.environ:
        sys.exit("run it with make bench-dag, or in scripts/env.py run --")
    wanted = workload(name)
    dag = Dag(wanted, DATA / "tables" / f"dag_{wanted.name}")
    found = []
    try:
        dag.load(peers)
        for peer in peers:
            timing = Timing(wanted.name, peer, PEERS[peer])
            found.append(timing)
            timings.repeat(timing, runs, partial(dag.once, peer))
    finally:
        dag.close()
    return found


PART: Final = Part(
    "dag", "the whole DAG, Airflow and its spark-submits included", names(), ["L_small", "M_mono"], PEERS, measure
)

if __name__ == "__main__":
    raise SystemExit(PART.main())
