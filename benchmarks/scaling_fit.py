"""Fit the cost model of ``docs/scaling.md`` to real runs and extend it: ``python -m benchmarks.scaling_fit [--quick]``.

Upserts into generated tables of 50,000 to 600,000 rows in 2 to 200 files, one task at a time, give the seconds of one
core, the requests and the bytes of each stage. Constants are fitted by least squares of the relative error, none
below zero. The model is compared with runs on tables of other sizes, which the fit has not seen. The tables of the page
are made from the result.
"""

from __future__ import annotations

import argparse
import itertools
import json
import shutil
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks.calibrate import Case, keys_of, make_table, non_negative, rows_of, sizes_of
from benchmarks.measuring import machine_line, now
from benchmarks.report import update_page
from benchmarks.scaling_extension import extension
from benchmarks.scaling_model import COLUMNS, TARGETS, Constants, Load, counts_of, predicted
from benchmarks.timings import RESULTS, grid
from lakeindex.api.table import LakeTable
from lakeindex.pipeline import Stage
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.local_runner import LocalRunner

PAGE: Final = RESULTS.parents[1] / "docs" / "scaling.md"
RESULT: Final = RESULTS / "scaling-fit.json"
BEGIN: Final = "<!-- results: made by python -m benchmarks.scaling_fit: {} -->"
_TRIES: Final = 2
"""The quickest of so many counts: what else runs on the machine does not."""
_SERIES: Final = ((50_000, 5), (100_000, 50), (200_000, 2), (200_000, 100), (400_000, 4), (400_000, 200))
_HELD_OUT: Final = ((600_000, 6), (300_000, 30), (300_000, 150))
_BATCHES: Final = (10, 1_000, 30_000)
_HELD_OUT_BATCHES: Final = (30, 10_000)
"""Few rows into files of many row groups tell apart what is copied and what is encoded."""
_QUICK: Final = ((20_000, 4), (40_000, 20))


@dataclass
class Measured:
    """One run: the model's load, and what each stage took."""

    keys: str
    load: Load
    stages: dict[str, dict[str, float]]
    is_held_out: bool = False


def measure(cases: Sequence[tuple[int, int]], batches: Sequence[int], *, is_held_out: bool) -> Iterator[Measured]:
    """Upserts into tables of these (rows, files): a fifth of each batch is new."""
    for keys in ("growing", "random"):
        for rows, files in cases:
            with tempfile.TemporaryDirectory() as folder:
                base = Base(Case("BLOOM", keys, rows, files), Path(folder), max(batches))
                for size in batches:
                    yield replace(base.measure(size), is_held_out=is_held_out)


class Base:
    """A table that is loaded once; every run gets a copy of its own, as a run changes what it runs on."""

    def __init__(self, case: Case, folder: Path, most_new: int) -> None:
        self._case, self._folder = case, folder
        self._keys = keys_of(replace(case, rows=case.rows + most_new))
        table = make_table(case, folder / "base")
        table.upsert(rows_of(self._keys.slice(0, case.rows), 1), options=sizes_of(case), runner=LocalRunner(1))

    def measure(self, size: int) -> Measured:
        """The quickest of some runs with a batch of this size."""
        case = self._case
        updates = np.sort(np.random.default_rng(size).choice(case.rows, size - size // 5, replace=False))
        new = np.arange(case.rows, case.rows + size // 5)
        batch = rows_of(self._keys.take(np.concatenate([updates, new])), 2)
        stages = []
        for number in range(_TRIES):
            copy = self._folder / f"{size}-{number}"
            shutil.copytree(self._folder / "base", copy)
            began, cpu = time.perf_counter(), time.process_time()
            summary = LakeTable(str(copy)).upsert(batch, options=sizes_of(case), runner=LocalRunner(1))
            share = (time.process_time() - cpu) / (time.perf_counter() - began)
            stages.append(_of_stages(summary, min(share, 1.0)))
        best = {name: min((one[name] for one in stages), key=lambda s: s["seconds"]) for name in stages[0]}
        counters = next(stage for stage in summary.stages if stage.name == Stage.INDEX_LOOKUP).counters
        files = int(counters["files"])
        load = Load(
            files=files,
            file_rows=case.rows / files,
            batch_rows=size,
            updates=len(updates),
            touched_files=files,
            candidates=1.0 if case.keys == "growing" else float(files),
            new_rows_a_file=case.rows / files,
            row_bytes=counters["file_bytes"] / case.rows,
        )
        return Measured(case.keys, load, best)


def _of_stages(summary: RunSummary, share: float) -> dict[str, dict[str, float]]:
    """Each stage's figures; of its wall time only the share that the process had a core."""
    return {
        str(stage.name): {"seconds": stage.seconds * share, "requests": stage.requests, "bytes_read": stage.bytes_read}
        for stage in summary.stages
    }


def fit(runs: Sequence[Measured]) -> Constants:
    return {stage: {target: _fit_one(runs, stage, target) for target in TARGETS} for stage in COLUMNS}


def _fit_one(runs: Sequence[Measured], stage: Stage, target: str) -> dict[str, float]:
    counts = np.array([[counts_of(run.load)[stage][c] for c in COLUMNS[stage]] for run in runs])
    wanted = np.array([run.stages[stage][target] for run in runs])
    found = non_negative(counts / wanted[:, None], np.ones(len(wanted)))
    return dict(zip(COLUMNS[stage], found.tolist(), strict=True))


def errors(runs: Sequence[Measured], constants: Constants, target: str) -> dict[str, list[float]]:
    """(model - measured) / measured of each run, by stage; of all stages together under ``all``."""
    found: dict[str, list[float]] = {}
    for run in runs:
        counts = counts_of(run.load)
        said = {str(stage): predicted(constants, stage, counts[stage], target) for stage in COLUMNS}
        for stage, value in said.items():
            found.setdefault(stage, []).append(value / run.stages[stage][target] - 1)
        whole = sum(run.stages[stage][target] for stage in said)
        found.setdefault("all", []).append(sum(said.values()) / whole - 1)
    return found


def constants_section(constants: Constants, result: dict[str, Any]) -> str:
    about = f"{result['machine']}. {result['started']}; {result['fitted']} runs, one task at a time."
    rows = []
    for stage, columns in COLUMNS.items():
        for column in columns:
            values = [constants[stage][target][column] for target in TARGETS]
            rows.append([f"`{stage}`", column, f"{values[0]:.3g}", f"{values[1]:.3g}", f"{values[2]:,.3g}"])
    return f"{about}\n\n" + grid(["stage", "for each", "seconds of a core", "requests", "bytes read"], rows)


def errors_section(constants: Constants, fitted: Sequence[Measured], held_out: Sequence[Measured]) -> str:
    """How far the model is from the runs it was fitted to, and from the others."""
    about = (
        "Median of |model - measured| / measured, and in brackets the largest; "
        "*held out* are runs that the fit has not seen."
    )
    found = [errors(fitted, constants, "seconds"), *(errors(held_out, constants, target) for target in TARGETS)]
    by_stage = []
    for stage in [*COLUMNS, "all"]:
        shown = (f"{np.median(np.abs(one[stage])):.0%} ({np.max(np.abs(one[stage])):.0%})" for one in found)
        by_stage.append([stage if stage == "all" else f"`{stage}`", *shown])
    by_run = []
    for run, error in zip(held_out, errors(held_out, constants, "seconds")["all"], strict=True):
        took = sum(stage["seconds"] for stage in run.stages.values())
        load = run.load
        table = [run.keys, f"{load.files * load.file_rows:,.0f}", f"{load.files:.0f}", f"{load.batch_rows:,.0f}"]
        by_run.append([*table, f"{took:.2f}", f"{took * (1 + error):.2f}", f"{error:+.0%}"])
    return "\n".join(
        [
            about,
            "",
            grid(
                ["stage", "seconds, fitted", *(f"{one}, held out" for one in ("seconds", "requests", "bytes"))],
                by_stage,
            ),
            "",
            "The held-out runs, all stages together:",
            "",
            grid(["keys", "rows", "files", "batch", "measured s", "model s", "error"], by_run),
        ]
    )


def write_page(result: dict[str, Any]) -> None:
    runs = [Measured(one["keys"], Load(**one["load"]), one["stages"], one["is_held_out"]) for one in result["runs"]]
    fitted, held_out = ([run for run in runs if run.is_held_out is wanted] for wanted in (False, True))
    constants = result["constants"]
    update_page([constants_section(constants, result)], PAGE, BEGIN.format("constants"))
    update_page([errors_section(constants, fitted, held_out)], PAGE, BEGIN.format("errors"))
    update_page([extension(constants)], PAGE, BEGIN.format("extension"))


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it work? Nothing is kept")
    parser.add_argument("--page", action="store_true", help="only write the tables, from the last result")
    given = parser.parse_args()
    if given.page:
        write_page(json.loads(RESULT.read_text()))
        return
    series, held_out = (_QUICK, _QUICK[:1]) if given.quick else (_SERIES, _HELD_OUT)
    list(measure(_QUICK[:1], (100,), is_held_out=False))  # loads what is compiled; not counted
    runs = []
    for run in itertools.chain(
        measure(series, _BATCHES[:2] if given.quick else _BATCHES, is_held_out=False),
        measure(held_out, _HELD_OUT_BATCHES[:1] if given.quick else _HELD_OUT_BATCHES, is_held_out=True),
    ):
        runs.append(run)
        print(run.keys, run.load, {name: stage["seconds"] for name, stage in run.stages.items()}, flush=True)
    fitted = [run for run in runs if not run.is_held_out]
    constants = fit(fitted)
    result = {
        "machine": machine_line(),
        "started": now(),
        "fitted": len(fitted),
        "constants": constants,
        "runs": [asdict(run) for run in runs],
    }
    if given.quick:
        print(constants_section(constants, result))
        print(errors_section(constants, fitted, [run for run in runs if run.is_held_out]))
        return
    RESULT.write_text(json.dumps(result, indent=1) + "\n")
    write_page(json.loads(RESULT.read_text()))
    print(f"wrote {RESULT.name} and {PAGE.name}")


if __name__ == "__main__":
    main()
