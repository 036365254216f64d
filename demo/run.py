"""``make demo``: a year of flights upserted end to end, and every count held against a plain dictionary.

1. the feed is written, the table created, January to November loaded by the in-process runner;
2. Airflow, on its embedded defaults, runs the DAG ``upsert_flights`` for two daily intervals:
   five spark-submit jobs each;
3. the table is checked, read back with hudi-rs and with DuckDB, and compared with :mod:`demo.oracle`.

Everything is below ``.demo`` (made anew each time) and ``.airflow``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from demo.commands import BIN, lakeindex
from demo.feed import write_feed
from demo.oracle import Counts, Oracle, messages_of
from demo.readback import Comparison, compare_table
from demo.show import show_comparisons, show_counts, show_funnel, show_next
from lakeindex.airflow.tables import TableConf, load_table
from lakeindex.pipeline import Stage

ROOT: Final = Path(__file__).resolve().parents[1]
INTERVALS: Final = (date(2013, 12, 1), date(2013, 12, 2))
_POLL_SECONDS: Final = 0.3
_LOG_COLUMNS: Final = 140
_RUNS: Final = "batch-upsert_flights-*"
"""Folders of the DAG's runs: a run is named by its batch, and that by DAG and interval."""


@dataclass(frozen=True, slots=True)
class Expected:
    """What the dictionary replay says of every batch, and the rows it ends with."""

    batches: tuple[Counts, ...]
    oracle: Oracle


class Demo:
    """The steps, over one folder.

    Args:
        home: where everything goes; removed first.
        console: where it is told.
    """

    def __init__(self, home: Path, console: Console) -> None:
        self.home = home
        self.console = console
        self.feed = home / "feed"
        self.env = {**os.environ, "LAKEINDEX_DEMO": str(home)}
        self.table: TableConf = load_table(ROOT / "conf/tables/flights.yaml", ROOT, self.env)

    def run(self) -> bool:
        """All steps; whether every comparison held."""
        self._prepare()
        with ThreadPoolExecutor(1) as beside:
            expected = beside.submit(self._replay)
            summaries = [self._load_base()]
            self._airflow("db", "migrate", log="migrate", doing="Airflow: making its SQLite database")
            summaries += [self._interval(day) for day in INTERVALS]
            told = expected.result()
        self._check()
        comparisons = self._compare(told, summaries)
        show_comparisons(self.console, comparisons)
        holds = all(c.holds for c in comparisons)
        show_next(self.console, self.table.uri, holds=holds)
        return holds

    def _prepare(self) -> None:
        shutil.rmtree(self.home, ignore_errors=True)
        self.home.mkdir(parents=True)
        with self.console.status("writing the feed: schedules, actuals, corrections of 336,776 flights"):
            write_feed(self.feed)
        files = sorted(self.feed.rglob("*.parquet"))
        size = sum(f.stat().st_size for f in files)
        self.console.print(f"[bold]1[/] feed: {len(files)} files, {size / 1e6:.1f} MB in {self._short(self.feed)}")
        create = self.table.create
        if create is None:
            sys.exit("conf/tables/flights.yaml has no create section")
        lakeindex(self.env,
            "create", self.table.uri, "--like", str(self.feed / "like.parquet"), "--key", ",".join(create.key),
            "--partition", ",".join(create.partition), "--ordering", ",".join(create.ordering),
        )  # fmt: skip
        self.console.print(f"[bold]2[/] table: {self._short(Path(self.table.uri))}, key {', '.join(create.key)}")

    def _load_base(self) -> dict[str, Any]:
        files = [str(f) for f in sorted((self.feed / "base").glob("*.parquet"))]
        with self.console.status("loading January to November with the in-process runner"):
            summary = lakeindex(self.env, "upsert", self.table.uri, *files, "--batch-id", "base", *self._options())
        show_counts(self.console, "[bold]3[/] base load, January to November, one batch", summary)
        return summary

    def _interval(self, day: date) -> dict[str, Any]:
        """One scheduled interval through Airflow: the run that is due when ``day`` is over."""
        number = 4 + INTERVALS.index(day)
        runs = Path(self.table.checkpoints)
        before = set(runs.glob(_RUNS))
        due = day + timedelta(days=1)
        self._airflow(
            "dags", "test", "upsert_flights", f"{due}T00:00:00+00:00", log=str(day),
            doing=f"Airflow: interval of {day}", runs=runs, before=before,
        )  # fmt: skip
        fresh = [folder for folder in runs.glob(_RUNS) if folder not in before]
        if len(fresh) != 1:
            sys.exit(f"the DAG run of {day} left {len(fresh)} run folders in {runs}: see {self._log(str(day))}")
        summary: dict[str, Any] = json.loads((fresh[0] / "summary.json").read_text())
        show_counts(self.console, f"[bold]{number}[/] Airflow, interval of {day}, five spark-submit jobs", summary)
        show_funnel(self.console, summary)
        return summary

    def _check(self) -> None:
        with self.console.status("lakeindex check"):
            lakeindex(self.env, "check", self.table.uri)
        self.console.print("[bold]6[/] lakeindex check: every invariant of the table holds")

    def _replay(self) -> Expected:
        oracle = Oracle()
        batches = [oracle.upsert(messages_of(sorted((self.feed / "base").glob("*.parquet"))))]
        batches += [oracle.upsert(messages_of([self.feed / f"{day}.parquet"])) for day in INTERVALS]
        return Expected(tuple(batches), oracle)

    def _compare(self, expected: Expected, summaries: list[dict[str, Any]]) -> list[Comparison]:
        names = ("base", *map(str, INTERVALS))
        comparisons = [
            Comparison(f"{name}: {count}", value, summary[count])
            for name, batch, summary in zip(names, expected.batches, summaries, strict=True)
            for count, value in batch.as_dict().items()
        ]
        with self.console.status("reading back with hudi-rs and DuckDB"):
            last, touched = summaries[-1]["instant"], expected.batches[-1]
            comparisons += compare_table(self.table.uri, expected.oracle, last, touched.inserts + touched.updates)
        return comparisons

    def _options(self) -> list[str]:
        return [word for key, value in self.table.options.items() for word in ("-o", f"{key}={value}")]

    def _airflow(
        self, *words: str, log: str, doing: str, runs: Path | None = None, before: set[Path] | None = None
    ) -> None:
        """An airflow command, its output in a file; says which stage is at work."""
        with self._log(log).open("w") as output, self.console.status(doing) as status:
            process = subprocess.Popen(
                [str(BIN / "airflow"), *words], env=self.env, stdout=output, stderr=subprocess.STDOUT, cwd=ROOT
            )
            while process.poll() is None:
                time.sleep(_POLL_SECONDS)
                if runs is not None:
                    status.update(f"{doing}: {_at_work(runs, before or set())}")
        if process.returncode:
            tail = "\n".join(self._log(log).read_text().splitlines()[-40:])
            sys.exit(f"{tail}\nairflow {' '.join(words)} ended with {process.returncode}: see {self._log(log)}")

    def _log(self, name: str) -> Path:
        folder = self.home / "logs"
        folder.mkdir(exist_ok=True)
        return folder / f"{name}.log"

    def _short(self, path: Path) -> str:
        return str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else str(path)


def _at_work(runs: Path, before: set[Path]) -> str:
    """The first stage of the newest run that has not left its file yet."""
    fresh = [folder for folder in runs.glob(_RUNS) if folder not in before]
    done = {file.stem for folder in fresh for file in folder.glob("*.json")}
    return next((str(stage) for stage in Stage if stage not in done), "summary")


def main() -> None:
    """Run the demo; exit 1 if anything differs from the dictionary replay."""
    parser = argparse.ArgumentParser(prog="make demo", description=__doc__)
    parser.add_argument("--home", type=Path, default=ROOT / ".demo", help="folder for feed and table; removed first")
    home = parser.parse_args().home.resolve()
    if "LAKEINDEX_HOME" not in os.environ:
        sys.exit("run it with make demo, or: .venv/bin/python scripts/env.py run -- .venv/bin/python -m demo.run")
    if home.exists() and not (home / "feed").is_dir() and any(home.iterdir()):
        sys.exit(f"{home} is there and holds something else: name another --home")
    started = time.monotonic()
    terminal = Console()
    console = terminal if terminal.is_terminal else Console(width=_LOG_COLUMNS)
    holds = Demo(home, console).run()
    console.print(f"[dim]{time.monotonic() - started:.0f} s[/]")
    sys.exit(0 if holds else 1)


if __name__ == "__main__":
    main()
