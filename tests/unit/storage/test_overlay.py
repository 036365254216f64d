"""A store above another: what is written is read back, and the one below stays as it is."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeindex.errors import NoConditionalWritesError, ObjectExistsError, ObjectNotFoundError
from lakeindex.storage import open_storage
from lakeindex.storage.overlay import OverlayStorage
from lakeindex.storage.port import Storage


@pytest.fixture
def store(tmp_path: Path) -> Storage:
    below = open_storage(str(tmp_path / "below"))
    below.write("a/one", b"1")
    below.write("a/two", b"22")
    below.write("top", b"0")
    return OverlayStorage(below, open_storage(str(tmp_path / "above")))


def test_what_is_written_is_read_and_the_store_below_is_untouched(store: Storage, tmp_path: Path) -> None:
    before = {path: path.read_bytes() for path in (tmp_path / "below").rglob("*") if path.is_file()}
    store.write("a/one", b"new")
    store.write("a/three", iter([b"3", b"33"]))
    store.create("b/four", b"4")
    store.delete("a/two")
    store.sync(["a/one"])
    assert (store.read("a/one"), store.read("a/three"), store.read_range("a/one", 1, 9)) == (b"new", b"333", b"ew")
    assert store.head("a/one").size_bytes == 3
    assert [one.path for one in store.list()] == ["a/one", "a/three", "b/four", "top"]
    assert [one.path for one in store.list_folder("a").objects] == ["a/one", "a/three"]
    assert store.list_folder("").folders == ("a", "b")
    assert {path: path.read_bytes() for path in (tmp_path / "below").rglob("*") if path.is_file()} == before


def test_one_creates(store: Storage) -> None:
    for path in ("a/one", "b/new"):
        if path == "b/new":
            store.create(path, b"first")
        with pytest.raises(ObjectExistsError):
            store.create(path, b"second")
    store.delete("a/one")
    for call in (store.read, store.head):
        with pytest.raises(ObjectNotFoundError):
            call("a/one")
    store.create("a/one", b"again")
    assert store.read("a/one") == b"again"
    with pytest.raises(NoConditionalWritesError):
        store.replace("a/one", b"x", "1")


def test_what_is_written_and_deleted_is_gone_and_may_come_again(store: Storage) -> None:
    for path in ("top", "new"):
        store.write(path, b"written")
        store.delete(path)
        with pytest.raises(ObjectNotFoundError):
            store.read(path)
        assert path not in [one.path for one in store.list()]
        store.write(path, b"again")
        assert store.read(path) == b"again"
