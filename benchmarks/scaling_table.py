"""A table of many files that are not there: a timeline, listings, footer facts and batches, as the stages meet them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import replace

from benchmarks.scaling_store import CountingStorage
from lakeindex.bloom.marks import FILTER, FILTER_TYPE, footer_of_keys
from lakeindex.files.footers import Footer
from lakeindex.format import instants as names
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, format_commit_metadata
from lakeindex.format.partitions import PARTITION_METADATA_FILE
from lakeindex.model import BaseFile, IndexSpec, IndexType, Operation
from lakeindex.options.parse import parse_create_options
from lakeindex.options.types import WriteConfig
from lakeindex.run.spec import RunSpec, TableFacts
from lakeindex.run.table_facts import bind_for_write, facts_of
from lakeindex.table.create import CreateSpec, create_table
from lakeindex.table.handle import Table
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from lakeindex.write.types.avro_schema import schema_to_avro

FILES_A_PARTITION: Final = 100
FILE_ROWS: Final = 100_000
FILE_BYTES: Final = 100 * 2**20
_FIRST_MS: Final = 1_700_000_000_000
_INSTANT_MS: Final = 60_000
_REPLACING_EVERY: Final = 200
_FILTER_KEYS: Final = 64
"""Keys of the one small filter that every file has: real ones of 100,000 rows would take 36 GB."""
_SCHEMA: Final = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("day", pa.string()), ("ts", pa.int64()), ("v", pa.string())]
)
_SCHEMA_TEXT: Final = schema_to_avro(_SCHEMA, "scaling")


def key(number: int) -> str:
    """A record key; keys sort as their numbers."""
    return f"key-{number:014d}"


@dataclass(frozen=True)
class Shape:
    """How large the table is, and how its keys lie.

    Attributes:
        files: live base files.
        instants: commits on the timeline, each with its requested and inflight file.
        keys: ``growing``: each file has a stretch of its own; ``random``: each spans nearly all keys.
    """

    files: int
    instants: int
    keys: str = "growing"

    @property
    def partitions(self) -> int:
        return max(1, self.files // FILES_A_PARTITION)


class ScalingTable:
    """The table of a shape in a store of its own; building it is not measured."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        name = f"scaling-{uuid.uuid4().hex}"  # stores are opened once a process
        self.store = CountingStorage.fresh(name)
        self.checkpoints = CountingStorage.fresh(f"{name}-runs")
        options = parse_create_options({"hoodie.index.type": "BLOOM"})
        create_table(self.store, CreateSpec(name, _SCHEMA.names, ("id",), ("day",), ("ts",), options, _SCHEMA_TEXT))
        self._put_timeline()
        self._put_files()
        self.store.reset()

    @cached_property
    def times(self) -> list[str]:
        return [names.instant_time_of(_FIRST_MS + n * _INSTANT_MS) for n in range(self.shape.instants)]

    @cached_property
    def files(self) -> list[BaseFile]:
        """The live base files, by number."""
        numbers = np.random.default_rng(1).integers(0, self.shape.instants, self.shape.files)
        return [
            BaseFile(partition(n), f"{uuid.UUID(int=n)}-0", self.times[instant], "0-0-0", FILE_BYTES)
            for n, instant in enumerate(numbers.tolist())
        ]

    def footers(self) -> list[tuple[BaseFile, Footer]]:
        """What the footer of each file says; all have the same small filter."""
        entries = footer_of_keys(pa.array([key(n) for n in range(_FILTER_KEYS)]), WriteConfig())
        text, kind = entries[FILTER].encode(), entries.get(FILTER_TYPE)
        return [
            (file, Footer(_FILTER_KEYS, (_FILTER_KEYS // 4,) * 4, low, high, text, kind))
            for file, (low, high) in zip(self.files, key_ends(self.shape), strict=True)
        ]

    def batch(self, rows: int, touched: str, folder: Path) -> Path:
        """A batch of keys that are in the table: of the ``newest`` partition, or of ``all`` of them."""
        rng = np.random.default_rng(7)
        files = self.shape.files
        first = 0 if touched == "all" else max(0, files - FILES_A_PARTITION)
        numbers = np.unique(rng.integers(first * FILE_ROWS, files * FILE_ROWS, rows))
        days = [partition(int(n) // FILE_ROWS) for n in numbers]
        columns = [
            pa.array([key(int(n)) for n in numbers]),
            pa.array(days),
            pa.array(np.full(len(numbers), 2, np.int64)),
            pa.array(["v"] * len(numbers)),
        ]
        path = folder / f"{touched}-{rows}.parquet"
        pq.write_table(pa.table(columns, schema=_SCHEMA), path)
        return path

    def open(self) -> Table:
        return Table.open(self.store)

    def run(self, run_id: str, batch: Path | None = None) -> RunSpec:
        inputs = () if batch is None else (str(batch),)
        return RunSpec(self.store.uri, self.checkpoints.uri, run_id, run_id, Operation.UPSERT, inputs)

    def facts(self, index: IndexType = IndexType.BLOOM) -> TableFacts:
        """What tasks know of the table, with this index."""
        spec = self.run("facts")
        table = self.open()
        snapshot = table.snapshot()
        bound = bind_for_write(table, snapshot, spec.config)
        return replace(facts_of(bound, snapshot, spec.config), index=IndexSpec(index))

    def _put_timeline(self) -> None:
        folder = self.open().properties.timeline_layout.folder
        commit = format_commit_metadata(CommitMetadata({}, "UPSERT", {SCHEMA_KEY: _SCHEMA_TEXT}))
        for n, time in enumerate(self.times):
            action = names.REPLACE_COMMIT if n % _REPLACING_EVERY == _REPLACING_EVERY - 1 else names.COMMIT
            for name in (names.requested_name(time, action), names.inflight_name(time, action)):
                self.store.write(f"{folder}/{name}", b"")
            self.store.write(f"{folder}/{names.completed_name(time, action)}", commit)
            decide(self.store, Verdict(time, Outcome.COMMITTED, "token"))

    def _put_files(self) -> None:
        for folder in sorted({file.partition_path for file in self.files}):
            self.store.put_sparse(f"{folder}/{PARTITION_METADATA_FILE}", 96)
        for file in self.files:
            self.store.put_sparse(file.path, file.size_bytes)


def partition(number: int) -> str:
    return f"day={number // FILES_A_PARTITION:05d}"


def key_ends(shape: Shape) -> Iterator[tuple[str, str]]:
    """Least and greatest key of each file."""
    whole = shape.files * FILE_ROWS
    slack = np.random.default_rng(3).integers(0, FILE_ROWS, (shape.files, 2)).tolist()
    for n, (low, high) in enumerate(slack):
        if shape.keys == "growing":
            yield key(n * FILE_ROWS), key((n + 1) * FILE_ROWS - 1)
        else:
            yield key(low), key(whole - 1 - high)
