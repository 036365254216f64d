"""SIMPLE and GLOBAL_SIMPLE: the batch joined with the key column of every file in scope.
Nothing is stored, nothing is pruned.

Only the key column is read, and a file's keys are met with one chunk after the other: memory holds the keys of one file
and of one chunk a task, whatever the batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.contract import FileFacts, IndexTraits
from lakeindex.index.key_ranges import RowSlices
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class SimpleIndex:
    """The simple index; "global" is part of the spec."""

    spec: IndexSpec

    @property
    def traits(self) -> IndexTraits:
        """Asks for nothing but the files."""
        return IndexTraits()

    def propose(self, keys: StringArray, files: Sequence[FileFacts], config: WriteConfig) -> RowSlices:
        """Every key for every file: the key column decides."""
        del config
        return RowSlices(np.zeros(len(files), np.int64), np.full(len(files), len(keys), np.int64))


def make_index(spec: IndexSpec) -> SimpleIndex:
    """The kind."""
    return SimpleIndex(spec)
