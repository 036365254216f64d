"""What every adapter of the storage port must do."""

import pickle
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from lakeindex.errors import (
    NoConditionalWritesError,
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TableCorruptError,
)
from lakeindex.storage import Storage, list_names, open_storage

ODD_NAMES = (
    "a b",
    "c%2Fd",
    "e:f",
    "year=2013/month=01/x.parquet",
    "q?x=1",
    "st*r",
    "100%",
    "~t",
    "[b]{c}|^`",
    'quo"te',
    "as ia/ü-ñ-日本-😀",
    ".hoodie/.temp/x.marker.CREATE",
    ".hidden",
    "trail.",
    "eq=a&b+c",
    "p=<1>",
    "a@b,c;d!e$f'(g)",
)


def test_what_is_written_is_read(storage: Storage) -> None:
    storage.write("a/b.bin", b"first")
    assert storage.read("a/b.bin") == b"first"
    storage.write("a/b.bin", b"second, longer")
    assert storage.read("a/b.bin") == b"second, longer"
    storage.write("empty", b"")
    assert storage.read("empty") == b""
    assert storage.head("empty").size_bytes == 0


def test_create_never_replaces(storage: Storage) -> None:
    storage.create("a/b", b"one")
    with pytest.raises(ObjectExistsError) as caught:
        storage.create("a/b", b"two")
    assert caught.value.culprit == "a/b"
    assert storage.read("a/b") == b"one"
    storage.write("plain", b"written")
    with pytest.raises(ObjectExistsError):
        storage.create("plain", b"")


def test_pieces_are_written_as_one(storage: Storage) -> None:
    signed = memoryview(bytes(range(256))).cast("b")
    storage.write("a", (b"PAR1", signed, memoryview(b"12345")[1:3], b""))
    assert storage.read("a") == b"PAR1" + bytes(range(256)) + b"23"


MANY = [bytes([number]) * 4_000_000 for number in range(12)]
"""More than an object store takes in one request."""


def test_pieces_are_made_while_they_are_written(storage: Storage) -> None:
    storage.write("a", iter(MANY))
    assert storage.head("a").size_bytes == sum(map(len, MANY))
    for number, piece in enumerate(MANY):
        assert storage.read_range("a", number * len(piece), len(piece)) == piece


@pytest.mark.parametrize(
    ("pieces", "error"),
    [
        ([], OSError(5, "no")),
        ([b"x"], ValueError("no")),
        (MANY, TableCorruptError("no", culprit="f")),
        (MANY, OSError(5, "no")),
    ],
)
def test_pieces_that_cannot_be_made_leave_nothing(storage: Storage, pieces: list[bytes], error: Exception) -> None:
    def failing() -> Iterator[bytes]:
        yield from pieces
        raise error

    storage.write("folder/old", b"old")
    for path in ("folder/old", "folder/new"):
        with pytest.raises(type(error)) as caught:
            storage.write(path, failing())
        assert caught.value is error
    assert [(one.path, one.size_bytes) for one in storage.list()] == [("folder/old", 3)]
    assert storage.read("folder/old") == b"old"


def test_racing_creates_have_one_winner(storage: Storage) -> None:
    barrier = threading.Barrier(8)

    def race(number: int) -> bool:
        barrier.wait()
        try:
            storage.create("lock/1", f"racer {number}".encode() * 100)
        except ObjectExistsError:
            return False
        return True

    with ThreadPoolExecutor(8) as pool:
        won = [number for number, winner in enumerate(pool.map(race, range(8))) if winner]
    assert len(won) == 1
    assert storage.read("lock/1") == f"racer {won[0]}".encode() * 100
    assert [one.path for one in storage.list("lock")] == ["lock/1"]


def test_a_version_is_replaced_by_one_of_its_racers_and_never_when_it_has_changed(storage: Storage) -> None:
    storage.write("lock", b"0")
    etag = storage.head("lock").etag
    assert etag is not None
    if storage.uri.startswith(("file:", "hdfs:")):
        with pytest.raises(NoConditionalWritesError, match="only if it is unchanged"):
            storage.replace("lock", b"1", etag)
        assert storage.read("lock") == b"0"
        return
    barrier = threading.Barrier(4)

    def race(number: int) -> str | None:
        barrier.wait()
        try:
            return storage.replace("lock", f"racer {number}".encode(), etag)
        except ObjectChangedError:
            return None

    with ThreadPoolExecutor(4) as pool:
        marks = list(pool.map(race, range(4)))
    won = [number for number, mark in enumerate(marks) if mark is not None]
    assert len(won) == 1
    assert storage.read("lock") == f"racer {won[0]}".encode()
    assert storage.head("lock").etag == marks[won[0]]
    assert storage.replace("lock", b"again", marks[won[0]] or "") == storage.head("lock").etag
    with pytest.raises(ObjectChangedError):
        storage.replace("lock", b"too late", etag)
    assert storage.read("lock") == b"again"
    with pytest.raises(ObjectChangedError):
        storage.replace("none", b"x", etag)
    assert not [one for one in storage.list() if one.path == "none"]


def test_replacing_is_whole_for_readers(storage: Storage) -> None:
    contents = [bytes([value]) * 100_000 for value in (1, 2)]
    storage.write("x", contents[0])
    stop = threading.Event()
    turns = 0

    def rewrite() -> None:
        nonlocal turns
        while not stop.is_set():
            turns += 1
            storage.write("x", contents[turns % 2])

    writer = threading.Thread(target=rewrite)
    writer.start()
    try:
        reads = 0
        while writer.is_alive() and (reads < 30 or turns < 10):
            assert storage.read("x") in contents
            reads += 1
    finally:
        stop.set()
        writer.join()
    assert turns >= 10


@pytest.mark.parametrize("path", ODD_NAMES)
def test_names_are_byte_exact(storage: Storage, path: str) -> None:
    if storage.uri.startswith("hdfs:") and ":" in path:  # the one name that HDFS itself refuses
        with pytest.raises(StorageError, match="Invalid path name"):
            storage.create(path, b"")
        return
    storage.create(path, path.encode())
    assert [one.path for one in storage.list()] == [path]
    assert storage.read(path) == path.encode()
    assert storage.head(path).path == path
    folder = path.rpartition("/")[0]
    assert [one.path for one in storage.list_folder(folder).objects] == [path]
    if folder:
        assert storage.list_folder(folder.rpartition("/")[0]).folders == (folder,)
    storage.delete(path)
    assert storage.list() == []


def test_ranges(storage: Storage) -> None:
    storage.write("x", bytes(range(100)))
    assert storage.read_range("x", 10, 5) == bytes(range(10, 15))
    assert storage.read_range("x", 90, 50) == bytes(range(90, 100))
    assert storage.read_range("x", 100, 10) == b""
    assert storage.read_range("x", 500, 10) == b""
    assert storage.read_range("x", 3, 0) == b""
    storage.write("empty", b"")
    assert storage.read_range("empty", 0, 10) == b""


def test_missing_objects(storage: Storage) -> None:
    storage.write("folder/x", b"")
    for path in ("none", "folder/none", "folder", "folder/x/y"):
        for call in (
            lambda p=path: storage.read(p),
            lambda p=path: storage.head(p),
            lambda p=path: storage.read_range(p, 0, 1),
        ):
            with pytest.raises(ObjectNotFoundError):
                call()
        storage.delete(path)
    assert storage.read("folder/x") == b""


def test_listing_goes_deep_and_is_sorted(storage: Storage) -> None:
    paths = ["b/2", "a", "b/1/x", ".hoodie/.p", "b/1/y", "b/10", "bb/1"]
    for path in paths:
        storage.write(path, path.encode())
    assert [one.path for one in storage.list()] == sorted(paths)
    assert [one.path for one in storage.list("b")] == ["b/1/x", "b/1/y", "b/10", "b/2"]
    assert storage.list("b/") == storage.list("b")
    assert storage.list("none") == []
    assert storage.list("a") == []
    assert {one.size_bytes for one in storage.list("b/1")} == {5}


def test_one_level(storage: Storage) -> None:
    for path in ("a", "b/1", "b/c/2", ".hoodie/.temp/3"):
        storage.write(path, b"")
    top = storage.list_folder()
    assert (top.folders, [one.path for one in top.objects]) == ((".hoodie", "b"), ["a"])
    inner = storage.list_folder("b")
    assert (inner.folders, [one.path for one in inner.objects]) == (("b/c",), ["b/1"])
    assert storage.list_folder("none").folders == ()
    assert storage.list_folder("none").objects == ()
    assert list_names(storage, "none") == ()
    for folder, objects, all_names in (("", ("a",), (".hoodie", "a", "b")), ("b", ("1",), ("1", "c"))):
        assert list_names(storage, folder) in (objects, all_names)


def test_nothing_leaves_the_root(storage: Storage) -> None:
    for path in ("../x", "a/../../x", "/etc/passwd", "", "a//b", "./a", "a/.", "a\x00b"):
        for call in (
            lambda p=path: storage.read(p),
            lambda p=path: storage.write(p, b""),
            lambda p=path: storage.create(p, b""),
            lambda p=path: storage.delete(p),
            lambda p=path: storage.head(p),
            lambda p=path: storage.read_range(p, 0, 1),
        ):
            with pytest.raises(StorageError, match="path"):
                call()
    for prefix in ("../", "a/../..", "/etc"):
        with pytest.raises(StorageError):
            storage.list(prefix)
        with pytest.raises(StorageError):
            storage.list_folder(prefix)


def test_deleting_twice_is_fine(storage: Storage) -> None:
    storage.write("x", b"1")
    storage.delete("x")
    storage.delete("x")
    storage.create("x", b"2")
    assert storage.read("x") == b"2"


def test_times_are_now(storage: Storage) -> None:
    storage.write("x", b"1")
    assert abs(storage.head("x").modified_ms - time.time() * 1000) < 120_000
    assert storage.list()[0] == storage.head("x")


def test_an_etag_changes_with_the_content(storage: Storage) -> None:
    storage.write("x", b"one")
    before = storage.head("x").etag
    storage.write("x", b"two")
    assert before is not None
    assert storage.head("x").etag != before


def test_sync(storage: Storage) -> None:
    storage.write("a/b/c", b"1")
    storage.write("d", b"1")
    storage.sync(["a/b/c", "d"])
    storage.sync([])


def test_a_store_travels_by_pickle_and_by_uri(storage: Storage) -> None:
    storage.write("x", b"1")
    assert pickle.loads(pickle.dumps(storage)).read("x") == b"1"
    assert open_storage(storage.uri).read("x") == b"1"
    assert len(pickle.dumps(storage)) < 300
