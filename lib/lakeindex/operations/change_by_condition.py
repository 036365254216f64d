"""Delete, update or replace the rows that meet a condition.

The rows that meet a condition are chosen as a scan finds them, and written to the run's folder, file by file. What is
held is a few blocks of rows of each task, however many rows are chosen.

What an update sets are constants, or expressions over the columns of the row as it was.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from msgspec import field
from msgspec.structs import replace

from lakeindex.conductor.chosen_batch import Choice, required, run_chosen
from lakeindex.conductor.delete_partitions import delete_partitions, plan_deletion
from lakeindex.conductor.dry_run import plan_batch
from lakeindex.conductor.open_for_write import open_and_retry
from lakeindex.errors import SchemaMismatchError, UsageError, WriteConflictError, first_line
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers
from lakeindex.model import BaseFile, Change, Operation
from lakeindex.operations.rows.aligned_rows import read_schema
from lakeindex.operations.rows.file_reader import FileReader, ReadSpec
from lakeindex.operations.rows.key_sets import key_spec_of
from lakeindex.operations.rows.known_bounds import path_facts
from lakeindex.operations.rows.plan import ScanPlan, plan_scan
from lakeindex.operations.rows.request import ScanRequest
from lakeindex.predicates.arrow_expressions import Assigned, text_of
from lakeindex.predicates.bounds import Bounds
from lakeindex.predicates.predicate import Predicate, predicate_of
from lakeindex.predicates.values import array_of
from lakeindex.run import row_pieces
from lakeindex.run.spec import CHOSEN_FOLDER, BoundTable, RunSpec, TableFacts
from lakeindex.run.summary import RunSummary
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.time_spent import loading
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY
from lakeindex.write.keys.key_generators import KeySpec
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS
from lakeindex.write.types.type_fit import python_problem, type_problem
from lakeindex.write.virtual_keys import VirtualKeys

_PACKS_A_SLOT = 4
_OPEN_COST = 1_000_000
_ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


class Assignment(Frozen):
    """A column's new value.

    Attributes:
        expression: the value, as Arrow computes it from the row's columns.
        reads: columns that it is computed from.
    """

    column: str
    expression: pc.Expression
    reads: frozenset[str]


def read_values(values: Mapping[str, object], facts: TableFacts) -> tuple[Assignment, ...]:
    """What an update sets, column by column.

    Args:
        values: of each column a text (an SQL-like expression), a pyarrow expression or scalar, or a plain value.

    Raises:
        UsageError: there is no such column, it may not be set, or the value does not fit its type.
    """
    _check_columns(values, facts)
    every = frozenset(facts.schema.names)
    found = {name: _assigned(name, value, facts.schema) for name, value in values.items()}
    return tuple(
        Assignment(name, one.expression, every if one.reads is None else one.reads) for name, one in found.items()
    )


def assigned(rows: pa.Table, values: Sequence[Assignment]) -> pa.Table:
    """Rows with new values; all are computed from the rows as they were.

    Raises:
        SchemaMismatchError: a value cannot be computed: a number that is too large, a division by zero.
    """
    result = rows
    # Arrow makes no column of a list or a map that is constant for a batch without rows
    source = ds.dataset([batch for batch in rows.to_batches() if batch.num_rows] or rows) if values else None
    for one in values:
        try:
            column = source.to_table(columns={one.column: one.expression}).column(0)  # type: ignore[union-attr]
        except _ARROW_ERRORS as error:
            raise SchemaMismatchError(
                f"the new value of column {one.column!r} cannot be computed for every row: {first_line(error)}",
                culprit=one.column,
                hint="nothing was published; leave such rows out by the condition, or compute in a wider type",
            ) from error
        result = result.set_column(result.schema.get_field_index(one.column), one.column, column)
    return result


def _check_columns(values: Mapping[str, object], facts: TableFacts) -> None:
    if not values:
        raise UsageError("an update sets nothing", culprit="set", hint="for example set={'status': \"'closed'\"}")
    listed = f"its columns: {', '.join(facts.schema.names)}"
    names = frozenset(facts.schema.names)
    for name in values:
        if name not in names:
            raise UsageError(f"the table has no column {name!r} that could be set", culprit=name, hint=listed)
        if name in facts.keys.record_key_fields or name in {one.split(".")[0] for one in facts.keys.record_key_fields}:
            raise _fixed(name, "it is in the record key", "delete the row, and insert it with the other key")
        if name in {one.split(".")[0] for one, _ in facts.keys.partition_fields}:
            raise _fixed(name, "it makes the partition path", "upsert the rows with another partition, or delete them")
        if name in facts.event_time_fields:
            why = "it is the ordering field: an update by a smaller value would be late, and one by a larger value"
            raise _fixed(name, f"{why} would make rows late that are not", "upsert the rows with their ordering values")
        if name == DELETE_MARK:
            raise _fixed(name, "it marks rows to be deleted", "delete(where=...) deletes rows")


def _fixed(name: str, why: str, hint: str) -> UsageError:
    return UsageError(f"column {name!r} cannot be set: {why}", culprit=name, hint=hint)


def _assigned(name: str, value: object, schema: pa.Schema) -> Assigned:
    column = schema.field(name)
    if isinstance(value, str | pc.Expression):
        with loading():  # of sqlglot, too
            from lakeindex.predicates.assign import expression_for, type_of_expression

    if isinstance(value, str):
        found = expression_for(value, column, schema)
    elif isinstance(value, pc.Expression):
        found = Assigned(value, type_of_expression(value, schema, text_of(value)))
    else:
        found = _constant(name, value, column.type)
    problem = type_problem(found.type, column.type)
    if problem is not None:
        raise UsageError(
            f"column {name!r} is {column.type}, and cannot be set to {value}, which is {found.type}: {problem}",
            culprit=name,
            hint="CAST(... AS type) makes another type of it, in the expression",
        )
    return found


def _constant(name: str, value: object, kind: pa.DataType) -> Assigned:
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
        if scalar.as_py() is None:
            scalar = pa.scalar(None, kind)
        problem, hint = python_problem(value, kind), "give a value of that type, or an expression that makes one"
    except _ARROW_ERRORS as error:
        problem, hint = (
            first_line(error),
            "a text is an expression: a constant text is in single quotes, as in \"'closed'\"",
        )
    if problem is not None:
        raise UsageError(
            f"column {name!r} is {kind}, and cannot be set to {value!r}: {problem}", culprit=name, hint=hint
        )
    return Assigned(pc.scalar(scalar), scalar.type, frozenset())


class ChooseTask(Frozen):
    """Write the chosen rows of some files.

    Attributes:
        files: the files, each with the record keys to look for by their numbers; None: compare all of its rows.
        given: columns of the table that are written.
        virtual: how the keys of stored rows are made; None: they are stored.
        stem: path of the files to write, up to their number.
    """

    spec: RunSpec
    read: ReadSpec
    files: tuple[tuple[BaseFile, RowNumbers | None], ...]
    values: tuple[Assignment, ...]
    given: tuple[str, ...]
    virtual: VirtualKeys | None
    stem: str


def choose_rows(task: ChooseTask) -> tuple[str, ...]:
    """Paths of the files that hold the rows; none if there are no rows.

    Raises:
        TableCorruptError: a file is missing or cannot be read.
        SchemaMismatchError: a new value does not fit its column.
    """
    blocks = row_pieces.in_blocks(_batches(task))
    first = next(blocks, None)
    if first is None:
        return ()
    store = storage_at(task.spec.checkpoints_uri)
    stem = f"{task.stem}{uuid.uuid4().hex[:8]}-"  # of this try: a straggler replaces nothing
    written = row_pieces.write_pieces(store, stem, first.schema, itertools.chain([first], blocks))
    return tuple(path for path, _ in written)


def _batches(task: ChooseTask) -> Iterator[pa.RecordBatch]:
    table = storage_at(task.read.uri)
    for file, rows in task.files:
        for chosen in FileReader(task.read, table, file, rows).tables():
            if task.virtual is None:
                keys, rows_of_table = chosen.column(RECORD_KEY), chosen.drop_columns([RECORD_KEY])
            else:
                keys, rows_of_table = task.virtual.of(chosen, file.path), chosen
            columns = assigned(rows_of_table, task.values).select(task.given).columns
            partition = pa.repeat(pa.scalar(file.partition_path, pa.string()), chosen.num_rows)
            names = [RECORD_KEY, PARTITION_PATH, *task.given]
            yield from pa.table([keys, partition, *columns], names=names).to_batches()


class TableRows(Frozen):
    """Chooses rows of the table.

    Attributes:
        values: of an update, the new values by column, as the caller gave them.
    """

    runner: Runner
    values: dict[str, object] = field(default_factory=dict)

    def choose(self, spec: RunSpec, bound: BoundTable) -> Choice:
        """As :class:`lakeindex.conductor.chosen_batch.Source`."""
        chosen, facts = required(spec), bound.facts
        updates = chosen.change is Change.UPDATE
        values = read_values(self.values, facts) if updates else ()
        given = _given(facts, values) if updates else ()
        keyed_by = (RECORD_KEY,) if facts.virtual is None else facts.virtual.columns
        read = dict.fromkeys([*keyed_by, *given, *(name for one in values for name in sorted(one.reads))])
        request = ScanRequest(columns=tuple(read), where=chosen.where, options=dict(spec.options))
        plan = plan_scan(bound.table, bound.snapshot.timeline, request, self.runner)
        inputs = self._written(spec, plan, values, given, facts.virtual)
        recheck = _Recheck(plan.spec, chosen.text, bound.table)
        return Choice(inputs, recheck, given=given if updates else None)

    def _written(
        self,
        spec: RunSpec,
        plan: ScanPlan,
        values: tuple[Assignment, ...],
        given: tuple[str, ...],
        virtual: VirtualKeys | None,
    ) -> tuple[str, ...]:
        files = plan.asked
        if not files:
            return ()
        near = for_work(self.runner, sum(file.size_bytes for file, _ in files), spec.config)
        packs = pack([_OPEN_COST + float(file.size_bytes) for file, _ in files], near.slots * _PACKS_A_SLOT)
        folder = f"{spec.run_id}/{CHOSEN_FOLDER}/{uuid.uuid4().hex[:12]}"
        read = plan.spec
        tasks = [
            ChooseTask(
                spec, read, tuple(files[number] for number in numbers), values, given, virtual, f"{folder}/{place:05d}-"
            )
            for place, numbers in enumerate(packs)
        ]
        done = run_tasks(near, choose_rows, tasks, "choose the rows that meet the condition")
        root = spec.checkpoints_uri.rstrip("/")
        return tuple(f"{root}/{path}" for paths in done for path in paths)


def _given(facts: TableFacts, values: Sequence[Assignment]) -> tuple[str, ...]:
    """Columns of an update's batch: those that it sets, and those that say whether a row goes, or comes too late."""
    marks = [DELETE_MARK] if facts.delete_mark is None else [DELETE_MARK, facts.delete_mark[0].split(".")[0]]
    wanted = {*facts.event_time_fields, *marks, *(one.column for one in values)}
    return tuple(name for name in facts.schema.names if name in wanted)


class _Recheck(Frozen):
    """Makes sure that no row that would have been chosen, too, was committed since a snapshot."""

    read: ReadSpec
    where: str
    table: Table

    def __call__(self, files: Sequence[BaseFile]) -> None:
        read = replace(self.read, schema=pa.schema([self.read.schema.field(0)]), keys=None, later=None)
        for file in files:
            for _ in FileReader(read, self.table.storage, file, None).tables():
                raise WriteConflictError(
                    f"{file.path} was committed meanwhile with rows that meet the condition {self.where}",
                    culprit=file.path,
                )


def change_rows(
    spec: RunSpec, runner: Runner, values: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> RunSummary:
    """Change the rows that meet the run's condition.

    A deletion that partition paths decide alone takes whole partitions out of the table, and reads no row.

    Args:
        spec: the run; ``chosen`` says which rows, and what is done with them.

    Raises:
        UsageError: the condition or a value does not fit the table's columns.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    chosen = required(spec)

    def look(opened: BoundTable) -> _ByPath | None:  # what is wrong is told before the run begins
        schema = opened.facts.schema
        if chosen.change is Change.REPLACE:
            _check_replaceable(predicate_of(chosen.where, schema))
        predicate = predicate_of(chosen.where, read_schema(opened.table, schema))
        if chosen.change is Change.UPDATE:
            read_values(values or {}, opened.facts)
        return _by_path(opened, predicate) if chosen.change is Change.DELETE else None

    by_path = open_and_retry(spec.table_uri, spec.config, look)
    if by_path is not None:
        whole = replace(spec, operation=Operation.DELETE_PARTITION)
        return plan_deletion(whole, by_path) if dry_run else delete_partitions(whole, by_path)
    source = TableRows(runner, dict(values or {}))
    return plan_batch(spec, runner, source) if dry_run else run_chosen(spec, source, runner)


def _check_replaceable(predicate: Predicate) -> None:
    meta = [name for name in predicate.columns if name in META_COLUMNS]
    if meta:
        raise UsageError(
            f"the condition {predicate.text!r} names {meta[0]!r}, which the rows of a batch do not have",
            culprit=meta[0],
            hint="name columns of the table",
        )


def _by_path(opened: BoundTable, predicate: Predicate) -> _ByPath | None:
    """Chooses partitions, if their paths decide the condition for all of their rows."""
    table = opened.table
    spec = key_spec_of(table)
    if spec is None or table.why_paths_are_no_evidence() is not None:
        return None
    chooser = _ByPath(predicate, spec, opened.facts.schema)
    known = [chooser.decides(path) for path in opened.snapshot.partitions()]
    return chooser if known and None not in known else None


class _ByPath(Frozen):
    """Chooses the partitions of which all rows meet a condition. No row of the others meets it."""

    predicate: Predicate
    spec: KeySpec
    schema: pa.Schema

    def partitions(self, there: Sequence[str]) -> Sequence[str]:
        """As :class:`lakeindex.conductor.delete_partitions.Chooser`.

        Raises:
            WriteConflictError: a partition came whose path does not decide.
        """
        found = [(path, self.decides(path)) for path in there]
        for path, answer in found:
            if answer is None:
                raise WriteConflictError(
                    f"partition {path!r} was made meanwhile, and its path does not say whether its rows meet the "
                    f"condition {self.predicate.text}",
                    culprit=path,
                )
        return [path for path, answer in found if answer]

    def decides(self, path: str) -> bool | None:
        """Whether all rows of a partition meet the condition (True) or none (False); None if that is not known."""
        facts = path_facts(path, self.spec, self.schema)
        if not self.predicate.may_match(facts):
            return False
        if self.predicate.must_match(facts):
            return True
        if set(self.predicate.paths) - set(facts) or set(self.predicate.columns) - {name for name, *_ in facts}:
            return None
        columns = {}
        for name in self.predicate.columns:
            value = facts[name,].least
            if value is None or facts[name,] != Bounds(value, value, may_be_null=False):
                return None
            columns[name] = array_of([value], self.schema.field(name).type)
        return bool(self.predicate.mask(pa.table(columns) if columns else _ONE_ROW)[0].as_py())


_ONE_ROW = pa.table({"row": [0]})
