"""Something that happens in the middle of a run, at a storage call or a map: what another writer or program does there."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from functools import cache
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit import write_session
from lakeindex.format.instants import ROLLBACK
from lakeindex.model import Instant
from lakeindex.run.summary import RunSummary
from lakeindex.storage.memory import Call, Fault, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.runner import Runner
from lakeindex.timeline.timeline import Timeline
from tests.builders import Row, batch_of, make_table

When = Callable[[Call], bool]
# whoever comes in between does not wait until who stands still in the middle of a run has had his turn
OVERTAKES = {"lakeindex.lock.wait": "0"}
WAITS = {"lakeindex.lock.wait": "2"}
SMALL = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}


class MemoryTable:
    """A table in memory, in whose store things can be made to happen."""

    def __init__(self, index: str = "BLOOM", **options: str) -> None:
        self.name = f"table-{uuid.uuid4()}"
        self.store = MemoryStorage.named(self.name)
        self._between = False
        self.table: LakeTable = make_table(f"memory://{self.name}", hoodie__index__type=index, **options)

    @classmethod
    def holding(cls, *batches: Iterable[Row], index: str = "BLOOM", **options: str) -> MemoryTable:
        """One that some batches were written to; made once a process, and copied."""
        world = cls(index, **options)
        world.store.restore(_written(tuple(map(tuple, batches)), index, tuple(sorted(options.items()))))
        return world

    def upsert(
        self, rows: Iterable[Row], *, run: str | None = None, runner: Runner | None = None, **options: str
    ) -> RunSummary:
        """One batch, on one thread."""
        given = {name.replace("__", "."): value for name, value in options.items()}
        return self.table.upsert(
            batch_of(rows),
            checkpoints=f"memory://{self.name}-runs",
            run_id=run,
            options={**SMALL, **(OVERTAKES if self._between else {}), **given},
            runner=runner or LocalRunner(1),
        )

    def once(self, when: When, action: Callable[[], object]) -> list[Call]:
        """Do something just before the first call that fits; the list says before which one, when it was done."""
        done: list[Call] = []

        def hook(call: Call) -> Fault | None:
            if not done and when(call):
                done.append(call)
                self._between = True
                action()
                self._between = False
            return None

        self.store.hook = hook
        return done

    def timeline(self) -> Timeline:
        """As it is now."""
        return Table.open(self.store).load_timeline()

    def rollbacks(self) -> list[Instant]:
        """Completed rollbacks."""
        return [one for one in self.timeline().completed if one.action == ROLLBACK]


@cache
def _written(
    batches: tuple[tuple[Row, ...], ...], index: str, options: tuple[tuple[str, str], ...]
) -> dict[str, bytes]:
    world = MemoryTable(index, **dict(options))
    for batch in batches:
        world.upsert(batch)
    return world.store.snapshot()


class Meanwhile(LocalRunner):
    """Something happens, once, when a map begins in whose title some words are, or when it has ended.

    Args:
        title: the words.
        does: what happens.
        is_late: when the map has ended.
        slots: tasks at once.
    """

    def __init__(self, title: str, does: Callable[[], object], *, is_late: bool = False, slots: int = 1) -> None:
        super().__init__(slots)
        self._title, self._does, self._is_late, self.done = title, does, is_late, 0

    def map(self, function: Callable[[Any], Any], tasks: Any, title: str) -> list[Any]:
        is_now = self._title in title and not self.done
        if is_now and not self._is_late:
            self._happens()
        found = super().map(function, tasks, title)
        if is_now and self._is_late:
            self._happens()
        return found

    def _happens(self) -> None:
        self.done += 1
        self._does()


def writes_data(call: Call) -> bool:
    """A data file is about to be put: everything was looked up and planned, and nothing is locked."""
    return call.name == "write" and call.path.endswith(".parquet") and not call.path.startswith(".hoodie/")


def begins_to_write(call: Call) -> bool:
    """The keys were looked up; the write is about to begin."""
    return call.name == "create" and "/attempts/" in call.path


def once_ready(monkeypatch: pytest.MonkeyPatch, does: Callable[[], object]) -> None:
    """Do something once, when a write of this process is planned, and nothing of it but its claim is on the table."""
    real = write_session.make_ready

    def ready(*args: Any, **kwargs: Any) -> bool:
        monkeypatch.setattr(write_session, "make_ready", real)
        does()
        return real(*args, **kwargs)

    monkeypatch.setattr(write_session, "make_ready", ready)
