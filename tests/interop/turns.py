"""A table that lakeindex and all releases of Hudi write in turns of any kind and order, as a machine that Hypothesis drives.

The oracle is a dictionary of rows, remembered for every instant, so that a rollback or a restore can go back to it. After every turn
the table is read by us, by hudi-rs and by one of the releases that know its version, and checked. If it has a metadata table, Hudi reads with it and
without it, and with filters that skip files by statistics, and the metadata table is compared with the files.
"""

from __future__ import annotations

import datetime as dt
import json
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

import lakeindex
from lakeindex.errors import TableUnsupportedError, UsageError
from lakeindex.operations.metadata import metadata_verify
from lakeindex.options.clustering_options import UPDATES_OPTION, ClusteringUpdates
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from scripts.interop_env import BUNDLES
from tests.builders import make_table
from tests.interop import ours
from tests.interop.hudi_client import HudiError, HudiServer, keep_options, kept_version
from tests.interop.rows import Layout
from tests.interop.story import completed_writes, metadata_partitions, read_with_rust_if_it_can

Row = dict[str, Any]

LAYOUTS: Final = (
    Layout("plain", ("id",), ("region",)),
    Layout("hive", ("id",), ("region",), hive_style=True),
    Layout("pairs", ("id", "k2"), ("region",)),
    Layout("flat", ("id",), ()),
)
#: Columns that a table may have beside its keys, with the value of a row's version; every seventh row is null.
COLUMNS: Final[dict[str, tuple[pa.DataType, Callable[[int, int], Any]]]] = {
    "text": (pa.string(), lambda n, v: f"{v}-é{n}"),
    "whole": (pa.int32(), lambda n, v: n * 3 - v),
    "small": (pa.float32(), lambda n, v: n * 0.5 + v),
    "wide": (pa.float64(), lambda n, v: n * 0.1 + v),
    "money": (pa.decimal128(10, 2), lambda n, v: Decimal(n + v) / 4),
    "day": (pa.date32(), lambda n, v: dt.date(1969, 12, 1) + dt.timedelta(days=n + v)),
    "at": (pa.timestamp("us", "UTC"), lambda n, v: dt.datetime(2001, 1, 1, tzinfo=dt.UTC) + dt.timedelta(0, n, v)),
    "raw": (pa.binary(), lambda n, v: bytes([n % 256, v % 256, 0])),
    "list": (pa.list_(pa.int32()), lambda n, v: [n, v] if n % 5 else []),
    "pair": (pa.struct([("x", pa.int32()), ("y", pa.string())]), lambda n, v: {"x": n, "y": None if n % 2 else str(v)}),
}
US: Final = "we"
RELEASES: Final = tuple(BUNDLES)
VERSIONS: Final = sorted({version for one in BUNDLES.values() for version in one.versions})
_OURS: Final = {**ours.ASKED, "hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}  # Hudi 0.15's tables do not say
_CLEAN: Final = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "2"}
_CLUSTER: Final = {
    "hoodie.clustering.inline": "true",
    "hoodie.clustering.inline.max.commits": "1",
    "hoodie.clustering.plan.strategy.sort.columns": "id",
    "hoodie.clustering.plan.strategy.small.file.limit": "1000000000",
}
_ARCHIVE: Final = {
    "hoodie.clean.automatic": "true",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}

#: What Hudi is told of its metadata table; by default it builds one, in 1.x with statistics.
METADATA: Final[dict[str, dict[str, str]]] = {
    "off": {"hoodie.metadata.enable": "false"},
    "default": {},
    "statistics": {"hoodie.metadata.index.column.stats.enable": "true"},
    "everything": {
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.record.index.enable": "true",
        "hoodie.metadata.global.record.level.index.enable": "true",
    },
}
#: Hudi looks keys up in the record index and nowhere else, once there is one.
_BY_RECORD_INDEX: Final = {
    "0.15.0": {"hoodie.index.type": "RECORD_INDEX", "hoodie.embed.timeline.server": "true"},
    "1.0.2": {"hoodie.index.type": "RECORD_INDEX"},
    "1.x": {"hoodie.index.type": "GLOBAL_RECORD_LEVEL_INDEX"},
}
#: Columns by which files may be skipped: all but texts that are cut and types without an order.
SKIPPING: Final = ("id", "region", "k2", "ts", "whole", "small", "wide", "money", "day")
_WITHOUT_METADATA: Final = {"hoodie.metadata.enable": "false", "hoodie.enable.data.skipping": "false"}
_WITH_METADATA: Final = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
_DIES: Final = Path(__file__).with_name("crash_before_commit.py")

numbers = st.sets(st.integers(0, 39), min_size=1, max_size=15)
writers = st.sampled_from((US, *RELEASES))
releases = st.sampled_from(RELEASES)


def key_of(number: int) -> str:
    """Key of a row; every eleventh is not ASCII."""
    return f"k{number:03d}" + ("é中" if number % 11 == 0 else "")


def region_of(number: int) -> str:
    """Partition of a row: new numbers go to new partitions."""
    return f"r{number % 3}" if number < 100 else f"new{number // 100}"


@dataclass(frozen=True)
class State:
    """What the table holds: the version of each row by its number, and the columns it has."""

    rows: Mapping[int, tuple[int, tuple[str, ...]]] = field(default_factory=dict)
    columns: tuple[str, ...] = ()

    def row(self, number: int, version: int, columns: tuple[str, ...] | None = None) -> Row:
        """A row as a batch of these columns has it; columns that it was written without are null."""
        had = self.columns if columns is None else columns
        row: Row = {"id": key_of(number), "k2": number % 5, "region": region_of(number), "ts": 1000 * version + number}
        return row | {
            name: COLUMNS[name][1](number, version) if name in had and (number + version) % 7 else None
            for name in self.columns
        }

    def content(self) -> dict[str, Row]:
        """Every row by its key."""
        return {key_of(n): self.row(n, version, had) for n, (version, had) in self.rows.items()}


def schema_of(columns: tuple[str, ...]) -> pa.Schema:
    """Schema of a table with these columns."""
    fixed = [
        pa.field("id", pa.string(), nullable=False),
        ("k2", pa.int32()),
        ("region", pa.string()),
        ("ts", pa.int64()),
    ]
    return pa.schema([*fixed, *((name, COLUMNS[name][0]) for name in columns)])


class Turns(RuleBasedStateMachine):
    """See the module."""

    def __init__(self, servers: Mapping[str, HudiServer], folder: Path) -> None:
        super().__init__()
        self.servers = servers
        self.folder = folder
        self.state = State()
        self.states: dict[str, State] = {}
        self.savepoints: list[str] = []
        self.batches: dict[str, tuple[str, pa.Table, dict[int, tuple[int, tuple[str, ...]]]]] = {}
        self.version = 0
        self.table_version = 6
        self.metadata = "off"
        self.upgrades = False
        self.wrote: set[str] = set()
        self.ours = dict(_OURS)

    @initialize(
        creator=writers,
        layout=st.sampled_from(LAYOUTS),
        columns=st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4, unique=True),
        index=st.sampled_from(("BLOOM", "SIMPLE", "RECORD_INDEX")),
        table_version=st.sampled_from(VERSIONS),
        metadata=st.sampled_from(sorted(METADATA)),
        upgrades=st.booleans(),
        first=numbers,
    )
    def create(
        self,
        *,
        creator: str,
        layout: Layout,
        columns: list[str],
        index: str,
        table_version: int,
        metadata: str,
        upgrades: bool,
        first: set[int],
    ) -> None:
        """A table of ours or of Hudi's, with its first rows. Where it ``upgrades``, Hudi is not told which version to keep."""
        self.layout, self.state, self.table_version = layout, State({}, tuple(columns)), table_version
        self.metadata, self.upgrades = metadata, upgrades
        if creator != US and metadata == "everything":  # Hudi's record index does not say what the table is bound to
            self.ours["hoodie.index.type"] = index if index == "RECORD_INDEX" else f"GLOBAL_{index}"
        self.path = self.folder / layout.name  # Hudi asks for the table's name, and ours is that of its folder
        if creator == US:
            styles = {"hoodie__datasource__write__hive_style_partitioning": str(layout.hive_style).lower()}
            table = make_table(
                self.path,
                schema=schema_of(self.state.columns),
                keys=layout.keys,
                partitions=layout.partitions,
                hoodie__index__type=index,
                hoodie__write__table__version=str(table_version),
                **{name.replace(".", "__"): value for name, value in (ours.ASKED | styles).items()},
            )
            if index == "RECORD_INDEX":
                table.index_build()
        self._write(creator, first)
        kind = f"{layout.name}, {index}, metadata table {metadata}{', upgraded by Hudi' if upgrades else ''}"
        self._judge(f"{creator} made a table of version {table_version} ({kind}) of {columns}")

    @rule(writer=writers, chosen=numbers)
    def upsert(self, writer: str, chosen: set[int]) -> None:
        """Updates and inserts."""
        self._write(writer, chosen)
        self._judge(f"{writer} upserted {sorted(chosen)}")

    @rule(writer=writers, chosen=numbers)
    def delete(self, writer: str, chosen: set[int]) -> None:
        """Some keys that are there, and some that are not."""
        rows = {n: one for n, one in self.state.rows.items() if n not in chosen}
        batch = self._batch(chosen)
        if self.metadata == "everything" and "record_index" not in metadata_partitions(self.path):
            writer = US  # 1.2 rolls a dead instant back without a schema, and makes the record index then: it fails
        if writer == US:
            instant = self._table().delete(batch, options=self._told()).instant
        else:
            instant = self._send(writer, batch, {"hoodie.datasource.write.operation": "delete"})
        self._became(instant, State(rows, self.state.columns))
        self._judge(f"{writer} deleted {sorted(chosen)}")

    @rule(writer=writers, partition=st.integers(1, 3), chosen=st.sets(st.integers(0, 20), min_size=1, max_size=5))
    def new_partition(self, writer: str, partition: int, chosen: set[int]) -> None:
        """Rows of a partition that is new, or was not long ago."""
        new = {100 * partition + n for n in chosen}
        self._write(writer, new)
        self._judge(f"{writer} upserted {sorted(new)}")

    @rule(writer=writers, chosen=numbers)
    def insert_overwrite(self, writer: str, chosen: set[int]) -> None:
        """The partitions of a batch are replaced by it."""
        self.version += 1
        gone = {self._partition_of(n) for n in chosen}
        if self.metadata == "everything" and writer != US and self._able(writer) != "0.15.0":
            writer = US  # with a record index it fails in Hudi once `files` is compacted, whoever did that
        if writer == US:
            instant = self._table().insert_overwrite(self._batch(chosen), options=self._told()).instant
        else:
            told = {"hoodie.datasource.write.operation": "insert_overwrite"}
            instant = self._send(writer, self._batch(chosen), told)
        kept = {n: one for n, one in self.state.rows.items() if self._partition_of(n) not in gone}
        new = dict.fromkeys(chosen, (self.version, self.state.columns))
        self._became(instant, State({**kept, **new}, self.state.columns))
        self._judge(f"{writer} overwrote the partitions {sorted(gone)} with {sorted(chosen)}")

    @rule(chosen=numbers)
    def insert_overwrite_table(self, chosen: set[int]) -> None:
        """We replace all rows by a batch."""
        self.version += 1
        instant = self._table().insert_overwrite_table(self._batch(chosen), options=self._told()).instant
        new = dict.fromkeys(chosen, (self.version, self.state.columns))
        self._became(instant, State(new, self.state.columns))
        self._judge(f"we overwrote the table with {sorted(chosen)}")

    @rule(chosen=numbers)
    def insert(self, chosen: set[int]) -> None:
        """We insert what is not there; rows whose keys are stored are left out."""
        self.version += 1
        done = self._table().insert(self._batch(chosen), "ignore", options=self._told())
        new = dict.fromkeys(chosen - self.state.rows.keys(), (self.version, self.state.columns))
        assert (done.inserts, done.ignored) == (len(new), len(chosen) - len(new)), done
        self._became(done.instant, State({**self.state.rows, **new}, self.state.columns))
        self._judge(f"we inserted {sorted(new)}")

    @precondition(lambda self: self.layout.partitions and self.state.rows)
    @rule(release=releases, data=st.data())
    def delete_partition(self, release: str, data: st.DataObject) -> None:
        """Hudi deletes a partition. 1.2 is not to upgrade a table in the same call: it does not find its own instant then."""
        gone = data.draw(st.sampled_from(sorted({self._partition_of(n) for n in self.state.rows})))
        path = f"region={gone}" if self.layout.hive_style else gone
        told = {
            "hoodie.datasource.write.operation": "delete_partition",
            "hoodie.datasource.write.partitions.to.delete": path,
            **kept_version(self._able(release), self.table_version),
        }
        instant = self._send(release, self._batch({0}), told)
        kept = {n: one for n, one in self.state.rows.items() if self._partition_of(n) != gone}
        self._became(instant, State(kept, self.state.columns))
        self._judge(f"{release} deleted the partition {gone}")

    @precondition(lambda self: self.state.rows)
    @rule(data=st.data())
    def we_delete_partitions(self, data: st.DataObject) -> None:
        """We delete partitions, or all rows."""
        there = sorted({self._partition_of(n) for n in self.state.rows})
        gone = data.draw(st.sets(st.sampled_from(there), min_size=1))
        if gone == set(there):
            instant = self._table().truncate(options=self._told()).instant
        else:
            hive = "region=" if self.layout.hive_style else ""
            instant = (
                self._table().delete_partitions([f"{hive}{one}" for one in sorted(gone)], options=self._told()).instant
            )
        kept = {n: one for n, one in self.state.rows.items() if self._partition_of(n) not in gone}
        self._became(instant, State(kept, self.state.columns))
        self._judge(f"we deleted the partitions {sorted(gone)}")

    @rule(release=releases, chosen=numbers)
    def cluster(self, release: str, chosen: set[int]) -> None:
        """Hudi upserts, and rewrites small files into larger ones, in file groups of their own."""
        if "money" in self.state.columns:
            # 0.15 writes integers then, and the next upsert of any Hudi takes 2.75 for 275 (docs/format.md)
            release = RELEASES[-1]
        before = completed_writes(self.path)
        self._write(release, chosen, _CLUSTER)
        for instant in completed_writes(self.path)[len(before) :]:
            self._became(instant, self.state)
        self._judge(f"{release} upserted {sorted(chosen)} and clustered")

    @precondition(lambda self: self.state.rows)
    @rule(sort=st.sampled_from(("key", "columns", "zorder", "hilbert")))
    def we_cluster(self, sort: str) -> None:
        """We put base files together, in any order of rows."""
        columns = None if sort == "key" else ["ts", "id"]
        done = self._table().cluster(sort=sort, columns=columns, options=self._told())
        self._became(done.instant, self.state)
        self._judge(f"we clustered by {sort}")

    @precondition(lambda self: self.state.rows)
    @rule(release=releases, ours_is=st.booleans(), chosen=numbers)
    def plan_of_the_other(self, release: str, ours_is: bool, chosen: set[int]) -> None:
        """One side plans a clustering, the other carries it out, or an update of ours takes its turn."""
        able = self._able(release)
        if (able == "1.0.2" and self.table_version == 6) or (able == "0.15.0" and "money" in self.state.columns):
            return  # it has no clustering of such tables, and writes decimals as integers (docs/format.md)
        call = f"call run_clustering(path => '{self.path}', op => "
        if ours_is:
            plan = self._table().cluster(sort="key", schedule=True, options=self._told())
            if plan.instant is None:
                return
            if metadata_partitions(self.path):
                self._table().metadata_drop()  # Hudi's procedure does not keep it up
            keep = f"hoodie.write.table.version={self.table_version},hoodie.write.auto.upgrade=false"
            version = "" if able == "0.15.0" else f",{keep}"
            self._server(release).sql(f"{call}'execute', options => 'hoodie.metadata.enable=false{version}')")
            self._became(plan.instant, self.state)
            self._judge(f"{able} carried our plan out")
            return
        before = self._pending()
        self._server(release).sql(f"{call}'schedule')")
        self.table_version = Table.open(open_storage(str(self.path))).properties.version
        for instant in self._pending() - before:
            if len(chosen) % 2:
                self.ours |= {UPDATES_OPTION: ClusteringUpdates.ALLOW}
                self._write(US, chosen)
                self._judge(f"our upsert of {sorted(chosen)} took its turn before {able}'s plan", pending=True)
            if instant in self._pending():
                self._became(self._table().cluster(instant=instant, options=self._told()).instant, self.state)
                if self._in_order()[-1] != instant:
                    del self.states[instant]  # version 6 does not say that it was completed last
        self._judge(f"we carried the plan of {able} out")

    def _pending(self) -> set[str]:
        return {one.time for one in Table.open(open_storage(str(self.path))).load_timeline().pending_writes}

    @precondition(lambda self: self.states)
    @rule(data=st.data())
    def we_savepoint(self, data: st.DataObject) -> None:
        """We keep one of the commits."""
        instant = data.draw(st.sampled_from(sorted(self.states)))
        try:
            self._table().savepoint_create(instant, options=ours.ASKED)
        except (TableUnsupportedError, UsageError):
            return  # archived, or cleaned: refused with nothing changed
        self.savepoints = sorted({*self.savepoints, instant})
        self._judge(f"we made a savepoint of {instant}")

    @precondition(lambda self: self.savepoints)
    @rule(release=writers, data=st.data())
    def delete_savepoint(self, release: str, data: st.DataObject) -> None:
        """Either side lets one go, whoever made it."""
        instant = data.draw(st.sampled_from(self.savepoints))
        at_home = release != US and BUNDLES[self._able(release)].default == self.table_version
        if at_home:
            self._server(release).sql(f"call delete_savepoint(path => '{self.path}', instant_time => '{instant}')")
        else:
            self._table().savepoint_delete(instant, options=ours.ASKED)
        self.savepoints.remove(instant)
        self._judge(f"{release if at_home else US} deleted the savepoint of {instant}")

    @precondition(lambda self: len(self.states) > 1)
    @rule(data=st.data())
    def we_restore(self, data: st.DataObject) -> None:
        """We go back to a commit, savepointed or not, whoever wrote what came since."""
        instant = data.draw(st.sampled_from(sorted(self.states)))
        try:
            done = self._table().restore(instant, options=ours.ASKED)
        except (TableUnsupportedError, UsageError):
            return  # cleaned, archived, or a later one is savepointed: refused with nothing changed
        assert done.rows_after == len(self.states[instant].rows), done
        self._back_to(instant)
        self._judge(f"we restored {instant}")

    @rule(chosen=numbers)
    def crash(self, chosen: set[int]) -> None:
        """Our writer dies with its data files and its delta commit written, before it is decided that it commits."""
        batch = self.folder / "killed.parquet"
        pq.write_table(self._batch(chosen), batch)
        line = [sys.executable, str(_DIES), str(self.path), str(batch), "*/verdicts/*", json.dumps(self._told())]
        done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 137, done.stderr
        self._judge(f"we died while we upserted {sorted(chosen)}", pending=True)

    @rule()
    def maintain(self) -> None:
        """We compact the metadata table, and settle what we left."""
        self._table().maintain(["settle", "metadata"], options=ours.ASKED)
        self._judge("we compacted the metadata table")

    @precondition(lambda self: self.batches)
    @rule(data=st.data())
    def resend(self, data: st.DataObject) -> None:
        """A batch of ours arrives once more: nothing is to be done, unless its commit is no part of the table any more."""
        name = data.draw(st.sampled_from(sorted(self.batches)))
        instant, batch, rows = self.batches[name]
        summary = self._table().upsert(batch, batch_id=name, options=self._told())
        if instant in self.states:
            assert summary.noop, f"{name} is in the table as {instant}, and was written again as {summary.instant}"
        else:
            assert not summary.noop or summary.instant is None, f"{name} is not in the table any more, and was skipped"
            newer = {n: one for n, one in rows.items() if n not in self.state.rows or self.state.rows[n][0] <= one[0]}
            self._became(summary.instant, State({**self.state.rows, **newer}, self.state.columns))
            if summary.instant is not None:
                self.batches[name] = (summary.instant, batch, rows)
            else:
                del self.batches[name]
        self._judge(f"batch {name} was sent again")

    @precondition(lambda self: len(self.state.columns) < len(COLUMNS))
    @rule(release=releases, chosen=numbers, data=st.data())
    def add_column(self, release: str, chosen: set[int], data: st.DataObject) -> None:
        """Hudi writes a batch with one more column."""
        name = data.draw(st.sampled_from(sorted(set(COLUMNS) - set(self.state.columns))))
        self.state = State(self.state.rows, (*self.state.columns, name))
        self.batches.clear()  # they lack the column
        self._write(release, chosen)
        self._judge(f"{release} added column {name} with {sorted(chosen)}")

    @precondition(lambda self: len(self.states) > 1)
    @rule()
    def rollback(self) -> None:
        """We take the newest commit back, where that can be done."""
        before, newest = self._in_order()[-2:]
        try:
            self._table().rollback(newest, options=ours.ASKED)
        except (TableUnsupportedError, UsageError):
            return  # savepointed, archived around, or cleaned: refused with nothing changed
        self._back_to(before)
        self._judge(f"we rolled {newest} back")

    @precondition(lambda self: self.states and self._is_in_order() and max(self.states) not in self.savepoints)
    @rule(release=releases)
    def savepoint(self, release: str) -> None:
        """Hudi keeps what is there now."""
        newest = max(self.states)
        try:
            self._server(release).sql(f"call create_savepoint(path => '{self.path}', commit_time => '{newest}')")
        except HudiError as error:
            # of what a clean may have taken already, if the commits after it were rolled back; and 1.0 writes no older version
            if not any(
                known in str(error) for known in ("beyond the lookup window", "Writer version (EIGHT) do not match")
            ):
                raise
            return
        self.savepoints.append(newest)
        self._judge(f"{release} made a savepoint of {newest}")

    @precondition(lambda self: self._is_in_order() and self.savepoints and max(self.states) > self.savepoints[-1])
    @rule(release=releases)
    def rollback_to_savepoint(self, release: str) -> None:
        """Hudi restores the table as it was at the newest savepoint."""
        kept = self.savepoints[-1]
        # the procedure upgrades the table to what its release makes by default
        at_home = [one for one, bundle in BUNDLES.items() if bundle.default == self.table_version]
        release = release if release in at_home else at_home[0]
        restore = f"call rollback_to_savepoint(path => '{self.path}', instant_time => '{kept}')"
        try:
            self._server(release).sql(restore)
        except HudiError as error:
            # After any compaction that is younger than the savepoint, whoever made it; and the second time, if the whole
            # metadata table is younger: Hudi finds no completion time of the savepoint there.
            if not re.search("Please delete metadata table and retry|Unable to find completion time", str(error)):
                raise
            self._table().metadata_drop()
            self._server(release).sql(restore)
        self._back_to(kept)
        self._judge(f"{release} restored {kept}")

    @rule(keep=st.integers(1, 3))
    def clean(self, keep: int) -> None:
        """We clean."""
        self._table().clean(keep, options=ours.ASKED)
        self._judge(f"we cleaned, keeping {keep}")

    @rule(keep=st.integers(2, 4))
    def archive(self, keep: int) -> None:
        """We archive."""
        self._table().archive(keep, options={"hoodie.cleaner.commits.retained": str(keep - 1), **ours.ASKED})
        self._judge(f"we archived, keeping {keep}")

    @rule(release=releases, chosen=numbers, archives=st.booleans())
    def hudi_keeps_house(self, release: str, chosen: set[int], archives: bool) -> None:
        """Hudi cleans, and archives, with an upsert."""
        kept = {region_of(number) for one in self.savepoints if one in self.states for number in self.states[one].rows}
        if release == "1.0.2" and kept - {region_of(number) for number in self.state.rows}:
            return  # it deletes a partition without a live file, and what a savepoint keeps there
        self._write(release, chosen, _ARCHIVE if archives else _CLEAN)
        self._judge(f"{release} upserted {sorted(chosen)} and cleaned{', archived' if archives else ''}")

    def _table(self) -> lakeindex.api.table.LakeTable:
        return lakeindex.open_table(str(self.path))

    def _batch(self, chosen: set[int]) -> pa.Table:
        rows = [self.state.row(number, self.version) for number in sorted(chosen)]
        return pa.Table.from_pylist(rows, schema=schema_of(self.state.columns))

    def _write(self, writer: str, chosen: set[int], extra: Mapping[str, str] | None = None) -> None:
        self.version += 1
        batch, new = self._batch(chosen), dict.fromkeys(chosen, (self.version, self.state.columns))
        if writer == US:
            name = f"batch-{self.version}"
            instant = self._table().upsert(batch, batch_id=name, options=self._told()).instant
            self.batches[name] = (str(instant), batch, new)
        else:
            instant = self._send(writer, batch, {"hoodie.datasource.write.operation": "upsert", **(extra or {})})
        self._became(instant, State({**self.state.rows, **new}, self.state.columns))

    def _send(self, release: str, batch: pa.Table, extra: Mapping[str, str]) -> str:
        mode = "append" if (self.path / ".hoodie").exists() else "overwrite"
        self.wrote.add(self._able(release))
        self._server(release).write(self.path, batch, {**self._options(release), **extra}, mode=mode)
        self.table_version = Table.open(open_storage(str(self.path))).properties.version
        return completed_writes(self.path)[-1]

    def _options(self, release: str) -> dict[str, str]:
        """What Hudi is told at every write."""
        keep = keep_options(self._able(release), self.table_version)
        left = (
            "hoodie.metadata.",
            *(("hoodie.write.table.version", "hoodie.write.auto.upgrade") if self.upgrades else ()),
        )
        plain = {key: value for key, value in keep.items() if not key.startswith(left)}
        is_indexed = (self.path / ".hoodie").exists() and "record_index" in metadata_partitions(self.path)
        found_by = (
            _BY_RECORD_INDEX.get(self._able(release), _BY_RECORD_INDEX["1.x"])
            if self.metadata == "everything" and is_indexed
            else {}
        )
        return {**plain, **METADATA[self.metadata], **found_by, **self.layout.hudi_options()}

    def _partition_of(self, number: int) -> str:
        return region_of(number) if self.layout.partitions else ""

    def _able(self, release: str) -> str:
        """The release whose turn it is, if it knows tables of this version, else one that does."""
        able = [one for one, bundle in BUNDLES.items() if self.table_version in bundle.versions]
        return release if release in able else able[RELEASES.index(release) % len(able)]

    def _server(self, release: str) -> HudiServer:
        return self.servers[self._able(release)]

    def _became(self, instant: str | None, state: State) -> None:
        self.state = state
        if instant is not None:
            self.states[instant] = state

    def _back_to(self, instant: str) -> None:
        self.state = self.states[instant]
        order = self._in_order()
        self.states = {time: self.states[time] for time in order[: order.index(instant) + 1]}
        if any(batch.column_names != schema_of(self.state.columns).names for _, batch, _ in self.batches.values()):
            self.batches = {
                name: one
                for name, one in self.batches.items()
                if one[1].column_names == schema_of(self.state.columns).names
            }

    def _in_order(self) -> list[str]:
        """The commits in the order in which they were completed; version 6 does not say when: as they began."""
        return sorted(self.states) if self.table_version == 6 else list(self.states)

    def _is_in_order(self) -> bool:
        """Whether no commit was overtaken by one that began later: for Hudi's restore the beginning counts."""
        return list(self.states) == sorted(self.states)

    def _told(self) -> dict[str, str]:
        """Our options; of a table of Hudi's without a file, which shows no index, the index, too."""
        is_bound = (self.path / ".hoodie" / ".lakeindex" / "table.json").exists()
        return self.ours if self.state.rows or is_bound else {"hoodie.index.type": "BLOOM"} | self.ours

    def _judge(self, what: str, *, pending: bool = False) -> None:
        """As :meth:`_judge_once`. Where Hudi's clean deletes an empty partition from the metadata table, and rows come
        there again, Hudi 1.2 and hudi-rs take what a compaction had put there for part of the table: files that are
        gone, until the next compaction.
        """
        try:
            self._judge_once(what, pending=pending)
        except Exception as error:  # hudi-rs exports no class of its errors
            gone = re.search(
                r"footer schema '([^']+)': ObjectStoreError\(NotFound|File file:(\S+) does not exist", str(error)
            )
            if gone is None or not metadata_partitions(self.path):
                raise
            name = unquote(gone[1] or gone[2])
            assert not (self.path / name).exists(), what
            verified = metadata_verify(str(self.path))
            assert verified.ok, f"{what}: the metadata table names {name}: {verified}"
            self._table().maintain(["metadata"], options=ours.ASKED)
            self._judge_once(what, pending=pending)

    def _judge_once(self, what: str, *, pending: bool) -> None:
        """Every reader sees what the dictionary says, and ``check`` has nothing to say (but of a writer that died)."""
        release = RELEASES[self.version % len(RELEASES)]
        server, able = self._server(release), self._able(release)
        self._compare(f"{what}: we read", self._table().read(meta=True))
        self._compare_with_rust(f"{what}: hudi-rs reads")
        kept = bool(metadata_partitions(self.path))
        filters = self._filters() if kept else {}
        readings = (_WITH_METADATA, _WITHOUT_METADATA)[: 1 + kept]
        tables, counts = server.read_and_count(self.path, readings, list(filters), _WITH_METADATA)
        self._compare(f"{what}: Hudi {able} reads", tables[0])
        if kept:
            self._compare(f"{what}: Hudi {able} lists folders", tables[1])
            assert dict(zip(filters, counts, strict=True)) == filters, f"{what}: Hudi {able} skips files"
            verified = metadata_verify(str(self.path))
            assert verified.ok or pending, f"{what}: the metadata table: {verified}"
        report = self._table().check()
        assert report.ok or pending, f"{what}: {[str(one) for one in report.violations[:5]]}"

    def _compare_with_rust(self, what: str) -> None:
        found = read_with_rust_if_it_can(self.path, mixed=len(self.wrote) > 1)
        if found is not None:
            self._compare(what, found)

    def _filters(self) -> dict[str, int]:
        """Filters, and how many rows of the dictionary each finds, whatever files Hudi leaves out by statistics."""
        rows = list(self.state.content().values())
        filters: dict[str, int] = {}
        for turn, name in enumerate(SKIPPING, self.version):
            values = sorted(row[name] for row in rows if row.get(name) is not None)
            if values:
                middle, least = values[len(values) // 2], values[0]
                where, count = (
                    (f"= {_literal(middle)}", values.count(middle)),
                    (f"> {_literal(middle)}", sum(value > middle for value in values)),
                    (f"<= {_literal(least)}", values.count(least)),
                )[turn % 3]
                filters[f"{name} {where}"] = count
        return filters

    def _compare(self, what: str, found: pa.Table) -> None:
        names = schema_of(self.state.columns).names
        if not found.num_rows:
            assert not self.state.rows, f"{what}: no rows, instead of {len(self.state.rows)}"
            return
        assert set(names) <= set(found.column_names), f"{what}: columns {found.column_names}, not {names}"
        wanted, seen, problems = self.state.content(), {}, []
        for row in found.select(names).to_pylist():
            problems += [f"doubled key {row['id']}"] if row["id"] in seen else []
            seen[row["id"]] = row
        problems += [f"lost {key}" for key in wanted if key not in seen]
        problems += [f"odd {key}" for key in seen if key not in wanted]
        problems += [
            f"{key}.{name}: {seen[key][name]!r}, not {row[name]!r}"
            for key, row in wanted.items()
            if key in seen
            for name in names
            if _utc(seen[key][name]) != _utc(row[name])
        ]
        assert not problems, f"{what}: {len(problems)} differences: {problems[:6]}"


def _literal(value: Any) -> str:
    """A value in Spark's SQL."""
    if isinstance(value, dt.date):
        return f"date'{value}'"
    if isinstance(value, Decimal):
        return f"cast({value} as decimal(10, 2))"
    return f"'{value}'" if isinstance(value, str) else f"{value}D" if isinstance(value, float) else repr(value)


def _utc(value: Any) -> Any:
    return value.astimezone(dt.UTC) if isinstance(value, dt.datetime) else value
