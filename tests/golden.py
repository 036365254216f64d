"""Tables that many tests begin with: made once a process by the code under test, and copied for each test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from copy import deepcopy
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, ParamSpec, TypeVar

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table

P = ParamSpec("P")
T = TypeVar("T")
HOME = "LAKEINDEX_TESTS_GOLDEN"
"""Environment variable: pytest's folder of this session, with which the tables go (``tests/conftest.py``)."""
RUN_FOLDERS = shutil.ignore_patterns("?*.lakeindex")
"""Beside a table: they name it by its URI, and are not copied."""
Build = Callable[Concatenate[Path, P], T]


def made_once(build: Build[P, T]) -> Build[P, T]:
    """For a helper that makes a table in or below a folder that it is given first: it is asked once for the same other arguments.

    What it returns, a table, its path or a tuple with one, is that of the copy; instants and ids of files are those of the table that was copied.
    ``helper.__wrapped__`` makes it anew, run folders and all.
    Not for a helper that is called while a test has put something in the place of the library's functions.
    """
    kept: dict[str, tuple[Path, T]] = {}

    @wraps(build)
    def copied(folder: Path, *args: P.args, **options: P.kwargs) -> T:
        key = repr((args, sorted(options.items())))
        if key not in kept:
            origin = Path(tempfile.mkdtemp(prefix="golden-", dir=os.environ[HOME]), "t")
            origin.mkdir()
            kept[key] = origin, build(origin, *args, **options)
        origin, made = kept[key]
        shutil.copytree(origin, folder, dirs_exist_ok=True, ignore=RUN_FOLDERS)
        return _of_copy(made, str(origin), str(folder))

    return copied


def _of_copy(made: Any, origin: str, folder: str) -> Any:
    if isinstance(made, (LakeTable, Path)):
        place = made.uri if isinstance(made, LakeTable) else str(made)
        assert place.startswith(origin)
        return type(made)(folder + place.removeprefix(origin))
    return tuple(_of_copy(one, origin, folder) for one in made) if isinstance(made, tuple) else deepcopy(made)


@made_once
def table_of(folder: Path, rows: Sequence[Row], batch_id: str | None = None, **options: str) -> LakeTable:
    """A table with one commit."""
    table = make_table(folder, **options)
    table.upsert(batch_of(rows), batch_id=batch_id)
    return table
