"""INMEMORY: a hash map for the life of the process. For tests and small tables, not for production.

It is built from the key columns of the whole table by the first look-up of a process,
and follows the table from then on; it ends with the process. It holds every key of the table, on the driver.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
from msgspec import Struct, field

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray
from lakeindex.index.advice import Expected, KindAdvice, Workload, located
from lakeindex.index.cost import LookupLoad
from lakeindex.index.locations.change_log import CoveredFile
from lakeindex.index.locations.store_context import StoreContext
from lakeindex.index.locations.stored_index import Found, StoredIndex
from lakeindex.model import Group, IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage import StoreOptions, current_options


class _View(Frozen, eq=False):
    """What the process knows of one table; never changed, so that who looks up has all of it or all of another one.

    Attributes:
        groups: partition and key -> file id.
        several: of these, keys that are in more than one file group: each is looked for in all files.
    """

    number: int = 0
    files: Mapping[Group, CoveredFile] = field(default_factory=dict)
    groups: dict[tuple[str, str], str] = field(default_factory=dict)
    several: frozenset[tuple[str, str]] = frozenset()


class _Held(Struct):
    view: _View = field(default_factory=_View)
    mutex: threading.Lock = field(default_factory=threading.Lock)


_held: dict[tuple[str, StoreOptions], _Held] = {}


def forget_all() -> None:
    """Forget every table, as a new process would."""
    _held.clear()


class InMemoryStore:
    """Key and partition -> file id, of one table, in this process.

    Args:
        generation: what another store's :meth:`generation` was: if more is known now, or less, as other threads work
            at the table, too, each key is looked for in all files.
    """

    def __init__(self, uri: str, generation: str | None = None) -> None:
        self._held = _held.setdefault((uri, current_options()), _Held())
        self._view = self._held.view
        self._is_other = generation not in (None, self.generation())

    def generation(self) -> str:
        return str(self._view.number)

    def coverage(self) -> Mapping[Group, CoveredFile]:
        return self._view.files

    def enter(self, found: pa.Table, files: Sequence[CoveredFile], gone: Iterable[Group] = ()) -> None:
        void = {*gone, *(file.group for file in files)}
        columns = (found.column(name).to_pylist() for name in ("partition", "key", "file_id"))
        with self._held.mutex:
            old = self._held.view
            groups = {place: file_id for place, file_id in old.groups.items() if (place[0], file_id) not in void}
            several = set(old.several)
            for partition, key, file_id in zip(*columns, strict=True):
                place = partition, key
                if groups.setdefault(place, file_id) != file_id:
                    several.add(place)
            covered = {group: file for group, file in old.files.items() if group not in void}
            covered |= {file.group: file for file in files}
            self._view = self._held.view = _View(old.number + 1, covered, groups, frozenset(several))

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        if partition is None or self._is_other:
            return self._look_anywhere(keys)
        groups, several = self._view.groups, self._view.several
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
        return InMemoryStore(context.storage.uri, context.view.generation)

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
