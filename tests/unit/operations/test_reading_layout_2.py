"""Incremental reads where the timeline says when writes were completed: they go by that, as Hudi's do."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.recovery import maintaining
from lakeindex.commit.services.archive import archive_instants
from lakeindex.errors import UsageError
from lakeindex.operations.rows import file_reader
from lakeindex.table.handle import Table
from lakeindex.timeline import archived_timeline
from tests.builders import Row, batch_of, make_table
from tests.meanwhile import MemoryTable

APART = {"hoodie.parquet.small.file.limit": "0"}
DAYS = ("d0", "d1", "d2")


def three_commits(
    folder: Path, days: tuple[str, str, str] = DAYS, keys: tuple[str, str, str] = ("k0", "k1", "k2")
) -> tuple[LakeTable, list[tuple[str, str]]]:
    """A table, and the instant and completion time of each commit; the second completed after the third."""
    table = make_table(folder / "t", hoodie__write__table__version="9")
    for number in range(3):
        table.upsert(batch_of([Row(keys[number], days[number], 1, "v")]), batch_id=f"b{number}", options=APART)
    timeline = folder / "t" / ".hoodie" / "timeline"
    names = sorted(path.name for path in timeline.glob("*_*.commit"))
    (t1, c1), (t2, c2), (t3, c3) = (tuple(name.removesuffix(".commit").split("_")) for name in names)
    late = f"{int(c3) + 5}"
    (timeline / f"{t2}_{c2}.commit").rename(timeline / f"{t2}_{late}.commit")
    return table, [(t1, c1), (t2, late), (t3, c3)]


def keys_since(table: LakeTable, point: str) -> set[object]:
    return set(table.read(since=point, meta=True)["id"].to_pylist())


def test_a_write_that_was_completed_later_is_later(tmp_path: Path) -> None:
    table, (first, second, third) = three_commits(tmp_path)
    assert keys_since(table, first[0]) == {"k1", "k2"}
    assert keys_since(table, third[0]) == {"k1"}, "it began before the third, and was completed after it"
    assert keys_since(table, second[0]) == set()


def test_a_completion_time_may_be_named(tmp_path: Path) -> None:
    table, (first, second, third) = three_commits(tmp_path)
    assert keys_since(table, first[1]) == {"k1", "k2"}
    assert keys_since(table, third[1]) == {"k1"}
    assert keys_since(table, second[1]) == set()


def test_rows_of_one_file_are_told_apart_by_when_they_were_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clustering puts them there. With a condition and without; with columns that the condition does not ask for read apart, or at once."""
    table, (first, second, third) = three_commits(tmp_path, ("d", "d", "d"))
    assert table.cluster().files_after == 1
    expected = [(first, {"k1", "k2"}), (third, {"k1"}), (second, set[str]())]
    for worth in (file_reader._WORTH_A_REQUEST, 0):
        monkeypatch.setattr(file_reader, "_WORTH_A_REQUEST", worth)
        for point, keys in [(point, keys) for points, keys in expected for point in points]:
            assert keys_since(table, point) == keys
            for where, columns in (
                ("ts = 1", None),
                ("ts = 1", ["id"]),
                ("day = 'd' AND id >= 'k0'", ["v", "id"]),
                (None, ["id"]),
            ):
                scan = table.scan(since=point, where=where, columns=columns)
                assert set(scan.to_arrow()["id"].to_pylist()) == keys, (point, where)
                assert scan.count() == len(keys)


def test_a_write_that_was_completed_late_is_archived_with_what_was_completed_before_it(tmp_path: Path) -> None:
    """By its instant alone it would be older than the third, and who has read up to the third would never get it."""
    table, (_, second, third) = three_commits(tmp_path)
    table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART)
    done = table.archive(keep_commits=2, options={"hoodie.cleaner.commits.retained": "1"})
    assert second[0] in str(done.held_by)
    for point in third:
        assert keys_since(table, point) == {"k1", "k3"}
        assert table.changes(since=point).to_arrow()["id"].to_pylist() == ["k1", "k3"]
    assert [one.instant for one in table.history()][-1] == second[0], "what was completed before both went"
    assert table.archive(keep_commits=1, options={"hoodie.cleaner.commits.retained": "1"}).held_by is None
    assert len(table.history()) == 1


def test_a_point_before_the_end_of_all_writes_that_are_not_archived_is_none_of_a_feed(tmp_path: Path) -> None:
    """An archived write that began before it may have been completed after it."""
    table, _ = three_commits(tmp_path)
    begun = str(table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART).instant)
    table.archive(keep_commits=1, options={"hoodie.cleaner.commits.retained": "1"})
    within = str(int(begun) + 1)
    with pytest.raises(UsageError, match="were archived") as caught:
        table.changes(since=within)
    assert str(caught.value.hint).endswith(begun)
    assert table.changes(since=begun).to_arrow().num_rows == 0


def test_who_reads_on_from_an_archived_write_gets_what_was_completed_after_it(tmp_path: Path) -> None:
    table, (first, second, third) = three_commits(tmp_path)
    table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART)
    table.archive(keep_commits=1, options={"hoodie.cleaner.commits.retained": "1"})
    assert len(table.history()) == 1
    for points, keys in ((first, {"k1", "k2", "k3"}), (third, {"k1", "k3"}), (second, {"k3"})):
        for point in points:
            assert keys_since(table, point) == keys, point


def test_a_write_that_was_completed_late_is_not_left_out_where_hudi_has_archived_it(tmp_path: Path) -> None:
    """Hudi archives by instants alone: what was completed before it stays."""
    table, (_, _, third) = three_commits(tmp_path)
    opened = Table.at(table.uri)
    going = opened.load_timeline().completed_writes[:2]
    with maintaining(opened, "archiving") as (_, lock):
        assert archive_instants(opened.storage, opened.load_timeline, lock, going)
    last = str(table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART).instant)
    for point in third:
        assert keys_since(table, point) == {"k1", "k3"}
        with pytest.raises(UsageError, match="were archived") as caught:
            table.changes(since=point)
        assert str(caught.value.hint).endswith(last)
        with pytest.raises(UsageError, match="were archived"):
            table.changes(until=point)
    assert table.changes(since=last).to_arrow().num_rows == 0


def test_of_an_archive_of_before_the_point_footers_are_read() -> None:
    """And nothing else; a file with what was completed after it is read as a whole."""
    batches = [[Row(f"k{number}", "d", number, "v")] for number in range(8)]
    world = MemoryTable.holding(*batches, hoodie__write__table__version="9")
    times = [(one.time, str(one.completion_time)) for one in world.timeline().completed_writes]
    world.table.archive(keep_commits=3, options={"hoodie.cleaner.commits.retained": "1"})
    reads: list[str] = []
    world.store.hook = lambda call: reads.append(call.name) if _is_of_archive(call.path) else None
    looks: list[Callable[[str], Any]] = [
        lambda since: world.table.changes(since=since),
        lambda since: world.table.scan(since=since),
    ]
    for point, look in itertools.product(times[-2], looks):
        for forget in (archived_timeline._read_log, archived_timeline._read_end):
            forget.cache_clear()
        reads.clear()
        assert look(point).to_arrow()["id"].to_pylist() == ["k7"]
        assert set(reads) == {"read_range"}
    assert world.table.scan(since=times[1][0]).count() == 6
    assert "read" in reads


def _is_of_archive(path: str) -> bool:
    return path.startswith(".hoodie/timeline/history/") and path.endswith(".parquet")


def test_an_archive_whose_footers_say_nothing_is_read(tmp_path: Path) -> None:
    table, (_, _, third) = three_commits(tmp_path)
    opened = Table.at(table.uri)
    going = opened.load_timeline().completed_writes[:2]
    with maintaining(opened, "archiving") as (_, lock):
        assert archive_instants(opened.storage, opened.load_timeline, lock, going)
    table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART)
    (file,) = (tmp_path / "t" / ".hoodie" / "timeline" / "history").glob("*.parquet")
    pq.write_table(pq.read_table(file, partitioning=None), file, write_statistics=False)
    assert keys_since(table, third[1]) == {"k1", "k3"}
    with pytest.raises(UsageError, match="were archived"):
        table.changes(since=third[1])


def test_a_clean_keeps_what_the_writes_superseded_that_were_completed_last(tmp_path: Path) -> None:
    """Readers had it until then, though the write began before all that are retained."""
    table, (_, second, third) = three_commits(tmp_path, ("d0", "d0", "d1"), ("k0", "k0", "k2"))
    done = table.clean(1)
    assert (done.earliest_retained, len(done.files)) == (second[0], 0)
    assert table.changes(since=third[0]).to_arrow()["id"].to_pylist() == ["k0", "k0"]
    table.upsert(batch_of([Row("k3", "d3", 1, "v")]), options=APART)
    assert len(table.clean(1).files) == 1
    assert table.check().ok
