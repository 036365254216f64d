"""The stores that a run, or a task of it, reads and writes, by their URI."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Final

from lakeindex.storage import StoreOptions, current_options, open_storage
from lakeindex.storage.overlay import OverlayStorage
from lakeindex.storage.paths import plain
from lakeindex.storage.port import Storage
from lakeindex.tasks.meter import MeteredStorage
from lakeindex.tasks.runner import current_meter

_ABOVE: ContextVar[tuple[str, OverlayStorage] | None] = ContextVar("lakeindex_above", default=None)
_STORE_VARIABLES: Final = ("AWS_", "AZURE_", "GOOGLE_", "HADOOP_")


@functools.lru_cache(maxsize=64)
def _opened(uri: str, options: StoreOptions, _environment: tuple[tuple[str, str], ...]) -> Storage:
    return open_storage(uri, options)


def storage_at(uri: str) -> Storage:
    """The store at a URI, as the options of the running call and the environment have it,
    counting into the running task's meter.

    It is opened once a process for the same of all three: stores of one URI may be different ones.
    """
    place = plain(uri)  # a relative path is another one in another folder
    store, above = _opened(place, current_options(), _environment_of(place)), _ABOVE.get()
    if above is not None and place == above[0]:
        store = above[1]
    return MeteredStorage(store, current_meter())


@contextmanager
def writing_nothing(table_uri: str, layer: Storage) -> Iterator[None]:
    """Let all that this process writes below a table go into another store, and be read from there.

    Args:
        table_uri: the table, as the run has it; tasks of other processes are not reached.
        layer: takes what is written.
    """
    token = _ABOVE.set((plain(table_uri), OverlayStorage(storage_at(table_uri), layer)))
    try:
        yield
    finally:
        _ABOVE.reset(token)


def _environment_of(uri: str) -> tuple[tuple[str, str], ...]:
    """The variables that say which store an object store's URL means."""
    if "://" not in uri or uri.startswith("memory://"):
        return ()
    return tuple(sorted(item for item in os.environ.items() if item[0].startswith(_STORE_VARIABLES)))
