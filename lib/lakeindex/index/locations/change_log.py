"""The change log of a stored index: what each commit changed, and which files the index covers.

Under ``.hoodie/.lakeindex/index/<type>/``, files that are written whole and never changed::

    built-<number>.parquet   what was built: one row a base file that is covered; the newest number counts
    log/<instant>.parquet    a delta: what one commit changes, put before it, in force once the instant is completed
    log/<instant>.c-<number>-<id>.parquet   keys of files that the index did not see being written,
                                            read from them afterwards

A delta names the files its commit writes. Coverage, the live file of each file group whose keys the index knows,
follows from what was built and the deltas in force; it is compared with the table's live files by name. A
rollback, a restore, a clustering, another writer's commit: all show as a live file that is not covered, and are
caught up from that file.

A commit's delta says what changed from the file before (``replaces``). It counts for its file group only if that is the
file that is covered: a delta that was lost, is damaged, or lies in the wrong order among those of racing writers makes
a file group that is not covered, which is read again, and never one whose keys are missing.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec import field

from lakeindex.errors import IndexChangedError, IndexDamagedError, ObjectNotFoundError, first_line
from lakeindex.format.instants import comparable
from lakeindex.frozen import Frozen
from lakeindex.index.locations.store_context import NOTHING_COMPLETED, Completed, LogView
from lakeindex.index.locations.stored_index import DELTA_SCHEMA
from lakeindex.model import Group, IndexType
from lakeindex.storage.port import Storage
from lakeindex.storage.storage_file import StorageFile
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline

META: Final = b"lakeindex"
SUFFIX: Final = ".parquet"
_CAUGHT_UP: Final = ".c-"
BEFORE_ALL: Final = "0" * 17
"""Instant of a delta that was read from a table without any commit; in force by itself."""


class CoveredFile(Frozen):
    """A base file whose keys are in the index.

    Attributes:
        replaces: in a commit's delta, the file of the group before it, from which the delta says what changed.
    """

    partition_path: str
    file_id: str
    name: str
    rows: int
    replaces: str | None = None

    @property
    def group(self) -> Group:
        return self.partition_path, self.file_id

    @property
    def instant(self) -> str:
        """The write that made it."""
        return self.name.rpartition("_")[2].removesuffix(SUFFIX)


class Delta(Frozen):
    """What is known of a delta without its rows.

    Attributes:
        gone: file groups that are no more.
        resets: file groups whose keys are all in it: what was known of them before does not count any more.
        inserted: keys it adds, as far as that is known.
    """

    name: str
    files: tuple[CoveredFile, ...] = ()
    gone: tuple[Group, ...] = ()
    resets: tuple[Group, ...] = ()
    inserted: int = 0
    removed: int = 0

    @property
    def instant(self) -> str:
        """The instant that puts it into force."""
        return instant_of(self.name)

    @property
    def is_catch_up(self) -> bool:
        """Whether it was read from files of commits that were there already."""
        return _CAUGHT_UP in self.name


class Built(Frozen):
    """What was built.

    Attributes:
        number: counts up; the greatest is in force.
        generation: names the store's content.
    """

    number: int
    generation: str
    files: tuple[CoveredFile, ...]
    folded: frozenset[str]
    rows: int


class LogState(Frozen):
    """The log at one look.

    Attributes:
        built: what was built; None if nothing was.
        in_force: deltas that count beside it, in order.
        doubtful: names of deltas whose instants are not completed: pending, or failed.
        coverage: the live file of each covered file group.
        broken: file groups of which a delta is missing in between: entries of them do not count any more.
        unreadable: deltas in force that are damaged; without them, their file groups are not covered.
        numbers: numbers of all that was ever built, as far as it is there, readable or not.
    """

    folder: str
    built: Built | None
    in_force: tuple[Delta, ...] = ()
    doubtful: tuple[str, ...] = ()
    coverage: Mapping[Group, CoveredFile] = field(default_factory=dict)
    broken: tuple[Group, ...] = ()
    unreadable: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    numbers: tuple[int, ...] = ()
    completed: Completed = NOTHING_COMPLETED

    @property
    def next_number(self) -> int:
        return max(self.numbers, default=0) + 1

    @property
    def folded(self) -> frozenset[str]:
        """Deltas that are part of what was built, as long as the log has them, or the timeline their instants: whoever
        stood still when he put one may put it again when it was long forgotten.
        """
        folded, names = frozenset() if self.built is None else self.built.folded, frozenset(self.names)
        return frozenset(one for one in folded if one in names or instant_of(one) in self.completed.times)

    @property
    def view(self) -> LogView:
        generation = self.built.generation if self.built is not None else None
        return LogView(self.folder, generation, tuple(d.name for d in self.in_force))

    @property
    def covered_through(self) -> str | None:
        """The newest instant whose files are covered."""
        instants = [d.instant for d in self.in_force]
        instants += [f.instant for f in self.coverage.values()]
        return max(instants, key=comparable, default=None)

    @property
    def rows(self) -> int:
        """Rows of all covered files: how many keys the index has to hold."""
        return sum(f.rows for f in self.coverage.values())


def instant_of(name: str) -> str:
    """The instant that puts a delta into force."""
    return name.partition(_CAUGHT_UP)[0]


def catch_up_name(instant: str | None, names: Iterable[str]) -> str:
    """A new name of a delta that was read from files of commits up to an instant;
    it comes after all deltas of that instant.
    """
    at = instant or BEFORE_ALL
    numbers = (n.partition(_CAUGHT_UP)[2].partition("-")[0] for n in names if instant_of(n) == at)
    number = max((int(n) for n in numbers if n.isdecimal()), default=0) + 1
    return f"{at}{_CAUGHT_UP}{number:06d}-{uuid.uuid4().hex[:12]}"


def new_generation(number: int) -> str:
    return f"{number:08d}-{uuid.uuid4().hex[:12]}"


def number_of(generation: str) -> int:
    """The number that a generation was built under; 0 if its name has none."""
    number = generation.partition("-")[0]
    return int(number) if number.isdecimal() else 0


def place_of(name: str) -> tuple[str, str]:
    """Order of deltas: by instant, each followed by what was read from files after it."""
    instant = instant_of(name)
    return comparable(instant), name.removeprefix(instant)


def coverage_of(built: Built, deltas: Sequence[Delta]) -> tuple[dict[Group, CoveredFile], tuple[Group, ...]]:
    """Covered files, and file groups whose chain of deltas is broken."""
    covered = {f.group: f for f in built.files}
    broken: set[Group] = set()
    for delta in deltas:
        for group in delta.gone:
            covered.pop(group, None)
            broken.discard(group)
        whole = set(delta.resets)
        for file in delta.files:
            known = covered.get(file.group)
            if file.group in whole or (None if known is None else known.name) == file.replaces:
                covered[file.group] = file
                broken.discard(file.group)
            else:
                covered.pop(file.group, None)
                broken.add(file.group)
    return covered, tuple(sorted(broken))


def delta_of(name: str, path: str, metadata: Mapping[bytes, bytes] | None) -> Delta:
    """A delta from its file's metadata. Raises: IndexDamagedError."""
    try:
        found: dict[str, Any] = json.loads((metadata or {})[META])
        return Delta(
            name,
            tuple(CoveredFile(*one) for one in found["files"]),
            tuple((one[0], one[1]) for one in found["gone"]),
            tuple((one[0], one[1]) for one in found["resets"]),
            found["inserted"],
            found["removed"],
        )
    except (ValueError, KeyError, TypeError, IndexError) as error:
        raise damaged(path, error) from error


def damaged(path: str, error: Exception) -> IndexDamagedError:
    return IndexDamagedError(
        f"{path} of the index cannot be read: {first_line(error)}",
        culprit=path,
        hint="build the index anew: lakeindex index build TABLE",
    )


def changed(path: str) -> IndexChangedError:
    return IndexChangedError(
        f"{path} of the index was folded or taken back by another writer since it was listed",
        culprit=path,
        hint="run it again: the index is as complete without it",
    )


__all__ = [
    "Built",
    "ChangeLog",
    "CoveredFile",
    "Delta",
    "LogState",
    "catch_up_name",
    "new_generation",
    "read_delta",
]

INDEX_FOLDER: Final = ".hoodie/.lakeindex/index"
_BUILT: Final = "built-"
_LOOKS: Final = 5

_COVER_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)


class ChangeLog:
    """The change log of one index of a table."""

    def __init__(self, storage: Storage, index_type: IndexType) -> None:
        self._storage = storage
        self.folder = f"{INDEX_FOLDER}/{index_type.lower()}"

    def at(self, timeline: Timeline) -> LogState:
        """Read the log as of a timeline, which is asked whether the instants of its deltas count.

        Raises:
            IndexDamagedError: a file of it is damaged.
        """
        return self._read_whole(lambda instants: Completed.of(timeline, instants))

    def load(self, completed: Completed) -> LogState:
        """Read the log. Raises: IndexDamagedError: a file of it is damaged."""
        return self._read_whole(lambda _: completed)

    def _read_whole(self, judge: Callable[[frozenset[str]], Completed]) -> LogState:
        for _ in range(_LOOKS):
            try:
                return self._load(judge)
            except ObjectNotFoundError:
                continue  # folded and forgotten by another writer since it was listed
        raise IndexChangedError(
            f"the change log {self.folder} changes faster than it can be read",
            culprit=self.folder,
            hint="run it again when the other writers are done",
        )

    def _load(self, judge: Callable[[frozenset[str]], Completed]) -> LogState:
        """The log; ``judge`` says which instants count, and is told those that the deltas have."""
        numbers = tuple(self._built_numbers())
        built = _newest_built(self._storage, self.folder, numbers)
        names = self.names()
        apart = [name for name in names if built is None or name not in built.folded]
        completed = judge(frozenset(map(instant_of, apart)) - {BEFORE_ALL})
        in_force, doubtful, unreadable = [], [], []
        for name in apart:
            instant = instant_of(name)
            if instant != BEFORE_ALL and not completed.has(instant):
                doubtful.append(name)
            elif built is not None:
                try:
                    in_force.append(self.read(name))
                except IndexDamagedError:
                    unreadable.append(name)
        coverage, broken = ({}, ()) if built is None else coverage_of(built, in_force)
        return LogState(
            self.folder,
            built,
            tuple(in_force),
            tuple(doubtful),
            coverage,
            broken,
            tuple(unreadable),
            tuple(names),
            numbers,
            completed,
        )

    def read(self, name: str) -> Delta:
        """A delta without its rows. Raises: IndexDamagedError, ObjectNotFoundError."""
        path = LogView(self.folder).path_of(name)
        try:
            metadata = pq.read_metadata(StorageFile(self._storage, path)).metadata
        except (pa.ArrowException, OSError) as error:
            raise damaged(path, error) from error
        return delta_of(name, path, metadata)

    def is_readable(self, name: str) -> bool:
        """Whether a delta was written whole."""
        try:
            self.read(name)
        except (IndexDamagedError, ObjectNotFoundError):
            return False
        return True

    def put(self, delta: Delta, row_groups: Iterable[pa.Table]) -> None:
        """Write a delta, whole; an attempt that follows the same plan writes the same again.

        Args:
            row_groups: its rows, tables of ``DELTA_SCHEMA``, each of which becomes a row group.
        """
        meta = {
            "files": [[f.partition_path, f.file_id, f.name, f.rows, f.replaces] for f in delta.files],
            "gone": [list(g) for g in delta.gone],
            "resets": [list(g) for g in delta.resets],
            "inserted": delta.inserted,
            "removed": delta.removed,
        }
        schema = DELTA_SCHEMA.with_metadata({META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for table in row_groups:
                writer.write_table(table.cast(schema), row_group_size=max(table.num_rows, 1))
        path = LogView(self.folder).path_of(delta.name)
        self._storage.write(path, sink.getvalue().to_pybytes())
        self._storage.sync([path])

    def put_built(self, built: Built) -> bool:
        """Put what was built into force; False if another builder was first with this number."""
        rows = [
            {"partition": f.partition_path, "file_id": f.file_id, "file": f.name, "rows": f.rows} for f in built.files
        ]
        meta = {"generation": built.generation, "folded": sorted(built.folded), "rows": built.rows}
        schema = _COVER_SCHEMA.with_metadata({META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
        path, data = _built_path(self.folder, built.number), sink.getvalue().to_pybytes()
        if records.settle(self._storage, path, data) != data:  # no two have one generation
            return False
        self._storage.sync([path])
        return True

    def forget(self, names: Iterable[str]) -> None:
        """Delete deltas: dead ones, and those that have long been part of what was built."""
        for name in names:
            self._storage.delete(LogView(self.folder).path_of(name))

    def tidy(self, keep: int = 2) -> None:
        """Delete what older builds left: all but the newest ``keep`` of them,
        and deltas folded into those that stay. A later build has tidied, too.
        """
        numbers = self._built_numbers()
        for number in numbers[:-keep]:
            self._storage.delete(_built_path(self.folder, number))
        if len(numbers) < keep:
            return
        try:
            oldest = _read_built(self._storage, self.folder, numbers[-keep])
        except ObjectNotFoundError:
            return
        self.forget(name for name in self.names() if oldest is not None and name in oldest.folded)

    def drop(self) -> None:
        """Remove everything; what was built first, so that a drop cut short leaves an index that is not built."""
        for number in self._built_numbers():
            self._storage.delete(_built_path(self.folder, number))
        for one in self._storage.list(self.folder):
            self._storage.delete(one.path)

    def names(self) -> list[str]:
        listed = self._storage.list_folder(f"{self.folder}/log").objects
        names = (one.path.rpartition("/")[2] for one in listed)
        return sorted((name.removesuffix(SUFFIX) for name in names if name.endswith(SUFFIX)), key=place_of)

    def _built_numbers(self) -> list[int]:
        return _numbers_in(self._storage, self.folder)


def read_delta(storage: Storage, view: LogView, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a delta. Raises: IndexDamagedError; IndexChangedError: it is not there any more."""
    path = view.path_of(name)
    try:
        return pq.read_table(pa.BufferReader(storage.read(path)), columns=columns)
    except ObjectNotFoundError as error:
        raise changed(path) from error
    except (pa.ArrowException, OSError) as error:
        raise damaged(path, error) from error


def read_changes(storage: Storage, view: LogView, name: str) -> tuple[Delta, pa.Table]:
    """A delta: what is known of it, and its rows. Raises: as :func:`read_delta`."""
    rows = read_delta(storage, view, name)
    return delta_of(name, view.path_of(name), rows.schema.metadata), rows


def missing(storage: Storage, view: LogView, path: str) -> IndexChangedError | IndexDamagedError:
    """What it means that a file of an index which a view names is not there: the log has changed if it lists another
    generation by now; the files of the one in force are taken away by nobody.
    """
    if path.startswith(f"{view.folder}/log/") or not is_in_force(storage, view):
        return changed(path)
    return damaged(path, FileNotFoundError("it is not there"))


def is_in_force(storage: Storage, view: LogView) -> bool:
    """Whether nothing was built since a view was taken, and what it names was not dropped. Its number does not tell: a
    store may keep its generation when it takes deltas in.
    """
    try:
        built = _newest_built(storage, view.folder, _numbers_in(storage, view.folder))
    except ObjectNotFoundError:
        return False
    return view.generation == (None if built is None else built.generation)


def _newest_built(storage: Storage, folder: str, numbers: Sequence[int]) -> Built | None:
    """The newest that can be read. An older one is as good:
    what was folded into a newer one is in the log, or is read anew.
    """
    return next(filter(None, (_read_built(storage, folder, number) for number in reversed(numbers))), None)


def _read_built(storage: Storage, folder: str, number: int) -> Built | None:
    """None if it is damaged. Raises: ObjectNotFoundError."""
    data = storage.read(_built_path(folder, number))
    try:
        table = pq.read_table(pa.BufferReader(data))
        meta = json.loads(table.schema.metadata[META])
        files = [CoveredFile(*row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
        return Built(number, meta["generation"], tuple(files), frozenset(meta["folded"]), meta["rows"])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError):
        return None


def _built_path(folder: str, number: int) -> str:
    return f"{folder}/{_BUILT}{number:08d}{SUFFIX}"


def _numbers_in(storage: Storage, folder: str) -> list[int]:
    listed = storage.list_folder(folder).objects
    names = (one.path.rpartition("/")[2] for one in listed)
    numbers = (n.removeprefix(_BUILT).removesuffix(SUFFIX) for n in names if n.startswith(_BUILT))
    return sorted(int(n) for n in numbers if n.isdecimal())
