"""The merge plan: which slices are written, and which rows go where. Driver metadata only, no rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from lakeindex.files.file_system_view import Snapshot
from lakeindex.format.file_names import new_file_id, write_token
from lakeindex.index.contract import FileGroups, KeyHomes
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import digest_of_text
from lakeindex.run.lookup_files import LookupFile
from lakeindex.stages.merge_write.file_slices import PlacedRows
from lakeindex.stages.merge_write.tags import FoundLine, NewRows, Tags
from lakeindex.write.assignment import Assignment, FillCandidate, InsertPiece, assign_inserts, rows_of_a_file

Listed: TypeAlias = Mapping[tuple[int, str, int], NewRows]
Cut: TypeAlias = Callable[[Sequence[NewRows], int], list[tuple[InsertPiece, ...]]]


@dataclass(frozen=True, slots=True)
class PlannedSlice:
    """One slice to write.

    Attributes:
        old: the slice it replaces, or None for a new file group.
        old_number: number of the old slice in the ``files`` checkpoint, or None if nothing was looked up in it.
        location_parts: numbers of the location files that name the old slice.
        placed: new rows that go in.
        updates: rows replaced, as counted by the look-up.
        removed: rows deleted or moved away.
        file_id: id of the new file group, if it must have a certain one.
    """

    partition_path: str
    old: BaseFile | None
    old_number: int | None
    location_parts: tuple[int, ...]
    chunks: tuple[int, ...]
    placed: tuple[PlacedRows, ...]
    updates: int
    removed: int
    file_id: str | None = None

    @property
    def inserts(self) -> int:
        """New rows that go in."""
        return sum(p.stop - p.start for p in self.placed)


@dataclass(frozen=True, slots=True)
class Placing:
    """Where new rows must go.

    Attributes:
        homes: each into the file group of its home, if the index cares.
        cut: into new files only, divided at keys: from the new rows of a partition and the rows of a file.
    """

    homes: KeyHomes | None
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class MergePlan:
    """All slices of a commit, rewritten ones first; a function of the checkpoints and the snapshot."""

    slices: tuple[PlannedSlice, ...]

    @property
    def digest(self) -> str:
        """Two plans of one digest write the same rows into the same file groups."""
        return digest_of_text(
            *(
                (
                    s.partition_path,
                    s.old.path if s.old else "",
                    s.location_parts,
                    s.updates,
                    s.removed,
                    *((p.part.digest, p.chunk, p.partition, p.home, p.start, p.stop) for p in s.placed),
                )
                for s in self.slices
            )
        )


def make_plan(
    files: Sequence[LookupFile],
    found: Sequence[FoundLine],
    tags: Tags,
    snapshot: Snapshot,
    config: WriteConfig,
    placing: Placing,
    *,
    record_bytes: float,
) -> MergePlan:
    """Plan the commit.

    Args:
        files: files that were looked up.
        found: what was found in them.
        tags: what was not.
        placing: where new rows must go.
        record_bytes: size of a row on disk.

    Raises:
        PendingInstantError: a file group that has to change is being clustered by another writer.
    """
    changed: dict[int, list[FoundLine]] = {}
    for line in found:
        if line.updates or line.deletes or line.moves:
            changed.setdefault(line.file, []).append(line)
    snapshot.refuse_clustered(files[n].file for n in changed)
    if placing.homes is not None:
        assignments = _assign_homes(placing.homes, tags, snapshot)
        snapshot.refuse_clustered(a.target for a in assignments if a.target is not None)
    elif placing.cut is not None:
        assignments = _assign_cut(placing.cut, tags, rows_of_a_file(record_bytes, config))
    else:
        assignments = _assign(files, changed.keys(), tags, snapshot, record_bytes, config)
    listed = {n.key: n for n in tags.new_rows}
    filled = {a.target.path: a for a in assignments if a.target is not None}
    numbers = {f.file.path: f.number for f in files}
    slices = [
        _rewritten(files[n].file, n, changed[n], filled.pop(files[n].file.path, None), listed) for n in sorted(changed)
    ]
    for path in sorted(filled):
        target = filled[path].target
        slices.append(_slice(filled[path], target, numbers.get(path), listed))
    slices += [_slice(a, None, None, listed) for a in assignments if a.target is None]
    return MergePlan(tuple(slices))


def _assign_cut(cut: Cut, tags: Tags, most: int) -> list[Assignment]:
    """New rows to new files only, divided at keys."""
    of_partition: dict[str, list[NewRows]] = {}
    for new in tags.new_rows:
        of_partition.setdefault(new.partition, []).append(new)
    return [
        Assignment(partition, None, pieces)
        for partition in sorted(of_partition)
        for pieces in cut(of_partition[partition], most)
    ]


def _assign(
    files: Sequence[LookupFile],
    rewritten: Iterable[int],
    tags: Tags,
    snapshot: Snapshot,
    record_bytes: float,
    config: WriteConfig,
) -> list[Assignment]:
    pieces: dict[str, list[InsertPiece]] = {}
    for new in tags.new_rows:
        pieces.setdefault(new.partition, []).append(InsertPiece(new.chunk, 0, new.rows))
    being_rewritten = {files[n].file.path for n in rewritten}
    snapshot.preload(pieces)
    candidates = {
        partition: [
            FillCandidate(file, file.path in being_rewritten)
            for file in snapshot.base_files(partition)
            if (partition, file.file_id) not in snapshot.pending_clustering
        ]
        for partition in pieces
    }
    return assign_inserts(pieces, candidates, record_bytes, config)


def _assign_homes(homes: KeyHomes, tags: Tags, snapshot: Snapshot) -> list[Assignment]:
    """New rows to the one file group of their home, or to a new one that is made for it."""
    snapshot.preload({n.partition for n in tags.new_rows})
    pieces: dict[tuple[str, int], list[InsertPiece]] = {}
    for new in tags.new_rows:
        pieces.setdefault((new.partition, new.home), []).append(InsertPiece(new.chunk, 0, new.rows))
    lives = {
        partition: {(partition, file.file_id): file for file in snapshot.base_files(partition)}
        for partition in {partition for partition, _ in pieces}
    }
    known = {partition: FileGroups({g: n for n, g in enumerate(live)}) for partition, live in lives.items()}
    result = []
    for (partition, home), mine in sorted(pieces.items()):
        live = lives[partition]
        group = homes.group_of(partition, home, known[partition])
        target = live[group] if group is not None else None
        file_id = None if group is not None else homes.new_file_id(home)
        result.append(Assignment(partition, target, tuple(mine), home, file_id))
    return result


def _placed(assignment: Assignment | None, listed: Listed) -> tuple[PlacedRows, ...]:
    if assignment is None:
        return ()
    partition, home = assignment.partition_path, assignment.home
    return tuple(
        PlacedRows(listed[piece.chunk, partition, home].part, piece.chunk, partition, home, piece.start, piece.stop)
        for piece in assignment.pieces
    )


def _rewritten(
    file: BaseFile,
    number: int,
    lines: list[FoundLine],
    assignment: Assignment | None,
    listed: Listed,
) -> PlannedSlice:
    placed = _placed(assignment, listed)
    return PlannedSlice(
        file.partition_path,
        file,
        number,
        tuple(sorted({line.part for line in lines})),
        tuple(sorted({line.chunk for line in lines} | {p.chunk for p in placed})),
        placed,
        sum(line.updates for line in lines),
        sum(line.deletes + line.moves for line in lines),
    )


def _slice(assignment: Assignment, old: BaseFile | None, number: int | None, listed: Listed) -> PlannedSlice:
    placed = _placed(assignment, listed)
    chunks = tuple(sorted({p.chunk for p in placed}))
    return PlannedSlice(assignment.partition_path, old, number, (), chunks, placed, 0, 0, assignment.file_id)


def planned_name(planned: PlannedSlice, number: int) -> tuple[str, str]:
    """File id and write token of a planned slice; a new group gets a new id."""
    file_id = planned.old.file_id if planned.old is not None else planned.file_id or new_file_id()
    return file_id, write_token(number, 0, 0)
