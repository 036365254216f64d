"""The one contract of all index types.

An index kind is a pure part: what to ask, what the answer means, what to write after a commit. It never reads a file
and knows no Spark; stages carry its questions to footers, filters or a store and bring the answers back. An index
that stores locations adds an adapter (in ``backends``) behind :class:`LocationStore`.

``Global`` is a trait, not another kind: the look-up key drops the partition, every file of the table is asked.

Every proposal is verified in the file itself (``verify_keys``); a wrong proposal costs time, a missing one costs data.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from lakeindex.config import WriteConfig
from lakeindex.hashing.arrow import StringArray
from lakeindex.index.key_ranges import KeyRange, RowSlices
from lakeindex.model import IndexType

Rows = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class IndexTraits:
    """What stages must know of an index type.

    Attributes:
        index_type: which one.
        is_global: a key is unique in the whole table, so every partition is searched.
        needs_filters: the look-up only narrows; filters are probed in a stage of their own.
        stores_locations: it keeps key -> location somewhere, and must be told of every commit.
        covers_all_files: no file is left out for lack of an answer (files without range or filter stay candidates).
    """

    index_type: IndexType
    is_global: bool
    needs_filters: bool
    stores_locations: bool
    covers_all_files: bool = True


@dataclass(frozen=True, slots=True)
class FileFacts:
    """What a look-up may know of one file.

    Attributes:
        partition_path: the file's partition.
        key_range: from its footer.
    """

    partition_path: str
    key_range: KeyRange


@runtime_checkable
class Index(Protocol):
    """The pure part of an index kind."""

    @property
    def traits(self) -> IndexTraits:
        """What stages must know of it."""

    def files_to_ask(self, chunk_partition: str | None, files: Sequence[FileFacts]) -> Rows:
        """Ordinals of the files that may hold keys of a chunk.

        Args:
            chunk_partition: partition of the chunk's rows; None if a chunk spans partitions (global).
            files: all files of the snapshot.
        """

    def propose(self, keys: StringArray, files: Sequence[FileFacts], config: WriteConfig) -> RowSlices:
        """For each of these files, the rows of the chunk that it may hold.

        Args:
            keys: the chunk's keys, sorted by UTF-8 bytes.
            files: the files chosen by :meth:`files_to_ask`.
            config: how to prune.
        """


@runtime_checkable
class FilterIndex(Index, Protocol):
    """An index whose proposals are narrowed by filters."""

    def candidates(
        self, keys: StringArray, from_row: int, to_row: int, filter_text: bytes | None, filter_type: str | None
    ) -> Rows:
        """Row numbers in the chunk, out of one slice, that a file may hold by its filter.

        Args:
            keys: the chunk's keys.
            from_row: first row of the slice.
            to_row: the row behind it.
            filter_text: the filter in the file's footer; None if it has none.
            filter_type: its type code.
        """


@dataclass(frozen=True, slots=True)
class LocationChange:
    """What a commit did to one key, for an index that stores locations.

    Attributes:
        record_key: the key.
        partition_path: partition it lives in now.
        file_id: file group it lives in now; None if it was deleted.
    """

    record_key: str
    partition_path: str
    file_id: str | None


@runtime_checkable
class LocationStore(Protocol):
    """Where an index that stores locations keeps them. A location in it is a proposal until verified."""

    @property
    def covered_through(self) -> str | None:
        """The instant through which the store covers the table; None if it covers nothing yet."""

    def look_up(self, keys: StringArray) -> pa.Table:
        """Columns ``row`` (int64, into ``keys``), ``partition_path``, ``file_id``, for the keys it knows."""

    def record(self, instant_time: str, changes: Sequence[LocationChange]) -> None:
        """Take over what a commit changed, and cover the table through it. Repeating it changes nothing."""
