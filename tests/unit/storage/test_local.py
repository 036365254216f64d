"""What is special about local disk."""

import os
import pickle
from pathlib import Path

import pytest

from lakeindex.errors import ObjectNotFoundError, OptionError, StorageError
from lakeindex.storage import open_storage, remove_empty_folders, remove_temporary
from lakeindex.storage.local import TEMPORARY_PREFIX, LocalStorage


def names_in(folder: Path) -> list[str]:
    return sorted(entry.name for entry in folder.iterdir())


@pytest.fixture
def store(tmp_path: Path) -> LocalStorage:
    return LocalStorage(str(tmp_path))


@pytest.mark.parametrize("name", ["x#12", "#1", "a\\b", "new\nline", "part=a#1/x"])
def test_names_that_object_stores_refuse(store: LocalStorage, tmp_path: Path, name: str) -> None:
    store.create(name, b"1")
    assert (tmp_path / name).read_bytes() == b"1"
    assert [one.path for one in store.list()] == [name]


def test_no_temporary_file_stays_or_shows(store: LocalStorage, tmp_path: Path) -> None:
    store.write("x", b"1")
    store.create("y", b"2")
    with pytest.raises(StorageError):
        store.create("y", b"3")
    assert names_in(tmp_path) == ["x", "y"]
    (tmp_path / f"{TEMPORARY_PREFIX}1-2").write_bytes(b"half")
    assert [one.path for one in store.list()] == ["x", "y"]
    assert [one.path for one in store.list_folder().objects] == ["x", "y"]


def test_temporary_files_of_killed_writers_are_removed_when_they_are_old(store: LocalStorage, tmp_path: Path) -> None:
    old, young = tmp_path / f"{TEMPORARY_PREFIX}1-a", tmp_path / f"{TEMPORARY_PREFIX}1-b"
    old.write_bytes(b"")
    young.write_bytes(b"")
    os.utime(old, (1, 1))
    assert remove_temporary(store, "", 3600) == 1
    assert (old.exists(), young.exists()) == (False, True)


def test_a_failed_write_leaves_no_temporary_file(store: LocalStorage, tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(StorageError, match="folder"):
        store.write("folder", b"1")
    assert names_in(tmp_path) == ["folder"]


def test_a_file_where_a_folder_is_needed(store: LocalStorage) -> None:
    store.write("x", b"1")
    with pytest.raises(StorageError, match="x/y"):
        store.write("x/y", b"1")


def test_sync_reaches_the_file_and_every_folder_up_to_the_root(
    store: LocalStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    store.write("a/b/x", b"1")
    store.write("a/y", b"1")
    monkeypatch.setattr(os, "fsync", fsync)
    store.sync(["a/b/x", "a/y"])
    root = str(tmp_path)
    assert sorted(synced) == sorted([f"{root}/a/b/x", f"{root}/a/y", f"{root}/a/b", f"{root}/a", root])


def test_sync_of_a_missing_file(store: LocalStorage) -> None:
    with pytest.raises(ObjectNotFoundError):
        store.sync(["none"])


def test_empty_folders_are_removed_only_where_empty(store: LocalStorage, tmp_path: Path) -> None:
    store.write("t/a/b/x", b"1")
    store.write("t/keep/y", b"1")
    store.delete("t/a/b/x")
    remove_empty_folders(store, "t")
    assert names_in(tmp_path / "t") == ["keep"]
    with pytest.raises(StorageError):
        store.remove_empty_folders("")


def test_a_write_survives_the_removal_of_its_empty_folder(store: LocalStorage, tmp_path: Path) -> None:
    store.write("t/x", b"1")
    store.delete("t/x")
    remove_empty_folders(store, "t")
    assert not (tmp_path / "t").exists()
    store.create("t/x", b"2")
    assert store.read("t/x") == b"2"


@pytest.mark.parametrize(
    ("uri", "root"),
    [
        ("/data/t", "/data/t"),
        ("file:///data/a b%20c", "/data/a b c"),
        ("file:/data/t", "/data/t"),
        ("/data/../t", "/t"),
    ],
)
def test_urls(uri: str, root: str) -> None:
    opened = open_storage(uri)
    assert isinstance(opened, LocalStorage)
    assert opened.root == root
    assert opened.uri == f"file://{root}"
    assert pickle.loads(pickle.dumps(opened)).uri == opened.uri


@pytest.mark.parametrize("uri", ["", "ftp://host/x", "file://host/x", "s3://"])
def test_urls_that_are_none(uri: str) -> None:
    with pytest.raises(OptionError):
        open_storage(uri)


def test_the_bytes_of_a_created_object_are_durable_before_it_has_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a power loss may leave the name and no bytes."""
    done: list[str] = []
    for name in ("fsync", "link", "unlink"):
        _note(monkeypatch, done, name)
    LocalStorage(str(tmp_path)).create("a/b", b"x")
    assert done[:2] == ["fsync", "link"]


def test_folders_are_synced_up_to_the_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = LocalStorage(str(tmp_path))
    store.write("a/b/c", b"x")
    store.delete("a/b/c")
    opened: list[str] = []
    real = os.open

    def open_(path: str, *rest: int) -> int:
        opened.append(path)
        return real(path, *rest)

    monkeypatch.setattr(os, "open", open_)
    store.sync_folders(["a/b", "gone/long/ago"])
    assert opened[-1].rstrip("/") == str(tmp_path)
    assert {str(tmp_path / "a" / "b"), str(tmp_path / "a")} <= set(opened)


def _note(monkeypatch: pytest.MonkeyPatch, done: list[str], name: str) -> None:
    real = getattr(os, name)

    def noted(*args: object, **named: object) -> object:
        done.append(name)
        return real(*args, **named)

    monkeypatch.setattr(os, name, noted)
