"""What a stage cost, for the run summary: requests and bytes that go through the storage port, tasks, memory."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Sequence

from lakeindex.frozen import Frozen
from lakeindex.storage import list_names, sync_folders
from lakeindex.storage.port import Listing, ObjectMeta, Pieces, Storage
from lakeindex.tasks.memory_bound import peak_resident_bytes
from lakeindex.time_spent import Spent


class IoCount(Frozen):
    """Storage requests, and bytes read and written."""

    requests: int = 0
    bytes_read: int = 0
    bytes_written: int = 0

    def __add__(self, other: IoCount) -> IoCount:
        return IoCount(
            self.requests + other.requests,
            self.bytes_read + other.bytes_read,
            self.bytes_written + other.bytes_written,
        )


class StageCost(Frozen):
    """What a stage, or a part of one, cost.

    Attributes:
        seconds: wall time without start-up and waiting.
        io: storage requests and bytes, of the driver and all tasks.
        task_seconds: the same of each task.
        peak_bytes: most resident memory of a process that worked for it, whatever else that process did before.
        apart: of a task, what it took in a process that has no account of the run.
    """

    seconds: float
    io: IoCount = IoCount()
    task_seconds: tuple[float, ...] = ()
    peak_bytes: int = 0
    apart: Spent | None = None

    def __add__(self, other: StageCost) -> StageCost:
        return StageCost(
            self.seconds + other.seconds,
            self.io + other.io,
            self.task_seconds + other.task_seconds,
            max(self.peak_bytes, other.peak_bytes),
        )


class Meter:
    """A running count; safe to share between threads."""

    def __init__(self) -> None:
        self._requests = self._read = self._written = 0
        self._task_seconds: list[float] = []
        self._peak_bytes = 0
        self._mutex = threading.Lock()

    def add(self, requests: int, read: int = 0, written: int = 0) -> None:
        with self._mutex:
            self._requests += requests
            self._read += read
            self._written += written

    def add_tasks(self, costs: Sequence[StageCost]) -> None:
        with self._mutex:
            for cost in costs:
                self._requests += cost.io.requests
                self._read += cost.io.bytes_read
                self._written += cost.io.bytes_written
                self._task_seconds.append(cost.seconds)
                self._peak_bytes = max(self._peak_bytes, cost.peak_bytes)

    def cost(self, seconds: float) -> StageCost:
        with self._mutex:
            peak = max(self._peak_bytes, peak_resident_bytes())
            io = IoCount(self._requests, self._read, self._written)
            return StageCost(seconds, io, tuple(self._task_seconds), peak)


class MeteredStorage:
    """A store that counts. Same contract as the store it wraps."""

    def __init__(self, store: Storage, meter: Meter) -> None:
        self._store = store
        self._meter = meter

    @property
    def uri(self) -> str:
        return self._store.uri

    def list(self, prefix: str = "") -> list[ObjectMeta]:
        self._meter.add(1)
        return self._store.list(prefix)

    def list_folder(self, prefix: str = "") -> Listing:
        self._meter.add(1)
        return self._store.list_folder(prefix)

    def list_names(self, prefix: str = "") -> tuple[str, ...]:
        self._meter.add(1)
        return list_names(self._store, prefix)

    def head(self, path: str) -> ObjectMeta:
        self._meter.add(1)
        return self._store.head(path)

    def read(self, path: str) -> bytes:
        data = self._store.read(path)
        self._meter.add(1, len(data))
        return data

    def read_range(self, path: str, start: int, length: int) -> bytes:
        data = self._store.read_range(path, start, length)
        self._meter.add(1, len(data))
        return data

    def create(self, path: str, data: bytes) -> None:
        self._meter.add(1, 0, len(data))
        self._store.create(path, data)

    def write(self, path: str, data: bytes | Pieces) -> None:
        self._meter.add(1)
        self._store.write(path, self._counted(data))

    def _counted(self, data: bytes | Pieces) -> Iterator[bytes | memoryview]:
        for piece in (data,) if isinstance(data, bytes) else data:
            self._meter.add(0, 0, len(piece))
            yield piece

    def replace(self, path: str, data: bytes, etag: str) -> str:
        self._meter.add(1, 0, len(data))
        return self._store.replace(path, data, etag)

    def delete(self, path: str) -> None:
        self._meter.add(1)
        self._store.delete(path)

    def sync(self, paths: Iterable[str]) -> None:
        self._store.sync(paths)

    def sync_folders(self, folders: Iterable[str]) -> None:
        sync_folders(self._store, folders)
