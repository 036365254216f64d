"""One batch, several doors and releases: names of runs, digests by algorithm, manifests and writers of other versions."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.airflow.dag_plan import make_plan
from lakeindex.airflow.tables import TableConf
from lakeindex.api.table import LakeTable
from lakeindex.commit.run_records import RunIdentity
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import BatchIdReusedError, TableUnsupportedError
from lakeindex.lock import write_context
from lakeindex.model import IndexType, Operation
from lakeindex.pipeline import Stage, run_id_of, stages_for
from lakeindex.run import checkpoints, chunks
from lakeindex.run.spec import RunSpec
from lakeindex.stages.stage_input import stage as stage_input
from lakeindex.storage import open_storage
from lakeindex.table.binding import this_release
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import BoundedCache
from tests.builders import Row, batch_of, content_of, rows_of
from tests.golden import table_of

BATCH = "dag/manual__2026-11-23T00:00:00+00:00/-1"
ROWS = [Row(f"k{n:02d}", f"d{n % 2}", 1, "v") for n in range(20)]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return table_of(tmp_path / "t", ROWS, "first")


@pytest.fixture
def batch(tmp_path: Path) -> Path:
    path = tmp_path / "batch.parquet"
    pq.write_table(batch_of([*(Row(r.id, r.day, 2, "w") for r in ROWS[:5]), Row("new", "d0", 2, "w")]), path)
    return path


def spec_of(table: LakeTable, batch: Path, run_id: str = "r") -> RunSpec:
    return RunSpec(table.uri, f"{table.uri}.lakeindex", run_id, BATCH, Operation.UPSERT, (str(batch),))


def own(table: LakeTable, path: str) -> Path:
    return Path(table.uri) / ".hoodie/.lakeindex" / path


def test_every_door_names_a_run_alike(tmp_path: Path, batch: Path):
    table = table_of.__wrapped__(tmp_path / "t", ROWS, "first")  # its run folder is looked at
    conf = TableConf(name="t", title="t", uri=table.uri, checkpoints=f"{table.uri}.lakeindex", inputs=(str(batch),))
    plan = make_plan(conf, {}, [str(batch)], batch_id=BATCH)
    assert plan.run_id == run_id_of(BATCH)
    spec = spec_of(table, batch, plan.run_id)
    run_stage(Stage.STAGE_INPUT, spec, LocalRunner(1))  # Airflow's first job, and nobody goes on
    summary = table.upsert(str(batch), batch_id=BATCH)
    assert summary.run_id == plan.run_id
    assert summary.stages[0].reused
    assert {path.name for path in Path(spec.checkpoints_uri).iterdir()} == {"_runs", run_id_of("first"), plan.run_id}


@pytest.mark.parametrize("stage", [Stage.INDEX_LOOKUP, Stage.MERGE_WRITE])
@pytest.mark.parametrize("version", [2, 99])
def test_a_job_does_stages_of_another_version_again(table: LakeTable, batch: Path, stage: Stage, version: int):
    spec = spec_of(table, batch)
    for done in stages_for(IndexType.BLOOM):
        if done is Stage.MERGE_WRITE:
            break
        run_stage(done, spec, LocalRunner(1))
    for path in (Path(spec.checkpoints_uri) / "r").glob("*.json"):
        found = json.loads(path.read_text())
        if "basis" in found:
            path.write_text(json.dumps({**found, "manifest_version": version, "of_another": "release"}))
    run_stage(stage, spec, LocalRunner(1))
    again = json.loads((Path(spec.checkpoints_uri) / "r" / "stage_input.json").read_text())
    assert again["manifest_version"] == checkpoints.MANIFEST_VERSION
    if stage is Stage.MERGE_WRITE:
        assert {row["v"] for row in rows_of(table) if row["id"] == "new"} == {"w"}


def entry_of(table: LakeTable, batch_id: str) -> Path:
    for path in own(table, "ledger").glob("*/*.json"):
        if json.loads(path.read_text())["batch_id"] == batch_id:
            return path
    raise AssertionError(batch_id)


def test_entries_name_their_algorithm_and_are_compared_by_it(table: LakeTable, batch: Path, tmp_path: Path):
    table.upsert(str(batch), batch_id="b")
    path = entry_of(table, "b")
    entry = json.loads(path.read_text())
    content, rows = entry["input_digest"].split(" ")
    assert (content.startswith("content-1:"), rows.startswith("rows-1:")) == (True, True)
    first = content.partition(":")[2]  # of files on this machine both algorithms say the same
    path.write_text(json.dumps({**entry, "input_digest": first}))
    assert table.upsert(str(batch), batch_id="b").noop
    other = tmp_path / "other.parquet"
    pq.write_table(batch_of(ROWS[:3]), other)
    with pytest.raises(BatchIdReusedError):
        table.upsert(str(other), batch_id="b")
    path.write_text(json.dumps({**entry, "input_digest": f"content-9:{first}"}))
    with pytest.raises(TableUnsupportedError, match="content-9"):
        table.upsert(str(batch), batch_id="b")


def test_a_digest_is_compared_by_its_algorithm_only():
    run = RunIdentity("r", "b", "content-1:aa", ("bb",))
    assert run.has_input("content-1:aa") is True
    assert run.has_input("content-1:bb") is False
    assert run.has_input("bb") is True
    assert run.has_input("aa") is False
    assert run.has_input("content-2:aa") is None


def test_the_release_that_writes_is_entered(table: LakeTable):
    found = json.loads(own(table, "writer.json").read_text())
    assert found == {"format": write_context.WRITER_FORMAT, "release": this_release()}
    own(table, "writer.json").write_text(json.dumps({"format": 0, "release": "lakeindex 0.0.1"}))
    table.upsert(batch_of(ROWS[:1]))
    assert json.loads(own(table, "writer.json").read_text()) == found


@pytest.mark.parametrize("torn", [b"", b'{"format": 1, "rel', b"[]"])
def test_a_torn_record_of_the_writer_needs_no_hand(table: LakeTable, torn: bytes):
    own(table, "writer.json").write_bytes(torn)
    table.upsert(batch_of(ROWS[:1]))
    assert json.loads(own(table, "writer.json").read_text())["format"] == write_context.WRITER_FORMAT


def test_an_older_release_beside_a_newer_one_is_refused(table: LakeTable):
    newer = {"format": write_context.WRITER_FORMAT + 1, "release": "lakeindex 9.0", "more": ["than", "we know"]}
    own(table, "writer.json").write_text(json.dumps(newer))
    before, commits = content_of(table), len(table.history())
    taken = table.history()[0].instant
    for write in (
        lambda: table.upsert(batch_of(ROWS[:1])),
        lambda: table.delete(batch_of(ROWS[:1])),
        lambda: table.clean(1),
        lambda: table.archive(20),
        lambda: table.rollback(taken),
        lambda: table.maintain(["settle"]),
        lambda: table.index_migrate("SIMPLE"),
    ):
        with pytest.raises(TableUnsupportedError, match=r"lakeindex 9\.0 wrote into the table in format 2") as refused:
            write()
        assert refused.value.exit_code == 4
    assert content_of(table) == before
    assert len(table.history()) == commits
    assert json.loads(own(table, "writer.json").read_text()) == newer
    assert table.read(meta=True).num_rows == len(before)


class Straggling(LocalRunner):
    """Does every task twice: the second time when the first was taken for good, and with other input."""

    def __init__(self, other_input: Callable[[str], AbstractContextManager[None]]) -> None:
        super().__init__(1)
        self._other_input = other_input

    def map(self, function: Any, tasks: Any, title: str) -> list[Any]:
        done = super().map(function, tasks, title)
        with self._other_input(title):
            super().map(function, tasks, title)
        return done


@pytest.mark.parametrize("scattered", [True, False])
def test_a_straggler_cannot_replace_what_another_try_staged(
    table: LakeTable, tmp_path: Path, scattered: bool, monkeypatch: pytest.MonkeyPatch
):
    inputs = tmp_path / "in"
    inputs.mkdir()
    for number in range(2 if scattered else 1):
        pq.write_table(
            batch_of([Row(f"k{n:02d}", "d0", 5, "right") for n in range(number, 40, 2)]), inputs / f"{number}.parquet"
        )

    @contextmanager
    def replaced(title: str) -> Iterator[None]:
        right = {path: (path.read_bytes(), path.stat()) for path in inputs.iterdir() if "quarantine" in title}
        for path in right:
            rows = pq.read_table(path)
            wrong = rows.set_column(3, "v", pa.array(["wrong"] * rows.num_rows))
            pq.write_table(wrong, path)
        yield
        for path, (data, then) in right.items():  # the run looks at its input again
            path.write_bytes(data)
            os.utime(path, ns=(then.st_atime_ns, then.st_mtime_ns))

    if scattered:
        monkeypatch.setattr(stage_input, "_unscattered_splits", lambda *_: frozenset())
    spec = RunSpec(table.uri, f"{table.uri}.lakeindex", "r", "b", Operation.UPSERT, (str(inputs),))
    runner = Straggling(replaced)
    for stage in stages_for(IndexType.BLOOM):
        for cache in ("_decoded", "_files"):  # as in processes of their own, which read what lies there
            monkeypatch.setattr(chunks, cache, BoundedCache(chunks.CACHE_BYTES))
        run_stage(stage, spec, runner)
    written = {row["v"] for row in rows_of(table) if row["ts"] == 5}
    assert written == {"right"}


@pytest.mark.parametrize("way", ["in parts", "on this machine"])
def test_input_that_is_uploaded_again_is_the_same_batch(table: LakeTable, tmp_path: Path, way: str, s3_bucket: str):
    """An ETag is the store's word for a version: of an upload in parts, or with another key, it is another one for the same bytes."""
    s3 = boto3.client("s3")
    rows = batch_of(Row(f"k{n:06d}", "d0", 7, "x" * 40) for n in range(1000))
    path = tmp_path / "in.parquet"
    pq.write_table(rows, path)
    data = path.read_bytes()
    s3.put_object(Bucket=s3_bucket, Key="in/in.parquet", Body=data)
    uri = f"s3://{s3_bucket}/in/in.parquet"
    before = open_storage(f"s3://{s3_bucket}/in").head("in.parquet").etag
    assert not table.upsert(uri, batch_id="b").noop
    if way == "in parts":
        upload = s3.create_multipart_upload(Bucket=s3_bucket, Key="in/in.parquet")["UploadId"]
        part = {"Bucket": s3_bucket, "Key": "in/in.parquet", "UploadId": upload, "PartNumber": 1}
        etag = s3.upload_part(**part, Body=data)["ETag"]
        parts = {"Parts": [{"ETag": etag, "PartNumber": 1}]}
        s3.complete_multipart_upload(Bucket=s3_bucket, Key="in/in.parquet", UploadId=upload, MultipartUpload=parts)
        assert open_storage(f"s3://{s3_bucket}/in").head("in.parquet").etag != before
        assert table.upsert(uri, batch_id="b").noop
    else:
        assert table.upsert(str(path), batch_id="b").noop
    pq.write_table(rows.slice(1), path)
    s3.put_object(Bucket=s3_bucket, Key="in/in.parquet", Body=path.read_bytes())
    with pytest.raises(BatchIdReusedError):
        table.upsert(uri, batch_id="b")
