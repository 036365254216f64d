"""Batches of new rows: beside what is stored, or in its place."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import InputError, OptionError, QuarantineExceededError, UsageError
from lakeindex.format.commit_metadata import CommitMetadata
from lakeindex.index.bucket import bucket_of
from lakeindex.model import INSERTING_OPERATIONS, IndexType, Operation
from lakeindex.pipeline import stages_for
from lakeindex.run.spec import RunSpec
from lakeindex.stages.stage_input import stage as stage_input
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.golden import made_once
from tests.meanwhile import WAITS, MemoryTable, once_ready, writes_data
from tests.scheduling import some_indexes
from tests.strategies import examples

pytestmark = pytest.mark.usefixtures("time_leaps")

FIRST = [Row(f"k{n}", "xyz"[n % 3], 1, "1") for n in range(12)]


@made_once
def made(folder: Path, index: str = "BLOOM", **options: str) -> tuple[LakeTable, Oracle]:
    table = make_table(folder / "t", hoodie__index__type=index, **options)
    oracle = Oracle(is_global=index in ("GLOBAL_BLOOM", "RECORD_INDEX"))
    table.upsert(batch_of(FIRST), batch_id="first")
    oracle.apply(FIRST)
    return table, oracle


def overwrite(oracle: Oracle, batch: list[Row], *, everything: bool = False) -> None:
    touched = {row.day for row in batch}
    oracle.rows = {} if everything else {key: one for key, one in oracle.rows.items() if one[0] not in touched}
    oracle.apply(batch)


def commit_of(table: LakeTable, time: str | None) -> tuple[str, CommitMetadata]:
    opened = Table.open(open_storage(table.uri))
    timeline = opened.load_timeline()
    (instant,) = (one for one in timeline.completed_writes if one.time == time)
    return instant.action, timeline.commit_metadata(opened.storage, instant)


@pytest.mark.parametrize("version", ["6", "8", "9"])
def test_the_partitions_of_a_batch_are_replaced_by_it(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, hoodie__write__table__version=version)
    batch = [
        Row("k0", "x", 0, "over"),
        Row("n", "x", 1, "over"),
        Row("n", "new", 1, "over"),
        Row("n", "new", 0, "older"),
    ]
    done = table.insert_overwrite(batch_of(batch))
    overwrite(oracle, batch)
    assert content_of(table) == oracle.content()
    assert (done.rows_in, done.inserts, done.combined, done.updates) == (4, 3, 1, 0)
    assert (done.files_replaced, done.rows_replaced, done.files_created) == (1, 4, 2)
    action, commit = commit_of(table, done.instant)
    assert (action, commit.operation) == ("replacecommit", "INSERT_OVERWRITE")
    assert set(commit.replaced_file_ids) == {"x"}
    assert all(stat.prev_commit == "null" for stat in commit.stats())
    assert table.check().ok
    again = [Row("k0", "x", 5, "5"), Row("k3", "x", 5, "5")]
    assert oracle.apply(again)["updates"] == 1
    table.upsert(batch_of(again))
    assert content_of(table) == oracle.content()


def test_the_whole_table_is_replaced(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    batch = [Row("n", "x", 1, "over")]
    done = table.insert_overwrite_table(batch_of(batch), batch_id="whole")
    overwrite(oracle, batch, everything=True)
    assert content_of(table) == oracle.content()
    assert (done.inserts, done.files_replaced, done.rows_replaced) == (1, 3, 12)
    assert commit_of(table, done.instant)[1].operation == "INSERT_OVERWRITE_TABLE"
    assert table.insert_overwrite_table(batch_of(batch), batch_id="whole").noop
    assert done.instant is not None
    table.rollback(done.instant)
    assert len(content_of(table)) == 12
    assert table.check().ok


def test_nothing_takes_the_place_of_no_table(tmp_path: Path) -> None:
    table, oracle = made(tmp_path)
    with pytest.raises(InputError, match="whole table"):
        table.insert_overwrite_table(batch_of([]))
    assert table.insert_overwrite(batch_of([])).noop
    assert content_of(table) == oracle.content()


def test_overwriting_an_empty_table_is_a_replacecommit_too(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    done = table.insert_overwrite(batch_of(FIRST))
    assert (done.inserts, done.files_replaced) == (12, 0)
    assert commit_of(table, done.instant)[0] == "replacecommit"
    assert len(content_of(table)) == 12
    assert table.check().ok


def test_new_file_groups_keep_their_buckets(tmp_path: Path) -> None:
    table, oracle = made(tmp_path, "BUCKET", hoodie__bucket__index__num__buckets="3")
    batch = [Row(f"k{n}", "x", 2, "2") for n in range(20)]
    table.insert_overwrite(batch_of(batch))
    overwrite(oracle, batch)
    files = Table.open(open_storage(table.uri)).snapshot().base_files("x")
    assert sorted(bucket_of(file.file_id) or 0 for file in files) == [0, 1, 2]
    batch = [Row(f"k{n}", "x", 3, "3") for n in range(15, 30)]
    oracle.apply(batch)
    table.upsert(batch_of(batch))
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "RECORD_INDEX"])
def test_a_key_in_a_partition_that_stays_is_in_the_way_of_an_overwrite(tmp_path: Path, index: str) -> None:
    table, oracle = made(tmp_path, index)
    clash = [Row("k1", "x", 9, "9"), Row("k0", "x", 9, "9")]
    with pytest.raises(QuarantineExceededError, match="'k1'"):
        table.insert_overwrite(batch_of(clash))
    assert content_of(table) == oracle.content()
    done = table.insert_overwrite(batch_of(clash), options={"hoodie.datasource.insert.dup.policy": "drop"})
    assert (done.inserts, done.ignored, done.rows_replaced) == (1, 1, 4)
    overwrite(oracle, clash[1:])
    assert content_of(table) == oracle.content()
    rows = [Row("k3", "y", 0, "moved"), Row("k1", "y", 2, "2"), Row("k0", "z", 10, "10")]
    oracle.moves = index == "GLOBAL_BLOOM"
    assert table.upsert(batch_of(rows)).rows_in == 3
    oracle.apply(rows)
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "RECORD_INDEX"])
def test_a_partition_is_not_emptied_by_rows_that_are_left_out(tmp_path: Path, index: str) -> None:
    """Nor by one that lost against a row of its key in another partition."""
    table, oracle = made(tmp_path, index)
    clash = [Row("k1", "x", 9, "9"), Row("n", "new", 9, "9")]
    drop = {"hoodie.datasource.insert.dup.policy": "drop"}
    for overwritten in (
        lambda: table.insert_overwrite(batch_of(clash), options=drop),
        lambda: table.insert_overwrite(batch_of(clash), options=drop, dry_run=True),
        lambda: table.insert_overwrite(batch_of(clash), max_quarantined=1),
    ):
        with pytest.raises(InputError, match="partition 'x' would be left without rows") as caught:
            overwritten()
        assert "delete_partitions" in str(caught.value.hint)
        assert content_of(table) == oracle.content()
    with pytest.raises(InputError, match="partition 'y' would be left without rows"):  # the second of two
        table.insert_overwrite(batch_of([Row("k0", "x", 9, "9"), Row("k2", "y", 9, "9")]), options=drop)
    assert content_of(table) == oracle.content()
    twice = [Row("n", "x", 1, "loses"), Row("n", "new", 2, "wins"), Row("k2", "z", 5, "over")]
    done = table.insert_overwrite(batch_of(twice))
    assert (done.inserts, done.combined, done.rows_replaced) == (2, 1, 4)
    overwrite(oracle, twice[1:])
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize(
    "index",
    some_indexes(["BLOOM", "SIMPLE", "BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "INMEMORY"]),
)
def test_a_stored_key_is_an_error_or_is_left_out(tmp_path: Path, index: str) -> None:
    table, oracle = made(tmp_path, index)
    batch = [Row("k0", "x", 9, "9"), Row("n", "x", 1, "1"), Row("m", "new", 1, "1"), Row("m", "new", 2, "2")]
    with pytest.raises(QuarantineExceededError, match="'k0'") as caught:
        table.insert(batch_of(batch), batch_id="b")
    assert caught.value.exit_code == 3
    assert content_of(table) == oracle.content()
    assert len(table.history()) == 1, "nothing was planned"
    rows = pq.read_table(str(caught.value.culprit).removeprefix("file://"))
    assert rows.column("id").to_pylist() == ["k0"]
    assert rows.column("_li_reason").to_pylist() == ["its key is stored already"]
    done = table.insert(batch_of(batch), "ignore", batch_id="b")
    assert done.fates == {"combined": 1, "inserts": 2, "ignored": 1}
    oracle.apply(batch[1:])
    assert content_of(table) == oracle.content()
    action, commit = commit_of(table, done.instant)
    assert (action, commit.operation) == ("commit", "INSERT")
    assert table.insert(batch_of(batch), batch_id="b").noop
    tolerated = table.insert(batch_of([Row("k1", "y", 2, "2"), Row("o", "y", 2, "2")]), max_quarantined=1)
    assert tolerated.fates == {"quarantined": 1, "inserts": 1}
    oracle.apply([Row("o", "y", 2, "2")])
    assert content_of(table) == oracle.content()
    assert table.insert(batch_of(FIRST), "ignore").noop
    both = pa.table(batch_of([Row("k1", "y", 3, "3"), Row("p", "y", 3, "3"), Row("q", "y", 3, "3")]).to_pydict())
    both = both.set_column(0, "id", pa.array(["k1", None, "q"]))
    with pytest.raises(QuarantineExceededError, match="2 bad rows, 1 allowed"):
        table.insert(both, batch_id="both", max_quarantined=1)
    assert table.insert(both, batch_id="both", max_quarantined=2).fates == {"quarantined": 2, "inserts": 1}
    assert table.check().ok


@pytest.mark.parametrize(
    "index",
    some_indexes(["BLOOM", "GLOBAL_BLOOM", "BUCKET", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "INMEMORY"]),
)
def test_a_bulk_insert_goes_where_nothing_is(tmp_path: Path, index: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    oracle = Oracle(is_global=index in ("GLOBAL_BLOOM", "RECORD_INDEX"), moves=index != "RECORD_INDEX")
    done = table.bulk_insert(batch_of(FIRST), batch_id="bulk")
    oracle.apply(FIRST)
    assert done.fates == {"inserts": 12}
    action, commit = commit_of(table, done.instant)
    assert (action, commit.operation) == ("commit", "BULK_INSERT")
    assert content_of(table) == oracle.content()
    assert table.bulk_insert(batch_of(FIRST), batch_id="bulk").noop
    more = [Row("n", "new", 1, "1"), Row("m", "new", 1, "1")]
    if oracle.is_global:
        with pytest.raises(UsageError, match="empty table only"):
            table.bulk_insert(batch_of(more))
        table.truncate()
        oracle.rows.clear()
    with pytest.raises(UsageError, match="partition 'x' has rows") if not oracle.is_global else nullcontext():
        table.bulk_insert(batch_of([Row("k0", "x", 1, "1"), *more]))
        oracle.apply([Row("k0", "x", 1, "1"), *more])
    if not oracle.is_global:
        table.bulk_insert(batch_of(more))
        oracle.apply(more)
    assert content_of(table) == oracle.content()
    rows = [Row("n", "new", 2, "2"), Row("k1", "y", 2, "2"), Row("late", "x", 0, "0")]
    table.upsert(batch_of(rows))
    oracle.apply(rows)
    assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM"])
@pytest.mark.parametrize("count", [2, 3_000])
def test_a_key_that_is_twice_in_a_bulk_insert_is_refused(tmp_path: Path, index: str, count: int) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    rows = [*(Row(f"k{n:05d}", "x", 1, "1") for n in range(count)), Row("k00001", "x", 1, "again")]
    for batch in (rows, rows[::-1]):
        with pytest.raises(InputError, match="record key 'k00001' is in 2 rows"):
            table.bulk_insert(batch_of(batch))
    for number, some in enumerate([rows[:1], [*rows[1:], rows[-1]]]):
        pq.write_table(batch_of(some), tmp_path / f"{number}.parquet")
    with pytest.raises(InputError, match="record key 'k00001' is in "):
        table.bulk_insert([str(tmp_path / f"{number}.parquet") for number in range(2)])
    across = [Row("a", "x", 1, "1"), Row("a", "y", 1, "1")]
    if index == "BLOOM":
        assert table.bulk_insert(batch_of(across)).inserts == 2
    else:
        with pytest.raises(InputError, match="record key 'a' is in 2 rows"):
            table.bulk_insert(batch_of(across))
        assert content_of(table) == set()


@pytest.mark.parametrize("index", ["BLOOM", pytest.param("GLOBAL_BLOOM", marks=pytest.mark.slow)])
@pytest.mark.parametrize("mode", ["NONE", "PARTITION_SORT", "GLOBAL_SORT"])
def test_a_bulk_insert_is_sorted_as_the_mode_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, mode: str
) -> None:
    """Unordered input that is staged in several buckets, by the hash of the key; files of about 500 rows."""
    monkeypatch.setattr(stage_input, "_BUCKET_BYTES", 10_000)
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    numbers = [n * 7919 % 4_001 for n in range(4_001)]
    rows = [Row(f"k{n:05d}" + ("é中" if n % 11 == 0 else ""), "xy"[n % 2], 1, str(n)) for n in numbers]
    options = {
        "hoodie.bulkinsert.sort.mode": mode,
        "lakeindex.chunk.rows": "250",
        "hoodie.parquet.max.file.size": "5000",
        "hoodie.copyonwrite.record.size.estimate": "10",
    }
    paths = []
    for start in range(0, len(rows), 1_001):
        paths.append(str(tmp_path / f"{start}.parquet"))
        pq.write_table(batch_of(rows[start : start + 1_001]), paths[-1])
    done = table.bulk_insert(paths, options=options)
    assert done.inserts == 4_001
    assert done.files_created >= 8
    oracle = Oracle(is_global=index == "GLOBAL_BLOOM")
    oracle.apply(rows)
    assert content_of(table) == oracle.content()
    snapshot = Table.open(open_storage(table.uri)).snapshot()
    overlaps = 0
    for partition in "xy":
        keys = [
            pq.read_table(f"{table.uri}/{file.path}", columns=["_hoodie_record_key"]).column(0).to_pylist()
            for file in snapshot.base_files(partition)
        ]
        assert all(one == sorted(one, key=str.encode) for one in keys), "each file is sorted"
        ends = sorted((one[0].encode(), one[-1].encode()) for one in keys)
        overlaps += sum(low < high for (_, high), (low, _) in itertools.pairwise(ends))
        assert max(map(len, keys)) < 600
    assert (overlaps == 0) is (mode == "GLOBAL_SORT")
    again = table.upsert(batch_of([*rows, Row("new", "x", 1, "")]), options={"hoodie.bulkinsert.sort.mode": mode})
    assert (again.updates, again.inserts, again.files_created) == (4_001, 1, 0), "the mode is that of bulk inserts"
    assert table.check().ok


@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX"])
def test_a_bulk_insert_beside_another_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    once_ready(monkeypatch, lambda: LakeTable(table.uri).upsert(batch_of([Row("theirs", "x", 1, "1")]), options=WAITS))
    with pytest.raises(UsageError, match="has rows"):
        table.bulk_insert(batch_of([Row("ours", "x", 1, "1")]))
    assert {row[1] for row in content_of(table)} == {"theirs"}
    assert table.check().ok


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"])
@pytest.mark.parametrize("operation", INSERTING_OPERATIONS)
@pytest.mark.few(4)
def test_single_stages_do_what_a_whole_run_does(tmp_path: Path, operation: Operation, index: str) -> None:
    table, oracle = made(tmp_path, index)
    rows = [Row("n", "x", 1, "1"), Row("m", "new", 1, "1")]
    if operation is Operation.BULK_INSERT:
        table.truncate()
        oracle.rows.clear()
    pq.write_table(batch_of(rows), tmp_path / "b.parquet")
    spec = RunSpec(table.uri, f"{table.uri}.lakeindex", "jobs", "jobs", operation, (str(tmp_path / "b.parquet"),))
    for stage in stages_for(IndexType(index)):
        run_stage(stage, spec, LocalRunner(1))
    if operation in (Operation.INSERT_OVERWRITE, Operation.INSERT_OVERWRITE_TABLE):
        overwrite(oracle, rows, everything=operation is Operation.INSERT_OVERWRITE_TABLE)
    else:
        oracle.apply(rows)
    assert content_of(table) == oracle.content()
    assert table.history()[0].operation == operation


@pytest.mark.parametrize("operation", ["insert", "bulk_insert", "insert_overwrite"])
def test_what_is_marked_as_deleted_is_a_bad_row(tmp_path: Path, operation: str) -> None:
    table, oracle = made(tmp_path)
    with pytest.raises(QuarantineExceededError, match="marked as deleted"):
        getattr(table, operation)(batch_of([Row("k0", "x", 9, "", deleted=True)]))
    assert content_of(table) == oracle.content()


def test_a_conflict_that_is_neither_is_refused(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    with pytest.raises(OptionError, match=r"valid: error \| ignore"):
        table.insert(batch_of(FIRST), "update")  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"valid: fail \| drop"):
        table.insert(batch_of(FIRST), options={"hoodie.datasource.insert.dup.policy": "none"})


@pytest.mark.parametrize("index", ["BLOOM", "BUCKET", "RECORD_INDEX"])
@pytest.mark.parametrize("partition", ["x", "new"])
def test_who_writes_into_the_partition_meanwhile_is_replaced_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, index: str, partition: str
) -> None:
    table, oracle = made(tmp_path, index)
    batch = [Row("n", partition, 1, "over")]
    once_ready(
        monkeypatch, lambda: LakeTable(table.uri).upsert(batch_of([Row("meanwhile", partition, 1, "1")]), options=WAITS)
    )
    done = table.insert_overwrite(batch_of(batch))
    overwrite(oracle, batch)
    assert content_of(table) == oracle.content()
    assert done.rows_replaced == (5 if partition == "x" else 1)
    assert table.check().ok


def test_who_overwrites_the_table_is_alone_everywhere_and_who_overwrites_partitions_only_there() -> None:
    """Rows that somebody puts into another partition meanwhile go with the table, or are in nobody's way."""
    for operation, retries, found in (
        ("insert_overwrite_table", "1", {"ours"}),
        ("insert_overwrite", "0", {"k0", "k1", "k2", "theirs", "ours"}),
    ):
        world = MemoryTable.holding(FIRST[:3])
        happened = world.once(writes_data, partial(world.upsert, [Row("theirs", "other", 1, "1")]))
        options = {"lakeindex.conflict.retries": retries}
        getattr(world.table, operation)(batch_of([Row("ours", "new", 1, "1")]), runner=LocalRunner(1), options=options)
        assert happened
        assert {row[1] for row in content_of(world.table)} == found


def test_a_key_that_was_committed_meanwhile_is_found_by_an_insert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, oracle = made(tmp_path)
    once_ready(monkeypatch, lambda: LakeTable(table.uri).upsert(batch_of([Row("n", "x", 1, "theirs")]), options=WAITS))
    done = table.insert(batch_of([Row("n", "x", 2, "ours"), Row("m", "x", 2, "ours")]), on_conflict="ignore")
    assert done.fates == {"inserts": 1, "ignored": 1}
    oracle.apply([Row("n", "x", 1, "theirs"), Row("m", "x", 2, "ours")])
    assert content_of(table) == oracle.content()


@pytest.mark.parametrize("version", [pytest.param("6", marks=pytest.mark.slow), "9"])
def test_the_metadata_table_follows(tmp_path: Path, version: str) -> None:
    table, oracle = made(tmp_path, "RECORD_INDEX", hoodie__write__table__version=version)
    parts = ["files", "column_stats", "bloom_filters", "record_index", *(["partition_stats"] if version == "9" else [])]
    table.metadata_build(parts)
    batch = [Row("k0", "x", 0, "over"), Row("n", "x", 1, "over")]
    done = table.insert_overwrite(batch_of(batch))
    overwrite(oracle, batch)
    assert table.metadata_verify().ok
    oracle.moves = False
    rows = [Row("k0", "y", 5, "5"), Row("k3", "y", 0, "0"), Row("n", "x", 2, "2")]
    assert table.insert(batch_of([Row("z", "z", 1, "1")])).inserts == 1
    oracle.apply([Row("z", "z", 1, "1")])
    table.upsert(batch_of(rows))
    oracle.apply(rows)
    assert content_of(table) == oracle.content()
    assert table.metadata_verify().ok
    assert done.instant is not None
    for instant in sorted((one.instant for one in table.history() if one.instant > done.instant), reverse=True):
        table.rollback(instant)
    table.rollback(done.instant)
    assert table.metadata_verify().ok
    assert len(content_of(table)) == 12
    assert table.upsert(batch_of(FIRST)).updates == 12


_ROWS = st.lists(
    st.builds(Row, st.sampled_from("abcdef"), st.sampled_from("xyz"), st.integers(0, 3), st.text("v", max_size=1)),
    min_size=1,
    max_size=6,
)


@settings(max_examples=examples(12), deadline=None, suppress_health_check=list(HealthCheck))
@given(
    steps=st.lists(st.tuples(st.sampled_from(("upsert", "insert", "overwrite", "table", "drop")), _ROWS), max_size=5)
)
def test_any_operations_equal_a_dictionary(tmp_path_factory: pytest.TempPathFactory, steps: list) -> None:
    table, oracle = make_table(tmp_path_factory.mktemp("t") / "t"), Oracle()
    for operation, rows in steps:
        batch: pa.Table = batch_of(rows)
        match operation:
            case "upsert":
                table.upsert(batch)
                oracle.apply(rows)
            case "insert":
                stored = set(oracle.rows)
                fresh = [row for row in rows if (row.day, row.id) not in stored]
                done = table.insert(batch, "ignore")
                assert done.inserts == oracle.apply(fresh)["inserts"]
            case "overwrite":
                before = len(oracle.rows)
                done = table.insert_overwrite(batch)
                overwrite(oracle, rows)
                assert before - done.rows_replaced + done.inserts == len(oracle.rows)
            case "table":
                table.insert_overwrite_table(batch)
                overwrite(oracle, rows, everything=True)
            case _:
                there = {place for place, _ in oracle.rows.values()} & {row.day for row in rows}
                if there:
                    table.delete_partitions(sorted(there))
                    oracle.rows = {key: one for key, one in oracle.rows.items() if one[0] not in there}
        assert content_of(table) == oracle.content()
    assert table.check().ok


@pytest.mark.parametrize(
    ("operation", "options", "argument", "said"),
    [
        (
            "insert",
            {"hoodie.datasource.insert.dup.policy": "fail"},
            {"on_conflict": "ignore"},
            "on_conflict is 'ignore'",
        ),
        ("insert", {"lakeindex.schema.mode": "add"}, {"schema_mode": "widen"}, "schema_mode is 'widen'"),
        ("upsert", {"lakeindex.partial.update": "keep"}, {"partial": True}, "partial is True"),
        (
            "upsert",
            {"lakeindex.partial.update": "keep"},
            {"partial": True, "nulls": "overwrite"},
            "nulls is 'overwrite'",
        ),
        ("upsert", {"lakeindex.delete.if": "old.ts > 1"}, {"delete_if": "old.ts > 2"}, "delete_if is 'old.ts > 2'"),
    ],
)
def test_an_argument_that_contradicts_an_option_is_refused(
    tmp_path: Path, operation: str, options: dict[str, str], argument: dict[str, object], said: str
) -> None:
    table, _ = made(tmp_path)
    before = content_of(table)
    ((key, text),) = options.items()
    with pytest.raises(OptionError, match="give one of the two") as refused:
        getattr(table, operation)(batch_of([Row("k0", "x", 2, "2")]), options=options, **argument)
    assert f"option {key} is {text!r}, and the argument {said}" in refused.value.message
    assert content_of(table) == before


def test_an_argument_that_says_what_an_option_says_is_taken(tmp_path: Path) -> None:
    table, _ = made(tmp_path)
    options = {"hoodie.datasource.insert.dup.policy": "DROP", "lakeindex.schema.mode": "Strict"}
    done = table.insert(batch_of([Row("k0", "x", 2, "2")]), on_conflict="ignore", schema_mode="strict", options=options)
    assert done.ignored == 1
