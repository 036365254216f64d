"""SIMPLE and GLOBAL_SIMPLE: the batch joined with the key column of every file in scope.
Nothing is stored, nothing is pruned.

Only the key column is read, and a file's keys are met with one chunk after the other: memory holds the keys of one file
and of one chunk a task, whatever the batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.advice import Expected, KindAdvice, Workload, mean_file_bytes
from lakeindex.index.contract import Candidates, FilesInScope, Index
from lakeindex.index.cost import LookupLoad
from lakeindex.index.key_ranges import RowSlices
from lakeindex.index.simple_options import SimpleOptions
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class SimpleIndex(Index):
    """The simple index; "global" is part of the spec."""

    spec: IndexSpec

    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """Every key for every file: the key column decides."""
        del config, store
        n = len(files.files)
        return Candidates(files.kept(RowSlices(np.zeros(n, np.int64), np.full(n, len(keys), np.int64))))

    def moves_rows(self, config: WriteConfig) -> bool:
        return config.of(SimpleOptions).moves_rows


def make_index(spec: IndexSpec) -> SimpleIndex:
    return SimpleIndex(spec)


def _expected(work: Workload, config: WriteConfig) -> Expected:
    del config
    load = LookupLoad(work.keys, work.files, pairs_verified=work.possible)
    opened = work.opening(load, work.files, work.rows)
    return Expected(opened, work.possible, work.files_updated, mean_file_bytes(work))


ADVICE: Final = KindAdvice(_expected, is_plain=True)
