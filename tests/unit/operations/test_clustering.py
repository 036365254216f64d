"""Clustering: every row stays as it is, files are fewer and their ranges apart, and writers beside it go on or wait."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.commit.recovery import give_way, maintaining
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.commit.write_session import WriteSession
from lakeindex.errors import (
    InvariantError,
    PendingInstantError,
    TableCorruptError,
    TableUnsupportedError,
    UsageError,
    WriteConflictError,
)
from lakeindex.format.instants import next_instant_time
from lakeindex.index.bucket import bucket_of
from lakeindex.model import BaseFile, Instant, InstantState
from lakeindex.operations import cluster_run, rewrite_run
from lakeindex.operations.cluster_plan import _overlap, candidates, sized_files
from lakeindex.operations.row_order import RowOrder, hilbert_axes, interleaved
from lakeindex.options.clustering_options import LAYOUT_OPTION, UPDATES_OPTION, Curve
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import write_bytes
from lakeindex.timeline.avro_instants import (
    ClusteringGroup,
    ClusteringSlice,
    RequestedReplace,
    format_requested_replace,
    parse_requested_replace,
)
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.meanwhile import OVERTAKES, MemoryTable
from tests.scheduling import some_indexes, some_of
from tests.unit.operations.tables import rewrite, with_value

RUNNER = LocalRunner(1)
NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}
ALLOW = {UPDATES_OPTION: "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"}


def rows(first: int, last: int, ts: int = 1, days: Sequence[str] = "xy") -> list[Row]:
    """Rows whose keys are in no order."""
    return [Row(f"k{n * 7919 % 10007:05d}", days[n % len(days)], ts, str(n % 17)) for n in range(first, last)]


def upsert(table: LakeTable, batch: list[Row], name: str, options: Mapping[str, str] = NEW_FILES):
    folder = str(Path(table.uri).parent / "runs")
    return table.upsert(
        batch_of(batch), checkpoints=folder, batch_id=name, run_id=name, options=dict(options), runner=RUNNER
    )


def table_of_parts(
    folder: Path,
    parts: int = 3,
    each: int = 20,
    days: Sequence[str] = "xy",
    *,
    with_metadata: bool = False,
    **options: str,
) -> LakeTable:
    """A table whose partitions have a small file of each of some batches, with overlapping key ranges."""
    table = make_table(folder / "t", **options)
    for n in range(parts):
        upsert(table, rows(n * each, n * each + each, days=days), f"part {n}")
        if with_metadata and not n:
            table.metadata_build(["files", "column_stats", "record_index"])
    return table


def whole(table: LakeTable) -> pa.Table:
    read = table.read(meta=True)
    kept = [name for name in read.column_names if name != "_hoodie_file_name"]
    return read.select(kept).sort_by([("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")])


def files_of(table: LakeTable, partition: str = "x") -> tuple[BaseFile, ...]:
    return Table.open(open_storage(table.uri)).snapshot().base_files(partition)


def timeline_of(table: LakeTable):
    return Table.open(open_storage(table.uri)).load_timeline()


@pytest.fixture(params=some_of([6, 8, 9], {6, 9}.__contains__, pytest.mark.slow))
def version(request: pytest.FixtureRequest) -> dict[str, str]:
    return {"hoodie__write__table__version": str(request.param)}


@pytest.mark.parametrize(
    "index",
    some_indexes(["BLOOM", "GLOBAL_BLOOM", "SIMPLE", "BUCKET", "RECORD_INDEX", "INMEMORY"]),
)
@pytest.mark.few(1)
def test_rows_stay_as_they_are_and_every_index_finds_them(tmp_path: Path, index: str) -> None:
    counts = {"hoodie__bucket__index__num__buckets": "2"} if index == "BUCKET" else {}
    table = table_of_parts(tmp_path, hoodie__index__type=index, **counts)
    before, newest, old = whole(table), table.history()[0].instant, files_of(table)
    done = table.cluster(sort="columns", columns=["v"], runner=RUNNER)
    assert whole(table).equals(before)
    assert (done.rows_before, done.rows_after) == (60, 60)
    if index == "BUCKET":
        assert [bucket_of(f.file_id) for f in files_of(table)] == [bucket_of(f.file_id) for f in old]
    else:
        assert len(files_of(table)) == 1
    assert {one.file_id for one in files_of(table)}.isdisjoint(one.file_id for one in old)
    assert (table.history()[0].action, table.history()[0].operation) == ("replacecommit", "CLUSTER")
    assert table.changes(since=newest).to_arrow().num_rows == 0, "clustered rows were not changed"
    assert table.read(as_of=newest, meta=False).num_rows == 60
    assert table.cluster(sort="columns", columns=["v"], runner=RUNNER).noop
    oracle = Oracle()
    oracle.apply(rows(0, 60))
    oracle.apply(rows(30, 90, 2))
    summary = upsert(table, rows(30, 90, 2), "after", {})
    assert (summary.updates, summary.inserts) == (30, 30)
    assert content_of(table) == oracle.content()
    assert table.check().ok


def test_a_bucket_that_is_in_order_is_left_alone_whichever_commit_has_put_it_so(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="3")
    asked = {"sort": "columns", "columns": ["v"], "runner": RUNNER}
    for ts, keys, buckets in ((1, range(30), 3), (2, range(1), 1), (3, range(1), 1)):
        upsert(table, [Row(f"k{n}", "x", ts, f"{n * 7 % 30}") for n in keys], f"{ts}", {})
        assert table.cluster(**asked).files_before == buckets
    assert table.cluster(**asked).noop


@pytest.mark.parametrize("largest", [1, 1 << 30])
def test_texts_that_are_too_many_for_short_offsets_are_moved_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, largest: int
) -> None:
    """Texts in dictionaries, too."""
    monkeypatch.setattr(rewrite_run, "_LARGEST_TEXTS", largest)
    kinds, real = set[str](), rewrite_run._in_one

    def in_one(rows: pa.Table) -> pa.Table:
        found = real(rows)
        kinds.update(str(kind) for kind in found.schema.types)
        return found

    monkeypatch.setattr(rewrite_run, "_in_one", in_one)
    table = table_of_parts(tmp_path)
    before = whole(table)
    table.cluster(sort="columns", columns=["v"], runner=RUNNER)
    assert ("large_string" in kinds) == (largest == 1) != any("dictionary" in kind for kind in kinds)
    assert whole(table).equals(before)
    assert table.check().ok


def test_ranges_are_apart_afterwards(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path, 4, 60, "x")
    plan = table.cluster(target_size=6000, dry_run=True, runner=RUNNER)
    assert plan.dry_run
    assert plan.partitions[0].candidates_before["_hoodie_record_key"] > 3
    assert len(files_of(table)) == 4
    done = table.cluster(target_size=6000, runner=RUNNER)
    assert done.files_after == len(files_of(table)) > 2
    assert done.partitions[0].candidates_after["_hoodie_record_key"] == 1.0
    ends = sorted(
        (min(keys), max(keys))
        for file in files_of(table)
        for keys in [pq.read_table(Path(table.uri) / file.path).column("_hoodie_record_key").to_pylist()]
    )
    assert all(a[1] < b[0] for a, b in pairwise(ends))
    assert table.cluster(target_size=6000, runner=RUNNER).noop


def copied_of(monkeypatch: pytest.MonkeyPatch) -> list[BaseFile]:
    """Files whose column chunks were copied, as they are."""
    found: list[BaseFile] = []
    real = rewrite_run.CopiedPart.groups
    monkeypatch.setattr(
        rewrite_run.CopiedPart, "groups", lambda self, *how: found.append(self.file) or real(self, *how)
    )
    return found


def test_small_files_are_only_put_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Chunks of full row groups are copied, what is in small ones is encoded anew; the order of the rows stays."""
    options = {"lakeindex.parquet.row.group.rows": "20"}
    table, copied = make_table(tmp_path / "t"), copied_of(monkeypatch)
    for n, span in enumerate(((0, 20), (20, 24), (24, 28), (28, 68))):
        upsert(table, rows(*span, days="x"), f"part {n}", {**NEW_FILES, **options})
    before, times = whole(table), sorted(one.instant_time for one in files_of(table))
    scheduled = table.cluster(sort="none", schedule=True, runner=RUNNER, options=options)
    assert scheduled.order == "none"
    done = table.cluster(instant=scheduled.instant, runner=RUNNER, options=options)
    (new,) = files_of(table)
    assert (done.files_before, done.files_after, done.rows_after, done.order) == (4, 1, 68, "none")
    assert whole(table).equals(before)
    assert {one.instant_time for one in copied} == {times[0], times[3]}
    metadata = pq.read_metadata(Path(table.uri) / new.path)
    groups = [metadata.row_group(n) for n in range(metadata.num_row_groups)]
    assert sorted(group.num_rows for group in groups) == [8, 20, 20, 20]
    assert set(pq.read_table(Path(table.uri) / new.path)["_hoodie_file_name"].to_pylist()) == {new.name}
    assert table.check(deep=True).ok
    summary = upsert(table, rows(0, 70, 2, days="x"), "after", {})
    assert (summary.updates, summary.inserts) == (68, 2)
    assert table.cluster(sort="none", runner=RUNNER).noop


def test_what_is_apart_already_is_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By key: row groups of files whose ranges share nothing with others; those that overlap are sorted."""
    options = {"lakeindex.parquet.row.group.rows": "10"}
    table, copied = make_table(tmp_path / "t"), copied_of(monkeypatch)
    for n, span in enumerate((range(30), range(30, 60), range(60, 100, 2), range(61, 100, 2))):
        upsert(table, [Row(f"k{key:03d}", "x", 1, str(key)) for key in span], f"part {n}", {**NEW_FILES, **options})
    before, apart = whole(table), set(files_of(table))
    done = table.cluster(runner=RUNNER, options=options)
    assert (done.files_before, done.files_after) == (4, 1)
    assert len(copied) == 2
    assert set(copied) < apart
    assert whole(table).equals(before)
    stored = pq.read_table(Path(table.uri) / files_of(table)[0].path)["_hoodie_record_key"].to_pylist()
    assert stored == sorted(stored)
    assert table.check(deep=True).ok


def test_a_row_without_a_key_is_told_by_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether the file is read whole, copied or taken apart; another writer may have made it."""
    table = table_of_parts(tmp_path, days="x")
    file = files_of(table)[0]
    rewrite(Path(table.uri) / file.path, with_value("_hoodie_record_key", 0, None))
    options = {"lakeindex.parquet.row.group.rows": "10"}
    for sort, bound in (("key", None), ("none", None), ("columns", 2_000)):
        with monkeypatch.context() as patched:
            if bound is not None:
                patched.setattr("lakeindex.operations.cluster_run.current_bound", lambda: 2_000)
            with pytest.raises(TableCorruptError, match=f"{file.file_id}.* has a row without a record key"):
                table.cluster(sort=sort, columns=["v"] if bound else None, runner=RUNNER, options=options)
        assert not timeline_of(table).pending


def test_a_damaged_chunk_is_not_copied(tmp_path: Path) -> None:
    options = {"lakeindex.parquet.row.group.rows": "20"}
    table = make_table(tmp_path / "t")
    for n in range(2):
        upsert(table, rows(n * 20, n * 20 + 20, days="x"), f"part {n}", {**NEW_FILES, **options})
    victim = files_of(table)[1]
    path = Path(table.uri) / victim.path
    data = bytearray(path.read_bytes())
    chunk = pq.read_metadata(path).row_group(0).column(7)
    data[(chunk.dictionary_page_offset or chunk.data_page_offset) + chunk.total_compressed_size - 1] ^= 1
    path.write_bytes(bytes(data))
    with pytest.raises(TableCorruptError, match=victim.file_id):
        table.cluster(sort="none", runner=RUNNER, options=options)
    assert not timeline_of(table).pending


def test_ranges_within_a_long_one_are_put_in_order_with_it(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    full = {"lakeindex.parquet.row.group.rows": "2"}  # so that a file by itself is copied as it is
    for number, keys in enumerate((("a", "z"), ("b", "c"), ("d", "e"))):
        upsert(table, [Row(key, "x", 1, "") for key in keys], f"part {number}", {**NEW_FILES, **full})
    assert table.cluster(options=full, runner=RUNNER).files_after == 1
    (file,) = files_of(table)
    keys = pq.read_table(Path(table.uri) / file.path, columns=["_hoodie_record_key"]).column(0).to_pylist()
    assert keys == sorted(keys) == ["a", "b", "c", "d", "e", "z"]


def test_what_is_too_large_leaves_room_for_others_of_its_partition_too(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    for number, (first, count) in enumerate((("a", 400), ("a", 400), ("b", 2), ("b", 2))):
        batch = [Row(f"{first}{n:05d}-{number}", day, 1, f"{n * 7919}") for n in range(count) for day in "xy"]
        upsert(table, batch, f"part {number}")
    large, small = (sum(sorted(one.size_bytes for one in files_of(table))[at : at + 2]) + 99 for at in (2, 0))
    options = {"hoodie.clustering.plan.strategy.max.bytes.per.group": str(large)}
    asked = {"options": options, "dry_run": True, "runner": RUNNER}
    assert [one.files_before for one in table.cluster(**asked).partitions] == [4, 4]
    assert [one.files_before for one in table.cluster(max_bytes=2 * small, **asked).partitions] == [2, 2]
    assert [one.files_before for one in table.cluster(max_bytes=large + small, **asked).partitions] == [4]


def test_small_files_partitions_and_bytes_are_chosen(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path)
    for where in (["z*"], ["x", "z*"], ["z*", "x"]):
        with pytest.raises(UsageError, match="there is no partition 'z"):
            table.cluster(where)
    assert [one.partition for one in table.cluster(["x"], dry_run=True).partitions] == ["x"]
    assert [one.partition for one in table.cluster(["x", "?"], dry_run=True).partitions] == ["x", "y"]
    brackets = table_of_parts(tmp_path / "named", days=["[x]", "x"])
    assert [one.partition for one in brackets.cluster(["[x]"], dry_run=True).partitions] == ["[x]"]
    assert [one.partition for one in brackets.cluster(["[?]"], dry_run=True).partitions] == ["[x]"]
    assert table.cluster(max_bytes=10, dry_run=True).noop
    one = sum(file.size_bytes for file in files_of(table))
    assert len(table.cluster(max_bytes=one + 10, dry_run=True).partitions) == 1
    for least in ("0", "1"):
        none_small = {"hoodie.clustering.plan.strategy.small.file.limit": least}
        assert table.cluster(small_files_only=True, options=none_small, dry_run=True).noop, least
    assert not table.cluster(options=none_small, dry_run=True).noop, "their ranges overlap"
    for given, match in [
        ({"sort": "columns"}, "needs columns"),
        ({"sort": "key", "columns": ["v"]}, "has no columns"),
        ({"sort": "none", "columns": ["v"]}, "has no columns"),
        ({"sort": "zorder", "columns": ["v", "none"]}, "no column 'none'"),
        ({"sort": "up"}, "cannot be sorted by 'up'"),
        ({"instant": "20200101000000000"}, "no clustering scheduled"),
    ]:
        with pytest.raises(UsageError, match=match):
            table.cluster(**given)
    assert len(files_of(table)) == 3


def test_maintenance_clusters_beyond_thresholds(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path)
    high = {"lakeindex.clustering.least.files": "9", "lakeindex.clustering.least.candidates": "9"}
    assert not table.maintain(["cluster"], options=high).steps[0].changed
    low = high | {"lakeindex.clustering.least.candidates": "2"}
    assert table.maintain(["cluster"], options=low).steps[0].counts["files"] == 6
    assert not table.maintain(["cluster"], options=low).steps[0].changed
    assert "cluster" not in [step.step for step in table.maintain().steps]


def test_maintenance_counts_files_of_a_key_as_the_adviser_does(tmp_path: Path) -> None:
    """Not at the ends of the ranges, where keys are that few files may hold."""
    options = {"lakeindex.clustering.least.files": "9", "lakeindex.clustering.least.candidates": "3"}
    table = table_of_parts(tmp_path, 4, 60, "x")
    assert any("hold a key" in one for one in table.advise(batch_of(rows(0, 200, 2, "x")), options=options).warnings)
    assert table.maintain(["cluster"], options=options).steps[0].counts["files"] == 4
    assert _overlap([("a", "c"), ("d", "f"), ("g", "i"), None]) == 2
    assert _overlap([("a", "m"), ("b", "n"), ("c", "o"), ("d", "p")]) == 4
    assert _overlap([]) == 0


def test_the_adviser_says_when_it_pays(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path, 4, 60, "x")
    limits = {"lakeindex.clustering.least.files": "4", "lakeindex.clustering.least.candidates": "3"}
    batch = batch_of(rows(0, 200, 2, "x"))

    def said(**more: str) -> list[str]:
        warnings = table.advise(batch, options={**limits, **more}).warnings
        return [one for one in warnings if "lakeindex cluster" in one]

    files, ranges = said()
    assert files.startswith("4 of 4 files are smaller")
    assert "about 1 of them" in files
    assert "of 3." in ranges or "of 4." in ranges
    assert not said(**{"lakeindex.clustering.least.files": "5", "lakeindex.clustering.least.candidates": "5"})
    table.cluster(runner=RUNNER)
    assert not said()


@pytest.mark.parametrize("dimensions", [2, 3])
def test_curves_visit_every_point_once(dimensions: int) -> None:
    bits = 3
    grid = np.stack(np.meshgrid(*[np.arange(2**bits)] * dimensions), -1).reshape(-1, dimensions).astype(np.uint64)
    points = [grid[:, axis] for axis in range(dimensions)]
    along = interleaved(hilbert_axes(points, bits), bits)
    assert sorted(along.tolist()) == sorted(interleaved(points, bits).tolist()) == list(range(len(grid)))
    steps = np.abs(np.diff(grid[np.argsort(along)].astype(int), axis=0)).sum(1)
    assert (steps == 1).all(), "neighbours on the Hilbert curve are neighbours"
    assert interleaved([np.array([5], np.uint64), np.array([3], np.uint64)], 3).tolist() == [0b100111]


def test_places_agree_with_the_order() -> None:
    """Rows of a later place are never before those of an earlier one, nulls behind all."""
    texts = [None, "", "a", "aa", "b", "\u00e4", "\U0001f600"]
    table = pa.table(
        {
            "_hoodie_record_key": [f"k{n:03d}" for n in range(140)],
            "t": [texts[n % 7] for n in range(140)],
            "n": pa.array([None if n % 11 == 0 else n % 5 for n in range(140)], pa.int32()),
            "d": pa.array([n * 37 % 140 for n in range(140)], pa.timestamp("us", "UTC")),
            "f": [float("nan") if n == 3 else n / 7 for n in range(140)],
            "g": [float("nan") if n % 4 == 0 else n * 31 % 140 for n in range(140)],
            "clock": pa.array([n * 53 % 140 for n in range(140)], pa.int32()).cast(pa.time32("ms")),  # as Flink has it
            "day": pa.array([n * 11 % 140 for n in range(140)], pa.int32()).cast(pa.date32()),
            "bytes": pa.array([f"{n * 29 % 140:03d}" for n in range(140)]).cast(pa.binary()).cast(pa.binary(3)),
            "flag": [n % 3 == 0 for n in range(140)],
        }
    )
    file = BaseFile("x", "f", "1", "0-0-0")
    linear = (("_hoodie_record_key",), ("t",), ("n", "t"), ("d",), ("t", "n", "d"), ("f",), ("g", "t"))
    for columns in (*linear, ("clock",), ("bytes",), ("day",)):
        order = RowOrder(columns).fitted(table, 6)
        found = order.places(table, file)
        sorted_rows = table.take(order.order(table, file))
        again = order.places(sorted_rows, file)
        assert (np.diff(again) >= 0).all(), columns
        assert sorted(found.tolist()) == sorted(again.tolist())
        assert len(set(found.tolist())) == len(order.cuts) + 1 > 1, columns
    for curve in (Curve.Z_ORDER, Curve.HILBERT):
        for columns in (("t", "n"), ("d", "f"), ("t", "n", "d"), ("clock", "bytes"), ("day", "flag")):
            order = RowOrder(columns, curve).fitted(table, 5)
            assert (np.diff(order.places(table.take(order.order(table, file)), file)) >= 0).all(), (curve, columns)
            assert len(set(order.places(table, file).tolist())) == len(order.cuts) + 1 > 1


def test_files_that_stay_count_as_candidates_too(tmp_path: Path) -> None:
    """Before and after: else the figures are not of the same files."""
    table = table_of_parts(tmp_path, 2, 20, "x")
    upsert(table, rows(40, 240, days="x"), "large")
    sizes = sorted(file.size_bytes for file in files_of(table))
    limit = {"hoodie.clustering.plan.strategy.small.file.limit": str(sizes[-1])}
    (done,) = table.cluster(small_files_only=True, options=limit, runner=RUNNER).partitions
    assert (done.files_before, done.files_after) == (2, 1)
    before, after = (one["_hoodie_record_key"] for one in (done.candidates_before, done.candidates_after))
    assert before > 2.5
    assert after > 1.5


def test_a_range_is_known_if_that_of_every_row_group_is(tmp_path: Path) -> None:
    """A row group with NaN has no ends in its footer: its file may hold any value."""
    schema = pa.schema([("id", pa.string()), ("f", pa.float64())])
    table = make_table(tmp_path / "t", schema=schema, partitions=(), ordering=None)
    for floats in ([1.0, 2.0, math.nan, 3.0], [math.nan, 2.0, 3.0, 1.0], [5.0, 6.0, 7.0, 8.0]):
        batch = pa.table({"id": [f"{floats}{n}" for n in range(4)], "f": floats}, schema=schema)
        table.upsert(batch, options={**NEW_FILES, "lakeindex.parquet.row.group.rows": "2"})
    found = [one.ends["f"] for one in sized_files(open_storage(table.uri), files_of(table, ""), ["f"])]
    assert sorted(found, key=str) == [(5.0, 8.0), None, None]


def test_candidates_are_counted() -> None:
    assert candidates([(1, 3), (2, 5), None, (9, 9)], [2, 4, 9]) == pytest.approx(1 + (2 + 1 + 1) / 3)
    assert candidates([], [1]) == 0


def test_what_does_not_fit_is_made_in_parts(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path, 4, 100, "x", hoodie__index__type="BLOOM")
    before = whole(table)
    tasks: list[rewrite_run.BuildTask] = []
    real = rewrite_run.build_files
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr("lakeindex.operations.cluster_run.current_bound", lambda: 20_000)
        patched.setattr(rewrite_run, "build_files", lambda given: tasks.extend(given) or real(given))
        done = table.cluster(sort="hilbert", columns=["ts", "v"], runner=RUNNER)
    assert done.files_after == 1
    assert len(tasks[0].parts) > 3
    assert whole(table).equals(before)
    assert pq.read_metadata(Path(table.uri) / files_of(table)[0].path).num_row_groups == len(tasks[0].parts)
    assert table.check().ok
    assert upsert(table, rows(0, 400, 2, "x"), "after", {}).updates == 400


def test_a_scheduled_plan_is_what_hudi_reads_and_is_carried_out(tmp_path: Path, version: dict[str, str]) -> None:
    table = table_of_parts(tmp_path, with_metadata=True, hoodie__index__type="GLOBAL_BLOOM", **version)
    before = whole(table)
    plan = table.cluster(["x"], sort="zorder", columns=["ts", "v"], schedule=True, runner=RUNNER)
    assert plan.scheduled
    assert (plan.files_before, plan.rows_after) == (3, 0)
    timeline = timeline_of(table)
    (pending,) = timeline.pending_writes
    is_old = version["hoodie__write__table__version"] == "6"
    assert (pending.time, pending.action) == (plan.instant, "replacecommit" if is_old else "clustering")
    requested = parse_requested_replace(open_storage(table.uri).read(timeline.path(pending)), "")
    assert {one.url.rpartition("/")[2] for one in requested.groups[0].slices} == {f.name for f in files_of(table)}
    assert requested.params["hoodie.clustering.plan.strategy.sort.columns"] == "ts,v"
    assert table.cluster(["x"], runner=RUNNER).noop, "what is planned is not planned twice"
    upsert(table, rows(100, 110, days="x"), "beside", {})
    upsert(table, [Row("z", "y", 1, "z")], "another partition", {})
    assert len(files_of(table)) == 4, "nothing was put into a file group of the plan"
    with pytest.raises(PendingInstantError, match=f"part of the pending clustering {plan.instant}"):
        upsert(table, rows(0, 2, 2), "touches")
    shouted = {**requested.params, LAYOUT_OPTION: "Z-ORDER"}
    Path(table.uri, timeline.path(pending)).write_bytes(format_requested_replace(replace(requested, params=shouted)))
    done = table.cluster(instant=plan.instant, runner=RUNNER)
    assert (done.instant, done.files_before, done.files_after, done.order) == (plan.instant, 3, 1, "z-order(ts,v)")
    assert not timeline_of(table).pending_writes
    assert whole(table).num_rows == before.num_rows + 11
    assert upsert(table, rows(0, 2, 2), "touches").updates == 2
    assert table.check().ok
    assert table.metadata_verify().ok


def test_an_update_lets_a_scheduled_clustering_lose(tmp_path: Path, version: dict[str, str]) -> None:
    table = table_of_parts(tmp_path, **version)
    plan = table.cluster(["x"], schedule=True, runner=RUNNER)
    other = table.cluster(["y"], schedule=True, runner=RUNNER)
    done = upsert(table, rows(0, 1, 2), "update", ALLOW)
    assert done.updates == 1
    assert any(f"clustering {plan.instant} was rolled back" in note for note in done.notes)
    assert [one.time for one in timeline_of(table).pending_writes] == [other.instant], "the other one stays"
    with pytest.raises(UsageError, match="no clustering scheduled"):
        table.cluster(instant=plan.instant)
    assert table.rollback(other.instant).instant == other.instant
    assert not timeline_of(table).pending
    assert not table.cluster(runner=RUNNER).noop
    assert table.check().ok


def test_a_clustering_that_is_committed_since_it_was_looked_at_does_not_lose(tmp_path: Path) -> None:
    """By a writer that stalled over a look at the timeline; rows that were changed in the new files would be doubled."""
    table = table_of_parts(tmp_path)
    plan = table.cluster(["x"], schedule=True, runner=RUNNER)
    before = timeline_of(table)
    assert table.cluster(instant=plan.instant, runner=RUNNER).instant == plan.instant
    upsert(table, rows(0, 10, 2), "update")
    there, files = whole(table), files_of(table)
    with (
        pytest.raises(WriteConflictError, match=f"{plan.instant} was committed by another writer"),
        maintaining(Table.open(open_storage(table.uri)), "a stalled writer's commit") as (context, _),
    ):
        give_way(context, before, [str(plan.instant)])
    assert (whole(table), files_of(table)) == (there, files)
    assert upsert(table, rows(0, 10, 3), "again").updates == 10
    assert not timeline_of(table).pending
    assert table.check().ok


def test_a_plan_whose_files_changed_is_not_carried_out(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path)
    plan = table.cluster(schedule=True, runner=RUNNER)
    store, timeline = open_storage(table.uri), timeline_of(table)
    (pending,) = timeline.pending
    data = store.read(timeline.path(pending))
    store.delete(timeline.path(pending))
    upsert(table, rows(0, 60, 2), "update")
    store.write(timeline.path(pending), data)  # as if a writer had not looked
    with pytest.raises(WriteConflictError, match="was changed since clustering"):
        table.cluster(instant=plan.instant)


def plan_of_another(table: LakeTable, *groups: ClusteringGroup) -> str:
    """Put a plan of another writer's on the timeline; its instant."""
    timeline = timeline_of(table)
    pending = Instant(next_instant_time(timeline.max_time, 0), timeline.layout.clustering, InstantState.REQUESTED)
    open_storage(table.uri).write(timeline.path(pending), format_requested_replace(RequestedReplace("CLUSTER", groups)))
    return pending.time


def slices_of(table: LakeTable, partitions: str) -> tuple[ClusteringSlice, ...]:
    return tuple(ClusteringSlice(path, file.file_id) for path in partitions for file in files_of(table, path))


def test_rows_of_a_plan_stay_in_their_partitions_and_are_there_once(tmp_path: Path, version: dict[str, str]) -> None:
    """Of a plan of another writer's that puts file groups of two partitions together, and of one that names one twice."""
    table = table_of_parts(tmp_path, **version)
    before = whole(table)
    plan = plan_of_another(table, ClusteringGroup(slices_of(table, "xy"), 1))
    done = table.cluster(instant=plan, runner=RUNNER)
    assert [(one.partition, one.files_before, one.files_after) for one in done.partitions] == [("x", 3, 1), ("y", 3, 1)]
    assert whole(table).equals(before)
    for groups in ([slices_of(table, "x") * 2], [slices_of(table, "xy"), slices_of(table, "x")]):
        plan = plan_of_another(table, *map(ClusteringGroup, groups))
        with pytest.raises(TableCorruptError, match="more than once") as no:
            table.cluster(instant=plan, runner=RUNNER)
        assert f"lakeindex rollback TABLE {plan}" in str(no.value.hint)
        assert table.rollback(plan).instant == plan
    assert whole(table).equals(before)
    assert table.check().ok


def test_no_plan_puts_buckets_together(tmp_path: Path, version: dict[str, str]) -> None:
    """Not even where it may lose: Hudi makes such plans of any table."""
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2", **version)
    upsert(table, rows(0, 40), "first", {})
    before, files = whole(table), files_of(table)
    plan = plan_of_another(table, ClusteringGroup(slices_of(table, "x"), 1))
    with pytest.raises(TableUnsupportedError, match=f"buckets, and the clustering {plan} would") as no:
        table.cluster(instant=plan, options=ALLOW, runner=RUNNER)
    assert (whole(table), files_of(table)) == (before, files)
    assert f"lakeindex rollback TABLE {plan}" in str(no.value.hint)
    assert table.rollback(plan).instant == plan
    assert upsert(table, rows(0, 40, 2), "second", {}).updates == 40
    assert table.check().ok


@pytest.mark.parametrize("version", [{}, {"hoodie__write__table__version": "9"}], ids=["6", "9"])
def test_an_overwrite_of_what_a_pending_clustering_replaces_is_refused_before_anything_is_written(
    tmp_path: Path, version: dict[str, str]
) -> None:
    table = table_of_parts(tmp_path, **version)
    plan = table.cluster(["x"], schedule=True, runner=RUNNER)
    files, runs = files_of(table), set((tmp_path / "t").rglob("*.parquet"))
    for overwrite in (table.insert_overwrite, table.insert_overwrite_table):
        for dry_run in (True, False):
            with pytest.raises(PendingInstantError, match=f"is part of the pending clustering {plan.instant}"):
                overwrite(batch_of([Row("new", "x", 1, "")]), dry_run=dry_run)
    assert (files_of(table), set((tmp_path / "t").rglob("*.parquet"))) == (files, runs)
    assert [one.time for one in timeline_of(table).pending] == [plan.instant]


def test_a_commit_beside_it_is_not_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that changes a file group makes the clustering plan anew; others go on."""
    table = table_of_parts(tmp_path, 4)
    real, beside = rewrite_run.build_files, iter([rows(0, 2, 2), None, rows(200, 210, days="x")])

    def build(tasks: tuple[rewrite_run.BuildTask, ...]) -> tuple[rewrite_run.BuiltFile, ...]:
        batch = next(beside, None)
        if batch is not None:
            table.upsert(batch_of(batch), options={**OVERTAKES, **ALLOW, **NEW_FILES}, batch_id=batch[0].id)
        return real(tasks)

    monkeypatch.setattr(rewrite_run, "build_files", build)
    done = table.cluster(runner=RUNNER)
    oracle = Oracle()
    for batch in (rows(0, 80), rows(0, 2, 2), rows(200, 210, days="x")):
        oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert [one.action for one in table.history()].count("rollback") == 1, "the second batch was in nobody's way"
    assert done.rows_after == done.rows_before == 80
    assert table.check().ok


def test_scheduled_clusterings_lose_beside_one_at_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An update that changes file groups of all: the one at work sees that by itself, be it before or after the others."""
    table = table_of_parts(tmp_path, 2, days="xyz")
    earlier = table.cluster(["x"], schedule=True, runner=RUNNER)
    real, notes, later = rewrite_run.build_files, list[str](), list[str]()

    def build(tasks: tuple[rewrite_run.BuildTask, ...]) -> tuple[rewrite_run.BuiltFile, ...]:
        monkeypatch.undo()
        later.append(str(table.cluster(["z"], schedule=True, runner=RUNNER).instant))
        notes.extend(table.upsert(batch_of(rows(0, 3, 2, "xyz")), options={**OVERTAKES, **ALLOW}).notes)
        return real(tasks)

    monkeypatch.setattr(rewrite_run, "build_files", build)
    done = table.cluster(["y"], runner=RUNNER)
    for time in (str(earlier.instant), *later):
        assert any(f"clustering {time} was rolled back" in note for note in notes)
    assert not timeline_of(table).pending
    assert (done.files_before, done.files_after) == (2, 1)
    oracle = Oracle()
    for batch in (rows(0, 40, days="xyz"), rows(0, 3, 2, "xyz")):
        oracle.apply(batch)
    assert content_of(table) == oracle.content()


def test_an_update_waits_its_turn_or_is_planned_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where updates are rejected, one that meets a clustering at work is not committed over it."""
    table = table_of_parts(tmp_path, days="x")
    real = rewrite_run.build_files

    def build(tasks: tuple[rewrite_run.BuildTask, ...]) -> tuple[rewrite_run.BuiltFile, ...]:
        with pytest.raises(WriteConflictError, match="part of the clustering"):
            table.upsert(batch_of(rows(0, 2, 2)), options={**OVERTAKES, "lakeindex.conflict.retries": "0"})
        return real(tasks)

    monkeypatch.setattr(rewrite_run, "build_files", build)
    assert table.cluster(runner=RUNNER).files_after == 1
    monkeypatch.undo()
    assert upsert(table, rows(0, 2, 2, "x"), "later").updates == 2


@pytest.mark.parametrize("scheduled", [False, True])
@pytest.mark.few(2)
def test_a_killed_run_is_taken_up_or_rolled_back(
    tmp_path: Path, version: dict[str, str], scheduled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_of_parts(tmp_path, **version)
    before = whole(table)
    instant = table.cluster(schedule=True, runner=RUNNER).instant if scheduled else None

    def dies(_: object) -> None:
        raise KeyboardInterrupt

    def killed() -> None:
        with monkeypatch.context() as patched:
            patched.setattr(rewrite_run, "encode_parts", lambda *_: dies(None))
            with pytest.raises(KeyboardInterrupt):
                table.cluster(instant=instant, runner=RUNNER)

    killed()
    (pending,) = timeline_of(table).pending_writes
    assert pending.state is InstantState.INFLIGHT
    assert pending.action == timeline_of(table).layout.clustering
    upsert(table, rows(0, 1, 2), "next")
    assert not timeline_of(table).pending_writes, "the next writer rolls it back"
    instant = table.cluster(schedule=True, runner=RUNNER).instant if scheduled else None
    killed()
    done = table.cluster(instant=instant, runner=RUNNER)
    assert done.instant == timeline_of(table).completed_writes[-1].time
    assert instant in (None, done.instant)
    assert done.rows_after == before.num_rows
    assert not timeline_of(table).pending_writes
    assert table.check().ok


def test_what_hudi_took_over_is_left_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = table_of_parts(tmp_path)
    monkeypatch.setattr(rewrite_run, "encode_parts", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        table.cluster(["x"], runner=RUNNER)
    monkeypatch.undo()
    store, timeline = open_storage(table.uri), timeline_of(table)
    (pending,) = timeline.pending_writes
    store.write(timeline.path(pending), b"")  # Hudi's own inflight file
    upsert(table, rows(1, 2, 2, "xy"), "another partition", {})
    assert timeline_of(table).pending_writes == (pending,)
    with pytest.raises(PendingInstantError):
        upsert(table, rows(0, 1, 2), "touches", {})
    with pytest.raises(PendingInstantError, match="in flight"):
        upsert(table, rows(0, 1, 2), "touches", ALLOW)
    assert upsert(table, rows(0, 1, 2), "touches", {**ALLOW, "lakeindex.pending.foreign.max.age": "0"}).updates == 1
    assert table.check().ok


def test_a_new_file_that_a_power_loss_cut_short_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The note that it was made may outlive a part of it."""
    table = table_of_parts(tmp_path)
    before, known = whole(table), {*Path(table.uri).rglob("x/*.parquet")}
    monkeypatch.setattr(rewrite_run.Mover, "publish", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        table.cluster(["x"], runner=RUNNER)
    monkeypatch.undo()
    (made,) = {*Path(table.uri).rglob("x/*.parquet")} - known
    made.write_bytes(made.read_bytes()[:-9])
    done = table.cluster(["x"], runner=RUNNER)
    assert (done.files_before, done.files_after) == (3, 1)
    assert made.name in {Path(one.path).name for one in files_of(table)}, "the same run went on"
    assert whole(table).equals(before)
    assert table.check(deep=True).ok


@pytest.mark.parametrize("version", [{}, {"hoodie__write__table__version": "9"}], ids=["6", "9"])
def test_a_clustering_that_hudi_carries_out_is_not_taken_over(version: dict[str, str]) -> None:
    """It begins after it was seen on the timeline, and before it is claimed; nor is it rolled back then."""
    world = MemoryTable(**version)
    for number in range(2):
        world.upsert([Row(f"k{number}", "x", 1, "v")], hoodie__parquet__small__file__limit="0")
    plan = world.table.cluster(schedule=True, runner=RUNNER)
    (pending,) = world.timeline().pending
    begun = replace(pending, state=InstantState.INFLIGHT)
    done = world.once(
        lambda call: call.name == "create" and call.path.endswith(f"/instants/{plan.instant}.json"),
        lambda: world.store.write(world.timeline().path(begun), b""),
    )
    with pytest.raises(WriteConflictError, match="is being carried out"):
        world.table.cluster(instant=plan.instant, runner=RUNNER)
    assert done
    assert world.timeline().pending == (begun,)
    assert world.store.list(".hoodie/.heartbeat") == []
    for attempt in (world.table.rollback, lambda instant: world.table.cluster(instant=instant, runner=RUNNER)):
        with pytest.raises((PendingInstantError, UsageError)):
            attempt(plan.instant)
        assert world.timeline().pending == (begun,)
    assert world.table.rollback(plan.instant, force=True).instant == plan.instant
    assert world.timeline().pending == ()


def test_it_goes_back_and_its_files_are_cleaned(tmp_path: Path, version: dict[str, str]) -> None:
    table = table_of_parts(tmp_path, with_metadata=True, hoodie__index__type="GLOBAL_BLOOM", **version)
    before, old = whole(table), files_of(table)
    done = table.cluster(runner=RUNNER)
    rollback_instant(Table.open(open_storage(table.uri)), done.instant or "")
    assert files_of(table) == old
    assert whole(table).equals(before)
    table.cluster(runner=RUNNER)
    for n in range(3):
        upsert(table, rows(n, n + 1, 5), f"later {n}", {})
    gone = table.clean(1)
    assert {file.name for file in old} <= {path.rpartition("/")[2] for path in gone.files}
    assert table.check().ok


def test_a_run_goes_on_with_the_files_that_it_made_before_it_died(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of whole files that it had read, too; the commit says the checksum of each."""
    table = table_of_parts(tmp_path)
    before, real, built = whole(table), rewrite_run._build, list[rewrite_run.BuiltFile]()

    def dies(task: rewrite_run.BuildTask) -> rewrite_run.BuiltFile:
        if built:
            raise KeyboardInterrupt
        built.append(real(task))
        return built[0]

    with monkeypatch.context() as patched:
        patched.setattr(rewrite_run, "_build", dies)
        with pytest.raises(KeyboardInterrupt):
            table.cluster(runner=RUNNER)
    encode, encoded = rewrite_run.encode_parts, list[str]()
    monkeypatch.setattr(
        rewrite_run, "encode_parts", lambda parts, task: encoded.append(task.new.path) or encode(parts, task)
    )
    assert table.cluster(runner=RUNNER).files_after == 2
    files = {one.path for day in "xy" for one in files_of(table, day)}
    assert files == {built[0].file.path, *encoded}
    assert len(encoded) == 1
    timeline = timeline_of(table)
    commit = timeline.commit_metadata(open_storage(table.uri), timeline.completed_writes[-1])
    assert set(commit.footer_digests) == files
    assert whole(table).equals(before)
    assert table.check(deep=True).ok


def test_pieces_that_were_cut_at_other_places_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a run that is started again with more memory."""
    table = table_of_parts(tmp_path, 4, 100, "x")
    before = whole(table)
    bound = "lakeindex.operations.cluster_run.current_bound"
    with monkeypatch.context() as patched:
        patched.setattr(bound, lambda: 20_000)
        patched.setattr(rewrite_run, "build_files", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            table.cluster(sort="columns", columns=["v"], runner=RUNNER)
    monkeypatch.setattr(bound, lambda: 40_000)
    assert table.cluster(sort="columns", columns=["v"], runner=RUNNER).rows_after == 400
    assert whole(table).equals(before)


@pytest.mark.parametrize("what", ["nothing", "cuts", "codec", "row groups", "filter"])
def test_files_that_were_made_otherwise_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """By a run that is started again with other options, or with more memory."""
    table = make_table(tmp_path / "t")
    values = "aaaaaaabcccccddeeeee"  # cut into 8 and into 12 places it has the same number of each, and others
    for n in range(2):
        batch = [Row(f"k{key}", "x", 1, value) for key, value in enumerate(values) if key % 2 == n]
        upsert(table, batch, f"part {n}")
    size = sum(one.size_bytes for one in files_of(table))
    before, bound = whole(table), "lakeindex.operations.cluster_run.current_bound"
    asked = {"sort": "columns", "columns": ["v"], "target_size": size // 4 + 1, "runner": RUNNER}
    options = {
        "codec": {"hoodie.parquet.compression.codec": "gzip"},
        "row groups": {"lakeindex.parquet.row.group.rows": "50"},
        "filter": {"hoodie.index.bloom.fpp": "0.5"},
    }.get(what, {})
    instants = []

    def dies(session: WriteSession, *_: object) -> None:
        instants.append(session.instant)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(bound, lambda: write_bytes(size, 0) // 7)
        patched.setattr(WriteSession, "publish", dies)
        with pytest.raises(KeyboardInterrupt):
            table.cluster(**asked)
    monkeypatch.setattr(bound, lambda: write_bytes(size, 0) // (11 if what == "cuts" else 7))
    done = table.cluster(**asked, options=options)
    assert (done.rows_after, done.files_after) == (20, 4)
    assert (done.instant in instants) is (what == "nothing")
    assert whole(table).equals(before)


def test_what_does_not_fit_is_neither_put_in_order_nor_copied_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options, bound = {"lakeindex.parquet.row.group.rows": "10"}, "lakeindex.operations.cluster_run.current_bound"
    tasks: list[rewrite_run.BuildTask] = []
    real, copied = rewrite_run.build_files, copied_of(monkeypatch)
    monkeypatch.setattr(rewrite_run, "build_files", lambda given: tasks.extend(given) or real(given))
    for case, step, times, parts in (("overlap", 2, 5, 2), ("apart", 1, 2, 3)):
        table = make_table(tmp_path / case / "t")
        for n in range(2):
            span = range(n, 120, 2) if step == 2 else range(n * 60, n * 60 + 60)
            upsert(table, [Row(f"k{key:03d}", "x", 1, f"{key}") for key in span], f"{n}", {**NEW_FILES, **options})
        before, size = whole(table), sum(one.size_bytes for one in files_of(table))
        with monkeypatch.context() as patched:
            patched.setattr(bound, lambda times=times, size=size: times * size)
            assert table.cluster(runner=RUNNER, options=options).files_after == 1
        assert len(tasks.pop().parts) == parts, case
        assert whole(table).equals(before)
    assert not copied


def test_a_file_of_many_small_row_groups_is_not_copied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, copied = make_table(tmp_path / "t"), copied_of(monkeypatch)
    for n in range(2):
        options = {**NEW_FILES, "lakeindex.parquet.row.group.rows": "4"}
        upsert(table, rows(n * 16, n * 16 + 16, days="x"), f"{n}", options)
    table.cluster(sort="none", runner=RUNNER, options={"lakeindex.parquet.row.group.rows": "20"})
    (file,) = files_of(table)
    assert not copied
    assert pq.read_metadata(Path(table.uri) / file.path).num_row_groups == 2


def test_nothing_is_published_that_lost_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or has one twice in the place of another, or has not read a file that it takes out."""
    table = table_of_parts(tmp_path, days="x")
    real, parts = RowOrder.order, cluster_run.whole_parts

    def doubled(self: RowOrder, found: pa.Table, file: BaseFile) -> pa.Array:
        order = real(self, found, file)
        return pa.concat_arrays([order.slice(1, 1), order.slice(1)])

    for of, name, does, what in (
        (RowOrder, "order", lambda *how: real(*how).slice(1), "60 rows were read, the new files hold 59"),
        (RowOrder, "order", doubled, "60 rows were read, the new files hold 60, or other ones"),
        (
            cluster_run,
            "whole_parts",
            lambda *how: [(parts(*how)[0][0][:-1], False)],
            "the old files have 60 rows, the new",
        ),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(of, name, does)
            with pytest.raises(InvariantError, match=what):
                table.cluster(runner=RUNNER)
        assert not timeline_of(table).pending
    assert table.check().ok


def test_a_plan_and_a_choice_are_two_things(tmp_path: Path) -> None:
    table = table_of_parts(tmp_path)
    plan = table.cluster(["x"], schedule=True, runner=RUNNER)
    with pytest.raises(UsageError, match=f"the plan {plan.instant} says by itself"):
        table.cluster(instant=plan.instant, schedule=True)
    with pytest.raises(UsageError, match="says by itself"):
        table.cluster(["y"], instant=plan.instant)
    with pytest.raises(UsageError, match="says by itself"):
        table.cluster(instant=plan.instant, max_bytes=1)
    assert [one.time for one in timeline_of(table).pending_writes] == [plan.instant]


def test_tables_that_cannot_be_are_refused(tmp_path: Path) -> None:
    virtual = make_table(tmp_path / "t", hoodie__populate__meta__fields="false")
    with pytest.raises(TableUnsupportedError, match="clustering"):
        virtual.cluster()
    assert not virtual.maintain(["cluster"]).steps[0].changed
    buckets = make_table(tmp_path / "b" / "t", hoodie__index__type="BUCKET")
    with pytest.raises(TableUnsupportedError, match="buckets"):
        buckets.cluster(schedule=True)
