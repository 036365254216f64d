"""A planned scan for an engine: a pyarrow dataset, a frame of Polars or pandas, a relation of DuckDB.

All that is lazy comes back to the same snapshot, however often.

In a dataset, of the live base files only, Arrow reads the files by itself, and would convert a narrower column in its
own way: a float of an old file that is a double now, for example. Such a file is refused by name. What it lacks is
null, as everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.dataset as ds

from lakeindex.errors import UsageError
from lakeindex.files.footers import read_parquet_footer
from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile
from lakeindex.operations.consistent_read import streamed
from lakeindex.operations.rows.aligned_rows import damaged
from lakeindex.operations.rows.plan import ScanPlan
from lakeindex.operations.rows.scan import batches_of
from lakeindex.storage import in_parallel
from lakeindex.storage.arrow_files import file_system, reader_of
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    import duckdb
    import polars as pl

_FILES_AT_ONCE: Final = 8
_AS_IT_IS: Final = "use to_batches(), to_arrow(), to_polars() or to_duckdb() with where: they convert as Hudi does"


class LiveFiles(ds.FileSystemDataset):
    """A dataset whose files are read by Python.

    Engines that read datasets (DuckDB) ask for a scanner's reader, and get the one that cannot wait for itself.
    """

    def scanner(self, *arguments: Any, **how: Any) -> _Scanner:
        """As of a dataset; what it returns has all that a scanner has."""
        return _Scanner(super().scanner(*arguments, **how))


class _Scanner:
    """A scanner, but for its reader."""

    def __init__(self, scanner: ds.Scanner) -> None:
        self._scanner = scanner

    def __getattr__(self, name: str) -> Any:
        return getattr(self._scanner, name)

    def to_reader(self) -> pa.RecordBatchReader:
        """The batches, read while they are asked for."""
        return reader_of(self._scanner)


def dataset_of(plan: ScanPlan) -> ds.Dataset:
    """A dataset of the plan's files with its columns; the condition is a filter of it.

    Raises:
        UsageError: a file stores a column in a type that Arrow converts in another way; or ``since`` is asked for,
            which is no filter of Arrow.
        TableCorruptError: a file is missing, or its footer cannot be read.
    """
    if plan.past.since is not None:
        raise UsageError("a dataset cannot be asked for rows since an instant", culprit="since", hint=_AS_IT_IS)
    in_parallel(plan.table.uri, lambda file: _check(plan, file), plan.left.files, _FILES_AT_ONCE)
    layout = ds.ParquetFileFormat(
        default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True, page_checksum_verification=True)
    )
    files = file_system(plan.table.storage)
    fragments = [layout.make_fragment(file.path, files) for file in plan.left.files]
    found = LiveFiles(fragments, plan.inner, layout, files)
    return found if plan.predicate is None else found.filter(plan.predicate.expression)


def reads_alike(plan: ScanPlan) -> bool:
    """Whether Arrow reads the plan's files as they are read here."""
    try:
        in_parallel(plan.table.uri, lambda file: _check(plan, file), plan.left.files, _FILES_AT_ONCE)
    except UsageError:
        return False
    return True


def _check(plan: ScanPlan, file: BaseFile) -> None:
    stored = read_parquet_footer(plan.table.storage, file).arrow_schema
    for field in plan.inner:
        place = -1 if stored is None else stored.get_field_index(field.name)
        if stored is None or place < 0:
            if not field.nullable:
                raise damaged(file, f"it lacks column {field.name!r}, which must not be null")
            continue
        kind = stored.field(place).type
        if not _is_exact(kind, field.type):
            raise UsageError(
                f"base file {file.path} stores column {field.name!r} as {kind}, and the table has {field.type}",
                culprit=file.path,
                hint=_AS_IT_IS,
            )


def _is_exact(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether Arrow's conversion of a type is Hudi's."""
    if stored == wanted:
        return True
    return pa.types.is_int32(stored) and pa.types.is_int64(wanted)


class PinnedRows(Frozen):
    """The rows of a plan for whoever speaks Arrow's stream protocol; read anew each time."""

    plan: ScanPlan

    def reader(self) -> pa.RecordBatchReader:
        """The rows, streamed."""
        return pa.RecordBatchReader.from_batches(self.plan.schema, streamed(self.plan, batches_of))

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self.reader().__arrow_c_stream__(requested_schema)


def polars_frame(plan: ScanPlan) -> pl.LazyFrame:
    """A lazy frame; columns and conditions of its query are applied while batches are read.

    Raises:
        UsageError: Polars is not installed.
    """
    try:
        with loading():
            import polars as pl
            from polars.io.plugins import register_io_source
    except ModuleNotFoundError:
        raise _not_installed("polars") from None
    empty = pl.from_arrow(plan.schema.empty_table())

    def read(
        with_columns: list[str] | None, predicate: pl.Expr | None, n_rows: int | None, _batch_size: int | None
    ) -> Iterator[pl.DataFrame]:
        left = n_rows
        for batch in streamed(plan, batches_of):
            if left is not None and left <= 0:
                return
            frame = pl.from_arrow(pa.Table.from_batches([batch]))
            assert isinstance(frame, pl.DataFrame)
            chosen = frame if left is None else frame.head(left)
            left = None if left is None else left - chosen.height
            chosen = chosen if predicate is None else chosen.filter(predicate)
            yield chosen if with_columns is None else chosen.select(with_columns)

    assert isinstance(empty, pl.DataFrame)
    return register_io_source(read, schema=empty.schema)


def duckdb_relation(plan: ScanPlan, connection: duckdb.DuckDBPyConnection | None) -> duckdb.DuckDBPyRelation:
    """A relation. Without a condition DuckDB reads the files through Arrow, and pushes its own conditions down.

    Args:
        connection: the relation's; DuckDB's default one if not given.

    Raises:
        UsageError: DuckDB is not installed.
    """
    try:
        with loading():
            import duckdb
    except ModuleNotFoundError:
        raise _not_installed("duckdb") from None
    own = duckdb.default_connection() if connection is None else connection
    is_plain = plan.predicate is None and plan.past.since is None
    source: Any = dataset_of(plan) if is_plain and reads_alike(plan) else PinnedRows(plan)
    return own.from_arrow(source).select(*(duckdb.ColumnExpression(name) for name in plan.schema.names))


def pandas_frame(rows: Callable[[], pa.Table], how: Mapping[str, Any]) -> Any:
    """Rows as a pandas frame; they are read when it is known that there is pandas.

    Raises:
        UsageError: pandas is not installed.
    """
    try:
        with loading():
            import_module("pandas")
    except ImportError:
        raise _not_installed("pandas") from None
    return rows().to_pandas(**how)


def _not_installed(name: str) -> UsageError:
    return UsageError(f"{name} is not installed", culprit=name, hint=f"pip install {name}")
