"""How a run gets its instant, and what is put on the table before the first data file.

In this order: the claim, ``<t>.commit.requested`` (exclusively), the stored plan, ``<t>.inflight``, partition metadata,
a marker for every data file. A kill in between leaves a claim, from which recovery knows what to remove.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from lakeindex.commit.claims import claim_new_instant, drop_claim
from lakeindex.commit.foreign_writers import rolled_back_error
from lakeindex.commit.recovery import abandon_instant, is_requested, recover
from lakeindex.commit.run_records import (
    Attempt,
    PlannedFile,
    Replacement,
    RunIdentity,
    RunPlan,
    action_of,
    newest_plan,
    store_plan,
)
from lakeindex.errors import FencedError, ObjectNotFoundError
from lakeindex.format.commit_metadata import NO_PREVIOUS, PlannedUpdate, inflight_plan
from lakeindex.format.file_names import MarkerKind, marker_path
from lakeindex.format.partition_metadata import (
    PartitionMetadata,
    format_partition_metadata,
    partition_depth,
    partition_metadata_path,
)
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Instant, InstantState
from lakeindex.storage import Storage, in_parallel
from lakeindex.table.index_changes import store_index_change
from lakeindex.timeline import records
from lakeindex.timeline.beside_pending import write_markers
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.verdicts import BATCH_KEY, RUN_KEY, load_verdict

PLAN_KEY = "lakeindex.plan"


def settle_plan(
    context: WriteContext,
    run: RunIdentity,
    attempt: Attempt,
    planned: tuple[PlannedFile, ...],
    digest: str,
    replacement: Replacement | None = None,
) -> RunPlan:
    """The plan that this attempt follows: the stored one, if it fits and holds, else a new one with a new instant.

    Raises:
        FencedError: a newer attempt exists, or an earlier one has committed.
    """
    while True:
        attempt.check()
        stored = newest_plan(context.storage, run.key)
        if stored is not None:
            if _holds(context, stored, digest):
                return stored
            attempt.check()  # it may have taken long to roll it back
        action = action_of(replacement)
        requested = context.table.properties.timeline_layout.encode_requested(action)
        instant = claim_new_instant(context, run, attempt.number, action, requested)
        generation = 1 if stored is None else stored.generation + 1
        plan = RunPlan(instant, digest, generation, planned, context.host.new_token(), replacement)
        if store_plan(context.storage, run.key, plan) == plan:
            return plan
        _give_up(context, instant)  # another attempt stored its plan first: look at that one


def make_ready(
    context: WriteContext, run: RunIdentity, plan: RunPlan, operation: str, *, retried: bool = False
) -> bool:
    """Put the inflight file, partition metadata and markers there.

    Args:
        context: the writer.
        run: the run.
        plan: its plan.
        operation: Hudi's ``operationType``.
        retried: whether an earlier attempt of the run may have left a torn inflight file.
            A first attempt finds none of its own: what it finds is another writer's, who may begin with an empty one.

    Returns:
        False if another writer turned out to use the same instant: it is left to that one, a new plan is needed.

    Raises:
        WriteConflictError: another writer has rolled the instant back already.
    """
    storage = context.storage
    layout = context.table.properties.timeline_layout
    path = layout.path(Instant(plan.instant, plan.action, InstantState.INFLIGHT))
    data = _inflight(run, plan, operation, layout)
    settle = records.settle_bytes if retried else records.settle
    if settle(storage, path, data) != data:
        void = replace(plan, generation=plan.generation + 1, digest="", token=context.host.new_token())
        store_plan(storage, run.key, void)
        drop_claim(storage, plan.instant)
        return False

    old = {one.partition_path for one in plan.planned if one.previous is not None}

    def make_partition(partition: str) -> str | None:
        """Its metadata file, if that has to be synced: not where files were committed beside one that was there."""
        metadata = PartitionMetadata(plan.instant, partition_depth(partition))
        path, data = partition_metadata_path(partition), format_partition_metadata(metadata)
        standing = _read_if_there(storage, path) if partition in old else None
        if standing is None:
            standing = records.settle(storage, path, data)
        if b"partitionDepth" not in standing:
            records.put(storage, path, data)
            return path
        return path if standing == data or partition not in old else None

    made = [one for one in in_parallel(storage.uri, make_partition, plan.partitions) if one is not None]
    if plan.replacement is not None and plan.replacement.index is not None:
        store_index_change(storage, plan.instant, plan.replacement.index)
    write_markers(storage, zip(plan.files, (one.previous is None for one in plan.planned), strict=True))
    requested = layout.path(Instant(plan.instant, plan.action, InstantState.REQUESTED))
    files = zip(plan.files, plan.planned, strict=True)
    marked = {file.partition_path: marker_path(file, _marker_kind(one)) for file, one in files}
    try:
        # One marker a folder: its entry and those of its neighbours, by which Hudi rolls back, are durable then.
        storage.sync([requested, path, *made, *marked.values()])
    except ObjectNotFoundError as error:
        raise rolled_back_error(plan.instant, "while it was planned") from error
    return True


def _read_if_there(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except ObjectNotFoundError:
        return None


def _marker_kind(planned: PlannedFile) -> MarkerKind:
    return MarkerKind.CREATE if planned.previous is None else MarkerKind.MERGE


def _holds(context: WriteContext, plan: RunPlan, digest: str) -> bool:
    """Whether a stored plan can be followed; one that cannot is rolled back."""
    verdict = load_verdict(context.storage, plan.instant)
    if verdict is not None and verdict.is_committed:
        raise FencedError(
            f"an earlier attempt of this run has committed it as {plan.instant}",
            culprit=plan.instant,
            hint="nothing has to be done; running it again ends with exit code 0",
        )
    if verdict is None and plan.digest == digest and is_requested(context, plan.instant):
        return True
    if verdict is None and plan.digest:
        _give_up(context, plan.instant)
    return False


def _give_up(context: WriteContext, instant: str) -> None:
    with context.locked(f"giving up {instant}", instant) as lock:
        recover(context, lock, own=instant)
        abandon_instant(context, instant)
        lock.settled(instant)


def _inflight(run: RunIdentity, plan: RunPlan, operation: str, layout: TimelineLayout) -> bytes:
    """Hudi's plan of the write; equal for all attempts that follow the plan, and telling whose it is."""
    inserts: dict[str, int] = defaultdict(int)
    updates: dict[str, list[PlannedUpdate]] = defaultdict(list)
    for one in plan.planned:
        inserts[one.partition_path] += one.inserts
        if one.previous is not None:
            updates[one.partition_path].append(PlannedUpdate(one.file_id, _previous(one), one.updates))
    metadata = inflight_plan(str(operation), inserts, updates)
    marks = {PLAN_KEY: plan.token, RUN_KEY: run.run_id, BATCH_KEY: run.batch_id}
    return layout.encode_commit(replace(metadata, extra_metadata=marks))


def _previous(planned: PlannedFile) -> str:
    return planned.previous.instant_time if planned.previous is not None else NO_PREVIOUS
