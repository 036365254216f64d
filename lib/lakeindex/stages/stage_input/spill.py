"""Scatter keyed rows by their lookup key into pieces in the run folder, and read a bucket's pieces back.

One object holds the pieces of all buckets, one behind the other, each an Arrow stream with a digest of its own. Where
all tasks run in one process, pieces are not written but held in memory, as far as there is room. A bucket that came out
larger than a task may hold is cut again while it is read: all rows of a lookup key stay together.
"""

from __future__ import annotations

import itertools
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import pyarrow as pa

from lakeindex.errors import ObjectNotFoundError
from lakeindex.hashing.arrow import one_array
from lakeindex.hashing.murmur import murmur
from lakeindex.pipeline import STAGED_KEY, STAGED_PARTITION
from lakeindex.run.checkpoints import CheckpointError, RunFolder, digest_of, own_name


@dataclass(frozen=True, slots=True)
class SpilledPiece:
    """Rows of one bucket in a spilled object.

    Attributes:
        bucket: which.
        path: the object.
        start: where the piece begins.
        length: bytes of it.
        decoded_bytes: what its rows take in memory.
        digest: of its bytes.
    """

    bucket: int
    path: str
    start: int
    length: int
    decoded_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class HeldPiece:
    """Rows of one bucket in memory.

    Attributes:
        bucket: which.
        number: what the rows are held by.
        decoded_bytes: what they take, about.
    """

    bucket: int
    number: int
    decoded_bytes: int


Piece: TypeAlias = SpilledPiece | HeldPiece


@dataclass(frozen=True, slots=True)
class Cut:
    """Part ``number`` of ``of`` of a bucket; ``buckets``: how many the batch was scattered over."""

    buckets: int
    number: int = 0
    of: int = 1


@dataclass(frozen=True, slots=True)
class Scatter:
    """How a batch is scattered: over ``buckets``, rows of one lookup key, or of one partition, into one of them."""

    buckets: int
    is_global: bool
    by_partition: bool = False


class _Room:
    """Pieces in memory, of all tasks of two maps: rows of all buckets, and which of them a piece is."""

    def __init__(self, limit: int) -> None:
        self._left = limit
        self._held: list[tuple[pa.Table, np.ndarray]] = []
        self._mutex = threading.Lock()

    def hold(self, rows: pa.Table, buckets: Mapping[int, np.ndarray]) -> tuple[HeldPiece, ...] | None:
        """Hold the rows as pieces, if there is room."""
        with self._mutex:
            if rows.nbytes > self._left:
                return None
            self._left -= rows.nbytes
            first, each = len(self._held), rows.nbytes / rows.num_rows
            self._held += [(rows, places) for places in buckets.values()]
        return tuple(
            HeldPiece(bucket, first + number, int(each * len(places)))
            for number, (bucket, places) in enumerate(buckets.items())
        )

    def rows_of(self, piece: HeldPiece) -> pa.Table:
        """A piece's rows."""
        rows, places = self._held[piece.number]
        return rows if len(places) == rows.num_rows else rows.take(pa.array(places))


_NOWHERE: Final = _Room(0)
_room: ContextVar[_Room] = ContextVar("room for pieces", default=_NOWHERE)


@contextmanager
def pieces_held(limit: int) -> Iterator[None]:
    """Keep pieces in memory while the body runs, up to so many bytes: all its tasks are of this process."""
    token = _room.set(_Room(limit))
    try:
        yield
    finally:
        _room.reset(token)


def spill(folder: RunFolder, path: str, rows: pa.Table, scatter: Scatter) -> tuple[Piece, ...]:
    """Scatter rows, in their order within each bucket: as pieces of an object, or in memory if there is room."""
    if not rows.num_rows:
        return ()
    buckets = _buckets(rows, scatter)
    held = _room.get().hold(rows, buckets)
    if held is not None:
        return held
    rows = rows.take(pa.array(np.concatenate(list(buckets.values())))) if len(buckets) > 1 else rows
    ends = itertools.accumulate((len(places) for places in buckets.values()), initial=0)
    sink = pa.BufferOutputStream()
    marks = [(0, 0)]
    for start, stop in itertools.pairwise(ends):
        some = rows.slice(start, stop - start)
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(some)
        marks.append((sink.tell(), some.nbytes))
    data = sink.getvalue()
    path = own_name(path)
    folder.store.write(path, (memoryview(data),))
    pieces = []
    for number, (start, _), (stop, decoded) in zip(buckets, marks, marks[1:], strict=False):
        digest = digest_of(data.slice(start, stop - start))
        pieces.append(SpilledPiece(number, path, start, stop - start, decoded, digest))
    return tuple(pieces)


def _buckets(rows: pa.Table, scatter: Scatter) -> dict[int, np.ndarray]:
    """Of each bucket that has rows their numbers, int64, ascending."""
    if scatter.buckets == 1:
        return {0: np.arange(rows.num_rows)}
    columns = [STAGED_PARTITION] if scatter.by_partition else _lookup(is_global=scatter.is_global)
    # numbers of few bits are sorted by them, in a fifth of the time
    bucket = (_hashes(rows, columns) % scatter.buckets).astype(np.min_scalar_type(scatter.buckets))
    order = np.argsort(bucket, kind="stable")
    numbers, first = np.unique(bucket[order], return_index=True)
    return dict(zip(numbers.tolist(), np.split(order, first[1:]), strict=True))


def read_spilled(folder: RunFolder, pieces: Sequence[Piece], cut: Cut, *, is_global: bool) -> pa.Table:
    """Rows of a bucket, or of a part of it, in the order of the pieces.

    Raises:
        CheckpointError: a piece is missing, or not what was written.
    """
    tables = []
    for piece in pieces:
        rows = _read(folder, piece) if isinstance(piece, SpilledPiece) else _room.get().rows_of(piece)
        if cut.of > 1:
            part = _hashes(rows, _lookup(is_global=is_global)) // cut.buckets % cut.of
            rows = rows.filter(pa.array(part == cut.number))
        tables.append(rows)
    return pa.concat_tables(tables)


def _read(folder: RunFolder, piece: SpilledPiece) -> pa.Table:
    try:
        data = folder.store.read_range(piece.path, piece.start, piece.length)
    except ObjectNotFoundError as error:
        raise _damaged(piece, "is missing") from error
    if digest_of(data) != piece.digest:
        raise _damaged(piece, f"is damaged at byte {piece.start}")
    return pa.ipc.open_stream(pa.BufferReader(data)).read_all()


def _damaged(piece: SpilledPiece, why: str) -> CheckpointError:
    return CheckpointError(f"spilled rows {piece.path!r}: the object {why}", culprit=piece.path, hint="run it again")


def _lookup(*, is_global: bool) -> list[str]:
    return [STAGED_KEY] if is_global else [STAGED_KEY, STAGED_PARTITION]


def _hashes(rows: pa.Table, columns: Sequence[str]) -> np.ndarray:
    """A hash of each row's values in these columns, int64 [n]."""
    hashes = [murmur(one_array(rows.column(c))).view(np.uint32).astype(np.int64) for c in columns]
    return sum(hashes[1:], hashes[0])
