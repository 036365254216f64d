"""The demo's flights on a cluster: table, input and checkpoints on ``s3://``,
stages run by Spark through Airflow's scheduler.

For a cluster that is up, of ``make cluster`` or of docker-compose.yaml; ``make demo-cluster`` does both.
``LAKEINDEX_DEMO`` says where everything goes (``s3://lake``), and must be the same for Airflow's processes.

1. the feed is written and copied to the store, the table made anew (an earlier demo's is removed), the months before
   December loaded by the in-process runner;
2. the DAG ``upsert_table`` is triggered through the REST API for each day: five spark-submit jobs on the cluster;
3. the table is checked, copied back, read with hudi-rs and DuckDB, and compared with :mod:`demo.oracle`.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from datetime import date
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from demo.airflow_api import Airflow, AirflowError
from demo.commands import lakeindex
from demo.feed import write_feed
from demo.oracle import Counts, Oracle, messages_of
from demo.readback import Comparison, compare_table
from demo.show import show_comparisons, show_counts, show_funnel
from lakeindex.airflow.dag_plan import batch_of_run
from lakeindex.airflow.tables import TableConf, load_table
from lakeindex.pipeline import run_id_of
from lakeindex.storage import open_storage

ROOT: Final = Path(__file__).resolve().parents[1]
DAG: Final = "upsert_table"
DAYS: Final = (date(2013, 12, 1), date(2013, 12, 2))
RUN_SECONDS: Final = 900


class ClusterDemo:
    """The steps, one by one.

    Args:
        home: local folder for the feed and the copy of the table.
        place: where the cluster keeps it, ``LAKEINDEX_DEMO``.
        airflow: the cluster's Airflow.
    """

    def __init__(self, home: Path, place: str, airflow: Airflow) -> None:
        self.home = home
        self.place = place
        self.airflow = airflow
        self.env = {**os.environ, "LAKEINDEX_DEMO": place}
        self.table: TableConf = load_table(ROOT / "conf/tables/flights.yaml", ROOT, self.env)
        self.oracle = Oracle()
        self.comparisons: list[Comparison] = []

    def prepare(self, first_month: str) -> dict[str, Any]:
        """Feed on the store, table made anew and loaded with the months from this one on; the load's summary."""
        for place in (self.table.uri, self.table.checkpoints):
            store = open_storage(place)
            for found in store.list():  # of an earlier demo
                store.delete(found.path)
        write_feed(self.home / "feed")
        base = sorted(f for f in (self.home / "feed/base").glob("*.parquet") if f.stem >= first_month)
        places = [self._upload(file) for file in base]
        create = self.table.create
        if create is None:
            sys.exit("conf/tables/flights.yaml has no create section")
        lakeindex(self.env,
            "create", self.table.uri, "--like", str(self.home / "feed/like.parquet"), "--key", ",".join(create.key),
            "--partition", ",".join(create.partition), "--ordering", ",".join(create.ordering),
        )  # fmt: skip
        options = [word for key, value in self.table.options.items() for word in ("-o", f"{key}={value}")]
        summary = lakeindex(self.env, "upsert", self.table.uri, *places, "--batch-id", "base", *options)
        self._compare("base", self.oracle.upsert(messages_of(base)), summary)
        return summary

    def trigger(self, day: date, **params: Any) -> str:
        """Start the DAG for a day's feed; the run's id."""
        place = self._upload(self.home / "feed" / f"{day}.parquet")
        return self.airflow.trigger(DAG, {"table": "flights", "input": place, **params})

    def finish(self, day: date, run_id: str) -> dict[str, Any]:
        """Wait for the run of a day; its summary, from its checkpoints.

        Raises:
            AirflowError: the run failed or did not end in time.
        """
        state = self.airflow.wait(DAG, run_id, RUN_SECONDS)
        if state != "success":
            raise AirflowError(f"{DAG} {run_id} ended as {state}: {self.airflow.tries(DAG, run_id)}")
        folder = run_id_of(batch_of_run(DAG, run_id))
        summary: dict[str, Any] = json.loads(open_storage(self.table.checkpoints).read(f"{folder}/summary.json"))
        self._compare(str(day), self.oracle.upsert(messages_of([self.home / "feed" / f"{day}.parquet"])), summary)
        return summary

    def verify(self, summary: dict[str, Any]) -> list[Comparison]:
        """``lakeindex check``, then the whole table by engines that are not ours; every comparison of the demo."""
        lakeindex(self.env, "check", self.table.uri)
        copy, store = self.home / "copy", open_storage(self.table.uri)
        for found in store.list():
            (copy / found.path).parent.mkdir(parents=True, exist_ok=True)
            (copy / found.path).write_bytes(store.read(found.path))
        touched = summary["inserts"] + summary["updates"]
        self.comparisons += compare_table(str(copy), self.oracle, summary["instant"], touched)
        return self.comparisons

    def _compare(self, what: str, counts: Counts, summary: dict[str, Any]) -> None:
        self.comparisons += [
            Comparison(f"{what}: {name}", value, summary[name]) for name, value in counts.as_dict().items()
        ]

    def _upload(self, file: Path) -> str:
        path = str(file.relative_to(self.home))
        open_storage(self.place).write(path, file.read_bytes())
        return f"{self.place}/{path}"


def run(demo: ClusterDemo, console: Console, first_month: str) -> bool:
    """All steps; whether every comparison held."""
    summary = demo.prepare(first_month)
    show_counts(console, f"base load into {demo.table.uri}, one batch", summary)
    for day in DAYS:
        run_id = demo.trigger(day)
        with console.status(f"Airflow: {DAG} {run_id}"):
            summary = demo.finish(day, run_id)
        show_counts(console, f"Airflow, feed of {day}, five spark-submit jobs on the cluster", summary)
        show_funnel(console, summary)
    comparisons = demo.verify(summary)
    show_comparisons(console, comparisons)
    return all(comparison.holds for comparison in comparisons)


def main() -> None:
    """Run the demo on the cluster; exit 1 if anything differs from the dictionary replay."""
    parser = argparse.ArgumentParser(prog="make demo-cluster", description=__doc__)
    parser.add_argument("--airflow", default=os.environ.get("LAKEINDEX_CLUSTER_AIRFLOW", "http://127.0.0.1:8080"))
    parser.add_argument("--first-month", default="2012-12", help="of the base load, such as 2013-11 for a short one")
    given = parser.parse_args()
    place = os.environ.get("LAKEINDEX_DEMO", "")
    if "://" not in place:
        sys.exit("LAKEINDEX_DEMO must name a folder of the cluster's store, such as s3://lake")
    started, console = time.monotonic(), Console(width=140)
    with tempfile.TemporaryDirectory(prefix="lakeindex-demo-") as home:
        try:
            holds = run(ClusterDemo(Path(home), place, Airflow(given.airflow)), console, given.first_month)
        except AirflowError as error:
            sys.exit(str(error))
    console.print(f"[dim]{time.monotonic() - started:.0f} s[/]")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
