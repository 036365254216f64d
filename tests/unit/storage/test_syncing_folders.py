"""What local disk is asked for, seen at the system's calls."""

import os
from pathlib import Path

import pytest

from lakeindex.errors import ObjectNotFoundError
from lakeindex.storage.local import LocalStorage


def test_a_file_and_all_folders_above_it_are_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
        real(descriptor)

    store = LocalStorage(str(tmp_path / "t"))
    store.write("a/b/c.parquet", b"1")
    store.write("a/d.parquet", b"1")
    monkeypatch.setattr(os, "fsync", fsync)
    store.sync(["a/b/c.parquet", "a/d.parquet"])
    root = tmp_path / "t"
    assert set(synced) == {
        str(root / "a/b/c.parquet"),
        str(root / "a/d.parquet"),
        *map(str, (root, root / "a", root / "a/b")),
    }
    assert synced.index(str(root / "a/b/c.parquet")) < synced.index(str(root / "a/b")) < synced.index(str(root))


def test_of_many_files_all_are_synced_before_their_folders_and_each_folder_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    synced: list[str] = []
    store = LocalStorage(str(tmp_path / "t"))
    files = [f"day={number:02d}/{name}.parquet" for number in range(20) for name in "ab"]
    for file in files:
        store.write(file, b"1")
    monkeypatch.setattr(
        os, "fsync", lambda descriptor: synced.append(str(Path(f"/proc/self/fd/{descriptor}").readlink()))
    )
    store.sync(files)
    root = tmp_path / "t"
    assert set(synced[:40]) == {str(root / file) for file in files}
    assert set(synced[40:60]) == {str(root / f"day={number:02d}") for number in range(20)}
    assert synced[60:] == [str(root)]
    with pytest.raises(ObjectNotFoundError):
        store.sync([*files, "day=07/gone.parquet"])


def test_a_range_is_whole_though_the_system_answers_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = LocalStorage(str(tmp_path))
    data = bytes(range(100))
    store.write("one", data)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, start: real(descriptor, min(length, 7), start))
    assert store.read_range("one", 3, 50) == data[3:53]
    assert store.read_range("one", 90, 50) == data[90:]
