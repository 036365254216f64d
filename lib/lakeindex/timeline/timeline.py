"""The active timeline: which instants exist, and what the completed ones changed.

One listing gives all instants. A completed file wins over the requested and inflight files of the same action, which
stay beside it.

Two methods say what counts, and everybody asks them. :meth:`Timeline.is_visible` is about data files. As in Hudi, a
file whose instant is older than the timeline was committed, unless the instant is still pending: whoever takes a commit
back deletes its files. :meth:`Timeline.is_committed` is about what we keep of a commit elsewhere (the ledger, a change
of the index), which a writer that does not know of it never deletes: being older than the timeline proves nothing, the
archived timeline does.

Source: Hudi 0.15 and 1.2, ``containsOrBeforeTimelineStarts`` on the write timeline. Unlike Hudi we also take what was
archived from between the instants of the active timeline (archiving beyond a savepoint) for committed: Hudi hides it
until the savepoint is gone.
"""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import ClassVar, Final, TypeAlias

from lakeindex.errors import (
    ObjectNotFoundError,
    TableCorruptError,
    TableUnsupportedError,
    TimelineChangedError,
)
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.format.instants import comparable
from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.model import Instant, InstantState
from lakeindex.storage import Storage, in_parallel, list_names
from lakeindex.storage.port import read_once
from lakeindex.timeline import records
from lakeindex.timeline.archived_timeline import (
    ArchivedTimeline,
    ArchiveFile,
    archive_files,
    ends_around,
    load_archived_timeline,
)
from lakeindex.timeline.avro_instants import (
    OWN_SYNC_MARKER,
    RestorePlan,
    RollbackPlan,
    Undone,
    parse_requested_replace,
    parse_restore,
    parse_restore_plan,
    parse_rollback_plan,
    parse_undone,
)
from lakeindex.timeline.layout import TimelineLayout
from lakeindex.timeline.verdicts import load_verdict, verdict_times

_ORDER: Final = (InstantState.REQUESTED, InstantState.INFLIGHT, InstantState.COMPLETED)
CLUSTERING_ACTIONS: Final = frozenset({names.REPLACE_COMMIT, names.CLUSTERING})
"""Actions of pending files under which a clustering may be planned."""

_UNDOING: Final = {names.ROLLBACK: parse_undone, names.RESTORE: parse_restore}

_Order: TypeAlias = tuple[str, str, str, int]
_Placed: TypeAlias = tuple[_Order, tuple[str, str], Instant]
"""Where an instant file stands among others, whose it is (time and action when completed), and what its name says."""

_BY_ORDER: Final = itemgetter(0)


class PendingRollback(Frozen):
    """A rollback on the timeline that is not completed."""

    time: str
    plan: RollbackPlan
    is_ours: bool


class InstantFiles(Frozen, dict=True):
    """What the names of the files of a timeline say; a run lists the same ones again and again.

    Attributes:
        placed: every instant file, in time order.
        unknown: names of those with an action or a state that is not known.
    """

    placed: tuple[_Placed, ...]
    unknown: tuple[str, ...] = ()

    @staticmethod
    def of(files: Iterable[Instant]) -> InstantFiles:
        return InstantFiles(tuple(sorted(map(_placed, files), key=_BY_ORDER)))

    @cached_property
    def files(self) -> tuple[Instant, ...]:
        return tuple([instant for _, _, instant in self.placed])

    @cached_property
    def instants(self) -> tuple[Instant, ...]:
        return tuple({subject: instant for _, subject, instant in self.placed}.values())  # of each the last one

    @cached_property
    def completed(self) -> tuple[Instant, ...]:
        return tuple([one for one in self.instants if one.state is InstantState.COMPLETED])

    @cached_property
    def pending(self) -> tuple[Instant, ...]:
        return tuple([one for one in self.instants if one.state is not InstantState.COMPLETED])

    @cached_property
    def completed_writes(self) -> tuple[Instant, ...]:
        return tuple([one for one in self.completed if one.action in names.WRITE_ACTIONS])

    @cached_property
    def completed_write_times(self) -> frozenset[str]:
        return frozenset([one.time for one in self.completed_writes])

    @cached_property
    def savepoints(self) -> frozenset[str]:
        return frozenset([one.time for one in self.completed if one.action == names.SAVEPOINT])

    @cached_property
    def max_time(self) -> str | None:
        newest = self.files[-1].time if self.files else None
        ends = [one.completion_time for one in self.files if one.completion_time is not None]
        return max(filter(None, (newest, *ends)), key=comparable, default=None)

    def find(self, time: str) -> tuple[Instant, ...]:
        first = bisect_left(self.instants, _time_order(time), key=lambda one: _time_order(one.time))
        return tuple(itertools.takewhile(lambda one: one.time == time, self.instants[first:]))


def _time_order(time: str) -> tuple[str, str]:
    return comparable(time), time


def _placed(instant: Instant) -> _Placed:
    time, action = instant.time, names.completed_action(instant.action)
    return (*_time_order(time), action, _ORDER.index(instant.state)), (time, action), instant


@lru_cache(maxsize=131_072)
def _placed_by_name(name: str) -> _Placed | None:
    """A name always stands for the same instant."""
    instant = names.parse_instant(name)
    return None if instant is None else _placed(instant)


@lru_cache(maxsize=131_072)
def _is_unknown(name: str) -> bool:
    return names.is_unknown_instant(name)


@lru_cache(maxsize=8)
def _named(listed: tuple[str, ...]) -> InstantFiles:
    placed = sorted(filter(None, map(_placed_by_name, listed)), key=_BY_ORDER)
    return InstantFiles(tuple(placed), tuple(filter(_is_unknown, listed)))


class Timeline(ComparedInPart, dict=True):
    """The instants of a table at one moment, in time order.

    Attributes:
        storage: the table's folder; ``None`` of a timeline that was not loaded from one, and has no archive.
    """

    aside: ClassVar = frozenset({"storage"})
    layout: TimelineLayout
    listed: InstantFiles
    storage: Storage | None = None

    @staticmethod
    def load(storage: Storage, layout: TimelineLayout) -> Timeline:
        """The timeline of the table in a folder. The writes that a restore takes away are pending from the moment on
        in which it began, so that readers see the table before it or after it, and nothing in between.
        """
        return Timeline.listing(storage, layout).restored()

    @staticmethod
    def listing(storage: Storage, layout: TimelineLayout) -> Timeline:
        """The same as it is listed, while a restore is under way, too."""
        return Timeline(layout, _named(list_names(storage, layout.folder)), storage)

    @staticmethod
    def of(layout: TimelineLayout, files: Iterable[Instant], storage: Storage | None = None) -> Timeline:
        return Timeline(layout, InstantFiles.of(files), storage)

    @property
    def files(self) -> tuple[Instant, ...]:
        """Every instant file, as it is (all states)."""
        return self.listed.files

    @property
    def instants(self) -> tuple[Instant, ...]:
        """One instant for each time and action, in its furthest state, in time order."""
        return self.listed.instants

    @property
    def completed(self) -> tuple[Instant, ...]:
        return self.listed.completed

    @property
    def pending(self) -> tuple[Instant, ...]:
        """Instants of every action that are requested or inflight, and not completed."""
        return self.listed.pending

    @property
    def completed_writes(self) -> tuple[Instant, ...]:
        return self.listed.completed_writes

    @cached_property
    def pending_writes(self) -> tuple[Instant, ...]:
        """Pending instants that would end as a commit, deltacommit or replacecommit."""
        return tuple(one for one in self.pending if names.completed_action(one.action) in names.WRITE_ACTIONS)

    def pending_rollbacks(self, storage: Storage) -> list[PendingRollback]:
        """The rollbacks that are not completed; an unreadable plan names no instant and is passed over."""
        found: list[PendingRollback] = []
        for one in self.pending:
            if one.action != names.ROLLBACK:
                continue
            path = self.path(Instant(one.time, one.action, InstantState.REQUESTED))
            with suppress(ObjectNotFoundError, TableCorruptError):
                data, plan = records.read_filled(
                    storage, path, lambda data, path: (data, parse_rollback_plan(data, path))
                )
                found.append(PendingRollback(one.time, plan, OWN_SYNC_MARKER in data))
        return found

    def without_completed(self, times: Collection[str]) -> Timeline:
        """The timeline as it will be once the writes of some instants are not completed any more."""
        gone = {one for one in self.completed_writes if one.time in times}
        return Timeline.of(self.layout, (one for one in self.files if one not in gone), self.storage)

    def restored(self) -> Timeline:
        """The timeline as it is for readers: without what the restore that is under way takes away."""
        found = self.restore_in_force()
        if found is None:
            return self
        going = {time for time, _ in found[1].instants}
        files = (
            Instant(one.time, one.action, InstantState.INFLIGHT)
            if one.is_completed and one.action in names.WRITE_ACTIONS and one.time in going
            else one
            for one in self.files
        )
        return Timeline.of(self.layout, files, self.storage)

    def restore_in_force(self) -> tuple[str, RestorePlan] | None:
        """The restore that has begun, and its plan; None if there is none.

        One that was left, and which somebody has written after since, is over: what is there counts.

        Raises:
            TableCorruptError: its plan cannot be read.
        """
        for one in reversed(self.pending):
            if one.action == names.RESTORE and one.state is InstantState.INFLIGHT:
                plan = self.restore_plan(one.time)
                if plan is not None and not self.written_since(one.time, plan):
                    return one.time, plan
        return None

    def restore_plan(self, time: str) -> RestorePlan | None:
        """What a restore takes away; None if its plan is not there.

        Raises:
            TableCorruptError: nobody can tell, the plan cannot be read.
        """
        if self.storage is None:
            return None
        path = self.path(Instant(time, names.RESTORE, InstantState.REQUESTED))
        try:
            return records.read_filled(self.storage, path, parse_restore_plan)
        except ObjectNotFoundError:
            return None
        except TableCorruptError as error:
            raise TableCorruptError(
                f"the plan of restore {time} cannot be read, so nobody can tell which commits it takes away: "
                f"{error.message}",
                culprit=path,
                hint=f"bring {path} back from a copy; without one delete all files of {time} on the timeline when no "
                "writer is running: commits that it has not taken away yet stay, and the table can be restored again",
            ) from None

    def written_since(self, time: str, plan: RestorePlan) -> bool:
        """Whether a write was completed that is newer than a restore, and that it does not take away."""
        going = {one for one, _ in plan.instants}
        return any(comparable(one.time) > comparable(time) and one.time not in going for one in self.completed_writes)

    @property
    def completed_write_times(self) -> frozenset[str]:
        return self.listed.completed_write_times

    @cached_property
    def pending_times(self) -> frozenset[str]:
        """Times of the pending instants; a savepoint that is not completed bears that of a commit which is."""
        return frozenset(instant.time for instant in self.pending if instant.action != names.SAVEPOINT)

    @property
    def savepoints(self) -> frozenset[str]:
        """Times of the commits that a completed savepoint keeps."""
        return self.listed.savepoints

    @property
    def first_write_time(self) -> str | None:
        """Where the active timeline starts: its first completed write, savepointed or not."""
        return self.completed_writes[0].time if self.completed_writes else None

    @property
    def last_completed_write_time(self) -> str | None:
        """Time of the newest completed write; ``None`` on a table without any."""
        return self.completed_writes[-1].time if self.completed_writes else None

    @property
    def max_time(self) -> str | None:
        """Greatest time of any instant in any state, or of its completion; a new one of either must be greater."""
        return self.listed.max_time

    def is_visible(self, time: str) -> bool:
        """Whether a data file of this instant belongs to the table.

        It does if the write is completed, or if it is older than the active timeline (archived) and not pending.
        Between the instants of the timeline only the archive tells: it is read if there is such a file. An instant that
        we rolled back never counts: a zombie may write a file of it after that, and as long as nothing on the timeline
        is older, Hudi shows it.
        """
        if time in self.completed_write_times:
            return True
        first = self.first_write_time
        if first is None or time in self.pending_times:
            return False
        if comparable(time) < comparable(first):
            return not self.was_rolled_back(time)
        return self._was_archived_between(time)

    def was_rolled_back(self, time: str) -> bool:
        """Whether our verdict on an instant says so; only instants with a verdict are looked at, and each once."""
        if self.storage is None or time not in self._judged:
            return False
        if time not in self._tombstoned:
            verdict = load_verdict(self.storage, time)
            self._tombstoned[time] = verdict is not None and not verdict.is_committed
        return self._tombstoned[time]

    @read_once
    def _judged(self) -> frozenset[str]:
        """Instants that we have a verdict on; of archived commits there is none any more."""
        return frozenset() if self.storage is None else verdict_times(self.storage)

    @cached_property
    def _tombstoned(self) -> dict[str, bool]:
        return {}

    def check_known(self) -> None:
        """Refuse to write beside what is not understood: an action or a state may mean what must not be passed over.

        Raises:
            TableUnsupportedError: there is an instant of an unknown action or state.
        """
        for name in self.listed.unknown:
            path = f"{self.layout.folder}/{name}"
            raise TableUnsupportedError(
                f"{path} is an instant of an action or a state that this release does not know",
                culprit=path,
                hint="write to it with the release of Hudi that made it; if the file is no instant, move it away",
            )

    def is_committed(self, time: str) -> bool:
        """Whether what was noted of a write when it was committed still holds: it is part of the table.

        For an instant that is no longer on the timeline, the archive tells, and the rollbacks and restores on the
        timeline. Where neither does (the archive was deleted, or begins later), it counts if it is older than the
        timeline.
        """
        if time in self.completed_write_times:
            return True
        if not self.is_visible(time):
            return False
        known = self.archived.knows(time)
        return known if known is not None else time not in self.undone.instants

    def _was_archived_between(self, time: str) -> bool:
        last = self.last_completed_write_time
        if last is None or comparable(time) > comparable(last):
            return False
        return self.archived.knows(time) is True

    @read_once
    def archived(self) -> ArchivedTimeline:
        """What the archived timeline proves; it is read when it is first asked for."""
        if self.storage is None:
            return ArchivedTimeline()
        return load_archived_timeline(self.storage, self.layout.archive_folder)

    def archived_ends(self, point: str) -> Mapping[str, str]:
        """When archived writes were completed, as of :func:`~lakeindex.timeline.archived_timeline.ends_around`."""
        return ends_around(self._archive_files, point)

    @read_once
    def _archive_files(self) -> tuple[ArchiveFile, ...]:
        """Those that count; none of an archive whose manifest is damaged."""
        with suppress(TableCorruptError):
            return () if self.storage is None else archive_files(self.storage, self.layout.archive_folder)
        return ()

    @read_once
    def undone(self) -> Undone:
        """What the completed rollbacks and restores on the timeline have taken back; read when first asked for.

        One that cannot be read says nothing. An instant that is on the timeline is not undone: it was done again.
        """
        if self.storage is None:
            return Undone()
        taking = [one for one in self.completed if one.action in _UNDOING]
        found = Undone.joined(in_parallel(self.storage.uri, self.undone_by, taking))
        return Undone(found.instants - self.completed_write_times, found.files)

    def undone_by(self, instant: Instant) -> Undone:
        """What one completed rollback or restore has taken back; nothing if it cannot be read."""
        path = self.path(instant)
        parse = _UNDOING[instant.action]
        try:
            return Undone() if self.storage is None else records.read_filled(self.storage, path, parse)
        except (ObjectNotFoundError, TableCorruptError):
            return Undone()

    def completed_write(self, time: str) -> Instant | None:
        return next((one for one in self.find(time) if one.is_completed and one.action in names.WRITE_ACTIONS), None)

    def find(self, time: str) -> tuple[Instant, ...]:
        """The instants of one time (a savepoint has the time of its commit)."""
        return self.listed.find(time)

    def path(self, instant: Instant) -> str:
        return self.layout.path(instant)

    def commit_metadata(self, storage: Storage, instant: Instant) -> CommitMetadata:
        """What a completed (or inflight) write did (or is going to do).

        Raises:
            TableCorruptError: the file is empty, truncated or not what its name says.
            TimelineChangedError: it is gone: somebody archived or rolled the instant back.
        """
        path = self.path(instant)

        def decode(data: bytes, path: str) -> CommitMetadata:
            try:
                return self.layout.decode_commit(data, path)
            except TableCorruptError:
                text = _decided(storage, instant)
                if text is None or not records.is_part(data, text):
                    raise
                return self.layout.decode_commit(text, path)  # torn: whoever writes next makes it whole

        try:
            return records.read_filled(storage, path, decode)
        except ObjectNotFoundError:
            raise TimelineChangedError(
                f"{path} is gone: it was archived or rolled back meanwhile", culprit=path, hint="run again"
            ) from None

    def schema_text(self, storage: Storage) -> str | None:
        """The table's Avro schema, JSON, as the newest completed write says that says it; None if none does. Errors as
        of :meth:`commit_metadata`.
        """
        said = (self.commit_metadata(storage, one).schema_text for one in reversed(self.completed_writes))
        return next((text for text in said if text), None)

    def replaced_at(self, storage: Storage, as_of: str | None = None) -> dict[tuple[str, str], str]:
        """When completed replacecommits took file groups out of the table:
        (partition path, file id) -> time of the first.
        """
        replacing = [
            instant
            for instant in self.completed_writes
            if instant.action == names.REPLACE_COMMIT and _not_after(instant.time, as_of)
        ]

        def replaced_by(instant: Instant) -> frozenset[tuple[str, str]]:
            return self.commit_metadata(storage, instant).replaced()

        replaced = in_parallel(storage.uri, replaced_by, replacing)
        newest_first = zip(reversed(replacing), reversed(replaced), strict=True)
        return {group: instant.time for instant, groups in newest_first for group in groups}

    def pending_clustering(self, storage: Storage) -> dict[tuple[str, str], str]:
        """File groups, as (partition path, file id), that a pending clustering is going to replace -> its instant.

        Who writes to them until it completes is refused, or it is rolled back (``hoodie.clustering.updates.strategy``).
        """
        groups: dict[tuple[str, str], str] = {}
        for instant in self.pending:
            if instant.action in CLUSTERING_ACTIONS:
                path = self.path(Instant(instant.time, instant.action, InstantState.REQUESTED))
                try:
                    planned = records.read_filled(storage, path, parse_requested_replace)
                    groups |= dict.fromkeys(planned.input_groups, instant.time)
                except ObjectNotFoundError:
                    continue  # completed, rolled back or never requested since the listing
        return groups


def _decided(storage: Storage, instant: Instant) -> bytes | None:
    """The text of a completed commit as its verdict has it, as long as it does."""
    verdict = load_verdict(storage, instant.time) if instant.is_completed else None
    return None if verdict is None else verdict.commit


def _not_after(time: str, as_of: str | None) -> bool:
    return as_of is None or comparable(time) <= comparable(as_of)
