"""What a clustering is to put together: file groups of a partition that are small, or whose ranges overlap."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import partial
from itertools import pairwise
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import field

from lakeindex.commit.guards import scheduled_for
from lakeindex.errors import UsageError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footers import read_parquet_footer
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile, IndexType
from lakeindex.operations.row_order import RowOrder
from lakeindex.operations.rows.aligned_rows import align, blamed, open_base_file, row_schema
from lakeindex.options.clustering_options import ClusteringOptions, Curve
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.pages import read_groups
from lakeindex.run.spec import TableFacts
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table
from lakeindex.tasks.runner import Runner, pack, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import RECORD_KEY

ORDER_KEY: Final = "lakeindex.clustering"
"""In a commit: the order of the rows that it has put together."""

_SAMPLE_ROWS: Final = 32_768
_TASKS_A_SLOT: Final = 3
_LEAST_COPIED: Final = 4
"""Row groups of fewer rows than this part of a full one are encoded anew, together."""

Ends: TypeAlias = tuple[Any, Any] | None


class Sized(Frozen):
    """A base file, its rows, and the ends of some columns' values; None of a column where its footer does not say.

    Attributes:
        is_sorted: whether the keys of its row groups share nothing, as far as the footer says.
        row_groups: how many it has.
    """

    file: BaseFile
    rows: int
    ends: Mapping[str, Ends] = field(default_factory=dict)
    is_sorted: bool = True
    row_groups: int = 1


class ClusterGroup(Frozen):
    """Files whose rows are put together, and into how many about."""

    partition: str
    files: tuple[Sized, ...]
    outputs: int

    @property
    def bytes(self) -> int:
        return _bytes_of(self.files)


class Asked(Frozen):
    """What a clustering is about.

    Attributes:
        where: patterns of partition paths (``*`` and ``?``); empty: all.
        small_only: leave files alone that are not small.
        max_bytes: of files that are rewritten in one run; the partitions with most files come first.
        by_thresholds: only partitions beyond the limits of ``maintain``.
        schedule: only put the plan on the timeline.
        instant: carry out this plan, which is on the timeline.
    """

    where: tuple[str, ...] = ()
    small_only: bool = False
    max_bytes: int | None = None
    by_thresholds: bool = False
    schedule: bool = False
    instant: str | None = None


class Request(Frozen):
    """What a clustering was asked for, and how."""

    order: RowOrder
    config: WriteConfig
    asked: Asked = Asked()

    @property
    def options(self) -> ClusteringOptions:
        return self.config.of(ClusteringOptions)

    @property
    def target_bytes(self) -> int:
        return _target_bytes(self.config)

    @property
    def small_bytes(self) -> int:
        return _small_bytes(self.config)

    @property
    def columns(self) -> tuple[str, ...]:
        """Columns of base files whose ranges count."""
        return tuple(dict.fromkeys((RECORD_KEY, *self.order.columns)))

    @property
    def text(self) -> str:
        """The same for the same request."""
        return str((self.order.text, self.asked, self.options))


def _target_bytes(config: WriteConfig) -> int:
    return config.of(ClusteringOptions).target_bytes or config.max_file_bytes


def _small_bytes(config: WriteConfig) -> int:
    given = config.of(ClusteringOptions).small_bytes
    return min(config.small_file_bytes, _target_bytes(config)) if given is None else given


def order_of(config: WriteConfig, schema: pa.Schema) -> RowOrder:
    """The order that the options ask for.

    Raises:
        UsageError: the table has no such column, or it cannot be sorted by.
    """
    options = config.of(ClusteringOptions)
    if options.curve is Curve.NONE:
        return RowOrder(curve=Curve.NONE)
    names = options.columns or (RECORD_KEY,)
    known = row_schema(schema)
    for name in names:
        place = known.get_field_index(name)
        if place < 0 or pa.types.is_nested(known.field(place).type):
            what = "has no column" if place < 0 else "cannot be sorted by column"
            raise UsageError(f"the table {what} {name!r}", culprit=name, hint=f"its columns: {', '.join(schema.names)}")
    return RowOrder(names, options.curve if len(names) > 1 else Curve.LINEAR)


def sized_files(storage: Storage, files: Iterable[BaseFile], columns: Sequence[str]) -> list[Sized]:
    """Files with what their footers say of some columns. Raises: TableCorruptError: one cannot be read."""
    return in_parallel(storage.uri, partial(_sized, storage, columns), list(files))


def _sized(storage: Storage, columns: Sequence[str], file: BaseFile) -> Sized:
    metadata = read_parquet_footer(storage, file).metadata
    ends = {name: _ends(metadata, name) for name in columns}
    whole: dict[str, Ends] = {}
    for name, found in ends.items():
        known = [one for one in found if one is not None]
        is_known = bool(known) and len(known) == len(found)
        whole[name] = (min(low for low, _ in known), max(high for _, high in known)) if is_known else None
    return Sized(file, metadata.num_rows, whole, _are_apart(ends.get(RECORD_KEY, ())), metadata.num_row_groups)


def _ends(metadata: pq.FileMetaData, name: str) -> list[Ends]:
    """The ends of a column in each row group."""
    names = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
    if name not in names:
        return [None]
    chunks = (metadata.row_group(g).column(names.index(name)) for g in range(metadata.num_row_groups))
    found = (chunk.statistics for chunk in chunks)
    return [(one.min, one.max) if one is not None and one.has_min_max else None for one in found]


def candidates(ends: Iterable[Ends], values: Sequence[Any]) -> float:
    """How many ranges hold a value, on average. One that is not known may hold any, and so may that of a file of before
    the column's values became texts.
    """
    listed = list(ends)
    known = [one for one in listed if one and (not values or isinstance(one[0], str) == isinstance(values[0], str))]
    lows, highs = sorted(low for low, _ in known), sorted(high for _, high in known)
    held = sum(bisect_right(lows, value) - bisect_left(highs, value) for value in values)
    return len(listed) - len(known) + (held / len(values) if values else 0.0)


def choose(request: Request, table: Table, facts: TableFacts, snapshot: Snapshot) -> list[ClusterGroup]:
    """The groups of files that a clustering puts together, sorted by partition.

    Raises:
        UsageError: no partition is meant.
    """
    wanted = _partitions(request, snapshot)
    snapshot.preload(wanted)
    by_partition: dict[str, list[ClusterGroup]] = {}
    for path in wanted:
        files = [file for file in snapshot.base_files(path) if scheduled_for(snapshot, file) is None]
        arranged = _arranged(request.order, snapshot, files, is_bucketed=facts.index.index_type is IndexType.BUCKET)
        sized = sized_files(table.storage, files, request.columns)
        groups = list(_groups(request, facts, path, sized, arranged))
        if groups:
            by_partition[path] = groups
    return list(_within(request.asked.max_bytes, by_partition))


def _partitions(request: Request, snapshot: Snapshot) -> list[str]:
    there = snapshot.partitions()
    if not request.asked.where:
        return list(there)
    for pattern in request.asked.where:
        if not any(_is_meant(path, pattern) for path in there):
            raise UsageError(
                f"there is no partition {pattern!r}", culprit=pattern, hint="`lakeindex inspect` lists the partitions"
            )
    return [path for path in there if any(_is_meant(path, pattern) for pattern in request.asked.where)]


def _is_meant(path: str, pattern: str) -> bool:
    """Whether a path is of a pattern with ``*`` and ``?``; a bracket is itself."""
    return fnmatchcase(path, pattern.replace("[", "[[]"))


def _groups(
    request: Request, facts: TableFacts, path: str, files: Sequence[Sized], arranged: frozenset[BaseFile]
) -> Iterator[ClusterGroup]:
    by_key, stays = request.order.by_key, request.order.curve is Curve.NONE
    if facts.index.index_type is IndexType.BUCKET:  # a bucket has one file group, always
        yield from (
            ClusterGroup(path, (one,), 1)
            for one in files
            if not (stays or request.asked.by_thresholds)
            and one.file not in arranged
            and not (by_key and one.is_sorted)
        )
        return
    small = [one for one in files if one.file.size_bytes < request.small_bytes]
    fewer = len(small) > max(_outputs(request, small), 1)
    keys = [one.ends.get(RECORD_KEY) for one in files]
    if request.asked.by_thresholds:
        limits = request.options
        crowded = by_key and _overlap(keys) >= limits.least_candidates
        if not crowded and not (fewer and len(small) >= limits.least_files):
            return
    if request.asked.small_only or stays:
        chosen = small if fewer else []
    elif fewer or (not _are_apart(keys) if by_key else len(arranged) < len(files)):
        chosen = list(files)
    else:
        chosen = []
    ordered = sorted(chosen, key=lambda one: (str((one.ends.get(RECORD_KEY) or ("",))[0]), one.file))
    held: list[Sized] = []
    for one in ordered:
        if held and sum(other.file.size_bytes for other in (*held, one)) > request.options.group_bytes:
            yield ClusterGroup(path, tuple(held), _outputs(request, held))
            held = []
        held.append(one)
    if held:
        yield ClusterGroup(path, tuple(held), _outputs(request, held))


Part: TypeAlias = tuple[tuple[Sized, ...], bool]
"""Files whose rows are put in order by themselves, and whether their row groups may be copied as they are."""


def whole_parts(group: ClusterGroup, order: RowOrder, config: WriteConfig, most: int) -> list[Part]:
    """The files of a group, those of overlapping key ranges together, one part behind the other by key; in the order
    that rows have, each by itself. Files of small row groups are put together with neighbours.

    Args:
        most: bytes of files that may be put in order at once.

    Returns:
        Nothing if the order is another one, or more files overlap.
    """
    stays = order.curve is Curve.NONE
    if not stays and (not order.by_key or any(one.ends.get(RECORD_KEY) is None for one in group.files)):
        return []
    found: list[Part] = []
    for files in ((one,) for one in group.files) if stays else _overlapping(group.files):
        may_stay = len(files) == 1 and (stays or files[0].is_sorted) and _has_full_groups(files[0], config)
        if not may_stay and _bytes_of(files) > most:
            return []
        if not may_stay and found and not found[-1][1] and _bytes_of((*found[-1][0], *files)) <= most:
            found[-1] = ((*found[-1][0], *files), False)
        else:
            found.append((tuple(files), may_stay))
    return found


def _overlapping(files: Iterable[Sized]) -> Iterator[tuple[Sized, ...]]:
    """Files by their least key, those together whose ranges share keys."""
    held: list[Sized] = []
    highest: Any = None
    for low, high, one in sorted(((*(one.ends[RECORD_KEY] or ()), one) for one in files), key=lambda found: found[:2]):
        if held and low > highest:
            yield tuple(held)
            held = []
        highest = max(highest, high) if held else high
        held.append(one)
    if held:
        yield tuple(held)


def _has_full_groups(one: Sized, config: WriteConfig) -> bool:
    return one.rows * _LEAST_COPIED >= one.row_groups * config.row_group_rows


def _bytes_of(files: Iterable[Sized]) -> int:
    return sum(one.file.size_bytes for one in files)


def _outputs(request: Request, files: Sequence[Sized]) -> int:
    return max(1, -(-sum(one.file.size_bytes for one in files) // request.target_bytes))


def _are_apart(ends: Sequence[Ends]) -> bool:
    """Whether no two ranges share a value; not if one is not known."""
    known = sorted(one for one in ends if one is not None)
    return len(known) == len(ends) and all(a[1] < b[0] for a, b in pairwise(known))


def _overlap(ends: Sequence[Ends]) -> float:
    """Candidates of a key, as the ends themselves tell: of each range where most others overlap it, as only few of its
    keys are near its own ends, which fewer ranges hold.
    """
    known = [one for one in ends if one is not None]
    values = sorted(value for one in known for value in one)
    lows, highs = sorted(low for low, _ in known), sorted(high for _, high in known)
    held = np.array([bisect_right(lows, value) - bisect_left(highs, value) for value in values])
    most = [int(held[bisect_left(values, low) : bisect_right(values, high)].max()) for low, high in known]
    return len(ends) - len(known) + (sum(most) / len(most) if most else 0.0)


def _arranged(
    order: RowOrder, snapshot: Snapshot, files: Sequence[BaseFile], *, is_bucketed: bool
) -> frozenset[BaseFile]:
    """Files of one commit that has put their rows into this order, the newest such; of a table with buckets, which are
    put in order each by itself, of all of them.
    """
    found: dict[str, list[BaseFile]] = {}
    arranged: list[BaseFile] = []
    for file in files:
        found.setdefault(file.instant_time, []).append(file)
    for time in sorted(found, key=comparable, reverse=True):
        write = snapshot.timeline.completed_write(time)
        if write is not None:
            extra = snapshot.timeline.commit_metadata(snapshot.storage, write).extra_metadata
            if extra.get(ORDER_KEY) == order.text:
                arranged += found[time]
                if not is_bucketed:
                    break
    return frozenset(arranged)


def _within(most: int | None, groups: Mapping[str, Sequence[ClusterGroup]]) -> Iterator[ClusterGroup]:
    left = most
    chosen = []
    for path in sorted(groups, key=lambda path: (-sum(len(one.files) for one in groups[path]), path)):
        for group in groups[path]:
            if left is not None:
                if group.bytes > left:
                    continue
                left -= group.bytes
            chosen.append(group)
    return iter(sorted(chosen, key=lambda one: (one.partition, one.files[0].file)))


def reasons_to_cluster(listed: Sequence[BaseFile], a_key: float, fpp: float, config: WriteConfig) -> Iterator[str]:
    """Whether clustering pays, by the thresholds of ``maintain``.

    Args:
        a_key: files whose key ranges hold a key, on average.
        fpp: false-positive probability of their filters.
    """
    limits, below, target = config.of(ClusteringOptions), _small_bytes(config), _target_bytes(config)
    small: dict[str, list[int]] = {}
    for file in listed:
        if file.size_bytes < below:
            small.setdefault(file.partition_path, []).append(file.size_bytes)
    crowded = [sizes for sizes in small.values() if len(sizes) >= limits.least_files]
    files, fewer = sum(map(len, crowded)), sum(-(-sum(sizes) // target) for sizes in crowded)
    if fewer < files:
        yield (
            f"{files} of {len(listed)} files are smaller than {below:,} bytes, and beside "
            f"{limits.least_files - 1} or more such in their partition: `lakeindex cluster` makes about {fewer} of them"
        )
    if a_key >= limits.least_candidates and not limits.columns and limits.curve is not Curve.NONE:
        yield (
            f"the key ranges of {a_key:.1f} files hold a key, and of these {a_key * fpp:.2g} filters say so "
            "falsely: `lakeindex cluster`, which sorts by key, leaves about one file a key"
        )


class SampleTask(Frozen):
    """Some rows of base files: of each file so many, of some columns."""

    table_uri: str
    schema: pa.Schema
    files: tuple[BaseFile, ...]
    rows: int


def sample_files(task: SampleTask) -> list[tuple[str, pa.Table]]:
    """Partition path and evenly spaced rows of each file. Raises: TableCorruptError: one cannot be read."""
    store, found = storage_at(task.table_uri), []
    for file in task.files:
        source = open_base_file(store, file)
        groups = range(source.num_row_groups)
        step = max(1, -(-len(groups) // max(1, task.rows // 64)))
        stored = frozenset(source.schema_arrow.names)
        names = [name for name in task.schema.names if name in stored]
        with blamed(file):
            rows = read_groups(source, list(groups)[step // 2 :: step], names or None)
        rows = align(rows, file, task.schema)
        places = range(0, rows.num_rows, max(1, rows.num_rows // max(1, task.rows)))
        found.append((file.partition_path, rows.take(pa.array(places, pa.int64()))))
    return found


def sampled(
    table: Table, facts: TableFacts, files: Sequence[BaseFile], columns: Sequence[str], runner: Runner
) -> dict[str, pa.Table]:
    """Rows of these files by partition path, the same ones each time."""
    known = row_schema(facts.schema)
    schema = pa.schema([known.field(name) for name in columns])
    each = max(16, _SAMPLE_ROWS // max(1, len(files)))
    packs = pack([1.0] * len(files), runner.slots * _TASKS_A_SLOT) if files else []
    tasks = [SampleTask(table.uri, schema, tuple(files[n] for n in one), each) for one in packs]
    done = run_tasks(runner, sample_files, tasks, "cluster: sample rows")
    found: dict[str, list[pa.Table]] = {}
    for path, rows in (one for result in done for one in result):
        found.setdefault(path, []).append(rows)
    return {path: pa.concat_tables(rows) for path, rows in found.items()}
