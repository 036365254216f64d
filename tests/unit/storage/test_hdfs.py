"""What only HDFS does, on the cluster of scripts/hdfs_server.py; what needs none runs with the unit tests."""

from __future__ import annotations

import os
import sys
import uuid

import pytest
from hdfs_native import Client

from lakeindex.errors import OptionError, StorageError
from lakeindex.storage import open_storage, remove_empty_folders, remove_temporary
from lakeindex.storage.hdfs import HdfsStorage
from lakeindex.storage.paths import TEMPORARY_PREFIX


@pytest.fixture
def store() -> HdfsStorage:
    return HdfsStorage(f"{os.environ['LAKEINDEX_HDFS']}/{uuid.uuid4().hex}")


def half_written(store: HdfsStorage, folder: str) -> None:
    """What a writer leaves that dies before its rename."""
    root = store.uri.removeprefix(os.environ["LAKEINDEX_HDFS"])
    with Client(os.environ["LAKEINDEX_HDFS"]).create(f"{root}/{folder}/{TEMPORARY_PREFIX}1-2") as file:
        file.write(b"half")


@pytest.mark.hdfs
def test_what_a_killed_writer_leaves_is_not_listed_and_goes(store: HdfsStorage) -> None:
    store.write("a/b", b"whole")
    half_written(store, "a")
    assert [one.path for one in store.list()] == ["a/b"]
    assert [one.path for one in store.list_folder("a").objects] == ["a/b"]
    assert remove_temporary(store, "a", 3600) == 0  # its writer may be alive
    assert remove_temporary(store, "a", -60) == 1
    assert remove_temporary(store, "a", -60) == 0
    assert remove_temporary(store, "none", -60) == 0
    assert store.read("a/b") == b"whole"


@pytest.mark.hdfs
def test_empty_folders_go_and_no_other(store: HdfsStorage) -> None:
    for path in ("t/a/b/1", "t/c/2", "t/d/e/3"):
        store.write(path, b"")
    store.delete("t/a/b/1")
    store.delete("t/d/e/3")
    half_written(store, "t/d")
    remove_empty_folders(store, "t")
    assert store.list_folder("t").folders == ("t/c", "t/d")
    store.delete("t/c/2")
    remove_empty_folders(store, "t/c")
    assert store.list_folder("t").folders == ("t/d",)
    with pytest.raises(StorageError, match="root"):
        store.remove_empty_folders("")


@pytest.mark.hdfs
@pytest.mark.parametrize("slash", ["", "/"])
def test_a_store_may_be_the_whole_cluster(slash: str) -> None:
    root = HdfsStorage(os.environ["LAKEINDEX_HDFS"] + slash)
    name = uuid.uuid4().hex
    root.write(name, b"1")
    root.create(f"{name}-folder/a", b"2")
    assert root.read(name) == b"1"
    assert {name, f"{name}-folder/a"} <= {one.path for one in root.list()}
    for path in (name, f"{name}-folder/a"):
        root.delete(path)
    remove_empty_folders(root, f"{name}-folder")
    assert not [one for one in root.list_folder().folders if name in one]


@pytest.mark.hdfs
def test_a_loser_leaves_nothing_behind(store: HdfsStorage) -> None:
    store.create("lock", b"1")
    for _ in range(3):
        with pytest.raises(StorageError, match="lock exists"):
            store.create("lock", b"2")
    assert remove_temporary(store, "", -60) == 0


@pytest.mark.hdfs  # its repeats take ten seconds a call
def test_no_cluster_at_the_address() -> None:
    store = open_storage("hdfs://127.0.0.1:1/lake/t")
    with pytest.raises(StorageError, match="cannot read x: Connection refused"):
        store.read("x")
    with pytest.raises(StorageError, match="cannot write x: Connection refused"):
        store.create("x", b"")


@pytest.mark.parametrize("uri", ["hdfs:///lake", "hdfs://nameservice/lake"])
def test_a_name_that_no_configuration_explains(uri: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HADOOP_CONF_DIR", raising=False)
    with pytest.raises(OptionError, match="cannot open hdfs://") as caught:
        open_storage(uri)
    assert "HADOOP_CONF_DIR" in str(caught.value.hint)


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "lakeindex.storage.hdfs")
    monkeypatch.setitem(sys.modules, "hdfs_native", None)
    with pytest.raises(OptionError, match="needs hdfs-native") as caught:
        open_storage("hdfs://host:8020/t")
    assert "lakeindex[hdfs]" in str(caught.value.hint)
