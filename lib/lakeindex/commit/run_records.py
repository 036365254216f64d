"""The records of a run: its attempts, of which only the newest may publish, and its plan, which all of them follow.

``.hoodie/.lakeindex/runs/<run key>/attempts/<number>.json`` is created if absent. A run that is started again (a retry,
a second click) makes the next number, and is the run from then on; the older attempt finds out at its next step.
Airflow's try numbers play no part: they repeat. The record carries a lease, by which others judge whether the run's
instant is alive.

``.hoodie/.lakeindex/runs/<run key>/plan-<generation>.json``, created likewise, is the run's instant and the names of
all its files. A retry, a speculative task or a zombie that follows the same plan can only write again what is there. A
plan that no longer fits is rolled back; the next generation gets a new instant.

``.hoodie/.lakeindex/instants/<instant>.json`` is the claim on an instant of ours that is not tidied up yet. It is
created before the first file of the instant appears on the timeline, and removed after everything that follows from
its verdict is done. So recovery has to look at the claims only: whatever a killed process left half-done has one.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.errors import FencedError, ObjectNotFoundError, StorageError, WriteConflictError, noted
from lakeindex.format import instants as names
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.showing.json_values import json_of
from lakeindex.storage import is_there, list_names, remove_empty_folders
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host, Process
from lakeindex.timeline import records
from lakeindex.timeline.pending_files import begin_heartbeat
from lakeindex.timeline.verdicts import load_verdict

RUNS_FOLDER: Final = f"{records.OWN_FOLDER}/runs"

_DIGITS: Final = 8
_END_TRIES: Final = 3

_PLAN_DIGITS: Final = 6
_PLAN_PREFIX: Final = "plan-"


class RunIdentity(Frozen):
    """What a run is.

    Attributes:
        run_id: names the run; every retry of it has the same.
        batch_id: names the batch for good: it is committed once.
        input_digest: digests of the batch's content, each as ``<algorithm>:<digest>``, a space between two;
            without a name it is the first algorithm's.
        older_digests: digests of the same batch by algorithms of older releases, for entries that those made.
        operation: what is done with a batch that is given; empty where the digest says what is done.
    """

    run_id: str
    batch_id: str
    input_digest: str
    older_digests: tuple[str, ...] = ()
    operation: str = ""

    def has_input(self, digest: str) -> bool | None:
        """Whether its batch is the one that a digest was made of, by an algorithm that made it;
        None if that cannot be told.
        """
        theirs, mine = digest.split(" "), " ".join((self.input_digest, *self.older_digests)).split(" ")
        made_by, known = ({one.partition(":")[0] if ":" in one else "" for one in some} for some in (theirs, mine))
        return None if made_by.isdisjoint(known) else not set(theirs).isdisjoint(mine)

    @property
    def key(self) -> str:
        return records.key_of(self.run_id)


class AttemptRecord(Frozen):
    """Content of one attempt's file.

    Attributes:
        number: from 1.
        token: unique to the attempt; travels in the commit.
        expires_ms: end of its lease, milliseconds since the epoch.
        ended: whether it has given up or is through.
    """

    number: int
    token: str
    run_id: str
    process: Process
    expires_ms: int
    lease_ms: int
    ended: bool = False

    def is_alive(self, host: Host) -> bool:
        """Whether it may still be working; half a lease of grace allows for clocks that differ."""
        if self.ended or host.is_gone(self.process):
            return False
        return host.clock.now_ms() <= self.expires_ms + self.lease_ms // 2


class Attempt:
    """This process's attempt of a run."""

    def __init__(self, storage: Storage, host: Host, run: RunIdentity, record: AttemptRecord) -> None:
        self._storage = storage
        self._host = host
        self._run = run
        self._record = record
        self._mutex = threading.Lock()

    @property
    def number(self) -> int:
        return self._record.number

    @property
    def token(self) -> str:
        return self._record.token

    def check(self) -> None:
        """Make sure that no newer attempt exists; renew the lease. Raises: FencedError."""
        numbers = _numbers(self._storage, self._run.key)
        if numbers[-1:] != [self.number]:
            newest = numbers[-1] if numbers else None
            raise FencedError(
                f"attempt {self.number} of run {self._run.run_id!r} was superseded"
                + (f" by attempt {newest}" if newest else ": the run is over"),
                culprit=self._run.run_id,
                hint="the newest attempt of a run publishes it; nothing has to be done here",
            )
        self.renew()

    def renew(self) -> None:
        """Extend the lease. A file that was tidied away stays away: the run is over."""
        with self._mutex:
            if not self._record.ended:
                expires = self._host.clock.now_ms() + self._record.lease_ms
                self._rewrite(replace(self._record, expires_ms=expires))

    def end(self) -> None:
        """Say that this attempt does nothing any more; best effort, its lease runs out anyway."""
        with self._mutex:
            for _ in range(_END_TRIES):
                if not noted("the attempt was not ended", lambda: self._rewrite(replace(self._record, ended=True))):
                    return

    def _rewrite(self, record: AttemptRecord) -> None:
        self._record = record
        path = attempt_path(self._run.key, self.number)
        if is_there(self._storage, path):
            records.put(self._storage, path, _encode(record))


def start_attempt(storage: Storage, host: Host, run: RunIdentity, lease_ms: int) -> Attempt:
    """Make the next attempt of a run, superseding all before it."""
    token = host.new_token()
    while True:
        numbers = _numbers(storage, run.key)
        number = (numbers[-1] if numbers else 0) + 1
        record = AttemptRecord(number, token, run.run_id, host.process, host.clock.now_ms() + lease_ms, lease_ms)
        data = _encode(record)
        if records.settle(storage, attempt_path(run.key, number), data) == data:
            return Attempt(storage, host, run, record)


def newest_attempt(storage: Storage, run_key: str) -> AttemptRecord | None:
    """The newest attempt of a run; ``None`` if the run is over, never started, or its newest attempt's record is torn.

    Raises:
        TableCorruptError: the record is none of ours.
    """
    numbers = _numbers(storage, run_key)
    if not numbers:
        return None
    path = attempt_path(run_key, numbers[-1])
    found = records.load(storage, path)
    if not found:
        return None
    try:
        return AttemptRecord(process=Process(**found.pop("process")), **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None


def run_folder(run_key: str) -> str:
    return f"{RUNS_FOLDER}/{run_key}"


def _numbers(storage: Storage, run_key: str) -> list[int]:
    listed = storage.list_folder(f"{run_folder(run_key)}/attempts").objects
    names = (one.path.rpartition("/")[2].removesuffix(".json") for one in listed)
    return sorted(int(name) for name in names if name.isdecimal())


def attempt_path(run_key: str, number: int) -> str:
    return f"{run_folder(run_key)}/attempts/{number:0{_DIGITS}d}.json"


def _encode(record: AttemptRecord) -> bytes:
    return records.encode(json_of(record))


class PlannedFile(Frozen):
    """One data file that a run is going to write.

    Attributes:
        write_token: ``<task>-<stage>-<attempt>`` of its name.
        previous: the slice that it replaces; ``None`` for a new file group.
        updates: rows it replaces, as the inflight file says.
        inserts: rows it adds, likewise.
    """

    partition_path: str
    file_id: str
    write_token: str
    previous: BaseFile | None = None
    updates: int = 0
    inserts: int = 0

    def at(self, instant: str) -> BaseFile:
        return BaseFile(self.partition_path, self.file_id, instant, self.write_token)


class Replacement(Frozen):
    """What a write takes out of the table; such a write ends as a replacecommit.

    Attributes:
        files: live base files as they were read: their groups are no part of the table afterwards.
        index: the index that is in force afterwards (its type and bound options, as JSON), or None if that stays.
        everywhere: whether the change of the index is about partitions, too, that are not there yet.
        begins_as: the action of its pending files.
        groups_only: whether what others write into the same partitions may stay beside it.
    """

    files: tuple[BaseFile, ...]
    index: dict[str, Any] | None = None
    everywhere: bool = False
    begins_as: str = names.REPLACE_COMMIT
    groups_only: bool = False

    @property
    def partitions(self) -> frozenset[str]:
        """Partitions that lose file groups."""
        return frozenset(file.partition_path for file in self.files)


class RunPlan(Frozen):
    """The plan.

    Attributes:
        digest: digest of what is written where.
        generation: which plan of the run it is, from 1.
    """

    instant: str
    digest: str
    generation: int
    planned: tuple[PlannedFile, ...]
    token: str
    replacement: Replacement | None = None

    @property
    def action(self) -> str:
        return action_of(self.replacement)

    @property
    def begins_as(self) -> str:
        """The action of its pending files."""
        return begun_as(self.replacement)

    @property
    def files(self) -> tuple[BaseFile, ...]:
        """The data files, in the order they were planned; sizes are not known yet."""
        return tuple(one.at(self.instant) for one in self.planned)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that are written to or lose file groups, sorted."""
        lost = self.replacement.partitions if self.replacement is not None else frozenset()
        return tuple(sorted({one.partition_path for one in self.planned} | lost))


def action_of(replacement: Replacement | None) -> str:
    """The action of a write: a replacecommit if it takes file groups out of the table."""
    return names.COMMIT if replacement is None else names.REPLACE_COMMIT


def begun_as(replacement: Replacement | None) -> str:
    """The action of a write's pending files."""
    return names.COMMIT if replacement is None else replacement.begins_as


def newest_plan(storage: Storage, run_key: str) -> RunPlan | None:
    """The newest plan of a run that says something: a torn one was never followed. Raises: TableCorruptError."""
    listed = storage.list_folder(run_folder(run_key)).objects
    for path in reversed([one.path for one in listed if one.path.rpartition("/")[2].startswith(_PLAN_PREFIX)]):
        found = records.load(storage, path)
        if found:
            return _plan_of(found, path)
    return None


def store_plan(storage: Storage, run_key: str, plan: RunPlan) -> RunPlan:
    """Store a plan as its generation, unless another attempt has: the plan that stands."""
    path = f"{run_folder(run_key)}/{_PLAN_PREFIX}{plan.generation:0{_PLAN_DIGITS}d}.json"
    data = records.encode(json_of(plan))
    standing = records.settle_record(storage, path, data, durable=False)
    return plan if standing == data else _plan_of(records.decode(standing, path), path)


def forget_run(storage: Storage, run_key: str) -> None:
    """Remove all records of a run that is over, and its folder; best effort."""
    folder = run_folder(run_key)
    records.tidy(storage, [one.path for one in storage.list(folder)])
    with suppress(StorageError):
        remove_empty_folders(storage, folder)


def _plan_of(found: dict[str, Any], path: str) -> RunPlan:
    try:
        planned = tuple(_planned_of(one) for one in found.pop("planned"))
        replacement = _replacement_of(found.pop("replacement", None))
        return RunPlan(planned=planned, replacement=replacement, **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None


def _planned_of(found: dict[str, Any]) -> PlannedFile:
    previous = found.pop("previous")
    return PlannedFile(previous=None if previous is None else BaseFile(**previous), **found)


def _replacement_of(found: dict[str, Any] | None) -> Replacement | None:
    if found is None:
        return None
    return Replacement(files=tuple(BaseFile(**one) for one in found.pop("files")), **found)


CLAIMS_FOLDER: Final = f"{records.OWN_FOLDER}/instants"


class Claim(Frozen):
    """Content of one claim.

    Attributes:
        token: unique to the claim.
        run_key: folder of the run that writes it; empty for another writer's instant that we roll back.
        torn: whether the record, or that of the lock it was made beside, says nothing: whoever made it counts as dead.
    """

    instant: str
    token: str
    run_key: str = ""
    run_id: str = ""
    batch_id: str = ""
    attempt: int = 0
    torn: bool = False


def claim_new_instant(
    context: WriteContext, run: RunIdentity, attempt: int, action: str = names.COMMIT, requested: bytes = b""
) -> str:
    """Take an instant that nobody has, greater than all on the timeline, and put its requested file there.

    Two writers never share one: among ours the claim decides, towards Hudi the exclusive creation of the requested
    file. If its answer was lost and Hudi really asked for the same millisecond, the contents of the inflight file tell
    them apart before any data file is written. A heartbeat that was begun in vain stays: it may be the other writer's
    by now.

    Args:
        action: what it is going to be: a commit or a replacecommit.
        requested: content of the requested file; the same for all instants of the action.
    """
    storage = context.storage
    timeline = context.table.load_timeline()
    floor = timeline.max_time
    while True:
        time = names.next_instant_time(floor, context.table_clock_ms)
        claim = Claim(time, context.host.new_token(), run.key, run.run_id, run.batch_id, attempt)
        path = timeline.path(Instant(time, action, InstantState.REQUESTED))
        if _claimed(storage, claim):
            untold = load_verdict(storage, time) is None
            if untold and begin_heartbeat(storage, time) and records.create_alike(storage, path, requested):
                found = context.table.load_timeline().find(time)
                if found and all(one.action == action and not one.is_completed for one in found):
                    return time
                records.remove(storage, [path])
            records.remove(storage, [claim_path(time)])
        floor = time


def claim_scheduled(context: WriteContext, run: RunIdentity, attempt: int, time: str, action: str) -> None:
    """Take a clustering that was scheduled, to carry it out.

    Raises:
        WriteConflictError: somebody has it already, or it is gone.
    """
    storage = context.storage
    claim = Claim(time, context.host.new_token(), run.key, run.run_id, run.batch_id, attempt)
    if load_verdict(storage, time) is None and _claimed(storage, claim):
        found = context.table.load_timeline().find(time)
        is_free = [(one.action, one.state) for one in found] == [(action, InstantState.REQUESTED)]
        if is_free and begin_heartbeat(storage, time):
            return
        drop_claim(storage, time)
    raise WriteConflictError(
        f"the clustering scheduled at {time} is being carried out, or is gone",
        culprit=time,
        hint="look at `lakeindex history`",
    )


def claim_foreign(storage: Storage, host: Host, time: str) -> None:
    """Claim another writer's dead instant, so that its rollback is finished whatever happens to us."""
    while not _claimed(storage, Claim(time, host.new_token())) and load_claim(storage, time) is None:
        continue  # another one dropped it meanwhile


def load_claims(storage: Storage) -> list[Claim]:
    """All claims, newest first. Raises: TableCorruptError."""
    listed = reversed(list_names(storage, CLAIMS_FOLDER))
    claims = (load_claim(storage, name.removesuffix(".json")) for name in listed if name.endswith(".json"))
    return [claim for claim in claims if claim is not None]


def drop_claim(storage: Storage, time: str) -> None:
    """Remove a claim: nothing is left to do for its instant."""
    records.remove(storage, [claim_path(time)])


def claim_path(time: str) -> str:
    return f"{CLAIMS_FOLDER}/{time}.json"


def load_claim(storage: Storage, time: str) -> Claim | None:
    """The claim of an instant, if there is one; of a torn one only the instant is known. Raises: TableCorruptError."""
    path = claim_path(time)
    found = records.load(storage, path)
    if found is None:
        return None
    if not found:
        return Claim(time, "", torn=True)
    try:
        return Claim(**found)
    except TypeError as error:
        raise records.damaged(path, repr(error)) from None


def _claimed(storage: Storage, claim: Claim) -> bool:
    """Create a claim, durably: nothing of its instant may outlive it.
    False if another one stands there, or it was dropped.

    So is the attempt's record: by its number the next one knows that there was one before.
    """
    path = claim_path(claim.instant)
    record = json_of(claim)
    del record["torn"]  # is said by the file, not in it
    data = records.encode(record)
    if records.settle(storage, path, data) != data:
        return False
    attempt = [attempt_path(claim.run_key, claim.attempt)] if claim.run_key else []
    for paths in ([*attempt, path], [path]):
        try:
            storage.sync(paths)
        except ObjectNotFoundError:
            continue  # the attempt's record, if the run is over; else the claim
        return True
    return False
