"""A store for tables of 100,000 files that are not there: sizes without bytes, listings by folder,
every call counted.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable

from lakeindex.storage.memory import Fault, MemoryStorage
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, joined

Stored = tuple[bytes, int, int]


class CountingStorage(MemoryStorage):
    """The in-memory store with an index of its folders; counts requests by kind, and bytes."""

    def __init__(self, name: str = "") -> None:
        super().__init__(name)
        self._folders: dict[str, tuple[set[str], set[str]]] = {}
        self._sizes: dict[str, int] = {}
        self._counting = threading.Lock()
        self.requests: Counter[str] = Counter()
        self.bytes_read = 0
        self.bytes_written = 0

    @classmethod
    def fresh(cls, name: str) -> CountingStorage:
        """An empty store of a name that was not used yet; ``memory://NAME`` finds it in this process."""
        store = cls.named(name)
        assert isinstance(store, CountingStorage)
        return store

    def put_sparse(self, path: str, size_bytes: int) -> None:
        """An object that is listed with a size, but holds nothing; not counted."""
        self._sizes[path] = size_bytes
        self._put(path, b"")

    def reset(self) -> None:
        with self._counting:
            self.requests.clear()
            self.bytes_read = self.bytes_written = 0

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        self._enter("list", prefix)
        found: list[ObjectMeta] = []
        waiting = [prefix.strip("/")]
        while waiting:
            level = self._level(waiting.pop())
            found += level.objects
            waiting += level.folders
        return sorted(found)

    def list_folder(self, prefix: str = "") -> Listing:
        self._enter("list_folder", prefix)
        return self._level(prefix.strip("/"))

    def read(self, path: str) -> bytes:
        return self._counted(super().read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._counted(super().read_range(path, start, length))

    def create(self, path: str, data: bytes) -> None:
        super().create(path, data)
        self._count_written(data)

    def write(self, path: str, data: bytes | Pieces) -> None:
        super().write(path, data)
        self._count_written(joined(data))

    def sync(self, paths: Iterable[str]) -> None:
        """Count a request an object, as on local disk."""
        wanted = [*paths]
        with self._counting:
            self.requests["sync"] += len(wanted) - 1
        super().sync(wanted)

    def _enter(self, name: str, path: str) -> Fault | None:
        with self._counting:
            self.requests[name] += 1
        return super()._enter(name, path)

    def _counted(self, data: bytes) -> bytes:
        with self._counting:
            self.bytes_read += len(data)
        return data

    def _count_written(self, data: bytes) -> None:
        with self._counting:
            self.bytes_written += len(data)

    def _level(self, folder: str) -> Listing:
        with self._mutex:
            folders, names = self._folders.get(folder, (set(), set()))
            start = f"{folder}/" if folder else ""
            objects = tuple(self._meta(path, self._objects[path]) for path in sorted(start + name for name in names))
            return Listing(tuple(sorted(start + name for name in folders)), objects)

    def _put(self, path: str, data: bytes) -> None:
        super()._put(path, data)
        if data:
            self._sizes.pop(path, None)
        folder, _, name = path.rpartition("/")
        self._folder(folder)[1].add(name)

    def _drop(self, path: str) -> None:
        super()._drop(path)
        folder, _, name = path.rpartition("/")
        self._folder(folder)[1].discard(name)

    def _folder(self, folder: str) -> tuple[set[str], set[str]]:
        found = self._folders.get(folder)
        if found is None:
            found = self._folders[folder] = (set(), set())
            if folder:
                parent, _, name = folder.rpartition("/")
                self._folder(parent)[0].add(name)
        return found

    def _meta(self, path: str, found: Stored) -> ObjectMeta:  # type: ignore[override]  # sizes are kept beside the objects
        data, modified, version = found
        return ObjectMeta(path, self._sizes.get(path, len(data)), modified, str(version))
