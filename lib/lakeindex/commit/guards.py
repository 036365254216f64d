"""Checks before a commit: that every file is what its writer says, and that what the plan rests on still holds.

Files are looked at before the lock is taken, the rest inside it, by ``GUARDS`` in their order. File groups are compared
by listing the partitions that are written to: the live slice of every group that is rewritten must still be the one
that was read. That catches every way in which a group can move: another commit, a clustering or insert-overwrite that
replaced it, a rollback or restore of the slice itself, whatever order instants completed in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final, TypeAlias

from msgspec.structs import replace

from lakeindex.commit.run_records import RunPlan, load_claim
from lakeindex.errors import (
    InvariantError,
    ObjectNotFoundError,
    PendingInstantError,
    StorageError,
    TableCorruptError,
    WriteConflictError,
)
from lakeindex.files.file_system_view import Snapshot, snapshot
from lakeindex.files.footers import parse_shape, read_footer_bytes
from lakeindex.format.avro_columns import columns_of
from lakeindex.format.commit_metadata import INTERNAL_SCHEMA_KEY, CommitMetadata
from lakeindex.format.file_names import parse_base_path
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.model import ARRANGING_OPERATION, BaseFile, Instant
from lakeindex.options.clustering_options import UPDATES_OPTION, ClusteringOptions, ClusteringUpdates
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage, read_once
from lakeindex.table.index_changes import index_change_times, newest_in_force
from lakeindex.timeline.timeline import Timeline


class ExpectedFile(Frozen):
    """A data file as it was written; its path is relative to the table's folder."""

    path: str
    size_bytes: int
    rows: int


VerifyFile: TypeAlias = Callable[[Storage, BaseFile, ExpectedFile], None]


Recheck: TypeAlias = Callable[[Sequence[BaseFile]], None]
"""Is given the base files committed since a snapshot; raises WriteConflictError if the batch or its plan would be
another one with them, as when a key that is to be inserted is in one of them.
"""


def accept_inserts(files: Sequence[BaseFile]) -> None:
    """The re-check of a write that inserts no keys."""


class PublishGuards(Frozen):
    """What the caller knows of the snapshot that its plan was made on.

    Attributes:
        rechecks: look into the base files committed since the snapshot, in this order.
        known_writes: instants that were completed in the snapshot; ``None``: all up to the snapshot's instant. Two
            writers' instants may complete in another order than they began.
        pending_writes: instants that were pending in the snapshot.
        alone_in: partitions into which nobody else may have written since the snapshot, beside those that lose file
            groups; ``None``: none of the table.
        in_order: is given the timeline where a write that began later is completed; raises WriteConflictError if the
            commit has to have a later instant than that.
    """

    rechecks: tuple[Recheck, ...] = ()
    known_writes: frozenset[str] | None = None
    pending_writes: frozenset[str] = frozenset()
    alone_in: frozenset[str] | None = frozenset()
    in_order: Callable[[Timeline], None] | None = None

    @staticmethod
    def of(timeline: Timeline, *rechecks: Recheck, alone_in: frozenset[str] | None = frozenset()) -> PublishGuards:
        """The guards of a write that was planned on the snapshot with this timeline."""
        pending = frozenset(one.time for one in timeline.pending_writes)
        return PublishGuards(rechecks, timeline.completed_write_times, pending, alone_in)


class Since(Frozen, dict=True):
    """What became of the table since the snapshot that a plan was made on; read when a guard first asks for it.

    Attributes:
        timeline: as it is now.
        snapshot_time: the newest write of the snapshot; None if it had none.
        commit: what is about to be committed; None before anything is written.
        updates: what becomes of pending clusterings whose file groups are changed.
    """

    storage: Storage
    timeline: Timeline
    plan: RunPlan
    snapshot_time: str | None
    given: PublishGuards
    commit: CommitMetadata | None = None
    updates: ClusteringUpdates = ClusteringUpdates.REJECT

    @read_once
    def snapshot(self) -> Snapshot:
        """The table as it is now, its folders listed."""
        return snapshot(self.storage, self.timeline)

    @cached_property
    def changed(self) -> tuple[tuple[str, str, BaseFile | None], ...]:
        """Partition path, file id and slice, as it was read, of each file group that the plan writes or replaces."""
        planned = tuple((one.partition_path, one.file_id, one.previous) for one in self.plan.planned)
        files = () if self.plan.replacement is None else self.plan.replacement.files
        return (*planned, *((file.partition_path, file.file_id, file) for file in files))

    @read_once
    def clustered(self) -> frozenset[str]:
        """Other pending clusterings that are going to replace file groups which the plan changes."""
        pending = self.snapshot.pending_clustering
        found = {pending.get((partition, file_id)) for partition, file_id, _ in self.changed}
        return frozenset(time for time in found if time is not None and time != self.plan.instant)

    @read_once
    def commits(self) -> dict[Instant, CommitMetadata]:
        """The writes that were completed since, in time order, and what they did. Raises: TableCorruptError."""
        new = [one for one in self.timeline.completed_writes if not self.is_known(one.time)]
        return {instant: self.timeline.commit_metadata(self.storage, instant) for instant in new}

    @read_once
    def files(self) -> tuple[BaseFile, ...]:
        """The base files that they wrote. Raises: TableCorruptError."""
        return files_of_commits(self.timeline, self.commits)

    def is_known(self, time: str) -> bool:
        """Whether a write was completed in the snapshot."""
        if self.given.known_writes is not None:
            return time in self.given.known_writes
        return self.snapshot_time is not None and comparable(time) <= comparable(self.snapshot_time)

    def was_in_force(self, time: str) -> bool:
        """Whether a change of the index counted in the snapshot; one that is older than all that was on its
        timeline was archived by then.
        """
        known = self.given.known_writes
        oldest = self.snapshot_time if known is None else min(known, key=comparable, default=None)
        was_archived = oldest is not None and comparable(time) < comparable(oldest)
        return self.is_known(time) or (was_archived and self.timeline.is_committed(time))


def check_files_match(plan: RunPlan, commit: CommitMetadata, expected: Sequence[ExpectedFile]) -> None:
    """The commit names exactly the planned files, with their rows and sizes. Raises: InvariantError."""
    planned = sorted(file.path for file in plan.files)
    stats = {stat.path or "": stat for stat in commit.stats()}
    replaced = {(file.partition_path, file.file_id) for file in plan.replacement.files} if plan.replacement else set()
    if commit.replaced() != replaced:
        raise _broken(plan, f"the commit replaces {len(commit.replaced())} file groups, the plan {len(replaced)}")
    if planned != sorted(one.path for one in expected) or planned != sorted(stats):
        odd = sorted({*planned} ^ {one.path for one in expected}) or sorted({*planned} ^ {*stats})
        raise _broken(plan, f"planned, written and committed files differ: {', '.join(odd[:3]) or 'a file is doubled'}")
    for one in expected:
        stat = stats[one.path]
        if (stat.num_writes, stat.file_size_bytes) != (one.rows, one.size_bytes):
            raise _broken(
                plan,
                f"{one.path} has {one.rows} rows and {one.size_bytes} bytes, the commit says {stat.num_writes} and "
                f"{stat.file_size_bytes}",
            )


def check_groups(since: Since) -> None:
    """Every file group that the plan rewrites or replaces is as it was read."""
    now = since.snapshot
    now.preload(partition for partition, _, previous in since.changed if previous is not None)
    live: dict[str, dict[str, BaseFile]] = {}
    for partition, file_id, previous in since.changed:
        path = previous.path if previous is not None else partition
        clustering = now.pending_clustering.get((partition, file_id))
        if clustering in since.clustered and since.updates is ClusteringUpdates.REJECT:
            raise _conflict(file_id, path, f"is part of the clustering {clustering} that was scheduled meanwhile")
        if previous is None:
            continue
        if partition not in live:
            live[partition] = {file.file_id: file for file in now.base_files(partition)}
        found = live[partition].get(file_id)
        if found is None or found.name != previous.name:
            raise _conflict(file_id, path, f"was changed by instant {found.instant_time}" if found else "was replaced")


def check_untouched(since: Since) -> None:
    """Nobody wrote into partitions whose file groups are replaced as a whole, or that have to be empty.

    Raises:
        WriteConflictError: somebody did: what he wrote would stay beside what the plan puts in its place.
    """
    replacement, alone_in = since.plan.replacement, since.given.alone_in
    lost = replacement.partitions if replacement is not None and not replacement.groups_only else frozenset()
    everywhere = alone_in is None or (replacement is not None and replacement.everywhere)
    for file in since.files:
        if everywhere or file.partition_path in lost or file.partition_path in (alone_in or ()):
            raise WriteConflictError(
                f"{file.path} was committed meanwhile in a partition that is rewritten as a whole",
                culprit=file.path,
            )


def check_not_overwritten(since: Since) -> None:
    """Nobody took rows away, as a whole partition, from where the plan writes.

    The rows that the batch was compared with are gone then: a row that was ignored as late would not be late now. Rows
    that were only put into other files are all still there.
    """
    written = {one.partition_path for one in since.plan.planned}
    for instant, metadata in since.commits.items():
        if metadata.operation == ARRANGING_OPERATION:
            continue
        for partition, file_id in sorted(metadata.replaced()):
            if partition in written:
                what = f"was replaced by {metadata.operation or instant.action} {instant.time}"
                raise _conflict(file_id, partition, what)


def check_index(since: Since) -> None:
    """The index in force is the one that the plan was made by: no rescaling was committed, nor taken back."""
    times = index_change_times(since.storage)
    now = newest_in_force(since.timeline, times)
    then = max((time for time in times if since.was_in_force(time)), key=comparable, default=None)
    if now != then:
        raise WriteConflictError(
            f"the index of the table changed meanwhile: by instant {now or then}", culprit=now or then
        )


def check_history(since: Since) -> None:
    """What was committed since the snapshot is still on the timeline, where the other guards look for it.

    Raises:
        WriteConflictError: writes may have been completed *and* archived since.
    """
    timeline, snapshot_time = since.timeline, since.snapshot_time
    if snapshot_time is None:
        gone = next(iter(sorted(timeline.archived.writes)), None) if timeline.completed_writes else None
    elif snapshot_time not in timeline.completed_write_times:
        gone = snapshot_time
    else:
        left = (one for one in since.given.pending_writes if one != since.plan.instant and not timeline.find(one))
        gone = next((time for time in sorted(left) if timeline.is_visible(time)), None)
    if gone is not None:
        raise WriteConflictError(
            f"instant {gone} was archived or rolled back meanwhile: what was committed since cannot be seen any more",
            culprit=gone,
        )


def check_schema(since: Since) -> None:
    """The columns that the commit says the table has are those that everybody else says it has.

    Raises:
        WriteConflictError: another writer has changed them since the snapshot; our commit would take that back.
    """
    if since.commit is None or since.commit.schema_text is None:
        return
    ours = columns_of(since.commit.schema_text)
    for other in since.commits.values():
        if other.extra_metadata.get(INTERNAL_SCHEMA_KEY):
            raise WriteConflictError(
                "the table's columns were altered by another writer meanwhile",
                culprit=INTERNAL_SCHEMA_KEY,
            )
        if other.schema_text is not None and columns_of(other.schema_text) != ours:
            raise WriteConflictError(
                "the table's columns were changed by another writer meanwhile",
                culprit=", ".join(sorted(set(_differing(ours, columns_of(other.schema_text))))) or "schema",
            )


def _differing(one: Mapping[str, object], other: Mapping[str, object]) -> Iterable[str]:
    return (name for name in {*one, *other} if one.get(name) != other.get(name))


def check_rechecks(since: Since) -> None:
    """What the caller looks for in files that were committed since. Raises: WriteConflictError: it is there."""
    for recheck in since.given.rechecks:
        recheck(since.files)


def check_order(since: Since) -> None:
    """Nothing that goes by the times of instants would take the commit for older than what it comes behind."""
    ask, timeline, ours = since.given.in_order, since.timeline, comparable(since.plan.instant)
    if ask is not None and any(comparable(time) > ours for time in timeline.completed_write_times):
        ask(timeline)


GUARDS: Final = (
    check_history,
    check_groups,
    check_schema,
    check_untouched,
    check_not_overwritten,
    check_index,
    check_rechecks,
    check_order,
)
"""What must hold for a plan to be committed, in the order in which it is looked at; each raises WriteConflictError."""


def scheduled_for(snapshot: Snapshot, file: BaseFile) -> str | None:
    """The pending clustering that is going to replace a file group, if no run of ours is at work on it."""
    time = snapshot.pending_clustering.get((file.partition_path, file.file_id))
    return time if time is not None and load_claim(snapshot.storage, time) is None else None


def refuse_clustered(snapshot: Snapshot, files: Iterable[BaseFile], config: WriteConfig) -> None:
    """Let nobody plan to change a file group that a pending clustering is going to replace, if such updates are
    rejected. For a clustering of ours that is at work the writer waits in its turn.

    Raises:
        PendingInstantError: a file group is part of one.
    """
    if config.of(ClusteringOptions).updates is not ClusteringUpdates.REJECT:
        return
    for file in files:
        time = scheduled_for(snapshot, file)
        if time is not None:
            raise PendingInstantError(
                f"file group {file.file_id} in {file.partition_path!r} is part of the pending clustering {time}",
                culprit=file.path,
                hint=f"carry it out with `lakeindex cluster TABLE --instant {time}`, roll it back with `lakeindex "
                f"rollback TABLE {time}`, or let it lose with {UPDATES_OPTION}={ClusteringUpdates.ALLOW}",
            )


def files_of_commits(timeline: Timeline, commits: Mapping[Instant, CommitMetadata]) -> tuple[BaseFile, ...]:
    """The newest base file of every file group that these commits wrote. Raises: TableCorruptError."""
    newest: dict[tuple[str, str], BaseFile] = {}
    replaced: set[tuple[str, str]] = set()
    for instant, metadata in commits.items():
        replaced |= metadata.replaced()
        for file in _written(metadata, timeline.path(instant)):
            newest[file.partition_path, file.file_id] = file
    return tuple(sorted(file for group, file in newest.items() if group not in replaced))


def _written(metadata: CommitMetadata, source: str) -> Iterable[BaseFile]:
    for stat in metadata.stats():
        if not stat.path:
            continue
        file = parse_base_path(stat.path, stat.file_size_bytes)
        if file is None:
            raise TableCorruptError(
                f"{source} names {stat.path!r}, which is no base file", culprit=source, hint="run `lakeindex check`"
            )
        yield file


def _conflict(file_id: str, path: str, what: str) -> WriteConflictError:
    return WriteConflictError(f"file group {file_id} {what}", culprit=path)


def _broken(plan: RunPlan, what: str) -> InvariantError:
    return InvariantError(what, culprit=plan.instant, hint="nothing was published; report this with the run folder")


def verify_file(storage: Storage, file: BaseFile, expected: ExpectedFile) -> None:
    """A data file is there, whole, and holds as many rows as it should.

    Raises:
        StorageError: it is missing, or not what was written.
        InvariantError: it holds another number of rows.
    """
    hint = "nothing was published; run again"
    written = replace(file, size_bytes=expected.size_bytes)
    try:
        rows = parse_shape(read_footer_bytes(storage, written), written).rows
    except ObjectNotFoundError:
        raise StorageError(f"data file {file.path} is missing", culprit=file.path, hint=hint) from None
    except TableCorruptError as error:
        what = f"data file is damaged: {error.message}"
        raise StorageError(what, culprit=file.path, hint=hint) from error
    if rows != expected.rows:
        what = f"data file {file.path} holds {rows} rows, {expected.rows} were counted"
        raise InvariantError(what, culprit=file.path, hint="nothing was published")
