"""Claims: the instants that are ours and not tidied up yet.

``.hoodie/.lakeindex/instants/<instant>.json`` is created before the first file of the instant appears on the timeline,
and removed after everything that follows from its verdict is done. So recovery has to look at the claims only: whatever
a killed process left half-done has one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from lakeindex.commit.run_records import RunIdentity, attempt_path
from lakeindex.errors import ObjectNotFoundError
from lakeindex.format import instants as names
from lakeindex.lock.write_context import WriteContext
from lakeindex.model import Instant, InstantState
from lakeindex.showing.json_values import json_of
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.table.host import Host
from lakeindex.timeline import records
from lakeindex.timeline.pending_files import begin_heartbeat
from lakeindex.timeline.verdicts import load_verdict

CLAIMS_FOLDER: Final = f"{records.OWN_FOLDER}/instants"


@dataclass(frozen=True, slots=True)
class Claim:
    """Content of one claim.

    Attributes:
        token: unique to the claim.
        run_key: folder of the run that writes it; empty for another writer's instant that we roll back.
        run_id: the run, for people.
        batch_id: its batch.
        attempt: number of the attempt that made the claim.
        torn: whether the record, or that of the lock it was made beside, says nothing: whoever made it counts as dead.
    """

    instant: str
    token: str
    run_key: str = ""
    run_id: str = ""
    batch_id: str = ""
    attempt: int = 0
    torn: bool = False


def claim_new_instant(
    context: WriteContext, run: RunIdentity, attempt: int, action: str = names.COMMIT, requested: bytes = b""
) -> str:
    """Take an instant that nobody has, greater than all on the timeline, and put its requested file there.

    Two writers never share one: among ours the claim decides, towards Hudi the exclusive creation of the requested
    file. If its answer was lost and Hudi really asked for the same millisecond, the contents of the inflight file tell
    them apart before any data file is written. A heartbeat that was begun in vain stays: it may be the other writer's
    by now.

    Args:
        run: whose instant it is.
        attempt: number of the attempt that takes it.
        action: what it is going to be: a commit or a replacecommit.
        requested: content of the requested file; the same for all instants of the action.
    """
    storage = context.storage
    timeline = context.table.load_timeline()
    floor = timeline.max_time
    while True:
        time = names.next_instant_time(floor, context.table_clock_ms)
        claim = Claim(time, context.host.new_token(), run.key, run.run_id, run.batch_id, attempt)
        path = timeline.path(Instant(time, action, InstantState.REQUESTED))
        if _claimed(storage, claim):
            untold = load_verdict(storage, time) is None
            if untold and begin_heartbeat(storage, time) and records.create_alike(storage, path, requested):
                found = context.table.load_timeline().find(time)
                if found and all(one.action == action and not one.is_completed for one in found):
                    return time
                records.remove(storage, [path])
            records.remove(storage, [claim_path(time)])
        floor = time


def claim_foreign(storage: Storage, host: Host, time: str) -> None:
    """Claim another writer's dead instant, so that its rollback is finished whatever happens to us."""
    while not _claimed(storage, Claim(time, host.new_token())) and load_claim(storage, time) is None:
        continue  # another one dropped it meanwhile


def load_claims(storage: Storage) -> list[Claim]:
    """All claims, newest first. Raises: TableCorruptError."""
    listed = reversed(list_names(storage, CLAIMS_FOLDER))
    claims = (load_claim(storage, name.removesuffix(".json")) for name in listed if name.endswith(".json"))
    return [claim for claim in claims if claim is not None]


def drop_claim(storage: Storage, time: str) -> None:
    """Remove a claim: nothing is left to do for its instant."""
    records.remove(storage, [claim_path(time)])


def claim_path(time: str) -> str:
    """Path of an instant's claim."""
    return f"{CLAIMS_FOLDER}/{time}.json"


def load_claim(storage: Storage, time: str) -> Claim | None:
    """The claim of an instant, if there is one; of a torn one only the instant is known. Raises: TableCorruptError."""
    path = claim_path(time)
    found = records.load(storage, path)
    if found is None:
        return None
    if not found:
        return Claim(time, "", torn=True)
    try:
        return Claim(**found)
    except TypeError as error:
        raise records.damaged(path, repr(error)) from None


def _claimed(storage: Storage, claim: Claim) -> bool:
    """Create a claim, durably: nothing of its instant may outlive it.
    False if another one stands there, or it was dropped.

    So is the attempt's record: by its number the next one knows that there was one before.
    """
    path = claim_path(claim.instant)
    record = json_of(claim)
    del record["torn"]  # is said by the file, not in it
    data = records.encode(record)
    if records.settle(storage, path, data) != data:
        return False
    attempt = [attempt_path(claim.run_key, claim.attempt)] if claim.run_key else []
    for paths in ([*attempt, path], [path]):
        try:
            storage.sync(paths)
        except ObjectNotFoundError:
            continue  # the attempt's record, if the run is over; else the claim
        return True
    return False
