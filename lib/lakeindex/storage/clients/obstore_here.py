"""obstore as this process may use it.

obstore (0.12) sends all requests of a process by threads that it starts with the first one. A forked process is without
these threads and cannot start others: every call waits for good, also one of a new store. So where obstore was there
before a fork, the new process loads it anew, from a copy of its files: of one file, a process has one state only.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lakeindex.errors import StorageError
from lakeindex.time_spent import loading


@dataclass(frozen=True, slots=True)
class Obstore:
    """Its modules of this process; their classes are not those of the parent's.

    Attributes:
        store: ``obstore.store``.
        errors: ``obstore.exceptions``.
    """

    store: Any
    errors: Any


class _Process:
    """What this process has of it.

    Args:
        home: the folder of its files, if they were loaded before the process was forked.
    """

    def __init__(self, home: Path | None = None) -> None:
        self.mutex = threading.Lock()
        self.found: Obstore | None = None
        self.home = home


_process = _Process()


def obstore_here() -> Obstore:
    """The modules, loaded when they are first asked for.

    Raises:
        StorageError: they cannot be loaded anew in a forked process.
    """
    if _process.found is None:
        with _process.mutex:
            if _process.found is None:
                _process.found = _loaded() if _process.home is None else _loaded_anew(_process.home)
    return _process.found


def _loaded() -> Obstore:
    with loading():
        return Obstore(importlib.import_module("obstore.store"), importlib.import_module("obstore.exceptions"))


def _loaded_anew(home: Path) -> Obstore:
    for name in [name for name in sys.modules if name.partition(".")[0] == "obstore"]:
        del sys.modules[name]
    folder = tempfile.mkdtemp(prefix="lakeindex-obstore-")
    try:
        shutil.copytree(home, Path(folder, "obstore"), ignore=shutil.ignore_patterns("*.pyi", "__pycache__"))
        sys.path.insert(0, folder)
        try:
            importlib.invalidate_caches()
            return _loaded()
        finally:
            sys.path.remove(folder)
    except (ImportError, OSError) as error:
        raise StorageError(
            f"a forked process cannot load obstore anew: {error}",
            culprit=folder,
            hint="let TMPDIR name a folder from which programs may run, or start processes by spawn",
        ) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _after_fork() -> None:
    global _process  # noqa: PLW0603 - a lock that a thread of the parent held would be held for good
    loaded = sys.modules.get("obstore")
    home = _process.home  # where a copy was loaded, its folder is gone
    _process = _Process(home if loaded is None or home is not None else Path(str(loaded.__file__)).parent)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
