"""The jobs' command line: what a DAG sends is what a run is told."""

from __future__ import annotations

from pathlib import Path

import click
import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import lakeindex
from lakeindex.airflow.dag_plan import DagPlan
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.runners import jobs
from lakeindex.runners.jobs import run_spec, stage_command

PLAN = DagPlan(
    table="trips",
    uri="/lake/trips",
    checkpoints="/lake/runs",
    run_id="r",
    batch_id="dag/run/-1",
    inputs=("/lake/a b.csv", "file:/lake/new%20rows"),
    operation="DELETE",
    options=(("hoodie.index.bloom.fpp", "1e-4"), ("x", "a=b")),
    max_quarantined=3,
    force=True,
)


def test_a_dags_arguments_give_the_run_it_meant() -> None:
    seen: list[tuple[Stage | None, RunSpec]] = []
    on_threads: list[bool] = []

    def run(stage: Stage | None, spec: RunSpec, *, local: bool) -> int:
        seen.append((stage, spec))
        on_threads.append(local)
        return 5

    result = CliRunner().invoke(stage_command(Stage.BLOOM_CHECK, run), PLAN.arguments())
    assert result.exit_code == 5
    for execution in ("single", "local"):
        words = replace(PLAN, execution=execution).arguments()
        assert CliRunner().invoke(stage_command(None, run), words).exit_code == 5
    assert on_threads == [False, False, True]
    assert [spec for _, spec in seen] == [seen[0][1]] * len(seen)
    del seen[1:]
    assert seen == [
        (
            Stage.BLOOM_CHECK,
            RunSpec(
                table_uri="/lake/trips",
                checkpoints_uri="/lake/runs",
                run_id="r",
                batch_id="dag/run/-1",
                operation=Operation.DELETE,
                inputs=("/lake/a b.csv", "/lake/new rows"),
                options=(("hoodie.index.bloom.fpp", "1e-4"), ("x", "a=b")),
                max_quarantined=3,
                force=True,
            ),
        )
    ]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--force"], "Missing option"),
        ([*PLAN.arguments(), "-o", "novalue"], "is not KEY=VALUE"),
        ([*PLAN.arguments(), "--operation", "MERGE"], "is not one of"),
        ([*PLAN.arguments(), "--max-quarantined", "-1"], "is not in the range"),
        ([*PLAN.arguments(), "--what"], "No such option"),
    ],
)
def test_wrong_usage_is_exit_2_and_runs_nothing(words: list[str], said: str) -> None:
    result = CliRunner().invoke(stage_command(None, lambda *_: pytest.fail("ran")), words)
    assert result.exit_code == 2
    assert said in result.output


def test_an_option_needs_a_key() -> None:
    with pytest.raises(click.BadParameter):
        run_spec(
            inputs=("x",),
            operation="UPSERT",
            options=("=1",),
            table_uri="t",
            checkpoints_uri="c",
            run_id="r",
            batch_id="b",
        )


CSV_OPTIONS = {
    "lakeindex.csv.delimiter": ";",
    "lakeindex.csv.quote": "'",
    "lakeindex.csv.null": "NULL,",
    "lakeindex.csv.header": "false",
}
CSV_ROWS = "a;'x;y';1\nb;NULL;2\nc;'NULL';\n"
CSV_STORED = [
    {"id": "a", "v": "x;y", "n": 1},
    {"id": "b", "v": None, "n": 2},
    {"id": "c", "v": "NULL", "n": None},
]


def test_five_jobs_read_a_file_as_the_options_say(tmp_path: Path) -> None:
    """Separator, quote, null words and a missing header come as words of a command line."""
    (tmp_path / "b.csv").write_text(CSV_ROWS)
    table = lakeindex.create_table(tmp_path / "t", "id STRING, v STRING, n INT", key="id")
    words = ["--table", f"{tmp_path}/t", "--checkpoints", f"{tmp_path}/runs", "--run-id", "r", "--batch-id", "r"]
    words += ["--input", f"{tmp_path}/b.csv", "--runner", "local"]
    words += [word for name, text in CSV_OPTIONS.items() for word in ("-o", f"{name}={text}")]
    for stage in Stage:
        done = CliRunner().invoke(stage_command(stage, jobs.run_stage_job), words)
        assert done.exit_code == 0, f"{stage}: {done.output}"
    assert sorted(table.read(meta=False).to_pylist(), key=lambda row: row["id"]) == CSV_STORED


def test_a_table_of_spark_s_is_no_place_and_threads_say_who_reads_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    lakeindex.create_table(tmp_path / "t", "id STRING, n INT", key="id")
    plan = replace(
        PLAN, uri=f"{tmp_path}/t", checkpoints=f"{tmp_path}/runs", inputs=("table:feed", "x.csv"), options=()
    )
    seen: list[RunSpec] = []

    def run(stage: Stage | None, spec: RunSpec, *, local: bool) -> int:
        seen.append(spec)
        return jobs.run_stage_job(stage, spec, local=local)

    words = replace(plan, execution="local").arguments()
    with pytest.raises(SystemExit) as ended:
        stage_command(None, run).main(words)
    assert seen[0].inputs == ("table:feed", f"{tmp_path}/x.csv")
    assert ended.value.code == 2
    assert "which only Spark reads" in capsys.readouterr().out
