"""Rows to insert whose keys are stored: set aside with the bad rows, or left out, as an option says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import QuarantineExceededError
from lakeindex.index.fate import Fate
from lakeindex.options.types import DuplicatePolicy
from lakeindex.options.values import DUPLICATES_OPTION
from lakeindex.pipeline import STAGED_KEY
from lakeindex.run.checkpoints import Manifest, Part
from lakeindex.run.chunks import Chunk, chunk_columns
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.stages.merge_write.bad_rows import write_bad_rows
from lakeindex.stages.merge_write.tags import FoundLine
from lakeindex.tasks.runner import Runner, pack, run_tasks

_WHY: Final = "its key is stored already"


@dataclass(frozen=True, slots=True)
class SetAsideTask:
    """Chunks with rows whose keys are stored, and the locations that name them."""

    spec: RunSpec
    chunks: tuple[Chunk, ...]
    locations: tuple[Part, ...]
    folder: str


@dataclass(frozen=True, slots=True)
class StoredRows:
    """Rows of an insert whose keys are stored.

    Attributes:
        quarantined: how many were set aside; 0 if they are to be left out.
        parts: the quarantine files that have them.
        example: the record key of one.
    """

    quarantined: int = 0
    parts: tuple[Part, ...] = ()
    example: str | None = None

    def check(self, spec: RunSpec, staged: Manifest) -> None:
        """Make sure that there are no more bad rows than the run tolerates.

        Raises:
            QuarantineExceededError: there are.
        """
        bad = int(staged.counters["quarantined"]) + self.quarantined
        if self.quarantined and bad > spec.max_quarantined:
            what, where = (spec.operation, "") if spec.change is None else (f"a {spec.change}", ", in rows that stay")
            raise QuarantineExceededError(
                f"{self.quarantined} rows have keys that are stored already{where}, {self.example!r} for example, and "
                f"{what} stores no key twice; {bad} bad rows, {spec.max_quarantined} allowed",
                culprit=f"{spec.checkpoints_uri.rstrip('/')}/{self.parts[0].path}",
                hint=f"look at the quarantine file; to leave such rows out give {DUPLICATES_OPTION}=drop, "
                "to update what is stored use upsert",
            )


def stored_rows(
    spec: RunSpec,
    chunks: Sequence[Chunk],
    found: Sequence[FoundLine],
    located: Sequence[Part],
    runner: Runner,
    folder: str,
) -> StoredRows:
    """Set rows of an insert aside whose keys are stored, unless they are to be left out.

    Args:
        found: what the look-up found.
        located: the location files.
        folder: of the attempt.
    """
    if spec.config.insert_duplicates is DuplicatePolicy.DROP:
        return StoredRows()
    parts_of: dict[int, set[int]] = {}
    for line in found:
        parts_of.setdefault(line.chunk, set()).add(line.part)
    wanted = sorted(parts_of)
    packs = pack([float(chunks[number].rows) for number in wanted], runner.slots * 2) if wanted else []
    tasks = []
    for numbers in packs:
        mine = [wanted[i] for i in numbers]
        parts = sorted(set[int]().union(*(parts_of[number] for number in mine)))
        named = tuple(chunks[number] for number in mine)
        tasks.append(SetAsideTask(spec, named, tuple(located[part] for part in parts), f"{folder}/quarantine"))
    done = [
        one for result in run_tasks(runner, set_aside, tasks, "merge write: rows that are stored") for one in result
    ]
    return StoredRows(
        sum(one.quarantined for one in done),
        tuple(part for one in done for part in one.parts),
        min((one.example for one in done if one.example is not None), default=None),
    )


def set_aside(task: SetAsideTask) -> tuple[StoredRows, ...]:
    """Write the rows of each chunk whose keys are stored into a quarantine file."""
    folder = run_folder(task.spec)
    located = pa.concat_tables([folder.read_table(part, ["chunk", "row", "fate"]) for part in task.locations])
    located = located.filter(pc.equal(located.column("fate"), int(Fate.IGNORED_STORED)))
    done = []
    for chunk in task.chunks:
        rows = np.unique(located.filter(pc.equal(located.column("chunk"), chunk.number)).column("row").to_numpy())
        if not len(rows):
            continue
        table = chunk_columns(folder, chunk, None).take(pa.array(rows))
        bad = write_bad_rows(folder, f"{task.folder}/{chunk.number:05d}.parquet", table, pa.repeat(_WHY, len(rows)))
        done.append(StoredRows(bad.quarantined, bad.parts, table.column(STAGED_KEY)[0].as_py()))
    return tuple(done)
