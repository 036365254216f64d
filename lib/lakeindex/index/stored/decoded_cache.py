"""A cache for what a process has decoded, shared by the tasks that it runs."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, Protocol, TypeVar

from lakeindex.storage.parallel import ProcessLock


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
