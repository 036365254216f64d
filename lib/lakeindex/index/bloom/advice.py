"""What BLOOM and GLOBAL_BLOOM have to do for a batch."""

from __future__ import annotations

from typing import Final

from lakeindex.index.advice import Expected, KindAdvice, Workload, mean_file_bytes
from lakeindex.index.bloom.options import BloomOptions
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad
from lakeindex.options.types import WriteConfig


def _expected(work: Workload, config: WriteConfig) -> Expected:
    kept = work.kept if config.of(BloomOptions).prune_by_ranges else work.possible
    load = LookupLoad(
        keys=work.keys,
        files=work.files,
        footers_read=work.uncached if config.footer_cache else work.files,
        filters=work.files_in_range,
        filter_rows=work.rows_in_range,
        pairs_probed=kept,
        pairs_verified=work.true_pairs + (kept - work.true_pairs) * work.mean_fpp,
        footer_bytes=work.uncached * work.rows / max(work.files, 1) * FILTER_BYTES_A_ROW * FOOTER_TEXT,
    )
    opened = work.opening(load, work.files_filtered, work.rows_filtered)
    return Expected(opened, kept, work.files_updated, mean_file_bytes(work))


def _warnings(work: Workload, config: WriteConfig) -> list[str]:
    del config
    if not work.uncached:
        return []
    return [f"footers of {work.uncached} files are not cached: the first look-up reads and keeps them"]


ADVICE: Final = KindAdvice(_expected, is_plain=True, warnings=_warnings)
