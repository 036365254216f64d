"""Objects of a store for readers that want a file (pyarrow), or bytes that they can slice."""

from __future__ import annotations

import atexit
import io
import threading
import time
from pathlib import Path
from typing import Final

from lakeindex.storage.port import Storage

_SEEKS: Final = (io.SEEK_SET, io.SEEK_CUR, io.SEEK_END)
_THREADS: Final = Path("/proc/self/task")
_LOOK_SECONDS: Final = 0.001
_PATIENCE_SECONDS: Final = 0.1


@atexit.register
def _let_readers_finish() -> None:
    """Wait until no other thread of the process runs, for a tenth of a second at most.

    A thread of Arrow's that has read from a Python file lets go of the file and of the bytes a moment after it handed
    them over. If the interpreter is on its way out by then, the lock that this takes ends the process with ``terminate
    called without an active exception`` (exit code 134), though all work was done. While this sleeps, such threads get
    the lock.
    """
    deadline = time.monotonic() + _PATIENCE_SECONDS  # a look may take long among busy threads
    while time.monotonic() < deadline:
        time.sleep(_LOOK_SECONDS)  # a thread that waits for the interpreter's lock would look idle, and gets it now
        if not any(map(_runs, _THREADS.iterdir() if _THREADS.is_dir() else ())):
            return


def _runs(thread: Path) -> bool:
    """Whether another thread runs or waits for a processor. Source: proc(5), ``/proc/pid/stat``, state."""
    if thread.name == str(threading.get_native_id()):
        return False
    try:
        stat = (thread / "stat").read_bytes()  # with the thread's name, which may be any bytes
    except OSError:  # it ended
        return False
    return stat.rpartition(b") ")[2].startswith(b"R")


class StoredBytes:
    """An object's bytes: every slice is one ranged request."""

    def __init__(self, storage: Storage, path: str, size: int) -> None:
        self._storage, self._path, self._size = storage, path, size

    def __len__(self) -> int:
        return self._size

    def __getitem__(self, span: slice) -> bytes:
        start, stop, _ = span.indices(self._size)
        return self._storage.read_range(self._path, start, stop - start)

    def reader(self) -> StorageFile:
        return StorageFile(self._storage, self._path, self._size)


class StorageFile(io.RawIOBase):
    """One object as a file; every read is one ranged request.

    Args:
        size: its size, if it is known; asked for otherwise.
    """

    def __init__(self, storage: Storage, path: str, size: int | None = None) -> None:
        super().__init__()
        self._storage = storage
        self._path = path
        self._size = storage.head(path).size_bytes if size is None else size
        self._at = 0

    def size(self) -> int:
        return self._size

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        """Move; beyond the end is allowed, before the start is not."""
        if whence not in _SEEKS:
            raise ValueError(f"whence {whence}")
        base = (0, self._at, self._size)[whence]
        if base + offset < 0:
            raise ValueError(f"negative position {base + offset}")
        self._at = base + offset
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        """At most ``size`` bytes, to the end if it is negative."""
        left = max(self._size - self._at, 0)
        length = left if size is None or size < 0 else min(size, left)
        data = self._storage.read_range(self._path, self._at, length) if length else b""
        self._at += len(data)
        return data

    def readall(self) -> bytes:
        return self.read()

    def readinto(  # type: ignore[override]  # typeshed's WriteableBuffer is private
        self, buffer: bytearray | memoryview, /
    ) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
