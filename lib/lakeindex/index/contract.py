"""The one contract of all index types.

An index kind answers for sorted chunks of keys which files may hold them. It does so in one of two ways:

* :class:`SliceIndex`: for each file one slice of the chunk (BLOOM by key ranges, SIMPLE all of it);
  nothing is stored, after a commit there is nothing to tell;
* :class:`RowIndex`: for each key the file group it should be in, computed from the key (BUCKET) or looked up in a store
  (:class:`StoredIndex`).

Every answer is a proposal: ``verify_keys`` looks into the file itself. A wrong proposal costs time, a missing one costs
data. "Global" is a parameter (the look-up key drops the partition), not another kind.

A stored index follows the timeline. What a commit changes is a *delta*: it is put into the change log before
the commit and counts once its instant is completed. Which files a store knows is its *coverage*; a live file
that is not covered is read and entered before a look-up (see ``stages.index_store``), so that a commit it did
not see is never a false insert.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.key_ranges import KeyRange, RowSlices
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig

Rows: TypeAlias = npt.NDArray[np.int64]
Homes: TypeAlias = npt.NDArray[np.int32]
Group: TypeAlias = tuple[str, str]
"""(partition path, file id) of a file group."""

NOWHERE: Final = -1
"""Home of a new key that may go into any file group."""


@dataclass(frozen=True, slots=True)
class IndexTraits:
    """What stages must know of an index kind.

    Attributes:
        needs_footers: it asks for key ranges, so footers are read (or taken from the cache).
        has_filters: its slices are narrowed by filters, in a stage of their own.
        binds_homes: a new key belongs into one file group: see :meth:`HomeIndex.homes`.
        answers_batches: its store answers for whole batches (:class:`BatchStore`), on the runner's engine.
        in_process: its store lives in the memory of the driver (:class:`VolatileStore`), which answers there.
    """

    needs_footers: bool = False
    has_filters: bool = False
    binds_homes: bool = False
    in_process: bool = False
    answers_batches: bool = False


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a look-up may know of one file.

    Attributes:
        partition_path: the file's partition.
        key_range: from its footer; open if footers are not read.
    """

    partition_path: str
    key_range: KeyRange


class Index(Protocol):
    """The pure part of an index kind."""

    @property
    def spec(self) -> IndexSpec:
        """Its type and what is bound with it."""

    @property
    def traits(self) -> IndexTraits:
        """What stages must know of it."""


@runtime_checkable
class SliceIndex(Index, Protocol):
    """An index that proposes, for each file, a slice of the sorted keys."""

    def propose(self, keys: StringArray, files: Sequence[FileFacts], config: WriteConfig) -> RowSlices:
        """For each of these files, the rows of the chunk that it may hold.

        Args:
            keys: the chunk's keys, sorted by UTF-8 bytes.
            files: the files in scope: of the chunk's partition, or of the whole table if the index is global.
            config: how to prune.
        """


@dataclass(frozen=True, slots=True)
class FileGroups:
    """Live file groups in scope.

    Attributes:
        numbers: group -> ordinal of its live file in the ``files`` checkpoint.
    """

    numbers: Mapping[Group, int]


@dataclass(frozen=True, slots=True, eq=False)
class Located:
    """Where keys of a chunk should be.

    Attributes:
        rows: for each file ordinal, the row numbers in the chunk, ascending.
        unknown: rows for which the index cannot say; every file in scope is a candidate for them.
    """

    rows: Mapping[int, Rows]
    unknown: Rows = field(default_factory=lambda: np.zeros(0, np.int64))


@runtime_checkable
class RowIndex(Index, Protocol):
    """An index that computes the file group of a key."""

    def locate(self, keys: StringArray, partition: str | None, groups: FileGroups) -> Located:
        """Candidates.

        Args:
            keys: the chunk's keys.
            partition: partition of all of them; None: of any partition (a read by key alone).
            groups: live file groups in scope.

        Raises:
            TableCorruptError: the groups are not what the index needs them to be.
        """


@runtime_checkable
class HomeIndex(Index, Protocol):
    """An index that says where a new key must go."""

    def homes(self, keys: StringArray, partition: str) -> Homes:
        """Home of each key of a partition: a number that its file group's id begins with; int32 [n]."""

    def group_of(self, partition: str, home: int, groups: FileGroups) -> Group | None:
        """The live file group of a home; None if there is none yet."""

    def new_file_id(self, home: int) -> str:
        """Id of a new file group for a home."""

    def check_stored(self, keys: StringArray, group: Group) -> None:
        """Keys that are stored in a file group belong there.

        Raises:
            TableCorruptError: one does not: another writer places keys differently.
        """


class Change(IntEnum):
    """What a commit did to a key; the numbers stand in change logs."""

    INSERT = 0
    MOVE = 1
    DELETE = 2
    FOUND = 3
    """The key was there already; the store did not know."""


DELTA_SCHEMA: Final = pa.schema(
    [
        pa.field("key", pa.string(), nullable=False),
        pa.field("partition", pa.string(), nullable=False),
        pa.field("file_id", pa.string()),
        pa.field("change", pa.int8(), nullable=False),
    ]
)
"""Rows of a delta: the key, its partition and file group after the commit, and the change.

For a deleted key, the partition is the one that it was deleted from, and ``file_id`` is null.
"""


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """What a store says of a chunk's keys.

    Attributes:
        rows: int64 [found], rows in the chunk, each at most once.
        partition: string [found], where they are.
        file_id: string [found].
        unknown: rows whose entry cannot be trusted: looked for in every file in scope.
    """

    rows: Rows
    partition: pa.Array
    file_id: pa.Array
    unknown: Rows = field(default_factory=lambda: np.zeros(0, np.int64))


@runtime_checkable
class StoredIndex(Index, Protocol):
    """An index that keeps locations somewhere."""

    def open(self, context: Any) -> LocationStore | VolatileStore:
        """The store of one table.

        Args:
            context: a :class:`lakeindex.index.stored.store_context.StoreContext`.

        Raises:
            StorageError: it cannot be reached; nothing was written.
        """

    def arrange(self, delta: pa.Table, context: Any) -> Sequence[pa.Table]:
        """The row groups in which a delta, sorted by key, is kept in the log.

        Args:
            delta: of :data:`DELTA_SCHEMA`.
            context: a :class:`lakeindex.index.stored.store_context.StoreContext`: what it is put beside.
        """


@runtime_checkable
class VolatileStore(Protocol):
    """Locations in the driver's memory: no log, no build; what a process does not know it reads from the files."""

    def coverage(self) -> Mapping[Group, Any]:
        """Covered files (:class:`lakeindex.index.stored.change_log.CoveredFile`) by file group."""

    def enter(
        self, delta: pa.Table, files: Sequence[Any], gone: Iterable[Group] = (), resets: Iterable[Group] = ()
    ) -> None:
        """Take over what changed.

        Args:
            delta: of :data:`DELTA_SCHEMA`.
            files: files whose keys are known from now on.
            gone: file groups that are no more.
            resets: file groups whose keys are all in the delta.
        """

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """As :meth:`LocationStore.look_up`."""


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A whole batch to be looked up by an engine.

    Attributes:
        tasks: what ``read`` takes; a chunk each.
        read: module-level function: the keys of a task, a table of chunk, row, key, partition.
        rows: keys in all.
        write: module-level function (or a partial of one) that keeps a piece of the answer, a table of chunk, row,
            partition, file_id, given the piece's number; all rows of a chunk are in one piece.
    """

    tasks: Sequence[Any]
    read: Callable[[Any], pa.Table]
    rows: int
    write: Callable[[int, pa.Table], Any]


@runtime_checkable
class BatchStore(Protocol):
    """A store that answers for whole batches."""

    def look_up_batch(self, request: BatchRequest) -> list[Any]:
        """Look a batch up; what ``request.write`` returned for each piece."""

    def found(self, rows: Rows, partition: pa.Array, file_id: pa.Array, asked: int) -> Found:
        """A chunk's part of an answer: ``rows`` of its ``asked`` keys have these locations.
        Called by tasks, without a runner.
        """


class LocationStore(Protocol):
    """Where an index that stores locations keeps them. Opened by the driver, and again by each task."""

    def generation(self) -> str | None:
        """The generation that the view names, if the store has it, whole; else None: it must be built."""

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        """Start anew with these entries (tables of :data:`DELTA_SCHEMA`, in any order); the rows entered.

        The new content lies beside what is there until the log puts the generation into force:
        a build that dies, or turns out wrong, leaves what was there.
        """

    def retire(self, keep: str | None) -> None:
        """Remove all generations but one; what a build that died left is among them."""

    def drop(self) -> None:
        """Remove everything. Repeating it changes nothing."""

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Locations of keys, as of the completed deltas.

        Args:
            keys: distinct keys.
            partition: partition of all of them; None under a global index, or for any partition.
        """

    def behind(self, names: Sequence[str]) -> Sequence[str]:
        """Those of the completed deltas that have yet to be applied; none if the store reads the log itself."""

    def prepare(self, name: str) -> None:
        """A delta is in the log, its instant not yet completed: write what does no harm should that fail."""

    def apply(self, names: Sequence[str]) -> None:
        """Deltas whose instants are completed, in order. Repeating it changes nothing."""

    def fold(self) -> str:
        """Make the deltas in force part of what is built, so that they need not be read any more;
        names the generation.
        """

    def undo(self, name: str) -> None:
        """The delta's instant failed: take back what was prepared. Repeating it changes nothing."""

    def count(self) -> int | None:
        """Keys it holds, as of the completed deltas; None if only a scan of everything could say."""

    def entries(self) -> Iterable[pa.Table]:
        """Everything it holds (key, partition, file_id), in pieces that fit into memory."""
