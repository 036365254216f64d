"""Delete, update or replace the rows that meet a condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from lakeindex.commands.get.key_sets import key_spec_of
from lakeindex.commands.rescale.aligned_rows import read_schema
from lakeindex.commands.scan.partitions import path_facts
from lakeindex.commands.where.choosing import TableRows
from lakeindex.commands.where.setting import read_values
from lakeindex.conductor.chosen import required, run_chosen
from lakeindex.conductor.delete_partitions import delete_partitions, plan_deletion
from lakeindex.conductor.dry_run import plan_batch
from lakeindex.conductor.opened import Opened, open_for_write
from lakeindex.errors import UsageError, WriteConflictError
from lakeindex.model import Change, Operation
from lakeindex.predicates.predicate import Predicate, predicate_of
from lakeindex.predicates.values import array_of
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.runner import Runner
from lakeindex.write.keys.key_spec import KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS


def change_rows(
    spec: RunSpec, runner: Runner, values: Mapping[str, object] | None = None, *, dry_run: bool = False
) -> RunSummary:
    """Change the rows that meet the run's condition.

    A deletion that partition paths decide alone takes whole partitions out of the table, and reads no row.

    Args:
        spec: the run; ``chosen`` says which rows, and what is done with them.
        runner: schedules the tasks.
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
        if set(self.predicate.paths) - set(facts) or set(self.predicate.columns) - {name for name, *_ in facts}:
            return None
        columns = {}
        for name in self.predicate.columns:
            value = facts[name,].least
            if value is None:
                return None
            columns[name] = array_of([value], self.schema.field(name).type)
        return bool(self.predicate.mask(pa.table(columns) if columns else _ONE_ROW)[0].as_py())


_ONE_ROW = pa.table({"row": [0]})
