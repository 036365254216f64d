"""A record index that another writer takes away, or makes anew, while a look-up lists its files or reads them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from itertools import product
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import IndexChangedError, LakeIndexError, OptionError
from lakeindex.index.registry import stored_index_for
from lakeindex.model import IndexSpec, IndexType
from lakeindex.run.index.in_metadata import metadata_store
from lakeindex.storage.local import LocalStorage
from lakeindex.storage.port import Listing
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, make_table
from tests.golden import made_once
from tests.scheduling import some_of

KEYS = [f"k{number:03d}" for number in range(60)]


class StoppedError(Exception):
    """The writer who drops the index stands still here."""


@made_once
def indexed(folder: Path, version: str) -> LakeTable:
    table = make_table(
        folder,
        hoodie__write__table__version=version,
        hoodie__index__type="RECORD_INDEX",
    )
    table.upsert(batch_of([Row(key, "x", 1, "1") for key in KEYS[:40]]))
    table.metadata_build(["files", "record_index"], options={"hoodie.metadata.record.index.min.filegroup.count": "4"})
    table.upsert(batch_of([Row(key, "x", 2, "2") for key in KEYS[30:]]))
    return table


class Drops:
    """Once, before or after the nth listing of the index's folder, another writer drops the index.

    Args:
        left: files that he deletes before he stands still; None: he gets to the end.
        again: he builds it anew.
        is_late: the folder was listed before.
    """

    def __init__(self, table: LakeTable, left: int | None, nth: int, *, is_late: bool, again: bool) -> None:
        self.table, self.left, self.nth, self.is_late, self.again = table, left, nth, is_late, again
        self.deletes: int | None = None
        self.listings = 0

    def put(self, monkeypatch: pytest.MonkeyPatch) -> None:
        list_folder, delete = LocalStorage.list_folder, LocalStorage.delete

        def listed(storage: LocalStorage, prefix: str = "") -> Listing:
            if not prefix.endswith("/record_index"):
                return list_folder(storage, prefix)
            self.listings += 1
            if self.listings != self.nth:
                return list_folder(storage, prefix)
            before = list_folder(storage, prefix)
            self._drop()
            return before if self.is_late else list_folder(storage, prefix)

        def deleted(storage: LocalStorage, path: str) -> None:
            if self.deletes is not None and "/record_index/" in path:
                if not self.deletes:
                    raise StoppedError
                self.deletes -= 1
            delete(storage, path)

        monkeypatch.setattr(LocalStorage, "list_folder", listed)
        monkeypatch.setattr(LocalStorage, "delete", deleted)

    def _drop(self) -> None:
        self.deletes = self.left
        with suppress(StoppedError):
            self.table.metadata_drop(["record_index"])
        self.deletes = None
        if self.again:
            self.table.metadata_build(["record_index"])


def written(table: LakeTable) -> bool:
    table.upsert(batch_of([Row(key, "x", 3, "3") for key in KEYS]))
    return set(table.scan().to_arrow()["ts"].to_pylist()) == {3}


def found(table: LakeTable) -> bool:
    return table.get(KEYS).rows.num_rows == len(KEYS)


@pytest.mark.parametrize("version", some_of(["6", "9"], {"9"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("does", [written, found])
@pytest.mark.few(1)
def test_no_key_is_doubled_or_missed(
    does: Callable[[LakeTable], bool], version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    wrong: list[tuple[object, ...]] = []
    ends = [(1, False), (3, False), (5, False), (None, False), (None, True)]
    for case in product(ends, (1, 2), (False, True)):
        (left, again), nth, is_late = case
        table = indexed(tmp_path / str(len(list(tmp_path.iterdir()))), version)
        drops = Drops(table, left, nth, is_late=is_late, again=again)
        with monkeypatch.context() as patch:
            drops.put(patch)
            try:
                is_right = does(table)
            except LakeIndexError as error:
                wrong.append((*case, error))
                continue
        rows = sorted(table.scan().to_arrow()["id"].to_pylist())
        if not is_right or rows != KEYS or (nth == 1 and not drops.listings):
            wrong.append((*case, is_right, len(rows), drops.listings))
    assert wrong == []


@pytest.mark.parametrize("use_metadata", [True, False])
def test_a_metadata_table_that_was_dropped_is_not_one_that_is_not_to_be_used(
    tmp_path: Path, use_metadata: bool
) -> None:
    table, index = indexed(tmp_path, "9"), stored_index_for(IndexSpec(IndexType.RECORD_INDEX))
    if use_metadata:
        table.metadata_drop()
    opened = Table.at(table.uri, use_metadata=use_metadata)
    wanted: type[LakeIndexError] = IndexChangedError if use_metadata else OptionError
    with pytest.raises(wanted) as raised:
        metadata_store(opened, opened.load_timeline(), index)
    assert ("run again" if use_metadata else "leave the option out") in str(raised.value.hint)
