"""Seconds of the look-up alone, for every index type:
``python -m benchmarks.index_lookup [--workload M_mono] [--runs 3]``.

What is timed of lakeindex are stages 2 to 4 of a batch that is staged already: files, candidates, and the exact
position of each key that is stored. What is timed of Hudi is ``tagLocation`` of records that are made and cached
already, through its own client, with Hudi's index of the same type on a table that Hudi wrote (version 6 without a
metadata table; with one, and a record index, for RECORD_INDEX). Both in a warm process, on the same rows in as many
files, with the same keys.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.measuring import machine_line
from benchmarks.report import update_page
from benchmarks.workloads import DATA, Workload, names, workload

if TYPE_CHECKING:
    from lakeindex.tasks.runner import Runner

RESULTS: Final = Path(__file__).resolve().parent / "results"
PAGE: Final = RESULTS.parents[1] / "docs" / "choosing-an-index.md"
BEGIN: Final = "<!-- results: made by python -m benchmarks.index_lookup -->"
PLOTS: Final = RESULTS.parents[1] / "docs" / "images"
SIZES: Final = (1_000, 100_000, 1_000_000)
KINDS: Final = (
    "BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY",
    "RECORD_INDEX", "RECORD_LEVEL_INDEX", "STATE",
)  # fmt: skip
HUDI_KINDS: Final = ("BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX")
_BUCKETS: Final = "2"
_SECONDS_ENOUGH: Final = 60.0
"""A cell whose first run takes longer is measured once more and not again."""


@dataclass
class Cell:
    """Seconds of one index type at one size."""

    engine: str
    kind: str
    keys: int
    seconds: list[float] = field(default_factory=list)
    found: int = 0
    failed: str | None = None


def keys_of(wanted: Workload, count: int) -> pa.Table:
    """Distinct keys with their days: four fifths stored where the workload updates, the rest new;
    columns as the batch has.
    """
    batch = pq.read_table(wanted.batch)
    if count <= batch.num_rows:
        return batch.slice(0, count)
    rng = np.random.default_rng(count)
    files = wanted.base_files if wanted.name.endswith("uuid") else wanted.base_files[-12:]
    base = pa.concat_tables([pq.read_table(path) for path in files])
    stored = base.take(pa.array(rng.choice(base.num_rows, min(base.num_rows, count * 4 // 5), replace=False)))
    fresh = base.take(pa.array(rng.integers(0, base.num_rows, count - stored.num_rows)))
    numbers = pa.array([f"zz-{n:09d}" for n in range(fresh.num_rows)])
    fresh = fresh.set_column(0, "id", numbers)
    return pa.concat_tables([stored, fresh]).take(pa.array(rng.permutation(count)))


def _repeat(cell: Cell, runs: int, once: Callable[[], tuple[float, int]]) -> None:
    """One run that does not count, then ``runs``; fewer if they are slow."""
    try:
        first, cell.found = once()
        for _ in range(runs if first < _SECONDS_ENOUGH else 1):
            seconds, cell.found = once()
            cell.seconds.append(round(seconds, 4))
    except Exception as error:  # noqa: BLE001 - a cell that fails is a result, the others go on
        cell.failed = f"{type(error).__name__}: {error}".splitlines()[0][:300]
    print(asdict(cell), flush=True)


@dataclass(frozen=True)
class Look:
    """One look-up by lakeindex.

    Attributes:
        seconds: of stages 2 to 4: the exact position of each key in its file.
        located: of stage 2 alone: under a stored index, the file group of each key, as Hudi's tagLocation gives it.
        found: keys that are stored.
    """

    seconds: float
    located: float
    found: int


def look_up(table: Path, kind: str, keys: Path, runs: Path, runner: Runner | None = None) -> Look:
    """Stages 2 to 4 of lakeindex, of a batch that is staged before.

    Args:
        table: a table of lakeindex; what the kind stores is there.
        kind: index type.
        keys: Parquet file with the batch.
        runs: where run folders are made and removed.
        runner: runs the three stages; the local one, if none is given.
    """
    from lakeindex.conductor.open_for_write import open_for_write
    from lakeindex.conductor.upsert import look_up as stages_2_to_4
    from lakeindex.conductor.upsert import run_stage_input
    from lakeindex.model import IndexType, Operation
    from lakeindex.options.parse import index_spec
    from lakeindex.options.types import WriteConfig
    from lakeindex.pipeline import Stage
    from lakeindex.run.spec import RunSpec
    from lakeindex.tasks.local_runner import LocalRunner

    run = f"r-{uuid.uuid4().hex[:8]}"
    spec = RunSpec(str(table), str(runs), run, run, Operation.UPSERT, (str(keys),))
    opened, local = open_for_write(spec.table_uri, spec.config), LocalRunner()
    index = opened.facts.index if kind == "BUCKET" else index_spec(IndexType(kind), WriteConfig())
    bound = replace(opened, facts=replace(opened.facts, index=index))
    staged = run_stage_input(spec, bound.facts, local)
    started = time.perf_counter()
    done = stages_2_to_4(spec, replace(bound, snapshot=opened.table.snapshot()), staged, runner or local)
    seconds = time.perf_counter() - started
    shutil.rmtree(runs / run)
    located = next(one.seconds for one in done.summaries if one.name == Stage.INDEX_LOOKUP)
    return Look(seconds, located, int(done.verified.counters["rows_out"]))


class Ours:
    """lakeindex on one runner, on a table it loaded."""

    def __init__(self, wanted: Workload, folder: Path, runner: str) -> None:
        from benchmarks.peers.lakeindex import LakeIndexLocal
        from lakeindex.tasks.local_runner import LocalRunner

        self._folder = folder
        self.table = folder / "plain"
        self.buckets = folder / "buckets"
        LakeIndexLocal(sync=False).load(wanted, self.table)
        self.engine = f"lakeindex {runner}"
        self._runner: Runner = LocalRunner()
        if runner == "spark":
            from lakeindex.runners.spark import SparkRunner
            from lakeindex.runners.spark_session import spark_session

            session = spark_session("local[2]")
            session.sparkContext.setLogLevel("ERROR")
            self._runner = SparkRunner(session)

    def prepare(self, kind: str) -> None:
        """Build what the kind stores."""
        import lakeindex
        from lakeindex.model import IndexType

        if kind == "BUCKET":
            shutil.copytree(self.table, self.buckets)
            options = {"hoodie.bucket.index.num.buckets": _BUCKETS}
            lakeindex.open_table(str(self.buckets)).index_migrate("BUCKET", options=options)
        elif IndexType(kind).is_stored and kind != "INMEMORY":
            lakeindex.open_table(str(self.table)).index_build(kind, runner=self._runner)

    def look_up(self, kind: str, keys: Path) -> tuple[float, int]:
        """Stages 2 to 4 of a staged batch: seconds, and keys found."""
        table = self.buckets if kind == "BUCKET" else self.table
        done = look_up(table, kind, keys, self._folder / "runs", self._runner)
        return done.seconds, done.found


class Hudis:
    """Hudi 1.2.0, on tables that it loaded."""

    engine = "hudi 1.2.0"

    def __init__(self, wanted: Workload, folder: Path) -> None:
        from benchmarks.peers import hudi
        from benchmarks.peers.hudi_tag import HudiTag

        self._wanted, self._folder = wanted, folder
        self._base = dict(hudi.OPTIONS) | dict(hudi.VERSION_6)
        self._tag = HudiTag()
        self._server = self._tag.server

    def _options(self, kind: str) -> dict[str, str]:
        more = {"hoodie.index.type": kind}
        if kind == "BUCKET":
            more["hoodie.bucket.index.num.buckets"] = _BUCKETS
        if kind == "RECORD_INDEX":
            more |= {
                "hoodie.metadata.enable": "true",
                "hoodie.metadata.record.index.enable": "true",
                "hoodie.metadata.global.record.level.index.enable": "true",
            }
        return self._base | more

    def _table(self, kind: str) -> Path:
        return self._folder / f"hudi-{kind if kind in ('BUCKET', 'RECORD_INDEX') else 'plain'}"

    def prepare(self, kind: str) -> None:
        """Load the base once for each kind of table."""
        table = self._table(kind)
        if table.exists():
            return
        for key in ("maxPartitionBytes", "openCostInBytes"):
            self._server.sql(f"set spark.sql.files.{key}=64m")
        options = self._options(kind) | {
            "hoodie.datasource.write.operation": "bulk_insert",
            "hoodie.bulkinsert.sort.mode": "NONE",
        }
        source = str(self._wanted.folder / "base")
        self._server.call("write", 3600, path=str(table), input=source, mode="overwrite", options=options)

    def look_up(self, kind: str, keys: Path) -> tuple[float, int]:
        """``tagLocation`` of cached records."""
        return self._tag.look_up(self._table(kind), self._options(kind), keys)

    def close(self) -> None:
        """End the JVM."""
        self._tag.close()


def measure(engine: Ours | Hudis, kinds: tuple[str, ...], keys: dict[int, Path], runs: int) -> Iterator[Cell]:
    """All cells of an engine."""
    for kind in kinds:
        try:
            engine.prepare(kind)
        except Exception as error:  # noqa: BLE001 - as in _repeat
            yield Cell(engine.engine, kind, 0, failed=f"{type(error).__name__}: {error}".splitlines()[0][:300])
            print(kind, error, flush=True)
            continue
        for count, path in keys.items():
            cell = Cell(engine.engine, kind, count)
            _repeat(cell, runs, lambda kind=kind, path=path: engine.look_up(kind, path))  # type: ignore[misc]
            yield cell


@contextmanager
def _folder(name: str) -> Iterator[Path]:
    path = DATA / "tables" / f"index_lookup_{name}"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir(parents=True)
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


def run(wanted: Workload, engine: str, kinds: tuple[str, ...], sizes: tuple[int, ...], runs: int) -> list[Cell]:
    """All cells of one engine on one workload, in this process."""
    with _folder(f"{wanted.name}_{engine}") as folder:
        keys = {}
        for count in sizes:
            keys[count] = folder / f"keys-{count}.parquet"
            pq.write_table(keys_of(wanted, count), keys[count])
        if engine == "hudi":
            hudi = Hudis(wanted, folder)
            try:
                return list(measure(hudi, tuple(k for k in kinds if k in HUDI_KINDS), keys, runs))
            finally:
                hudi.close()
        mine = tuple(k for k in kinds if engine == "spark" or k != "STATE")
        return list(measure(Ours(wanted, folder, engine), mine, keys, runs))


def table(result: dict[str, object]) -> str:
    """One workload as Markdown: medians, and Hudi's seconds over ours in brackets."""
    cells = [Cell(**one) for one in result["cells"]]  # type: ignore[attr-defined]
    at = {(c.engine, c.kind, c.keys): c for c in cells}
    sizes = sorted({c.keys for c in cells if c.keys})
    lines = [f"**{result['workload']}**, {result['runs']} runs each. {result['machine']}. {result['started']}.", ""]
    lines.append("| index | " + " | ".join(f"{e} {n:,}" for n in sizes for e in ("local", "Spark", "Hudi")) + " |")
    lines.append("|---" * (1 + 3 * len(sizes)) + "|")
    for kind in KINDS:
        row = []
        for count in sizes:
            hudi = _median(at.get((Hudis.engine, kind, count)))
            for engine in ("lakeindex local", "lakeindex spark"):
                ours = _median(at.get((engine, kind, count)))
                ratio = f" ({hudi / ours:.1f} x)" if ours and hudi else ""
                row.append(f"{ours:.2f}{ratio}" if ours else "")
            row.append(f"{hudi:.2f}" if hudi else "")
        lines.append(f"| {kind} | {' | '.join(row)} |")
    failed = [f"- {c.engine} {c.kind}: {c.failed}" for c in cells if c.failed]
    return "\n".join([*lines, "", *failed])


def plot(result: dict[str, object], path: Path) -> None:
    """Seconds by number of keys, one line an index type: left lakeindex in process, right Hudi."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "lakeindex"  # the same numbers give the same file
    from matplotlib import pyplot as plt

    cells = [Cell(**one) for one in result["cells"]]  # type: ignore[attr-defined]
    figure, panels = plt.subplots(1, 3, figsize=(11, 3.6), sharey=True, layout="constrained")
    for panel, engine in zip(panels, ("lakeindex local", "lakeindex spark", Hudis.engine), strict=True):
        for number, kind in enumerate(KINDS):
            mine = sorted((c.keys, _median(c)) for c in cells if (c.engine, c.kind) == (engine, kind) and c.seconds)
            if mine:
                panel.plot(*zip(*mine, strict=True), marker="o", markersize=3.5, color=f"C{number}", label=kind)
        panel.set(title=engine, xlabel="keys in the batch", xscale="log", yscale="log")
        panel.grid(visible=True, which="major", alpha=0.3)
    panels[0].set_ylabel("seconds of the look-up")
    handles, labels = panels[0].get_legend_handles_labels()
    more, named = panels[1].get_legend_handles_labels()
    both = dict(zip([*labels, *named], [*handles, *more], strict=True))
    figure.legend(both.values(), both.keys(), loc="outside right upper", fontsize=8, frameon=False)
    figure.suptitle(str(result["workload"]))
    figure.savefig(path, metadata={"Date": None})


def _median(cell: Cell | None) -> float | None:
    return statistics.median(cell.seconds) if cell is not None and cell.seconds else None


def main() -> None:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workload", choices=names(), action="append")
    parser.add_argument("--engine", choices=["local", "spark", "hudi"], action="append")
    parser.add_argument("--kind", choices=KINDS, action="append")
    parser.add_argument("--keys", type=int, action="append")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    given = parser.parse_args()
    sizes, kinds = tuple(given.keys or SIZES), tuple(given.kind or KINDS)
    for name in given.workload or ["M_mono", "M_uuid"]:
        wanted = workload(name)
        if given.inside:
            cells = run(wanted, given.engine[0], kinds, sizes, given.runs)
            Path(given.inside).write_text(json.dumps([asdict(c) for c in cells]))
            return
        path = RESULTS / f"index_lookup_{name}.json"
        result = json.loads(path.read_text()) if path.exists() else {"cells": []}
        for engine in given.engine or ["local", "spark", "hudi"]:
            new = _in_a_process_of_its_own(name, engine, kinds, sizes, given.runs)
            keep = {(c["engine"], c["kind"], c["keys"]) for c in new}
            old = [c for c in result["cells"] if (c["engine"], c["kind"], c["keys"]) not in keep]
            result = {
                "workload": name,
                "runs": given.runs,
                "machine": machine_line(),
                "started": datetime.now(UTC).strftime("%Y-%m-%d %H:%M"),
                "cells": [*old, *new],
            }
            path.write_text(json.dumps(result, indent=1) + "\n")
        PLOTS.mkdir(parents=True, exist_ok=True)
        print(table(result))
        plot(result, PLOTS / f"index_lookup_{name}.svg")
    results = [json.loads(path.read_text()) for path in sorted(RESULTS.glob("index_lookup_*.json"))]
    pictures = [f"![{one['workload']}](images/index_lookup_{one['workload']}.svg)" for one in results]
    update_page(
        [part for one, picture in zip(results, pictures, strict=True) for part in (table(one), picture)], PAGE, BEGIN
    )


def _in_a_process_of_its_own(
    name: str, engine: str, kinds: tuple[str, ...], sizes: tuple[int, ...], runs: int
) -> list[dict[str, object]]:
    with tempfile.NamedTemporaryFile(suffix=".json") as out:
        command = [sys.executable, "-m", "benchmarks.index_lookup", "--inside", out.name, "--workload", name]
        command += ["--engine", engine, "--runs", str(runs)]
        command += [part for kind in kinds for part in ("--kind", kind)]
        command += [part for size in sizes for part in ("--keys", str(size))]
        subprocess.run(command, check=True)
        cells: list[dict[str, object]] = json.loads(Path(out.name).read_text())
    return cells


if __name__ == "__main__":
    main()
