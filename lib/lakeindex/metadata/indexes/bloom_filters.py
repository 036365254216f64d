"""Records of the bloom filters in the metadata table: of each data file the filter that its footer has.

The filter is the footer's text, byte for byte: base64, and the type says which kind it is of. A file without a filter
has no record; Hudi then reads the file.

Source: ``HoodieMetadataPayload.createBloomFilterMetadataRecord``,
``HoodieTableMetadataUtil.convertMetadataToBloomFilterRecords`` of Hudi 0.15 and 1.2; compared with their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from lakeindex.bloom import marks
from lakeindex.metadata.changes import MetadataChange, PartitionChange
from lakeindex.metadata.keys import bloom_filter_key
from lakeindex.metadata.metadata_table import BLOOM_FILTERS, MetadataTable, RecordType
from lakeindex.metadata.new_files import NewFile
from lakeindex.metadata.records import Record

FIELD: Final = "BloomFilterMetadata"
SIMPLE: Final = "SIMPLE"


def filters_of_new(table: MetadataTable, files: Iterable[NewFile], time: str) -> MetadataChange:
    """What new files change.

    Args:
        time: the instant that wrote them.
    """
    if BLOOM_FILTERS not in table.partitions:
        return {}
    found = ((one, filter_record(one, time)) for one in files)
    puts = {bloom_filter_key(one.partition, one.name): record for one, record in found if record is not None}
    return {BLOOM_FILTERS: PartitionChange(puts)} if puts else {}


def filters_of_gone(table: MetadataTable, files: Mapping[str, Iterable[str]]) -> MetadataChange:
    """What the deletion of files changes.

    Args:
        files: partition path -> file names.
    """
    if BLOOM_FILTERS not in table.partitions:
        return {}
    keys = frozenset(bloom_filter_key(partition, name) for partition, gone in files.items() for name in gone)
    return {BLOOM_FILTERS: PartitionChange(deletes=keys)} if keys else {}


def filter_record(file: NewFile, time: str) -> Record | None:
    """The record of a file's filter; None if it has none.

    Args:
        time: the instant that wrote it.
    """
    values = file.footer.metadata or {}
    text = values.get(marks.FILTER.encode()) or values.get(marks.OLD_FILTER.encode())
    if text is None:
        return None
    kind = values.get(marks.FILTER_TYPE.encode(), SIMPLE.encode()).decode("utf-8", "replace")
    info = {"type": kind, "timestamp": time, "bloomFilter": bytes(text), "isDeleted": False}
    return {"type": int(RecordType.BLOOM_FILTER), FIELD: info}
