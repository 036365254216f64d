"""Keeping the metadata table true to what is committed, cleaned and rolled back. Whoever calls holds the table's lock.

A commit's delta commit is written between the verdict and the commit: it does not count before the commit is there, and
whoever finds the verdict writes it. A rollback takes it back while the instant is still pending: readers that meet the
delta commit of an instant that is gone take it for valid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lakeindex.commit.write_context import WriteContext
from lakeindex.errors import MetadataTableError
from lakeindex.files.listing import base_files_in
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.instants import previous_instant_time
from lakeindex.metadata import compaction, delta_commit
from lakeindex.metadata.changes import MetadataChange, change_of_deletion, change_of_files, files_of_commit
from lakeindex.metadata.delta_commit import DeltaCommit
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.statistics import statistics_of_gone, statistics_of_new
from lakeindex.table.metadata_kept import metadata_table_of
from lakeindex.table.properties import TableProperties
from lakeindex.timeline.verdicts import Verdict, load_verdict


def metadata_view(context: WriteContext, properties: TableProperties | None = None) -> MetadataView | None:
    """The metadata table as it is now; None if readers use none.

    Args:
        context: the writer.
        properties: the table's, if they were just read.
    """
    now = context.table.current_properties() if properties is None else properties
    table = metadata_table_of(context.storage, now)
    return None if table is None else MetadataView.load(table, context.table.load_timeline())


@dataclass(frozen=True, slots=True)
class Upkeep:
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

    Args:
        context: the writer.
        properties: the table's, as they are now.
        time: the commit's instant.
        commit: what it did.

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
            hint="let Hudi finish it, or take the metadata table away with `lakeindex metadata drop`",
        )
    delta = delta_commit.prepare(view, time, _change_of(view, commit))
    return Upkeep(view, delta, _delta_completion(context, view))


def keep_commit(context: WriteContext, verdict: Verdict, upkeep: Upkeep | None = None) -> None:
    """Write the delta commit of a commit that was decided; the commit comes after it.

    Args:
        context: the writer.
        verdict: on the commit.
        upkeep: what was prepared under the same lock; None of another writer's commit.
    """
    if verdict.commit is None:
        return
    at = verdict.completion_time
    completed = None if at is None else previous_instant_time(at)
    if upkeep is not None:
        if upkeep.view is not None and upkeep.delta is not None:
            _keep(upkeep.view, upkeep.delta, completed)
        return
    view = metadata_view(context)
    if view is not None:
        layout = context.table.properties.timeline_layout
        commit = layout.decode_commit(verdict.commit, layout.path(verdict.completed))
        _keep(view, delta_commit.prepare(view, verdict.instant, _change_of(view, commit)), completed)


def keep_deletion(context: WriteContext, time: str, paths: Iterable[str]) -> str | None:
    """Write the delta commit of a clean, which is completed after it.

    Args:
        context: the writer.
        time: its instant.
        paths: files that it had to delete; those that are still there are left out.

    Returns:
        When the delta commit was completed; None if there is no metadata table, or no such times.
    """
    view = metadata_view(context)
    if view is None:
        return None
    planned: dict[str, set[str]] = defaultdict(set)
    for path in paths:
        partition, _, name = path.rpartition("/")
        planned[partition].add(name)
    there = {(one.partition_path, one.name) for one in base_files_in(context.storage, planned)}
    gone = {part: sorted(name for name in found if (part, name) not in there) for part, found in planned.items()}
    change = _change_of_gone(context, view, {partition: found for partition, found in gone.items() if found})
    return _keep(view, delta_commit.prepare(view, time, change), _delta_completion(context, view))


def undo(context: WriteContext, time: str, rollback: str | None, paths: Iterable[str]) -> str | None:
    """Take back what the metadata table says of an instant that is rolled back; the instant is still pending.

    What went into base files is taken back by a delta commit of the rollback, which says that the files are gone.

    Args:
        context: the writer.
        time: the instant.
        rollback: the rollback's own instant; None if nothing of the instant was on the timeline.
        paths: data files of the instant.

    Returns:
        When the rollback's delta commit was completed, if it has one; None in timeline layout 1.
    """
    view = metadata_view(context)
    if view is None:
        return None
    completed = None
    if rollback is not None and delta_commit.is_compacted(view, time):
        files: dict[str, list[str]] = defaultdict(list)
        for path in sorted(paths):
            partition, _, name = path.rpartition("/")
            files[partition].append(name)
        change = _change_of_gone(context, view, files)
        completed = _keep(view, delta_commit.prepare(view, rollback, change), _delta_completion(context, view))
    delta_commit.undo(view, time)
    return completed


def sweep_deltas(context: WriteContext, properties: TableProperties) -> tuple[str, ...]:
    """Take back the delta commits that a writer put who did not know that his instant had been rolled back.

    Args:
        context: the writer.
        properties: the table's, as they are now.

    Returns:
        Their instants: our verdict on each says that it was rolled back, and the timeline does not have it.
    """
    view = metadata_view(context, properties)
    if view is None:
        return ()
    found = {one.time for one in view.timeline.files if one.action == names.DELTA_COMMIT}
    unknown = sorted(time for time in found if not view.data.find(time) and len(time) == names.TIME_DIGITS)
    swept = tuple(time for time in unknown if _is_tombstoned(context, time))
    for time in swept:
        delta_commit.undo(view, time)
    return swept


def compact_metadata(context: WriteContext, least: int = 1) -> str | None:
    """Compact the metadata table and delete what nobody reads of it any more, unless a write is pending.

    Args:
        context: the writer.
        least: delta commits since the last compaction from which on it is worth while.

    Returns:
        The compaction's instant; None if nothing was done.
    """
    view = metadata_view(context)
    if view is None or view.data.pending_writes or compaction.delta_commits_since(view.timeline) < least:
        return None
    # Later than every delta commit, each of which is completed before its action, and taken already.
    ends = [one.completion_time for one in view.data.completed if one.completion_time is not None]
    done = compaction.compact(view, max(ends, default=""))
    if done is not None:
        compaction.clean(MetadataView.load(view.table, view.data))
    return done


def compact_if_due(context: WriteContext) -> str | None:
    """Compact the metadata table after a commit, under the lock, if it has as many delta commits as Hudi waits for.

    Returns:
        The compaction's instant; None if nothing was done.
    """
    table = metadata_table_of(context.storage, context.table.properties)
    least = context.config.index_max_deltas
    if table is None or compaction.delta_commits_since(table.load_timeline()) < least:
        return None
    with context.locked("compacting the metadata table"):
        return compact_metadata(context, least)


def archiving_bound(view: MetadataView) -> str:
    """Instant from which on everything must stay on the table's timeline: what is older is in base files of the
    metadata table, and Hudi 0.15 believes no log of an instant that is not on the timeline.

    Args:
        view: the metadata table.

    Returns:
        Empty if nothing was compacted yet.
    """
    return (compaction.last_compaction(view.timeline) or "")[: names.TIME_DIGITS]


def _change_of(view: MetadataView, commit: CommitMetadata) -> MetadataChange:
    files = files_of_commit(commit)
    return {**change_of_files(files), **statistics_of_new(view.table, files)}


def _change_of_gone(context: WriteContext, view: MetadataView, files: Mapping[str, Sequence[str]]) -> MetadataChange:
    writes = view.data.completed_writes
    schema = view.data.commit_metadata(context.storage, writes[-1]).schema_text if writes else None
    return {**change_of_deletion(files), **statistics_of_gone(view.table, files, schema)}


def _keep(view: MetadataView, delta: DeltaCommit, completed: str | None) -> str | None:
    """Write a delta commit unless it is there; when it was completed."""
    standing = view.timeline.completed_write(delta.time)
    if standing is not None:
        return standing.completion_time
    delta_commit.write(view, delta, completed)
    return completed


def _delta_completion(context: WriteContext, view: MetadataView) -> str | None:
    """When a delta commit is completed now; what it belongs to is completed later."""
    return context.completion_time(view.data, view.timeline.max_time)


def _is_tombstoned(context: WriteContext, time: str) -> bool:
    verdict = load_verdict(context.storage, time)
    return verdict is not None and not verdict.is_committed
