"""An in-memory store with fault injection, for tests of everything above the port.

Faults at the k-th call:

* ``ERROR``: nothing happened, and the call says so;
* ``DONE_BUT_FAILED``: it happened, and the call says that it does not know (a lost answer);
* ``TORN``: the call failed half-way. A store is whole-or-absent by contract, so that nothing is visible and the
  outcome is called unknown, except for data files: there a *truncated object is visible*. No adapter of ours does
  that, but another program's copy, a full disk below a network file system or a proxy may, and the publisher
  verifies every file for it.

A ``hook`` is called before every call: the model's scheduler waits in it, and raises in it to crash the caller.
"""

from __future__ import annotations

import time
from bisect import bisect_left, insort
from collections.abc import Callable, Iterable
from enum import Enum
from typing import ClassVar, Final, TypeAlias

from lakeindex.errors import (
    ObjectChangedError,
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    UnknownOutcomeError,
)
from lakeindex.frozen import Frozen
from lakeindex.storage.parallel import ProcessLock
from lakeindex.storage.paths import checked_folder, checked_path
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, joined

WRITES: Final = frozenset({"create", "write", "replace", "delete"})


class Fault(Enum):
    """What goes wrong with a call."""

    ERROR = "error"
    TORN = "torn"
    DONE_BUT_FAILED = "done but failed"


class Call(Frozen):
    """One call of the port: its number (from 1), name and path."""

    number: int
    name: str
    path: str


Hook: TypeAlias = Callable[[Call], "Fault | None"]
"""Called before every call; answers with the fault to inject, or raises."""


def is_data_file(path: str) -> bool:
    """Whether a torn write of this path leaves a truncated object behind."""
    return path.endswith(".parquet")


class MemoryStorage:
    """A store in a dictionary.

    Args:
        name: with a name, it is found again by ``memory://NAME``, in this process only.
        now_ms: clock for modification times.
    """

    _named: ClassVar[dict[str, MemoryStorage]] = {}

    def __init__(self, name: str = "", *, now_ms: Callable[[], int] | None = None) -> None:
        self._name = name
        self._objects: dict[str, tuple[bytes, int, int]] = {}
        self._paths: list[str] = []  # those of the objects, sorted
        self._version = 0
        self._mutex = ProcessLock()
        self._now_ms = now_ms or (lambda: time.time_ns() // 1_000_000)
        self.hook: Hook | None = None
        self.calls = 0
        self.synced: set[str] = set()

    @classmethod
    def named(cls, name: str) -> MemoryStorage:
        """The store of this name, made when it is first asked for."""
        return cls._named.setdefault(name, cls(name))

    def __reduce__(self) -> tuple[object, ...]:
        if MemoryStorage._named.get(self._name) is not self:
            raise TypeError("only a named memory store pickles; use MemoryStorage.named(...)")
        return MemoryStorage.named, (self._name,)

    @property
    def uri(self) -> str:
        return f"memory://{self._name or 'unnamed'}"

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        folder = checked_folder(prefix)
        self._read_fault(self._enter("list", folder), folder)
        with self._mutex:
            return [*self._below(folder)]

    def list_folder(self, prefix: str = "") -> Listing:
        folder = checked_folder(prefix)
        self._read_fault(self._enter("list_folder", folder), folder)
        cut = len(folder) + 1 if folder else 0
        folders: list[str] = []
        objects: list[ObjectMeta] = []
        with self._mutex:
            at, end = self._span(folder)
            while at < end:
                path = self._paths[at]
                slash = path.find("/", cut)
                if slash < 0:
                    objects.append(self._meta(path, self._objects[path]))
                    at += 1
                else:
                    folders.append(path[:slash])
                    at = self._span(path[:slash])[1]
        return Listing(tuple(sorted(folders)), tuple(objects))

    def list_names(self, prefix: str = "") -> tuple[str, ...]:
        folder = checked_folder(prefix)
        self._read_fault(self._enter("list_folder", folder), folder)
        cut = len(folder) + 1 if folder else 0
        with self._mutex:
            at, end = self._span(folder)
            return tuple(path[cut:] for path in self._paths[at:end] if "/" not in path[cut:])

    def head(self, path: str) -> ObjectMeta:
        self._read_fault(self._enter("head", path), path)
        with self._mutex:
            return self._meta(path, self._get(path))

    def read(self, path: str) -> bytes:
        self._read_fault(self._enter("read", path), path)
        with self._mutex:
            return self._get(path)[0]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self._read_fault(self._enter("read_range", path), path)
        with self._mutex:
            return self._get(path)[0][start : start + max(length, 0)]

    def create(self, path: str, data: bytes) -> None:
        def effect(content: bytes) -> None:
            if path in self._objects:
                raise ObjectExistsError(f"{path} exists", culprit=path)
            self._put(path, content)

        self._change("create", path, data, effect)

    def write(self, path: str, data: bytes | Pieces) -> None:
        self._change("write", path, joined(data), lambda content: self._put(path, content))

    def replace(self, path: str, data: bytes, etag: str) -> str:
        marks: list[str] = []

        def effect(content: bytes) -> None:
            found = self._objects.get(path)
            if found is None or self._meta(path, found).etag != etag:
                raise ObjectChangedError(f"{path} changed", culprit=path)
            self._put(path, content)
            marks.append(str(self._version))

        self._change("replace", path, data, effect)
        return marks[0]

    def delete(self, path: str) -> None:
        def effect(_: bytes) -> None:
            self._drop(path)

        self._change("delete", path, b"", effect)

    def sync(self, paths: Iterable[str]) -> None:
        wanted = list(paths)
        self._read_fault(self._enter("sync", ",".join(wanted[:1])), "sync")
        with self._mutex:
            for path in wanted:
                self._get(path)
            self.synced.update(wanted)

    def sync_folders(self, folders: Iterable[str]) -> None:
        """Nothing is lost here; a call like any other."""
        self._read_fault(self._enter("sync_folders", next(iter(folders), "")), "sync")

    def snapshot(self) -> dict[str, bytes]:
        """All objects and their bytes; calls no hook."""
        with self._mutex:
            return {path: content for path, (content, _, _) in self._objects.items()}

    def restore(self, objects: dict[str, bytes]) -> None:
        """Replace everything by these objects; calls no hook."""
        with self._mutex:
            self._objects.clear()
            self._paths.clear()
            for path, content in objects.items():
                self._put(path, content)

    def _enter(self, name: str, path: str) -> Fault | None:
        if name not in ("list", "list_folder", "sync", "sync_folders"):
            checked_path(path)
        with self._mutex:
            self.calls += 1
            call = Call(self.calls, name, path)
        return None if self.hook is None else self.hook(call)

    def _read_fault(self, fault: Fault | None, path: str) -> None:
        if fault is not None:
            raise StorageError(f"injected fault ({fault.value}) at {path}", culprit=path)

    def _change(self, name: str, path: str, data: bytes, effect: Callable[[bytes], None]) -> None:
        fault = self._enter(name, path)
        if fault is Fault.ERROR:
            raise StorageError(f"injected fault (error) at {name} {path}", culprit=path)
        if fault is Fault.TORN and not (is_data_file(path) and name != "delete"):
            raise UnknownOutcomeError(f"injected fault (torn) at {name} {path}", culprit=path)
        with self._mutex:
            effect(bytes(data[: len(data) // 2] if fault is Fault.TORN else data))
        if fault is not None:
            raise UnknownOutcomeError(f"injected fault ({fault.value}) at {name} {path}", culprit=path)

    def _put(self, path: str, data: bytes) -> None:
        self._version += 1
        if path not in self._objects:
            insort(self._paths, path)
        self._objects[path] = (bytes(data), self._now_ms(), self._version)
        self.synced.discard(path)

    def _drop(self, path: str) -> None:
        if self._objects.pop(path, None) is not None:
            del self._paths[bisect_left(self._paths, path)]

    def _get(self, path: str) -> tuple[bytes, int, int]:
        found = self._objects.get(path)
        if found is None:
            raise ObjectNotFoundError(f"{path} does not exist", culprit=path)
        return found

    def _below(self, folder: str) -> tuple[ObjectMeta, ...]:
        at, end = self._span(folder)
        return tuple(self._meta(path, self._objects[path]) for path in self._paths[at:end])

    def _span(self, folder: str) -> tuple[int, int]:
        start = f"{folder}/" if folder else ""
        at = bisect_left(self._paths, start)
        # "0" is what follows the slash
        return at, bisect_left(self._paths, f"{folder}0", lo=at) if folder else len(self._paths)

    @staticmethod
    def _meta(path: str, found: tuple[bytes, int, int]) -> ObjectMeta:
        data, modified, version = found
        return ObjectMeta(path, len(data), modified, str(version))
