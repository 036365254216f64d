"""``lakeindex changes``: the changes between two points in time in one Parquet file."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.commands.changes.compare import Change
from lakeindex.commands.changes.feed import ChangesPlan, ChangesRequest, batches_of, of_one_state, resolved
from lakeindex.commands.results import JsonResult
from lakeindex.commands.rows.out_file import check_out, put_file, row_writer
from lakeindex.write.types.avro_schema import CHANGE_TYPE


@dataclass(frozen=True, slots=True)
class ChangesSummary(JsonResult):
    """What ``lakeindex changes`` wrote.

    Attributes:
        table: the table's name.
        uri: where it is.
        since: the first point, exclusive, as an instant; None: the beginning.
        until: the second point, inclusive, as an instant: the next feed begins there. None on a table without commits.
        inserts: keys that were not there before.
        updates: keys whose row was written again; two rows of the file each.
        deletes: keys that are not there any more.
        file_groups: file groups that were compared.
        out: the file written.
        bytes_written: its size.
    """

    shown_by: ClassVar[str] = "results:show_changes"

    table: str
    uri: str
    since: str | None
    until: str | None
    inserts: int
    updates: int
    deletes: int
    file_groups: int
    out: str
    bytes_written: int


def write_changes(uri: str, out: str, request: ChangesRequest) -> ChangesSummary:
    """Write the changes into one file, a batch at a time: Parquet, CSV, JSON lines or Arrow, as its name says.
    It appears whole or not at all.

    Args:
        out: a path, or a URL (then the file is spooled to local disk and put in one piece).
        request: which changes.

    Raises:
        TableError: no table, or one that is not read; a damaged file, by name.
        UsageError: a point in time that the history does not reach, or ``out`` cannot be written.
        WriteConflictError: other writers took away what was read, again and again.
    """
    check_out(out)
    since, until = resolved(uri, request)

    def write(plan: ChangesPlan) -> tuple[ChangesPlan, Counter[str], int]:
        counts = Counter[str]()
        size = put_file(out, lambda spool: _write(plan, out, spool, counts))[1]
        return plan, counts, size

    plan, counts, size = of_one_state(uri, replace(request, since=since, until=until), write)
    return ChangesSummary(
        table=plan.table.name,
        uri=plan.table.uri,
        since=since,
        until=until,
        inserts=counts[Change.INSERT],
        updates=counts[Change.AFTER],
        deletes=counts[Change.DELETE],
        file_groups=len(plan.pairs),
        out=out,
        bytes_written=size,
    )


def _write(plan: ChangesPlan, out: str, path: Path, counts: Counter[str]) -> int:
    with row_writer(out, path, plan.schema) as writer:
        for batch in batches_of(plan):
            writer.write_table(pa.Table.from_batches([batch]))
            for one in pc.value_counts(batch.column(CHANGE_TYPE)).to_pylist():
                counts[one["values"]] += one["counts"]
    return counts.total()
