"""What each index type has to do for a batch: the sample's counts, scaled up, as the cost model wants them."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

from lakeindex.commands.advise.sample import BatchSample, Pairs, TableSample
from lakeindex.index.cost import FILTER_BYTES_A_ROW, FOOTER_TEXT, LookupLoad, entries_of, hit_chance, touched
from lakeindex.model import IndexType
from lakeindex.options.types import WriteConfig

_REMOTE_ENTRY_BYTES = 100.0
"""Bytes of an HBASE row on the wire, about."""
_REMOTE_BATCH = 1_000.0
"""Keys a request of HBASE."""


@dataclass(frozen=True)
class Scope:
    """A batch, the files it is compared with, and what came of the sample.

    Attributes:
        batch: the keys.
        table: the files in scope.
        pairs: the sample's pairs.
        is_global: the scope is the whole table.
    """

    batch: BatchSample
    table: TableSample
    pairs: Pairs
    is_global: bool

    @property
    def keys(self) -> int:
        """Distinct keys of the whole batch, estimated."""
        return round(self.pairs.keys * self.batch.scale)

    @property
    def possible(self) -> float:
        """(key, file) pairs without an index."""
        return self.pairs.possible * self.batch.scale * self.table.scale

    @property
    def updates(self) -> float:
        """Share of the keys that are in the table."""
        if not self.pairs.keys:
            return 0.0
        return min(1.0, self.pairs.true_share * self.pairs.kept * self.table.scale / self.pairs.keys)

    def files_with(self, true_share: float) -> tuple[float, float]:
        """Files with at least one key, and their rows, if each pair in range is one with this chance."""
        files = rows = 0.0
        for path, pairs in self.pairs.by_file.items():
            chance = 1.0 if self._is_hit(path) else hit_chance(pairs * self.batch.scale, true_share)
            files += chance
            rows += chance * self.table.footers[path].rows
        return files * self.table.scale, rows * self.table.scale

    def _is_hit(self, path: str) -> bool:
        hits = self.pairs.hits.get(path, 0)
        return hits > 2 * self.pairs.fpp.get(path, 0.0) * self.pairs.by_file[path]


@dataclass(frozen=True)
class Expected:
    """What a type has to do.

    Attributes:
        load: of the look-up.
        after_ranges: pairs that are left by key ranges, or by location.
        files_rewritten: files that hold a key of the batch, or get one.
        note: what it needs.
    """

    load: LookupLoad
    after_ranges: float
    files_rewritten: float
    note: str | None = None


def bucket_count(partition_bytes: float, file_bytes: int) -> int:
    """Buckets that make a partition's files as large as they should be."""
    return max(1, math.ceil(partition_bytes / file_bytes))


def expected_load(kind: IndexType, scope: Scope, config: WriteConfig, buckets: int) -> Expected:
    """What an index type has to do for a batch.

    Args:
        kind: the type.
        scope: the sample, of the whole table if the type is global.
        config: options.
        buckets: buckets of a partition, for BUCKET.
    """
    updated, updated_rows = scope.files_with(scope.pairs.true_share)
    if kind.has_filters:
        return _bloom(scope, config, updated)
    if kind in {IndexType.SIMPLE, IndexType.GLOBAL_SIMPLE}:
        files = float(len(scope.table.files))
        load = _opening(scope, LookupLoad(scope.keys, files, pairs_verified=scope.possible), files, scope.table.rows)
        return Expected(load, scope.possible, updated)
    if kind is IndexType.BUCKET:
        return _bucket(scope, buckets)
    return _stored(kind, scope, updated, updated_rows)


def _opening(scope: Scope, load: LookupLoad, files: float, rows: float) -> LookupLoad:
    """The load with these files opened: their footers and key columns are read."""
    share = files / len(scope.table.files) if scope.table.files else 0.0
    return replace(
        load,
        files_opened=files,
        rows_matched=rows,
        key_bytes=scope.table.bytes * share * scope.table.key_share,
        footer_bytes=load.footer_bytes + rows * FILTER_BYTES_A_ROW * FOOTER_TEXT,
    )


def _bloom(scope: Scope, config: WriteConfig, updated: float) -> Expected:
    pairs, table, scale = scope.pairs, scope.table, scope.batch.scale * scope.table.scale
    kept = pairs.kept * scale if config.prune_by_ranges else scope.possible
    true = pairs.true_share * pairs.kept * scale
    chance = pairs.true_share + (1.0 - pairs.true_share) * pairs.mean_fpp
    opened, rows = scope.files_with(chance)
    filters = len(pairs.by_file) * table.scale
    load = LookupLoad(
        keys=scope.keys,
        files=len(table.files),
        footers_read=table.uncached if config.footer_cache else len(table.files),
        filters=filters,
        filter_rows=sum(table.footers[path].rows for path in pairs.by_file) * table.scale,
        pairs_probed=kept,
        pairs_verified=true + (kept - true) * pairs.mean_fpp,
        footer_bytes=table.uncached * table.rows / max(len(table.files), 1) * FILTER_BYTES_A_ROW * FOOTER_TEXT,
    )
    return Expected(_opening(scope, load, opened, rows), kept, updated)


def _bucket(scope: Scope, buckets: int) -> Expected:
    """Every key has one bucket; those with a key are opened and, whether it is new or not, written."""
    hit = sum(touched(buckets, len(keys) * scope.batch.scale) for keys in scope.batch.keys.values())
    groups = max(buckets * len(scope.batch.keys), 1)
    share = hit / groups
    load = LookupLoad(scope.keys, len(scope.table.files), keys_located=scope.keys, pairs_verified=scope.keys)
    load = replace(
        load,
        files_opened=hit if scope.table.files else 0.0,
        rows_matched=scope.table.rows * share,
        key_bytes=scope.table.bytes * share * scope.table.key_share,
        footer_bytes=scope.table.rows * share * FILTER_BYTES_A_ROW * FOOTER_TEXT,
    )
    return Expected(load, scope.keys, hit, f"{buckets} buckets a partition; a table of another type is rewritten first")


def _stored(kind: IndexType, scope: Scope, updated: float, updated_rows: float) -> Expected:
    """Locations of the keys that are there, looked up in a store."""
    found = scope.keys * scope.updates
    load = LookupLoad(scope.keys, len(scope.table.files), keys_located=scope.keys, pairs_verified=found)
    if kind is IndexType.HBASE:
        load = replace(load, store_requests=scope.keys / _REMOTE_BATCH, store_bytes=found * _REMOTE_ENTRY_BYTES)
        note = "needs an HBase server"
    elif kind is IndexType.INMEMORY:
        note = "for tests: every process reads the whole table's keys first (the build)"
    else:
        entries, size = entries_of(scope.table.rows, scope.keys)
        load = replace(load, entries_read=entries, store_bytes=size)
        note = "needs Spark" if kind is IndexType.STATE else "is built first"
    return Expected(_opening(scope, load, updated, updated_rows), found, updated, note)
