"""Whole operations with every storage call failing once: create, upsert, delete, global upsert, rollback.

The table and its run folders lie in two in-memory stores; faults are injected into one of them at a time. After the fault the
same command is run again, as a user would, and the table is compared with a dictionary.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import StorageError, TableExistsError
from lakeindex.operations.cluster_run import ClusterSummary
from lakeindex.operations.rescale import rescale_table
from lakeindex.options.parse import parse_options
from lakeindex.run.summary import RunSummary
from lakeindex.storage.memory import Call, MemoryStorage
from lakeindex.table.handle import Table
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, batch_of, content_of, make_table
from tests.model.harness import Operation, fail_every_call
from tests.scheduling import some_of

pytestmark = pytest.mark.usefixtures("time_leaps")

STORED = ("RECORD_INDEX", "RECORD_LEVEL_INDEX")
TABLE, RUNS = "memory://pipeline", "memory://pipeline-runs"
FIRST = [Row(k, d, 1, "1") for k, d in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))]
SECOND = [Row("a", "x", 2, "2"), Row("c", "x", 2, "2"), Row("d", "y", 0, "late"), Row("b", "x", 2, "", deleted=True)]
OPTIONS = {
    "lakeindex.lock.lease": "2",
    "lakeindex.lock.wait": "30",
    "hoodie.metadata.compact.max.delta.commits": "2",  # the second batch folds a stored index
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}


def batch_of_operation(store: MemoryStorage, rows: list[Row], batch_id: str = "second") -> None:
    run_batch_of(rows, batch_id, uri=store.uri)


def prepared(index: str) -> Callable[[], dict[str, bytes]]:
    """A table that holds the first batch."""

    def prepare() -> dict[str, bytes]:
        store, runs = MemoryStorage.named("pipeline"), MemoryStorage.named("pipeline-runs")
        store.restore({})
        runs.restore({})
        make_table(TABLE, hoodie__index__type=index)
        batch_of_operation(store, FIRST, "first")
        runs.restore({})
        return store.snapshot()

    return prepare


def is_global(index: str) -> bool:
    return index in ("GLOBAL_BLOOM", "RECORD_INDEX")


def table_equals(batches: list[list[Row]], *, is_global: bool, moves: bool = True) -> Callable[[MemoryStorage], None]:
    oracle = Oracle(is_global=is_global, moves=moves)
    for batch in batches:
        oracle.apply(batch)

    def check(store: MemoryStorage) -> None:
        table = LakeTable(store.uri)
        assert content_of(table) == oracle.content()
        report = table.check()
        assert report.ok, report.violations

    return check


def upsert(index: str) -> Operation:
    return Operation(
        f"upsert {index}",
        prepare=prepared(index),
        run=lambda store: batch_of_operation(store, SECOND),
        check=index_finds_all(index) if index in STORED else table_equals([FIRST, SECOND], is_global=is_global(index)),
        store=lambda: MemoryStorage.named("pipeline"),
    )


def index_finds_all(index: str) -> Callable[[MemoryStorage], None]:
    """As :func:`table_equals`; then every key is upserted once more: one that the index does not know would be doubled."""
    moves = index != "RECORD_INDEX"
    check = table_equals([FIRST, SECOND], is_global=is_global(index), moves=moves)
    third = [replace(row, ts=3) for row in FIRST]

    def check_all(store: MemoryStorage) -> None:
        check(store)
        batch_of_operation(store, third, "third")
        table_equals([FIRST, SECOND, third], is_global=is_global(index), moves=moves)(store)

    return check_all


@pytest.mark.parametrize(
    "error", [StorageError("no"), PermissionError(13, "Permission denied"), MemoryError()], ids=repr
)
@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX"])
def test_nothing_after_the_commit_fails_the_run(index: str, error: Exception):
    """Every storage call fails once the ledger has told that the batch is committed."""
    store, runs = MemoryStorage.named("pipeline"), MemoryStorage.named("pipeline-runs")
    store.restore(prepared(index)())
    told: list[bool] = []

    def hook(call: Call) -> None:
        if told:
            raise error
        if call.name == "sync" and "/ledger/" in call.path:
            told.append(True)

    store.hook = runs.hook = hook
    try:
        summary = run_batch_of(SECOND)
    finally:
        store.hook = runs.hook = None
    assert told
    assert summary.instant
    assert not summary.noop
    assert any(type(error).__name__ in note for note in summary.notes)
    assert run_batch_of(SECOND).noop
    upsert(index).check(store)


def run_batch_of(
    rows: list[Row], batch_id: str = "second", more: Mapping[str, str] | None = None, uri: str = TABLE
) -> RunSummary:
    asked = {"batch_id": batch_id, "run_id": batch_id, "options": {**OPTIONS, **(more or {})}}
    return LakeTable(uri).upsert(batch_of(rows), checkpoints=f"{uri}-runs", **asked, runner=LocalRunner(1))


def rescale_to(count: int) -> None:
    config = parse_options(OPTIONS)
    rescale_table(TABLE, LocalRunner(1), buckets=count, config=config)


def rescaled_table_equals(batches: list[list[Row]], buckets: int) -> Callable[[MemoryStorage], None]:
    check = table_equals(batches, is_global=False)

    def check_all(store: MemoryStorage) -> None:
        check(store)
        table = Table.open(store)
        assert {int(file.file_id[:8]) for file in table.snapshot().base_files_all()} <= set(range(buckets))
        spec = table.index()
        assert spec is not None
        assert spec.option("hoodie.bucket.index.num.buckets") == str(buckets)
        batch_of_operation(store, SECOND, "afterwards")
        table_equals([*batches, SECOND], is_global=False)(store)

    return check_all


RESCALE = Operation(
    "rescale",
    prepare=prepared("BUCKET"),
    run=lambda _: rescale_to(3),
    check=rescaled_table_equals([FIRST], 3),
    store=lambda: MemoryStorage.named("pipeline"),
)


NEW_FILES = {"hoodie.parquet.small.file.limit": "0"}


def in_two_files(index: str, version: str) -> Callable[[], dict[str, bytes]]:
    """A table with two base files of a partition, whose ranges overlap."""

    def prepare() -> dict[str, bytes]:
        store, runs = MemoryStorage.named("pipeline"), MemoryStorage.named("pipeline-runs")
        store.restore({})
        runs.restore({})
        make_table(TABLE, hoodie__index__type=index, hoodie__write__table__version=version)
        for name, rows in (("first", FIRST), ("more", MORE)):
            run_batch_of(rows, name, NEW_FILES)
        runs.restore({})
        return store.snapshot()

    return prepare


MORE = [Row("aa", "x", 1, "1"), Row("cc", "x", 1, "1")]


def cluster(store: MemoryStorage) -> ClusterSummary:
    return LakeTable(store.uri).cluster(sort="columns", columns=["v", "ts"], options=OPTIONS, runner=LocalRunner(1))


def clustering(index: str, version: str) -> Operation:
    """Files are put together; then all keys come again."""
    scope = is_global(index)

    def check_all(store: MemoryStorage) -> None:
        table_equals([FIRST, MORE], is_global=scope)(store)
        assert cluster(store).noop
        again = [replace(row, ts=3) for row in (*FIRST, *MORE)]
        batch_of_operation(store, again, "afterwards")
        table_equals([FIRST, MORE, again], is_global=scope)(store)

    return Operation(
        f"cluster {index}, version {version}",
        prepare=in_two_files(index, version),
        run=cluster,
        check=check_all,
        store=lambda: MemoryStorage.named("pipeline"),
    )


def emptied(index: str) -> Operation:
    """A partition is deleted; then its keys come again, as new ones."""

    def check_all(store: MemoryStorage) -> None:
        oracle = Oracle(is_global=is_global(index), moves=index != "RECORD_INDEX")
        oracle.apply(FIRST)
        oracle.rows = {key: row for key, row in oracle.rows.items() if row[0] != "x"}
        assert content_of(LakeTable(TABLE)) == oracle.content()
        late = [Row("a", "x", 0, "again"), Row("b", "y", 0, "again"), Row("c", "y", 2, "2")]
        batch_of_operation(store, late, "afterwards")
        oracle.apply(late)
        assert content_of(LakeTable(TABLE)) == oracle.content()
        report = LakeTable(TABLE).check()
        assert report.ok, report.violations

    def run(_: MemoryStorage) -> None:
        LakeTable(TABLE).delete_partitions(["x"], checkpoints=RUNS, batch_id="x", run_id="x", options=OPTIONS)

    return Operation(
        f"delete partitions {index}",
        prepare=prepared(index),
        run=run,
        check=check_all,
        store=lambda: MemoryStorage.named("pipeline"),
    )


OVER = [Row("a", "x", 0, "over"), Row("n", "x", 0, "over")]


def overwritten(index: str) -> Operation:
    """The rows of a partition are replaced; then the keys come again, those that are gone as new ones."""

    def check_all(store: MemoryStorage) -> None:
        oracle = Oracle(is_global=is_global(index), moves=index != "RECORD_INDEX")
        oracle.apply(FIRST)
        oracle.rows = {key: row for key, row in oracle.rows.items() if row[0] != "x"}
        oracle.apply(OVER)
        assert content_of(LakeTable(TABLE)) == oracle.content()
        late = [Row("a", "x", 1, "again"), Row("b", "y", 0, "again"), Row("c", "y", 2, "2")]
        batch_of_operation(store, late, "afterwards")
        oracle.apply(late)
        assert content_of(LakeTable(TABLE)) == oracle.content()
        report = LakeTable(TABLE).check()
        assert report.ok, report.violations

    def run(_: MemoryStorage) -> None:
        name, runner = "over", LocalRunner(1)
        LakeTable(TABLE).insert_overwrite(
            batch_of(OVER), checkpoints=RUNS, batch_id=name, run_id=name, options=OPTIONS, runner=runner
        )

    return Operation(
        f"overwrite {index}",
        prepare=prepared(index),
        run=run,
        check=check_all,
        store=lambda: MemoryStorage.named("pipeline"),
    )


WHERE: dict[str, Callable[..., RunSummary]] = {
    "delete": lambda table, **arguments: table.delete(where="ts >= 1 and id <> 'b'", **arguments),
    "update": lambda table, **arguments: table.update({"v": "v || '!'"}, where="id in ('a', 'c')", **arguments),
    "replace": lambda table, **arguments: table.replace_where(batch_of(OVER), where="day = 'x'", **arguments),
    "partition": lambda table, **arguments: table.delete(where="day < 'y'", **arguments),
}
LEFT: dict[str, list[Row]] = {
    "delete": [FIRST[1]],
    "update": [replace(row, v="1!") if row.id in "ac" else row for row in FIRST],
    "replace": [*OVER, *FIRST[2:]],
    "partition": FIRST[2:],
}


def by_condition(index: str, what: str) -> Operation:
    """Rows that meet a condition are changed; then some of the keys come again."""

    def check_all(store: MemoryStorage) -> None:
        oracle = Oracle(is_global=is_global(index), moves=index != "RECORD_INDEX")
        oracle.apply(LEFT[what])
        assert content_of(LakeTable(TABLE)) == oracle.content()
        late = [Row("a", "x", 1, "again"), Row("b", "y", 0, "again"), Row("c", "y", 2, "2")]
        batch_of_operation(store, late, "afterwards")
        oracle.apply(late)
        assert content_of(LakeTable(TABLE)) == oracle.content()
        report = LakeTable(TABLE).check()
        assert report.ok, report.violations

    def run(_: MemoryStorage) -> None:
        arguments = {"checkpoints": RUNS, "batch_id": what, "run_id": what, "options": OPTIONS}
        WHERE[what](LakeTable(TABLE), **arguments, runner=LocalRunner(1))

    return Operation(
        f"{what} by a condition {index}",
        prepare=prepared(index),
        run=run,
        check=check_all,
        store=lambda: MemoryStorage.named("pipeline"),
    )


def create(store: MemoryStorage) -> None:
    """As a user: create, and after an error look whether it is there."""
    try:
        make_table(TABLE)
    except TableExistsError:
        return


def is_empty_table(_: MemoryStorage) -> None:
    assert content_of(LakeTable(TABLE)) == set()


def short(cases: list[tuple[Any, ...]]) -> list[Any]:
    """One of them in ``make test``; the others, and every call, under the mark ``model``."""
    return some_of(cases, lambda case: case is cases[0], pytest.mark.model)


@pytest.mark.parametrize(("index", "every"), short([("BLOOM", 17), ("BUCKET", 31), ("RECORD_INDEX", 37)]))
def test_upsert_survives_some_failing_calls(index: str, every: int):
    report = fail_every_call(upsert(index), every=every)
    assert report.histories > 3


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("index", "every"),
    [("BLOOM", 1), ("GLOBAL_BLOOM", 1), ("BUCKET", 1), ("RECORD_INDEX", 1), ("RECORD_LEVEL_INDEX", 3)],
)
def test_upsert_survives_every_failing_call(index: str, every: int):
    """RECORD_LEVEL_INDEX differs from RECORD_INDEX in its keys alone: a third of its calls will do."""
    report = fail_every_call(upsert(index), every=every)
    assert report.histories > 100 / every


def test_rescale_survives_some_failing_calls():
    report = fail_every_call(RESCALE, every=29)
    assert report.histories > 3


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("first", [1, 2, 3, 4])
def test_rescale_survives_every_failing_call(first: int):
    """In four parts, so that they can be done beside each other."""
    report = fail_every_call(RESCALE, every=4, first=first)
    assert report.histories > 25


@pytest.mark.parametrize(("index", "version", "every"), short([("BLOOM", "6", 31), ("RECORD_INDEX", "9", 41)]))
@pytest.mark.few(0)
def test_clustering_survives_some_failing_calls(index: str, version: str, every: int):
    report = fail_every_call(clustering(index, version), every=every)
    assert report.histories > 3


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("index", ["BLOOM", "BUCKET", "RECORD_INDEX"])
def test_clustering_survives_every_failing_call(index: str, version: str):
    report = fail_every_call(clustering(index, version), every=1)
    assert report.histories > 50


@pytest.mark.parametrize(("index", "every"), short([("BLOOM", 11), ("RECORD_INDEX", 19)]))
@pytest.mark.few(0)
def test_deleting_partitions_survives_some_failing_calls(index: str, every: int):
    report = fail_every_call(emptied(index), every=every)
    assert report.histories > 3


@pytest.mark.parametrize(("index", "every"), short([("BUCKET", 31), ("BLOOM", 19), ("RECORD_INDEX", 41)]))
def test_overwriting_survives_some_failing_calls(index: str, every: int):
    report = fail_every_call(overwritten(index), every=every)
    assert report.histories > 3


@pytest.mark.parametrize(
    ("index", "what", "every"),
    short(
        [("RECORD_INDEX", "replace", 61), ("BUCKET", "update", 41), ("BLOOM", "delete", 37), ("BLOOM", "partition", 23)]
    ),
)
def test_changing_rows_survives_some_failing_calls(index: str, what: str, every: int):
    report = fail_every_call(by_condition(index, what), every=every)
    assert report.histories > 3


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("what", sorted(WHERE))
@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX", "BUCKET"])
def test_changing_rows_survives_every_failing_call(index: str, what: str):
    report = fail_every_call(by_condition(index, what))
    assert report.histories > 30


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX", "BUCKET"])
def test_overwriting_survives_every_failing_call(index: str):
    report = fail_every_call(overwritten(index))
    assert report.histories > 80


@pytest.mark.model
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("index", ["BLOOM", "RECORD_INDEX", "BUCKET"])
def test_deleting_partitions_survives_every_failing_call(index: str):
    report = fail_every_call(emptied(index))
    assert report.histories > 30


def test_create_survives_every_failing_call():
    operation = Operation(
        "create", prepare=dict, run=create, check=is_empty_table, store=lambda: MemoryStorage.named("pipeline")
    )
    report = fail_every_call(operation)
    assert report.histories > 3


@pytest.mark.few(0)
def test_checkpoints_survive_failing_calls():
    initial = prepared("BLOOM")()

    def fresh() -> MemoryStorage:
        """The run folders' store; each history begins with the table as it was."""
        MemoryStorage.named("pipeline").restore(initial)
        return MemoryStorage.named("pipeline-runs")

    operation = Operation(
        "checkpoints",
        prepare=dict,
        run=lambda _: run_batch_of(SECOND),
        check=lambda _: table_equals([FIRST, SECOND], is_global=False)(MemoryStorage.named("pipeline")),
        store=fresh,
    )
    report = fail_every_call(operation, every=7)
    assert report.histories > 4
