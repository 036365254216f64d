"""Somebody acts between any two storage calls of Hudi's locks: nobody loses a lock that he has just taken."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from lakeindex.errors import FencedError
from lakeindex.lock.hudi_lock import HudiLock, hudi_lock
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import Call, MemoryStorage
from tests.unit.commit.protocol_support import World
from tests.unit.lock.test_hudi_locks import BOTH, EXPIRE_MS, STORAGE, VALID_MS, path_of, put_hudis

LONG_MS = EXPIRE_MS + VALID_MS + 60_000


@dataclass
class Intruder:
    """Another writer of Hudi, that acts just before one storage call; 0: it never does."""

    world: World
    acts: Callable[[World], bytes | None]
    at: int
    calls: list[Call] = field(default_factory=list)
    wrote: bytes | None = None

    def __call__(self, call: Call) -> None:
        self.calls.append(call)
        if len(self.calls) == self.at:
            self.world.store.hook = None
            self.wrote = self.acts(self.world)
            self.world.store.hook = self

    @property
    def came_too_late_to_be_seen(self) -> bool:
        """Between a second look and the deletion nobody can look again: file systems do not delete by condition, for
        Hudi neither.
        """
        before = [call.name for call in self.calls[: self.at - 1]]
        return 0 < self.at <= len(self.calls) and self.calls[self.at - 1].name == "delete" and before.count("read") > 1


def lock_of(world: World, config: WriteConfig) -> HudiLock:
    lock = hudi_lock(world.store, world.host("ours"), config, "test")
    assert lock is not None
    return lock


def left_by(world: World, config: WriteConfig, state: str) -> None:
    """What stands when the lock is asked for."""
    if state == "killed run of ours":
        assert lock_of(world, config).try_acquire() is None
    elif state != "none":
        put_hudis(world, config, owner="" if state == "dead, empty" else "a-java-uuid")
        if state.startswith("dead"):
            world.clock.sleep(LONG_MS / 1000)


STATES = ("none", "killed run of ours", "dead", "dead, empty", "alive")


@dataclass
class Outcome:
    """How it went.

    Attributes:
        intruder: who came in between.
        had: whether the check said that the lock is held, after the intruder had come.
        stands: the lock at the end.
    """

    intruder: Intruder
    had: bool
    stands: bytes | None

    @property
    def wrong(self) -> list[str]:
        """What must not be."""
        intruder = self.intruder
        if intruder.wrote is None or intruder.came_too_late_to_be_seen:
            return []
        call = intruder.calls[intruder.at - 1]
        found = [] if self.stands == intruder.wrote else [f"{self.stands!r} stands there"]
        return [f"before {call.name}, call {call.number}: {one}" for one in found + ["both have it"] * self.had]


def played(config: WriteConfig, state: str, acts: Callable[[World], bytes | None], at: int) -> Outcome:
    """The whole life of a lock: taken, renewed, checked, let go of."""
    world = World()
    left_by(world, config, state)
    lock, intruder, had = lock_of(world, config), Intruder(world, acts, at), False
    world.store.hook = intruder
    if lock.try_acquire() is None:
        lock.renew()
        with suppress(FencedError):
            lock.check()
            had = intruder.wrote is not None
        lock.release()
    world.store.hook = None
    return Outcome(intruder, had, world.store.snapshot().get(path_of(config)))


def moments(config: WriteConfig, state: str, acts: Callable[[World], bytes | None]) -> list[Outcome]:
    """The intruder before every call."""
    alone = played(config, state, acts, 0)
    return [played(config, state, acts, at) for at in range(1, len(alone.intruder.calls) + 1)]


@BOTH
@pytest.mark.parametrize("owner", ["another-uuid", "a-java-uuid", ""], ids=["another", "itself again", "empty"])
def test_who_takes_the_lock_between_two_calls_keeps_it(config: WriteConfig, owner: str) -> None:
    """The files of Hudi are empty, and a holder may wake up: what is new can have the bytes of what was dead."""
    found = {s: moments(config, s, lambda world: put_hudis(world, config, owner=owner)) for s in STATES}
    assert {
        state: wrong for state, all_of in found.items() if (wrong := [w for one in all_of for w in one.wrong])
    } == {}
    assert sum(one.intruder.wrote is not None for all_of in found.values() for one in all_of) >= 20


@BOTH
def test_a_lock_that_its_holder_lets_go_of_between_two_calls_is_had_soon(config: WriteConfig) -> None:
    def let_go(world: World) -> None:
        if config.lock_provider is STORAGE.lock_provider:
            world.store.write(path_of(config), b'{"expired":true,"validUntil":1,"owner":"a-java-uuid"}')
        else:
            world.store.delete(path_of(config))

    for state in ("dead", "alive"):
        for at in range(1, 5):
            world = World()
            left_by(world, config, state)
            lock = lock_of(world, config)
            world.store.hook = Intruder(world, let_go, at)
            assert any(lock.try_acquire() is None for _ in range(3)), (state, at)
            world.store.hook = None
            lock.check()


class ByAnyName(MemoryStorage):
    """One store that is reached by several addresses."""

    address = ""

    @property
    def uri(self) -> str:
        return self.address


@pytest.mark.parametrize(("one", "other"), [("s3", "s3a"), ("s3a", "s3"), ("s3", "s3"), ("abfs", "abfss")])
def test_the_lock_of_a_killed_run_is_ours_under_every_scheme_of_its_store(one: str, other: str) -> None:
    world = World()
    world.store = ByAnyName(now_ms=world.clock.now_ms)
    world.store.address = f"{one}://bucket/table"
    assert lock_of(world, STORAGE).try_acquire() is None
    world.store.address = f"{other}://bucket/other"
    assert "lakeindex" in str(lock_of(world, STORAGE).try_acquire()), "another table"
    world.store.address = f"{other}://bucket/table"
    assert lock_of(world, STORAGE).try_acquire() is None
