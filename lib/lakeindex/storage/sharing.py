"""Work shared among threads: each takes what nobody has begun, so that a thread is handed over to once, and not for
every item.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

T = TypeVar("T")
R = TypeVar("R")


def shared(function: Callable[[T], R], items: Sequence[T], workers: int, name: str) -> list[R]:
    """``[function(i) for i in items]``, in order, by so many threads at most; the first error is raised.

    Args:
        function: runs in a copy of the caller's context.
        name: of the threads.
    """
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
    with ThreadPoolExecutor(max(most, 1), thread_name_prefix=name) as pool:
        for _ in range(most):
            pool.submit(copy_context().run, work)
    if failed:
        raise failed[min(failed)]
    return [done[number] for number in range(len(items))]
