"""Work with Arrow without loading pandas, which takes longer than a small batch or scan.

pyarrow imports pandas when it makes its first array, to know pandas' objects when it is given some. Nobody can give it
any before somebody has imported pandas, so it is told that there is none: in processes of ours for good
(:func:`for_good`), in those of others while a call of the library runs (:func:`unasked`). Behind the call, and as soon
as anybody imports pandas within it, pyarrow is as it was.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder


class _NoPandas(MetaPathFinder):
    """Tells pyarrow that pandas is not installed, and tells nobody else."""

    def __init__(self) -> None:
        self.is_for_good = False
        self.calls = 0
        self.renew_lock()
        self._asking: int | None = None
        self._is_told = False

    def renew_lock(self) -> None:
        """In a process that was forked nobody else is there who would give it back."""
        self.lock = threading.Lock()

    # The protocol asks for all three.
    def find_spec(self, fullname: str, path: Sequence[str] | None, target: object = None) -> None:  # noqa: ARG002
        if fullname != "pandas":
            return
        if self._asking == threading.get_ident():
            raise ModuleNotFoundError("pandas is left out at the start", name=fullname)
        self.forget()  # without the lock: who holds it may wait for this import

    def tell(self) -> None:
        sys.meta_path.insert(0, self)
        self._asking, self._is_told = threading.get_ident(), True
        try:
            importlib.import_module("pyarrow").array([0])
        finally:
            self._asking = None

    def forget(self) -> None:
        """Let pyarrow look for pandas again when it makes the next array."""
        if self._is_told:
            self._is_told = False
            importlib.import_module("pyarrow.lib")._pandas_api.__init__()  # noqa: SLF001 - it sets nothing but that


_FINDER = _NoPandas()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_FINDER.renew_lock)


def for_good() -> None:
    """Let this process do without pandas until it is wanted (``to_pandas``)."""
    if "pandas" not in sys.modules:
        _FINDER.tell()
        sys.meta_path.remove(_FINDER)
        _FINDER.is_for_good = True


@contextmanager
def unasked() -> Iterator[None]:
    """Do without pandas in here, unless it is loaded, or is imported meanwhile."""
    if "pandas" in sys.modules or _FINDER.is_for_good:
        yield
        return
    with _FINDER.lock:
        if not _FINDER.calls:
            _FINDER.tell()
        _FINDER.calls += 1
    try:
        yield
    finally:
        with _FINDER.lock:
            _FINDER.calls -= 1
            if not _FINDER.calls:
                sys.meta_path[:] = [one for one in sys.meta_path if one is not _FINDER]
                _FINDER.forget()
