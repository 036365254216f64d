"""BLOOM and GLOBAL_BLOOM: key ranges and filters in the footers of base files. Nothing is stored beside them.

After a commit there is nothing to tell the index: writing the files wrote it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from lakeindex.hashing.arrow import StringArray
from lakeindex.index.bloom.options import BloomOptions
from lakeindex.index.contract import Candidates, FilesInScope, Index
from lakeindex.index.key_ranges import KeyRange, prune, pruner_for
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class BloomIndex(Index):
    """The bloom index; "global" is part of the spec."""

    needs_footers: ClassVar[bool] = True

    spec: IndexSpec

    def ask(self, keys: StringArray, files: FilesInScope, config: WriteConfig, store: Any = None) -> Candidates:
        """The slice of the chunk inside each file's key range; all of it if ranges are not to be used."""
        del store
        given = config.of(BloomOptions)
        ranges = files.key_ranges if given.prune_by_ranges else [KeyRange(None, None)] * len(files.files)
        return Candidates(files.kept(prune(keys, ranges, pruner_for(given.treebased_filter))))

    def moves_rows(self, config: WriteConfig) -> bool:
        """As ``hoodie.bloom.index.update.partition.path`` says."""
        return config.of(BloomOptions).moves_rows

    def basis(self, config: WriteConfig) -> tuple[object, ...]:
        """How it prunes."""
        given = config.of(BloomOptions)
        return given.prune_by_ranges, given.treebased_filter


def make_index(spec: IndexSpec) -> BloomIndex:
    """The kind."""
    return BloomIndex(spec)
