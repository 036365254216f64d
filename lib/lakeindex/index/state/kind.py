"""STATE: locations in the keyed state of a Spark streaming query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakeindex.index.state.store import StateStore
from lakeindex.index.stored.contract import StoredIndex
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class StateIndex(StoredIndex):
    """The state index; "global" is part of the spec."""

    answers_batches: ClassVar[bool] = True

    spec: IndexSpec

    def open(self, context: StoreContext) -> StateStore:
        """The state of a table."""
        return StateStore(context)

    def moves_rows(self, config: WriteConfig) -> bool:
        """A row moves, as with Hudi's Flink engine."""
        del config
        return True


def make_index(spec: IndexSpec) -> StateIndex:
    """The kind."""
    return StateIndex(spec)
