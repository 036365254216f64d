"""What a merge wrote: checked against the look-up, told to the commit, and left in the run folder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from lakeindex.errors import InvariantError
from lakeindex.format.commit_metadata import NO_PREVIOUS, WriteStat
from lakeindex.model import BaseFile
from lakeindex.pipeline import WRITTEN, Stage
from lakeindex.run.checkpoints import Manifest, RunFolder, table_of
from lakeindex.run.summary import RunSummary, StageSummary
from lakeindex.stages.merge_write.file_slices import WrittenFile


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
