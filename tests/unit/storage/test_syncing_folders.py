"""What local disk is asked for, seen at the system's calls."""

import os
from pathlib import Path

import pytest

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


def test_a_range_is_whole_though_the_system_answers_in_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    store = LocalStorage(str(tmp_path))
    data = bytes(range(100))
    store.write("one", data)
    real = os.pread
    monkeypatch.setattr(os, "pread", lambda descriptor, length, start: real(descriptor, min(length, 7), start))
    assert store.read_range("one", 3, 50) == data[3:53]
    assert store.read_range("one", 90, 50) == data[90:]
