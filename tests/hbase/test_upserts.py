"""Whole upserts through the public door, with HBase alive, restarted, dead, and dying between two steps."""

from __future__ import annotations

import random
import shutil
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from msgspec.structs import replace

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import (
    HBaseTableError,
    HBaseUnavailableError,
    IndexChangedError,
    IndexNotBuiltError,
    StorageError,
    WriteConflictError,
)
from lakeindex.files.file_system_view import Snapshot
from lakeindex.index.hbase import hbase_store as hbase
from lakeindex.index.hbase.hbase_rows import HBaseRows
from lakeindex.index.hbase.hbase_store import HBaseStore, MarkerRow, RowWriter
from lakeindex.index.locations.store_context import NOTHING_COMPLETED, LogView, StoreContext
from lakeindex.index.locations.stored_index import DELTA_SCHEMA
from lakeindex.operations.index import opened_index
from lakeindex.operations.table_services import rollback_table
from lakeindex.options.parse import parse_options
from lakeindex.run.index import stored_session
from lakeindex.run.index.stored_session import StoredSession
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table
from tests.hbase.conftest import Bench
from tests.stored_indexes import unseen

pytestmark = pytest.mark.hbase

DAYS = ("2026/01/01", "2026/01/02", "2026/01/03")
FIRST = [Row(k, d, 1, "1") for k, d in (("a", "x"), ("b", "x"), ("c", "y"), ("d中", "y"))]
SECOND = [Row("a", "x", 2, "2"), Row("c", "x", 2, "2"), Row("e", "y", 2, "2"), Row("b", "x", 2, "", deleted=True)]


def oracle_of(*batches: list[Row]) -> Oracle:
    oracle = Oracle(is_global=True)
    for batch in batches:
        oracle.apply(batch)
    return oracle


def some_rows(choice: random.Random, keys: int, count: int, version: int) -> list[Row]:
    return [
        Row(f"k{choice.randrange(keys):05d}", choice.choice(DAYS), version, f"v{version}", choice.random() < 0.1)
        for _ in range(count)
    ]


def places(table: LakeTable) -> dict[str, tuple[str, str]]:
    """Where each key of the table lives, from its files."""
    found = {}
    for row in table.read(meta=True).to_pylist():
        found[row["_hoodie_record_key"]] = (
            row["_hoodie_partition_path"],
            row["_hoodie_file_name"].partition("_")[0],
        )
    return found


def assert_follows(bench: Bench, table: LakeTable) -> None:
    """HBase says of every key where it is, and of no other."""
    assert {key: row.place for key, row in bench.held().items()} == places(table)


def test_rows_are_laid_out_as_hudi_does_it(bench: Bench) -> None:
    table = bench.table()
    one = table.upsert(batch_of(FIRST), options=bench.options())
    two = table.upsert(batch_of(SECOND), options=bench.options())
    held = bench.held()
    assert {key: row.commit for key, row in held.items()} == {
        "a": one.instant,  # an update leaves the row as it is
        "c": two.instant,  # a move is an insert
        "d中": one.instant,
        "e": two.instant,
    }
    assert_follows(bench, table)
    client = bench.rows()
    cells = client.client.call(lambda c: c.getRow(bench.name.encode(), "d中".encode(), {}))[0].columns
    assert set(cells) == {b"_s:commit_ts", b"_s:file_name", b"_s:partition_path"}
    assert cells[b"_s:partition_path"].value == b"y"


def test_a_sequence_equals_the_same_with_global_bloom(bench: Bench) -> None:
    choice = random.Random(5)
    ours, theirs = bench.table(), make_table(bench.folder / "bloom", hoodie__index__type="GLOBAL_BLOOM")
    oracle = Oracle(is_global=True)
    for version in range(1, 7):
        batch = some_rows(choice, 3_000, 1_500, version)
        counts = oracle.apply(batch)
        options = bench.options(
            hoodie__index__hbase__get__batch__size="400", hoodie__index__hbase__put__batch__size="7"
        )
        assert counts_of(ours.upsert(batch_of(batch), options=options)) == counts
        theirs.upsert(batch_of(batch))
        assert content_of(ours) == content_of(theirs) == oracle.content()
    assert_follows(bench, ours)
    assert ours.check().ok


def test_without_moves_a_row_stays_where_it_is(bench: Bench) -> None:
    table = bench.table()
    options = bench.options(hoodie__hbase__index__update__partition__path="false")
    oracle = Oracle(is_global=True, moves=False)
    for batch in (FIRST, SECOND):
        oracle.apply(batch)
        table.upsert(batch_of(batch), options=options)
    assert content_of(table) == oracle.content()
    assert_follows(bench, table)


def test_server_is_restarted_in_the_middle_of_a_run(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    batch = [Row(f"k{n:06d}", DAYS[n % 3], 1, "v") for n in range(20_000)]
    options = bench.options(hoodie__index__hbase__get__batch__size="200", hoodie__index__hbase__put__batch__size="200")
    restarted: list[float] = []

    def restart() -> None:
        time.sleep(1.0)
        bench.server.stop()
        bench.server.start()
        restarted.append(time.monotonic())

    other = threading.Thread(target=restart)
    other.start()
    summary = table.upsert(batch_of(batch), options=options)
    ended = time.monotonic()
    other.join()
    assert summary.inserts == len(batch)
    assert restarted[0] < ended, "the run ended before the server was back: nothing was tested"
    assert_follows(bench, table)


def test_thrift_server_dies_between_calls(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    bench.server.kill_thrift()
    bench.server.start_thrift()  # not yet listening when the run begins
    table.upsert(batch_of(SECOND), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND).content()
    assert_follows(bench, table)


def test_nothing_is_written_while_hbase_is_down(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    before = sorted(str(p) for p in Path(table.uri).rglob("*") if p.suffix == ".parquet" or ".hoodie/2" in str(p))
    bench.server.stop()
    monkeypatch.setattr(hbase, "_answered", set())  # as a new process
    begun = time.monotonic()
    with pytest.raises(HBaseUnavailableError, match="HBase does not answer") as caught:
        table.upsert(batch_of(SECOND), options=bench.options())
    assert time.monotonic() - begun < 15
    assert caught.value.exit_code == StorageError.exit_code
    assert str(bench.server.thrift_port) in str(caught.value)
    assert before == sorted(
        str(p) for p in Path(table.uri).rglob("*") if p.suffix == ".parquet" or ".hoodie/2" in str(p)
    )
    bench.server.start()
    table.upsert(batch_of(SECOND), options=bench.options(lakeindex__hbase__connect__timeout="60"))
    assert content_of(table) == oracle_of(FIRST, SECOND).content()


def test_a_missing_table_or_family_says_how_to_make_it(bench: Bench) -> None:
    table = bench.table()
    with pytest.raises(HBaseTableError, match=r"create 't\w+', \{NAME=>'_s', VERSIONS=>3\}"):
        table.upsert(batch_of(FIRST), options=bench.options(lakeindex__hbase__create__table="false"))
    client = bench.rows().client
    name = bench.name.encode()
    client.call(lambda c: c.createTable(name, [hbase_family(b"other:")]))
    with pytest.raises(HBaseTableError, match="has no family '_s'"):
        table.upsert(batch_of(FIRST), options=bench.options())


def hbase_family(name: bytes) -> object:
    from Hbase_thrift import ColumnDescriptor

    return ColumnDescriptor(name=name)


def test_death_between_commit_and_apply_is_made_good(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    with monkeypatch.context() as patched:
        patched.setattr(HBaseStore, "apply", dies)
        table.upsert(batch_of(SECOND), options=bench.options())  # committed; the index is behind
    assert bench.held()["b"]  # deleted in the table, still there in HBase
    third = [Row("b", "y", 3, "3"), Row("c", "y", 3, "3")]
    table.upsert(batch_of(third), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND, third).content()
    assert_follows(bench, table)


def dies(*_: object, **__: object) -> None:
    raise HBaseUnavailableError("the process died here")


@pytest.mark.parametrize("after", ["puts", "deletes"])
def test_death_in_the_middle_of_apply_is_made_good(bench: Bench, monkeypatch: pytest.MonkeyPatch, after: str) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    with monkeypatch.context() as patched:
        patched.setattr(RowWriter, "enter" if after == "deletes" else "remove", dies)
        table.upsert(batch_of(SECOND), options=bench.options())
    table.upsert(batch_of([Row("a", "x", 9, "9")]), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND, [Row("a", "x", 9, "9")]).content()
    assert_follows(bench, table)


def test_a_commit_that_fails_takes_its_rows_back(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    from lakeindex.commit.write_session import WriteSession

    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    before = bench.held()

    def fails(*_: object) -> None:
        raise StorageError("the commit could not be put")

    with monkeypatch.context() as patched:
        patched.setattr(WriteSession, "publish", fails)
        with pytest.raises(StorageError, match="could not be put"):
            table.upsert(batch_of(SECOND), options=bench.options())
    assert "e" in bench.held()  # put before the commit; its instant does not count
    time.sleep(2.5)  # the dead run's lease runs out
    third, fourth = [Row("f", "x", 3, "3")], [Row("a", "x", 4, "4")]
    table.upsert(batch_of(third), options=bench.options())  # rolls the dead commit back
    table.upsert(batch_of(fourth), options=bench.options())
    assert {key: row for key, row in bench.held().items() if key != "f"} == before
    assert content_of(table) == oracle_of(FIRST, third, fourth).content()


def test_a_commit_that_is_rolled_back_leaves_no_wrong_location(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    two = table.upsert(batch_of(SECOND), options=bench.options())
    assert two.instant is not None
    rollback_table(table.uri, two.instant)
    assert content_of(table) == oracle_of(FIRST).content()
    third = [Row(k, "y", 3, "3") for k in ("a", "b", "c", "d中", "e")]
    counts = Oracle(is_global=True)
    counts.apply(FIRST)
    expected = counts.apply(third)
    assert counts_of(table.upsert(batch_of(third), options=bench.options())) == expected
    assert content_of(table) == counts.content()
    assert_follows(bench, table)


def truncate(bench: Bench) -> None:
    name = bench.name.encode()
    client = bench.rows().client
    client.call(lambda c: c.disableTable(name))
    client.call(lambda c: c.deleteTable(name))
    client.call(lambda c: c.createTable(name, [hbase_family(b"_s:")]))


def test_a_truncated_table_is_refused_and_built_anew(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    truncate(bench)
    with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of(SECOND), options=bench.options())
    assert content_of(table) == oracle_of(FIRST).content()
    table.index_build(options=bench.options())
    assert_follows(bench, table)
    table.upsert(batch_of(SECOND), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND).content()
    assert_follows(bench, table)


def test_an_older_copy_of_the_rows_is_brought_up_to_date_or_refused(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    copy = copied(bench)
    table.upsert(batch_of(SECOND), options=bench.options())
    restore(bench, copy)  # what the log still has is applied again
    third = [Row("b", "y", 3, "3"), Row("c", "y", 3, "3"), Row("e", "x", 3, "3")]
    table.upsert(batch_of(third), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, SECOND, third).content()
    assert_follows(bench, table)
    few = bench.options(hoodie__metadata__compact__max__delta__commits="1")  # folds: the log forgets
    table.upsert(batch_of([Row("z", "x", 4, "4")]), options=few)
    restore(bench, copy)
    with pytest.raises(IndexNotBuiltError):
        table.upsert(batch_of(third), options=bench.options())


@pytest.mark.parametrize("folds", [False, True])
def test_a_table_that_is_put_back_from_a_backup_is_refused_and_built_anew(bench: Bench, folds: bool) -> None:
    """A key that was deleted since has no row any more, and would be inserted beside the one that is there again."""
    table, backup = bench.table(), bench.folder / "backup"
    table.upsert(batch_of(FIRST), options=bench.options())
    shutil.copytree(table.uri, backup)
    more = {"hoodie__metadata__compact__max__delta__commits": "1"} if folds else {}
    table.upsert(batch_of(SECOND), options=bench.options(**more))
    shutil.rmtree(table.uri)
    shutil.copytree(backup, table.uri)
    third = [Row("b", "y", 3, "3"), Row("n", "y", 3, "3")]
    with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of(third), options=bench.options())
    assert content_of(table) == oracle_of(FIRST).content()
    table.index_build(options=bench.options())
    table.upsert(batch_of(third), options=bench.options())
    assert content_of(table) == oracle_of(FIRST, third).content()
    assert_follows(bench, table)


def copied(bench: Bench) -> list[tuple[bytes, dict[bytes, bytes]]]:
    rows = bench.rows()
    scan = rows.client.call(lambda c: c.getRowsWithColumns(bench.name.encode(), all_keys(bench), None, {}))
    return [(one.row, {column: cell.value for column, cell in one.columns.items()}) for one in scan]


def all_keys(bench: Bench) -> list[bytes]:
    from lakeindex.index.hbase.hbase_rows import MARKER_KEY

    return [key.encode() for key in bench.held()] + [MARKER_KEY]


def restore(bench: Bench, copy: list[tuple[bytes, dict[bytes, bytes]]]) -> None:
    from Hbase_thrift import BatchMutation, Mutation

    truncate(bench)
    mutations = [
        BatchMutation(key, [Mutation(False, column, value) for column, value in cells.items()]) for key, cells in copy
    ]
    bench.rows().client.call(lambda c: c.mutateRows(bench.name.encode(), mutations, {}))


def test_two_tables_do_not_share_one_hbase_table(bench: Bench) -> None:
    bench.table("one").upsert(batch_of(FIRST), options=bench.options())
    with pytest.raises(HBaseTableError, match="holds the index of"):
        bench.table("two").upsert(batch_of(FIRST), options=bench.options())


def test_a_copy_of_a_table_leaves_its_hbase_table_alone(bench: Bench, tmp_path: Path) -> None:
    table = bench.table("one")
    table.upsert(batch_of(FIRST), options=bench.options())
    held = bench.held()
    shutil.copytree(table.uri.removeprefix("file://"), tmp_path / "copy")
    copy = open_table(tmp_path / "copy")
    for write in (copy.upsert, copy.insert_overwrite_table):
        with pytest.raises(IndexNotBuiltError, match="holds that of"):
            write(batch_of(FIRST), options=bench.options())
    assert bench.held() == held


def test_drop_removes_all_rows_and_a_look_up_asks_for_a_build(bench: Bench) -> None:
    table = bench.table()
    table.upsert(batch_of(FIRST), options=bench.options())
    table.index_drop(options=bench.options())
    assert bench.held() == {}
    with pytest.raises(IndexNotBuiltError):
        table.upsert(batch_of(SECOND), options=bench.options())
    table.index_build(options=bench.options())
    table.upsert(batch_of(SECOND), options=bench.options())
    assert_follows(bench, table)


@pytest.mark.parametrize("happens", ["drop", "truncate", "build"])
def test_rows_that_go_between_the_check_and_the_look_up_make_no_key_a_new_one(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, happens: str
) -> None:
    """A build of a snapshot of before the last commit takes away what that put."""
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(FIRST), options=options)
    real = HBaseRows.get

    def get(rows: HBaseRows, keys: Sequence[str]) -> dict[str, object]:
        if "e" in keys:
            monkeypatch.setattr(HBaseRows, "get", real)
            if happens == "build":
                build_of(table, options, older)
            else:
                truncate(bench) if happens == "truncate" else table.index_drop(options=options)
        return real(rows, keys)

    older = Table.open(open_storage(table.uri)).snapshot()
    table.upsert(batch_of(SECOND), options=options)
    monkeypatch.setattr(HBaseRows, "get", get)
    third = [Row("e", "y", 3, "3"), Row("a", "x", 3, "3")]
    if happens != "build":
        with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
            table.upsert(batch_of(third), options=options)
        table.index_build(options=options)
    assert table.upsert(batch_of(third), options=options).updates == 2
    assert content_of(table) == oracle_of(FIRST, SECOND, third).content()
    assert_follows(bench, table)


def build_of(table: LakeTable, options: dict[str, str], snapshot: Snapshot) -> None:
    """A build that took its time: others have committed since it looked at the table."""
    opened = Table.open(open_storage(table.uri))
    spec = opened.index(snapshot.timeline)
    assert spec is not None
    with opened_index(opened, snapshot, spec, LocalRunner(1), f"{table.uri}.lakeindex", options) as found:
        found.session.build(snapshot)


@pytest.mark.parametrize("folds", [False, True])
def test_a_build_beside_writers_that_compact_leaves_their_keys_there(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, folds: bool
) -> None:
    """They look at files that it does not know while it takes away what it did not write."""
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(FIRST), options=options)
    more = bench.options(hoodie__metadata__compact__max__delta__commits="1") if folds else options
    older = Table.open(open_storage(table.uri)).snapshot()
    unseen(table, "GLOBAL_SIMPLE", [Row("n", "x", 2, "2"), Row("m", "z", 2, "2")])
    table.upsert(batch_of([Row("n", "x", 3, "3"), Row("d中", "x", 3, "3")]), options=options)
    real = HBaseStore._remove_older

    def remove(store: HBaseStore, stamp: int) -> None:
        monkeypatch.setattr(HBaseStore, "_remove_older", real)
        table.upsert(batch_of([Row("a", "x", 4, "4")]), options=more)
        real(store, stamp)

    monkeypatch.setattr(HBaseStore, "_remove_older", remove)
    if folds:
        with pytest.raises(WriteConflictError, match="built or compacted by another run"):
            build_of(table, options, older)
    else:
        build_of(table, options, older)
    done = table.upsert(batch_of([Row(key, "x", 5, "5") for key in ("n", "m", "a", "d中")]), options=options)
    assert done.inserts == 0
    assert_follows(bench, table)
    assert table.index_verify(options=options).ok


def test_of_two_builds_the_one_that_began_first_is_not_in_force(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The other one began on an older snapshot, and died when it had taken keys of the newer one away."""
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(FIRST), options=options)
    older = Table.open(open_storage(table.uri)).snapshot()
    table.upsert(batch_of(SECOND), options=options)
    real, begun = HBaseStore._remove_older, []

    def remove(store: HBaseStore, stamp: int) -> None:
        begun.append(stamp)
        if is_first := len(begun) == 1:
            with pytest.raises(HBaseUnavailableError):
                build_of(table, options, older)
        real(store, stamp)
        if not is_first:
            dies()

    monkeypatch.setattr(HBaseStore, "_remove_older", remove)
    with pytest.raises(IndexChangedError):
        build_of(table, options, Table.open(open_storage(table.uri)).snapshot())
    third = [Row("e", "y", 3, "3"), Row("c", "x", 3, "3")]
    assert table.upsert(batch_of(third), options=options).updates == 2
    assert_follows(bench, table)


def test_a_build_of_what_is_older_than_the_index_in_force_is_begun_anew(bench: Bench) -> None:
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(FIRST), options=options)
    older, held = Table.open(open_storage(table.uri)).snapshot(), None
    few = bench.options(hoodie__metadata__compact__max__delta__commits="1")
    last = table.upsert(batch_of(SECOND), options=few)
    held = bench.held()
    with pytest.raises(IndexChangedError):
        build_of(table, options, older)
    assert bench.held() == held
    rollback_table(table.uri, str(last.instant))
    assert table.index_build(options=options).rows == 4  # what was taken back is in nobody's way
    assert_follows(bench, table)


def test_who_begins_an_index_empty_behind_another_takes_nothing_away(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, options = bench.table(), bench.options()
    real, held = StoredSession._start_empty, {}

    def start(session: StoredSession, *known: Any) -> Any:
        monkeypatch.setattr(StoredSession, "_start_empty", real)
        table.upsert(batch_of(FIRST), options=bench.options(hoodie__metadata__compact__max__delta__commits="1"))
        found = real(session, *known)
        held.update(bench.held())
        return found

    monkeypatch.setattr(StoredSession, "_start_empty", start)
    done = table.upsert(batch_of(SECOND), options=options)
    assert sorted(held) == ["a", "b", "c", "d中"]
    assert (done.inserts, done.updates + done.moved, done.deletes) == (1, 2, 1)
    assert content_of(table) == oracle_of(FIRST, SECOND).content()
    assert_follows(bench, table)


def test_one_table_has_one_address_however_its_store_is_called(bench: Bench) -> None:
    """It is built, and dropped with all rows, those of a clock that went ahead among them."""
    spec, rows, config = bench.spec(bench.table()), bench.rows(), parse_options(bench.options())
    rows.check(create=True)
    one, other = (
        HBaseStore(StoreContext(open_storage(uri), "t", spec, config, NOTHING_COMPLETED, LogView("index")), rows)
        for uri in ("s3://bucket/t", "s3a://bucket/t")
    )
    entry = pa.table({"key": ["a"], "partition": ["x"], "file_id": ["f"], "change": [3]}, schema=DELTA_SCHEMA)
    assert one.build("00000001-a", [entry]) == other.build("00000002-b", [entry]) == 1
    MarkerRow(rows).change(lambda marker: replace(one._marker.required(marker), last=rows.server_time() + 60_000))
    assert other.build("00000003-c", [entry]) == 1
    one.drop()
    assert (bench.held(), MarkerRow(rows).read()) == ({}, None)


def test_deltas_are_not_applied_to_what_others_have_built_anew_before_the_lock_was_had(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older location would lie above that of the build."""
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(FIRST), options=options)
    with monkeypatch.context() as patched:
        patched.setattr(HBaseStore, "apply", dies)
        table.upsert(batch_of(SECOND), options=options)  # moves c to x
    real = stored_session.locked

    def locked(*known: Any) -> Any:
        monkeypatch.setattr(stored_session, "locked", real)
        table.upsert(batch_of([Row("c", "z", 3, "3")]), options=options)
        table.index_build(options=options)
        return real(*known)

    monkeypatch.setattr(stored_session, "locked", locked)
    table.upsert(batch_of([Row("n", "x", 4, "4")]), options=options)
    assert_follows(bench, table)
    assert table.upsert(batch_of([Row("c", "z", 5, "5")]), options=options).updates == 1
