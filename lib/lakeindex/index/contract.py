"""The one contract of all index types.

An index kind answers for sorted chunks of keys which files may hold them (:meth:`Index.ask`): with one slice of the
chunk for each file (BLOOM by key ranges, SIMPLE all of it), or with rows for each file, computed from the keys (BUCKET)
or looked up in a store (:class:`lakeindex.index.locations.stored_index.StoredIndex`).

Every answer is a proposal: ``verify_keys`` looks into the file itself. A wrong proposal costs time, a missing one costs
data. "Global" is a parameter (the look-up key drops the partition), not another kind.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import field

from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import RowNumbers, StringArray
from lakeindex.index.key_ranges import KeyRange, RowSlices
from lakeindex.model import Group, IndexSpec
from lakeindex.options.types import WriteConfig

if TYPE_CHECKING:
    from lakeindex.index.locations.stored_index import StoredIndex

Homes: TypeAlias = npt.NDArray[np.int32]

NOWHERE: Final = -1
"""Home of a new key that may go into any file group."""

BETWEEN: Final = "\x00"
"""Between partition path and file id where both are one text; neither can hold it."""

_OPEN: Final = KeyRange(None, None)


class FileFacts(Frozen):
    """What a look-up may know of one file.

    Attributes:
        number: its place among the files of the look-up.
        key_range: from its footer; open if footers are not read.
    """

    number: int
    partition_path: str
    file_id: str
    key_range: KeyRange = _OPEN


class FileGroups(Frozen):
    """Live file groups in scope; ``numbers``: group -> number of its live file."""

    numbers: Mapping[Group, int]


class FileSlices(Frozen, eq=False):
    """For files that may hold a key, the slice of the sorted chunk that they may hold.

    Attributes:
        file: int32 [n], their numbers.
        from_row: int64 [n], inclusive.
        to_row: int64 [n], exclusive.
    """

    file: npt.NDArray[np.int32]
    from_row: RowNumbers
    to_row: RowNumbers


class FilesInScope:
    """Live files in scope, of one partition or (None) of any; made once, asked about chunk after chunk."""

    def __init__(self, files: Sequence[FileFacts], partition: str | None = None) -> None:
        self.files = tuple(files)
        self.partition = partition

    @cached_property
    def numbers(self) -> npt.NDArray[np.int32]:
        return np.array([file.number for file in self.files], np.int32)

    @cached_property
    def key_ranges(self) -> list[KeyRange]:
        return [file.key_range for file in self.files]

    @cached_property
    def groups(self) -> FileGroups:
        return FileGroups({(file.partition_path, file.file_id): file.number for file in self.files})

    @cached_property
    def group_names(self) -> pa.Array:
        """Partition path and file id of each as one text: string [files]."""
        return pa.array([f"{file.partition_path}{BETWEEN}{file.file_id}" for file in self.files], pa.string())

    def by_partition(self) -> Iterator[FilesInScope]:
        found: dict[str, list[FileFacts]] = {}
        for file in self.files:
            found.setdefault(file.partition_path, []).append(file)
        return (FilesInScope(files, partition) for partition, files in sorted(found.items()))

    def kept(self, slices: RowSlices) -> FileSlices:
        """Of slices, one a file, those that may hold a key."""
        hit = slices.kept()
        return FileSlices(self.numbers[hit], slices.from_row[hit], slices.to_row[hit])


class Candidates(Frozen, eq=False):
    """In which files keys of a chunk may be.

    Attributes:
        slices: of a kind that answers with slices; None: the kind answers with rows.
        rows: file number -> rows of the chunk, ascending.
        unknown: rows for which the index cannot say; every file in scope is a candidate for them.
    """

    slices: FileSlices | None = None
    rows: Mapping[int, RowNumbers] = field(default_factory=dict)
    unknown: RowNumbers = field(default_factory=lambda: np.zeros(0, np.int64))

    def by_file(self) -> Iterator[tuple[int, RowNumbers]]:
        """Each file's number and rows, ascending."""
        if self.slices is None:
            yield from sorted(self.rows.items())
            return
        columns = (self.slices.file, self.slices.from_row, self.slices.to_row)
        for number, first, last in zip(*(column.tolist() for column in columns), strict=True):
            yield number, np.arange(first, last, dtype=np.int64)


class KeyHomes(Protocol):
    """Where new keys must go, of an index that says so: each has a home, a file group that is made for it."""

    def of(self, keys: StringArray, partition: str) -> Homes:
        """Home of each key of a partition: int32 [n]."""

    def home_of(self, file_id: str) -> int | None:
        """The home that a file group is; None if it is none."""

    def group_of(self, partition: str, home: int, groups: FileGroups) -> Group | None:
        """The live file group of a home; None if there is none yet.

        Raises:
            TableCorruptError: the groups are not what the index needs them to be.
        """

    def new_file_id(self, home: int) -> str:
        """Id of a new file group for a home."""

    def check_stored(self, keys: StringArray, group: Group) -> None:
        """Keys that are stored in a file group belong there.

        Raises:
            TableCorruptError: one does not: another writer places keys differently.
        """


class Index(ABC):
    """An index kind with what is bound to it: a frozen value that travels to tasks.

    Attributes:
        needs_footers: it asks for key ranges, so footers are read (or taken from the cache).
    """

    __slots__ = ()

    spec: IndexSpec
    needs_footers: ClassVar[bool] = False

    @abstractmethod
    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """In which files keys may be: for the look-up of a write, chunk by chunk, and for ``lakeindex get``.

        Args:
            keys: distinct keys, sorted by UTF-8 bytes.
            files: the files in scope: of one partition, or of the whole table.
            store: of a stored index, what :meth:`StoredIndex.open` returned.

        Raises:
            TableCorruptError: the file groups are not what the index needs them to be.
        """

    def moves_rows(self, config: WriteConfig) -> bool:
        """Of a global index: whether a row moves to the partition it arrives with, rather than being updated
        where it is. By default it stays.
        """
        del config
        return False

    def basis(self, config: WriteConfig) -> tuple[object, ...]:
        """Values of options that change its answers: with others, an answer that was kept is not taken over."""
        del config
        return ()

    def notes(self, config: WriteConfig) -> tuple[str, ...]:
        """What the caller of a run with it should know."""
        del config
        return ()

    @property
    def homes(self) -> KeyHomes | None:
        """Where new keys must go; None: into any file group."""
        return None

    @property
    def stored(self) -> StoredIndex | None:
        """The same as a stored index; None: it keeps no locations."""
        return None
