"""The small JSON files under ``.hoodie/.lakeindex/`` that the commit protocol is made of.

``create`` has one winner, but an answer may be lost, and a store's client may send a request again and be told that
its own object "exists". So nobody trusts the answer: :func:`settle` reads back what stands there. Records carry a
unique token, so that equal bytes prove whose they are.

A power loss leaves what was not synced torn: empty, cut short, or zeros. One rule holds for all records, and it is
here: **a torn record says nothing.** It reads as an empty one, ``{}``; whoever wrote it is dead, and nothing follows
from it, as what something follows from is synced first. So :func:`settle_record` puts the new record in its place, and
no person has to help.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from lakeindex.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TableCorruptError,
    UnknownOutcomeError,
)
from lakeindex.storage import Storage, in_parallel
from lakeindex.timeline.clock import Patience, SystemClock

_T = TypeVar("_T")

OWN_FOLDER: Final = ".hoodie/.lakeindex"

_TRIES: Final = 4
_KEY_DIGITS: Final = 32
_FILLED_IN_PLACE: Final = ("file:", "hdfs:")
"""Stores on which Hudi creates a file of the timeline before it fills it (``StorageSchemes``: atomic creation)."""

_FILLING_MS: Final = 1_000
_BEING_FILLED_MS: Final = 60_000


def key_of(text: str) -> str:
    """A file name for any text: 128 bits of its SHA-256, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_DIGITS]


def encode(record: Mapping[str, object]) -> bytes:
    """JSON bytes; equal records give equal bytes."""
    return json.dumps(record, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode(data: bytes, path: str) -> dict[str, Any]:
    """The object in a record's bytes; empty if they are torn.

    Raises:
        TableCorruptError: whole, but no record of ours.
    """
    if is_torn(data):
        return {}
    loaded = json.loads(data)
    if not isinstance(loaded, dict) or not loaded:
        raise damaged(path, "no record")
    return loaded


def is_torn(data: bytes) -> bool:
    """Whether bytes are a part of a record: that of an object is no JSON."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return True
    return False


def damaged(path: str, why: str) -> TableCorruptError:
    return TableCorruptError(
        f"{path} is damaged: {why}", culprit=path, hint="restore the file, or delete it when no writer is running"
    )


def load(storage: Storage, path: str) -> dict[str, Any] | None:
    """A record; empty if it is torn, ``None`` if it is not there. Raises: TableCorruptError."""
    try:
        return decode(storage.read(path), path)
    except ObjectNotFoundError:
        return None


def read_filled(storage: Storage, path: str, parse: Callable[[bytes, str], _T]) -> _T:
    """What a file of the timeline says, which another writer may be filling at this moment: one that cannot be parsed
    is looked at again for a second, unless it is old, before that counts as damage.

    Raises:
        ObjectNotFoundError: it is gone.
        TableCorruptError: it stays as it is.
    """
    patience: Patience | None = None
    while True:
        try:
            return parse(storage.read(path), path)
        except TableCorruptError:
            if patience is None:
                clock = SystemClock()
                age_ms = clock.now_ms() - storage.head(path).modified_ms
                may_grow = storage.uri.startswith(_FILLED_IN_PLACE) and age_ms < _BEING_FILLED_MS
                patience = Patience(clock, _FILLING_MS if may_grow else 0)
            if patience.is_over:
                raise
            patience.pause()


def create_alike(storage: Storage, path: str, content: bytes) -> bool:
    """Create a file that is the same whoever creates it; False if it was there.

    Reading such a file back proves nothing after a lost answer: it is then taken for ours, and something else that only
    one can create decides.

    Raises:
        UnknownOutcomeError: no try was answered.
    """
    unsure = False
    for left in reversed(range(_TRIES)):
        try:
            storage.create(path, content)
        except ObjectExistsError:
            return unsure
        except UnknownOutcomeError:
            unsure = True
            if not left:
                raise
        else:
            return True
    return True


def settle(storage: Storage, path: str, data: bytes) -> bytes:
    """Create the file if it is absent, and say what stands there: ours if it equals ``data``.

    Raises:
        UnknownOutcomeError: the store does not answer for good.
    """
    for left in reversed(range(_TRIES)):
        try:
            storage.create(path, data)
        except ObjectExistsError:
            pass
        except UnknownOutcomeError:
            if not left:
                raise
        else:
            return data
        try:
            return storage.read(path)
        except ObjectNotFoundError:
            continue  # it did not happen, or it was deleted meanwhile
    raise UnknownOutcomeError(f"cannot tell whether {path} was created", culprit=path, hint="run again")


def settle_record(storage: Storage, path: str, data: bytes, *, durable: bool = True) -> bytes:
    """As :func:`settle`, for a record: a torn one that stands there gives way.

    Args:
        durable: whether what stands must outlive a power loss once this returns: something follows from it.
    """
    standing = settle(storage, path, data)
    if standing != data and not decode(standing, path):
        put(storage, path, data)
        standing = storage.read(path)
    if durable:
        storage.sync([path])
    return standing


def settle_bytes(storage: Storage, path: str, data: bytes) -> bytes:
    """As :func:`settle`, for a file that all its writers write alike: a part of it that stands there is made whole."""
    return _made_whole(storage, path, settle(storage, path, data), data)


def mend_bytes(storage: Storage, path: str, data: bytes) -> bytes:
    """As :func:`settle_bytes`, but what is gone stays gone. Raises: ObjectNotFoundError."""
    return _made_whole(storage, path, storage.read(path), data)


def _made_whole(storage: Storage, path: str, standing: bytes, data: bytes) -> bytes:
    if standing == data or not is_part(standing, data):
        return standing
    put(storage, path, data)
    return data


def is_part(standing: bytes, data: bytes) -> bool:
    """Whether bytes are what a power loss may have left of others: a beginning of them, then nothing or zeros."""
    begun = standing.rstrip(b"\0")
    return len(standing) <= len(data) and data.startswith(begun)


def put(storage: Storage, path: str, data: bytes) -> None:
    """Write or replace a file that only we write; a lost answer is asked again (the write is idempotent)."""
    for left in reversed(range(_TRIES)):
        try:
            storage.write(path, data)
        except UnknownOutcomeError:
            if not left:
                raise
        else:
            return


def remove(storage: Storage, paths: Iterable[str]) -> None:
    """Delete files, asking again after a lost answer."""
    in_parallel(storage.uri, lambda path: _remove(storage, path), paths)


def tidy(storage: Storage, paths: Iterable[str]) -> None:
    """Delete files that nobody needs any more: what goes wrong is left to the next tidying."""
    try:
        remove(storage, paths)
    except StorageError:
        return


def _remove(storage: Storage, path: str) -> None:
    for left in reversed(range(_TRIES)):
        try:
            storage.delete(path)
        except UnknownOutcomeError:
            if not left:
                raise
        else:
            return
