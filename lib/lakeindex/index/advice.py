"""What an index kind says to the adviser: what it would have to do for a batch, and what it needs.

Counts are a sample's, scaled up (:mod:`lakeindex.operations.advise`); the cost model
(:mod:`lakeindex.index.cost`) turns them into seconds. Each kind has its own ``ADVICE``.
"""

from __future__ import annotations

from collections.abc import Callable

from msgspec.structs import replace

from lakeindex.frozen import Frozen
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, entries_of
from lakeindex.model import IndexType
from lakeindex.options.types import WriteConfig


class Workload(Frozen):
    """A batch and the files it is compared with; expectations, so they need not be whole.

    Attributes:
        keys: distinct keys of the batch.
        keys_by_partition: of each partition that it touches.
        possible: (key, file) pairs without an index.
        kept: pairs after range pruning.
        true_pairs: of those, the ones that are true.
        mean_fpp: false-positive probability of the filters, by pairs.
        updates: share of the keys that are in the table, 0 to 1.
        key_share: the key column's share of a file's bytes.
        uncached: files whose footers are not cached.
        files_filtered: files that range and filter leave.
    """

    keys: float
    keys_by_partition: tuple[float, ...]
    possible: float
    kept: float
    true_pairs: float
    mean_fpp: float
    updates: float
    files: int
    rows: float
    bytes: float
    partitions: int
    key_share: float
    uncached: int
    files_in_range: float
    rows_in_range: float
    files_updated: float
    rows_updated: float
    files_filtered: float
    rows_filtered: float
    now: IndexType | None

    def opening(self, load: LookupLoad, files: float, rows: float) -> LookupLoad:
        """The load with these files opened: their footers and key columns are read."""
        share = files / self.files if self.files else 0.0
        return replace(
            load,
            files_opened=files,
            rows_matched=rows,
            key_bytes=self.bytes * share * self.key_share,
            footer_bytes=load.footer_bytes + rows * FILTER_BYTES_A_ROW * FOOTER_TEXT,
        )


class Expected(Frozen):
    """What an index kind has to do.

    Attributes:
        after_ranges: pairs that are left by key ranges, or by location.
        files_rewritten: files that hold a key of the batch, or get one.
        file_bytes: size of one of those.
    """

    load: LookupLoad
    after_ranges: float
    files_rewritten: float
    file_bytes: float
    note: str | None = None


def _nothing(work: Workload, config: WriteConfig) -> list[str]:
    del work, config
    return []


class KindAdvice(Frozen):
    """What a kind says.

    Attributes:
        is_plain: it needs neither a server nor an engine: its constants are measured, and it may be recommended.
        warnings: what is wrong with the table, if it has this index.
    """

    expected: Callable[[Workload, WriteConfig], Expected]
    is_plain: bool = False
    warnings: Callable[[Workload, WriteConfig], list[str]] = _nothing


def mean_file_bytes(work: Workload) -> float:
    return work.bytes / work.files if work.files else 0.0


def located(work: Workload, load: LookupLoad, note: str) -> Expected:
    """Locations of the keys that are there, looked up in a store."""
    found = work.keys * work.updates
    load = replace(load, keys=work.keys, files=work.files, keys_located=work.keys, pairs_verified=found)
    opened = work.opening(load, work.files_updated, work.rows_updated)
    return Expected(opened, found, work.files_updated, mean_file_bytes(work), note)


def _in_shards(work: Workload, config: WriteConfig) -> Expected:
    del config
    entries, size = entries_of(work.rows, work.keys)
    return located(work, LookupLoad(work.keys, work.files, entries_read=entries, store_bytes=size), "is built first")


STORED: KindAdvice = KindAdvice(_in_shards)
"""Of a stored index that says nothing of its own: it reads as much as sorted shards would."""
