"""Rescaling: every row stays as it is, the count changes with the commit and goes back with it, a killed run goes on."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.errors import InvariantError, TableCorruptError, UsageError, WriteConflictError
from lakeindex.format.instants import next_instant_time
from lakeindex.hashing.row_digest import RowDigest
from lakeindex.index.bucket import bucket_of
from lakeindex.index.bucket_options import BucketLayout
from lakeindex.model import IndexSpec, IndexType
from lakeindex.operations import rewrite_run
from lakeindex.operations.rescale import migrate_to_buckets, rescale_table, switch_index
from lakeindex.options.types import WriteConfig
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.meanwhile import OVERTAKES, MemoryTable
from tests.scheduling import some_of
from tests.strategies import examples
from tests.unit.operations.tables import unstamped

RUNNER = LocalRunner(1)


def rows(first: int, last: int, ts: int = 1, days: str = "xy") -> list[Row]:
    return [Row(f"k{n}", days[n % len(days)], ts, str(ts)) for n in range(first, last)]


def bucket_table(folder: Path, buckets: int = 4, **options: str) -> LakeTable:
    return make_table(
        folder / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets=str(buckets), **options
    )


def upsert(table: LakeTable, batch: list[Row], name: str, options: Mapping[str, str] | None = None):
    folder = Path(table.uri).parent / "runs"
    return table.upsert(
        batch_of(batch), checkpoints=str(folder), batch_id=name, run_id=name, options=dict(options or {}), runner=RUNNER
    )


def sorted_rows(table: LakeTable) -> pa.Table:
    read = table.read(meta=True)
    kept = [name for name in read.column_names if name != "_hoodie_file_name"]
    return read.select(kept).sort_by([("_hoodie_partition_path", "ascending"), ("_hoodie_record_key", "ascending")])


def buckets_of(table: LakeTable) -> dict[str, set[int | None]]:
    snapshot = Table.open(open_storage(table.uri)).snapshot()
    return {path: {bucket_of(file.file_id) for file in snapshot.base_files(path)} for path in snapshot.partitions()}


def put_pending(table: LakeTable) -> str:
    """Another writer's instant that is not finished."""
    store = open_storage(table.uri)
    time = next_instant_time(Table.open(store).load_timeline().max_time, 0)
    store.write(f".hoodie/{time}.commit.requested", b"")
    store.write(f".hoodie/{time}.inflight", b"{}")
    return time


def test_what_was_rolled_back_of_other_writers_is_noted(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 20), "first")
    theirs = put_pending(table)
    (note,) = rescale_table(table.uri, RUNNER, buckets=2, force=True).notes
    assert note.startswith(f"instant {theirs} (commit) of another writer was rolled back")
    assert rescale_table(table.uri, RUNNER, buckets=2, force=True).notes == ()


@pytest.mark.parametrize("count", some_of([1, 3, 8, 64], {1, 8}.__contains__, pytest.mark.slow))
def test_rows_stay_as_they_are_and_the_new_count_is_in_force(tmp_path: Path, count: int) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 60), "first")
    upsert(table, rows(30, 90, 2), "second")
    before = sorted_rows(table)
    done = rescale_table(table.uri, RUNNER, buckets=count)
    assert sorted_rows(table).equals(before)
    assert done.rows == 90
    assert done.files_replaced == 8
    assert done.hudi_options["hoodie.bucket.index.num.buckets"] == str(count)
    assert [one.buckets_after for one in done.partitions] == [count, count]
    assert all(bucket is not None and bucket < count for found in buckets_of(table).values() for bucket in found)
    assert table.check().ok
    oracle = Oracle()
    for batch in (rows(0, 60), rows(30, 90, 2), rows(80, 200, 3)):
        oracle.apply(batch)
    summary = upsert(table, rows(80, 200, 3), "third")
    assert (summary.inserts, summary.updates) == (110, 10)
    assert content_of(table) == oracle.content()
    newest = table.history()[1]
    assert (newest.action, newest.operation, newest.files_removed) == ("replacecommit", "CLUSTER", 8)


def test_what_is_so_already_is_left_alone(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 10), "first")
    assert rescale_table(table.uri, RUNNER, buckets=4).noop
    assert not rescale_table(table.uri, RUNNER, buckets=8).noop
    again = rescale_table(table.uri, RUNNER, buckets=8)
    assert again.noop
    assert len(table.history()) == 2


def test_there_and_back_again(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    for count in (8, 4, 8, 4):
        assert rescale_table(table.uri, RUNNER, buckets=count).instant is not None
    assert table.check().ok
    assert upsert(table, rows(0, 40, 2), "second").updates == 40


def test_one_partition_has_a_count_of_its_own(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 60), "first")
    before = buckets_of(table)
    done = rescale_table(table.uri, RUNNER, partitions={"x": 2})
    assert [one.partition for one in done.partitions] == ["x"]
    assert done.hudi_options["hoodie.bucket.index.partition.expressions"] == "^x$,2"
    assert buckets_of(table) == {"x": {0, 1}, "y": before["y"]}
    summary = upsert(table, rows(0, 100, 2, "xyz"), "second")
    assert table.check().ok
    assert summary.updates + summary.inserts == 100
    back = rescale_table(table.uri, RUNNER, buckets=4)
    assert [one.partition for one in back.partitions] == ["x"]
    assert "hoodie.bucket.index.partition.expressions" not in back.hudi_options


def test_a_dry_run_writes_nothing(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 60), "first")
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    plan = rescale_table(table.uri, RUNNER, buckets=16, dry_run=True)
    assert plan.dry_run
    assert plan.instant is None
    assert [(one.partition, one.buckets_before, one.buckets_after, one.files) for one in plan.partitions] == [
        ("x", 4, 16, 4),
        ("y", 4, 16, 4),
    ]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_rollback_takes_the_count_back(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 60), "first")
    before = sorted_rows(table)
    done = rescale_table(table.uri, RUNNER, buckets=16)
    assert done.instant is not None
    rollback_instant(Table.open(open_storage(table.uri)), done.instant)
    assert sorted_rows(table).equals(before)
    assert upsert(table, rows(50, 70, 2), "second").updates == 10
    assert table.check().ok
    assert rescale_table(table.uri, RUNNER, buckets=16).instant is not None
    assert upsert(table, rows(0, 70, 3), "third").updates == 70


def test_an_option_is_compared_with_the_count_in_force(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 10), "first")
    rescale_table(table.uri, RUNNER, buckets=8)
    count = "hoodie.bucket.index.num.buckets"
    assert upsert(table, rows(0, 10, 2), "second", {count: "8"}).updates == 10
    with pytest.raises(UsageError, match="cannot be 4: the table is bound to 8") as refused:
        upsert(table, rows(0, 10, 3), "third", {count: "4"})
    assert "lakeindex rescale TABLE --buckets 4" in str(refused.value.hint)


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ({}, "either --buckets or --partition"),
        ({"buckets": 2, "partitions": {"x": 2}}, "either --buckets or --partition"),
        ({"partitions": {"z": 2}}, "no partition 'z'"),
        ({"buckets": 0}, "a bucket count cannot be '0'"),
    ],
)
def test_what_cannot_be_asked(tmp_path: Path, arguments: dict[str, object], why: str) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 10), "first")
    with pytest.raises(UsageError, match=why):
        rescale_table(table.uri, RUNNER, **arguments)  # type: ignore[arg-type] # the arguments are the point


def test_a_table_without_buckets_is_migrated_not_rescaled(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    upsert(table, rows(0, 60), "first")
    upsert(table, rows(30, 60, 2), "second")
    with pytest.raises(UsageError, match="has the index BLOOM"):
        rescale_table(table.uri, RUNNER, buckets=2)
    before = sorted_rows(table)
    done = migrate_to_buckets(table.uri, BucketLayout(3), RUNNER)
    assert [one.buckets_before for one in done.partitions] == [None, None]
    assert sorted_rows(table).equals(before)
    assert buckets_of(table) == {"x": {0, 1, 2}, "y": {0, 1, 2}}
    summary = upsert(table, rows(50, 80, 3), "third")
    assert (summary.updates, summary.inserts) == (10, 20)
    assert table.check().ok
    with pytest.raises(UsageError, match="has buckets already"):
        migrate_to_buckets(table.uri, BucketLayout(3), RUNNER)


def test_an_empty_table_gets_its_count(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    done = rescale_table(table.uri, RUNNER, buckets=2)
    assert done.instant is not None
    assert done.partitions == ()
    upsert(table, rows(0, 40), "first")
    assert buckets_of(table) == {"x": {0, 1}, "y": {0, 1}}
    assert table.check().ok


def test_a_partition_that_has_the_count_is_no_rule(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    assert rescale_table(table.uri, RUNNER, partitions={"x": 4}).noop


def test_an_index_is_switched_without_a_rewrite_and_back_with_a_rollback(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    opened = Table.open(open_storage(table.uri))
    files = opened.snapshot().base_files_all()
    instant = switch_index(opened, opened.snapshot(), IndexSpec(IndexType.GLOBAL_BLOOM))
    assert opened.snapshot().base_files_all() == files
    now = opened.index()
    assert now is not None
    assert now.index_type is IndexType.GLOBAL_BLOOM
    moved = [Row("k0", "y", 5, "moved")]
    assert upsert(table, moved, "second").moved == 1
    assert table.check().ok
    newest = table.history()[0].instant
    for time in (newest, instant):
        rollback_instant(opened, time)
    back = opened.index()
    assert back is not None
    assert back.index_type is IndexType.BUCKET
    assert upsert(table, rows(0, 50, 3), "third").updates == 40


def test_an_index_is_not_switched_behind_a_commit(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    opened = Table.open(open_storage(table.uri))
    before = opened.snapshot()
    upsert(table, rows(0, 41, 2), "second")
    with pytest.raises(WriteConflictError):
        switch_index(opened, before, IndexSpec(IndexType.GLOBAL_BLOOM))
    assert [one.action for one in table.history()] == ["rollback", "commit", "commit"]
    with pytest.raises(UsageError, match="buckets need a rewrite"):
        switch_index(opened, before, IndexSpec(IndexType.BUCKET))


def test_a_doubled_key_is_named(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 1)
    upsert(table, rows(0, 10, days="x"), "first")
    file = next((tmp_path / "t" / "x").glob("*.parquet"))
    stored = pq.read_table(file)
    stored = stored.replace_schema_metadata(unstamped(stored.schema.metadata))
    pq.write_table(pa.concat_tables([stored, stored.slice(3, 1)]), file)
    with pytest.raises(TableCorruptError, match="is stored more than once in partition 'x'"):
        rescale_table(table.uri, RUNNER, buckets=2)
    assert table.history()[0].action == "rollback"


def test_nothing_is_published_that_lost_a_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    real = rewrite_run._read_piece
    monkeypatch.setattr(rewrite_run, "_read_piece", lambda store, piece: real(store, piece).slice(1))
    with pytest.raises(InvariantError, match="40 rows were read, the new files hold"):
        rescale_table(table.uri, RUNNER, buckets=3)
    monkeypatch.undo()
    assert [one.action for one in table.history()] == ["rollback", "commit"]
    assert upsert(table, rows(0, 50, 2), "second").updates == 40
    assert table.check().ok


def test_a_run_that_died_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    before = sorted_rows(table)
    built: list[str] = []
    real = rewrite_run._build

    def dies(task: rewrite_run.BuildTask) -> rewrite_run.BuiltFile:
        if len(built) == 2:
            raise KeyboardInterrupt
        done = real(task)
        built.append(done.file.path)
        return done

    monkeypatch.setattr(rewrite_run, "_build", dies)
    with pytest.raises(KeyboardInterrupt):
        rescale_table(table.uri, RUNNER, buckets=3)
    assert sorted_rows(table).equals(before)
    notes = [one for one in (tmp_path / "t" / ".hoodie" / ".lakeindex").rglob("*.json") if '"rows":' in one.read_text()]
    assert any('"pieces"' in one.read_text() for one in notes)
    for one in notes:
        one.write_text(one.read_text().replace('"rows":', '"later":1,"rows":'))  # as a later release may write them
    encoded: list[str] = []
    encode = rewrite_run.encode_parts
    monkeypatch.setattr(rewrite_run, "_build", real)
    monkeypatch.setattr(
        rewrite_run,
        "encode_parts",
        lambda parts, task: encoded.append(task.new.name) or encode(parts, task),
    )
    done = rescale_table(table.uri, RUNNER, buckets=3)
    assert {path.rpartition("/")[2] for path in built}.isdisjoint(encoded), "what was written is not written again"
    assert done.files_created == len(built) + len(encoded) == 6
    assert sorted_rows(table).equals(before)
    assert not [path for path in (tmp_path / "t" / ".hoodie" / ".lakeindex" / "runs").rglob("*") if path.is_file()]


def test_pieces_that_cannot_be_read_are_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    before, real = sorted_rows(table), rewrite_run.build_files

    def torn(tasks: tuple[rewrite_run.BuildTask, ...]) -> tuple[rewrite_run.BuiltFile, ...]:
        monkeypatch.undo()
        piece = next((tmp_path / "t" / ".hoodie" / ".lakeindex" / "runs").rglob("*.arrow"))
        piece.write_bytes(bytes(piece.stat().st_size))
        return real(tasks)

    monkeypatch.setattr(rewrite_run, "build_files", torn)
    with pytest.raises(InvariantError, match="cannot be read"):
        rescale_table(table.uri, RUNNER, buckets=3)
    assert rescale_table(table.uri, RUNNER, buckets=3).rows == 40
    assert sorted_rows(table).equals(before)


def test_pieces_of_before_a_column_was_added_are_not_taken_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By the same run that is started again, of files that nobody has written since."""
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    with monkeypatch.context() as patched:
        patched.setattr(rewrite_run, "build_files", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            rescale_table(table.uri, RUNNER, buckets=3)
    wide = batch_of([Row("k1", "y", 2, "2")]).append_column("extra", pa.array(["new"]))
    assert table.upsert(wide, schema_mode="add").updates == 1
    before = sorted_rows(table)
    assert rescale_table(table.uri, RUNNER, buckets=3).rows == 40
    assert sorted_rows(table).equals(before)


def test_a_commit_in_between_makes_it_start_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    real = rewrite_run.build_files
    once: list[int] = []

    def build(tasks: tuple[rewrite_run.BuildTask, ...]) -> tuple[rewrite_run.BuiltFile, ...]:
        if not once:
            once.append(1)
            table.upsert(batch_of(rows(20, 60, 2)), batch_id="second", options=OVERTAKES)
        return real(tasks)

    monkeypatch.setattr(rewrite_run, "build_files", build)
    done = rescale_table(table.uri, RUNNER, buckets=3)
    assert done.rows == 60
    oracle = Oracle()
    oracle.apply(rows(0, 40))
    oracle.apply(rows(20, 60, 2))
    assert content_of(table) == oracle.content()
    assert table.check().ok


def test_two_groups_of_one_bucket_are_cured(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 2)
    upsert(table, rows(0, 20, days="x"), "first")
    done = rescale_table(table.uri, RUNNER, buckets=1)
    assert done.instant is not None
    change = tmp_path / "t" / ".hoodie" / ".lakeindex" / "buckets" / f"{done.instant}.json"
    change.write_text(change.read_text().replace('buckets": "1"', 'buckets": "3"'))
    with pytest.raises(TableCorruptError, match="its bucket is another one of 3"):
        upsert(table, rows(0, 30, 2, "x"), "second")
    rescale_table(table.uri, RUNNER, buckets=4)
    assert upsert(table, rows(0, 30, 3, "x"), "third").updates == 20


@settings(max_examples=examples(6), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.one_of(st.integers(1, 9), st.tuples(st.integers(0, 60), st.integers(1, 40))), max_size=6))
def test_any_sequence_equals_the_dictionary(tmp_path_factory: pytest.TempPathFactory, steps: list[object]) -> None:
    folder = tmp_path_factory.mktemp("sequence")
    table, oracle = bucket_table(folder, 2), Oracle()
    first = rows(0, 30)
    upsert(table, first, "first")
    oracle.apply(first)
    for number, step in enumerate(steps):
        if isinstance(step, int):
            rescale_table(table.uri, RUNNER, buckets=step)
        else:
            assert isinstance(step, tuple)
            batch = rows(step[0], step[0] + step[1], number)
            upsert(table, batch, f"batch {number}")
            oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert table.check().ok


@dataclass(frozen=True)
class Elsewhere:
    """Tasks travel to another process, and their results back."""

    slots: int = 2
    is_started: bool = True

    def nearby(self) -> Elsewhere:
        return self

    def for_files(self, files: int) -> Elsewhere:
        del files
        return self

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        del title
        sent = [pickle.dumps((function, task)) for task in tasks]
        assert all(len(one) < 20_000 for one in sent)
        return [pickle.loads(pickle.dumps(f(task))) for f, task in map(pickle.loads, sent)]


def test_any_runner_may_do_the_tasks(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 60), "first")
    before = sorted_rows(table)
    assert rescale_table(table.uri, Elsewhere(), buckets=6).rows == 60
    assert sorted_rows(table).equals(before)


def test_files_are_encoded_as_asked(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, 1)
    upsert(table, rows(0, 50, days="x"), "first")
    config = WriteConfig(row_group_rows=20)
    rescale_table(table.uri, RUNNER, buckets=2, config=config)
    newest = table.history()[0].instant
    groups = {pq.ParquetFile(p).num_row_groups for p in (tmp_path / "t" / "x").glob(f"*_{newest}.parquet")}
    assert max(groups) > 1


def test_a_digest_is_added_up() -> None:
    assert RowDigest(1, 2, 3) + RowDigest(1, (1 << 64) - 1, 0) == RowDigest(2, 1, 3)


def test_an_index_that_another_run_changes_meanwhile_is_not_changed_back() -> None:
    batch = [Row(f"k{n}", "x", 1, "1") for n in range(12)]
    world = MemoryTable.holding(batch, index="BUCKET", hoodie__bucket__index__num__buckets="2")
    at_once = {"lakeindex.lock.wait": "0"}
    done = world.once(
        lambda call: "inflight" in str(call), lambda: world.table.rescale(8, progress=False, options=at_once)
    )
    with pytest.raises(WriteConflictError, match="the index of the table was changed meanwhile by another run"):
        world.table.rescale(4, progress=False, options=at_once)
    assert done
    world.store.hook = None
    assert len(Table.open(world.store).snapshot().base_files("x")) > 4
    assert world.upsert([Row(f"k{n}", "x", 2, "2") for n in range(12)]).updates == 12
    assert not world.timeline().pending
    assert world.table.check().ok


@pytest.mark.parametrize("count", [1, 8])
def test_a_partition_without_files_that_somebody_writes_into_meanwhile_gets_its_new_count(count: int) -> None:
    """Its rows had gone; with the old count they would be in buckets in which nobody looks for them."""
    batch = [Row(f"k{n}", day, 1, "1") for n in range(12) for day in ("x", "y")]
    world = MemoryTable("BUCKET", hoodie__bucket__index__num__buckets="2")
    world.upsert(batch)
    world.table.delete_partitions(["x"])
    done = world.once(
        lambda call: "inflight" in str(call), lambda: world.upsert([one for one in batch if one.day == "x"])
    )
    rescaled = world.table.rescale(
        partitions={"x": count, "y": 3}, progress=False, options={"lakeindex.lock.wait": "0"}
    )
    assert done
    world.store.hook = None
    assert [(one.partition, one.buckets_after) for one in rescaled.partitions] == [("x", count), ("y", 3)]
    again = world.upsert([Row(f"k{n}", "x", 2, "2") for n in range(12)])
    assert (again.inserts, again.updates) == (0, 12)
    assert world.table.check().ok


def test_a_partition_without_files_whose_own_count_falls_away_meanwhile_gets_that_of_the_table() -> None:
    """The count of the table stays what it was, and all its files are right: only the rule goes."""
    batch = [Row(f"k{n}", day, 1, "1") for n in range(12) for day in ("x", "y")]
    world = MemoryTable("BUCKET", hoodie__bucket__index__num__buckets="2")
    world.upsert(batch)
    world.table.rescale(partitions={"x": 8}, progress=False)
    world.table.delete_partitions(["x"])
    done = world.once(
        lambda call: "inflight" in str(call), lambda: world.upsert([one for one in batch if one.day == "x"])
    )
    rescaled = world.table.rescale(2, progress=False, options={"lakeindex.lock.wait": "0"})
    assert done
    world.store.hook = None
    assert [(one.partition, one.buckets_before, one.buckets_after) for one in rescaled.partitions] == [("x", 8, 2)]
    again = world.upsert([Row(f"k{n}", "x", 2, "2") for n in range(12)])
    assert (again.inserts, again.updates) == (0, 12)
    assert world.table.check().ok
