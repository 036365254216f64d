"""Assign new rows to file groups: small files first, then new groups of the target size. Metadata only, no rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from lakeindex.frozen import Frozen
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig


class InsertPiece(Frozen, order=True):
    """New rows of one chunk, partition and home, counted in key order: ``[start, stop)``."""

    chunk: int
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


class Assignment(Frozen):
    """New rows for one file group: an existing one (its latest slice) or, with None, one to be created.

    Attributes:
        home: the home that the rows belong to; -1 where new rows may go into any file group.
        file_id: id that a new file group must have, or None.
    """

    partition_path: str
    target: BaseFile | None
    pieces: tuple[InsertPiece, ...]
    home: int = -1
    file_id: str | None = None

    @property
    def rows(self) -> int:
        return sum(p.rows for p in self.pieces)


class FillCandidate(Frozen):
    """A file group that may take new rows; one that is rewritten anyway costs no extra copy."""

    file: BaseFile
    is_rewritten: bool


def assign_inserts(
    inserts: Mapping[str, Sequence[InsertPiece]],
    candidates: Mapping[str, Sequence[FillCandidate]],
    record_bytes: float,
    config: WriteConfig,
) -> list[Assignment]:
    """Spread each partition's new rows over small files and new file groups.

    Args:
        inserts: partition path -> pieces, in the order they should be placed.
        candidates: partition path -> file groups that may be filled (none under a pending clustering).
        record_bytes: size of a row on disk.

    Returns:
        Assignments; every new row is in exactly one. Deterministic.
    """
    result: list[Assignment] = []
    per_file = rows_of_a_file(record_bytes, config)
    for partition in sorted(inserts):
        pieces = [p for p in inserts[partition] if p.rows]
        for candidate in _small_files(candidates.get(partition, ()), config):
            room = int((config.max_file_bytes - candidate.file.size_bytes) / record_bytes)
            taken, pieces = _take(pieces, room)
            if taken:
                result.append(Assignment(partition, candidate.file, tuple(taken)))
        while pieces:
            left = sum(p.rows for p in pieces)
            groups = -(-left // per_file)
            taken, pieces = _take(pieces, -(-left // groups))
            result.append(Assignment(partition, None, tuple(taken)))
    return result


def rows_of_a_file(record_bytes: float, config: WriteConfig) -> int:
    """Rows of a new file of the target size."""
    return max(1, int(config.max_file_bytes / max(record_bytes, 1e-9)))


def _small_files(candidates: Sequence[FillCandidate], config: WriteConfig) -> list[FillCandidate]:
    small = [c for c in candidates if c.file.size_bytes < config.small_file_bytes]
    return sorted(small, key=lambda c: (not c.is_rewritten, c.file.size_bytes, c.file.file_id))


def _take(pieces: list[InsertPiece], rows: int) -> tuple[list[InsertPiece], list[InsertPiece]]:
    taken: list[InsertPiece] = []
    rest: list[InsertPiece] = []
    for piece in pieces:
        here = min(rows, piece.rows)
        if here > 0:
            taken.append(InsertPiece(piece.chunk, piece.start, piece.start + here))
            rows -= here
        if here < piece.rows:
            rest.append(InsertPiece(piece.chunk, piece.start + max(here, 0), piece.stop))
    return taken, rest
