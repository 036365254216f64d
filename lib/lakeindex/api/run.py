"""One batch, all stages: what :meth:`LakeTable.upsert`, :meth:`LakeTable.delete` and the command line call."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypedDict

from lakeindex.api.batch_data import BatchData, with_inputs
from lakeindex.errors import OptionError
from lakeindex.model import Operation
from lakeindex.options.parse import Options, option_texts, parse_options
from lakeindex.options.types import ReportFormat
from lakeindex.pipeline import default_checkpoints, run_id_of
from lakeindex.raw_errors import door
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    from lakeindex.run.spec import RunSpec
    from lakeindex.run.summary import RunSummary
    from lakeindex.tasks.progress_bars import Progress
    from lakeindex.tasks.runner import Runner


class RunArguments(TypedDict, total=False):
    """Arguments of :func:`run` that :meth:`LakeTable.upsert` and :meth:`LakeTable.delete` take."""

    options: Options | None
    batch_id: str | None
    run_id: str | None
    checkpoints: str | None
    max_quarantined: int
    force: bool
    runner: Runner | str
    master: str | None
    progress: Progress | None
    report: ReportFormat


@door
def run(  # noqa: PLR0913 - public: the arguments of LakeTable.upsert and delete
    uri: str,
    data: BatchData,
    operation: Operation,
    *,
    options: Options | None = None,
    batch_id: str | None = None,
    run_id: str | None = None,
    checkpoints: str | None = None,
    max_quarantined: int = 0,
    force: bool = False,
    runner: Runner | str = "local",
    master: str | None = None,
    progress: Progress | None = None,
    report: ReportFormat = ReportFormat.JSON,
) -> RunSummary:
    """One batch, all stages.

    Args:
        uri: the table.
        data: the batch.
        operation: upsert or delete.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        batch_id: name of the batch: the same id is committed once.
        run_id: name of the run folder; by default made from the batch id, or new.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again; roll back pending instants of other writers whatever their age.
        runner: ``local``, ``spark``, or a runner.
        master: Spark master, if a session has to be created.
        progress: receives the progress of the steps.
        report: format of the run's report if ``lakeindex.report`` is not given.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    from lakeindex.run.run_folders import run_id_for
    from lakeindex.run.spec import RunSpec

    pairs = tuple(sorted(option_texts(options or {}).items()))
    config = parse_options(pairs)
    where = absolute(checkpoints or default_checkpoints(uri))
    run_id = run_id or (run_id_of(None) if batch_id is None else run_id_for(batch_id, absolute(uri), where))
    chosen = chosen_runner(runner, config.parallelism, master, progress)
    spec = RunSpec(
        table_uri=absolute(uri),
        checkpoints_uri=where,
        run_id=run_id,
        batch_id=batch_id or run_id,
        operation=operation,
        inputs=(),
        options=pairs,
        max_quarantined=max_quarantined,
        force=force,
    )
    return _watched(spec, data, chosen, report)


def _watched(spec: RunSpec, data: BatchData, runner: Runner, report: ReportFormat) -> RunSummary:
    """The run, and what is told and kept of it."""
    from lakeindex.conductor.upsert import run_batch
    from lakeindex.report.keep import keep_report
    from lakeindex.run.retention import end_run
    from lakeindex.run.run_folders import begin_run
    from lakeindex.telemetry.observer import RunObserver

    with RunObserver(spec) as observer:
        begin_run(spec)
        spec = with_inputs(spec, data, runner)
        observer.begins(spec)
        summary = run_batch(spec, runner)
        notes = observer.ends(summary)
    notes += keep_report(spec, report)
    notes += end_run(spec)
    return replace(summary, notes=summary.notes + notes)


def chosen_runner(runner: Runner | str, slots: int, master: str | None, progress: Progress | None) -> Runner:
    """The runner that a caller names.

    Args:
        runner: ``local``, ``spark``, or a runner.
        slots: tasks at once; 0: as many as fit the machine.
        master: Spark master, if a session has to be created.
        progress: receives the progress of the steps.

    Raises:
        OptionError: there is none of that name.
    """
    if not isinstance(runner, str):
        return runner
    if runner == "local":
        from lakeindex.tasks.local_runner import LocalRunner

        return LocalRunner(slots, progress)
    if runner == "spark":
        from lakeindex.runners.spark import SparkRunner
        from lakeindex.runners.spark_session import spark_session

        return SparkRunner(spark_session(master), slots, progress)
    raise OptionError(f"no runner {runner!r}", culprit=runner, hint="valid: local | spark")
