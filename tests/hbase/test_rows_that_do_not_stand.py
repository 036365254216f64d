"""Puts that are lost, hidden or repeated: what was written is read back, and written again until it stands."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable
from lakeindex.errors import HBaseTableError
from lakeindex.index.hbase.hbase_rows import HBaseRows
from lakeindex.index.hbase.hbase_rows import Row as HBaseRow
from lakeindex.index.hbase.hbase_store import HBaseIndex, HBaseStore, IndexMarker, MarkerRow
from lakeindex.index.locations.change_log import ChangeLog
from lakeindex.index.locations.store_context import Completed, StoreContext
from lakeindex.options.parse import parse_options
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Row, batch_of, content_of
from tests.hbase.conftest import Bench
from tests.hbase.test_upserts import FIRST, SECOND, assert_follows, dies, oracle_of

pytestmark = pytest.mark.hbase


def store_of(bench: Bench, table: LakeTable) -> HBaseStore:
    """The store as a task opens it."""
    storage = open_storage(table.uri)
    completed = Completed.of(Table.open(storage).load_timeline())
    spec = bench.spec(table)
    view = ChangeLog(storage, spec.index_type).load(completed).view
    context = StoreContext(storage, "table", spec, parse_options(bench.options()), completed, view)
    return HBaseIndex(spec).open(context)


def two_commits(bench: Bench) -> tuple[LakeTable, list[str]]:
    table = bench.table()
    done = [table.upsert(batch_of(batch), options=bench.options()) for batch in (FIRST, SECOND)]
    return table, [one.instant or "" for one in done]


def test_puts_that_the_server_lost_are_put_again(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    with monkeypatch.context() as patched:
        patched.setattr(HBaseStore, "apply", dies)
        table.upsert(batch_of(SECOND), options=bench.options())
    rows = bench.rows()
    rows.delete(["e"], rows.server_time())  # was put before the commit
    table.upsert(batch_of([Row("e", "y", 3, "3")]), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND, [Row("e", "y", 3, "3")]).content()
    assert_follows(bench, table)


def test_server_is_killed_between_commit_and_apply(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    with monkeypatch.context() as patched:
        patched.setattr(HBaseStore, "apply", dies)
        table.upsert(batch_of(SECOND), options=bench.options())
    bench.server.kill()
    bench.server.start()
    third = [Row(k, "x", 3, "3") for k in "abcdef"]
    try:
        table.upsert(batch_of(third), options=bench.options())
    except HBaseTableError:  # the whole table was in the server's memory only: it is gone, and that is said
        table.index_build(options=bench.options())
        table.upsert(batch_of(third), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND, third).content()
    assert_follows(bench, table)


def test_a_put_that_a_cell_of_a_fast_clock_hides_is_put_above_it(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    rows = bench.rows()
    ahead = rows.server_time() + 60_000
    place = bench.held()["c"]
    rows.put([("c", place)], ahead)
    second = [Row("c", "x", 2, "2")]
    table.upsert(batch_of(second), options=bench.options())  # moves c
    assert_follows(bench, table)
    assert rows.get(["c"])["c"].stamp == ahead + 1
    table.upsert(batch_of([Row("c", "x", 3, "", deleted=True)]), options=bench.options())
    assert_follows(bench, table)


def test_a_table_that_keeps_nothing_is_said_to_do_so(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    rows = bench.rows()
    rows.delete(["new"], rows.server_time() + 3_600_000)  # hides every put of the next hour
    new = [Row("new", "x", 2, "2")]
    table.upsert(batch_of(new), options=bench.options())  # committed: the table is right, the index is behind
    assert content_of(table) == oracle_of(FIRST, new).content()
    with pytest.raises(HBaseTableError, match=r"does not keep what is written: 1 rows were put 4 times.*'new'"):
        table.upsert(batch_of(new), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, new).content()


@pytest.mark.parametrize("which", [0, 1])
def test_a_delta_applied_again_changes_nothing(bench: Bench, which: int) -> None:
    table, instants = two_commits(bench)
    held, name = bench.held(), instants[which]
    forget(bench, name)
    store_of(bench, table).apply([name])  # the first one after the second, as a writer does that slept in between
    assert bench.held() == held
    assert_follows(bench, table)


def forget(bench: Bench, name: str) -> None:
    """Let the marker not know that a delta was applied."""

    def change(marker: IndexMarker | None) -> IndexMarker:
        assert marker is not None
        return replace(marker, applied=tuple(n for n in marker.applied if n != name), prepared=())

    MarkerRow(bench.rows()).change(change)


def test_without_reading_back_nothing_is_noticed(bench: Bench) -> None:
    table = bench.table()
    options = bench.options(lakeindex__hbase__verify__puts="false")
    table.upsert(batch_of(FIRST), options=options)
    table.upsert(batch_of(SECOND), options=options)
    assert_follows(bench, table)
    assert content_of(table) == oracle_of(FIRST, SECOND).content()


def test_a_row_whose_instant_does_not_count_makes_its_key_unknown(bench: Bench) -> None:
    table, _ = two_commits(bench)
    rows = bench.rows()
    for key, commit in (("a", "20990101000000000"), ("d中", "")):
        rows.put([(key, HBaseRow(commit, "00000000-0000-0000-0000-000000000000-0", "x"))], rows.server_time() + 1)
    third = [Row(k, "x", 3, "3") for k in ("a", "d中", "c", "new")]
    counts = oracle_of(FIRST, SECOND)
    expected = counts.apply(third)
    summary = table.upsert(batch_of(third), options=bench.options())
    assert {name: getattr(summary, name) for name in expected} == expected
    assert content_of(table) == counts.content()


def test_batches_ask_for_as_many_rows_as_they_may(bench: Bench) -> None:
    rows = bench.rows(
        hoodie__index__hbase__get__batch__size="3",
        hoodie__index__hbase__put__batch__size="4",
        lakeindex__hbase__create__table="true",
    )
    rows.check(create=True)
    wanted = [(f"k{n:02d}é", HBaseRow("20260101000000000", f"f{n}", "p")) for n in range(50)]
    assert rows.put(wanted, 1000) == 50
    found = rows.get([key for key, _ in wanted] + ["none"])
    assert {key: replace(row, stamp=0) for key, row in found.items()} == dict(wanted)
    assert [key for key, _ in rows.scan()] == sorted(key for key, _ in wanted)
    assert rows.delete_if_commit(["k00é", "none"], "20250101000000000") == 0
    assert rows.delete_if_commit(["k00é", "k01é", "none"], "20260101000000000") == 2
    assert set(rows.get([key for key, _ in wanted])) == {key for key, _ in wanted[2:]}
    rows.put(wanted[:1], 999)  # older than its removal
    assert rows.get(["k00é"]) == {}


def test_what_a_later_commit_puts_meanwhile_is_not_deleted(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each row goes up to its own cell; that of another row may be newer than what came."""
    rows = bench.rows(lakeindex__hbase__create__table="true")
    rows.check(create=True)
    mine, later = (HBaseRow(f"{year}0101000000000", "f", "p") for year in (2026, 2027))
    rows.put([("early", mine)], 1000)
    rows.put([("late", mine)], 3000)
    real = HBaseRows.get

    def get(self: HBaseRows, keys: Sequence[str]) -> dict[str, HBaseRow]:
        found = real(self, keys)
        rows.put([("early", later)], 2000)
        return found

    monkeypatch.setattr(HBaseRows, "get", get)
    assert rows.delete_if_commit(["early", "late"], mine.commit) == 2
    assert real(rows, ["early", "late"]) == {"early": replace(later, stamp=2000)}


def test_rows_are_paced(bench: Bench) -> None:
    import time

    limits = {
        "hoodie__index__hbase__max__qps__per__region__server": "100",
        "hoodie__index__hbase__qps__fraction": "0.5",
    }
    rows = bench.rows(hoodie__index__hbase__get__batch__size="10", **limits)
    rows.check(create=True)
    begun = time.monotonic()
    rows.get([f"k{n}" for n in range(60)])  # 50 a second; the first batch at once
    assert 0.9 < time.monotonic() - begun < 3


def test_a_scan_goes_on_over_a_lost_connection(bench: Bench) -> None:
    rows = bench.rows()
    rows.check(create=True)
    wanted = {f"k{n:06d}": HBaseRow("20260101000000000", "f", "p") for n in range(45_000)}
    rows.put(wanted.items(), 1000)
    scan = rows.scan()
    first = [next(scan)[0] for _ in range(10)]
    bench.server.kill_thrift()
    bench.server.start()
    assert first + [key for key, _ in scan] == sorted(wanted)
