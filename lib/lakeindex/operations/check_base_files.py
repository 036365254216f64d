"""Check base files: footer, filter and key range against every key, meta columns, keys computed anew from the columns.

Also whether a commit of ours lost a column that the table had; with ``check --deep`` every byte of every base file,
live and superseded, against the checksums that cover it; and that a key has one live row: in its partition, or in the
whole table under a global index.

Equal keys are found among any number of files in bounded memory by 64-bit hashes on the local disk. Each file's hashes
are sorted, so a range of hashes is one slice of every file, and a set of files is searched range by range. Equal
hashes only propose: the keys themselves are compared before anything is reported.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeindex.bloom import BloomFilter, FilterProblem, marks, parse_filter
from lakeindex.commit.written_slices import Commits, WrittenSlice
from lakeindex.errors import REPAIR_KEYS, LakeIndexError, ObjectNotFoundError, SchemaMismatchError, TableCorruptError
from lakeindex.files.footers import parse_layout, parse_shape, read_footer_bytes
from lakeindex.format.avro_columns import columns_of
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import plain_strings
from lakeindex.hashing.java_strings import java_min_max, java_order_key
from lakeindex.hashing.murmur import murmur
from lakeindex.index.registry import index_for
from lakeindex.model import BaseFile, IndexSpec
from lakeindex.operations.check_violations import Broken, Checked, Findings, Violation, is_damage
from lakeindex.operations.rows.aligned_rows import align, damaged, open_base_file, read_row_group, row_schema
from lakeindex.parquet.footer_text import footer_text
from lakeindex.parquet.pages import read_column, read_groups
from lakeindex.parquet.stamps import footer_digest
from lakeindex.parquet.verify_pages import verify_pages
from lakeindex.storage.storage_file import StoredBytes
from lakeindex.table.stored_keys import difference
from lakeindex.tasks.stores import storage_at
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import ATTEMPT_KEY
from lakeindex.write.base_file import COMMIT_TIME, FILE_NAME, PARTITION_PATH, RECORD_KEY
from lakeindex.write.keys.key_generators import KeyGenerator, KeySpec
from lakeindex.write.single_columns import leaves_with_nan
from lakeindex.write.types.avro_schema import META_COLUMNS
from lakeindex.write.virtual_keys import VirtualKeys

_ROWS_AT_ONCE: Final = 16_000_000
_SECOND_SEED: Final = 0x9747B28C
KeyHashes = npt.NDArray[np.uint64]


def hashes_of(keys: pa.Array) -> KeyHashes:
    """A 64-bit hash of each key, of two independent 32-bit hashes."""
    high = murmur(keys, 0).view(np.uint32).astype(np.uint64)
    low = murmur(keys, _SECOND_SEED).view(np.uint32).astype(np.uint64)
    return (high << np.uint64(32)) | low


def save_hashes(path: Path, parts: Sequence[KeyHashes]) -> None:
    """Leave the hashes of a file's keys, sorted, at ``path``."""
    hashes = np.concatenate([np.zeros(0, np.uint64), *parts])
    hashes.sort()
    np.save(path, hashes, allow_pickle=False)


def repeated_hashes(paths: Sequence[Path], rows_at_once: int = _ROWS_AT_ONCE) -> Iterator[tuple[KeyHashes, list[int]]]:
    """Hashes that occur more than once in these files together.

    Args:
        paths: files of :func:`save_hashes`.
        rows_at_once: hashes held in memory at once, about.

    Yields:
        For each range of hashes with repeated ones: those, and which files (by place in ``paths``) hold one.
    """
    stored = [np.load(path, mmap_mode="r", allow_pickle=False) for path in paths]
    ranges = max(1, -(-sum(len(one) for one in stored) // rows_at_once))
    bounds = [(2**64 * at) // ranges for at in range(1, ranges)]
    cuts = [[0, *(int(np.searchsorted(one, np.uint64(b))) for b in bounds), len(one)] for one in stored]
    for at in range(ranges):
        slices = [one[cut[at] : cut[at + 1]] for one, cut in zip(stored, cuts, strict=True)]
        joined = np.concatenate(slices) if slices else np.zeros(0, np.uint64)
        joined.sort()
        repeated = np.unique(joined[1:][joined[1:] == joined[:-1]])
        if len(repeated):
            yield repeated, [n for n, one in enumerate(slices) if np.isin(repeated, one, assume_unique=False).any()]


_HINT: Final = "restore the file, or roll back the commit that wrote it"
_REWRITE: Final = "the rows themselves are readable; upserting the key again rewrites its file"


class FileTask(Frozen):
    """One live base file to check.

    Attributes:
        file: the file as listed.
        written: what its commit says; None if it was archived.
        keys: how keys are made; None if they are not to be made anew.
        virtual: the same, of a table whose rows do not store them; None: they do, or it is not known.
        stores_keys: rows have meta columns.
        may_lie_elsewhere: rows may lie in another partition than their columns say: under a global index an update
            can leave a row where it is (``hoodie.bloom.index.update.partition.path=false``).
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
        self._has_keys = False
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
        violations = [*before, *self._against_stats(), *self._found.values()]
        checked = Checked(
            files=1,
            rows=self._rows,
            bytes=self._task.file.size_bytes,
            filters=int(isinstance(self._filter, BloomFilter)),
            ranges=int(self._has_keys and marks.MIN_KEY in self._entries),
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
            self._has_keys = True
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


_ADD_AGAIN = (
    "an older lakeindex wrote it while another writer added the column: "
    "roll it back if it is the newest commit, else add the column again with Hudi and upsert its values"
)


def columns_then(commits: Commits) -> Mapping[str, frozenset[str]]:
    """Which columns the table had at each commit of ours: those of the commits before it, and its own.

    A column that a commit of Hudi's no longer names was dropped on purpose
    (``hoodie.datasource.write.schema.allow.auto.evolution.column.drop``); we drop none.
    """
    known: frozenset[str] = frozenset()
    found: dict[str, frozenset[str]] = {}
    for instant, metadata in commits:
        if metadata.schema_text is None:
            continue
        named = frozenset(columns_of(metadata.schema_text))
        is_ours = ATTEMPT_KEY in metadata.extra_metadata
        known = known | named if is_ours else named
        if is_ours:
            found[instant.time] = known
    return found


def check_commit_columns(timeline: Timeline, commits: Commits) -> Iterator[Violation]:
    """Commits of ours whose schema lacks a column that the table had."""
    then = columns_then(commits)
    for instant, metadata in commits:
        if instant.time in then and metadata.schema_text is not None:
            for name in sorted(then[instant.time] - set(columns_of(metadata.schema_text))):
                path = timeline.path(instant)
                yield Violation(Broken.COMMIT, path, f"{path}: the commit lost the table's column {name!r}", _ADD_AGAIN)


def lost_columns(path: str, names: list[str], then: frozenset[str]) -> Iterator[Violation]:
    """Columns that a file lacks though the table had them when it was written.

    Args:
        then: the table's columns when it was written; empty if that is not known.
    """
    for name in sorted(then - set(names)):
        yield Violation(Broken.FILE, path, f"{path} lost the column {name!r}, which the table had", _ADD_AGAIN)


_NO_CRC = (
    "some pages have no checksum, so damage to them cannot be seen (pages_without_crc): "
    "other writers, and lakeindex before it wrote checksums, leave it out; a rewrite gives one to what it encodes"
)


class PagesTask(Frozen):
    """A base file whose pages are walked; ``digest``: of its footer, as its commit says, None if it does not."""

    uri: str
    file: BaseFile
    digest: str | None = None


def check_pages(task: PagesTask) -> Findings:
    store, file = storage_at(task.uri), task.file
    try:
        raw = read_footer_bytes(store, file)
        layout = parse_layout(raw, file)
        found = verify_pages(StoredBytes(store, file.path, file.size_bytes), layout.metadata)
    except LakeIndexError as error:
        if not is_damage(error):
            raise
        return Findings((Violation.of(Broken.FILE, error, file.path),))
    except (OSError, ValueError) as error:
        return Findings((Violation.of(Broken.FILE, damaged(file, str(error)), file.path),))
    violations = [Violation.of(Broken.FILE, damaged(file, problem), file.path) for problem in found.problems]
    violations += against_digest(file, raw, task.digest)
    notes = (_NO_CRC,) if found.without_crc else ()
    return Findings(tuple(violations), notes, Checked(pages=found.pages, pages_without_crc=found.without_crc))


def against_digest(file: BaseFile, footer: bytes, digest: str | None) -> list[Violation]:
    """The footer is the one that the commit wrote: with its page headers' checksums, it stands for the whole file."""
    if digest is None or footer_digest(footer) == digest:
        return []
    error = damaged(file, "its footer is not the one that its commit wrote")
    return [Violation.of(Broken.FOOTER, error, file.path)]


_EXAMPLES: Final = 5


class UniqueTask(Frozen):
    """Files whose keys must differ from each other.

    Attributes:
        uri: the table.
        scope: what they make up together, for messages.
        virtual: how the keys of stored rows are made; None: they are stored.
    """

    uri: str
    scope: str
    files: tuple[tuple[BaseFile, Path], ...]
    virtual: VirtualKeys | None = None


def check_unique(task: UniqueTask) -> Findings:
    """Report keys that more than one row has."""
    violations: list[Violation] = []
    for repeated, holders in repeated_hashes([path for _, path in task.files]):
        files = [task.files[at][0] for at in holders]
        rows = rows_with(task.uri, files, repeated, task.virtual)
        violations += _doubled(task, rows)
    return Findings(tuple(violations))


def rows_with(
    uri: str, files: Sequence[BaseFile], hashes: np.ndarray, virtual: VirtualKeys | None
) -> dict[str, list[BaseFile]]:
    """Files of each key whose hash is one of these, a file once a row."""
    rows: dict[str, list[BaseFile]] = {}
    for file in files:
        keys: pa.Array = read_keys(uri, file, virtual).drop_null()
        for key in keys.filter(pa.array(np.isin(hashes_of(keys), hashes))).to_pylist():
            rows.setdefault(key, []).append(file)
    return rows


def _doubled(task: UniqueTask, rows: dict[str, list[BaseFile]]) -> Iterator[Violation]:
    doubled = sorted((key, files) for key, files in rows.items() if len(files) > 1)
    for key, files in doubled[:_EXAMPLES]:
        where = ", ".join(sorted({file.path for file in files}))
        others = f" ({len(doubled)} keys are)" if len(doubled) > 1 else ""
        yield Violation(
            Broken.DUPLICATE_KEY,
            key,
            f"key {key!r} is stored {len(files)} times in {task.scope}{others}: {where}",
            REPAIR_KEYS,
        )
