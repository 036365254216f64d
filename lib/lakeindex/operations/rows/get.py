"""Read rows by record key through the table's index: ``lakeindex get``.

The index names the files that can hold a key; what that means differs by kind. One that narrows by key range takes
ranges and filters from the footer cache; one that computes says which file group; one that stores locations is asked as
it is: reading changes no index and no cache. Live files that a stored index does not cover are asked themselves, and so
is every file if it is not built; the report says so. :mod:`lakeindex.operations.rows.file_reader` reads what is left.

An answer is right whatever the index says wrongly, with one exception that holds for writes, too:
a location that a store lost without noticing (``lakeindex index verify``).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from time import perf_counter
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.hashing.arrow import RowNumbers
from lakeindex.operations.consistent_read import read_consistently
from lakeindex.operations.rows.aligned_rows import read_schema
from lakeindex.operations.rows.file_reader import FileAsk, Got, KeyTask, ReadSpec, Tally, get_from_files
from lakeindex.operations.rows.index_files import KeyScope, Plan, index_of, plan_files
from lakeindex.operations.rows.key_sets import KeyForm, KeySet, key_set, key_spec_of
from lakeindex.operations.rows.request import ScanRequest
from lakeindex.operations.rows.time_travel import (
    PastTable,
    check_not_cleaned,
    columns_of,
    past_table,
    present_table,
)
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import SCHEMA_VERSION, JsonResult, TableResult
from lakeindex.showing.json_values import json_of, json_value
from lakeindex.table.handle import Table
from lakeindex.table.key_spelling import shown_spec
from lakeindex.table.table_columns import virtual_keys
from lakeindex.tasks.meter import IoCount
from lakeindex.tasks.runner import Runner, do_task, pack, run_tasks
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import PARTITION_PATH, RECORD_KEY
from lakeindex.write.types.avro_schema import META_FIELDS

_OPEN_COST = 1_000_000.0
"""Opening a file costs about as much as reading so many bytes."""
_READ_SHARE = 0.05
"""The key column's share of a file, about."""
_ORDER = "_li_order"


class GetReport(TableResult):
    """What a look-up of keys took.

    Attributes:
        instant: newest commit of the state that was read; None on an empty table.
        as_of: the point in time asked for, as an instant.
        index_type: the index that was asked.
        keys: distinct keys asked for.
        rows: rows found.
        missing: keys that are not stored.
        files: live files in scope.
        files_pruned: of those, files that were not opened.
        files_opened: files whose footer was read.
        files_read: files whose key column was read.
        row_groups: row groups of the opened files.
        row_groups_searched: row groups whose key column was read.
        row_groups_read: row groups of which the other columns were read.
        keys_read: keys in the columns that were read.
        requests: storage requests.
        bytes_read: bytes read.
        seconds: wall time.
        notes: what could not be pruned, and why.
    """

    instant: str | None
    as_of: str | None
    index_type: str
    keys: int
    rows: int
    missing: int
    files: int
    files_pruned: int
    files_opened: int
    files_read: int
    row_groups: int
    row_groups_searched: int
    row_groups_read: int
    keys_read: int
    requests: int
    bytes_read: int
    seconds: float
    notes: tuple[str, ...] = ()


class GetResult(JsonResult):
    """Rows by key.

    Attributes:
        rows: the rows, meta columns first (or the columns asked for), by key, then partition.
        missing: keys that are not stored, ascending.
        report: what it took.
        out: the file that the rows were written to, if they were.
    """

    shown_by: ClassVar[str] = "results:show_get"

    rows: pa.Table
    missing: tuple[str, ...]
    report: GetReport
    out: str | None = None

    def written_to(self, out: str) -> GetResult:
        """The same, with the file that the rows were written to."""
        return replace(self, out=out)

    def to_json(self) -> str:
        """One JSON object, as ``docs/schemas/get.json`` describes it; without rows if they are in a file."""
        rows = [] if self.out is not None else [json_value(row) for row in self.rows.to_pylist()]
        return json.dumps(
            {
                "schema_version": SCHEMA_VERSION,
                "report": json_of(self.report),
                "missing": list(self.missing),
                "rows": rows,
                "out": self.out,
            }
        )


def get_rows(uri: str, keys: KeySet, request: ScanRequest, runner: Runner) -> GetResult:
    """The rows of some record keys.

    Args:
        keys: record keys as they are stored: the field's value, or ``field:value,field:value`` under a complex key; or
            the values of its columns.
        request: of which partitions and columns, as they were when, and options that the index needs, such as the
            address of its store. A stored index is not asked how rows were.
        runner: schedules the tasks; rows come back to the caller.

    Raises:
        TableError: no table, or one that is not read; a damaged file that may hold a key; a lost one.
        UsageError: no such column or partition, or a time that the history does not reach.
        InputError: what was given is no set of keys.
        WriteConflictError: other writers took away what was read, again and again.
    """
    config = parse_options(request.options)
    started = perf_counter()

    def read(table: Table, timeline: Timeline) -> tuple[pa.Array, KeyScope, Plan, Got]:
        past = present_table(table, timeline) if request.as_of is None else past_table(table, timeline, request.as_of)
        past.check_partitions(request.partitions or ())
        stored = columns_of(past)
        schema = request.chosen(read_schema(table, stored))
        scope = _scope(past, request.partitions, config)
        check_not_cleaned(past.snapshot)
        if request.as_of is None:
            past.snapshot.check_whole(request.partitions)
        asked = key_set(keys, _form(past, stored))
        plan = plan_files(scope, asked, runner) if len(asked) and scope.files else Plan()
        # rows are sorted by key and partition, whatever is asked for
        order = [f for f in META_FIELDS if f.name in (RECORD_KEY, PARTITION_PATH) and f.name not in schema.names]
        inner = pa.schema([*schema, *order])
        spec = ReadSpec(table.uri, inner, inner, None, asked, None, config, virtual_keys(table, stored))
        got = _read(spec, plan.asks(scope.files), runner)
        return asked, scope, plan, replace(got, rows=got.rows.select(schema.names))

    outcome = do_task(lambda _: read_consistently(uri, read, use_metadata=config.use_metadata), None)
    asked, scope, plan, got = outcome.value
    missing = _missing(asked, got.found)
    seconds = round(perf_counter() - started, 4)
    return GetResult(got.rows, missing, _report(scope, plan, got, outcome.cost.io, keys=len(asked), seconds=seconds))


def _report(scope: KeyScope, plan: Plan, got: Got, io: IoCount, *, keys: int, seconds: float) -> GetReport:
    tally = got.tally
    return GetReport(
        table=scope.table.name,
        uri=scope.table.uri,
        instant=scope.past.snapshot.instant_time,
        as_of=scope.past.as_of,
        index_type=scope.index.index_type,
        keys=keys,
        rows=got.rows.num_rows,
        missing=keys - len(np.unique(got.found)),
        files=len(scope.files),
        files_pruned=len(scope.files) - tally.files_opened,
        files_opened=tally.files_opened,
        files_read=tally.files_read,
        row_groups=tally.row_groups,
        row_groups_searched=tally.row_groups_read,
        row_groups_read=tally.row_groups_found,
        keys_read=tally.keys_read,
        requests=io.requests,
        bytes_read=io.bytes_read,
        seconds=seconds,
        notes=tuple(plan.notes),
    )


def _scope(past: PastTable, partitions: tuple[str, ...] | None, config: WriteConfig) -> KeyScope:
    index = index_of(past.table, past.timeline, config)
    if partitions is None:
        return KeyScope(past, index, past.snapshot.base_files_all(), None, config)
    files = tuple(file for partition in partitions for file in past.snapshot.base_files(partition))
    return KeyScope(past, index, files, partitions[0] if len(partitions) == 1 else None, config)


def _form(past: PastTable, schema: pa.Schema) -> KeyForm:
    """What the table's keys look like; of keys that releases store in two ways, as they are stored."""
    table = past.table
    if table.binding is not None:
        return KeyForm(key_spec_of(table), schema)
    return KeyForm(shown_spec(table, past.snapshot.base_files_all(), schema), schema)


def _read(spec: ReadSpec, asks: Sequence[FileAsk], runner: Runner) -> Got:
    """The rows of the files with the columns to read, by key and partition."""
    costs = [_OPEN_COST + ask.file.size_bytes * _READ_SHARE for ask in asks]
    tasks = [KeyTask(spec, tuple(asks[i] for i in numbers)) for numbers in pack(costs, runner.slots * 2)]
    parts = run_tasks(runner, get_from_files, tasks, "get: read the files that can hold the keys")
    tally = Tally()
    for part in parts:
        tally.add(part.tally)
    got = Got.of(spec.inner, [(part.rows, part.found) for part in parts], tally)
    places = pa.table({_ORDER: got.found, PARTITION_PATH: got.rows.column(PARTITION_PATH)})
    order_of = pc.sort_indices(places, sort_keys=[(_ORDER, "ascending"), (PARTITION_PATH, "ascending")])
    return replace(got, rows=got.rows.take(order_of))


def _missing(keys: pa.Array, found: RowNumbers) -> tuple[str, ...]:
    absent = np.ones(len(keys), np.bool_)
    absent[found] = False
    return tuple(keys.filter(pa.array(absent)).to_pylist())
