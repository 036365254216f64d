"""What a catalog should say of a table: its columns, formats and properties, and its partitions.

Formats, parameters and the names of both are those of Hudi's own sync.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa

from lakeindex.catalogs.catalog import (
    INPUT_FORMAT,
    LAST_COMPLETION,
    LAST_SYNCED,
    PROVIDER,
    SYNCED,
    CatalogColumn,
    CatalogPartition,
    CatalogTable,
)
from lakeindex.catalogs.column_types import hive_type, spark_schema
from lakeindex.errors import OptionError, TableUnsupportedError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.instants import RESTORE, comparable
from lakeindex.format.partitions import unescape_partition_value
from lakeindex.frozen import Frozen
from lakeindex.options.sync_options import CatalogKind, PartitionExtractor, SyncOptions
from lakeindex.storage import in_parallel
from lakeindex.storage.paths import hadoop_location, with_one_scheme
from lakeindex.table.handle import Table
from lakeindex.table.table_columns import table_schema
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.types.avro_schema import META_COLUMNS

OUTPUT_FORMAT: Final = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"
SERDE: Final = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"

_PART_LENGTH: Final = 4000
"""Longest value of a table parameter: Spark's schema is divided into parts of it."""
_LISTING: Final = "hudi.metadata-listing-enabled"
_LEVELS: Final = {PartitionExtractor.DAY: 3, PartitionExtractor.HOUR: 4}
_DEFAULT_DATABASE: Final = "default"


class Synced(Frozen):
    """How far a catalog knows a table.

    Attributes:
        instant: the newest commit that it knows by our own sync; if there was none, by Hudi's.
        pending: writes that were in flight then and may have completed since; None: it was not us who synced.
    """

    instant: str
    pending: frozenset[str] | None = None

    @classmethod
    def of(cls, parameters: Mapping[str, str]) -> Synced | None:
        """What the parameters of a table in a catalog say; None: nothing, so that all is to be compared."""
        ours, *pending = parameters.get(SYNCED, "").split() or [""]
        if ours:
            return cls(ours, frozenset(pending))
        hudis = parameters.get(LAST_SYNCED)
        return cls(hudis) if hudis else None


class Truth(Frozen):
    """A table at one moment, as a catalog should have it.

    Attributes:
        wanted: its entry, without what changes with every commit.
        decode: undo the escapes of partition values.
    """

    table: Table
    snapshot: Snapshot
    wanted: CatalogTable
    extractor: PartitionExtractor
    decode: bool

    @property
    def timeline(self) -> Timeline:
        return self.snapshot.timeline

    @property
    def instant(self) -> str | None:
        return self.timeline.last_completed_write_time

    @property
    def floor(self) -> str | None:
        """No write that this moment does not know has an earlier time."""
        times = [*self.timeline.pending_times, *((self.instant,) if self.instant else ())]
        return min(times, key=comparable, default=None)

    def marks(self) -> dict[str, str]:
        """Parameters that say how far the catalog knows the table."""
        if self.instant is None:
            return {}
        pending = sorted(one.time for one in self.timeline.pending_writes)
        completed = [one.completion_time for one in self.timeline.completed_writes if one.completion_time]
        last = {LAST_COMPLETION: max(completed)} if completed else {}
        return {LAST_SYNCED: self.instant, SYNCED: " ".join((self.instant, *pending)), **last}

    def changed_since(self, synced: Synced | None, floors: Iterable[str]) -> frozenset[str] | None:
        """Paths of partitions that commits touched which the catalog may not know.

        Args:
            floors: instants from which on other syncs may have changed what they should not.

        Returns:
            None if that cannot be told, as commits were archived or taken back since: compare all.
        """
        if synced is None or synced.instant not in self.timeline.completed_write_times:
            return None
        wanted = set(synced.pending or ())
        bounds = [comparable(one) for one in floors]
        after = comparable(synced.instant) if synced.pending is not None else ""

        def may_be_new(time: str) -> bool:
            return comparable(time) > after or time in wanted or any(comparable(time) >= at for at in bounds)

        if any(map(may_be_new, self.timeline.undone.instants)):  # a sync that did not end may have told of them
            return None
        if any(one.action == RESTORE and may_be_new(one.time) for one in self.timeline.completed):
            return None  # it goes by completion: it may have taken a write away that had begun before the one known
        since = [one for one in self.timeline.completed_writes if may_be_new(one.time)]
        read = in_parallel(self.table.uri, lambda one: self.timeline.commit_metadata(self.table.storage, one), since)
        return frozenset(path for said in read for path in (*said.write_stats, *said.replaced_file_ids))

    def all_paths(self) -> list[str]:
        """Paths of all partitions with a live file."""
        paths = self.snapshot.partitions()
        return [path for path in paths if self.snapshot.base_files(path)]

    def paths_alive(self, paths: Iterable[str]) -> list[str]:
        """Those of some partitions that have a live file."""
        looked_at = sorted(set(paths))
        self.snapshot.preload(looked_at)
        return [path for path in looked_at if self.snapshot.base_files(path)]

    def partition(self, path: str) -> CatalogPartition:
        """A partition as the catalog should have it. Raises: OptionError: its path does not fit the columns."""
        columns = self.wanted.partition_columns
        properties = self.table.properties
        names = None if properties.hive_style else [{one.name} for one in columns]
        if names is not None and len(names) == len(properties.partition_fields):
            names = [one | {field.lower()} for one, field in zip(names, properties.partition_fields, strict=True)]
        values = _values(path, self.extractor, names)
        if self.decode:
            values = [unescape_partition_value(one) for one in values]
        if len(values) != len(columns):
            raise OptionError(
                f"partition {path!r} of table {self.table.name} has {len(values)} values by "
                f"{self.extractor}, for {len(columns)} columns: {', '.join(one.name for one in columns)}",
                culprit=path,
                hint="give hoodie.datasource.hive_sync.partition_fields and partition_extractor_class that fit",
            )
        return CatalogPartition(tuple(values), f"{self.wanted.location}/{path}")


def name_of(table: Table, options: SyncOptions) -> tuple[str, str]:
    """Names of database and table in a catalog."""
    database = options.database or table.properties.database or _DEFAULT_DATABASE
    return database.lower(), (options.table or table.name).lower()


def look(table: Table, options: SyncOptions, kind: CatalogKind) -> Truth:
    """The table as it is now.

    Args:
        kind: of the catalog.

    Raises:
        TableUnsupportedError: it has no columns yet, or some that a catalog has no type for.
    """
    snapshot = table.snapshot()
    schema = table_schema(table, snapshot)
    database, name = name_of(table, options)
    comments = _comments(table, snapshot.timeline) if options.comments else {}
    location = hadoop_location(table.uri)
    location = with_one_scheme(location) if kind is CatalogKind.GLUE else location
    listing = {_LISTING: str(options.metadata_listing).upper()} if kind is CatalogKind.GLUE else {}
    fields = [] if options.omit_meta else [pa.field(name, pa.string()) for name in META_COLUMNS]
    fields += list(schema)
    partition_fields = _partition_fields(table, options)
    by_name = {one.name.lower(): one for one in fields}
    _check_names(table, fields)
    last = [by_name.get(name.lower(), pa.field(name, pa.string(), nullable=False)) for name in partition_fields]
    keys = {one.name.lower() for one in last}
    first = [one for one in fields if one.name.lower() not in keys]

    def column(field: pa.Field) -> CatalogColumn:
        kind = hive_type(field.type, timestamps=options.timestamps)
        return CatalogColumn(field.name.lower(), kind, comments.get(field.name))

    wanted = CatalogTable(
        database=database,
        name=name,
        location=location,
        columns=tuple(map(column, first)),
        partition_columns=tuple(map(column, last)),
        parameters={
            **dict(options.properties),
            **listing,
            "EXTERNAL": "TRUE",
            **_spark_parameters([*first, *last], len(last)),
        },
        input_format=INPUT_FORMAT,
        output_format=OUTPUT_FORMAT,
        serde=SERDE,
        serde_parameters={
            "serialization.format": "1",
            "path": location,
            "hoodie.query.as.ro.table": "false",
        },
    )
    decode = table.properties.url_encode if options.decode is None else options.decode
    return Truth(table, snapshot, wanted, options.extractor or _extractor(table, len(last)), decode)


def _check_names(table: Table, fields: list[pa.Field]) -> None:
    seen: dict[str, str] = {}
    for one in fields:
        other = seen.setdefault(one.name.lower(), one.name)
        if other != one.name:
            raise TableUnsupportedError(
                f"table {table.name} has columns {other!r} and {one.name!r}: a catalog knows no upper and lower case",
                culprit=one.name,
                hint="write it into a table with other names",
            )


def _partition_fields(table: Table, options: SyncOptions) -> tuple[str, ...]:
    if options.partition_fields is not None:
        return options.partition_fields
    return table.properties.partition_fields if table.properties.is_partitioned else ()


def _extractor(table: Table, fields: int) -> PartitionExtractor:
    """Hudi's choice where none is given."""
    if fields == 0:
        return PartitionExtractor.NONE
    if fields > 1:
        return PartitionExtractor.MULTI
    return PartitionExtractor.HIVE_STYLE if table.properties.hive_style else PartitionExtractor.SINGLE


def _values(path: str, extractor: PartitionExtractor, names: Sequence[Collection[str]] | None) -> list[str]:
    """The values of a partition's path, as Hudi's class of this name reads them.

    Args:
        names: what may stand before a ``=`` of each level without being part of the value; None: anything.
    """
    levels = path.split("/")
    if extractor is PartitionExtractor.NONE:
        return []
    if extractor is PartitionExtractor.SINGLE:
        return [path.replace("/", "-")]
    if extractor is PartitionExtractor.HIVE_STYLE:
        return [path.partition("=")[2]] if "=" in path else []
    split = [level.partition("=") for level in levels]
    if extractor is PartitionExtractor.MULTI and names is not None and len(names) == len(levels):
        return [
            value if sign and name.lower() in known else level
            for level, (name, sign, value), known in zip(levels, split, names, strict=True)
        ]
    values = [value if sign else name for name, sign, value in split]
    if extractor is PartitionExtractor.MULTI:
        return values
    if len(levels) != _LEVELS[extractor] or not all(re.fullmatch(r"[0-9]+", one) for one in values):
        return []
    year, *rest = map(int, values)
    return ["-".join((f"{year:04}", *(f"{one:02}" for one in rest)))]


def _spark_parameters(fields: list[pa.Field], partition_columns: int) -> dict[str, str]:
    text = spark_schema(fields)
    parts = [text[at : at + _PART_LENGTH] for at in range(0, len(text), _PART_LENGTH)]
    found = {PROVIDER: "hudi", "spark.sql.sources.schema.numParts": str(len(parts))}
    found |= {f"spark.sql.sources.schema.part.{at}": part for at, part in enumerate(parts)}
    if partition_columns:
        names = [one.name for one in fields[-partition_columns:]]
        found["spark.sql.sources.schema.numPartCols"] = str(len(names))
        found |= {f"spark.sql.sources.schema.partCol.{at}": name for at, name in enumerate(names)}
    return found


def _comments(table: Table, timeline: Timeline) -> dict[str, str]:
    text = timeline.schema_text(table.storage) or table.properties.create_schema
    fields: list[dict[str, Any]] = json.loads(text).get("fields", []) if text else []
    return {one["name"]: str(one["doc"]) for one in fields if one.get("doc")}
