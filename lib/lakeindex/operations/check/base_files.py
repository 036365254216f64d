"""Check one base file: footer, filter and range against every key, meta columns, keys made anew from the columns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.bloom import BloomFilter, FilterProblem, marks, parse_filter
from lakeindex.errors import LakeIndexError, ObjectNotFoundError, SchemaMismatchError, TableCorruptError
from lakeindex.files.footers import parse_shape, read_footer_bytes
from lakeindex.format.instants import comparable
from lakeindex.hashing.arrow import plain_strings
from lakeindex.hashing.java_order import java_min_max, java_order_key
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile, IndexSpec
from lakeindex.operations.check.hashed_keys import KeyHashes, hashes_of, save_hashes
from lakeindex.operations.check.lost_columns import lost_columns
from lakeindex.operations.check.page_checks import against_digest
from lakeindex.operations.check.violations import Broken, Checked, Findings, Violation, is_damage
from lakeindex.operations.rows.aligned_rows import align, damaged, open_base_file, read_row_group, row_schema
from lakeindex.operations.written_slices import WrittenSlice
from lakeindex.parquet.footer_text import footer_text
from lakeindex.parquet.read_pages import read_column, read_groups
from lakeindex.table.spelling.stored_keys import difference
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline
from lakeindex.write.base_file import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from lakeindex.write.columns import leaves_with_nan
from lakeindex.write.keys.keys import KeyGenerator, KeySpec
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.virtual_keys import VirtualKeys

_HINT: Final = "restore the file, or roll back the commit that wrote it"
_REWRITE: Final = "the rows themselves are readable; upserting the key again rewrites its file"


@dataclass(frozen=True)
class FileTask:
    """One live base file to check.

    Attributes:
        uri: the table.
        file: the file as listed.
        written: what its commit says; None if it was archived.
        timeline: which instants are visible.
        schema: the table's columns.
        keys: how keys are made; None if they are not to be made anew.
        virtual: the same, of a table whose rows do not store them; None: they do, or it is not known.
        stores_keys: rows have meta columns.
        may_lie_elsewhere: rows may lie in another partition than their columns say: under a global index an update
            can leave a row where it is (``hoodie.bloom.index.update.partition.path=false``).
        hashes: where to leave the hashes of the file's keys.
        index: the index in force, if there is one; one that places keys is asked whether each is where it belongs.
        columns: the columns that the table had when we wrote the file; empty if that is not known.
    """

    uri: str
    file: BaseFile
    written: WrittenSlice | None
    timeline: Timeline
    schema: pa.Schema
    keys: KeySpec | None
    may_lie_elsewhere: bool
    hashes: Path
    index: IndexSpec | None = None
    columns: frozenset[str] = frozenset()
    virtual: VirtualKeys | None = None
    stores_keys: bool = True


def check_file(task: FileTask) -> Findings:
    """Check one file; every row group of it is decoded, one at a time."""
    violations = list(_against_commit(task))
    try:
        store = storage_at(task.uri)
        raw = read_footer_bytes(store, task.file)
        parse_shape(raw, task.file)  # a footer that contradicts itself or the file
        violations += against_digest(task.file, raw, None if task.written is None else task.written.digest)
        source = open_base_file(store, task.file)
        violations += lost_columns(task.file.path, source.schema_arrow.names, task.columns)
        whole = _WholeFile(task, source, raw)
        for group in range(source.num_row_groups):
            whole.add(group)
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        violations.append(Violation.of(Broken.FILE, error, task.file.path))
        return Findings(tuple(violations), (), Checked(files=1, bytes=task.file.size_bytes))
    save_hashes(task.hashes, whole.hashes)
    return whole.findings(violations)


def _against_commit(task: FileTask) -> Iterator[Violation]:
    written, file = task.written, task.file
    if written is not None and written.stat.file_size_bytes not in (0, file.size_bytes):
        yield Violation(
            Broken.FILE,
            file.path,
            f"{file.path} has {file.size_bytes} bytes, its commit {written.instant.time} says "
            f"{written.stat.file_size_bytes}",
            _HINT,
        )


class _WholeFile:
    """What is learnt of a file, row group by row group."""

    def __init__(self, task: FileTask, source: pq.ParquetFile, footer: bytes) -> None:
        self._task = task
        self._source = source
        self._footer = footer
        self._text = footer_text(footer, source.metadata.num_columns, source.num_row_groups)
        self._schema = row_schema(task.schema)
        self._generator = None if task.keys is None else KeyGenerator(task.keys)
        self._entries = _text_entries(source.metadata)
        self._filter = self._parse_filter()
        self._homes = None if task.index is None else index_for(task.index).homes
        self._rows = 0
        self._recomputed = 0
        self._ends: tuple[str, str] | None = None
        self._found: dict[tuple[Broken, str], Violation] = {}
        self._notes: list[str] = []
        self.hashes: list[KeyHashes] = []
        if missing := [name for name in META_COLUMNS if name not in source.schema_arrow.names]:
            raise damaged(task.file, f"it has no column {missing[0]}")

    def add(self, group: int) -> None:
        """Check one row group. Raises: TableCorruptError."""
        stored = read_row_group(self._source, group, self._task.file)
        self._check_nan(group, stored)
        rows = align(stored, self._task.file, self._schema)
        self._rows += rows.num_rows
        if self._task.stores_keys:
            self._check_meta(rows)
        keys = self._keys(stored, rows)
        self._check_home(keys)
        self.hashes.append(hashes_of(keys))
        self._check_range_and_filter(keys)
        self._check_keys(rows)

    def _keys(self, stored: pa.Table, rows: pa.Table) -> pa.Array:
        """Record keys of a row group, without those that are missing."""
        if self._task.stores_keys:
            return plain_strings(rows.column(RECORD_KEY)).drop_null()
        if self._task.virtual is None:
            return pa.array([], pa.string())
        return self._task.virtual.of(stored, self._task.file.path)

    def findings(self, before: list[Violation]) -> Findings:
        """Everything that was found."""
        violations = [*before, *self._against_stats(), *self._found.values()]
        checked = Checked(
            files=1,
            rows=self._rows,
            bytes=self._task.file.size_bytes,
            filters=int(isinstance(self._filter, BloomFilter)),
            ranges=int(self._ends is not None and marks.MIN_KEY in self._entries),
            keys_recomputed=self._recomputed,
        )
        return Findings(tuple(violations), tuple(self._notes), checked)

    def _say(self, kind: Broken, what: str, message: str, hint: str = _HINT) -> None:
        """Report the first of each thing that is wrong: one damage shows in many rows."""
        path = self._task.file.path
        self._found.setdefault((kind, what), Violation(kind, path, f"{path}: {message}", hint))

    def _parse_filter(self) -> BloomFilter | FilterProblem | None:
        text = self._entries.get(marks.FILTER) or self._entries.get(marks.OLD_FILTER)
        if text is None:
            return None
        return parse_filter(text, self._entries.get(marks.FILTER_TYPE), self._source.metadata.num_rows)

    def _against_stats(self) -> Iterator[Violation]:
        path, written = self._task.file.path, self._task.written
        if written is not None and written.stat.num_writes != self._rows:
            yield Violation(
                Broken.ROWS,
                path,
                f"{path} has {self._rows} rows, its commit {written.instant.time} says {written.stat.num_writes}",
                _HINT,
            )
        if isinstance(self._filter, FilterProblem):
            yield Violation(Broken.FILTER, path, f"{path}: {self._filter.reason}", _REWRITE)
        mark = marks.parse_mark(self._entries.get(marks.MARK))
        if mark is not None and not self._mark_agrees(mark):
            yield Violation(
                Broken.FOOTER, path, f"{path}: filter or key range do not agree with their checksum", _REWRITE
            )

    def _mark_agrees(self, mark: marks.KeysMark) -> bool:
        texts = [self._entries.get(name) for name in (marks.FILTER, marks.MIN_KEY, marks.MAX_KEY)]
        text, low, high = texts
        if text is None or low is None or high is None:
            return False
        return mark.crc32 == marks.keys_checksum(text.encode("utf-8", "replace"), low, high)

    def _check_meta(self, rows: pa.Table) -> None:
        for name in META_COLUMNS:
            nulls = rows.column(name).null_count
            if nulls:
                self._say(Broken.META_COLUMNS, name, f"{nulls} rows have no {name}")
        file = self._task.file
        for column, expected in ((FILE_NAME, file.name), (PARTITION_PATH, file.partition_path)):
            for value in pc.unique(rows.column(column)).to_pylist():
                if value is not None and value != expected:
                    self._say(Broken.META_COLUMNS, column, f"{column} is {value!r}, not {expected!r}")
        for time in pc.unique(rows.column(COMMIT_TIME)).to_pylist():
            if time is None:
                continue
            if comparable(time) > comparable(file.instant_time):
                self._say(Broken.META_COLUMNS, COMMIT_TIME, f"{COMMIT_TIME} {time} is newer than the file")
            elif not self._task.timeline.is_visible(time):
                self._say(Broken.META_COLUMNS, COMMIT_TIME, f"{COMMIT_TIME} {time} is no completed commit")

    def _check_nan(self, group: int, stored: pa.Table) -> None:
        """Statistics of a chunk with values that are not a number say no ends, or ends that are none:
        readers pass over those.
        """
        chunks = () if self._text is None else self._text.chunks[group]
        for leaf in leaves_with_nan(stored):
            ends = chunks[leaf].ends if leaf < len(chunks) else None
            if ends is not None and not any(_is_nan(self._footer[first:last]) for first, last in ends):
                name = self._source.metadata.schema.column(leaf).path
                self._say(
                    Broken.STATISTICS,
                    name,
                    f"row group {group}, column {name!r} has values that are not a number, "
                    "and statistics that leave them out",
                    "Spark misses such rows in a filter on the column; an upsert into the file mends it",
                )

    def _check_home(self, keys: pa.Array) -> None:
        if self._homes is None:
            return
        try:
            self._homes.check_stored(keys, (self._task.file.partition_path, self._task.file.file_id))
        except TableCorruptError as error:
            self._say(Broken.BUCKET, "home", error.message, error.hint or _HINT)

    def _check_range_and_filter(self, keys: pa.Array) -> None:
        ends = java_min_max(keys)
        if ends is not None:
            known = (ends,) if self._ends is None else (ends, self._ends)
            self._ends = (
                min((low for low, _ in known), key=java_order_key),
                max((high for _, high in known), key=java_order_key),
            )
            self._check_range(*ends)
        if isinstance(self._filter, BloomFilter) and len(keys):
            hits = self._filter.probe(keys)
            if not hits.all():
                lost = keys[int(np.flatnonzero(~hits)[0])].as_py()
                self._say(
                    Broken.FILTER,
                    "false negative",
                    f"the bloom filter denies {int((~hits).sum())} keys of the file, {lost!r} is one",
                    "an upsert of such a key would double it; rewrite the file's rows",
                )

    def _check_range(self, low: str, high: str) -> None:
        least, greatest = self._entries.get(marks.MIN_KEY), self._entries.get(marks.MAX_KEY)
        if least is None or greatest is None:
            if marks.MARK in self._entries:
                self._say(Broken.KEY_RANGE, "none", "the footer has no key range", _REWRITE)
            elif self._task.stores_keys:
                self._notes.append("some files have no key range in their footers: every look-up has to read them")
        elif java_order_key(low) < java_order_key(least) or java_order_key(high) > java_order_key(greatest):
            self._say(
                Broken.KEY_RANGE,
                "narrow",
                f"keys {low!r} to {high!r} are outside the footer's range {least!r} to {greatest!r}",
                "an upsert of such a key could double it; rewrite the file's rows",
            )

    def _check_keys(self, rows: pa.Table) -> None:
        if self._generator is None:
            return
        try:
            made = self._generator.keys_of(rows)
        except SchemaMismatchError as error:
            self._notes.append(f"keys were not made anew: {error.message}")
            return
        self._recomputed += rows.num_rows
        wrong = _difference(plain_strings(rows.column(RECORD_KEY)), made.record_key) if self._task.stores_keys else None
        if wrong is not None:
            hint = "the rows were written with another key generator; such keys are never found by an upsert"
            self._say(Broken.RECORD_KEY, "", f"the record key of {wrong}", hint)
        folder = pa.repeat(pa.scalar(self._task.file.partition_path, pa.string()), rows.num_rows)
        unwritten = pc.and_(made.problem.is_valid(), made.record_key.is_valid())
        if pc.any(unwritten).as_py():
            self._notes.append(
                "some rows lie in partitions that no upsert writes to: their paths are refused (docs/format.md)"
            )
        wrong = _difference(folder, pc.if_else(unwritten, folder, made.partition_path))
        if wrong is not None and self._task.may_lie_elsewhere:
            self._notes.append(
                "some rows lie in another partition than their columns say, "
                "as a global index leaves them where they are with hoodie.bloom.index.update.partition.path=false"
            )
        elif wrong is not None:
            hint = "the rows were written with another key generator; an upsert of such a key would double it"
            self._say(Broken.PARTITION_PATH, "", f"the partition path of {wrong}", hint)


def _is_nan(end: bytes) -> bool:
    """Whether an end of a floating-point column's statistics is not a number."""
    kind = {4: "<f4", 8: "<f8"}.get(len(end))
    return kind is not None and bool(np.isnan(np.frombuffer(end, kind)[0]))


def _difference(stored: pa.Array, made: pa.Array) -> str | None:
    """How many values differ, with an example; None if none do."""
    same, row = difference(stored, made)
    if row is None:
        return None
    return (
        f"{int((~same).sum())} rows is not what their columns say: {stored[row].as_py()!r} is stored, "
        f"{made[row].as_py()!r} is made"
    )


def _text_entries(metadata: pq.FileMetaData) -> dict[str, str]:
    entries = metadata.metadata or {}
    return {key.decode("utf-8", "replace"): value.decode("utf-8", "replace") for key, value in entries.items()}


def read_keys(uri: str, file: BaseFile, virtual: VirtualKeys | None) -> pa.Array:
    """The record keys of a file, in file order. Raises: TableCorruptError."""
    try:
        source = open_base_file(storage_at(uri), file)
        if virtual is not None:
            stored = virtual.columns_in(source.schema_arrow)
            return virtual.of(read_groups(source, range(source.num_row_groups), stored), file.path)
        return plain_strings(read_column(source, RECORD_KEY))
    except (pa.ArrowException, OSError, ObjectNotFoundError) as error:
        raise damaged(file, str(error)) from error
