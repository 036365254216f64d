"""Delete, update or replace the rows that meet a condition.

The rows that meet a condition are chosen as a scan finds them, and written to the run's folder, file by file. What is
held is a few blocks of rows of each task, however many rows are chosen.
"""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from lakeindex.commands.get.key_sets import key_spec_of
from lakeindex.commands.rescale.aligned_rows import read_schema
from lakeindex.commands.scan.partitions import path_facts
from lakeindex.commands.scan.plan import ScanPlan, plan_scan
from lakeindex.commands.scan.reading import FileReader, ReadSpec, spec_of
from lakeindex.commands.scan.request import ScanRequest
from lakeindex.commands.where.setting import Assignment, assigned, read_values
from lakeindex.conductor.chosen import Choice, required, run_chosen
from lakeindex.conductor.delete_partitions import delete_partitions, plan_deletion
from lakeindex.conductor.dry_run import plan_batch
from lakeindex.conductor.opened import Opened, open_for_write
from lakeindex.errors import UsageError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.hashing.arrow import RowNumbers
from lakeindex.model import BaseFile, Change, Operation
from lakeindex.predicates.bounds import Bounds
from lakeindex.predicates.predicate import Predicate, predicate_of
from lakeindex.predicates.values import array_of
from lakeindex.run import row_pieces
from lakeindex.run.chosen_rows import CHOSEN_FOLDER
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.run.table_facts import facts_of
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY
from lakeindex.write.keys.key_spec import KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.virtual_keys import VirtualKeys

_PACKS_A_SLOT = 4
_OPEN_COST = 1_000_000


@dataclass(frozen=True)
class ChooseTask:
    """Write the chosen rows of some files.

    Attributes:
        spec: the run.
        read: how the files are read.
        files: the files, each with the record keys to look for by their numbers; None: compare all of its rows.
        values: what an update sets.
        virtual: how the keys of stored rows are made; None: they are stored.
        stem: path of the files to write, up to their number.
    """

    spec: RunSpec
    read: ReadSpec
    files: tuple[tuple[BaseFile, RowNumbers | None], ...]
    values: tuple[Assignment, ...]
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
            columns = assigned(rows_of_table, task.values)
            partition = pa.repeat(pa.scalar(file.partition_path, pa.string()), chosen.num_rows)
            names = [RECORD_KEY, PARTITION_PATH, *columns.column_names]
            yield from pa.table([keys, partition, *columns.columns], names=names).to_batches()


@dataclass(frozen=True)
class TableRows:
    """Chooses rows of the table.

    Attributes:
        values: of an update, the new values by column, as the caller gave them.
        runner: schedules the tasks.
    """

    runner: Runner
    values: dict[str, object] = field(default_factory=dict)

    def choose(self, spec: RunSpec, table: Table, snapshot: Snapshot) -> Choice:
        """As :class:`lakeindex.conductor.chosen.Source`."""
        chosen, facts = required(spec), facts_of(table, snapshot, spec.config)
        updates = chosen.change is Change.UPDATE
        keyed_by = (RECORD_KEY,) if facts.virtual is None else facts.virtual.columns
        columns = (*keyed_by, *(facts.schema.names if updates else ()))
        request = ScanRequest(columns=columns, where=chosen.where, options=dict(spec.options))
        plan = plan_scan(table, snapshot.timeline, request, self.runner)
        values = read_values(self.values, facts) if updates else ()
        inputs = self._written(spec, plan, values, facts.virtual)
        return Choice(inputs, _Recheck(spec_of(plan), chosen.text, table))

    def _written(
        self, spec: RunSpec, plan: ScanPlan, values: tuple[Assignment, ...], virtual: VirtualKeys | None
    ) -> tuple[str, ...]:
        left = plan.left
        rows = left.rows if left.rows is not None else [None] * len(left.files)
        files = list(zip(left.files, rows, strict=True))
        if not files:
            return ()
        near = for_work(self.runner, sum(file.size_bytes for file in left.files), spec.config)
        packs = pack([_OPEN_COST + float(file.size_bytes) for file in left.files], near.slots * _PACKS_A_SLOT)
        folder = f"{spec.run_id}/{CHOSEN_FOLDER}/{uuid.uuid4().hex[:12]}"
        read = spec_of(plan)
        tasks = [
            ChooseTask(
                spec, read, tuple(files[number] for number in numbers), values, virtual, f"{folder}/{place:05d}-"
            )
            for place, numbers in enumerate(packs)
        ]
        done = run_tasks(near, choose_rows, tasks, "choose the rows that meet the condition")
        root = spec.checkpoints_uri.rstrip("/")
        return tuple(f"{root}/{path}" for paths in done for path in paths)


@dataclass(frozen=True)
class _Recheck:
    """Nobody has committed a row since a snapshot that would have been chosen, too."""

    read: ReadSpec
    where: str
    table: Table

    def __call__(self, files: Sequence[BaseFile]) -> None:
        read = ReadSpec(
            self.read.uri,
            pa.schema([self.read.schema.field(0)]),
            self.read.inner,
            self.read.predicate,
            None,
            None,
            self.read.config,
        )
        for file in files:
            for _ in FileReader(read, self.table.storage, file, None).tables():
                raise WriteConflictError(
                    f"{file.path} was committed meanwhile with rows that meet the condition {self.where}",
                    culprit=file.path,
                    hint="the rows are chosen again",
                )


def change_rows(
    spec: RunSpec, runner: Runner, values: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> RunSummary:
    """Change the rows that meet the run's condition.

    A deletion that partition paths decide alone takes whole partitions out of the table, and reads no row.

    Args:
        spec: the run; ``chosen`` says which rows, and what is done with them.
        values: of an update, the new values by column.
        dry_run: write nothing.

    Raises:
        UsageError: the condition or a value does not fit the table's columns.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    chosen = required(spec)
    opened = open_for_write(spec.table_uri, spec.config)
    schema = opened.facts.schema
    if chosen.change is Change.REPLACE:
        _check_replaceable(predicate_of(chosen.where, schema))
    predicate = predicate_of(chosen.where, read_schema(opened.table, schema))
    if chosen.change is Change.UPDATE:
        read_values(values or {}, opened.facts)  # what is wrong is told before the run begins
    by_path = _by_path(opened, predicate) if chosen.change is Change.DELETE else None
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


def _by_path(opened: Opened, predicate: Predicate) -> _ByPath | None:
    """Chooses partitions, if their paths decide the condition for all of their rows."""
    table = opened.table
    spec = key_spec_of(table)
    if spec is None or table.why_paths_are_no_evidence() is not None:
        return None
    chooser = _ByPath(predicate, spec, opened.facts.schema)
    known = [chooser.decides(path) for path in opened.snapshot.partitions()]
    return chooser if known and None not in known else None


@dataclass(frozen=True)
class _ByPath:
    """Chooses the partitions whose rows all meet a condition. The others' rows do not, none of them."""

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
                    hint="run it again",
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
