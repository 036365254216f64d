"""The Spark runner on a real session: the same rows as the in-process runner, errors as they were raised."""

import gc
import os
import pickle
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import GroupedData, SparkSession

import lakeindex
from lakeindex.errors import InputError, OptionError, QuarantineExceededError, StorageError, UsageError
from lakeindex.index.locations.state_engine import StateSettings
from lakeindex.runners.spark import SparkRunner, _do_task, _keep_what_is_loaded
from lakeindex.runners.spark_session import spark_session
from lakeindex.tasks.runner import run_tasks
from lakeindex.time_spent import accounting, current_account, starting
from tests.builders import Oracle, Row, RowRules, batch_of, content_of, counts_of, make_table

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def session() -> Iterator[SparkSession]:
    made = spark_session("local[2]", "lakeindex tests")
    yield made
    made.stop()


def rows(first: int, last: int, ts: int) -> list[Row]:
    return [Row(f"k{n:04d}", f"d{n % 3}", ts, f"v{ts}", deleted=n % 17 == 0 and ts > 1) for n in range(first, last)]


@pytest.mark.parametrize("driver_bytes", ["0", "67108864"])
@pytest.mark.few(1)
def test_upsert_on_spark_equals_a_dictionary(session: SparkSession, tmp_path: Path, driver_bytes: str):
    table, oracle, runner = make_table(tmp_path / "t"), Oracle(), SparkRunner(session)
    options = {
        "lakeindex.chunk.rows": "100",
        "lakeindex.parquet.row.group.rows": "50",
        "lakeindex.spark.driver.bytes": driver_bytes,
    }
    for batch in (rows(0, 600, 1), rows(300, 900, 2), rows(0, 900, 1)):
        summary = table.upsert(batch_of(batch), runner=runner, options=options)
        assert counts_of(summary) == oracle.apply(batch)
    assert content_of(table) == oracle.content()


def test_conditions_on_spark_are_those_of_a_dictionary(session: SparkSession, tmp_path: Path):
    table, oracle, runner = make_table(tmp_path / "t"), Oracle(), SparkRunner(session)
    options = {
        "lakeindex.chunk.rows": "100",
        "lakeindex.parquet.row.group.rows": "50",
        "lakeindex.spark.driver.bytes": "0",
    }
    first = rows(0, 600, 1)
    assert counts_of(table.upsert(batch_of(first), runner=runner, options=options)) == oracle.apply(first)
    oracle.conditions = RowRules(
        update=lambda old, new: new.ts > old.ts and new.id < "k0500",
        delete=lambda old, new: old.id[-1] == "7",
        insert=lambda new: new.day != "d1",
    )
    second = rows(300, 900, 2)
    done = table.upsert(
        batch_of(second),
        runner=runner,
        options=options,
        update_if="new.ts > old.ts AND new.id < 'k0500'",
        delete_if="old.id LIKE '%7'",
        insert_if="new.day != 'd1'",
    )
    assert counts_of(done) == oracle.apply(second)
    assert done.unmet
    assert content_of(table) == oracle.content()


@pytest.mark.slow
def test_a_table_is_made_like_a_dataframe_and_takes_partitions_in_pieces(session: SparkSession, tmp_path: Path):
    frame = session.range(0, 5000, 1, 2).selectExpr("cast(id as string) as id", "'x' as day", "id as ts", "'v' as v")
    table = lakeindex.create_table(tmp_path / "t", like=frame, key="id", partition="day", ordering="ts")
    assert table.schema.field("ts").type == pa.int64()
    assert table.upsert(frame, runner=SparkRunner(session)).inserts == table.count() == 5000
    pieces = [path.name.split("-") for path in Path(f"{table.uri}.lakeindex").rglob("*.arrow")]
    assert sorted((part, piece) for part, _, piece in pieces) == [("00000", "00000.arrow"), ("00001", "00000.arrow")]


@pytest.mark.few(0)
def test_upsert_of_a_spark_dataframe_and_of_a_spark_table(session: SparkSession, tmp_path: Path):
    table, oracle, runner = make_table(tmp_path / "t"), Oracle(), SparkRunner(session)
    first, second = rows(0, 200, 1), rows(100, 300, 2)
    columns = ["id", "day", "ts", "v", "_hoodie_is_deleted"]
    frame = session.createDataFrame([(r.id, r.day, r.ts, r.v, r.deleted) for r in first], columns)
    assert counts_of(table.upsert(frame, runner=runner)) == oracle.apply(first)
    session.createDataFrame([(r.id, r.day, r.ts, r.v, r.deleted) for r in second], columns).createOrReplaceTempView(
        "feed"
    )
    assert counts_of(table.upsert("table:feed", runner=runner)) == oracle.apply(second)
    assert content_of(table) == oracle.content()


def state_of_worker(_task: int) -> tuple[int, str, str]:
    """What a task of Spark's finds: objects that the collector passes over, how Spark speaks with it, from what it was forked."""
    daemon = Path(f"/proc/{os.getppid()}/cmdline").read_text().split("\0")
    return gc.get_freeze_count(), os.environ.get("PYTHON_UNIX_DOMAIN_ENABLED", "").lower(), " ".join(daemon)


def test_a_null_struct_of_a_frame_whose_field_may_not_be_null(session: SparkSession, tmp_path: Path):
    inner = pa.struct([pa.field("a", pa.int64(), nullable=False)])
    table = make_table(
        tmp_path / "t", schema=pa.schema([("id", pa.string()), ("s", inner)]), partitions=(), ordering=None
    )
    expected = [{"id": "a", "s": {"a": 1}}, {"id": "b", "s": None}]
    table.upsert(session.createDataFrame(pa.Table.from_pylist(expected)), runner=SparkRunner(session))
    assert sorted(table.scan(columns=["id", "s"]).to_arrow().to_pylist(), key=lambda row: row["id"]) == expected


def test_workers_answer_at_once(session: SparkSession):
    runner = SparkRunner(session)
    found = runner.map(state_of_worker, range(8), "look")
    assert all(frozen > 10_000 for frozen, _, _ in found)
    assert all("lakeindex.runners.spark_daemon" in daemon for _, _, daemon in found)
    if tuple(map(int, session.version.split(".")[:2])) >= (4, 1):
        assert {sockets for _, sockets, _ in found} == {"true"}


def test_workers_of_any_session_are_spared_the_collection_of_modules():
    """Where Spark's own daemon forked the worker, its first task sees to it."""
    before = gc.get_freeze_count()
    try:
        assert pickle.loads(_do_task(pickle.dumps(abs), pickle.dumps(-1))[1]) == 1
        assert gc.get_freeze_count() > before
    finally:
        _keep_what_is_loaded.cache_clear()


def _sleeps(_: int) -> None:
    with starting():
        time.sleep(0.3)


def test_the_start_of_executors_and_what_workers_load_is_start_up(session: SparkSession):
    runner = SparkRunner(session)
    with accounting():
        run_tasks(runner, _sleeps, [1, 2], "first")
        first = current_account().settle()
        run_tasks(runner, _sleeps, [1, 2], "second")
        second = current_account().settle()
    assert first.startup > 0.3
    assert first.waiting == 0
    assert 0.3 <= second.startup < 0.6
    assert 0 < second.waiting < second.wall
    assert all(one.startup + one.waiting + one.work == pytest.approx(one.wall) for one in (first, second))


def test_errors_of_tasks_reach_the_caller_as_they_were(session: SparkSession, tmp_path: Path):
    table = make_table(tmp_path / "t")
    bad = pa.table({"id": [None, "a"], "day": ["x", "x"], "ts": [1, 1], "v": ["", ""]})
    with pytest.raises(QuarantineExceededError, match="'id' is null") as caught:
        table.upsert(bad, runner=SparkRunner(session), options={"lakeindex.spark.driver.bytes": "0"})
    assert caught.value.exit_code == 3
    assert content_of(table) == set()


def odd_ones_fail(number: int) -> int:
    if number % 2:
        raise StorageError(f"task {number} cannot read", culprit=f"file {number}", hint="look at it")
    return number


def test_an_error_of_one_task_among_others_is_not_swallowed(session: SparkSession):
    with pytest.raises(StorageError, match="task 3 cannot read") as caught:
        SparkRunner(session).map(odd_ones_fail, [0, 2, 3, 4], "read")
    assert (caught.value.culprit, caught.value.hint) == ("file 3", "look at it")


def test_an_error_that_is_none_of_ours_ends_the_map(session: SparkSession):
    with pytest.raises(Exception, match="invalid literal"):
        SparkRunner(session).map(int, ["1", "x"], "read")


def test_an_error_of_ours_travels_as_a_value():
    try:
        found = pickle.loads(_do_task(pickle.dumps(odd_ones_fail), pickle.dumps(3))[1])
    finally:
        _keep_what_is_loaded.cache_clear()
    assert isinstance(found, StorageError)
    assert found.exit_code == StorageError.exit_code


def test_runner_that_does_not_exist_is_an_option_error(tmp_path: Path):
    with pytest.raises(OptionError, match="local"):
        make_table(tmp_path / "t").upsert(batch_of([]), runner="flink")


def test_state_needs_a_pyspark_with_keyed_state(session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for kind in GroupedData.__mro__:
        if "transformWithState" in vars(kind):
            monkeypatch.delattr(kind, "transformWithState")  # as PySpark 3.5 is
    settings = StateSettings(partitions=1)
    with pytest.raises(UsageError, match="the STATE index needs a PySpark with") as caught:
        SparkRunner(session).keyed_state(str(tmp_path), settings)
    assert "RECORD_INDEX" in (caught.value.hint or "")


@pytest.mark.parametrize(
    "index",
    ["BLOOM", pytest.param("GLOBAL_SIMPLE", marks=pytest.mark.slow), pytest.param("BUCKET", marks=pytest.mark.slow)],
)
def test_get_on_spark_equals_get_on_threads(session: SparkSession, tmp_path: Path, index: str):
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    rows = [Row(f"k{n:05d}", f"d{n % 3}", 1, f"v{n}") for n in range(3000)]
    table.upsert(batch_of(rows), options={"lakeindex.parquet.row.group.rows": "100"})
    keys = pa.array([f"k{n:05d}" for n in range(500, 6000, 7)])
    here, there = table.get(keys), table.get(keys, runner=SparkRunner(session))
    assert here.rows.num_rows == len([n for n in range(500, 6000, 7) if n < 3000])
    assert there.rows.equals(here.rows)
    assert there.missing == here.missing
    assert there.report.bytes_read > 0
    assert (there.report.files_opened, there.report.row_groups_read) == (
        here.report.files_opened,
        here.report.row_groups_read,
    )


@pytest.mark.slow
def test_a_filter_of_spark_finds_what_is_not_a_number(session: SparkSession, tmp_path: Path):
    """NaN is the greatest of all for Spark: with statistics that leave it out, it would pass over the row group."""
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("ts", pa.int64()), ("x", pa.float64())])
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    values = [float("nan") if n == 17 else float(n) for n in range(40)]
    rows = pa.table([[f"k{n:02d}" for n in range(40)], [1] * 40, values], schema=schema)
    options = {"lakeindex.parquet.row.group.rows": "10"}
    table.upsert(rows, options=options, batch_id="one")
    for turn in ("written", "copied"):
        newest = max((tmp_path / "t").glob("*.parquet"), key=lambda path: path.name.rsplit("_", 1)[1])
        frame = session.read.parquet(str(newest))
        for condition, found in (("x > 1e308", ["k17"]), ("isnan(x)", ["k17"]), ("x = 38", ["k38"])):
            assert [row.id for row in frame.filter(condition).collect()] == found, (turn, condition)
        table.upsert(rows.slice(30, 1), options=options, batch_id="two")


@pytest.mark.parametrize("where", [None, "id IN ('k0005', 'k0100')", "ts = 2 AND day = 'd1'"])
@pytest.mark.few(1)
def test_a_scan_is_a_spark_dataframe(session: SparkSession, tmp_path: Path, where: str | None):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(rows(0, 300, 1)), options={"lakeindex.parquet.row.group.rows": "50"})
    table.upsert(batch_of(rows(100, 150, 2)))
    scan = table.scan(where=where)
    frame = scan.to_spark(session)
    assert frame.columns == ["id", "day", "ts", "v"]
    found = sorted(tuple(row) for row in frame.collect())
    assert found == sorted(tuple(row.values()) for row in scan.to_arrow().to_pylist())
    assert frame.filter("day = 'd2'").count() == sum(day == "d2" for _, day, _, _ in found)


def test_a_scan_of_an_empty_table_is_an_empty_dataframe(session: SparkSession, tmp_path: Path):
    assert make_table(tmp_path / "t").scan().to_spark(session).collect() == []


KINDS = {
    "ts": "timestamp'2026-01-01 00:00:00'",
    "ntz": "timestamp_ntz'2026-01-01 00:00:00'",
    "day": "date'2026-01-01'",
    "dec": "cast(1.5 as decimal(38,10))",
    "byte": "1Y",
    "short": "1S",
    "int": "1",
    "long": "1L",
    "f": "float(1.5)",
    "d": "1.5D",
    "b": "true",
    "bin": "X'0102'",
    "l": "array(1, null)",
    "m": "map('a', 1)",
    "o": "named_struct('a', 1, 'variant', timestamp'2026-01-01 00:00:00')",
    "period": "interval '1' day",
    "vc": "cast('a' as varchar(3))",
}
NONE = {
    "years": "interval '1' year",
    "variant": "parse_json('{}')",
    "inside": "array(interval '1' year)",
    "calendar": "make_interval(1, 2, 3)",
    "nothing": "null",
    "numbers": "map(1, 'a')",
}


def test_a_table_is_made_like_a_spark_frame_of_every_type(session: SparkSession, tmp_path: Path):
    frame = session.sql(f"select 'k' as id, {', '.join(f'{made} as {name}' for name, made in KINDS.items())}")
    table = lakeindex.create_table(tmp_path / "t", like=frame, key="id")
    assert table.schema.names == ["id", *KINDS]
    assert str(table.schema.field("ts").type) == "timestamp[us, tz=UTC]"
    assert table.upsert(frame, runner=SparkRunner(session)).inserts == 1
    (row,) = table.read(meta=False).to_pylist()
    (instant,) = session.sql(f"select unix_millis({KINDS['ts']})").collect()[0]
    assert row["ts"].timestamp() == instant / 1000  # of the session's zone
    assert row["ntz"].isoformat() == "2026-01-01T00:00:00"
    assert (row["m"], row["bin"], row["period"]) == ([("a", 1)], b"\x01\x02", 86_400_000_000)


def test_a_spark_type_that_no_table_has_is_refused_by_its_column(session: SparkSession, tmp_path: Path):
    table = make_table(tmp_path / "t")
    for name, made in NONE.items():
        frame = session.sql(f"select 'k' as id, {made} as {name}")
        with pytest.raises(InputError, match=name) as caught:
            lakeindex.create_table(tmp_path / name, like=frame, key="id")
        assert caught.value.hint
        if name not in ("nothing", "numbers"):  # which Arrow has
            with pytest.raises(InputError, match=f"column '{name}' of the Spark DataFrame"):
                table.upsert(frame, runner=SparkRunner(session))
    assert table.history() == ()
