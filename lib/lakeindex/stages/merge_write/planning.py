"""What a merge will do, worked out before anything of the table is written: for the merge itself and for a dry run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError, QuarantineExceededError
from lakeindex.files.row_counts import RowCount, count_rows
from lakeindex.hashing.arrow import plain_strings
from lakeindex.index.fate import Fate
from lakeindex.index.registry import index_for
from lakeindex.model import Change, Operation
from lakeindex.options.option import DUPLICATES_OPTION
from lakeindex.options.types import BulkSort, DuplicatePolicy, PartialUpdate
from lakeindex.pipeline import STAGED_KEY
from lakeindex.run.checkpoints import Manifest, Part
from lakeindex.run.chunks import Chunk, chunk_columns
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.replaced import Replaced, replaced_by
from lakeindex.run.spec import BoundTable, RunSpec, run_folder
from lakeindex.run.stage_run import LookedUp
from lakeindex.stages.merge_write.bad_rows import write_bad_rows
from lakeindex.stages.merge_write.insert_check import keys_of
from lakeindex.stages.merge_write.merge_plan import Cut, MergePlan, Placing, make_plan
from lakeindex.stages.merge_write.tags import FoundLine, NewRows, Tags, found_lines, tag_batch
from lakeindex.tasks.runner import Runner, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.assignment import InsertPiece

_META_BYTES = 24.0
"""What the meta columns and the filter add to a row on disk, about."""
_SMALL_SAMPLE_ROWS = 1_000
_SAMPLES_A_FILE: Final = 200
"""Keys by which the bounds of a file are chosen: it gets a hundredth too many rows, about, or too few."""


_WHY: Final = "its key is stored already"


@dataclass(frozen=True, slots=True)
class KeyTask:
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
        new_rows: all new rows of the partition.
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


@dataclass(frozen=True, slots=True)
class SetAsideTask:
    """Chunks with rows whose keys are stored, and the locations that name them."""

    spec: RunSpec
    chunks: tuple[Chunk, ...]
    locations: tuple[Part, ...]
    folder: str


@dataclass(frozen=True, slots=True)
class StoredRows:
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
            QuarantineExceededError: there are.
        """
        bad = int(staged.counters["quarantined"]) + self.quarantined
        if self.quarantined and bad > spec.max_quarantined:
            what, where = (spec.operation, "") if spec.change is None else (f"a {spec.change}", ", in rows that stay")
            raise QuarantineExceededError(
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
    """Set rows of an insert aside whose keys are stored, unless they are to be left out.

    Args:
        found: what the look-up found.
        located: the location files.
        folder: of the attempt.
    """
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


@dataclass(frozen=True, slots=True)
class PlannedMerge:
    """What becomes of every row of the batch, and of which files.

    Attributes:
        files: base files that the look-up knew.
        found: what it found in them.
        tags: what it did not.
        replaced: what the operation takes out of the table as a whole.
        counted: rows of that.
        in_the_way: rows that are to be inserted and are stored.
    """

    files: list[LookupFile]
    found: list[FoundLine]
    tags: Tags
    plan: MergePlan
    replaced: Replaced
    counted: RowCount
    in_the_way: StoredRows


def plan_merge(
    spec: RunSpec, bound: BoundTable, chunks: Sequence[Chunk], looked_up: LookedUp, runner: Runner, attempt: str
) -> PlannedMerge:
    """Tag the batch and plan the files.

    Args:
        looked_up: stages 1 to 4, against the snapshot.
        attempt: folder of the attempt, in the run's folder.

    Raises:
        UsageError: rows are stored where a bulk insert looks no key up.
        QuarantineExceededError: rows that are to be inserted are stored, or lack a column that must not be null.
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
    files = read_files(folder, looked_up.lookup.parts("files")[0])
    tags.copies.check(files)
    cut: Cut | None = None
    if spec.operation is Operation.BULK_INSERT and spec.config.bulk_sort is BulkSort.GLOBAL_SORT:
        cut = partial(_cut, spec, chunks, runner)
    placing = Placing(index_for(facts.index).homes, cut)
    size = record_bytes(spec, looked_up, files)
    plan = make_plan(files, found, tags, replaced.left, spec.config, placing, record_bytes=size)
    snapshot.refuse_clustered(replaced.files)
    counted = count_rows(storage_at(spec.table_uri), replaced.files)
    return PlannedMerge(files, found, tags, plan, replaced, counted, in_the_way)


def _cut(
    spec: RunSpec, chunks: Sequence[Chunk], runner: Runner, new_rows: Sequence[NewRows], most: int
) -> list[tuple[InsertPiece, ...]]:
    """Divides the rows of a bulk insert that is to be sorted as a whole."""
    return cut_by_key(spec, chunks, new_rows, most, runner)


def record_bytes(spec: RunSpec, looked_up: LookedUp, files: Sequence[LookupFile]) -> float:
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
    """Rows that are in the table are found there.

    Raises:
        InvariantError: the index does not know one of them.
    """
    missing = tags.ignored_missing + (tags.inserts if spec.change is Change.UPDATE else 0)
    if spec.chosen is not None and missing:
        raise InvariantError(
            f"{missing} rows that meet the condition {spec.chosen.text} were not found again by their keys",
            culprit=spec.run_id,
            hint="nothing was published; `lakeindex check`, and `lakeindex index verify` where the index is a stored "
            "one, say which rows or entries are wrong",
        )
