"""Loops in two forms: one that is there at once, and a compiled one (numba) that takes a second to load.

A process that has little to do is done by the first before the second is loaded. Both give the same answers; so the
choice shows in the time alone.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any, Final, Generic, TypeVarTuple

from lakeindex.time_spent import loading

_A = TypeVarTuple("_A")

_SHARE_WITH_NUMBA: Final = 30
"""Loading numba takes some thirty times as long as loading one more compiled form."""


def compiled_in(module: str, name: str) -> Callable[[], Callable[..., None]]:
    """Loads a compiled form out of the module that holds it, and with it numba, when it is first called."""

    def load() -> Callable[..., None]:
        found: Any = getattr(import_module(module), name)
        return found

    return load


def has_numba() -> bool:
    """Whether the process has loaded numba, so that compiled forms are loaded soon."""
    return "numba" in sys.modules


def load_numba() -> None:
    """Load it, so that they are."""
    with loading():
        import_module("numba")


class Loop(Generic[*_A]):
    """A loop that is plain until its process has asked for so much of it that the compiled form pays.

    Args:
        plain: the form that is there at once.
        load: loads the compiled form.
        patience: how much is done in the plain form, in the unit of the calls' ``cost``, before numba is loaded; about
            a third of a second. Where the process has loaded numba already, a thirtieth of it.
    """

    def __init__(self, plain: Callable[[*_A], None], load: Callable[[], Callable[[*_A], None]], patience: int) -> None:
        self._plain = plain
        self._load = load
        self._compiled: Callable[[*_A], None] | None = None
        self._done = 0
        self._patience = patience

    def preload(self) -> Callable[[*_A], None]:
        """Load the compiled form, which is taken from now on."""
        if self._compiled is None:
            with loading():
                self._compiled = self._load()
        return self._compiled

    def run(self, cost: int, *args: *_A) -> None:
        """Run it in the form that pays."""
        if self._compiled is not None:
            self._compiled(*args)
            return
        self._done += cost
        if self._done <= self._patience // (_SHARE_WITH_NUMBA if has_numba() else 1):
            self._plain(*args)
        else:
            self.preload()(*args)
