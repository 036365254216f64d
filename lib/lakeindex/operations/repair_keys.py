"""Keys that another writer has stored more than once: keep one row of each, and delete the others."""

from __future__ import annotations

import tempfile
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from enum import StrEnum
from pathlib import Path
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import Struct
from msgspec.structs import replace

from lakeindex.conductor.chosen_batch import Choice, run_chosen
from lakeindex.conductor.dry_run import plan_batch
from lakeindex.errors import OptionError, WriteConflictError
from lakeindex.files.key_columns import StoredColumns
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.index.fate import Fate
from lakeindex.model import BaseFile, Group
from lakeindex.operations.check_base_files import hashes_of, read_keys, repeated_hashes, rows_with, save_hashes
from lakeindex.pipeline import FOUND, LOCATIONS, Stage
from lakeindex.run import row_pieces
from lakeindex.run.checkpoints import LookedUp, arrow_schema, columns_of
from lakeindex.run.chunks import chunk_keys, chunks_of
from lakeindex.run.lookup_files import LookupFile, read_files
from lakeindex.run.spec import CHOSEN_FOLDER, BoundTable, RunSpec, TableFacts, run_folder
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import JsonResult
from lakeindex.stages.carried_locations import count_lines
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import COMMIT_SEQNO, COMMIT_TIME, PARTITION_PATH, RECORD_KEY
from lakeindex.write.combine import comparable
from lakeindex.write.types.widening import widened_array
from lakeindex.write.virtual_keys import VirtualKeys

_SHOWN: Final = 100
_NUMBERS: Final = r"_(?P<task>\d{1,18})_(?P<row>\d{1,18})$"
"""The end of a ``_hoodie_commit_seqno``."""


class Keep(StrEnum):
    """Which of a key's rows stays."""

    NEWEST = "newest"
    """That of the newest commit, and of its rows the last one."""
    OLDEST = "oldest"
    ORDERING = "ordering"
    """That with the greatest ordering value; of equal ones the newest."""


class DoubledKey(Frozen):
    """A key that is stored more than once.

    Attributes:
        key: the record key.
        kept: path of the file whose row stays.
        removed: paths of the files whose rows go, a file once a row.
    """

    key: str
    kept: str
    removed: tuple[str, ...]


class _HashTask(Frozen):
    """Leave the hashes of a file's keys on this machine."""

    uri: str
    file: BaseFile
    virtual: VirtualKeys | None
    path: Path


def _save_hashes(task: _HashTask) -> None:
    save_hashes(task.path, [hashes_of(read_keys(task.uri, task.file, task.virtual).drop_null())])


class _ValuesTask(Frozen):
    """Read what decides between copies: of these rows of a file, in their order.

    Attributes:
        row_group: int [n].
        row: int [n], in the row group.
        kinds: the types that they have in the table; None: a text.
    """

    uri: str
    file: BaseFile
    row_group: np.ndarray
    row: np.ndarray
    names: tuple[str, ...]
    kinds: tuple[pa.DataType, ...]


def _values(task: _ValuesTask) -> pa.Table:
    stored = StoredColumns(storage_at(task.uri), task.file, None)
    groups, place = np.unique(task.row_group, return_inverse=True)
    columns = stored.columns(task.names, groups.tolist())
    first = np.cumsum([0, *(len(one) for one in columns[0])])[:-1] if len(groups) else np.zeros(0, np.int64)
    rows = pa.array(first[place] + task.row)
    found = []
    for arrays, kind in zip(columns, task.kinds, strict=True):
        found.append(pa.concat_arrays([widened_array(one, kind) for one in arrays]).take(rows))
    return pa.table(found, names=list(task.names))


class DoubledKeys(Struct):
    """The batch of a repair: a row for each key that is stored more than once.

    Attributes:
        keep: which of its rows stays; None: as the table's own merging would choose.
        kept: which, as of the last look.
        scope: where a key must be unique, ``partition`` or ``table``, as of the last look.
        shown: the first of the keys, as of the last look.
        stays: file groups of the rows that stay, as of the last look.
    """

    keep: Keep | None
    runner: Runner
    kept: Keep = Keep.NEWEST
    scope: str = "partition"
    shown: tuple[DoubledKey, ...] = ()
    stays: frozenset[Group] = frozenset()

    def choose(self, spec: RunSpec, bound: BoundTable) -> Choice:
        """As :class:`lakeindex.conductor.chosen_batch.Source`."""
        facts = bound.facts
        if self.keep is Keep.ORDERING and not facts.ordering_fields:
            hint = f"keep {Keep.NEWEST} or {Keep.OLDEST}"
            raise OptionError(f"table {facts.name} has no ordering field to keep rows by", culprit="keep", hint=hint)
        self.kept = self.keep or (Keep.ORDERING if facts.event_time_fields else Keep.NEWEST)
        self.scope, self.shown, self.stays = "table" if facts.is_global else "partition", (), frozenset()
        bound.snapshot.check_whole(None, every=True)
        keys = list(self._doubled(bound))
        if not keys:
            return Choice((), self.recheck)
        names = (RECORD_KEY, PARTITION_PATH)
        schema = pa.schema([(name, pa.string()) for name in names])
        batch = pa.table([pa.array(one, pa.string()) for one in zip(*keys, strict=True)], schema=schema)
        stem = f"{spec.run_id}/{CHOSEN_FOLDER}/{uuid.uuid4().hex[:12]}/"
        written = row_pieces.write_pieces(storage_at(spec.checkpoints_uri), stem, schema, batch.to_batches())
        root = spec.checkpoints_uri.rstrip("/")
        inputs = tuple(f"{root}/{path}" for path, _ in written)
        return Choice(inputs, self.recheck, lambda now, found: self._settled(spec, now, found))

    def recheck(self, files: Sequence[BaseFile]) -> None:
        """As :data:`lakeindex.commit.guards.Recheck`: nobody has touched the rows that stay, while others of their keys
        were taken out.
        """
        odd = next((one for one in files if (one.partition_path, one.file_id) in self.stays), None)
        if odd is not None:
            raise WriteConflictError(
                f"{odd.path} was committed meanwhile, in a file group of rows that were to stay", culprit=odd.path
            )

    def _doubled(self, bound: BoundTable) -> Iterator[tuple[str, str]]:
        """Keys that more than one row has where they must be unique, each with a partition that holds one."""
        facts, uri = bound.facts, bound.table.uri
        scopes: dict[str, list[BaseFile]] = defaultdict(list)
        for file in bound.snapshot.base_files_all():
            scopes["" if facts.is_global else file.partition_path].append(file)
        with tempfile.TemporaryDirectory(prefix="lakeindex-repair-") as folder:
            for files in scopes.values():
                paths = [Path(folder) / f"{number}.npy" for number in range(len(files))]
                tasks = [_HashTask(uri, file, facts.virtual, path) for file, path in zip(files, paths, strict=True)]
                run_tasks(self.runner.nearby(), _save_hashes, tasks, "repair: keys")
                for repeated, holders in repeated_hashes(paths):
                    held = rows_with(uri, [files[n] for n in holders], repeated, facts.virtual)
                    yield from ((key, found[0].partition_path) for key, found in held.items() if len(found) > 1)

    def _settled(self, spec: RunSpec, facts: TableFacts, found: LookedUp) -> LookedUp:
        """The look-up with the fates of all copies."""
        folder, verified = run_folder(spec), found.verified
        located = folder.read_all(verified, "locations", arrow_schema(LOCATIONS)).combine_chunks()
        files = read_files(folder, found.lookup.parts("files")[0])
        chunk, row = (located.column(name).to_numpy().astype(np.int64) for name in ("chunk", "row"))
        order = self._by_choice(spec, facts, files, located)
        codes = (chunk << 32 | row)[order]
        first = np.flatnonzero(np.concatenate(([True], codes[1:] != codes[:-1]))) if len(codes) else order
        several = np.diff(np.append(first, len(codes))) > 1
        stays = order[first]
        fates = np.full(len(codes), Fate.COPY, np.int8)
        fates[stays] = Fate.IGNORED_STORED
        place = located.schema.get_field_index("fate")
        located = located.set_column(place, located.schema.field(place), pa.array(fates))
        holders = {files[number].file for number in located.column("file").to_numpy()[stays[several]]}
        self.stays = frozenset((one.partition_path, one.file_id) for one in holders)
        self.shown = self._examples(spec, found, files, located, stays[several][:_SHOWN])
        attempt = folder.new_attempt(Stage.VERIFY_KEYS)
        lines = columns_of(count_lines(located, 0), len(FOUND))
        counts = [pa.array(c, f.type) for c, f in zip(lines, arrow_schema(FOUND), strict=True)]
        tables = {
            "locations": (folder.write_table(f"{attempt}/locations.parquet", located),),
            "found": (folder.write_table(f"{attempt}/found.parquet", pa.table(counts, schema=arrow_schema(FOUND))),),
        }
        return replace(found, verified=replace(verified, tables=tables))

    def _by_choice(
        self, spec: RunSpec, facts: TableFacts, files: Sequence[LookupFile], located: pa.Table
    ) -> np.ndarray:
        """Places of the locations, those of a key together and the one that stays first: int64 [n]."""
        ordering = facts.ordering_fields if self.kept is Keep.ORDERING else ()
        names = (COMMIT_TIME, COMMIT_SEQNO, *ordering)
        kinds = (pa.string(), pa.string(), *(facts.schema.field(name).type for name in ordering))
        file, group, row = (located.column(name).to_numpy() for name in ("file", "row_group", "row_in_group"))
        by_file = np.argsort(file, kind="stable")
        numbers, starts = np.unique(file[by_file], return_index=True)
        pieces = np.split(by_file, starts[1:])
        tasks = [
            _ValuesTask(spec.table_uri, files[number].file, group[mine], row[mine], names, kinds)
            for number, mine in zip(numbers, pieces, strict=True)
        ]
        read = run_tasks(self.runner.nearby(), _values, tasks, "repair: what decides between copies")
        back = pa.array(np.argsort(by_file, kind="stable"))
        values = pa.concat_tables(read).take(back)
        written = pa.array([files[number].file.instant_time for number in file], pa.string())
        ends = pc.extract_regex(values.column(COMMIT_SEQNO).combine_chunks(), _NUMBERS)
        keys: list[pa.Array] = [comparable(one_array(values.column(name))) for name in ordering]
        keys += [pc.coalesce(one_array(values.column(COMMIT_TIME)), written)]
        keys += [pc.struct_field(ends, name).cast(pa.int64()) for name in ("task", "row")]
        keys += [pa.array([files[number].file.path for number in file], pa.string()), pa.array(group), pa.array(row)]
        names_of = [f"k{number}" for number in range(len(keys))]
        best = "ascending" if self.kept is Keep.OLDEST else "descending"
        table = pa.table([located.column("chunk"), located.column("row"), *keys], names=["chunk", "row", *names_of])
        sort_keys = [("chunk", "ascending"), ("row", "ascending"), *((name, best) for name in names_of)]
        return pc.sort_indices(table, sort_keys=sort_keys).to_numpy().astype(np.int64)

    def _examples(
        self, spec: RunSpec, found: LookedUp, files: Sequence[LookupFile], located: pa.Table, stays: np.ndarray
    ) -> tuple[DoubledKey, ...]:
        chunk, row, file = (located.column(name).to_numpy() for name in ("chunk", "row", "file"))
        shown = []
        for place, key in zip(stays, self._keys(spec, found, chunk[stays], row[stays]).to_pylist(), strict=True):
            copies = np.flatnonzero((chunk == chunk[place]) & (row == row[place]))
            removed = sorted(files[file[one]].file.path for one in copies if one != place)
            shown.append(DoubledKey(key, files[file[place]].file.path, tuple(removed)))
        return tuple(shown)

    @staticmethod
    def _keys(spec: RunSpec, found: LookedUp, chunk: np.ndarray, row: np.ndarray) -> pa.Array:
        """Keys of the batch at some places."""
        folder = run_folder(spec)
        chunks = chunks_of(folder, found.staged)
        keys, back = [pa.array([], pa.string())], [np.zeros(0, np.int64)]
        for number in np.unique(chunk):
            mine = np.flatnonzero(chunk == number)
            keys.append(chunk_keys(folder, chunks[number]).take(pa.array(row[mine])).cast(pa.string()))
            back.append(mine)
        return pa.concat_arrays(keys).take(pa.array(np.argsort(np.concatenate(back), kind="stable")))


class KeysRepaired(JsonResult):
    """Keys that were stored more than once, and what became of them.

    Attributes:
        uri: the table.
        scope: where a key must be unique: ``partition`` or ``table``.
        keep: which row of a key stays: ``newest``, ``oldest`` or ``ordering``.
        keys: how many keys were stored more than once.
        rows_removed: rows that are deleted, or would be.
        files_rewritten: base files that held them.
        found: the first keys, in their order.
        dry_run: nothing was written.
        instant: the commit; None if there is none.
        seconds: wall time.
        notes: information for the caller.
    """

    shown_by: ClassVar[str] = "results:show_repaired"

    uri: str
    scope: str
    keep: str
    keys: int
    rows_removed: int
    files_rewritten: int
    found: tuple[DoubledKey, ...]
    dry_run: bool
    instant: str | None
    seconds: float
    notes: tuple[str, ...]


def repair_keys(
    spec: RunSpec,
    runner: Runner,
    keep: str | None,
    around: Callable[[Callable[[RunSpec], RunSummary]], RunSummary],
    *,
    dry_run: bool,
) -> KeysRepaired:
    """Keep one row of every key that is stored more than once.

    Args:
        keep: which row stays: newest, oldest or ordering; None: as the table's own merging would choose.
        around: runs what it is given with a run folder.

    Raises:
        OptionError: there is no such choice, or no ordering field to choose by.
        ConflictError: another writer's work stands in the way for good; nothing was published.
    """
    if keep is not None and keep not in list(Keep):
        raise OptionError(f"keep cannot be {keep!r}", culprit="keep", hint=f"valid: {' | '.join(Keep)}")
    source = DoubledKeys(None if keep is None else Keep(keep), runner)
    done = around(lambda begun: plan_batch(begun, runner, source) if dry_run else run_chosen(begun, source, runner))
    return KeysRepaired(
        uri=spec.table_uri,
        scope=source.scope,
        keep=str(source.kept),
        keys=done.deletes,
        rows_removed=done.deletes + done.copies,
        files_rewritten=done.files_rewritten,
        found=source.shown,
        dry_run=dry_run,
        instant=done.instant,
        seconds=done.seconds,
        notes=done.notes,
    )
