"""Which index suits a table and a batch: what each type would cost here, which one to take, what to look out for.

The batch's keys and the table's footers are sampled (:mod:`lakeindex.operations.advise.sample`), the counts scaled up,
and put into the cost model (:mod:`lakeindex.index.cost`). The batch is taken to be typical of those to come.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean
from typing import ClassVar

import pyarrow as pa

from lakeindex.errors import LakeIndexError
from lakeindex.index.advice import Workload
from lakeindex.index.cost import CostConstants, cost_of, hit_chance, requests_of
from lakeindex.index.cost_constants import CONSTANTS, MEAN_ERROR, MEASURED_ON
from lakeindex.index.registry import advice_of
from lakeindex.model import DEFAULT_INDEX, IndexType
from lakeindex.operations.advise.sample import (
    BatchSample,
    Pairs,
    TableSample,
    pairs_of,
    sample_batch,
    sample_table,
    seconds_of_a_request,
)
from lakeindex.options.parse import parse_options
from lakeindex.options.types import WriteConfig
from lakeindex.pipeline import SUMMARY_FILE, default_checkpoints
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import TableResult
from lakeindex.storage.paths import absolute
from lakeindex.table.columns import table_schema
from lakeindex.table.handle import Table
from lakeindex.table.virtual_key_rules import check_stores_keys
from lakeindex.tasks.stores import storage_at
from lakeindex.write.keys.keys import KeySpec

_USELESS_RANGES = 0.8
_CLOSE_ENOUGH = 1.15
_RUNS = 10


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


@dataclass(frozen=True, slots=True)
class TypeAdvice:
    """What one index type would cost for a batch like this.

    Attributes:
        index_type: the type.
        is_global: a key is unique in the whole table.
        comparisons: (key, file) pairs without an index.
        after_ranges: pairs that are left by key ranges, or by location.
        after_filters: pairs that are left by filters; each is matched with a key column.
        files_opened: files whose key column is read.
        bytes_read: by the look-up.
        requests: by the look-up, beyond those that every run makes.
        lookup_seconds: of the look-up.
        files_rewritten: files that hold a key of the batch, or get one.
        rewrite_seconds: of writing them.
        seconds: both.
        build_seconds: to build it first, where it stores locations.
        measured: its constants were measured; otherwise they are rules of thumb.
        note: what it needs.
    """

    index_type: str
    is_global: bool
    comparisons: int
    after_ranges: int
    after_filters: int
    files_opened: int
    bytes_read: int
    requests: int
    lookup_seconds: float
    files_rewritten: int
    rewrite_seconds: float
    seconds: float
    build_seconds: float
    measured: bool
    note: str | None


@dataclass(frozen=True, slots=True)
class ModelError:
    """How far the model was from the last runs' look-ups.

    Attributes:
        runs: runs whose summaries were found.
        seconds: mean of |estimate - actual| / actual of the seconds; None without runs.
        bytes_read: the same of the bytes read.
        calibrated: the same of the seconds in the calibration.
        measured_on: where the constants were measured.
    """

    runs: int
    seconds: float | None
    bytes_read: float | None
    calibrated: float
    measured_on: str


@dataclass(frozen=True, slots=True)
class Advice(TableResult):
    """What to do.

    Attributes:
        index_type: the index it is bound to; None if it is not bound.
        batch_rows: rows of the batch.
        sampled_rows: rows looked at.
        keys: distinct keys of the batch, estimated.
        updates: share of them that are in the table, 0 to 1, estimated.
        partitions: partitions that the batch touches, of those that the sample shows.
        files: live files in those partitions.
        files_in_table: live files of the table.
        footers_sampled: footers looked at.
        types: each index type.
        recommended: the one to take.
        reason: why.
        warnings: problems that were found.
        model: how good the estimates were so far.
    """

    shown_by: ClassVar[str] = "results:show_advice"

    index_type: str | None
    batch_rows: int
    sampled_rows: int
    keys: int
    updates: float
    partitions: int
    files: int
    files_in_table: int
    footers_sampled: int
    types: tuple[TypeAdvice, ...]
    recommended: str
    reason: str
    warnings: tuple[str, ...]
    model: ModelError


def advise(
    uri: str,
    batch: pa.Table | Sequence[str],
    *,
    options: Mapping[str, str] | None = None,
    checkpoints: str | None = None,
) -> Advice:
    """Advise on the index of a table.

    Args:
        batch: an Arrow table, or files, folders and patterns: a typical batch.
        options: ``hoodie.*`` and ``lakeindex.*`` options of the future writes.
        checkpoints: where run folders are, for the error of the last runs.

    Raises:
        TableError: no table, or one that is not read; a damaged footer.
        InputError: the batch cannot be read, or does not fit the table.
    """
    config = parse_options(options or {})
    table = Table.at(uri, use_metadata=config.use_metadata)
    check_stores_keys(table.properties, "advice on the index")
    snapshot = table.snapshot()
    spec = KeySpec.from_properties(table.key_properties())
    sample = sample_batch(batch, table_schema(table, snapshot), spec, config)
    everything = sample_table(table.storage, snapshot.base_files_all())
    near = everything.within(frozenset(sample.keys))
    scopes = {
        is_global: SampledScope(sample, files, pairs_of(table.storage, sample, files, is_global=is_global), is_global)
        for is_global, files in ((False, near), (True, everything))
    }
    constants = CONSTANTS.slower_store(seconds_of_a_request(table.storage, everything.files))
    index = table.index(snapshot.timeline)
    current = None if index is None else index.index_type
    work = {is_global: scope.workload(current) for is_global, scope in scopes.items()}
    types = tuple(_type_advice(kind, work[kind.is_global], config, constants) for kind in IndexType)
    is_global = index is not None and index.is_global
    recommended, reason = _recommend(types, current, is_global=is_global, known=bool(everything.files))
    home = scopes[is_global]
    return Advice(
        table=table.name,
        uri=table.uri,
        index_type=current,
        batch_rows=sample.rows,
        sampled_rows=sample.sampled_rows,
        keys=home.keys,
        updates=round(home.updates, 4),
        partitions=len(sample.keys),
        files=len(near.files),
        files_in_table=len(everything.files),
        footers_sampled=len(everything.known),
        types=types,
        recommended=recommended,
        reason=reason,
        warnings=tuple(_warnings(home, work[is_global], config, is_global=is_global)),
        model=model_error(checkpoints or default_checkpoints(absolute(uri))),
    )


def _type_advice(kind: IndexType, work: Workload, config: WriteConfig, constants: CostConstants) -> TypeAdvice:
    advice = advice_of(kind)
    expected = advice.expected(work, config)
    load = expected.load
    cost = cost_of(load, constants, has_filters=kind.has_filters)
    rewrite = constants.byte_rewritten * expected.file_bytes * expected.files_rewritten
    return TypeAdvice(
        index_type=kind,
        is_global=kind.is_global,
        comparisons=round(work.possible),
        after_ranges=round(expected.after_ranges),
        after_filters=round(load.pairs_verified),
        files_opened=round(load.files_opened),
        bytes_read=round(load.bytes_read),
        requests=round(requests_of(load, constants)),
        lookup_seconds=round(cost.seconds, 4),
        files_rewritten=round(expected.files_rewritten),
        rewrite_seconds=round(rewrite, 4),
        seconds=round(cost.seconds + rewrite, 4),
        build_seconds=round(_build_seconds(kind, work, constants), 4),
        measured=advice.is_plain,
        note=expected.note,
    )


def _build_seconds(kind: IndexType, work: Workload, constants: CostConstants) -> float:
    """Reading every key once, and writing it."""
    if not kind.is_stored:
        return 0.0
    return work.files * constants.file_opened + work.rows * (constants.row_matched + 2 * constants.entry_read)


def _recommend(
    types: Sequence[TypeAdvice], current: IndexType | None, *, is_global: bool, known: bool
) -> tuple[str, str]:
    """A type and why: the cheapest of those that mean the same for keys; the present one if it is close."""
    fitting = [one for one in types if one.is_global is is_global and one.measured]
    best = min(fitting, key=lambda one: one.seconds)
    now = next((one for one in types if one.index_type == current and one.is_global is is_global), None)
    if not known:
        choice = now or next(one for one in fitting if one.index_type in DEFAULT_INDEX)
        return choice.index_type, f"{choice.index_type}: the table is empty, so there is nothing to compare by."
    if now is not None and now.seconds <= best.seconds * _CLOSE_ENOUGH:
        return now.index_type, (
            f"Keep {now.index_type}: {now.seconds:.2f} s for such a batch, and no type that fits is more than "
            f"{_CLOSE_ENOUGH - 1:.0%} ahead ({best.index_type}: {best.seconds:.2f} s)."
        )
    why = f"it opens {best.files_opened} files and compares {best.after_ranges:,} of {best.comparisons:,} pairs"
    beside = f", against {now.seconds:.2f} s with {now.index_type}" if now is not None else ""
    change = f" (lakeindex index migrate --to {best.index_type})" if now is not None else ""
    return best.index_type, f"{best.index_type}: {best.seconds:.2f} s for such a batch{beside}; {why}{change}."


def _warnings(scope: SampledScope, work: Workload, config: WriteConfig, *, is_global: bool) -> list[str]:
    pairs, table = scope.pairs, scope.table
    found = []
    if pairs.possible and len(table.known) > 1 and pairs.kept / pairs.possible > _USELESS_RANGES:
        found.append(
            f"key ranges keep {pairs.kept / pairs.possible:.0%} of the pairs: "
            "keys look random, so files cannot be told apart by range; filters, buckets or a RECORD index do without"
        )
    if pairs.saturated:
        found.append(
            f"{pairs.saturated} of {len(pairs.fpp)} filters looked at are too full (more than 1 % false positives): "
            "another writer sized them; rewriting the files with lakeindex.bloom.sizing=exact mends that"
        )
    if pairs.without_filter:
        found.append(
            f"{pairs.without_filter} files looked at have no filter that can be trusted: all their keys are read"
        )
    found += advice_of(work.now or DEFAULT_INDEX[is_global]).warnings(work, config)
    if len(table.known) < len(table.files):
        found.append(f"{len(table.known)} of {len(table.files)} footers were looked at; the rest is taken to be alike")
    if not is_global:
        found.append(
            "whether a key is in several partitions was not scanned: "
            "`lakeindex index migrate` does before a GLOBAL type"
        )
    return found


def model_error(checkpoints: str) -> ModelError:
    """How far the model was from the runs whose folders are there, the newest ten."""
    store = storage_at(absolute(checkpoints))
    marks = []
    for folder in store.list_folder("").folders:
        name = folder.rstrip("/").rpartition("/")[2]
        marks += [o for o in store.list_folder(name).objects if o.path == f"{name}/{SUMMARY_FILE}"]
    seconds, sizes = [], []
    for mark in sorted(marks, key=lambda o: -o.modified_ms)[:_RUNS]:
        try:
            estimate = RunSummary.from_json(store.read(mark.path)).estimate
        except (LakeIndexError, ValueError, TypeError, KeyError):
            continue  # a folder that is being deleted, or of another release
        if estimate is not None and estimate.actual_seconds and estimate.actual_bytes_read:
            seconds.append(abs(estimate.seconds - estimate.actual_seconds) / estimate.actual_seconds)
            sizes.append(abs(estimate.bytes_read - estimate.actual_bytes_read) / estimate.actual_bytes_read)
    return ModelError(
        runs=len(seconds),
        seconds=round(mean(seconds), 4) if seconds else None,
        bytes_read=round(mean(sizes), 4) if sizes else None,
        calibrated=MEAN_ERROR,
        measured_on=MEASURED_ON,
    )
