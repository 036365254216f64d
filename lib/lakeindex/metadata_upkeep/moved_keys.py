"""Which record keys a commit put somewhere, and which it took away: for the record index of the metadata table.

Both follow from the commit alone, from its files and from those that they replaced, so that whoever finishes the commit
of a writer that died finds the same. A file into which nothing was inserted and out of which nothing was taken is not
read. Of the others, only rows of this commit can be new, by their ``_hoodie_commit_time``: row groups without one, by
their statistics, are not read, and where all rows of this commit are new, the file before is not, either.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import REPAIR_KEYS, InvariantError, MetadataTableError
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.key_columns import StoredColumns, read_record_keys
from lakeindex.files.listing import base_files_in
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import parse_base_file, parse_base_path
from lakeindex.metadata.changes import KeyRun, PartitionChange
from lakeindex.metadata.indexes.record_index import RecordLocation, location_of, location_record
from lakeindex.metadata.indexes.record_lookup import find_records
from lakeindex.metadata.metadata_table import RECORD_INDEX
from lakeindex.metadata.reading import MetadataView
from lakeindex.metadata.records import Record
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.timeline.clock import instant_ms
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY

_NO_KEYS: Final = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class MovedKeys:
    """Record keys of one file group.

    Attributes:
        put: keys that are in it now.
        gone: keys that were in it before.
    """

    file: BaseFile
    put: pa.Array = field(repr=False, default_factory=lambda: _NO_KEYS)
    gone: pa.Array = field(repr=False, default_factory=lambda: _NO_KEYS)


def moved_keys(storage: Storage, before: Snapshot, commit: CommitMetadata) -> list[MovedKeys]:
    """What keys a commit moved.

    Args:
        before: the table as it was when the commit was decided.

    Raises:
        TableCorruptError: one of its files, or one that it replaced, cannot be read.
    """
    stats = [one for one in commit.stats() if one.path is not None and (one.num_inserts or one.num_deletes)]
    replaced = [file for key in sorted(commit.replaced()) for file in _live(before, *key)]
    gone = in_parallel(storage.uri, lambda one: MovedKeys(one, gone=read_record_keys(storage, one)), replaced)
    moved = [*in_parallel(storage.uri, lambda one: _moved_by(storage, one), stats), *gone]
    return [*moved, *_kept_keys(storage, before, commit, moved)]


def _kept_keys(
    storage: Storage, before: Snapshot, commit: CommitMetadata, moved: Sequence[MovedKeys]
) -> list[MovedKeys]:
    """Of keys that went out of a file, those that another one holds still: the commit took copies away."""
    gone = pa.chunked_array([one.gone for one in moved], pa.string())
    new = {(one.partition_path, one.file_id): parse_base_path(one.path or "") for one in commit.stats()}
    files = [
        file for group in sorted(commit.kept) for file in ([new[group]] if group in new else _live(before, *group))
    ]

    def find(file: BaseFile) -> MovedKeys:
        keys = read_record_keys(storage, file)
        return MovedKeys(file, put=keys.filter(pc.is_in(keys, gone)))

    sized = [replace(file, size_bytes=storage.head(file.path).size_bytes) for file in files if file is not None]
    return in_parallel(storage.uri, find, sized)


def returned_keys(storage: Storage, before: Snapshot, paths: Iterable[str], *, everywhere: bool) -> list[MovedKeys]:
    """Where the keys of a commit are once it is taken back.

    Args:
        storage: the table's folder, in which the commit's files still are.
        before: the table without the commit.
        paths: data files of the commit.
        everywhere: the commit replaced file groups, of which nobody says which any more: every key is put where it is.

    Raises:
        TableCorruptError: a file cannot be read.
    """
    wanted = frozenset(paths)
    listed = [
        file for file in base_files_in(storage, {path.rpartition("/")[0] for path in wanted}) if file.path in wanted
    ]
    live = {(file.partition_path, file.file_id): file for file in before.base_files_all()}

    def find(file: BaseFile) -> MovedKeys:
        new, previous = read_record_keys(storage, file), live.get((file.partition_path, file.file_id))
        if previous is None:
            return MovedKeys(file, gone=new)
        old = read_record_keys(storage, previous)
        return MovedKeys(previous, put=_without(old, new), gone=_without(new, old))

    undone = in_parallel(storage.uri, find, listed)
    if not everywhere:
        return undone
    gone = [replace(one, put=_NO_KEYS) for one in undone]
    return [*gone, *located_keys(storage, live.values())]


def located_keys(storage: Storage, files: Iterable[BaseFile]) -> list[MovedKeys]:
    """All keys of some files. Raises: TableCorruptError."""
    return in_parallel(storage.uri, lambda one: MovedKeys(one, put=read_record_keys(storage, one)), files)


def record_index_change(moved: Iterable[MovedKeys], timezone: str, *, partitioned: bool) -> PartitionChange:
    """What moved keys change in the record index.

    Args:
        moved: keys by file group. That of a key that was put somewhere is what counts.
        timezone: of the table's timeline.
        partitioned: the index has a record for a key in each partition of the table.

    Raises:
        MetadataTableError: a key is in two file groups, of which one index can name only one.
    """
    listed = list(moved)
    _check_once([one for one in listed if len(one.put)], partitioned=partitioned)
    gone = (KeyRun(one.file.partition_path, one.gone, None) for one in listed if len(one.gone))
    put = (KeyRun(one.file.partition_path, one.put, _record_of(one.file, timezone)) for one in listed if len(one.put))
    return PartitionChange(runs=(*gone, *put))


def said_moves(view: MetadataView, moved: Iterable[MovedKeys], *, refuse: bool) -> list[MovedKeys]:
    """What is to be said to a global record index of a table in which a key may be in several partitions.

    A key that goes from where the index does not have it leaves the place that it is said to be in.

    Args:
        moved: keys by file group.
        refuse: whether a key that is put somewhere, and stays somewhere else, is refused.

    Raises:
        MetadataTableError: there is such a key: the index has one place for it.
        TableCorruptError: the index cannot be read.
    """
    listed = list(moved)
    keys = pc.unique(pa.concat_arrays([_NO_KEYS, *(one.put for one in listed), *(one.gone for one in listed)]))
    found, source = find_records(view, RECORD_INDEX, keys), view.table.folder(RECORD_INDEX)
    places = pa.array([_place_of(location_of(record, source)) for record in found.records], pa.string())
    said = pc.replace_with_mask(
        pa.nulls(len(keys), pa.string()), _mask(found.rows, len(keys)), places.take(pa.array(found.numbers))
    )

    def place_said(asked: pa.Array) -> pa.Array:
        return said.take(pc.index_in(asked, keys))

    going = [pc.binary_join_element_wise(one.gone, pa.scalar(_place_of(one.file)), "\0") for one in listed]
    leaving = pa.concat_arrays([_NO_KEYS, *(one.cast(pa.string()) for one in going)])
    for one in listed if refuse else ():
        at = place_said(one.put)
        stays = pc.invert(pc.is_in(pc.binary_join_element_wise(one.put, at, "\0"), leaving))
        other = pc.and_(pc.fill_null(pc.not_equal(at, _place_of(one.file)), fill_value=False), stays)
        if pc.any(other).as_py():
            key, place = (column.filter(other)[0].as_py() for column in (one.put, at))
            raise _one_place(key, [one.file.path, "file group {1} of partition {0!r}".format(*place.split("\0"))])
    return [
        replace(one, gone=one.gone.filter(pc.fill_null(pc.equal(place_said(one.gone), _place_of(one.file)), True)))
        for one in listed
    ]


def _place_of(one: BaseFile | RecordLocation) -> str:
    partition = one.partition_path if isinstance(one, BaseFile) else one.partition
    return f"{partition}\0{one.file_id}"


def _mask(rows: npt.NDArray[np.int64], count: int) -> pa.BooleanArray:
    mask = np.zeros(count, np.bool_)
    mask[rows] = True
    return pa.array(mask)


def _one_place(key: str, places: Sequence[str]) -> MetadataTableError:
    return MetadataTableError(
        f"record key {key!r} is in {' and in '.join(places[:2])}, and the record index has one place for it",
        culprit=key,
        hint="a table whose keys are unique in a partition only cannot have a global record index: build none, or take "
        "it away with `lakeindex metadata drop TABLE --partition record_index`; where they must be unique, "
        f"{REPAIR_KEYS}",
    )


def _record_of(file: BaseFile, timezone: str) -> Record:
    since = instant_ms(timezone, file.instant_time)
    return location_record(RecordLocation(file.partition_path, file.file_id, since))


def _check_once(put: Sequence[MovedKeys], *, partitioned: bool) -> None:
    by_scope: dict[str, list[MovedKeys]] = defaultdict(list)
    for one in put:
        by_scope[one.file.partition_path if partitioned else ""].append(one)
    for several in by_scope.values():
        keys = pa.concat_arrays([one.put for one in several])
        if pc.count_distinct(keys).as_py() == len(keys):
            continue
        counts = pc.value_counts(keys)
        key = counts.field("values").filter(pc.greater(counts.field("counts"), 1))[0].as_py()
        places = [one.file.path for one in several if pc.index(one.put, key).as_py() >= 0]
        raise _one_place(key, places)


def _moved_by(storage: Storage, stat: WriteStat) -> MovedKeys:
    """Keys that a file has and the one before has not, and the other way round."""
    file = parse_base_path(stat.path or "", stat.file_size_bytes)
    if file is None:
        raise InvariantError(f"{stat.path!r} is no base file", culprit=str(stat.path), hint="run `lakeindex check`")
    if stat.prev_base_file is None:
        return MovedKeys(file, put=read_record_keys(storage, file))
    previous = parse_base_file(file.partition_path, stat.prev_base_file)
    if previous is None:
        raise InvariantError(
            f"{stat.prev_base_file!r} is no base file", culprit=file.path, hint="run `lakeindex check`"
        )
    previous = replace(previous, size_bytes=storage.head(previous.path).size_bytes)
    if stat.num_deletes:
        new, old = read_record_keys(storage, file), read_record_keys(storage, previous)
        return MovedKeys(file, _without(new, old), _without(old, new))
    written = _written_keys(storage, file)
    if len(written) == stat.num_inserts:
        return MovedKeys(file, written)
    stored = StoredColumns(storage, previous, None)
    groups = stored.row_groups_for(written.take(pc.sort_indices(written)))
    return MovedKeys(file, _without(written, _joined(stored.column(RECORD_KEY, groups))))


def _written_keys(storage: Storage, file: BaseFile) -> pa.Array:
    """Keys of the rows that a file has from its own instant: inserts and updates."""
    stored, time = StoredColumns(storage, file, None), file.instant_time
    groups = stored.row_groups_since(COMMIT_TIME, time)
    keys, times = (_joined(stored.column(name, groups)) for name in (RECORD_KEY, COMMIT_TIME))
    return keys.filter(pc.equal(times, time))


def _without(keys: pa.Array, others: pa.Array) -> pa.Array:
    return keys.filter(pc.invert(pc.is_in(keys, others)))


def _joined(groups: Sequence[pa.Array]) -> pa.Array:
    return pa.concat_arrays([one.cast(pa.string()) for one in groups]) if groups else _NO_KEYS


def _live(before: Snapshot, partition: str, file_id: str) -> list[BaseFile]:
    return [file for file in before.base_files(partition) if file.file_id == file_id]
