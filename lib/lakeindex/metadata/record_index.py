"""Records of the record index: where each record key is.

A file id of the form ``UUID-number`` is stored as the UUID's two halves and the number; any other one as its text. The
time is that of the instant that put the key there, read in the time zone of the table's timeline; who only updates a
row does not change its record.

The global index has a record for a key. The partitioned one has a record for a key in a partition of the table, and
file groups for each of these partitions.

Source: ``HoodieMetadataPayload.createRecordIndexUpdate``, ``HoodieTableMetadataUtil.getLocationFromRecordIndexInfo`` of
Hudi 0.15 and 1.2; compared with records that they wrote.

Many keys share few records, so they are looked up in another way than
:meth:`lakeindex.metadata.metadata_view.MetadataView.lookup` does, with the same result: keys stay in Arrow arrays,
blocks are searched by a compiled loop, and a record is decoded once in a file. A block that the loop does not
understand is left to :class:`lakeindex.format.hfile.HFile`, which says what is wrong with it, or reads it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import TableCorruptError
from lakeindex.format.hfile.reading import AskedBlock, HFile
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, StringArray, StringBuffers, plain_strings, string_buffers
from lakeindex.hashing.loops import Bytes, Offsets, compiled
from lakeindex.metadata.metadata_keys import group_numbers
from lakeindex.metadata.metadata_records import Record, decode_record
from lakeindex.metadata.metadata_table import RECORD_INDEX, RecordType
from lakeindex.metadata.metadata_view import Layer, MetadataView
from lakeindex.storage import in_parallel

_DECODED_BYTES: Final = 4 << 20
"""Decoded blocks that are searched at once."""
_NOWHERE: Final = -1
_FINE: Final = 0


class FoundRecords(Frozen, eq=False):
    """The records of some keys.

    Attributes:
        rows: int64 [found], which keys have one, ascending.
        numbers: int64 [found], the number of its record.
    """

    rows: RowNumbers
    numbers: npt.NDArray[np.int64]
    records: tuple[Record, ...]


def find_records(
    view: MetadataView, partition: str, keys: StringArray, data_partition: str | None = None
) -> FoundRecords:
    """The newest record of each key.

    Args:
        partition: of the metadata table; its records replace each other.
        data_partition: the partition of the table that they are of, in a partitioned record index.
    """
    groups = [one for one in view.slices(partition) if one.is_of(data_partition)]
    numbers = np.full(len(keys), _NOWHERE, np.int64)
    records: list[Record] = []
    if groups and len(keys):
        asked = plain_strings(keys)

        def in_group(job: tuple[int, RowNumbers]) -> FoundRecords:
            number, rows = job
            return records_of_layers(view.layers(groups[number]), asked.take(pa.array(rows)))

        jobs = list(_rows_of_groups(asked, len(groups)))
        parts = in_parallel(view.table.storage.uri, in_group, jobs)
        for (_, rows), part in zip(jobs, parts, strict=True):
            numbers[rows[part.rows]] = part.numbers + len(records)
            records += part.records
    found = np.flatnonzero(numbers != _NOWHERE)
    return FoundRecords(found, numbers[found], tuple(records))


def _rows_of_groups(keys: pa.Array, count: int) -> Iterator[tuple[int, RowNumbers]]:
    """The rows of the keys in each file group, by its number, in the order of the keys' bytes."""
    order = _order_of(keys)
    if count == 1:
        yield 0, order
        return
    numbers = group_numbers(keys, count)[order]
    by_group = np.argsort(numbers.astype(np.uint16) if count <= 1 << 16 else numbers, kind="stable")
    ends = np.searchsorted(numbers[by_group], np.arange(count + 1))
    for number in range(count):
        rows = order[by_group[ends[number] : ends[number + 1]]]
        if len(rows):
            yield number, rows


def _order_of(keys: pa.Array) -> RowNumbers:
    if pc.all(pc.less_equal(keys[:-1], keys[1:])).as_py():
        return np.arange(len(keys), dtype=np.int64)
    return pc.sort_indices(keys).to_numpy().astype(np.int64)


def records_of_layers(layers: Iterable[Layer], keys: pa.Array) -> FoundRecords:
    """The newest record of each key in a file group.

    Args:
        layers: what its files say, older ones first.
        keys: distinct keys, in the order of their bytes.
    """
    found = _Newest(string_buffers(keys))
    for layer in layers:
        if layer.file is not None:
            found.put(layer, layer.file)
        elif layer.gone:
            gone = pc.is_in(keys, value_set=pa.array(layer.gone, keys.type))
            found.numbers[gone.to_numpy(zero_copy_only=False)] = _NOWHERE
    there = np.flatnonzero(found.numbers != _NOWHERE)
    return FoundRecords(there, found.numbers[there], tuple(found.records))


class _Newest:
    """Records of sorted keys, while files are read."""

    def __init__(self, keys: StringBuffers) -> None:
        self._keys = keys
        self.numbers = np.full(len(keys), _NOWHERE, np.int64)
        self.records: list[Record] = []
        self._known: dict[tuple[bytes, str], int] = {}

    def put(self, layer: Layer, file: HFile) -> None:
        """What a file says replaces what was said before."""
        for asked in _batches(file.asked_blocks(_KeyBytes(self._keys))):
            values = self._search(asked, file)
            rows, found = self._read(asked, file) if values is None else values
            words = found.dictionary_encode()
            numbers = [self._number(value, layer) for value in words.dictionary.to_pylist()]
            self.numbers[rows] = np.array(numbers, np.int64)[words.indices.to_numpy()]

    def _number(self, value: bytes, layer: Layer) -> int:
        known = (value, layer.schema)
        if known not in self._known:
            self._known[known] = len(self.records)
            self.records.append(decode_record(value, layer.schema, layer.source))
        return self._known[known]

    def _search(self, asked: Sequence[AskedBlock], file: HFile) -> tuple[RowNumbers, pa.Array] | None:
        """Rows and their values, in a compiled loop; None if it does not understand a block."""
        data = np.frombuffer(b"".join(one.content for one in asked), np.uint8)
        first, count = asked[0].start, asked[-1].end - asked[0].start
        ends = np.cumsum([len(one.content) for one in asked], dtype=np.int64)
        numbers = np.array([(one.start, one.end) for one in asked], np.int64) - first
        places = np.column_stack([ends, numbers])
        keys = self._keys.slice(first, first + count)
        found = np.full((count + 1, 2), _NOWHERE, np.int64)
        find_values(data, places, file.has_mvcc, keys.data, keys.offsets, found)
        if found[count, 0] != _FINE:
            return None
        rows = np.flatnonzero(found[:count, 0] != _NOWHERE)
        starts, stops = found[rows, 0], found[rows, 1]
        offsets = np.concatenate([[0], np.cumsum(stops - starts)])
        out = np.empty(offsets[-1], np.uint8)
        copy_values(data, starts, offsets, out)
        buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(out)]
        return rows + first, pa.Array.from_buffers(pa.binary(), len(rows), buffers)

    def _read(self, asked: Sequence[AskedBlock], file: HFile) -> tuple[RowNumbers, pa.Array]:
        """As :meth:`_search`, an entry at a time. Raises: TableCorruptError: a block is damaged."""
        found: dict[int, bytes] = {}
        for one in asked:
            rows = {self._keys.value(row): row for row in range(one.start, one.end)}
            for key, value in file.entries_of(one.content):
                if key in rows:
                    found[rows[key]] = value
        return np.array(list(found), np.int64), pa.array(found.values(), pa.binary())


@compiled("u1* i8** int u1* i8* i8**")
def find_values(
    data: Bytes,
    places: npt.NDArray[np.int64],
    with_mvcc: int,
    keys: Bytes,
    key_offsets: Offsets,
    found: npt.NDArray[np.int64],
) -> None:
    """Where the values of sorted keys are, in one pass over the blocks; of a key that stands there twice, the last one.
    Uncompiled nothing is understood, and the entries are read one by one.

    Args:
        data: decoded blocks, one behind the other.
        places: of each block, where it ends, the number of the first key that can be in it, and that behind the last.
        with_mvcc: a byte, 0, is behind each value.
        keys: bytes of the keys.
        key_offsets: where each of them begins.
        found: int64 [keys + 1, 2], is given where each key's value begins and ends; of what is not found, the row
            stays. The last row begins with ``_FINE`` if all was understood. It stays, and nothing else counts, if an
            entry leaves its block, has a version of its own, or is not behind the one before it.
    """


@compiled("u1* i8* i8* u1*")
def copy_values(data: Bytes, starts: Offsets, offsets: Offsets, out: Bytes) -> None:
    """Values one behind the other: the one at ``starts[i]`` goes to ``out[offsets[i]:offsets[i + 1]]``."""
    out[:] = data[np.repeat(starts - offsets[:-1], np.diff(offsets)) + np.arange(len(out))]


class _KeyBytes:
    """Keys as an HFile is asked for them."""

    def __init__(self, keys: StringBuffers) -> None:
        self._keys = keys

    def __len__(self) -> int:
        return len(self._keys)

    def __getitem__(self, number: int, /) -> bytes:
        return self._keys.value(number)


def _batches(asked: Iterator[AskedBlock]) -> Iterator[list[AskedBlock]]:
    batch: list[AskedBlock] = []
    size = 0
    for one in asked:
        batch.append(one)
        size += len(one.content)
        if size >= _DECODED_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


FIELD: Final = "recordIndexMetadata"

_UUID_ENCODING: Final = 0
_TEXT_ENCODING: Final = 1
_NO_NUMBER: Final = -1
_UUID_CHARS: Final = 36
_HALF: Final = 64
_SIGN: Final = 1 << 63


class RecordLocation(Frozen, order=True):
    """Where a record key is.

    Attributes:
        partition: path of its partition; empty in a table without partitions.
        since_ms: when it was put there: the instant, milliseconds since the epoch.
    """

    partition: str
    file_id: str
    since_ms: int


class FoundLocations(Frozen, eq=False):
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
    """The inverse of :func:`location_record`. Raises: TableCorruptError."""
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
