"""The steps of an upsert that grow with the table, each run for real against a table of many
files that are not there.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa

from benchmarks.scaling_table import FILE_BYTES, FILE_ROWS, ScalingTable, Shape, key, key_ends
from lakeindex.commit.sweep import find_strays
from lakeindex.commit.write_session import (
    AlreadyDone,
    ExpectedFile,
    PlannedFile,
    RunIdentity,
    WriteSession,
    begin_write,
)
from lakeindex.files import footer_cache
from lakeindex.files.file_system_view import Snapshot
from lakeindex.files.footer_cache import FooterCache
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, WriteStat
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile, IndexType
from lakeindex.options.types import WriteConfig
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.lookup_files import LookupFile
from lakeindex.run.spec import BoundTable, RunSpec
from lakeindex.stages.bloom_check import bloom_check
from lakeindex.stages.index_lookup import index_lookup
from lakeindex.stages.merge_write.planning import Placing, make_plan
from lakeindex.stages.merge_write.tags import FoundLine, Tags
from lakeindex.stages.stage_input.stage import stage_input
from lakeindex.storage.port import Storage
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.runner import pack

BATCH_ROWS: Final = 100_000
TOUCHED_PARTITIONS: Final = 10
SLOTS: Final = 400
"""Tasks at once that work is cut for, as on 100 executors with four cores."""


class Slots(LocalRunner):
    """Runs tasks here, cut as for a cluster."""

    @property
    def slots(self) -> int:
        return SLOTS


@dataclass
class World:
    """A table, and what earlier steps left for later ones."""

    shape: Shape
    folder: Path = field(default_factory=lambda: Path(tempfile.mkdtemp()))
    lookups: dict[str, tuple[RunSpec, Manifest, Manifest]] = field(default_factory=dict)
    session: WriteSession | None = None

    @cached_property
    def table(self) -> ScalingTable:
        """The table whose files have a key range of their own each."""
        return ScalingTable(self.shape)

    @cached_property
    def snapshot(self) -> Snapshot:
        """Its state, listed."""
        found = self.table.open().snapshot()
        found.partitions()
        return found

    @cached_property
    def footers(self) -> list[Any]:
        """Cache entries of all files, filters put."""
        return list(FooterCache(self.table.store).keep_filters(self.table.footers()))

    def staged(self, touched: str, index: IndexType) -> tuple[RunSpec, Manifest]:
        spec = self.table.run(f"{touched}-{index}", self.table.batch(BATCH_ROWS, touched, self.folder))
        return spec, stage_input(spec, self.table.facts(index), LocalRunner())

    def close(self) -> None:
        """Remove what lies on disk."""
        if self.session is not None:
            self.session.close()
        shutil.rmtree(self.folder)


Step = Callable[[World], Callable[[], object]]
"""Prepares a step and gives what is to be measured."""


def _load_timeline(world: World) -> Callable[[], object]:
    table = world.table.open()

    def work() -> object:
        loaded = table.load_timeline()
        return loaded.completed_writes, loaded.pending, loaded.is_visible(loaded.files[0].time)

    return work


def _list_all(world: World) -> Callable[[], object]:
    fresh = world.table.open().snapshot()
    return lambda: len(fresh.base_files_all())


def _list_touched(world: World) -> Callable[[], object]:
    fresh = world.table.open().snapshot()
    touched = world.snapshot.partitions()[-TOUCHED_PARTITIONS:]
    return lambda: fresh.preload(touched)


def _write_facts(world: World) -> Callable[[], object]:
    entries, cache = world.footers, FooterCache(world.table.store)
    return lambda: cache.keep_facts(entries)


def _read_facts(world: World) -> Callable[[], object]:
    files = world.snapshot.base_files_all()

    def work() -> object:
        footer_cache._remembered.clear()  # noqa: SLF001 - as in a process that has read nothing yet
        return len(FooterCache(world.table.store).load(files))

    return work


def _pruning(keys: str) -> Step:
    def prepare(world: World) -> Callable[[], object]:
        ranges = [KeyRange(*ends) for ends in key_ends(replace(world.shape, keys=keys))]
        space = world.shape.files * FILE_ROWS
        first = 0 if keys == "random" else space - space // 20
        numbers = np.sort(np.random.default_rng(5).integers(first, space, BATCH_ROWS)).tolist()
        asked = pa.array([key(n) for n in numbers])
        return lambda: prune(asked, ranges).pairs

    return prepare


def _looking_up(touched: str, index: IndexType) -> Step:
    def prepare(world: World) -> Callable[[], object]:
        spec, staged = world.staged(touched, index)
        table = world.table.open()
        fresh = BoundTable(table, table.snapshot(), world.table.facts(index))
        footer_cache._remembered.clear()  # noqa: SLF001 - as in a process that has read nothing yet

        def work() -> object:
            lookup = index_lookup(spec, fresh, staged, Slots())
            world.lookups[touched] = spec, staged, lookup
            return lookup.counters["pairs_out"]

        return work

    return prepare


def _probe(world: World) -> Callable[[], object]:
    spec, staged, lookup = world.lookups["all"]
    return lambda: bloom_check(spec, staged, lookup, Slots()).counters["pairs_in"]


def _pack(world: World) -> Callable[[], object]:
    costs = [float(n % 97) for n in range(world.shape.files)]
    return lambda: len(pack(costs, SLOTS * 3))


def _make_plan(world: World) -> Callable[[], object]:
    files = [
        LookupFile(n, file, FILE_ROWS, 4, None, None, "", None)
        for n, file in enumerate(world.snapshot.base_files_all())
    ]
    found = [FoundLine(file.number, 0, 0, 2, 2, 0, 0, 0, 0) for file in files]
    tags, snapshot = Tags((), 0, 0, 0), world.snapshot
    return lambda: make_plan(files, found, tags, snapshot, WriteConfig(), Placing(None), record_bytes=100.0).digest


def _believe(storage: Storage, file: BaseFile, _: ExpectedFile) -> None:
    """Takes a file for what its writer says: these have no footer to read."""
    storage.head(file.path)


def _plan_commit(world: World) -> Callable[[], object]:
    session = begin_write(
        world.table.open(), RunIdentity("run", "batch", "digest"), "UPSERT", WriteConfig(), verify=_believe
    )
    assert not isinstance(session, AlreadyDone)
    world.session = session
    planned = [
        PlannedFile(file.partition_path, file.file_id, f"{n}-0-0", file, 1, 0)
        for n, file in enumerate(world.snapshot.base_files_all())
    ]
    time = world.snapshot.instant_time
    return lambda: session.plan(planned, time, "digest").instant


def _publish(world: World) -> Callable[[], object]:
    session = world.session
    assert session is not None
    instant = session.instant
    stats: dict[str, list[WriteStat]] = {}
    expected = []
    for n, old in enumerate(world.snapshot.base_files_all()):
        file = BaseFile(old.partition_path, old.file_id, instant, f"{n}-0-0", FILE_BYTES)
        world.table.store.put_sparse(file.path, FILE_BYTES)
        expected.append(ExpectedFile(file.path, FILE_BYTES, FILE_ROWS))
        stats.setdefault(file.partition_path, []).append(
            WriteStat(
                file.file_id,
                file.path,
                file.partition_path,
                old.instant_time,
                FILE_ROWS,
                0,
                1,
                total_write_bytes=FILE_BYTES,
                file_size_bytes=FILE_BYTES,
            )
        )
    commit = CommitMetadata({part: tuple(found) for part, found in stats.items()}, "UPSERT", {SCHEMA_KEY: "{}"})
    return lambda: session.publish(commit, expected)


def _sweep(world: World) -> Callable[[], object]:
    table = world.table.open()
    touched = world.snapshot.partitions()[-TOUCHED_PARTITIONS:]
    return lambda: len(find_strays(table, touched))


STEPS: Final[dict[str, Step]] = {
    "list and order the timeline": _load_timeline,
    "list every partition": _list_all,
    f"list {TOUCHED_PARTITIONS} touched partitions": _list_touched,
    "footer facts, written": _write_facts,
    "footer facts, read by a new process": _read_facts,
    "prune 100,000 growing keys": _pruning("growing"),
    "prune 100,000 random keys": _pruning("random"),
    "index_lookup, BLOOM, newest partition": _looking_up("newest", IndexType.BLOOM),
    "index_lookup, BLOOM, all partitions": _looking_up("all", IndexType.BLOOM),
    "index_lookup, GLOBAL_BLOOM": _looking_up("newest", IndexType.GLOBAL_BLOOM),
    "bloom_check, BLOOM, all partitions": _probe,
    "pack a file an item into 1,200 tasks": _pack,
    "merge plan, every file": _make_plan,
    f"find strays in {TOUCHED_PARTITIONS} partitions": _sweep,
    "plan the commit, every file": _plan_commit,
    "publish, every file": _publish,
}
