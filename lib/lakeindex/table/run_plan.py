"""The plan of a run: its instant and the names of all its files, decided once and followed by every attempt.

``.hoodie/.lakeindex/runs/<run key>/plan-<generation>.json``, create-if-absent. A retry, a speculative task or a zombie that
follows the same plan can only write again what is there. A plan that no longer fits is rolled back; the next generation gets
a new instant.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from lakeindex.model import BaseFile
from lakeindex.storage.protocol import Storage
from lakeindex.table import records
from lakeindex.table.attempts import run_folder

_DIGITS: Final = 6
_PREFIX: Final = "plan-"


@dataclass(frozen=True, slots=True)
class PlannedFile:
    """One data file that a run is going to write.

    Attributes:
        partition_path: its partition.
        file_id: its file group.
        write_token: ``<task>-<stage>-<attempt>`` of its name.
        previous: the slice that it replaces; ``None`` for a new file group.
        updates: rows it replaces, for the inflight file.
        inserts: rows it adds, for the inflight file.
    """

    partition_path: str
    file_id: str
    write_token: str
    previous: BaseFile | None = None
    updates: int = 0
    inserts: int = 0

    def at(self, instant: str) -> BaseFile:
        """The file, written at an instant."""
        return BaseFile(self.partition_path, self.file_id, instant, self.write_token)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan.

    Attributes:
        instant: the run's instant.
        digest: digest of what is written where.
        generation: which plan of the run it is, from 1.
        planned: the files.
        token: unique to the plan.
    """

    instant: str
    digest: str
    generation: int
    planned: tuple[PlannedFile, ...]
    token: str

    @property
    def files(self) -> tuple[BaseFile, ...]:
        """The data files, in the order they were planned; sizes are not known yet."""
        return tuple(one.at(self.instant) for one in self.planned)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that are written to, sorted."""
        return tuple(sorted({one.partition_path for one in self.planned}))


def newest_plan(storage: Storage, run_key: str) -> RunPlan | None:
    """The newest plan of a run. Raises: TableCorruptError."""
    listed = storage.list_folder(run_folder(run_key)).objects
    paths = [one.path for one in listed if one.path.rpartition("/")[2].startswith(_PREFIX)]
    if not paths:
        return None
    found = records.load(storage, paths[-1])
    return None if found is None else _from_record(found, paths[-1])


def store_plan(storage: Storage, run_key: str, plan: RunPlan) -> RunPlan:
    """Store a plan as its generation, unless another attempt has: the plan that stands."""
    path = f"{run_folder(run_key)}/{_PREFIX}{plan.generation:0{_DIGITS}d}.json"
    data = records.encode(asdict(plan))
    standing = records.settle(storage, path, data)
    return plan if standing == data else _from_record(records.decode(standing, path), path)


def forget_run(storage: Storage, run_key: str) -> None:
    """Remove all records of a run that is over; best effort."""
    records.tidy(storage, [one.path for one in storage.list(run_folder(run_key))])


def _from_record(found: dict[str, Any], path: str) -> RunPlan:
    try:
        planned = tuple(_planned(one) for one in found.pop("planned"))
        return RunPlan(planned=planned, **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None


def _planned(found: dict[str, Any]) -> PlannedFile:
    previous = found.pop("previous")
    return PlannedFile(previous=None if previous is None else BaseFile(**previous), **found)
