"""Runs beside other writers: what somebody changes while a batch is on its way is never taken back, lost or doubled."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.commit.services.archive import archive_table
from lakeindex.commit.services.clean import clean_table
from lakeindex.commit.services.rollback import rollback_instant
from lakeindex.conductor.upsert import run_stage
from lakeindex.errors import (
    FencedError,
    InputError,
    ObjectNotFoundError,
    SchemaMismatchError,
    TableCorruptError,
    TableUnsupportedError,
)
from lakeindex.format.commit_metadata import SCHEMA_KEY, CommitMetadata, format_commit_metadata
from lakeindex.format.instants import next_instant_time
from lakeindex.model import IndexSpec, IndexType, Operation
from lakeindex.operations.rescale import rescale_table, switch_index
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import Stage
from lakeindex.run.spec import RunSpec
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.types.avro_schema import schema_from_avro, schema_to_avro
from tests.builders import SCHEMA, Row, batch_of, content_of, make_table, rows_of
from tests.golden import made_once
from tests.meanwhile import OVERTAKES

WIDER = SCHEMA.append(pa.field("extra", pa.string()))
LOOK = "verify keys"
WRITE = "merge write: rewrite"
OVERTAKING = parse_options(OVERTAKES)


class Meanwhile:
    """Does something once, when a step with this title begins."""

    def __init__(self, title: str, then: Callable[[], object]) -> None:
        self._title = title
        self._then: Callable[[], object] | None = then

    @contextmanager
    def step(self, title: str, total: int) -> Iterator[Callable[[], None]]:
        then = self._then
        if then is not None and self._title in title:
            self._then = None
            then()
        yield lambda: None

    @property
    def happened(self) -> bool:
        return self._then is None


def opened(table: LakeTable) -> Table:
    return Table.open(open_storage(table.uri))


@made_once
def some_table(folder: Path, **options: str) -> LakeTable:
    table = make_table(folder / "t", **options)
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]), batch_id="first")
    return table


def widen(table: LakeTable, schema: pa.Schema = WIDER, **more: str) -> None:
    """Another writer adds a column by a commit into some other partition; here one without files."""
    store = open_storage(table.uri)
    time = next_instant_time(opened(table).load_timeline().max_time, 0)
    commit = CommitMetadata({}, "UPSERT", {SCHEMA_KEY: schema_to_avro(schema, "hoodie.other.name"), **more})
    store.write(f".hoodie/{time}.commit.requested", b"")
    store.write(f".hoodie/{time}.inflight", b"")
    store.write(f".hoodie/{time}.commit", format_commit_metadata(commit))


def columns(table: LakeTable) -> list[str]:
    """Of the newest commit."""
    timeline = opened(table).load_timeline()
    text = timeline.commit_metadata(open_storage(table.uri), timeline.completed_writes[-1]).schema_text
    assert text is not None
    return schema_from_avro(text).names


@pytest.mark.parametrize("when", [LOOK, WRITE])
def test_a_column_that_another_writer_adds_is_not_erased(tmp_path: Path, when: str) -> None:
    table = some_table(tmp_path)
    before = content_of(table)
    meanwhile = Meanwhile(when, lambda: widen(table))
    with pytest.raises(SchemaMismatchError, match="lacks column 'extra'"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert columns(table) == WIDER.names
    assert content_of(table) == before
    assert not opened(table).load_timeline().pending
    with_extra = batch_of([Row("a", "x", 2, "2")]).append_column("extra", pa.array(["new"]))
    assert table.upsert(with_extra, batch_id="again").updates == 1
    assert {row["id"]: row["extra"] for row in rows_of(table) if row["day"] == "x"} == {"a": "new", "b": None}


def test_a_table_that_is_altered_meanwhile_is_refused(tmp_path: Path) -> None:
    """Hudi's schema on read: the same columns, but found by ids from now on."""
    table = some_table(tmp_path)
    before = content_of(table)
    altered = Meanwhile(WRITE, lambda: widen(table, SCHEMA, latest_schema="{}"))
    with pytest.raises(TableUnsupportedError, match="altered"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]), progress=altered, batch_id="mine")
    assert altered.happened
    assert content_of(table) == before


def test_rows_are_compared_by_the_types_that_there_are_in_the_end(tmp_path: Path) -> None:
    """As integers one is older; as doubles, to which another writer widens them, they are equal."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 2**53 + 1, "stored")]))
    wide = batch_of([Row("b", "y", 1, "theirs")])
    wide = wide.set_column(wide.column_names.index("ts"), "ts", pa.array([0.5]))
    widens = Meanwhile(WRITE, lambda: table.upsert(wide, schema_mode="widen", options=OVERTAKES))
    done = table.upsert(batch_of([Row("a", "x", 2**53, "ours"), Row("n", "x", 1, "ours")]), progress=widens)
    assert widens.happened
    assert (done.inserts, done.updates, done.ignored) == (1, 1, 0)
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "ours", "b": "theirs", "n": "ours"}


def test_deletes_go_on_with_the_columns_there_are_now(tmp_path: Path) -> None:
    table = some_table(tmp_path)
    meanwhile = Meanwhile(WRITE, lambda: widen(table))
    done = table.delete(batch_of([Row("a", "x", 2, "2")]).select(["id", "day"]), progress=meanwhile)
    assert (done.deletes, meanwhile.happened) == (1, True)
    assert columns(table) == WIDER.names
    assert {row["id"] for row in rows_of(table)} == {"b", "c"}
    (live,) = opened(table).snapshot().base_files("x")
    assert "extra" in pq.read_schema(f"{table.uri}/{live.path}").names


def test_in_five_jobs_the_last_one_stages_anew(tmp_path: Path) -> None:
    table = some_table(tmp_path)
    source = tmp_path / "batch.parquet"
    pq.write_table(batch_of([Row("a", "x", 2, "2")]).select(["id", "day"]), source)
    spec = RunSpec(table.uri, f"{table.uri}.lakeindex", "run", "batch", Operation.DELETE, (str(source),))
    runner = LocalRunner(1)
    for stage in (Stage.STAGE_INPUT, Stage.INDEX_LOOKUP, Stage.BLOOM_CHECK, Stage.VERIFY_KEYS):
        run_stage(stage, spec, runner)
    widen(table)
    run_stage(Stage.MERGE_WRITE, spec, runner)
    assert columns(table) == WIDER.names
    assert {row["id"] for row in rows_of(table)} == {"b", "c"}


@pytest.mark.parametrize("stage", [LOOK, WRITE])
def test_a_batch_that_changes_while_the_columns_do_is_not_taken_for_the_first(tmp_path: Path, stage: str) -> None:
    """It is staged anew for the new columns, and the run is known by what it was."""
    table = some_table(tmp_path)
    source = tmp_path / "batch.parquet"
    pq.write_table(batch_of([Row("a", "x", 2, "2")]).select(["id", "day"]), source)

    def both() -> None:
        widen(table)
        pq.write_table(batch_of([Row("b", "x", 2, "2")]).select(["id", "day"]), source)

    meanwhile = Meanwhile(stage, both)
    with pytest.raises(InputError, match="is not what it was when the run began"):
        table.delete(str(source), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert {row["id"] for row in rows_of(table)} == {"a", "b", "c"}
    assert not opened(table).load_timeline().pending
    assert table.delete(str(source), batch_id="mine").deletes == 1
    assert {row["id"] for row in rows_of(table)} == {"a", "c"}


def test_a_rewrite_for_another_index_keeps_the_column_too(tmp_path: Path) -> None:
    table = some_table(tmp_path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    meanwhile = Meanwhile("rescale: write", lambda: widen(table))
    rescale_table(table.uri, LocalRunner(1, meanwhile), buckets=3)
    assert meanwhile.happened
    assert columns(table) == WIDER.names
    assert {row["id"] for row in rows_of(table)} == {"a", "b", "c"}


def test_two_writers_that_create_one_partition_share_its_buckets(tmp_path: Path) -> None:
    """Both published: every bucket had two file groups, and the table was refused from then on."""
    table = some_table(tmp_path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    theirs = batch_of([Row(f"t{n}", "new", 1, "t") for n in range(20)])
    meanwhile = Meanwhile(WRITE, lambda: table.upsert(theirs, batch_id="theirs", options=OVERTAKES))
    table.upsert(batch_of([Row(f"m{n}", "new", 1, "m") for n in range(20)]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    ids = [file.file_id[:8] for file in opened(table).snapshot().base_files("new")]
    assert sorted(ids) == ["00000000", "00000001"]
    assert len(content_of(table)) == 43
    assert table.check().ok


def roll_back_newest(table: LakeTable) -> None:
    rollback_instant(opened(table), opened(table).load_timeline().completed_writes[-1].time)


@pytest.mark.parametrize("when", ["index lookup", "bloom check", LOOK, WRITE])
def test_a_rollback_meanwhile_is_planned_around(tmp_path: Path, when: str) -> None:
    """It ended with "table corrupt, restore the file"."""
    table = some_table(tmp_path)
    table.upsert(batch_of([Row("a", "x", 2, "2"), Row("n", "x", 2, "2")]), batch_id="second")
    meanwhile = Meanwhile(when, lambda: roll_back_newest(table))
    done = table.upsert(batch_of([Row("b", "x", 3, "3"), Row("n", "x", 3, "3")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert (done.inserts, done.updates) == (1, 1)
    rows = {row["id"]: row["v"] for row in rows_of(table)}
    assert rows == {"a": "1", "b": "3", "c": "1", "n": "3"}


@pytest.mark.parametrize("when", ["index lookup", LOOK])
def test_an_upsert_and_a_clean_meanwhile_are_planned_around(tmp_path: Path, when: str) -> None:
    table = some_table(tmp_path)

    def overtake() -> None:
        for n in range(3):
            table.upsert(batch_of([Row("a", "x", 5 + n, "new")]), batch_id=f"over {n}", options=OVERTAKES)
        assert clean_table(opened(table), 1).plan.files

    meanwhile = Meanwhile(when, overtake)
    table.upsert(batch_of([Row("b", "x", 3, "3")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "new", "b": "3", "c": "1"}


def test_a_switch_to_another_index_meanwhile_is_planned_around(tmp_path: Path) -> None:
    table = some_table(tmp_path, hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="2")
    meanwhile = Meanwhile(LOOK, lambda: rescale_table(table.uri, LocalRunner(1), buckets=3, config=OVERTAKING))
    table.upsert(batch_of([Row("b", "x", 3, "3"), Row("n", "x", 3, "3")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "1", "b": "3", "c": "1", "n": "3"}
    assert table.check().ok


def test_commits_that_were_completed_and_archived_meanwhile_are_noticed(tmp_path: Path) -> None:
    """The same new key, committed by another writer and gone from the timeline before we publish."""
    table = some_table(tmp_path)

    def overtake() -> None:
        table.upsert(batch_of([Row("n", "z", 1, "theirs")]), batch_id="theirs", options=OVERTAKES)
        for n in range(2):
            table.upsert(batch_of([Row("c", "y", 5 + n, "later")]), batch_id=f"later {n}", options=OVERTAKES)
        archive_table(opened(table), 1)

    meanwhile = Meanwhile(WRITE, overtake)
    done = table.upsert(batch_of([Row("n", "z", 2, "mine")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened
    assert (done.inserts, done.updates) == (0, 1)
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "1", "b": "1", "c": "later", "n": "mine"}


def test_so_are_those_that_made_an_empty_table(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")

    def overtake() -> None:
        table.upsert(batch_of([Row("n", "z", 1, "theirs")]), batch_id="theirs", options=OVERTAKES)
        for n in range(2):
            table.upsert(batch_of([Row("c", "y", 5 + n, "later")]), batch_id=f"later {n}", options=OVERTAKES)
        archive_table(opened(table), 1)

    table.upsert(batch_of([Row("n", "z", 2, "mine")]), progress=Meanwhile(WRITE, overtake), batch_id="mine")
    assert sorted(row["id"] for row in rows_of(table)) == ["c", "n"]


@pytest.mark.parametrize("damage", [Path.unlink, lambda path: path.write_bytes(path.read_bytes()[:-9])])
def test_damage_is_not_taken_for_another_writer(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    """Neither in the error nor by trying again."""
    table = some_table(tmp_path)
    (live,) = opened(table).snapshot().base_files("y")
    path = Path(table.uri) / live.path
    meanwhile = Meanwhile(LOOK, lambda: damage(path))
    with pytest.raises((ObjectNotFoundError, TableCorruptError), match=live.file_id):
        table.upsert(batch_of([Row("c", "y", 3, "3")]), progress=meanwhile, batch_id="mine")
    assert meanwhile.happened


@pytest.mark.parametrize(("index", "to"), [("BLOOM", IndexType.GLOBAL_SIMPLE), ("GLOBAL_BLOOM", IndexType.SIMPLE)])
def test_a_batch_that_was_staged_for_keys_of_another_scope_is_not_written(
    tmp_path: Path, index: str, to: IndexType
) -> None:
    """Of one key in two partitions it has two rows, where a global index has room for one; and the other way round."""
    table = some_table(tmp_path, hoodie__index__type=index)
    switch = Meanwhile(WRITE, lambda: switch_index(opened(table), opened(table).snapshot(), IndexSpec(to)))
    mine = batch_of([Row("b", "x", 3, "3"), Row("n", "x", 3, "3"), Row("n", "y", 4, "3")])
    with pytest.raises(FencedError, match=f"was changed from {index} to {to} during the run"):
        table.upsert(mine, progress=switch, batch_id="mine")
    assert switch.happened
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "1", "b": "1", "c": "1"}
    assert not opened(table).load_timeline().pending
    assert table.upsert(mine, batch_id="mine").inserts == (1 if to.is_global else 2)


def test_the_index_may_become_global_only_between_runs(tmp_path: Path) -> None:
    table = some_table(tmp_path)
    switch = Meanwhile(
        WRITE, lambda: switch_index(opened(table), opened(table).snapshot(), IndexSpec(IndexType.SIMPLE))
    )
    table.upsert(batch_of([Row("b", "x", 3, "3")]), progress=switch, batch_id="mine")
    assert switch.happened
    assert json.loads(Path(f"{table.uri}/.hoodie/.lakeindex/table.json").read_text())["index_type"] == "BLOOM"
    assert {row["id"]: row["v"] for row in rows_of(table)} == {"a": "1", "b": "3", "c": "1"}
