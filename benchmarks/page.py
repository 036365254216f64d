"""``docs/performance.md``, ``docs/scorecard.md`` and the tables of ``README.md`` from the saved results:
``python -m benchmarks.page``.

Works with whatever results are there; what was not measured says so.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from benchmarks import plots, report, scorecard, timings, verdict
from benchmarks.report import WorkloadResult
from benchmarks.timings import Measurement

ROOT: Final = Path(__file__).resolve().parents[1]
PAGE: Final = ROOT / "docs" / "performance.md"
SCORECARD: Final = ROOT / "docs" / "scorecard.md"
BEGIN: Final = "<!-- results: made by python -m benchmarks.page -->"
#: Workloads that are only there to try the benchmark.
_TRIAL: Final = "T"
_GROWTH: Final = "G"

_TITLES: Final = {
    "bulk_load": ("Bulk load", "A whole base, from Parquet files into a new table of as many files."),
    "operations": (
        "Operations",
        "A partial update beside a whole one; new rows, their keys looked up (BUCKET) or not; a table read in batches.",
    ),
    "cold": ("Cold commands", "From the start of the process to its end; the milliseconds of imports by package."),
    "footers": (
        "Footers far away",
        "The look-up's stages that need footers, on an S3 server that every request reaches 10 ms late.",
    ),
    "objects": (
        "Upserts far away",
        "1,000 rows into 10 of 2,000 files on an S3 server that every request reaches 10 ms late; processes are warm.",
    ),
    "metadata": (
        "Keeping the metadata table",
        "Mean seconds of an upsert: a run is ten in a row, the tenth compacts. Each line keeps more than the last.",
    ),
    "tpch": (
        "TPC-H",
        "lineitem, each step in a process of its own; the load is of a Parquet file in no order of partitions.",
    ),
    "duckrun": (
        "duckrun's chain",
        "Merges on lineitem of TPC-H, each on what the one before it left; every row is compared after each step.",
    ),
    "clustering": (
        "Clustering",
        "A month of small files put together, by key and along a Z-order curve; each step in a process of its own.",
    ),
    "memory": (
        "Memory beside its limit",
        "Peak resident memory of each step by `lakeindex.memory`; the line is what is promised, the limit and 500 MB.",
    ),
    "dag": ("The whole DAG", "`airflow dags test`, five spark-submits; beside it one of ours, and one of Hudi's."),
}


def sections(results: list[WorkloadResult], measured: dict[str, Measurement], images: Path) -> list[str]:
    """Everything between the markers; plots are written to ``images``."""
    found = verdict.judge(verdict.figures(results, measured.values()))
    parts = ["## Targets\n\n" + verdict.table(found)]
    shown = [one for one in results if not one.workload.startswith(_TRIAL)]
    upserts = [one for one in shown if not one.workload.startswith(_GROWTH)]
    grown = [one for one in shown if one.workload.startswith(_GROWTH)]
    if upserts:
        plots.upserts(upserts, images / "performance_upserts.svg")
        plots.memory(upserts, images / "performance_memory.svg")
        parts.append("## Upserts\n\n![seconds of an upsert](images/performance_upserts.svg)")
        parts += [report.table(one) for one in upserts]
        parts.append("### Peak memory\n\n![peak memory](images/performance_memory.svg)")
    if grown:
        plots.growth(grown, images / "performance_growth.svg")
        about = "The same batch of 20,000 rows among the newest of a growing table, a file of a million rows a day."
        parts.append(f"## Growth\n\n{about}\n\n![seconds by size of the table](images/performance_growth.svg)")
        parts += [report.table(one) for one in grown]
    if "memory" in measured:
        plots.memory_limits(measured["memory"].timings, images / "performance_memory_limits.svg")
    return parts + _others(measured)


def _others(measured: dict[str, Measurement]) -> list[str]:
    parts = []
    for name, one in measured.items():
        title, about = _TITLES[name]
        plot = "\n\n![peak memory and its limit](images/performance_memory_limits.svg)\n\n" if name == "memory" else " "
        parts.append(f"## {title}\n\n{about}{plot}{timings.table(one)}")
    return parts


def update() -> None:
    results, measured = report.load_all(), timings.load_all()
    own = [report.table(one) for one in results] + [
        f"**{_TITLES[name][0]}**: {timings.table(one)}" for name, one in measured.items()
    ]
    report.update_page(own)
    report.update_page(sections(results, measured, PAGE.parent / "images"), PAGE, BEGIN)
    shown = [one for one in results if not one.workload.startswith(_TRIAL)]
    report.update_page(scorecard.made(shown, SCORECARD.parent / "images"), SCORECARD, BEGIN)


def publish(done: Measurement, pages: Callable[[], None] = update, *, dry: bool) -> int:
    """Print a measurement and, unless it was a trial, keep it; 1 if something failed."""
    print("\n" + timings.table(done), flush=True)
    if not dry:
        timings.save(done)
        pages()
    return 1 if any(timing.failed for timing in done.timings) else 0


if __name__ == "__main__":
    update()
