"""A spark-submit job: its command line, which is the same for every stage, so that a DAG works it out once; and what it
does: one stage (or all), on a session if it needs one; one JSON object, one exit code.
"""

from __future__ import annotations

import json
import sys
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

import click

from lakeindex.tasks import fast_start  # before anything that makes an Arrow array

# isort: split
from lakeindex.catalogs.places import located
from lakeindex.conductor.upsert import run_batch, run_stage
from lakeindex.errors import LakeIndexError, described, noted, show_warnings
from lakeindex.model import BATCH_OPERATIONS, Operation
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import TABLE_PREFIX, Stage
from lakeindex.report.make_report import keep_report
from lakeindex.run.run_folders import begin_run, end_run, is_run_of
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.runners.spark import SparkRunner, with_tables_written
from lakeindex.runners.spark_session import JobSession, begin_with_submit
from lakeindex.showing.json_values import json_of
from lakeindex.storage.paths import absolute
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.stores import storage_at
from lakeindex.telemetry.observer import RunObserver
from lakeindex.time_spent import accounting

#: Runs one stage (None: all of them), on Spark or by ``local=True`` on threads, and returns the exit code.
StageJob: TypeAlias = Callable[..., int]

_OPTIONS = (
    click.option("--table", "table_uri", required=True, metavar="URI", help="The table's folder."),
    click.option("--checkpoints", "checkpoints_uri", required=True, metavar="URI", help="Root of the run folders."),
    click.option("--run-id", required=True, metavar="ID", help="Name of the run's folder; a retry gives the same."),
    click.option("--batch-id", required=True, metavar="ID", help="Name of the batch; it is committed once."),
    click.option("--input", "inputs", required=True, multiple=True, metavar="URI", help="File, folder or * pattern."),
    click.option(
        "--operation", type=click.Choice([str(o) for o in BATCH_OPERATIONS]), default="UPSERT", show_default=True
    ),
    click.option(
        "--max-quarantined", type=click.IntRange(min=0), default=0, show_default=True, help="Bad rows allowed."
    ),
    click.option(
        "--force", is_flag=True, help="Commit a used batch id again; roll back pending instants of other writers."
    ),
    click.option(
        "--runner",
        type=click.Choice(["spark", "local"]),
        default="spark",
        show_default=True,
        help="local: threads of this process, started by Python alone.",
    ),
    click.option("-o", "options", multiple=True, metavar="KEY=VALUE", help="An option; docs/options.md lists them."),
)


def stage_command(stage: Stage | None, run: StageJob) -> click.Command:
    """The command of a job: of a stage, or (None) of all of them in one application."""

    @click.command(name=str(stage or "upsert"))
    def command(runner: str, **given: Any) -> None:
        fast_start.loaded()
        sys.exit(run(stage, run_spec(**given), local=runner == "local"))

    for option in reversed(_OPTIONS):
        command = option(command)
    return command


def run_spec(
    *,
    table_uri: str,
    checkpoints_uri: str,
    inputs: tuple[str, ...],
    operation: str,
    options: tuple[str, ...],
    **rest: Any,
) -> RunSpec:
    """The run as the arguments describe it.

    Raises:
        click.BadParameter: an option that is not KEY=VALUE.
        OptionError: a path or URL that is none.
    """
    return RunSpec(
        table_uri=absolute(located(table_uri)),
        checkpoints_uri=absolute(checkpoints_uri),
        inputs=tuple(place if place.startswith(TABLE_PREFIX) else absolute(place) for place in inputs),
        operation=Operation(operation),
        options=tuple(sorted(_pair(text) for text in options)),
        **rest,
    )


def _pair(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise click.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="-o")
    return key, value


def run_stage_job(stage: Stage | None, spec: RunSpec, *, local: bool = False) -> int:
    """Run a stage; print one JSON object as the last line of stdout.

    On failure ``<checkpoints>/<run id>/<stage>.error.json`` says the same to whoever started the job;
    where run folders are refused nothing is written.

    Args:
        local: threads of this process do it; neither a JVM nor PySpark is needed.
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
        store = storage_at(spec.checkpoints_uri)
        if not is_run_of(store, spec.run_id, spec.table_uri):
            begin_run(spec)  # it may be what failed: not into a table, nor into another table's run
        store.write(name, text.encode())
    except (LakeIndexError, OSError) as error:
        click.echo(f"could not write {name}: {error}", err=True)
