"""Data files about whose content the metadata table says something, with their footers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import TableCorruptError, first_line
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS, MetadataTable
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile

_OF_FOOTERS: Final = frozenset({BLOOM_FILTERS, COLUMN_STATS, PARTITION_STATS})


@dataclass(frozen=True, slots=True)
class NewFile:
    """A data file.

    Attributes:
        name: without a folder.
    """

    partition: str
    name: str
    footer: pq.FileMetaData = field(repr=False)


def read_new_files(table: MetadataTable, files: Mapping[str, Mapping[str, int]]) -> list[NewFile]:
    """Some data files with their footers; none if the metadata table says nothing that is in them.

    Args:
        files: partition path -> file name -> bytes.

    Raises:
        TableCorruptError: a footer cannot be read.
    """
    if not _OF_FOOTERS & set(table.partitions):
        return []
    listed = [(partition, name, size) for partition, sizes in files.items() for name, size in sizes.items()]

    def read(one: tuple[str, str, int]) -> NewFile:
        partition, name, size = one
        path = f"{partition}/{name}" if partition else name
        return NewFile(partition, name, _footer(table.storage, path, size))

    return in_parallel(table.storage.uri, read, listed)


def _footer(storage: Storage, path: str, size: int) -> pq.FileMetaData:
    try:
        return pq.read_metadata(StorageFile(storage, path, size))
    except (pa.ArrowException, OSError) as error:
        raise TableCorruptError(
            f"the footer of {path} cannot be read: {first_line(error)}", culprit=path, hint="restore the file"
        ) from error
