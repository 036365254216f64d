"""What a check finds, each mapped to a mend on positive evidence, or to the reason why there is none.

Evidence is what somebody has written down: a completed commit names a file, or does not; a rollback names it; a verdict
of ours is there; a checksum fits. That something is not on the timeline proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import cached_property
from typing import Final

import pyarrow as pa
from msgspec.structs import replace

from lakeindex.commit.guards import scheduled_for
from lakeindex.commit.recovery import is_alive, is_clustering, is_dead_foreign, is_foreign
from lakeindex.commit.run_records import load_claim
from lakeindex.commit.services.clean import saved_names
from lakeindex.commit.sweep import find_strays
from lakeindex.commit.written_slices import Commits, WrittenSlice, live_slices, written_slices
from lakeindex.errors import REPAIR_KEYS, LakeIndexError, ObjectNotFoundError, TableCorruptError
from lakeindex.files.file_system_view import FilesByPartition, Snapshot, named_snapshot
from lakeindex.files.footer_cache import rows_by_footer
from lakeindex.format.file_names import TEMP_FOLDER, parse_base_path
from lakeindex.format.instants import CLEAN, comparable
from lakeindex.format.partitions import (
    PartitionMetadata,
    format_partition_metadata,
    partition_depth,
    partition_metadata_path,
)
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata.metadata_table import GROUP_PREFIXES, RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata_upkeep.index_entries import Place, keys_said
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.operations.check import hidden_partitions, no_partition
from lakeindex.operations.check_violations import Broken, Violation, is_damage
from lakeindex.operations.repair_files import (
    Damage,
    MendedFile,
    Salvage,
    age_of,
    described,
    footer_found,
    keys_in,
    keys_left,
    salvaged,
)
from lakeindex.operations.repair_kept import NOTE, Kept
from lakeindex.storage.port import Storage
from lakeindex.table.table_columns import table_schema
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.avro_instants import parse_clean_plan
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.pending_files import HEARTBEATS_FOLDER, list_heartbeats
from lakeindex.timeline.records import read_filled
from lakeindex.timeline.verdicts import load_verdict


class MendKind(StrEnum):
    """What is mended, in the order in which it is."""

    METADATA = "metadata"
    PENDING = "pending"
    PARTITION = "partition"
    REQUESTED = "requested"
    CLEAN = "clean"
    STRAY = "stray"
    LEFTOVER = "leftover"
    FOOTER = "footer"
    FILE = "file"
    KEYS = "keys"


READ_ROWS: Final = frozenset({MendKind.FOOTER, MendKind.FILE, MendKind.KEYS})
"""What is found by reading all rows."""
UNATTENDED: Final = frozenset(MendKind) - READ_ROWS - {MendKind.METADATA}
"""What changes no row and reads none: maintenance may do it by itself."""


class Mend(Frozen):
    """Something that is wrong, and what mends it.

    Attributes:
        kind: of the mend.
        culprit: the file, instant or partition.
        found: what is wrong, and what shows it.
        mend: what is done about it.
    """

    kind: MendKind
    culprit: str
    found: str
    mend: str


class Unmended(Frozen):
    """Something that is wrong and is not mended.

    Attributes:
        kind: the invariant that is broken, as ``check`` names it; ``pending`` and ``leftover`` of what is no violation.
        culprit: the file, instant or key.
        found: what is wrong.
        why: why it is not mended.
        cure: what you can do.
    """

    kind: str
    culprit: str
    found: str
    why: str
    cure: str


class Found(Frozen):
    """What is to be mended, and what is not.

    Attributes:
        rows: of the table.
        writes: that were completed.
        damages: of files whose file groups get a new slice, with what that has.
    """

    mends: tuple[Mend, ...]
    unmended: tuple[Unmended, ...]
    rows: int
    writes: frozenset[str]
    damages: tuple[tuple[Damage, Salvage], ...] = ()

    def of(self, *kinds: MendKind) -> tuple[Mend, ...]:
        return tuple(one for one in self.mends if one.kind in kinds)


class Findings:
    """Looks for what can be mended at a table, whose folders are listed once."""

    def __init__(
        self, context: WriteContext, violations: Iterable[Violation], kinds: Collection[MendKind], runner: Runner
    ) -> None:
        self._context, self._table, self._storage = context, context.table, context.storage
        self._runner = runner
        self._damages: list[tuple[Damage, Salvage]] = []
        self._timeline = context.table.load_timeline()
        self._violations = tuple(violations)
        self._kinds = frozenset(kinds)

    def all(self) -> Found:
        """Everything, by kind and then by name."""
        found = [
            *self._files(),
            *self._metadata(),
            *self._pending(),
            *(one for violation in self._violations for one in self._of_violation(violation)),
            *(one for path, file in self._hidden.items() for one in self._partition(no_partition(path, file.path))),
            *self._cleans(),
            *self._strays(),
            *self._leftovers(),
        ]
        kinds = self._kinds | ({MendKind.METADATA} if self._damages else set())  # its entries of the rows are not right
        mends = {(one.kind, one.culprit): one for one in found if isinstance(one, Mend) and one.kind in kinds}
        going = {one.culprit for one in mends.values() if one.kind is MendKind.STRAY}
        unmended = {(one.kind, one.culprit): one for one in found if isinstance(one, Unmended)}
        unmended = {key: one for key, one in unmended.items() if one.culprit not in going}
        order = list(MendKind)
        return Found(
            tuple(sorted(mends.values(), key=lambda one: (order.index(one.kind), one.culprit))),
            tuple(unmended.values()),
            self.rows(),
            self._timeline.completed_write_times,
            tuple(self._damages),
        )

    @cached_property
    def _snapshot(self) -> Snapshot | None:
        """The table as its folders have it, once all are partitions again; None if the timeline is too damaged."""
        try:
            found = self._table.listed_snapshot(self._timeline)
            hidden = self._lost_partitions - set(found.partitions())
            return found.with_partitions(hidden) if hidden else found
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return None

    @cached_property
    def _saved(self) -> frozenset[str]:
        return saved_names(self._table, self._timeline)

    def _of_violation(self, one: Violation) -> Iterator[Mend | Unmended]:
        special: Mapping[Broken, Callable[[Violation], Iterator[Mend | Unmended]]] = {
            Broken.PARTITION: self._partition,
            Broken.TIMELINE: self._requested,
            Broken.STRAY: self._stray,
            Broken.DOUBLE: self._stray,
            Broken.DUPLICATE_KEY: self._keys,
            Broken.METADATA_TABLE: lambda _: iter(()),  # all of them are one mend
            **dict.fromkeys(_OF_FILES, self._of_file),
        }
        yield from special.get(one.kind, self._other)(one)

    def _other(self, one: Violation) -> Iterator[Unmended]:
        yield Unmended(one.kind, one.culprit, one.message, _WHY.get(one.kind, _NOTHING), one.hint)

    def _of_file(self, one: Violation) -> Iterator[Unmended]:
        if one.culprit not in self._broken_files and not self._is_back(one):
            yield from self._other(one)

    @cached_property
    def _broken_files(self) -> Mapping[str, Violation]:
        """Lost and damaged live files, by path, and the first thing that is wrong with each."""
        found: dict[str, Violation] = {}
        live = {} if self._snapshot is None else {file.path: file for file in self._snapshot.base_files_all()}
        for one in self._violations:
            is_live = one.culprit in live and one.culprit not in self._proven
            is_lost = one.kind is Broken.MISSING_FILE and not self._is_back(one)
            if is_lost or (one.kind in _OF_FILES and is_live):
                found.setdefault(one.culprit, one)
        for file in self._named_alone:
            what = f"{file.path} is missing: the metadata table names it, and its commit was archived"
            found.setdefault(file.path, Violation(Broken.MISSING_FILE, file.path, what, "restore it from a copy"))
        return found if self._kinds & READ_ROWS else {}

    def _is_back(self, one: Violation) -> bool:
        """Whether a file that was lost when the table was checked is there again, or something newer in its place."""
        lost = parse_base_path(one.culprit) if one.kind is Broken.MISSING_FILE else None
        return lost is not None and self._ages.get(_place_of(lost), "") >= age_of(lost)

    @cached_property
    def _ages(self) -> Mapping[Place, str]:
        files = () if self._snapshot is None else self._snapshot.base_files_all()
        return {_place_of(one): age_of(one) for one in files if one.path not in self._proven}

    @cached_property
    def _named_alone(self) -> tuple[BaseFile, ...]:
        """Live files that the metadata table names, and that are not there, nor anything newer in their place."""
        if self._snapshot is None:
            return ()
        named = named_snapshot(self._storage, self._timeline, self._files_said(now=True)).base_files_all()
        there = {_place_of(one): one for one in self._snapshot.base_files_all()}
        known = {_place_of(one.file) for one in self._written}
        return tuple(
            one
            for one in named
            for other in [there.get(_place_of(one))]
            if _place_of(one) not in known
            and (other is None or comparable(other.instant_time) < comparable(one.instant_time))
        )

    def _files_said(self, *, now: bool) -> FilesByPartition:
        """The files that the metadata table names, if it can be asked; now: only if it was told of every commit."""
        try:
            view = self._metadata_view
            if view is None:
                return {}
            if now:
                view.check_told()
            return view.listing().files
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return {}

    @cached_property
    def _hidden(self) -> Mapping[str, BaseFile]:
        """Partitions without metadata, by what the metadata table names; with the oldest file of each."""
        try:
            listed = self._table.listed_snapshot(self._timeline)
            return hidden_partitions(self._storage, listed, self._files_said(now=False))
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return {}

    @cached_property
    def _metadata_view(self) -> MetadataView | None:
        """The metadata table; where a repair that was cut short has taken it away, as it was then."""
        before = Kept.unfinished(self._storage)
        try:
            found = self._table.metadata_view(self._timeline)
            kept = None if found is not None or before is None else before.metadata_table(self._table)
            return found if kept is None else MetadataView.load(kept, self._timeline)
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return None

    def _files(self) -> Iterator[Mend | Unmended]:
        """Lost and damaged files: the footer as it was, or a new slice of the file group."""
        left: dict[Place, list[tuple[BaseFile, Violation]]] = {}
        held: dict[BaseFile, pa.Array] = {}  # keys of broken files that get no new slice
        asks_keys = MendKind.FILE in self._kinds and self._table.properties.populate_meta_fields
        for path, one in sorted(self._broken_files.items()):
            file = self._listed.get(path)
            mended = self.footer(path)
            if file is not None and mended is not None:
                if asks_keys:
                    held[file] = keys_in(mended)
                done = "its bytes are as they were: checksums, rows and pages agree"
                yield Mend(MendKind.FOOTER, path, one.message, done)
                continue
            named = file or parse_base_path(path)
            why = "it is no base file" if named is None else self._why_not(named)
            if named is None or why is not None:
                if asks_keys and file is not None:
                    held[file] = keys_left(self._table.uri, file)
                yield Unmended(one.kind, path, one.message, why or "", one.hint)
            elif MendKind.FILE in self._kinds:
                left.setdefault(_place_of(named), []).append((named, one))
        newest: list[tuple[BaseFile, Violation]] = []
        for slices in left.values():  # a file group gets one new slice
            *older, last = sorted(slices, key=lambda each: age_of(each[0]))
            newest.append(last)
            for file, one in older:
                done = f"its file group gets a new slice, in the place of {last[0].path}"
                yield Mend(MendKind.FILE, file.path, one.message, done)
        said = self._said(list(left))
        damages = [self._damage(file, left.keys(), said, held) for file, _ in newest]
        had = salvaged(self._table.uri, self._schema, damages, self._runner) if damages else {}
        for damage, (file, one) in zip(damages, newest, strict=True):
            self._damages.append((damage, had[damage.place]))
            yield Mend(MendKind.FILE, file.path, one.message, in_words(described(damage, had[damage.place])))

    def _why_not(self, file: BaseFile) -> str | None:
        """Why the file group gets no new slice."""
        clustering = None if self._snapshot is None else scheduled_for(self._snapshot, file)
        if clustering is not None:
            return f"its file group is part of the pending clustering {clustering}: carry that out or roll it back"
        if not self._table.properties.populate_meta_fields:
            return "rows of the table do not store their keys"
        if MendKind.PARTITION not in self._kinds and (file.partition_path in self._lost_partitions or self._hidden):
            its = "its partition" if file.partition_path in self._lost_partitions else f"partition {min(self._hidden)}"
            return f"no reader finds {its}: that is mended before ({MendKind.PARTITION})"
        return None

    def _damage(
        self,
        file: BaseFile,
        renewed: Collection[Place],
        said: Mapping[Place, pa.Array],
        held: Mapping[BaseFile, pa.Array],
    ) -> Damage:
        assert self._snapshot is not None
        group = file.partition_path, file.file_id
        files = self._snapshot.files_of(file.partition_path)
        of_group = [one for one in (*files.older, *files.live) if one.file_id == file.file_id]
        slices = sorted((one for one in of_group if one.path not in self._proven), key=age_of)
        is_live = any(one.file_id == file.file_id for one in files.live)
        live = slices[-1] if slices and is_live else None  # as readers see it once strays are gone
        index = self._table.index(self._timeline)
        is_global = index is not None and index.is_global
        scope = self._snapshot.base_files_all() if is_global else files.live
        apart = {*self._broken_files, *self._proven}
        elsewhere = [one for one in scope if _place_of(one) not in renewed and one.path not in apart]
        written, told = self._written_at.get(file.path), said.get(group)
        if told is not None and len(told) != (max(len(told), 1) if written is None else written.stat.num_writes):
            told = None  # it has lost keys, or never had them: that one is not there says nothing
        known = live_slices(self._commits).get(group)
        counted = next(iter(rows_by_footer(self._storage, [live])), 0) if known is None and live else 0
        return Damage(
            file,
            written,
            live,
            tuple(one for one in slices if age_of(one) < age_of(file)),
            tuple(elsewhere),
            tuple(
                keys
                for one, keys in held.items()
                if one.file_id != file.file_id and (is_global or one.partition_path == file.partition_path)
            ),
            is_global,
            told,
            known.stat.num_writes if known is not None else counted or 0,
            self._commits,
        )

    def _said(self, groups: Sequence[Place]) -> Mapping[Place, pa.Array]:
        """The keys that the record index of the metadata table has in file groups, if it can be asked: not of one that
        a commit wrote of which it was not told.
        """
        view = self._metadata_view
        if not groups or view is None or RECORD_INDEX not in view.table.partitions:
            return {}
        try:
            untold = frozenset(view.untold_writes())
            if not untold <= {instant.time for instant, _ in self._commits}:
                return {}
            written = {_place_of(one.file) for one in self._written if one.instant.time in untold}
            asked = [one for one in groups if one not in written]
            return {group: pa.array(keys, pa.string()) for group, keys in keys_said(view, asked).items()}
        except LakeIndexError as error:
            if not is_damage(error):
                raise
            return {}

    @cached_property
    def _listed(self) -> Mapping[str, BaseFile]:
        return {} if self._snapshot is None else {one.path: one for one in self._snapshot.base_files_all()}

    @cached_property
    def _schema(self) -> pa.Schema:
        assert self._snapshot is not None
        return table_schema(self._table, self._snapshot)

    def footer(self, path: str) -> bytes | None:
        """A file with its footer as it was, if that can still be found."""
        file = self._listed.get(path)
        before = Kept.unfinished(self._storage)
        kept = None if before is None else before.read(path)
        return None if file is None else footer_found(self._storage, file, self._written_at.get(path), kept)

    def _metadata(self) -> Iterator[Mend | Unmended]:
        """The metadata table is made anew as a whole: what says one thing wrongly is no evidence for the rest."""
        wrong = [one for one in self._violations if one.kind is Broken.METADATA_TABLE and not self._explained(one)]
        before = Kept.unfinished(self._storage)
        there = self._table.properties.metadata_partitions
        partitions = tuple(dict.fromkeys((*there, *(() if before is None else before.partitions))))
        lost = self._lost_for_good if MendKind.METADATA in self._kinds else None
        if lost is not None and partitions and (wrong or before is not None):
            why = f"{lost} is lost, and not mended now: a metadata table that is built of what is left would hide that"
            cure = (
                "restore the file from a copy, or `lakeindex repair TABLE`; to give it up, "
                "`lakeindex metadata drop TABLE`, then `lakeindex metadata build TABLE`"
            )
            what = wrong[0].message if wrong else f"a repair was cut short: what it kept is in {before and before.uri}"
            yield Unmended(Broken.METADATA_TABLE, wrong[0].culprit if wrong else NOTE, what, why, cure)
            return
        if before is not None:
            what = f"a repair was cut short: what it kept is in {before.uri}"
            built = f"{', '.join(partitions)} of the metadata table are built" if partitions else "it is ended"
            yield Mend(MendKind.METADATA, NOTE, what, built)
        if not wrong and self._damages and RECORD_INDEX in there:
            damage = self._damages[0][0]
            what = f"the record index has keys of {damage.file.path}, which may be lost"
            wrong = [Violation(Broken.METADATA_TABLE, damage.file.path, what, "")]
        if not wrong:
            return
        others = [name for name in partitions if name not in GROUP_PREFIXES]
        if others:
            cure = "`lakeindex metadata drop TABLE` takes the metadata table away; Hudi builds it anew"
            why = f"partitions of it that only Hudi builds are there: {', '.join(others)}"
            yield Unmended(Broken.METADATA_TABLE, wrong[0].culprit, wrong[0].message, why, cure)
            return
        more = f", and {len(wrong) - 1} more" if len(wrong) > 1 else ""
        built = f"it is built anew from the files: {', '.join(partitions)}"
        yield Mend(MendKind.METADATA, wrong[0].culprit, wrong[0].message + more, built)

    @property
    def _lost_for_good(self) -> str | None:
        """A lost file, or a partition that stays hidden: what is built of the files would not know of them."""
        if self._damages:  # the index cannot stay as it is, and what else is lost is told beside them
            return None
        if self._hidden and MendKind.PARTITION not in self._kinds:
            return partition_metadata_path(min(self._hidden))
        lost = (one for one in self._violations if one.kind is Broken.MISSING_FILE and not self._is_back(one))
        return min((*(one.culprit for one in lost), *(one.path for one in self._named_alone)), default=None)

    def _explained(self, one: Violation) -> bool:
        """Whether the metadata table is right of a path, and the folder is what is mended."""
        lost = self._lost_partitions
        return one.culprit in self._proven or one.culprit.rpartition("/")[0] in lost or one.culprit in lost

    @cached_property
    def _lost_partitions(self) -> frozenset[str]:
        told = (one.culprit.rpartition("/")[0] for one in self._violations if one.kind is Broken.PARTITION)
        return frozenset((*told, *self._hidden))

    def _pending(self) -> Iterator[Mend | Unmended]:
        """What dead writers have left on the timeline."""
        for one in self._timeline.pending_writes:
            if is_clustering(self._storage, self._timeline, one):
                continue
            what = f"{one.action} {one.time} is {one.state}"
            if self._is_dead(one):
                done = "it is committed if that was decided, else rolled back as Hudi does"
                yield Mend(MendKind.PENDING, one.time, f"{what}, and its writer is dead", done)
            else:
                cure = f"wait for it; if its writer is dead: `lakeindex rollback TABLE {one.time} --force`"
                yield Unmended("pending", one.time, what, "its writer may be alive", cure)

    def _is_dead(self, one: Instant) -> bool:
        if is_foreign(self._context, self._timeline, one):
            return is_dead_foreign(self._context, self._timeline, one)
        claim = load_claim(self._storage, one.time)
        return load_verdict(self._storage, one.time) is not None or claim is None or not is_alive(self._context, claim)

    def _partition(self, one: Violation) -> Iterator[Mend | Unmended]:
        partition = one.culprit.rpartition("/")[0]
        if self._first_commit(partition) is None:
            why = "neither a commit on the timeline nor the metadata table names a file of that folder"
            yield Unmended(one.kind, one.culprit, one.message, why, one.hint)
            return
        yield Mend(MendKind.PARTITION, one.culprit, one.message, "it is written")

    def partition_metadata(self, partition: str) -> tuple[str, bytes]:
        """What makes a folder a partition; its first commit on the timeline is said to have made it."""
        metadata = PartitionMetadata(self._first_commit(partition) or "", partition_depth(partition))
        return partition_metadata_path(partition), format_partition_metadata(metadata)

    def _first_commit(self, partition: str) -> str | None:
        times = [one.file.instant_time for one in self._written if one.file.partition_path == partition]
        if partition in self._hidden:
            times.append(self._hidden[partition].instant_time)
        return min(times, key=comparable, default=None)

    @cached_property
    def _commits(self) -> Commits:
        """The commits that can be read."""
        found = []
        for instant in self._timeline.completed_writes:
            try:
                found.append((instant, self._timeline.commit_metadata(self._storage, instant)))
            except LakeIndexError as error:
                if not is_damage(error):
                    raise
        return found

    @cached_property
    def _written(self) -> tuple[WrittenSlice, ...]:
        """What they say was written."""
        return tuple(one for instant, metadata in self._commits for one in written_slices(instant, metadata))

    @cached_property
    def _written_at(self) -> Mapping[str, WrittenSlice]:
        return {one.file.path: one for one in self._written}

    def rows(self) -> int:
        """Rows of the live files, as their commits say; of those of archived commits, as their footers do."""
        live = live_slices(self._commits)
        files = () if self._snapshot is None else self._snapshot.base_files_all()
        older = [one for one in files if _place_of(one) not in live and one.path not in self._proven]
        counted = (one or 0 for one in rows_by_footer(self._storage, older))
        return sum(one.stat.num_writes for one in live.values()) + sum(counted)

    def _requested(self, one: Violation) -> Iterator[Mend | Unmended]:
        if self.without_requested(one.culprit) is None:
            yield from self._other(one)
            return
        what = "an empty requested file is put beside it, as Hudi's archiver and rollback need it"
        yield Mend(MendKind.REQUESTED, one.culprit, one.message, what)

    def without_requested(self, path: str) -> Instant | None:
        """The completed instant of a path of the timeline, if it is a write without a requested file."""
        writes = (one for one in self._timeline.completed_writes if self._timeline.path(one) == path)
        one = next(writes, None)
        states = {found.state for found in self._timeline.files if one is not None and found.time == one.time}
        return one if InstantState.REQUESTED not in states else None

    def _cleans(self) -> Iterator[Mend]:
        for one in self._timeline.pending:
            path = self._timeline.path(replace(one, state=InstantState.REQUESTED))
            if one.action != CLEAN:
                continue
            try:
                read_filled(self._storage, path, parse_clean_plan)
            except ObjectNotFoundError:
                continue
            except TableCorruptError as error:
                what = f"the plan of clean {one.time} cannot be read: {error.message}"
                yield Mend(MendKind.CLEAN, one.time, what, "it is taken off the timeline; the next clean makes its own")

    def clean_paths(self, time: str) -> list[str]:
        """The files of a clean that was never completed, its plan last: by it the rest is found again after a kill."""
        files = (one for one in reversed(self._timeline.files) if (one.time, one.action) == (time, CLEAN))
        return [self._timeline.path(one) for one in files if not one.is_completed]

    def _stray(self, one: Violation) -> Iterator[Mend | Unmended]:
        if one.culprit not in self._proven:
            why = "nothing proves that it is of nobody"
            if one.culprit in self._saved:
                why = "a savepoint names it"
            yield Unmended(one.kind, one.culprit, one.message, why, one.hint)

    def _strays(self) -> Iterator[Mend]:
        for path, why in sorted(self._proven.items()):
            yield Mend(MendKind.STRAY, path, f"{path} is a file of nobody: {why}", "it is taken out")

    @cached_property
    def _proven(self) -> Mapping[str, str]:
        """Files that are no part of the table for certain, and what shows it."""
        if self._snapshot is None:
            return {}
        found = {stray.file.path: str(stray.kind) for stray in find_strays(self._table)}
        readable = {instant.time for instant, _ in self._commits}
        for partition in self._snapshot.partitions():
            files = self._snapshot.files_of(partition)
            for file in (*files.live, *files.older, *files.doubles):
                if file.instant_time in readable and file.path not in self._written_at:
                    found.setdefault(file.path, f"the completed commit {file.instant_time} does not name it")
        return {path: why for path, why in found.items() if path not in self._saved}

    def _keys(self, one: Violation) -> Iterator[Mend]:
        done = "one row of each such key stays (`lakeindex repair keys` lists them, and takes --keep)"
        yield Mend(MendKind.KEYS, "table", f"keys are stored more than once: {one.message}", done)

    def _leftovers(self) -> Iterator[Mend | Unmended]:
        """Markers and heartbeats of instants that are decided."""
        folders = [folder.strip("/").rpartition("/")[2] for folder in self._storage.list_folder(TEMP_FOLDER).folders]
        for time in sorted(folders):
            yield from self._leftover(f"{TEMP_FOLDER}/{time}", time, "markers")
        for time in list_heartbeats(self._storage):
            yield from self._leftover(f"{HEARTBEATS_FOLDER}/{time}", time, "a heartbeat")

    def _leftover(self, path: str, time: str, what: str) -> Iterator[Mend | Unmended]:
        if time in self._timeline.pending_times:
            return
        why = self._end_of(time)
        if why is None:
            cure = f"delete {path} if you know that no writer uses it"
            yield Unmended("leftover", path, f"{what} of {time}", "nothing says what became of the instant", cure)
        else:
            yield Mend(MendKind.LEFTOVER, path, f"{what} of {time}, which {why}", "they are taken out")

    def _end_of(self, time: str) -> str | None:
        """How an instant that is not pending ended; None if nothing says it."""
        verdict = load_verdict(self._storage, time)
        if time in {one.time for one in self._timeline.completed} or (verdict is not None and verdict.is_committed):
            return "is completed"
        if verdict is not None or time in self._timeline.undone.instants | self._timeline.archived.undone.instants:
            return "was rolled back"
        return "was archived" if time in self._timeline.archived.writes else None


def _place_of(file: BaseFile) -> Place:
    return file.partition_path, file.file_id


def requested_file(layout: TimelineLayout, instant: Instant) -> tuple[str, bytes]:
    """Path and content of the requested file of a completed write that has none."""
    path = layout.path(replace(instant, state=InstantState.REQUESTED))
    return path, layout.encode_requested(instant.action)


def in_words(one: MendedFile) -> str:
    """What becomes of a file."""
    had = "" if one.rows is None else f" of {one.rows:,}"
    parts = [f"its file group gets a new slice: {one.kept:,} rows{had} can be read of the file itself"]
    if one.lost:
        parts = [f"its file group gets a new slice{f': of {one.rows:,} rows' if one.rows is not None else ''}"]
    if one.older is not None:
        parts.append(f"{one.back:,} come from the older slice {one.older}")
    elif one.rows is None or one.kept < one.rows:
        parts.append("no older slice is there")
    if one.keys_lost:
        parts.append(f"{one.keys_lost:,} keys are lost, by the record index")
    if one.writes:
        batches = ", ".join(write.batch_id or f"(of {write.instant})" for write in one.writes)
        parts.append(f"send again, with --force and in this order, what was committed there: {batches}")
    return "; ".join(parts)


_OF_FILES: Final = frozenset(
    {Broken.FILE, Broken.FOOTER, Broken.FILTER, Broken.KEY_RANGE, Broken.STATISTICS, Broken.MISSING_FILE}
)
"""What is wrong with a file, whose rows are those of its commit or cannot be read."""
_NOTHING: Final = "nothing shows what it should be"
_WHY: Final = {
    Broken.COMMIT: "what a commit says stands nowhere else",
    Broken.ROLLBACK: "the instant and its rollback contradict each other",
    Broken.ROWS: "the rows are readable, and nothing shows which of them are wrong",
    Broken.RECORD_KEY: f"another writer made the keys in another way; if one is doubled by that, {REPAIR_KEYS}",
    Broken.PARTITION_PATH: "the row may lie there on purpose, or be one that was written wrongly",
    Broken.BUCKET: "rows would move between buckets, and Hudi looks for them where they are",
}


def leftover_paths(storage: Storage, path: str) -> list[str]:
    """The objects of a leftover: a folder of markers, or one heartbeat."""
    return [path] if path.startswith(f"{HEARTBEATS_FOLDER}/") else [one.path for one in storage.list(path)]
