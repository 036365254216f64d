"""Many requests at once, and locks that a forked process has anew.

An object store answers each request late, so many are made at once; a local disk has answered before a thread is
started.
"""

from __future__ import annotations

import os
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from itertools import chain, islice
from types import TracebackType
from typing import Final, TypeVar

from lakeindex.storage.paths import is_on_this_machine
from lakeindex.threads import shared, usable_cores

T = TypeVar("T")
R = TypeVar("R")


_locks: Final[weakref.WeakSet[ProcessLock]] = weakref.WeakSet()


class ProcessLock:
    """A reentrant lock among the threads of a process, for what lives as long as the process."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        _locks.add(self)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()

    def renew(self) -> None:
        self._lock = threading.RLock()


def _renew_all() -> None:
    for lock in list(_locks):
        lock.renew()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_all)


_FAR: Final = 16
_NEAR: Final = 4
"""A folder may be mounted from another machine."""
_DECODED_FAR: Final = 4
_DECODED_AHEAD: Final = 16
"""So few items are held at once: there are filters in footers."""
_PARALLEL_FROM: Final = 8
_ALONE_S: Final = 0.001
"""For so long a caller asks a store on this machine alone: starting a thread takes a tenth of it."""


def decoded_in_parallel(uri: str, function: Callable[[T], R], items: Iterable[T]) -> list[R]:
    """As :func:`in_parallel`, for functions that read and decode: threads do it while the caller's makes the items; one
    a core, and a few that wait for a far store. With more than cores fresh memory takes twice the time.
    """
    left = iter(items)
    first = list(islice(left, 2))
    if len(first) < 2:
        return [function(one) for one in first]
    cores = usable_cores()
    most = cores if is_on_this_machine(uri) else max(cores, _DECODED_FAR)
    done, begun = list[R](), deque[Future[R]]()
    with ThreadPoolExecutor(most, thread_name_prefix="requests") as pool:
        for one in chain(first, left):
            begun.append(pool.submit(copy_context().run, function, one))
            if len(begun) >= _DECODED_AHEAD:
                done.append(begun.popleft().result())
        return done + [one.result() for one in begun]


def in_parallel(uri: str, function: Callable[[T], R], items: Iterable[T], workers: int | None = None) -> list[R]:
    """``[function(i) for i in items]``, in order; the first error is raised.

    Args:
        function: does the requests of an item; in a copy of the caller's context, so that they count for the caller.
        workers: how many at once, at most; by default as many as the store's distance asks for,
            and a few one after the other. A store on this machine is asked by the caller alone at first.
    """
    todo = list(items)
    if not todo or (workers is None and len(todo) < _PARALLEL_FROM):
        return [function(item) for item in todo]
    if workers is not None or not is_on_this_machine(uri):
        return shared(function, todo, workers or _FAR, "requests")
    done: list[R] = []
    until = time.perf_counter() + _ALONE_S
    for number, item in enumerate(todo):
        if number < len(todo) - 1 and time.perf_counter() > until:
            return done + shared(function, todo[number:], _NEAR, "requests")
        done.append(function(item))
    return done
