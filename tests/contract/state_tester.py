"""A runner whose keyed state is Spark's tester of stateful processors: the real processor, no JVM."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Row
from pyspark.sql.streaming.tws_tester import TwsTester

from lakeindex.index.locations.state_engine import StateSettings
from lakeindex.runners.keyed_state import AppendEntries
from lakeindex.tasks.local_runner import LocalRunner


class StateForTests:
    """One state: what was fed, and the processor that takes it in."""

    def __init__(self) -> None:
        self.fed: dict[int, list[pa.Table]] = {}
        self.taken: set[int] = set()
        self.batch: int | None = None
        self._tester = TwsTester(AppendEntries(0))
        self._buckets: set[int] = set()

    def feed(self, number: int, read: Callable[[Any], pa.Table], tasks: Sequence[Any]) -> None:
        self.fed[number] = [read(task) for task in tasks]

    def feed_tables(self, number: int, tables: Iterable[pa.Table]) -> None:
        self.fed.setdefault(number, []).extend(tables)

    def copy_from(self, other: StateForTests, number: int, *, buckets: int, by_partition: bool) -> None:
        rows = other.newest(by_partition=by_partition)
        entries = [{"bucket": hash(k) % buckets, "key": k, "partition": p, "file_id": f, "seq": 0} for k, p, f in rows]
        self.fed[number] = [pa.Table.from_pylist(entries)] if entries else []

    def run(self) -> None:
        for number in sorted(self.fed.keys() - self.taken):
            rows = [Row(**row) for table in self.fed[number] for row in table.to_pylist()]
            for bucket in sorted({row.bucket for row in rows}):
                self._tester.test(bucket, [row for row in rows if row.bucket == bucket])
                self._buckets.add(bucket)
            self.taken.add(number)
        self.batch = 0 if self.batch is None else self.batch + 1

    def newest(self, *, by_partition: bool) -> list[tuple[str, str, str]]:
        best: dict[tuple[str, ...], tuple[int, str, str, str | None]] = {}
        for bucket in sorted(self._buckets):
            for key, partition, file_id, seq in self._tester.peekListState("entries", bucket):
                name = (key, partition) if by_partition else (key,)
                if name not in best or seq >= best[name][0]:
                    best[name] = (seq, key, partition, file_id)
        return [(key, partition, file_id) for _, key, partition, file_id in best.values() if file_id is not None]

    def look_up(
        self,
        asked: Sequence[Any],
        read: Callable[[Any], pa.Table],
        rows: int,
        write: Callable[[int, pa.Table], Any],
        *,
        by_partition: bool,
    ) -> list[Any]:
        del rows
        held = {(k, p) if by_partition else k: (p, f) for k, p, f in self.newest(by_partition=by_partition)}
        found = []
        for one in pa.concat_tables([read(task) for task in asked]).to_pylist():
            at = held.get((one["key"], one["partition"]) if by_partition else one["key"])
            if at is not None:
                found.append({"chunk": one["chunk"], "row": one["row"], "partition": at[0], "file_id": at[1]})
        schema = pa.schema(
            [("chunk", pa.int32()), ("row", pa.int32()), ("partition", pa.string()), ("file_id", pa.string())]
        )
        return [write(0, pa.Table.from_pylist(found, schema=schema))]

    def write_newest(self, write: Callable[[int, pa.Table], Any], *, by_partition: bool) -> list[Any]:
        rows = self.newest(by_partition=by_partition)
        columns = [pa.array([row[i] for row in rows], pa.string()) for i in range(3)]
        return [write(0, pa.table(columns, names=["key", "partition", "file_id"]))]

    def count(self, *, by_partition: bool) -> int:
        return len(self.newest(by_partition=by_partition))

    def last_batch(self) -> int | None:
        return self.batch

    def last_feed(self) -> int | None:
        return max(self.fed, default=None)

    def size_bytes(self) -> int:
        return 0

    def remove(self) -> None:
        self.__init__()  # type: ignore[misc] # as if it had never been


class StateRunnerForTests(LocalRunner):
    """The in-process runner, with keyed state."""

    def __init__(self) -> None:
        super().__init__(1)
        self._states: dict[str, StateForTests] = {}

    def keyed_state(self, folder: str, settings: StateSettings) -> StateForTests:
        del settings
        return self._states.setdefault(folder, StateForTests())
