"""Cut new rows at keys, so that the files of a partition have no key range in common (``GLOBAL_SORT``)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.arrow import plain_strings
from lakeindex.run.chunks import Chunk
from lakeindex.run.spec import RunSpec
from lakeindex.stages.merge_write.insert_check import keys_of
from lakeindex.stages.merge_write.tags import NewRows
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.write.assignment import InsertPiece

_SAMPLES_A_FILE: Final = 200
"""Keys by which the bounds of a file are chosen: it gets a hundredth too many rows, about, or too few."""


@dataclass(frozen=True, slots=True)
class KeyTask:
    """New rows of one chunk: every ``step``-th of their keys is wanted, or where ``bounds`` cut them."""

    spec: RunSpec
    chunk: Chunk
    new: NewRows
    step: int = 1
    bounds: tuple[str, ...] = ()


def cut_by_key(
    spec: RunSpec, chunks: Sequence[Chunk], new_rows: Sequence[NewRows], most: int, runner: Runner
) -> list[tuple[InsertPiece, ...]]:
    """New rows of one partition, file by file.

    Args:
        spec: the run.
        chunks: the batch.
        new_rows: all new rows of the partition.
        most: rows of a file, about.
        runner: schedules the tasks.

    Returns:
        For each file the rows that go into it; its keys are greater than those of the file before.
    """
    rows = sum(new.rows for new in new_rows)
    files = -(-rows // most)
    if files <= 1:
        return [tuple(InsertPiece(new.chunk, 0, new.rows) for new in new_rows)]
    step = max(rows // (files * _SAMPLES_A_FILE), 1)
    asked = [KeyTask(spec, chunks[new.chunk], new, step) for new in new_rows]
    sampled = run_tasks(runner, sample_keys, asked, "merge write: choose the bounds of files")
    keys = pa.concat_arrays(list(sampled))
    keys = keys.take(pc.sort_indices(keys))
    bounds = tuple(keys[len(keys) * number // files].as_py() for number in range(1, files))
    cuts = [KeyTask(spec, chunks[new.chunk], new, bounds=bounds) for new in new_rows]
    found = run_tasks(runner, cut_keys, cuts, "merge write: cut rows at the bounds")
    ends = [(0, *mine, new.rows) for new, mine in zip(new_rows, found, strict=True)]
    pieces = [
        tuple(InsertPiece(new.chunk, mine[n], mine[n + 1]) for new, mine in zip(new_rows, ends, strict=True))
        for n in range(files)
    ]
    return [kept for one in pieces if (kept := tuple(piece for piece in one if piece.rows))]


def sample_keys(task: KeyTask) -> pa.Array:
    """Some keys of new rows, evenly spread: string [n]."""
    keys = plain_strings(keys_of(task.spec, task.chunk, task.new))
    return keys.take(pa.array(np.arange(0, len(keys), task.step)))


def cut_keys(task: KeyTask) -> tuple[int, ...]:
    """How many keys of new rows, which are sorted by their UTF-8 bytes, are below each bound."""
    keys = plain_strings(keys_of(task.spec, task.chunk, task.new))
    return tuple(int(pc.sum(pc.less(keys, bound)).as_py() or 0) for bound in task.bounds)
