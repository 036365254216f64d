"""The contract of an index that keeps locations somewhere, and of its stores.

A stored index follows the timeline. What a commit changes is a *delta*: it is put into the change log before
the commit and counts once its instant is completed. Which files a store knows is its *coverage*; a live file
that is not covered is read and entered before a look-up (see :mod:`lakeindex.run.index.stored_session`), so that a
commit it did not see is never a false insert.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, runtime_checkable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from msgspec import field

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, StringArray
from lakeindex.index.contract import BETWEEN, Candidates, FilesInScope, Index
from lakeindex.model import Group
from lakeindex.options.types import WriteConfig

if TYPE_CHECKING:
    from lakeindex.index.locations.store_context import StoreContext


class Change(IntEnum):
    """What a commit did to a key; the numbers stand in change logs."""

    INSERT = 0
    MOVE = 1
    DELETE = 2
    FOUND = 3
    """The key was there already; the store did not know."""
    COPY = 4
    """One of the key's rows is gone, and another one stays: a row of its own says where."""


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


class Found(Frozen, eq=False):
    """What a store says of a chunk's keys.

    Attributes:
        rows: int64 [found], rows in the chunk, each at most once.
        partition: string [found], where they are.
        file_id: string [found].
        unknown: rows whose entry cannot be trusted: looked for in every file in scope.
    """

    rows: RowNumbers
    partition: pa.Array
    file_id: pa.Array
    unknown: RowNumbers = field(default_factory=lambda: np.zeros(0, np.int64))


class LookUp(Protocol):
    """What answers for keys."""

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """Locations of keys, as of the completed deltas.

        Args:
            partition: partition of all of them; None under a global index.
        """


class StoredIndex(Index):
    """An index that keeps locations somewhere.

    Attributes:
        in_process: its store lives in the memory of the driver (:class:`VolatileStore`), which answers there.
        answers_batches: its store answers for whole batches (:class:`BatchStore`), on the runner's engine.
        metadata_partition: partition of Hudi's metadata table that keeps the same locations: where a table has it, it
            is asked, and the store beside it is not.
    """

    __slots__ = ()

    in_process: ClassVar[bool] = False
    answers_batches: ClassVar[bool] = False
    metadata_partition: ClassVar[str | None] = None

    @property
    def stored(self) -> StoredIndex:
        return self

    @abstractmethod
    def open(self, context: StoreContext) -> LocationStore | VolatileStore:
        """The store of one table. Raises: StorageError: it cannot be reached; nothing was written."""

    def arrange(self, delta: pa.Table, context: StoreContext) -> Sequence[pa.Table]:
        """The row groups in which a delta (:data:`DELTA_SCHEMA`), sorted by key, is kept in the log; by default one."""
        del context
        return [delta]

    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """Where the store says that keys are; a place that is no more says nothing.

        Args:
            files: in scope; those of one partition, if keys are unique in a partition only.
        """
        del config
        return candidates_of(store.look_up(keys, None if self.spec.is_global else files.partition), files)


def candidates_of(found: Found, files: FilesInScope) -> Candidates:
    """A store's answer by file. A location in a file group that is no more says nothing:
    the key is looked for in all files in scope, never taken for a new one.
    """
    if not len(found.rows):
        return Candidates(unknown=found.unknown)
    asked = pc.binary_join_element_wise(found.partition.cast(pa.string()), found.file_id.cast(pa.string()), BETWEEN)
    place = pc.index_in(asked, value_set=files.group_names)
    live = place.is_valid().to_numpy(zero_copy_only=False)
    number = files.numbers[place.drop_null().to_numpy()]
    rows = found.rows[live]
    order = np.lexsort((rows, number))
    distinct, starts = np.unique(number[order], return_index=True)
    pieces = np.split(rows[order], starts[1:]) if len(distinct) else []
    unknown = np.union1d(found.unknown, found.rows[~live])
    return Candidates(rows={int(n): piece for n, piece in zip(distinct, pieces, strict=True)}, unknown=unknown)


@runtime_checkable
class VolatileStore(Protocol):
    """Locations in the driver's memory: no log, no build; what a process does not know it reads from the files."""

    def generation(self) -> str:
        """Another one whenever something was entered."""

    def coverage(self) -> Mapping[Group, Any]:
        """Covered files (:class:`lakeindex.index.locations.change_log.CoveredFile`) by file group."""

    def enter(self, found: pa.Table, files: Sequence[Any], gone: Iterable[Group] = ()) -> None:
        """Take over the keys of files.

        Args:
            found: all keys of the files: of :data:`DELTA_SCHEMA`.
            files: those whose keys are known from now on.
            gone: file groups that are no more.
        """

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """As :meth:`LocationStore.look_up`."""


class BatchRequest(Frozen):
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

    def found(self, rows: RowNumbers, partition: pa.Array, file_id: pa.Array, asked: int) -> Found:
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
