"""A clustering whose tasks run on Spark's executors: the files that threads make, byte by byte."""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import LakeIndexError, StorageError
from lakeindex.operations.cluster_run import ClusterSummary
from lakeindex.operations.rewrite_run import BuildTask, SplitTask
from lakeindex.runners.spark import SparkRunner
from lakeindex.runners.spark_session import spark_session
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import memory_bound
from tests.builders import Row, batch_of, content_of, make_table

pytestmark = pytest.mark.spark
SLOTS = 2
APART, TOGETHER = 60_000, 1 << 30
"""Bytes that tasks may hold: of the first a group of files does not fit a task, and is taken apart before."""
OPTIONS = {"lakeindex.parquet.row.group.rows": "40", "lakeindex.spark.driver.bytes": "0"}


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    active = SparkSession.getActiveSession()
    if active is not None:
        active.stop()  # another test's, which tries nothing again
    made = spark_session("local[2,2]", "lakeindex tests")  # a task that fails is tried once more
    yield made
    made.stop()


def table_of_parts(folder: Path) -> LakeTable:
    table = make_table(folder / "t")
    for part in range(4):
        keys = [n * 7919 % 10007 for n in range(part * 300, part * 300 + 300)]
        rows = [Row(f"k{key:05d}", "xy"[key % 2], 1, str(key % 17)) for key in keys]
        small = {"hoodie.parquet.small.file.limit": "0", "hoodie.parquet.max.file.size": "8000"}
        table.upsert(batch_of(rows), options=small, runner=LocalRunner(1))
    return table


def copy_of(table: LakeTable, folder: Path) -> LakeTable:
    return lakeindex.open_table(shutil.copytree(table.uri, folder / "t"))


def files_of(table: LakeTable) -> dict[str, bytes]:
    """All base files, and the names of all that the table's own folders hold beside the timeline's commits."""
    found = [path for path in Path(table.uri).rglob("*") if path.is_file()]
    return {
        str(path.relative_to(table.uri)): path.read_bytes() if path.suffix == ".parquet" else b""
        for path in found
        if path.parent.name != "timeline" and not path.name.endswith(("commit", ".crc"))
    }


SORTS: list[dict[str, Any]] = [
    {"sort": "key"},
    {"sort": "columns", "columns": ["v", "ts"]},
    {"sort": "zorder", "columns": ["ts", "v"]},
]
CASES = [
    pytest.param(how, APART, id=how["sort"], marks=[pytest.mark.slow] if number else [])
    for number, how in enumerate(SORTS)
]
CASES += [pytest.param({"sort": "none"}, TOGETHER, id="none")]


class Faults(SparkRunner):
    """What its workers do with a task is put around the task's function."""

    def __init__(self, session: SparkSession, around: Callable[..., Any], folder: Path) -> None:
        super().__init__(session, SLOTS)
        self._around, self._folder = around, folder
        self.titles: list[str] = []

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        self.titles.append(title)
        return super().map(partial(self._around, str(self._folder), function), list(tasks), title)


def does(_: str, function: Callable[[Any], Any], task: Any) -> Any:
    return function(task)


def _kinds(task: Any) -> set[type]:
    return {type(one) for one in (task if isinstance(task, tuple) else (task,))}


def dies_once(folder: str, function: Callable[[Any], Any], task: Any) -> Any:
    """The worker is gone when the task has written all, before it says so; of a task of each kind."""
    done = function(task)
    for kind in _kinds(task):
        try:
            os.close(os.open(Path(folder) / kind.__name__, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            continue
        os._exit(1)
    return done


def cannot_build(_: str, function: Callable[[Any], Any], task: Any) -> Any:
    if BuildTask in _kinds(task):
        raise StorageError("the store is away", culprit="t", hint="wait")
    return function(task)


def cluster(table: LakeTable, bound: int, runner: Any, instant: str | None = None) -> ClusterSummary:
    with memory_bound(bound):
        return table.cluster(instant=instant, target_size=20_000, options=OPTIONS, runner=runner)


@pytest.mark.parametrize(("how", "bound"), CASES)
@pytest.mark.few(1)
def test_files_are_those_of_threads(session: SparkSession, tmp_path: Path, how: dict[str, Any], bound: int) -> None:
    here = table_of_parts(tmp_path)
    plan = here.cluster(schedule=True, target_size=20_000, **how)  # which both carry out
    there = copy_of(here, tmp_path / "copy")
    runner = Faults(session, does, tmp_path)
    one = cluster(here, bound, LocalRunner(SLOTS), plan.instant)
    two = cluster(there, bound, runner, plan.instant)
    assert (one.files_before, one.files_after) == (two.files_before, two.files_after)
    assert one.files_after > 2
    split = ["cluster: take base files apart"] if bound is APART else []
    assert runner.titles == ["cluster: sample rows", *split, "cluster: write the new base files"]
    assert files_of(there) == files_of(here)
    assert content_of(there) == content_of(here)
    assert there.check(deep=True).ok


@pytest.mark.few(0)
def test_a_worker_that_dies_is_replaced(session: SparkSession, tmp_path: Path) -> None:
    here = table_of_parts(tmp_path)
    plan = here.cluster(schedule=True, target_size=20_000)
    there, deaths = copy_of(here, tmp_path / "copy"), tmp_path / "deaths"
    deaths.mkdir()
    cluster(here, APART, LocalRunner(SLOTS), plan.instant)
    cluster(there, APART, Faults(session, dies_once, deaths), plan.instant)
    assert {path.name for path in deaths.iterdir()} >= {SplitTask.__name__, BuildTask.__name__}
    assert files_of(there) == files_of(here)


def test_what_spark_took_apart_is_built_by_threads(session: SparkSession, tmp_path: Path) -> None:
    table = table_of_parts(tmp_path)
    before = content_of(table)
    with pytest.raises(StorageError, match="the store is away"):
        cluster(table, APART, Faults(session, cannot_build, tmp_path))
    taken = list(Path(table.uri).rglob("split/*.json"))
    assert taken
    for path in taken:  # were they made again, the pieces would be there
        path.with_suffix(".arrow").rename(path.with_suffix(".moved"))
    with pytest.raises(LakeIndexError, match="arrow"):
        cluster(table, APART, LocalRunner(SLOTS))
    for path in taken:
        path.with_suffix(".moved").rename(path.with_suffix(".arrow"))
    assert cluster(table, APART, LocalRunner(SLOTS)).rows_after == len(before)
    assert content_of(table) == before
    assert table.check(deep=True).ok
    assert not list(Path(table.uri).rglob("split"))


@pytest.mark.parametrize("most", [0, 1 << 20])
def test_what_is_small_is_done_by_the_driver(session: SparkSession, tmp_path: Path, most: int) -> None:
    table, runner = table_of_parts(tmp_path), Faults(session, does, tmp_path)
    done = table.cluster(target_size=20_000, options={"lakeindex.spark.driver.bytes": str(most)}, runner=runner)
    assert done.files_after > 2
    assert (not runner.titles) == (most > done.bytes_before)
