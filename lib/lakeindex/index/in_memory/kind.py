"""INMEMORY: a hash map for the life of the process. For tests and small tables, not for production."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lakeindex.index.in_memory.store import InMemoryStore
from lakeindex.index.stored.contract import StoredIndex
from lakeindex.index.stored.store_context import StoreContext
from lakeindex.model import IndexSpec
from lakeindex.options.types import WriteConfig


@dataclass(frozen=True, slots=True)
class InMemoryIndex(StoredIndex):
    """The kind."""

    in_process: ClassVar[bool] = True

    spec: IndexSpec

    def open(self, context: StoreContext) -> InMemoryStore:
        """The map of a table."""
        return InMemoryStore(context.storage.uri)

    def notes(self, config: WriteConfig) -> tuple[str, ...]:
        """What it is not made for."""
        del config
        return ("INMEMORY is a hash map of one process, filled from the whole table: not for production",)


def make_index(spec: IndexSpec) -> InMemoryIndex:
    """The kind."""
    return InMemoryIndex(spec)
