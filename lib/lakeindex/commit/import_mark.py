"""What a table's folder says of the import that made it: of what, in which commits, and whether it is complete.

The mark is there before the first commit. An import that finds it goes on with what it says, so its commits and their
batch ids stay what they were. `inspect` and `check` tell of one that is not complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from lakeindex.frozen import Frozen
from lakeindex.showing.json_values import json_of
from lakeindex.storage import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline

_PATH: Final = f"{records.OWN_FOLDER}/import.json"
_COMPLETE: Final = f"{records.OWN_FOLDER}/import-complete.json"
"""A record of its own: a power loss would tear one that is put anew, and nothing would say what made the table."""


class PlannedCommit(Frozen):
    """Files of the source that are committed together.

    Attributes:
        batch_id: names them: a digest of what they are.
        operation: how they are written.
        files: of each file, by its path, what changes when its content does.
    """

    batch_id: str
    operation: str
    files: Mapping[str, str]


class ImportMark(Frozen):
    """An import that has begun.

    Attributes:
        source: where the files are.
        version: of a Delta or Iceberg table, which one is imported.
        rows: rows of the source.
        bytes: size of its files.
        read_as: how its files are read, in words; empty if nothing says it.
        is_complete: all commits were there, and the files were still what they had been.
    """

    source: str
    version: str | None
    rows: int
    bytes: int
    commits: tuple[PlannedCommit, ...]
    is_complete: bool = False
    read_as: str = ""

    @property
    def files(self) -> dict[str, str]:
        """What each file was, by its path."""
        return {path: mark for commit in self.commits for path, mark in commit.files.items()}


def load_mark(storage: Storage) -> ImportMark | None:
    """The import that made a table; None if none did. Raises: TableCorruptError."""
    found = records.load(storage, _PATH)
    if not found:
        return None  # one that a power loss tore says nothing: no commit followed from it
    try:
        commits = tuple(PlannedCommit(**one) for one in found.pop("commits"))
        return ImportMark(commits=commits, **found, is_complete=bool(records.load(storage, _COMPLETE)))
    except (KeyError, TypeError) as error:
        raise records.damaged(_PATH, repr(error)) from None


def put_mark(storage: Storage, mark: ImportMark) -> None:
    """Say that an import begins."""
    said: dict[str, Any] = json_of(mark)
    del said["is_complete"]
    records.put(storage, _PATH, records.encode(said))
    storage.sync([_PATH])


def put_complete(storage: Storage) -> None:
    """Say that an import is complete."""
    records.put(storage, _COMPLETE, records.encode({"complete": True}))
    storage.sync([_COMPLETE])


def incomplete(storage: Storage, timeline: Timeline) -> str | None:
    """What there is to say of an import that is not complete; None if there is none. Raises: TableCorruptError."""
    mark = load_mark(storage)
    if mark is None or mark.is_complete:
        return None
    from lakeindex.commit.ledger import find_batch  # only where there is something to say

    done = sum(find_batch(storage, timeline, one.batch_id) is not None for one in mark.commits)
    return f"the import of {mark.source} is not complete: {done} of {len(mark.commits)} commits are there"
