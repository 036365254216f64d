"""Turns: who came first goes first, the dead keep nobody waiting, and nothing that goes wrong with them matters."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable

import pytest
from msgspec.structs import replace

from lakeindex.commit.write_queue import EVERYTHING, TURNS_FOLDER, Turn, TurnScope
from lakeindex.errors import StorageError
from lakeindex.storage import Storage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.host import Host, Process, this_process
from lakeindex.timeline.clock import SystemClock

LEASE = 2_000


@pytest.fixture
def store() -> MemoryStorage:
    return MemoryStorage.named(f"turns-{uuid.uuid4().hex}")


def machine(name: str = "", *, gone: bool = False) -> Host:
    process = Process(name, 1) if name else this_process()
    return Host(SystemClock(), process, lambda one: gone and one.host == "dead")


def turn(store: Storage, host: Host | None = None, wait_ms: int = 20_000, lease_ms: int = LEASE) -> Turn:
    return Turn(store, host or machine(), lease_ms, wait_ms)


def scope(*groups: str, creates: tuple[str, ...] = (), lost: bool = False) -> TurnScope:
    return TurnScope.of([("p", group) for group in groups], creates, lost=lost)


def tickets(store: Storage) -> list[str]:
    return [one.path for one in store.list_folder(TURNS_FOLDER).objects]


@pytest.mark.parametrize(
    ("first", "second", "meets"),
    [
        (scope("a", "b"), scope("b", "c"), True),
        (scope("a"), scope("b"), False),
        (TurnScope.of([("p", "a")], ()), TurnScope.of([("q", "a")], ()), False),
        (scope("a"), EVERYTHING, True),
        (scope(creates=("p",)), scope(creates=("p",)), False),  # new keys are different ones, mostly
        (scope(creates=("p",), lost=True), scope(creates=("p",)), True),  # but here they were not
        (scope(creates=("p",), lost=True), scope(creates=("q",)), False),
    ],
)
def test_who_meets_whom(first: TurnScope, second: TurnScope, meets: bool):
    assert first.meets(second) is meets
    assert second.meets(first) is meets


def test_a_scope_with_very_many_file_groups_meets_everybody():
    assert TurnScope.of((("p", str(number)) for number in range(5_001)), ()) == EVERYTHING
    for creates in (2_000, 2_001):  # those of new file groups count, too
        found = TurnScope.of((("p", str(one)) for one in range(3_000)), (f"q{one}" for one in range(creates)))
        assert (found == EVERYTHING) is (creates == 2_001)


def test_a_writer_that_is_alone_does_not_wait_and_leaves_nothing(store: MemoryStorage):
    mine = turn(store)
    assert mine.take(scope("a")) is False
    assert len(tickets(store)) == 1
    mine.end()
    mine.renew()  # a heartbeat that comes late
    assert tickets(store) == []


def test_writers_of_other_file_groups_do_not_wait(store: MemoryStorage):
    first, second = turn(store), turn(store)
    assert first.take(scope("a")) is False
    assert second.take(scope("b")) is False


def test_turns_come_in_the_order_of_tickets(store: MemoryStorage):
    order: list[int] = []
    first = turn(store)
    first.take(scope("a"))
    threads = []
    for number in range(1, 5):
        one = turn(store)

        def wait(one: Turn = one, number: int = number) -> None:
            assert one.take(scope("a")) is True
            order.append(number)
            one.end()

        threads.append(threading.Thread(target=wait))
        threads[-1].start()
        while len(tickets(store)) < number + 1:
            time.sleep(0.001)  # until it has its ticket
    order.append(0)
    first.end()
    for thread in threads:
        thread.join(20)
    assert order == [0, 1, 2, 3, 4]


def test_who_had_its_turn_keeps_it_with_another_scope(store: MemoryStorage):
    first, second = turn(store), turn(store)
    first.take(scope("a"))
    second.take(scope("b"))
    assert first.take(scope("a", "b")) is False
    assert second.take(scope("b", "a")) is False


def test_a_holder_whose_process_is_gone_is_passed_at_once_and_its_ticket_goes(store: MemoryStorage):
    turn(store, machine("dead")).take(scope("a"))
    mine = turn(store, machine("other", gone=True), wait_ms=60_000)
    assert mine.take(scope("a")) is False
    assert len(tickets(store)) == 1


def test_a_holder_that_does_not_renew_is_passed_when_its_lease_is_out(store: MemoryStorage):
    turn(store, machine("frozen"), lease_ms=100).take(scope("a"))
    begun = time.monotonic()
    assert turn(store, machine("other")).take(scope("a")) is True
    assert 0.1 <= time.monotonic() - begun < 10


def test_a_holder_that_renews_is_waited_for_beyond_its_lease(store: MemoryStorage):
    holder = turn(store, machine("slow"), lease_ms=150)
    holder.take(scope("a"))
    stop = threading.Event()

    def beat() -> None:
        while not stop.wait(0.03):
            holder.renew()

    heart = threading.Thread(target=beat)
    heart.start()
    threading.Timer(0.6, lambda: (stop.set(), holder.end())).start()
    begun = time.monotonic()
    assert turn(store, machine("other")).take(scope("a")) is True
    assert time.monotonic() - begun >= 0.5
    heart.join()


def test_a_turn_that_does_not_come_is_not_waited_for_for_ever(store: MemoryStorage):
    first, second = turn(store, lease_ms=60_000), turn(store, wait_ms=200)
    first.take(scope("a"))
    assert second.take(scope("a")) is True


@pytest.mark.parametrize("content", [b"", b"{", b'{"number": 1}', b"[]"])
def test_a_torn_ticket_keeps_nobody_waiting(store: MemoryStorage, content: bytes):
    store.write(f"{TURNS_FOLDER}/000000000001.json", content)
    assert turn(store).take(scope("a")) is False


def test_a_store_that_fails_costs_the_turn_and_not_the_run(store: MemoryStorage):
    class Broken:
        def __getattr__(self, name: str) -> Callable[..., None]:
            def fail(*_: object) -> None:
                raise StorageError("the store is away", culprit=name, hint="wait")

            return fail

    mine = Turn(Broken(), machine(), LEASE, 1_000)  # type: ignore[arg-type]
    assert mine.take(scope("a")) is False
    mine.end()


def test_two_that_were_alone_when_they_came_do_not_wait_for_each_other(store: MemoryStorage):
    first, second = turn(store), turn(store)
    first.take(scope("a"))
    second._mine = replace(first._mine, number=2, token="t", running=True)
    second._put(second._mine)
    assert first._ahead() == 0
    assert second._ahead() == 1


def test_one_that_runs_is_waited_for_whoever_came_first(store: MemoryStorage):
    """It had its turn for other file groups, and learns that it changes ours, too."""
    first, waits, runs = turn(store), turn(store), turn(store)
    first.take(scope("a"))
    assert waits._queued(scope("a", "b"))
    assert runs.take(scope("c")) is False
    assert waits._ahead() == 1
    assert runs.take(scope("b")) is False
    assert waits._ahead() == 2
    first.end()
    assert waits._ahead() == 1
    runs.end()
    assert waits._ahead() == 0
