"""Work cut into bounded groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

_T = TypeVar("_T")


def groups_within(items: Iterable[_T], size: Callable[[_T], int], most: int) -> Iterator[list[_T]]:
    """Neighbours together, as many as fit: sizes of a group add up to at most ``most``,
    or it is one item larger than that.
    """
    some: list[_T] = []
    held = 0
    for item in items:
        count = size(item)
        if some and held + count > most:
            yield some
            some, held = [], 0
        some.append(item)
        held += count
    if some:
        yield some
