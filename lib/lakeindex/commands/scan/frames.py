"""A planned scan as a frame of Polars or a relation of DuckDB. Both come back to the same snapshot, however often."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from lakeindex.commands.scan.dataset import dataset_of, reads_alike
from lakeindex.commands.scan.plan import ScanPlan
from lakeindex.commands.scan.scan import pinned_batches
from lakeindex.errors import UsageError
from lakeindex.time_spent import loading

if TYPE_CHECKING:
    import duckdb
    import polars as pl


@dataclass(frozen=True)
class PinnedRows:
    """The rows of a plan for whoever speaks Arrow's stream protocol; read anew each time."""

    plan: ScanPlan

    def reader(self) -> pa.RecordBatchReader:
        """The rows, streamed."""
        return pa.RecordBatchReader.from_batches(self.plan.schema, pinned_batches(self.plan))

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
        for batch in pinned_batches(plan):
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
    is_plain = plan.predicate is None and plan.source.past.since is None
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
