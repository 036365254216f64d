"""What keeping Hudi's metadata table costs an upsert:
``python -m benchmarks.metadata [--workload S_mono_v9] [--runs 5]``.

Copies of one table, each with more of a metadata table, take turns: every batch goes into each of them. A run is ten
upserts in a row on fresh copies. An upsert and a compaction before them do not count; the tenth upsert compacts again,
as one in ten does. A write by the record index first checks whether the index says what the files hold: on the table
with a record index that check is timed alone, too, before each upsert.

Look-ups are timed of the same keys in the metadata table's record index, by lakeindex and by Hudi, and in lakeindex's
shards. Stage 2 of lakeindex ends with the file group of each key, as Hudi's ``tagLocation`` does; stages 2 to 4 also
read the keys in the files for their exact positions. ``benchmarks/README.md`` has the command for look-ups alone.
"""

from __future__ import annotations

import shutil
import statistics
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import lakeindex
from benchmarks import index_lookup, timings
from benchmarks.bases import updated_partitions
from benchmarks.harness import Part
from benchmarks.measuring import Usage, restore
from benchmarks.peers import hudi
from benchmarks.peers.base import totals_of
from benchmarks.peers.hudi_tag import HudiTag
from benchmarks.peers.lakeindex import LakeIndexLocal
from benchmarks.rows import DAYS, FIRST_TS, growing_keys, table_of, write
from benchmarks.timings import Timing
from benchmarks.workloads import DATA, SPREAD, Totals, Workload, names, workload
from lakeindex.metadata.metadata_table import RECORD_INDEX
from lakeindex.metadata_upkeep.index_entries import may_be_wrong
from lakeindex.table.handle import Table

#: Upserts of a run; a metadata table is compacted after as many delta commits.
UPSERTS: Final = 10
LOOKED_UP: Final = 100_000
NONE: Final = "none"
#: What each table keeps in its metadata table.
KEPT: Final[dict[str, tuple[str, ...]]] = {
    NONE: (),
    "statistics": ("files", "column_stats", "partition_stats"),
    "record-index": ("files", "column_stats", "partition_stats", "record_index"),
    "filters": ("files", "column_stats", "partition_stats", "record_index", "bloom_filters"),
}
TITLES: Final = {
    NONE: "upsert, no metadata table",
    "statistics": "upsert, `files`, `column_stats`, `partition_stats`",
    "record-index": "upsert, and `record_index`",
    "filters": "upsert, and `bloom_filters`",
    "locate-metadata": f"file groups of {LOOKED_UP:,} keys from `record_index`",
    "look-up-metadata": "the same, and their positions in the files",
    "locate-shards": f"file groups of {LOOKED_UP:,} keys from our shards",
    "look-up-shards": "the same, and their positions in the files",
    "look-up-hudi": f"file groups of {LOOKED_UP:,} keys from `record_index` by Hudi 1.2.0",
}
#: Which of the tables a look-up is timed on.
LOOK_UPS: Final = {
    "locate-metadata": "record-index",
    "look-up-metadata": "record-index",
    "locate-shards": NONE,
    "look-up-shards": NONE,
    "look-up-hudi": "record-index",
}
_IN_SHARDS: Final = ("locate-shards", "look-up-shards")
_HUDI: Final = "look-up-hudi"
_SEED: Final = 44


@dataclass(frozen=True)
class Kept:
    """Which table is made."""

    base: str
    version: int


WORKLOADS: Final = {
    f"{base}_v{version}": Kept(base, version) for base in names() if base.endswith("_mono") for version in (9, 6)
}


def batch_of(wanted: Workload, number: int) -> pa.Table:
    """A batch in the shape of the workload's own; each has other rows, and new keys follow those of the one before."""
    rng = np.random.default_rng((_SEED, wanted.base_rows, number))
    shape = SPREAD[wanted.name]
    updates, per_day = wanted.batch_rows * 4 // 5, wanted.base_rows // shape.partitions
    counts = np.bincount(updated_partitions(rng, updates, shape), minlength=shape.partitions)
    picked = [day * per_day + rng.choice(per_day, count, replace=False) for day, count in enumerate(counts)]
    inserts = wanted.batch_rows - updates
    first = wanted.base_rows + number * inserts
    numbers = rng.permutation(np.concatenate([*picked, np.arange(first, first + inserts)]).astype(np.int64))
    days = pa.array(DAYS).take(pa.array(np.minimum(numbers // per_day, shape.partitions - 1)))
    ts = FIRST_TS + (wanted.base_rows + number * 100) * 10 + rng.integers(0, 1000, len(numbers))
    return table_of(rng, growing_keys(numbers), days, ts)


@dataclass(frozen=True)
class Upsert:
    """One upsert, whether it compacted the metadata table, and how long its record index was checked before."""

    usage: Usage
    compacted: bool
    checked: float | None


def mean(upserts: list[Upsert]) -> Usage:
    """The mean of a run; of the memory the most."""
    usages = [one.usage for one in upserts]
    return Usage(
        seconds=statistics.fmean(one.seconds for one in usages),
        cpu_seconds=statistics.fmean(one.cpu_seconds for one in usages),
        others_cpu_seconds=statistics.fmean(one.others_cpu_seconds for one in usages),
        peak_bytes=max(one.peak_bytes for one in usages),
    )


class Tables:
    """Copies of one table, by what they keep."""

    def __init__(self, kept: Kept, folder: Path) -> None:
        self._wanted, self._version, self._folder = workload(kept.base), kept.version, folder
        self.batches = [folder / "batches" / f"{number}.parquet" for number in range(UPSERTS + 1)]

    def load(self, peers: set[str]) -> None:
        """Make the batches, the base, and its copies, with their metadata tables and the first batch, compacted."""
        shutil.rmtree(self._folder, ignore_errors=True)
        self.batches[0].parent.mkdir(parents=True)
        for number, path in enumerate(self.batches):
            write(batch_of(self._wanted, number), path)
        base = self._folder / "base" / "orders"
        base.parent.mkdir()
        LakeIndexLocal(sync=True, version=self._version).load(self._wanted, base)
        lakeindex.open_table(base).index_migrate("GLOBAL_BLOOM")  # a global record index has one place for a key
        for peer in peers:
            restore(base.parent, self._saved(peer).parent)
            table = lakeindex.open_table(self._saved(peer))
            if KEPT[peer]:
                table.metadata_build(KEPT[peer])
            table.upsert([str(self.batches[0])])
            table.maintain(["metadata"])

    def _saved(self, peer: str) -> Path:
        return self._folder / "saved" / peer / "orders"

    def table(self, peer: str) -> Path:
        return self._folder / "work" / peer / "orders"

    def fresh(self, peer: str) -> None:
        restore(self._saved(peer).parent, self.table(peer).parent)

    def upsert(self, peer: str, number: int) -> Upsert:
        table = lakeindex.open_table(self.table(peer))
        before = table.metadata_status().last_compaction
        checked = self._checked(peer, number)
        usage = timings.timed(lambda: lakeindex.open_table(self.table(peer)).upsert([str(self.batches[number])]))
        return Upsert(usage, table.metadata_status().last_compaction != before, checked)

    def _checked(self, peer: str, number: int) -> float | None:
        if RECORD_INDEX not in KEPT[peer]:
            return None
        table = Table.at(str(self.table(peer)))
        timeline = table.load_timeline()
        view, files = table.metadata_view(timeline), table.snapshot(timeline=timeline).base_files_all()
        if view is None:
            raise RuntimeError(f"{peer} has no metadata table")
        wrong: list[bool] = []
        usage = timings.timed(lambda: wrong.append(may_be_wrong(view, files, str(number), keeps=True)))
        if wrong[-1]:
            raise RuntimeError(f"the record index of {peer} is wrong before upsert {number}")
        return usage.seconds

    def judge(self, peer: str) -> Totals:
        """What a run left behind. Raises: RuntimeError: rows are missing, or the metadata table is wrong."""
        table = lakeindex.open_table(self.table(peer))
        found = totals_of(table.read(meta=True).select(["id", "ts", "n1"]))
        inserts = self._wanted.batch_rows - self._wanted.batch_rows * 4 // 5
        rows = self._wanted.base_rows + len(self.batches) * inserts
        if (found.count, found.distinct) != (rows, rows):
            raise RuntimeError(f"{found}, expected {rows} rows")
        if KEPT[peer] and not (verified := table.metadata_verify()).ok:
            raise RuntimeError(f"the metadata table is wrong: {verified.counts}")
        return found

    def look_ups(self, peer: str, runs: int) -> Timing:
        """A batch of keys, on a fresh copy: stage 2, stages 2 to 4, or Hudi's ``tagLocation``."""
        keys, table = self._folder / "keys.parquet", self.table(LOOK_UPS[peer])
        pq.write_table(index_lookup.keys_of(self._wanted, LOOKED_UP), keys)
        self.fresh(LOOK_UPS[peer])
        if peer in _IN_SHARDS:
            lakeindex.open_table(table).index_build("RECORD_INDEX")
        timing = Timing(self.name, peer, TITLES[peer])

        def ours() -> Usage:
            look = index_lookup.look_up(table, "RECORD_INDEX", keys, self._folder / "runs")
            timing.facts["found"] = f"{look.found:,}"
            return Usage(seconds=look.located if peer.startswith("locate-") else look.seconds)

        if peer != _HUDI:
            timings.repeat(timing, runs, ours)
            return timing
        options = hudi.OPTIONS | hudi.RECORD | {"hoodie.write.table.version": str(self._version)}
        try:
            with closing(HudiTag()) as server:
                timings.repeat(timing, runs, lambda: Usage(seconds=server.look_up(table, options, keys)[0]))
        except Exception as error:  # noqa: BLE001 - Hudi that does not start is a result, the others go on
            timing.fail(error)
        return timing

    @property
    def name(self) -> str:
        return f"{self._wanted.name}_v{self._version}"

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)


def run(tables: Tables, peers: tuple[str, ...]) -> dict[str, list[Upsert]]:
    """A run of every table on fresh copies; they take turns, another one first each time.

    Raises:
        RuntimeError: a table is wrong, or they differ.
    """
    for peer in peers:
        tables.fresh(peer)
    done: dict[str, list[Upsert]] = {peer: [] for peer in peers}
    for number in range(1, UPSERTS + 1):
        first = number % len(peers)
        for peer in (*peers[first:], *peers[:first]):
            done[peer].append(tables.upsert(peer, number))
    totals = {peer: tables.judge(peer) for peer in peers}
    if len(set(totals.values())) > 1:
        raise RuntimeError(f"they differ: {totals}")
    return done


def facts_of(seconds: float, upserts: list[Upsert], none: float | None) -> dict[str, str]:
    """What the tables say of a peer's upserts.

    Args:
        none: the median run's without a metadata table, if it was measured.
    """
    facts = {}
    if none is not None:
        facts = {"x without": f"{seconds / none:.2f}", "s more": f"{seconds - none:.2f}"}
    checks = [one.checked for one in upserts if one.checked is not None]
    if checks:
        check = statistics.median(checks)
        facts["check of the index"] = f"{check * 1000:.0f} ms, {check / seconds:.1%}"
    for name, compacted in (("median without compacting", False), ("median compacting", True)):
        some = [one.usage.seconds for one in upserts if one.compacted is compacted]
        facts[name] = f"{statistics.median(some):.2f} ({len(some)})" if some else ""
    return facts


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All tables of a workload, then the look-ups."""
    tables = Tables(WORKLOADS[name], DATA / "tables" / f"metadata_{name}")
    writers = tuple(peer for peer in peers if peer in KEPT)
    lookers = tuple(peer for peer in peers if peer in LOOK_UPS)
    found = {peer: Timing(name, peer, TITLES[peer]) for peer in writers}
    upserts: dict[str, list[Upsert]] = {peer: [] for peer in writers}
    try:
        tables.load({*writers, *(LOOK_UPS[peer] for peer in lookers)})
        for turn in range(runs if writers else 0):
            for peer, done in run(tables, writers).items():
                upserts[peer] += done
                found[peer].add(mean(done))
                print(f"  {name} {peer:14} run {turn}: {found[peer].seconds[-1]:.3f} s an upsert", flush=True)
        none = found[NONE].median if NONE in found else None
        for peer, timing in found.items():
            timing.facts = facts_of(timing.median, upserts[peer], none)
        return [*found.values(), *_beside_hudi([tables.look_ups(peer, runs) for peer in lookers])]
    finally:
        tables.close()


def _beside_hudi(look_ups: list[Timing]) -> list[Timing]:
    """The look-ups, with how many times as long Hudi takes."""
    hudis = next((one for one in look_ups if one.peer == _HUDI and one.seconds), None)
    for one in look_ups:
        if hudis is not None and one.peer != _HUDI and one.seconds:
            one.facts["x faster than Hudi"] = f"{hudis.median / one.median:.1f}"
    return look_ups


_DEFAULT: Final = ("S_mono_v9", "S_mono_v6", "M_mono_v9")
PART: Final = Part(
    "metadata", "what keeping Hudi's metadata table costs an upsert", WORKLOADS, _DEFAULT, TITLES, measure
)

if __name__ == "__main__":
    raise SystemExit(PART.main())
