"""A batch and the files it is compared with: the sample's counts, scaled up, as index kinds are asked with them."""

from __future__ import annotations

from dataclasses import dataclass

from lakeindex.commands.advise.sample import BatchSample, Pairs, TableSample
from lakeindex.index.advice import Workload
from lakeindex.index.cost import hit_chance
from lakeindex.model import IndexType


@dataclass(frozen=True)
class SampledScope:
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

    def workload(self, now: IndexType | None) -> Workload:
        """The counts that index kinds are asked with.

        Args:
            now: the index type that the table has.
        """
        pairs, table, scale = self.pairs, self.table, self.batch.scale * self.table.scale
        chance = pairs.true_share + (1.0 - pairs.true_share) * pairs.mean_fpp
        files_updated, rows_updated = self.files_with(pairs.true_share)
        files_filtered, rows_filtered = self.files_with(chance)
        return Workload(
            keys=self.keys,
            keys_by_partition=tuple(len(keys) * self.batch.scale for keys in self.batch.keys.values()),
            possible=self.possible,
            kept=pairs.kept * scale,
            true_pairs=pairs.true_share * pairs.kept * scale,
            mean_fpp=pairs.mean_fpp,
            updates=self.updates,
            files=len(table.files),
            rows=table.rows,
            bytes=table.bytes,
            partitions=len({file.partition_path for file in table.files}),
            key_share=table.key_share,
            uncached=table.uncached,
            files_in_range=len(pairs.by_file) * table.scale,
            rows_in_range=sum(table.footers[path].rows for path in pairs.by_file) * table.scale,
            files_updated=files_updated,
            rows_updated=rows_updated,
            files_filtered=files_filtered,
            rows_filtered=rows_filtered,
            now=now,
        )
