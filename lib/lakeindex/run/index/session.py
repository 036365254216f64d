"""The index of one run, on the driver's side: opened for a look-up, told of a commit."""

from __future__ import annotations

import uuid
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.locations.change_log import CoveredFile
from lakeindex.index.locations.store_context import Completed, LogView, StoreContext
from lakeindex.model import BaseFile, Group
from lakeindex.run.checkpoints import Part
from lakeindex.run.chunks import Chunk
from lakeindex.run.index.delta import FileKeys, KeysTask, read_keys, store_context
from lakeindex.run.run_folders import begin_run
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.tasks.runner import Runner, for_work, pack, run_tasks

_BYTES_A_TASK: Final = 128 * 1024 * 1024
"""Base files whose keys one task reads, in bytes: it holds them in memory."""


@dataclass(frozen=True, slots=True)
class AskedBatch:
    """A batch whose keys are to be looked up.

    Attributes:
        files: live files in scope: all of the table under a global index, else of the touched partitions.
        partitions: the touched partitions, also those without a file; None: all of the table is in scope.
        folder: for what an engine answers.
    """

    snapshot: Snapshot
    files: Sequence[BaseFile]
    partitions: Collection[str] | None
    chunks: Sequence[Chunk]
    folder: str


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of an engine's answer, and the chunks it is about."""

    part: Part
    chunks: frozenset[int]


@dataclass(frozen=True, slots=True)
class StoreRef:
    """What a task opens the store of a stored index with.

    Attributes:
        completed: which instants count.
        view: which deltas count.
        answers: what the engine has answered already, of a store that answers whole batches; else None.
        in_metadata: the metadata table keeps the locations, and nothing of the log counts.
    """

    completed: Completed
    view: LogView
    answers: tuple[Answer, ...] | None = None
    in_metadata: bool = False


class IndexSession:
    """The index of one run. This one is of a kind that keeps nothing: there is nothing to open, and nobody to tell."""

    keeps_changes = False
    """Whether it is to be told what a commit changes."""

    def __init__(self, spec: RunSpec, facts: TableFacts, runner: Runner) -> None:
        self._spec = spec
        self._facts = facts
        self._runner = runner

    def opened(self, batch: AskedBatch) -> StoreRef | None:
        """Bring the index up to the snapshot of a batch; what tasks open its store with."""
        del batch
        return None

    def runner_for(self, work_bytes: float) -> Runner:
        """Who asks it.

        Args:
            work_bytes: what is read for it, about.
        """
        return for_work(self._runner, work_bytes, self._spec.config)

    def prepare(self, snapshot: Snapshot, instant: str, written: Sequence[CoveredFile], parts: Sequence[Part]) -> None:
        """A commit is about to be made.

        Args:
            snapshot: what the commit was planned on.
            written: the files it writes.
            parts: what it changes, checkpoint files of ``DELTA_SCHEMA``.
        """

    def committed(self, written: Sequence[CoveredFile], parts: Sequence[Part]) -> None:
        """The commit stands. What goes wrong here is made good by the next look-up: the caller notes it."""

    def failed(self) -> None:
        """The commit was given up."""

    def read_keys(self, files: Sequence[BaseFile]) -> tuple[FileKeys, ...]:
        """Keys of base files, by tasks, as parts in the run's folder."""
        sizes = [float(f.size_bytes) for f in files]
        packs = pack(sizes, max(self._runner.slots * 3, len(files) // 16, int(sum(sizes)) // _BYTES_A_TASK))
        tasks = [
            KeysTask(self._spec, self._facts, tuple(files[i] for i in numbers), f"{self._work}/keys/{n:05d}.parquet")
            for n, numbers in enumerate(packs)
        ]
        return run_tasks(self._runner, read_keys, tasks, "index: read keys of files it does not cover")

    @cached_property
    def _work(self) -> str:
        begin_run(self._spec)
        return f"{self._spec.run_id}/index/{uuid.uuid4().hex[:12]}"

    def _context(self, completed: Completed, view: LogView) -> StoreContext:
        return store_context(self._spec, self._facts, completed, view, self._runner)


def uncovered(
    files: Sequence[BaseFile], coverage: Mapping[Group, CoveredFile], partitions: Collection[str] | None
) -> tuple[tuple[BaseFile, ...], tuple[Group, ...]]:
    """Live files whose keys an index does not know, and covered file groups that are no more.

    Args:
        files: the live files in scope.
        coverage: what the index covers.
        partitions: the partitions in scope; None: all of the table.
    """
    live = {(f.partition_path, f.file_id) for f in files}
    missing = []
    for file in files:
        covered = coverage.get((file.partition_path, file.file_id))
        if covered is None or covered.name != file.name:
            missing.append(file)
    gone = (g for g in coverage if g not in live and (partitions is None or g[0] in partitions))
    return tuple(missing), tuple(sorted(gone))
