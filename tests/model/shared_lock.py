"""A Hudi writer that shares Hudi's lock with us, as a script of its storage calls: optimistic concurrency, LAZY cleaning.

It notes what is completed, begins a heartbeat, requests its instant, reads the table and writes. Then, under the lock: it
gives up if a write that it did not know of has changed a file group that it changes, too; else it completes. Then it rolls
back what is pending and shows no heartbeat. Its locks are those of 1.2.0 (:mod:`lakeindex.lock` has the facts).
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from msgspec.structs import replace

from lakeindex.errors import ObjectChangedError, ObjectExistsError, ObjectNotFoundError
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.options.types import LockProvider, WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from tests.model.hudi_writer import COMPLETED, INFLIGHT, HudiError, roll_back, write_files
from tests.model.scheduling import Actor, ModelClock
from tests.model.stories import GROUPS, HUDI_ROWS, JANITOR, OVERLAPPING, Cast, HudiStory
from tests.model.world import (
    CONFIG,
    LAYOUT,
    PARTITION,
    PlainClock,
    Rows,
    make_host,
    sweep_strays,
    timeline_path,
    upsert,
)

FILE: Final = ".hoodie/lock"
OBJECT: Final = ".hoodie/.locks/table_lock.json"
VALID_MS: Final = 10_000
EXPIRE_MS: Final = 60_000
HEARTBEAT_MS: Final = 120_000
OWNER: Final = "a-writer-of-hudi"
SHARED: Final = replace(
    CONFIG, lock_wait_seconds=180, lock_validity_seconds=VALID_MS // 1000, lock_renew_seconds=1, lock_expire_minutes=1
)


@dataclass(frozen=True)
class SharedLock:
    """Hudi's side of one of its locks."""

    provider: LockProvider
    storage: Storage
    clock: PlainClock | ModelClock

    def take(self) -> None:
        while not (self._took_file() if self.provider is LockProvider.FILE_SYSTEM else self._took_object()):
            self.clock.sleep(1)

    def let_go(self) -> None:
        if self.provider is LockProvider.FILE_SYSTEM:
            self.storage.delete(FILE)
            return
        try:
            self.storage.replace(OBJECT, self._record(expired=True), self.storage.head(OBJECT).etag or "")
        except ObjectChangedError:
            raise HudiError("the lock was acquired by others") from None

    def _took_file(self) -> bool:
        try:
            self.storage.create(FILE, json.dumps({"lockThreadName": OWNER}).encode())
        except ObjectExistsError:
            try:
                age = self.clock.now_ms() - self.storage.head(FILE).modified_ms
            except ObjectNotFoundError:
                return False
            if age > EXPIRE_MS:
                self.storage.delete(FILE)
            return False
        return True

    def _took_object(self) -> bool:
        try:
            etag = self.storage.head(OBJECT).etag or ""
            found = json.loads(self.storage.read(OBJECT))
        except ObjectNotFoundError:
            try:
                self.storage.create(OBJECT, self._record())
            except ObjectExistsError:
                return False
            return True
        if not found["expired"] and self.clock.now_ms() <= found["validUntil"] + 500:
            return False
        try:
            self.storage.replace(OBJECT, self._record(), etag)
        except ObjectChangedError:
            return False
        return True

    def _record(self, *, expired: bool = False) -> bytes:
        record = {"expired": expired, "validUntil": self.clock.now_ms() + VALID_MS, "owner": OWNER}
        return json.dumps(record).encode()


def sharing_upsert(storage: Storage, rows: Rows, provider: LockProvider, clock: PlainClock | ModelClock) -> str:
    """Commit rows as Hudi does under its lock. Returns the instant. Raises: HudiError: a conflict, or its lock was lost."""
    own = itertools.count(clock.now_ms() + 60_000, 1_000)
    table = Table.open(storage)
    timeline = table.load_timeline()
    known = timeline.completed_write_times
    time = names.next_instant_time(timeline.max_time, next(own))
    storage.write(f".hoodie/.heartbeat/{time}", b"")
    stats = write_files(storage, table, rows, time)
    lock = SharedLock(provider, storage, clock)
    lock.take()
    try:
        _check_for_conflicts(storage, time, known, {stat.file_id for stat in stats})
        metadata = CommitMetadata({PARTITION: tuple(stats)}, "UPSERT", {"schema": "{}"})
        storage.create(timeline_path(time, COMPLETED), LAYOUT.encode_commit(metadata))
    finally:
        lock.let_go()
    storage.delete(f".hoodie/.heartbeat/{time}")
    for path in [one.path for one in storage.list(f".hoodie/.temp/{time}")]:
        storage.delete(path)
    clean_lazily(storage, lock, clock)
    return time


def _check_for_conflicts(storage: Storage, time: str, known: frozenset[str], changed: set[str]) -> None:
    timeline = Table.open(storage).load_timeline()
    if INFLIGHT not in {one.state for one in timeline.find(time)}:
        raise HudiError(f"inflight file of {time} is gone")
    for one in timeline.completed_writes:
        if one.time not in known:
            others = {stat.file_id for stat in timeline.commit_metadata(storage, one).stats()}
            if others & changed:
                raise HudiError(f"conflict of {time} with {one.time}")


def clean_lazily(storage: Storage, lock: SharedLock, clock: PlainClock | ModelClock) -> None:
    """Roll back what is pending without a heartbeat, or with an old one."""
    lock.take()
    try:
        timeline = Table.open(storage).load_timeline()
        newest = timeline.max_time
        for one in timeline.pending_writes:
            try:
                beat = storage.head(f".hoodie/.heartbeat/{one.time}").modified_ms
            except ObjectNotFoundError:
                beat = 0
            if clock.now_ms() - beat > HEARTBEAT_MS:
                newest = roll_back(storage, timeline, one, names.next_instant_time(newest, clock.now_ms()), lazily=True)
                storage.delete(f".hoodie/.heartbeat/{one.time}")
    finally:
        lock.let_go()


class SharedLockStory(HudiStory):
    """One writer of ours and one of Hudi, who share Hudi's lock.

    One window is left, as between Hudi's own writers: Hudi holds the lock, stands still for longer than the lock lives, and
    completes without holding it. Ours finds out when it looks after its commit, unless Hudi stands still there, too.
    """

    theirs = False

    def __init__(self, groups: tuple[Rows, ...], one: Cast, provider: LockProvider, **options: object) -> None:
        self.provider = provider
        self.config: WriteConfig = replace(SHARED, lock_provider=provider)
        super().__init__(groups, one, write=self._upsert, **options)

    def actors(self) -> list[Actor]:
        def hudi(storage: Storage) -> str:
            return sharing_upsert(
                storage, HUDI_ROWS, self.provider, ModelClock(self._require, lambda: self._actor("hudi"))
            )

        others = [one for one in super().actors() if one.name != "hudi"]
        them = Actor("hudi", hudi)
        return [them, *others] if self.hudi_first else [*others, them]

    def judge(self) -> str:
        word = super().judge()
        return "hudi's window" if word == "window" and self.theirs else word

    def fingerprint(self) -> object:
        return super().fingerprint(), self.theirs

    def recover(self) -> None:
        clock = PlainClock(self._require().now_ms + 3 * 3_600_000)
        ours, hudi = self._actor(self.one.name), self._actor("hudi")
        if ours.state != "done":
            self._again(self.one.batch, "again", clock)
        if hudi.state != "done":
            hudi.result = sharing_upsert(self.store, HUDI_ROWS, self.provider, clock)
        self._again(JANITOR, "janitor", clock)
        sweep_strays(Table.open(self.store), self.config, make_host("sweeper", clock, self._is_gone))

    def _upsert(self, *args: object, **options: object) -> str:
        run: Callable[..., str] = upsert
        return run(*args, config=self.config, **options)

    def _watch(self, actor: Actor, name: str, path: str) -> None:
        if name != "create" or not path.endswith(".commit"):
            return
        held = self.store.snapshot().get(FILE if self.provider is LockProvider.FILE_SYSTEM else OBJECT, b"")
        mine = OWNER.encode() if actor.name == "hudi" else b"lakeindex "
        lost = mine not in held or b'"expired": true' in held or b'"expired":true' in held
        self.window |= lost
        self.theirs |= lost and actor.name == "hudi"


SHARED_STORIES: Final[dict[str, Callable[[], HudiStory]]] = {
    f"hudi under its {word} lock, {order}": (
        lambda provider=provider, order=order: SharedLockStory(
            GROUPS, OVERLAPPING[0], provider, hudi_first=order == "first"
        )
    )
    for word, provider in (("file", LockProvider.FILE_SYSTEM), ("storage", LockProvider.STORAGE))
    for order in ("first", "second")
}
