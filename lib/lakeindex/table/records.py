"""The small JSON files under ``.hoodie/.lakeindex/`` that the commit protocol is made of.

``create`` has one winner, but an answer may be lost, and a store's client may send a request again and be told that
its own object "exists". So nobody trusts the answer: :func:`settle` reads back what stands there. Records carry a
unique token, so that equal bytes prove whose they are.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from lakeindex.errors import (
    ObjectExistsError,
    ObjectNotFoundError,
    StorageError,
    TableCorruptError,
    UnknownOutcomeError,
)
from lakeindex.storage import Storage, in_parallel

OWN_FOLDER: Final = ".hoodie/.lakeindex"

_TRIES: Final = 4
_KEY_DIGITS: Final = 32


def key_of(text: str) -> str:
    """A file name for any text: 128 bits of its SHA-256, in hex."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_KEY_DIGITS]


def encode(record: Mapping[str, object]) -> bytes:
    """JSON bytes; equal records give equal bytes."""
    return json.dumps(record, sort_keys=True, ensure_ascii=False).encode("utf-8", "surrogatepass")


def decode(data: bytes, path: str) -> dict[str, Any]:
    """The object in a record's bytes. Raises: TableCorruptError."""
    try:
        loaded = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise damaged(path, str(error)) from None
    if not isinstance(loaded, dict):
        raise damaged(path, "not an object")
    return loaded


def damaged(path: str, why: str) -> TableCorruptError:
    """The error for a record that cannot be read."""
    return TableCorruptError(
        f"{path} is damaged: {why}", culprit=path, hint="restore the file, or delete it when no writer is running"
    )


def load(storage: Storage, path: str) -> dict[str, Any] | None:
    """A record, or ``None`` if it is not there. Raises: TableCorruptError."""
    try:
        return decode(storage.read(path), path)
    except ObjectNotFoundError:
        return None


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
