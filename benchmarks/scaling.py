"""Listing, pruning and commit of tables of up to 100,000 files, for real: ``python -m benchmarks.scaling [--quick]``.

Timelines, listings and footer facts are synthetic and lie in memory (:mod:`benchmarks.scaling_table`); everything that
reads or writes them is the library. Each step is measured at three sizes: seconds of a core, the rise of resident
memory, storage requests. The results go to ``benchmarks/results/scaling.json``, and as a table into
``docs/scaling.md``. A step whose growth so far says that it would take longer than ``--limit`` seconds at a size is
not run there, and the table says so.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

import psutil
import pyarrow as pa

from benchmarks.measuring import commit, machine_line, measured, now
from benchmarks.report import update_page
from benchmarks.scaling_steps import BATCH_ROWS, SLOTS, STEPS, World
from benchmarks.scaling_table import FILES_A_PARTITION, Shape
from benchmarks.timings import RESULTS, grid

PAGE: Final = RESULTS.parents[1] / "docs" / "scaling.md"
BEGIN: Final = "<!-- results: made by python -m benchmarks.scaling -->"
RESULT: Final = RESULTS / "scaling.json"
SIZES: Final = (1_000, 10_000, 100_000)
QUICK_SIZES: Final = (100, 1_000)
INSTANTS: Final = 10_000
_TENFOLD: Final = 10.0


@dataclass
class Figure:
    """One step at one size.

    Attributes:
        seconds: CPU time of all threads; as its growth says if ``skipped``.
        wall_seconds: wall time, which other work on the machine makes longer.
        rise_bytes: how far resident memory rose above where it was before.
        requests: storage requests by kind, those to the run folder among them.
    """

    seconds: float
    wall_seconds: float = 0.0
    rise_bytes: int = 0
    requests: dict[str, int] = field(default_factory=dict)
    bytes_read: int = 0
    bytes_written: int = 0
    skipped: bool = False


@dataclass
class Results:
    """Everything of one run; ``steps``: name -> files -> figure."""

    machine: str
    started: str
    commit: str
    instants: int
    steps: dict[str, dict[int, Figure]] = field(default_factory=dict)


def measure(world: World, name: str) -> Figure:
    """Run one step."""
    work = STEPS[name](world)
    stores = (world.table.store, world.table.checkpoints)
    for store in stores:
        store.reset()
    gc.collect()
    pa.default_memory_pool().release_unused()
    before = psutil.Process().memory_info().rss
    with measured(os.getpid()) as usage:
        cpu = time.process_time()
        work()
        cpu = time.process_time() - cpu
    return Figure(
        round(cpu, 4),
        round(usage.seconds, 4),
        max(0, usage.peak_bytes - before),
        dict(sorted((stores[0].requests + stores[1].requests).items())),
        sum(store.bytes_read for store in stores),
        sum(store.bytes_written for store in stores),
    )


def expected_seconds(earlier: Sequence[Figure]) -> float:
    """Seconds at ten times the size: the growth from the one before, or tenfold if there is only one."""
    if not earlier:
        return 0.0
    growth = earlier[-1].seconds / max(earlier[-2].seconds, 1e-3) if len(earlier) > 1 else _TENFOLD
    return earlier[-1].seconds * max(growth, 1.0)


def run(sizes: Sequence[int], instants: int, limit: float) -> Results:
    """Every step at every size."""
    results = Results(machine_line(), now(), commit(), instants)
    _warm_up()
    for files in sizes:
        world = World(Shape(files, instants))
        for name in STEPS:
            figures = results.steps.setdefault(name, {})
            wanted = expected_seconds([*figures.values()])
            figures[files] = Figure(round(wanted, 1), skipped=True) if wanted > limit else measure(world, name)
            print(f"{files:>7,} {name:40} {_cell(figures[files])}", flush=True)
        world.close()
    return results


def _warm_up() -> None:
    """Load and compile what is loaded late: that is no step's cost."""
    world = World(Shape(10, 10))
    for prepare in STEPS.values():
        prepare(world)()
    world.close()


def _cell(figure: Figure) -> str:
    if figure.skipped:
        return f"not run, about {figure.seconds:,.0f} s"
    return f"{figure.seconds:.3f} s, {figure.rise_bytes / 2**20:.0f} MB"


def section(results: Results) -> str:
    sizes = sorted({files for figures in results.steps.values() for files in figures})
    head = (
        f"{results.machine}. {results.started}, commit {results.commit}. {FILES_A_PARTITION} files a partition, "
        f"{results.instants:,} commits on the timeline, a batch of {BATCH_ROWS:,} keys, work cut for {SLOTS} tasks at "
        "once and done by this machine's cores. In each cell: seconds of a core, rise of resident memory; behind them "
        "the growth from the size before, and storage requests at the largest size that was run."
    )
    rows = []
    for name, figures in results.steps.items():
        ran = [files for files in sizes if not figures[files].skipped]
        growth = figures[ran[-1]].seconds / max(figures[ran[-2]].seconds, 1e-3) if len(ran) > 1 else 0.0
        requests = ", ".join(f"{kind} {count:,}" for kind, count in figures[ran[-1]].requests.items())
        rows.append([name, *(_cell(figures[files]) for files in sizes), f"x {growth:.1f}", requests or "none"])
    return f"{head}\n\n" + grid(["step", *(f"{files:,} files" for files in sizes), "growth", "requests"], rows)


def load(path: Path = RESULT) -> Results:
    raw = json.loads(path.read_text())
    steps = {
        name: {int(files): Figure(**figure) for files, figure in figures.items()}
        for name, figures in raw.pop("steps").items()
    }
    return Results(**raw, steps=steps)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--quick", action="store_true", help="seconds: does it work? Nothing is kept")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds from which a step is not run (60)")
    given = parser.parse_args()
    if given.quick:
        print(section(run(QUICK_SIZES, 100, given.limit)))
        return
    results = run(SIZES, INSTANTS, given.limit)
    RESULT.write_text(json.dumps(asdict(results), indent=1) + "\n")
    update_page([section(results)], PAGE, BEGIN)
    print(f"wrote {RESULT.name} and {PAGE.name}")


if __name__ == "__main__":
    main()
