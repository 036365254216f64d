"""Read the rows of a planned scan, file by file, in batches: no more than a row group's columns is held at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.commands.get.rows import FileAsk, GetTask, get_from_file
from lakeindex.commands.read.time_travel import LaterWrites
from lakeindex.commands.rescale.aligned_rows import align, damaged
from lakeindex.commands.scan.plan import ScanPlan
from lakeindex.commands.scan.statistics import FooterStatistics
from lakeindex.errors import LakeIndexError
from lakeindex.files.footers import read_parquet_footer
from lakeindex.hashing.arrow import RowNumbers
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.read_pages import open_pages, read_group_batches, read_groups
from lakeindex.predicates.predicate import Predicate
from lakeindex.storage import StoreOptions, current_options, open_storage
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY

BATCH_ROWS: Final = 65_536
_OLD_TIME_DIGITS: Final = 14


@dataclass
class Tally:
    """What was read of one file, or of several."""

    files_opened: int = 0
    files_read: int = 0
    row_groups: int = 0
    row_groups_read: int = 0
    rows_read: int = 0
    rows: int = 0

    def add(self, other: Tally) -> None:
        """Count what another one counted."""
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(frozen=True)
class ReadSpec:
    """How the files of a scan are read; a task can carry it.

    Attributes:
        uri: the table.
        schema: columns to return.
        inner: columns to read: those, and what conditions need.
        predicate: the condition; None: all rows.
        keys: record keys, distinct, ascending, where the index has narrowed them; else None.
        later: rows must be of one of these writes; None: of any.
        config: options.
    """

    uri: str
    schema: pa.Schema
    inner: pa.Schema
    predicate: Predicate | None
    keys: pa.Array | None
    later: LaterWrites | None
    config: WriteConfig


@dataclass(frozen=True)
class FileReader:
    """The chosen rows of one file.

    Attributes:
        spec: how it is read.
        storage: the table's folder.
        file: the file.
        rows: the keys to look for, by their numbers; None: its rows are compared with the condition only.
        tally: what was read so far.
    """

    spec: ReadSpec
    storage: Storage = field(repr=False)
    file: BaseFile
    rows: RowNumbers | None
    tally: Tally = field(default_factory=Tally)

    def table(self, *, use_threads: bool) -> pa.Table:
        """All chosen rows at once; arguments and errors as of :meth:`tables`."""
        spec = self.spec
        if self.rows is not None or spec.predicate is not None or spec.later is not None:
            return pa.concat_tables([spec.schema.empty_table(), *self.tables(use_threads=use_threads)])
        source, groups, names = self._opened()
        with self._blamed():  # in a third of the time of batches, most of which is fresh memory
            rows = read_groups(source, groups, names, use_threads=use_threads)
        self.tally.row_groups_read += len(groups)
        self.tally.rows += rows.num_rows
        return self._chosen(align(rows, self.file, spec.inner))

    def tables(self, *, use_threads: bool = True) -> Iterator[pa.Table]:
        """Rows with the plan's columns; tables without rows are left out.

        Args:
            use_threads: decode columns at the same time.

        Raises:
            TableCorruptError: the file is missing or cannot be read.
        """
        found = self._all(use_threads=use_threads) if self.rows is None else self._of_keys(self.rows)
        for rows in found:
            chosen = self._chosen(rows)
            if chosen.num_rows:
                self.tally.rows += chosen.num_rows
                yield chosen

    def count(self) -> int:
        """How many rows are chosen; the footer tells, if all are."""
        if self.spec.predicate is None and self.spec.later is None:
            self.tally.files_opened += 1
            return int(read_parquet_footer(self.storage, self.file).metadata.num_rows)
        return sum(table.num_rows for table in self.tables())

    def _chosen(self, rows: pa.Table) -> pa.Table:
        spec = self.spec
        self.tally.rows_read += rows.num_rows
        if spec.later is not None:
            rows = _newer(rows, spec.later)
        if spec.predicate is not None:
            rows = spec.predicate.filter(rows)
        return rows.select(spec.schema.names)

    def _of_keys(self, rows: RowNumbers) -> Iterator[pa.Table]:
        spec = self.spec
        keys = spec.keys if spec.keys is not None else pa.array([], pa.string())
        task = GetTask(spec.uri, keys, (FileAsk(self.file, rows),), spec.inner, spec.config)
        got = get_from_file(task, self.storage, self.file, rows)
        self.tally.add(
            Tally(got.counts.files_opened, got.counts.files_read, got.counts.row_groups, got.counts.row_groups_searched)
        )
        yield got.rows

    def _all(self, *, use_threads: bool) -> Iterator[pa.Table]:
        source, groups, names = self._opened()
        for group in groups:
            self.tally.row_groups_read += 1
            with self._blamed():
                for batch in read_group_batches(source, group, names, BATCH_ROWS, use_threads=use_threads):
                    yield align(pa.Table.from_batches([batch]), self.file, self.spec.inner)

    def _opened(self) -> tuple[pq.ParquetFile, list[int], list[str]]:
        """The file, its row groups that can hold a chosen row, and the columns to read."""
        metadata = read_parquet_footer(self.storage, self.file).metadata
        self.tally.files_opened += 1
        self.tally.row_groups += metadata.num_row_groups
        with self._blamed():
            file = StorageFile(self.storage, self.file.path, self.file.size_bytes)
            source = open_pages(file, metadata=metadata, pre_buffer=True)
        groups = self._groups(source)
        self.tally.files_read += bool(groups)
        stored = set(source.schema_arrow.names)
        return source, groups, [name for name in self.spec.inner.names if name in stored] or [RECORD_KEY]

    def _groups(self, source: pq.ParquetFile) -> list[int]:
        """Row groups that can hold a chosen row, by their statistics."""
        metadata = source.metadata
        filled = [group for group in range(metadata.num_row_groups) if metadata.row_group(group).num_rows]
        predicate = self.spec.predicate
        if predicate is None:
            return filled
        statistics = FooterStatistics(source, predicate)
        return [group for group in filled if predicate.may_match(statistics.of(group))]

    @contextmanager
    def _blamed(self) -> Iterator[None]:
        """What goes wrong is this file's."""
        try:
            yield
        except LakeIndexError:
            raise
        except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
            raise damaged(self.file, str(error)) from error


def readers(plan: ScanPlan) -> list[FileReader]:
    """One reader for each file of a plan."""
    rows = plan.left.rows
    return [
        FileReader(spec_of(plan), plan.table.storage, file, None if rows is None else rows[number])
        for number, file in enumerate(plan.left.files)
    ]


def spec_of(plan: ScanPlan) -> ReadSpec:
    """How the files of a plan are read."""
    past, keys = plan.source.past, plan.keys if plan.left.rows is not None else None
    later = None if past.since is None else past.later
    return ReadSpec(plan.table.uri, plan.schema, plan.inner, plan.predicate, keys, later, plan.config)


@dataclass(frozen=True)
class PieceReader:
    """Reads the files of a plan by their numbers, in another process.

    Attributes:
        spec: how they are read.
        files: the files, with the keys to look for.
        options: of the stores; they are shown nowhere.
    """

    spec: ReadSpec
    files: tuple[tuple[BaseFile, RowNumbers | None], ...]
    options: StoreOptions

    def __call__(self, number: int) -> Iterator[pa.RecordBatch]:
        """The rows of one file."""
        file, rows = self.files[number]
        for table in FileReader(self.spec, open_storage(self.spec.uri, self.options), file, rows).tables():
            yield from table.to_batches()


def piece_reader(plan: ScanPlan) -> PieceReader:
    """A reader of a plan's files that a task can carry."""
    left = plan.left
    rows = left.rows if left.rows is not None else [None] * len(left.files)
    return PieceReader(spec_of(plan), tuple(zip(left.files, rows, strict=True)), current_options())


def _newer(rows: pa.Table, later: LaterWrites) -> pa.Table:
    """Those of some rows, with their ``_hoodie_commit_time``, that one of these writes has written."""
    times = rows.column(COMMIT_TIME)
    old = pc.equal(pc.binary_length(times), _OLD_TIME_DIGITS)
    comparable = pc.if_else(old, pc.binary_join_element_wise(times, "999", ""), times)
    chosen = pc.greater(comparable, later.point)
    for is_after in (True, False):
        odd = [time for time, after in later.known.items() if after is is_after]
        if odd:
            chosen = pc.if_else(pc.is_in(times, pa.array(odd, pa.string())), is_after, chosen)
    return rows.filter(chosen)
