"""Keyed state on Spark's state store (RocksDB, ``transformWithState``): what a STATE index is kept in.

The state is a list a bucket of keys, to which entries are only ever appended; the newest entry of a key counts. It is
written by a streaming query that runs one micro-batch and ends, so a death at any point is a replay of the same
micro-batch. It is read by the JVM's state reader (``format("statestore")``), which no query needs to run for: asking
never changes it. Python's state calls are a round trip each: one appended list a bucket costs one, whatever its length.

::

    <folder>/in/<number>/*.parquet   entries that were fed, one folder a feed
    <folder>/state/                  checkpoint of the query, state store included
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pyarrow as pa
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as fn
from pyspark.sql.streaming.stateful_processor import StatefulProcessor, StatefulProcessorHandle

from lakeindex.errors import LakeIndexError
from lakeindex.index.locations.state_engine import ENTRIES, StateSettings
from lakeindex.storage import StoreOptions, current_options, using

if TYPE_CHECKING:
    from pyspark import Broadcast

_T = TypeVar("_T")
_R = TypeVar("_R")

_LISTED: Final = "key string, partition string, file_id string, seq bigint"
_ASKED: Final = "chunk int, row int, key string, partition string"
_VARIABLE: Final = "entries"
_RESULT: Final = pa.schema([pa.field("result", pa.binary())])
_PROVIDER: Final = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
_BROADCAST_ROWS: Final = 2_000_000
_DAY_MS: Final = 86_400_000


class AppendEntries(StatefulProcessor):
    """Appends the entries that were fed to their bucket's list; answers nothing."""

    def __init__(self, ttl_ms: int) -> None:
        self._ttl_ms = ttl_ms

    def init(self, handle: StatefulProcessorHandle) -> None:
        """Called once a partition."""
        self._entries = handle.getListState(_VARIABLE, _LISTED, self._ttl_ms or None)

    def handleInputRows(  # noqa: N802 - Spark's name
        self,
        key: Any,
        rows: Iterator[Row],
        timerValues: Any,  # noqa: N803 - Spark's name
    ) -> Iterator[Row]:
        """One bucket's new entries."""
        del key, timerValues
        self._entries.appendList([(r.key, r.partition, r.file_id, r.seq) for r in rows])
        return iter(())

    def close(self) -> None:
        """Nothing is held."""


class KeyedState:
    """The state of one index, in a folder (path or URL, as Spark's file systems know it) that Spark can write to."""

    def __init__(self, session: SparkSession, folder: str, settings: StateSettings) -> None:
        self._session = session
        self._folder = folder.rstrip("/")
        self._settings = settings

    def feed(self, number: int, read: Callable[[_T], pa.Table], tasks: Sequence[_T]) -> None:
        """Hand entries over, read by Spark tasks; they are taken in by the next :meth:`run`.

        Args:
            number: names the feed; feeding it again replaces it.
            read: module-level function that reads one task's entries (:data:`ENTRIES`).
        """
        self._write(number, self._read(read, tasks, ENTRIES))

    def feed_tables(self, number: int, tables: Iterable[pa.Table]) -> None:
        for table in tables:
            self._write(number, self._session.createDataFrame(table), mode="append")

    def run(self) -> None:
        """Take in what was fed. Fed twice, an entry is there twice and counts once.

        A micro-batch that a death cut short is replayed first, in one of its own.
        Other triggers than ``once`` never end while entries can expire.
        """
        begun = self._newest_number("state/offsets")
        if begun is not None and begun != self.last_batch():
            self._run_once()
        self._run_once()

    def _run_once(self) -> None:
        with self._configured():
            source = self._session.readStream.schema(ENTRIES).option("recursiveFileLookup", "true")
            entries = source.parquet(f"{self._folder}/in").groupBy("bucket")
            ttl_ms = int(self._settings.ttl_days * _DAY_MS)
            nothing = entries.transformWithState(
                statefulProcessor=AppendEntries(ttl_ms),
                outputStructType="bucket int",
                outputMode="Update",
                timeMode="ProcessingTime" if ttl_ms else "None",
            )
            query = (
                nothing.writeStream.outputMode("update")
                .format("noop")
                .option("checkpointLocation", f"{self._folder}/state")
                .trigger(once=True)
                .start()
            )
            query.awaitTermination()

    def last_batch(self) -> int | None:
        """Number of the last micro-batch that was committed; None if there is no state."""
        return self._newest_number("state/commits")

    def last_feed(self) -> int | None:
        return self._newest_number("in")

    def size_bytes(self) -> int:
        folder = self._path("")
        files = self._files(folder)
        return int(files.getContentSummary(folder).getLength()) if files.exists(folder) else 0

    def remove(self) -> None:
        folder = self._path("")
        self._files(folder).delete(folder, True)

    def newest(self, *, by_partition: bool) -> DataFrame:
        """The newest entry of each key (and partition): key, partition, file_id; keys that are gone are left out."""
        return _newest(self._listed(), ["key", "partition"] if by_partition else ["key"])

    def count(self, *, by_partition: bool) -> int:
        return self.newest(by_partition=by_partition).count()

    def copy_from(self, other: KeyedState, number: int, *, buckets: int, by_partition: bool) -> None:
        bucket = fn.pmod(fn.hash("key"), fn.lit(buckets)).alias("bucket")
        newest = other.newest(by_partition=by_partition)
        self._write(number, newest.select(bucket, "key", "partition", "file_id", fn.lit(0).cast("bigint").alias("seq")))

    def look_up(
        self,
        asked: Sequence[_T],
        read: Callable[[_T], pa.Table],
        rows: int,
        write: Callable[[int, pa.Table], _R],
        *,
        by_partition: bool,
    ) -> list[_R]:
        """Locations of keys.

        Args:
            read: module-level function: keys of one item, a table of chunk, row, key, partition.
            write: module-level function that keeps one piece of the answer (chunk, row, partition, file_id);
                all rows of a chunk are in one piece.
            by_partition: a location counts only in the partition that is asked for.

        Returns:
            What ``write`` returned for each piece.
        """
        keys = self._read(read, asked, _ASKED)
        keys = fn.broadcast(keys) if rows <= _BROADCAST_ROWS else keys
        on = ["key", "partition"] if by_partition else ["key"]
        found = _newest(self._listed().join(keys if by_partition else keys.drop("partition"), on), ["chunk", "row"])
        return _kept(found.repartition(max(1, min(len(asked), self._settings.partitions)), "chunk"), write)

    def write_newest(self, write: Callable[[int, pa.Table], _R], *, by_partition: bool) -> list[_R]:
        """Everything that counts, kept in pieces by ``write``: key, partition, file_id."""
        return _kept(self.newest(by_partition=by_partition), write)

    def _listed(self) -> DataFrame:
        reader = self._session.read.format("statestore").option("stateVarName", _VARIABLE)
        element = "list_element.value" if self._settings.ttl_days else "list_element"
        return reader.load(f"{self._folder}/state").select(f"{element}.*")

    def _newest_number(self, name: str) -> int | None:
        folder = self._path(name)
        files = self._files(folder)
        if not files.exists(folder):
            return None
        names = (status.getPath().getName() for status in files.listStatus(folder))
        return max((int(name) for name in names if name.isdecimal()), default=None)

    def _path(self, name: str) -> Any:
        path = f"{self._folder}/{name}".rstrip("/")
        jvm: Any = self._session._jvm  # noqa: SLF001 - PySpark has no door to its file systems
        return jvm.org.apache.hadoop.fs.Path(path)

    def _files(self, path: Any) -> Any:
        return path.getFileSystem(self._session._jsc.hadoopConfiguration())  # noqa: SLF001 - as above

    def _read(self, read: Callable[[_T], pa.Table], items: Sequence[_T], schema: str) -> DataFrame:
        """What is read of some items, one a Spark task.

        The items are broadcast by themselves: Spark writes a function of more than 1 MiB to a file,
        and this one knows the stores' options.
        """
        payloads = self._session.sparkContext.broadcast([pickle.dumps((read, item)) for item in items])
        numbers = self._session.range(0, len(items), 1, max(1, len(items)))
        return numbers.mapInArrow(partial(_read_numbered, current_options(), payloads), schema)

    def _write(self, number: int, entries: DataFrame, mode: str = "overwrite") -> None:
        entries.write.mode(mode).parquet(f"{self._folder}/in/{number:08d}")

    @contextmanager
    def _configured(self) -> Iterator[None]:
        """The session's configuration as the query needs it, and as it was afterwards."""
        wanted = {
            "spark.sql.streaming.stateStore.providerClass": _PROVIDER,
            "spark.sql.streaming.stateStore.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.streaming.stateStore.encodingFormat": "avro",
            "spark.sql.shuffle.partitions": str(self._settings.partitions),
        }
        before = {key: self._session.conf.get(key, None) for key in wanted}
        for key, value in wanted.items():
            self._session.conf.set(key, value)
        try:
            yield
        finally:
            for key, old in before.items():
                if old is None:
                    self._session.conf.unset(key)
                else:
                    self._session.conf.set(key, old)


def _newest(entries: DataFrame, by: list[str]) -> DataFrame:
    location = fn.max_by(fn.struct("partition", "file_id"), "seq").alias("at")
    newest = entries.groupBy(*by).agg(location).where("at.file_id is not null")
    return newest.select(*by, *(f"at.{name}" for name in ("partition", "file_id") if name not in by))


def _kept(frame: DataFrame, write: Callable[[int, pa.Table], _R]) -> list[_R]:
    pieces = frame.mapInArrow(partial(_write_piece, current_options(), pickle.dumps(write)), "result binary").collect()
    return [_result(row.result) for row in pieces]


def _read_numbered(
    options: StoreOptions, payloads: Broadcast[list[bytes]], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for number in batch.column(0).to_pylist():
            read, item = pickle.loads(payloads.value[number])  # noqa: S301 - made by our own driver
            with using(options):
                found = read(item)
            yield from found.to_batches()


def _write_piece(options: StoreOptions, payload: bytes, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    held = [batch for batch in batches if batch.num_rows]
    if not held:
        return
    task = TaskContext.get()
    write = pickle.loads(payload)  # noqa: S301 - made by our own driver
    try:
        with using(options):
            result: object = write(task.partitionId() if task is not None else 0, pa.Table.from_batches(held))
    except LakeIndexError as error:
        result = error
    yield pa.record_batch([pa.array([pickle.dumps(result)], pa.binary())], schema=_RESULT)


def _result(pickled: bytes) -> Any:
    result = pickle.loads(pickled)  # noqa: S301 - made by our own tasks
    if isinstance(result, LakeIndexError):
        raise result
    return result
