"""The record keys of a base file: one column, by row group."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from lakeindex.errors import TableCorruptError
from lakeindex.hashing.arrow import one_array
from lakeindex.model import BaseFile
from lakeindex.storage.protocol import Storage
from lakeindex.storage.reading import StorageFile
from lakeindex.write.base_file import RECORD_KEY


class StoredColumns:
    """Columns of one base file by row group, read when they are asked for.

    Raises:
        TableCorruptError: it cannot be read.
    """

    def __init__(self, storage: Storage, file: BaseFile) -> None:
        self._path = file.path
        self.partition_path = file.partition_path
        source = StorageFile(storage, file.path, file.size_bytes)
        try:
            self._file = pq.ParquetFile(source, pre_buffer=True)
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(error) from error

    def record_keys(self) -> list[pa.Array]:
        """Record keys, an array a row group."""
        return self.column(RECORD_KEY, range(self._file.num_row_groups))

    def column(self, name: str, row_groups: Sequence[int] | range) -> list[pa.Array]:
        """The column's values, an array a row group; null where the file has no such column."""
        if name not in self._file.schema_arrow.names:
            if name == RECORD_KEY:
                raise self._corrupt(ValueError(f"it has no column {name}"))
            return [pa.nulls(self._file.metadata.row_group(g).num_rows) for g in row_groups]
        try:
            return [one_array(self._file.read_row_group(g, columns=[name]).column(0)) for g in row_groups]
        except (pa.ArrowException, OSError) as error:
            raise self._corrupt(error) from error

    def _corrupt(self, error: Exception) -> TableCorruptError:
        return TableCorruptError(
            f"base file {self._path!r} cannot be read: {str(error).splitlines()[0]}",
            culprit=self._path,
            hint="restore the file, or roll the table back to an instant before it",
        )


def read_record_keys(storage: Storage, file: BaseFile) -> pa.Array:
    """All record keys of a file, in file order."""
    groups = [group.cast(pa.string()) for group in StoredColumns(storage, file).record_keys()]
    return pa.concat_arrays(groups) if groups else pa.array([], pa.string())
