"""A small table in memory, and steps of the commit protocol, for the unit tests of its modules."""

from dataclasses import dataclass, field

import pytest

from lakeindex.errors import LakeIndexError
from lakeindex.model import Instant, InstantState
from lakeindex.storage.memory import Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.table.host import Host, Process
from tests.model.world import (
    FIRST,
    LAYOUT,
    PROPERTIES,
    Batch,
    PlainClock,
    initial_objects,
    make_host,
    timeline_path,
    upsert,
)

START_MS = 1_767_225_600_000
GROUPS = ({"a1": "0", "a2": "0"}, {"b1": "0"})
BATCH = Batch("run-1", {"a1": "one", "x": "one"})
OTHER = Batch("run-2", {"b1": "two"})

__all__ = ["BATCH", "FIRST", "GROUPS", "OTHER", "PROPERTIES", "START_MS", "Batch", "KilledError", "World", "upsert"]


class KilledError(BaseException):
    """The process is gone."""


@dataclass
class World:
    """A store with a table of one commit, a clock, and processes of which some are gone."""

    groups: tuple[dict[str, str], ...] = GROUPS
    clock: PlainClock = field(default_factory=lambda: PlainClock(START_MS))
    gone: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.store = MemoryStorage(now_ms=self.clock.now_ms)
        self.store.restore(initial_objects(self.groups))

    def host(self, name: str) -> Host:
        return make_host(name, self.clock, self.is_gone)

    def is_gone(self, process: Process) -> bool:
        return process.started in self.gone

    def upsert(self, batch: Batch, name: str = "writer") -> str:
        return upsert(self.store, batch, self.host(name))

    def decide(self, batch: Batch) -> Instant:
        """A writer's commit that is decided and not completed: it was killed before that was put."""
        self.store.hook = lambda call: Fault.ERROR if call.path.endswith(".commit") else None
        with pytest.raises(LakeIndexError):
            self.upsert(batch, "killed")
        self.store.hook = None
        self.gone.add("killed")
        (pending,) = Table.open(self.store).load_timeline().pending_writes
        return pending

    def names(self, folder: str = LAYOUT.folder) -> list[str]:
        return [one.path.rpartition("/")[2] for one in self.store.list_folder(folder).objects]

    def put_pending(self, time: str, *, marked: str | None = None) -> None:
        """Another writer's pending commit, with a data file, and a marker for it if asked."""
        self.store.write(timeline_path(time, InstantState.REQUESTED), b"")
        self.store.write(timeline_path(time, InstantState.INFLIGHT), b"{}")
        if marked is not None:
            self.store.write(f".hoodie/.temp/{time}/p/{marked}.marker.CREATE", b"")
            self.store.write(f"p/{marked}", b"{}")
