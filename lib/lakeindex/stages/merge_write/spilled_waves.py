"""Rows of a load, divided among the waves that write them: the files of the batch are decoded once, however many waves
there are.

Row groups are read a few at a time, their rows are put in the order of the waves, within a wave in that of the batch,
and written to the run folder: an object for each time, with an Arrow message for each wave. A wave reads its own
messages. They are not compressed; texts that stand in a dictionary are spilled as codes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from operator import attrgetter
from typing import Final

import mmh3
import numpy as np
import pyarrow as pa

from lakeindex.errors import ObjectNotFoundError
from lakeindex.frozen import Frozen
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import CheckpointError, RunFolder, own_name
from lakeindex.run.input_rows import InputRows, Places, RowGroup
from lakeindex.storage import in_parallel, remove_empty_folders
from lakeindex.tasks.memory_bound import give_back, spilled_bytes
from lakeindex.tasks.runner import Runner, run_tasks
from lakeindex.write.bounded_groups import groups_within

NO_WAVE: Final = np.iinfo(np.uint16).max
"""Of a row that none writes: another of its key won, or it was set aside."""
MOST_WAVES: Final = int(NO_WAVE)
_CODES: Final = (pa.int8(), pa.int16())
_WRITING: Final = "merge write: rows by files"
_READING: Final = "merge write: rows of files"


class _Piece(Frozen):
    """Row groups that stand behind each other in the batch, and which of their columns are written together.

    Attributes:
        start: place of their first row in the batch.
    """

    number: int
    groups: Sequence[RowGroup]
    start: int
    names: Sequence[str]


class _Object(Frozen, eq=False):
    """A piece as it was written.

    Attributes:
        codes: dictionaries of the columns that are spilled as codes.
        ends: where the message of each wave begins, and the end of the last: int64 [waves + 1]; of a wave without rows
            there is none.
        digests: of each wave's message.
    """

    path: str
    schema: pa.Schema
    codes: Mapping[str, pa.Array]
    ends: np.ndarray
    digests: Sequence[bytes]


class SpilledWaves(Frozen, eq=False):
    """Rows of a load by wave, in the run folder."""

    folder: RunFolder
    objects: Sequence[_Object]

    def of_wave(self, wave: int, runner: Runner) -> dict[str, list[pa.Array]]:
        """The rows of a wave, in the order of their addresses: the parts of each column.

        Raises:
            CheckpointError: an object is missing, or not what was written.
        """
        there = [one for one in self.objects if one.ends[wave + 1] > one.ends[wave]]
        step = max(-(-len(there) // runner.slots), 1)
        read = partial(_read, self.folder, wave)
        some = run_tasks(runner, read, [there[n : n + step] for n in range(0, len(there), step)], _READING)
        batches = [batch for part in some for batch in part]
        parts: dict[str, list[pa.Array]] = {}
        for one, batch in zip(there, batches, strict=True):
            for name, column in zip(batch.schema.names, batch.columns, strict=True):
                codes = one.codes.get(name)
                is_coded = codes is not None
                values = pa.DictionaryArray.from_arrays(column.cast(pa.int32()), codes) if is_coded else column
                parts.setdefault(name, []).append(values)
        return parts


@contextmanager
def spill_waves(
    rows: InputRows, wave_of: np.ndarray, waves: int, folder: RunFolder, runner: Runner
) -> Iterator[SpilledWaves]:
    """Write all rows that a wave writes; they are there while the body runs.

    Args:
        wave_of: number of each row's wave, or :data:`NO_WAVE`, in the order of the batch: uint16 [rows].

    Raises:
        InputChangedError: a file of the batch is not what it was.
        InputError: one cannot be read.
    """
    path = f"{folder.new_attempt(Stage.MERGE_WRITE)}/spilled"
    try:
        write = partial(_write, rows, wave_of, waves, folder, path)
        objects = run_tasks(runner, write, list(_pieces(rows, spilled_bytes(runner.slots))), _WRITING)
        rows.check_unchanged()
        give_back()
        yield SpilledWaves(folder, objects)
    finally:
        store = folder.store
        in_parallel(store.uri, store.delete, [one.path for one in store.list(path)])
        remove_empty_folders(store, path.rpartition("/")[0])


def _pieces(rows: InputRows, limit: int) -> Iterator[_Piece]:
    width = sum(rows.widths.values())
    number = start = 0
    for groups in groups_within(rows.groups, attrgetter("rows"), int(limit / max(width, 1.0))):
        count = sum(group.rows for group in groups)
        widths = {name: int(count * rows.widths.get(name, 0.0)) for name in rows.schema.names}
        for names in groups_within(rows.schema.names, widths.__getitem__, limit):
            yield _Piece(number, groups, start, names)
            number += 1
        start += count


def _write(rows: InputRows, wave_of: np.ndarray, waves: int, folder: RunFolder, path: str, piece: _Piece) -> _Object:
    address = np.concatenate([np.arange(g.address, g.address + g.rows, dtype=np.int64) for g in piece.groups])
    wave = wave_of[piece.start : piece.start + len(address)]
    is_written = wave != NO_WAVE
    wave, places = wave[is_written], Places(rows, address[is_written])
    order = np.argsort(wave, kind="stable").astype(np.int32)
    columns, codes = [], {}
    for name in piece.names:
        values = places.column(name).picked(order)
        if pa.types.is_dictionary(values.type):
            codes[name] = values.dictionary
            values = _narrow(values.indices, len(values.dictionary))
        columns.append(values)
    batch = pa.record_batch(columns, names=list(piece.names))
    counts = np.bincount(wave, minlength=waves)
    ends, digests = np.zeros(waves + 1, np.int64), [b""] * waves

    def messages() -> Iterator[memoryview]:
        first = 0
        for number, count in enumerate(counts.tolist()):
            ends[number + 1] = ends[number]
            if count:
                message = memoryview(batch.slice(first, count).serialize())
                ends[number + 1] += len(message)
                digests[number] = mmh3.mmh3_x64_128_digest(message)
                first += count
                yield message

    name = own_name(f"{path}/{piece.number:05d}.rows")
    folder.store.write(name, messages())
    return _Object(name, batch.schema, codes, ends, digests)


def _narrow(indices: pa.Array, entries: int) -> pa.Array:
    kind = next((kind for kind in _CODES if entries <= 2 ** (kind.bit_width - 1)), indices.type)
    return indices.cast(kind)


def _read(folder: RunFolder, wave: int, objects: Sequence[_Object]) -> list[pa.RecordBatch]:
    batches = []
    for one in objects:
        start, stop = int(one.ends[wave]), int(one.ends[wave + 1])
        try:
            message = folder.store.read_range(one.path, start, stop - start)
        except ObjectNotFoundError as error:
            raise _damaged(one, "is missing") from error
        if mmh3.mmh3_x64_128_digest(message) != one.digests[wave]:
            raise _damaged(one, f"is damaged at byte {start}")
        batches.append(pa.ipc.read_record_batch(pa.py_buffer(message), one.schema))
    return batches


def _damaged(one: _Object, why: str) -> CheckpointError:
    return CheckpointError(f"spilled rows {one.path!r}: the object {why}", culprit=one.path, hint="run it again")
