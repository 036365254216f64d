"""Create-if-absent judged by reading back."""

import pytest

from lakeindex.errors import StorageError, TableCorruptError, UnknownOutcomeError
from lakeindex.storage.memory import Fault, MemoryStorage
from lakeindex.timeline import records


def failing(*faults: Fault | None) -> MemoryStorage:
    store = MemoryStorage()
    todo = list(faults)
    store.hook = lambda call: todo.pop(0) if todo and call.name in ("create", "write", "delete") else None
    return store


@pytest.mark.parametrize("faults", [(), (Fault.DONE_BUT_FAILED,), (Fault.TORN,), (Fault.TORN, Fault.DONE_BUT_FAILED)])
def test_a_lost_answer_is_found_out(faults: tuple[Fault, ...]) -> None:
    store = failing(*faults)
    assert records.settle(store, "x", b"mine") == b"mine"
    assert store.snapshot() == {"x": b"mine"}


def test_another_ones_file_stands() -> None:
    store = MemoryStorage()
    store.create("x", b"theirs")
    assert records.settle(store, "x", b"mine") == b"theirs"


def test_a_store_that_never_answers() -> None:
    with pytest.raises(UnknownOutcomeError):
        records.settle(failing(*[Fault.TORN] * 9), "x", b"mine")
    with pytest.raises(UnknownOutcomeError):
        records.put(failing(*[Fault.TORN] * 9), "x", b"mine")
    with pytest.raises(UnknownOutcomeError):
        records.remove(failing(*[Fault.TORN] * 9), ["x"])
    records.tidy(failing(*[Fault.TORN] * 9), ["x"])


def test_an_error_is_an_error() -> None:
    with pytest.raises(StorageError):
        records.settle(failing(Fault.ERROR), "x", b"mine")


@pytest.mark.parametrize("count", [0, 3, 50])
def test_many_are_removed(count: int) -> None:
    store = MemoryStorage()
    for n in range(count):
        store.write(f"{n}", b"")
    records.remove(store, [f"{n}" for n in range(count)])
    assert store.snapshot() == {}


def test_the_first_error_of_many_is_raised() -> None:
    with pytest.raises(StorageError):
        records.remove(failing(*[Fault.ERROR] * 50), [f"{n}" for n in range(50)])


def test_keys_are_file_names() -> None:
    assert records.key_of("manual__2026/../x y") == records.key_of("manual__2026/../x y")
    assert records.key_of("a") != records.key_of("b")
    assert records.key_of("\ud800").isalnum()


@pytest.mark.parametrize("data", [b"", b"nope", b'{"a": 1', b"\xff", bytes(9)])
def test_a_torn_record_says_nothing_and_gives_way(data: bytes) -> None:
    store = MemoryStorage()
    store.write("record.json", data)
    assert records.load(store, "record.json") == {}
    assert records.settle_record(store, "record.json", b'{"b": 2}') == b'{"b": 2}'
    assert records.settle_record(store, "record.json", b'{"c": 3}') == b'{"b": 2}'
    assert store.synced == {"record.json"}


@pytest.mark.parametrize("data", [b"", b"who", b"whol\0", bytes(5)])
def test_a_part_is_made_whole(data: bytes) -> None:
    store = MemoryStorage()
    store.write("x", data)
    assert records.settle_bytes(store, "x", b"whole") == b"whole"
    assert store.read("x") == b"whole"


@pytest.mark.parametrize("data", [b"other", b"whole and more", b"wh\0le"])
def test_what_is_no_part_stands(data: bytes) -> None:
    store = MemoryStorage()
    store.write("x", data)
    assert records.settle_bytes(store, "x", b"whole") == data


@pytest.mark.parametrize("data", [b"[1]", b"{}", b"3"])
def test_damage_is_named(data: bytes) -> None:
    store = MemoryStorage()
    store.write("some/record.json", data)
    with pytest.raises(TableCorruptError, match=r"some/record\.json"):
        records.load(store, "some/record.json")
    assert records.load(store, "none") is None


@pytest.mark.parametrize("faults", [(), (Fault.DONE_BUT_FAILED,), (Fault.TORN,), (Fault.TORN, Fault.DONE_BUT_FAILED)])
def test_what_all_create_alike_is_ones_own_after_a_lost_answer(faults: tuple[Fault, ...]) -> None:
    """It may be another's; something else that only one can create decides then. Without a lost answer it is known."""
    store = failing(*faults)
    assert records.create_alike(store, "x", b"") is True
    assert store.snapshot() == {"x": b""}
    store.hook = None
    assert records.create_alike(store, "x", b"") is False
    with pytest.raises(UnknownOutcomeError):
        records.create_alike(failing(*[Fault.TORN] * 9), "x", b"")
