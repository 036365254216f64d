"""Keyed state as an engine offers it: entries are appended, the newest of a key counts, asking never changes it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from lakeindex.frozen import Frozen

_T = TypeVar("_T")
_R = TypeVar("_R")

ENTRIES: Final = "bucket int, key string, partition string, file_id string, seq bigint"
"""What is fed; a null file id says that the key is gone."""


class StateSettings(Frozen):
    """What is fixed when a state is made.

    Attributes:
        partitions: partitions of the state store; the engine keeps to those of the first micro-batch.
        ttl_days: days after which an entry is forgotten; 0: never.
    """

    partitions: int
    ttl_days: float = 0.0


class KeyedStateEngine(Protocol):
    """One state: see :class:`lakeindex.runners.keyed_state.KeyedState`, which says more."""

    def feed(self, number: int, read: Callable[[_T], pa.Table], tasks: Sequence[_T]) -> None:
        """Hand entries over that tasks read; the next run takes them in."""

    def feed_tables(self, number: int, tables: Iterable[pa.Table]) -> None:
        """Hand entries over."""

    def copy_from(self, other: Any, number: int, *, buckets: int, by_partition: bool) -> None:
        """Feed what counts in another state."""

    def run(self) -> None:
        """Take in what was fed, in one micro-batch."""

    def look_up(
        self,
        asked: Sequence[_T],
        read: Callable[[_T], pa.Table],
        rows: int,
        write: Callable[[int, pa.Table], _R],
        *,
        by_partition: bool,
    ) -> list[_R]:
        """Locations of keys, kept in pieces by ``write``."""

    def write_newest(self, write: Callable[[int, pa.Table], _R], *, by_partition: bool) -> list[_R]:
        """Everything that counts, kept in pieces by ``write``."""

    def count(self, *, by_partition: bool) -> int:
        """Keys (by partition) that count."""

    def last_batch(self) -> int | None:
        """Number of the last micro-batch; None if there is no state."""

    def last_feed(self) -> int | None:
        """Number of the last feed; None if there is none."""

    def size_bytes(self) -> int:
        """Bytes it takes."""

    def remove(self) -> None:
        """Delete it."""


@runtime_checkable
class StateRunner(Protocol):
    """A runner whose engine has keyed state."""

    def keyed_state(self, folder: str, settings: StateSettings) -> KeyedStateEngine:
        """The state in a folder."""
