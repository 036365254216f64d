"""What every index type must do, whatever it keeps where. ``LAKEINDEX_CONTRACT_TYPES=A,B`` names others than those that need no server.

A new type passes this file before anything else is said about it: see docs/adding-an-index.md.
"""

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex import pipeline
from lakeindex.api.table import LakeTable
from lakeindex.errors import IndexNotBuiltError, OptionError, QuarantineExceededError, UsageError
from lakeindex.files import footer_cache
from lakeindex.index.locations.stored_index import LocationStore
from lakeindex.index.registry import index_for
from lakeindex.model import IndexType
from lakeindex.operations.table_services import rollback_table
from lakeindex.options.parse import index_spec
from lakeindex.options.types import WriteConfig
from lakeindex.tasks.local_runner import LocalRunner
from tests import partial_model
from tests.builders import SCHEMA, Oracle, Row, RowRules, batch_of, content_of, counts_of, make_table
from tests.golden import made_once
from tests.partial_model import PartialBatch, PartialOracle
from tests.scheduling import some_indexes, some_of
from tests.stored_indexes import clustered, unseen

RUNNER = LocalRunner(1)
_SERVERS = {IndexType.HBASE}
if find_spec("pyspark.sql.streaming.tws_tester"):
    from tests.contract.state_tester import StateRunnerForTests

    RUNNER = StateRunnerForTests()
else:  # a PySpark without keyed state of rows: docs/versions.md
    _SERVERS.add(IndexType.STATE)
TYPES = [
    IndexType(name)
    for name in os.environ.get("LAKEINDEX_CONTRACT_TYPES", ",".join(t for t in IndexType if t not in _SERVERS)).split(
        ","
    )
]
SOME_TYPES = some_of(
    TYPES, lambda kind: kind.name not in ("SIMPLE", "GLOBAL_BLOOM", "RECORD_LEVEL_INDEX"), pytest.mark.slow
)
"""For what takes long: those three differ from BLOOM, GLOBAL_SIMPLE and RECORD_INDEX in what the other tests ask."""
STORED = [kind for kind in TYPES if kind.is_stored and kind is not IndexType.INMEMORY]
IN_METADATA = {
    IndexType.BLOOM: ("column_stats", "bloom_filters"),
    IndexType.GLOBAL_BLOOM: ("column_stats", "bloom_filters"),
    IndexType.RECORD_INDEX: ("record_index",),
}
"""Types that answer from partitions of Hudi's metadata table, where a table has them."""
COPIED = {*(kind for kind in TYPES if not kind.is_stored), IndexType.RECORD_INDEX, IndexType.RECORD_LEVEL_INDEX}
EXAMPLES = int(os.environ.get("LAKEINDEX_CONTRACT_EXAMPLES", "4"))
_KEYS = ("a", "b:1", "cé", "d中", "e\U0001f600", "f\uffff", "g,h:2")
_ROW = st.builds(
    Row,
    st.sampled_from(_KEYS),
    st.sampled_from(("x", "y z", "é")),
    st.integers(0, 4),
    st.text("v", max_size=2) | st.none(),
    st.booleans(),
)
_BATCHES = st.lists(st.lists(_ROW, min_size=1, max_size=8), min_size=1, max_size=5)
FIRST = [Row(k, d, 1, "1") for k, d in (("a", "x"), ("b", "x"), ("c", "y"), ("d", "y"))]


def made(folder: Path | str, kind: IndexType, schema: pa.Schema = SCHEMA, **more: str) -> tuple[LakeTable, Oracle]:
    """An empty table, and the dictionary of what must be in it."""
    options = more | ({"hoodie.bucket.index.num.buckets": "3"} if kind is IndexType.BUCKET else {})
    table = make_table(folder, schema=schema, hoodie__index__type=kind, **options)
    moves = index_for(index_spec(kind, WriteConfig())).moves_rows(WriteConfig())
    return table, Oracle(is_global=kind.is_global, moves=moves)


def upsert(table: LakeTable, oracle: Oracle, batch: list[Row]) -> str | None:
    """Write a batch; nothing may be lost or doubled."""
    options = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
    summary = table.upsert(batch_of(batch), runner=RUNNER, options=options)
    assert counts_of(summary) == oracle.apply(batch)
    assert content_of(table) == oracle.content()
    return summary.instant


@made_once
def _begun(folder: Path, kind: IndexType) -> tuple[LakeTable, Oracle]:
    table, oracle = made(folder, kind)
    upsert(table, oracle, FIRST)
    return table, oracle


def begun(folder: Path, kind: IndexType) -> tuple[LakeTable, Oracle]:
    """With the first batch; copied, if all that the index keeps lies in the table's folder."""
    return (_begun if kind in COPIED else _begun.__wrapped__)(folder, kind)


@pytest.mark.parametrize("kind", TYPES)
def test_kind_is_a_value_that_says_how_it_answers(kind: IndexType):
    index = index_for(index_spec(kind, WriteConfig()))
    assert pickle.loads(pickle.dumps(index)) == index
    assert index.spec.is_global == kind.is_global
    assert (index.stored is not None) == kind.is_stored
    assert kind.has_filters == (pipeline.Stage.BLOOM_CHECK in pipeline.stages_for(kind))


@pytest.mark.parametrize("kind", some_indexes(TYPES))
@settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=_BATCHES)
def test_any_batches_equal_a_dictionary(kind: IndexType, batches: list[list[Row]]):
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = made(f"{folder}/t", kind)
        for batch in batches:
            upsert(table, oracle, batch)


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_what_a_restore_took_away_is_looked_up_anew(tmp_path: Path, kind: IndexType):
    """Several commits at once, among them one that replaced file groups; then every batch comes again."""
    table, oracle = begun(tmp_path / "t", kind)
    kept, before = table.savepoint_create().savepoint.instant, dict(oracle.rows)
    batches = [
        [Row("a", "x", 2, "", deleted=True), Row("n", "y", 2, "2"), Row("c", "x", 2, "2")],
        [Row("n", "z", 3, "3"), Row("a", "y", 3, "3")],
    ]
    for batch in batches:
        upsert(table, oracle, batch)
    table.delete_partitions(["x"])
    assert len(table.restore(kept).commits) == 3
    oracle.rows = before
    assert content_of(table) == oracle.content()
    for batch in batches:
        upsert(table, oracle, batch)
    assert kind not in STORED or table.index_verify(runner=RUNNER).ok
    assert table.check().ok


@pytest.mark.parametrize("kind", SOME_TYPES)
@settings(max_examples=max(EXAMPLES // 4, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(partial_model.batches(), min_size=2, max_size=4), adds=st.integers(0, 3))
def test_any_partial_updates_equal_a_dictionary(kind: IndexType, batches: list[PartialBatch], adds: int):
    """Files of before ``adds`` batches lack a column, so that nothing of them is copied as bytes."""
    with tempfile.TemporaryDirectory() as folder:
        table, _ = made(f"{folder}/t", kind, partial_model.SCHEMA)
        moves = index_for(index_spec(kind, WriteConfig())).moves_rows(WriteConfig())
        oracle = PartialOracle(is_global=kind.is_global, moves=moves)
        options = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
        for number, batch in enumerate(batches):
            data, more = batch.table(), {}
            if number == adds:
                data = data.append_column("new", pa.array([number] * len(data)))
                more = {"lakeindex.schema.mode": "add"}
            table.upsert(data, partial=True, nulls=batch.nulls, runner=RUNNER, options=options | more)
            oracle.apply(batch)
            assert partial_model.content_of(table) == oracle.content()
        assert table.check().ok


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.has_filters])
@settings(max_examples=max(EXAMPLES // 4, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=_BATCHES)
def test_any_batches_equal_a_dictionary_where_rows_store_no_keys(kind: IndexType, batches: list[list[Row]]):
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = made(f"{folder}/t", kind, hoodie__populate__meta__fields="false")
        for batch in batches:
            upsert(table, oracle, batch)
        assert table.check().ok


@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind.has_filters])
def test_an_index_of_filters_finds_no_virtual_key(kind: IndexType, tmp_path: Path):
    with pytest.raises(OptionError, match=f"{kind} asks bloom filters in the footers") as caught:
        made(tmp_path / "t", kind, hoodie__populate__meta__fields="false")
    assert "SIMPLE, GLOBAL_SIMPLE, BUCKET" in str(caught.value.hint)


@pytest.mark.parametrize("kind", [kind for kind in IN_METADATA if kind in TYPES])
@settings(max_examples=max(EXAMPLES // 4, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=_BATCHES)
def test_any_batches_equal_a_dictionary_by_the_metadata_table(kind: IndexType, batches: list[list[Row]]):
    """Nothing is cached, and no store of ours is there."""
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = begun(Path(folder, "t"), kind)
        table.metadata_build(["files", *IN_METADATA[kind]])
        options = {"hoodie.bloom.index.use.metadata": "true"} if kind.has_filters else {}
        for batch in batches:
            shutil.rmtree(f"{folder}/t/.hoodie/.lakeindex/cache", ignore_errors=True)
            shutil.rmtree(f"{folder}/t/.hoodie/.lakeindex/index", ignore_errors=True)
            footer_cache._remembered.clear()
            summary = table.upsert(batch_of(batch), runner=RUNNER, options=options)
            assert counts_of(summary) == oracle.apply(batch)
            lookup = next(one for one in summary.stages if one.name == "index_lookup").counters
            assert lookup["footers_read"] == 0
            assert content_of(table) == oracle.content()
        assert table.metadata_verify().ok


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.few(3)
def test_rows_by_key_are_those_of_a_scan(tmp_path: Path, kind: IndexType):
    table, oracle = made(tmp_path / "t", kind)
    for batch in (FIRST, [Row("a", "y", 2, "2"), Row("b", "x", 2, "", deleted=True), Row("n", "x", 2, "2")]):
        upsert(table, oracle, batch)
    found = table.get(["a", "b", "n", "zz"], runner=RUNNER)
    got = {tuple(row[c] for c in ("_hoodie_partition_path", "id", "v")) for row in found.rows.to_pylist()}
    assert got == {(place, row.id, row.v) for place, row in oracle.rows.values() if row.id in "abn"}
    assert found.missing == ("b", "zz")


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_a_commit_that_was_rolled_back_leaves_nothing_behind(tmp_path: Path, kind: IndexType):
    table, oracle = begun(tmp_path / "t", kind)
    before = dict(oracle.rows)
    last = upsert(table, oracle, [Row("a", "x", 2, "", deleted=True), Row("n", "y", 2, "2"), Row("c", "x", 2, "2")])
    assert last is not None
    rollback_table(table.uri, last)
    oracle.rows = before
    upsert(table, oracle, [Row("a", "x", 3, "3"), Row("n", "y", 3, "3"), Row("c", "x", 3, "3"), Row("c", "y", 3, "3")])


@pytest.mark.parametrize("kind", TYPES)
@settings(max_examples=max(EXAMPLES // 4, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=_BATCHES)
def test_conditions_decide_before_anything_else(kind: IndexType, batches: list[list[Row]]):
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = begun(Path(folder, "t"), kind)
        oracle.conditions = RowRules(
            update=lambda old, new: (
                new.ts >= old.ts and (old.v == "" or (None not in (old.v, new.v) and new.v != old.v))
            ),
            delete=lambda old, new: new.v == "vv" and old.ts > 1,
            insert=lambda new: new.ts > 0,
        )
        for batch in batches:
            done = table.upsert(
                batch_of(batch),
                update_if="new.ts >= old.ts AND (old.v = '' OR new.v != old.v)",
                delete_if="new.v = 'vv' AND old.ts > 1",
                insert_if="new.ts > 0",
                runner=RUNNER,
                options={"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"},
            )
            assert counts_of(done) == oracle.apply(batch)
            assert content_of(table) == oracle.content()
        assert kind not in STORED or table.index_verify(runner=RUNNER).ok


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_partitions_that_were_deleted_hold_no_key(tmp_path: Path, kind: IndexType):
    """Their keys are new ones, wherever they come next, older or not; and are there again when it is taken back."""
    table, oracle = begun(tmp_path / "t", kind)
    before = dict(oracle.rows)
    for gone in (["x"], None):
        done = table.truncate() if gone is None else table.delete_partitions(gone)
        oracle.rows = {key: row for key, row in oracle.rows.items() if gone is not None and row[0] not in gone}
        assert content_of(table) == oracle.content()
        kept = dict(oracle.rows)
        last = upsert(table, oracle, [Row("a", "y", 0, "0"), Row("b", "x", 0, "0"), Row("c", "y", 2, "2")])
        assert last is not None
        assert done.instant is not None
        assert kind not in STORED or gone or table.index_verify(runner=RUNNER).ok
        rollback_table(table.uri, last)
        rollback_table(table.uri, done.instant)
        oracle.rows = dict(before)
        assert kept != before
        upsert(table, oracle, [Row("a", "x", 2, "2"), Row("c", "y", 2, "2"), Row("n", "z", 2, "2")])
        before = dict(oracle.rows)
    assert table.check().ok


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_rows_that_a_clustering_moved_are_found(tmp_path: Path, kind: IndexType):
    """In the file groups that they are in now; and where they were, when it is taken back."""
    table, oracle = made(tmp_path / "t", kind)
    for row in FIRST:
        options = {"hoodie.parquet.small.file.limit": "0"}
        assert counts_of(table.insert(batch_of([row]), runner=RUNNER, options=options)) == oracle.apply([row])
    done = table.cluster(runner=RUNNER)
    assert done.noop == (kind is IndexType.BUCKET)
    assert content_of(table) == oracle.content()
    before = dict(oracle.rows)
    last = upsert(table, oracle, [Row("a", "x", 2, "2"), Row("d", "y", 2, "2"), Row("n", "z", 2, "2")])
    assert kind not in STORED or table.index_verify(runner=RUNNER).ok
    if not done.noop:
        rollback_table(table.uri, str(last))
        rollback_table(table.uri, str(done.instant))
        oracle.rows = before
        upsert(table, oracle, [Row("b", "x", 3, "3"), Row("c", "y", 3, "3"), Row("n", "x", 3, "3")])
    assert table.check().ok


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_rows_that_were_loaded_without_a_look_up_are_found(tmp_path: Path, kind: IndexType):
    table, oracle = made(tmp_path / "t", kind)
    assert table.bulk_insert(batch_of(FIRST), runner=RUNNER).inserts == len(FIRST)
    oracle.apply(FIRST)
    upsert(table, oracle, [Row("a", "x", 2, "2"), Row("c", "x", 2, "2"), Row("n", "z", 2, "2")])
    with pytest.raises(UsageError, match="has rows"):
        table.bulk_insert(batch_of([Row("o", "x", 1, "1")]), runner=RUNNER)
    if not kind.is_global:
        more = [Row("a", "new", 1, "1"), Row("o", "new", 1, "1")]
        assert table.bulk_insert(batch_of(more), runner=RUNNER).inserts == 2
        oracle.apply(more)
    upsert(table, oracle, [Row("a", "new", 2, "3"), Row("o", "new", 2, "2"), Row("a", "x", 3, "3")])
    assert kind not in STORED or table.index_verify(runner=RUNNER).ok
    assert table.check().ok


@pytest.mark.parametrize("kind", SOME_TYPES)
@pytest.mark.few(3)
def test_new_rows_beside_or_instead_of_what_is_stored(tmp_path: Path, kind: IndexType):
    table, oracle = begun(tmp_path / "t", kind)
    new = [Row("a", "x", 0, "stored"), Row("n", "x", 1, "1"), Row("m", "z", 1, "1")]
    with pytest.raises(QuarantineExceededError, match="'a'"):
        table.insert(batch_of(new), runner=RUNNER)
    assert table.insert(batch_of(new), "ignore", runner=RUNNER).fates == {"inserts": 2, "ignored": 1}
    oracle.apply(new[1:])
    assert content_of(table) == oracle.content()
    before = dict(oracle.rows)
    over = [Row("a", "x", 0, "over"), Row("n", "x", 0, "over"), Row("p", "new", 0, "over")]
    for whole in (False, True):
        write = table.insert_overwrite_table if whole else table.insert_overwrite
        done = write(batch_of(over), runner=RUNNER)
        oracle.rows = {key: one for key, one in oracle.rows.items() if not whole and one[0] not in ("x", "new")}
        assert done.rows_replaced == len(before) - len(oracle.rows)
        assert oracle.apply(over)["inserts"] == done.inserts == 3
        assert content_of(table) == oracle.content()
        again = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("p", "new", 1, ""), Row("c", "y", 3, "3")]
        last = upsert(table, oracle, again)
        assert kind not in STORED or whole or table.index_verify(runner=RUNNER).ok
        assert last is not None
        assert done.instant is not None
        rollback_table(table.uri, last)
        rollback_table(table.uri, done.instant)
        oracle.rows = dict(before)
        upsert(table, oracle, [Row("a", "x", 4, "4"), Row("c", "y", 4, "4"), Row("q", "y", 4, "4")])
        before = dict(oracle.rows)
    assert table.check().ok


CONDITIONS: dict[str, Callable[[Row], bool]] = {
    "ts < 2": lambda row: row.ts < 2,
    "day = 'x' and ts >= 1": lambda row: row.day == "x" and row.ts >= 1,
    "v in ('v', 'vv') or ts = 0": lambda row: row.v in ("v", "vv") or row.ts == 0,
    "v is null or id = 'b:1'": lambda row: row.v is None or row.id == "b:1",
    "day in ('x', 'é')": lambda row: row.day in ("x", "é"),
    "id in ('a', 'g,h:2')": lambda row: row.id in ("a", "g,h:2"),
    "true": lambda _: True,
}
_CHANGE = st.tuples(st.sampled_from(("delete", "update", "replace")), st.sampled_from(sorted(CONDITIONS)))


def change(table: LakeTable, oracle: Oracle, what: str, where: str, batch: list[Row]) -> None:
    """Change the rows that meet a condition, in the table and in the dictionary."""
    options = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
    meets = CONDITIONS[where]
    met = {key: one for key, one in oracle.rows.items() if meets(one[1])}
    kept = {key: one for key, one in oracle.rows.items() if key not in met}
    if what == "delete":
        done = table.delete(where=where, runner=RUNNER, options=options)
        assert done.deletes + done.rows_replaced == len(met)
        oracle.rows = kept
    elif what == "update":
        done = table.update({"v": "coalesce(v, '') || '+'"}, where=where, runner=RUNNER, options=options)
        assert done.fates == ({"updates": len(met)} if met else {})
        new = {key: (place, replace(row, v=(row.v or "") + "+")) for key, (place, row) in met.items()}
        oracle.rows = kept | new
    else:
        comes = Oracle(is_global=oracle.is_global)
        comes.apply(row for row in batch if meets(row) and not row.deleted)
        rows = [row for key, (_, row) in comes.rows.items() if key not in kept]
        if rows:
            done = table.replace_where(batch_of(rows), where=where, runner=RUNNER, options=options)
            new = {oracle.key(row): (row.day, row) for row in rows}
            assert (done.rows_in, done.combined) == (len(rows) + len(met), len(met.keys() & new.keys()))
            oracle.rows = kept | new
    assert content_of(table) == oracle.content()


@pytest.mark.parametrize("kind", SOME_TYPES)
@settings(max_examples=max(EXAMPLES // 4, 1), deadline=None, suppress_health_check=list(HealthCheck))
@given(batches=st.lists(st.tuples(st.lists(_ROW, min_size=1, max_size=8), _CHANGE), min_size=1, max_size=4))
def test_changes_by_conditions_equal_a_dictionary(
    kind: IndexType, batches: list[tuple[list[Row], tuple[str, str]]]
) -> None:
    """Under a global index rows may lie where their columns do not say; event time decides between rows of a batch only."""
    with tempfile.TemporaryDirectory() as folder:
        table, oracle = made(f"{folder}/t", kind)
        for batch, (what, where) in batches:
            upsert(table, oracle, batch)
            change(table, oracle, what, where, batch)
        assert kind not in STORED or table.index_verify(runner=RUNNER).ok
        assert table.check().ok


@pytest.mark.parametrize("kind", STORED)
def test_commits_it_did_not_see_are_no_false_inserts(tmp_path: Path, kind: IndexType):
    table, oracle = begun(tmp_path / "t", kind)
    by = "GLOBAL_SIMPLE" if kind.is_global else "SIMPLE"
    moves = {"hoodie__simple__index__update__partition__path": str(oracle.moves).lower()} if kind.is_global else {}
    other = [Row("n", "x", 2, "2"), Row("a", "y", 2, "2"), Row("b", "x", 2, "", deleted=True)]
    unseen(table, by, other, **moves)
    oracle.apply(other)
    upsert(table, oracle, [Row("n", "x", 3, "3"), Row("a", "y", 3, "3"), Row("a", "x", 3, "3"), Row("b", "x", 3, "3")])
    assert table.index_verify(runner=RUNNER).ok
    clustered(table, "x")
    upsert(table, oracle, [Row(k, "x", 4, "4") for k in "abn"])
    assert table.index_verify(runner=RUNNER).ok


@pytest.mark.parametrize("kind", STORED)
def test_an_index_that_is_not_there_is_an_error_until_it_is_built(tmp_path: Path, kind: IndexType):
    table, oracle = begun(tmp_path / "t", kind)
    table.index_drop(runner=RUNNER)
    with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]), runner=RUNNER)
    assert content_of(table) == oracle.content()
    assert table.index_build(runner=RUNNER).rows == len(FIRST)
    upsert(table, oracle, [Row("a", "x", 2, "2"), Row("n", "y", 2, "2")])
    assert table.index_verify(runner=RUNNER).ok


@pytest.mark.skipif(IndexType.STATE not in STORED, reason="this PySpark has no keyed state of rows")
def test_a_state_that_was_put_back_from_an_older_copy_is_none(tmp_path: Path):
    """It lacks keys of newer batches, which would be inserted again."""
    table, oracle = begun(tmp_path / "t", IndexType.STATE)
    upsert(table, oracle, [Row("n", "x", 2, "2")])
    assert isinstance(RUNNER, StateRunnerForTests)
    state = list(RUNNER._states.values())[-1]
    assert state.batch is not None
    state.batch -= 1
    with pytest.raises(IndexNotBuiltError, match="lakeindex index build"):
        table.upsert(batch_of([Row("n", "x", 4, "4")]), runner=RUNNER)
    table.index_build(runner=RUNNER)
    upsert(table, oracle, [Row("n", "x", 4, "4")])


@pytest.mark.parametrize("kind", STORED)
def test_many_commits_are_folded(tmp_path: Path, kind: IndexType):
    table, oracle = made(tmp_path / "t", kind)
    for number in range(5):
        batch = [
            Row(f"k{number}", "x", number, "v"),
            Row("a", "x", number, "v"),
            Row("b", "y", number, "", number % 2 == 1),
        ]
        options = {"hoodie.metadata.compact.max.delta.commits": "2"}
        assert counts_of(table.upsert(batch_of(batch), runner=RUNNER, options=options)) == oracle.apply(batch)
    assert content_of(table) == oracle.content()
    assert table.index_status(runner=RUNNER).deltas < 4
    assert table.index_verify(runner=RUNNER).ok


@pytest.mark.parametrize("kind", STORED)
def test_a_key_that_an_overwrite_put_elsewhere_is_found_when_it_is_taken_back(tmp_path: Path, kind: IndexType):
    """Its delta is folded: what stands in the log of what was there before counts no more."""
    table, oracle = begun(tmp_path / "t", kind)
    before = dict(oracle.rows)
    options = {"hoodie.metadata.compact.max.delta.commits": "1"}
    done = table.insert_overwrite_table(batch_of([Row("a", "x", 2, "2")]), runner=RUNNER, options=options)
    assert done.instant is not None
    rollback_table(table.uri, done.instant)
    oracle.rows = before
    upsert(table, oracle, [Row(row.id, row.day, 3, "3") for row in FIRST])
    assert table.index_verify(runner=RUNNER).ok


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.is_stored])
def test_an_index_that_stores_nothing_has_nothing_to_build(tmp_path: Path, kind: IndexType):
    table, _ = made(tmp_path / "t", kind)
    with pytest.raises(OptionError, match="nothing to build"):
        table.index_build(runner=RUNNER)


def test_the_store_of_every_stored_kind_is_whole():
    """The protocol's methods, by name: a kind that lacks one fails here and not in the middle of a commit."""
    wanted = {name for name in vars(LocationStore) if not name.startswith("_")}
    assert wanted >= {"look_up", "prepare", "apply", "undo", "build", "retire", "drop", "fold", "behind", "entries"}
