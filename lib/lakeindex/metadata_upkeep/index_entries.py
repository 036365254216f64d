"""The record index of the metadata table: which record keys a commit put somewhere or took away, and whether the index
says what the key columns of the files hold.

What a commit moved follows from the commit alone, from its files and from those that they replaced, so that whoever
finishes the commit of a writer that died finds the same. A file into which nothing was inserted and out of which
nothing was taken is not read. Of the others, only rows of this commit can be new, by their ``_hoodie_commit_time``: row
groups without one, by their statistics, are not read, and where all rows of this commit are new, the file before is
not, either.

Hudi itself has lost entries of record indexes (apache/hudi#13996, #19225). A key that has a row and no entry is
taken for a new one, and doubled, by whoever believes the index.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field
from msgspec.structs import replace

from lakeindex.errors import REPAIR_KEYS, InvariantError, MetadataTableError
from lakeindex.files.file_system_view import Snapshot, base_files_in
from lakeindex.files.footer_cache import rows_by_footer
from lakeindex.files.key_columns import StoredColumns, read_record_keys
from lakeindex.format.commit_metadata import CommitMetadata, WriteStat
from lakeindex.format.file_names import parse_base_file, parse_base_path
from lakeindex.frozen import Frozen
from lakeindex.metadata.metadata_changes import KeyRun, PartitionChange, is_partitioned
from lakeindex.metadata.metadata_keys import group_numbers
from lakeindex.metadata.metadata_records import Record
from lakeindex.metadata.metadata_table import RECORD_INDEX, scope_of, scope_of_group
from lakeindex.metadata.metadata_view import Layer, MetadataView
from lakeindex.metadata.record_index import (
    RecordLocation,
    find_locations,
    find_records,
    location_of,
    location_record,
    records_of_layers,
)
from lakeindex.metadata.slices import FileSlice
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import Storage
from lakeindex.timeline.clock import instant_ms
from lakeindex.write.base_file import COMMIT_TIME, RECORD_KEY

_NO_KEYS: Final = pa.array([], pa.string())


class MovedKeys(Frozen):
    """Record keys of one file group.

    Attributes:
        put: keys that are in it now.
        gone: keys that were in it before.
    """

    file: BaseFile
    put: pa.Array = field(default_factory=lambda: _NO_KEYS)
    gone: pa.Array = field(default_factory=lambda: _NO_KEYS)


def moved_keys(storage: Storage, before: Snapshot, commit: CommitMetadata) -> list[MovedKeys]:
    """What keys a commit moved.

    Args:
        before: the table as it was when the commit was decided.
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
    """Where the keys of commits are once they are taken back.

    Args:
        storage: the table's folder, in which the commits' files still are.
        everywhere: a commit replaced file groups, and nothing says which any more: every key is put where it is.

    Raises:
        TableCorruptError: a file cannot be read.
    """
    wanted = frozenset(paths)
    there = base_files_in(storage, {path.rpartition("/")[0] for path in wanted})
    slices: dict[tuple[str, str], list[BaseFile]] = defaultdict(list)
    for one in there:
        if one.path in wanted:
            slices[one.partition_path, one.file_id].append(one)
    live = {(file.partition_path, file.file_id): file for file in before.base_files_all()}

    def find(files: Sequence[BaseFile]) -> MovedKeys:
        keys = [read_record_keys(storage, one) for one in files]
        new, previous = pc.unique(pa.concat_arrays(keys)), live.get((files[0].partition_path, files[0].file_id))
        if previous is None:
            return MovedKeys(files[0], gone=new)
        stayed = old = read_record_keys(storage, previous)
        for one in keys:
            stayed = stayed.filter(pc.is_in(stayed, one))
        return MovedKeys(previous, put=_without(old, stayed), gone=_without(new, old))

    undone = in_parallel(storage.uri, find, slices.values())
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
        moved: keys by file group. If a key is put in one and gone from another, it is where it was put.

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


MISSING: Final = "missing"
STALE: Final = "stale"
MISPLACED: Final = "misplaced"
DOUBLED: Final = "doubled"
COPY: Final = "copy"
ENTRY_KINDS: Final = (MISSING, STALE, MISPLACED, DOUBLED, COPY)

BUILD_ANEW: Final = "`lakeindex metadata build TABLE --partition record_index` makes it anew"

_SEVERAL: Final = 2
_SAMPLED_FILES: Final = 4
_SAMPLED_KEYS: Final = 64
"""Of each of these files: keys of few file groups of the index, and neighbours, which are in few of its blocks then."""

Place: TypeAlias = tuple[str, str]
"""A partition path and a file id."""


class WrongEntry(Frozen):
    """An entry of a record index that is wrong, or is not there.

    Attributes:
        kind: ``missing``: a stored key has no entry; ``misplaced``: its entry names a file group that it is not in;
            ``stale``: an entry is of no stored key; ``doubled``: an entry stands in a file group of the index in which
            nobody looks for the key; ``copy``: the key has another row, of which one entry can say nothing.
        said: where the index has it; None: nowhere.
        stored: where it is stored; None: nowhere.
        group: the file group of the index in which the entry is, or should be.
    """

    kind: str
    key: str
    said: Place | None
    stored: Place | None
    group: str


def wrong_entries(view: MetadataView, files: Sequence[BaseFile]) -> Iterator[WrongEntry]:
    """What a record index says wrong about some files: all live ones of the table or, of a partitioned index, of some
    of its partitions. All their keys are read; the entries of one partition, or of all of a global index, are held.
    """
    slices = view.slices(RECORD_INDEX)
    by_scope: dict[str | None, list[BaseFile]] = defaultdict(list)
    scoped = is_partitioned(slices)
    for file in files:
        by_scope[file.partition_path if scoped else None].append(file)
    if not scoped:
        by_scope.setdefault(None, [])
    for scope, mine in by_scope.items():
        yield from _wrong_in(view, [one for one in slices if one.is_of(scope)], mine)


def entries_elsewhere(view: MetadataView, files: Iterable[BaseFile]) -> Iterator[WrongEntry]:
    """Entries of a partitioned index of partitions in which there is no file: each is stale."""
    partitions = {file.partition_path for file in files}
    slices = view.slices(RECORD_INDEX)
    rest = [one for one in slices if is_partitioned(slices) and not any(one.is_of(path) for path in partitions)]
    yield from _wrong_in(view, rest, [], is_split=False)


def _wrong_in(
    view: MetadataView, groups: Sequence[FileSlice], files: Sequence[BaseFile], *, is_split: bool = True
) -> Iterator[WrongEntry]:
    """Of one scope, in which a key has one place.

    Args:
        groups: file groups of the index, by their numbers.
        files: those with the keys.
        is_split: the keys are spread over the groups by their hash.
    """
    storage, source = view.table.storage, view.table.folder(RECORD_INDEX)
    held = [_places(one, source) for one in in_parallel(storage.uri, view.records, groups)]
    keys = in_parallel(storage.uri, lambda one: read_record_keys(storage, one), files)
    stored = _Stored(files, keys, len(groups))
    strays = list(_strays(held, groups)) if is_split else []
    places = stored.places_of([key for key, _, _, _ in strays])
    for key, said, group, is_second in strays:
        kind = DOUBLED if is_second else MISPLACED if key in places else STALE
        yield WrongEntry(kind, key, said, places.get(key), group)
    told = {key for key, _, _, is_second in strays if not is_second}
    for number, entries in enumerate(held or [{}]):
        group = groups[number].file_id if groups else ""
        for key, here in stored.of_group(number):
            entry = entries.pop(key, None)
            if entry not in here and (entry is not None or key not in told):
                yield WrongEntry(MISSING if entry is None else MISPLACED, key, entry, here[0], group)
            copies = list(here)
            copies.remove(entry if entry in here else here[0])
            yield from (WrongEntry(COPY, key, entry, one, group) for one in copies)
        yield from (WrongEntry(STALE, key, entry, None, group) for key, entry in entries.items())


def keys_said(view: MetadataView, groups: Collection[Place]) -> dict[Place, list[str]]:
    """Keys that a record index has in some file groups. Raises: TableCorruptError: it cannot be read."""
    found: dict[Place, list[str]] = {group: [] for group in groups}
    for one in view.slices(RECORD_INDEX):
        for key, place in _places(view.records(one), view.table.folder(RECORD_INDEX)).items():
            if place in found:
                found[place].append(key)
    return found


def _places(records: Mapping[str, Record], source: str) -> dict[str, Place]:
    """Where entries say that their keys are. Many keys share a record, which is made into a place once."""
    known: dict[int, Place] = {}
    found: dict[str, Place] = {}
    for key, record in records.items():
        place = known.get(id(record))
        if place is None:
            location = location_of(record, source)
            place = known[id(record)] = (location.partition, location.file_id)
        found[key] = place
    return found


def _strays(held: Sequence[dict[str, Place]], groups: Sequence[FileSlice]) -> Iterator[tuple[str, Place, str, bool]]:
    """Entries in another file group than their keys belong to, which are taken out: the key, where it is said to be,
    the file group, and whether there is an entry where it belongs.
    """
    if len(held) < _SEVERAL:
        return
    for number, (said, group) in enumerate(zip(held, groups, strict=True)):
        keys = pa.array(said, pa.string())
        numbers = group_numbers(keys, len(held))
        for at in (numbers != number).nonzero()[0]:
            key = keys[at].as_py()
            yield key, said.pop(key), group.file_id, key in held[numbers[at]]


class _Stored:
    """Keys of files, by the file group of an index that they belong to."""

    def __init__(self, files: Sequence[BaseFile], keys: Sequence[pa.Array], groups: int) -> None:
        self._places = [(file.partition_path, file.file_id) for file in files]
        self._keys = keys
        self._numbers = [group_numbers(some, groups) if groups > 1 else None for some in keys]

    def of_group(self, number: int) -> Iterator[tuple[str, tuple[Place, ...]]]:
        """Each key, and where it is stored; in a place twice if it has two rows there."""
        found: dict[str, tuple[Place, ...]] = {}
        for place, keys, numbers in zip(self._places, self._keys, self._numbers, strict=True):
            mine = keys if numbers is None else keys.filter(pa.array(numbers == number))
            here = (place,)
            for key in mine.to_pylist():
                before = found.get(key)
                found[key] = here if before is None else (*before, place)
        yield from found.items()

    def places_of(self, keys: Sequence[str]) -> dict[str, Place]:
        """Where some keys are stored; those that are nowhere are left out."""
        wanted = pa.array(keys, pa.string())
        found: dict[str, Place] = {}
        for place, some in zip(self._places, self._keys, strict=True):
            there = some.filter(pc.is_in(some, wanted)) if keys else wanted
            found |= dict.fromkeys(there.to_pylist(), place)
        return found


def may_be_wrong(view: MetadataView, files: Sequence[BaseFile], seed: str, *, keeps: bool = False) -> bool:
    """Whether a record index has another number of entries than its files have rows, or is wrong about one of a few
    keys. The cost hardly depends on the number of rows: the footer of each file is read, unless it is cached, and of
    the index the ends of its base files, its logs, and blocks with keys of the sample.

    Args:
        files: all live ones of the table or, of a partitioned index, of some of its partitions.
        seed: chooses the sample.
        keeps: the numbers of rows are kept for the next time.
    """
    scoped, uri = is_partitioned(view.slices(RECORD_INDEX)), view.table.storage.uri
    rows: dict[str | None, int | None] = {} if scoped else {scope_of(None): 0}
    for file, count in zip(files, rows_by_footer(view.table.storage, files, keeps=keeps), strict=True):
        scope = scope_of(file.partition_path if scoped else None)
        before = rows.get(scope, 0)
        rows[scope] = None if before is None or count is None else before + count  # a damaged file is no evidence
    odd = {scope for scope, count in rows.items() if count is not None}
    for count_entries in (_most_likely_count, _count):
        groups = [one for one in view.slices(RECORD_INDEX) if scope_of_group(one.file_id, RECORD_INDEX) in odd]
        entries = Counter[str | None]()
        for group, number in zip(groups, in_parallel(uri, partial(count_entries, view), groups), strict=True):
            entries[scope_of_group(group.file_id, RECORD_INDEX)] += number
        odd = {scope for scope in odd if entries[scope] != rows[scope]}
    return bool(odd) or _is_sample_wrong(view, files, random.Random(seed))  # noqa: S311 - which rows are looked at


def _most_likely_count(view: MetadataView, one: FileSlice) -> int:
    """How many keys have an entry in a file group, if its logs put new keys and take away others. Where they do not, a
    number that is right all the same is as unlikely as a key that is lost beside one that should be.
    """
    layers = list(view.layers(one))
    return sum(-len(layer.gone) if layer.file is None else layer.file.entry_count for layer in layers)


def _count(view: MetadataView, one: FileSlice) -> int:
    """How many keys have an entry in a file group. Of what logs name it is looked up whether the base file has it."""
    base = None if one.base is None else view.base(one)
    last: dict[str, bool] = {}
    for layer in view.layers(replace(one, base=None)):
        if layer.file is None:
            last |= dict.fromkeys(layer.gone, False)
        else:
            last |= dict.fromkeys((key.decode() for key, _ in layer.file.entries()), True)
    count = sum(last.values())
    if base is None:
        return count
    if last:
        keys = pa.array(last, pa.string())
        layer = Layer(base.source, base, base.schema or "")
        count -= len(records_of_layers([layer], keys.take(pc.sort_indices(keys))).rows)
    return count + base.entry_count


def _is_sample_wrong(view: MetadataView, files: Sequence[BaseFile], chance: random.Random) -> bool:
    storage, groups = view.table.storage, view.slices(RECORD_INDEX)
    scoped = is_partitioned(groups)
    for file in chance.sample(files, min(len(files), _SAMPLED_FILES)):
        stored = StoredColumns(storage, file, None)
        if not stored.row_groups:
            continue
        keys = _joined(stored.column(RECORD_KEY, [chance.choice(stored.row_groups)]))
        scope = file.partition_path if scoped else None
        count = sum(one.is_of(scope) for one in groups)
        if len(keys) and count > 1:
            numbers = group_numbers(keys, count)
            numbers = (numbers - chance.choice(numbers)) % count
            enough = np.searchsorted(np.bincount(numbers, minlength=count).cumsum(), _SAMPLED_KEYS)
            keys = keys.filter(pa.array(numbers <= enough))
        start = chance.randrange(max(len(keys) - _SAMPLED_KEYS, 0) + 1)
        asked = pc.unique(keys.slice(start, _SAMPLED_KEYS))
        found = find_locations(view, asked, scope)
        here = {(one.partition, one.file_id) for one in found.locations} <= {(file.partition_path, file.file_id)}
        if not here or len(found.rows) < len(asked):
            return True
    return False


def refusal(name: str, wrong: Sequence[WrongEntry], source: str) -> MetadataTableError:
    """Why a write does not believe a record index."""
    counts = Counter(one.kind for one in wrong)
    said = ", ".join(f"{counts[kind]:,} {kind}" for kind in ENTRY_KINDS if counts[kind])
    places = Counter(place for one in wrong if (place := one.stored or one.said) is not None)
    (partition, group), most = places.most_common(1)[0]
    first = next(one for one in wrong if (one.stored or one.said) == (partition, group))
    return MetadataTableError(
        f"the record index of table {name} does not say what its files hold: {said} entries, {most:,} of them of file "
        f"group {group} of partition {partition!r}, of key {first.key!r} for example; who believes it doubles rows",
        culprit=source,
        hint=f"`lakeindex metadata verify TABLE` says more; {BUILD_ANEW}",
    )
