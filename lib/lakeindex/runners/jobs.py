"""What a spark-submit job does: one stage (or all), on a session if it needs one; one JSON object, one exit code."""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable

import click

from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.errors import LakeIndexError, described, noted, show_warnings
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import Stage
from lakeindex.report.make_report import keep_report
from lakeindex.run.retention import end_run
from lakeindex.run.run_folders import begin_run
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.runners.spark import SparkRunner, with_tables_written
from lakeindex.runners.spark_session import JobSession, begin_with_submit
from lakeindex.showing.json_values import json_of
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.stores import storage_at
from lakeindex.telemetry.observer import RunObserver
from lakeindex.time_spent import accounting


def run_stage_job(stage: Stage | None, spec: RunSpec, *, local: bool = False) -> int:
    """Run a stage; print one JSON object as the last line of stdout.

    On failure ``<checkpoints>/<run id>/<stage>.error.json`` says the same to whoever started the job;
    where run folders are refused nothing is written.

    Args:
        stage: the stage, or None for all of them in one application.
        local: threads of this process do it; neither a JVM nor PySpark is needed.

    Returns:
        The exit code.
    """
    show_warnings()
    begin_with_submit()
    with accounting():
        return _run_job(stage, spec, None if local else JobSession)


def _run_job(stage: Stage | None, spec: RunSpec, make_session: Callable[[], JobSession] | None) -> int:
    session: JobSession | None = None
    try:
        session = None if make_session is None else make_session()
        runner: LocalRunner | SparkRunner = LocalRunner(spec.config.parallelism)
        if session is not None:
            runner = SparkRunner(session() if session.is_made else session, spec.config.parallelism)
        parent = parent_of(session) if session is not None and spec.config.openlineage else None
        with RunObserver(spec, stage, parent) as observer:
            result = _run(stage, spec, runner, observer)
    except LakeIndexError as error:
        _say(described(error), spec, stage)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - whatever it is, the DAG must hear of it by file and exit code
        traceback.print_exc(file=sys.stderr)
        _say(described(error), spec, stage)
        return 1
    finally:
        if session is not None:
            for note in noted("the Spark session was not stopped", session.stop):
                click.echo(note, err=True)
    click.echo(json.dumps(json_of(result)))
    return 0


def parent_of(session: JobSession) -> str | None:
    """``NAMESPACE/JOB/RUN ID`` of the OpenLineage run that submitted this job,
    where Airflow's provider put it into Spark's settings.
    """
    parts = [session.setting(f"spark.openlineage.parent{name}") for name in ("JobNamespace", "JobName", "RunId")]
    return "/".join(str(part) for part in parts) if all(parts) else None


def _run(
    stage: Stage | None, spec: RunSpec, runner: LocalRunner | SparkRunner, observer: RunObserver
) -> RunSummary | StageSummary:
    if stage in {None, Stage.STAGE_INPUT}:
        begin_run(spec)
        spec = with_tables_written(spec, runner)
    observer.begins(spec)
    result = run_batch(spec, runner) if stage is None else run_stage(stage, spec, runner)
    notes = observer.ends(result)
    if isinstance(result, RunSummary):
        notes += keep_report(spec, result, ReportFormat.HTML)
        notes += end_run(spec)
        for note in notes:
            click.echo(note, err=True)
    return result


def _say(failure: dict[str, object], spec: RunSpec, stage: Stage | None) -> None:
    text = json.dumps(failure)
    click.echo(text)
    sys.stdout.flush()
    name = f"{spec.run_id}/{stage or 'upsert'}.error.json"
    try:
        begin_run(spec)  # it may be what failed: not into a table, nor into another table's run
        storage_at(spec.checkpoints_uri).write(name, text.encode())
    except (LakeIndexError, OSError) as error:
        click.echo(f"could not write {name}: {error}", err=True)
