"""Which metadata tables are kept up, and which are refused."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from lakeindex.errors import MetadataTableError
from lakeindex.metadata.metadata_table import GROUP_PREFIXES, MetadataTable
from lakeindex.options.types import MetadataTablePolicy
from lakeindex.storage.port import Storage
from lakeindex.table import property_keys as keys
from lakeindex.table.properties import TableProperties

_PARTITIONS: Final = keys.METADATA_PARTITIONS[0]
_MEANINGS: Final[dict[str, str]] = {
    "files": "file listing",
    "column_stats": "data skipping by column statistics",
    "partition_stats": "partition pruning by statistics",
    "bloom_filters": "bloom filters in the metadata table",
    "record_index": "the record index",
}


def check_kept(properties: TableProperties, policy: MetadataTablePolicy) -> None:
    """Refuse a table whose metadata table is not kept up.

    Raises:
        MetadataTableError: naming its partitions.
    """
    partitions = properties.metadata_partitions
    unknown = tuple(name for name in partitions if name not in GROUP_PREFIXES)
    if properties.metadata_partitions_inflight:
        named = described(properties.metadata_partitions_inflight)
        raise MetadataTableError(
            f"table {properties.name} has a metadata table of which another writer is building {named}",
            culprit=keys.METADATA_PARTITIONS_INFLIGHT[0],
            hint="let it finish, or take it away with `lakeindex metadata drop`",
        )
    if partitions and policy is MetadataTablePolicy.REFUSE:
        raise MetadataTableError(
            f"table {properties.name} has a metadata table ({described(partitions)}), "
            "and lakeindex.metadata.table=refuse",
            culprit=_PARTITIONS,
            hint="with lakeindex.metadata.table=keep it is kept up; `lakeindex metadata drop` takes it away",
        )
    if unknown:
        named = " ".join(f"--partition {name}" for name in unknown)
        raise MetadataTableError(
            f"table {properties.name} has a metadata table, parts of which our commits would leave stale: "
            f"{described(unknown)}",
            culprit=_PARTITIONS,
            hint=f"`lakeindex metadata drop TABLE {named}` takes them away (readers then do without; a Hudi writer "
            "whose options ask for them builds them anew), or write to the table with Hudi",
        )


def described(partitions: Collection[str]) -> str:
    """Partitions of a metadata table, and what readers use them for."""
    return ", ".join(f"{name} ({_MEANINGS.get(name, 'an index')})" for name in partitions)


def metadata_table_of(storage: Storage, properties: TableProperties) -> MetadataTable | None:
    """The metadata table that readers of a table use; None if they use none."""
    version, layout = properties.version, properties.timeline_layout.version
    return MetadataTable.of(storage, version, layout, properties.metadata_partitions)
