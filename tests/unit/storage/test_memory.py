"""Fault injection."""

import pickle

import pytest

from lakeindex.errors import ObjectNotFoundError, StorageError, UnknownOutcomeError
from lakeindex.storage.memory import Call, Fault, MemoryStorage


def fail_at(number: int, fault: Fault) -> MemoryStorage:
    store = MemoryStorage()
    store.hook = lambda call: fault if call.number == number else None
    return store


@pytest.mark.parametrize("name", ["create", "write"])
def test_an_error_did_not_happen(name: str) -> None:
    store = fail_at(1, Fault.ERROR)
    with pytest.raises(StorageError) as caught:
        getattr(store, name)("x", b"1234")
    assert not isinstance(caught.value, UnknownOutcomeError)
    assert store.snapshot() == {}


@pytest.mark.parametrize("name", ["create", "write"])
def test_a_lost_answer_did_happen(name: str) -> None:
    store = fail_at(1, Fault.DONE_BUT_FAILED)
    with pytest.raises(UnknownOutcomeError):
        getattr(store, name)("x", b"1234")
    assert store.snapshot() == {"x": b"1234"}


@pytest.mark.parametrize(("path", "left"), [("a.parquet", {"a.parquet": b"12"}), (".hoodie/x.commit", {})])
def test_only_data_files_tear(path: str, left: dict[str, bytes]) -> None:
    store = fail_at(1, Fault.TORN)
    with pytest.raises(UnknownOutcomeError):
        store.write(path, b"1234")
    assert store.snapshot() == left


@pytest.mark.parametrize(("fault", "left"), [(Fault.ERROR, 1), (Fault.TORN, 1), (Fault.DONE_BUT_FAILED, 0)])
def test_deletes_fail_too(fault: Fault, left: int) -> None:
    store = fail_at(2, fault)
    store.write("x", b"1")
    with pytest.raises(StorageError):
        store.delete("x")
    assert len(store.snapshot()) == left


@pytest.mark.parametrize("fault", list(Fault))
def test_reads_just_fail(fault: Fault) -> None:
    store = MemoryStorage()
    store.write("x", b"1")
    store.hook = lambda call: fault
    for call in (
        lambda: store.read("x"),
        lambda: store.head("x"),
        lambda: store.read_range("x", 0, 1),
        store.list,
        store.list_folder,
        lambda: store.sync(["x"]),
    ):
        with pytest.raises(StorageError):
            call()


def test_the_hook_sees_every_call_before_it_happens() -> None:
    store = MemoryStorage()
    seen: list[tuple[Call, int]] = []

    def hook(call: Call) -> None:
        seen.append((call, len(store.snapshot())))

    store.hook = hook
    store.create("x", b"")
    store.list("")
    store.delete("x")
    assert seen == [(Call(1, "create", "x"), 0), (Call(2, "list", ""), 1), (Call(3, "delete", "x"), 1)]


def test_sync_needs_the_object_and_is_undone_by_a_write() -> None:
    store = MemoryStorage()
    with pytest.raises(ObjectNotFoundError):
        store.sync(["x"])
    store.write("x", b"1")
    store.sync(["x"])
    assert store.synced == {"x"}
    store.write("x", b"2")
    assert store.synced == set()


def test_restore() -> None:
    store = MemoryStorage()
    store.write("x", b"1")
    before = store.snapshot()
    store.write("y", b"2")
    store.restore(before)
    assert store.snapshot() == {"x": b"1"}


def test_an_unnamed_store_does_not_pickle() -> None:
    with pytest.raises(TypeError, match="named"):
        pickle.dumps(MemoryStorage())
