"""Seconds of the look-up alone, for every index type: ``python -m benchmarks.index_lookup [--peer hudi-BLOOM]``.

lakeindex runs stages 2 to 4 of a batch that is staged already: files, candidates, and the exact position of each
stored key. Hudi runs ``tagLocation`` of records that are made and cached already, with its index of the same type on a
table that it wrote (version 6 without a metadata table; for RECORD_INDEX with one that has a record index). Both work
in a warm process, on the same rows in as many files, with the same keys. The table of ``docs/choosing-an-index.md`` is
made from the result.
"""

from __future__ import annotations

import shutil
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from benchmarks import plots, timings
from benchmarks.harness import ROOT, Part
from benchmarks.measuring import Usage, apart
from benchmarks.peers import hudi
from benchmarks.peers.hudi_tag import HudiTag
from benchmarks.report import update_page
from benchmarks.timings import Measurement, Timing, grid
from benchmarks.workloads import DATA, Workload, names, workload

if TYPE_CHECKING:
    from lakeindex.tasks.runner import Runner

PAGE: Final = ROOT / "docs" / "choosing-an-index.md"
BEGIN: Final = "<!-- results: made by python -m benchmarks.index_lookup -->"
SIZES: Final = (1_000, 100_000, 1_000_000)
KINDS: Final = (
    "BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "INMEMORY",
    "RECORD_INDEX", "RECORD_LEVEL_INDEX", "STATE",
)  # fmt: skip
#: Engines, and the kinds that they have.
ENGINES: Final = {
    "local": tuple(kind for kind in KINDS if kind != "STATE"),
    "spark": KINDS,
    "hudi": ("BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "BUCKET", "RECORD_INDEX"),
}
TITLES: Final = {"local": "lakeindex local", "spark": "lakeindex spark", "hudi": "hudi 1.2.0"}
PEERS: Final = {f"{engine}-{kind}": f"{TITLES[engine]} {kind}" for engine, kinds in ENGINES.items() for kind in kinds}
_SLOW: Final = "hudi-GLOBAL_SIMPLE"
"""Takes a minute or two and is timed once."""
_BUCKETS: Final = "2"


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


@dataclass(frozen=True)
class Look:
    """One look-up by lakeindex.

    Attributes:
        seconds: of stages 2 to 4: the exact position of each key in its file.
        located: of stage 2 alone: under a stored index, the file group of each key, as Hudi's tagLocation gives it.
    """

    seconds: float
    located: float
    found: int


def look_up(table: Path, kind: str, keys: Path, runs: Path, runner: Runner | None = None) -> Look:
    """Stages 2 to 4, on a table that has what the kind stores; ``runs`` is where run folders are made and removed."""
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
        self._table = folder / "plain"
        self._buckets = folder / "buckets"
        LakeIndexLocal(sync=False).load(wanted, self._table)
        self._runner: Runner = LocalRunner()
        if runner == "spark":
            from lakeindex.runners.spark import SparkRunner
            from lakeindex.runners.spark_session import spark_session

            session = spark_session("local[2]")
            session.sparkContext.setLogLevel("ERROR")
            self._runner = SparkRunner(session)

    def prepare(self, kind: str) -> None:
        import lakeindex
        from lakeindex.model import IndexType

        if kind == "BUCKET":
            shutil.copytree(self._table, self._buckets)
            options = {"hoodie.bucket.index.num.buckets": _BUCKETS}
            lakeindex.open_table(str(self._buckets)).index_migrate("BUCKET", options=options)
        elif IndexType(kind).is_stored and kind != "INMEMORY":
            lakeindex.open_table(str(self._table)).index_build(kind, runner=self._runner)

    def look_up(self, kind: str, keys: Path) -> tuple[float, int]:
        table = self._buckets if kind == "BUCKET" else self._table
        done = look_up(table, kind, keys, self._folder / "runs", self._runner)
        return done.seconds, done.found

    def close(self) -> None:
        """The session ends with the process."""


class Hudis:
    """Hudi 1.2.0, on tables that it loaded."""

    def __init__(self, wanted: Workload, folder: Path) -> None:
        self._wanted, self._folder = wanted, folder
        self._tag = HudiTag()
        self._server = self._tag.server

    def _options(self, kind: str) -> dict[str, str]:
        more = {
            "BUCKET": {"hoodie.bucket.index.num.buckets": _BUCKETS},
            "RECORD_INDEX": hudi.RECORD | {"hoodie.metadata.enable": "true"},
        }
        return hudi.OPTIONS | hudi.VERSION_6 | {"hoodie.index.type": kind} | more.get(kind, {})

    def _table(self, kind: str) -> Path:
        return self._folder / f"hudi-{kind if kind in ('BUCKET', 'RECORD_INDEX') else 'plain'}"

    def prepare(self, kind: str) -> None:
        table = self._table(kind)
        if table.exists():
            return
        for key in ("maxPartitionBytes", "openCostInBytes"):
            self._server.sql(f"set spark.sql.files.{key}=64m")
        options = self._options(kind) | hudi.BULK
        source = str(self._wanted.folder / "base")
        self._server.call("write", 3600, path=str(table), input=source, mode="overwrite", options=options)

    def look_up(self, kind: str, keys: Path) -> tuple[float, int]:
        return self._tag.look_up(self._table(kind), self._options(kind), keys)

    def close(self) -> None:
        self._tag.close()


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """Each engine in a process of its own."""
    kinds = {engine: [kind for kind in ENGINES[engine] if f"{engine}-{kind}" in peers] for engine in ENGINES}
    return [
        timing for engine in ENGINES if kinds[engine] for timing in apart(_timings, name, engine, kinds[engine], runs)
    ]


def _timings(name: str, engine: str, kinds: Sequence[str], runs: int) -> list[Timing]:
    """All timings of one engine, in this process."""
    wanted, folder = workload(name), DATA / "tables" / f"index_lookup_{name}_{engine}"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    try:
        keys = {count: folder / f"keys-{count}.parquet" for count in SIZES if count <= wanted.base_rows}
        for count, path in keys.items():
            pq.write_table(keys_of(wanted, count), path)
        with closing(Hudis(wanted, folder) if engine == "hudi" else Ours(wanted, folder, engine)) as looker:
            return [timing for kind in kinds for timing in _of_kind(looker, name, f"{engine}-{kind}", keys, runs)]
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _of_kind(looker: Ours | Hudis, name: str, peer: str, keys: dict[int, Path], runs: int) -> Iterator[Timing]:
    kind = peer.partition("-")[2]
    found = {count: Timing(name, peer, PEERS[peer], facts={"keys": f"{count:,}"}) for count in keys}
    try:
        looker.prepare(kind)
    except Exception as error:  # noqa: BLE001 - an index that cannot be built is a result, the others go on
        for timing in found.values():
            timing.fail(error)
    for count, timing in found.items():

        def once(timing: Timing = timing, path: Path = keys[count]) -> Usage:
            seconds, rows = looker.look_up(kind, path)
            timing.facts["found"] = f"{rows:,}"
            return Usage(seconds=seconds)

        timings.repeat(timing, 1 if peer == _SLOW else runs, once)
        yield timing


def table(done: Measurement, name: str) -> str:
    """One workload as Markdown: medians, and Hudi's seconds over ours in brackets."""
    mine = [one for one in done.timings if one.workload == name]
    at = {(one.peer, one.facts["keys"]): one.median for one in mine if one.seconds}
    sizes = list(dict.fromkeys(one.facts["keys"] for one in mine))
    runs = max(len(one.seconds) for one in mine)
    rows = []
    for kind in KINDS:
        row = [kind]
        for size in sizes:
            theirs = at.get((f"hudi-{kind}", size))
            for engine in ("local", "spark"):
                ours = at.get((f"{engine}-{kind}", size))
                ratio = f" ({theirs / ours:.1f} x)" if ours and theirs else ""
                row.append(f"{ours:.2f}{ratio}" if ours else "")
            row.append(f"{theirs:.2f}" if theirs else "")
        rows.append(row)
    failed = [f"- {one.title} {one.facts['keys']}: {one.failed}" for one in mine if one.failed]
    columns = ["index", *(f"{engine} {size}" for size in sizes for engine in ("local", "Spark", "Hudi"))]
    about = f"**{name}**, {runs} runs each. {done.machine}. {done.started}."
    return "\n".join([about, "", grid(columns, rows), "", *failed])


def update() -> None:
    """The page and its pictures, from what is saved."""
    done = timings.load("index_lookup")
    if done is None:
        return
    parts = []
    for name in dict.fromkeys(one.workload for one in done.timings):
        mine = [one for one in done.timings if one.workload == name]
        picture = f"images/index_lookup_{name}.svg"
        plots.look_ups(mine, TITLES, KINDS, PAGE.parent / picture)
        parts += [table(done, name), f"![{name}]({picture})"]
    update_page(parts, PAGE, BEGIN)


PART: Final = Part(
    "index_lookup", "the look-up alone, every index type beside Hudi's", names(), ["M_mono", "M_uuid"], PEERS, measure,
    update=update,
)  # fmt: skip

if __name__ == "__main__":
    raise SystemExit(PART.main())
