"""Verdicts: for each of our instants, one file says whether it is committed or rolled back. It is the arbiter.

``.hoodie/.lakeindex/verdicts/<instant>.json``, create-if-absent. Who wants to commit an instant creates ``committed``,
with the whole commit in it; who wants to roll it back creates ``rolled_back`` before deleting anything. One of them
wins, whatever leases, clocks and stalled processes do. ``<instant>.commit`` follows from the verdict: its winner, or
whoever finds a ``committed`` verdict without it, writes it. A ``rolled_back`` verdict stays as a tombstone, by which
data files that a zombie writes later are recognised as strays.

A verdict is synced before anything follows from it. So a torn one was never acted upon, and counts as none:
the instant is decided anew. If its commit stands, it is the verdict that was shrunk, and the commit says what it said.

Taking a completed commit back is decided in the same way, under a name of its own (:func:`decision_name`): the lock
names it from its creation, so that whoever takes the lock over either stops the rollback or carries it out first.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from enum import StrEnum
from typing import Any, Final

from msgspec.structs import replace

from lakeindex.format import instants as names
from lakeindex.frozen import Frozen
from lakeindex.model import Instant, InstantState
from lakeindex.showing.json_values import json_of
from lakeindex.storage import list_names
from lakeindex.storage.port import Storage
from lakeindex.timeline import records

VERDICTS_FOLDER: Final = f"{records.OWN_FOLDER}/verdicts"

# Marks in the extra metadata of our commits: who made it, and of what.
ATTEMPT_KEY: Final = "lakeindex.attempt"
BATCH_KEY: Final = "lakeindex.batch_id"
RUN_KEY: Final = "lakeindex.run_id"
DIGEST_KEY: Final = "lakeindex.input_digest"

_DECISION: Final = ".rollback-"


class Outcome(StrEnum):
    """What became of an instant."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"


class Verdict(Frozen):
    """What was decided about an instant.

    Attributes:
        token: who decided: the attempt's token, or the roller-back's.
        commit: bytes of the commit's file; ``None`` once that file is known to stand.
        paths: data files of the commit, until then.
        base_writes: completed writes that the checks before the commit saw, until then; of a decision about a restore
            the restores before it.
        summary: what a later run of the same batch is told.
        action: what the instant is on the timeline: a commit or a replacecommit.
        target: the committed instant that is taken back, of a decision about a rollback.
        completion_time: when the instant was completed, which is part of the name of the commit's file; None where it
            is not (timeline layout 1).
    """

    instant: str
    outcome: Outcome
    token: str
    batch_id: str = ""
    input_digest: str = ""
    commit: bytes | None = None
    paths: tuple[str, ...] = ()
    base_writes: tuple[str, ...] = ()
    summary: str | None = None
    action: str = names.COMMIT
    target: str = ""
    completion_time: str | None = None

    @property
    def is_committed(self) -> bool:
        return self.outcome is Outcome.COMMITTED

    @property
    def completed(self) -> Instant:
        """The instant as its commit completes it."""
        return Instant(self.instant, self.action, InstantState.COMPLETED, self.completion_time)


def decide(storage: Storage, verdict: Verdict) -> Verdict:
    """Decide an instant, unless it is decided: the verdict that stands. Durable when this returns."""
    path = verdict_path(verdict.instant)
    data = _encode(verdict)
    standing = records.settle_record(storage, path, data)
    return verdict if standing == data else _decode(standing, path)


def overrule(storage: Storage, verdict: Verdict) -> None:
    """Replace a verdict: only a rollback asked for by a person, or forced by Hudi's, does that, under the lock."""
    path = verdict_path(verdict.instant)
    records.put(storage, path, _encode(verdict))
    storage.sync([path])


def shrink(storage: Storage, verdict: Verdict) -> None:
    """Drop the commit's text from a verdict whose commit is durable, and told in the ledger."""
    small = replace(verdict, commit=None, paths=(), base_writes=(), summary=None)
    records.put(storage, verdict_path(verdict.instant), _encode(small))


def load_verdict(storage: Storage, instant: str) -> Verdict | None:
    """The verdict on an instant; ``None`` if it is open (also: torn), or none of ours. Raises: TableCorruptError."""
    path = verdict_path(instant)
    found = records.load(storage, path)
    return _from_record(found, path) if found else None


def upholds(storage: Storage, instant: str) -> bool:
    """Whether our verdict on an instant whose commit stands is that it is committed: a torn one was being shrunk.

    Raises: TableCorruptError.
    """
    path = verdict_path(instant)
    found = records.load(storage, path)
    return found is not None and (not found or _from_record(found, path).is_committed)


def decision_name(target: str, token: str) -> str:
    """Name of the decision about one rollback of a completed commit."""
    return f"{target}{_DECISION}{token}"


def is_decision(name: str) -> bool:
    """Whether a verdict is about a rollback of a completed commit, not about an instant of its own."""
    return _DECISION in name


def decisions(storage: Storage) -> list[str]:
    """Names of all decisions that are kept: for who cannot read in the lock which were under way."""
    return [name for name in _names(storage) if is_decision(name)]


def verdict_times(storage: Storage) -> frozenset[str]:
    """The instants that there is a verdict on."""
    return frozenset(name for name in _names(storage) if not is_decision(name))


def _names(storage: Storage) -> Iterator[str]:
    return (name.removesuffix(".json") for name in list_names(storage, VERDICTS_FOLDER))


def forget_verdict(storage: Storage, name: str) -> None:
    records.remove(storage, [verdict_path(name)])


def verdict_path(instant: str) -> str:
    return f"{VERDICTS_FOLDER}/{instant}.json"


def _encode(verdict: Verdict) -> bytes:
    fields = json_of(verdict)
    for name in ("target", "completion_time"):
        if not fields[name]:
            del fields[name]  # earlier releases do not know it
    if verdict.commit is not None:
        fields["commit"] = _text_of(verdict.commit)
    return records.encode(fields)


def _text_of(commit: bytes) -> str:
    """A commit that is JSON as it is, any other in base64."""
    if commit.startswith(b"{"):
        return commit.decode("utf-8", "surrogatepass")
    return base64.b64encode(commit).decode()


def _bytes_of(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass") if text.startswith("{") else base64.b64decode(text, validate=True)


def _decode(data: bytes, path: str) -> Verdict:
    return _from_record(records.decode(data, path), path)


def _from_record(found: dict[str, Any], path: str) -> Verdict:
    try:
        outcome = Outcome(found.pop("outcome"))
        paths, base_writes = tuple(found.pop("paths")), tuple(found.pop("base_writes"))
        text = found.pop("commit")
        commit = None if text is None else _bytes_of(text)
        return Verdict(outcome=outcome, paths=paths, base_writes=base_writes, commit=commit, **found)
    except (KeyError, TypeError, ValueError) as error:
        raise records.damaged(path, repr(error)) from None
