"""What a merge will do, worked out before anything of the table is written, for the merge itself and for a dry run:
which slices are written, and which rows go where. Driver metadata only, no rows.

Before publishing, under the lock, the new keys are looked for once more. Two writers that insert one new key touch
different file groups, so a conflict check by file group lets both pass and the key is doubled. Only files committed
since the snapshot are looked at, range and filter first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commit.guards import refuse_clustered
from lakeindex.errors import InvariantError, KeysStoredError, TableCorruptError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import RowCount, count_rows, rows_that_may_be_in
from lakeindex.files.key_columns import StoredColumns
from lakeindex.format.file_names import new_file_id, write_token
from lakeindex.format.partitions import partition_metadata_path
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import plain_strings
from lakeindex.index.contract import FileGroups, KeyHomes
from lakeindex.index.fate import Fate
from lakeindex.index.key_match import match_keys
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile, Change, Group, Operation
from lakeindex.options.option import DUPLICATES_OPTION
from lakeindex.options.types import BulkSort, DuplicatePolicy, PartialUpdate, WriteConfig
from lakeindex.pipeline import STAGED_KEY
from lakeindex.run.checkpoints import LookedUp, Manifest, Part, digest_of_text
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, unpack_rows_of
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.replaced import Replaced, replaced_by
from lakeindex.run.spec import BoundTable, RunSpec, TableFacts, run_folder
from lakeindex.stages.merge_write.file_slices import PlacedRows, kept_rows
from lakeindex.stages.merge_write.tags import FoundLine, NewRows, Tags, found_lines, tag_batch, write_bad_rows
from lakeindex.tasks.runner import Runner, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.assignment import Assignment, FillCandidate, InsertPiece, assign_inserts, rows_of_a_file
from lakeindex.write.base_file import RECORD_KEY

Listed: TypeAlias = Mapping[tuple[int, str, int], NewRows]
Cut: TypeAlias = Callable[[Sequence[NewRows], int], list[tuple[InsertPiece, ...]]]


class PlannedSlice(Frozen):
    """One slice to write.

    Attributes:
        old: the slice it replaces, or None for a new file group.
        old_number: number of the old slice in the ``files`` checkpoint, or None if nothing was looked up in it.
        location_parts: numbers of the location files that name the old slice.
        updates: rows replaced, as counted by the look-up.
        removed: rows deleted or moved away.
        file_id: id of the new file group, if it must have a certain one.
    """

    partition_path: str
    old: BaseFile | None
    old_number: int | None
    location_parts: tuple[int, ...]
    chunks: tuple[int, ...]
    placed: tuple[PlacedRows, ...]
    updates: int
    removed: int
    file_id: str | None = None

    @property
    def inserts(self) -> int:
        return sum(p.stop - p.start for p in self.placed)


class Placing(Frozen):
    """Where new rows must go.

    Attributes:
        homes: each into the file group of its home, if the index cares.
        cut: into new files only, divided at keys: from the new rows of a partition and the rows of a file.
    """

    homes: KeyHomes | None
    cut: Cut | None = None


class MergePlan(Frozen):
    """All slices of a commit, rewritten ones first; a function of the checkpoints and the snapshot."""

    slices: tuple[PlannedSlice, ...]

    @property
    def digest(self) -> str:
        """Two plans of one digest write the same rows into the same file groups."""
        return digest_of_text(
            *(
                (
                    s.partition_path,
                    s.old.path if s.old else "",
                    s.location_parts,
                    s.updates,
                    s.removed,
                    *((p.part.digest, p.chunk, p.partition, p.home, p.start, p.stop) for p in s.placed),
                )
                for s in self.slices
            )
        )


def make_plan(
    files: Sequence[LookupFile],
    found: Sequence[FoundLine],
    tags: Tags,
    snapshot: Snapshot,
    config: WriteConfig,
    placing: Placing,
    *,
    record_bytes: float,
) -> MergePlan:
    """Plan the commit.

    Args:
        record_bytes: size of a row on disk.

    Raises:
        PendingInstantError: a file group that has to change is being clustered by another writer.
        TableCorruptError: the newest slice of one is lost.
    """
    changed: dict[int, list[FoundLine]] = {}
    for line in found:
        if line.updates or line.deletes or line.moves:
            changed.setdefault(line.file, []).append(line)
    refuse_clustered(snapshot, (files[n].file for n in changed), config)
    if placing.homes is not None:
        assignments = _assign_homes(placing.homes, tags, snapshot)
        targets = (a.target for a in assignments if a.target is not None)
        refuse_clustered(snapshot, targets, config)
    elif placing.cut is not None:
        assignments = _assign_cut(placing.cut, tags, rows_of_a_file(record_bytes, config))
    else:
        assignments = _assign(files, changed.keys(), tags, snapshot, record_bytes, config)
    listed = {n.key: n for n in tags.new_rows}
    filled = {a.target.path: a for a in assignments if a.target is not None}
    snapshot.check_newest([*(files[n].file for n in changed), *(a.target for a in assignments if a.target is not None)])
    numbers = {f.file.path: f.number for f in files}
    slices = [
        _rewritten(files[n].file, n, changed[n], filled.pop(files[n].file.path, None), listed) for n in sorted(changed)
    ]
    for path in sorted(filled):
        target = filled[path].target
        slices.append(_slice(filled[path], target, numbers.get(path), listed))
    slices += [_slice(a, None, None, listed) for a in assignments if a.target is None]
    return MergePlan(tuple(slices))


def _assign_cut(cut: Cut, tags: Tags, most: int) -> list[Assignment]:
    """New rows to new files only, divided at keys."""
    of_partition: dict[str, list[NewRows]] = {}
    for new in tags.new_rows:
        of_partition.setdefault(new.partition, []).append(new)
    return [
        Assignment(partition, None, pieces)
        for partition in sorted(of_partition)
        for pieces in cut(of_partition[partition], most)
    ]


def _assign(
    files: Sequence[LookupFile],
    rewritten: Iterable[int],
    tags: Tags,
    snapshot: Snapshot,
    record_bytes: float,
    config: WriteConfig,
) -> list[Assignment]:
    pieces: dict[str, list[InsertPiece]] = {}
    for new in tags.new_rows:
        pieces.setdefault(new.partition, []).append(InsertPiece(new.chunk, 0, new.rows))
    being_rewritten = {files[n].file.path for n in rewritten}
    snapshot.preload(pieces)
    candidates = {
        partition: [
            FillCandidate(file, file.path in being_rewritten)
            for file in snapshot.base_files(partition)
            if (partition, file.file_id) not in snapshot.pending_clustering
        ]
        for partition in pieces
    }
    return assign_inserts(pieces, candidates, record_bytes, config)


def _assign_homes(homes: KeyHomes, tags: Tags, snapshot: Snapshot) -> list[Assignment]:
    """New rows to the one file group of their home, or to a new one that is made for it."""
    snapshot.preload({n.partition for n in tags.new_rows})
    pieces: dict[tuple[str, int], list[InsertPiece]] = {}
    for new in tags.new_rows:
        pieces.setdefault((new.partition, new.home), []).append(InsertPiece(new.chunk, 0, new.rows))
    lives = {
        partition: {(partition, file.file_id): file for file in snapshot.base_files(partition)}
        for partition in {partition for partition, _ in pieces}
    }
    known = {partition: FileGroups({g: n for n, g in enumerate(live)}) for partition, live in lives.items()}
    result = []
    for (partition, home), mine in sorted(pieces.items()):
        live = lives[partition]
        group = homes.group_of(partition, home, known[partition])
        target = live[group] if group is not None else None
        file_id = None if group is not None else homes.new_file_id(home)
        result.append(Assignment(partition, target, tuple(mine), home, file_id))
    return result


def _placed(assignment: Assignment | None, listed: Listed) -> tuple[PlacedRows, ...]:
    if assignment is None:
        return ()
    partition, home = assignment.partition_path, assignment.home
    return tuple(
        PlacedRows(listed[piece.chunk, partition, home].part, piece.chunk, partition, home, piece.start, piece.stop)
        for piece in assignment.pieces
    )


def _rewritten(
    file: BaseFile,
    number: int,
    lines: list[FoundLine],
    assignment: Assignment | None,
    listed: Listed,
) -> PlannedSlice:
    placed = _placed(assignment, listed)
    return PlannedSlice(
        file.partition_path,
        file,
        number,
        tuple(sorted({line.part for line in lines})),
        tuple(sorted({line.chunk for line in lines} | {p.chunk for p in placed})),
        placed,
        sum(line.updates for line in lines),
        sum(line.deletes + line.moves for line in lines),
    )


def _slice(assignment: Assignment, old: BaseFile | None, number: int | None, listed: Listed) -> PlannedSlice:
    placed = _placed(assignment, listed)
    chunks = tuple(sorted({p.chunk for p in placed}))
    return PlannedSlice(assignment.partition_path, old, number, (), chunks, placed, 0, 0, assignment.file_id)


def planned_name(planned: PlannedSlice, number: int) -> tuple[str, str]:
    """File id and write token of a planned slice; a new group gets a new id."""
    file_id = planned.old.file_id if planned.old is not None else planned.file_id or new_file_id()
    return file_id, write_token(number, 0, 0)


def find_committed_inserts(
    spec: RunSpec, facts: TableFacts, chunks: Sequence[Chunk], new_rows: Sequence[NewRows], files: Sequence[BaseFile]
) -> None:
    """Look for our new keys in files of other writers.

    Args:
        files: base files committed since the snapshot.

    Raises:
        WriteConflictError: one of the keys is there now.
    """
    for file in files:
        for new in new_rows:
            if facts.is_global or new.partition == file.partition_path:
                _check_file(spec, facts, file, keys_of(spec, chunks[new.chunk], new))


def find_committed_homes(
    homes: KeyHomes, new_rows: Sequence[NewRows], snapshot: Snapshot, files: Sequence[BaseFile]
) -> None:
    """Look for file groups that other writers made for the homes that we make file groups for: a bucket has one.

    Args:
        files: base files committed since.

    Raises:
        WriteConflictError: there is one.
    """
    made = _groups_of(files)
    for partition, home in sorted({(new.partition, new.home) for new in new_rows}):
        if partition not in made:
            continue
        before = _groups_of(snapshot.base_files(partition)).get(partition, FileGroups({}))
        group = homes.group_of(partition, home, made[partition])
        if group is not None and homes.group_of(partition, home, before) is None:
            raise WriteConflictError(
                f"file group {group[1]} was made meanwhile in {partition!r}, "
                "where this batch makes one for the same bucket",
                culprit=group[1],
            )


def _groups_of(files: Sequence[BaseFile]) -> dict[str, FileGroups]:
    groups: dict[str, dict[Group, int]] = {}
    for number, file in enumerate(files):
        groups.setdefault(file.partition_path, {})[file.partition_path, file.file_id] = number
    return {partition: FileGroups(found) for partition, found in groups.items()}


def keys_of(spec: RunSpec, chunk: Chunk, new: NewRows) -> pa.Array:
    """Record keys of new rows of a chunk, sorted: string [n]."""
    folder = run_folder(spec)
    keys = chunk_keys(folder, chunk)
    for record in folder.read_table(new.part).to_pylist():
        if (record["chunk"], record["partition"], record["home"]) == new.key:
            return keys.take(pa.array(unpack_rows_of(chunk, record["rows"])))
    return keys.slice(0, 0)


def _check_file(spec: RunSpec, facts: TableFacts, file: BaseFile, keys: pa.Array) -> None:
    store = storage_at(spec.table_uri)
    rows = rows_that_may_be_in(store, file, keys)
    if not len(rows):
        return
    columns = StoredColumns(store, file, facts.virtual)
    match = match_keys(keys.take(pa.array(rows)), columns.column(RECORD_KEY, columns.row_groups))
    if len(match.candidate):
        key = keys[int(rows[int(match.candidate[0])])].as_py()
        raise WriteConflictError(
            f"key {key!r}, new when this batch was looked up, was committed meanwhile in {file.path!r}",
            culprit=file.path,
        )


_META_BYTES = 24.0
"""What the meta columns and the filter add to a row on disk, about."""
_SMALL_SAMPLE_ROWS = 1_000
_SAMPLES_A_FILE: Final = 200
"""Keys by which the bounds of a file are chosen: it gets a hundredth too many rows, about, or too few."""


_WHY: Final = "its key is stored already"


class KeyTask(Frozen):
    """New rows of one chunk: every ``step``-th of their keys is wanted, or where ``bounds`` cut them."""

    spec: RunSpec
    chunk: Chunk
    new: NewRows
    step: int = 1
    bounds: tuple[str, ...] = ()


def cut_by_key(
    spec: RunSpec, chunks: Sequence[Chunk], new_rows: Sequence[NewRows], most: int, runner: Runner
) -> list[tuple[InsertPiece, ...]]:
    """New rows of one partition, file by file.

    Args:
        most: rows of a file, about.

    Returns:
        For each file the rows that go into it; its keys are greater than those of the file before.
    """
    rows = sum(new.rows for new in new_rows)
    files = -(-rows // most)
    if files <= 1:
        return [tuple(InsertPiece(new.chunk, 0, new.rows) for new in new_rows)]
    step = max(rows // (files * _SAMPLES_A_FILE), 1)
    asked = [KeyTask(spec, chunks[new.chunk], new, step) for new in new_rows]
    sampled = run_tasks(runner, sample_keys, asked, "merge write: choose the bounds of files")
    keys = pa.concat_arrays(list(sampled))
    keys = keys.take(pc.sort_indices(keys))
    bounds = tuple(keys[len(keys) * number // files].as_py() for number in range(1, files))
    cuts = [KeyTask(spec, chunks[new.chunk], new, bounds=bounds) for new in new_rows]
    found = run_tasks(runner, cut_keys, cuts, "merge write: cut rows at the bounds")
    ends = [(0, *mine, new.rows) for new, mine in zip(new_rows, found, strict=True)]
    pieces = [
        tuple(InsertPiece(new.chunk, mine[n], mine[n + 1]) for new, mine in zip(new_rows, ends, strict=True))
        for n in range(files)
    ]
    return [kept for one in pieces if (kept := tuple(piece for piece in one if piece.rows))]


def sample_keys(task: KeyTask) -> pa.Array:
    """Some keys of new rows, evenly spread: string [n]."""
    keys = plain_strings(keys_of(task.spec, task.chunk, task.new))
    return keys.take(pa.array(np.arange(0, len(keys), task.step)))


def cut_keys(task: KeyTask) -> tuple[int, ...]:
    """How many keys of new rows, which are sorted by their UTF-8 bytes, are below each bound."""
    keys = plain_strings(keys_of(task.spec, task.chunk, task.new))
    return tuple(int(pc.sum(pc.less(keys, bound)).as_py() or 0) for bound in task.bounds)


class SetAsideTask(Frozen):
    """Chunks with rows whose keys are stored, and the locations that name them."""

    spec: RunSpec
    chunks: tuple[Chunk, ...]
    locations: tuple[Part, ...]
    folder: str


class StoredRows(Frozen):
    """Rows of an insert whose keys are stored.

    Attributes:
        quarantined: how many were set aside; 0 if they are to be left out.
        parts: the quarantine files that have them.
        example: the record key of one.
    """

    quarantined: int = 0
    parts: tuple[Part, ...] = ()
    example: str | None = None

    def check(self, spec: RunSpec, staged: Manifest) -> None:
        """Make sure that there are no more bad rows than the run tolerates.

        Raises:
            KeysStoredError: there are.
        """
        bad = int(staged.counters["quarantined"]) + self.quarantined
        if self.quarantined and bad > spec.max_quarantined:
            what, where = (spec.operation, "") if spec.change is None else (f"a {spec.change}", ", in rows that stay")
            raise KeysStoredError(
                f"{self.quarantined} rows have keys that are stored already{where}, {self.example!r} for example, and "
                f"{what} stores no key twice; {bad} bad rows, {spec.max_quarantined} allowed",
                culprit=f"{spec.checkpoints_uri.rstrip('/')}/{self.parts[0].path}",
                hint=f"look at the quarantine file; to leave such rows out give {DUPLICATES_OPTION}=drop, "
                "to update what is stored use upsert",
            )


def stored_rows(
    spec: RunSpec,
    chunks: Sequence[Chunk],
    found: Sequence[FoundLine],
    located: Sequence[Part],
    runner: Runner,
    folder: str,
) -> StoredRows:
    """Set rows of an insert aside whose keys are stored, unless they are to be left out."""
    if spec.config.insert_duplicates is DuplicatePolicy.DROP:
        return StoredRows()
    parts_of: dict[int, set[int]] = {}
    for line in found:
        parts_of.setdefault(line.chunk, set()).add(line.part)
    wanted = sorted(parts_of)
    packs = pack([float(chunks[number].rows) for number in wanted], runner.slots * 2) if wanted else []
    tasks = []
    for numbers in packs:
        mine = [wanted[i] for i in numbers]
        parts = sorted(set[int]().union(*(parts_of[number] for number in mine)))
        named = tuple(chunks[number] for number in mine)
        tasks.append(SetAsideTask(spec, named, tuple(located[part] for part in parts), f"{folder}/quarantine"))
    done = [
        one for result in run_tasks(runner, set_aside, tasks, "merge write: rows that are stored") for one in result
    ]
    return StoredRows(
        sum(one.quarantined for one in done),
        tuple(part for one in done for part in one.parts),
        min((one.example for one in done if one.example is not None), default=None),
    )


def set_aside(task: SetAsideTask) -> tuple[StoredRows, ...]:
    """Write the rows of each chunk whose keys are stored into a quarantine file."""
    folder = run_folder(task.spec)
    located = pa.concat_tables([folder.read_table(part, ["chunk", "row", "fate"]) for part in task.locations])
    located = located.filter(pc.equal(located.column("fate"), int(Fate.IGNORED_STORED)))
    done = []
    for chunk in task.chunks:
        rows = np.unique(located.filter(pc.equal(located.column("chunk"), chunk.number)).column("row").to_numpy())
        if not len(rows):
            continue
        table = chunk_columns(folder, chunk, None).take(pa.array(rows))
        bad = write_bad_rows(folder, f"{task.folder}/{chunk.number:05d}.parquet", table, pa.repeat(_WHY, len(rows)))
        done.append(StoredRows(bad.quarantined, bad.parts, table.column(STAGED_KEY)[0].as_py()))
    return tuple(done)


class PlannedMerge(Frozen):
    """What becomes of every row of the batch, and of which files.

    Attributes:
        found: what it found in them.
        tags: what it did not.
        replaced: what the operation takes out of the table as a whole.
        counted: rows of that.
        in_the_way: rows that are to be inserted and are stored.
        kept: where copies of keys stay of which others go: rows of an index's delta.
    """

    files: list[LookupFile]
    found: list[FoundLine]
    tags: Tags
    plan: MergePlan
    replaced: Replaced
    counted: RowCount
    in_the_way: StoredRows
    kept: pa.Table


def plan_merge(
    spec: RunSpec, bound: BoundTable, chunks: Sequence[Chunk], looked_up: LookedUp, runner: Runner, attempt: str
) -> PlannedMerge:
    """Tag the batch and plan the files.

    Args:
        looked_up: stages 1 to 4, against the snapshot.

    Raises:
        UsageError: rows are stored where a bulk insert looks no key up.
        InputError: a partition would be overwritten by no row.
        QuarantineExceededError: rows that are to be inserted are stored (KeysStoredError), or lack a column that must
            not be null.
        PendingInstantError: a file group that has to change is being clustered by another writer.
        InvariantError: a key that would be written is stored more than once, or not found where it is.
    """
    folder, facts, snapshot = run_folder(spec), bound.facts, bound.snapshot
    verified = looked_up.verified
    replaced = replaced_by(spec.operation, snapshot, looked_up.staged, is_global=facts.is_global)
    found, in_the_way = found_lines(folder, verified), StoredRows()
    replaced.check()
    if spec.only_inserts:
        in_the_way = stored_rows(spec, chunks, found, verified.parts("locations"), runner, attempt)
        in_the_way.check(spec, looked_up.staged)
    tags = tag_batch(spec, facts, chunks, verified, found, runner, folder=attempt)
    check_all_found(spec, tags)
    tags.incomplete.check(spec, looked_up.staged)
    replaced.check_filled({one.partition for one in tags.new_rows})
    files = read_files(folder, looked_up.lookup.parts("files")[0])
    tags.copies.check(files)
    cut: Cut | None = None
    if spec.operation is Operation.BULK_INSERT and spec.config.bulk_sort is BulkSort.GLOBAL_SORT:
        cut = partial(_cut, spec, chunks, runner)
    placing = Placing(index_for(facts.index).homes, cut)
    size = expected_record_bytes(spec, looked_up, files)
    plan = make_plan(files, found, tags, replaced.left, spec.config, placing, record_bytes=size)
    refuse_clustered(snapshot, replaced.files, spec.config)
    _refuse_hidden(snapshot, {one.partition for one in tags.new_rows})
    counted = count_rows(storage_at(spec.table_uri), replaced.files)
    kept = kept_rows([folder.read_table(part) for part in tags.kept], files)
    return PlannedMerge(files, found, tags, plan, replaced, counted, in_the_way, kept)


def _refuse_hidden(snapshot: Snapshot, partitions: Iterable[str]) -> None:
    """Make nothing a partition again that no reader finds: its rows would be there beside those of the batch.

    Raises:
        TableCorruptError: a folder has files of the table, and no partition metadata.
    """
    for partition in sorted(partitions):
        file, path = snapshot.hidden_file(partition), partition_metadata_path(partition)
        if file is not None:
            raise TableCorruptError(
                f"{file.path} is there, but {path} is not: no reader finds the partition",
                culprit=path,
                hint="`lakeindex repair TABLE --only partition --apply` writes it if a commit or the metadata table "
                "names the files; else copy that of a partition of the same depth, or move files of nobody elsewhere",
            )


def _cut(
    spec: RunSpec, chunks: Sequence[Chunk], runner: Runner, new_rows: Sequence[NewRows], most: int
) -> list[tuple[InsertPiece, ...]]:
    """Divides the rows of a bulk insert that is to be sorted as a whole."""
    return cut_by_key(spec, chunks, new_rows, most, runner)


def expected_record_bytes(spec: RunSpec, looked_up: LookedUp, files: Sequence[LookupFile]) -> float:
    """Bytes of a row on disk: as told, from the staged batch, or, if it is tiny or has not all columns, from the files
    that are there.
    """
    config = spec.config
    if config.record_bytes_estimate is not None:
        return float(config.record_bytes_estimate)
    counters = looked_up.staged.counters
    rows = int(counters["rows_out"])
    stored_rows = int(looked_up.lookup.counters["file_rows"])
    is_partial = config.partial_update is not PartialUpdate.OFF
    if (is_partial and stored_rows) or rows < _SMALL_SAMPLE_ROWS <= stored_rows:
        return sum(f.file.size_bytes for f in files) / stored_rows
    return int(counters["staged_column_bytes"]) / max(rows, 1) + _META_BYTES


def check_all_found(spec: RunSpec, tags: Tags) -> None:
    """Rows that are in the table are found there. Raises: InvariantError: the index does not know one of them."""
    missing = tags.ignored_missing + (tags.inserts if spec.change is Change.UPDATE else 0)
    if spec.chosen is not None and missing:
        raise InvariantError(
            f"{missing} rows that meet the condition {spec.chosen.text} were not found again by their keys",
            culprit=spec.run_id,
            hint="nothing was published; `lakeindex check`, and `lakeindex index verify` where the index is a stored "
            "one, say which rows or entries are wrong",
        )
