"""STATE: what Flink State is to Hudi, on Spark's state store; it follows the timeline and never leads it.

The state takes in completed deltas only, so a death at any point is a replay; a look-up never changes it.
It is written by one job at a time, under the table's lock, and read by any (``spark.read.format("statestore")``).

``.hoodie/.lakeindex/index/state/state-<generation>.json`` says which folder the state is in and which deltas it
has taken in. It is written before the micro-batch, which it says is begun, and behind it: deltas taken in just before
a death are taken in again, in order, which changes nothing. A state with other micro-batches is not that of the table,
which was put back from a backup: what it says of keys is of commits that are no more.

With a time to live, keys that were not written for so long are forgotten: a key that is not in the state is then no new
key but one that the state cannot say anything about, and is looked for in the files. Flink doubles it.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, ClassVar, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from msgspec.structs import replace

from lakeindex.errors import OptionError, UsageError
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import StringArray
from lakeindex.hashing.murmur import murmur
from lakeindex.index.advice import STORED, Expected, KindAdvice, Workload
from lakeindex.index.locations.change_log import (
    ChangeLog,
    Delta,
    changed,
    new_generation,
    number_of,
    read_changes,
    read_delta,
)
from lakeindex.index.locations.record_shards import copied, scope_of
from lakeindex.index.locations.state_engine import KeyedStateEngine, StateRunner, StateSettings
from lakeindex.index.locations.state_options import StateOptions
from lakeindex.index.locations.store_context import LogView, StoreContext
from lakeindex.index.locations.stored_index import BatchRequest, Change, Found, StoredIndex
from lakeindex.model import Group, IndexSpec, IndexType
from lakeindex.options.types import WriteConfig
from lakeindex.showing.json_values import json_of
from lakeindex.storage import is_local_disk, open_storage
from lakeindex.storage.paths import plain, with_one_scheme
from lakeindex.storage.storage_file import StorageFile
from lakeindex.timeline import records

TTL_OPTION: Final = "index.state.ttl"
ANYWHERE: Final = "?"
"""File id of a key that may be anywhere: no file group has it."""
SEVERAL: Final = "*"
"""File id of a key that is in several file groups. What is read of one of them does not change that."""
_NO_GROUP: Final = pa.array([ANYWHERE, SEVERAL])
_ROWS_A_BUCKET: Final = 2_000
_FEWEST_BUCKETS: Final = 64
_MOST_BUCKETS: Final = 65_536
_ROWS_AT_ONCE: Final = 1_000_000
_PREFIX: Final = "state-"
_WORN: Final = 100_000
"""Entries that a state may hold beyond twice what counts before it is written anew."""

_ENTRY_SCHEMA: Final = pa.schema(
    [
        pa.field("bucket", pa.int32()),
        pa.field("key", pa.string()),
        pa.field("partition", pa.string()),
        pa.field("file_id", pa.string()),
        pa.field("seq", pa.int64()),
    ]
)


class _Record(Frozen):
    """``state.json``.

    Attributes:
        feeds: number of the last feed, whether or not it was taken in.
        table: where the table is that the state is of: a copy of it has this record, too. Older releases did not say.
        begun: deltas that were fed, or taken back, by somebody who may have died before he wrote that it is done.
    """

    generation: str
    folder: str
    partitions: int
    ttl_days: float
    buckets: int
    rows: int
    fed: int
    feeds: int
    batch: int
    applied: tuple[str, ...]
    table: str = ""
    begun: tuple[str, ...] = ()

    @property
    def settings(self) -> StateSettings:
        return StateSettings(self.partitions, self.ttl_days)


class FeedTask(Frozen):
    """One delta to be fed.

    Attributes:
        copies: keys in it that are in several file groups (:func:`copied`), beside those of which it says so itself.
        doubt: it does not count any more, its keys may be anywhere.
    """

    table_uri: str
    view: LogView
    name: str
    buckets: int
    seq: int
    by_partition: bool
    copies: pa.Array
    doubt: bool = False


class StateStore:
    """The store of one table."""

    def __init__(self, context: StoreContext) -> None:
        self._context = context
        self._storage = context.storage
        self._by_partition = not context.spec.is_global

    def generation(self) -> str | None:
        """The generation in force, if its state is still there and not older than it was."""
        record = self._stored()
        if record is None:
            return None
        if not self._is_ours(record):
            return f"that of {record.table}"
        engine = self._engine(record)
        batch = engine.last_batch()
        if batch is None or batch < record.batch:
            return None
        is_begun = bool(record.begun) and (engine.last_feed() or 0) <= record.feeds
        if batch > record.batch and not is_begun and self._stored() == record:  # else others go on with it just now
            return f"{record.generation} and changes that the table does not have"
        return record.generation

    def build(self, generation: str, entries: Iterable[pa.Table]) -> int:
        rows = [0]

        def pieces() -> Iterable[pa.Table]:
            for table in entries:
                for start in range(0, table.num_rows, _ROWS_AT_ONCE):
                    piece = table.slice(start, _ROWS_AT_ONCE)
                    rows[0] += piece.num_rows
                    yield _entries(piece.combine_chunks(), record.buckets, 0)

        record = self._fresh(generation, self._buckets(self._context.expected_rows))
        engine = self._engine(record)
        engine.feed_tables(1, pieces())
        if not rows[0]:
            engine.feed_tables(1, [_ENTRY_SCHEMA.empty_table()])
        self._take_in(engine, replace(record, rows=rows[0], fed=rows[0], feeds=1))
        return engine.count(by_partition=self._by_partition)

    def drop(self) -> None:
        self.retire(None)

    def retire(self, keep: str | None) -> None:
        for one in self._storage.list_folder(self._context.view.folder).objects:
            name = one.path.rpartition("/")[2]
            generation = name.removeprefix(_PREFIX).removesuffix(".json")
            if name.startswith(_PREFIX) and _is_over(generation, keep):
                found = self._load(one.path)
                if found is not None and self._is_ours(found):
                    self._engine(found).remove()
                self._storage.delete(one.path)

    def behind(self, names: Sequence[str]) -> tuple[str, ...]:
        record = self._record()
        applied = frozenset() if record is None else frozenset(record.applied)
        return tuple(name for name in names if name not in applied)

    def prepare(self, name: str) -> None:
        """Nothing: the state follows."""

    def undo(self, name: str) -> None:
        """A delta that was taken in does not count any more: where its keys were before, the state cannot say."""
        record = self._record()
        if record is None or name not in (*record.applied, *record.begun):
            return
        tasks = [replace(task, doubt=True) for task in self._tasks(record, [name])]
        self._feed(record, tasks, tuple(one for one in record.applied if one != name))

    def apply(self, names: Sequence[str]) -> None:
        """Take in deltas: those of commits that follow each other in one micro-batch, and so what was read from files,
        which may say of keys that are known elsewhere that they are here, too.
        """
        for is_read, several in groupby(self.behind(names), key=lambda name: Delta(name).is_catch_up):
            record, new = self._record(), tuple(several)
            if record is None:
                return
            tasks = self._tasks(record, new)
            if is_read:
                copies = self._copies(record, tasks)
                tasks = [replace(task, copies=copies) for task in tasks]
            self._feed(record, tasks, (*record.applied, *new))

    def _feed(self, record: _Record, tasks: Sequence[FeedTask], applied: Sequence[str]) -> None:
        """Take in what tasks read. What the log has not any more is part of what was built, or was taken back."""
        engine, names = self._engine(record), [task.name for task in tasks]
        begun = replace(record, feeds=record.feeds + 1, begun=tuple(dict.fromkeys((*record.begun, *names))))
        self._put(begun)
        engine.feed(begun.feeds, read_entries, tasks)
        known = frozenset(ChangeLog(self._storage, IndexType.STATE).names())
        left = tuple(one for one in begun.begun if one in known and one not in names)
        kept = tuple(one for one in applied if one in known)
        fed = record.fed + sum(self._rows_of(name) for name in names)
        self._take_in(engine, replace(begun, fed=fed, applied=kept, begun=left))

    def _tasks(self, record: _Record, names: Sequence[str]) -> list[FeedTask]:
        view, uri, first = self._context.view, self._storage.uri, (record.feeds + 1) << 32
        none = pa.array([], pa.string())
        return [
            FeedTask(uri, view, name, record.buckets, first + place, self._by_partition, none)
            for place, name in enumerate(names)
        ]

    def _copies(self, record: _Record, tasks: Sequence[FeedTask]) -> pa.Array:
        """Keys of what was read from files that are in other file groups, too."""
        root = self._context.work_uri
        assert root is not None  # a state is fed by the driver of a run
        read = [read_changes(self._storage, task.view, task.name) for task in tasks]
        found = pa.concat_tables([rows for _, rows in read])
        if not found.num_rows:
            return pa.array([], pa.string())
        scope = scope_of(found, by_partition=self._by_partition)
        starts = np.cumsum([0, *(rows.num_rows for _, rows in read)])
        known: dict[str, Group] = {}
        write = partial(write_entries, root, uuid.uuid4().hex)
        for path in self._engine(record).look_up(
            list(enumerate(tasks)), read_asked, len(scope), write, by_partition=self._by_partition
        ):
            answer = pq.read_table(pa.BufferReader(open_storage(root).read(path)))
            answer = answer.filter(pc.not_equal(answer.column("file_id"), ANYWHERE))
            row = starts[answer.column("chunk").to_numpy()] + answer.column("row").to_numpy()
            here = found.take(pa.array(row))
            elsewhere = [pc.not_equal(answer.column(name), here.column(name)) for name in ("partition", "file_id")]
            moved = pc.or_(*elsewhere).combine_chunks()
            row, answer = row[moved.to_numpy(zero_copy_only=False)], answer.filter(moved)
            places = zip(answer.column("partition").to_pylist(), answer.column("file_id").to_pylist(), strict=True)
            known.update(zip(scope.take(pa.array(row)).to_pylist(), places, strict=True))
        void = {group for delta, _ in read for group in (*delta.resets, *delta.gone)}
        return copied(found, known, void, by_partition=self._by_partition)

    def _rows_of(self, name: str) -> int:
        return int(pq.read_metadata(StorageFile(self._storage, self._context.view.path_of(name))).num_rows)

    def fold(self) -> str:
        """Deltas are part of the state once they were taken in;
        one that is worn out by overwritten entries is made anew.
        """
        record = self._record()
        if record is None:
            raise UsageError("there is no state to fold", culprit="STATE", hint="lakeindex index build TABLE")
        if record.fed <= 2 * record.rows + _WORN:
            return record.generation
        worn = self._engine(record)
        rows = worn.count(by_partition=self._by_partition)
        fresh = self._fresh(new_generation(number_of(record.generation) + 1), self._buckets(rows))
        fresh = replace(fresh, ttl_days=record.ttl_days, applied=record.applied, begun=record.begun)
        engine = self._engine(fresh)
        engine.copy_from(worn, 1, buckets=fresh.buckets, by_partition=self._by_partition)
        self._take_in(engine, replace(fresh, rows=rows, fed=rows, feeds=1))
        return fresh.generation

    def count(self) -> int | None:
        """Only a scan could say."""
        return None

    def size_bytes(self) -> int:
        record = self._record()
        return 0 if record is None else self._engine(record).size_bytes()

    def entries(self) -> Iterable[pa.Table]:
        record = self._record()
        root = self._context.work_uri
        if record is None or root is None:
            return
        write = partial(write_entries, root, uuid.uuid4().hex)
        for path in self._engine(record).write_newest(write, by_partition=self._by_partition):
            found = pq.read_table(pa.BufferReader(open_storage(root).read(path)))
            known = pc.invert(pc.is_in(found.column("file_id"), value_set=_NO_GROUP))
            yield found.filter(known).select(["key", "partition", "file_id"])

    def look_up_batch(self, request: BatchRequest) -> list[Any]:
        return self._engine(self._required).look_up(
            request.tasks, request.read, request.rows, request.write, by_partition=self._by_partition
        )

    def found(self, rows: np.ndarray, partition: pa.Array, file_id: pa.Array, asked: int) -> Found:
        known = pc.invert(pc.is_in(file_id, value_set=_NO_GROUP)).to_numpy(zero_copy_only=False)
        unknown = np.full(asked, bool(self._required.ttl_days))
        unknown[rows] = ~known
        mask = pa.array(known)
        return Found(rows[known], partition.filter(mask), file_id.filter(mask), np.flatnonzero(unknown))

    def look_up(self, keys: StringArray, partition: str | None) -> Found:
        """The engine answers for whole batches only."""
        raise UsageError(
            "the state index answers for whole batches",
            culprit=partition,
            hint=f"it was asked for {len(keys)} keys alone",
        )

    def _take_in(self, engine: KeyedStateEngine, record: _Record) -> None:
        engine.run()
        batch = engine.last_batch()
        self._put(replace(record, batch=-1 if batch is None else batch))

    def _put(self, record: _Record) -> None:
        path, fields = self._path(record.generation), json_of(record)
        if not record.begun:
            del fields["begun"]  # earlier releases do not know it
        records.put(self._storage, path, records.encode(fields))
        self._storage.sync([path])

    def _fresh(self, generation: str, buckets: int) -> _Record:
        config = self._context.config
        root = config.of(StateOptions).folder or _local_folder(self._storage.uri, self._context.view.folder)
        ttl = float(self._context.spec.option(TTL_OPTION))
        folder = f"{root.rstrip('/')}/{generation}"
        table = with_one_scheme(self._storage.uri)
        return _Record(generation, folder, config.of(StateOptions).partitions, ttl, buckets, 0, 0, 0, -1, (), table)

    def _buckets(self, rows: int) -> int:
        """Lists that keys are spread over: about 2,000 keys each by the rows that there are now."""
        return max(_FEWEST_BUCKETS, min(_MOST_BUCKETS, rows // _ROWS_A_BUCKET))

    def _path(self, generation: str) -> str:
        return f"{self._context.view.folder}/{_PREFIX}{generation}.json"

    def _record(self) -> _Record | None:
        found = self._stored()
        return found if found is not None and self._is_ours(found) else None

    @property
    def _required(self) -> _Record:
        """Raises: IndexChangedError: others have built it anew since it was listed, and removed this one."""
        record = self._record()
        if record is None:
            raise changed(self._context.view.folder)
        return record

    def _stored(self) -> _Record | None:
        generation = self._context.view.generation
        return None if generation is None else self._load(self._path(generation))

    def _is_ours(self, record: _Record) -> bool:
        """Whether it is of this table, and not of the one that this is a copy of, which goes on with its state."""
        return record.table in ("", with_one_scheme(self._storage.uri))

    def _load(self, path: str) -> _Record | None:
        found = records.load(self._storage, path)
        if not found:
            return None
        try:
            lists = {"applied": tuple(found["applied"]), "begun": tuple(found.get("begun", ()))}
            return _Record(**{**found, **lists})
        except (KeyError, TypeError) as error:
            raise records.damaged(path, repr(error)) from None

    def _engine(self, record: _Record) -> KeyedStateEngine:
        runner = self._context.runner
        if not isinstance(runner, StateRunner):
            raise UsageError(
                "index type STATE needs Spark's state store, which the local runner does not have",
                culprit="hoodie.index.type",
                hint="use the Spark runner: --runner spark, or runner='spark'",
            )
        return runner.keyed_state(record.folder, record.settings)


def _is_over(generation: str, keep: str | None) -> bool:
    """Whether it cannot come into force any more: a build under way has a greater number."""
    return generation != keep and (keep is None or number_of(generation) <= number_of(keep))


def _entries(delta: pa.Table, buckets: int, seq: int) -> pa.Table:
    keys = delta.column("key").combine_chunks()
    bucket = murmur(keys).view(np.uint32).astype(np.int64) % buckets
    columns = [
        pa.array(bucket.astype(np.int32)),
        keys,
        delta.column("partition"),
        delta.column("file_id"),
        pa.array(np.full(len(keys), seq, np.int64)),
    ]
    return pa.table(columns, schema=_ENTRY_SCHEMA)


def read_entries(task: FeedTask) -> pa.Table:
    delta = read_delta(open_storage(task.table_uri), task.view, task.name).combine_chunks()
    entries = _entries(delta, task.buckets, task.seq)
    if task.doubt:
        return entries.set_column(3, _ENTRY_SCHEMA.field(3), pa.repeat(ANYWHERE, entries.num_rows))
    scope, there = scope_of(delta, by_partition=task.by_partition), delta.column("file_id")
    stays = pc.and_(pc.equal(delta.column("change"), int(Change.MOVE)), pc.is_valid(there))
    is_copy = [
        pc.is_in(scope, value_set=one.cast(scope.type))
        for one in (task.copies, copied(delta.filter(stays), {}, by_partition=task.by_partition))
    ]
    several = pc.if_else(pc.and_(pc.or_(*is_copy), pc.is_valid(there)), SEVERAL, there)
    return entries.set_column(3, _ENTRY_SCHEMA.field(3), several)


def read_asked(numbered: tuple[int, FeedTask]) -> pa.Table:
    """The keys of one delta, as those of a chunk of its number."""
    number, task = numbered
    delta = read_delta(open_storage(task.table_uri), task.view, task.name, ["key", "partition"])
    n = delta.num_rows
    places = [pa.array(np.full(n, number, np.int32)), pa.array(np.arange(n, dtype=np.int32))]
    return pa.table([*places, *delta.columns], names=["chunk", "row", "key", "partition"])


def write_entries(root: str, name: str, number: int, entries: pa.Table) -> str:
    sink = pa.BufferOutputStream()
    pq.write_table(entries, sink, compression="zstd")
    path = f"index/{name}/{number:05d}.parquet"
    open_storage(root).write(path, sink.getvalue().to_pybytes())
    return path


def _local_folder(uri: str, folder: str) -> str:
    """The state's folder inside a table that lies on a file system Spark sees as we do."""
    if is_local_disk(uri):
        return f"{plain(uri)}/{folder}"
    raise OptionError(
        f"Spark cannot keep a state in {uri!r} by itself",
        culprit="lakeindex.state.folder",
        hint="name a folder that Spark's file systems can write to: -o lakeindex.state.folder=hdfs://... or s3a://...",
    )


@dataclass(frozen=True, slots=True)
class StateIndex(StoredIndex):
    """The state index; "global" is part of the spec."""

    answers_batches: ClassVar[bool] = True

    spec: IndexSpec

    def open(self, context: StoreContext) -> StateStore:
        return StateStore(context)

    def moves_rows(self, config: WriteConfig) -> bool:
        """A row moves, as with Hudi's Flink engine."""
        del config
        return True


def make_index(spec: IndexSpec) -> StateIndex:
    return StateIndex(spec)


def _expected(work: Workload, config: WriteConfig) -> Expected:
    return replace(STORED.expected(work, config), note="needs Spark")


ADVICE: Final = KindAdvice(_expected)
