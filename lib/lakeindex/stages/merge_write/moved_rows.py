"""Rows that move to another partition keep what the batch does not say: their chunk is staged again with it.

The old values are in the file that a row leaves, the row is written into another one. So before anything is planned,
each chunk with such rows is written again with whole rows in their places, read from the files that they leave, a row
group at a time. What comes after takes rows from the chunk, as ever.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.hashing.arrow import one_array
from lakeindex.index.fate import Fate
from lakeindex.model import BaseFile
from lakeindex.pipeline import STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import Part
from lakeindex.run.chunks import Chunk, chunk_columns, same_columns, without_repeated
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, TableFacts, run_folder
from lakeindex.stages.merge_write.file_slices import unreadable, update_rule
from lakeindex.stages.merge_write.tags import FoundLine
from lakeindex.storage.storage_file import StoredBytes
from lakeindex.tasks.memory_bound import verify_bytes
from lakeindex.tasks.runner import Runner, for_work, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.columns import replaced
from lakeindex.write.file_parts import open_slice

_FILES_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class MovedTask:
    """A chunk with rows that move, the files that they leave, by number, and the locations that name them."""

    spec: RunSpec
    facts: TableFacts
    chunk: Chunk
    files: tuple[tuple[int, BaseFile], ...]
    locations: tuple[Part, ...]
    folder: str

    @property
    def held_bytes(self) -> int:
        """Memory it will need, about: the files come one after the other."""
        return max(verify_bytes(file.size_bytes) for _, file in self.files)


@dataclass(frozen=True, slots=True)
class Located:
    """What the look-up found: its files, the counts, and the location files."""

    files: Sequence[LookupFile]
    found: Sequence[FoundLine]
    parts: Sequence[Part]


def with_moved_rows(
    spec: RunSpec, facts: TableFacts, chunks: Sequence[Chunk], located: Located, runner: Runner, *, folder: str
) -> list[Chunk]:
    """The batch's chunks; in those with rows that move, these are whole.

    Args:
        spec: the run.
        facts: the table.
        chunks: the batch.
        located: where its rows are stored.
        runner: schedules the tasks.
        folder: of the attempt.
    """
    of_chunk: dict[int, list[FoundLine]] = defaultdict(list)
    if not update_rule(spec, facts).replaces:
        for line in located.found:
            if line.moves:
                of_chunk[line.chunk].append(line)
    tasks = [
        MovedTask(
            spec,
            facts,
            chunks[number],
            tuple((n, located.files[n].file) for n in sorted({line.file for line in lines})),
            tuple(located.parts[n] for n in sorted({line.part for line in lines})),
            f"{folder}/moved",
        )
        for number, lines in sorted(of_chunk.items())
    ]
    result = list(chunks)
    near = for_work(runner, sum(task.held_bytes for task in tasks), spec.config)
    for chunk in run_tasks(near, stage_moved, tasks, "merge write: rows that move"):
        result[chunk.number] = chunk
    return result


def stage_moved(task: MovedTask) -> Chunk:
    """Write the chunk again, with whole rows for those that move.

    Raises:
        TableCorruptError: a file that they leave cannot be read.
    """
    folder, facts = run_folder(task.spec), task.facts
    wanted = ["chunk", "row", "file", "row_group", "row_in_group", "fate"]
    located = pa.concat_tables([folder.read_table(part, wanted) for part in task.locations])
    is_mine = pc.and_(
        pc.equal(located.column("chunk"), task.chunk.number), pc.equal(located.column("fate"), int(Fate.MOVED))
    )
    located = located.filter(is_mine).sort_by([("file", "ascending"), ("row_group", "ascending")])
    stored = [
        _stored_rows(task, file, located.filter(pc.equal(located.column("file"), number)))
        for number, file in task.files
    ]
    places = located.column("row").to_numpy()
    order = np.argsort(places, kind="stable")
    rows, rule = chunk_columns(folder, task.chunk, None), update_rule(task.spec, facts)
    leaving = ", ".join(file.path for _, file in task.files[:_FILES_NAMED])
    moved = rule.updated(
        pa.concat_tables(stored).take(pa.array(order)), rows.take(pa.array(places[order])), facts.schema, leaving
    )
    whole = rule.inserted(rows, facts.schema)
    columns = {name: rows.column(name) for name in (STAGED_PARTITION, STAGED_OP)}
    for name in whole.column_names:
        columns[name] = replaced(one_array(whole.column(name)), places[order], one_array(moved.column(name)))
    staged = pa.table(columns)
    stored = without_repeated(staged, same_columns(staged, {}))
    part = folder.write_table(f"{task.folder}/{task.chunk.number:05d}.parquet", stored)
    return replace(task.chunk, part=part, row_group=0)


def _stored_rows(task: MovedTask, file: BaseFile, located: pa.Table) -> pa.Table:
    """The stored rows at these locations of a file, in their order, with the table's columns."""
    store, schema = storage_at(task.spec.table_uri), task.facts.schema
    try:
        content = StoredBytes(store, file.path, file.size_bytes)
        slice_ = open_slice(content, schema, task.spec.config, has_virtual_keys=task.facts.has_virtual_keys)
        return slice_.rows_at(
            located.column("row_group").to_numpy(), located.column("row_in_group").to_numpy(), schema.names
        )
    except (pa.ArrowException, OSError) as error:
        raise unreadable(file, error) from error
