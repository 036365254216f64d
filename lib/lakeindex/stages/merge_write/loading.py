"""Write the files of a load whose rows stayed in the files of the batch: a column at a time, of many files at once.

Each column is read once for a *wave* of files, taken in the order of the rows that the files will have, and encoded; so
little more than the columns that are at hand is decoded at any time. A wave is as large as there is room for. A file
that is larger is made by several waves, some row groups in each. The files have the bytes that they have when they are
made one by one.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.bloom import marks
from lakeindex.files.footers import Footer, footer_of
from lakeindex.hashing.arrow import one_array, plain_strings
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.parquet.splice import ChunkOf, GroupOf, ParquetParts
from lakeindex.pipeline import STAGED_KEY
from lakeindex.run.input_rows import ADDRESS, InputRows, Places
from lakeindex.run.spec import run_folder
from lakeindex.stages.merge_write.file_slices import (
    FileSlice,
    Lists,
    WriteTask,
    WrittenFile,
    keeps_filters,
    slice_of,
    with_filters,
    write_slice,
)
from lakeindex.storage import is_local_disk
from lakeindex.storage.port import Storage
from lakeindex.tasks.memory_bound import load_bytes
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import dictionaries_for, file_schema_of
from lakeindex.write.file_parts import encoded_parts
from lakeindex.write.merge_rows import Changes, Merge, merge_slices
from lakeindex.write.rewrite import NewFile
from lakeindex.write.row_groups import ALL_IN_MEMORY
from lakeindex.write.single_columns import leaves

_PLACE_BYTES: Final = 32
"""Of a row: its address, and its place among the others while they are put in order."""
_ENCODED_AT_ONCE: Final = 16 * 1024 * 1024
_LARGEST_UNIT: Final = 1024 * 1024 * 1024
"""Decoded bytes of the rows that are made at once of one file: a column of them must be less than 2 GiB."""


def rows_at_once(rows: InputRows, bound: int, slots: int, encoded_bytes: float) -> int:
    """How many rows of a load are written at once.

    Args:
        bound: memory of the process.
        slots: columns that are read at once.
        encoded_bytes: of a row in a base file, about.
    """
    widest = sorted(rows.widths.values(), reverse=True)[:slots]
    return max(1, int(load_bytes(bound) / (_PLACE_BYTES + sum(widest) + encoded_bytes)))


@dataclass(frozen=True, slots=True)
class Load:
    """A batch whose rows stayed in its files, and how many of them are written at once."""

    rows: InputRows
    at_once: int

    def part(self, count: int, limit: int) -> float:
        """Of a new file of ``count`` rows, how many are made at once, in whole row groups of ``limit``; as of
        :class:`~lakeindex.write.row_groups.Rewrite`.
        """
        most = min(self.at_once, int(_LARGEST_UNIT / max(sum(self.rows.widths.values()), 1.0)))
        return ALL_IN_MEMORY if count <= most else max(most // limit, 1) * limit / count


@dataclass(frozen=True, slots=True, eq=False)
class _Begun:
    """A file that is being made.

    Attributes:
        addresses: of its rows, in its order: int64 [n].
        meta: its meta columns, encoded.
        entries: its footer's entries about its keys.
        body: where the columns of its row groups are, by number and name: the parts, and which of their row groups.
    """

    slice: FileSlice
    addresses: np.ndarray
    meta: ParquetParts
    entries: Mapping[str, str]
    body: dict[tuple[int, str], tuple[ParquetParts, int]]
    seconds: float


@dataclass(frozen=True, slots=True)
class _Unit:
    """Rows ``[start, stop)`` of a file, whole row groups, that are made at once."""

    task: int
    start: int
    stop: int


@dataclass(frozen=True, slots=True, eq=False)
class _Wave:
    """Rows that are made at once: where they are, and of which files."""

    places: Places
    units: Sequence[tuple[_Begun, _Unit]]


def write_load(tasks: Sequence[WriteTask], load: Load, runner: Runner) -> list[WrittenFile]:
    """Write new files whose rows are all of the batch.

    Returns:
        What was written, in the order of the tasks.

    Raises:
        InputError: a file of the batch is not what it was, or cannot be read.
        InvariantError: the rows are not what the plan says.
    """
    rows, store, near = load.rows, storage_at(tasks[0].spec.table_uri), runner.nearby()
    lists = Lists(run_folder(tasks[0].spec))
    begun: dict[int, _Begun] = {}
    written: list[WrittenFile] = []
    footers: list[tuple[BaseFile, Footer]] = []
    with ThreadPoolExecutor(1, thread_name_prefix="sync") as pool:
        for units in _waves(tasks, load.at_once):
            pa.default_memory_pool().release_unused()  # of stage 1, or of the wave before
            new = [n for n in dict.fromkeys(unit.task for unit in units) if n not in begun]
            made = run_tasks(near, partial(_begin, store, lists), [tasks[n] for n in new], "merge write: keys of files")
            begun |= zip(new, made, strict=True)
            pa.default_memory_pool().release_unused()
            _make_columns(begun, units, rows, near)
            done = [unit.task for unit in units if unit.stop == len(begun[unit.task].addresses)]
            whole = [begun.pop(n) for n in done]
            rows.check_unchanged()
            for one, footer in run_tasks(
                near, partial(_finish, store), whole, "merge write: rewrite and create base files"
            ):
                written.append(one)
                footers.append((one.file, footer))
            if is_local_disk(store.uri):
                pool.submit(store.sync, [one.file.path for one in written[-len(whole) :]])
    return list(with_filters(store, written, footers) if keeps_filters(tasks[0]) else written)


def _waves(tasks: Sequence[WriteTask], at_once: int) -> Iterator[list[_Unit]]:
    wave: list[_Unit] = []
    held = 0
    for number, task in enumerate(tasks):
        count = sum(placed.stop - placed.start for placed in task.placed)
        most = count if task.part >= 1 else max(round(task.part * count), 1)
        for start in range(0, count, most):
            unit = _Unit(number, start, min(start + most, count))
            if wave and held + unit.stop - unit.start > at_once:
                yield wave
                wave, held = [], 0
            wave.append(unit)
            held += unit.stop - unit.start
    if wave:
        yield wave


def _begin(store: Storage, lists: Lists, task: WriteTask) -> _Begun:
    """Put the rows of a file in order, and make what is made of their keys."""
    started = time.perf_counter()
    slice_ = slice_of(store, task, lists)
    rewrite, inserts = slice_.rewrite, slice_.changes.inserts
    keys, address = inserts.column(STAGED_KEY), inserts.column(ADDRESS)
    entries = marks.footer_of_keys(plain_strings(keys), rewrite.config) if rewrite.stamps_rows else {}
    placed = pa.table([keys, address], names=[STAGED_KEY, ADDRESS])
    nothing = np.zeros(0, np.int64)
    merge = Merge(0, Changes(placed.slice(0, 0), nothing, nothing, placed), rewrite.new)
    (rows,) = merge_slices(None, [merge], pa.schema([pa.field(ADDRESS, pa.int64())]), virtual=rewrite.virtual)
    addresses = one_array(rows.column(ADDRESS)).to_numpy()
    named = rows.drop_columns([ADDRESS])
    limit = rewrite.config.row_group_rows
    groups = [named.slice(at, limit) for at in range(0, named.num_rows, limit)]
    schema = file_schema_of(pa.schema([]))
    meta = encoded_parts(groups, schema, rewrite.config, dictionaries=dictionaries_for(named))
    return _Begun(slice_, addresses, meta, entries, {}, time.perf_counter() - started)


def _make_columns(begun: Mapping[int, _Begun], units: Sequence[_Unit], rows: InputRows, runner: Runner) -> None:
    """Encode the table's columns of these rows."""
    pairs = [(begun[unit.task], unit) for unit in units]
    places = Places(rows, np.concatenate([one.addresses[unit.start : unit.stop] for one, unit in pairs]))
    names = sorted(rows.schema.names, key=lambda name: -rows.widths.get(name, 0.0))  # the longest work first
    run_tasks(runner, partial(_make_column, _Wave(places, pairs)), names, "merge write: columns of files")


def _make_column(wave: _Wave, name: str) -> None:
    """Encode a column; row groups that get a dictionary and those that get none are encoded apart."""
    rewrite = wave.units[0][0].slice.rewrite
    schema, limit = pa.schema([rewrite.schema.field(name)]), rewrite.config.row_group_rows
    column, at = wave.places.column(name), 0
    encoders = {coded: _Encoder(schema, rewrite.config, coded=coded) for coded in (False, True)}
    for one, unit in wave.units:
        stop = at + unit.stop - unit.start
        values = pa.table([column.taken(wave.places.rank[at:stop])], schema=schema)
        encoder = encoders[bool(dictionaries_for(values))]
        for start in range(0, values.num_rows, limit):
            encoder.add(one, (unit.start + start) // limit, values.slice(start, limit))
        at = stop
    for encoder in encoders.values():
        encoder.flush()


class _Encoder:
    """Encodes row groups of one column, some at once."""

    def __init__(self, schema: pa.Schema, config: WriteConfig, *, coded: bool) -> None:
        self._schema, self._config = schema, config
        self._coded = schema.names if coded else []
        self._waiting: list[tuple[_Begun, int, pa.Table]] = []
        self._bytes = 0

    def add(self, one: _Begun, group: int, rows: pa.Table) -> None:
        self._waiting.append((one, group, rows))
        self._bytes += rows.nbytes
        if self._bytes >= _ENCODED_AT_ONCE:
            self.flush()

    def flush(self) -> None:
        some, self._waiting, self._bytes = self._waiting, [], 0
        if not some:
            return
        parts = encoded_parts([rows for *_, rows in some], self._schema, self._config, dictionaries=self._coded)
        for number, (one, group, _) in enumerate(some):
            one.body[group, self._schema.names[0]] = parts, number


def _finish(store: Storage, one: _Begun) -> tuple[WrittenFile, Footer]:
    """Put a file together and write it."""
    rewrite = one.slice.rewrite
    groups = []
    for number, count in enumerate(one.meta.rows):
        chunks: list[ChunkOf] = [one.meta.chunk(number, leaf) for leaf in range(len(one.meta.columns))]
        for field in rewrite.schema:
            parts, at = one.body[number, field.name]
            chunks += [parts.chunk(at, leaf) for leaf in range(leaves(field.type))]
        groups.append(GroupOf(count, tuple(chunks)))
    new = NewFile.of_groups(rewrite, groups, one.entries)
    written = write_slice(store, one.slice, new, one.seconds)
    return written, footer_of(new.encoded.row_group_rows, new.encoded.key_entries)
