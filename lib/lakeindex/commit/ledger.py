"""The ledger: which batch was committed by which instant.

``.hoodie/.lakeindex/ledger/<batch key>/<instant>.json``: one file a batch and instant, never changed, so that a late
writer cannot overwrite what holds now. An entry counts while its instant is part of the table
(:meth:`~lakeindex.timeline.timeline.Timeline.is_committed`). So the ledger follows rollbacks and restores by
anybody, and outlives archiving.

Writing the entry is what tells the world that a commit stands; from then on nobody withdraws it.
Whoever has to withdraw a commit creates the entry as ``withdrawn``: one of the two entries wins.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, Final

from lakeindex.commit.run_records import RunIdentity, load_claim
from lakeindex.errors import BatchIdReusedError, StorageError, TableUnsupportedError
from lakeindex.frozen import Frozen
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Operation
from lakeindex.showing.json_values import json_of
from lakeindex.storage import remove_empty_folders
from lakeindex.storage.port import Storage
from lakeindex.timeline import records
from lakeindex.timeline.timeline import Timeline
from lakeindex.timeline.verdicts import DIGEST_KEY, load_verdict

LEDGER_FOLDER: Final = f"{records.OWN_FOLDER}/ledger"


class LedgerEntry(Frozen):
    """One committed batch.

    Attributes:
        input_digest: digest of what was committed; empty where nothing tells any more.
        summary: what its run reported, JSON text.
        withdrawn: whether the commit was taken back before anybody was told.
    """

    batch_id: str
    input_digest: str
    instant: str
    summary: str | None = None
    withdrawn: bool = False


class AlreadyDone(Frozen):
    """The batch is in the table.

    Attributes:
        summary: what its run reported (JSON text), if that is known.
        notes: what was done to other writers' instants now.
    """

    instant: str
    summary: str | None
    notes: tuple[str, ...] = ()


def record_batch(storage: Storage, entry: LedgerEntry) -> LedgerEntry:
    """Write an entry, unless there is one: the entry that stands."""
    path = _path(entry.batch_id, entry.instant)
    standing = records.settle_record(storage, path, records.encode(json_of(entry)))
    return _from_record(records.decode(standing, path), path)


def is_announced(storage: Storage, batch_id: str, instant: str) -> bool:
    """Whether the world was told that an instant committed a batch."""
    path = _path(batch_id, instant)
    found = records.load(storage, path)
    return not _from_record(found, path).withdrawn if found else False


def announced_summary(storage: Storage, batch_id: str, instant: str) -> str | None:
    """What the run of a commit reported (JSON text) just before it was published; None if there is no such entry."""
    path = _path(batch_id, instant)
    found = records.load(storage, path)
    return _from_record(found, path).summary if found else None


_INSERTS: Final = frozenset({str(Operation.INSERT), str(Operation.BULK_INSERT)})
"""A batch that was inserted in one of these ways is inserted: an import goes on with the other one."""


def find_done(
    context: WriteContext, run: RunIdentity, timeline: Timeline | None = None, own: str | None = None
) -> AlreadyDone | None:
    """The batch's commit, if it is in the table and not to be committed again.

    Args:
        timeline: of the table, if it was loaded just now.
        own: the instant of an attempt of the run that did not end: what was asked for with ``force`` is done by it.

    Raises:
        BatchIdReusedError: the batch was committed with other input, or something else was done with it.
        TableUnsupportedError: it cannot be told with which.
    """
    if context.force and own is None:
        return None
    entry = find_batch(context.storage, timeline or context.table.load_timeline(), run.batch_id)
    if entry is None:
        return None
    is_same = not entry.input_digest or run.has_input(entry.input_digest)
    if context.force and not (is_same and entry.instant == own):
        return None
    if is_same is None:
        raise TableUnsupportedError(
            f"batch {run.batch_id!r} was committed by instant {entry.instant}; "
            f"its input's digest {entry.input_digest} is one that this release cannot make",
            culprit=run.batch_id,
            hint="use the release that committed it, or a newer one",
        )
    if not is_same:
        raise BatchIdReusedError(
            f"batch {run.batch_id!r} was committed by instant {entry.instant} with other input",
            culprit=run.batch_id,
            hint="use a new batch id; force=True (--force) commits this input, too",
        )
    was = _operation_of(entry)
    if run.operation and was not in ("", run.operation) and not _INSERTS.issuperset((was, run.operation)):
        raise BatchIdReusedError(
            f"batch {run.batch_id!r} was committed by instant {entry.instant} as {was}, and this is {run.operation}",
            culprit=run.batch_id,
            hint="use a new batch id; force=True (--force) does this with it, too",
        )
    return AlreadyDone(entry.instant, entry.summary)


def _operation_of(entry: LedgerEntry) -> str:
    """What was done with the batch; empty where nothing tells."""
    try:
        found = json.loads(entry.summary or "{}")
    except ValueError:
        return ""
    return str(found.get("operation") or "") if isinstance(found, dict) else ""


def forget_batch(storage: Storage, batch_id: str, instant: str) -> None:
    """Remove an entry whose instant is rolled back."""
    path = _path(batch_id, instant)
    records.remove(storage, [path])
    with suppress(StorageError):
        remove_empty_folders(storage, path.rpartition("/")[0])


def find_batch(storage: Storage, timeline: Timeline, batch_id: str) -> LedgerEntry | None:
    """The newest entry of a batch that counts; ``None`` if the batch is not in the table. Raises: TableCorruptError."""
    listed = storage.list_folder(f"{LEDGER_FOLDER}/{records.key_of(batch_id)}").objects
    for one in reversed(listed):
        instant = one.path.rpartition("/")[2].removesuffix(".json")
        if not counts(storage, timeline, instant):
            continue
        found = records.load(storage, one.path)
        if found is None:
            continue
        entry = _from_record(found, one.path) if found else _again(storage, timeline, batch_id, instant)
        if entry is not None and not entry.withdrawn:
            return entry
    return None


def _again(storage: Storage, timeline: Timeline, batch_id: str, instant: str) -> LedgerEntry | None:
    """What a torn entry of an instant that counts said; None while recovery has still to tell, or to withdraw."""
    if load_claim(storage, instant) is not None:
        return None
    verdict = load_verdict(storage, instant)
    if verdict is not None and verdict.batch_id:
        return LedgerEntry(batch_id, verdict.input_digest, instant, verdict.summary)
    commit = next((one for one in timeline.completed_writes if one.time == instant), None)
    marks = {} if commit is None else timeline.commit_metadata(storage, commit).extra_metadata
    return LedgerEntry(batch_id, marks.get(DIGEST_KEY) or "", instant)


def _from_record(found: dict[str, Any], path: str) -> LedgerEntry:
    try:
        return LedgerEntry(**found)
    except TypeError as error:
        raise records.damaged(path, repr(error)) from None


def counts(storage: Storage, timeline: Timeline, instant: str) -> bool:
    """Whether an instant is part of the table; our own rollback of an archived one stands in its verdict."""
    if not timeline.is_committed(instant):
        return False
    if instant in timeline.completed_write_times:
        return True
    verdict = load_verdict(storage, instant)
    return verdict is None or verdict.is_committed


def _path(batch_id: str, instant: str) -> str:
    return f"{LEDGER_FOLDER}/{records.key_of(batch_id)}/{instant}.json"
