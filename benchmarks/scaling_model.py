"""The cost model of a run: what each stage counts, and seconds, requests and bytes as sums of counts times constants.

The counts of a stage (:func:`counts_of`) follow from the size of table and batch alone, by expectation;
the constants are fitted to runs (:mod:`benchmarks.scaling_fit`). Seconds are those of one core.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeindex.index.cost import FILTER_BYTES_A_ROW, touched
from lakeindex.pipeline import Stage

Counts = Mapping[str, float]
ROW_GROUP_ROWS: Final = 25_000
CHUNK_ROWS: Final = 250_000
TARGETS: Final = ("seconds", "requests", "bytes_read")

COLUMNS: Final[dict[Stage, tuple[str, ...]]] = {
    Stage.STAGE_INPUT: ("run", "batch bytes"),
    Stage.INDEX_LOOKUP: ("run", "files in scope", "footers read"),
    Stage.BLOOM_CHECK: ("run", "files probed", "filter bytes", "pairs probed"),
    Stage.VERIFY_KEYS: ("run", "files opened", "rows in opened files", "pairs verified"),
    Stage.MERGE_WRITE: ("run", "files written", "bytes of written files", "bytes of dirty row groups", "batch bytes"),
}
"""What each stage's cost is made of; ``run`` is what a stage costs however small."""


@dataclass(frozen=True)
class Load:
    """A table and a batch.

    Attributes:
        files: base files in the scope of the look-up.
        file_rows: rows in each.
        updates: those whose key is stored.
        touched_files: files that the stored keys lie in: all, or the newest.
        candidates: files that the range of a key leaves, on average; 1 with keys that grow.
        footers_read: footers that are not cached.
        chunks: chunks of the batch.
        row_bytes: bytes of a row as stored; bytes of the batch are counted as if it were stored.
    """

    files: float
    file_rows: float
    batch_rows: float
    updates: float
    touched_files: float
    candidates: float = 1.0
    footers_read: float = 0.0
    chunks: float = 1.0
    new_rows_a_file: float = 1e5
    row_bytes: float = 100.0


def counts_of(load: Load, fpp: float = 1e-6) -> dict[Stage, Counts]:
    """What each stage counts.

    Args:
        fpp: share of false pairs that a filter lets through.
    """
    found_in = touched(load.touched_files, load.updates)
    pairs = load.batch_rows * load.candidates
    probed = touched(max(load.touched_files, 1.0), pairs) if load.candidates <= 1 else load.files
    false_pairs = max(pairs - load.updates, 0.0) * fpp
    opened = min(found_in + touched(load.files, false_pairs), load.files)
    inserts = load.batch_rows - load.updates
    created = inserts / load.new_rows_a_file
    created = max(created, 1.0) if inserts else 0.0
    groups = max(load.file_rows / ROW_GROUP_ROWS, 1.0) * load.touched_files
    dirty = touched(groups, load.updates) * min(ROW_GROUP_ROWS, load.file_rows)
    return {
        Stage.STAGE_INPUT: {"run": 1.0, "batch bytes": load.batch_rows * load.row_bytes},
        Stage.INDEX_LOOKUP: {"run": 1.0, "files in scope": load.files, "footers read": load.footers_read},
        Stage.BLOOM_CHECK: {
            "run": 1.0,
            "files probed": probed,
            "filter bytes": probed * load.file_rows * FILTER_BYTES_A_ROW,
            "pairs probed": pairs,
        },
        Stage.VERIFY_KEYS: {
            "run": 1.0,
            "files opened": opened,
            "rows in opened files": opened * load.file_rows,
            "pairs verified": load.updates + false_pairs,
        },
        Stage.MERGE_WRITE: {
            "run": 1.0,
            "files written": found_in + created,
            "bytes of written files": (found_in * load.file_rows + inserts) * load.row_bytes,
            "bytes of dirty row groups": (dirty + inserts) * load.row_bytes,
            "batch bytes": load.batch_rows * load.row_bytes,
        },
    }


Constants = Mapping[str, Mapping[str, Mapping[str, float]]]
"""Stage -> target -> count -> constant."""


def predicted(constants: Constants, stage: Stage, counts: Counts, target: str) -> float:
    """Seconds of one core, requests, or bytes read of a stage."""
    return sum(constants[stage][target][column] * counts[column] for column in COLUMNS[stage])
