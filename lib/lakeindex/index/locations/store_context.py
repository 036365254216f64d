"""What a store of locations is told when it is opened, by the driver or by a task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.timeline.timeline import Timeline


class Completed(Frozen):
    """Which instants count, as a small value for tasks: what :meth:`Timeline.is_visible` says, and of the instants of a
    change log what :meth:`Timeline.is_committed` says.

    Attributes:
        times: completed writes on the timeline, and those archived from between them.
        first: the first write on the timeline; what is older was archived, and counts. None: nothing is older.
        pending: instants that may still be completed, however old.
        undone: instants older than the timeline that were rolled back, of those that were asked for.
    """

    times: frozenset[str]
    first: str | None
    pending: frozenset[str] = frozenset()
    undone: frozenset[str] = frozenset()

    @staticmethod
    def of(timeline: Timeline, noted: Iterable[str] = ()) -> Completed:
        """What a timeline says. The archive is read only where a savepoint may have let it
        take something from between, and for noted instants that are older than the timeline.

        Args:
            noted: instants of which somebody keeps a note (a delta): being older than the timeline does not prove
                that they were committed.
        """
        times = timeline.completed_write_times
        if timeline.savepoints:
            times |= {time for time in timeline.archived.writes if timeline.is_visible(time)}
        completed = Completed(times, timeline.first_write_time, timeline.pending_times)
        older = {time for time in noted if time not in times and completed.has(time)}
        return replace(completed, undone=frozenset(time for time in older if not timeline.is_committed(time)))

    def has(self, time: str) -> bool:
        if time in self.times:
            return True
        if time in self.undone:
            return False
        return self.first is not None and comparable(time) < comparable(self.first) and time not in self.pending


NOTHING_COMPLETED: Final = Completed(frozenset(), None)


class LogView(Frozen):
    """The change log as one look-up sees it; a value that travels to tasks.

    Attributes:
        folder: the index's folder, relative to the table's.
        generation: names what was built, None if nothing was.
        deltas: names of the completed deltas that are not part of it, in order.
    """

    folder: str
    generation: str | None = None
    deltas: tuple[str, ...] = ()

    def path_of(self, name: str) -> str:
        return f"{self.folder}/log/{name}.parquet"


class StoreContext(Frozen):
    """Everything a store may need.

    Attributes:
        runner: the runner, on the driver's side only; a kind that needs an engine asks it.
        work_uri: a folder of this run for what is worked out in it.
        expected_rows: rows of the table, about, where it is going to be built.
    """

    storage: Storage
    table_name: str
    spec: IndexSpec
    config: WriteConfig
    completed: Completed
    view: LogView
    runner: Any = None
    work_uri: str | None = None
    expected_rows: int = 0
