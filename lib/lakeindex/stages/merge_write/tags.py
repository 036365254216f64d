"""First part of stage 5: tag what was not found, by chunk: inserts, new homes of moved rows,
deletes that find nothing; and rows that turn out bad only where they would be written: they go into quarantine files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.errors import REPAIR_KEYS, InvariantError, QuarantineExceededError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.index.contract import NOWHERE, KeyHomes
from lakeindex.index.fate import Fate
from lakeindex.index.registry import index_for
from lakeindex.pipeline import FOUND, INSERTS, OP_DELETE, REASON, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import Manifest, Part, RunFolder, arrow_schema, columns_of
from lakeindex.run.chunks import Chunk, chunk_columns, chunk_keys, pack_rows_of
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, TableFacts, conditions_of, run_folder
from lakeindex.run.summary import RunSummary
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks


class BadRows(Frozen):
    """How many, the quarantine files that have them, and an example: its record key and what is wrong with it."""

    quarantined: int = 0
    parts: tuple[Part, ...] = ()
    example: tuple[str, str] | None = None

    @staticmethod
    def joined(found: Iterable[BadRows]) -> BadRows:
        some = [one for one in found if one.quarantined]
        return BadRows(
            sum(one.quarantined for one in some),
            tuple(part for one in some for part in one.parts),
            min((one.example for one in some if one.example is not None), default=None),
        )

    def check(self, spec: RunSpec, staged: Manifest) -> None:
        """Make sure that there are no more bad rows than the run tolerates.

        Raises:
            QuarantineExceededError: there are.
        """
        bad = int(staged.counters["quarantined"]) + self.quarantined
        if self.example is None or bad <= spec.max_quarantined:
            return
        key, why = self.example
        raise QuarantineExceededError(
            f"{self.quarantined} rows cannot be inserted, {key!r} for example: {why}; "
            f"{bad} bad rows, {spec.max_quarantined} allowed",
            culprit=f"{spec.checkpoints_uri.rstrip('/')}/{self.parts[0].path}",
            hint="look at the quarantine file, give new rows all columns that must not be null, "
            "or allow such rows with max_quarantined=N (--max-quarantined N)",
        )


NO_BAD_ROWS: Final = BadRows()


def incomplete_rows(
    facts: TableFacts, folder: RunFolder, chunk: Chunk, rows: np.ndarray, path: str
) -> tuple[np.ndarray, BadRows]:
    """Set those of a partial update's new rows aside that lack a column that must not be null.

    Args:
        rows: numbers of its rows that would be new, ascending: int64 [n].
        path: beginning of the quarantine file's name.

    Returns:
        Numbers of the rows that were set aside, and what was.
    """
    nothing = np.zeros(0, np.int64)
    demanded = [f.name for f in facts.schema if not f.nullable and f.name in facts.kept | facts.filled]
    if not demanded or not len(rows):
        return nothing, NO_BAD_ROWS
    table = chunk_columns(folder, chunk, None).take(pa.array(rows))
    why: pa.Array = pa.nulls(len(rows), pa.string())
    there = frozenset(table.column_names)
    for name in demanded:
        column = one_array(table.column(name)) if name in there else pa.nulls(len(rows))
        reason = pa.scalar(f"column {name!r} must not be null")
        why = pc.coalesce(why, pc.if_else(column.is_null(), reason, pa.scalar(None, pa.string())))
    bad = np.flatnonzero(why.is_valid().to_numpy(zero_copy_only=False))
    if not len(bad):
        return nothing, NO_BAD_ROWS
    picked = pa.array(bad)
    file = f"{path}/{chunk.number:05d}.parquet"
    return rows[bad], write_bad_rows(folder, file, table.take(picked), why.take(picked))


def write_bad_rows(folder: RunFolder, path: str, rows: pa.Table, why: pa.Array) -> BadRows:
    """Write staged rows, one at least, into a quarantine file ``path*``, with what is wrong with each."""
    example = rows.column(STAGED_KEY)[0].as_py(), why[0].as_py()
    table = rows.drop_columns([STAGED_PARTITION, STAGED_KEY, STAGED_OP]).append_column(REASON, why)
    return BadRows(table.num_rows, (folder.write_table(path, table),), example)


KEPT: Final = pa.schema([("key", pa.string()), ("file", pa.int64())])
_LOCATED: Final = ("chunk", "row", "fate", "file")
_FILES_NAMED: Final = 5


class TagTask(Frozen):
    """Some chunks, and the location parts that name them."""

    spec: RunSpec
    facts: TableFacts
    chunks: tuple[Chunk, ...]
    locations: tuple[Part, ...]
    path: str


class NewRows(Frozen):
    """New rows of one chunk, partition and home, and the ``inserts`` file that lists them."""

    chunk: int
    partition: str
    home: int
    rows: int
    part: Part

    @property
    def key(self) -> tuple[int, str, int]:
        return self.chunk, self.partition, self.home


class Copies(Frozen):
    """What was found of keys that are stored more than once, which another writer's insert makes.

    Each row of the batch has one fate: its key's further places are counted here.

    Attributes:
        deletes: further rows that are deleted.
        ignored: further places of keys that stay, or of which another copy is deleted.
        unmet: of these, by a condition.
        refused: keys that the batch would write, of which nobody can say which copy is theirs.
        example: one of them, and the numbers of the files that hold it, a file once a row.
    """

    deletes: int = 0
    ignored: int = 0
    unmet: int = 0
    refused: int = 0
    example: tuple[str, tuple[int, ...]] | None = None

    @staticmethod
    def joined(several: Iterable[Copies]) -> Copies:
        listed = list(several)
        return Copies(
            sum(one.deletes for one in listed),
            sum(one.ignored for one in listed),
            sum(one.unmet for one in listed),
            sum(one.refused for one in listed),
            min((one.example for one in listed if one.example is not None), default=None),
        )

    def check(self, files: Sequence[LookupFile]) -> None:
        """Make sure that the batch writes no key that is stored more than once. Raises: InvariantError: it does."""
        if self.example is None:
            return
        key, numbers = self.example
        paths = [files[number].file.path for number in numbers]
        shown = ", ".join(dict.fromkeys(paths[:_FILES_NAMED])) + (" and more" if len(paths) > _FILES_NAMED else "")
        others = "" if self.refused == 1 else f"; {self.refused} keys of the batch are stored more than once"
        raise InvariantError(
            f"key {key!r} is stored {len(paths)} times: in {shown}{others}",
            culprit=paths[0],
            hint=REPAIR_KEYS,
        )


NO_COPIES: Final = Copies()


class TagResult(Frozen):
    """Inserts of some chunks: (chunk, partition, home, rows) lines; deletes that found nothing, and rows that do not
    meet the condition of an insert.
    """

    part: Part
    lines: tuple[tuple[int, str, int, int], ...]
    ignored_missing: int
    unmet: int
    inserts: int
    incomplete: BadRows = NO_BAD_ROWS
    copies: Copies = NO_COPIES
    kept: tuple[Part, ...] = ()


class Tags(Frozen):
    """What the whole batch adds.

    Attributes:
        new_rows: where new rows are listed, by chunk, partition, home; moved rows among them.
        inserts: keys that were nowhere.
        ignored_missing: deletes that found nothing.
        unmet: keys that were nowhere and do not meet the condition of an insert.
        incomplete: rows that would be new, and lack a column that must not be null; they were set aside.
        copies: keys that are stored more than once.
        kept: where copies of keys stay of which others go, tables of ``KEPT``.
    """

    new_rows: tuple[NewRows, ...]
    inserts: int
    ignored_missing: int
    unmet: int
    incomplete: BadRows = NO_BAD_ROWS
    copies: Copies = NO_COPIES
    kept: tuple[Part, ...] = ()

    def counted_in(self, summary: RunSummary, found: Sequence[FoundLine], set_aside: int) -> RunSummary:
        """``summary`` with the rows of the batch by fate; ``set_aside`` of those that were found are bad ones."""
        copies, unmet = self.copies, sum(one.unmet for one in found) - self.copies.unmet + self.unmet
        ignored = sum(one.ignored for one in found) - copies.ignored - set_aside
        return replace(
            summary,
            inserts=self.inserts,
            updates=sum(one.updates for one in found),
            deletes=sum(one.deletes for one in found) - copies.deletes,
            copies=copies.deletes,
            moved=sum(one.moves for one in found),
            ignored=ignored + self.ignored_missing + self.unmet,
            unmet=unmet,
        )


class FoundLine(Frozen):
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
        Copies.joined(r.copies for r in results),
        tuple(part for r in results for part in r.kept),
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
    copies: list[Copies] = []
    kept: list[pa.Table] = []
    missing = unmet = inserts = 0
    for chunk in task.chunks:
        rows, fates, files = located.of(chunk.number)
        copies.append(_copies(folder, chunk, rows, fates, files))
        if copies[-1] is not NO_COPIES:
            kept += _kept(folder, chunk, rows, fates, files)
        is_delete = _deletes_of(folder, chunk)
        unfound = np.ones(chunk.rows, np.bool_)
        unfound[rows] = False
        missing += int((unfound & is_delete).sum())
        asking = unfound & ~is_delete
        is_new = _inserted(task, chunk, asking)
        unmet += int((asking & ~is_new).sum())
        if task.facts.given is not None and task.spec.chosen is None:
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
    part, bad_rows = folder.write_table(task.path, table), BadRows.joined(incomplete)
    stays = (folder.write_table(f"{task.path}-kept", pa.concat_tables(kept)),) if kept else ()
    return TagResult(part, lines, missing, unmet, inserts, bad_rows, Copies.joined(copies), stays)


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
    if not chunk.deletes:
        return np.zeros(chunk.rows, np.bool_)
    return pc.equal(chunk_columns(folder, chunk, [STAGED_OP]).column(0), OP_DELETE).to_numpy()


class _Located:
    """Rows that were found, their fates and files, by chunk."""

    def __init__(self, tables: Sequence[pa.Table]) -> None:
        columns = [[table.column(name).to_numpy() for table in tables] for name in _LOCATED]
        chunk, *rest = (np.concatenate([np.zeros(0, np.int64), *some]).astype(np.int64) for some in columns)
        order = np.argsort(chunk, kind="stable")
        self._chunk, self._rest = chunk[order], [one[order] for one in rest]

    def of(self, chunk: int) -> list[np.ndarray]:
        """Of one chunk: int64, shapes (n,)."""
        mine = slice(*np.searchsorted(self._chunk, [chunk, chunk + 1]))
        return [one[mine] for one in self._rest]


def _copies(folder: RunFolder, chunk: Chunk, rows: np.ndarray, fates: np.ndarray, files: np.ndarray) -> Copies:
    """Of the keys that were found at several places: what is more than one fate a row."""
    if not len(rows) or (times := np.bincount(rows, minlength=chunk.rows)).max() < 2:
        return NO_COPIES

    def count(*wanted: Fate) -> np.ndarray:
        return np.bincount(rows[np.isin(fates, wanted)], minlength=chunk.rows)

    deleted, written, unmet = count(Fate.DELETE, Fate.COPY), count(Fate.UPDATE, Fate.MOVED), count(Fate.IGNORED_UNMET)
    again, ignored = times > 1, times - deleted - written
    first = np.where(deleted > 0, 0, 1)  # place that is the row's fate, of those where it is ignored
    is_unmet = (deleted == 0) & (unmet == ignored)
    refused = np.flatnonzero(again & (written > 0))
    example = None
    if len(refused):
        row = int(refused[0])
        example = chunk_keys(folder, chunk)[row].as_py(), tuple(np.sort(files[rows == row]).tolist())
    return Copies(
        int((deleted - 1)[again & (deleted > 0)].sum()),
        int((ignored - first)[again].sum()),
        int((unmet - is_unmet)[again].sum()),
        len(refused),
        example,
    )


def _kept(
    folder: RunFolder, chunk: Chunk, rows: np.ndarray, fates: np.ndarray, files: np.ndarray
) -> Iterator[pa.Table]:
    """Keys of which a copy goes and another one stays, with the files in which they stay."""
    goes = np.isin(fates, (Fate.DELETE, Fate.COPY))
    stays = ~goes & np.isin(rows, rows[goes])
    if stays.any():
        keys = chunk_keys(folder, chunk).take(pa.array(rows[stays])).cast(pa.string())
        yield pa.table([keys, pa.array(files[stays])], schema=KEPT)


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
