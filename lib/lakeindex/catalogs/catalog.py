"""The port of a catalog: the calls that a sync needs, and the tables and partitions that they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar, Final, Protocol, TypeVar

from lakeindex.frozen import ComparedInPart, Frozen
from lakeindex.options.sync_options import CatalogKind

_T = TypeVar("_T")

LAST_SYNCED: Final = "last_commit_time_sync"
"""Table parameter, of Hudi, too: the newest commit that the catalog knows."""
LAST_COMPLETION: Final = "last_commit_completion_time_sync"
"""Table parameter, of Hudi, too: when that commit was completed."""
SYNCED: Final = "lakeindex.synced"
"""Table parameter of ours: the commit that was synced last, and the writes that were in flight then."""
PROVIDER: Final = "spark.sql.sources.provider"
INPUT_FORMAT: Final = "org.apache.hudi.hadoop.HoodieParquetInputFormat"


class CatalogColumn(Frozen):
    """A column as a catalog has it.

    Attributes:
        kind: type in Hive's words, such as ``struct<a:int>``.
        comment: None: the catalog may say what it likes.
    """

    name: str
    kind: str
    comment: str | None = None


class CatalogPartition(ComparedInPart):
    """A partition as a catalog has it.

    Attributes:
        values: one for each partition column.
        location: its folder, a path or URL.
        columns: its own, which readers go by; None: not asked for, or those that the table has.
    """

    aside: ClassVar = frozenset({"columns"})
    values: tuple[str, ...]
    location: str
    columns: tuple[CatalogColumn, ...] | None = None


class CatalogTable(ComparedInPart):
    """A table as a catalog has it, or should have it.

    Attributes:
        location: the table's folder, a path or URL.
        columns: without those of the partition.
        parameters: properties of the table.
        serde: class that reads and writes rows.
        version: changes with every change of the entry; None where a catalog has none.
        native: what the catalog itself said, with all that is not here; None of a wanted table.
    """

    aside: ClassVar = frozenset({"native"})
    database: str
    name: str
    location: str
    columns: tuple[CatalogColumn, ...]
    partition_columns: tuple[CatalogColumn, ...]
    parameters: Mapping[str, str]
    input_format: str
    output_format: str
    serde: str
    serde_parameters: Mapping[str, str]
    table_type: str = "EXTERNAL_TABLE"
    version: str | None = None
    native: Any = None

    @property
    def full_name(self) -> str:
        return f"{self.database}.{self.name}"


def is_of_hudi(table: CatalogTable) -> bool:
    """Whether an entry is one of a Hudi table."""
    return table.parameters.get(PROVIDER, "").lower() == "hudi" or table.input_format == INPUT_FORMAT


def batches(items: Sequence[_T], size: int) -> Iterator[list[_T]]:
    """What one call after the other takes."""
    yield from (list(items[at : at + size]) for at in range(0, len(items), size))


class Catalog(Protocol):
    """A catalog. Errors of every call: AccessDeniedError names the permission; CatalogError: anything else.

    Attributes:
        batch: partitions that one call changes.
        page: partitions that one call reads.
        requests: calls so far.
    """

    kind: CatalogKind
    batch: int
    page: int
    requests: int

    def close(self) -> None:
        """End the connection, if there is one."""

    def table(self, database: str, name: str) -> CatalogTable | None:
        """A table, or None: there is none, or no such database."""

    def lineage_name(self, held: CatalogTable) -> tuple[str, str]:
        """Namespace and name of a table by OpenLineage's naming specification."""

    def tables(self, database: str) -> Iterator[CatalogTable]:
        """Every table of a database. Raises: TableNotFoundError: no such database."""

    def create_database(self, database: str) -> None:
        """Make a database, if it is not there."""

    def create_table(self, table: CatalogTable) -> None:
        """Make a table. Raises: TableNotFoundError: no such database; CatalogChangedError: it is there."""

    def alter_table(self, held: CatalogTable, wanted: CatalogTable, *, cascade: bool) -> None:
        """Put a table in the place of the one that was read.

        Args:
            cascade: let the partitions have its columns, too.

        Raises:
            CatalogChangedError: it is another one by now, where the catalog can tell.
        """

    def partitions(self, held: CatalogTable, *, columns: bool = False) -> Iterator[CatalogPartition]:
        """All partitions, page by page; with columns, if they are asked for or cost nothing."""

    def partitions_of(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> Iterator[CatalogPartition]:
        """Those of these values that there are."""

    def add_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Add one batch; those that are there stay as they are."""

    def move_partitions(self, held: CatalogTable, partitions: Sequence[CatalogPartition]) -> None:
        """Give one batch of partitions their locations, and the columns and formats of the table."""

    def drop_partitions(self, held: CatalogTable, values: Sequence[tuple[str, ...]]) -> None:
        """Take one batch out of the catalog, not their files; those that are not there are passed over."""
