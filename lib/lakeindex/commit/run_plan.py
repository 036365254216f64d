"""The plan of a run: its instant and the names of all its files, decided once and followed by every attempt.

``.hoodie/.lakeindex/runs/<run key>/plan-<generation>.json``, create-if-absent. A retry, a speculative task or a zombie
that follows the same plan can only write again what is there. A plan that no longer fits is rolled back; the next
generation gets a new instant.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Final

from lakeindex.commit.attempts import run_folder
from lakeindex.format import instants as names
from lakeindex.model import BaseFile
from lakeindex.storage.port import Storage
from lakeindex.timeline import records

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
class Replacement:
    """What a write takes out of the table; such a write ends as a replacecommit.

    Attributes:
        files: live base files as they were read: their groups are no part of the table afterwards.
        index: the index that is in force afterwards (its type and bound options, as JSON), or None if that stays.
        everywhere: whether the change of the index is about partitions, too, that are not there yet.
    """

    files: tuple[BaseFile, ...]
    index: dict[str, Any] | None = None
    everywhere: bool = False

    @property
    def partitions(self) -> frozenset[str]:
        """Partitions that lose file groups."""
        return frozenset(file.partition_path for file in self.files)


@dataclass(frozen=True, slots=True)
class RunPlan:
    """The plan.

    Attributes:
        instant: the run's instant.
        digest: digest of what is written where.
        generation: which plan of the run it is, from 1.
        planned: the files.
        token: unique to the plan.
        replacement: what is taken out of the table; None for a plain commit.
    """

    instant: str
    digest: str
    generation: int
    planned: tuple[PlannedFile, ...]
    token: str
    replacement: Replacement | None = None

    @property
    def action(self) -> str:
        """The action that the instant ends as."""
        return action_of(self.replacement)

    @property
    def files(self) -> tuple[BaseFile, ...]:
        """The data files, in the order they were planned; sizes are not known yet."""
        return tuple(one.at(self.instant) for one in self.planned)

    @property
    def partitions(self) -> tuple[str, ...]:
        """The partitions that are written to or lose file groups, sorted."""
        lost = self.replacement.partitions if self.replacement is not None else frozenset()
        return tuple(sorted({one.partition_path for one in self.planned} | lost))


def action_of(replacement: Replacement | None) -> str:
    """The action of a write: a replacecommit if it takes file groups out of the table."""
    return names.COMMIT if replacement is None else names.REPLACE_COMMIT


def newest_plan(storage: Storage, run_key: str) -> RunPlan | None:
    """The newest plan of a run that says something: a torn one was never followed. Raises: TableCorruptError."""
    listed = storage.list_folder(run_folder(run_key)).objects
    for path in reversed([one.path for one in listed if one.path.rpartition("/")[2].startswith(_PREFIX)]):
        found = records.load(storage, path)
        if found:
            return _from_record(found, path)
    return None


def store_plan(storage: Storage, run_key: str, plan: RunPlan) -> RunPlan:
    """Store a plan as its generation, unless another attempt has: the plan that stands."""
    path = f"{run_folder(run_key)}/{_PREFIX}{plan.generation:0{_DIGITS}d}.json"
    data = records.encode(asdict(plan))
    standing = records.settle_record(storage, path, data, durable=False)
    return plan if standing == data else _from_record(records.decode(standing, path), path)


def forget_run(storage: Storage, run_key: str) -> None:
    """Remove all records of a run that is over; best effort."""
    records.tidy(storage, [one.path for one in storage.list(run_folder(run_key))])


def _from_record(found: dict[str, Any], path: str) -> RunPlan:
    try:
        planned = tuple(_planned(one) for one in found.pop("planned"))
        replacement = _replacement(found.pop("replacement", None))
        return RunPlan(planned=planned, replacement=replacement, **found)
    except (KeyError, TypeError) as error:
        raise records.damaged(path, repr(error)) from None


def _planned(found: dict[str, Any]) -> PlannedFile:
    previous = found.pop("previous")
    return PlannedFile(previous=None if previous is None else BaseFile(**previous), **found)


def _replacement(found: dict[str, Any] | None) -> Replacement | None:
    if found is None:
        return None
    return Replacement(files=tuple(BaseFile(**one) for one in found.pop("files")), **found)
