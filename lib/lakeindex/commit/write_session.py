"""The commit protocol: begin, plan, publish, abandon. See ``docs/commit-protocol.md``.

One :class:`WriteSession` is one attempt of a run. ``begin_write`` finishes what dead writers left, ``plan``
puts the instant and its markers on the table, the caller writes the data files, ``publish`` commits them or
finds out that they may not be.

Before the first data file these are put on the table, in this order: the claim, ``<t>.commit.requested`` (exclusively),
the stored plan, ``<t>.inflight``, partition metadata, a marker for every data file. A kill in between leaves a claim,
from which recovery knows what to remove.
"""

from __future__ import annotations

import shlex
from collections import defaultdict
from collections.abc import Callable, Sequence

from msgspec.structs import replace

from lakeindex.commit.guards import (
    GUARDS,
    ExpectedFile,
    PublishGuards,
    Since,
    VerifyFile,
    check_files_match,
    verify_file,
)
from lakeindex.commit.ledger import AlreadyDone, find_done
from lakeindex.commit.recovery import (
    PLAN_KEY,
    abandon_instant,
    give_way,
    is_requested,
    is_rolled_back,
    recover,
    roll_forward,
    rolled_back_error,
)
from lakeindex.commit.run_records import (
    Attempt,
    PlannedFile,
    Replacement,
    RunIdentity,
    RunPlan,
    begun_as,
    claim_new_instant,
    claim_scheduled,
    drop_claim,
    forget_run,
    newest_attempt,
    newest_plan,
    start_attempt,
    store_plan,
)
from lakeindex.commit.sweep import sweep_partitions
from lakeindex.commit.write_queue import Turn, TurnScope
from lakeindex.errors import (
    MOVED_ERRORS,
    ConflictError,
    FencedError,
    InvariantError,
    LakeIndexError,
    ObjectNotFoundError,
    StorageError,
    UnknownOutcomeError,
    WriteConflictError,
    noted,
    our_words,
)
from lakeindex.format.commit_metadata import NO_PREVIOUS, CommitMetadata, PlannedUpdate, inflight_plan
from lakeindex.format.partitions import (
    PartitionMetadata,
    format_partition_metadata,
    partition_depth,
    partition_metadata_path,
)
from lakeindex.frozen import Frozen
from lakeindex.lock.lock import TableLock
from lakeindex.lock.write_context import Heartbeat, WriteContext, check_clock
from lakeindex.metadata_upkeep.keeping import Upkeep, check_metadata_table, compact_if_due, prepare_upkeep, sweep_deltas
from lakeindex.model import ARRANGING_OPERATION, Instant, InstantState
from lakeindex.options.clustering_options import ClusteringOptions
from lakeindex.options.types import WriteConfig
from lakeindex.storage import Storage, in_parallel
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, this_host
from lakeindex.table.index_changes import forget_dead_changes, store_index_change
from lakeindex.timeline import records
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.pending_files import InstantHeartbeat, write_markers
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import (
    ATTEMPT_KEY,
    BATCH_KEY,
    DIGEST_KEY,
    RUN_KEY,
    Outcome,
    Verdict,
    decide,
    load_verdict,
)

__all__ = [
    "AlreadyDone",
    "Clustering",
    "ExpectedFile",
    "PlannedFile",
    "PublishGuards",
    "Replacement",
    "RunIdentity",
    "RunPlan",
    "WriteSession",
    "begin_write",
]


class Clustering(Frozen):
    """What a clustering begins with.

    Attributes:
        requested: content of its requested file.
        scheduled: or the instant of the scheduled one that is carried out.
    """

    requested: bytes = b""
    scheduled: str | None = None


def settle_plan(
    context: WriteContext,
    run: RunIdentity,
    attempt: Attempt,
    planned: tuple[PlannedFile, ...],
    digest: str,
    replacement: Replacement | None = None,
    *,
    clustering: Clustering | None = None,
) -> RunPlan:
    """The plan that this attempt follows: the stored one, if it fits and holds, else a new one with a new instant.

    Raises:
        FencedError: a newer attempt exists, or an earlier one has committed.
        WriteConflictError: the scheduled clustering to be carried out is gone.
    """
    while True:
        attempt.check()
        stored = newest_plan(context.storage, run.key)
        if stored is not None:
            if _holds(context, stored, digest):
                return stored
            attempt.check()  # it may have taken long to roll it back
        action = begun_as(replacement)
        if clustering is not None and clustering.scheduled is not None:
            instant = clustering.scheduled
            claim_scheduled(context, run, attempt.number, instant, action)
        elif clustering is not None:
            instant = claim_new_instant(context, run, attempt.number, action, clustering.requested)
        else:
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
        retried: whether an earlier attempt of the run may have left a torn inflight file.
            A first attempt finds none of its own: what it finds is another writer's, who may begin with an empty one.

    Returns:
        False if another writer turned out to use the same instant: it is left to that one, a new plan is needed.

    Raises:
        WriteConflictError: another writer has rolled the instant back already.
    """
    storage = context.storage
    layout = context.table.properties.timeline_layout
    path = layout.path(Instant(plan.instant, plan.begins_as, InstantState.INFLIGHT))
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
    is_new = (one.previous is None for one in plan.planned)
    marked = write_markers(storage, zip(plan.files, is_new, strict=True))
    requested = layout.path(Instant(plan.instant, plan.begins_as, InstantState.REQUESTED))
    try:
        # Hudi rolls back by the markers.
        storage.sync([requested, path, *made, *marked])
    except ObjectNotFoundError as error:
        raise rolled_back_error(plan.instant, "while it was planned") from error
    return True


def _read_if_there(storage: Storage, path: str) -> bytes | None:
    try:
        return storage.read(path)
    except ObjectNotFoundError:
        return None


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


class _Checked(Frozen):
    """What the checks before a commit found: the completed writes, when the commit is completed, and what
    it changes in the metadata table; or the instant that has committed the batch.
    """

    writes: tuple[str, ...] = ()
    completion_time: str | None = None
    done_by: str | None = None
    upkeep: Upkeep | None = None


def _check_stands(since: Since) -> None:
    """What the plan rests on is still so. Raises: WriteConflictError."""
    for guard in GUARDS:
        guard(since)


def begin_write(
    table: Table,
    run: RunIdentity,
    operation: str,
    config: WriteConfig,
    *,
    force: bool = False,
    host: Host | None = None,
    verify: VerifyFile = verify_file,
) -> WriteSession | AlreadyDone:
    """Start an attempt of a run.

    Finishes what dead writers left half-done, refuses a metadata table that is not kept up,
    and supersedes earlier attempts of the run.

    Args:
        force: commit a batch that is in the table already once more, and roll back foreign pending instants of any age.
        verify: checks one data file before it is committed.

    Returns:
        A session to be closed, or what the batch's earlier run did.

    Raises:
        BatchIdReusedError: the batch id is in the table with other input, or something else was done with it.
        PendingInstantError: a living writer that is none of ours has an instant in flight.
        LockTimeoutError: another writer holds the lock for too long.
        TableUnsupportedError: the table must not be written to.
        ClockError: this machine's clock or time zone does not fit the table.
    """
    machine = host or this_host()
    table.check_writable(config)
    context = WriteContext(table, machine, config, None, force)
    done = find_done(context, run)
    if done is not None:
        return done
    attempt = start_attempt(table.storage, machine, run, context.lease_ms)
    heartbeat = Heartbeat(config.lock_lease_seconds) if machine.heartbeat else None
    session = WriteSession(replace(context, heartbeat=heartbeat), run, operation, attempt, verify)
    try:
        if heartbeat is not None:
            heartbeat.add(attempt)
            heartbeat.start()
        done = session.recover_others()
    except BaseException:
        session.close()
        raise
    if done is not None:
        session.close()
        forget_run(table.storage, run.key)
        return replace(done, notes=session.notes)
    if attempt.number > 1 and newest_attempt(table.storage, run.key) is None:
        session.close()  # recovery has ended the run that this was an attempt of, and something else is asked for now
        return begin_write(table, run, operation, config, force=force, host=host, verify=verify)
    return session


class WriteSession:
    """One attempt of a run. Made by :func:`begin_write`; close it."""

    def __init__(
        self, context: WriteContext, run: RunIdentity, operation: str, attempt: Attempt, verify: VerifyFile
    ) -> None:
        self._context = context
        self._run = run
        self._operation = operation
        self._attempt = attempt
        self._verify = verify
        self._plan: RunPlan | None = None
        self._beat: InstantHeartbeat | None = None
        self._snapshot_time: str | None = None
        self._notes: tuple[str, ...] = ()
        self._turn = Turn(context.storage, context.host, context.lease_ms, context.config.lock_wait_seconds * 1000)
        if context.heartbeat is not None:
            context.heartbeat.add(self._turn)

    @property
    def instant(self) -> str:
        """The run's instant. Raises: InvariantError: there is no plan yet."""
        return self._required_plan().instant

    def recover_others(self) -> AlreadyDone | None:
        """Finish what dead writers left; ``begin_write`` does this.

        Returns:
            The batch's commit, if that was among it.
        """
        context = self._context
        with context.locked(f"start of run {self._run.run_id}") as lock:
            check_clock(context, lock)
            properties = check_metadata_table(context.table, context.config)
            before = newest_plan(context.storage, self._run.key) if context.force else None
            timeline = recover(context, lock)
            sweep_deltas(context, properties)
            forget_dead_changes(context.storage, context.table.load_timeline)
            return find_done(context, self._run, timeline, own=None if before is None else before.instant)

    def take_turn(self, scope: TurnScope) -> bool:
        """Wait while others change what this run is going to change; whether there were any. See
        :mod:`lakeindex.commit.write_queue`.
        """
        return self._turn.take(scope)

    def check_planned(
        self,
        planned: Sequence[PlannedFile],
        snapshot_time: str | None,
        guards: PublishGuards | None = None,
        replacement: Replacement | None = None,
    ) -> None:
        """Find out before anything is written that a plan would be in vain:
        the checks of :meth:`publish`, without the lock.

        Raises:
            WriteConflictError: the table moved since the snapshot: look up and plan again.
        """
        given = guards or PublishGuards()
        timeline = self._context.table.load_timeline()
        if timeline.completed_write_times == given.known_writes:
            return
        plan = RunPlan("", "", 0, tuple(planned), "", replacement)
        updates = self._context.config.of(ClusteringOptions).updates
        _check_stands(Since(self._context.storage, timeline, plan, snapshot_time, given, updates=updates))

    def plan(
        self,
        planned: Sequence[PlannedFile],
        snapshot_time: str | None,
        plan_digest: str,
        replacement: Replacement | None = None,
        clustering: Clustering | None = None,
    ) -> RunPlan:
        """Decide the run's instant and file names, and put everything on the table that must be there before data.

        Args:
            snapshot_time: the instant that the plan was made on; ``None`` for an empty table.
            plan_digest: digest of what is written where; names of new file groups are not part of it.
            replacement: file groups that the write takes out of the table: it ends as a replacecommit.
            clustering: of a clustering, what its requested file says, or which scheduled one is carried out.

        Returns:
            The plan to follow: of an earlier attempt, if it had the same digest and still holds.

        Raises:
            FencedError: a newer attempt exists, or an earlier one has committed.
            LockTimeoutError: an older plan could not be rolled back in time.
            WriteConflictError: the scheduled clustering to be carried out is gone.
        """
        context = self._context
        while True:
            plan = settle_plan(
                context, self._run, self._attempt, tuple(planned), plan_digest, replacement, clustering=clustering
            )
            self._begin_beat(plan.instant)
            if make_ready(context, self._run, plan, self._operation, retried=self._attempt.number > 1):
                break
        self._plan = plan
        self._snapshot_time = snapshot_time
        return plan

    def publish(
        self,
        commit: CommitMetadata,
        expected: Sequence[ExpectedFile],
        guards: PublishGuards | None = None,
        summary: str | None = None,
    ) -> str:
        """Commit the plan's files, or find out that they may not be.

        Args:
            commit: stats of all files, and the schema.
            expected: the files as they were written.
            guards: what the caller knows of the snapshot.
            summary: JSON text that a later run of the same batch gets.

        Returns:
            The instant that committed the batch: the plan's, or another run's of the same batch,
            if that was first (the plan is rolled back then).

        Raises:
            WriteConflictError: the table moved under the plan, or another writer rolled it back:
                abandon it, plan again.
            FencedError: a newer attempt of the run exists.
            PendingInstantError: a living writer that is none of ours has an instant in flight.
            InvariantError, StorageError: a file is not what it should be.
        """
        context, plan = self._context, self._required_plan()
        self._attempt.check()
        check_files_match(plan, commit, expected)
        self._secure_files(plan, expected)
        with context.locked(f"publishing {plan.instant} of run {self._run.run_id}", plan.instant) as lock:
            instant = self._publish_locked(lock, plan, commit, guards or PublishGuards(), summary)
        self.note("the turn was not ended", self._turn.end)
        self.note("strays were not swept", lambda: sweep_partitions(context, plan.partitions))
        self.note("the metadata table was not compacted", lambda: compact_if_due(context))
        return instant

    @property
    def notes(self) -> tuple[str, ...]:
        """What was done to other writers' instants, and what went wrong after the commit."""
        return (*self._context.notes, *self._notes)

    def note(self, what: str, work: Callable[[], object]) -> None:
        """Do something after the commit; what goes wrong is a note."""
        self._notes += noted(what, work)

    def abandon(self) -> None:
        """Roll the plan's instant back: it no longer fits. The next plan gets a new instant.

        Raises:
            LockTimeoutError: the lock could not be had in time; the instant is rolled back by a later writer.
        """
        plan, self._plan = self._plan, None
        if plan is None:
            return
        context = self._context
        with context.locked(f"abandoning {plan.instant} of run {self._run.run_id}", plan.instant) as lock:
            recover(context, lock, own=plan.instant)
            self._end_beat()
            abandon_instant(context, plan.instant)
            lock.settled(plan.instant)

    def close(self) -> None:
        """End the attempt. What it did not publish is left to a retry, or rolled back by the next writer."""
        if self._context.heartbeat is not None:
            self._context.heartbeat.stop()
        self._turn.end()
        self._attempt.end()

    def _begin_beat(self, instant: str) -> None:
        """Keep the heartbeat of a pending instant of ours going, also where an earlier attempt has begun it."""
        self._end_beat()
        self._beat = InstantHeartbeat(self._context.storage, instant)
        if self._attempt.number > 1:
            self._beat.renew()
        if self._context.heartbeat is not None:
            self._context.heartbeat.add(self._beat)

    def _end_beat(self) -> None:
        """End the heartbeat of an instant that is decided; its file goes when the verdict is carried out."""
        if self._beat is None:
            return
        self._beat.end()
        if self._context.heartbeat is not None:
            self._context.heartbeat.drop(self._beat)
        self._beat = None

    def _required_plan(self) -> RunPlan:
        if self._plan is None:
            raise InvariantError("there is no plan", culprit=self._run.run_id, hint="call plan() first")
        return self._plan

    def _secure_files(self, plan: RunPlan, expected: Sequence[ExpectedFile]) -> None:
        """The data files are there as they were written, and stay."""
        files = {file.path: file for file in plan.files}
        storage = self._context.storage
        try:
            in_parallel(storage.uri, lambda one: self._verify(storage, files[one.path], one), expected)
            storage.sync([file.path for file in plan.files])
        except StorageError:
            self._check_not_rolled_back(plan, self._context.table.load_timeline())
            raise

    def _check_not_rolled_back(self, plan: RunPlan, timeline: Timeline) -> None:
        if is_rolled_back(self._context, timeline, plan.instant):
            raise rolled_back_error(plan.instant)

    def _publish_locked(
        self, lock: TableLock, plan: RunPlan, commit: CommitMetadata, guards: PublishGuards, summary: str | None
    ) -> str:
        context = self._context
        try:
            standing = load_verdict(context.storage, plan.instant)
            checked = self._check_table(lock, plan, commit, guards) if standing is None else _Checked()
        except LakeIndexError:
            lock.settled(plan.instant)  # nothing was decided, and this call is not going to
            raise
        if checked.done_by is not None:
            self._end_beat()
            abandon_instant(context, plan.instant)
            lock.settled(plan.instant)
            return checked.done_by
        try:
            with our_words():
                if standing is None:
                    standing = decide(context.storage, self._verdict(plan, commit, summary, checked))
                stands = standing.is_committed and self._made_visible(standing, checked.upkeep)
        except LakeIndexError as error:
            raise self._decided(plan.instant, error, is_batch=self._is_batch(summary)) from error
        lock.settled(plan.instant)
        if not standing.is_committed:
            raise WriteConflictError(
                f"instant {plan.instant} was rolled back: this writer was taken for dead",
                culprit=plan.instant,
                hint="run it again; raise lakeindex.lock.lease if this happens often",
            )
        if not stands:
            raise rolled_back_error(plan.instant, "while it was committed")
        self._plan = None
        return plan.instant

    def _is_batch(self, summary: str | None) -> bool:
        """Whether it was asked for with a batch id; a service does what is left to do, however often."""
        return summary is not None and self._operation != ARRANGING_OPERATION

    def _decided(self, instant: str, error: LakeIndexError, *, is_batch: bool) -> LakeIndexError:
        """An error once the verdict may stand, with a cure by which the change counts once. It is never one that tells
        that the table has moved: nothing is planned anew then.
        """
        kind = UnknownOutcomeError if isinstance(error, (ConflictError, *MOVED_ERRORS)) else type(error)
        cure = error.hint or ""
        cure = cure if cure.endswith(("run it again", "run again")) else f"{cure}{cure and '; then '}run it again"
        if is_batch:
            batch = self._run.batch_id
            cure += f", with batch_id={batch!r} (--batch-id {shlex.quote(batch)}), so that it is done once; "
            cure += "`import` names its batches itself"
        return kind(
            f"{error.message}; by then the write {instant} was decided, and another one may complete it",
            culprit=error.culprit,
            hint=cure,
        )

    def _check_table(self, lock: TableLock, plan: RunPlan, commit: CommitMetadata, guards: PublishGuards) -> _Checked:
        """Everything that must still hold, unless another run has committed the batch."""
        context = self._context
        timeline = recover(context, lock, own=plan.instant, alone=plan.replacement is not None)
        self._attempt.check()
        properties = check_metadata_table(context.table, context.config)
        timeline = timeline or context.table.load_timeline()
        self._check_not_rolled_back(plan, timeline)
        done = find_done(context, self._run, timeline)
        if done is not None:
            return _Checked(done_by=done.instant)
        updates = context.config.of(ClusteringOptions).updates
        since = Since(context.storage, timeline, plan, self._snapshot_time, guards, commit, updates)
        _check_stands(since)
        give_way(context, timeline, since.clustered)
        upkeep = prepare_upkeep(context, properties, plan.instant, commit)
        try:
            lock.check()
        except FencedError as error:
            raise WriteConflictError(error.message, culprit=plan.instant, hint=error.hint) from error
        return _Checked(
            tuple(sorted(timeline.completed_write_times)),
            context.completion_time(timeline, upkeep.completed),
            upkeep=upkeep,
        )

    def _verdict(self, plan: RunPlan, commit: CommitMetadata, summary: str | None, checked: _Checked) -> Verdict:
        marks = {
            ATTEMPT_KEY: self._attempt.token,
            BATCH_KEY: self._run.batch_id,
            RUN_KEY: self._run.run_id,
            DIGEST_KEY: self._run.input_digest,
        }
        marked = replace(commit, extra_metadata={**commit.extra_metadata, **marks})
        layout = self._context.table.properties.timeline_layout
        return Verdict(
            instant=plan.instant,
            outcome=Outcome.COMMITTED,
            token=self._attempt.token,
            batch_id=self._run.batch_id,
            input_digest=self._run.input_digest,
            commit=layout.encode_commit(marked, plan.action),
            paths=tuple(file.path for file in plan.files),
            base_writes=checked.writes,
            summary=summary,
            action=plan.action,
            completion_time=checked.completion_time,
        )

    def _made_visible(self, standing: Verdict, upkeep: Upkeep | None) -> bool:
        """Carry a committed verdict out, which may be another attempt's; whether the commit stands."""
        self._end_beat()
        return roll_forward(self._context, standing, self._run.key, note=self.note, upkeep=upkeep)
