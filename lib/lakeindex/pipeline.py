"""Names of the stages, which of them an index type needs, and the columns of every checkpoint.

Standard library only: DAG files, jobs, runners and stages all read this one table.
"""

from __future__ import annotations

import uuid
from datetime import UTC, datetime
from enum import StrEnum
from typing import Final

from lakeindex.model import IndexType


class Stage(StrEnum):
    """The five stages, in order; each is a job and an Airflow task."""

    STAGE_INPUT = "stage_input"
    INDEX_LOOKUP = "index_lookup"
    BLOOM_CHECK = "bloom_check"
    VERIFY_KEYS = "verify_keys"
    MERGE_WRITE = "merge_write"


STAGE_TITLES: Final[dict[Stage, str]] = {
    Stage.STAGE_INPUT: "stage input: keys, partitions, quarantine, combine, sort",
    Stage.INDEX_LOOKUP: "index lookup: footers and range pruning",
    Stage.BLOOM_CHECK: "bloom check: probe each file's filter",
    Stage.VERIFY_KEYS: "verify keys: exact match in the key column",
    Stage.MERGE_WRITE: "merge write: tag, rewrite, publish",
}


def stages_for(index_type: IndexType) -> tuple[Stage, ...]:
    """Stages that an index type runs, in order; only ``bloom_check`` depends on the type."""
    return tuple(s for s in Stage if s is not Stage.BLOOM_CHECK or index_type.has_filters)


# Checkpoint columns: name -> Arrow type name. Shapes and meaning: docs/architecture.md.
STAGED_KEY: Final = "_li_key"
STAGED_PARTITION: Final = "_li_partition"
STAGED_OP: Final = "_li_op"
REASON: Final = "_li_reason"
"""Column of a quarantine file: why a row is in it."""
OP_UPSERT: Final = 0
OP_DELETE: Final = 1
OP_REPLACE: Final = 2
"""An upsert in the place of a stored row that goes, whatever their ordering values are."""

CHUNKS: Final[dict[str, str]] = {
    "chunk": "int32",
    "partition": "string",
    "file": "string",
    "row_group": "int32",
    "rows": "int64",
    "deletes": "int64",
    "min_key": "string",
    "max_key": "string",
}
FILES: Final[dict[str, str]] = {
    "file": "int32",
    "partition": "string",
    "file_id": "string",
    "instant": "string",
    "write_token": "string",
    "bytes": "int64",
    "rows": "int64",
    "row_groups": "int32",
    "min_key": "string",
    "max_key": "string",
    "filter_from": "string",
    "problem": "string",
}
RANGES: Final[dict[str, str]] = {"file": "int32", "chunk": "int32", "from_row": "int64", "to_row": "int64"}
CANDIDATES: Final[dict[str, str]] = {"file": "int32", "chunk": "int32", "pairs": "int64", "rows": "binary"}
SEARCHED: Final[dict[str, str]] = {"chunk": "int32", "rows": "binary"}
LOCATIONS: Final[dict[str, str]] = {
    "chunk": "int32",
    "row": "int32",
    "file": "int32",
    "row_group": "int32",
    "row_in_group": "int32",
    "fate": "int8",
}
INSERTS: Final[dict[str, str]] = {
    "chunk": "int32",
    "partition": "string",
    "home": "int32",
    "count": "int64",
    "rows": "binary",
}
"""``rows`` is null where all of the chunk are new."""
FOUND: Final[dict[str, str]] = {
    "file": "int32",
    "part": "int32",
    "chunk": "int32",
    "found": "int64",
    "updates": "int64",
    "deletes": "int64",
    "moves": "int64",
    "ignored": "int64",
    "unmet": "int64",
}
WRITTEN: Final[dict[str, str]] = {
    "partition": "string",
    "file_id": "string",
    "path": "string",
    "bytes": "int64",
    "old_bytes": "int64",
    "rows": "int64",
    "rows_before": "int64",
    "updates": "int64",
    "removed": "int64",
    "inserts": "int64",
    "chunks_copied": "int64",
    "chunks_encoded": "int64",
    "seconds": "float64",
}


SUMMARY_FILE: Final = "summary.json"
"""Left in a run's folder when it has finished."""


def run_id_of(batch_id: str | None) -> str:
    """Folder name of a run, for every door: of the batch id if there is one,
    so that a retry finds its checkpoints; else new.
    """
    if batch_id is None:
        return f"run-{datetime.now(UTC):%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:8]}"
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "-_.=") else "-" for c in batch_id).strip(".")
    tail = uuid.uuid5(uuid.NAMESPACE_URL, batch_id).hex[:8]
    return f"batch-{safe[:80]}-{tail}"


TABLE_PREFIX: Final = "table:"
"""What an input begins with that is no place, but a table of the Spark session by its name."""
RUNS_ENDING: Final = ".lakeindex"
KEPT_ENDING: Final = ".repaired"
"""Beside a table, what repairs took out of it."""


def default_checkpoints(uri: str) -> str:
    """``<table>.lakeindex``, beside the table."""
    return f"{uri.rstrip('/')}{RUNS_ENDING}"
