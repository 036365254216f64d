"""Stage 4, done again because the table moved: locations in files that did not change are taken over.

A base file never changes, so what was found in it for the same keys is found in it again.
Only files that are new, and files for which other keys are proposed now, are read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.frozen import Frozen
from lakeindex.index.fate import Fate
from lakeindex.run.checkpoints import Part, RunFolder
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import RunSpec, run_folder


class VerifyResult(Frozen):
    """Locations found, and a count line for each (file, chunk):
    file, part, chunk, found, updates, deletes, moves, ignored, and how many of these by a condition; how many pairs
    of key and file were looked at, and how many of them are true.
    """

    part: Part
    lines: tuple[tuple[int, ...], ...]
    pairs: int
    true_pairs: int


class VerifiedBefore(Frozen):
    """The stage as it was done on an earlier snapshot of the same run.

    Attributes:
        files: the ``files`` checkpoint that it was done with.
        proposed: parts of the candidates, or ranges.
    """

    files: tuple[LookupFile, ...]
    proposed: tuple[Part, ...]
    located: tuple[Part, ...]


class CarryTask(Frozen):
    """Take locations of some files over from one part.

    Attributes:
        numbers: numbers of the files, before and now.
        pairs: pairs that were verified before, to be counted.
    """

    spec: RunSpec
    part: Part
    numbers: tuple[tuple[int, int], ...]
    pairs: int
    number: int
    path: str


def same_files(
    folder: RunFolder, before: VerifiedBefore, files: Sequence[LookupFile], proposed: Sequence[Part]
) -> dict[int, int]:
    """Files for which the same keys are proposed as before: their number now, by their number before."""
    then, now = _proposed(folder, before.proposed), _proposed(folder, proposed)
    numbers = {file.file.path: file.number for file in before.files}
    found = {}
    for file in files:
        old = numbers.get(file.file.path)
        if old is not None and file.number in now and then.get(old) == now[file.number]:
            found[old] = file.number
    return found


def carry_tasks(
    spec: RunSpec, before: VerifiedBefore, numbers: dict[int, int], pairs: int, attempt: str
) -> list[CarryTask]:
    """A task a part of the earlier locations."""
    renumbered = tuple(sorted(numbers.items()))
    return [
        CarryTask(spec, part, renumbered, 0 if n else pairs, n, f"{attempt}/locations/{n:05d}.parquet")
        for n, part in enumerate(before.located)
    ]


def carry_locations(task: CarryTask) -> VerifyResult:
    """Write the part's locations in these files, with the files' new numbers."""
    folder = run_folder(task.spec)
    table = folder.read_table(task.part)
    old = pa.array([number for number, _ in task.numbers], pa.int32())
    new = pa.array([number for _, number in task.numbers], pa.int32())
    kept = table.filter(pc.is_in(table.column("file"), value_set=old))
    place = table.schema.get_field_index("file")
    kept = kept.set_column(place, "file", new.take(pc.index_in(kept.column("file"), value_set=old)))
    part = folder.write_table(task.path, kept)
    return VerifyResult(part, tuple(count_lines(kept, task.number)), task.pairs, pairs_in(kept))


def pairs_in(located: pa.Table) -> int:
    """Pairs of key and file in locations: a file may hold a key more than once."""
    places = [located.column(name).to_numpy() for name in ("file", "chunk", "row")]
    order = np.lexsort(places)
    again = np.all([one[order][1:] == one[order][:-1] for one in places], axis=0)
    return located.num_rows - int(again.sum())


def count_lines(located: pa.Table, part: int) -> list[tuple[int, ...]]:
    """Count lines of locations, by file and chunk; ``part``: number of their part."""
    file, chunk, fate = (located.column(name).to_numpy() for name in ("file", "chunk", "fate"))
    order = np.lexsort((chunk, file))
    file, chunk, fate = file[order], chunk[order], fate[order]
    is_first = np.ones(len(file), np.bool_)
    is_first[1:] = (file[1:] != file[:-1]) | (chunk[1:] != chunk[:-1])
    starts = np.flatnonzero(is_first)
    if not len(starts):
        return []

    def count(*fates: Fate) -> np.ndarray:
        return np.add.reduceat(np.isin(fate, fates).astype(np.int64), starts)

    unmet = count(Fate.IGNORED_UNMET)
    ignored = count(Fate.IGNORED_OLDER, Fate.IGNORED_STORED) + unmet
    sizes = np.diff(np.append(starts, len(file)))
    counts = [sizes, count(Fate.UPDATE), count(Fate.DELETE, Fate.COPY), count(Fate.MOVED), ignored, unmet]
    columns = [file[starts], np.full(len(starts), part), chunk[starts], *counts]
    return list(zip(*(column.tolist() for column in columns), strict=True))


def _proposed(folder: RunFolder, parts: Sequence[Part]) -> dict[int, frozenset[tuple[object, ...]]]:
    found: dict[int, set[tuple[object, ...]]] = defaultdict(set)
    for part in parts:
        table = folder.read_table(part)
        names = [name for name in table.column_names if name not in ("file", "pairs")]
        for file, *line in zip(*(table.column(name).to_pylist() for name in ("file", *names)), strict=True):
            found[file].add(tuple(line))
    return {file: frozenset(lines) for file, lines in found.items()}
