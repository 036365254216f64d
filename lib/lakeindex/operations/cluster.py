"""Put base files together and sort their rows: plan it, carry it out, or put the plan on the timeline for another run
or for Hudi, whose plans are carried out, too.
"""

from __future__ import annotations

import time
from collections import Counter

from msgspec.structs import replace

from lakeindex.catalogs.syncing import sync_after
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.run_records import load_claim
from lakeindex.commit.undo import request_service
from lakeindex.commit.write_session import AlreadyDone, begin_write
from lakeindex.conductor.open_for_write import open_and_retry
from lakeindex.errors import TableCorruptError, TableUnsupportedError, UsageError, WriteConflictError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.model import ARRANGING_OPERATION, BaseFile, IndexType, InstantState
from lakeindex.operations.cluster_plan import Asked, ClusterGroup, Request, order_of, sized_files
from lakeindex.operations.cluster_run import Cluster, ClusterSummary, requested_of
from lakeindex.options.clustering_options import LAYOUT_OPTION, SORT_COLUMNS_OPTION, ClusteringOptions, Curve
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import BoundTable
from lakeindex.tasks.memory_bound import memory_bound
from lakeindex.tasks.runner import Runner
from lakeindex.timeline import records
from lakeindex.timeline.avro_instants import RequestedReplace, parse_requested_replace
from lakeindex.write.base_file import RECORD_KEY

__all__ = ["ClusterSummary", "cluster_table"]


def cluster_table(
    uri: str,
    runner: Runner,
    asked: Asked | None = None,
    *,
    config: WriteConfig | None = None,
    dry_run: bool = False,
    force: bool = False,
) -> ClusterSummary:
    """Put base files of a partition together and sort their rows, in one replacecommit.

    Args:
        config: order and sizes, lease, waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        UsageError: no such partition, column or plan.
        TableUnsupportedError: rows do not store their keys, or a table with buckets is to be clustered by a plan.
        ConflictError: other writers are in the way for good; nothing was published.
        InvariantError: the new files would not hold the same rows; nothing was published.
    """
    started = time.perf_counter()
    settings, wanted = config or WriteConfig(), asked or Asked()
    if wanted.instant is not None and wanted != Asked(instant=wanted.instant):
        raise UsageError(
            f"the plan {wanted.instant} says by itself what is put together, and it is scheduled",
            culprit=wanted.instant,
            hint="leave out where, small_files_only, max_bytes and schedule, or the instant",
        )

    def plan(opened: BoundTable) -> tuple[BoundTable, Request, list[ClusterGroup]]:
        if wanted.schedule and opened.index.index_type is IndexType.BUCKET:
            raise TableUnsupportedError(
                f"table {opened.table.name} has buckets: Hudi would take rows out of them",
                culprit=opened.table.uri,
                hint="cluster it without scheduling",
            )
        request = Request(order_of(settings, opened.facts.schema), settings, wanted)
        if wanted.instant is not None:
            return opened, *_planned(opened, request, wanted.instant)
        may_wait = wanted.schedule and not dry_run
        return opened, request, [] if may_wait else Cluster(opened, request, runner).groups(opened.snapshot)

    with memory_bound(settings.memory):
        opened, request, groups = open_and_retry(uri, settings, plan)
        if wanted.schedule and not dry_run:
            return _schedule(opened, request, runner, started, force=force)
        scheduled = None if wanted.instant is None else (wanted.instant, groups)
        work = Cluster(opened, request, runner)
        if dry_run or not groups:
            return replace(work.summary(opened.snapshot, groups, started), dry_run=dry_run)
        identity = work.identity(opened.snapshot, wanted.instant)
        session = begin_write(opened.table, identity, ARRANGING_OPERATION, settings, force=force)
        if isinstance(session, AlreadyDone):
            return replace(work.summary(opened.snapshot, (), started), instant=session.instant, notes=session.notes)
        try:
            done = work.run(session, identity, started, scheduled)
        finally:
            session.close()
    return replace(done, notes=done.notes + sync_after(uri, settings))


def _schedule(opened: BoundTable, request: Request, runner: Runner, started: float, *, force: bool) -> ClusterSummary:
    table, work = opened.table, Cluster(opened, request, runner)
    with maintaining(table, "scheduling a clustering", request.config, force=force) as (context, _):
        snapshot = table.snapshot()
        groups = work.groups(snapshot)
        snapshot.check_newest((one.file for group in groups for one in group.files), every=True)
        time_ = None
        if groups:
            action = table.properties.timeline_layout.clustering
            time_ = request_service(
                context, snapshot.timeline, action, requested_of(table.storage, groups, request.order)
            )
        notes = tuple(context.notes)
    done = work.summary(snapshot, groups, started)
    return replace(done, instant=time_, scheduled=bool(groups), notes=notes)


def _planned(opened: BoundTable, request: Request, instant: str) -> tuple[Request, list[ClusterGroup]]:
    """What a plan on the timeline says, Hudi's or ours; of rows of several partitions each stay in theirs.

    Raises:
        UsageError: there is none, or it is being carried out.
        TableUnsupportedError: the table has buckets, of which it would put some together.
        TableCorruptError: it names a file group more than once, whose rows would be doubled.
        WriteConflictError: its file groups were changed since.
    """
    timeline, storage = opened.snapshot.timeline, opened.table.storage
    found = next((one for one in timeline.pending_writes if one.time == instant), None)
    planned = RequestedReplace()
    if found is not None and (found.state is InstantState.REQUESTED or load_claim(storage, instant) is not None):
        path = timeline.path(replace(found, state=InstantState.REQUESTED))
        planned = records.read_filled(storage, path, parse_requested_replace)
    if not planned.groups:
        raise UsageError(
            f"there is no clustering scheduled at {instant!r}", culprit=instant, hint="look at `lakeindex history`"
        )
    cure = f"roll it back with `lakeindex rollback TABLE {instant}`; `lakeindex cluster TABLE` makes a plan of its own"
    if opened.index.index_type is IndexType.BUCKET:
        raise TableUnsupportedError(
            f"table {opened.table.name} has buckets, and the clustering {instant} would take rows out of them",
            culprit=instant,
            hint=cure,
        )
    several = [group for group, times in Counter(planned.input_groups).items() if times > 1]
    if several:
        raise TableCorruptError(
            f"the clustering {instant} names file group {several[0][1]} of {several[0][0]!r} more than once",
            culprit=several[0][1],
            hint=cure,
        )
    columns = tuple(word.strip() for word in planned.params.get(SORT_COLUMNS_OPTION, "").split(",") if word.strip())
    curve = planned.params.get(LAYOUT_OPTION, request.options.curve)
    config = request.config.having(ClusteringOptions, "columns", () if columns == (RECORD_KEY,) else columns)
    config = config.having(ClusteringOptions, "curve", Curve(str(curve).lower()))
    wanted = replace(request, order=order_of(config, opened.facts.schema), config=config)
    groups = []
    for group in planned.groups:
        for partition in sorted({one.partition_path for one in group.slices}):
            slices = (one for one in group.slices if one.partition_path == partition)
            files = [_live(opened.snapshot, partition, one.file_id, one.url, instant) for one in slices]
            sized = tuple(sized_files(storage, files, wanted.columns))
            groups.append(ClusterGroup(partition, sized, group.outputs))
    return wanted, groups


def _live(snapshot: Snapshot, partition: str, file_id: str, url: str, instant: str) -> BaseFile:
    found = next((file for file in snapshot.base_files(partition) if file.file_id == file_id), None)
    if found is None or (url and found.name != url.rpartition("/")[2]):
        raise WriteConflictError(
            f"file group {file_id} in {partition!r} was changed since clustering {instant} was scheduled",
            culprit=url or file_id,
            hint=f"roll it back with `lakeindex rollback TABLE {instant}`, and schedule another one",
        )
    return found
