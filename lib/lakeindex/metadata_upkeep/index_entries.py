"""What the record index of the metadata table says, compared with the key columns of the files that it serves.

Hudi itself has lost entries of record indexes (apache/hudi#13996, #19225). A key that has a row and no entry is
taken for a new one, and doubled, by whoever believes the index.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import MetadataTableError
from lakeindex.files.key_columns import StoredColumns, read_record_keys
from lakeindex.files.row_counts import rows_by_footer
from lakeindex.metadata.group_changes import is_partitioned
from lakeindex.metadata.groups import group_numbers
from lakeindex.metadata.indexes.record_index import find_locations, location_of
from lakeindex.metadata.indexes.record_lookup import records_of_layers
from lakeindex.metadata.metadata_table import RECORD_INDEX, scope_of, scope_of_group
from lakeindex.metadata.reading import Layer, MetadataView
from lakeindex.metadata.records import Record
from lakeindex.metadata.slices import FileSlice
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.write.base_file import RECORD_KEY

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
"""Of each of these files; neighbours, which are neighbours in the index as well where a file is sorted."""

Place: TypeAlias = tuple[str, str]
"""A partition path and a file id."""


@dataclass(frozen=True, slots=True)
class WrongEntry:
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
    """What a record index says wrongly of some files: all live ones of the table or, of a partitioned index, of some of
    its partitions. All their keys are read; the entries of one partition, or of all of a global index, are held.

    Raises:
        TableCorruptError: the index, or a file, cannot be read.
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
    """Whether a record index has another number of entries than its files have rows, or says of one of a few keys what
    is not so. What it costs hardly hangs on the number of rows: of a file its footer is read, unless that is cached, of
    the index the ends of its base files, its logs, and blocks with keys of the sample.

    Args:
        files: all live ones of the table or, of a partitioned index, of some of its partitions.
        seed: chooses the sample.
        keeps: the numbers of rows are kept for the next time.

    Raises:
        TableCorruptError: the index, or a file of the sample, cannot be read.
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
    storage, partitioned = view.table.storage, is_partitioned(view.slices(RECORD_INDEX))
    for file in chance.sample(files, min(len(files), _SAMPLED_FILES)):
        stored = StoredColumns(storage, file, None)
        if not stored.row_groups:
            continue
        (keys,) = stored.column(RECORD_KEY, [chance.choice(stored.row_groups)])
        start = chance.randrange(max(len(keys) - _SAMPLED_KEYS, 0) + 1)
        asked = pc.unique(keys.slice(start, _SAMPLED_KEYS).cast(pa.string()))
        found = find_locations(view, asked, file.partition_path if partitioned else None)
        here = {(one.partition, one.file_id) for one in found.locations} <= {(file.partition_path, file.file_id)}
        if not here or len(found.rows) < len(asked):
            return True
    return False


def refusal(name: str, wrong: Sequence[WrongEntry], source: str) -> MetadataTableError:
    """Why a write does not believe a record index.

    Args:
        name: the table's.
        wrong: what is wrong, at least one.
        source: the folder of the index.
    """
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
