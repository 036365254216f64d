"""The table's lock."""

import itertools
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeindex.errors import FencedError, LockTimeoutError, StorageError, TableCorruptError
from lakeindex.lock import lock
from lakeindex.lock.write_context import WriteContext
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host
from tests.model.world import CONFIG
from tests.unit.commit.protocol_support import World

LEASE_MS = 2_000


def take(world: World, who: str | Host, *, wait_ms: int = 0, instant: str | None = None) -> lock.TableLock:
    host = world.host(who) if isinstance(who, str) else who
    purpose = f"work of {host.process.started}"
    return lock.acquire(world.store, host, lease_ms=LEASE_MS, wait_ms=wait_ms, purpose=purpose, instant=instant)


def test_epochs_grow_and_old_files_go() -> None:
    world = World()
    for epoch in (1, 2, 3):
        held = take(world, "a")
        assert held.epoch == epoch
        held.release()
    assert world.names(lock.LOCK_FOLDER) == ["000000000003.json"]


def test_a_living_holder_is_waited_for_and_named() -> None:
    world = World()
    take(world, "a")
    with pytest.raises(LockTimeoutError, match="work of a") as caught:
        take(world, "b", wait_ms=1_000)
    assert caught.value.culprit == f"{lock.LOCK_FOLDER}/000000000001.json"


def test_a_holder_whose_process_is_gone_is_passed_at_once() -> None:
    world = World()
    take(world, "a")
    world.gone.add("a")
    before = world.clock.now_ms()
    assert take(world, "b").epoch == 2
    assert world.clock.now_ms() == before


def test_a_holder_on_another_host_is_passed_when_its_lease_and_grace_are_over() -> None:
    world = World()
    take(world, "a")
    started = world.clock.now_ms()
    assert take(world, "b", wait_ms=60_000).epoch == 2
    assert LEASE_MS * 1.5 < world.clock.now_ms() - started < LEASE_MS * 2.5


def test_a_renewed_lease_holds() -> None:
    world = World()
    held = take(world, "a")
    world.clock.sleep(1.9)
    held.renew()
    world.clock.sleep(1.9)
    with pytest.raises(LockTimeoutError):
        take(world, "b")


def test_who_was_passed_finds_out_and_cannot_take_it_back() -> None:
    world = World()
    held = take(world, "a")
    world.gone.add("a")
    successor = take(world, "b")
    with pytest.raises(FencedError, match="epoch 1 was taken over by epoch 2"):
        held.check()
    held.renew()
    held.release()
    successor.check()
    with pytest.raises(LockTimeoutError):
        take(world, "c")


def test_what_a_holder_was_about_to_commit_is_handed_on_until_it_is_settled() -> None:
    world = World()
    take(world, "a", instant="20260101000000000")
    world.gone |= {"a", "b"}
    assert take(world, "b").unsettled == ("20260101000000000",)
    third = take(world, "c", instant="20260101000000001")
    assert third.unsettled == ("20260101000000000", "20260101000000001")
    third.settled("20260101000000000")
    third.release()
    fourth = take(world, "d")
    assert fourth.unsettled == ("20260101000000001",)
    fourth.settled("20260101000000001")
    fourth.release()
    assert take(world, "e").unsettled == ()


def test_a_late_beat_does_not_take_a_release_back() -> None:
    world = World()
    held = take(world, "a")
    held.release()
    held.renew()
    assert take(world, "b").epoch == 2
    held.renew()
    assert world.names(lock.LOCK_FOLDER) == ["000000000002.json"], "nothing of the old one comes back"


def test_a_winner_of_a_deleted_epoch_is_none() -> None:
    """Old epochs are deleted, so that their names are free again; only the greatest is the lock."""
    world = World()
    for _ in range(3):
        take(world, "a").release()
    stale = lock.LockRecord(2, "stale", world.host("z").process, "late", 2**60, LEASE_MS)
    assert lock._won(world.store, stale) is False
    assert world.names(lock.LOCK_FOLDER) == ["000000000003.json"]


def test_threads_exclude_each_other() -> None:
    store = MemoryStorage()
    inside: list[int] = []
    most: list[int] = []
    guard = threading.Lock()

    def work(number: int) -> None:
        from lakeindex.table.host import this_host

        host: Host = this_host()
        for _ in range(5):
            held = lock.acquire(store, host, lease_ms=60_000, wait_ms=60_000, purpose=f"thread {number}")
            with guard:
                inside.append(number)
                most.append(len(inside))
            with guard:
                inside.remove(number)
            held.release()

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert max(most) == 1
    assert len(most) == 20


@pytest.mark.parametrize("content", [b"", b"{", bytes(200)])
def test_a_torn_record_is_nobodys_and_whoever_follows_is_blind(content: bytes) -> None:
    world = World()
    take(world, "a", instant="1").release()
    world.store.write(f"{lock.LOCK_FOLDER}/000000000001.json", content)
    held = take(world, "b")
    assert (held.epoch, held.blind) == (2, True)
    held.release()
    again = take(world, "c")
    assert again.blind  # b did not recover anything
    again.recovered()
    again.release()
    assert not take(world, "d").blind
    assert b"blind" not in world.store.read(f"{lock.LOCK_FOLDER}/000000000004.json")


@pytest.mark.parametrize("content", [b"[]", b"{}", b'{"epoch": 1}'])
def test_a_damaged_file_is_named(content: bytes) -> None:
    world = World()
    world.store.write(f"{lock.LOCK_FOLDER}/000000000001.json", content)
    with pytest.raises(TableCorruptError, match="000000000001"):
        take(world, "a")


def refuse(world: World, name: str, error: BaseException, *, call: int = 1) -> None:
    """Fail once, at a call about the lock."""
    numbers = itertools.count(1)

    def hook(one: Call) -> None:
        if one.name == name and one.path.startswith(lock.LOCK_FOLDER) and next(numbers) == call:
            raise error

    world.store.hook = hook


@pytest.mark.parametrize("error", [StorageError("away"), KeyboardInterrupt()])
def test_who_fails_when_the_record_is_there_lets_go_of_it(error: BaseException) -> None:
    world = World()
    refuse(world, "list_folder", error, call=2)  # the first one looks who holds it
    with pytest.raises(type(error)):
        take(world, "a")
    assert world.names(lock.LOCK_FOLDER) == ["000000000001.json"]
    before = world.clock.now_ms()
    assert take(world, "b").epoch == 2
    assert world.clock.now_ms() == before


def test_who_fails_and_cannot_let_go_has_it_himself_at_once_and_others_wait() -> None:
    world = World()
    host = world.host("a")
    lists = itertools.count(1)

    def hook(one: Call) -> None:
        if one.name == "write" or (one.name == "list_folder" and next(lists) > 1):
            raise StorageError("away")

    world.store.hook = hook
    with pytest.raises(StorageError):
        take(world, host)
    world.store.hook = None
    with pytest.raises(LockTimeoutError):
        take(world, "b")
    assert take(world, host).epoch == 2


@pytest.mark.parametrize(("failures", "is_let_go"), [(1, True), (2, True), (3, False)])
def test_letting_go_is_tried_again(failures: int, is_let_go: bool) -> None:
    world = World()
    context = WriteContext(Table.open(world.store), world.host("a"), CONFIG)
    left = itertools.chain([StorageError("away")] * failures, itertools.repeat(None))

    def hook(one: Call) -> None:
        error = next(left) if one.name == "write" and one.path.startswith(lock.LOCK_FOLDER) else None
        if error is not None:
            raise error

    with context.locked("work"):
        world.store.hook = hook
    world.store.hook = None
    if is_let_go:
        assert take(world, "b").epoch == 2
    else:
        with pytest.raises(LockTimeoutError):
            take(world, "b")


def test_who_is_interrupted_as_he_lets_go_waits_for_nobody_and_others_do() -> None:
    world = World()
    refuse(world, "write", KeyboardInterrupt())
    host = world.host("a")  # its tokens are unique
    held = take(world, host)
    with pytest.raises(KeyboardInterrupt):
        held.release()
    with pytest.raises(LockTimeoutError):
        take(world, host)
    held.forget()
    with pytest.raises(LockTimeoutError):
        take(world, "b")
    assert take(world, host).epoch == 2
    with pytest.raises(FencedError):
        held.check()
