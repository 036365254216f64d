"""Columns of staged rows that are not copied: a file of the batch holds them, and is named with its digest."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from lakeindex.errors import InputError, ObjectNotFoundError
from lakeindex.run.checkpoints import digest_of
from lakeindex.showing.json_values import json_of
from lakeindex.tasks.stores import storage_at

_MARK: Final = b"lakeindex.columns.of.input"
"""Key of a staged file's metadata: JSON, where the columns are that it has not got."""


class InputChangedError(InputError):
    """A file of the batch is not what it was when its keys were computed. The run is that of what it was."""


@dataclass(frozen=True, slots=True)
class InputColumns:
    """Columns of a Parquet file of the batch, as they were when it was keyed.

    Attributes:
        root: the file's store.
        path: of the file, below it.
        digest: of its bytes.
        columns: of its columns, those that are not copied.
        first_row: row of the file that the staged file's first one is.
    """

    root: str
    path: str
    digest: str
    columns: tuple[str, ...]
    first_row: int = 0

    def as_metadata(self) -> dict[bytes, str]:
        """Entry of the staged file's metadata."""
        return {_MARK: json.dumps(json_of(self))}

    def content(self) -> memoryview:
        """The file's bytes, those that were keyed.

        Raises:
            InputChangedError: it is gone, or has other bytes.
        """
        try:
            data = memoryview(storage_at(self.root).read(self.path))
        except ObjectNotFoundError as error:
            raise self._changed("is gone") from error
        if digest_of(data) != self.digest:
            raise self._changed("has changed")
        return data

    def _changed(self, how: str) -> InputChangedError:
        display = f"{self.root.rstrip('/')}/{self.path}"
        return InputChangedError(
            f"input {display!r} {how} since its keys were computed",
            culprit=display,
            hint="nothing was published: put the file back as it was, or run the batch again, as it is now",
        )


def input_columns_of(metadata: Mapping[bytes, bytes]) -> InputColumns | None:
    """What a staged file's metadata says; None if it holds all columns of its rows."""
    if _MARK not in metadata:
        return None
    said = json.loads(metadata[_MARK])
    return InputColumns(**{**said, "columns": tuple(said["columns"])})
