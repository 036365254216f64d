"""OpenLineage events of runs, through OpenLineage's own file transport."""

from __future__ import annotations

import json
import logging
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from openlineage.client.event_v2 import InputDataset, Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import output_statistics_output_dataset, schema_dataset

import lakeindex
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import QuarantineExceededError, UsageError
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.run_folders import begin_run
from lakeindex.run.spec import RunSpec
from lakeindex.runners.jobs import run_stage_job
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.telemetry.lineage import dataset_name, lineage_facets
from lakeindex.telemetry.observer import RunObserver
from tests.moto_server import moto_here, use_aws
from tests.unit.cli.tables import batch, new_table, row

ON = {"lakeindex.openlineage": "true"}
PARENT = "01890000-0000-7000-8000-000000000001"


@pytest.fixture
def log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where OpenLineage writes, as its configuration file says."""
    path = tmp_path / "lineage" / "events.jsonl"
    path.parent.mkdir()
    config = tmp_path / "openlineage.yml"
    config.write_text(f"transport:\n  type: file\n  log_file_path: {path}\n  append: true\n")
    monkeypatch.setenv("OPENLINEAGE_CONFIG", str(config))
    for name in ("OPENLINEAGE_PARENT_ID", "OPENLINEAGE_ROOT_PARENT_ID", "OPENLINEAGE_NAMESPACE", "OPENLINEAGE_URL"):
        monkeypatch.delenv(name, raising=False)
    return path


def events(log: Path) -> list[dict[str, Any]]:
    """The events; each is put through OpenLineage's classes, which check what is required and its form."""
    found = [json.loads(line) for line in log.read_text().splitlines()]
    for event in found:
        RunEvent(
            eventTime=event["eventTime"],
            eventType=RunState(event["eventType"]),
            producer=event["producer"],
            run=Run(**event["run"]),
            job=Job(**event["job"]),
            inputs=[InputDataset(**one) for one in event["inputs"]],
            outputs=[OutputDataset(**one) for one in event["outputs"]],
        )
    return found


def body(facet: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facet.items() if not name.startswith("_")}


def test_a_run_starts_and_completes(tmp_path: Path, log: Path):
    table = new_table(tmp_path)
    paths = [batch(tmp_path / "a.parquet", [row(n) for n in range(20)])]
    run = lakeindex.open_table(str(table)).upsert([str(p) for p in paths], options=ON)
    assert run.notes == ()
    start, done = events(log)
    assert (start["eventType"], done["eventType"]) == ("START", "COMPLETE")
    assert start["run"]["runId"] == done["run"]["runId"]
    assert start["job"]["name"] == done["job"]["name"] == "lakeindex.upsert." + str(table).strip("/").replace("/", ".")
    assert done["job"]["namespace"] == "default"
    assert body(done["job"]["facets"]["jobType"])["processingType"] == "BATCH"
    (source,), (target,) = done["inputs"], done["outputs"]
    assert (source["namespace"], source["name"]) == ("file", str(paths[0]))
    assert body(source["inputFacets"]["inputStatistics"])["rowCount"] == 20
    assert (target["namespace"], target["name"]) == ("file", str(table))
    assert body(target["outputFacets"]["outputStatistics"]) == {
        "rowCount": 20,
        "size": run.bytes_written,
        "fileCount": run.files_created,
    }
    assert [(f["name"], f["type"]) for f in target["facets"]["schema"]["fields"]] == [
        ("id", "string"),
        ("region", "string"),
        ("ts", "int64"),
        ("val", "string"),
    ]
    assert target["facets"]["version"]["datasetVersion"] == run.instant
    assert body(target["facets"]["storage"]) == {"storageLayer": "hudi", "fileFormat": "parquet"}
    assert "parent" not in done["run"]["facets"]


def test_a_run_that_fails_says_why(tmp_path: Path, log: Path):
    table = new_table(tmp_path)
    bad = batch(tmp_path / "bad.parquet", [(None, "eu", 1, "v")])
    with pytest.raises(QuarantineExceededError):
        lakeindex.open_table(str(table)).upsert(str(bad), options=ON)
    start, failed = events(log)
    assert (start["eventType"], failed["eventType"]) == ("START", "FAIL")
    facet = failed["run"]["facets"]["errorMessage"]
    assert facet["message"].startswith("QuarantineExceededError: ")
    assert facet["programmingLanguage"] == "PYTHON"
    assert "Traceback" in facet["stackTrace"]
    assert "outputStatistics" not in failed["outputs"][0]["outputFacets"]


def test_the_parent_and_the_namespace_come_from_the_environment(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("OPENLINEAGE_PARENT_ID", f"http://af/prod/dag.merge_write/{PARENT}")
    monkeypatch.setenv("OPENLINEAGE_ROOT_PARENT_ID", f"http://af/prod/dag/{PARENT}")
    monkeypatch.setenv("OPENLINEAGE_NAMESPACE", "lake")
    lakeindex.open_table(str(new_table(tmp_path))).upsert(str(batch(tmp_path / "b.parquet", [row(1)])), options=ON)
    for event in events(log):
        parent = event["run"]["facets"]["parent"]
        assert parent["run"]["runId"] == PARENT
        assert (parent["job"]["namespace"], parent["job"]["name"]) == ("http://af/prod", "dag.merge_write")
        assert parent["root"]["job"]["name"] == "dag"
        assert event["job"]["namespace"] == "lake"


def test_data_in_memory_is_no_dataset_and_a_batch_done_before_wrote_nothing(tmp_path: Path, log: Path):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    data = pa.table({"id": ["a"], "region": ["eu"], "ts": [1], "val": ["x"]})
    table.upsert(data, batch_id="one", options=ON)
    table.upsert(data, batch_id="one", options=ON)
    found = events(log)
    assert [event["eventType"] for event in found] == ["START", "COMPLETE", "START", "COMPLETE"]
    assert all(event["inputs"] == [] for event in found)
    assert "outputStatistics" in found[1]["outputs"][0]["outputFacets"]
    assert "outputStatistics" not in found[3]["outputs"][0]["outputFacets"]


def test_stages_in_processes_of_their_own_are_one_run(tmp_path: Path, log: Path):
    table = new_table(tmp_path)
    source = batch(tmp_path / "b.parquet", [row(n) for n in range(5)])
    spec = RunSpec(str(table), f"{table}.lakeindex", "r1", "r1", Operation.UPSERT, (str(source),), tuple(ON.items()))

    def stage(one: Stage) -> None:
        with RunObserver(spec, one) as observer:
            observer.begins(spec)
            observer.ends(run_stage(one, spec, LocalRunner(1)))

    def stage_that_fails() -> None:
        with RunObserver(spec, Stage.INDEX_LOOKUP) as observer:
            observer.begins(spec)
            raise ZeroDivisionError

    begin_run(spec)
    stage(Stage.STAGE_INPUT)
    with pytest.raises(ZeroDivisionError):
        stage_that_fails()
    for one in (Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS, Stage.MERGE_WRITE):
        stage(one)
    found = events(log)
    assert [event["eventType"] for event in found] == ["START", "FAIL", "START", "COMPLETE"]
    first, second = found[0]["run"]["runId"], found[2]["run"]["runId"]
    assert [event["run"]["runId"] for event in found] == [first, first, second, second]
    assert first != second
    assert found[3]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 5


def test_events_that_cannot_be_sent_are_a_note_and_no_failure(
    tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
):
    log.mkdir()  # a folder where the file should be
    with caplog.at_level(logging.WARNING, "lakeindex"):
        run = lakeindex.open_table(str(new_table(tmp_path))).upsert(
            str(batch(tmp_path / "b.parquet", [row(1)])), options=ON
        )
    assert run.instant is not None
    assert "OpenLineage was not told of the start" in caplog.text
    assert any(note.startswith("OpenLineage was not told of the end: ") for note in run.notes)


def test_without_the_library_nothing_starts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    table = lakeindex.open_table(str(new_table(tmp_path)))
    monkeypatch.delitem(sys.modules, "lakeindex.telemetry.lineage", raising=False)
    monkeypatch.setitem(sys.modules, "openlineage.client", None)
    with pytest.raises(UsageError, match="needs the package openlineage-python") as caught:
        table.upsert(pa.table({"id": ["a"], "region": ["eu"], "ts": [1], "val": ["x"]}), options=ON)
    assert "lakeindex[lineage]" in (caught.value.hint or "")
    assert table.history() == ()


@pytest.mark.parametrize(
    ("uri", "expected"),
    [
        ("/lake/t/", ("file", "/lake/t")),
        ("file:///lake/t", ("file", "/lake/t")),
        ("s3://bucket/lake/t/", ("s3://bucket", "lake/t")),
        ("s3a://bucket/lake/t", ("s3://bucket", "lake/t")),
        ("s3://bucket", ("s3://bucket", "/")),
        ("gs://bucket/a b/ü", ("gs://bucket", "a b/ü")),
        ("az://box/t", ("abfss://box@acc.dfs.core.windows.net", "/t")),
        ("abfss://box@acc.dfs.core.windows.net/t", ("abfss://box@acc.dfs.core.windows.net", "/t")),
        ("/in/2026/*.parquet", ("file", "/in/2026")),
        ("s3://bucket/in/*/x.csv", ("s3://bucket", "in")),
    ],
)
def test_datasets_are_named_as_the_specification_says(
    uri: str, expected: tuple[str, str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("AZURE_STORAGE_ACCOUNT_NAME", "acc")
    assert dataset_name(uri) == expected


def test_facets_for_an_operator():
    columns = pa.schema([("a", pa.struct([("b", pa.int32())])), ("c", pa.decimal128(5, 2))])
    facets = lineage_facets("s3://lake/t", ["s3://in/a.csv", "s3://in/*.csv", "s3://in/b/*.csv"], schema=columns)
    assert [(one.namespace, one.name) for one in facets.inputs] == [
        ("s3://in", "a.csv"),
        ("s3://in", "/"),
        ("s3://in", "b"),
    ]
    (target,) = facets.outputs
    schema = (target.facets or {})["schema"]
    assert isinstance(schema, schema_dataset.SchemaDatasetFacet)
    nested, amount = schema.fields or []
    assert [(one.name, one.type) for one in nested.fields or []] == [("b", "int32")]
    assert (amount.type, amount.ordinal_position) == ("decimal128(5, 2)", 2)
    assert not any(
        isinstance(one, output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet)
        for one in (target.outputFacets or {}).values()
    )


def test_a_table_that_catalogs_know_has_their_names(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch):
    table, options = new_table(tmp_path), {**ON, "lakeindex.sync": "glue"}
    rows = str(batch(tmp_path / "a.parquet", [row(n) for n in range(3)]))
    with moto_here() as endpoint:
        use_aws(monkeypatch, endpoint)
        assert lakeindex.open_table(str(table)).upsert(rows, options=options).notes == ()
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    assert len(lakeindex.open_table(str(table)).upsert(rows, options=options).notes) == 1, "the sync's own"
    start, done, _, silent = events(log)
    names = [{"namespace": "arn:aws:glue:us-east-1:123456789012", "name": f"table/default/{table.name}"}]
    found = body(done["outputs"][0]["facets"]["symlinks"])["identifiers"]
    assert found == [{**one, "type": "TABLE"} for one in names]
    assert "symlinks" not in start["outputs"][0]["facets"], "it is not known before the sync"
    assert "symlinks" not in silent["outputs"][0]["facets"], "nor if the catalog does not answer"


@pytest.mark.parametrize("stage", [Stage.STAGE_INPUT, Stage.VERIFY_KEYS])
def test_a_job_leaves_nothing_in_a_root_that_is_refused_nor_in_another_tables_run(
    tmp_path: Path, log: Path, stage: Stage
) -> None:
    (tmp_path / "other").mkdir()
    table, other, runs = new_table(tmp_path), new_table(tmp_path / "other"), tmp_path / "runs"
    begin_run(RunSpec(str(other), str(runs), "r", "r", Operation.UPSERT, ()))
    for root in (other, runs):
        before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
        spec = RunSpec(str(table), str(root), "r", "r", Operation.UPSERT, ("nowhere.parquet",), tuple(ON.items()))
        assert run_stage_job(stage, spec, local=True) != 0
        assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before, root
    assert [event["eventType"] for event in events(log)] == ["START", "FAIL"] * 2
