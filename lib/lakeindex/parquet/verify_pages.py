"""Walk every page of a stored Parquet file and compare it with its checksums. Nothing is decoded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import pyarrow.parquet as pq

from lakeindex.frozen import Frozen
from lakeindex.parquet import stamps
from lakeindex.parquet.footer_text import ChunkText, footer_text
from lakeindex.parquet.pages import ChunkWalk, DamagedPagesError
from lakeindex.parquet.splice import Content, footer_bytes, known_headers

_MAGIC: Final = b"PAR1"
_PIECE_BYTES: Final = 8 * 1024 * 1024


class VerifiedPages(Frozen):
    """What a walk over a file found.

    Attributes:
        without_crc: pages whose body has no checksum.
    """

    pages: int
    without_crc: int
    problems: tuple[str, ...]


def verify_pages(data: Content, metadata: pq.FileMetaData) -> VerifiedPages:
    """Walk a file; it is read once, in pieces of 8 MiB.

    Raises:
        DamagedPagesError: the footer is not what was written, or says that chunks lie where they cannot.
    """
    footer = footer_bytes(data)
    groups, width = metadata.num_row_groups, metadata.num_columns
    text = footer_text(footer, width, groups)
    if text is None:
        raise DamagedPagesError("its row groups cannot be read")
    known = known_headers(metadata)
    walks = _Walks([(chunk, g, c) for g, group in enumerate(text.chunks) for c, chunk in enumerate(group)])
    end = len(data) - len(footer) - 8
    problems = list(walks.misplaced(end, is_ours=stamps.HEADERS.encode() in (metadata.metadata or {})))
    if problems:
        raise DamagedPagesError(problems[0])
    if bytes(data[: len(_MAGIC)]) != _MAGIC:
        problems.append("it does not begin as a Parquet file does")
    for at in range(len(_MAGIC), end, _PIECE_BYTES):
        walks.feed(at, memoryview(data[at : min(at + _PIECE_BYTES, end)]))
    names = [metadata.schema.column(c).path for c in range(width)]
    pages = without = 0
    for walk, group, column in walks.done():
        found = walk.end()
        pages += found.pages
        without += found.without_crc
        problem = found.against(known[group][column])
        if problem is not None:
            problems.append(f"row group {group}, column {names[column]!r}: {problem}")
    return VerifiedPages(pages, without, tuple(problems))


class _Walks:
    """All chunks of a file, in the order they lie in it."""

    def __init__(self, chunks: list[tuple[ChunkText, int, int]]) -> None:
        self._chunks = sorted(chunks, key=lambda one: one[0].start)
        self._walks = [ChunkWalk() for _ in chunks]
        self._next = 0

    def misplaced(self, end: int, *, is_ours: bool) -> Iterator[str]:
        """Chunks that overlap or lie outside of the file; in one of ours, gaps between them too."""
        at = len(_MAGIC)
        for chunk, group, column in self._chunks:
            if chunk.start < at or chunk.size < 1 or (is_ours and chunk.start != at):
                yield f"the pages of row group {group}, column {column} do not lie where the ones before end"
                return
            at = chunk.start + chunk.size
        if at > end or (is_ours and at != end):
            yield f"its pages end at byte {at}, its footer begins at {end}"

    def feed(self, at: int, piece: memoryview) -> None:
        stop = at + len(piece)
        while self._next < len(self._chunks):
            chunk = self._chunks[self._next][0]
            first, last = max(chunk.start, at), min(chunk.start + chunk.size, stop)
            if first < last:
                self._walks[self._next].feed(piece[first - at : last - at])
            if chunk.start + chunk.size > stop:
                return
            self._next += 1

    def done(self) -> Iterator[tuple[ChunkWalk, int, int]]:
        for walk, (_, group, column) in zip(self._walks, self._chunks, strict=True):
            yield walk, group, column
