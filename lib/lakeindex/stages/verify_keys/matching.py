"""What a task of the stage does: match candidates with the keys of files, and decide the fate of what is found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.files.key_columns import StoredColumns
from lakeindex.hashing.arrow import one_array
from lakeindex.in_groups import groups_within
from lakeindex.index.contract import KeyHomes
from lakeindex.index.fate import Fate, fates_of_found
from lakeindex.index.key_match import Matches, match_keys
from lakeindex.index.registry import index_for
from lakeindex.model import Change
from lakeindex.pipeline import LOCATIONS, OP_DELETE, OP_UPSERT, STAGED_OP, STAGED_PARTITION
from lakeindex.predicates.row_conditions import RowConditions
from lakeindex.run.checkpoints import Part, RunFolder, arrow_schema
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, unpack_rows
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, TableFacts, conditions_of, run_folder
from lakeindex.stages.verify_keys.carried import VerifyResult, count_lines, pairs_in
from lakeindex.tasks.memory_bound import TOGETHER_BYTES, current_share, held_by, verify_bytes
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.ordering import are_older
from lakeindex.write.types.widening import widened_array

_KEYS_AT_ONCE = 1_000_000
"""Candidate keys of one file that are matched at once: bounds memory, whatever the batch."""
_KEY_BYTES = 500
"""What one of them takes meanwhile, at most about."""


@dataclass(frozen=True, slots=True)
class FileCandidates:
    """One file and the candidate parts that name it, with the chunks they name."""

    file: LookupFile
    parts: tuple[Part, ...]
    pairs: int

    @property
    def held_bytes(self) -> int:
        """Memory that matching its keys takes, about."""
        return verify_bytes(self.file.file.size_bytes)

    @property
    def at_once_bytes(self) -> int:
        """The same, if all its candidates are matched at once."""
        return max(self.held_bytes, self.pairs * _KEY_BYTES)


@dataclass(frozen=True, slots=True)
class VerifyTask:
    """Some files to verify; ``chunks`` are those their candidates name."""

    spec: RunSpec
    facts: TableFacts
    files: tuple[FileCandidates, ...]
    chunks: dict[int, Chunk]
    number: int
    path: str

    @property
    def held_bytes(self) -> int:
        """Memory it will need, about: its files come one after the other, or several small ones."""
        return held_by(self.files)


def verify_files(task: VerifyTask) -> VerifyResult:
    """Locations of the candidates that are really in their files.

    Small files are matched several at once, and what is found is gathered over many files before its fate is decided:
    of a small file the calls for that would take longer than reading it.
    """
    most = min(_KEYS_AT_ONCE, current_share() // _KEY_BYTES)
    tables, gathered, rows = [], list[_Found](), 0
    records = _records(task)
    deciding = _deciding(task)
    room, homes = min(TOGETHER_BYTES, current_share()), index_for(task.facts.index).homes
    for some in groups_within(task.files, attrgetter("at_once_bytes"), room):
        stored = [(_Stored(task, one.file, deciding.stored, homes), records[one.file.number]) for one in some]
        for found in _found_in(task, deciding, stored, most):
            if gathered and rows + len(found.row) > most:
                tables.append(_located(task, deciding, gathered))
                gathered, rows = [], 0
            gathered.append(found)
            rows += len(found.row)
    tables.append(_located(task, deciding, gathered))
    table = pa.concat_tables(tables)
    part = run_folder(task.spec).write_table(task.path, table)
    pairs = sum(one.pairs for one in task.files)
    return VerifyResult(part, tuple(count_lines(table, task.number)), pairs, pairs_in(table))


def pairs_of(table: pa.Table) -> list[int]:
    """Pairs of each line of ``candidates`` or ``ranges``."""
    if "pairs" in table.column_names:
        return table.column("pairs").to_pylist()
    return pc.subtract(table.column("to_row"), table.column("from_row")).to_pylist()


def rows_of(record: Mapping[str, Any]) -> np.ndarray:
    """Rows of a line of ``candidates`` or ``ranges``: int64 [n]."""
    if "rows" in record:
        return unpack_rows(record["rows"])
    return np.arange(record["from_row"], record["to_row"], dtype=np.int64)


def _records(task: VerifyTask) -> dict[int, list[Mapping[str, Any]]]:
    """Lines of the candidates by file; each part is read once, however many of the files it names."""
    folder = run_folder(task.spec)
    found: dict[int, list[Mapping[str, Any]]] = {f.file.number: [] for f in task.files}
    wanted = pa.array(sorted(found), pa.int32())
    for part in dict.fromkeys(part for f in task.files for part in f.parts):
        table = folder.read_table(part)
        for record in table.filter(pc.is_in(table.column("file"), value_set=wanted)).to_pylist():
            found[record["file"]].append(record)
    return found


class _Stored:
    """Columns of one base file; a row group is read when keys may lie in it, and its keys once.

    Args:
        task: that looks at it.
        file: the file.
        names: columns that decide; of a small file they are read with the keys.
        homes: where each key must be, if the index says that.
    """

    def __init__(self, task: VerifyTask, file: LookupFile, names: Sequence[str], homes: KeyHomes | None) -> None:
        self.file = file
        self.columns = StoredColumns(storage_at(task.spec.table_uri), file.file, task.facts.virtual)
        self._with_keys = [RECORD_KEY, *names] if self.columns.is_read else [RECORD_KEY]
        self._known: dict[tuple[str, int], pa.Array] = {}
        if homes is not None:
            for group in self.of(RECORD_KEY, self.columns.row_groups):
                homes.check_stored(group, (file.file.partition_path, file.file.file_id))

    def of(self, name: str, row_groups: Iterable[int]) -> list[pa.Array]:
        """A column, an array a row group."""
        numbers = list(row_groups)
        missing = [number for number in numbers if (name, number) not in self._known]
        if not missing:
            return [self._known[name, number] for number in numbers]
        if name != RECORD_KEY:
            return self.columns.column(name, numbers)
        for one, arrays in zip(self._with_keys, self.columns.columns(self._with_keys, missing), strict=True):
            self._known |= {(one, number): array for number, array in zip(missing, arrays, strict=True)}
        return [self._known[name, number] for number in numbers]


@dataclass(frozen=True, slots=True)
class _Deciding:
    """What the fate of a stored key hangs on: ordering fields, conditions, and the columns that are stored of both."""

    event_time: tuple[str, ...]
    conditions: RowConditions
    stored: tuple[str, ...]


def _deciding(task: VerifyTask) -> _Deciding:
    facts, spec = task.facts, task.spec
    if spec.operation.only_inserts or spec.change is Change.REPAIR:
        return _Deciding((), RowConditions(), ())
    replaces = spec.change is Change.REPLACE
    event_time = () if replaces or spec.source_decides else facts.event_time_fields
    conditions = conditions_of(spec, facts)
    return _Deciding(event_time, conditions, tuple(dict.fromkeys([*event_time, *conditions.old_columns])))


@dataclass(frozen=True, slots=True, eq=False)
class _Found:
    """Keys of the batch that some files hold: the file (int64 [n], place in ``files``), their place in the batch
    (int64 [n]) and in the file (int32 [n]), and what the file has in the columns that decide.
    """

    files: tuple[LookupFile, ...]
    of_file: np.ndarray
    chunk: np.ndarray
    row: np.ndarray
    row_group: np.ndarray
    row_in_group: np.ndarray
    stored: Mapping[str, pa.Array]


_Asked: TypeAlias = tuple["_Stored", Sequence[Mapping[str, Any]]]
"""A file, and the lines of candidates that name it."""


def _found_in(task: VerifyTask, deciding: _Deciding, files: Sequence[_Asked], most: int) -> Iterator[_Found]:
    """What is found in some files, at most so many candidates at once; several files have no more together."""
    if len(files) > 1:
        yield _matched(task, deciding, files)
        return
    ((stored, records),) = files
    for some in groups_within(records, _pairs, most):
        yield _matched(task, deciding, [(stored, some)])


def _pairs(record: Mapping[str, Any]) -> int:
    """Pairs of a line of ``candidates`` or ``ranges``."""
    return int(record["pairs"] if "pairs" in record else record["to_row"] - record["from_row"])


def _matched(task: VerifyTask, deciding: _Deciding, files: Sequence[_Asked]) -> _Found:
    folder = run_folder(task.spec)
    chunk_of, row_of, keys, file_of = [], [], [], []
    groups: list[tuple[int, int]] = []
    for place, (stored, records) in enumerate(files):
        wanted: set[int] = set()
        for record in records:
            rows = np.sort(rows_of(record))  # and so by key: narrowing asks for that
            chunk_of.append(np.full(len(rows), record["chunk"], np.int32))
            row_of.append(rows)
            file_of.append(np.full(len(rows), place, np.int64))
            keys.append(chunk_keys(folder, task.chunks[record["chunk"]]).take(pa.array(rows)))
            wanted.update(stored.columns.row_groups_for(keys[-1]))
        groups += [(place, group) for group in sorted(wanted)]
    chunk, row, file = np.concatenate(chunk_of), np.concatenate(row_of), np.concatenate(file_of)
    owners = file, np.array([place for place, _ in groups], np.int64)
    match = match_keys(pa.concat_arrays(keys), _values(files, RECORD_KEY, groups), owners if len(files) > 1 else None)
    named = deciding.stored if len(match.candidate) else ()
    values = {name: _stored_values(task, files, name, groups, match) for name in named}
    mine, numbers = match.candidate, np.array([group for _, group in groups], np.int32)
    row_group = numbers[match.row_group]
    found_in = tuple(stored.file for stored, _ in files)
    return _Found(found_in, file[mine], chunk[mine], row[mine], row_group, match.row_in_group, values)


def _values(files: Sequence[_Asked], name: str, groups: Iterable[tuple[int, int]]) -> list[pa.Array]:
    """A column of these (place of the file, row group), an array a row group."""
    found = []
    for place, some in groupby(groups, lambda one: one[0]):
        found += files[place][0].of(name, [group for _, group in some])
    return found


def _located(task: VerifyTask, deciding: _Deciding, found: Sequence[_Found]) -> pa.Table:
    """The locations of what was found, with their fates."""
    found = [one for one in found if len(one.row)]
    schema = arrow_schema(LOCATIONS)
    if not found:
        return schema.empty_table()
    chunk, row, row_group, row_in_group = (
        np.concatenate([getattr(one, name) for one in found]) for name in ("chunk", "row", "row_group", "row_in_group")
    )
    number = np.concatenate([np.array([file.number for file in one.files])[one.of_file] for one in found])
    columns = [chunk, row, number, row_group, row_in_group, _fates(task, deciding, found, chunk, row)]
    return pa.table(
        [pa.array(c.astype(f.type.to_pandas_dtype()), f.type) for c, f in zip(columns, schema, strict=True)],
        schema=schema,
    )


def _fates(
    task: VerifyTask, deciding: _Deciding, found: Sequence[_Found], chunk: np.ndarray, row: np.ndarray
) -> np.ndarray:
    """What happens to each found row: int8 codes of Fate, shape (n,)."""
    if (
        task.spec.operation.only_inserts or task.spec.change is Change.REPAIR
    ):  # whose copies are chosen when all are known
        return np.full(len(row), Fate.IGNORED_STORED, np.int8)

    def stored(name: str, kind: pa.DataType) -> pa.Array:
        return pa.concat_arrays([widened_array(one.stored[name], kind) for one in found])

    folder, facts = run_folder(task.spec), task.facts
    replaces = task.spec.change is Change.REPLACE
    conditions = deciding.conditions
    named = dict.fromkeys([*deciding.event_time, *conditions.new_columns])
    incoming = _incoming(folder, task.chunks, [STAGED_OP, STAGED_PARTITION, *named], chunk, row)
    is_delete = pc.equal(incoming[STAGED_OP], OP_DELETE).to_numpy(zero_copy_only=False)
    firsts = np.cumsum([0, *(len(one.files) for one in found)])
    of_file = np.concatenate([first + one.of_file for first, one in zip(firsts, found, strict=False)])
    here = pa.array([file.file.partition_path for one in found for file in one.files]).take(pa.array(of_file))
    moves = pc.not_equal(incoming[STAGED_PARTITION], here).to_numpy(zero_copy_only=False)
    is_older = are_older((incoming[name], stored(name, incoming[name].type)) for name in deciding.event_time)
    old = {name: stored(name, facts.schema.field(name).type) for name in conditions.old_columns}
    new = {name: incoming[name] for name in conditions.new_columns}
    deletes, is_unmet = conditions.of_stored(old, new, len(row))
    fates = fates_of_found(
        is_delete=is_delete | deletes,
        is_unmet=is_unmet,
        other_partition=moves,
        is_older=np.zeros(len(row), np.bool_) if is_older is None else is_older,
        is_global=facts.is_global,
        update_partition_path=replaces or index_for(facts.index).moves_rows(task.spec.config),
    )
    if replaces:  # what does not go, stays
        fates[pc.equal(incoming[STAGED_OP], OP_UPSERT).to_numpy(zero_copy_only=False)] = Fate.IGNORED_STORED
    return fates


def _incoming(
    folder: RunFolder, chunks: Mapping[int, Chunk], names: list[str], chunk: np.ndarray, row: np.ndarray
) -> dict[str, pa.Array]:
    """Staged columns of the found rows, in their order."""
    numbers, rows, back = _by_number(chunk, row)
    joined = pa.concat_tables(
        [chunk_columns(folder, chunks[number], names).take(mine) for number, mine in zip(numbers, rows, strict=True)]
    )
    return {n: one_array(joined.column(n).take(back)) for n in names}


def _stored_values(
    task: VerifyTask, files: Sequence[_Asked], name: str, groups: Sequence[tuple[int, int]], match: Matches
) -> pa.Array:
    """A column of the found rows as it is stored; of their row groups alone."""
    used, rows, back = _by_number(match.row_group, match.row_in_group)
    values = _values(files, name, [groups[place] for place in used])
    if len({one.type for one in values}) > 1:  # a column that was widened since
        values = [widened_array(one, task.facts.schema.field(name).type) for one in values]
    # whole row groups with long texts are too large to be joined
    return pa.concat_arrays([one.take(mine) for one, mine in zip(values, rows, strict=True)]).take(back)


def _by_number(of: np.ndarray, rows: np.ndarray) -> tuple[list[int], list[pa.Array], pa.Array]:
    """The numbers of what the rows are of, ascending, the rows of each, and what brings these back into their order."""
    order = np.argsort(of, kind="stable")
    numbers, starts = np.unique(of[order], return_index=True)
    mine = [pa.array(some) for some in np.split(rows[order], starts[1:])]
    return numbers.tolist(), mine, pa.array(np.argsort(order, kind="stable"))
