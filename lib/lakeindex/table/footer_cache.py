"""Footers of base files, kept in a few side files of the table, so that planning reads those and not every footer.

A base file never changes, so an entry is right as long as the file exists: its key is the file's name and size. The
side files lie under ``.hoodie/.lakeindex/cache/``, which Hudi leaves alone, and are never changed once written::

    <id>-<crc32>.facts.parquet   one row a base file: rows, row groups, key range, problem, where its filter is
    <id>.filters                 the filters, one after another, as bytes (a quarter smaller than their text)

A task that read footers adds one of each, filters first. Facts are small and read whole; the checksum in the name
covers every byte of them, another one each filter. It is only a cache: what is missing, damaged or foreign is passed
over and read from the base files again. Many facts files are joined into one; the filters stay where they are.
"""

from __future__ import annotations

import binascii
import uuid
import zlib
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import StorageError
from lakeindex.format.file_names import parse_base_file
from lakeindex.model import BaseFile
from lakeindex.storage.protocol import Storage
from lakeindex.table.footers import Footer

CACHE_FOLDER: Final = ".hoodie/.lakeindex/cache"
_FACTS: Final = ".facts.parquet"
_FILTERS: Final = ".filters"
_MOST_FACTS_FILES: Final = 24
_VERSIONS_KEPT: Final = 2
_REMEMBERED: Final = 64

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


@dataclass(frozen=True, slots=True)
class _FilterPlace:
    """Where a filter's bytes are."""

    path: str
    start: int
    length: int
    crc32: int


@dataclass(frozen=True, slots=True)
class _Entry:
    """What is cached of one base file."""

    partition: str
    name: str
    size: int
    footer: Footer
    filter_place: _FilterPlace | None

    @property
    def key(self) -> tuple[str, str, int]:
        return self.partition, self.name, self.size


_Facts = Mapping[tuple[str, str, int], _Entry]
# facts files never change and are named by their content: what was read once in this process stays right
_remembered: OrderedDict[tuple[str, str], _Facts] = OrderedDict()


def _key(file: BaseFile) -> tuple[str, str, int]:
    return file.partition_path, file.name, file.size_bytes


class FooterCache:
    """The footer cache of one table."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage

    def load(self, files: Sequence[BaseFile]) -> dict[str, tuple[Footer, str]]:
        """Cached footers of these files, without their filters: path -> (footer, side file that has it).

        Files that are not cached are left out. Joins the side files if there are many of them.
        """
        wanted = {_key(file): file for file in files}
        found: dict[str, tuple[Footer, str]] = {}
        paths = self._facts_paths()
        facts = {path: self._facts(path) for path in paths} if wanted else {}
        if len(paths) > _MOST_FACTS_FILES:
            joined = self._join(facts, wanted.keys())
            facts = facts if joined is None else {joined: self._facts(joined)}
        for path, entries in facts.items():
            for key in wanted.keys() & entries.keys():
                found[wanted[key].path] = entries[key].footer, path
        return found

    def add(self, footers: Sequence[tuple[BaseFile, Footer]]) -> str | None:
        """Keep newly read footers with their filters.

        Returns:
            The side file that has them now; None if it could not be written, which is no error.
        """
        if not footers:
            return None
        name = f"{CACHE_FOLDER}/{uuid.uuid4().hex}"
        entries, blob = _entries_and_filters(footers, name + _FILTERS)
        try:
            if blob:
                self._storage.create(name + _FILTERS, blob)
            return self._write_facts(name, entries)
        except StorageError:
            return None

    def load_filter(self, where: str, file: BaseFile) -> Footer | None:
        """The cached footer of a file with its filter.

        Args:
            where: the side file that has it, as :meth:`load` or :meth:`add` said.
            file: the base file.

        Returns:
            None if it is not there any more or damaged; ``filter_text`` is None if the file has no filter.
        """
        entry = self._facts(where).get(_key(file))
        if entry is None:
            return None
        place = entry.filter_place
        if place is None:
            return entry.footer
        try:
            raw = self._storage.read_range(place.path, place.start, place.length)
        except StorageError:
            return None
        if len(raw) != place.length or zlib.crc32(raw) != place.crc32:
            return None
        return entry.footer.with_filter(binascii.b2a_base64(raw, newline=False))

    def _facts_paths(self) -> list[str]:
        try:
            listed = self._storage.list_folder(CACHE_FOLDER).objects
        except StorageError:
            return []
        return [found.path for found in listed if found.path.endswith(_FACTS)]

    def _facts(self, path: str) -> _Facts:
        """Entries of one side file; none if it is missing or damaged."""
        remembered = _remembered.get((self._storage.uri, path))
        if remembered is not None:
            return remembered
        try:
            raw = self._storage.read(path)
        except StorageError:
            return {}
        if not path.endswith(f"-{zlib.crc32(raw):08x}{_FACTS}"):
            return {}
        facts = _read_facts(raw)
        _remembered[self._storage.uri, path] = facts
        while len(_remembered) > _REMEMBERED:
            _remembered.popitem(last=False)
        return facts

    def _write_facts(self, name: str, entries: Sequence[_Entry]) -> str:
        sink = pa.BufferOutputStream()
        pq.write_table(_table(entries), sink, compression="zstd")
        raw = sink.getvalue().to_pybytes()
        path = f"{name}-{zlib.crc32(raw):08x}{_FACTS}"
        self._storage.create(path, raw)
        return path

    def _join(self, facts: Mapping[str, _Facts], wanted: Iterable[tuple[str, str, int]]) -> str | None:
        """Join facts files into one and drop what is no longer needed; its path, None if that failed half-way.

        Of each file group the newest versions stay, and all that are wanted. Someone who still holds the path of a
        dropped side file finds nothing there and reads the footer instead.
        """
        entries = {key: entry for found in facts.values() for key, entry in found.items()}
        kept = _newest(entries, frozenset(wanted))
        filters = {entry.filter_place.path for entry in kept if entry.filter_place is not None}
        try:
            joined = self._write_facts(f"{CACHE_FOLDER}/{uuid.uuid4().hex}", kept)
            dropped = {entry.filter_place.path for entry in entries.values() if entry.filter_place is not None}
            for path in [*facts, *sorted(dropped - filters)]:
                self._storage.delete(path)
        except StorageError:
            return None
        return joined


def _newest(entries: _Facts, wanted: frozenset[tuple[str, str, int]]) -> list[_Entry]:
    groups: dict[tuple[str, str], list[tuple[str, _Entry]]] = {}
    for entry in entries.values():
        file = parse_base_file(entry.partition, entry.name, entry.size)
        if file is not None:
            groups.setdefault((entry.partition, file.file_id), []).append((file.instant_time, entry))
    kept = []
    for versions in groups.values():
        versions.sort(key=lambda pair: pair[0], reverse=True)
        kept += [e for place, (_, e) in enumerate(versions) if place < _VERSIONS_KEPT or e.key in wanted]
    return sorted(kept, key=lambda entry: entry.key)


def _entries_and_filters(footers: Sequence[tuple[BaseFile, Footer]], filters_path: str) -> tuple[list[_Entry], bytes]:
    entries: list[_Entry] = []
    parts: list[bytes] = []
    start = 0
    for file, footer in footers:
        place = None
        if footer.filter_text is not None:
            raw = binascii.a2b_base64(footer.filter_text)
            place = _FilterPlace(filters_path, start, len(raw), zlib.crc32(raw))
            parts.append(raw)
            start += len(raw)
        entries.append(_Entry(file.partition_path, file.name, file.size_bytes, footer, place))
    return entries, b"".join(parts)


def _table(entries: Sequence[_Entry]) -> pa.Table:
    records = [
        {
            "partition": entry.partition,
            "file": entry.name,
            "bytes": entry.size,
            "rows": entry.footer.rows,
            "row_group_rows": list(entry.footer.row_group_rows),
            "min_key": entry.footer.min_key,
            "max_key": entry.footer.max_key,
            "filter_type": entry.footer.filter_type,
            "problem": entry.footer.problem,
            "filter_path": entry.filter_place.path if entry.filter_place else None,
            "filter_start": entry.filter_place.start if entry.filter_place else None,
            "filter_bytes": entry.filter_place.length if entry.filter_place else None,
            "filter_crc32": entry.filter_place.crc32 if entry.filter_place else None,
        }
        for entry in entries
    ]
    return pa.Table.from_pylist(records, schema=_SCHEMA)


def _read_facts(raw: bytes) -> _Facts:
    try:
        table = pq.read_table(pa.BufferReader(raw))
    except (pa.ArrowException, OSError):
        return {}
    if not table.schema.equals(_SCHEMA):
        return {}  # written by another release
    entries: dict[tuple[str, str, int], _Entry] = {}
    for record in table.to_pylist():
        place = None
        if record["filter_path"] is not None:
            place = _FilterPlace(
                record["filter_path"], record["filter_start"], record["filter_bytes"], record["filter_crc32"]
            )
        footer = Footer(
            rows=record["rows"],
            row_group_rows=tuple(record["row_group_rows"]),
            min_key=record["min_key"],
            max_key=record["max_key"],
            filter_type=record["filter_type"],
            problem=record["problem"],
        )
        entry = _Entry(record["partition"], record["file"], record["bytes"], footer, place)
        entries[entry.key] = entry
    return entries
