"""Building, dropping and showing the metadata table of a table."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from lakeindex.commit.services.metadata_build import build_metadata_table
from lakeindex.commit.services.metadata_table import drop_metadata_table
from lakeindex.errors import MetadataTableError
from lakeindex.metadata import compaction
from lakeindex.metadata.metadata_table import GROUP_PREFIXES
from lakeindex.metadata.reading import MetadataView
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_result import TableResult
from lakeindex.table.handle import Table
from lakeindex.table.metadata_kept import metadata_table_of


@dataclass(frozen=True, slots=True)
class MetadataBuilt(TableResult):
    """A metadata table that was built.

    Attributes:
        built: partitions that were made.
        partitions: all that it has.
        files: files that it names.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "upkeep:show_metadata_built"

    built: tuple[str, ...]
    partitions: tuple[str, ...]
    files: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MetadataDropped(TableResult):
    """What was taken away.

    Attributes:
        dropped: partitions that went.
        left: partitions that are left.
    """

    shown_by: ClassVar[str] = "upkeep:show_metadata_dropped"

    dropped: tuple[str, ...]
    left: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class MetadataPartitionStatus:
    """One partition of a metadata table.

    Attributes:
        name: its name.
        kept: whether our commits keep it up.
        groups: file groups; 0 of one that is not kept up.
        logs: logs of their newest slices.
        bytes: size of these slices.
    """

    name: str
    kept: bool
    groups: int
    logs: int
    bytes: int


@dataclass(frozen=True, slots=True)
class MetadataStatus(TableResult):
    """The state of a metadata table.

    Attributes:
        version: version of both tables.
        partitions: those that readers use; none if there is no metadata table.
        inflight: those that another writer is building.
        last_compaction: instant of the newest compaction; None if there was none.
        delta_commits: completed delta commits since then.
        last_instant: the newest instant that it knows.
    """

    shown_by: ClassVar[str] = "upkeep:show_metadata_status"

    version: int
    partitions: tuple[MetadataPartitionStatus, ...]
    inflight: tuple[str, ...]
    last_compaction: str | None
    delta_commits: int
    last_instant: str | None


def metadata_build(
    uri: str, partitions: Sequence[str] = (), config: WriteConfig | None = None, *, force: bool = False
) -> MetadataBuilt:
    """Build the metadata table of a table that has none, or add partitions to the one that it has.

    Args:
        partitions: those that are built, and what they need; none named: those that Hudi makes by itself. A record
            index that is named and there is made anew.
        config: lease and waiting times.
        force: take other writers' pending instants for dead.

    Raises:
        MetadataTableError: it has them, or something is in their place.
        ConflictError: another writer is in flight or holds the lock.
    """
    started = time.perf_counter()
    table = Table.at(uri)
    done = build_metadata_table(table, config, partitions, force=force)
    partitions = table.current_properties().metadata_partitions
    seconds = round(time.perf_counter() - started, 4)
    return MetadataBuilt(table.name, table.uri, done.partitions, tuple(partitions), done.files, seconds)


def metadata_drop(uri: str, partitions: Sequence[str] = (), config: WriteConfig | None = None) -> MetadataDropped:
    """Take the metadata table away, or some of its partitions.

    Args:
        partitions: those that go; all, if none are named or ``files`` is among them.
        config: lease and waiting times.

    Raises:
        MetadataTableError: it has no such partition.
        ConflictError: another writer holds the lock.
    """
    table = Table.at(uri)
    dropped = drop_metadata_table(table, partitions, config)
    return MetadataDropped(table.name, table.uri, dropped, table.current_properties().metadata_partitions)


def metadata_status(uri: str) -> MetadataStatus:
    """Show the state of a metadata table. Raises: TableCorruptError."""
    table = Table.at(uri)
    properties = table.properties
    metadata = metadata_table_of(table.storage, properties)
    inflight = properties.metadata_partitions_inflight
    if metadata is None:
        return MetadataStatus(table.name, table.uri, properties.version, (), inflight, None, 0, None)
    view = MetadataView.load(metadata, table.load_timeline())
    return MetadataStatus(
        table=table.name,
        uri=table.uri,
        version=properties.version,
        partitions=tuple(_status_of(view, name) for name in metadata.partitions),
        inflight=inflight,
        last_compaction=compaction.last_compaction(view.timeline),
        delta_commits=compaction.delta_commits_since(view.timeline),
        last_instant=view.timeline.last_completed_write_time,
    )


def opened_view(uri: str) -> tuple[Table, MetadataView]:
    """A table and its metadata table. Raises: MetadataTableError: it has none."""
    table = Table.at(uri)
    metadata = metadata_table_of(table.storage, table.properties)
    if metadata is None:
        raise MetadataTableError(
            f"table {table.name} has no metadata table",
            culprit=table.uri,
            hint="`lakeindex metadata build TABLE` makes one",
        )
    return table, MetadataView.load(metadata, table.load_timeline())


def _status_of(view: MetadataView, name: str) -> MetadataPartitionStatus:
    if name not in GROUP_PREFIXES:
        return MetadataPartitionStatus(name, kept=False, groups=0, logs=0, bytes=0)
    slices = view.slices(name)
    sizes = [log.size_bytes for one in slices for log in one.logs]
    sizes += [one.base.size_bytes for one in slices if one.base is not None]
    logs = sum(len(one.logs) for one in slices)
    return MetadataPartitionStatus(name, kept=True, groups=len(slices), logs=logs, bytes=sum(sizes))
