"""Rows of the batch that turn out bad only where they would be written: they go into quarantine files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import QuarantineExceededError
from lakeindex.hashing.arrow import one_array
from lakeindex.pipeline import REASON, STAGED_KEY, STAGED_OP, STAGED_PARTITION
from lakeindex.run.checkpoints import Manifest, Part, RunFolder
from lakeindex.run.chunks import Chunk, chunk_columns
from lakeindex.run.spec import RunSpec, TableFacts


@dataclass(frozen=True, slots=True)
class BadRows:
    """How many, the quarantine files that have them, and an example: its record key and what is wrong with it."""

    quarantined: int = 0
    parts: tuple[Part, ...] = ()
    example: tuple[str, str] | None = None

    @staticmethod
    def joined(found: Iterable[BadRows]) -> BadRows:
        """Several as one."""
        some = [one for one in found if one.quarantined]
        return BadRows(
            sum(one.quarantined for one in some),
            tuple(part for one in some for part in one.parts),
            min((one.example for one in some if one.example is not None), default=None),
        )

    def check(self, spec: RunSpec, staged: Manifest) -> None:
        """Make sure that there are no more bad rows than the run tolerates.

        Raises:
            QuarantineExceededError: there are.
        """
        bad = int(staged.counters["quarantined"]) + self.quarantined
        if self.example is None or bad <= spec.max_quarantined:
            return
        key, why = self.example
        raise QuarantineExceededError(
            f"{self.quarantined} rows cannot be inserted, {key!r} for example: {why}; "
            f"{bad} bad rows, {spec.max_quarantined} allowed",
            culprit=f"{spec.checkpoints_uri.rstrip('/')}/{self.parts[0].path}",
            hint="look at the quarantine file, give new rows all columns that must not be null, "
            "or allow such rows with max_quarantined=N (--max-quarantined N)",
        )


NO_BAD_ROWS: Final = BadRows()


def incomplete_rows(
    facts: TableFacts, folder: RunFolder, chunk: Chunk, rows: np.ndarray, path: str
) -> tuple[np.ndarray, BadRows]:
    """Set those of a partial update's new rows aside that lack a column that must not be null.

    Args:
        rows: numbers of its rows that would be new, ascending: int64 [n].
        path: beginning of the quarantine file's name.

    Returns:
        Numbers of the rows that were set aside, and what was.
    """
    nothing = np.zeros(0, np.int64)
    demanded = [f.name for f in facts.schema if not f.nullable and f.name in facts.kept | facts.filled]
    if not demanded or not len(rows):
        return nothing, NO_BAD_ROWS
    table = chunk_columns(folder, chunk, None).take(pa.array(rows))
    why: pa.Array = pa.nulls(len(rows), pa.string())
    there = frozenset(table.column_names)
    for name in demanded:
        column = one_array(table.column(name)) if name in there else pa.nulls(len(rows))
        reason = pa.scalar(f"column {name!r} must not be null")
        why = pc.coalesce(why, pc.if_else(column.is_null(), reason, pa.scalar(None, pa.string())))
    bad = np.flatnonzero(why.is_valid().to_numpy(zero_copy_only=False))
    if not len(bad):
        return nothing, NO_BAD_ROWS
    picked = pa.array(bad)
    file = f"{path}/{chunk.number:05d}.parquet"
    return rows[bad], write_bad_rows(folder, file, table.take(picked), why.take(picked))


def write_bad_rows(folder: RunFolder, path: str, rows: pa.Table, why: pa.Array) -> BadRows:
    """Write staged rows into a quarantine file, with what is wrong with each.

    Args:
        path: beginning of the file's name.
        rows: the rows as they were staged, one at least.
        why: for each.
    """
    example = rows.column(STAGED_KEY)[0].as_py(), why[0].as_py()
    table = rows.drop_columns([STAGED_PARTITION, STAGED_KEY, STAGED_OP]).append_column(REASON, why)
    return BadRows(table.num_rows, (folder.write_table(path, table),), example)
