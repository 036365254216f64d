"""Compare every entry of a stored index with the key columns of the live files.

Both sides are spread over as many parts as it takes for one part to fit into memory, by the hash of the key;
the parts are compared one after the other.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.index.locations.record_shards import scope_of, split
from lakeindex.model import BaseFile, Group
from lakeindex.operations.index.index import OpenedIndex, on_index
from lakeindex.run.checkpoints import Part, RunFolder
from lakeindex.run.index.session import uncovered
from lakeindex.run.spec import run_folder
from lakeindex.showing.json_result import TableResult
from lakeindex.tasks.runner import Runner

_ROWS_A_PART: Final = 2_000_000
_HELD_ROWS: Final = 2_000_000
_EXAMPLES: Final = 5
_BETWEEN: Final = "\x00"
_COLUMNS: Final = ["key", "partition", "file_id"]


@dataclass(frozen=True, slots=True)
class IndexFault:
    """One entry that is wrong.

    Attributes:
        kind: ``missing``: a stored key has no entry; ``wrong``: its entry names another place; ``surplus``:
            an entry of a key that is not stored; ``doubled``: a key is stored twice where it must be unique.
        key: the record key.
        stored: partition and file group it is in, None if it is not stored.
        entry: those that the index names, None if it names none.
    """

    kind: str
    key: str
    stored: str | None
    entry: str | None


@dataclass(frozen=True, slots=True)
class IndexVerified(TableResult):
    """What the comparison found.

    Attributes:
        index_type: which index.
        ok: every entry is right, every key has one.
        rows: stored keys that were compared.
        entries: entries that were compared.
        files: live files that were compared.
        files_behind: live files that the index does not cover: not compared, the next write reads them first.
        missing: stored keys without an entry.
        wrong: entries that name another place.
        surplus: entries of keys that are not stored.
        doubled: stored keys that must be unique and are not.
        examples: some of each.
        seconds: wall time.
    """

    shown_by: ClassVar[str] = "upkeep:show_index_verified"

    index_type: str
    ok: bool
    rows: int
    entries: int
    files: int
    files_behind: int
    missing: int
    wrong: int
    surplus: int
    doubled: int
    examples: tuple[IndexFault, ...]
    seconds: float


def verify_index(
    uri: str,
    runner: Runner,
    checkpoints: str,
    *,
    index_type: str | None = None,
    options: Mapping[str, str] | None = None,
) -> IndexVerified:
    """Compare a stored index with the table. Nothing is changed; what is wrong does not raise, it is reported.

    Raises:
        OptionError: the metadata table keeps it.
        IndexNotBuiltError: there is nothing to compare.
        IndexDamagedError: a file of the index cannot be read.
    """
    started = time.perf_counter()

    def verify(opened: OpenedIndex) -> IndexVerified:
        opened.check_ours()
        state = opened.session.built_state(opened.snapshot)
        live = opened.snapshot.base_files_all()
        behind = set(uncovered(live, state.coverage, None)[0])
        files = [file for file in live if file not in behind]
        counts = _compare(opened, files, opened.session.entries(state))
        return IndexVerified(
            table=opened.table.name,
            uri=opened.table.uri,
            index_type=opened.facts.index_type.value,
            ok=not any(counts.of(kind) for kind in _KINDS),
            rows=counts.rows,
            entries=counts.entries,
            files=len(files),
            files_behind=len(behind),
            missing=counts.of("missing"),
            wrong=counts.of("wrong"),
            surplus=counts.of("surplus"),
            doubled=counts.of("doubled"),
            examples=tuple(counts.examples),
            seconds=round(time.perf_counter() - started, 4),
        )

    return on_index(uri, runner, checkpoints, index_type, options, verify)


_KINDS: Final = ("missing", "wrong", "surplus", "doubled")


@dataclass
class _Counts:
    rows: int = 0
    entries: int = 0
    faults: dict[str, int] = field(default_factory=dict)
    examples: list[IndexFault] = field(default_factory=list)

    def of(self, kind: str) -> int:
        return self.faults.get(kind, 0)

    def add(self, kind: str, faults: int, examples: Iterator[IndexFault]) -> None:
        room = _EXAMPLES - self.of(kind)
        self.examples += [fault for _, fault in zip(range(max(room, 0)), examples, strict=False)]
        self.faults[kind] = self.of(kind) + faults


def _compare(opened: OpenedIndex, covered: Sequence[BaseFile], held_entries: Iterable[pa.Table]) -> _Counts:
    folder = run_folder(opened.spec)
    read = opened.session.read_keys(covered)
    total = sum(one.part.rows for one in read)
    parts = max(1, -(-total // _ROWS_A_PART))
    stored = _Spread(folder, f"{opened.spec.run_id}/stored", parts)
    held = _Spread(folder, f"{opened.spec.run_id}/held", parts)
    for one in read:
        stored.add(folder.read_table(one.part, _COLUMNS))
    groups: list[Group] = [(f.partition_path, f.file_id) for f in covered]
    names = pa.array([_BETWEEN.join(group) for group in groups], pa.string())
    for table in held_entries:
        entries = table.select(_COLUMNS).cast(pa.schema([pa.field(n, pa.string()) for n in _COLUMNS]))
        held.add(entries.filter(pc.is_in(_place(entries), value_set=names)))
    counts = _Counts()
    for number in range(parts):
        _compare_part(stored.read(number), held.read(number), counts, by_partition=not opened.facts.is_global)
    return counts


def _compare_part(stored: pa.Table, held: pa.Table, counts: _Counts, *, by_partition: bool) -> None:
    counts.rows += stored.num_rows
    counts.entries += held.num_rows
    scope, asked = scope_of(stored, by_partition=by_partition), scope_of(held, by_partition=by_partition)
    place = pc.index_in(asked, value_set=scope)
    surplus = place.is_null()
    here = stored.take(place.drop_null())
    known = held.filter(pc.is_valid(place))
    exact = pc.is_in(_full(known, by_partition=by_partition), value_set=_full(stored, by_partition=by_partition))
    missing = pc.invert(pc.is_in(scope, value_set=asked))
    _count(counts, "missing", stored.filter(missing), None)
    _count(counts, "wrong", here.filter(pc.invert(exact)), known.filter(pc.invert(exact)))
    _count(counts, "surplus", None, held.filter(surplus))
    first = pc.index_in(scope, value_set=scope).to_numpy()
    again = np.flatnonzero(first != np.arange(len(first)))
    _count(counts, "doubled", stored.take(pa.array(again)), stored.take(pa.array(first[again])))


def _count(counts: _Counts, kind: str, stored: pa.Table | None, held: pa.Table | None) -> None:
    sides = [None if side is None else side.slice(0, _EXAMPLES).to_pylist() for side in (stored, held)]
    rows = next(side for side in (stored, held) if side is not None).num_rows

    def examples() -> Iterator[IndexFault]:
        for number in range(min(rows, _EXAMPLES)):
            a, b = (None if side is None else side[number] for side in sides)
            yield IndexFault(kind, str((a or b or {})["key"]), _shown(a), _shown(b))

    counts.add(kind, rows, examples())


def _shown(row: Mapping[str, str] | None) -> str | None:
    return None if row is None else f"{row['partition']}/{row['file_id']}".lstrip("/")


def _place(table: pa.Table) -> pa.ChunkedArray:
    return pc.binary_join_element_wise(table.column("partition"), table.column("file_id"), _BETWEEN)


def _full(table: pa.Table, *, by_partition: bool) -> pa.Array:
    place = _place(table).combine_chunks()
    return pc.binary_join_element_wise(scope_of(table, by_partition=by_partition), place, _BETWEEN)


class _Spread:
    """Rows spread over parts by the hash of their key, on storage where there are many.

    Args:
        prefix: where files go.
    """

    def __init__(self, folder: RunFolder, prefix: str, parts: int) -> None:
        self._folder = folder
        self._prefix = prefix
        self._held: list[list[pa.Table]] = [[] for _ in range(parts)]
        self._files: list[list[Part]] = [[] for _ in range(parts)]
        self._rows = 0

    def add(self, table: pa.Table) -> None:
        """Take rows over."""
        for held, rows in zip(self._held, split(table, len(self._held)), strict=True):
            held.append(rows)
        self._rows += table.num_rows
        if self._rows > _HELD_ROWS and len(self._held) > 1:
            self._flush()

    def read(self, part: int) -> pa.Table:
        """All rows of a part."""
        tables = [*(self._folder.read_table(one) for one in self._files[part]), *self._held[part]]
        empty = pa.schema([pa.field(n, pa.string()) for n in _COLUMNS]).empty_table()
        return pa.concat_tables([empty, *(t.cast(empty.schema) for t in tables)]).combine_chunks()

    def _flush(self) -> None:
        for part, tables in enumerate(self._held):
            path = f"{self._prefix}/{part:05d}-{len(self._files[part]):05d}.parquet"
            self._files[part].append(self._folder.write_table(path, pa.concat_tables(tables)))
            self._held[part] = []
        self._rows = 0
