"""Many requests at once: an object store answers each of them late, a local disk has answered
before a thread is started.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

from lakeindex.storage.opening import is_on_this_machine

T = TypeVar("T")
R = TypeVar("R")

_FAR: Final = 16
_NEAR: Final = 4
"""A folder may be mounted from another machine."""
_PARALLEL_FROM: Final = 8


def in_parallel(uri: str, function: Callable[[T], R], items: Iterable[T], workers: int | None = None) -> list[R]:
    """``[function(i) for i in items]``, in order; the first error is raised.

    Args:
        uri: of the store that is asked.
        function: does the requests of an item; in a copy of the caller's context, so that they count for the caller.
        items: what is asked for.
        workers: how many at once, at most; by default as many as the store's distance asks for,
            and a few one after the other.
    """
    todo = list(items)
    if not todo or (workers is None and len(todo) < _PARALLEL_FROM):
        return [function(item) for item in todo]
    most = min(workers or (_NEAR if is_on_this_machine(uri) else _FAR), len(todo))
    left = iter(enumerate(todo))
    done: dict[int, R] = {}
    failed: dict[int, BaseException] = {}

    def work() -> None:
        """Do what nobody has begun: a thread is handed over to once, and not for every item."""
        for number, item in left:
            try:
                done[number] = function(item)
            except BaseException as error:  # noqa: BLE001 - raised below
                failed[number] = error

    with ThreadPoolExecutor(most, thread_name_prefix="requests") as pool:
        for _ in range(most):
            pool.submit(copy_context().run, work)
    if failed:
        raise failed[min(failed)]
    return [done[number] for number in range(len(todo))]
