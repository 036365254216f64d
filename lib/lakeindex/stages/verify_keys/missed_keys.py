"""Stage 4, of a stored index: keys that are not where the store says are looked for in all files in scope.

An entry that names the wrong file group is a defect, or another writer's leftover: Hudi leaves rows in HBase that a
failed commit put. The key may be anywhere; to take it for a new one would double it. Keys that were deleted and still
have an entry end here, too, and are found nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.pipeline import CANDIDATES
from lakeindex.run.checkpoints import Part, RunFolder, table_of
from lakeindex.run.chunks import Chunk, pack_rows, unpack_rows
from lakeindex.run.index.ask_index import search_files
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.tasks.runner import Runner, pack, run_tasks


@dataclass(frozen=True, slots=True)
class LookAgain:
    """What was proposed and what was found.

    Attributes:
        files: files in scope.
        candidates: parts of what the store proposed.
        searched: parts that list the keys it could not say anything about: they were looked for everywhere already.
        located: parts of what was found.
    """

    spec: RunSpec
    facts: TableFacts
    files: tuple[LookupFile, ...]
    candidates: tuple[Part, ...]
    searched: tuple[Part, ...]
    located: tuple[Part, ...]


@dataclass(frozen=True, slots=True)
class AgainTask:
    """Some chunks of it."""

    looked: LookAgain
    chunks: tuple[Chunk, ...]
    path: str


def look_again(looked: LookAgain, chunks: Sequence[Chunk], runner: Runner, folder: str) -> tuple[Part, ...]:
    """Candidates for the keys that were proposed and not found."""
    packs = pack([float(c.rows) for c in chunks], runner.slots * 2)
    tasks = [
        AgainTask(looked, tuple(chunks[i] for i in numbers), f"{folder}/{n:05d}.parquet")
        for n, numbers in enumerate(packs)
    ]
    title = "verify keys: look for keys that are not where the index says"
    return run_tasks(runner, search_missed, tasks, title)


def search_missed(task: AgainTask) -> Part:
    """Candidates of some chunks."""
    looked = task.looked
    folder = run_folder(looked.spec)
    rows: list[tuple[int, int, int, bytes]] = []
    for chunk in task.chunks:
        known = np.concatenate(
            [_packed(folder, looked.searched, chunk.number), _found(folder, looked.located, chunk.number)]
        )
        missed = np.setdiff1d(_packed(folder, looked.candidates, chunk.number), known)
        if len(missed):
            found = search_files(looked.spec, looked.facts, looked.files, chunk, missed)
            rows += [(n, chunk.number, len(mine), pack_rows(mine)) for n, mine in found]
    return folder.write_table(task.path, table_of(rows, CANDIDATES))


def _packed(folder: RunFolder, parts: Sequence[Part], chunk: int) -> np.ndarray:
    tables = [_of_chunk(folder, part, chunk, "rows") for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *(unpack_rows(p) for t in tables for p in t.to_pylist())])


def _found(folder: RunFolder, parts: Sequence[Part], chunk: int) -> np.ndarray:
    tables = [_of_chunk(folder, part, chunk, "row") for part in parts]
    return np.concatenate([np.zeros(0, np.int64), *(t.to_numpy().astype(np.int64) for t in tables)])


def _of_chunk(folder: RunFolder, part: Part, chunk: int, column: str) -> pa.ChunkedArray:
    table = folder.read_table(part, ["chunk", column])
    return table.filter(pc.equal(table.column("chunk"), chunk)).column(column)
