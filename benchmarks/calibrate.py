"""Measure the constants of the adviser's cost model on this machine:
``python -m benchmarks.calibrate [--write] [--quick]``.

Real upserts run on generated tables (keys that grow and random keys, few and many files, small and large batches,
cached and uncached footers) with index types that narrow by range, join, and compute. The seconds of their
look-up stages are fitted by the counts of the model, least squares of the relative error, no constant below zero.
It prints the constants, and how far the model is from each run if it knows only what the adviser knows. ``--write``
keeps the constants in ``lakeindex/index/cost_constants.py``.
"""

from __future__ import annotations

import argparse
import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import asdict, replace

from benchmarks.measuring import machine_line
from lakeindex.api.table import LakeTable
from lakeindex.files.footer_cache import CACHE_FOLDER
from lakeindex.index import cost_constants
from lakeindex.index.cost import FILTER_BYTES_A_ROW, CostConstants, LookupLoad, cost_of
from lakeindex.model import IndexType
from lakeindex.options.parse import parse_create_options
from lakeindex.pipeline import Stage, default_checkpoints
from lakeindex.run.checkpoints import RunFolder
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.stages.merge_write.stage import load_of
from lakeindex.storage import open_storage
from lakeindex.table.create import CreateSpec, create_table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.types.avro_schema import schema_to_avro

TARGET: Final = Path(cost_constants.__file__)
_ROW_BYTES: Final = 100
_TRIES: Final = 2
"""The quickest of so many counts: what else runs on the machine does not."""
_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("ts", pa.int64()), ("n", pa.int64()), ("note", pa.string())]
)
#: columns of the fit, in the order of a design row
_FITTED: Final = (
    *("stage", "file_in_scope", "footer", "key_located", "entry_read", "filter", "filter_byte", "pair_probed"),
    *("file_opened", "row_matched", "pair_verified"),
)

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A table to measure on."""

    index: str
    keys: str
    rows: int
    files: int


@dataclass(frozen=True)
class Run:
    """One measured run: what the model knows of it, what happened."""

    case: Case
    batch_rows: int
    known: LookupLoad
    happened: LookupLoad
    summary: RunSummary

    def stage(self, name: Stage) -> StageSummary | None:
        return next((one for one in self.summary.stages if one.name == name), None)

    @property
    def actual(self) -> float:
        """Seconds of the look-up stages."""
        assert self.summary.estimate is not None  # every run here looks something up
        return self.summary.estimate.actual_seconds


def _cases(*, quick: bool) -> list[Case]:
    rows, many = (20_000, 8) if quick else (400_000, 48)
    return [
        Case(index, keys, rows, files)
        for index in ("BLOOM", "SIMPLE", "BUCKET", "RECORD_LEVEL_INDEX")
        for keys in ("growing", "random")
        for files in (6, many)
    ]


def keys_of(case: Case) -> pa.Array:
    numbers = np.arange(case.rows, dtype=np.int64)
    if case.keys == "random":
        numbers = _scattered(numbers)
    return pc.binary_join_element_wise("k", pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), 16, "0"), "-")


def _scattered(numbers: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Distinct numbers without an order: a bijection on 40 bits."""
    mask = np.int64(2**40 - 1)
    return (numbers * np.int64(0x9E3779B97) + np.int64(12345)) & mask


def rows_of(keys: pa.Array, ts: int) -> pa.Table:
    n = len(keys)
    numbers = np.random.default_rng(n + ts).integers(0, 10**6, n)
    note = pc.binary_join_element_wise("some note of row", pc.cast(pa.array(numbers * 7919), pa.string()), " ")
    return pa.table([keys, pa.array(np.full(n, ts, np.int64)), pa.array(numbers), note], schema=_SCHEMA)


def make_table(case: Case, folder: Path) -> LakeTable:
    options = {"hoodie.index.type": case.index}
    if case.index == "BUCKET":
        options["hoodie.bucket.index.num.buckets"] = str(case.files)
    spec = CreateSpec(
        "t", _SCHEMA.names, ("id",), (), ("ts",), parse_create_options(options), schema_to_avro(_SCHEMA, "t")
    )
    create_table(open_storage(str(folder)), spec)
    return LakeTable(str(folder))


def sizes_of(case: Case) -> dict[str, str]:
    return {
        "hoodie.parquet.max.file.size": str(case.rows // case.files * _ROW_BYTES),
        "hoodie.copyonwrite.record.size.estimate": str(_ROW_BYTES),
        "hoodie.parquet.small.file.limit": "0",
    }


def _measure(case: Case, folder: Path, *, quick: bool) -> Iterator[Run]:
    table = make_table(case, folder)
    keys = keys_of(case)
    table.upsert(rows_of(keys, 1), options=sizes_of(case))
    ts = 1
    for size in (50, 500) if quick else (50, 2_000, 40_000):
        for is_cached in (True, False):
            ts += 1
            picked = np.random.default_rng(ts).choice(case.rows, min(size, case.rows), replace=False)
            mine = keys.take(pa.array(picked))
            tries = []
            for number in range(1 if quick else _TRIES):
                if not is_cached:
                    shutil.rmtree(folder / CACHE_FOLDER, ignore_errors=True)
                # these come too late and rewrite nothing: the look-up is what is measured
                tries.append(_run(case, table, rows_of(mine, 0), ts * 10 + number))
            yield min(tries, key=lambda run: run.actual)
        yield _run(case, table, rows_of(mine, ts), ts)


def _run(case: Case, table: LakeTable, batch: pa.Table, number: int) -> Run:
    run_id = f"run-{number}"
    summary = table.upsert(batch, options=sizes_of(case), run_id=run_id, runner=LocalRunner())
    folder = RunFolder(open_storage(default_checkpoints(table.uri)), run_id)
    staged, lookup = folder.require_manifest(Stage.STAGE_INPUT), folder.require_manifest(Stage.INDEX_LOOKUP)
    known = load_of(IndexType(case.index), staged, lookup, summary.stages)
    verify = folder.require_manifest(Stage.VERIFY_KEYS)
    opened = float(known.files if case.index == "SIMPLE" else verify.counters["files"])
    share = opened / max(known.files_opened, 1e-9)
    happened = replace(
        known,
        files_opened=opened,
        rows_matched=known.rows_matched * share,
        key_bytes=known.key_bytes * share,
        pairs_verified=float(verify.counters["pairs_in"]),
    )
    return Run(case, batch.num_rows, known, happened, summary)


def _design(run: Run) -> Iterator[tuple[list[float], float]]:
    """Counts and seconds of each look-up stage of a run."""
    load = run.happened
    counts: dict[Stage, dict[str, float]] = {
        Stage.INDEX_LOOKUP: {
            "file_in_scope": load.files, "footer": load.footers_read,
            "key_located": load.keys_located, "entry_read": load.entries_read,
        },
        Stage.BLOOM_CHECK: {
            "filter": load.filters, "filter_byte": load.filter_rows * FILTER_BYTES_A_ROW,
            "pair_probed": load.pairs_probed,
        },
        Stage.VERIFY_KEYS: {
            "file_opened": load.files_opened, "row_matched": load.rows_matched, "pair_verified": load.pairs_verified,
        },
    }  # fmt: skip
    for name, found in counts.items():
        line = run.stage(name)
        if line is not None:
            yield [{"stage": 1.0, **found}.get(column, 0.0) for column in _FITTED], line.seconds


def _fit(runs: Sequence[Run]) -> CostConstants:
    rows = [pair for run in runs for pair in _design(run)]
    counts, seconds = np.array([r[0] for r in rows]), np.array([r[1] for r in rows])
    fitted = dict(zip(_FITTED, non_negative(counts / seconds[:, None], np.ones(len(seconds))).tolist(), strict=True))
    writes = [
        (line.seconds, run.summary.bytes_written)
        for run in runs
        if (line := run.stage(Stage.MERGE_WRITE)) and run.summary.bytes_written
    ]
    opened = [(line, run) for run in runs if (line := run.stage(Stage.VERIFY_KEYS)) and run.happened.files_opened]
    key_shares = [
        (line.bytes_read - run.happened.files_opened * run.happened.footer_bytes / max(run.happened.files_opened, 1))
        / (run.happened.key_bytes / cost_constants.CONSTANTS.key_share)
        for line, run in opened
    ]
    return CostConstants(
        **fitted,
        request=_seconds_of_a_request(),
        byte_rewritten=statistics.median(s / b for s, b in writes)
        if writes
        else cost_constants.CONSTANTS.byte_rewritten,
        requests_a_file=round(statistics.median(line.requests / run.happened.files_opened for line, run in opened), 2),
        key_share=round(min(max(statistics.median(key_shares), 0.01), 1.0), 4),
    )


def non_negative(counts: Numbers, wanted: Numbers) -> Numbers:
    """Least squares without negative results: the worst is dropped until there is none."""
    left = [i for i in range(counts.shape[1]) if counts[:, i].any()]
    result = np.zeros(counts.shape[1])
    while left:
        scale = np.abs(counts[:, left]).max(axis=0)
        solved, *_ = np.linalg.lstsq(counts[:, left] / scale, wanted, rcond=None)
        if (solved >= 0).all():
            result[left] = solved / scale
            return result
        left.pop(int(np.argmin(solved)))
    return result


def _seconds_of_a_request() -> float:
    with tempfile.TemporaryDirectory() as folder:
        store = open_storage(folder)
        store.create("a", b"x" * 1000)
        start = time.perf_counter()
        for _ in range(300):
            store.read_range("a", 10, 10)
        return (time.perf_counter() - start) / 300


def _error(run: Run, constants: CostConstants) -> tuple[float, float]:
    """Estimated seconds with what the adviser knows, and the relative error."""
    has_filters = run.stage(Stage.BLOOM_CHECK) is not None
    known = replace(run.known, key_bytes=run.known.key_bytes * constants.key_share / cost_constants.CONSTANTS.key_share)
    said = cost_of(known, constants, has_filters=has_filters).seconds
    return said, abs(said - run.actual) / run.actual


def _source(constants: CostConstants, error: float, runs: int) -> str:
    values = "\n".join(f"    {name}={getattr(constants, name):.4g}," for name in constants.__struct_fields__)
    return f'''"""Constants of the cost model. Written by ``python -m benchmarks.calibrate --write``; do not edit."""

from __future__ import annotations

from typing import Final

from lakeindex.index.cost import CostConstants

MEASURED_ON: Final = (
    "{machine_line()}, "
    "{LocalRunner().slots} tasks at once, local disk, {runs} runs"
)
MEAN_ERROR: Final = {error:.4g}
"""Mean of |estimate - actual| / actual over the runs that the constants were fitted to."""

CONSTANTS: Final = CostConstants(
{values}
)
'''


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--write", action="store_true", help="keep the constants")
    parser.add_argument("--quick", action="store_true", help="seconds: does it work?")
    given = parser.parse_args()
    runs: list[Run] = []
    for number, case in enumerate(_cases(quick=given.quick)):
        with tempfile.TemporaryDirectory() as folder:
            measured = list(_measure(case, Path(folder) / "t", quick=given.quick))
        runs += measured[0 if number else 1 :]  # the first run of all loads what is compiled
    constants = _fit(runs)
    print(f"{'index':8} {'keys':8} {'files':>5} {'batch':>7} {'actual s':>9} {'model s':>9} {'error':>7}")
    errors = []
    for run in runs:
        said, error = _error(run, constants)
        errors.append(error)
        case = run.case
        print(
            f"{case.index:8} {case.keys:8} {case.files:5} {run.batch_rows:7} {run.actual:9.4f} {said:9.4f} {error:7.1%}"
        )
    print(f"\nmean error {statistics.mean(errors):.1%}, median {statistics.median(errors):.1%} of {len(runs)} runs")
    for name, value in asdict(constants).items():
        print(f"  {name:16} {value:.4g}")
    if given.write:
        TARGET.write_text(_source(constants, statistics.mean(errors), len(runs)), encoding="utf-8")
        print(f"wrote {TARGET}")


if __name__ == "__main__":
    main()
