"""A table's place: can it be listed, is it a table that is written to, does the store keep its promises,
do clocks agree.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterator
from typing import Final

from lakeindex.doctor.findings import Check, fail, failed_with, ok, warn
from lakeindex.errors import LakeIndexError, ObjectExistsError, ObjectNotFoundError, TableNotFoundError
from lakeindex.format.instants import instant_time_to_ms
from lakeindex.storage import open_storage
from lakeindex.storage.port import Storage
from lakeindex.table.handle import Table

_SKEW_WARN: Final = 2.0
_SKEW_FAIL: Final = 60.0
_CLOCK_CURE: Final = "set the clocks by NTP: leases and instants rest on them"


def check_place(uri: str, *, write: bool) -> Iterator[Check]:
    """The checks of a place.

    Args:
        uri: a table's folder, which need not be there yet.
        write: also write, list and delete a probe below it.
    """
    try:
        store = open_storage(uri)
        listing = store.list_folder("")
    except (LakeIndexError, OSError, ValueError) as error:
        yield failed_with("storage", error)
        return
    yield ok("storage", f"{store.uri} can be listed: {len(listing.folders)} folders, {len(listing.objects)} files")
    table = _open(store)
    yield table if isinstance(table, Check) else _check_table(table)
    if isinstance(table, Table):
        yield from _check_newest(table)
    if write:
        folder = ".hoodie/.lakeindex/doctor" if isinstance(table, Table) else "lakeindex-doctor"
        yield from probe(store, f"{folder}/{uuid.uuid4().hex}")


def _open(store: Storage) -> Table | Check:
    try:
        return Table.open(store)
    except TableNotFoundError:
        return warn("table", f"no table at {store.uri} yet", "make it with `lakeindex create`")
    except LakeIndexError as error:
        return failed_with("table", error)


def _check_table(table: Table) -> Check:
    try:
        table.check_writable()
    except LakeIndexError as error:
        return failed_with("table", error)
    index = table.index()
    return ok(
        "table", f"{table.name}, {'no index bound yet' if index is None else index.index_type}, can be written to"
    )


def _check_newest(table: Table) -> Iterator[Check]:
    """The newest instant must not be of tomorrow: ours would be named after it for as long."""
    try:
        newest = table.load_timeline().max_time
    except LakeIndexError as error:
        yield failed_with("timeline", error)
        return
    if newest is not None and instant_time_to_ms(newest) / 1000 - time.time() > _SKEW_FAIL:
        yield warn("timeline", f"the newest instant, {newest}, is ahead of this machine's clock", _CLOCK_CURE)


def probe(store: Storage, path: str) -> Iterator[Check]:
    """Create, create again, read, list, and delete an object; look at the time the store gives it.

    Args:
        store: where.
        path: the object's path; it must not be there.
    """
    text = b"written by lakeindex doctor"
    try:
        before = time.time()
        store.create(path, text)
        after = time.time()
    except (LakeIndexError, OSError) as error:
        yield failed_with("write", error)
        return
    try:
        yield _second_create(store, path)
        if store.read(path) != text:
            yield fail("write", f"{path} does not hold what was written", "use another store", "StorageError", 1)
        elif path not in {one.path for one in store.list(path.rpartition("/")[0])}:
            yield fail("write", f"{path} is not listed after it was written", "use another store", "StorageError", 1)
        yield _clock(store.head(path).modified_ms / 1000, before, after)
    except (LakeIndexError, OSError) as error:
        yield failed_with("write", error)
    finally:
        gone = _deleted(store, path)
    yield gone


def _second_create(store: Storage, path: str) -> Check:
    """Commits, locks and tokens rest on this."""
    try:
        store.create(path, b"a second writer")
    except ObjectExistsError:
        return ok("conditional put", "create-if-absent has one winner")
    return fail(
        "conditional put",
        "an object was created twice: the store ignores If-None-Match",
        "use a store with conditional puts: without them two writers can lose each other's commits",
        "StorageError",
        1,
    )


def _clock(stored: float, before: float, after: float) -> Check:
    """The store's clock beside this machine's; stores give whole seconds."""
    skew = max(before - 1 - stored, stored - after - 1, 0.0)
    if skew > _SKEW_FAIL:
        return fail("clock", f"{skew:.0f} s away from the store's", _CLOCK_CURE, "ConflictError", 5)
    if skew > _SKEW_WARN:
        return warn("clock", f"{skew:.0f} s away from the store's", _CLOCK_CURE)
    return ok("clock", "agrees with the store's")


def _deleted(store: Storage, path: str) -> Check:
    try:
        store.delete(path)
        store.head(path)
    except ObjectNotFoundError:
        return ok("write", f"a probe below {store.uri} was written, read, listed and deleted")
    except (LakeIndexError, OSError) as error:
        return failed_with("delete", error)
    return fail("delete", f"{path} is still there", "delete it by hand, and look at the rights", "StorageError", 1)
