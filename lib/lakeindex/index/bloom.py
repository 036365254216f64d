"""BLOOM and GLOBAL_BLOOM: key ranges and filters in the footers of base files. Nothing is stored beside them.

After a commit there is nothing to tell the index: writing the files wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Final

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.advice import Expected, KindAdvice, Workload, mean_file_bytes
from lakeindex.index.bloom_options import BloomOptions
from lakeindex.index.contract import Candidates, FilesInScope, Index
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad
from lakeindex.index.key_ranges import KeyRange, prune, pruner_for
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class BloomIndex(Index):
    """The bloom index; "global" is part of the spec."""

    needs_footers: ClassVar[bool] = True

    spec: IndexSpec

    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """The slice of the chunk inside each file's key range; all of it if ranges are not to be used."""
        del store
        given = config.of(BloomOptions)
        ranges = files.key_ranges if given.prune_by_ranges else [KeyRange(None, None)] * len(files.files)
        return Candidates(files.kept(prune(keys, ranges, pruner_for(given.treebased_filter))))

    def moves_rows(self, config: WriteConfig) -> bool:
        return config.of(BloomOptions).moves_rows

    def basis(self, config: WriteConfig) -> tuple[object, ...]:
        given = config.of(BloomOptions)
        return given.prune_by_ranges, given.treebased_filter


def make_index(spec: IndexSpec) -> BloomIndex:
    return BloomIndex(spec)


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
