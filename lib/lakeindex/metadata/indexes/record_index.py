"""Records of the record index: where each record key is.

A file id of the form ``UUID-number`` is stored as the UUID's two halves and the number; any other one as its text. The
time is that of the instant that put the key there, read in the time zone of the table's timeline; who only updates a
row does not change its record.

The global index has a record for a key. The partitioned one has a record for a key in a partition of the table, and
file groups for each of these partitions.

Source: ``HoodieMetadataPayload.createRecordIndexUpdate``, ``HoodieTableMetadataUtil.getLocationFromRecordIndexInfo`` of
Hudi 0.15 and 1.2; compared with records that they wrote.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from lakeindex.errors import TableCorruptError
from lakeindex.hashing.arrow import RowNumbers, StringArray
from lakeindex.metadata.indexes.record_lookup import find_records
from lakeindex.metadata.metadata_table import RECORD_INDEX, RecordType
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.records import Record

FIELD: Final = "recordIndexMetadata"

_UUID_ENCODING: Final = 0
_TEXT_ENCODING: Final = 1
_NO_NUMBER: Final = -1
_UUID_CHARS: Final = 36
_HALF: Final = 64
_SIGN: Final = 1 << 63


@dataclass(frozen=True, order=True, slots=True)
class RecordLocation:
    """Where a record key is.

    Attributes:
        partition: path of its partition; empty in a table without partitions.
        since_ms: when it was put there: the instant, milliseconds since the epoch.
    """

    partition: str
    file_id: str
    since_ms: int


@dataclass(frozen=True, slots=True, eq=False)
class FoundLocations:
    """Where some record keys are; those that are nowhere are left out.

    Attributes:
        rows: int64 [found], which keys were found, ascending.
        numbers: int64 [found], the number of each one's location.
        locations: the distinct ones.
    """

    rows: RowNumbers
    numbers: npt.NDArray[np.int64]
    locations: tuple[RecordLocation, ...]


def location_record(location: RecordLocation) -> Record:
    """The record of a key at a location; of all its keys it is the same."""
    parts = _uuid_parts(location.file_id)
    high, low, number = (-1, -1, _NO_NUMBER) if parts is None else parts
    info = {
        "partitionName": location.partition,
        "fileIdHighBits": high,
        "fileIdLowBits": low,
        "fileIndex": number,
        "fileId": location.file_id if parts is None else "",
        "instantTime": location.since_ms,
        "fileIdEncoding": _TEXT_ENCODING if parts is None else _UUID_ENCODING,
        "position": None,
    }
    return {"type": int(RecordType.RECORD_INDEX), FIELD: info}


def location_of(record: Record, source: str) -> RecordLocation:
    """The inverse of :func:`location_record`.

    Raises:
        TableCorruptError: it is none of the record index.
    """
    info = record.get(FIELD) if record["type"] == RecordType.RECORD_INDEX else None
    if not info or info["partitionName"] is None or info["instantTime"] is None:
        raise _damaged(source, "it says no location")
    if info["fileIdEncoding"] == _UUID_ENCODING:
        halves = [(info[name] or 0) % (1 << _HALF) for name in ("fileIdHighBits", "fileIdLowBits")]
        file_id = str(uuid.UUID(int=halves[0] << _HALF | halves[1]))
        number = info["fileIndex"]
        file_id += "" if number in (None, _NO_NUMBER) else f"-{number}"
    elif info["fileIdEncoding"] == _TEXT_ENCODING and info["fileId"]:
        file_id = info["fileId"]
    else:
        raise _damaged(source, f"file id encoding {info['fileIdEncoding']} is not known")
    return RecordLocation(info["partitionName"], file_id, info["instantTime"])


def find_locations(view: MetadataView, keys: StringArray, data_partition: str | None = None) -> FoundLocations:
    """Where some record keys are.

    Args:
        view: a metadata table with a record index.
        keys: distinct record keys.
        data_partition: the partition of the table in which they are looked for, of a partitioned index; None of a
            global one.

    Raises:
        TableCorruptError: the record index is damaged.
    """
    found, source = find_records(view, RECORD_INDEX, keys, data_partition), view.table.folder(RECORD_INDEX)
    used = np.unique(found.numbers)  # a record that a newer one replaced says nothing
    places = np.searchsorted(used, found.numbers)
    return FoundLocations(found.rows, places, tuple(location_of(found.records[number], source) for number in used))


def _uuid_parts(file_id: str) -> tuple[int, int, int] | None:
    """Both halves as signed numbers, and the number behind; None if that is not all of the text."""
    head, rest = file_id[:_UUID_CHARS], file_id[_UUID_CHARS:]
    try:
        whole = uuid.UUID(head)
        number = int(rest[1:]) if rest else _NO_NUMBER
    except ValueError:
        return None
    if file_id != str(whole) + (f"-{number}" if rest else "") or (rest and not 0 <= number < 1 << 31):
        return None
    high, low = whole.int >> _HALF, whole.int % (1 << _HALF)
    return high - ((high & _SIGN) << 1), low - ((low & _SIGN) << 1), number


def _damaged(source: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{source} has a damaged record: {why}",
        culprit=source,
        hint="`lakeindex metadata build TABLE --partition record_index` makes it anew",
    )
