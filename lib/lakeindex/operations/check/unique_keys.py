"""Check that a key has one live row: in its partition, or in the whole table under a global index."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from lakeindex.errors import REPAIR_KEYS
from lakeindex.model import BaseFile
from lakeindex.operations.check.base_files import read_keys
from lakeindex.operations.check.hashed_keys import hashes_of, repeated_hashes
from lakeindex.operations.check.violations import Broken, Findings, Violation
from lakeindex.write.virtual_keys import VirtualKeys

_EXAMPLES: Final = 5


@dataclass(frozen=True)
class UniqueTask:
    """Files whose keys must differ from each other.

    Attributes:
        uri: the table.
        scope: what they make up together, for messages.
        files: the files, and where the hashes of their keys are.
        virtual: how the keys of stored rows are made; None: they are stored.
    """

    uri: str
    scope: str
    files: tuple[tuple[BaseFile, Path], ...]
    virtual: VirtualKeys | None = None


def check_unique(task: UniqueTask) -> Findings:
    """Report keys that more than one row has."""
    violations: list[Violation] = []
    for repeated, holders in repeated_hashes([path for _, path in task.files]):
        files = [task.files[at][0] for at in holders]
        rows = rows_with(task.uri, files, repeated, task.virtual)
        violations += _doubled(task, rows)
    return Findings(tuple(violations))


def rows_with(
    uri: str, files: Sequence[BaseFile], hashes: np.ndarray, virtual: VirtualKeys | None
) -> dict[str, list[BaseFile]]:
    """Files of each key whose hash is one of these, a file once a row."""
    rows: dict[str, list[BaseFile]] = {}
    for file in files:
        keys: pa.Array = read_keys(uri, file, virtual).drop_null()
        for key in keys.filter(pa.array(np.isin(hashes_of(keys), hashes))).to_pylist():
            rows.setdefault(key, []).append(file)
    return rows


def _doubled(task: UniqueTask, rows: dict[str, list[BaseFile]]) -> Iterator[Violation]:
    doubled = sorted((key, files) for key, files in rows.items() if len(files) > 1)
    for key, files in doubled[:_EXAMPLES]:
        where = ", ".join(sorted({file.path for file in files}))
        others = f" ({len(doubled)} keys are)" if len(doubled) > 1 else ""
        yield Violation(
            Broken.DUPLICATE_KEY,
            key,
            f"key {key!r} is stored {len(files)} times in {task.scope}{others}: {where}",
            REPAIR_KEYS,
        )
