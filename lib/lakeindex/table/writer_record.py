"""Which release last wrote into the table: ``.hoodie/.lakeindex/writer.json``.

Its format number says what a writer must know. It goes up when a release writes something that an older one
would get wrong; that one then refuses to write. It is looked at under the table's lock, which every writer takes
before it changes anything.
"""

from __future__ import annotations

import json
from typing import Any, Final

from lakeindex.errors import ObjectNotFoundError, TableUnsupportedError
from lakeindex.storage.port import Storage
from lakeindex.table.binding import this_release
from lakeindex.timeline import records

WRITER_PATH: Final = f"{records.OWN_FOLDER}/writer.json"
WRITER_FORMAT: Final = 1


def note_writer(storage: Storage) -> None:
    """Enter this release, if another one or none is entered. The lock is held.

    Raises:
        TableUnsupportedError: a release wrote into the table that does what this one does not know.
    """
    found = _load(storage)
    written_as = found.get("format")
    if isinstance(written_as, int) and written_as > WRITER_FORMAT:
        raise TableUnsupportedError(
            f"{found.get('release', 'a newer release')} wrote into the table in format {written_as}, "
            f"this release knows {WRITER_FORMAT}",
            culprit=WRITER_PATH,
            hint="use the release that wrote it, or a newer one, for every writer of the table",
        )
    mine: dict[str, object] = {"format": WRITER_FORMAT, "release": this_release()}
    if found != mine:
        records.put(storage, WRITER_PATH, records.encode(mine))


def _load(storage: Storage) -> dict[str, Any]:
    """The record; empty if there is none, or what a power loss left of one."""
    try:
        found = json.loads(storage.read(WRITER_PATH))
    except (ObjectNotFoundError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
