"""How tasks and jobs end, and who hears of it."""

import json
import time
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.errors import (
    InvariantError,
    LakeIndexError,
    StorageError,
    TableNotFoundError,
    WriteConflictError,
    described,
)
from lakeindex.pipeline import Stage
from lakeindex.report.progress import run_outcome
from lakeindex.run.run_folders import roster_of
from lakeindex.run.spec import RunSpec
from lakeindex.runners import jobs
from lakeindex.runners.jobs import run_spec, run_stage_job
from lakeindex.runners.spark_session import JobSession
from lakeindex.storage import open_storage
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table


def odd_ones_fail(number: int) -> int:
    if number % 2:
        raise StorageError(f"task {number} cannot read", culprit=f"file {number}")
    return number


@pytest.mark.parametrize("slots", [1, 2, 4])
@pytest.mark.parametrize("tasks", [[3], [0, 2, 3, 4], [1, 0], [0, 0, 0, 0, 0, 0, 5]])
def test_the_first_failure_of_a_map_is_raised(slots: int, tasks: list[int]):
    first = next(number for number in tasks if number % 2)
    with pytest.raises(StorageError, match=f"task {first} cannot read"):
        LocalRunner(slots).map(odd_ones_fail, tasks, "read")
    assert LocalRunner(slots).map(odd_ones_fail, [0, 2, 4], "read") == [0, 2, 4]


@pytest.mark.parametrize(
    ("error", "code", "transient"),
    [
        (StorageError("the store does not answer"), 1, True),
        (WriteConflictError("another writer"), 5, True),
        (TableNotFoundError("no table"), 4, False),
        (InvariantError("rows lost"), 6, False),
        (MemoryError("no room"), 1, True),
    ],
)
def test_a_job_says_whether_it_helps_to_try_again(error: Exception, code: int, transient: bool):
    said = described(error)
    assert (said["exit_code"], said["transient"]) == (code, transient)
    assert (error.message if isinstance(error, LakeIndexError) else str(error)) in str(said["message"])


def test_an_option_may_hold_an_equals_sign():
    spec = run_spec(
        inputs=("in",),
        operation="UPSERT",
        options=("b=x=y", "a=1"),
        table_uri="t",
        checkpoints_uri="r",
        run_id="r",
        batch_id="b",
    )
    assert spec.options == (("a", "1"), ("b", "x=y"))


def job_of(table: str, root: Path, run: str = "r") -> RunSpec:
    return run_spec(
        inputs=("nowhere.parquet",),
        operation="UPSERT",
        options=(),
        table_uri=table,
        checkpoints_uri=str(root),
        run_id=run,
        batch_id="b",
    )


def files_in(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*")}


@pytest.mark.parametrize("stage", [None, Stage.STAGE_INPUT, Stage.VERIFY_KEYS, Stage.MERGE_WRITE])
def test_nothing_is_written_into_a_refused_root(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], stage: Stage | None
):
    table, other = make_table(tmp_path / "t"), make_table(tmp_path / "lake" / "zone" / "other")
    for root in (Path(other.uri), tmp_path / "lake"):
        before = files_in(root)
        assert run_stage_job(stage, job_of(table.uri, root)) != 0
        assert files_in(root) == before
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["message"]


def test_a_job_leaves_nothing_in_another_tables_run(tmp_path: Path):
    table, other = make_table(tmp_path / "t"), make_table(tmp_path / "other")
    root = tmp_path / "runs"
    other.upsert(batch_of([Row("k", "d", 1, "v")]), checkpoints=str(root), run_id="r")
    before = files_in(root)
    assert run_stage_job(Stage.STAGE_INPUT, job_of(table.uri, root)) == 2
    assert files_in(root) == before


def test_what_failed_is_left_where_runs_may_be(tmp_path: Path):
    table = make_table(tmp_path / "t")
    assert run_stage_job(Stage.STAGE_INPUT, job_of(table.uri, tmp_path / "runs")) == 3
    left = json.loads((tmp_path / "runs" / "r" / "stage_input.error.json").read_text())
    assert (left["error"], left["exit_code"]) == ("InputError", 3)


def test_a_session_that_does_not_stop_fails_no_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    class Stuck(JobSession):
        def stop(self) -> None:
            raise ConnectionError("the JVM is gone")

    monkeypatch.setattr(jobs, "JobSession", Stuck)
    table = make_table(tmp_path / "t")
    pq.write_table(batch_of([Row("k", "d", 1, "v")]), tmp_path / "in.parquet")
    spec = replace(job_of(table.uri, tmp_path / "runs"), inputs=(str(tmp_path / "in.parquet"),))
    assert run_stage_job(None, spec) == 0
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1])["inserts"] == 1
    assert "the JVM is gone" in said.err


def test_a_late_job_that_fails_leaves_a_finished_run_finished(tmp_path: Path):
    """Of a try that was given up, and that finds itself fenced when another has committed."""
    table, root = make_table(tmp_path / "t", hoodie__index__type="SIMPLE"), tmp_path / "runs"
    table.upsert(batch_of([Row("k", "d", 1, "v")]), checkpoints=str(root), run_id="r")
    known = roster_of(open_storage(str(root)), table.uri)
    marker = (root / "r" / "run.json").stat().st_mtime_ns
    assert run_stage_job(Stage.BLOOM_CHECK, job_of(table.uri, root), local=True) == 2
    assert json.loads((root / "r" / "bloom_check.error.json").read_text())["error"] == "UsageError"
    assert (root / "r" / "run.json").stat().st_mtime_ns == marker
    assert [one.run_id for one in known] == ["r"]
    assert roster_of(open_storage(str(root)), table.uri) == known
    assert run_outcome(str(root), "r").startswith("committed ")


def test_tasks_behind_a_failure_are_not_begun():
    begun: list[int] = []

    def work(number: int) -> None:
        begun.append(number)
        if not number:
            raise StorageError("the first cannot read")
        time.sleep(0.01)

    with pytest.raises(StorageError, match="the first"):
        LocalRunner(2).map(work, range(300), "read")
    assert len(begun) < 300


@pytest.mark.parametrize("stages", [(None,), tuple(Stage)], ids=["one job", "five jobs"])
def test_jobs_delete_the_folders_of_older_runs(tmp_path: Path, stages: tuple[Stage | None, ...]):
    table, root = make_table(tmp_path / "t"), tmp_path / "runs"
    pq.write_table(batch_of([Row("k", "d", 1, "v")]), tmp_path / "in.parquet")
    keep, inputs = (("lakeindex.checkpoint.keep.runs", "1"),), (str(tmp_path / "in.parquet"),)
    for run in ("first", "second"):
        spec = replace(job_of(table.uri, root, run), batch_id=run, inputs=inputs, options=keep)
        assert [run_stage_job(stage, spec, local=True) for stage in stages] == [0] * len(stages)
    assert {path.name for path in root.iterdir()} == {"_runs", "second"}


def test_an_error_that_is_none_of_ours_is_told_by_file_and_exit_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(jobs, "run_batch", lambda *_: 1 // 0)
    table = make_table(tmp_path / "t")
    assert run_stage_job(None, job_of(table.uri, tmp_path / "runs"), local=True) == 1
    left = json.loads((tmp_path / "runs" / "r" / "upsert.error.json").read_text())
    assert (left["error"], left["exit_code"], left["transient"]) == ("ZeroDivisionError", 1, True)
    said = capsys.readouterr()
    assert json.loads(said.out.splitlines()[-1]) == left
    assert "1 // 0" in said.err
