"""Write the files of a load whose rows stayed in the files of the batch: a column at a time, of many files at once.

Each column is read once for a *wave* of files, taken in the order of the rows that the files will have, and encoded; so
little more than the columns that are at hand is decoded at any time. A wave is as large as there is room for. A file
that is larger is made by several waves, some row groups in each. The files have the bytes that they have when they are
made one by one.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.bloom import marks
from lakeindex.files.footers import Footer, footer_of
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array, plain_strings
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
from lakeindex.stages.merge_write.spilled_waves import MOST_WAVES, NO_WAVE, SpilledWaves, spill_waves
from lakeindex.storage import is_local_disk, is_on_this_machine
from lakeindex.storage.port import Storage
from lakeindex.tasks.memory_bound import current_bound, give_back, load_bytes, wave_bytes
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.tasks.stores import storage_at
from lakeindex.write.base_file import dictionaries_for, file_schema_of
from lakeindex.write.file_parts import encoded_parts
from lakeindex.write.merge_rows import Changes, Merge, merge_slices
from lakeindex.write.rewrite import NewFile
from lakeindex.write.row_groups import ALL_IN_MEMORY, Rewrite
from lakeindex.write.single_columns import leaves

_PLACE_BYTES: Final = 32
"""Of a row: its address, and its place among the others while they are put in order."""
_TIMES_READ: Final = 2
"""Reading a row group twice costs as much as spilling its rows."""
_ENCODED_AT_ONCE: Final = 16 * 1024 * 1024
_LARGEST_UNIT: Final = 1024 * 1024 * 1024
"""Decoded bytes of the rows that are made at once of one file: a column of them must be less than 2 GiB."""


def rows_at_once(rows: InputRows, bound: int, slots: int, encoded_bytes: float) -> int:
    """How many rows of a load are written at once: all, or as many as there is room for with all of their columns.

    Args:
        bound: memory of the process.
        slots: columns that are read at once.
        encoded_bytes: of a row in a base file, about.
    """
    widest, all_columns = sum(sorted(rows.widths.values(), reverse=True)[:slots]), sum(rows.widths.values())
    of_row = _PLACE_BYTES + widest + encoded_bytes
    most = int(load_bytes(bound) / of_row)
    return most if most >= rows.count else max(1, int(load_bytes(bound) / (of_row + all_columns)))


class Load(Frozen):
    """A batch whose rows stayed in its files, and how many of them are written at once."""

    rows: InputRows
    at_once: int

    def part(self, count: int, limit: int) -> float:
        """Of a new file of ``count`` rows, how many are made at once, in whole row groups of ``limit``; as of
        :class:`~lakeindex.write.row_groups.Rewrite`.
        """
        most = min(self.at_once, int(_LARGEST_UNIT / max(self._row_bytes, 1.0)))
        return ALL_IN_MEMORY if count <= most else max(most // limit, 1) * limit / count

    @property
    def in_wave(self) -> int:
        """Rows of a wave, if these are not all: no more than help, as memory that is near is fast."""
        return max(1, min(self.at_once, int(wave_bytes(current_bound()) / max(self._row_bytes, 1.0))))

    @property
    def _row_bytes(self) -> float:
        return sum(self.rows.widths.values())


class _Begun(Frozen, eq=False):
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


class _Unit(Frozen):
    """Rows ``[start, stop)`` of a file, whole row groups, that are made at once."""

    task: int
    start: int
    stop: int


class _Wave(Frozen, eq=False):
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
    count = sum(_rows_of(task) for task in tasks)
    waves = list(_waves(tasks, load.at_once if count <= load.at_once else load.in_wave))
    begin, finish = partial(_begin, store, lists), partial(_finish, store)

    def write(number: int, units: Sequence[_Unit]) -> Sequence[WrittenFile]:
        new = [n for n in dict.fromkeys(unit.task for unit in units) if n not in begun]
        begun.update(
            zip(new, run_tasks(near, begin, [tasks[n] for n in new], "merge write: keys of files"), strict=True)
        )
        give_back()
        parts = None if spilled is None else spilled.of_wave(number, near)
        _make_columns([(begun[unit.task], unit) for unit in units], rows, parts, near)
        done = [unit.task for unit in units if unit.stop == len(begun[unit.task].addresses)]
        made = run_tasks(near, finish, [begun.pop(n) for n in done], "merge write: rewrite and create base files")
        files = [one for one, _ in made]
        return with_filters(store, files, [(one.file, footer) for one, footer in made]) if keeps else files

    keeps, written = keeps_filters(tasks[0]), list[WrittenFile]()
    with (
        _spilled(tasks, waves, rows, partial(_addresses, store, lists), near) as spilled,
        ThreadPoolExecutor(1, thread_name_prefix="sync") as pool,
    ):
        for number, units in enumerate(waves):
            files = write(number, units)  # what it held went before the next begins
            written += files
            if is_local_disk(store.uri):
                pool.submit(store.sync, [one.file.path for one in files])
    return written


def _rows_of(task: WriteTask) -> int:
    return sum(placed.stop - placed.start for placed in task.placed)


@contextmanager
def _spilled(
    tasks: Sequence[WriteTask],
    waves: Sequence[Sequence[_Unit]],
    rows: InputRows,
    addresses: Callable[[WriteTask], np.ndarray],
    runner: Runner,
) -> Iterator[SpilledWaves | None]:
    """The rows divided among the waves; None if that does not pay: each wave then reads its rows from the batch."""
    folder = run_folder(tasks[0].spec)
    widest = max((group.rows for group in rows.groups), default=0) * max(rows.widths.values(), default=0.0)
    may = 1 < len(waves) <= MOST_WAVES and widest <= _LARGEST_UNIT and is_on_this_machine(folder.store.uri)
    wave_of = _wave_of(tasks, waves, rows, addresses, runner) if may else None
    if wave_of is None or _times_read(rows, wave_of) <= _TIMES_READ:
        yield None
        return
    with spill_waves(rows, wave_of, len(waves), folder, runner) as spilled:
        yield spilled


def _wave_of(
    tasks: Sequence[WriteTask],
    waves: Sequence[Sequence[_Unit]],
    rows: InputRows,
    addresses: Callable[[WriteTask], np.ndarray],
    runner: Runner,
) -> np.ndarray:
    """The number of each row's wave, in the order of the batch: uint16 [rows of the batch]."""
    found = np.full(rows.count, NO_WAVE, np.uint16)
    units: dict[int, list[tuple[int, _Unit]]] = {}
    for number, wave in enumerate(waves):
        for unit in wave:
            units.setdefault(unit.task, []).append((number, unit))

    def mark(task: int) -> None:
        places = rows.places_of(addresses(tasks[task]))
        for number, unit in units[task]:
            found[places[unit.start : unit.stop]] = number

    run_tasks(runner, mark, list(units), "merge write: waves of rows")
    return found


def _times_read(rows: InputRows, wave_of: np.ndarray) -> float:
    """How many waves read a row group of the batch, on average."""
    ends = np.cumsum([0, *(group.rows for group in rows.groups)]).tolist()
    waves = [np.unique(wave_of[a:b]) for a, b in itertools.pairwise(ends)]
    return sum(int((some != NO_WAVE).sum()) for some in waves) / len(waves)


def _waves(tasks: Sequence[WriteTask], at_once: int) -> Iterator[list[_Unit]]:
    wave: list[_Unit] = []
    held = 0
    for number, task in enumerate(tasks):
        count = _rows_of(task)
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
    rows = _in_order(rewrite, keys, address)
    addresses = one_array(rows.column(ADDRESS)).to_numpy()
    named = rows.drop_columns([ADDRESS])
    limit = rewrite.config.row_group_rows
    groups = [named.slice(at, limit) for at in range(0, named.num_rows, limit)]
    schema = file_schema_of(pa.schema([]))
    meta = encoded_parts(groups, schema, rewrite.config, dictionaries=dictionaries_for(named))
    return _Begun(slice_, addresses, meta, entries, {}, time.perf_counter() - started)


def _in_order(rewrite: Rewrite, keys: pa.Array, address: pa.Array) -> pa.Table:
    """Meta columns and addresses of rows in the order that they have in a file."""
    placed = pa.table([keys, address], names=[STAGED_KEY, ADDRESS])
    nothing = np.zeros(0, np.int64)
    merge = Merge(0, Changes(placed.slice(0, 0), nothing, nothing, placed), rewrite.new)
    (rows,) = merge_slices(None, [merge], pa.schema([pa.field(ADDRESS, pa.int64())]), virtual=rewrite.virtual)
    return rows


def _addresses(store: Storage, lists: Lists, task: WriteTask) -> np.ndarray:
    """Of the rows of a file; in its order, if it is made in parts: int64 [n]."""
    slice_ = slice_of(store, task, lists)
    inserts = slice_.changes.inserts
    address = inserts.column(ADDRESS)
    if task.part < 1:
        address = _in_order(slice_.rewrite, inserts.column(STAGED_KEY), address).column(ADDRESS)
    return one_array(address).to_numpy()


def _make_columns(
    pairs: Sequence[tuple[_Begun, _Unit]],
    rows: InputRows,
    parts: Mapping[str, Sequence[pa.Array]] | None,
    runner: Runner,
) -> None:
    """Encode the table's columns of these rows.

    Args:
        parts: of each column its parts, if they were spilled.

    Raises:
        InputChangedError: a file of the batch that they were read from is not what it was.
    """
    places = Places(rows, np.concatenate([one.addresses[unit.start : unit.stop] for one, unit in pairs]), parts)
    names = sorted(rows.schema.names, key=lambda name: -rows.widths.get(name, 0.0))  # the longest work first
    run_tasks(runner, partial(_make_column, _Wave(places, pairs)), names, "merge write: columns of files")
    places.check_unchanged()


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
