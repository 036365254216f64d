"""Stage 4: exact match of the candidates in each file's key column; the row position of each key that is there.

Under event time the ordering column is read beside the keys, so that late rows are known before anything is planned: a
late row neither moves nor rewrites anything. The same holds for columns that conditions of the write name.

Of a stored index, keys that are not where the store says are looked for in all files in scope: an entry that names the
wrong file group is a defect, or another writer's leftover (Hudi leaves rows in HBase that a failed commit put). The key
may be anywhere; to take it for a new one would double it. Deleted keys that still have an entry are looked for in
this way, too, and are found nowhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.files.key_columns import StoredColumns
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.index.contract import KeyHomes
from lakeindex.index.fate import Fate, fates_of_found
from lakeindex.index.key_match import Matches, match_keys
from lakeindex.index.registry import index_for
from lakeindex.model import Change, Operation
from lakeindex.pipeline import CANDIDATES, FOUND, LOCATIONS, OP_DELETE, OP_UPSERT, STAGED_OP, STAGED_PARTITION, Stage
from lakeindex.predicates.row_conditions import RowConditions
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema, columns_of, digest_of_text, table_of
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, chunks_of, pack_rows, unpack_rows
from lakeindex.run.index.ask_index import search_files
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.spec import RunSpec, TableFacts, conditions_of, event_time_mark, run_folder, source_paths
from lakeindex.stages.carried_locations import (
    VerifiedBefore,
    VerifyResult,
    carry_locations,
    carry_tasks,
    count_lines,
    pairs_in,
    same_files,
)
from lakeindex.tasks.memory_bound import TOGETHER_BYTES, current_share, held_by, verify_bytes
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.bounded_groups import groups_within
from lakeindex.write.combine import are_older
from lakeindex.write.keys.key_generators import KeyGenerator
from lakeindex.write.types.widening import widened_array

_OPEN_COST = 5_000.0
_ROW_BYTES = 100.0
_KEYS_SHARE = 0.25
"""Of a base file, what its key column takes."""
_KEYS_AT_ONCE = 1_000_000
"""Candidate keys of one file that are matched at once: bounds memory, whatever the batch."""
_KEY_BYTES = 500
"""What one of them takes meanwhile, at most about."""


class LookAgain(Frozen):
    """What was proposed and what was found.

    Attributes:
        searched: parts that list the keys it could not say anything about: they were looked for everywhere already.
    """

    spec: RunSpec
    facts: TableFacts
    files: tuple[LookupFile, ...]
    candidates: tuple[Part, ...]
    searched: tuple[Part, ...]
    located: tuple[Part, ...]


class AgainTask(Frozen):
    """Some chunks of it."""

    looked: LookAgain
    chunks: tuple[Chunk, ...]
    path: str


def look_again(looked: LookAgain, chunks: Sequence[Chunk], runner: Runner, folder: str) -> tuple[Part, ...]:
    """Candidates for the keys that were proposed and not found."""
    packs = pack([float(c.rows) for c in chunks], runner.slots * 2)
    tasks = [
        AgainTask(looked, tuple(chunks[i] for i in numbers), f"{folder}/{n:05d}.parquet")
        for n, numbers in enumerate(packs)
    ]
    title = "verify keys: look for keys that are not where the index says"
    return run_tasks(runner, search_missed, tasks, title)


def search_missed(task: AgainTask) -> Part:
    looked = task.looked
    folder = run_folder(looked.spec)
    rows: list[tuple[int, int, int, bytes]] = []
    for chunk in task.chunks:
        known = np.concatenate(
            [_packed(folder, looked.searched, chunk.number), _found(folder, looked.located, chunk.number)]
        )
        missed = np.setdiff1d(_packed(folder, looked.candidates, chunk.number), known)
        if len(missed):
            found = search_files(looked.spec, looked.facts, looked.files, chunk, missed)
            rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in found]
    return folder.write_table(task.path, table_of(rows, CANDIDATES))


def _packed(folder: RunFolder, parts: Sequence[Part], chunk: int) -> np.ndarray:
    tables = [_of_chunk(folder, part, chunk, "rows") for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *(unpack_rows(p) for t in tables for p in t.to_pylist())])


def _found(folder: RunFolder, parts: Sequence[Part], chunk: int) -> np.ndarray:
    tables = [_of_chunk(folder, part, chunk, "row") for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *(t.to_numpy().astype(np.int64) for t in tables)])


def _of_chunk(folder: RunFolder, part: Part, chunk: int, column: str) -> pa.ChunkedArray:
    table = folder.read_table(part, ["chunk", column])
    return table.filter(pc.equal(table.column("chunk"), chunk)).column(column)


class FileCandidates(Frozen):
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


class VerifyTask(Frozen):
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


class _Deciding(Frozen):
    """What the fate of a stored key hangs on: ordering fields, conditions, and the partition in a feed's source."""

    event_time: tuple[str, ...]
    conditions: RowConditions
    source: KeyGenerator | None = None

    @property
    def stored(self) -> tuple[str, ...]:
        """Columns that are stored of all three."""
        return tuple(dict.fromkeys([*self.event_time, *self.conditions.old_columns, *self.of_source]))

    @property
    def of_source(self) -> tuple[str, ...]:
        """Columns that tell the partition in the source."""
        return () if self.source is None else self.source.spec.path_columns


def _deciding(task: VerifyTask) -> _Deciding:
    facts, spec = task.facts, task.spec
    if spec.operation.only_inserts or spec.change is Change.REPAIR:
        return _Deciding((), RowConditions())
    replaces = spec.change is Change.REPLACE
    always_wins = replaces or spec.source_decides or spec.operation is Operation.DELETE
    event_time = () if always_wins else facts.event_time_fields
    return _Deciding(event_time, conditions_of(spec, facts), source_paths(spec, facts))


class _Found(Frozen, eq=False):
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
    found = []
    for place, some in groupby(groups, lambda one: one[0]):
        found += files[place][0].of(name, [group for _, group in some])
    return found


def _located(task: VerifyTask, deciding: _Deciding, found: Sequence[_Found]) -> pa.Table:
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
    named = dict.fromkeys([*deciding.event_time, *conditions.new_columns, *deciding.of_source])
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
    if deciding.source is not None:
        there = {name: stored(name, incoming[name].type) for name in deciding.of_source}
        is_unmet = is_unmet | _goes_elsewhere(task, deciding.source, incoming, there, chunk, row)
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


def _goes_elsewhere(
    task: VerifyTask,
    source: KeyGenerator,
    incoming: Mapping[str, pa.Array],
    stored: Mapping[str, pa.Array],
    chunk: np.ndarray,
    row: np.ndarray,
) -> np.ndarray:
    """Deletes of a feed that are of rows in other partitions of its source than the stored ones: bool [n].

    Raises:
        InputError: a row comes from another partition than the stored one, which the feed does not say is gone there.
    """
    paths = [
        source.partition_paths(pa.table({name: columns[name] for name in stored}))[0] for columns in (stored, incoming)
    ]
    same = pc.or_kleene(pc.equal(*paths), pc.and_(*(path.is_null() for path in paths))).fill_null(False)
    op = incoming[STAGED_OP]
    doubled = pc.and_(pc.invert(same), pc.equal(op, OP_UPSERT)).to_numpy(zero_copy_only=False).nonzero()[0]
    if len(doubled) and task.spec.feed is not None:
        keys = chunk_keys(run_folder(task.spec), task.chunks[int(chunk[doubled[0]])])
        key, places = keys[int(row[doubled[0]])].as_py(), [path[int(doubled[0])].as_py() for path in paths]
        what = f"record key {key!r} in partition {places[1]!r}, where the table has that of partition {places[0]!r},"
        raise task.spec.feed.doubled(what, key, task.facts.keys.record_key_fields)
    return pc.and_(pc.invert(same), pc.equal(op, OP_DELETE)).to_numpy(zero_copy_only=False)


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


class _Attempt(Frozen):
    """One attempt at the stage: what its tasks are about, who schedules them, and the folder that they write to."""

    spec: RunSpec
    facts: TableFacts
    chunks: list[Chunk]
    files: list[LookupFile]
    runner: Runner
    folder: str


def verify_keys(
    spec: RunSpec,
    facts: TableFacts,
    staged: Manifest,
    lookup: Manifest,
    candidates: Manifest,
    runner: Runner,
    *,
    before: VerifiedBefore | None = None,
) -> Manifest:
    """Run the stage, or take over its checkpoint.

    Args:
        lookup: manifest of stage 2, whose snapshot the locations refer to.
        candidates: manifest of the stage that proposed candidates.
        before: the stage as this run did it on an earlier snapshot.
    """
    config = spec.config
    folder = run_folder(spec)
    moves = index_for(facts.index).moves_rows(config)
    who = ("source decides",) if spec.source_decides else ()
    source = source_paths(spec, facts)
    if source is not None:
        who = (*who, str(source.spec))
    basis = digest_of_text(candidates.digest, event_time_mark(facts), moves, *conditions_of(spec, facts).texts, *who)
    done = folder.read_manifest(Stage.VERIFY_KEYS)
    if done is not None and done.basis == basis and folder.is_whole(done):
        return done
    chunks = chunks_of(folder, staged)
    files = read_files(folder, lookup.parts("files")[0])
    attempt = _Attempt(spec, facts, chunks, files, runner, folder.new_attempt(Stage.VERIFY_KEYS))
    proposed = proposed_by(candidates)
    # a stored index has nothing to take over: what it does not know is looked for everywhere, by key and not by file
    same = same_files(folder, before, files, proposed) if before is not None and not facts.index_type.is_stored else {}
    results = _carry(attempt, before, same, proposed) if before is not None and same else ()
    rest = frozenset(same.values())
    results += _verify(attempt, proposed, first=len(results), known=rest)
    if facts.index_type.is_stored and any(r.pairs != r.true_pairs for r in results):
        located = tuple(r.part for r in results)
        looked = LookAgain(spec, facts, tuple(files), proposed, lookup.parts("searched"), located)
        again = look_again(looked, chunks, runner, f"{attempt.folder}/again")
        results += _verify(attempt, again, first=len(results))
    lines = [line for r in results for line in r.lines]
    return _manifest(spec, basis, results, lines, chunks, f"{attempt.folder}/found.parquet")


def _carry(
    attempt: _Attempt, before: VerifiedBefore, same: dict[int, int], proposed: Sequence[Part]
) -> tuple[VerifyResult, ...]:
    now = set(same.values())
    spec = attempt.spec
    pairs = sum(one.pairs for one in _work(spec, attempt.files, proposed)[0] if one.file.number in now)
    tasks = carry_tasks(spec, before, same, pairs, attempt.folder)
    near = for_work(attempt.runner, sum(part.bytes for part in before.located), spec.config)
    return run_tasks(near, carry_locations, tasks, "verify keys: take over what did not change")


def _verify(
    attempt: _Attempt, proposed: Sequence[Part], *, first: int, known: frozenset[int] = frozenset()
) -> tuple[VerifyResult, ...]:
    """Verify what was proposed, except in files that are ``known``; ``first`` is the number of the first task."""
    spec, chunks = attempt.spec, attempt.chunks
    every, used = _work(spec, attempt.files, proposed)
    work = [one for one in every if one.file.number not in known]
    size = _KEYS_SHARE * sum(f.file.file.size_bytes for f in work) + sum(
        {chunks[c].part.path: chunks[c].part.bytes for one in work for c in used[one.file.number]}.values()
    )
    near = for_work(attempt.runner, size, spec.config, len(work))
    packs = pack([f.pairs + f.file.file.size_bytes / _ROW_BYTES * 0.2 + _OPEN_COST for f in work], near.slots * 3)
    tasks = []
    for n, numbers in enumerate(packs, first):
        mine = tuple(work[i] for i in numbers)
        names = {c: chunks[c] for f in mine for c in used[f.file.number]}
        tasks.append(VerifyTask(spec, attempt.facts, mine, names, n, f"{attempt.folder}/locations/{n:05d}.parquet"))
    return run_tasks(near, verify_files, tasks, "verify keys: exact match in the key column")


def _manifest(
    spec: RunSpec,
    basis: str,
    results: Sequence[VerifyResult],
    lines: list[tuple[int, ...]],
    chunks: list[Chunk],
    path: str,
) -> Manifest:
    columns = columns_of(lines, len(FOUND))
    schema = arrow_schema(FOUND)
    found = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    pairs = sum(r.pairs for r in results)
    true = sum(r.true_pairs for r in results)
    return Manifest(
        stage=Stage.VERIFY_KEYS,
        run_id=spec.run_id,
        basis=basis,
        tables={
            "locations": tuple(r.part for r in results),
            "found": (run_folder(spec).write_table(path, found),),
        },
        counters={
            "rows_in": sum(c.rows for c in chunks),
            "rows_out": true,
            "files": len({line[0] for line in lines}),
            "pairs_in": pairs,
            "pairs_out": true,
            "false_positives": pairs - true,
        },
    )


def _work(
    spec: RunSpec, files: list[LookupFile], proposed: Sequence[Part]
) -> tuple[list[FileCandidates], dict[int, set[int]]]:
    folder = run_folder(spec)
    parts: dict[int, list[Part]] = {}
    used: dict[int, set[int]] = {}
    pairs: dict[int, int] = {}
    for part in proposed:
        table = folder.read_table(part)
        counts = pairs_of(table)
        for file, chunk, count in zip(*(table.column(n).to_pylist() for n in ("file", "chunk")), counts, strict=True):
            mine = parts.setdefault(file, [])
            if not mine or mine[-1] is not part:
                mine.append(part)
            used.setdefault(file, set()).add(chunk)
            pairs[file] = pairs.get(file, 0) + count
    return [FileCandidates(files[n], tuple(parts[n]), pairs[n]) for n in sorted(parts)], used


def proposed_by(candidates: Manifest) -> tuple[Part, ...]:
    """Parts of the candidates, or of the ranges where no stage made candidates of them."""
    return candidates.parts("candidates") or candidates.parts("ranges")
