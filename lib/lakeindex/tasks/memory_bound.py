"""How much memory the tasks of one process may hold together (``lakeindex.memory``), and what one task may.

The bound is ambient, as the meter is: whoever starts a run sets it, every map hands each task its share, which
is the bound over the tasks that run at once. Stage 1 cuts its work so that a task stays within its share; a task
whose size is given by the table (a base file to rewrite) says what it will hold, and starts when that fits
beside what the others said.
"""

from __future__ import annotations

import ctypes
import functools
import os
from collections import OrderedDict, deque
from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from threading import Condition
from typing import Any, Final, Generic, Protocol, TypeVar

import pyarrow as pa

from lakeindex.storage.parallel import ProcessLock
from lakeindex.time_spent import waiting

MIB: Final = 1024 * 1024
LEAST_DEFAULT: Final = 512 * MIB
_CGROUP_LIMITS: Final = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")
_STATUS: Final = Path("/proc/self/status")
_POOL_CHOICE: Final = "ARROW_DEFAULT_MEMORY_POOL"
_THRIFTY_POOL: Final = "jemalloc"
_PIECE_PARTS: Final = 8
"""A piece of input is held about six times at once: read, fitted and keyed, scattered, encoded, and as bytes to put."""
_BUCKET_PARTS: Final = 5
"""A bucket is held about four times at once: read, its sort order and keys, sorted, encoded."""
_CHUNK_PARTS: Final = 8
_REWRITE_TIMES: Final = 6
_ROWS_TIMES: Final = 3
_VERIFY_TIMES: Final = 2
_LOAD_PARTS: Final = 2
_LARGEST_LOAD: Final = 3 * 1024 * MIB
_LARGEST_WAVE: Final = 384 * MIB
_SPILL_PARTS: Final = 4
"""What is spilled at once is held about three times: as it was read, in the order of the waves, and as a message."""
_LARGEST_SPILL: Final = 128 * MIB
TOGETHER_BYTES: Final = 8 * MIB
"""What small files that a task makes at once hold together, at most."""
_LARGEST_PIECE: Final = 512 * MIB
_LARGEST_BUCKET: Final = 1024 * MIB
"""Texts of one column must stay below the 2 GiB that Arrow's short offsets address."""
LARGEST_CACHE: Final = 512 * MIB

_bound: ContextVar[int | None] = ContextVar("memory_bound", default=None)
_share: ContextVar[int | None] = ContextVar("memory_share", default=None)


@functools.cache
def default_memory() -> int:
    """Half of the memory this process may use, by machine and cgroup; 512 MiB at least."""
    limits = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CGROUP_LIMITS:
        try:
            text = Path(path).read_text().strip()
        except OSError:
            continue
        if text.isdigit():
            limits.append(int(text))
    return max(LEAST_DEFAULT, min(limits) // 2)


@contextmanager
def memory_bound(limit: int | None) -> Iterator[None]:
    """Bound the maps that the body starts; None leaves the bound that is in force."""
    if limit is None:
        yield
        return
    token = _bound.set(limit)
    try:
        with _POOL.in_use():
            yield
    finally:
        _bound.reset(token)


class _ThriftyPool:
    """Arrow's allocator while a bound is in force: of what is freed, its usual one keeps several hundred MB."""

    def __init__(self) -> None:
        self._users = 0
        self._before: pa.MemoryPool | None = None
        self._mutex = ProcessLock()

    @contextmanager
    def in_use(self) -> Iterator[None]:
        with self._mutex:
            self._users += 1
            if self._users == 1 and _POOL_CHOICE not in os.environ and _THRIFTY_POOL in pa.supported_memory_backends():
                self._before = pa.default_memory_pool()
                pa.set_memory_pool(pa.jemalloc_memory_pool())
        try:
            yield
        finally:
            with self._mutex:
                self._users -= 1
                if not self._users and self._before is not None:
                    pa.set_memory_pool(self._before)
                    self._before = None


_POOL: Final = _ThriftyPool()


def give_back() -> None:
    """Give memory that is free to the system if the process has more than the bound: allocators keep it."""
    if resident_bytes() > current_bound():
        pa.default_memory_pool().release_unused()
        trim = _trim()
        if trim is not None:
            trim(0)


@functools.cache
def _trim() -> Any:
    """GNU's ``malloc_trim``; None in another C library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if os.name == "posix" else None


def resident_bytes() -> int:
    """Resident memory of this process; 0 where the system does not say."""
    return _status(b"VmRSS:")


def current_bound() -> int:
    """Bytes that the tasks of this process may hold together."""
    return _bound.get() or default_memory()


@contextmanager
def memory_share(share: int | None) -> Iterator[None]:
    """What one task may hold; None leaves what is in force."""
    token = _share.set(_share.get() if share is None else share)
    try:
        yield
    finally:
        _share.reset(token)


def current_share() -> int:
    """Bytes that the running task may hold; outside of a task, the whole bound."""
    return _share.get() or current_bound()


def peak_resident_bytes() -> int:
    """Most resident memory that this process had so far; 0 where the system does not say (it has no /proc)."""
    return _status(b"VmHWM:")


def _status(name: bytes) -> int:
    try:
        with _STATUS.open("rb", buffering=0) as status:
            found = status.read().partition(name)[2]
    except OSError:
        return 0
    return int(found.split(maxsplit=1)[0]) * 1024 if found else 0


def piece_bytes(share: int) -> int:
    """Decoded bytes of input that a task takes at once."""
    return max(1, min(share // _PIECE_PARTS, _LARGEST_PIECE))


def bucket_bytes(share: int) -> int:
    """Decoded bytes that a task combines and sorts at once."""
    return max(1, min(share // _BUCKET_PARTS, _LARGEST_BUCKET))


def chunk_bytes(share: int) -> int:
    """Decoded bytes of a chunk: later tasks decode at least one as a whole."""
    return max(1, share // _CHUNK_PARTS)


def cache_bytes(share: int) -> int:
    """Decoded bytes that a process keeps for its tasks."""
    return min(share // _CHUNK_PARTS, LARGEST_CACHE)


def write_bytes(file_bytes: int, staged_bytes: int) -> int:
    """What making a base file at once holds: the old file and the new one, parts of it decoded or encoded,
    and the batch's rows that go into it as they are read, joined and merged. Measured: docs/architecture.md, "Memory".
    """
    return _REWRITE_TIMES * file_bytes + _ROWS_TIMES * staged_bytes


def write_part(share: int, file_bytes: int, staged_bytes: int) -> float:
    """Of the rows of a base file, how many may be in memory while it is made; 1 or more: all."""
    return min(share / max(write_bytes(file_bytes, staged_bytes), 1), _LARGEST_BUCKET / max(staged_bytes, 1))


def load_bytes(bound: int) -> int:
    """What the rows of a load that are written at once hold together: addresses, columns as they are read, and encoded
    ones.
    """
    return max(1, min(bound // _LOAD_PARTS, _LARGEST_LOAD))


def wave_bytes(bound: int) -> int:
    """Decoded bytes of the rows of a load that are written at once, if these are not all."""
    return min(load_bytes(bound), _LARGEST_WAVE)


def spilled_bytes(slots: int) -> int:
    """Decoded bytes of a load that one of so many tasks divides among the waves at once."""
    return max(1, min(current_bound() // slots // _SPILL_PARTS, _LARGEST_SPILL))


def verify_bytes(file_bytes: int) -> int:
    """What matching keys against a base file's key column holds, about."""
    return _VERIFY_TIMES * file_bytes


def held_by(task: Any) -> int:
    """What a task says it will hold (``held_bytes``), 0 if it says nothing; of several in a row, the largest,
    or what small ones hold that are done together.
    """
    if isinstance(task, tuple):
        held = [held_by(one) for one in task]
        return max([*held, min(sum(held), TOGETHER_BYTES)])
    return int(getattr(task, "held_bytes", 0))


class MemoryGate:
    """Lets tasks begin, first come first served, when what they will hold fits beside what others hold.

    A task that is larger than the bound begins when no other holds anything.
    """

    def __init__(self) -> None:
        self._held: dict[object, int] = {}
        self._line: deque[object] = deque()
        self._changed = Condition()

    @contextmanager
    def holding(self, size: int, bound: int) -> Iterator[None]:
        """Wait until ``size`` bytes fit into ``bound``; they are held while the body runs."""
        if size <= 0:
            yield
            return
        size = min(size, bound)
        me = object()
        try:
            with self._changed:
                self._line.append(me)
                try:
                    with waiting():
                        self._changed.wait_for(lambda: self._line[0] is me and self._sum() + size <= bound)
                    self._held[me] = size
                finally:
                    self._line.remove(me)
                    self._changed.notify_all()
            yield
        finally:
            with self._changed:
                self._held.pop(me, None)
                self._changed.notify_all()

    def _sum(self) -> int:
        return sum(self._held.values())


GATE: Final = MemoryGate()
"""Of this process, whatever runs in it."""


class Sized(Protocol):
    """Something with a size in memory."""

    @property
    def nbytes(self) -> int:
        """Bytes it takes."""


V = TypeVar("V", bound=Sized)


class BoundedCache(Generic[V]):
    """Least-recently-used cache bounded in bytes; safe to share between threads."""

    def __init__(self, limit_bytes: int) -> None:
        self._limit = limit_bytes
        self._held: OrderedDict[Hashable, V] = OrderedDict()
        self._bytes = 0
        self._mutex = ProcessLock()

    def get(self, key: Hashable) -> V | None:
        """The value, now the most recently used; None if it is not held."""
        with self._mutex:
            value = self._held.get(key)
            if value is not None:
                self._held.move_to_end(key)
            return value

    def put(self, key: Hashable, value: V, limit_bytes: int | None = None) -> None:
        """Hold a value; the least recently used ones go where it gets too much,
        from here on if ``limit_bytes`` is less.
        """
        limit = self._limit if limit_bytes is None else min(limit_bytes, self._limit)
        with self._mutex:
            if key in self._held:
                return
            self._held[key] = value
            self._bytes += value.nbytes
            while self._bytes > limit and len(self._held) > 1:
                _, dropped = self._held.popitem(last=False)
                self._bytes -= dropped.nbytes
