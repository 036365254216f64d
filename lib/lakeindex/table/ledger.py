"""The ledger: which batch was committed by which instant.

``.hoodie/.lakeindex/ledger/<batch key>/<instant>.json``: one file a batch and instant, never changed, so that a late
writer cannot overwrite what holds now. An entry counts while its instant is part of the table: on the timeline as
completed, or archived. So the ledger follows rollbacks by anybody, and outlives archiving.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Final

from lakeindex.storage.protocol import Storage
from lakeindex.table import records
from lakeindex.table.timeline import Timeline

LEDGER_FOLDER: Final = f"{records.OWN_FOLDER}/ledger"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One committed batch.

    Attributes:
        batch_id: the batch.
        input_digest: digest of what was committed.
        instant: the commit.
        summary: what its run reported, JSON text.
    """

    batch_id: str
    input_digest: str
    instant: str
    summary: str | None = None


def record_batch(storage: Storage, entry: LedgerEntry) -> None:
    """Write an entry; one that is there stays as it is."""
    path = _path(entry.batch_id, entry.instant)
    records.settle(storage, path, records.encode(asdict(entry)))
    storage.sync([path])


def update_summary(storage: Storage, entry: LedgerEntry) -> None:
    """Replace the summary of an entry: the numbers that are known only after the commit."""
    records.put(storage, _path(entry.batch_id, entry.instant), records.encode(asdict(entry)))


def forget_batch(storage: Storage, batch_id: str, instant: str) -> None:
    """Remove an entry whose instant is rolled back."""
    records.remove(storage, [_path(batch_id, instant)])


def find_batch(storage: Storage, timeline: Timeline, batch_id: str) -> LedgerEntry | None:
    """The newest entry of a batch that counts; ``None`` if the batch is not in the table. Raises: TableCorruptError."""
    listed = storage.list_folder(f"{LEDGER_FOLDER}/{records.key_of(batch_id)}").objects
    for one in reversed(listed):
        instant = one.path.rpartition("/")[2].removesuffix(".json")
        if not timeline.is_visible(instant):
            continue
        found = records.load(storage, one.path)
        if found is None:
            continue
        try:
            return LedgerEntry(**found)
        except TypeError as error:
            raise records.damaged(one.path, repr(error)) from None
    return None


def _path(batch_id: str, instant: str) -> str:
    return f"{LEDGER_FOLDER}/{records.key_of(batch_id)}/{instant}.json"
