"""Which index suits a table and a batch: what each type would cost here, which one to take, what to look out for.

A bounded sample of the batch's keys and of the table's footers and filters is read, and nothing is written. Footers
come from the footer cache; some of those that are not cached are read, and the filters of some files. The counts are
scaled up and put into the cost model (:mod:`lakeindex.index.cost`). The batch is assumed to be typical of those to
come.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from statistics import mean
from typing import ClassVar, Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field

from lakeindex.bloom import expected_fpp, filter_candidates, usable_filter
from lakeindex.errors import LakeIndexError
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import FileLayout, Footer, read_layout
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, sample_of, string_buffers
from lakeindex.index.advice import Workload
from lakeindex.index.cost import CostConstants, cost_of, hit_chance, requests_of
from lakeindex.index.cost_constants import CONSTANTS, MEAN_ERROR, MEASURED_ON
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.index.registry import advice_of
from lakeindex.model import DEFAULT_INDEX, BaseFile, IndexType
from lakeindex.operations.cluster_plan import reasons_to_cluster
from lakeindex.options.parse import parse_options
from lakeindex.options.types import InputFormat, WriteConfig
from lakeindex.pipeline import SUMMARY_FILE, default_checkpoints
from lakeindex.run.summary import RunSummary
from lakeindex.showing.json_result import TableResult
from lakeindex.stages.stage_input.input_pieces import read_split
from lakeindex.stages.stage_input.inputs import InputFile, Split, find_inputs, format_of, parquet_footer
from lakeindex.storage import Storage, in_parallel
from lakeindex.storage.paths import absolute
from lakeindex.storage.storage_file import StorageFile
from lakeindex.table.handle import Table
from lakeindex.table.refusals import check_stores_keys
from lakeindex.table.table_columns import table_schema
from lakeindex.tasks.stores import storage_at
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.types.moments import MomentsFile
from lakeindex.write.types.schema_fit import fit_batch

SAMPLED_ROWS: Final = 50_000
SAMPLED_FOOTERS: Final = 200
SAMPLED_FILTERS: Final = 48
_SAMPLED_LAYOUTS: Final = 8
_PIECES: Final = 8
_SIZED_FILES: Final = 64
_SATURATED: Final = 0.01

_T = TypeVar("_T")


class BatchSample(Frozen):
    """Keys of a batch.

    Attributes:
        rows: rows of the whole batch; an estimate where files do not say.
        keys: distinct keys among them by partition, ascending by UTF-8 bytes.
    """

    rows: int
    sampled_rows: int
    keys: Mapping[str, pa.Array]

    @property
    def distinct(self) -> int:
        """Distinct (partition, key) of the sample."""
        return sum(len(keys) for keys in self.keys.values())

    @property
    def scale(self) -> float:
        """Rows of the batch for each row looked at."""
        return self.rows / self.sampled_rows if self.sampled_rows else 0.0

    @property
    def all_keys(self) -> pa.Array:
        """Distinct keys of all partitions, ascending."""
        joined = pa.concat_arrays(list(self.keys.values())) if self.keys else pa.array([], pa.string())
        distinct = joined.unique()
        return distinct.take(pc.sort_indices(distinct))


def sample_batch(batch: pa.Table | Sequence[str], schema: pa.Schema, spec: KeySpec, config: WriteConfig) -> BatchSample:
    """Sample a batch.

    Args:
        batch: an Arrow table, or files, folders and patterns.
        config: format of the files.

    Raises:
        InputError: no such file, or one that cannot be read.
        SchemaMismatchError: key columns are missing or do not convert.
    """
    if isinstance(batch, pa.Table):
        rows, pieces = batch.num_rows, [sample_of(batch, SAMPLED_ROWS)]
    else:
        rows, pieces = _from_files(find_inputs(tuple(batch), config.input_format), schema, config)
    generator = KeyGenerator(spec)
    only = frozenset(spec.columns)
    tables = []
    for piece in pieces:
        named = piece.select([name for name in piece.column_names if name in only])
        keyed = generator.keys_of(fit_batch(named, schema, only=only).columns)
        tables.append(pa.table([keyed.partition_path, keyed.record_key], names=["partition", "key"]))
    sample = (
        pa.concat_tables(tables)
        if tables
        else pa.table({"partition": pa.array([], pa.string()), "key": pa.array([], pa.string())})
    )
    sample = sample.drop_null()
    distinct = (
        sample.group_by(["partition", "key"]).aggregate([]).sort_by([("partition", "ascending"), ("key", "ascending")])
    )
    keys = {
        partition: one_array(distinct.filter(pc.equal(distinct.column("partition"), partition)).column("key"))
        for partition in distinct.column("partition").unique().to_pylist()
    }
    return BatchSample(max(rows, sample.num_rows), sample.num_rows, keys)


def _from_files(files: Sequence[InputFile], schema: pa.Schema, config: WriteConfig) -> tuple[int, list[pa.Table]]:
    """Rows of all files, and pieces of some: row groups of Parquet files, else whole files."""
    chosen = _spread(files, _PIECES)
    each = SAMPLED_ROWS // max(len(chosen), 1)
    if all(format_of(file, config.input_format) is InputFormat.PARQUET for file in files):
        sized = _spread(files, _SIZED_FILES)
        read = sum(file.size_bytes for file in sized)
        rows = sum(in_parallel(sized[0].root, lambda file: parquet_footer(file).num_rows, sized))
        total = round(rows * sum(file.size_bytes for file in files) / read) if read else 0
        return total, [_piece(file, each) for file in chosen]
    whole = [read_split(Split(file), schema, config.input_format, config.csv) for file in chosen[:1]]
    size = sum(file.size_bytes for file in chosen[:1])
    total = round(sum(one.num_rows for one in whole) * sum(f.size_bytes for f in files) / size) if size else 0
    return total, [sample_of(one, SAMPLED_ROWS) for one in whole]


def _parquet(file: InputFile) -> MomentsFile:
    return MomentsFile(StorageFile(storage_at(file.root), file.path, file.size_bytes))


def _piece(file: InputFile, rows: int) -> pa.Table:
    source = _parquet(file)
    groups = _spread(range(source.num_row_groups), 2)
    return sample_of(source.read_row_groups(list(groups)), rows)


def _spread(items: Sequence[_T], most: int) -> list[_T]:
    """At most so many of them, evenly spread."""
    if len(items) <= most:
        return list(items)
    return [items[int(at)] for at in np.linspace(0, len(items) - 1, most)]


class TableSample(Frozen):
    """Live files in the scope of a batch, and what is known of them.

    Attributes:
        uncached: files in scope whose footers are not cached.
        key_share: the key column's share of a file's bytes.
        where: of cached files, the side file that has their filter.
        layouts: of files that were read, everything.
    """

    files: tuple[BaseFile, ...]
    footers: Mapping[str, Footer]
    uncached: int
    key_share: float
    where: Mapping[str, str] = field(default_factory=dict)
    layouts: Mapping[str, FileLayout] = field(default_factory=dict)

    @property
    def known(self) -> list[BaseFile]:
        """Files whose footer is known."""
        return [file for file in self.files if file.path in self.footers]

    @property
    def scale(self) -> float:
        """Files in scope for each one that is known."""
        known = len(self.known)
        return len(self.files) / known if known else 0.0

    @property
    def bytes(self) -> int:
        """Of all files in scope."""
        return sum(file.size_bytes for file in self.files)

    @property
    def rows(self) -> float:
        """Of all files in scope, by those that are known."""
        known = self.known
        size = sum(file.size_bytes for file in known)
        return sum(self.footers[file.path].rows for file in known) * self.bytes / size if size else 0.0

    def within(self, partitions: frozenset[str]) -> TableSample:
        """The same, of some partitions."""
        files = tuple(file for file in self.files if file.partition_path in partitions)
        uncached = sum(file.path not in self.where for file in files)
        return TableSample(files, self.footers, uncached, self.key_share, self.where, self.layouts)


def sample_table(storage: Storage, files: Sequence[BaseFile]) -> TableSample:
    """Sample the footers of some files.

    Raises:
        TableCorruptError: a footer that is read is damaged.
    """
    cached = FooterCache(storage).load(files, tidy=False)
    missing = [file for file in files if file.path not in cached]
    wanted = {file.path: file for file in [*_spread(missing, SAMPLED_FOOTERS), *_spread(files, _SAMPLED_LAYOUTS)]}
    read = dict(
        zip(wanted, in_parallel(storage.uri, lambda file: read_layout(storage, file), wanted.values()), strict=True)
    )
    footers = {path: footer for path, (footer, _) in cached.items()} | {p: one.footer for p, one in read.items()}
    size = sum(wanted[path].size_bytes for path in read)
    share = sum(one.key_bytes for one in read.values()) / size if size else 0.0
    return TableSample(tuple(files), footers, len(missing), share, {p: at for p, (_, at) in cached.items()}, read)


def seconds_of_a_request(storage: Storage, files: Sequence[BaseFile]) -> float:
    """The quickest of three requests: what one takes beside the bytes."""
    best = 0.0
    for number, file in enumerate(_spread(files, 3)):
        start = time.perf_counter()
        storage.read_range(file.path, 0, 4)
        took = time.perf_counter() - start
        best = took if number == 0 else min(best, took)
    return best


class Pairs(Frozen):
    """Keys of the sample against files.

    Attributes:
        keys: keys of the sample, in its scope.
        possible: (key, file) pairs without pruning, of known files.
        by_file: pairs after range pruning, by path of a known file.
        hits: pairs that a filter may hold, by path of a file whose filter was probed.
        saturated: of them, filters too full to tell.
        without_filter: of the files to probe, those without a filter that can be used.
    """

    keys: int
    possible: int
    by_file: Mapping[str, int]
    hits: Mapping[str, int]
    fpp: Mapping[str, float]
    saturated: int
    without_filter: int

    @property
    def kept(self) -> int:
        """Pairs after range pruning."""
        return sum(self.by_file.values())

    @property
    def mean_fpp(self) -> float:
        """Of the probed filters, by pairs."""
        pairs = sum(self.by_file[path] for path in self.fpp)
        return sum(self.fpp[path] * self.by_file[path] for path in self.fpp) / pairs if pairs else 0.0

    @property
    def true_share(self) -> float:
        """Share of the pairs after range pruning that are true."""
        probed = sum(self.by_file[path] for path in self.hits)
        if not probed:
            return min(1.0, self.keys / self.kept) if self.kept else 0.0
        true = sum(max(0.0, hits - self.fpp[path] * self.by_file[path]) for path, hits in self.hits.items())
        return min(1.0, true / probed)


def pairs_of(storage: Storage, batch: BatchSample, table: TableSample, *, is_global: bool) -> Pairs:
    """Prune and probe the sample.

    Args:
        is_global: every key against every file, else against those of its partition.
    """
    scopes = _scopes(batch, table, is_global=is_global)
    by_file: dict[str, int] = {}
    slices: dict[str, tuple[pa.Array, int, int]] = {}
    possible = keys_in_all = 0
    for keys, files in scopes:
        keys_in_all += len(keys)
        possible += len(keys) * len(files)
        ranges = [KeyRange(table.footers[f.path].min_key, table.footers[f.path].max_key) for f in files]
        found = prune(keys, ranges)
        for at in found.kept().tolist():
            first, last = int(found.from_row[at]), int(found.to_row[at])
            by_file[files[at].path] = last - first
            slices[files[at].path] = keys, first, last
    files = [file for file in table.known if file.path in by_file]
    hits: dict[str, int] = {}
    fpp: dict[str, float] = {}
    saturated = without = 0
    for file, footer in _filters(storage, table, _spread(files, SAMPLED_FILTERS)):
        bloom = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
        if bloom is None:
            without += 1
            continue
        keys, first, last = slices[file.path]
        hits[file.path] = len(filter_candidates(bloom, string_buffers(keys), first, last))
        fpp[file.path] = expected_fpp(bloom)
        saturated += fpp[file.path] > _SATURATED
    return Pairs(keys_in_all, possible, by_file, hits, fpp, saturated, without)


def _scopes(batch: BatchSample, table: TableSample, *, is_global: bool) -> Iterator[tuple[pa.Array, list[BaseFile]]]:
    if is_global:
        yield batch.all_keys, table.known
        return
    by_partition: dict[str, list[BaseFile]] = {}
    for file in table.known:
        by_partition.setdefault(file.partition_path, []).append(file)
    for partition, keys in batch.keys.items():
        yield keys, by_partition.get(partition, [])


def _filters(storage: Storage, table: TableSample, files: Sequence[BaseFile]) -> Iterator[tuple[BaseFile, Footer]]:
    """Footers with their filters; from the cache where it has them."""
    left = {file.path: file for file in files}
    for path in [path for path in left if path in table.layouts]:
        yield left.pop(path), table.layouts[path].footer
    cached = [(table.where[path], file) for path, file in left.items() if path in table.where]
    for file, footer in FooterCache(storage).load_filters(cached):
        yield file, footer if footer is not None else read_layout(storage, file).footer


_USELESS_RANGES = 0.8
_CLOSE_ENOUGH = 1.15
_RUNS = 10


class SampledScope(Frozen):
    """A batch, the files it is compared with, and what came of the sample.

    Attributes:
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


class TypeAdvice(Frozen):
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


class ModelError(Frozen):
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
    if work.now is not IndexType.BUCKET:
        a_key = pairs.kept * table.scale / max(pairs.keys, 1)
        found += reasons_to_cluster(table.files, a_key, pairs.mean_fpp, config)
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
