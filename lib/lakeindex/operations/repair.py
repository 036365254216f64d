"""Mend what a check finds: a plan to read first, then each mend under the lock, on what is found there then.

Everything that is removed or replaced is copied first (:mod:`lakeindex.operations.repair_kept`), and every mend by
itself may be done again. So a repair that is killed leaves what it had not come to, which the next one finds; what it
cannot find any more, which partitions the metadata table had, is in its note.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Sequence
from typing import ClassVar, Final, Protocol

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.catalogs.syncing import sync_after
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.metadata_service import build_metadata_table, drop_metadata_table
from lakeindex.errors import InvariantError, MetadataTableError, OptionError, TableCorruptError
from lakeindex.format.file_names import crc_path
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata_upkeep.switch import METADATA_FOLDERS
from lakeindex.model import Instant
from lakeindex.operations.check import check_table
from lakeindex.operations.repair_files import MendedFile, NewSlices, described, lost_keys
from lakeindex.operations.repair_kept import NOTE, Kept
from lakeindex.operations.repair_keys import KeysRepaired
from lakeindex.operations.repair_plan import (
    READ_ROWS,
    UNATTENDED,
    Findings,
    Found,
    Mend,
    MendKind,
    Unmended,
    leftover_paths,
    requested_file,
)
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import open_pages
from lakeindex.showing.json_result import TableResult
from lakeindex.storage import Storage, remove_empty_folders, sync_folders
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.tasks.runner import Runner
from lakeindex.timeline import records

LOST_KEYS: Final = "lost-keys.parquet"
"""Among what is kept: all keys that are lost, as far as it is known which there were."""
EVERYTHING: Final = tuple(MendKind)


class RepairKeys(Protocol):
    """Keeps one row of every key that is stored more than once."""

    def __call__(self, *, dry_run: bool) -> KeysRepaired: ...


def no_keys(*, dry_run: bool) -> KeysRepaired:
    """Of who does not ask for keys."""
    raise InvariantError("keys were not asked for", culprit=f"dry_run={dry_run}", hint="report this")


class RepairSummary(TableResult):
    """What a repair mended, or would mend. ``rows_before - rows_gone + rows_back - rows_doubled = rows_after``.

    Attributes:
        dry_run: nothing was changed.
        ok: nothing is left that is wrong, as far as it was looked for.
        mends: what is mended, in this order.
        unmended: what is not, why, and what you can do.
        files: files that are lost or damaged, whose file groups get a new slice.
        instant: the commit of the new slices; None if there is none.
        kept: the folder with everything that was removed or replaced; None if nothing was.
        rows_before: rows of the table, by what commits and footers say of its live files.
        rows_gone: rows of files that are lost or damaged.
        rows_back: of those, rows that are there again.
        rows_doubled: rows of keys that were stored more than once, and go; a plan that takes out strays says 0: they
            may be the other holders.
        rows_after: rows of the table then.
        notes: what was done to other writers' instants.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "results:show_repair"

    dry_run: bool
    ok: bool
    mends: tuple[Mend, ...]
    unmended: tuple[Unmended, ...]
    files: tuple[MendedFile, ...]
    instant: str | None
    kept: str | None
    rows_before: int
    rows_gone: int
    rows_back: int
    rows_doubled: int
    rows_after: int
    notes: tuple[str, ...]
    seconds: float


def kinds_named(names: Sequence[str] | None) -> tuple[MendKind, ...]:
    """The kinds of these names, all if none are given. Raises: OptionError: there is no such kind."""
    try:
        return EVERYTHING if names is None else tuple(MendKind(name) for name in names)
    except ValueError:
        odd = next(name for name in names or () if name not in list(MendKind))
        hint = f"kinds: {', '.join(MendKind)}"
        raise OptionError(f"nothing that is mended is called {odd!r}", culprit=odd, hint=hint) from None


class Asked(Frozen):
    """What is asked of a repair.

    Attributes:
        only: kinds of mends; None: all. Rows are read only for those that need it.
        apply: do it; else only say what would be done.
        force: consider every pending instant of another writer dead.
    """

    only: Sequence[str] | None = None
    apply: bool = False
    force: bool = False


def repair_table(
    uri: str,
    runner: Runner,
    repair_keys: RepairKeys,
    asked: Asked,
    config: WriteConfig | None = None,
    *,
    host: Host | None = None,
) -> RepairSummary:
    """Mend what a check finds. Repeating it, after a kill too, does what is left to do.

    Args:
        repair_keys: of this table.

    Raises:
        OptionError: there is no such kind.
        TableError: no table, or one that is not written to.
        ConflictError: another writer is in flight or holds the lock.
    """
    started = time.perf_counter()
    repair = _Repair(
        Table.at(uri), runner, config or WriteConfig(), host or this_host(), kinds_named(asked.only), asked.force
    )
    found = repair.find()
    summary = repair.planned(found)
    if asked.apply and found.mends:
        repair.table.check_writable(repair.config)
        summary = repair.apply(repair.settled(found), repair_keys)
        if summary.instant is not None:
            summary = replace(summary, notes=summary.notes + sync_after(repair.table.uri, repair.config))
    elif found.of(MendKind.KEYS) and not (found.of(MendKind.STRAY) or found.damages):
        summary = without_doubled(summary, repair_keys(dry_run=True))  # else those may be the other holders
    return replace(summary, seconds=round(time.perf_counter() - started, 4))


def without_doubled(summary: RepairSummary, done: KeysRepaired) -> RepairSummary:
    """With the rows that a repair of keys takes out."""
    gone = done.rows_removed
    return replace(summary, rows_doubled=gone, rows_after=summary.rows_after - gone)


class _Repair(Frozen):
    """One repair."""

    table: Table
    runner: Runner
    config: WriteConfig
    host: Host
    kinds: Collection[MendKind]
    force: bool

    def find(self, context: WriteContext | None = None) -> Found:
        """What is to be mended now."""
        report = check_table(self.table.uri, self.runner, contents=not READ_ROWS.isdisjoint(self.kinds))
        known = context or WriteContext(self.table, self.host, self.config, None, self.force)
        return Findings(known, report.violations, self.kinds, self.runner).all()

    def planned(self, found: Found) -> RepairSummary:
        """What is going to be done."""
        gone = sum(damage.counted - had.kept for damage, had in found.damages)
        back = sum(had.rows.num_rows - had.kept for _, had in found.damages)
        return RepairSummary(
            table=self.table.name,
            uri=self.table.uri,
            dry_run=True,
            ok=not (found.mends or found.unmended),
            mends=found.mends,
            unmended=found.unmended,
            files=tuple(described(*one) for one in found.damages),
            instant=None,
            kept=None,
            rows_before=found.rows,
            rows_gone=gone,
            rows_back=back,
            rows_doubled=0,
            rows_after=found.rows - gone + back,
            notes=(),
            seconds=0.0,
        )

    def settled(self, found: Found) -> Found:
        """What is to be mended once what dead writers left is settled: a repair of before may have been decided."""
        try:
            with maintaining(self.table, "repair", self.config, force=self.force, host=self.host):
                pass
        except (TableCorruptError, MetadataTableError):
            return found  # what is damaged is mended first
        return self._again(found, self.table, found.of(MendKind.PENDING))

    def _again(self, found: Found, table: Table, done: Sequence[Mend]) -> Found:
        """What is to be mended now, if writes were completed or taken back since.

        Args:
            done: what was mended since.
        """
        if table.load_timeline().completed_write_times == found.writes:
            return found
        now = replace(self, table=table).find()
        return replace(now, mends=(*done, *(one for one in now.mends if one not in done)))

    def apply(self, found: Found, repair_keys: RepairKeys) -> RepairSummary:
        """Do it, in the order of the kinds."""
        before = Kept.unfinished(self.table.storage)
        summary, kept = self._begun(found)
        table = self.table.reload()
        with maintaining(table, "repair", self.config, force=self.force, host=self.host) as (context, lock):
            now = replace(self, table=table, kinds=UNATTENDED & set(self.kinds)).find(context)
            self._mend(now.mends, kept, lock, table)
            notes = tuple(context.notes)
        mended = dict.fromkeys((*found.of(MendKind.METADATA, MendKind.PENDING), *now.mends))
        again = self._again(found, table, tuple(mended))
        if again is not found:
            found = again
            summary, kept = self._begun(found)
        if found.of(MendKind.FOOTER):
            with maintaining(table, "repair", self.config, force=self.force, host=self.host) as (context, lock):
                self._mend(found.of(MendKind.FOOTER), kept, lock, table)
                notes += tuple(context.notes)
        if found.damages:
            found, instant, more = self._publish(found, kept)
            summary, notes = replace(self.planned(found), instant=instant), notes + more
        if found.of(MendKind.KEYS):
            done = repair_keys(dry_run=False)
            summary, notes = without_doubled(summary, done), notes + done.notes
        if before is None or found.of(MendKind.METADATA):  # else that one has more to do
            self._build_metadata(kept)
            kept.end()
        return replace(summary, dry_run=False, ok=not found.unmended, kept=kept.uri, notes=notes)

    def _begun(self, found: Found) -> tuple[RepairSummary, Kept]:
        """What is going to be done, noted; a metadata table that is built anew is taken away."""
        summary = self.planned(found)
        anew = any(one.culprit != NOTE for one in found.of(MendKind.METADATA))
        partitions = self.table.properties.metadata_partitions if anew else ()
        kept = Kept.begin(self.table, self.host, partitions, summary.to_json())
        if anew:
            kept.copy(one.path for folder in METADATA_FOLDERS for one in self.table.storage.list(folder))
            drop_metadata_table(self.table, (), self.config, host=self.host)
        return summary, kept

    def _publish(self, found: Found, kept: Kept) -> tuple[Found, str, tuple[str, ...]]:
        """Give file groups new slices; which keys are lost is left beside what is kept."""
        damages = [damage for damage, _ in found.damages]
        kept.copy(one.file.path for one in damages)
        lost = [(damage.file.path, key) for damage, had in found.damages for key in lost_keys(damage, had)]
        if lost:
            told = kept.read(LOST_KEYS)  # of a repair that was cut short
            if told is not None:
                before = open_pages(pa.BufferReader(told)).read()
                lost = list(dict.fromkeys([*zip(*before.to_pydict().values(), strict=True), *lost]))
            sink = pa.BufferOutputStream()
            columns = [pa.array(one, pa.string()) for one in zip(*lost, strict=True)]
            pq.write_table(pa.table(columns, names=["file", "key"]), sink)
            kept.put(LOST_KEYS, sink.getvalue().to_pybytes())
        new = NewSlices(self.table.uri, self.runner, self.config, self.force, kept.uri)
        now, instant, notes = new.publish(damages, found.writes)
        seen = tuple((damage, now.get(damage.place, had)) for damage, had in found.damages)
        return replace(found, damages=seen), instant, notes

    def _build_metadata(self, kept: Kept) -> None:
        table = self.table.reload()
        missing = [name for name in kept.partitions if name not in table.properties.metadata_partitions]
        if missing:
            build_metadata_table(table, self.config, missing, force=self.force, host=self.host)

    def _mend(self, mends: Sequence[Mend], kept: Kept, lock: TableLock, table: Table) -> None:
        """What is mended by single files, under the lock."""
        findings = Findings(WriteContext(table, self.host, self.config), (), self.kinds, self.runner)
        work: dict[MendKind, Callable[[str], None]] = {
            MendKind.PARTITION: lambda path: _write(
                *findings.partition_metadata(path.rpartition("/")[0]), kept, table.storage
            ),
            MendKind.REQUESTED: lambda path: _request(findings.without_requested(path), table),
            MendKind.CLEAN: lambda time: kept.remove(findings.clean_paths(time)),
            MendKind.STRAY: lambda path: kept.remove([path, crc_path(path)]),
            MendKind.LEFTOVER: lambda path: _take_out(path, kept, table.storage),
            MendKind.FOOTER: lambda path: _write(path, findings.footer(path), kept, table.storage),
        }
        for one in mends:
            if one.kind in work:
                lock.check()
                work[one.kind](one.culprit)
        folders = {one.culprit.rpartition("/")[0] for one in mends if one.kind is MendKind.STRAY}
        sync_folders(table.storage, folders)  # archiving relies on it: one that came back would show


def _write(path: str, data: bytes | None, kept: Kept, storage: Storage) -> None:
    """Put an object in the place of what is kept; nothing for None."""
    if data is not None:
        kept.copy([path])
        records.put(storage, path, data)
        storage.sync([path])


def _request(instant: Instant | None, table: Table) -> None:
    if instant is not None:
        path, data = requested_file(table.properties.timeline_layout, instant)
        records.settle(table.storage, path, data)
        table.storage.sync([path])


def _take_out(path: str, kept: Kept, storage: Storage) -> None:
    kept.remove(leftover_paths(storage, path))
    remove_empty_folders(storage, path)
