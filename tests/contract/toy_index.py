"""TOY: a stored index in one JSON file a generation. The example of docs/adding-an-index.md, and the proof that this is all it takes."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from lakeindex.errors import ObjectNotFoundError
from lakeindex.index.contract import DELTA_SCHEMA, Found, IndexTraits
from lakeindex.index.stored.change_log import read_delta
from lakeindex.index.stored.store_context import LogView, StoreContext
from lakeindex.model import IndexSpec


class ToyStore:
    """Keys and their places; what it was told and must doubt has no place."""

    def __init__(self, context: StoreContext) -> None:
        self._storage, self._view = context.storage, context.view

    def _path(self, generation: str) -> str:
        return f"{self._view.folder}/toy-{generation}.json"

    def _load(self) -> dict[str, Any]:
        empty: dict[str, Any] = {"applied": [], "keys": {}}
        if self._view.generation is None:
            return empty
        try:
            found: dict[str, Any] = json.loads(self._storage.read(self._path(self._view.generation)))
        except ObjectNotFoundError:
            return empty
        return found

    def _save(self, generation: str, content: dict[str, Any]) -> None:
        self._storage.write(self._path(generation), json.dumps(content).encode())

    def generation(self) -> str | None:
        """The generation in force, if its file is there."""
        try:
            self._storage.head(self._path(self._view.generation or ""))
        except ObjectNotFoundError:
            return None
        return self._view.generation

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        """A new file beside the old one."""
        keys = {r["key"]: [r["partition"], r["file_id"]] for table in entries for r in table.to_pylist()}
        self._save(generation, {"applied": [], "keys": keys})
        return len(keys)

    def retire(self, keep: str | None) -> None:
        """Delete the files of other generations."""
        for one in self._storage.list_folder(self._view.folder).objects:
            name = one.path.rpartition("/")[2]
            if name.startswith("toy-") and name != f"toy-{keep}.json":
                self._storage.delete(one.path)

    def drop(self) -> None:
        """Delete all files."""
        self.retire(None)

    def behind(self, names: Sequence[str]) -> Sequence[str]:
        """Deltas that are not in the file."""
        applied = set(self._load()["applied"])
        return [name for name in names if name not in applied]

    def prepare(self, name: str) -> None:
        """Nothing is written before the commit."""

    def apply(self, names: Sequence[str]) -> None:
        """Take in deltas and write the file anew."""
        content, new = self._load(), self.behind(names)
        for name in new:
            for row in read_delta(self._storage, self._view, name).to_pylist():
                if row["file_id"] is None:
                    content["keys"].pop(row["key"], None)
                else:
                    content["keys"][row["key"]] = [row["partition"], row["file_id"]]
        if new and self._view.generation is not None:
            self._save(self._view.generation, {**content, "applied": [*content["applied"], *new]})

    def undo(self, name: str) -> None:
        """A delta that was taken in does not count any more: its keys may be anywhere."""
        content = self._load()
        if name not in content["applied"] or self._view.generation is None:
            return
        for key in read_delta(self._storage, self._view, name).column("key").to_pylist():
            content["keys"][key] = None
        content["applied"].remove(name)
        self._save(self._view.generation, content)

    def fold(self) -> str:
        """Deltas that were taken in need not be kept."""
        assert self._view.generation is not None  # only what is built is folded
        return self._view.generation

    def count(self) -> int | None:
        """Doubted keys make the number uncertain."""
        return None

    def look_up(self, keys: Any, partition: str | None) -> Found:
        """Places of keys."""
        del partition  # a key is unique in the whole table
        held = self._load()["keys"]
        asked = keys.to_pylist()
        found = [row for row, key in enumerate(asked) if held.get(key)]
        unknown = [row for row, key in enumerate(asked) if key in held and not held[key]]
        places = [held[asked[row]] for row in found]
        return Found(
            np.array(found, np.int64),
            pa.array([p for p, _ in places], pa.string()),
            pa.array([f for _, f in places], pa.string()),
            np.array(unknown, np.int64),
        )

    def entries(self) -> Iterable[pa.Table]:
        """Everything, in one piece."""
        rows = [(key, *place) for key, place in self._load()["keys"].items() if place]
        schema = pa.schema([DELTA_SCHEMA.field(i) for i in range(3)])
        yield pa.table([pa.array([r[i] for r in rows], pa.string()) for i in range(3)], schema=schema)


@dataclass(frozen=True, slots=True)
class ToyIndex:
    """The kind."""

    spec: IndexSpec

    @property
    def traits(self) -> IndexTraits:
        """Nothing special."""
        return IndexTraits()

    def open(self, context: StoreContext) -> ToyStore:
        """The store of a table."""
        return ToyStore(context)

    def arrange(self, delta: pa.Table, view: LogView) -> Sequence[pa.Table]:
        """A delta is taken in whole."""
        del view
        return [delta]


def make_index(spec: IndexSpec) -> ToyIndex:
    """The kind."""
    return ToyIndex(spec)
