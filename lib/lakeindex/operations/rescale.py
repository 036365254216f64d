"""Change the number of buckets of a table, or make a bucket table of another: one replacecommit that rewrites whole
partitions.

Rows keep everything, also their commit time and sequence number; only the file's name changes, as in Hudi's
clustering. The count in force changes in the same instant (see :mod:`lakeindex.table.index_changes`). Before it is
published, the digest of all rows as they were read is compared with that of all rows as they are read back from the
new files.

Every step can be killed: the run's id is made from the request and the table's state, so that the same command
continues with the same plan and the same pieces.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from lakeindex.catalogs.syncing import sync_after
from lakeindex.commit.guards import refuse_clustered
from lakeindex.commit.write_session import AlreadyDone, PublishGuards, Replacement, RunIdentity, begin_write
from lakeindex.conductor.open_for_write import open_and_retry
from lakeindex.errors import UsageError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata
from lakeindex.index.bucket_options import COUNT_OPTION, RULES_OPTION, BucketLayout, layout_of, parse_rules
from lakeindex.model import BaseFile, IndexSpec, IndexType
from lakeindex.operations.rescale_run import Rescale, RescaledPartition, RescaleSummary
from lakeindex.operations.rewrite_run import OPERATION
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.spec import BoundTable
from lakeindex.run.table_facts import facts_of
from lakeindex.table.handle import Table
from lakeindex.table.index_changes import index_change_times, index_record, newest_in_force
from lakeindex.table.index_inference import check_noted_buckets, noted_buckets
from lakeindex.tasks.runner import Runner
from lakeindex.write.types.avro_schema import schema_to_avro

__all__ = [
    "RescaleSummary",
    "RescaledPartition",
    "check_no_buckets",
    "migrate_to_buckets",
    "rescale_table",
    "switch_index",
]


def rescale_table(
    uri: str,
    runner: Runner,
    *,
    buckets: int | None = None,
    partitions: Mapping[str, int] | None = None,
    config: WriteConfig | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> RescaleSummary:
    """Give a bucket table, or some of its partitions, another number of buckets.

    Args:
        buckets: one count for the whole table, partitions to come included; rules by partition are dropped.
        partitions: or counts of some partitions that are there; neither: what Hudi has noted.
        config: file encoding, lease, waiting times, metadata table policy;
            the options of the index if nothing is bound yet.
        force: consider every pending instant of another writer dead.

    Raises:
        UsageError: not a bucket table, no such partition, both of the counts are given, or neither and none is noted.
        TableCorruptError: a key is stored twice in a bucket, or a file cannot be read.
        ConflictError: other writers are in the way for good; nothing was published.
        InvariantError: the new files would not hold the same rows; nothing was published.
    """
    either = UsageError(
        "say either --buckets or --partition", culprit="--buckets", hint="--partition P=N may be repeated"
    )
    if buckets is not None and partitions:
        raise either
    settings = config or WriteConfig()

    def layouts(opened: BoundTable) -> tuple[BucketLayout, BucketLayout]:
        if opened.index.index_type is not IndexType.BUCKET:
            raise UsageError(
                f"table {opened.table.name} has the index {opened.index.index_type}, which has no buckets",
                culprit=opened.table.uri,
                hint="`lakeindex index migrate TABLE --to BUCKET` makes a bucket table of it",
            )
        layout = layout_of(opened.index)
        if buckets is not None:
            return layout, layout.with_count(buckets)
        if not partitions:
            noted = noted_buckets(opened.table, opened.snapshot.timeline)
            if noted is None:
                raise either
            count, rules = int(noted.options[COUNT_OPTION]), parse_rules(noted.options[RULES_OPTION])
            return layout, replace(layout, count=count, rules=rules)
        counts = dict(partitions)
        for path in sorted(counts.keys() - set(opened.snapshot.partitions())):
            raise UsageError(
                f"there is no partition {path!r}", culprit=path, hint="`lakeindex inspect` lists the partitions"
            )
        return layout, layout.with_partitions({path: n for path, n in counts.items() if layout.count_of(path) != n})

    done = _rewrite(uri, layouts, runner, settings, dry_run=dry_run, force=force)
    return done if dry_run else replace(done, notes=done.notes + sync_after(uri, settings))


def migrate_to_buckets(
    uri: str,
    layout: BucketLayout,
    runner: Runner,
    *,
    config: WriteConfig | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> RescaleSummary:
    """Make a bucket table of a table with another index: every partition is rewritten, as :func:`rescale_table` does.

    Args:
        layout: its buckets; without fields, all fields of the record key are hashed.

    Raises:
        UsageError: it is a bucket table already.
        TableCorruptError, ConflictError, InvariantError: as :func:`rescale_table`.
    """
    settings = config or WriteConfig()

    def layouts(opened: BoundTable) -> tuple[None, BucketLayout]:
        if opened.index.index_type is IndexType.BUCKET:
            raise UsageError(
                f"table {opened.table.name} has buckets already",
                culprit=opened.table.uri,
                hint="change their number with `lakeindex rescale TABLE --buckets ...`",
            )
        return None, replace(layout, fields=layout.fields or tuple(opened.table.properties.key_fields))

    return _rewrite(uri, layouts, runner, settings, dry_run=dry_run, force=force)


def check_no_buckets(spec: IndexSpec) -> None:
    """Raises: UsageError: it is an index of buckets, which is never in force without a rewrite."""
    if spec.index_type is IndexType.BUCKET:
        raise UsageError(
            "buckets need a rewrite",
            culprit=spec.index_type,
            hint="change them with `lakeindex rescale TABLE --buckets ...`",
        )


def switch_index(
    table: Table,
    snapshot: Snapshot,
    spec: IndexSpec,
    config: WriteConfig | None = None,
    *,
    force: bool = False,
    notes: list[str] | None = None,
) -> str:
    """Put another index in force without rewriting anything: for types that need nothing of the files.

    It is a replacecommit that replaces nothing, so that the change has an instant, and goes back with it.

    Args:
        snapshot: its state, on which the caller has made sure that the index fits (unique keys, a store that is built).
        notes: what was done to other writers' instants, for the summary; grows, also if this raises.

    Raises:
        UsageError: to BUCKET: that needs a rewrite.
        WriteConflictError: somebody wrote since the snapshot: look again.
    """
    check_no_buckets(spec)
    settings = config or WriteConfig()
    changed = newest_in_force(snapshot.timeline, index_change_times(table.storage))
    asked = digest_of_text(str(table.index(snapshot.timeline)), str(spec), changed or "")
    identity = RunIdentity(f"switch {asked}", f"switch {asked}", asked)
    session = begin_write(table, identity, OPERATION, settings, force=force)
    noted = [] if notes is None else notes
    if isinstance(session, AlreadyDone):
        noted += session.notes
        return session.instant
    try:
        digest = digest_of_text(asked, snapshot.instant_time or "")
        session.plan((), snapshot.instant_time, digest, Replacement((), index_record(spec), everywhere=True))
        facts = facts_of(table, snapshot, settings)
        commit = CommitMetadata({}, OPERATION, {SCHEMA_KEY: schema_to_avro(facts.schema, facts.name)})
        return session.publish(commit, (), PublishGuards.of(snapshot.timeline))
    except WriteConflictError:
        session.abandon()
        raise
    finally:
        noted += session.notes
        session.close()


def _rewrite(
    uri: str,
    layouts: Callable[[BoundTable], tuple[BucketLayout | None, BucketLayout]],
    runner: Runner,
    config: WriteConfig,
    *,
    dry_run: bool,
    force: bool,
) -> RescaleSummary:
    """Rewrite a table from the one layout that it has, if it has one, to the other."""
    started = time.perf_counter()

    def planned(opened: BoundTable) -> tuple[BoundTable, Rescale, Mapping[str, Sequence[BaseFile]], bool]:
        layout, target = layouts(opened)
        check_noted_buckets(opened.table, opened.snapshot.timeline, target)
        work = Rescale(opened, layout, target, runner, config)
        return opened, work, work.partitions(opened.snapshot), target == layout

    opened, work, plan, is_there = open_and_retry(uri, config, planned, as_noted=False)
    for files in plan.values() if dry_run else ():  # a run waits its turn behind a clustering of ours first
        refuse_clustered(opened.snapshot, files, config)
    if dry_run or (is_there and not plan):
        return work.summary(opened.snapshot, None, (), started, noop=not plan and is_there, dry_run=dry_run)
    identity = work.identity()
    session = begin_write(opened.table, identity, OPERATION, config, force=force)
    if isinstance(session, AlreadyDone):
        return replace(work.summary(opened.snapshot, session.instant, (), started), noop=True, notes=session.notes)
    try:
        return work.run(session, identity, started)
    finally:
        session.close()
