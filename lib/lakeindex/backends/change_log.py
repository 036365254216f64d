"""The change log of a stored index: what each commit changed, and which files the index covers.

Under ``.hoodie/.lakeindex/index/<type>/``, files that are written whole and never changed::

    built-<number>.parquet   what was built: one row a base file that is covered; the newest number counts
    log/<instant>.parquet    a delta: what one commit changes, put before it, in force once the instant is completed
    log/<instant>.c-<id>.parquet   keys of files that the index did not see being written, read from them afterwards

A delta names the files its commit writes. Coverage, the live file of each file group whose keys the index knows, follows from
what was built and the deltas in force; it is compared with the table's live files by name. A rollback, a restore, a clustering,
another writer's commit: all show as a live file that is not covered, and are caught up from that file.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.backends.context import Completed, LogView
from lakeindex.errors import IndexDamagedError, ObjectExistsError, ObjectNotFoundError
from lakeindex.index.protocol import DELTA_SCHEMA, Group
from lakeindex.model import IndexType
from lakeindex.storage.protocol import Storage
from lakeindex.storage.reading import StorageFile

INDEX_FOLDER: Final = ".hoodie/.lakeindex/index"
_META: Final = b"lakeindex"
_BUILT: Final = "built-"
_CAUGHT_UP: Final = ".c-"
_SUFFIX: Final = ".parquet"

_COVER_SCHEMA: Final = pa.schema(
    [
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string(), nullable=False),
        pa.field("file", pa.string(), nullable=False),
        pa.field("rows", pa.int64(), nullable=False),
    ]
)


@dataclass(frozen=True, slots=True)
class CoveredFile:
    """A base file whose keys are in the index.

    Attributes:
        partition_path: its partition.
        file_id: its file group.
        name: file name.
        rows: rows in it.
    """

    partition_path: str
    file_id: str
    name: str
    rows: int

    @property
    def group(self) -> Group:
        """Its file group."""
        return self.partition_path, self.file_id


@dataclass(frozen=True, slots=True)
class Delta:
    """What is known of a delta without its rows.

    Attributes:
        name: its name in the log.
        files: files that it covers.
        gone: file groups that are no more.
        resets: file groups whose keys are all in it: what was known of them before does not count any more.
        inserted: keys it adds, as far as that is known.
        removed: keys it removes.
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
        return self.name.partition(_CAUGHT_UP)[0]

    @property
    def is_catch_up(self) -> bool:
        """Whether it was read from files of commits that were there already."""
        return _CAUGHT_UP in self.name


@dataclass(frozen=True, slots=True)
class Built:
    """What was built.

    Attributes:
        number: counts up; the greatest is in force.
        generation: names the store's content.
        files: files it covers.
        folded: deltas that are part of it.
        rows: keys in it.
    """

    number: int
    generation: str
    files: tuple[CoveredFile, ...]
    folded: frozenset[str]
    rows: int


@dataclass(frozen=True)
class LogState:
    """The log at one look.

    Attributes:
        built: what was built; None if nothing was.
        in_force: deltas that count beside it, in order.
        doubtful: names of deltas whose instants are not completed: pending, or failed.
        coverage: the live file of each covered file group.
    """

    folder: str
    built: Built | None
    in_force: tuple[Delta, ...] = ()
    doubtful: tuple[str, ...] = ()
    coverage: Mapping[Group, CoveredFile] = field(default_factory=dict)

    @property
    def view(self) -> LogView:
        """What tasks need of it."""
        generation = self.built.generation if self.built is not None else None
        return LogView(self.folder, generation, tuple(d.name for d in self.in_force))

    @property
    def covered_through(self) -> str | None:
        """The newest instant whose files are covered."""
        instants = [d.instant for d in self.in_force]
        instants += [f.name.rpartition("_")[2].removesuffix(_SUFFIX) for f in self.coverage.values()]
        return max(instants, default=None)

    @property
    def rows(self) -> int:
        """Rows of all covered files: how many keys the index has to hold."""
        return sum(f.rows for f in self.coverage.values())


class ChangeLog:
    """The change log of one index of a table."""

    def __init__(self, storage: Storage, index_type: IndexType) -> None:
        self._storage = storage
        self.folder = f"{INDEX_FOLDER}/{index_type.lower()}"

    def load(self, completed: Completed) -> LogState:
        """Read the log.

        Args:
            completed: which instants count.

        Raises:
            IndexDamagedError: a file of it is damaged.
        """
        built = self._newest_built()
        if built is None:
            return LogState(self.folder, None)
        in_force, doubtful = [], []
        for name in self.names():
            if name in built.folded:
                continue
            if completed.has(Delta(name).instant):
                in_force.append(self.read(name))
            else:
                doubtful.append(name)
        return LogState(self.folder, built, tuple(in_force), tuple(doubtful), _coverage(built, in_force))

    def read(self, name: str) -> Delta:
        """A delta without its rows. Raises: IndexDamagedError."""
        path = LogView(self.folder).path_of(name)
        found = _metadata(self._storage, path)
        return Delta(
            name,
            tuple(CoveredFile(*one) for one in found["files"]),
            tuple((one[0], one[1]) for one in found["gone"]),
            tuple((one[0], one[1]) for one in found["resets"]),
            found["inserted"],
            found["removed"],
        )

    def put(self, delta: Delta, row_groups: Iterable[pa.Table]) -> None:
        """Write a delta, whole; an attempt that follows the same plan writes the same again.

        Args:
            delta: what is known of it.
            row_groups: its rows, tables of ``DELTA_SCHEMA``, each of which becomes a row group.
        """
        meta = {
            "files": [[f.partition_path, f.file_id, f.name, f.rows] for f in delta.files],
            "gone": [list(g) for g in delta.gone],
            "resets": [list(g) for g in delta.resets],
            "inserted": delta.inserted,
            "removed": delta.removed,
        }
        schema = DELTA_SCHEMA.with_metadata({_META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        with pq.ParquetWriter(sink, schema, compression="zstd") as writer:
            for table in row_groups:
                writer.write_table(table.cast(schema), row_group_size=max(table.num_rows, 1))
        self._storage.write(LogView(self.folder).path_of(delta.name), sink.getvalue().to_pybytes())

    def put_built(self, built: Built) -> bool:
        """Put what was built into force; False if another builder was first with this number."""
        rows = [
            {"partition": f.partition_path, "file_id": f.file_id, "file": f.name, "rows": f.rows} for f in built.files
        ]
        meta = {"generation": built.generation, "folded": sorted(built.folded), "rows": built.rows}
        schema = _COVER_SCHEMA.with_metadata({_META: json.dumps(meta)})
        sink = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), sink, compression="zstd")
        try:
            self._storage.create(f"{self.folder}/{_BUILT}{built.number:08d}{_SUFFIX}", sink.getvalue().to_pybytes())
        except ObjectExistsError:
            return False
        return True

    def forget(self, names: Iterable[str]) -> None:
        """Delete deltas: dead ones, and those that have long been part of what was built."""
        for name in names:
            self._storage.delete(LogView(self.folder).path_of(name))

    def tidy(self, keep: int = 2) -> None:
        """Delete what older builds left: all but the newest ``keep`` of them, and deltas folded into those that stay."""
        numbers = self._built_numbers()
        for number in numbers[:-keep]:
            self._storage.delete(f"{self.folder}/{_BUILT}{number:08d}{_SUFFIX}")
        if len(numbers) >= keep:
            oldest = self._read_built(numbers[-keep])
            self.forget(name for name in self.names() if name in oldest.folded)

    def drop(self) -> None:
        """Remove everything; what was built first, so that a drop cut short leaves an index that is not built."""
        for number in reversed(self._built_numbers()):
            self._storage.delete(f"{self.folder}/{_BUILT}{number:08d}{_SUFFIX}")
        for one in self._storage.list(self.folder):
            self._storage.delete(one.path)

    def names(self) -> list[str]:
        """Names of all deltas that are there, in order."""
        listed = self._storage.list_folder(f"{self.folder}/log").objects
        names = (one.path.rpartition("/")[2] for one in listed)
        return sorted(name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX))

    def _built_numbers(self) -> list[int]:
        listed = self._storage.list_folder(self.folder).objects
        names = (one.path.rpartition("/")[2] for one in listed)
        numbers = (n.removeprefix(_BUILT).removesuffix(_SUFFIX) for n in names if n.startswith(_BUILT))
        return sorted(int(n) for n in numbers if n.isdecimal())

    def _newest_built(self) -> Built | None:
        numbers = self._built_numbers()
        return self._read_built(numbers[-1]) if numbers else None

    def _read_built(self, number: int) -> Built:
        path = f"{self.folder}/{_BUILT}{number:08d}{_SUFFIX}"
        try:
            table = pq.read_table(pa.BufferReader(self._storage.read(path)))
            meta = json.loads(table.schema.metadata[_META])
            files = [CoveredFile(*row) for row in zip(*(c.to_pylist() for c in table.columns), strict=True)]
            return Built(number, meta["generation"], tuple(files), frozenset(meta["folded"]), meta["rows"])
        except (pa.ArrowException, OSError, ValueError, KeyError, TypeError) as error:
            raise _damaged(path, error) from error


def catch_up_name(instant: str) -> str:
    """A new name of a delta that was read from files of commits up to an instant."""
    return f"{instant}{_CAUGHT_UP}{uuid.uuid4().hex[:12]}"


def read_delta(storage: Storage, view: LogView, name: str, columns: Sequence[str] | None = None) -> pa.Table:
    """Rows of a delta. Raises: IndexDamagedError."""
    path = view.path_of(name)
    try:
        return pq.read_table(pa.BufferReader(storage.read(path)), columns=columns)
    except (pa.ArrowException, OSError, ObjectNotFoundError) as error:
        raise _damaged(path, error) from error


def _coverage(built: Built, deltas: Sequence[Delta]) -> dict[Group, CoveredFile]:
    covered = {f.group: f for f in built.files}
    for delta in deltas:
        covered.update({f.group: f for f in delta.files})
        for group in delta.gone:
            covered.pop(group, None)
    return covered


def _metadata(storage: Storage, path: str) -> dict[str, Any]:
    try:
        schema = pq.read_schema(StorageFile(storage, path))
        found: dict[str, Any] = json.loads(schema.metadata[_META])
    except (pa.ArrowException, OSError, ValueError, KeyError, TypeError, ObjectNotFoundError) as error:
        raise _damaged(path, error) from error
    return found


def _damaged(path: str, error: Exception) -> IndexDamagedError:
    return IndexDamagedError(
        f"{path} of the index cannot be read: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
        culprit=path,
        hint="build the index anew: lakeindex index build TABLE",
    )
