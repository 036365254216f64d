"""What a merge wrote: checked against the look-up, told to the commit, and left in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa

from lakeindex.errors import InvariantError
from lakeindex.format.commit_metadata import NO_PREVIOUS, WriteStat
from lakeindex.model import BaseFile
from lakeindex.pipeline import WRITTEN, Stage
from lakeindex.run.checkpoints import Manifest, RunFolder, table_of
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.showing.text import human_bytes
from lakeindex.stages.merge_write.file_slices import WrittenFile
from lakeindex.write.keys.key_spec import KeySpec, PartitionKind

_MANY_FILES: Final = 200
_TINY_BYTES: Final = 2**20
_DAYS_OF_A_MONTH: Final = 30


def check_counts(written: Sequence[WrittenFile], summary: RunSummary) -> None:
    """The files hold what the tags say: updates and inserts (moved rows are both removed and inserted).

    Raises:
        InvariantError: they do not.
    """
    counts = {
        "updated": (sum(w.updates for w in written), summary.updates),
        "removed": (sum(w.removed for w in written), summary.deletes + summary.copies + summary.moved),
        "inserted": (sum(w.inserts for w in written), summary.inserts + summary.moved),
        "stored": (
            sum(w.rows for w in written),
            sum(w.rows_before for w in written) + summary.inserts - summary.deletes - summary.copies,
        ),
    }
    for what, (got, expected) in counts.items():
        if got != expected:
            raise InvariantError(
                f"{got} rows {what} in the new files, but the look-up says {expected}",
                culprit=summary.run_id,
                hint="nothing was published; report this with the run folder",
            )


def write_stat(written: WrittenFile) -> WriteStat:
    """What the commit says of a file."""
    old = written.old
    return replace(
        new_file_stat(written.file, written.rows),
        prev_commit=old.instant_time if old is not None else NO_PREVIOUS,
        num_deletes=written.removed,
        num_update_writes=written.updates,
        num_inserts=written.inserts,
        prev_base_file=old.name if old is not None else None,
    )


def new_file_stat(file: BaseFile, rows: int) -> WriteStat:
    """What a commit says of a new file group, all of whose rows are inserts."""
    return WriteStat(
        file_id=file.file_id,
        path=file.path,
        partition_path=file.partition_path,
        prev_commit=NO_PREVIOUS,
        num_writes=rows,
        num_inserts=rows,
        total_write_bytes=file.size_bytes,
        file_size_bytes=file.size_bytes,
    )


def tiny_files_note(written: Sequence[WrittenFile], keys: KeySpec, schema: pa.Schema) -> tuple[str, ...]:
    """A sentence with a cure, if partitions that are too fine made a great number of very small files."""
    new = [one.file for one in written if one.old is None]
    partitions = len({file.partition_path for file in new})
    if len(new) < _MANY_FILES or partitions < len(new) / 2:
        return ()
    size = sum(file.size_bytes for file in new) // len(new)
    if size >= _TINY_BYTES:
        return ()
    found = [name for name, kind in keys.partition_fields if _is_time(schema, name) and not _is_coarse(keys, kind)]
    by = "month" if size * _DAYS_OF_A_MONTH >= _TINY_BYTES else "year"
    cure = f"`lakeindex create --partition {found[0]}:{by}` makes larger ones" if found else "use a coarser field"
    said = (
        f"{len(new):,} new files of {human_bytes(size)} on average, in {partitions:,} partitions: that fine, they make "
        f"every later run read more files than rows need; in a new table {cure}"
    )
    return (said,)


def _is_time(schema: pa.Schema, name: str) -> bool:
    kind = schema.field(name).type if name in schema.names else pa.null()
    return pa.types.is_date(kind) or pa.types.is_timestamp(kind)


def _is_coarse(keys: KeySpec, kind: PartitionKind) -> bool:
    """Whether a partition is a month, or more."""
    options = keys.time_options
    return kind is PartitionKind.TIMESTAMP and options is not None and "d" not in options.output_format


def keep_written(
    folder: RunFolder, attempt: str, verified: Manifest, written: Sequence[WrittenFile], stage: StageSummary
) -> None:
    """Leave a line for each file in the run folder: what the run's report is made of."""
    lines = [_line(one) for one in written]
    part = folder.write_table(f"{attempt}/written.parquet", table_of(lines, WRITTEN))
    tables, counters = {"written": (part,)}, dict(stage.counters)
    folder.write_manifest(Manifest(Stage.MERGE_WRITE, folder.run_id, verified.digest, tables=tables, counters=counters))


def _line(one: WrittenFile) -> tuple[str | int | float, ...]:
    file, old_bytes = one.file, 0 if one.old is None else one.old.size_bytes
    counts = one.rows, one.rows_before, one.updates, one.removed, one.inserts, one.chunks_copied, one.chunks_encoded
    return file.partition_path, file.file_id, file.path, file.size_bytes, old_bytes, *counts, one.seconds
