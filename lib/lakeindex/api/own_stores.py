"""What methods of a table handle are wrapped in: they open every store with the handle's options."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from lakeindex.storage.options import StoreOptions, using


class HasStoreOptions(Protocol):
    """What has store options of its own."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Endpoint, region, credentials."""


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=HasStoreOptions)


def in_its_stores(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """A method of a table handle that opens all stores with the handle's options."""

    @functools.wraps(method)
    def within(handle: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with using(StoreOptions.of(handle.storage_options)):
            return method(handle, *args, **kwargs)

    return within
