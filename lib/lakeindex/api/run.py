"""One batch, all stages: what :meth:`LakeTable.upsert`, :meth:`LakeTable.delete` and the command line call."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias, TypedDict, Unpack

from lakeindex.api.batch_data import BatchData, PathText, run_folders, with_inputs
from lakeindex.error_handling import door
from lakeindex.errors import OptionError, QuarantineExceededError, UsageError
from lakeindex.model import Operation
from lakeindex.options.parse import Options, is_same_value, option_texts, parse_options
from lakeindex.options.types import DuplicatePolicy, PartialUpdate, ReportFormat, SchemaMode
from lakeindex.options.values import (
    CONDITION_OPTIONS,
    DUPLICATES_OPTION,
    MERGE_OPTION,
    PARTIAL_OPTION,
    SCHEMA_MODE_OPTION,
)
from lakeindex.pipeline import run_id_of
from lakeindex.storage.paths import absolute
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    from lakeindex.run.spec import RunSpec
    from lakeindex.run.summary import RunSummary
    from lakeindex.tasks.progress_bars import ProgressChoice
    from lakeindex.tasks.runner import Runner
    from lakeindex.write.merge_function import Merge, MergeFunction


SchemaModeName: TypeAlias = Literal["strict", "add", "widen"]
"""What a batch may change of the table's columns."""


class RunArguments(TypedDict, total=False):
    """Arguments of :func:`run` that :meth:`LakeTable.upsert` and :meth:`LakeTable.delete` take."""

    options: Options | None
    """``hoodie.*`` and ``lakeindex.*`` options."""
    batch_id: str | None
    """Name of the batch: the same id is committed once."""
    run_id: str | None
    """Name of the run folder; by default made from the batch id, or new."""
    checkpoints: PathText | None
    """Root of the run folders; by default ``<table>.lakeindex`` beside the table."""
    max_quarantined: int
    """Bad rows that are tolerated; 0 if not given."""
    force: bool
    """Commit a used batch id again; roll back pending instants of other writers whatever their age."""
    runner: Runner | str
    """``local`` (the default), ``spark``, or a runner."""
    master: str | None
    """Spark master, if a session has to be created."""
    progress: ProgressChoice
    """Receives the progress of the steps; by default bars in a notebook and on a terminal; False: none."""
    report: ReportFormat
    """Format of the run's report if ``lakeindex.report`` is not given."""
    dry_run: bool
    """Say what would be done, and write nothing, neither to the table nor beside it; on threads only."""
    schema_mode: SchemaModeName | None
    """What the batch may change of the table's columns: ``strict``, ``add`` or ``widen``; by default as
    ``lakeindex.schema.mode`` says: nothing."""


@door
@accounting()
def run(  # noqa: PLR0913 - public: the arguments of LakeTable.upsert and delete
    uri: str,
    data: BatchData,
    operation: Operation,
    *,
    options: Options | None = None,
    batch_id: str | None = None,
    run_id: str | None = None,
    checkpoints: PathText | None = None,
    max_quarantined: int = 0,
    force: bool = False,
    runner: Runner | str = "local",
    master: str | None = None,
    progress: ProgressChoice = None,
    report: ReportFormat = ReportFormat.JSON,
    dry_run: bool = False,
    schema_mode: SchemaModeName | None = None,
    merge: MergeFunction | None = None,
) -> RunSummary:
    """One batch, all stages.

    Args:
        uri: the table.
        data: the batch.
        operation: what is done with the batch.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        batch_id: name of the batch: the same id is committed once.
        run_id: name of the run folder; by default made from the batch id, or new.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        max_quarantined: bad rows that are tolerated.
        force: commit a used batch id again; roll back pending instants of other writers whatever their age.
        runner: ``local``, ``spark``, or a runner.
        master: Spark master, if a session has to be created.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.
        report: format of the run's report if ``lakeindex.report`` is not given.
        dry_run: say what would be done, and write nothing, neither to the table nor beside it; on threads only.
        schema_mode: what the batch may change of the table's columns: ``strict``: nothing, ``add``: columns are added,
            ``widen``: the same, and numbers become wider; by default as ``lakeindex.schema.mode`` says: nothing.
        merge: makes one row of a stored row and a row of the batch.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.conductor.upsert import run_batch

    asked: RunArguments = {"options": options, "batch_id": batch_id, "run_id": run_id, "checkpoints": checkpoints}
    asked |= {"max_quarantined": max_quarantined, "force": force, "dry_run": dry_run, "schema_mode": schema_mode}
    spec = replace(spec_of(uri, operation, asked), merge=merge)
    chosen = chosen_runner(runner, spec.config.parallelism, master, progress)
    if dry_run:
        return _planned(spec, data, chosen)
    return watched(spec, lambda begun: with_inputs(begun, data, chosen), lambda begun: run_batch(begun, chosen), report)


OnConflict: TypeAlias = Literal["error", "ignore"]
"""What becomes of a row whose key is stored."""


@door
def with_conflict(on_conflict: OnConflict, options: Options | None) -> Options:
    """Options with the one that says what becomes of a row whose key is stored.

    Raises:
        OptionError: it can be neither, or the options say the other.
    """
    policies = {"error": DuplicatePolicy.FAIL, "ignore": DuplicatePolicy.DROP}
    if on_conflict not in policies:
        raise OptionError(f"on_conflict cannot be {on_conflict!r}", culprit="on_conflict", hint="valid: error | ignore")
    return _with_arguments(options, {DUPLICATES_OPTION: Said("on_conflict", on_conflict, str(policies[on_conflict]))})


Nulls: TypeAlias = Literal["overwrite", "keep"]
"""What a null of a partial update does: it is stored, or leaves the stored value."""


class UpsertArguments(RunArguments, total=False):
    """Arguments of :meth:`LakeTable.upsert`, with those of :func:`run`."""

    update_if: str | None
    """A row whose key is stored replaces the stored row only if this holds: text over ``old.<column>`` and
    ``new.<column>``."""
    insert_if: str | None
    """A row whose key is not stored is inserted only if this holds: text over ``new.<column>``."""
    delete_if: str | None
    """The stored row is deleted if this holds; it is asked before ``update_if``."""
    partial: bool
    """The batch may lack columns: they stay as they are in the rows that it updates."""
    nulls: Nulls | None
    """Of a partial update, whether a null is stored (``overwrite``, the default) or leaves the stored value
    (``keep``)."""
    merge: Merge | str | None
    """A function that gets stored rows and rows of the batch with their keys, as Arrow tables, and returns what is
    stored; or its name, ``module:function``."""


@door
def run_upsert(  # noqa: PLR0913 - public: the arguments of LakeTable.upsert
    uri: str,
    data: BatchData,
    *,
    update_if: str | None = None,
    insert_if: str | None = None,
    delete_if: str | None = None,
    partial: bool = False,
    nulls: Nulls | None = None,
    merge: Merge | str | None = None,
    **arguments: Unpack[RunArguments],
) -> RunSummary:
    """An upsert; what is said of its rows by argument becomes an option.

    Args:
        uri: the table.
        data: the batch.
        update_if: as of :class:`UpsertArguments`.
        insert_if: as of :class:`UpsertArguments`.
        delete_if: as of :class:`UpsertArguments`.
        partial: as of :class:`UpsertArguments`.
        nulls: as of :class:`UpsertArguments`.
        merge: as of :class:`UpsertArguments`.
        **arguments: as of :func:`run`.

    Raises:
        OptionError: arguments that contradict each other, or an option.
        LakeIndexError: as :func:`run`.
    """
    from lakeindex.write.merge_function import MergeFunction

    conditions = {"update_if": update_if, "insert_if": insert_if, "delete_if": delete_if}
    found = {CONDITION_OPTIONS[name]: Said(name, text, text) for name, text in conditions.items() if text is not None}
    if nulls is not None and not partial:
        raise OptionError("nulls belongs to a partial update", culprit="nulls", hint="say partial=True, too")
    if partial:
        wanted = nulls or PartialUpdate.OVERWRITE
        if wanted not in (PartialUpdate.OVERWRITE, PartialUpdate.KEEP):
            raise OptionError(f"nulls cannot be {nulls!r}", culprit="nulls", hint="valid: overwrite | keep")
        name = "partial" if nulls is None else "nulls"
        found[PARTIAL_OPTION] = Said(name, nulls or partial, str(wanted))
    if isinstance(merge, str):
        found[MERGE_OPTION] = Said("merge", merge, merge)
    elif merge is not None and not callable(merge):
        raise UsageError(f"merge cannot be {merge!r}", culprit="merge", hint="give a function, or module:function")
    function = MergeFunction.of(merge) if callable(merge) else None
    arguments = {**arguments, "options": _with_arguments(arguments.get("options"), found)}
    return run(uri, data, Operation.UPSERT, merge=function, **arguments)


class Said(NamedTuple):
    """What an argument says of an option."""

    name: str
    """The argument."""
    value: Any
    """What was given."""
    text: str
    """The option's value by that."""


def _with_arguments(options: Options | None, said: Mapping[str, Said]) -> Options:
    """Options with those that arguments say, by option. Raises: OptionError: an option says something else."""
    texts = option_texts(options or {})
    for key, one in said.items():
        given = texts.get(key)
        if given is not None and not is_same_value(key, given, one.text):
            raise OptionError(
                f"option {key} is {given!r}, and the argument {one.name} is {one.value!r}",
                culprit=key,
                hint="give one of the two",
            )
    return {**texts, **{key: one.text for key, one in said.items()}}


class ReplaceArguments(TypedDict, total=False):
    """Arguments of :func:`run_delete_partitions` that :meth:`LakeTable.delete_partitions` and ``truncate`` take."""

    options: Options | None
    """``hoodie.*`` and ``lakeindex.*`` options."""
    batch_id: str | None
    """Name of the batch: the same id is committed once."""
    run_id: str | None
    """Name of the run folder; by default made from the batch id, or new."""
    checkpoints: PathText | None
    """Root of the run folders; by default ``<table>.lakeindex`` beside the table."""
    force: bool
    """Commit a used batch id again; roll back pending instants of other writers whatever their age."""
    report: ReportFormat
    """Format of the run's report if ``lakeindex.report`` is not given."""
    dry_run: bool
    """Say what would be done, and write nothing."""


@door
@accounting()
def run_delete_partitions(  # noqa: PLR0913 - public: the arguments of LakeTable.delete_partitions and truncate
    uri: str,
    partitions: Sequence[str] | None,
    *,
    options: Options | None = None,
    batch_id: str | None = None,
    run_id: str | None = None,
    checkpoints: PathText | None = None,
    force: bool = False,
    report: ReportFormat = ReportFormat.JSON,
    dry_run: bool = False,
) -> RunSummary:
    """Take partitions out of the table, with all rows that are in them.

    Args:
        uri: the table.
        partitions: their paths; None: all of the table.
        options: ``hoodie.*`` and ``lakeindex.*`` options.
        batch_id: names what is done: the same id is committed once.
        run_id: name of the run folder; by default made from the batch id, or new.
        checkpoints: root of the run folders; by default ``<table>.lakeindex`` beside the table.
        force: commit a used batch id again; roll back pending instants of other writers whatever their age.
        report: format of the run's report if ``lakeindex.report`` is not given.
        dry_run: say what would be done, and write nothing, neither to the table nor beside it.

    Raises:
        UsageError: no partition is named, or there is none of that path.
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.conductor.delete_partitions import delete_partitions, plan_deletion

    if isinstance(partitions, str) or (partitions is not None and not partitions):
        raise UsageError(
            f"partitions to delete cannot be {partitions!r}",
            culprit="partitions",
            hint="name one or several in a list, for example ['region=eu']; truncate takes all of them",
        )
    asked: RunArguments = {"options": options, "batch_id": batch_id, "run_id": run_id, "checkpoints": checkpoints}
    asked |= {"force": force, "dry_run": dry_run}
    named = None if partitions is None else tuple(sorted(set(partitions)))
    spec = replace(spec_of(uri, Operation.DELETE_PARTITION, asked), partitions=named)
    if dry_run:
        return dry(spec, chosen_runner("local", 0, None, None), plan_deletion)
    return watched(spec, lambda begun: begun, delete_partitions, report)


def spec_of(uri: str, operation: Operation, arguments: RunArguments) -> RunSpec:
    """The run that a call asks for, without its input.

    Raises:
        OptionError: an option that is not valid, or an argument that contradicts one.
    """
    named = (arguments.get("batch_id"), arguments.get("run_id"), arguments.get("checkpoints"))
    options, mode = arguments.get("options"), arguments.get("schema_mode")
    if mode is not None:
        valid = [str(one) for one in SchemaMode]
        if mode not in valid:
            hint = f"valid: {' | '.join(valid)}"
            raise OptionError(f"schema_mode cannot be {mode!r}", culprit="schema_mode", hint=hint)
        options = _with_arguments(options, {SCHEMA_MODE_OPTION: Said("schema_mode", mode, mode)})
    spec = _spec(uri, operation, options, *named, dry_run=arguments.get("dry_run", False))
    return replace(spec, max_quarantined=arguments.get("max_quarantined", 0), force=arguments.get("force", False))


def _spec(
    uri: str,
    operation: Operation,
    options: Options | None,
    batch_id: str | None,
    run_id: str | None,
    checkpoints: PathText | None,
    *,
    dry_run: bool = False,
) -> RunSpec:
    from lakeindex.run.spec import RunSpec

    pairs = tuple(sorted(option_texts(options or {}).items()))
    parse_options(pairs)  # wrong options fail before anything is looked at
    run_id = run_id or run_id_of(batch_id)
    where = "" if dry_run else absolute(run_folders(checkpoints, uri))  # a dry run's folder is made when it begins
    return RunSpec(absolute(uri), where, run_id, batch_id or run_id, operation, (), pairs)


def watched(
    spec: RunSpec,
    with_data: Callable[[RunSpec], RunSpec],
    work: Callable[[RunSpec], RunSummary],
    report: ReportFormat,
) -> RunSummary:
    """The run, and what is told and kept of it."""
    with loading():
        from lakeindex.report.kept import keep_report
        from lakeindex.run.retention import end_run
        from lakeindex.run.run_folders import begin_run
        from lakeindex.telemetry.observer import RunObserver

    with RunObserver(spec) as observer:
        begin_run(spec)
        spec = with_data(spec)
        observer.begins(spec)
        summary = work(spec)
        notes = observer.ends(summary)
    notes += keep_report(spec, summary, report)
    notes += end_run(spec)
    return replace(summary, notes=summary.notes + notes)


def _planned(spec: RunSpec, data: BatchData, runner: Runner) -> RunSummary:
    """What the run of a batch would do."""
    with loading():
        from lakeindex.conductor.dry_run import plan_batch

    return dry(spec, runner, lambda begun: plan_batch(with_inputs(begun, data, runner), runner))


def dry(spec: RunSpec, runner: Runner, work: Callable[[RunSpec], RunSummary]) -> RunSummary:
    """Do work that plans a run. Its folder is one of this machine, and goes with the end of the call; that of bad rows
    stays if there are too many, because the error names it.
    """
    from lakeindex.storage import open_storage
    from lakeindex.table.handle import Table
    from lakeindex.tasks.local_runner import LocalRunner
    from lakeindex.tasks.stores import writing_nothing

    if not isinstance(runner, LocalRunner):
        raise UsageError(
            "a dry run is done by threads of this process", culprit="runner", hint="leave out the runner, or say local"
        )
    Table.open(open_storage(spec.table_uri))
    folder = tempfile.mkdtemp(prefix="lakeindex-dry-run-")
    keep = False
    try:
        with writing_nothing(spec.table_uri, open_storage(f"{folder}/table")):
            return work(replace(spec, checkpoints_uri=f"{folder}/runs"))
    except QuarantineExceededError:
        keep = True
        raise
    finally:
        if not keep:
            shutil.rmtree(folder, ignore_errors=True)


def chosen_runner(runner: Runner | str, slots: int, master: str | None, progress: ProgressChoice) -> Runner:
    """The runner that a caller names.

    Args:
        runner: ``local``, ``spark``, or a runner.
        slots: tasks at once; 0: as many as fit the machine.
        master: Spark master, if a session has to be created.
        progress: receives the progress of the steps; by default bars in a notebook and on a terminal; False: none.

    Raises:
        OptionError: there is none of that name.
    """
    if not isinstance(runner, str):
        return runner
    from lakeindex.tasks.progress_bars import progress_of

    if runner == "local":
        from lakeindex.tasks.local_runner import LocalRunner

        return LocalRunner(slots, progress_of(progress))
    if runner == "spark":
        from lakeindex.runners.spark import SparkRunner
        from lakeindex.runners.spark_session import spark_session

        return SparkRunner(spark_session(master), slots, progress_of(progress))
    raise OptionError(f"no runner {runner!r}", culprit=runner, hint="valid: local | spark")
