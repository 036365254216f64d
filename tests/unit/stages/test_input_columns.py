"""A run in one process copies no column that a file of the batch holds as it is stored, and uses none that changed."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.model import IndexType, Operation
from lakeindex.pipeline import Stage, stages_for
from lakeindex.run import chunks
from lakeindex.run.input_rows import InputChangedError
from lakeindex.run.spec import RunSpec
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import BoundedCache
from tests.builders import Row, batch_of, content_of, make_table, rows_of
from tests.meanwhile import Meanwhile
from tests.strategies import examples

WRITING = "merge write: rewrite"
SPLIT_ORDER = "lakeindex.stages.stage_input.stage._LEAST_BYTES"


class KilledError(BaseException):
    """The process is gone."""


class NothingHeld(BoundedCache[Any]):
    """Forgets at once."""

    def put(self, key: Hashable, value: Any, limit_bytes: int | None = None) -> None:
        pass


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were no room: what was staged is read where it lies."""
    monkeypatch.setattr(chunks, "chunk_bytes", lambda _: 0)
    forget(monkeypatch)


def forget(monkeypatch: pytest.MonkeyPatch) -> None:
    for cache in ("_decoded", "_files"):
        monkeypatch.setattr(chunks, cache, NothingHeld(0))


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return make_table(tmp_path / "t")


def batch_at(path: Path, value: str = "right", rows: int = 40, row_group_size: int | None = None) -> Path:
    pq.write_table(batch_of(Row(f"k{n:03d}", "d0", 5, value) for n in range(rows)), path, row_group_size=row_group_size)
    return path


def spec_of(table: LakeTable, batch: str, **more: Any) -> RunSpec:
    return RunSpec(table.uri, f"{table.uri}.lakeindex", "r", "b", Operation.UPSERT, (batch,), **more)


def staged_names(table: LakeTable) -> list[set[str]]:
    files = Path(f"{table.uri}.lakeindex").glob("*/stage_input/*/staged/*.parquet")
    return [set(pq.read_schema(file).names) for file in files]


def values(table: LakeTable) -> set[str]:
    return {row["v"] for row in rows_of(table)}


def test_columns_of_the_input_are_not_copied(table: LakeTable, tmp_path: Path):
    table.upsert(str(batch_at(tmp_path / "in.parquet")), options={"lakeindex.chunk.rows": "7"})
    (names,) = staged_names(table)
    assert names & {"id", "ts", "v", "_li_key"} == set()
    assert "_li_op" in names
    assert sorted(row["id"] for row in rows_of(table)) == [f"k{n:03d}" for n in range(40)]


@settings(max_examples=examples(30), deadline=None)
@given(
    keys=st.lists(st.integers(0, 30), min_size=1, max_size=40),
    in_order=st.booleans(),
    bad=st.booleans(),
    group=st.integers(1, 50),
    chunk=st.integers(1, 50),
)
@pytest.mark.few(0)
def test_a_batch_that_is_named_is_that_which_is_copied(
    tmp_path_factory: pytest.TempPathFactory, keys: list[int], in_order: bool, bad: bool, group: int, chunk: int
):
    folder = tmp_path_factory.mktemp("x")
    rows = [Row(f"k{n:02d}", f"d{n % 2}", i % 5, f"v{i}") for i, n in enumerate(sorted(keys) if in_order else keys)]
    batch = batch_of(rows)
    if bad:
        batch = pa.concat_tables([batch, batch.slice(0, 1).set_column(0, "id", pa.array([None], pa.string()))])
    pq.write_table(batch, folder / "in.parquet", row_group_size=group)
    said = []
    for name, given_as in (("named", str(folder / "in.parquet")), ("copied", batch)):
        made = make_table(folder / name)
        summary = made.upsert(given_as, max_quarantined=1, options={"lakeindex.chunk.rows": str(chunk)})
        said.append((content_of(made), summary.inserts, summary.combined, summary.quarantined))
    assert said[0] == said[1]
    shutil.rmtree(folder)


def test_moments_of_96_bits_that_are_not_copied_are_the_same_when_they_are_read_again(tmp_path: Path):
    """Years that nanoseconds do not reach: which row wins, and what is stored."""
    times = [dt.datetime(year, 1, 2, tzinfo=dt.UTC) for year in (2300, 9999, 1500)]
    rows = pa.table({"id": list("abc"), "at": pa.array(times, pa.timestamp("us", "UTC")), "v": ["new"] * 3})
    local = rows.set_column(1, "at", rows.column("at").cast(pa.timestamp("us")))
    table = lakeindex.create_table(str(tmp_path / "t"), rows.schema, key="id", ordering="at")
    before = pa.array([dt.datetime(2000, 1, 1, tzinfo=dt.UTC)] * 3, rows.schema.field("at").type)
    stored = rows.set_column(1, "at", before).set_column(2, "v", [["old"] * 3])
    table.upsert(stored)
    for number, expected in enumerate([*rows.slice(0, 2).to_pylist(), *stored.slice(2).to_pylist()]):
        path = tmp_path / f"{number}.parquet"
        pq.write_table(local.slice(number, 1), path, use_deprecated_int96_timestamps=True, store_schema=False)
        table.upsert(str(path))
        assert table.scan().to_arrow().sort_by("id").to_pylist()[number] == expected
    assert set.intersection(*staged_names(table)) & {"at", "v"} == set()


def test_a_column_of_another_type_is_copied(table: LakeTable, tmp_path: Path):
    rows = batch_of(Row(f"k{n}", "d0", n, "v") for n in range(9))
    narrow = rows.set_column(rows.schema.get_field_index("ts"), "ts", rows.column("ts").cast(pa.int32()))
    pq.write_table(narrow, tmp_path / "in.parquet")
    table.upsert(str(tmp_path / "in.parquet"))
    (names,) = staged_names(table)
    assert names & {"id", "ts", "v"} == {"ts"}
    assert sorted(row["ts"] for row in rows_of(table)) == list(range(9))


@pytest.mark.parametrize("title", ["index lookup", "verify", WRITING])
def test_input_that_changes_between_stages_is_told_and_nothing_is_written(table: LakeTable, tmp_path: Path, title: str):
    """A run is known by what its input was: other rows are the batch of another one."""
    table.upsert(batch_of([Row("k001", "d0", 1, "old")]))
    path = batch_at(tmp_path / "in.parquet")
    runner = Meanwhile(title, lambda: batch_at(path, "other", rows=50) and None)
    with pytest.raises(InputChangedError, match=r"in.parquet.*has changed"):
        run_batch(spec_of(table, str(path)), runner)
    assert runner.done
    assert values(table) == {"old"}
    run_batch(spec_of(table, str(path)), LocalRunner(1))
    assert values(table) == {"other"}
    assert len(rows_of(table)) == 50


def test_input_that_changes_unseen_is_read_anew_by_the_next_run(table: LakeTable, tmp_path: Path):
    """Of the same size and time, as a copy may be."""
    path = batch_at(tmp_path / "in.parquet")
    at = path.stat()

    def change() -> None:
        batch_at(path, "wrong")
        assert path.stat().st_size == at.st_size
        os.utime(path, ns=(at.st_atime_ns, at.st_mtime_ns))

    spec = spec_of(table, str(path))
    with pytest.raises(InputChangedError, match="has changed"):
        run_batch(spec, Meanwhile(WRITING, change))
    run_batch(spec, LocalRunner(1))
    assert values(table) == {"wrong"}


def test_input_that_goes_between_stages_is_told_and_nothing_is_written(table: LakeTable, tmp_path: Path):
    path = batch_at(tmp_path / "in.parquet")
    with pytest.raises(InputChangedError, match="is gone"):
        run_batch(spec_of(table, str(path)), Meanwhile(WRITING, path.unlink))
    assert not rows_of(table)
    batch_at(path)
    run_batch(spec_of(table, str(path)), LocalRunner(1))
    assert values(table) == {"right"}


def killed(table: LakeTable, path: Path) -> RunSpec:
    def kill() -> None:
        raise KilledError

    spec = spec_of(table, str(path))
    with pytest.raises(KilledError):
        run_batch(spec, Meanwhile(WRITING, kill))
    assert any("id" not in names for names in staged_names(table))
    return spec


def test_a_killed_run_is_gone_on_with(table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    spec = killed(table, batch_at(tmp_path / "in.parquet"))
    forget(monkeypatch)
    summary = run_batch(spec, LocalRunner(1))
    assert summary.stages[0].reused
    assert values(table) == {"right"}


@pytest.mark.parametrize("input_is", ["there", "changed", "gone"])
def test_single_jobs_go_on_with_a_killed_run(
    table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, input_is: str
):
    path = batch_at(tmp_path / "in.parquet")
    spec = killed(table, path)
    forget(monkeypatch)
    if input_is == "changed":
        batch_at(path, "other")
    if input_is == "gone":
        path.unlink()
    if input_is == "there":
        run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
        assert values(table) == {"right"}
        return
    why = "has changed" if input_is == "changed" else "is gone"
    with pytest.raises(InputChangedError, match=f"in.parquet.*{why}") as caught:
        run_stage(Stage.MERGE_WRITE, spec, LocalRunner(1))
    assert caught.value.exit_code == 3
    assert not rows_of(table)
    if input_is == "changed":
        for stage in stages_for(IndexType.BLOOM):
            run_stage(stage, spec, LocalRunner(1))
        assert values(table) == {"other"}


def test_jobs_copy_what_they_hand_on(table: LakeTable, tmp_path: Path):
    run_stage(Stage.STAGE_INPUT, spec_of(table, str(batch_at(tmp_path / "in.parquet"))), LocalRunner(1))
    (names,) = staged_names(table)
    assert {"id", "ts", "v"} <= names


def test_several_files_in_the_order_of_their_keys(table: LakeTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(SPLIT_ORDER, 1)
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        rows = [Row(f"k{number}{n:02d}", f"d{number}", 1, f"{number}-{n}") for n in range(20)]
        pq.write_table(batch_of(rows), folder / f"{2 - number}.parquet", row_group_size=6)
    table.upsert(str(folder), options={"lakeindex.chunk.rows": "4"})
    assert all("id" not in names for names in staged_names(table))
    written = [(row["id"], row["day"], row["v"]) for row in rows_of(table)]
    assert sorted(written) == [(f"k{i}{n:02d}", f"d{i}", f"{i}-{n}") for i in range(3) for n in range(20)]


def test_input_on_a_store(table: LakeTable, tmp_path: Path, s3_bucket: str):
    s3 = boto3.client("s3")
    s3.put_object(Bucket=s3_bucket, Key="in/in.parquet", Body=batch_at(tmp_path / "in.parquet").read_bytes())
    other = batch_at(tmp_path / "other.parquet", "other", rows=50).read_bytes()

    def uploaded_again() -> None:
        s3.put_object(Bucket=s3_bucket, Key="in/in.parquet", Body=other)

    spec = spec_of(table, f"s3://{s3_bucket}/in/in.parquet")
    with pytest.raises(InputChangedError, match=r"in/in.parquet.*has changed"):
        run_batch(spec, Meanwhile(WRITING, uploaded_again))
    assert all("id" not in names for names in staged_names(table))
    assert not rows_of(table)
    run_batch(spec, LocalRunner(1))
    assert values(table) == {"other"}
    assert len(rows_of(table)) == 50
