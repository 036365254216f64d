"""Keeping the metadata table true to what is committed, cleaned and rolled back. Whoever calls holds the table's lock.

A commit's delta commit is written between the verdict and the commit: it does not count before the commit is there, and
whoever finds the verdict writes it. A rollback takes it back while the instant is still pending: readers that meet the
delta commit of an instant that is gone take it for valid. Of what a compaction has taken in, or a partition was made
with, the rollback says the opposite, in a delta commit of its own and before the commit disappears.

What an action changes in every partition of the metadata table follows from what the action says it did, and from the
files: whoever finishes the action of a writer that died finds the same.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from enum import Enum, auto

from lakeindex.errors import MetadataTableError, PendingInstantError
from lakeindex.files.file_system_view import base_files_in, named_snapshot, snapshot
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.file_names import names_by_partition
from lakeindex.format.instants import comparable, previous_instant_time
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.metadata import compaction, delta_commit
from lakeindex.metadata.content_records import (
    NewFile,
    filters_of_gone,
    filters_of_new,
    has_statistics,
    read_new_files,
    statistics_of_gone,
    statistics_of_touched,
)
from lakeindex.metadata.delta_commit import DeltaCommit
from lakeindex.metadata.indexed_columns import read_definitions, with_new_columns
from lakeindex.metadata.metadata_changes import (
    MetadataChange,
    PartitionChange,
    change_of_deletion,
    change_of_files,
    files_of_commit,
    is_partitioned,
)
from lakeindex.metadata.metadata_table import PARTITION_STATS, RECORD_INDEX
from lakeindex.metadata.metadata_view import MetadataView
from lakeindex.metadata.slices import pending_compaction
from lakeindex.metadata_upkeep.index_entries import (
    MovedKeys,
    moved_keys,
    record_index_change,
    returned_keys,
    said_moves,
)
from lakeindex.metadata_upkeep.switch import finish_noted, put_definitions
from lakeindex.model import Instant
from lakeindex.options.types import WriteConfig
from lakeindex.table.handle import Table
from lakeindex.table.properties import TableProperties, metadata_table_of
from lakeindex.table.refusals import check_kept, check_writable
from lakeindex.timeline.verdicts import Verdict, load_verdict
from lakeindex.write.types.avro_schema import schema_from_avro


class KeyScope(Enum):
    """Where a key is unique: in the table, or in its partition, so that it may be in several, of which a global record
    index knows one. What was decided before is done, whatever that index says.
    """

    TABLE = auto()
    PARTITION = auto()
    PARTITION_DECIDED = auto()


def change_of_commit(
    view: MetadataView, properties: TableProperties, time: str, commit: CommitMetadata, keys: KeyScope = KeyScope.TABLE
) -> MetadataChange:
    """What a commit changes.

    Raises:
        TableCorruptError: a file that it wrote or replaced cannot be read.
        MetadataTableError: it puts a key into two file groups, or into another than it is in, and there is a global
            record index.
    """
    files = files_of_commit(commit)
    new = read_new_files(view.table, files)
    earlier = [one for one in view.data.pending_writes if comparable(one.time) < comparable(time)]
    change = {
        **change_of_files(files),
        **_statistics(view, new, _touched(commit), tight=not earlier),
        **filters_of_new(view.table, new, time),
    }
    if RECORD_INDEX not in view.table.partitions:
        return change
    moved = moved_keys(view.table.storage, snapshot(view.table.storage, view.data), commit)
    return {**change, **_of_keys(view, properties, moved, keys)}


def change_of_gone(view: MetadataView, files: Mapping[str, Sequence[str]]) -> MetadataChange:
    """What the deletion of files that nobody reads any more changes.

    Args:
        files: partition path -> file names.

    Raises:
        TableCorruptError: the definitions of the indexes, or the newest commit, cannot be read.
    """
    return {
        **change_of_deletion(files),
        **statistics_of_gone(view.table, files, view.data.schema_text(view.table.storage)),
        **filters_of_gone(view.table, files),
    }


def change_of_undone(
    view: MetadataView,
    properties: TableProperties,
    times: Collection[str],
    paths: Iterable[str],
    returned: frozenset[str] | None,
    keys: KeyScope = KeyScope.TABLE,
) -> MetadataChange:
    """What the roll-back of instants changes that a compaction has taken in; their files are still there.

    Args:
        returned: partitions in which they replaced file groups, which are live again; None if that is not known.

    Raises:
        TableCorruptError: a file cannot be read.
    """
    listed = frozenset(paths)
    gone = names_by_partition(listed)
    others = [one for one in view.data.pending_writes if one.time not in times]
    found = (one for time in times for one in view.data.find(time))
    replaced = any(names.completed_action(one.action) == names.REPLACE_COMMIT for one in found)
    if returned is None:
        returned = view.listing().partitions if replaced else frozenset()
    touched: dict[str, frozenset[str]] = dict.fromkeys((*gone, *returned), frozenset())
    change = {**change_of_gone(view, gone), **_statistics(view, (), touched, tight=not others)}
    if RECORD_INDEX not in view.table.partitions:
        return change
    before = snapshot(view.table.storage, view.data)
    moved = returned_keys(view.table.storage, before, listed, everywhere=replaced)
    return {**change, **_of_keys(view, properties, moved, keys)}


def _touched(commit: CommitMetadata) -> dict[str, frozenset[str]]:
    """Partitions in which a commit wrote or replaced something -> ids of those file groups."""
    found: dict[str, set[str]] = defaultdict(set)
    for partition, stats in commit.write_stats.items():
        found[partition] |= {one.file_id for one in stats if one.path is not None}
    for partition, file_id in commit.replaced():
        found[partition].add(file_id)
    return {partition: frozenset(ids) for partition, ids in found.items()}


def _statistics(
    view: MetadataView, new: Sequence[NewFile], touched: Mapping[str, frozenset[str]], *, tight: bool
) -> MetadataChange:
    """What changes in the statistics of files and of partitions.

    Args:
        view: the metadata table. Which files are live, it says itself: its readers have no others.
        touched: partition path -> ids of file groups whose files of before are live no longer.
        tight: no other write is pending whose records could come later, and stand before these.
    """
    staying: dict[str, dict[str, int]] = {}
    if PARTITION_STATS in view.table.partitions:
        before = named_snapshot(view.table.storage, view.data, view.listing().files)
        for partition, gone in touched.items():
            files = (one for one in before.base_files(partition) if one.file_id not in gone)
            staying[partition] = {one.name: one.size_bytes for one in files}
    return statistics_of_touched(view, new, staying, tight=tight)


def _of_keys(
    view: MetadataView, properties: TableProperties, moved: Iterable[MovedKeys], keys: KeyScope
) -> MetadataChange:
    partitioned = is_partitioned(view.slices(RECORD_INDEX))
    if keys is not KeyScope.TABLE and not partitioned:
        moved = said_moves(view, moved, refuse=keys is KeyScope.PARTITION)
    put: PartitionChange = record_index_change(moved, properties.timezone, partitioned=partitioned)
    return {RECORD_INDEX: put} if put else {}


def check_metadata_table(table: Table, config: WriteConfig) -> TableProperties:
    """Re-read the properties, and make sure that we may write: version, features, metadata table. Under the lock.

    Raises:
        TableUnsupportedError: the version or a feature is not one that we write.
        TimelineChangedError: another writer has upgraded or downgraded the table since it was opened.
        MetadataTableError: there is a metadata table that our commits would leave stale.
    """
    properties = table.current_properties()
    check_writable(properties, config)
    table.check_same_version(properties)
    if finish_noted(table.storage, properties):
        properties = table.current_properties()
    check_kept(properties, config.metadata_table)
    return properties


def metadata_view(context: WriteContext, properties: TableProperties | None = None) -> MetadataView | None:
    """The metadata table as it is now; None if readers use none."""
    now = context.table.current_properties() if properties is None else properties
    table = metadata_table_of(context.storage, now)
    return None if table is None else MetadataView.load(table, context.table.load_timeline())


class Upkeep(Frozen):
    """What a commit changes in the metadata table, before it is decided.

    Attributes:
        view: the metadata table; None if readers use none.
        delta: its delta commit; None likewise.
        completed: when the delta commit is completed at the earliest; None likewise, and in timeline layout 1.
    """

    view: MetadataView | None = None
    delta: DeltaCommit | None = None
    completed: str | None = None


def prepare_upkeep(context: WriteContext, properties: TableProperties, time: str, commit: CommitMetadata) -> Upkeep:
    """Read and make all that a commit's delta commit needs, so that nothing is in its way once the commit is decided.

    Raises:
        TableCorruptError, MetadataTableError: the metadata table cannot be kept up.
    """
    view = metadata_view(context, properties)
    if view is None:
        return Upkeep()
    for what in compaction.unfinished(view.table, view.timeline):
        raise MetadataTableError(
            f"the metadata table of {properties.name} cannot be kept up: {what}",
            culprit=view.table.folder(""),
            hint="let Hudi finish it, or take the metadata table away with `lakeindex metadata drop TABLE`",
        )
    _enter_new_columns(context, view, commit)
    scope = KeyScope.PARTITION if _keys_recur(context, view) else KeyScope.TABLE
    delta = delta_commit.prepare(view, time, change_of_commit(view, properties, time, commit, scope))
    return Upkeep(view, delta, _delta_completion(context, view))


def _enter_new_columns(context: WriteContext, view: MetadataView, commit: CommitMetadata) -> None:
    """Define statistics of the columns that a commit adds, before it: a column that is not there has none."""
    if not has_statistics(view.table):
        return
    before, after = view.data.schema_text(context.storage), commit.schema_text
    if not before or not after or before == after:
        return
    text = read_definitions(context.storage)
    wanted = None if text is None else with_new_columns(text, schema_from_avro(before), schema_from_avro(after))
    if wanted is not None and wanted != text:
        put_definitions(context.storage, wanted)


def keep_commit(context: WriteContext, verdict: Verdict, upkeep: Upkeep | None = None) -> None:
    """Write the delta commit of a commit that was decided; the commit comes after it.

    Args:
        upkeep: what was prepared under the same lock; None of another writer's commit.
    """
    if verdict.commit is None:
        return
    at = verdict.completion_time
    completed = None if at is None else previous_instant_time(at)
    if upkeep is not None:
        view, delta = upkeep.view, upkeep.delta
        if view is not None and delta is not None:
            _keep(view, delta.time, lambda: delta, completed)
        return
    view = metadata_view(context)
    if view is not None:
        properties, time = context.table.properties, verdict.instant
        layout = properties.timeline_layout
        commit = layout.decode_commit(verdict.commit, layout.path(verdict.completed))
        _keep(
            view,
            time,
            lambda: delta_commit.prepare(
                view, time, change_of_commit(view, properties, time, commit, _decided_scope(context, view))
            ),
            completed,
        )


def keep_deletion(context: WriteContext, time: str, paths: Iterable[str]) -> str | None:
    """Write the delta commit of a clean, which is completed after it.

    Args:
        paths: files that it had to delete; those that are still there are left out.

    Returns:
        When the delta commit was completed; None if there is no metadata table, or no such times.
    """
    view = metadata_view(context)
    if view is None:
        return None
    planned = frozenset(paths)

    def prepare() -> DeltaCommit:
        there = {one.path for one in base_files_in(context.storage, names_by_partition(planned))}
        gone = names_by_partition(planned - there)
        return delta_commit.prepare(view, time, change_of_gone(view, gone))

    return _keep(view, time, prepare, _delta_completion(context, view))


def announce_rollback(context: WriteContext, times: Collection[str], rollback: str, paths: Iterable[str]) -> str | None:
    """Write the delta commit of a rollback, or a restore, of what stands in base files of the metadata table: where
    keys are again, and which files are gone. It counts as soon as the instants are not completed any more, so that no
    reader meets the table without the commits and the metadata table with them.

    Args:
        times: the instants that are rolled back. They may be completed still.
        rollback: the instant of the rollback or restore.

    Returns:
        When the delta commit was completed, if there is one; None in timeline layout 1.
    """
    view = metadata_view(context)
    if view is None or not (view.timeline.find(rollback) or is_taken_in(view, times)):
        return None
    after = MetadataView(view.table, view.timeline, view.data.without_completed(times))
    properties = context.table.properties
    return _keep(
        view,
        rollback,
        lambda: delta_commit.prepare(
            view,
            rollback,
            change_of_undone(after, properties, times, paths, _replaced_in(view, times), _decided_scope(context, view)),
        ),
        _delta_completion(context, view),
    )


def _keys_recur(context: WriteContext, view: MetadataView) -> bool:
    """Whether there is a record index, and a key may be in several partitions of the table by the index in force."""
    if RECORD_INDEX not in view.table.partitions or not context.table.properties.is_partitioned:
        return False
    index = context.table.index(view.data)
    return index is not None and not index.is_global


def _decided_scope(context: WriteContext, view: MetadataView) -> KeyScope:
    return KeyScope.PARTITION_DECIDED if _keys_recur(context, view) else KeyScope.TABLE


def is_taken_in(view: MetadataView, times: Iterable[str]) -> bool:
    """Whether base files of the metadata table say already what one of some writes changed."""
    return any(delta_commit.is_taken_in(view, time) for time in times)


def _replaced_in(view: MetadataView, times: Collection[str]) -> frozenset[str] | None:
    """Partitions in which instants replaced file groups; None if a commit is not there any more to say it."""
    commits = [one for one in view.data.completed_writes if one.time in times]
    if len(commits) < len(times):
        return None
    replacing = (one for one in commits if one.action == names.REPLACE_COMMIT)
    replaced = (view.data.commit_metadata(view.table.storage, one).replaced() for one in replacing)
    return frozenset(partition for groups in replaced for partition, _ in groups)


def undo(context: WriteContext, time: str) -> None:
    """Take back the delta commit of an instant that is rolled back, is still pending, and does not count."""
    view = metadata_view(context)
    if view is not None:
        delta_commit.undo(view, time)


def sweep_deltas(context: WriteContext, properties: TableProperties) -> tuple[str, ...]:
    """Take back delta commits of a writer that did not know what had become of its instant meanwhile; their instants.

    If the instant was rolled back, the whole delta commit goes: our verdict says so, and the timeline does not have it.
    If it was archived, what is pending again goes: the archive of the metadata table names it as completed.
    """
    view = metadata_view(context, properties)
    if view is None:
        return ()
    found = {one.time for one in view.timeline.files if one.action == names.DELTA_COMMIT}
    unknown = sorted(time for time in found if not view.data.find(time) and len(time) == names.TIME_DIGITS)
    swept = tuple(time for time in unknown if _is_tombstoned(context, time))
    for time in swept:
        delta_commit.undo(view, time)
    begun = tuple(_begun_anew(view))
    for time in begun:
        delta_commit.forget_pending(view, time)
    return (*swept, *begun)


def compact_metadata(context: WriteContext, least: int = 1) -> str | None:
    """Compact the metadata table and delete what nobody reads of it any more, unless something is pending.

    Args:
        least: delta commits since the last compaction from which on it is worth while.

    Returns:
        The compaction's instant; None if nothing was done.
    """
    view = metadata_view(context)
    if view is None or _unsettled(view) or compaction.delta_commits_since(view.timeline) < least:
        return None
    done = compaction.compact(view)
    if done is not None:
        compaction.clean(MetadataView.load(view.table, view.data))
    return done


def renew_record_index(context: WriteContext, change: PartitionChange) -> None:
    """Make the record index anew, under the lock. The new base files take the place of all that it said before, for
    every reader at once and as a compaction: whoever began to read before finds what was there.

    Raises:
        PendingInstantError: something is pending whose entries would be lost.
    """
    view = metadata_view(context)
    assert view is not None
    if unsettled := _unsettled(view):
        one = unsettled[0]
        raise PendingInstantError(
            f"the record index of {context.table.properties.name} cannot be made anew in its place while {one.action} "
            f"{one.time} is {one.state}",
            culprit=one.time,
            hint="run it again when its writer is done; or take the index away before: `lakeindex metadata drop TABLE "
            "--partition record_index`",
        )
    if pending_compaction(view.timeline) is not None:
        compaction.compact(view)
        view = MetadataView.load(view.table, view.data)
    compaction.compact(view, change)
    compaction.clean(MetadataView.load(view.table, view.data))


def compact_if_due(context: WriteContext) -> str | None:
    """Compact the metadata table after a commit, under the lock, if it has as many delta commits as Hudi waits for."""
    table = metadata_table_of(context.storage, context.table.properties)
    least = context.config.index_max_deltas
    if table is None or compaction.delta_commits_since(table.load_timeline()) < least:
        return None
    with context.locked("compacting the metadata table"):
        return compact_metadata(context, least)


def archiving_bound(view: MetadataView) -> str:
    """Instant from which on everything must stay on the table's timeline: what is older is in base files of the
    metadata table, and Hudi 0.15 believes no log of an instant that is not on the timeline. Empty if nothing was
    compacted yet.
    """
    return (compaction.last_compaction(view.timeline) or "")[: names.TIME_DIGITS]


def _keep(view: MetadataView, time: str, prepare: Callable[[], DeltaCommit], completed: str | None) -> str | None:
    """Prepare and write a delta commit unless it is there, as files that it was made of may be gone by then; when it
    was completed.
    """
    standing = view.timeline.completed_write(time)
    if standing is not None:
        return standing.completion_time
    delta_commit.write(view, prepare(), completed)
    return completed


def _delta_completion(context: WriteContext, view: MetadataView) -> str | None:
    """When a delta commit is completed now; what it belongs to is completed later."""
    return context.completion_time(view.data, view.timeline.max_time)


def _unsettled(view: MetadataView) -> list[Instant]:
    """What has delta commits that do not count yet, which a compaction would leave out for good: writes and rollbacks,
    and a clean that was left after it had told what is gone.
    """
    data, told = view.data, view.timeline.completed_write_times
    others = [one for one in data.pending if one.action == names.ROLLBACK or one.time in told]
    return [*data.pending_writes, *others]


def _begun_anew(view: MetadataView) -> Iterator[str]:
    """Archived delta commits that are pending on the metadata table's timeline; its archive is read only if any is."""
    pending = (one.time for one in view.timeline.pending if one.action == names.DELTA_COMMIT)
    for time in pending:
        if time not in view.data.pending_times and time in view.timeline.archived.writes:
            yield time


def _is_tombstoned(context: WriteContext, time: str) -> bool:
    verdict = load_verdict(context.storage, time)
    return verdict is not None and not verdict.is_committed
