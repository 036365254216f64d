"""First part of stage 5: tag what was not found, by chunk: inserts, new homes of moved rows,
deletes that find nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import InvariantError
from lakeindex.hashing.arrow import one_array
from lakeindex.index.contract import NOWHERE, KeyHomes
from lakeindex.index.fate import Fate
from lakeindex.index.registry import index_for
from lakeindex.pipeline import FOUND, INSERTS, OP_DELETE, STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema, columns_of
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, pack_rows_of
from lakeindex.run.spec import RunSpec, TableFacts, conditions_of, run_folder
from lakeindex.stages.merge_write.bad_rows import NO_BAD_ROWS, BadRows, incomplete_rows
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks

_LOCATED: Final = ("chunk", "row", "fate")


@dataclass(frozen=True, slots=True)
class TagTask:
    """Some chunks, and the location parts that name them."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    locations: tuple[Part, ...]
    path: str


@dataclass(frozen=True, slots=True)
class NewRows:
    """New rows of one chunk, partition and home, and the ``inserts`` file that lists them."""

    chunk: int
    partition: str
    home: int
    rows: int
    part: Part

    @property
    def key(self) -> tuple[int, str, int]:
        """What tells it from other new rows."""
        return self.chunk, self.partition, self.home


@dataclass(frozen=True, slots=True)
class TagResult:
    """Inserts of some chunks: (chunk, partition, home, rows) lines; deletes that found nothing, and rows that do not
    meet the condition of an insert.
    """

    part: Part
    lines: tuple[tuple[int, str, int, int], ...]
    ignored_missing: int
    unmet: int
    inserts: int
    incomplete: BadRows = NO_BAD_ROWS


@dataclass(frozen=True, slots=True)
class Tags:
    """What the whole batch adds.

    Attributes:
        new_rows: where new rows are listed, by chunk, partition, home; moved rows among them.
        inserts: keys that were nowhere.
        ignored_missing: deletes that found nothing.
        unmet: keys that were nowhere and do not meet the condition of an insert.
        incomplete: rows that would be new, and lack a column that must not be null; they were set aside.
    """

    new_rows: tuple[NewRows, ...]
    inserts: int
    ignored_missing: int
    unmet: int
    incomplete: BadRows = NO_BAD_ROWS

    @property
    def ignored(self) -> int:
        """All rows that found nothing and are not inserted."""
        return self.ignored_missing + self.unmet


@dataclass(frozen=True, slots=True)
class FoundLine:
    """How many keys of a chunk were found in a file, by fate, and the number of the locations file that has them."""

    file: int
    part: int
    chunk: int
    found: int
    updates: int
    deletes: int
    moves: int
    ignored: int
    unmet: int


def found_lines(folder: RunFolder, verified: Manifest) -> list[FoundLine]:
    """The ``found`` checkpoint."""
    return [FoundLine(**record) for record in folder.read_all(verified, "found", arrow_schema(FOUND)).to_pylist()]


def tag_batch(
    spec: RunSpec,
    facts: TableFacts,
    chunks: Sequence[Chunk],
    verified: Manifest,
    found: Sequence[FoundLine],
    runner: Runner,
    *,
    folder: str,
) -> Tags:
    """Tag every chunk.

    Raises:
        InvariantError: a key was found at more than one place.
    """
    locations = verified.parts("locations")
    parts_of: dict[int, set[int]] = {}
    for line in found:
        parts_of.setdefault(line.chunk, set()).add(line.part)
    named = [locations[n] for n in set().union(*parts_of.values())]
    near = for_work(runner, _bytes_read(spec, facts, chunks, named), spec.config)
    tasks = []
    for n, numbers in enumerate(pack([float(c.rows) for c in chunks], near.slots * 2)):
        mine = tuple(chunks[i] for i in numbers)
        needed = sorted(set().union(*(parts_of.get(c.number, set()) for c in mine)))
        parts = tuple(locations[i] for i in needed)
        tasks.append(TagTask(spec, facts, mine, parts, f"{folder}/inserts/{n:05d}.parquet"))
    results = run_tasks(near, tag_chunks, tasks, "merge write: tag inserts")
    new_rows = [NewRows(c, p, home, rows, r.part) for r in results for c, p, home, rows in r.lines]
    return Tags(
        tuple(sorted(new_rows, key=lambda n: n.key)),
        sum(r.inserts for r in results),
        sum(r.ignored_missing for r in results),
        sum(r.unmet for r in results),
        BadRows.joined(r.incomplete for r in results),
    )


def _bytes_read(spec: RunSpec, facts: TableFacts, chunks: Sequence[Chunk], located: Sequence[Part]) -> int:
    """About what tagging reads: locations, staged files if a row's fate is in them, and a mark a row."""
    asks = bool(conditions_of(spec, facts).inserted_columns)
    needs_rows = facts.is_global or index_for(facts.index).homes is not None or asks
    staged = {c.part.path: c.part.bytes for c in chunks if needs_rows or c.deletes}
    return sum(p.bytes for p in located) + sum(staged.values()) + sum(c.rows for c in chunks)


def tag_chunks(task: TagTask) -> TagResult:
    """Rows of the chunks that go in as new."""
    folder = run_folder(task.spec)
    located = _Located([folder.read_table(p, list(_LOCATED)) for p in task.locations])
    homes = index_for(task.facts.index).homes
    records: list[tuple[int, str, int, int, bytes | None]] = []
    incomplete: list[BadRows] = []
    missing = unmet = inserts = 0
    for chunk in task.chunks:
        rows, fates = located.of(chunk.number)
        _check_found_once(folder, chunk, rows)
        is_delete = _deletes_of(folder, chunk)
        unfound = np.ones(chunk.rows, np.bool_)
        unfound[rows] = False
        missing += int((unfound & is_delete).sum())
        asking = unfound & ~is_delete
        is_new = _inserted(task, chunk, asking)
        unmet += int((asking & ~is_new).sum())
        if task.facts.given is not None:
            lacking, bad = incomplete_rows(task.facts, folder, chunk, np.flatnonzero(is_new), f"{task.path}-quarantine")
            is_new[lacking] = False
            incomplete.append(bad)
        inserts += int(is_new.sum())
        is_new[rows[fates == Fate.MOVED]] = True
        for partition, mine in _by_partition(task.facts, folder, chunk, np.flatnonzero(is_new)):
            for home, rows in _by_home(homes, folder, chunk, partition, mine):
                records.append((chunk.number, partition, home, len(rows), pack_rows_of(chunk, rows)))
    schema = arrow_schema(INSERTS)
    cells = columns_of(records, len(schema))
    table = pa.table([pa.array(c, f.type) for c, f in zip(cells, schema, strict=True)], schema=schema)
    lines = tuple(r[:4] for r in records)
    bad_rows = BadRows.joined(incomplete)
    return TagResult(folder.write_table(task.path, table), lines, missing, unmet, inserts, bad_rows)


def _inserted(task: TagTask, chunk: Chunk, asking: np.ndarray) -> np.ndarray:
    """Of the rows that ask to be inserted, those that meet the condition: bool [rows of the chunk]."""
    conditions = conditions_of(task.spec, task.facts)
    if conditions.insert_if is None or not asking.any():
        return asking
    rows = np.flatnonzero(asking)
    names = conditions.inserted_columns
    staged = chunk_columns(run_folder(task.spec), chunk, names).take(pa.array(rows)) if names else None
    new = {name: one_array(staged.column(name)) for name in names} if staged is not None else {}
    inserted = np.zeros(chunk.rows, np.bool_)
    inserted[rows[conditions.inserts(new, len(rows))]] = True
    return inserted


def _deletes_of(folder: RunFolder, chunk: Chunk) -> np.ndarray:
    """Whether each row is a delete."""
    if not chunk.deletes:
        return np.zeros(chunk.rows, np.bool_)
    return pc.equal(chunk_columns(folder, chunk, [STAGED_OP]).column(0), OP_DELETE).to_numpy()


class _Located:
    """Rows that were found, and their fates, by chunk."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        columns = [[table.column(name).to_numpy() for table in tables] for name in _LOCATED]
        chunk, row, fate = (np.concatenate([np.zeros(0, np.int64), *some]).astype(np.int64) for some in columns)
        order = np.argsort(chunk, kind="stable")
        self._chunk, self._row, self._fate = chunk[order], row[order], fate[order]

    def of(self, chunk: int) -> tuple[np.ndarray, np.ndarray]:
        """Of one chunk: int64, shapes (n,)."""
        mine = slice(*np.searchsorted(self._chunk, [chunk, chunk + 1]))
        return self._row[mine], self._fate[mine]


def _check_found_once(folder: RunFolder, chunk: Chunk, rows: np.ndarray) -> None:
    twice = np.flatnonzero(np.bincount(rows, minlength=chunk.rows) > 1) if len(rows) else rows
    if len(twice):
        key = chunk_keys(folder, chunk)[int(twice[0])].as_py()
        raise InvariantError(
            f"key {key!r} is stored in more than one file ({len(twice)} such keys in this chunk)",
            culprit=key,
            hint="lakeindex check lists the duplicate keys; a global index needs keys that are unique "
            "in the whole table",
        )


def _by_partition(facts: TableFacts, folder: RunFolder, chunk: Chunk, rows: np.ndarray) -> list[tuple[str, np.ndarray]]:
    if not len(rows):
        return []
    if not facts.is_global:
        return [(chunk.partition, rows)]
    partitions = one_array(chunk_columns(folder, chunk, [STAGED_PARTITION]).column(0))
    encoded = partitions.take(pa.array(rows)).dictionary_encode()
    codes = encoded.indices.to_numpy()
    picked = [(name, rows[codes == c]) for c, name in enumerate(encoded.dictionary.to_pylist())]
    return sorted(picked, key=lambda p: str(p[0]))


def _by_home(
    homes: KeyHomes | None, folder: RunFolder, chunk: Chunk, partition: str, rows: np.ndarray
) -> list[tuple[int, np.ndarray]]:
    if homes is None:
        return [(NOWHERE, rows)]
    home_of = homes.of(chunk_keys(folder, chunk).take(pa.array(rows)), partition)
    order = np.argsort(home_of, kind="stable")
    distinct, starts = np.unique(home_of[order], return_index=True)
    pieces = np.split(rows[order], starts[1:])
    return [(int(home), piece) for home, piece in zip(distinct, pieces, strict=True)]
