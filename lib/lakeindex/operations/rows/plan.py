"""Which files a scan opens: of one snapshot, those that neither partition, statistics nor the index leave out.

A file is left out on evidence only: it lies in another partition, ``column_stats`` says that none of its rows can meet
the condition, or the index in force says that it holds none of the keys. What is left is read by
:mod:`lakeindex.operations.rows.file_reader`, where footers leave out row groups.

Record keys that a condition asks for (``id = 'a'`` and ``id IN (...)``) go through the index, as ``get`` does.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers
from lakeindex.model import BaseFile, IndexSpec
from lakeindex.operations.rows.aligned_rows import read_schema
from lakeindex.operations.rows.file_reader import FileReader, PieceReader, ReadSpec, narrowed
from lakeindex.operations.rows.index_files import KeyScope, index_of, plan_files
from lakeindex.operations.rows.key_sets import key_spec_of, knows_keys
from lakeindex.operations.rows.known_bounds import path_facts, stored_facts
from lakeindex.operations.rows.request import ScanReport, ScanRequest
from lakeindex.operations.rows.time_travel import PastTable, check_meta_columns, columns_of, past_table
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.predicates.predicate import Predicate, predicate_of
from lakeindex.predicates.values import array_of
from lakeindex.storage import current_options
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec


class Left(Frozen):
    """What is left out and what is not.

    Attributes:
        files: files to open, by partition and file id.
        rows: of each file the keys to look for, by their numbers; None if its rows are not found by key.
        index: the index that was asked for keys; None: none was.
        by_statistics: files left out by what is stored of them.
        notes: what could not be pruned, and why.
    """

    files: tuple[BaseFile, ...]
    rows: tuple[RowNumbers | None, ...]
    index: IndexSpec | None
    files_in_all: int
    by_partition: int
    by_statistics: int
    by_key: int
    notes: tuple[str, ...]


class ScanPlan(Frozen):
    """A scan of one snapshot; no row is read yet.

    Attributes:
        schema: columns to return.
        inner: columns to read: those, and what conditions need.
        keys: record keys that the condition asks for, distinct, ascending.
    """

    past: PastTable
    timeline: Timeline
    request: ScanRequest
    schema: pa.Schema
    inner: pa.Schema
    predicate: Predicate | None
    keys: pa.Array | None
    left: Left
    config: WriteConfig

    @property
    def table(self) -> Table:
        return self.past.table

    @property
    def asked(self) -> list[tuple[BaseFile, RowNumbers | None]]:
        """The files to open, each with the keys to look for by their numbers; None: all of its rows are compared."""
        return list(zip(self.left.files, self.left.rows, strict=True))

    @property
    def spec(self) -> ReadSpec:
        later = None if self.past.since is None else self.past.later
        keys = self.keys if any(rows is not None for rows in self.left.rows) else None
        return ReadSpec(self.table.uri, self.schema, self.inner, self.predicate, keys, later, self.config)

    def readers(self) -> list[FileReader]:
        spec = self.spec
        return [FileReader(spec, self.table.storage, file, rows) for file, rows in self.asked]

    def piece_reader(self) -> PieceReader:
        """A reader of the files that a task can carry."""
        return PieceReader(self.spec, tuple(self.asked), current_options())

    def report(self) -> ScanReport:
        """What is known before anything is read."""
        past, left = self.past, self.left
        return ScanReport(
            table=self.table.name,
            uri=self.table.uri,
            instant=past.snapshot.instant_time,
            as_of=past.as_of,
            since=past.since,
            where=None if self.predicate is None else self.predicate.text,
            columns=tuple(self.schema.names),
            keys=len(self.keys) if left.index is not None and self.keys is not None else None,
            index_type=None if left.index is None else str(left.index.index_type),
            files=left.files_in_all,
            files_pruned_by_partition=left.by_partition,
            files_pruned_by_statistics=left.by_statistics,
            files_pruned_by_key=left.by_key,
            files_left=len(left.files),
            notes=left.notes,
        )


def plan_scan(table: Table, timeline: Timeline, request: ScanRequest, runner: Runner) -> ScanPlan:
    """Find out which files a scan opens.

    Args:
        runner: for indexes that need an engine.

    Raises:
        UsageError: a column or partition that is not there, a condition that is not valid, a time that the history does
            not reach.
        TableError: a commit or committed file that is damaged or gone.
        StorageError: the store of the index cannot be reached.
    """
    config = parse_options(request.options)
    past = past_table(table, timeline, request.as_of, request.since)
    past.check_partitions(request.partitions or ())
    stored = read_schema(table, columns_of(past))
    if request.meta:
        check_meta_columns(table, "the meta columns")
    schema = request.chosen(stored)
    predicate = None if request.where is None else predicate_of(request.where, stored)
    spec = key_spec_of(table)
    keys = None
    if predicate is not None:
        keys = asked_keys(predicate, spec if spec is not None and knows_keys(table, spec) else None, stored)
    index = None
    if keys is not None or table.binding is None:  # an option without meaning is told though no index is asked
        index = index_of(table, past.timeline, config)
    planner = _Planner(past, stored, request, predicate, spec, index, config)
    left = planner.left(keys, runner)
    inner = _inner(past, stored, schema, predicate)
    return ScanPlan(past, timeline, request, schema, inner, predicate, keys, left, config)


class _Planner(Frozen):
    past: PastTable
    schema: pa.Schema
    request: ScanRequest
    predicate: Predicate | None
    spec: KeySpec | None
    index: IndexSpec | None
    config: WriteConfig

    @property
    def are_virtual(self) -> bool:
        """Whether rows do not store their keys: conditions on the key's columns find rows and row groups as well."""
        return not self.past.table.properties.populate_meta_fields

    def left(self, keys: pa.Array | None, runner: Runner) -> Left:
        every = self.past.snapshot.base_files_all()
        notes: list[str] = []
        in_partition = self._by_partition(every, notes)
        known = self._by_statistics([file for file in in_partition if self._may_be_newer(file)])
        rows = self._by_key(keys, every, known, runner, notes)
        files = known if rows is None else [file for file in known if file.path in rows]
        return Left(
            tuple(files),
            tuple(None if rows is None or self.are_virtual else rows[file.path] for file in files),
            self.index if rows is not None else None,
            len(every),
            len(every) - len(in_partition),
            len(in_partition) - len(known),
            len(known) - len(files),
            tuple(notes),
        )

    def _may_be_newer(self, file: BaseFile) -> bool:
        """Whether rows may be of a time that is asked for: a slice holds no row newer than itself."""
        return self.past.since is None or self.past.later.has(file.instant_time)

    def _by_partition(self, files: Sequence[BaseFile], notes: list[str]) -> list[BaseFile]:
        asked = self.request.partitions
        found = [file for file in files if asked is None or file.partition_path in asked]
        predicate, spec = self.predicate, self.spec
        if predicate is None or spec is None or not spec.partition_fields:
            return found
        names = {name for name, _ in spec.partition_fields}
        if names.isdisjoint(predicate.columns):
            return found
        why = self.past.table.why_paths_are_no_evidence()
        if why is not None:
            notes.append(f"{why}: a row may lie in another partition than its columns say, so statistics decide")
            return found
        paths = {file.partition_path for file in found}
        may = {path for path in paths if predicate.may_match(path_facts(path, spec, self.schema))}
        return [file for file in found if file.partition_path in may]

    def _by_statistics(self, files: Sequence[BaseFile]) -> list[BaseFile]:
        predicate, past = self.predicate, self.past
        view = past.table.metadata_view(past.timeline) if predicate is not None and files else None
        if predicate is None or view is None:
            return list(files)
        facts = stored_facts(view, files, predicate)
        return [file for file in files if predicate.may_match(facts.get(file.path, {}))]

    def _by_key(
        self,
        keys: pa.Array | None,
        every: tuple[BaseFile, ...],
        known: Sequence[BaseFile],
        runner: Runner,
        notes: list[str],
    ) -> dict[str, RowNumbers] | None:
        """Of the files that are left, those that may hold a key, with the keys by their numbers; None: any may."""
        if keys is None or self.index is None:
            return None
        if not len(keys) or not known:
            return {}
        plan = plan_files(KeyScope(self.past, self.index, every, None, self.config), keys, runner)
        notes += plan.notes
        left = {file.path for file in known}
        asks = [ask for ask in plan.asks(every) if ask.file.path in left]
        return {file.path: np.asarray(rows) for file, rows in narrowed(keys, asks, self.past.table.storage)}


def _inner(past: PastTable, stored: pa.Schema, schema: pa.Schema, predicate: Predicate | None) -> pa.Schema:
    chosen = frozenset(schema.names)
    needed = {*chosen, *(predicate.columns if predicate is not None else ())}
    if past.since is not None:
        needed.add(COMMIT_TIME)
    extra = (one for one in stored if one.name in needed and one.name not in chosen)
    return pa.schema([*schema, *extra])


_MOST_KEYS: Final = 1_000_000
_PLAIN: Final = (pa.types.is_string, pa.types.is_int32, pa.types.is_int64)


def asked_keys(predicate: Predicate, spec: KeySpec | None, schema: pa.Schema) -> pa.Array | None:
    """Record keys of which every chosen row has one, distinct, ascending; None if the condition names none.

    Args:
        spec: how keys are made; None if that is not known.
    """
    stored = predicate.equal_values((RECORD_KEY,))
    if stored is not None:
        return pa.array(list(stored), pa.string())
    if spec is None:
        return None
    fields = spec.record_key_fields
    values = [predicate.equal_values(tuple(name.split("."))) for name in fields]
    kinds = [schema.field(name).type if name in schema.names else None for name in fields]
    if any(one is None for one in values) or not all(_is_plain(kind) for kind in kinds):
        return None
    known = [one for one in values if one is not None]
    if math.prod(map(len, known)) > _MOST_KEYS:
        return None
    rows = list(zip(*itertools.product(*known), strict=True)) or [() for _ in fields]
    columns = {name: array_of(list(column), kind) for name, column, kind in zip(fields, rows, kinds, strict=True)}
    keys, problems = KeyGenerator(spec).record_keys(pa.table(columns))
    texts = {key for key, problem in zip(keys.to_pylist(), problems.to_pylist(), strict=True) if problem is None}
    return pa.array(sorted(texts), pa.string())


def _is_plain(kind: pa.DataType | None) -> bool:
    return kind is not None and any(is_plain(kind) for is_plain in _PLAIN)
