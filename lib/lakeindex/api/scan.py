"""A lazy scan of a table, and the forms that its rows come in. Heavy libraries load when they are needed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from lakeindex.api.own_stores import in_its_stores
from lakeindex.errors import UsageError, doors, our_words
from lakeindex.frozen import ComparedInPart
from lakeindex.storage.options import NO_OPTIONS, StoreOptions, using
from lakeindex.storage.paths import absolute

if TYPE_CHECKING:
    import duckdb
    import polars as pl
    import pyarrow as pa
    import pyarrow.dataset as ds
    from pyspark.sql import DataFrame, SparkSession

    from lakeindex.operations.rows.request import ScanReport, ScanRequest
    from lakeindex.operations.rows.scan import Scanner
    from lakeindex.tasks.runner import Runner


@doors
class Scan(ComparedInPart):
    """Rows of a table, of which nothing is read yet. Made by :meth:`LakeTable.scan`.

    Each method reads one snapshot of the table, the newest when it is called, or that of ``as_of``. What is lazy itself
    (a LazyFrame, a relation, a dataset, a Spark DataFrame) stays at the snapshot of the call. A scan can also be given
    to whatever takes Arrow streams: ``pyarrow.table(scan)``, ``polars.DataFrame(scan)``.

    Attributes:
        uri: the table.
        request: what is read of it.
        storage_options: of the table's handle.
    """

    aside: ClassVar = frozenset({"_runner"})
    uri: str
    request: ScanRequest
    storage_options: Mapping[str, str] = NO_OPTIONS
    _runner: Runner | None = None

    @in_its_stores
    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table.

        Raises:
            UsageError: a column or condition that is not valid, no such partition, or a time that the history does not
                reach.
            TableError: no table, or one that is not read; a damaged file, by name.
            WriteConflictError: other writers took away what was read, again and again.
        """
        return self._scanner().rows()

    @in_its_stores
    def to_batches(self) -> pa.RecordBatchReader:
        """The rows in record batches of at most 65,536, read while they are asked for; never more than the columns of
        one row group are held.

        Raises:
            UsageError, TableError: as :meth:`to_arrow`, at once.
            WriteConflictError: while reading: other writers took away files after rows were given out. Before that the
                scan begins anew by itself.
        """
        import pyarrow as pa

        schema, batches = self._scanner().stream()
        options = StoreOptions.of(self.storage_options)
        return pa.RecordBatchReader.from_batches(schema, within(batches, options))

    @in_its_stores
    def head(self, rows: int = 10) -> pa.Table:
        """The first rows that are found, at most so many; no more is read than it takes to find them.

        Which come first is not said: files are read in the order of the plan.

        Raises:
            UsageError: a number below 0; else as :meth:`to_arrow`.
        """
        import pyarrow as pa

        if rows < 0:
            raise UsageError(f"rows cannot be {rows}", culprit="rows", hint="give 0 or more")
        reader, found, left = self.to_batches(), [], rows
        while left > 0 and (batch := next(reader, None)) is not None:
            found.append(batch.slice(0, left))
            left -= found[-1].num_rows
        return pa.Table.from_batches(found, reader.schema)

    @in_its_stores
    def to_pandas(self, /, **how: Any) -> Any:
        """The rows as a pandas frame.

        Args:
            **how: arguments of ``pyarrow.Table.to_pandas``.

        Raises:
            UsageError: pandas is not installed.
        """
        from lakeindex.operations.rows.engines import pandas_frame

        return pandas_frame(self._scanner().rows, how)

    @in_its_stores
    def to_polars(self) -> pl.LazyFrame:
        """The rows as a Polars LazyFrame: files are read in batches when it is collected.

        Raises:
            UsageError: Polars is not installed.
        """
        from lakeindex.operations.rows.engines import polars_frame

        return polars_frame(self._scanner().plan())

    @in_its_stores
    def to_duckdb(self, connection: duckdb.DuckDBPyConnection | None = None) -> duckdb.DuckDBPyRelation:
        """The rows as a DuckDB relation. Without ``where`` and ``since`` DuckDB pushes its own conditions and columns
        down into the files.

        Args:
            connection: the relation's; DuckDB's default one if not given.

        Raises:
            UsageError: DuckDB is not installed.
        """
        from lakeindex.operations.rows.engines import duckdb_relation

        return duckdb_relation(self._scanner().plan(), connection)

    @in_its_stores
    def to_dataset(self) -> ds.Dataset:
        """The live files as a pyarrow dataset, for engines that read datasets; the condition is its filter, whose
        columns it has, too.

        Raises:
            UsageError: a file of before a schema change stores a column in a type that Arrow converts in another way
                than Hudi, or ``since`` is asked for.
        """
        from lakeindex.operations.rows.engines import dataset_of

        return dataset_of(self._scanner().plan())

    @in_its_stores
    def to_spark(self, session: SparkSession) -> DataFrame:
        """The rows as a Spark DataFrame; each file is read by one task on the executors.

        Args:
            session: a live session, whose executors have lakeindex.
        """
        from lakeindex.runners.spark import frame_of_pieces

        plan = self._scanner().plan()
        return frame_of_pieces(session, len(plan.left.files), plan.piece_reader(), plan.schema)

    @in_its_stores
    def count(self) -> int:
        """How many rows there are; without a condition the footers tell."""
        return self._scanner().count()

    @in_its_stores
    def explain(self, *, analyze: bool = False) -> ScanReport:
        """How many files the scan opens, and how many it leaves out by partition, statistics and key.

        Args:
            analyze: read the rows, too, and report what that took.
        """
        return self._scanner().explain(analyze=analyze)

    def _repr_html_(self) -> str:
        from lakeindex.operations.look.table_card import show_first_rows
        from lakeindex.showing.notebook import html_of

        return html_of(show_first_rows, self.head)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        with our_words():
            return self.to_batches().__arrow_c_stream__(requested_schema)

    def _scanner(self) -> Scanner:
        from lakeindex.operations.rows.scan import Scanner
        from lakeindex.tasks.local_runner import LocalRunner

        return Scanner(absolute(self.uri), self.request, self._runner or LocalRunner(0))


def within(batches: Iterator[pa.RecordBatch], options: StoreOptions) -> Iterator[pa.RecordBatch]:
    """Each batch is read with the handle's options, and nothing of them stays between two."""
    while True:
        with using(options), our_words():
            batch = next(batches, None)
        if batch is None:
            return
        yield batch
