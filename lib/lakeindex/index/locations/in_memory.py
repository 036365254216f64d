"""INMEMORY: a hash map for the life of the process. For tests and small tables, not for production.

It is built from the key columns of the whole table by the first look-up of a process,
and follows the table from then on; it ends with the process. It holds every key of the table, on the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.advice import Expected, KindAdvice, Workload, located
from lakeindex.index.cost import LookupLoad
from lakeindex.index.locations.change_log import CoveredFile
from lakeindex.index.locations.store_context import StoreContext
from lakeindex.index.locations.stored_index import Change, Found, StoredIndex
from lakeindex.model import Group, IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage import StoreOptions, current_options


@dataclass
class _Held:
    """What the process knows of one table.

    Attributes:
        groups: partition and key -> file id.
        several: of these, keys that are in more than one file group: each is looked for in all files.
    """

    files: dict[Group, CoveredFile] = field(default_factory=dict)
    groups: dict[tuple[str, str], str] = field(default_factory=dict)
    several: set[tuple[str, str]] = field(default_factory=set)
    mutex: threading.Lock = field(default_factory=threading.Lock)


_held: dict[tuple[str, StoreOptions], _Held] = {}


def forget_all() -> None:
    """Forget every table, as a new process would."""
    _held.clear()


class InMemoryStore:
    """Key and partition -> file id, of one table, in this process."""

    def __init__(self, uri: str) -> None:
        self._held = _held.setdefault((uri, current_options()), _Held())

    def coverage(self) -> dict[Group, CoveredFile]:
        return dict(self._held.files)

    def enter(
        self,
        delta: pa.Table,
        files: Sequence[CoveredFile],
        gone: Iterable[Group] = (),
        resets: Iterable[Group] = (),
    ) -> None:
        columns = (delta.column(n).to_pylist() for n in ("partition", "key", "file_id", "change"))
        void = {*gone, *resets}
        with self._held.mutex:
            if void:
                groups = self._held.groups
                self._held.groups = {k: f for k, f in groups.items() if (k[0], f) not in void}
            entered = set()
            for partition, key, file_id, change in zip(*columns, strict=True):
                place = partition, key
                known = self._held.groups.pop(place, None)
                if (change == Change.FOUND or place in entered) and known not in (None, file_id):
                    self._held.several.add(place)
                elif change != Change.FOUND:
                    self._held.several.discard(place)
                if file_id is not None:
                    self._held.groups[place] = file_id
                    entered.add(place)
            self._held.files.update({f.group: f for f in files})
            for group in void - {f.group for f in files}:
                self._held.files.pop(group, None)

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        if partition is None:
            return self._look_anywhere(keys)
        groups, several = self._held.groups, self._held.several
        asked = [(partition, key) for key in keys.to_pylist()]
        unknown = np.array([row for row, place in enumerate(asked) if place in several], np.int64)
        rows = [row for row, place in enumerate(asked) if place in groups and place not in several]
        found = [groups[asked[row]] for row in rows]
        ids = pa.array(found, pa.string())
        return Found(np.array(rows, np.int64), pa.repeat(partition, len(found)), ids, unknown=unknown)

    def _look_anywhere(self, keys: StringArray) -> Found:
        """A key may be in several partitions, which an answer cannot say: every file is asked."""
        nothing = pa.array([], pa.string())
        return Found(np.zeros(0, np.int64), nothing, nothing, unknown=np.arange(len(keys), dtype=np.int64))


@dataclass(frozen=True, slots=True)
class InMemoryIndex(StoredIndex):
    """The kind."""

    in_process: ClassVar[bool] = True

    spec: IndexSpec

    def open(self, context: StoreContext) -> InMemoryStore:
        return InMemoryStore(context.storage.uri)

    def notes(self, config: WriteConfig) -> tuple[str, ...]:
        del config
        return ("INMEMORY is a hash map of one process, filled from the whole table: not for production",)


def make_index(spec: IndexSpec) -> InMemoryIndex:
    return InMemoryIndex(spec)


def _expected(work: Workload, config: WriteConfig) -> Expected:
    del config
    note = "for tests: every process reads the whole table's keys first (the build)"
    return located(work, LookupLoad(work.keys, work.files), note)


ADVICE: Final = KindAdvice(_expected)
