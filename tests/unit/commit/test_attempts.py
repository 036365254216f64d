"""Attempts of a run."""

import pytest

from lakeindex.commit.run_records import RunIdentity, forget_run, newest_attempt, start_attempt
from lakeindex.errors import FencedError
from lakeindex.storage.memory import Fault
from tests.unit.commit.protocol_support import World

RUN = RunIdentity("manual__2026-01-01T00:00:00+00:00", "batch", "digest")


def test_the_newest_attempt_is_the_run() -> None:
    world = World()
    first = start_attempt(world.store, world.host("a"), RUN, 2_000)
    first.check()
    second = start_attempt(world.store, world.host("b"), RUN, 2_000)
    assert (first.number, second.number) == (1, 2)
    assert first.token != second.token
    with pytest.raises(FencedError, match="superseded by attempt 2"):
        first.check()
    second.check()


def test_other_runs_do_not_count() -> None:
    world = World()
    first = start_attempt(world.store, world.host("a"), RUN, 2_000)
    start_attempt(world.store, world.host("a"), RunIdentity("other", "b", "d"), 2_000)
    first.check()


def test_an_attempt_of_a_run_that_is_over_stays_out() -> None:
    world = World()
    attempt = start_attempt(world.store, world.host("a"), RUN, 2_000)
    forget_run(world.store, RUN.key)
    with pytest.raises(FencedError, match="the run is over"):
        attempt.check()
    attempt.renew()
    attempt.end()
    assert newest_attempt(world.store, RUN.key) is None


@pytest.mark.parametrize(("seconds", "alive"), [(0, True), (2.9, True), (3.1, False)])
def test_a_lease_with_grace(seconds: float, alive: bool) -> None:
    world = World()
    start_attempt(world.store, world.host("a"), RUN, 2_000)
    world.clock.sleep(seconds) if seconds else None
    newest = newest_attempt(world.store, RUN.key)
    assert newest is not None
    assert newest.is_alive(world.host("b")) is alive


def test_an_ended_or_killed_attempt_is_dead_at_once() -> None:
    world = World()
    attempt = start_attempt(world.store, world.host("a"), RUN, 2_000)
    newest = newest_attempt(world.store, RUN.key)
    assert newest is not None
    assert newest.is_alive(world.host("b"))
    world.gone.add("a")
    assert not newest.is_alive(world.host("b"))
    world.gone.clear()
    attempt.end()
    attempt.renew()
    ended = newest_attempt(world.store, RUN.key)
    assert ended is not None
    assert not ended.is_alive(world.host("b"))


def test_an_attempt_is_ended_though_the_store_stutters() -> None:
    """Until its lease is out everybody would wait for it."""
    world = World()
    attempt = start_attempt(world.store, world.host("a"), RUN, 2_000)
    failures = [Fault.ERROR, Fault.ERROR]
    world.store.hook = lambda call: failures.pop() if failures and call.name == "write" else None
    attempt.end()
    ended = newest_attempt(world.store, RUN.key)
    assert ended is not None
    assert ended.ended
