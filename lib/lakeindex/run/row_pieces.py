"""Rows that come batch by batch, written to the run folder as Arrow files while they come.

What is held is one block, whatever the stream's length: the stream can be read once, the files as often as a run is
planned anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.storage.port import Storage

PIECE_BYTES: Final = 64 * 1024 * 1024
"""A file ends with the block that makes it so large. Fixed: the batch's digest must not depend on options."""
BLOCK_ROWS: Final = 8_192
BLOCK_BYTES: Final = 4 * 1024 * 1024
_UNIT_ROWS: Final = 16
_OFFSET: Final = 4


def write_pieces(
    store: Storage, stem: str, schema: pa.Schema, batches: Iterable[pa.RecordBatch]
) -> tuple[tuple[str, int], ...]:
    """Write record batches as Arrow files ``<stem>00000.arrow`` and so on; one at least, though it may be empty.

    Args:
        batches: read once, each when the one before it was written.

    Returns:
        Path and rows of every file, in order.

    Raises:
        StorageError: a file cannot be written; what was read of the stream is gone.
    """
    source = _Source(batches)
    paths: list[tuple[str, int]] = []
    while not paths or source.has_more():
        path = f"{stem}{len(paths):05d}.arrow"
        before = source.rows
        store.write(path, _file(schema, source))
        paths.append((path, source.rows - before))
    return tuple(paths)


def in_blocks(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in blocks of :data:`BLOCK_ROWS`, or up to the first unit of rows at whose end there are
    :data:`BLOCK_BYTES`: the same for the same rows, however they come.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        start, ends = 0, _ends(batch)
        while start < batch.num_rows:
            done = int(ends[start])
            full = int(np.searchsorted(ends, done + BLOCK_BYTES - size)) - start
            most = min(BLOCK_ROWS - rows, batch.num_rows - start)
            count = min(full + -(rows + full) % _UNIT_ROWS, most)
            held.append(batch.slice(start, count))
            start, rows, size = start + count, rows + count, size + int(ends[start + count]) - done
            if rows == BLOCK_ROWS or (size >= BLOCK_BYTES and rows % _UNIT_ROWS == 0):
                yield _joined(held)
                held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _ends(batch: pa.RecordBatch) -> npt.NDArray[np.int64]:
    """Bytes of the rows before each row, and of all: int64 [rows + 1]. Arrow's own sizes count an offset and a bit more
    in each part, so that they depend on how rows come.
    """
    parts = [batch.slice(start, BLOCK_ROWS) for start in range(0, batch.num_rows, BLOCK_ROWS)]
    sizes = [sum(map(_sizes, part.columns), np.zeros(part.num_rows, np.int64)) for part in parts]
    return np.concatenate([[0], *sizes]).cumsum(dtype=np.int64)


def _sizes(given: pa.Array) -> npt.NDArray[np.int64]:
    """Bytes of each value: int64 [values]."""
    values = _plain(given)
    kind, count = values.type, len(values)
    if pa.types.is_struct(kind):
        return sum(map(_sizes, values.flatten()), np.ones(count, np.int64))
    if pa.types.is_nested(kind) and not pa.types.is_union(kind):
        is_view = pa.types.is_list_view(kind) or pa.types.is_large_list_view(kind)
        offsets = values.offsets.to_numpy()
        counts = np.where(values.is_valid(), values.sizes.to_numpy() if is_view else np.diff(offsets), 0)
        first = offsets[:count].min(initial=offsets[0])
        every = (offsets[:count] + counts).max(initial=first) - first
        inner = (values.keys, values.items) if pa.types.is_map(kind) else (values.values,)
        entries = sum(_sizes(one.slice(first, every)) for one in inner)
        ends = np.concatenate([[0], entries]).cumsum(dtype=np.int64)
        return _OFFSET + ends[offsets[:count] - first + counts] - ends[offsets[:count] - first]
    if pa.types.is_null(kind) or pa.types.is_union(kind):  # no table has a union, which is said later
        return np.ones(count, np.int64)
    try:
        return np.full(count, max(kind.bit_width // 8, 1), np.int64)
    except ValueError:  # its values have no one width
        return _OFFSET + pc.fill_null(pc.binary_length(values), 0).to_numpy(zero_copy_only=False).astype(np.int64)


def _plain(values: pa.Array) -> pa.Array:
    """The same values in a form whose sizes are known."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage)
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(values))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.large_binary())
    if pa.types.is_fixed_size_list(kind):
        return values.cast(pa.large_list(kind.value_field))
    return values


def _joined(parts: list[pa.RecordBatch]) -> pa.RecordBatch:
    return parts[0] if len(parts) == 1 else pa.concat_batches(parts)


class _Source:
    """A stream that can be asked whether there is more, and counts its rows."""

    def __init__(self, batches: Iterable[pa.RecordBatch]) -> None:
        self._batches = iter(batches)
        self._next: pa.RecordBatch | None = None
        self.rows = 0

    def has_more(self) -> bool:
        if self._next is None:
            self._next = next(self._batches, None)
        return self._next is not None

    def take(self) -> pa.RecordBatch:
        taken, self._next = self._next, None
        assert taken is not None, "has_more() said so"
        self.rows += taken.num_rows
        return taken


class _Sink:
    """What Arrow writes, until it is taken away."""

    def __init__(self) -> None:
        self._written: list[bytes] = []
        self.size = 0
        self.closed = False

    def write(self, data: bytes) -> int:
        piece = bytes(data)
        self._written.append(piece)
        self.size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self.size

    def flush(self) -> None:
        pass

    def close(self) -> None:
        self.closed = True

    def taken(self) -> list[bytes]:
        written, self._written = self._written, []
        return written


def _file(schema: pa.Schema, source: _Source) -> Iterator[bytes]:
    """The bytes of one Arrow file, made while they are written."""
    sink = _Sink()
    with pa.ipc.new_file(pa.PythonFile(sink, mode="w"), schema) as writer:
        while sink.size < PIECE_BYTES and source.has_more():
            writer.write_batch(source.take())
            yield from sink.taken()
    yield from sink.taken()
