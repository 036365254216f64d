"""Compare a metadata table with the files of its table, and with what is in them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from lakeindex.commit.services.metadata_build import committed_files
from lakeindex.files.file_system_view import snapshot
from lakeindex.format.file_names import parse_base_file
from lakeindex.metadata.metadata_table import RECORD_INDEX
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata_upkeep.index_entries import ENTRY_KINDS
from lakeindex.operations.metadata.index_faults import MetadataFault, find_index_faults
from lakeindex.operations.metadata.metadata import opened_view
from lakeindex.showing.json_result import TableResult
from lakeindex.timeline.timeline import Timeline

_EXAMPLES: Final = 5


@dataclass(frozen=True, slots=True)
class MetadataVerified(TableResult):
    """What the comparison found.

    Attributes:
        ok: it says what is there.
        files: files of the table that were compared.
        partitions: partitions of the table.
        counts: faults by their kind.
        record_index: wrong entries by their kind, as of
            :attr:`lakeindex.metadata_upkeep.index_entries.WrongEntry.kind`; empty if there is no record index.
        examples: some of each.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "upkeep:show_metadata_verified"

    ok: bool
    files: int
    partitions: int
    counts: Mapping[str, int]
    record_index: Mapping[str, int]
    examples: tuple[MetadataFault, ...]
    seconds: float


def metadata_verify(uri: str) -> MetadataVerified:
    """Compare the metadata table with a listing, footers and record keys.

    Nothing is changed; what is wrong does not raise, it is reported.

    Raises:
        MetadataTableError: it has no metadata table.
        TableCorruptError: the metadata table cannot be read.
    """
    started = time.perf_counter()
    table, view = opened_view(uri)
    live = snapshot(table.storage, view.data)
    there = committed_files(live)
    faults = [*find_faults(view, there), *find_index_faults(view, live, there)]
    counts = Counter(fault.kind for fault in faults)
    entries = Counter(fault.entry for fault in faults if fault.entry)
    seen: Counter[tuple[str, str]] = Counter()
    examples: list[MetadataFault] = []
    for fault in faults:
        seen[fault.kind, fault.entry] += 1
        if seen[fault.kind, fault.entry] <= _EXAMPLES:
            examples.append(fault)
    return MetadataVerified(
        table=table.name,
        uri=table.uri,
        ok=not faults,
        files=sum(len(names) for names in there.values()),
        partitions=len(there),
        counts=dict(counts),
        record_index={kind: entries[kind] for kind in ENTRY_KINDS} if RECORD_INDEX in view.table.partitions else {},
        examples=tuple(examples),
        seconds=round(time.perf_counter() - started, 4),
    )


def find_faults(view: MetadataView, there: Mapping[str, Mapping[str, int]]) -> Iterator[MetadataFault]:
    """What a metadata table says wrongly about files.

    Args:
        there: partition path -> file name -> bytes, of all files of completed commits.

    Raises:
        TableCorruptError: it cannot be read.
    """
    listing = view.listing()
    said = listing.files
    for partition, files in sorted(there.items()):
        if files and partition not in listing.partitions:
            yield MetadataFault("partition", partition, "no such partition", f"{len(files)} files")
        yield from _faults_of(view.data, partition, files, said.get(partition, {}))
    for partition in sorted({*said} - {*there}):
        yield from _faults_of(view.data, partition, {}, said[partition])


def _faults_of(
    timeline: Timeline, partition: str, there: Mapping[str, int], said: Mapping[str, int]
) -> Iterator[MetadataFault]:
    prefix = f"{partition}/" if partition else ""
    for name in sorted({*there, *said}):
        size, told = there.get(name), said.get(name)
        if told is None:
            yield MetadataFault("missing", prefix + name, "no such file", f"{size} bytes")
        elif size is None:
            file = parse_base_file(partition, name, told)
            if file is None or timeline.is_visible(file.instant_time):  # no reader looks for one of a failed write
                yield MetadataFault("surplus", prefix + name, f"{told} bytes", "no such file")
        elif size != told:
            yield MetadataFault("size", prefix + name, f"{told} bytes", f"{size} bytes")
