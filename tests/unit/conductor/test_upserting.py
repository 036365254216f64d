"""Whole runs on the in-process runner, against a dictionary: any batches, any index, any merge mode."""

import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.commit.write_session import WriteSession
from lakeindex.errors import OptionError, StorageError, TableCorruptError
from lakeindex.files.footer_cache import CACHE_FOLDER
from lakeindex.format.partitions import parse_partition_metadata
from lakeindex.options.types import Codec
from lakeindex.run.summary import RunSummary
from lakeindex.storage.memory import Fault
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Oracle, Row, as_hudis, batch_of, content_of, counts_of, make_table, rows_of
from tests.meanwhile import Meanwhile, MemoryTable
from tests.strategies import examples

KEYS = ["a", "b", "cé", "d中", "e\U0001f600", "f￿"]
ROWS = st.builds(
    Row,
    st.sampled_from(KEYS),
    st.sampled_from(["x", "y z", "é"]),
    st.integers(0, 4),
    st.text("v", max_size=2),
    st.booleans(),
)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=4)
SLOW = settings(max_examples=examples(20), deadline=None, suppress_health_check=list(HealthCheck))


MOVE_OPTIONS = {
    "GLOBAL_BLOOM": "hoodie.bloom.index.update.partition.path",
    "GLOBAL_SIMPLE": "hoodie.simple.index.update.partition.path",
    "RECORD_INDEX": "hoodie.record.index.update.partition.path",
}


@SLOW
@given(
    BATCHES,
    st.sampled_from(
        ["BLOOM", "GLOBAL_BLOOM", "SIMPLE", "GLOBAL_SIMPLE", "INMEMORY", "RECORD_INDEX", "RECORD_LEVEL_INDEX"]
    ),
    st.booleans(),
    st.booleans(),
)
def test_upsert_any_batches_equal_a_dictionary(batches: list[list[Row]], index: str, event_time: bool, moves: bool):
    oracle = Oracle(is_global=index in MOVE_OPTIONS, event_time=event_time, moves=moves)
    mode = "EVENT_TIME_ORDERING" if event_time else "COMMIT_TIME_ORDERING"
    options = {
        "lakeindex.chunk.rows": "3",
        "lakeindex.parquet.row.group.rows": "2",
        "hoodie.parquet.small.file.limit": "0" if moves else "104857600",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    if index in MOVE_OPTIONS:
        options[MOVE_OPTIONS[index]] = str(moves).lower()
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(f"{folder}/t", hoodie__index__type=index, hoodie__write__record__merge__mode=mode)
        for batch in batches:
            summary = table.upsert(batch_of(batch), options=options)
            assert counts_of(summary) == oracle.apply(batch)
            assert summary.rows_in == len(batch)
            assert content_of(table) == oracle.content()


@SLOW
@given(st.lists(ROWS, min_size=1, max_size=12), st.data())
def test_event_time_any_split_of_a_batch_gives_the_same_rows(rows: list[Row], data: st.DataObject):
    # A delete forgets the ordering value it had, so only splits of upserts are the same in any order.
    rows = [Row(r.id, r.day, i, r.v) for i, r in enumerate(rows)]
    order = data.draw(st.permutations(rows))
    cut = data.draw(st.integers(0, len(rows)))
    results = []
    for pieces in ([rows], [order[:cut], order[cut:]]):
        with tempfile.TemporaryDirectory() as folder:
            table = make_table(f"{folder}/t")
            for piece in pieces:
                table.upsert(batch_of(piece))
            results.append(content_of(table))
    assert results[0] == results[1]


def test_every_column_of_a_file_is_packed_as_the_option_says(tmp_path: Path):
    table = make_table(tmp_path / "t")
    for codec in Codec:
        table.upsert(batch_of([Row("a", codec, 1, "v")]), options={"hoodie.parquet.compression.codec": codec.value})
        (path,) = (tmp_path / "t" / codec).glob("*.parquet")
        group = pq.read_metadata(path).row_group(0)
        assert {group.column(n).compression.lower() for n in range(group.num_columns)} == {codec}


def test_upsert_twice_equals_once(tmp_path: Path):
    table = make_table(tmp_path / "t")
    rows = [Row("a", "x", 1, "1"), Row("b", "y", 1, "2")]
    table.upsert(batch_of(rows))
    before = content_of(table)
    again = table.upsert(batch_of(rows))
    assert (again.inserts, again.updates) == (0, 2)
    assert content_of(table) == before


def test_each_row_of_a_file_gets_its_own_values_whatever_task_found_it() -> None:
    """Tasks look up every other chunk each, so rows of a file are told of in another order than that of the chunks."""
    for index in ("SIMPLE", "RECORD_INDEX"):
        world = MemoryTable.holding([Row(f"k{number:02d}", "x", 1, "1") for number in range(16)], index=index)
        batch = [Row(f"k{number:02d}", "x", 2, str(number)) for number in range(16)]
        assert world.upsert(batch).updates == 16
        assert content_of(world.table) == {("x", row.id, "x", 2, row.v) for row in batch}


def test_upsert_same_batch_id_is_committed_once(tmp_path: Path):
    table = make_table(tmp_path / "t")
    batch = batch_of([Row("a", "x", 1, "1")])
    first = table.upsert(batch, batch_id="dag/run/1")
    second = table.upsert(batch, batch_id="dag/run/1")
    assert (first.noop, second.noop) == (False, True)
    assert (second.instant, second.inserts) == (first.instant, 1)


def test_upsert_untouched_rows_keep_commit_time_and_seqno(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "2")]))
    before = {r["id"]: r for r in rows_of(table)}
    summary = table.upsert(batch_of([Row("a", "x", 2, "3")]))
    after = {r["id"]: r for r in rows_of(table)}
    for name in ("_hoodie_commit_time", "_hoodie_commit_seqno"):
        assert after["b"][name] == before["b"][name]
    assert after["a"]["_hoodie_commit_time"] == summary.instant
    assert {r["_hoodie_file_name"] for r in after.values()} != {r["_hoodie_file_name"] for r in before.values()}
    assert (summary.updates, summary.rows_copied, summary.files_rewritten) == (1, 1, 1)


@pytest.mark.parametrize("index", MOVE_OPTIONS)
def test_a_row_that_is_kept_in_its_partition_gets_the_incoming_partition_column(tmp_path: Path, index: str):
    """Also where the run that was to move it was killed: the one that goes on decides anew."""

    class KilledError(BaseException):
        pass

    def kill() -> None:
        raise KilledError

    table, batch = make_table(tmp_path / "t", hoodie__index__type=index), batch_of([Row("a", "y", 2, "2")])
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    with pytest.raises(KilledError):
        table.upsert(batch, run_id="r", options={MOVE_OPTIONS[index]: "true"}, runner=Meanwhile("tag inserts", kill))
    done = table.upsert(batch, run_id="r", options={MOVE_OPTIONS[index]: "false"})
    assert (done.updates, done.stages[0].reused) == (1, True)
    assert [(r["_hoodie_partition_path"], r["day"], r["v"]) for r in rows_of(table)] == [("x", "y", "2")]


@pytest.mark.parametrize("what", ["nothing", "options", "nulls", "rows", "codec", "row groups", "filter"])
def test_a_killed_run_is_gone_on_with_under_its_names_only_if_the_same_is_written(tmp_path: Path, what: str) -> None:
    """Whoever was taken for dead, and is not, writes under the names of its plan what it was told; that must be what is
    there.
    """
    csv = tmp_path / "b.csv"
    csv.write_text("id,day,ts,v\na,x,2,NA\n")
    given: Any = [str(csv)]
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
    killed: list[str] = []

    def kill(self: WriteSession, *_: Any) -> None:
        killed.append(self.instant)
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(WriteSession, "publish", kill)
        with pytest.raises(KeyboardInterrupt):
            table.upsert(given, run_id="r", partial=True)
    encoded = {
        "codec": {"hoodie.parquet.compression.codec": "gzip"},
        "row groups": {"lakeindex.parquet.row.group.rows": "1"},
        "filter": {"hoodie.index.bloom.fpp": "0.5"},
    }
    options = {"lakeindex.csv.null": "NA,"} if what in ("options", "nulls") else encoded.get(what, {})
    if what == "rows":
        csv.write_text("id,day,ts,v\na,x,2,other\n")
    done = table.upsert(given, run_id="r", partial=True, nulls="keep" if what == "nulls" else None, options=options)
    assert ([done.instant] == killed) is (what == "nothing")
    expected = {"options": None, "nulls": "1", "rows": "other"}.get(what, "NA")
    assert {r["id"]: r["v"] for r in rows_of(table)} == {"a": expected, "b": "1"}
    assert table.check().ok


@pytest.mark.parametrize("other", [False, True], ids=["the same", "other rows"])
def test_a_forced_run_that_was_cut_short_behind_its_decision_is_done_once(other: bool) -> None:
    world = MemoryTable.holding([Row("a", "x", 1, "1")])

    def forced(value: str) -> RunSummary:
        rows = batch_of([Row("a", "x", 2, value)])
        folder = f"memory://{world.name}-runs"
        return world.table.upsert(rows, batch_id="b", force=True, checkpoints=folder, runner=LocalRunner(1))

    forced("first")
    world.store.hook = lambda call: Fault.ERROR if (call.name, call.path[-7:]) == ("create", ".commit") else None
    with pytest.raises(StorageError, match="was decided"):
        forced("second")
    world.store.hook = None
    assert forced("third" if other else "second").noop is not other
    assert len(world.timeline().completed_writes) == (4 if other else 3)
    assert [r["v"] for r in rows_of(world.table)] == ["third" if other else "second"]
    assert not forced("second").noop, "who asks again wants it again"


def test_upsert_late_batch_rewrites_nothing(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 5, "new")]))
    late = table.upsert(batch_of([Row("a", "x", 4, "old")]))
    assert (late.instant, late.noop, late.ignored, late.files_rewritten) == (None, True, 1, 0)
    assert [r["v"] for r in rows_of(table)] == ["new"]


def test_new_rows_go_where_a_file_is_rewritten_anyway(tmp_path: Path):
    """Also where a smaller one would take them."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{number}", "x", 1, "1" * number) for number in range(40)]))
    table.upsert(batch_of([Row("a", "x", 1, "1")]), options={"hoodie.parquet.small.file.limit": "0"})
    done = table.upsert(batch_of([Row("k5", "x", 2, "2"), Row("n", "x", 2, "2")]))
    assert (done.updates, done.inserts, done.files_rewritten, done.files_created) == (1, 1, 1, 0)


def test_delete_all_rows_of_a_file_then_insert_again(tmp_path: Path):
    table = make_table(tmp_path / "t")
    rows = [Row("a", "x", 1, "1"), Row("b", "x", 1, "2")]
    table.upsert(batch_of(rows))
    gone = table.delete(batch_of(rows).select(["id", "day"]))
    assert (gone.deletes, rows_of(table)) == (2, [])
    back = table.upsert(batch_of(rows))
    assert back.inserts == 2
    assert len(rows_of(table)) == 2


def test_delete_by_key_always_wins_whatever_ordering_value_its_file_has(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 5, "new"), Row("b", "x", 5, "new")]))
    gone = table.delete(batch_of([Row("a", "x", 4, "old")]))
    assert (gone.deletes, gone.ignored) == (1, 0)
    assert [r["id"] for r in rows_of(table)] == ["b"]


def test_upsert_empty_batch_commits_nothing(tmp_path: Path):
    table = make_table(tmp_path / "t")
    summary = table.upsert(batch_of([]))
    assert (summary.instant, summary.noop, summary.rows_in) == (None, True, 0)


def test_upsert_other_index_type_than_bound_is_refused(tmp_path: Path):
    table = make_table(tmp_path / "t")
    with pytest.raises(OptionError, match="index"):
        table.upsert(batch_of([Row("a", "x", 1, "1")]), options={"hoodie.index.type": "GLOBAL_BLOOM"})


def test_upsert_new_rows_roll_over_at_the_target_size(tmp_path: Path):
    table = make_table(tmp_path / "t")
    rows = [Row(f"k{i:04d}", "x", 1, "v") for i in range(1000)]
    options = {"hoodie.parquet.max.file.size": "10000", "hoodie.copyonwrite.record.size.estimate": "100"}
    summary = table.upsert(batch_of(rows), options=options)
    assert summary.files_created == 10
    assert len(rows_of(table)) == 1000


def unbound_complex(folder: Path, *, bare: bool, rows: bool = True) -> LakeTable:
    """A table with a one-field complex key as another writer leaves it."""
    options = {"hoodie__write__complex__keygen__new__encoding": str(bare).lower()}
    table = make_table(folder / "t", hoodie__table__keygenerator__type="COMPLEX", **options)
    if rows:
        table.upsert(batch_of([Row("a", "x", 1, "1")]))
    as_hudis(table)
    return table


@pytest.mark.parametrize("bare", [True, False])
def test_stored_keys_say_how_a_one_field_complex_key_is_stored(tmp_path: Path, bare: bool):
    table = unbound_complex(tmp_path, bare=bare)
    wrong = {"hoodie.write.complex.keygen.new.encoding": str(not bare).lower()}
    with pytest.raises(OptionError, match="stored record keys are"):
        table.upsert(batch_of([Row("a", "x", 2, "2")]), options=wrong)
    table.upsert(batch_of([Row("a", "x", 2, "2"), Row("b", "x", 2, "2")]))
    assert sorted(r["_hoodie_record_key"] for r in rows_of(table)) == (["a", "b"] if bare else ["id:a", "id:b"])


@pytest.mark.parametrize("bare", [True, False])
def test_a_one_field_complex_key_without_a_stored_one_is_asked_about(tmp_path: Path, bare: bool):
    table = unbound_complex(tmp_path, bare=bare, rows=False)
    index = {"hoodie.index.type": "BLOOM"}
    with pytest.raises(OptionError, match=r"`value` by Hudi 0\.15"):
        table.upsert(batch_of([Row("a", "x", 1, "1")]), options=index)
    said = {**index, "hoodie.write.complex.keygen.new.encoding": str(bare).lower()}
    table.upsert(batch_of([Row("a", "x", 1, "1")]), options=said)
    assert [r["_hoodie_record_key"] for r in rows_of(table)] == ["a" if bare else "id:a"]


@pytest.mark.parametrize("bare", [True, False])
def test_upsert_one_field_complex_keys_of_another_encoding_are_refused(tmp_path: Path, bare: bool):
    options = {"hoodie__table__keygenerator__type": "COMPLEX"}
    encoding = {"hoodie__write__complex__keygen__new__encoding": str(bare).lower()}
    table = make_table(tmp_path / "t", **options, **encoding)
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    assert [r["_hoodie_record_key"] for r in rows_of(table)] == ["a" if bare else "id:a"]
    for place in (".hoodie/.lakeindex/table.json", ".hoodie/hoodie.properties"):
        path = tmp_path / "t" / place
        old, new = f'encoding":{str(bare).lower()}', f'encoding":{str(not bare).lower()}'
        path.write_text(path.read_text().replace(old, new).replace(old.replace(":", "\\:"), new.replace(":", "\\:")))
    with pytest.raises(TableCorruptError, match="encode") as caught:
        table.upsert(batch_of([Row("a", "x", 2, "2")]))
    assert caught.value.exit_code == 4
    assert len(rows_of(table)) == 1


def test_a_file_with_one_key_of_another_encoding_is_refused(tmp_path: Path) -> None:
    """Whether it is the least key of the file or the greatest."""
    for number, (bare, stored) in enumerate(
        ((False, ["0", "id:b"]), (False, ["id:a", "zz"]), (True, ["id:a", "z"]), (True, ["a", "id:b"]))
    ):
        encoding = {"hoodie__write__complex__keygen__new__encoding": str(bare).lower()}
        table = make_table(tmp_path / f"t{number}", hoodie__table__keygenerator__type="COMPLEX", **encoding)
        table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
        (path,) = Path(table.uri).glob("x/*.parquet")
        rows = pq.read_table(path)
        ends = {b"hoodie_min_record_key": stored[0].encode(), b"hoodie_max_record_key": stored[1].encode()}
        said = {key: text for key, text in rows.schema.metadata.items() if not key.startswith(b"lakeindex")}
        rows = rows.set_column(
            rows.schema.get_field_index("_hoodie_record_key"), "_hoodie_record_key", pa.array(stored)
        )
        pq.write_table(rows.replace_schema_metadata({**said, **ends}), path)
        shutil.rmtree(Path(table.uri) / CACHE_FOLDER)
        (odd,) = (key for key in stored if key.startswith("id:") is bare)
        with pytest.raises(TableCorruptError, match=f"holds key '{odd}', which is not encoded as the table's other"):
            table.upsert(batch_of([Row("c", "x", 2, "2")]))


def test_a_batch_of_bad_rows_only_says_so(tmp_path: Path) -> None:
    """Nothing is committed, and every row is accounted for."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    bad = pa.table({"id": ["", "", ""], "day": ["x", "y", "x"], "ts": [1, 2, 3], "v": ["1", "2", "3"]})
    for dry_run in (True, False):
        done = table.upsert(bad, max_quarantined=3, dry_run=dry_run)
        assert (done.noop, done.instant, done.rows_in, done.quarantined) == (True, None, 3, 3)
        done.check_identity()
    assert done.fates == {"quarantined": 3}


@pytest.mark.parametrize("torn", [b"", b"#partition metadata\n", bytes(90)])
@pytest.mark.parametrize("key", ["a", "b"])
def test_partition_metadata_that_a_power_loss_tore_is_put_anew(torn: bytes, key: str) -> None:
    """By an update of its files as by an insert beside them: Hudi cannot read the partition without it."""
    world, path = MemoryTable.holding([Row("a", "x", 1, "1")]), "x/.hoodie_partition_metadata"
    world.store.write(path, torn)
    world.upsert([Row(key, "x", 2, "2")], hoodie__parquet__small__file__limit="0")
    assert parse_partition_metadata(world.store.read(path), path).depth == 1
    whole = world.store.read(path)
    world.upsert([Row(key, "x", 3, "3")])
    assert world.store.read(path) == whole, "what is whole stays"
