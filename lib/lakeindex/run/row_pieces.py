"""Rows that come batch by batch, written to the run folder as Arrow files while they come.

What is held is one block, whatever the stream's length: the stream can be read once, the files as often as a run is
planned anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

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
    """The same rows in blocks of :data:`BLOCK_ROWS`, or fewer if they have :data:`BLOCK_BYTES`: the same for the same
    rows, however they come.
    """
    held: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        start = 0
        while start < batch.num_rows:
            part = batch.slice(start, BLOCK_ROWS - rows)
            more = _size(part)
            if size + more >= BLOCK_BYTES:
                part = part.slice(0, _rows_up_to(part, BLOCK_BYTES - size, rows))
                more = _size(part)
            held.append(part)
            start, rows, size = start + part.num_rows, rows + part.num_rows, size + more
            if rows == BLOCK_ROWS or (size >= BLOCK_BYTES and rows % _UNIT_ROWS == 0):
                yield _joined(held)
                held, rows, size = [], 0, 0
    if held:
        yield _joined(held)


def _rows_up_to(part: pa.RecordBatch, limit: int, rows_before: int) -> int:
    """Rows up to the first unit of the block at whose end there are ``limit`` bytes."""
    end = size = 0
    while end < part.num_rows:
        step = _UNIT_ROWS - (rows_before + end) % _UNIT_ROWS
        size += _size(part.slice(end, step))
        end = min(end + step, part.num_rows)
        if size >= limit:
            break
    return end


def _size(rows: pa.RecordBatch) -> int:
    """Bytes of rows, which are those of their parts together: Arrow counts an offset and a bit more in each part."""
    return sum(map(_size_of_array, rows.columns))


def _size_of_array(given: pa.Array) -> int:
    values = _plain(given)
    kind, count = values.type, len(values)
    if pa.types.is_struct(kind):
        return count + sum(map(_size_of_array, values.flatten()))
    if pa.types.is_map(kind):
        first = values.offsets[0].as_py()
        entries = values.offsets[-1].as_py() - first
        return _OFFSET * count + sum(_size_of_array(one.slice(first, entries)) for one in (values.keys, values.items))
    if pa.types.is_nested(kind) and hasattr(values, "flatten"):
        return _OFFSET * count + _size_of_array(values.flatten())
    if pa.types.is_null(kind) or pa.types.is_union(kind):  # no table has a union, which is said later
        return count
    try:
        return max(kind.bit_width // 8, 1) * count
    except ValueError:  # its values have no one width
        return _OFFSET * count + (pc.sum(pc.binary_length(values)).as_py() or 0)


def _plain(values: pa.Array) -> pa.Array:
    """The same values in the form whose size is known."""
    kind = values.type
    if isinstance(kind, pa.BaseExtensionType):
        return _plain(values.storage)
    if pa.types.is_dictionary(kind):
        return _plain(values.dictionary_decode())
    if pa.types.is_run_end_encoded(kind):
        return _plain(pc.run_end_decode(values))
    if pa.types.is_string_view(kind) or pa.types.is_binary_view(kind):
        return values.cast(pa.large_binary())
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
