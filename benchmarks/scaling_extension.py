"""The cost model extended to a table that is on no disk here: 10 TB, 10 billion rows, 100,000 files, 100 executors."""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass
from typing import Final

from benchmarks import scaling
from benchmarks.scaling_model import CHUNK_ROWS, COLUMNS, Constants, Counts, Load, counts_of, predicted
from benchmarks.timings import grid
from lakeindex.pipeline import Stage

_LIST_PAGE: Final = 1_000
_VERSIONS: Final = 3
"""Versions of a file that lie in its folder until a clean."""
_DRIVER_REQUESTS: Final = 16
"""Requests that the driver has under way at once when it commits."""
_TIMELINE_LISTINGS: Final = 14
_SPLIT_BYTES: Final = 64 * 2**20
_BUCKET_BYTES: Final = 256 * 2**20


@dataclass(frozen=True)
class Cluster:
    """Where it runs: an object store that answers in ``latency`` seconds, and gives each
    executor ``bandwidth`` bytes/s.
    """

    executors: int = 100
    cores: int = 4
    latency: float = 0.03
    bandwidth: float = 250e6
    task_seconds: float = 0.04
    waves: int = 3
    timeline_files: int = 300

    @property
    def slots(self) -> int:
        return self.executors * self.cores


@dataclass(frozen=True)
class Scenario:
    """A batch into the table.

    Attributes:
        files_a_chunk: files that a chunk's keys are compared with.
    """

    title: str
    load: Load
    files_a_chunk: float
    partitions: int


_FILES: Final = 100_000
_ROWS: Final = 1e10
_ROW_BYTES: Final = 1_000.0
_FILE_ROWS: Final = _ROWS / _FILES
_PARTITIONS: Final = 1_000
SCENARIOS: Final = (
    Scenario(
        "A feed: 10 million rows, 8 of them updates in the newest 1 % of the table, BLOOM",
        Load(1_000, _FILE_ROWS, 1e7, 8e6, 1_000, chunks=40, new_rows_a_file=_FILE_ROWS, row_bytes=_ROW_BYTES),
        files_a_chunk=100,
        partitions=10,
    ),
    Scenario(
        "Random keys: 10 million updates all over the table, BLOOM, partition known",
        Load(_FILES, _FILE_ROWS, 1e7, 1e7, _FILES, candidates=100, chunks=_PARTITIONS, row_bytes=_ROW_BYTES),
        files_a_chunk=100,
        partitions=_PARTITIONS,
    ),
    Scenario(
        "Erasure: 100,000 random keys, partition not known, GLOBAL_BLOOM",
        Load(_FILES, _FILE_ROWS, 1e5, 1e5, _FILES, candidates=_FILES, row_bytes=_ROW_BYTES),
        files_a_chunk=_FILES,
        partitions=_PARTITIONS,
    ),
)


@dataclass(frozen=True)
class Line:
    """What one stage is expected to cost."""

    stage: str
    bytes_read: float
    bytes_written: float
    gets: float
    comparisons: float
    driver_seconds: float
    seconds: float


def lines(scenario: Scenario, constants: Constants, cluster: Cluster) -> list[Line]:
    """Every stage of a scenario; a line for the commit, which the driver makes alone, is taken out of the last one."""
    counts = counts_of(scenario.load)
    found = [_stage(stage, counts[stage], scenario, constants, cluster) for stage in COLUMNS]
    return [*found, _commit(counts[Stage.MERGE_WRITE]["files written"], cluster)]


def _stage(stage: Stage, counts: Counts, scenario: Scenario, constants: Constants, cluster: Cluster) -> Line:
    load = scenario.load
    fixed = constants[stage]["seconds"]["run"]
    work = predicted(constants, stage, counts, "seconds") - fixed
    gets = predicted(constants, stage, counts, "requests")
    read = predicted(constants, stage, counts, "bytes_read")
    written = driver = 0.0
    if stage is Stage.STAGE_INPUT:
        whole = load.batch_rows * load.row_bytes
        gets += math.ceil(whole / _SPLIT_BYTES) * math.ceil(whole / _BUCKET_BYTES)
        written = whole * (2 if whole > _BUCKET_BYTES else 1)
    elif stage is Stage.INDEX_LOOKUP:
        pages = math.ceil(load.files / scenario.partitions * _VERSIONS / _LIST_PAGE)
        driver = _driver_seconds(load.files) + scenario.partitions * pages * cluster.latency / _DRIVER_REQUESTS
        gets += scenario.partitions * pages
        work = 0.0  # the driver's, and so counted there
    elif stage is Stage.MERGE_WRITE:
        written = counts["bytes of written files"]
    seconds = (
        fixed
        + driver
        + cluster.waves * cluster.task_seconds
        + (work + gets * cluster.latency) / cluster.slots
        + (read + written) / (cluster.executors * cluster.bandwidth)
    )
    return Line(stage, read, written, gets, _comparisons(stage, counts, scenario), driver, seconds)


def _comparisons(stage: Stage, counts: Counts, scenario: Scenario) -> float:
    if stage is Stage.INDEX_LOOKUP:
        rows = min(scenario.load.batch_rows / scenario.load.chunks, CHUNK_ROWS)
        return 2 * scenario.load.chunks * scenario.files_a_chunk * math.log2(max(rows, 2))
    if stage is Stage.BLOOM_CHECK:
        return counts["pairs probed"]
    return counts["rows in opened files"] if stage is Stage.VERIFY_KEYS else 0.0


def _driver_seconds(files: float) -> float:
    """What the driver takes for listing and footer facts, as measured at the largest number of files."""
    return sum(_a_file(step) for step in ("list every partition", "footer facts, read by a new process")) * files


def _commit(files: float, cluster: Cluster) -> Line:
    """HEAD, footer and sweep of every file, and the timeline again and again, by the driver alone."""
    pages = math.ceil(cluster.timeline_files / _LIST_PAGE)
    gets = 3 * files + _TIMELINE_LISTINGS * pages
    steps = ("merge plan, every file", "plan the commit, every file", "publish, every file")
    driver = sum(_a_file(step) for step in steps) * files
    driver += (3 * files / _DRIVER_REQUESTS + _TIMELINE_LISTINGS * pages) * cluster.latency
    return Line("plan and commit", 0.0, 2_500 * files, gets, 0.0, driver, driver)


def _a_file(step: str) -> float:
    ran = {files: figure for files, figure in scaling.load().steps[step].items() if not figure.skipped}
    return ran[max(ran)].seconds / max(ran)


def extension(constants: Constants, cluster: Cluster | None = None) -> str:
    where = cluster or Cluster()
    head = (
        f"10 TB, 10 billion rows, 100,000 files in 1,000 partitions; {where.executors} executors of {where.cores} "
        f"cores, {where.latency * 1000:.0f} ms a request, {where.bandwidth / 1e6:.0f} MB/s an executor, footers "
        f"cached, {where.timeline_files} files on the timeline. *driver* is that part of the seconds which one "
        "process spends alone."
    )
    columns = ["stage", "read", "written", "requests", "comparisons", "driver s", "seconds"]
    text = [head]
    for scenario in SCENARIOS:
        found = lines(scenario, constants, where)
        figures = [astuple(one)[1:] for one in found]
        stages = [one.stage if " " in one.stage else f"`{one.stage}`" for one in found]
        every = [*figures, map(sum, zip(*figures, strict=True))]
        rows = [(stage, *_cells(*one)) for stage, one in zip([*stages, "all"], every, strict=True)]
        text += ["", f"**{scenario.title}.**", "", grid(columns, rows)]
    return "\n".join(text)


def _cells(read: float, written: float, gets: float, comparisons: float, driver: float, seconds: float) -> list[str]:
    return [_bytes(read), _bytes(written), f"{gets:,.0f}", f"{comparisons:.1e}", f"{driver:,.1f}", f"{seconds:,.1f}"]


def _bytes(count: float) -> str:
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6)):
        if count >= size:
            return f"{count / size:,.1f} {unit}"
    return f"{count / 1e3:,.0f} kB"
