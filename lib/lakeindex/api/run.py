"""One batch, all stages: what the methods of a table that write, and the command line, call.

Rows that a condition chooses are a batch, too: :func:`run_where`.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Unpack, cast

from msgspec.structs import replace

from lakeindex.api.arguments import (
    OnConflict,
    ReplaceArguments,
    RunArguments,
    RunnerArguments,
    UpsertArguments,
    with_defaults,
)
from lakeindex.api.batch_data import BatchData, run_folders, with_inputs
from lakeindex.errors import OptionError, QuarantineExceededError, UsageError, door
from lakeindex.frozen import Frozen
from lakeindex.model import Change, Operation
from lakeindex.options.option import (
    CONDITION_OPTIONS,
    DUPLICATES_OPTION,
    MERGE_OPTION,
    PARTIAL_OPTION,
    SCHEMA_MODE_OPTION,
)
from lakeindex.options.parse import Options, is_same_value, option_texts, parse_options
from lakeindex.options.types import DuplicatePolicy, PartialUpdate, ReportFormat, SchemaMode
from lakeindex.pipeline import run_id_of
from lakeindex.storage.paths import absolute
from lakeindex.time_spent import accounting, loading

if TYPE_CHECKING:
    from lakeindex.predicates.predicate import Condition
    from lakeindex.run.spec import RunSpec
    from lakeindex.run.summary import RunSummary
    from lakeindex.tasks.runner import Runner
    from lakeindex.write.merge_function import MergeFunction


@door
@accounting()
def run(
    uri: str,
    data: BatchData,
    operation: Operation,
    *,
    merge_function: MergeFunction | None = None,
    **arguments: Unpack[RunArguments],
) -> RunSummary:
    """One batch, all stages.

    Args:
        uri: the table.
        data: the batch.
        operation: what is done with the batch.
        merge_function: makes one row of a stored row and a row of the batch.
        **arguments: as of :class:`lakeindex.api.arguments.RunArguments`.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    return Request.of(uri, operation, arguments, merge=merge_function).done_with(data)


class Request(Frozen):
    """A write that was asked for: its run, without its input, and who does it."""

    spec: RunSpec
    runner: Runner
    report: ReportFormat
    dry_run: bool

    @classmethod
    def of(cls, uri: str, operation: Operation, arguments: ReplaceArguments, **more: Any) -> Request:
        """What a call asks for.

        Args:
            arguments: of a method.
            **more: fields of the run that are none.

        Raises:
            OptionError: an option that is not valid, or an argument that contradicts one.
        """
        with loading():
            from lakeindex.run.spec import RunSpec

        asked = with_defaults(arguments)
        _check_types(asked)
        options, mode = asked["options"], asked["schema_mode"]
        if mode is not None:
            valid = [str(one) for one in SchemaMode]
            if mode not in valid:
                hint = f"valid: {' | '.join(valid)}"
                raise OptionError(f"schema_mode cannot be {mode!r}", culprit="schema_mode", hint=hint)
            options = _with_arguments(options, {SCHEMA_MODE_OPTION: Said("schema_mode", mode, mode)})
        pairs = tuple(sorted(option_texts(options or {}).items()))
        slots = parse_options(pairs).parallelism  # wrong options fail before anything is looked at
        run_id = asked["run_id"] or run_id_of(asked["batch_id"])
        where = absolute(run_folders(asked["checkpoints"], uri))
        more |= {"max_quarantined": asked["max_quarantined"], "force": asked["force"]}
        spec = RunSpec(absolute(uri), where, run_id, asked["batch_id"] or run_id, operation, (), pairs, **more)
        return cls(spec, chosen_runner(slots, asked), asked["report"], asked["dry_run"])

    def done_with(self, data: BatchData) -> RunSummary:
        """What the stages did with a batch, or would do."""
        with loading():
            from lakeindex.conductor.dry_run import plan_batch
            from lakeindex.conductor.upsert import run_batch

        work = plan_batch if self.dry_run else run_batch
        return self.done(lambda begun: work(begun, self.runner), data)

    def done(self, work: Callable[[RunSpec], RunSummary], *batch: BatchData) -> RunSummary:
        """What the work did, which of a dry run is to plan.

        Args:
            work: gets the run when it has begun.
            batch: of a write that has one.
        """

        def with_batch(begun: RunSpec) -> RunSpec:
            return with_inputs(begun, batch[0], self.runner) if batch else begun

        if self.dry_run:
            return self._planned(lambda begun: work(with_batch(begun)))
        return self._watched(with_batch, work)

    def _watched(self, with_batch: Callable[[RunSpec], RunSpec], work: Callable[[RunSpec], RunSummary]) -> RunSummary:
        """The run, and what is told and kept of it."""
        with loading():
            from lakeindex.report.make_report import keep_report
            from lakeindex.run.run_folders import begin_run, end_run
            from lakeindex.telemetry.observer import RunObserver

        with RunObserver(self.spec) as observer:
            begin_run(self.spec)
            spec = with_batch(self.spec)
            observer.begins(spec)
            summary = work(spec)
            notes = observer.ends(summary)
        notes += keep_report(spec, summary, self.report)
        notes += end_run(spec)
        return replace(summary, notes=summary.notes + notes)

    def _planned(self, work: Callable[[RunSpec], RunSummary]) -> RunSummary:
        """Do work that plans a run. Its folder is one of this machine, and goes with the end of the call; that of bad
        rows stays if there are too many, because the error names it.
        """
        from lakeindex.storage import open_storage
        from lakeindex.table.handle import Table
        from lakeindex.tasks.local_runner import LocalRunner
        from lakeindex.tasks.stores import writing_nothing

        if not isinstance(self.runner, LocalRunner):
            raise UsageError(
                "a dry run is done by threads of this process",
                culprit="runner",
                hint="leave out the runner, or say local",
            )
        Table.open(open_storage(self.spec.table_uri))
        folder = tempfile.mkdtemp(prefix="lakeindex-dry-run-")
        keep = False
        try:
            with writing_nothing(self.spec.table_uri, open_storage(f"{folder}/table")):
                return work(replace(self.spec, checkpoints_uri=f"{folder}/runs"))
        except QuarantineExceededError:
            keep = True
            raise
        finally:
            if not keep:
                shutil.rmtree(folder, ignore_errors=True)


def _check_types(asked: UpsertArguments) -> None:
    """Raises: UsageError: an argument that is of another type."""
    report: Any = asked["report"]
    most: Any = asked["max_quarantined"]
    texts: dict[str, object] = {"batch_id": asked["batch_id"], "run_id": asked["run_id"]}
    wrong = {name: (one, "a text") for name, one in texts.items() if one is not None and not isinstance(one, str)}
    if not isinstance(most, int) or isinstance(most, bool) or most < 0:
        wrong["max_quarantined"] = most, "a whole number from 0 on"
    if report not in list(ReportFormat):
        wrong["report"] = report, " | ".join(ReportFormat)
    for name, (one, hint) in wrong.items():
        raise UsageError(f"{name} cannot be {one!r}", culprit=name, hint=f"give {hint}")


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


@door
def run_upsert(uri: str, data: BatchData, **arguments: Unpack[UpsertArguments]) -> RunSummary:
    """An upsert; what is said of its rows by argument becomes an option.

    Raises:
        OptionError: arguments that contradict each other, or an option.
        LakeIndexError: as :func:`run`.
    """
    from lakeindex.write.merge_function import MergeFunction

    asked = with_defaults(arguments)
    said = asked.items()
    found = {
        CONDITION_OPTIONS[name]: Said(name, text, str(text))
        for name, text in said
        if name in CONDITION_OPTIONS and text is not None
    }
    nulls, merge = asked["nulls"], asked["merge"]
    if nulls is not None and not asked["partial"]:
        raise OptionError("nulls belongs to a partial update", culprit="nulls", hint="say partial=True, too")
    if asked["partial"]:
        wanted = nulls or PartialUpdate.OVERWRITE
        if wanted not in (PartialUpdate.OVERWRITE, PartialUpdate.KEEP):
            raise OptionError(f"nulls cannot be {nulls!r}", culprit="nulls", hint="valid: overwrite | keep")
        name = "partial" if nulls is None else "nulls"
        found[PARTIAL_OPTION] = Said(name, nulls or asked["partial"], str(wanted))
    if isinstance(merge, str):
        found[MERGE_OPTION] = Said("merge", merge, merge)
    elif merge is not None and not callable(merge):
        raise UsageError(f"merge cannot be {merge!r}", culprit="merge", hint="give a function, or module:function")
    function = MergeFunction.of(merge) if callable(merge) else None
    own = {name: one for name, one in arguments.items() if name in RunArguments.__annotations__}
    own["options"] = _with_arguments(asked["options"], found)
    return run(uri, data, Operation.UPSERT, merge_function=function, **cast(RunArguments, own))


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


@door
@accounting()
def run_delete_partitions(
    uri: str, partitions: Sequence[str] | None, **arguments: Unpack[ReplaceArguments]
) -> RunSummary:
    """Take partitions out of the table, with all rows that are in them.

    Args:
        uri: the table.
        partitions: their paths; None: all of the table.
        **arguments: as of :class:`lakeindex.api.arguments.ReplaceArguments`.

    Raises:
        UsageError: no partition is named, or there is none of that path.
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.conductor.delete_partitions import delete_partitions, plan_deletion

    if partitions is not None and not partitions:
        raise UsageError(
            f"partitions to delete cannot be {partitions!r}",
            culprit="partitions",
            hint="name one or several in a list, for example ['region=eu']; truncate takes all of them",
        )
    named = None if partitions is None else tuple(sorted(set(partitions)))
    request = Request.of(uri, Operation.DELETE_PARTITION, arguments, partitions=named)
    return request.done(plan_deletion if request.dry_run else delete_partitions)


def chosen_runner(slots: int, arguments: RunnerArguments) -> Runner:
    """The runner that a caller names.

    Args:
        slots: tasks at once; 0: as many as fit the machine.

    Raises:
        OptionError: there is none of that name.
    """
    asked = with_defaults(arguments)
    runner = asked["runner"]
    if not isinstance(runner, str):
        if not callable(getattr(runner, "map", None)) or not hasattr(runner, "is_started"):
            raise OptionError(f"no runner {runner!r}", culprit="runner", hint="valid: local | spark, or a runner")
        return runner
    from lakeindex.tasks.progress_bars import progress_of

    if runner == "local":
        from lakeindex.tasks.local_runner import LocalRunner

        return LocalRunner(slots, progress_of(asked["progress"]))
    if runner == "spark":
        from lakeindex.runners.spark import SparkRunner
        from lakeindex.runners.spark_session import spark_session

        return SparkRunner(spark_session(asked["master"]), slots, progress_of(asked["progress"]))
    raise OptionError(f"no runner {runner!r}", culprit=runner, hint="valid: local | spark")


_HUDIS = {Change.DELETE: Operation.DELETE, Change.UPDATE: Operation.UPSERT, Change.REPLACE: Operation.UPSERT}


@door
@accounting()
def run_where(
    uri: str,
    change: Change,
    where: Condition,
    *,
    values: Mapping[str, Any] | None = None,
    data: BatchData = None,
    **arguments: Unpack[RunArguments],
) -> RunSummary:
    """Delete, update or replace the rows that meet a condition.

    Args:
        uri: the table.
        change: what is done with them.
        where: SQL-like text, or a pyarrow expression.
        values: of an update, the new values by column.
        data: the rows that come, if the others are replaced.
        **arguments: as of :class:`lakeindex.api.arguments.RunArguments`.

    Raises:
        LakeIndexError: see :mod:`lakeindex.errors`; nothing was published.
    """
    with loading():
        from lakeindex.operations.change_by_condition import change_rows
        from lakeindex.run.spec import ChosenRows

    if where is None or (isinstance(where, str) and not where.strip()):
        raise UsageError(
            f"there is no condition for the {change}",
            culprit="where",
            hint="where='true' means all rows; truncate deletes them",
        )
    if change is Change.UPDATE and not isinstance(values, Mapping):
        hint = "give a dict: set={'column': value}"
        raise UsageError(f"the new values cannot be {values!r}", culprit="set", hint=hint)
    told = tuple((name, repr(value)) for name, value in (values or {}).items())
    request = Request.of(uri, _HUDIS[change], arguments, chosen=ChosenRows(change, where, str(where), told))
    return request.done(
        lambda begun: change_rows(begun, request.runner, values, dry_run=request.dry_run),
        *((data,) if change is Change.REPLACE else ()),
    )
