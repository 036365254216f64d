"""What methods of a table handle are wrapped in: they open every store with the handle's options, and show the names of
the arguments that they pass on.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from lakeindex.storage.options import StoreOptions, using


class HasStoreOptions(Protocol):
    """What has store options of its own."""

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Endpoint, region, credentials."""


P = ParamSpec("P")
R = TypeVar("R")
H = TypeVar("H", bound=HasStoreOptions)
F = TypeVar("F", bound=Callable[..., Any])


def in_its_stores(method: Callable[Concatenate[H, P], R]) -> Callable[Concatenate[H, P], R]:
    """A method of a table handle that opens all stores with the handle's options."""

    @functools.wraps(method)
    def within(handle: H, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with using(StoreOptions.of(handle.storage_options)):
            return method(handle, *args, **kwargs)

    return within


def names_of_arguments(kind: type, *called: Callable[..., Any]) -> Callable[[F], F]:
    """A method whose ``**arguments`` ``inspect.signature``, help and editors show by name.

    Args:
        kind: the TypedDict that lists them.
        called: the functions that get them, by whose parameters types and defaults are shown.
    """
    known = {name: one for function in called for name, one in inspect.signature(function).parameters.items()}
    passed = [known[name] for name in kind.__annotations__]

    def named(method: F) -> F:
        shown = inspect.signature(method)
        own = [one for one in shown.parameters.values() if one.kind is not one.VAR_KEYWORD]
        method.__signature__ = shown.replace(parameters=[*own, *passed])  # type: ignore[attr-defined] # inspect's name
        return method

    return named
