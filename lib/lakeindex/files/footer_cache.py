"""Footers of base files, kept in a few side files of the table, so that planning reads those and not every footer.

A base file never changes, so an entry is right as long as the file exists: its key is the file's name and size. The
side files lie under ``.hoodie/.lakeindex/cache/``, which Hudi leaves alone, and are never changed once written::

    <id>-<crc32>.facts.parquet   one row a base file: rows, row groups, key range, problem, where its filter is
    <id>.filters                 the filters, one after another, as bytes (a quarter smaller than their text)
    <id>-<crc32>.rows.parquet    as the facts, but only of rows: who asks for ranges and filters passes it over

A task that read or wrote footers leaves a filters file; then the driver puts what all of them found into one facts
file. Facts are small and read whole; the checksum in the name covers every byte of them, another one each filter.
Filters that lie beside each other are read with one request. It is only a cache: what is missing, damaged or
foreign is passed over, read from the base files again, and replaced. Many facts files are joined into one; the
filters stay where they are.
"""

from __future__ import annotations

import itertools
import uuid
import zlib
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pybase64
from msgspec.structs import replace

from lakeindex.bloom import filter_candidates, usable_filter
from lakeindex.errors import ObjectNotFoundError, StorageError, TableCorruptError
from lakeindex.files.footers import Footer, read_footer, read_shape
from lakeindex.format.file_names import parse_base_file
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.storage import in_parallel
from lakeindex.storage.port import ObjectMeta, Storage

CACHE_FOLDER: Final = ".hoodie/.lakeindex/cache"
_FACTS: Final = ".facts.parquet"
_ROWS: Final = ".rows.parquet"
_FILTERS: Final = ".filters"
_MOST_FACTS_FILES: Final = 24
_VERSIONS_KEPT: Final = 2
_REMEMBERED: Final = 64
_GAP_BYTES: Final = 1_048_576
"""Bytes between two wanted filters that are read along: what a request to an object store costs, about."""
_RUN_BYTES: Final = 33_554_432
"""Most bytes of filters in one request: bounds a task's memory."""
_ORPHAN_MS: Final = 3_600_000
"""Age from which a filters file that no facts file names is of a writer that died before it named it."""

_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("bytes", pa.int64(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
        pa.field("row_group_rows", pa.list_(pa.int64()), nullable=False),
        pa.field("min_key", pa.string()),
        pa.field("max_key", pa.string()),
        pa.field("filter_type", pa.string()),
        pa.field("problem", pa.string()),
        pa.field("filter_path", pa.string()),
        pa.field("filter_start", pa.int64()),
        pa.field("filter_bytes", pa.int64()),
        pa.field("filter_crc32", pa.int64()),
    ]
)


class _FilterPlace(Frozen):
    """Where a filter's bytes are."""

    path: str
    start: int
    length: int
    crc32: int


class CacheEntry(Frozen):
    """What is cached of one base file: small enough to travel from a task to the driver.

    Attributes:
        footer: what its footer says, without filter.
        filter_place: where the filter is; None if it has none.
    """

    partition: str
    name: str
    size: int
    footer: Footer
    filter_place: _FilterPlace | None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.partition, self.name, self.size

    @property
    def path(self) -> str:
        return f"{self.partition}/{self.name}" if self.partition else self.name


_Facts = Mapping[tuple[str, str, int], CacheEntry]
# facts files never change and are named by their content: what was read once in this process stays right
_remembered: OrderedDict[tuple[str, str], _Facts] = OrderedDict()


def _key(file: BaseFile) -> tuple[str, str, int]:
    return file.partition_path, file.name, file.size_bytes


class FooterCache:
    """The footer cache of one table.

    Args:
        only_rows: what is kept says nothing of keys, so that only who asks for rows finds it.
    """

    def __init__(self, storage: Storage, *, only_rows: bool = False) -> None:
        self._storage = storage
        self._suffix = _ROWS if only_rows else _FACTS

    def load(self, files: Sequence[BaseFile], *, tidy: bool = True) -> dict[str, tuple[Footer, str]]:
        """Cached footers of these files, without their filters: path -> (footer, side file that has it).

        Args:
            tidy: join the side files if there are many of them, and delete damaged ones. Readers do not.
        """
        wanted = {_key(file): file for file in files}
        found: dict[str, tuple[Footer, str]] = {}
        listed = self._listed() if wanted else ()
        paths = [one.path for one in listed if one.path.endswith(self._suffix)]
        facts = {path: self._facts(path, mend=tidy) for path in paths}
        if tidy and len(paths) > _MOST_FACTS_FILES:
            joined = self._join(facts, wanted.keys(), listed)
            facts = facts if joined is None else {joined: self._facts(joined)}
        for path, entries in facts.items():
            for key in wanted.keys() & entries.keys():
                found[wanted[key].path] = entries[key].footer, path
        return found

    def add(self, footers: Sequence[tuple[BaseFile, Footer]]) -> str | None:
        """Both steps of keeping footers with their filters: :meth:`keep_filters`, then :meth:`keep_facts`.

        Returns:
            The side file that has them now; None if it could not be written, which is no error.
        """
        return self.keep_facts(self.keep_filters(footers))

    def keep_filters(self, footers: Sequence[tuple[BaseFile, Footer]]) -> tuple[CacheEntry, ...]:
        """Keep the filters of these footers in one side file. Nothing finds them before :meth:`keep_facts`.

        Returns:
            What to give to :meth:`keep_facts`; nothing if they could not be written, which is no error.
        """
        path = f"{CACHE_FOLDER}/{uuid.uuid4().hex}{_FILTERS}"
        entries, blob = _entries_and_filters(footers, path)
        try:
            if blob:
                self._storage.create(path, blob)
        except StorageError:
            return ()
        return tuple(entries)

    def keep_facts(self, entries: Iterable[CacheEntry], instead_of: Iterable[str] = ()) -> str | None:
        """Put entries into a new side file.

        Args:
            entries: what is known now; of two with the same base file the last counts.
            instead_of: side files that name damaged filters of some of them:
                their other entries are taken over, and they are deleted.

        Returns:
            The side file that has them now; None if there are none, or it could not be written, which is no error.
        """
        old = sorted(set(instead_of))
        merged = {key: entry for path in old for key, entry in self._facts(path).items()}
        merged.update({entry.key: entry for entry in entries})
        if not merged:
            return None
        try:
            path = self._write_facts(f"{CACHE_FOLDER}/{uuid.uuid4().hex}", [merged[key] for key in sorted(merged)])
            for one in old:
                self._storage.delete(one)
                _remembered.pop((self._storage.uri, one), None)
        except StorageError:
            return None
        return path

    def keep_only(self, files: Iterable[BaseFile]) -> int:
        """Drop what is kept of other files: those that were cleaned away, of file groups that clustering replaced or of
        partitions that were deleted. How many entries went; 0 also if that failed half-way.

        Filters files of which less than half is needed are written anew.
        """
        wanted = {_key(file) for file in files}
        listed = self._listed()
        facts = {one.path: self._facts(one.path, mend=True) for one in listed if one.path.endswith(self._suffix)}
        entries = {key: entry for found in facts.values() for key, entry in found.items()}
        kept = [entries[key] for key in sorted(entries.keys() & wanted)]
        if len(kept) == len(entries):
            return 0
        try:
            self._replace(facts, self._moved(kept, listed), listed)
        except StorageError:
            return 0
        return len(entries) - len(kept)

    def _moved(self, kept: Sequence[CacheEntry], listed: Sequence[ObjectMeta]) -> list[CacheEntry]:
        """These entries, with their filters out of files that hold little else than what is dropped."""
        needed: Counter[str] = Counter()
        for entry in kept:
            if entry.filter_place is not None:
                needed[entry.filter_place.path] += entry.filter_place.length
        sparse = {one.path for one in listed if 0 < 2 * needed[one.path] < one.size_bytes}
        staying = [one for one in kept if one.filter_place is None or one.filter_place.path not in sparse]
        moving = [one for one in kept if one.filter_place is not None and one.filter_place.path in sparse]
        blobs = {path: self._storage.read(path) for path in sparse}
        places = [(one, one.filter_place) for one in moving if one.filter_place is not None]
        parts = [(one, blobs[at.path][at.start : at.start + at.length]) for one, at in places]
        target, start, moved, whole = f"{CACHE_FOLDER}/{uuid.uuid4().hex}{_FILTERS}", 0, [], []
        for (entry, part), (_, at) in zip(parts, places, strict=True):
            if zlib.crc32(part) == at.crc32 and len(part) == at.length:
                moved.append(replace(entry, filter_place=_FilterPlace(target, start, at.length, at.crc32)))
                whole.append(part)
                start += at.length
        if whole:
            self._storage.create(target, b"".join(whole))
        return sorted([*staying, *moved], key=lambda one: one.key)

    def place_of(self, where: str, file: BaseFile) -> tuple[str, int]:
        """Sorts files as their filters lie in the side files, so that neighbours are read together."""
        entry = self._facts(where).get(_key(file))
        place = None if entry is None else entry.filter_place
        return ("", 0) if place is None else (place.path, place.start)

    def load_filter(self, where: str, file: BaseFile) -> Footer | None:
        """As :meth:`load_filters`, of one file."""
        return next(iter(self.load_filters([(where, file)])))[1]

    def load_filters(self, wanted: Sequence[tuple[str, BaseFile]]) -> Iterator[tuple[BaseFile, Footer | None]]:
        """Cached footers with their filters, those of one side file with as few requests as can be.

        Args:
            wanted: (side file that has it, as :meth:`load` said; the base file).

        Yields:
            In the order of the side files: the base file; its footer, None if that is not there any more or damaged.
            ``filter_text`` is None if the file has no filter.
        """
        placed: list[tuple[_FilterPlace, BaseFile, Footer]] = []
        for where, file in wanted:
            entry = self._facts(where).get(_key(file))
            if entry is None or entry.filter_place is None:
                yield file, None if entry is None else entry.footer
            else:
                placed.append((entry.filter_place, file, entry.footer))
        placed.sort(key=lambda one: (one[0].path, one[0].start))
        for run in _runs([place for place, _, _ in placed]):
            start = placed[run.start][0].start
            raw = self._read_run(placed[run.start][0], placed[run.stop - 1][0])
            for place, file, footer in placed[run.start : run.stop]:
                mine = raw[place.start - start : place.start - start + place.length]
                is_whole = len(mine) == place.length and zlib.crc32(mine) == place.crc32
                yield file, footer.with_filter(pybase64.b64encode(mine)) if is_whole else None

    def _read_run(self, first: _FilterPlace, last: _FilterPlace) -> memoryview:
        try:
            return memoryview(self._storage.read_range(first.path, first.start, last.start + last.length - first.start))
        except StorageError:
            return memoryview(b"")

    def _listed(self) -> tuple[ObjectMeta, ...]:
        try:
            return self._storage.list_folder(CACHE_FOLDER).objects
        except StorageError:
            return ()

    def _facts(self, path: str, *, mend: bool = False) -> _Facts:
        """Entries of one side file; none if it is missing or damaged (``mend``: a damaged one is deleted)."""
        remembered = _remembered.get((self._storage.uri, path))
        if remembered is not None:
            return remembered
        try:
            raw = self._storage.read(path)
        except StorageError:
            return {}
        if not path.endswith(f"-{zlib.crc32(raw):08x}{self._suffix}"):
            if mend:
                self._forget(path)
            return {}
        facts = _read_facts(raw)
        _remembered[self._storage.uri, path] = facts
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
        return facts

    def _forget(self, path: str) -> None:
        try:
            self._storage.delete(path)
        except StorageError:
            return

    def _write_facts(self, name: str, entries: Sequence[CacheEntry]) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(_table(entries), sink, compression="zstd")
        raw = sink.getvalue().to_pybytes()
        path = f"{name}-{zlib.crc32(raw):08x}{self._suffix}"
        self._storage.create(path, raw)
        return path

    def _join(
        self, facts: Mapping[str, _Facts], wanted: Iterable[tuple[str, str, int]], listed: Sequence[ObjectMeta]
    ) -> str | None:
        """Join facts files into one and drop what is no longer needed; its path, None if that failed half-way.

        Of each file group the newest versions stay, and all that are wanted. Someone who still holds the path of a
        dropped side file finds nothing there and reads the footer instead.
        """
        entries = {key: entry for found in facts.values() for key, entry in found.items()}
        try:
            return self._replace(facts, _newest(entries, frozenset(wanted)), listed) or None
        except StorageError:
            return None

    def _replace(self, facts: Mapping[str, _Facts], kept: Sequence[CacheEntry], listed: Sequence[ObjectMeta]) -> str:
        """One facts file instead of these, none for nothing; filters files that nobody names any more go.
        Raises: StorageError.
        """
        named = {entry.filter_place.path for entry in kept if entry.filter_place is not None}
        before = (entry.filter_place for found in facts.values() for entry in found.values())
        dropped = {place.path for place in before if place is not None}
        orphans = _orphans(listed) if self._suffix == _FACTS else set()
        joined = self._write_facts(f"{CACHE_FOLDER}/{uuid.uuid4().hex}", kept) if kept else ""
        for path in [*facts, *sorted((dropped | orphans) - named)]:
            self._storage.delete(path)
        return joined


def _orphans(listed: Sequence[ObjectMeta]) -> set[str]:
    """Filters files that are old enough to be named by now, by the store's own clock."""
    now = max((one.modified_ms for one in listed), default=0)
    return {one.path for one in listed if one.path.endswith(_FILTERS) and one.modified_ms < now - _ORPHAN_MS}


def _runs(places: Sequence[_FilterPlace]) -> Iterator[range]:
    """Runs of sorted places that one request reads."""
    start = 0
    for at in range(1, len(places) + 1):
        if at < len(places):
            first, before, this = places[start], places[at - 1], places[at]
            gap = this.start - before.start - before.length
            whole = this.start + this.length - first.start
            if this.path == first.path and gap <= _GAP_BYTES and whole <= _RUN_BYTES:
                continue
        if at > start:
            yield range(start, at)
        start = at


def _newest(entries: _Facts, wanted: frozenset[tuple[str, str, int]]) -> list[CacheEntry]:
    groups: dict[tuple[str, str], list[tuple[str, CacheEntry]]] = {}
    for entry in entries.values():
        file = parse_base_file(entry.partition, entry.name, entry.size)
        if file is not None:
            groups.setdefault((entry.partition, file.file_id), []).append((file.instant_time, entry))
    kept = []
    for versions in groups.values():
        versions.sort(key=lambda pair: pair[0], reverse=True)
        kept += [e for place, (_, e) in enumerate(versions) if place < _VERSIONS_KEPT or e.key in wanted]
    return sorted(kept, key=lambda entry: entry.key)


def _entries_and_filters(
    footers: Sequence[tuple[BaseFile, Footer]], filters_path: str
) -> tuple[list[CacheEntry], bytes]:
    entries: list[CacheEntry] = []
    parts: list[bytes] = []
    start = 0
    for file, footer in footers:
        place = None
        if footer.filter_text is not None:
            raw = pybase64.b64decode(footer.filter_text)
            place = _FilterPlace(filters_path, start, len(raw), zlib.crc32(raw))
            parts.append(raw)
            start += len(raw)
        entries.append(CacheEntry(file.partition_path, file.name, file.size_bytes, footer.without_filter(), place))
    return entries, b"".join(parts)


def _table(entries: Sequence[CacheEntry]) -> pa.Table:
    footers = [entry.footer for entry in entries]
    places = [entry.filter_place for entry in entries]
    columns = {
        "partition": [entry.partition for entry in entries],
        "file": [entry.name for entry in entries],
        "bytes": [entry.size for entry in entries],
        "rows": [footer.rows for footer in footers],
        "row_group_rows": [footer.row_group_rows for footer in footers],
        "min_key": [footer.min_key for footer in footers],
        "max_key": [footer.max_key for footer in footers],
        "filter_type": [footer.filter_type for footer in footers],
        "problem": [footer.problem for footer in footers],
        "filter_path": [place.path if place else None for place in places],
        "filter_start": [place.start if place else None for place in places],
        "filter_bytes": [place.length if place else None for place in places],
        "filter_crc32": [place.crc32 if place else None for place in places],
    }
    return pa.table([pa.array(columns[field.name], field.type) for field in _SCHEMA], schema=_SCHEMA)


def _read_facts(raw: bytes) -> _Facts:
    try:
        table = pq.ParquetFile(pa.BufferReader(raw)).read(use_threads=False)  # read_table goes by pyarrow.dataset
    except (pa.ArrowException, OSError):
        return {}
    if not table.schema.equals(_SCHEMA):
        return {}  # written by another release
    entries: dict[tuple[str, str, int], CacheEntry] = {}
    # column by column: a dictionary a row would take most of the time
    for partition, name, size, rows, groups, low, high, kind, problem, *place in zip(
        *(_values(column) for column in table.columns), strict=True
    ):
        footer = Footer(rows, groups, low, high, filter_type=kind, problem=problem)
        where = None if place[0] is None else _FilterPlace(*place)
        entries[partition, name, size] = CacheEntry(partition, name, size, footer, where)
    return entries


def _values(column: pa.ChunkedArray) -> list[Any]:
    """Python values of a column, lists as tuples."""
    if not pa.types.is_list(column.type):
        return column.to_pylist()
    lists = column.combine_chunks()
    offsets, items = lists.offsets.to_pylist(), lists.values.to_pylist()
    return [tuple(items[start:stop]) for start, stop in itertools.pairwise(offsets)]


_WORTH_KEEPING: Final = 32
"""Files; to list, read and write what is kept takes a handful of requests."""


class RowCount(Frozen):
    """Rows of some base files.

    Attributes:
        rows: of those whose footers can be read.
    """

    rows: int
    unread: tuple[str, ...] = ()

    @property
    def notes(self) -> tuple[str, ...]:
        """What whoever reads the count should know."""
        if not self.unread:
            return ()
        return (f"rows of {len(self.unread)} replaced files are not counted, they cannot be read: {self.unread[0]}",)


def count_rows(storage: Storage, files: Sequence[BaseFile]) -> RowCount:
    """Rows of base files; footers that the footer cache has are not read. A damaged file is no error:
    whoever takes it out of the table may do so because it is damaged.
    """
    counts = rows_by_footer(storage, files)
    unread = tuple(file.path for file, count in zip(files, counts, strict=True) if count is None)
    return RowCount(sum(count or 0 for count in counts), unread)


def rows_by_footer(storage: Storage, files: Sequence[BaseFile], *, keeps: bool = False) -> list[int | None]:
    """The same of each file; None of a damaged one.

    Args:
        keeps: what is read is kept for the next time, as soon as it saves more requests than it costs.
    """
    known = FooterCache(storage).load(files, tidy=False)
    cache = FooterCache(storage, only_rows=True)
    if len(files) - len(known) > _WORTH_KEEPING:
        known |= cache.load([file for file in files if file.path not in known], tidy=keeps)

    def shape_of(file: BaseFile) -> Footer | None:
        try:
            shape = read_shape(storage, file)
        except (TableCorruptError, ObjectNotFoundError):
            return None
        return Footer(shape.rows, shape.row_group_rows)

    unknown = [file for file in files if file.path not in known]
    found = dict(zip(unknown, in_parallel(storage.uri, shape_of, unknown), strict=True))
    if keeps and len(unknown) > _WORTH_KEEPING:
        cache.add([(file, footer) for file, footer in found.items() if footer is not None])
    footers = (known[file.path][0] if file.path in known else found[file] for file in files)
    return [None if footer is None else footer.rows for footer in footers]


def rows_that_may_be_in(storage: Storage, file: BaseFile, keys: pa.Array) -> np.ndarray:
    """Rows of ``keys`` (sorted by UTF-8 bytes) that a file may hold: int64, ascending."""
    footer = _cached_footer(storage, file)
    slices = prune(keys, [KeyRange(footer.min_key, footer.max_key)])
    first, last = int(slices.from_row[0]), int(slices.to_row[0])
    bloom = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
    return filter_candidates(bloom, string_buffers(keys), first, last)


def _cached_footer(storage: Storage, file: BaseFile) -> Footer:
    cache = FooterCache(storage)
    known = cache.load([file]).get(file.path)
    found = None if known is None else cache.load_filter(known[1], file)
    return found if found is not None else read_footer(storage, file)
