"""What statistics, bloom filters and record index of a metadata table say wrongly, compared with footers and keys.

What is missing of statistics is no fault: readers keep files that they know nothing of. A range that is too narrow is
one, because readers skip rows by it; so are a filter that is not the footer's, and a key that is not where it is said.

Source: what ``HoodieMetadataTableValidator`` of Hudi 1.2 compares.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from lakeindex.errors import REPAIR_KEYS
from lakeindex.files.file_system_view import Snapshot
from lakeindex.metadata.column_stats import FIELD as STATS
from lakeindex.metadata.column_stats import holds_range, is_nan
from lakeindex.metadata.indexes.bloom_filters import FIELD as FILTER
from lakeindex.metadata.indexes.bloom_filters import filter_record
from lakeindex.metadata.keys import bloom_filter_key
from lakeindex.metadata.metadata_table import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    RECORD_INDEX,
    key_of_partition,
)
from lakeindex.metadata.new_files import NewFile, read_new_files
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.records import Record
from lakeindex.metadata.statistics import columns_without_partitions, statistics_of_new, statistics_of_partitions
from lakeindex.metadata_upkeep.index_entries import BUILD_ANEW, COPY, DOUBLED, entries_elsewhere, wrong_entries
from lakeindex.storage import in_parallel
from lakeindex.write.base_file import RECORD_KEY

_ENDS: Final = ("minValue", "maxValue")


@dataclass(frozen=True, slots=True)
class MetadataFault:
    """Something that the metadata table says wrongly.

    Attributes:
        kind: ``missing``: it does not name a file of the table, whose rows its readers lose; ``surplus``: it names one
            that is not there, on which they fail; ``size``: it gives another size; ``partition``: it does not list a
            partition, whose rows its readers lose; ``statistics``: it gives a column a range that is too narrow or ends
            in NaN, none in a partition though it has some in others, or some in a file where another column can have
            none, so that readers skip rows; ``filter``: a file's filter is
            another one, or none; ``key``: a record key is somewhere else, or nowhere, so that an upsert by the record
            index may double it.
        path: the file, the partition, or the key.
        said: what the metadata table says, in words.
        is_so: what is there, in words.
        mend: how it is mended.
        entry: of kind ``key``, as :attr:`lakeindex.metadata_upkeep.index_entries.WrongEntry.kind`; else empty.
    """

    kind: str
    path: str
    said: str
    is_so: str
    mend: str = "`lakeindex metadata drop TABLE`, then `lakeindex metadata build TABLE`"
    entry: str = ""


def find_index_faults(
    view: MetadataView, live: Snapshot, there: Mapping[str, Mapping[str, int]]
) -> Iterator[MetadataFault]:
    """What a metadata table says wrongly of what is in the files. All footers and keys are read.

    Args:
        there: partition path -> file name -> bytes, of all files of completed commits.

    Raises:
        TableCorruptError: the metadata table, or a file, cannot be read.
    """
    new = read_new_files(view.table, there)
    if COLUMN_STATS in view.table.partitions:
        wanted = statistics_of_new(view.table, new).get(COLUMN_STATS)
        yield from _narrow(view, COLUMN_STATS, {} if wanted is None else wanted.puts)
        yield from _partial(view, {} if wanted is None else wanted.puts, {one.name for one in new})
    if PARTITION_STATS in view.table.partitions:
        current = {(one.partition_path, one.name) for one in live.base_files_all()}
        change = statistics_of_partitions(view.table, [one for one in new if (one.partition, one.name) in current])
        yield from _narrow(view, PARTITION_STATS, change.puts)
        if columns := columns_without_partitions(view.table, new):
            yield from _unholdable(view, PARTITION_STATS, lambda said: said["columnName"] in columns)
    if BLOOM_FILTERS in view.table.partitions:
        yield from _other_filters(view, new)
    if RECORD_INDEX in view.table.partitions:
        yield from _wrong_entries(view, live)


def _stored(view: MetadataView, partition: str) -> dict[str, Record]:
    parts = in_parallel(view.table.storage.uri, view.records, view.slices(partition))
    return {key: record for part in parts for key, record in part.items()}


def _narrow(view: MetadataView, partition: str, wanted: Mapping[str, Record]) -> Iterator[MetadataFault]:
    stored = _stored(view, partition)
    told = {one[STATS]["columnName"] for one in stored.values() if not one[STATS]["isDeleted"]}
    for key, record in wanted.items():
        said, is_so = stored.get(key), record[STATS]
        if said is None or said[STATS]["isDeleted"]:
            if partition == PARTITION_STATS and is_so["columnName"] in told:
                yield MetadataFault("statistics", _place_of(is_so), "nothing", _range(is_so), _again(partition))
        elif _hides(said, record):
            yield MetadataFault("statistics", _place_of(is_so), _range(said[STATS]), _range(is_so), _again(partition))


def _partial(view: MetadataView, wanted: Mapping[str, Record], names: Collection[str]) -> Iterator[MetadataFault]:
    """Statistics of files that must have none, as a column has bounds that no record can hold."""
    bare = {*names} - {one[STATS]["fileName"] for one in wanted.values() if one[STATS]["columnName"] != RECORD_KEY}
    if bare:
        yield from _unholdable(
            view, COLUMN_STATS, lambda said: said["fileName"] in bare and said["columnName"] != RECORD_KEY
        )


def _unholdable(
    view: MetadataView, partition: str, is_so: Callable[[Mapping[str, Any]], bool]
) -> Iterator[MetadataFault]:
    for said in (record[STATS] for record in _stored(view, partition).values()):
        if not said["isDeleted"] and is_so(said):
            nothing = "bounds of a column that no record can hold"
            yield MetadataFault("statistics", _place_of(said), _range(said), nothing, _again(partition))


def _hides(said: Record, record: Record) -> bool:
    """Whether readers skip values by what is said of a column that has a range: it is narrower, or NaN, or nothing."""
    stats, is_so = said[STATS], record[STATS]
    if is_so["maxValue"] is None:
        return False
    if any(stats[end] is None or is_nan(stats[end]) for end in _ENDS):
        return True
    return not holds_range(stats, is_so)


def _place_of(stats: Mapping[str, Any]) -> str:
    return f"{stats['fileName'] or key_of_partition('')} ({stats['columnName']})"


def _range(stats: Mapping[str, Any]) -> str:
    ends = ("nothing" if stats[end] is None else repr(stats[end][1]["value"])[:40] for end in _ENDS)
    return " to ".join(ends)


def _other_filters(view: MetadataView, files: list[NewFile]) -> Iterator[MetadataFault]:
    stored = _stored(view, BLOOM_FILTERS)
    for one in files:
        wanted = filter_record(one, "")
        if wanted is None:
            continue
        path = f"{one.partition}/{one.name}" if one.partition else one.name
        said = stored.get(bloom_filter_key(one.partition, one.name))
        if said is None:
            yield MetadataFault("filter", path, "no filter", "one in its footer", _again(BLOOM_FILTERS))
        elif any(said[FILTER][name] != wanted[FILTER][name] for name in ("type", "bloomFilter")):
            yield MetadataFault("filter", path, "another filter", "that of its footer", _again(BLOOM_FILTERS))


def _wrong_entries(view: MetadataView, live: Snapshot) -> Iterator[MetadataFault]:
    files = live.base_files_all()
    for one in (*wrong_entries(view, files), *entries_elsewhere(view, files)):
        said, is_so, mend = _place(one.said), _place(one.stored), BUILD_ANEW
        if one.kind == COPY:
            is_so, mend = f"a row in {is_so}, too", REPAIR_KEYS
        elif one.kind == DOUBLED:
            said += f", in {one.group} of the index, where nobody looks for it"
        yield MetadataFault("key", one.key, said, is_so, mend, one.kind)


def _place(place: tuple[str, str] | None) -> str:
    return "no such key" if place is None else f"file group {place[1]} of partition {place[0]!r}"


def _again(partition: str) -> str:
    return (
        f"`lakeindex metadata drop TABLE --partition {partition}`, "
        f"then `lakeindex metadata build TABLE --partition {partition}`"
    )
