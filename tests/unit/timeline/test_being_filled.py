"""Hudi creates a file of the timeline before it fills it: who reads in that moment looks again (local disks, HDFS)."""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest
from msgspec.structs import replace

from lakeindex.api.table import open_table
from lakeindex.errors import ObjectNotFoundError, TableCorruptError
from lakeindex.format.commit_metadata import parse_commit_metadata
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.memory import MemoryStorage
from lakeindex.table.property_keys import PROPERTIES_PATH
from lakeindex.timeline.clock import SystemClock
from lakeindex.timeline.records import read_filled
from tests.unit.commit.savepoints import savepoint_bytes
from tests.vectors_support import table_names, unpack_table

STATES = (
    ".commit",
    ".clean",
    ".rollback",
    ".savepoint",
    ".replacecommit",
    ".deltacommit",
    ".compaction",
    ".clustering",
)


class Filling:
    """Files of the timeline are empty at the first look, half at the second, and whole from the third on."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.looks: Counter[str] = Counter()
        self.slept: list[float] = []
        self.on = False
        read = LocalStorage.read

        def filling(storage: LocalStorage, path: str) -> bytes:
            data = read(storage, path)
            if not self.on or ".hoodie" not in path or ".lakeindex" in path or not any(one in path for one in STATES):
                return data
            self.looks[path] += 1
            return data[: {1: 0, 2: len(data) // 2}.get(self.looks[path], len(data))]

        monkeypatch.setattr(LocalStorage, "read", filling)
        monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: self.slept.append(seconds))


def seen(path: Path) -> dict[str, object]:
    table = open_table(str(path))
    rows = table.scan(meta=True).to_arrow()
    return {
        "rows": sorted(map(repr, rows.to_pylist())),
        "history": table.history(),
        "check": replace(table.check(), seconds=0),
        "clean": table.clean(1, dry_run=True),
    }


def now(path: Path) -> None:
    for one in path.rglob("*"):
        os.utime(one)


@pytest.mark.few(0)
def test_each_kind_of_instant_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of all tables by Hudi, and of those whose services have not ended."""
    filling, wrong, kinds = Filling(monkeypatch), [], set()
    for name in (*table_names(), *(f"{one} pending" for one in table_names())):
        path = unpack_table(name.removesuffix(" pending"), tmp_path)
        if name.endswith("pending"):
            services = (*path.glob(".hoodie/*.clean"), *path.glob(".hoodie/*.rollback"))
            if not services:
                continue  # the same again
            for one in services:
                one.unlink()
        elif name == "h0150_v6_bucket":
            commit = min(path.glob(".hoodie/*.commit"))
            commit.with_suffix(".savepoint").write_bytes(savepoint_bytes({"": ()}))
        now(path)
        filling.on = False
        whole = seen(path)
        filling.on, filling.looks = True, Counter()
        found = seen(path)
        wrong += [(name, what) for what, value in whole.items() if found[what] != value]
        kinds |= {one.rpartition("/")[2].partition(".")[2] for one in filling.looks}
    assert wrong == []
    assert {"commit", "clean", "rollback", "savepoint", "replacecommit", "rollback.requested"} <= kinds, kinds


def test_damage_is_damage_after_a_second_and_at_once_in_an_old_file_or_an_object_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    filling = Filling(monkeypatch)
    local, memory = LocalStorage(tmp_path), MemoryStorage.named("being-filled")
    clock = iter(range(0, 10_000, 400))
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: local.head("new").modified_ms + next(clock))
    for store in (local, memory):
        store.write("new", b"")
        store.write("old", b"")
    os.utime(tmp_path / "old", (0, 0))
    waits = []
    for store, path in ((local, "new"), (local, "old"), (memory, "new")):
        filling.slept.clear()
        with pytest.raises(TableCorruptError, match=f"{path} is empty") as damaged:
            read_filled(store, path, parse_commit_metadata)
        assert "run again" in str(damaged.value.hint)
        waits.append(len(filling.slept))
    assert waits == [2, 0, 0]
    with pytest.raises(ObjectNotFoundError):
        read_filled(local, "gone", parse_commit_metadata)


def test_properties_that_are_replaced_between_two_looks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hudi ends the change after we missed the file and before we look at the backup, which is gone then."""
    path = unpack_table("h120_v6_main", tmp_path)
    read, missed = LocalStorage.read, []

    def replaced(storage: LocalStorage, at: str) -> bytes:
        if at == PROPERTIES_PATH and not missed:
            missed.append(at)
            raise ObjectNotFoundError(at, culprit=at)
        return read(storage, at)

    monkeypatch.setattr(LocalStorage, "read", replaced)
    assert open_table(str(path)).scan().count() > 0
    assert missed
