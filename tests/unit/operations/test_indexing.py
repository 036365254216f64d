"""The stored index of a table: commits it did not see, damage, races, deaths, and the commands that look after it."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import IndexDamagedError, IndexNotBuiltError, InvariantError, OptionError, WriteConflictError
from lakeindex.index.locations.change_log import ChangeLog, CoveredFile, Delta
from lakeindex.index.locations.stored_index import DELTA_SCHEMA, Change
from lakeindex.model import IndexType
from lakeindex.operations import index as indexing_verify
from lakeindex.operations.table_services import rollback_table
from lakeindex.storage import open_storage
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.timeline.verdicts import Outcome, Verdict, decide
from tests.builders import Oracle, Row, batch_of, content_of, make_table, rows_of
from tests.cli_support import lakeindex, validate
from tests.golden import table_of
from tests.model.harness import Operation, fail_every_call
from tests.scheduling import some_of
from tests.stored_indexes import bound_to, clustered, runner_of, unseen

STORED = ["RECORD_INDEX", "RECORD_LEVEL_INDEX"]
UNSTORED = {"RECORD_INDEX": "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX": "BLOOM"}
SHORT_LEASE = {"lakeindex.lock.lease": "2"}  # a run that failed holds the lock so long
FIRST = [Row(k, d, 1, "1") for k, d in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))]


def folder_of(index: str) -> str:
    return f".hoodie/.lakeindex/index/{index.lower()}"


def table_with(where: Path | str, index: str, rows: list[Row] | None = None, **options: str) -> LakeTable:
    if isinstance(where, Path):
        return table_of(where, FIRST if rows is None else rows, hoodie__index__type=index, **options)
    table = make_table(where, hoodie__index__type=index, **options)
    table.upsert(batch_of(FIRST if rows is None else rows), runner=LocalRunner(1))
    return table


class Followed:
    """A table and a dictionary that get the same batches; every write is checked, and the index at the end of it."""

    def __init__(self, table: LakeTable, index: str) -> None:
        self.table, self.index = table, index
        self.oracle = Oracle(is_global=index == "RECORD_INDEX", moves=index != "RECORD_INDEX")
        self.oracle.apply(FIRST)

    def upsert(self, rows: list[Row], **options: str) -> None:
        named = {n.replace("__", "."): v for n, v in options.items()}
        self.table.upsert(batch_of(rows), options=named, runner=LocalRunner(1))
        self.oracle.apply(rows)
        self.check()

    def unseen(self, rows: list[Row]) -> str:
        options = {"hoodie__bloom__index__update__partition__path": "false"}
        instant = unseen(self.table, UNSTORED[self.index], rows, **options)
        self.oracle.apply(rows)
        return instant

    def check(self) -> None:
        assert content_of(self.table) == self.oracle.content()
        found = self.table.index_verify(runner=LocalRunner(1))
        assert found.ok, found
        assert found.rows == found.entries


@pytest.mark.parametrize("index", STORED)
def test_commits_it_did_not_see_are_caught_up(tmp_path: Path, index: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    both.unseen(
        [Row("a", "x", 2, "2"), Row("new", "x", 2, "2"), Row("c", "y", 2, "", deleted=True), Row("z", "z", 2, "")]
    )
    behind = both.table.index_status()
    assert (behind.files_behind, behind.is_built) == (3, True)
    assert both.table.index_verify().ok  # what is not covered is not compared
    both.upsert([Row(k, d, 3, "3") for k, d in (("new", "x"), ("z", "z"), ("c", "y"), ("a", "x"))])
    after = both.table.index_status()
    assert (after.files_behind, after.covered_through) == (0, after.last_commit)


@pytest.mark.parametrize("index", STORED)
def test_only_touched_partitions_are_caught_up_unless_it_is_global(tmp_path: Path, index: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    both.unseen([Row("n1", "x", 2, "2"), Row("n2", "y", 2, "2")])
    both.upsert([Row("n1", "x", 3, "3")])
    assert both.table.index_status().files_behind == (0 if index == "RECORD_INDEX" else 1)
    both.upsert([Row("n2", "y", 3, "3")])


@pytest.mark.parametrize("index", some_of(STORED, {"RECORD_INDEX"}.__contains__, pytest.mark.slow))
def test_clustering_is_caught_up_and_what_it_replaced_is_forgotten(tmp_path: Path, index: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    never = {"hoodie__parquet__small__file__limit": "0"}
    both.upsert([Row("e", "x", 1, "1")], **never)
    both.upsert([Row("f", "x", 1, "1")], **never)
    clustered(both.table, "x")
    assert len({r["_hoodie_file_name"] for r in rows_of(both.table)}) == 2
    both.upsert([Row(k, "x", 2, "2") for k in "abef"])
    both.upsert([Row(k, "x", 3, "3") for k in "abefgh"], hoodie__metadata__compact__max__delta__commits="1")
    assert both.table.index_status().deltas == 0
    both.upsert([Row(k, "x", 4, "4") for k in "abefgh"])


@pytest.mark.parametrize("folds", ["1", "10"])
@pytest.mark.parametrize("index", STORED)
def test_rollback_takes_the_entries_back(tmp_path: Path, index: str, folds: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    gone = both.table.upsert(
        batch_of([Row("n", "x", 2, "2"), Row("m", "z", 2, "2"), Row("a", "x", 2, "", deleted=True)]),
        options={"hoodie.metadata.compact.max.delta.commits": folds},
    )
    assert gone.instant is not None
    rollback_table(both.table.uri, gone.instant)
    both.upsert([Row("n", "x", 3, "3"), Row("a", "x", 3, "3"), Row("m", "z", 3, "3")])


@pytest.mark.parametrize("index", STORED)
def test_rollback_of_the_only_commit_leaves_an_index_that_begins_anew(tmp_path: Path, index: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    instant = both.table.history()[0].instant
    rollback_table(both.table.uri, instant)
    both.oracle.rows.clear()
    both.upsert(FIRST)
    both.upsert([Row("a", "x", 2, "2")], hoodie__metadata__compact__max__delta__commits="1")


@pytest.mark.parametrize("index", STORED)
def test_partition_that_lost_all_its_files_counts_no_more(tmp_path: Path, index: str):
    """Its file groups are gone from a partition that a batch touches: the count must not go on with their keys."""
    both = Followed(table_with(tmp_path / "t", index), index)
    instant = both.table.upsert(batch_of([Row("m", "z", 2, "2")])).instant
    folding = {"hoodie.metadata.compact.max.delta.commits": "1"}
    both.table.upsert(batch_of([Row("a", "x", 2, "2")]), options=folding)
    assert instant is not None
    newest = both.table.history()[0].instant
    rollback_table(both.table.uri, newest)
    rollback_table(both.table.uri, instant)
    both.oracle = Oracle(is_global=both.oracle.is_global, moves=both.oracle.moves)
    both.oracle.apply(FIRST)
    both.upsert([Row("m", "z", 3, "3")], hoodie__metadata__compact__max__delta__commits="1")
    both.upsert([Row("c", "y", 4, "4")])
    both.upsert([Row("m", "z", 5, "5")])


@pytest.mark.parametrize("index", STORED)
def test_never_built_or_dropped_refuses_and_says_how_to_build_it(tmp_path: Path, index: str):
    table = table_with(tmp_path / "t", UNSTORED[index])
    built_by_hand = table.index_status(index)
    assert (built_by_hand.is_built, built_by_hand.is_bound, built_by_hand.files_behind) == (False, False, 2)
    with bound_to(table, index), pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]))
    assert len(rows_of(table)) == 4
    assert table.index_build(index).rows == 4
    with bound_to(table, index):
        assert table.upsert(batch_of([Row("a", "x", 2, "2")])).updates == 1
        assert table.index_drop().was_built
        with pytest.raises(IndexNotBuiltError, match="not built"):
            table.upsert(batch_of([Row("a", "x", 3, "2")]))
        assert not table.index_drop().was_built


@pytest.mark.parametrize("index", ["STATE", "RECORD_INDEX"])
def test_a_copy_of_a_table_and_the_table_have_an_index_each(tmp_path: Path, index: str):
    """A backup that is tried out, for example. A state is named by its place, and has to be built for the copy."""
    runner = runner_of(index)
    table = table_with(tmp_path / "t", index, [])
    table.upsert(batch_of(FIRST), runner=runner)
    shutil.copytree(tmp_path / "t", tmp_path / "copy")
    copy = open_table(tmp_path / "copy")
    if index == "STATE":
        for write in (copy.upsert, copy.delete, copy.insert_overwrite_table):
            with pytest.raises(IndexNotBuiltError, match="holds that of"):
                write(batch_of([Row("a", "y", 2, "moved")]), runner=runner)
        copy.index_build(runner=runner)
    oracle = Oracle(is_global=True)
    oracle.apply(FIRST)
    for number in (2, 3):
        copy.upsert(
            batch_of([Row(f"theirs{number}", "x", 1, "c"), Row("b", "x", 2, None, deleted=True)]), runner=runner
        )
        rows = [Row(key, "x", number, "n") for key in ("m", "b", f"n{number}")]
        oracle.apply(rows)
        table.upsert(batch_of(rows), runner=runner)
    assert content_of(table) == oracle.content()
    assert table.check().ok
    assert copy.check().ok
    if index == "STATE":
        copy.index_drop(runner=runner)
        assert table.upsert(batch_of([Row("n3", "x", 9, "n")]), runner=runner).updates == 1


def test_build_of_a_global_index_over_doubled_keys_changes_nothing(tmp_path: Path):
    table = table_with(tmp_path / "t", "BLOOM", [*FIRST, Row("a", "y", 1, "1")])
    with pytest.raises(InvariantError, match=r"'a' in '[xy]'"):
        table.index_build("RECORD_INDEX")
    assert not table.index_status("RECORD_INDEX").is_built
    assert table.index_build("RECORD_LEVEL_INDEX").rows == 5


def test_index_without_a_store_is_refused(tmp_path: Path):
    table = table_with(tmp_path / "t", "BLOOM")
    for index in (None, "INMEMORY"):
        with pytest.raises(OptionError, match="nothing"):
            table.index_status(index)


def files_below(table: LakeTable, index: str, part: str) -> list[str]:
    return [o.path for o in open_storage(table.uri).list(folder_of(index)) if part in o.path]


@pytest.mark.parametrize("what", ["cut", "gone"])
@pytest.mark.parametrize("index", some_of(STORED, {"RECORD_INDEX"}.__contains__, pytest.mark.slow))
def test_damaged_or_lost_delta_is_made_good_from_the_files(tmp_path: Path, index: str, what: str):
    both = Followed(table_with(tmp_path / "t", index), index)
    both.upsert([Row("e", "x", 1, "1"), Row("b", "x", 2, "", deleted=True)])
    both.upsert([Row("f", "x", 1, "1")])
    store = open_storage(both.table.uri)
    path = files_below(both.table, index, "/log/")[1]
    if what == "gone":
        store.delete(path)
    else:
        store.write(path, store.read(path)[:-20])
    both.upsert([Row("c", "y", 3, "3")])  # count and coverage agree, also where nothing is read anew
    assert path not in files_below(both.table, index, "/log/")
    both.upsert([Row(k, "x", 3, "3") for k in "abef"])
    both.upsert([Row(k, "x", 4, "4") for k in "abef"], hoodie__metadata__compact__max__delta__commits="1")


@pytest.mark.parametrize("index", STORED)
def test_damaged_shard_refuses_until_it_is_built_anew(tmp_path: Path, index: str):
    table = table_with(tmp_path / "t", index)
    table.index_build()
    store = open_storage(table.uri)
    for path in files_below(table, index, "record-index-"):
        store.write(path, b"PAR1nothing")
    with pytest.raises(IndexDamagedError, match="index build"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]))
    with pytest.raises(IndexDamagedError):
        table.index_verify()
    table.index_build()
    assert table.upsert(batch_of([Row("a", "x", 2, "2")])).updates == 1


@pytest.mark.parametrize("index", STORED)
def test_damaged_list_of_what_was_built_refuses_until_it_is_built_anew(tmp_path: Path, index: str):
    table = table_with(tmp_path / "t", index)
    store = open_storage(table.uri)
    for path in files_below(table, index, "/built-"):
        store.write(path, store.read(path)[:-8])
    with pytest.raises(IndexDamagedError, match="index build"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]))
    assert table.index_build().rows == 4
    assert table.upsert(batch_of([Row("a", "x", 2, "2")])).updates == 1


@pytest.mark.parametrize("index", STORED)
def test_wrong_number_of_keys_is_found_by_the_next_write(tmp_path: Path, index: str):
    table = table_with(tmp_path / "t", index)
    table.index_build()
    store = open_storage(table.uri)
    (path,) = [p for p in files_below(table, index, "shards.json") if "00000002-" in p]
    rows = json.loads(store.read(path))["rows"]
    shard = next(n for n, count in enumerate(rows) if count)
    rows[shard] = 0
    store.write(path, json.dumps({"rows": rows}).encode())
    with pytest.raises(IndexDamagedError, match=r"holds \d keys, but .* 4 rows"):
        table.upsert(batch_of([Row("q", "x", 2, "2")]))


def test_verify_counts_and_shows_what_is_wrong(tmp_path: Path):
    table = table_with(tmp_path / "t", "RECORD_INDEX")
    table.index_build()
    store = open_storage(table.uri)
    files = {row["_hoodie_record_key"]: str(row["_hoodie_file_name"]).partition("_")[0] for row in rows_of(table)}
    (path,) = files_below(table, "RECORD_INDEX", "/log/") or [""]
    name = path.rpartition("/")[2]
    changed = pa.table(
        {
            "key": ["a", "b", "ghost"],
            "partition": ["y", "x", "x"],
            "file_id": [files["c"], None, files["a"]],
            "change": pa.array([1, 2, 0], pa.int8()),
        }
    )
    old = pq.read_schema(pa.BufferReader(store.read(path)))
    sink = pa.BufferOutputStream()
    pq.write_table(changed.cast(old.remove_metadata()).replace_schema_metadata(old.metadata), sink)
    store.write(path, sink.getvalue().to_pybytes())
    for built in files_below(table, "RECORD_INDEX", "built-00000002"):
        cover = pq.read_table(pa.BufferReader(store.read(built)))
        meta = json.loads(cover.schema.metadata[b"lakeindex"])
        assert name.removesuffix(".parquet") in meta["folded"]
        sink = pa.BufferOutputStream()
        meta = {b"lakeindex": json.dumps({**meta, "folded": []}).encode()}
        pq.write_table(cover.slice(0, 0).replace_schema_metadata(meta), sink)
        store.write(built, sink.getvalue().to_pybytes())
    found = table.index_verify()
    assert (found.ok, found.missing, found.wrong, found.surplus, found.doubled) == (False, 1, 1, 1, 0)
    shown = {(e.kind, e.key) for e in found.examples}
    assert shown == {("missing", "b"), ("wrong", "a"), ("surplus", "ghost")}
    answer = lakeindex("index", "verify", table.uri, "--json")
    validate("index-verify", answer.json)
    assert (answer.exit_code, answer.json["error"]["class"]) == (6, "InvariantError")
    assert "1 keys without an entry" in lakeindex("index", "verify", table.uri).stdout


def test_verify_in_parts_is_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rows = [Row(f"k{n}", "xyz"[n % 3], 1, "") for n in range(500)]
    table = table_with(tmp_path / "t", "RECORD_LEVEL_INDEX", rows)
    monkeypatch.setattr(indexing_verify, "_ROWS_A_PART", 60)
    monkeypatch.setattr(indexing_verify, "_HELD_ROWS", 100)
    found = table.index_verify()
    assert (found.ok, found.rows, found.entries, found.files) == (True, 500, 500, 3)
    left = [p for p in (tmp_path / "t.lakeindex").iterdir() if p.name.startswith("index-")]
    assert left == []


def test_two_writers_at_once_leave_an_index_that_is_right(tmp_path: Path):
    """The second plans while the first publishes and compacts; it goes on from an older look at the index."""
    both = Followed(table_with("memory://indexed-race", "RECORD_INDEX"), "RECORD_INDEX")
    store = MemoryStorage.named("indexed-race")
    first = [Row("p", "x", 2, "2"), Row("a", "x", 2, "2")]
    second = [Row("q", "y", 2, "2"), Row("c", "y", 2, "2")]

    def meanwhile(call: Call) -> None:
        if call.name == "write" and f"{folder_of('RECORD_INDEX')}/log/" in call.path:
            store.hook = None
            options = {"hoodie.metadata.compact.max.delta.commits": "1"}
            both.table.upsert(batch_of(first), options=options, runner=LocalRunner(1))

    store.hook = meanwhile
    both.table.upsert(batch_of(second), runner=LocalRunner(1))
    assert store.hook is None
    both.oracle.apply(first)
    both.oracle.apply(second)
    both.check()
    both.upsert([Row(k, d, 3, "3") for k, d in (("p", "x"), ("q", "y"), ("a", "x"), ("c", "y"))])


@pytest.mark.parametrize("retries", [0, 1])
def test_build_that_another_one_overtakes_is_done_again_or_theirs_stands(retries: int):
    name = f"indexed-builders-{retries}"
    table = table_with(f"memory://{name}", "RECORD_INDEX")
    store = MemoryStorage.named(name)
    winner: list[str] = []

    def overtake(call: Call) -> None:
        if call.name == "create" and "/built-" in call.path:
            store.hook = None
            winner.append(table.index_build(runner=LocalRunner(1)).generation)

    store.hook = overtake
    options = {"lakeindex.conflict.retries": str(retries)}
    if retries:
        assert table.index_build(runner=LocalRunner(1), options=options).generation > winner[0]
    else:
        with pytest.raises(WriteConflictError, match="at the same time"):
            table.index_build(runner=LocalRunner(1), options=options)
        assert table.index_status().generation == winner[0]
    assert table.index_verify().ok
    table.index_build(runner=LocalRunner(1))
    generations = {p.split("/base/")[1].partition("/")[0] for p in files_below(table, "RECORD_INDEX", "/base/")}
    assert len(generations) == 2  # in force, and before


def failing(
    name: str, index: str, run: Callable[[LakeTable], object], prepare: Callable[[LakeTable], object]
) -> Operation:
    uri = f"memory://{name}"

    def prepared() -> dict[str, bytes]:
        for one in (name, f"{name}.lakeindex"):
            MemoryStorage.named(one).restore({})
        prepare(table_with(uri, index))
        return MemoryStorage.named(name).snapshot()

    def check(_: MemoryStorage) -> None:
        table = LakeTable(uri)
        rows = {(r["_hoodie_record_key"], r["day"]) for r in rows_of(table)}
        again = [Row(str(key), str(day), 9, "9") for key, day in sorted(rows)]
        summary = table.upsert(
            batch_of(again),
            runner=LocalRunner(1),
            options={**SHORT_LEASE, "hoodie.metadata.compact.max.delta.commits": "1"},
        )
        assert (summary.inserts, summary.updates) == (0, len(again))
        assert table.index_verify(runner=LocalRunner(1)).ok

    return Operation(
        name, prepare=prepared, run=lambda _: run(LakeTable(uri)), check=check, store=lambda: MemoryStorage.named(name)
    )


@pytest.mark.parametrize(("every", "histories"), [(5, 6), pytest.param(1, 30, marks=pytest.mark.slow)])
def test_build_survives_every_failing_call(every: int, histories: int):
    report = fail_every_call(
        failing("indexed-build", "RECORD_INDEX", lambda t: t.index_build(runner=LocalRunner(1)), lambda _: None),
        every=every,
    )
    assert report.histories > histories


@pytest.mark.usefixtures("time_leaps")
@pytest.mark.parametrize(("every", "histories"), [(37, 4), pytest.param(7, 20, marks=pytest.mark.slow)])
@pytest.mark.parametrize("index", some_of(STORED, {"RECORD_LEVEL_INDEX"}.__contains__, pytest.mark.slow))
@pytest.mark.few(0)
def test_catch_up_survives_failing_calls(index: str, every: int, histories: int):
    def write(table: LakeTable) -> None:
        rows = [Row("n1", "x", 3, "3"), Row("n2", "y", 3, "3")]
        table.upsert(batch_of(rows), batch_id="third", run_id="third", runner=LocalRunner(1), options=SHORT_LEASE)

    def prepare(table: LakeTable) -> None:
        unseen(table, UNSTORED[index], [Row("n1", "x", 2, "2"), Row("n2", "y", 2, "2")])

    report = fail_every_call(failing(f"indexed-catch-{index.lower()}", index, write, prepare), every=every)
    assert report.histories > histories


@pytest.mark.parametrize("command", ["build", "status", "verify", "drop"])
def test_commands_print_what_their_schemas_say(tmp_path: Path, command: str):
    table = table_with(tmp_path / "t", "RECORD_INDEX")
    answer = lakeindex("index", command, table.uri, "--json")
    assert answer.exit_code == 0, answer.stderr
    validate(f"index-{command}", answer.json)
    assert "RECORD_INDEX" in lakeindex("index", "build", table.uri).stdout
    shown = lakeindex("index", command, table.uri, "--type", "GLOBAL_RECORD_LEVEL_INDEX")
    assert "RECORD_INDEX" in shown.stdout, shown.stderr


def test_commands_refuse_what_makes_no_sense(tmp_path: Path):
    table = table_with(tmp_path / "t", "RECORD_INDEX")
    assert lakeindex("index", "status", table.uri, "--master", "local").exit_code == 2
    assert lakeindex("index", "build", table.uri, "--type", "BLOOM").exit_code == 2
    lakeindex("index", "drop", table.uri)
    assert lakeindex("index", "verify", table.uri, "--json").error["class"] == "IndexNotBuiltError"


@pytest.mark.parametrize("index", STORED)
def test_the_delta_of_an_older_instant_that_was_rolled_back_does_not_count(tmp_path: Path, index: str):
    """A frozen writer's delta lies in the log while others commit and compact; then its instant is rolled back.

    It is older than everything on the young timeline, and not pending any more, like that of an archived commit.
    """
    older = "20200101000000000"
    both = Followed(table_with(tmp_path / "t", index), index)
    both.upsert([Row("a", "x", 2, "2")], hoodie__metadata__compact__max__delta__commits="1")
    store = open_storage(both.table.uri)
    rows = pa.table(
        {
            "key": ["a", "b", "c", "d"],
            "partition": ["x", "x", "y", "y"],
            "file_id": ["gone-0"] * 4,
            "change": pa.array([Change.FOUND] * 4, pa.int8()),
        },
        schema=DELTA_SCHEMA,
    )
    files = tuple(CoveredFile(day, "gone-0", f"gone-0_0-0-0_{older}.parquet", 2) for day in "xy")
    ChangeLog(store, IndexType(index)).put(Delta(older, files, inserted=4), [rows])
    decide(store, Verdict(older, Outcome.ROLLED_BACK, "token"))
    both.upsert([Row(key, day, 3, "3") for key, day in (("a", "x"), ("b", "x"), ("c", "y"), ("n", "y"))])
    assert both.table.index_verify(runner=LocalRunner(1)).ok
    assert {row["id"] for row in both.table.get(["d"]).rows.to_pylist()} == {"d"}
