"""What the adviser looks at: a bounded sample of the batch's keys and of the table's footers and filters.

Footers come from the footer cache; of those that are not cached some are read, and of some files the filter.
Nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.bloom import expected_fpp, filter_candidates, usable_filter
from lakeindex.files.footer_cache import FooterCache
from lakeindex.files.footers import FileLayout, Footer, read_layout
from lakeindex.hashing.arrow import one_array, sample_of, string_buffers
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.options.types import InputFormat, WriteConfig
from lakeindex.stages.stage_input.input_pieces import read_split
from lakeindex.stages.stage_input.inputs import InputFile, Split, find_inputs, format_of, parquet_footer
from lakeindex.storage import Storage, in_parallel
from lakeindex.storage.storage_file import StorageFile
from lakeindex.tasks.stores import storage_at
from lakeindex.write.keys.keys import KeyGenerator, KeySpec
from lakeindex.write.types.schema_fit import fit_batch

SAMPLED_ROWS: Final = 50_000
SAMPLED_FOOTERS: Final = 200
SAMPLED_FILTERS: Final = 48
_SAMPLED_LAYOUTS: Final = 8
_PIECES: Final = 8
_SIZED_FILES: Final = 64
_SATURATED: Final = 0.01

_T = TypeVar("_T")


@dataclass(frozen=True)
class BatchSample:
    """Keys of a batch.

    Attributes:
        rows: rows of the whole batch; an estimate where files do not say.
        sampled_rows: rows looked at.
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
        spec: how keys are made.
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


def _parquet(file: InputFile) -> pq.ParquetFile:
    return pq.ParquetFile(StorageFile(storage_at(file.root), file.path, file.size_bytes))


def _piece(file: InputFile, rows: int) -> pa.Table:
    source = _parquet(file)
    groups = _spread(range(source.num_row_groups), 2)
    return sample_of(source.read_row_groups(list(groups)), rows)


def _spread(items: Sequence[_T], most: int) -> list[_T]:
    """At most so many of them, evenly spread."""
    if len(items) <= most:
        return list(items)
    return [items[int(at)] for at in np.linspace(0, len(items) - 1, most)]


@dataclass(frozen=True)
class TableSample:
    """Live files in the scope of a batch, and what is known of them.

    Attributes:
        files: all files in scope.
        footers: footers of those that are known, by path.
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


@dataclass(frozen=True)
class Pairs:
    """Keys of the sample against files.

    Attributes:
        keys: keys of the sample, in its scope.
        possible: (key, file) pairs without pruning, of known files.
        by_file: pairs after range pruning, by path of a known file.
        hits: pairs that a filter may hold, by path of a file whose filter was probed.
        fpp: false-positive probability of those filters.
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
