"""Work that is shared among threads: Arrow, Parquet and the kernels of filters release the interpreter's lock."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import islice
from typing import Final, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_free: Final[ContextVar[Callable[[], int]]] = ContextVar("free cores", default=lambda: 1)


def usable_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cores_at_hand() -> int:
    """How many threads the task that is running may use: one, and its part of the cores that no other task needs."""
    return max(_free.get()(), 1)


@contextmanager
def having_cores(count: Callable[[], int]) -> Iterator[None]:
    """Within it :func:`cores_at_hand` asks how many cores there are."""
    token = _free.set(count)
    try:
        yield
    finally:
        _free.reset(token)


def in_cores(function: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """``map(function, items)``, each as it is asked for, together with those behind it that there are cores for."""
    left, begun = iter(items), deque[Future[R]]()
    with ThreadPoolExecutor(thread_name_prefix="cores") as pool:
        while True:
            cores = cores_at_hand()
            some = list(islice(left, max(cores - len(begun), 0)))
            if begun or len(some) > 1:
                begun += [pool.submit(copy_context().run, function, item) for item in some]
            if begun:
                yield begun.popleft().result()
            elif some:
                yield function(some[0])
            else:
                return


def shared(function: Callable[[T], R], items: Sequence[T], workers: int, name: str) -> list[R]:
    """``[function(i) for i in items]``, in order, by so many threads at most; the first error is raised.

    Args:
        function: runs in a copy of the caller's context.
        name: of the threads.
    """
    if min(workers, len(items)) < 2:
        return [function(item) for item in items]
    left = iter(enumerate(items))
    done: dict[int, R] = {}
    failed: dict[int, BaseException] = {}

    def work() -> None:
        for number, item in left:
            try:
                done[number] = function(item)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed[number] = error

    most = min(workers, len(items))
    with ThreadPoolExecutor(most, thread_name_prefix=name) as pool:
        for _ in range(most):
            pool.submit(copy_context().run, work)
    if failed:
        raise failed[min(failed)]
    return [done[number] for number in range(len(items))]
