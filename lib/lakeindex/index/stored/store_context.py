"""What a store of locations is told when it is opened, by the driver or by a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from lakeindex.format.instants import comparable
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig
from lakeindex.storage.port import Storage
from lakeindex.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Completed:
    """Which instants count, as a small value for tasks: what :meth:`Timeline.is_visible` says.

    What a store says is checked against the files, and what it covers is compared by file name,
    so that an instant which counts here, and was taken back before it was archived, costs a look and nothing else.

    Attributes:
        times: completed writes on the timeline, and those archived from between them.
        first: the first write on the timeline; what is older was archived, and counts. None: nothing is older.
        pending: instants that may still be completed, however old.
    """

    times: frozenset[str]
    first: str | None
    pending: frozenset[str] = frozenset()

    @staticmethod
    def of(timeline: Timeline) -> Completed:
        """What a timeline says. The archive is read only where a savepoint may have let it
        take something from between.
        """
        times = timeline.completed_write_times
        if timeline.savepoints:
            times |= {time for time in timeline.archived.writes if timeline.is_visible(time)}
        return Completed(times, timeline.first_write_time, timeline.pending_times)

    def has(self, time: str) -> bool:
        """Whether an instant is completed."""
        if time in self.times:
            return True
        return self.first is not None and comparable(time) < comparable(self.first) and time not in self.pending


@dataclass(frozen=True, slots=True)
class LogView:
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
        """Where a delta is."""
        return f"{self.folder}/log/{name}.parquet"


@dataclass(frozen=True, slots=True)
class StoreContext:
    """Everything a store may need.

    Attributes:
        storage: the table's folder.
        table_name: the table's name.
        spec: the index.
        config: options of the write.
        completed: which instants count.
        view: which deltas count.
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
