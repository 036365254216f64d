"""What the cost model says of a run that is done, beside what it took: kept in every run's summary.

Counts are those that are known when the index has answered (stage 2), so that no more is read for it; how many of the
pairs are true is estimated as the adviser does: each key is stored once in the files whose ranges hold it.
"""

from __future__ import annotations

from collections.abc import Sequence

from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, cost_of, entries_of, hit_chance, touched
from lakeindex.index.cost_constants import CONSTANTS
from lakeindex.model import IndexType
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.summary import Estimate, StageSummary

_LOOKUP = (Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS)
_META_BYTES = 24.0
"""What the meta columns add to a row on disk, about."""
_OWN_FPP = 1e-6


def estimate_of(
    index_type: IndexType, staged: Manifest, lookup: Manifest, summaries: Sequence[StageSummary]
) -> Estimate | None:
    """Estimate and actual cost of stages 2 to 4; None if there was nothing to look up."""
    mine = [one for one in summaries if one.name in _LOOKUP]
    if not lookup.counters.get("files") or not mine:
        return None
    load = load_of(index_type, staged, lookup, mine)
    cost = cost_of(load, CONSTANTS, has_filters=any(one.name == Stage.BLOOM_CHECK for one in mine))
    return Estimate(
        seconds=round(cost.seconds, 4),
        actual_seconds=round(sum(one.seconds for one in mine), 4),
        bytes_read=round(load.bytes_read),
        actual_bytes_read=sum(one.bytes_read for one in mine),
    )


def load_of(index_type: IndexType, staged: Manifest, lookup: Manifest, summaries: Sequence[StageSummary]) -> LookupLoad:
    """The counts of a look-up, from what its first stage left; arguments as of :func:`estimate_of`."""
    counters = lookup.counters
    keys, files, pairs = (float(counters[name]) for name in ("rows_in", "files", "pairs_out"))
    file_bytes = float(counters.get("file_bytes", 0))
    rows = float(counters["file_rows"]) or file_bytes / _row_bytes(staged)
    probed = next((one for one in summaries if one.name == Stage.BLOOM_CHECK), None)
    located = not lookup.parts("ranges") and probed is None
    kept = float(probed.counters["files"]) if probed is not None else files
    verified = pairs
    opened = touched(files, pairs) if located else kept
    if probed is not None:
        true_share = min(1.0, keys / pairs) if pairs else 0.0
        opened = kept * hit_chance(pairs / kept, true_share) if kept else 0.0
        verified = pairs * true_share + pairs * (1 - true_share) * _OWN_FPP
    share = opened / files
    footers = float(counters.get("footers_read", 0))
    entries, store_bytes = entries_of(rows, keys) if index_type.is_stored else (0.0, 0.0)
    a_footer = rows / files * FILTER_BYTES_A_ROW * FOOTER_TEXT
    return LookupLoad(
        keys=keys,
        files=files,
        footers_read=footers,
        keys_located=keys if located else 0.0,
        entries_read=entries,
        store_bytes=store_bytes,
        filters=kept if probed is not None else 0.0,
        filter_rows=rows * kept / files if probed is not None else 0.0,
        pairs_probed=pairs if probed is not None else 0.0,
        pairs_verified=verified,
        files_opened=opened,
        rows_matched=rows * share,
        key_bytes=file_bytes * share * CONSTANTS.key_share,
        footer_bytes=(footers + opened) * a_footer,
    )


def _row_bytes(staged: Manifest) -> float:
    """Bytes of a row on disk, by the staged batch."""
    rows = float(staged.counters["rows_out"])
    return float(staged.counters["staged_column_bytes"]) / max(rows, 1.0) + _META_BYTES
