"""What a table must hold after many processes wrote to it at once: a dictionary, made from what was acknowledged.

Who was first is the table's business, so the batches are such that it does not matter: every row has an ordering value of its own,
and the greatest wins. Keys that are also deleted belong to one writer, whose batches come one after the other.
"""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import pyarrow.parquet as pq

from tests.builders import Row, batch_of

PARTITIONS: Final = ("d0", "d1", "d2", "d3")
SHARED: Final = 400
OWNED: Final = 40


@dataclass
class Batch:
    """One batch, and what was said of it.

    Attributes:
        instant: the commit that was acknowledged last; None while there is none.
    """

    name: str
    writer: int
    number: int
    path: Path
    rows: list[Row]
    instant: str | None = None


@dataclass
class Dictionary:
    """All batches, and the instants that were rolled back.

    Attributes:
        moves: whether a key may come with another partition (a global index that moves rows).
    """

    folder: Path
    moves: bool
    batches: list[Batch] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    mutex: threading.Lock = field(default_factory=threading.Lock)

    def make(self, writer: int, number: int, choose: random.Random) -> Batch:
        """The next batch of a writer: keys that all writers share, and some of its own, which it may delete."""
        order = 1000 * (number * 64 + writer)
        keys = choose.sample(range(SHARED), choose.randint(1, 60))
        rows = [self._row(f"s{key:04d}", order + n, choose) for n, key in enumerate(keys)]
        own = choose.sample(range(OWNED), choose.randint(1, 10))
        rows += [self._row(f"w{writer}-{key:03d}", order + 500 + n, choose, owned=True) for n, key in enumerate(own)]
        # a key that no batch had before, so that every batch has a commit of its own, whatever is late in it
        rows.append(self._row(f"n{writer}-{number:04d}", order + 999, choose))
        batch = Batch(f"b{writer}-{number}", writer, number, self.folder / f"b{writer}-{number}.parquet", rows)
        pq.write_table(batch_of(rows), batch.path)
        with self.mutex:
            self.batches.append(batch)
        return batch

    def _row(self, key: str, ts: int, choose: random.Random, *, owned: bool = False) -> Row:
        number = choose.randrange(len(PARTITIONS)) if self.moves else sum(key.encode()) % len(PARTITIONS)
        return Row(key, PARTITIONS[number], ts, f"{key}@{ts}", deleted=owned and choose.random() < 0.4)

    def acknowledged(self, batch: Batch, instant: str) -> None:
        """A writer was told that the batch is in the table."""
        with self.mutex:
            batch.instant = instant

    def rolled_back(self, instant: str) -> None:
        """Somebody was told that the instant was rolled back."""
        with self.mutex:
            self.gone.add(instant)

    def newest(self) -> str | None:
        """The newest instant that was acknowledged and not rolled back."""
        with self.mutex:
            return max((b.instant for b in self.batches if b.instant and b.instant not in self.gone), default=None)

    def is_in(self, batch: Batch) -> bool:
        """Whether the table must hold the batch's rows."""
        return batch.instant is not None and batch.instant not in self.gone

    def content(self) -> dict[str, Row]:
        """Every live row by its key."""
        rows: dict[str, Row] = {}
        for batch in sorted((b for b in self.batches if self.is_in(b)), key=lambda b: str(b.instant)):
            for row in batch.rows:
                stored = rows.get(row.id)
                if stored is not None and row.ts < stored.ts:
                    continue
                if row.deleted:
                    rows.pop(row.id, None)
                else:
                    rows[row.id] = row
        return rows
