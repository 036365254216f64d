"""Any index to any other: rows stay, the index is another, and a rollback takes it back."""

import itertools
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import (
    MetadataTableError,
    OptionError,
    PendingInstantError,
    TableCorruptError,
    UsageError,
    WriteConflictError,
)
from lakeindex.model import IndexSpec, IndexType
from lakeindex.operations.rescale import switch_index
from lakeindex.operations.table_services import rollback_table
from lakeindex.storage import open_storage
from lakeindex.table.handle import Table
from tests.builders import Oracle, Row, batch_of, content_of, counts_of, make_table, rows_of
from tests.golden import made_once
from tests.meanwhile import OVERTAKES, MemoryTable
from tests.scheduling import some_of
from tests.unit.operations.test_rescaling import put_pending

KINDS = ("BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "RECORD_INDEX", "RECORD_LEVEL_INDEX", "BUCKET", "INMEMORY")
GLOBAL = {"GLOBAL_BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"}
FEW = {"hoodie.bucket.index.num.buckets": "3"}
ROWS = [Row(f"k{n}", "xy"[n % 2], 1, "1") for n in range(20)]


def index_of(table: LakeTable) -> str:
    opened = Table.open(open_storage(table.uri))
    index = opened.index(opened.load_timeline())
    assert index is not None
    return index.index_type.value


@made_once
def made(folder: Path, kind: str) -> tuple[LakeTable, Oracle]:
    options = FEW if kind == "BUCKET" else {}
    table = make_table(folder, hoodie__index__type=kind, **options)
    oracle = Oracle(is_global=kind in GLOBAL)
    assert counts_of(table.upsert(batch_of(ROWS))) == oracle.apply(ROWS)
    return table, oracle


@pytest.mark.parametrize(
    ("before", "after"),
    some_of(
        [p for p in itertools.permutations(KINDS, 2) if "BLOOM" in p or "BUCKET" in p],
        lambda pair: "BUCKET" in pair or pair[0] == "BLOOM",
        pytest.mark.slow,
    ),
)
@pytest.mark.few(7)
def test_rows_stay_and_the_new_index_finds_them(tmp_path: Path, before: str, after: str):
    table, _ = made(tmp_path / "t", before)
    stored = sorted(str(sorted(row.items())) for row in rows_of(table) if row.pop("_hoodie_file_name"))
    done = table.index_migrate(after, options=FEW if after == "BUCKET" else {})
    assert (done.before, done.index_type, done.noop) == (before, after, False)
    assert index_of(table) == after
    assert sorted(str(sorted(row.items())) for row in rows_of(table) if row.pop("_hoodie_file_name")) == stored
    assert bool(done.files_rewritten) == (after == "BUCKET")
    assert (done.keys_checked == 20) == (after in GLOBAL and before not in GLOBAL)
    assert (done.rows_built == 20) == after.startswith("RECORD")
    again = Oracle(is_global=after in GLOBAL, moves=after != "RECORD_INDEX")
    again.apply(ROWS)
    batch = [
        Row("k1", "x", 2, "2"),
        Row("k2", "x", 2, "2"),
        Row("new", "y", 2, "2"),
        Row("k4", "x", 2, "", deleted=True),
    ]
    assert counts_of(table.upsert(batch_of(batch))) == again.apply(batch)
    assert content_of(table) == again.content()
    assert table.check().ok


def test_the_same_index_again_is_nothing(tmp_path: Path):
    table, _ = made(tmp_path / "t", "SIMPLE")
    done = table.index_migrate("SIMPLE")
    assert (done.noop, done.instant) == (True, None)


def test_a_global_index_needs_unique_keys(tmp_path: Path):
    table, _ = made(tmp_path / "t", "BLOOM")
    table.upsert(batch_of([Row("k0", "y", 2, "twice")]))
    for kind in ("GLOBAL_SIMPLE", "RECORD_INDEX"):
        for dry_run in (True, False):
            with pytest.raises(TableCorruptError, match="'k0' is stored 2 times"):
                table.index_migrate(kind, dry_run=dry_run)
    assert index_of(table) == "BLOOM"


@pytest.mark.parametrize(
    ("before", "after"),
    [("GLOBAL_BLOOM", "SIMPLE"), ("RECORD_INDEX", "BUCKET"), ("GLOBAL_SIMPLE", "RECORD_LEVEL_INDEX")],
)
def test_rows_that_a_global_index_has_left_where_they_were_have_to_move_first(
    tmp_path: Path, before: str, after: str
) -> None:
    """An index of partitions looks for a key where its columns say: there it would be a new one."""
    kind = {"GLOBAL_BLOOM": "bloom", "RECORD_INDEX": "record", "GLOBAL_SIMPLE": "simple"}[before]
    option, options = f"hoodie.{kind}.index.update.partition.path", FEW if after == "BUCKET" else {}
    table, _ = made(tmp_path / "t", before)
    table.upsert(batch_of([Row("k1", "x", 2, "stays")]), options={option: "false"})
    for dry_run in (True, False):
        with pytest.raises(
            OptionError, match=r"a row lies in partition 'y' \(y/.*\), and its columns say 'x'"
        ) as caught:
            table.index_migrate(after, options=options, dry_run=dry_run)
    assert index_of(table) == before
    assert "upsert the rows of that partition once more" in str(caught.value.hint)
    table.upsert(table.scan(where="_hoodie_partition_path = 'y'").to_arrow(), options={option: "true"})
    table.index_migrate(after, options=options)
    assert table.upsert(batch_of([Row("k1", "x", 3, "found")])).fates == {"updates": 1}
    assert [row["v"] for row in rows_of(table) if row["id"] == "k1"] == ["found"]
    table.index_migrate(before)  # nothing has to be proven of places the other way round
    assert table.check().ok


@pytest.mark.parametrize(
    ("before", "after"),
    [("RECORD_INDEX", "RECORD_LEVEL_INDEX"), ("GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"), ("BLOOM", "RECORD_INDEX"),
     ("RECORD_LEVEL_INDEX", "GLOBAL_RECORD_LEVEL_INDEX")],
)  # fmt: skip
@pytest.mark.few(2)
def test_a_record_index_of_the_other_form_is_dropped_first(tmp_path: Path, before: str, after: str) -> None:
    """It knows no key of the new index: each write and each `get` would be refused from then on."""
    table = make_table(tmp_path / "t", hoodie__index__type=before, hoodie__write__table__version="9")
    table.upsert(batch_of(ROWS))
    table.metadata_build(["record_index"])
    for dry_run in (True, False):
        with pytest.raises(MetadataTableError, match="has a record for a key in") as caught:
            table.index_migrate(after, dry_run=dry_run)
        assert "nothing was changed: `lakeindex metadata drop TABLE --partition record_index`" in str(caught.value.hint)
    assert index_of(table) == before
    assert table.upsert(batch_of([Row("k1", "y", 2, "2")])).fates == {"updates": 1}
    table.metadata_drop(["record_index"])
    assert table.index_migrate(after).rows_built == 20
    assert table.upsert(batch_of([Row("k1", "y", 3, "3"), Row("new", "y", 3, "3")])).fates == {
        "inserts": 1,
        "updates": 1,
    }
    table.metadata_build(["record_index"])
    assert table.upsert(batch_of([Row("k1", "y", 4, "4")])).fates == {"updates": 1}
    assert table.check(deep=True).ok


def test_a_record_index_that_is_empty_has_no_form(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BLOOM", hoodie__write__table__version="9")
    table.metadata_build(["record_index"])
    table.index_migrate("RECORD_LEVEL_INDEX")
    assert table.upsert(batch_of(ROWS)).fates == {"inserts": 20}


def test_a_dry_run_changes_nothing(tmp_path: Path):
    table, _ = made(tmp_path / "t", "BLOOM")
    before = len(table.history())
    for kind in ("BUCKET", "RECORD_INDEX", "GLOBAL_BLOOM"):
        done = table.index_migrate(kind, dry_run=True)
        assert (done.dry_run, done.instant) == (True, None)
    assert (index_of(table), len(table.history())) == ("BLOOM", before)


def test_a_dry_run_promises_no_other_number_of_buckets(tmp_path: Path):
    table, _ = made(tmp_path / "t", "BUCKET")
    for dry_run in (True, False):
        with pytest.raises(UsageError, match="buckets need a rewrite"):
            table.index_migrate("BUCKET", options={"hoodie.bucket.index.num.buckets": "4"}, dry_run=dry_run)


@pytest.mark.parametrize("kind", ["BUCKET", "SIMPLE", "RECORD_INDEX"])
def test_what_was_rolled_back_of_other_writers_is_noted(tmp_path: Path, kind: str):
    table, _ = made(tmp_path / "t", "BLOOM")
    theirs = put_pending(table)
    (note,) = table.index_migrate(kind, options=FEW if kind == "BUCKET" else {}, force=True).notes
    assert note.startswith(f"instant {theirs} (commit) of another writer was rolled back")


def test_what_a_try_in_vain_rolled_back_is_noted(tmp_path: Path):
    table, _ = made(tmp_path / "t", "BLOOM")
    opened = Table.open(open_storage(table.uri))
    before = opened.snapshot()
    table.upsert(batch_of([Row("k1", "x", 2, "2")]))
    theirs, notes = put_pending(table), list[str]()
    with pytest.raises(WriteConflictError):
        switch_index(opened, before, IndexSpec(IndexType.SIMPLE), force=True, notes=notes)
    (note,) = notes
    assert theirs in note


def test_a_rollback_takes_the_index_back(tmp_path: Path):
    table, oracle = made(tmp_path / "t", "BLOOM")
    done = table.index_migrate("RECORD_INDEX")
    assert done.instant is not None
    rollback_table(table.uri, done.instant)
    assert index_of(table) == "BLOOM"
    batch = [Row("k1", "x", 2, "2")]
    assert counts_of(table.upsert(batch_of(batch))) == oracle.apply(batch)
    assert content_of(table) == oracle.content()


def test_an_index_that_a_table_had_comes_back_as_often_as_asked(tmp_path: Path):
    """The same change is another one where there was one in between."""
    table, oracle = made(tmp_path / "t", "BLOOM")
    instants = []
    for number, kind in enumerate(("SIMPLE", "BLOOM") * 3, 2):
        done = table.index_migrate(kind)
        instants.append(done.instant)
        assert (index_of(table), done.noop) == (kind, False)
        batch = [Row("k1", "y", number, str(number))]
        assert counts_of(table.upsert(batch_of(batch))) == oracle.apply(batch)
    assert len({*instants} - {None}) == 6
    assert content_of(table) == oracle.content()
    table.index_migrate("BUCKET", options=FEW)
    for buckets in (4, 3, 4, 3):
        assert not table.rescale(buckets).noop
        assert len(table.files()) == 2 * buckets


def test_options_of_another_index_are_refused(tmp_path: Path):
    table, _ = made(tmp_path / "t", "BLOOM")
    with pytest.raises(OptionError, match="has no meaning"):
        table.index_migrate("SIMPLE", options=FEW)


def test_keys_are_proven_unique_beside_a_run_that_takes_the_global_index_away(tmp_path: Path) -> None:
    """What has to be proven follows from the index that the table has in this try, not from that of the first."""
    world = MemoryTable.holding([Row("a", "x", 1, "1")], index="GLOBAL_BLOOM")

    def others() -> None:
        open_table(world.table.uri).index_migrate("BLOOM", options=OVERTAKES)
        world.upsert([Row("a", "y", 1, "twice")])

    done = world.once(lambda call: call.name == "create" and "lock" in call.path, others)
    with pytest.raises(TableCorruptError, match="'a' is stored 2 times"):
        world.table.index_migrate("GLOBAL_SIMPLE", checkpoints=str(tmp_path))
    assert done
    assert world.table.inspect().index_type == "BLOOM"


@pytest.mark.parametrize("steps", [("SIMPLE",), ("SIMPLE", "GLOBAL_SIMPLE")])
def test_what_is_told_is_of_the_try_that_counts(tmp_path: Path, steps: tuple[str, ...]) -> None:
    """Another run may have migrated the table meanwhile: also to the same index, and then nothing is to be done."""
    world = MemoryTable.holding([Row("a", "x", 1, "1")], index="GLOBAL_BLOOM")

    def others() -> None:
        for step in steps:
            open_table(world.table.uri).index_migrate(step, options=OVERTAKES)

    happened = world.once(lambda call: call.name == "create" and "lock" in call.path, others)
    done = world.table.index_migrate("GLOBAL_SIMPLE", checkpoints=str(tmp_path))
    assert happened
    assert (done.before, done.noop, done.instant is None) == (steps[-1], len(steps) == 2, len(steps) == 2)
    assert len(world.timeline().completed_writes) == 3


def test_a_run_under_way_does_not_commit_under_the_old_index(tmp_path: Path):
    """The guard of every commit: the index it was planned by is still in force."""
    table, _ = made(tmp_path / "t", "BLOOM")
    table.index_migrate("GLOBAL_BLOOM")
    with pytest.raises(OptionError, match="bound to GLOBAL_BLOOM"):
        table.upsert(batch_of([Row("k1", "x", 2, "2")]), options={"hoodie.index.type": "BLOOM"})


@pytest.mark.parametrize("dry_run", [True, False])
def test_buckets_beside_a_pending_clustering_are_refused_in_a_dry_run_too(tmp_path: Path, dry_run: bool) -> None:
    table = make_table(tmp_path / "t")
    for key in "ab":
        table.upsert(batch_of([Row(key, "x", 1, "1")]), options={"hoodie.parquet.small.file.limit": "0"})
    plan = table.cluster(["x"], schedule=True)
    options = {"hoodie.bucket.index.num.buckets": "2"}
    with pytest.raises(PendingInstantError, match=str(plan.instant)):
        table.index_migrate("BUCKET", dry_run=dry_run, options=options)
    assert table.history()[0].instant == plan.instant, "nothing was begun"
    allowed = "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    table.index_migrate("BUCKET", dry_run=dry_run, options={**options, "hoodie.clustering.updates.strategy": allowed})
    assert (table.inspect().index_type == "BUCKET") is not dry_run
