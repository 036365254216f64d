"""What a dry run says is what the run then does; and it writes nothing, neither to the table nor to its index."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.errors import (
    BatchIdReusedError,
    OptionError,
    QuarantineExceededError,
    SchemaMismatchError,
    TableNotFoundError,
    UsageError,
)
from lakeindex.run.summary import RunSummary
from tests.builders import Row, as_hudis, batch_of, make_table
from tests.cli_support import lakeindex as command
from tests.cli_support import validate
from tests.scheduling import some_of
from tests.strategies import examples

INDEXES = ("BLOOM", "BUCKET", "RECORD_INDEX", "SIMPLE", "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX")
FIGURES = ("rows_in", "combined", "quarantined", "inserts", "updates", "deletes", "moved", "ignored", "noop")
FIRST = [Row(f"k{n:02d}", f"d{n % 3}", 5, "a") for n in range(30)]
SECOND = [
    *(Row(f"k{n:02d}", f"d{n % 3}", 6, "b") for n in range(4)),
    Row("k00", "d0", 7, "c"),
    Row("k04", "d1", 1, "late"),
    Row("k05", "d2", 6, "", deleted=True),
    Row("k99", "d2", 6, "", deleted=True),
    Row("new", "d0", 6, "n"),
    Row("k06", "d1", 6, "moved, or another key"),
]


def everything(folder: Path) -> dict[str, bytes | None]:
    """Every file and folder below a folder, with its content and when it was changed."""
    found: dict[str, bytes | None] = {}
    for path in sorted(folder.rglob("*")):
        found[f"{path.relative_to(folder)} {path.stat().st_mtime_ns}"] = path.read_bytes() if path.is_file() else None
    return found


def unchanged(table: LakeTable, call: Callable[[], Any]) -> Any:
    """What a call returns, that changes nothing beside, in and below the table's folder, and leaves no folder."""
    folder = Path(table.uri).parent
    before = everything(folder)
    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tempfile, "tempdir", temporary)  # other tests have dry runs, too
        result = call()
        assert not list(Path(temporary).iterdir())
    assert everything(folder) == before
    return result


def same(planned: RunSummary, done: RunSummary) -> None:
    """Rows and files as they then were."""
    for name in (*FIGURES, "files_created", "files_rewritten"):
        assert getattr(planned, name) == getattr(done, name), name
    assert planned.dry_run
    assert not done.dry_run
    assert planned.instant is None
    assert len(planned.changes) == planned.files_created + planned.files_rewritten
    assert [stage.name for stage in planned.stages] == [stage.name for stage in done.stages[: len(planned.stages)]]
    assert sum(one.inserts for one in planned.changes) == done.inserts + done.moved
    assert sum(one.updates for one in planned.changes) == done.updates
    assert sum(one.removed for one in planned.changes) == done.deletes + done.moved


@pytest.mark.parametrize(
    ("index", "version"),
    some_of(
        [*((index, "69"[number % 2]) for number, index in enumerate(INDEXES)), ("BLOOM", "9")],
        lambda case: case[0] in ("BUCKET", "RECORD_INDEX", "BLOOM"),
        pytest.mark.slow,
    ),
)
@pytest.mark.few(2)
def test_a_dry_run_says_what_the_run_does_and_changes_nothing(tmp_path: Path, index: str, version: str) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type=index, hoodie__write__table__version=version)
    empty = unchanged(table, lambda: table.upsert(batch_of(FIRST), dry_run=True))
    same(empty, table.upsert(batch_of(FIRST)))
    sizes = {one.path: one.bytes for one in table.files()}
    planned = unchanged(table, lambda: table.upsert(batch_of(SECOND), dry_run=True))
    assert planned.bytes_to_rewrite == sum(sizes[one.path] for one in planned.changes if one.path is not None) > 0
    rows = table.read(meta=True)
    same(planned, table.upsert(batch_of(SECOND)))
    assert table.read(meta=True) != rows
    keys = batch_of([*FIRST[10:13], Row("nowhere", "d0", 1, "")])
    gone = unchanged(
        table,
        lambda: table.delete(keys, dry_run=True, options={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}),
    )
    same(gone, table.delete(keys))
    assert table.check().ok


@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX"])
def test_an_index_that_is_behind_stays_behind(tmp_path: Path, index: str) -> None:
    """Files of another writer, which a look-up reads into a stored index and into the footer cache."""
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    table.upsert(batch_of(FIRST))
    for folder in (Path(table.uri) / ".hoodie/.lakeindex").glob("*footer*"):
        for path in [one for one in folder.rglob("*") if one.is_file()]:
            path.unlink()
    with_other_options = {"lakeindex.footer.cache": False}
    table.upsert(batch_of([Row("k50", "d0", 5, "a")]), options=with_other_options)
    planned = unchanged(table, lambda: table.upsert(batch_of(SECOND), dry_run=True))
    again = unchanged(table, lambda: table.upsert(batch_of(SECOND), dry_run=True))
    assert [getattr(planned, name) for name in FIGURES] == [getattr(again, name) for name in FIGURES]
    same(planned, table.upsert(batch_of(SECOND)))


def test_a_table_of_hudi_is_not_bound_by_a_dry_run(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    as_hudis(table)
    options = {"hoodie.index.type": "SIMPLE"}
    planned = unchanged(table, lambda: table.upsert(batch_of(SECOND), dry_run=True, options=options))
    assert table.inspect().bound is False
    same(planned, table.upsert(batch_of(SECOND), options=options))


def test_a_batch_that_is_committed_or_does_nothing(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    done = table.upsert(batch_of(FIRST), batch_id="b")
    planned = unchanged(table, lambda: table.upsert(batch_of(FIRST), batch_id="b", dry_run=True))
    assert (planned.noop, planned.instant, planned.dry_run) == (True, done.instant, True)
    assert "done before" in planned.outcome
    with pytest.raises(BatchIdReusedError):
        table.upsert(batch_of(SECOND), batch_id="b", dry_run=True)
    forced = unchanged(table, lambda: table.upsert(batch_of(SECOND), batch_id="b", dry_run=True, force=True))
    assert forced.inserts + forced.updates > 0
    late = unchanged(table, lambda: table.upsert(batch_of([Row("k00", "d0", 1, "late")]), dry_run=True))
    assert (late.noop, late.ignored, late.changes) == (True, 1, ())
    nothing = unchanged(table, lambda: table.upsert(batch_of([]), dry_run=True))
    assert (nothing.noop, nothing.rows_in, nothing.dry_run) == (True, 0, True)
    assert RunSummary.from_json(forced.to_json()) == forced
    assert "dry run, nothing written" in repr(forced)


def test_what_a_run_refuses_a_dry_run_refuses(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    for data, options, error in (
        (pa.table({"id": ["a"]}), {}, SchemaMismatchError),
        (batch_of(SECOND), {"hoodie.index.type": "SIMPLE"}, OptionError),
        (batch_of(SECOND), {"lakeindex.nothing": 1}, OptionError),
    ):
        with pytest.raises(error):
            unchanged(table, lambda d=data, o=options: table.upsert(d, dry_run=True, options=o))
    with pytest.raises(TableNotFoundError):
        LakeTable(str(tmp_path / "nowhere")).upsert(batch_of(SECOND), dry_run=True)
    assert not (tmp_path / "nowhere.lakeindex").exists()
    bad = batch_of(SECOND).set_column(0, "id", pa.array([None, *(row.id for row in SECOND[1:])]))
    before = everything(tmp_path)
    with pytest.raises(QuarantineExceededError) as caught:
        table.upsert(bad, dry_run=True)
    assert pq.read_table(str(caught.value.culprit)).num_rows == 1, "the file that the error names is there"
    assert everything(tmp_path) == before
    allowed = unchanged(table, lambda: table.upsert(bad, dry_run=True, max_quarantined=1))
    assert allowed.quarantined == 1


OPERATIONS: dict[str, Callable[..., RunSummary]] = {
    "insert": lambda table, **more: table.insert(batch_of([SECOND[0], *SECOND[8:]]), "ignore", **more),
    "bulk_insert": lambda table, **more: table.bulk_insert(batch_of([Row("n", "empty", 1, "1")]), **more),
    "overwrite": lambda table, **more: table.insert_overwrite(batch_of(SECOND[:2]), **more),
    "overwrite_table": lambda table, **more: table.insert_overwrite_table(batch_of(SECOND[:2]), **more),
    "delete_partitions": lambda table, **more: table.delete_partitions(["d0", "d2"], **more),
    "truncate": lambda table, **more: table.truncate(**more),
}


@pytest.mark.parametrize("index", ["BLOOM", "BUCKET"])
@pytest.mark.parametrize("name", OPERATIONS)
@pytest.mark.few(6)
def test_every_operation_has_one(tmp_path: Path, name: str, index: str) -> None:
    table, work = make_table(tmp_path / "t", hoodie__index__type=index), OPERATIONS[name]
    table.upsert(batch_of(FIRST), batch_id="first")
    planned = unchanged(table, lambda: work(table, dry_run=True))
    done = work(table, batch_id="done")
    same(planned, done)
    assert (planned.files_replaced, planned.rows_replaced) == (done.files_replaced, done.rows_replaced)
    assert (planned.operation, bool(done.instant)) == (done.operation, True)
    again = unchanged(table, lambda: work(table, batch_id="done", dry_run=True))
    assert (again.instant, again.noop, again.dry_run) == (done.instant, True, True)


def test_rows_in_the_way_are_in_the_way_of_a_dry_run(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    with pytest.raises(QuarantineExceededError, match="stored already"):
        table.insert(batch_of(SECOND[:1]), dry_run=True)
    with pytest.raises(UsageError, match="has rows"):
        unchanged(table, lambda: table.bulk_insert(batch_of(SECOND[:1]), dry_run=True))
    with pytest.raises(UsageError, match="no partition 'nowhere'"):
        unchanged(table, lambda: table.delete_partitions(["nowhere"], dry_run=True))
    shown = command("truncate", table.uri, "--dry-run", "--json")
    assert (shown.json["dry_run"], shown.json["rows_replaced"], table.count()) == (True, 30, 30)


def test_a_dry_run_is_of_this_process(tmp_path: Path) -> None:
    class Elsewhere:
        """A runner of another kind."""

        is_started = True

        def map(self) -> None: ...

    table = make_table(tmp_path / "t")
    with pytest.raises(UsageError, match="threads of this process"):
        table.upsert(batch_of(FIRST), dry_run=True, runner=Elsewhere())  # type: ignore[arg-type] # refused before


def test_on_the_command_line(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    table.upsert(batch_of(FIRST))
    batch = tmp_path / "batch.parquet"
    pq.write_table(batch_of(SECOND), batch)
    answer = unchanged(table, lambda: command("upsert", table.uri, batch, "--dry-run", "--json"))
    validate("upsert", answer.json)
    assert (answer.json["dry_run"], answer.json["instant"], answer.json["inserts"]) == (True, None, 2)
    shown = unchanged(table, lambda: command("delete", table.uri, batch, "--dry-run"))
    assert "dry run, nothing written" in shown.stdout
    assert "would create 0 files, and rewrite 3" in shown.stdout
    assert "more:" not in shown.stdout


ROWS = st.builds(Row, st.sampled_from("abcdef"), st.sampled_from("xy"), st.integers(1, 4), st.just("v"), st.booleans())


@settings(max_examples=examples(15), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    batches=st.lists(st.lists(ROWS, max_size=8), min_size=1, max_size=3),
    index=st.sampled_from(["BLOOM", "BUCKET", "RECORD_INDEX", "SIMPLE", "GLOBAL_SIMPLE"]),
)
def test_any_batches(tmp_path_factory: pytest.TempPathFactory, batches: list[list[Row]], index: str) -> None:
    table = make_table(tmp_path_factory.mktemp("dry") / "t", hoodie__index__type=index)
    for rows in batches:
        planned = unchanged(table, lambda some=rows: table.upsert(batch_of(some), dry_run=True))
        done = table.upsert(batch_of(rows))
        assert [getattr(planned, name) for name in FIGURES] == [getattr(done, name) for name in FIGURES]


@pytest.mark.parametrize("index", ["HBASE", "STATE"])
def test_an_index_elsewhere_is_not_changed_by_a_dry_run(tmp_path: Path, index: str) -> None:
    """A look-up brings it up to date, where no copy of the table's files stands in the way."""
    table = make_table(tmp_path / "t", hoodie__index__type=index)
    for call in (table.upsert, table.insert, table.delete):
        rows = batch_of(FIRST[:1])
        with pytest.raises(UsageError, match=f"would change its index {index}"):
            unchanged(table, lambda call=call, rows=rows: call(rows, dry_run=True))
