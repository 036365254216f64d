"""Scatter keyed rows by their lookup key into pieces in the run folder, and read a bucket's pieces back.

One object holds the pieces of all buckets, one behind the other, each an Arrow stream with a digest of its own. A
bucket that came out larger than a task may hold is cut again while it is read: all rows of a lookup key stay together.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass

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


def spill(folder: RunFolder, path: str, rows: pa.Table, scatter: Scatter) -> tuple[SpilledPiece, ...]:
    """Write rows as pieces, in their order within each bucket."""
    if not rows.num_rows:
        return ()
    starts = np.array([0, rows.num_rows])
    numbers = np.zeros(1, np.int64)
    if scatter.buckets > 1:
        columns = [STAGED_PARTITION] if scatter.by_partition else _lookup(is_global=scatter.is_global)
        bucket = _hashes(rows, columns) % scatter.buckets
        numbers, first = bucket[:1], np.zeros(1, np.int64)
        if (bucket != bucket[0]).any():
            order = np.argsort(bucket, kind="stable")
            rows = rows.take(pa.array(order))
            numbers, first = np.unique(bucket[order], return_index=True)
        starts = np.append(first, rows.num_rows)
    sink = pa.BufferOutputStream()
    marks = [(0, 0)]
    for start, stop in itertools.pairwise(starts.tolist()):
        some = rows.slice(start, stop - start)
        with pa.ipc.new_stream(sink, rows.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as writer:
            writer.write_table(some)
        marks.append((sink.tell(), some.nbytes))
    data = sink.getvalue()
    path = own_name(path)
    folder.store.write(path, (memoryview(data),))
    pieces = []
    for number, (start, _), (stop, decoded) in zip(numbers, marks, marks[1:], strict=False):
        digest = digest_of(data.slice(start, stop - start))
        pieces.append(SpilledPiece(int(number), path, start, stop - start, decoded, digest))
    return tuple(pieces)


def read_spilled(folder: RunFolder, pieces: Sequence[SpilledPiece], cut: Cut, *, is_global: bool) -> pa.Table:
    """Rows of a bucket, or of a part of it, in the order of the pieces.

    Raises:
        CheckpointError: a piece is missing, or not what was written.
    """
    tables = []
    for piece in pieces:
        rows = _read(folder, piece)
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
