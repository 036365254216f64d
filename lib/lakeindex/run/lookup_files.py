"""The ``files`` checkpoint: live base files in the scope of a look-up."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile
from lakeindex.pipeline import FILES
from lakeindex.run.checkpoints import Part, RunFolder, arrow_schema

IN_FOOTER = "footer"
IN_METADATA = "metadata"
"""The metadata table has told the range; the filter is there, too, or, where it has none, in the footer."""
RANGE_IN_METADATA = "metadata, footer"
"""The metadata table has told the range, and has no filters: that is in the footer."""
NO_FOOTER = ""
"""The footer was not asked for."""


class LookupFile(Frozen):
    """A live base file in the scope of the look-up; the row of the ``files`` checkpoint.

    Attributes:
        number: its place in the checkpoint.
        rows: rows in it; 0 if its footer was not asked for.
        row_groups: row groups in it, likewise.
        min_key: least key in Java's order, or None if the footer does not say.
        max_key: greatest key, likewise.
        filter_from: where its filter is: one of the constants above, or the cache's side file that holds it.
        problem: what is wrong with its range or filter; the file stays a candidate for every key then.
    """

    number: int
    file: BaseFile
    rows: int
    row_groups: int
    min_key: str | None
    max_key: str | None
    filter_from: str
    problem: str | None


def files_table(files: Sequence[LookupFile]) -> pa.Table:
    rows = [
        {
            "file": f.number,
            "partition": f.file.partition_path,
            "file_id": f.file.file_id,
            "instant": f.file.instant_time,
            "write_token": f.file.write_token,
            "bytes": f.file.size_bytes,
            "rows": f.rows,
            "row_groups": f.row_groups,
            "min_key": f.min_key,
            "max_key": f.max_key,
            "filter_from": f.filter_from,
            "problem": f.problem,
        }
        for f in files
    ]
    return pa.Table.from_pylist(rows, schema=arrow_schema(FILES))


def read_files(folder: RunFolder, part: Part) -> list[LookupFile]:
    """Inverse of :func:`files_table`."""
    return [
        LookupFile(
            r["file"],
            BaseFile(r["partition"], r["file_id"], r["instant"], r["write_token"], r["bytes"]),
            r["rows"],
            r["row_groups"],
            r["min_key"],
            r["max_key"],
            r["filter_from"],
            r["problem"],
        )
        for r in folder.read_table(part).to_pylist()
    ]
