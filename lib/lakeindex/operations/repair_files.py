"""Base files that are lost or damaged: a footer is found again by its checksum, or the file group gets a new slice.

A new slice has the rows that can still be read of the file itself and, for the rest, those of older slices that are
there, each of the newest that has it: but for keys that are in the file already or live in another file, and, where the
record index of the metadata table can be asked, but for keys that it does not have in the file group (they were deleted
or moved since). What cannot be had again is counted and, where that index says which keys were there, told key by key.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
from msgspec.structs import replace

from lakeindex.commit.guards import refuse_clustered
from lakeindex.commit.write_queue import TurnScope
from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    PublishGuards,
    RunIdentity,
    begin_write,
)
from lakeindex.commit.written_slices import Commits, WrittenSlice, written_slices
from lakeindex.conductor.open_for_write import retry_on_conflict
from lakeindex.errors import MOVED_ERRORS, InvariantError, LakeIndexError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import parse_shape
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat, footer_entry
from lakeindex.format.file_names import write_token
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import plain_strings
from lakeindex.hashing.row_digest import sum_of
from lakeindex.metadata_upkeep.index_entries import Place
from lakeindex.model import BaseFile, Operation
from lakeindex.operations.check_base_files import read_keys
from lakeindex.operations.check_violations import is_damage
from lakeindex.operations.rewrite_run import BuiltFile, Mover, digest_without_name
from lakeindex.operations.row_order import RowOrder
from lakeindex.operations.rows.aligned_rows import aligned_batches, open_base_file, row_schema
from lakeindex.options.clustering_options import Curve
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.mend_footer import mended_files
from lakeindex.parquet.pages import open_pages
from lakeindex.parquet.verify_pages import verify_pages
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.spec import BoundTable
from lakeindex.run.table_facts import bind_for_write, facts_of
from lakeindex.stages.merge_write.file_slices import new_file_stat
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.verdicts import BATCH_KEY
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.types.avro_schema import schema_to_avro

REPAIR_KEY: Final = "lakeindex.repair"
"""Key of ``extraMetadata`` of the commit of a repair: where is kept what was there before."""
_SHOWN: Final = 100


class LostWrite(Frozen):
    """A commit whose rows in a file are lost.

    Attributes:
        instant: its time.
        batch_id: the batch, if the commit is ours: ``--force`` sends it again.
        inserts: rows that it inserted there.
        updates: rows that it updated there.
        deletes: rows that it deleted there, which may be back.
    """

    instant: str
    batch_id: str | None
    inserts: int
    updates: int
    deletes: int


class MendedFile(Frozen):
    """A base file that is lost or damaged, and what its file group has instead. ``kept + back`` rows of ``rows``.

    Attributes:
        path: the file.
        lost: it is not there.
        rows: how many its commit says that it had; None if no commit on the timeline names it.
        kept: rows that can still be read of it.
        older: the older slice that stands in for the rest; None if there is none.
        back: rows that are had from it.
        writes: commits whose rows there are lost, oldest first: what to send again, in this order; none if all rows are
            kept.
        keys_lost: keys that were there and are not any more; None if nothing says which there were.
        keys: the first of them.
    """

    path: str
    lost: bool
    rows: int | None
    kept: int
    older: str | None
    back: int
    writes: tuple[LostWrite, ...]
    keys_lost: int | None
    keys: tuple[str, ...]


class Damage(Frozen):
    """What is known of a file that is to be mended.

    Attributes:
        file: as it is listed, or as its commit names it if it is not.
        written: what its commit says; None if no commit on the timeline names it.
        live: the slice that readers of the folder see: the file, an older one, or none.
        older: slices that came before, the newest last.
        elsewhere: live files in which a key of it may not be, too, and that can be read.
        held: keys of other such files, which are damaged and get no new slice.
        is_global: whether a key of it may not be in other partitions, either.
        said: keys that the record index has in its file group; None if it cannot be asked.
        counted: rows that the table is said to have of its file group.
        commits: those on the timeline.
    """

    file: BaseFile
    written: WrittenSlice | None
    live: BaseFile | None
    older: tuple[BaseFile, ...]
    elsewhere: tuple[BaseFile, ...]
    held: tuple[pa.Array, ...]
    is_global: bool
    said: pa.Array | None
    counted: int
    commits: Commits

    @property
    def place(self) -> Place:
        return self.file.partition_path, self.file.file_id

    def excludes(self, partition: str) -> bool:
        """Whether a key of it may not be in a partition, too."""
        return self.is_global or partition == self.file.partition_path

    @property
    def lost(self) -> bool:
        return self.live is None or self.live.path != self.file.path


def footer_found(
    storage: Storage, file: BaseFile, written: WrittenSlice | None, before: bytes | None = None
) -> bytes | None:
    """The whole file with its footer as it was; None if it is whole, or if nothing, or more than one thing, agrees.

    What agrees: the checksum that the commit says of it, or its own; its rows, as the commit says; every page.

    Args:
        before: what a repair that was cut short has kept of it: what is there may be torn.
    """
    now = storage.read(file.path)
    for data in (now,) if before is None else (now, before):
        found = _footer_in(data, file, written)
        if found is not None and found != now:
            return found
    return None


def _footer_in(data: bytes, file: BaseFile, written: WrittenSlice | None) -> bytes | None:
    if written is not None and written.stat.file_size_bytes not in (0, len(data)):
        return None
    found = [
        one for one in mended_files(data, None if written is None else written.digest) if _agrees(one, file, written)
    ]
    return found[0] if len(found) == 1 else None


def _agrees(data: bytes, file: BaseFile, written: WrittenSlice | None) -> bool:
    try:
        length = int.from_bytes(data[-8:-4], "little")
        shape = parse_shape(data[-8 - length : -8], replace(file, size_bytes=len(data)))
        metadata = open_pages(pa.BufferReader(data)).metadata
        pages = verify_pages(data, metadata)
    except (LakeIndexError, pa.ArrowException, OSError, ValueError):
        return False
    if pages.problems or not pages.pages or pages.without_crc:
        return False
    return written is None or written.stat.num_writes == shape.rows


def age_of(file: BaseFile) -> str:
    return comparable(file.instant_time)


def keys_in(data: bytes) -> pa.Array:
    """The record keys of a whole file whose footer was found."""
    return pc.cast(plain_strings(open_pages(pa.BufferReader(data)).read([RECORD_KEY]).column(0)), pa.string())


def keys_left(uri: str, file: BaseFile) -> pa.Array:
    """The record keys of the row groups of a damaged file that can be read."""
    rows, _ = _readable(uri, file, pa.schema([(RECORD_KEY, pa.string())]))
    return plain_strings(rows.column(RECORD_KEY))


class Salvage(Frozen):
    """The rows of a new slice.

    Attributes:
        kept: how many are of the damaged file itself; the others are of older slices.
        older: the oldest of these.
        has_whole: all rows of that one could be read.
    """

    rows: pa.Table
    kept: int
    older: BaseFile | None
    has_whole: bool = True


def salvaged(uri: str, schema: pa.Schema, damages: Sequence[Damage], runner: Runner) -> Mapping[Place, Salvage]:
    """What can be had again of files, by file group: a key once, of the newest slice that has it.

    Raises:
        StorageError: the store does not answer.
    """
    columns = row_schema(schema)
    own = {one.place: _kept(uri, one, columns) for one in damages}
    older = [(one, *_stand_in(uri, one, columns)) for one in damages if not own[one.place][1]]
    found = {place: Salvage(rows, rows.num_rows, None) for place, (rows, _) in own.items()}
    older.sort(key=lambda one: "" if one[1] is None else age_of(one[1]), reverse=True)
    for damage, file, rows, is_whole in older:
        place = damage.place
        others = [
            plain_strings(had.rows.column(RECORD_KEY))
            for other, had in found.items()
            if other != place and damage.excludes(other[0])
        ]
        kept = found[place].rows
        back = _not_elsewhere(uri, rows, kept, damage, others, runner)
        found[place] = Salvage(pa.concat_tables([kept, back]), kept.num_rows, file, is_whole)
    return found


def _kept(uri: str, damage: Damage, columns: pa.Schema) -> tuple[pa.Table, bool]:
    """The rows that can be read of the file itself, and whether these are all."""
    return (columns.empty_table(), False) if damage.lost else _readable(uri, damage.file, columns)


def _stand_in(uri: str, damage: Damage, columns: pa.Schema) -> tuple[BaseFile | None, pa.Table, bool]:
    """What older slices have, each key of the newest that has it, down to one of which all rows can be read; that one,
    or the oldest that has some, and whether it is such a one.
    """
    last, found, is_whole = None, columns.empty_table(), False
    for file in reversed(damage.older):
        rows, is_whole = _readable(uri, file, columns)
        if rows.num_rows or is_whole:
            had = pc.is_in(plain_strings(rows.column(RECORD_KEY)), plain_strings(found.column(RECORD_KEY)))
            last, found = file, pa.concat_tables([found, rows.filter(pc.invert(had))])
        if is_whole:
            break
    return last, found, is_whole


def _readable(uri: str, file: BaseFile, schema: pa.Schema) -> tuple[pa.Table, bool]:
    """The rows of the row groups of which these columns can be read, and whether these are all: what is damaged of
    others, of ones that the table has no more or of all but the keys, is no matter.
    """
    parts, is_whole = [schema.empty_table()], True
    try:
        source = open_base_file(storage_at(uri), file)
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        return parts[0], False
    for group in range(source.num_row_groups):
        try:
            parts += list(aligned_batches(source, file, [group], schema))
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            is_whole = False
    return pa.concat_tables(parts), is_whole


class _HeldTask(Frozen):
    """Which of some keys a file holds."""

    uri: str
    file: BaseFile
    keys: pa.Array


def _held(task: _HeldTask) -> pa.Array:
    keys = read_keys(task.uri, task.file, None)
    return keys.filter(pc.is_in(keys, task.keys))


def _held_in(uri: str, files: Sequence[BaseFile], keys: pa.Array, runner: Runner) -> pa.ChunkedArray:
    """Those of some keys that files hold."""
    tasks = [_HeldTask(uri, file, keys) for file in files]
    return pa.chunked_array(run_tasks(runner.nearby(), _held, tasks, "repair: keys"), pa.string())


def _not_elsewhere(
    uri: str, rows: pa.Table, own: pa.Table, damage: Damage, others: Sequence[pa.Array], runner: Runner
) -> pa.Table:
    """Rows of an older slice whose keys are in no other place now."""
    keys = plain_strings(rows.column(RECORD_KEY))
    stays = pc.invert(pc.is_in(keys, plain_strings(own.column(RECORD_KEY))))
    for had in (*others, *damage.held):
        stays = pc.and_(stays, pc.invert(pc.is_in(keys, had)))
    if damage.said is not None:
        stays = pc.and_(stays, pc.is_in(keys, damage.said))
    asked = keys.filter(stays)
    held = _held_in(uri, damage.elsewhere, asked, runner)
    return rows.filter(pc.and_(stays, pc.invert(pc.is_in(keys, held))))


def _refuse_doubled(
    uri: str, damages: Sequence[Damage], found: Mapping[Place, Salvage], runner: Runner, files: Sequence[BaseFile]
) -> None:
    """As :data:`lakeindex.commit.guards.Recheck`: a key that comes back was committed elsewhere meanwhile."""
    for damage in damages:
        had = found[damage.place]
        back = had.rows.slice(had.kept)
        since = [one for one in files if damage.excludes(one.partition_path)]
        if len(_held_in(uri, since, plain_strings(back.column(RECORD_KEY)), runner)):
            raise WriteConflictError(
                f"a key that comes back in the place of {damage.file.path} was committed by another writer meanwhile",
                culprit=damage.file.path,
                hint="nothing was published; run again",
            )


def _refuse_back(damages: Sequence[Damage], snapshot: Snapshot) -> None:
    """A lost file is lost still, and its file group was not written since: rows of it would be hidden for good."""
    for damage in damages:
        there = (one for one in snapshot.base_files(damage.file.partition_path) if one.file_id == damage.file.file_id)
        if damage.lost and any(age_of(one) >= age_of(damage.file) for one in there):
            raise WriteConflictError(
                f"{damage.file.path} was lost, and is back, or something newer is in its file group",
                culprit=damage.file.path,
                hint="nothing was published; run again",
            )


def described(damage: Damage, found: Salvage) -> MendedFile:
    """What becomes of a file, in figures."""
    stat = None if damage.written is None else damage.written.stat
    rows = None if stat is None else stat.num_writes
    back = found.rows.num_rows - found.kept
    is_whole = found.kept == rows or (rows is None and not damage.lost and found.older is None)
    lost = None
    if damage.said is not None:
        lost = damage.said.filter(pc.invert(pc.is_in(damage.said, plain_strings(found.rows.column(RECORD_KEY)))))
    return MendedFile(
        damage.file.path,
        damage.lost,
        rows,
        found.kept,
        None if found.older is None else found.older.path,
        back,
        () if is_whole else tuple(_lost_writes(damage, found.older if found.has_whole else None)),
        None if lost is None else len(lost),
        () if lost is None else tuple(sorted(lost.slice(0, _SHOWN).to_pylist())),
    )


def lost_keys(damage: Damage, found: Salvage) -> list[str]:
    """All keys that were there and are not any more, as far as the record index says which there were."""
    if damage.said is None:
        return []
    keys = plain_strings(found.rows.column(RECORD_KEY))
    return sorted(damage.said.filter(pc.invert(pc.is_in(damage.said, keys))).to_pylist())


def _lost_writes(damage: Damage, older: BaseFile | None) -> Iterable[LostWrite]:
    since = "" if older is None else comparable(older.instant_time)
    for instant, metadata in damage.commits:
        for one in written_slices(instant, metadata):
            if (one.file.partition_path, one.file.file_id) != damage.place:
                continue
            if since < comparable(instant.time) <= comparable(damage.file.instant_time):
                stat, batch = one.stat, metadata.extra_metadata.get(BATCH_KEY)
                yield LostWrite(instant.time, batch, stat.num_inserts, stat.num_update_writes, stat.num_deletes)


class NewSlices(Frozen):
    """Publishes new slices of file groups, in one commit."""

    uri: str
    runner: Runner
    config: WriteConfig
    force: bool
    kept: str

    def publish(
        self, damages: Sequence[Damage], known: frozenset[str]
    ) -> tuple[Mapping[Place, Salvage], str, tuple[str, ...]]:
        """What the new slices have, the commit, and notes.

        Args:
            known: the writes that were completed when it was looked at the damages.

        Raises:
            ConflictError: other writers are in the way for good; nothing was published.
        """
        opened = self._opened(damages)
        names = sorted(one.file.path for one in damages)
        asked = digest_of_text(*names, opened.snapshot.instant_time or "")
        identity = RunIdentity(f"repair {asked}", f"repair {asked}", asked)
        session = begin_write(opened.table, identity, Operation.UPSERT, self.config, force=self.force)
        if isinstance(session, AlreadyDone):
            return {}, session.instant, session.notes
        found: Mapping[Place, Salvage] = {}

        def attempt(_: Snapshot) -> str:
            nonlocal found
            try:
                snapshot = opened.table.listed_snapshot()
                _refuse_back(damages, snapshot)
                files = [one.live or one.file for one in damages]
                refuse_clustered(snapshot, files, self.config)
                session.take_turn(TurnScope.of(((one.partition_path, one.file_id) for one in files), ()))
                mover = Mover("repair", opened.table, opened.facts, self.runner, self.config, identity.key)
                seen = _with_later(damages, snapshot, known)
                found = salvaged(self.uri, opened.facts.schema, seen, self.runner)
                planned = [_planned(one, n, found) for n, one in enumerate(damages)]
                digest = digest_of_text(asked, mover.writes, *(str(found[one.place].rows.num_rows) for one in damages))
                plan = session.plan(planned, snapshot.instant_time, digest)
                built = _built(mover, plan.files, [found[one.place] for one in damages])
                commit = _commit(opened.table, mover, damages, built, self.kept)
                expected = [ExpectedFile(one.file.path, one.file.size_bytes, one.digest.rows) for one in built]
                rechecks = (
                    partial(_refuse_doubled, self.uri, damages, found, self.runner),
                    lambda _: _refuse_back(damages, opened.table.listed_snapshot()),
                )
                return session.publish(commit, expected, PublishGuards.of(snapshot.timeline, *rechecks))
            except (*MOVED_ERRORS, InvariantError):
                session.abandon()
                raise

        try:
            instant = retry_on_conflict(opened.table, self.config, attempt, who=f"run {identity.run_id}")
        finally:
            session.close()
        return found, instant, session.notes

    def _opened(self, damages: Sequence[Damage]) -> BoundTable:
        """The table bound for writing; how keys are spelled is compared with rows that can be read."""
        table = Table.at(self.uri)
        table.check_writable(self.config)

        def on(_: Snapshot) -> BoundTable:
            snapshot = table.listed_snapshot()
            snapshot.timeline.check_known()
            sound = snapshot.without(one.file for one in damages if not one.lost)
            bound = bind_for_write(table, sound, self.config)
            return BoundTable(bound, snapshot, facts_of(bound, snapshot, self.config))

        return retry_on_conflict(table, self.config, on)


def _with_later(damages: Sequence[Damage], snapshot: Snapshot, known: frozenset[str]) -> list[Damage]:
    """With the files in which keys may be that were committed since."""
    later = snapshot.timeline.completed_write_times - known
    places = {one.place for one in damages}
    files = [one for one in (snapshot.base_files_all() if later else ()) if one.instant_time in later]
    files = [one for one in files if (one.partition_path, one.file_id) not in places]
    return [
        replace(
            damage,
            elsewhere=(*damage.elsewhere, *(one for one in files if damage.excludes(one.partition_path))),
        )
        for damage in damages
    ]


def _planned(damage: Damage, number: int, found: Mapping[Place, Salvage]) -> PlannedFile:
    rows = found[damage.place].rows.num_rows
    updates, inserts = (0, rows) if damage.live is None else (rows, 0)
    return PlannedFile(*damage.place, write_token(number, 0, 0), damage.live, updates, inserts)


def _built(mover: Mover, files: Sequence[BaseFile], salvages: Sequence[Salvage]) -> list[BuiltFile]:
    tasks = []
    for file, one in zip(files, salvages, strict=True):
        piece = mover.put_rows(file, one.rows)
        tasks.append(mover.task(file, RowOrder(curve=Curve.NONE), ((piece,),), one.rows.nbytes))
    built = mover.build(tasks)
    if sum_of(digest_without_name(one.rows) for one in salvages) != sum_of(one.digest for one in built):
        raise InvariantError(
            "the new slices do not hold the rows that were read",
            culprit=files[0].path,
            hint="nothing was published; report this",
        )
    return built


def _commit(
    table: Table, mover: Mover, damages: Sequence[Damage], built: Sequence[BuiltFile], kept: str
) -> CommitMetadata:
    stats: dict[str, tuple[WriteStat, ...]] = {}
    for damage, one in zip(damages, built, strict=True):
        rows, live = one.digest.rows, damage.live
        before = _rows_before(damage)
        stat = replace(
            new_file_stat(one.file, rows),
            prev_commit=damage.file.instant_time,  # who looks back sees that this slice is not there
            prev_base_file=None if live is None else live.name,
            num_inserts=max(0, rows - before),
            num_deletes=max(0, before - rows),
        )
        path = one.file.partition_path
        stats[path] = (*stats.get(path, ()), stat)
    extra = {
        SCHEMA_KEY: schema_to_avro(mover.facts.schema, table.name),
        **footer_entry({one.file.path: one.footer for one in built if one.footer}),
        REPAIR_KEY: kept,
    }
    return CommitMetadata(stats, Operation.UPSERT, extra)


def _rows_before(damage: Damage) -> int:
    """Rows of the slice that the new one stands for, or of that which readers see, as their commits say."""
    written = {one.file.path: one.stat.num_writes for commit in damage.commits for one in written_slices(*commit)}
    seen = "" if damage.live is None else damage.live.path
    return written.get(damage.file.path, written.get(seen, 0))
