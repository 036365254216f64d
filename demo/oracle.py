"""What the table must hold, by a plain dictionary: no index, no file groups, no library of ours.

A batch is first combined (of a key's messages the one with the largest event time counts, on a tie the later one), then
each message is held against what is stored: an older one is ignored, a delete of what is not there too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from demo.feed import DELETE_MARK, SCHEMA
from demo.make_data import KEY

Key = tuple[Any, ...]
Row = dict[str, Any]


@dataclass(slots=True)
class Counts:
    """What a batch did; the names of the upsert summary."""

    rows_in: int = 0
    combined: int = 0
    inserts: int = 0
    updates: int = 0
    deletes: int = 0
    ignored: int = 0

    def as_dict(self) -> dict[str, int]:
        """By name."""
        return asdict(self)


@dataclass(slots=True)
class Oracle:
    """The table as a dictionary: record key -> row."""

    rows: dict[Key, Row] = field(default_factory=dict)

    def upsert(self, messages: Iterable[Row]) -> Counts:
        """Apply one batch."""
        counts = Counts()
        latest: dict[Key, Row] = {}
        for message in messages:
            counts.rows_in += 1
            key = tuple(message[name] for name in KEY)
            if key not in latest or message["event_ms"] >= latest[key]["event_ms"]:
                latest[key] = message
        counts.combined = counts.rows_in - len(latest)
        for key, message in latest.items():
            self._apply(key, message, counts)
        return counts

    def _apply(self, key: Key, message: Row, counts: Counts) -> None:
        stored = self.rows.get(key)
        is_older = stored is not None and message["event_ms"] < stored["event_ms"]
        if is_older or (stored is None and message[DELETE_MARK]):
            counts.ignored += 1
        elif message[DELETE_MARK]:
            counts.deletes += 1
            del self.rows[key]
        else:
            counts.inserts += stored is None
            counts.updates += stored is not None
            self.rows[key] = {name: message[name] for name in SCHEMA.names}


def messages_of(files: Iterable[Path]) -> Iterator[Row]:
    """The messages of feed files, in order."""
    for file in files:
        for batch in pq.ParquetFile(file).iter_batches():
            yield from batch.to_pylist()
