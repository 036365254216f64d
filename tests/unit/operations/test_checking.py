from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from lakeindex.bloom import build_filter
from lakeindex.errors import (
    AccessDeniedError,
    LakeIndexError,
    MachineError,
    StorageError,
    TableNotFoundError,
    TableUnsupportedError,
)
from lakeindex.operations.check import check_table
from lakeindex.operations.check_violations import Broken, CheckReport, Writer
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import Call
from lakeindex.table.handle import Table
from lakeindex.timeline.avro_instants import RollbackMetadata, format_restore_metadata
from tests.builders import Row, batch_of, make_table
from tests.golden import table_of
from tests.meanwhile import MemoryTable
from tests.unit.commit.savepoints import savepoint_bytes
from tests.unit.operations.tables import (
    edit_commit,
    flip,
    footer_entries,
    live_files,
    relative,
    rewrite,
    twice_first_row,
    with_value,
)
from tests.vectors_support import commit_instants, table_names, unpack_table

HOLDS = [name for name in table_names() if "rolledback" not in name]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """No row of it is deleted; three commits."""
    return unpack_table("py_simple", tmp_path)


def _kinds(report: CheckReport) -> set[Broken]:
    return {one.kind for one in report.violations}


def _has(report: CheckReport, kind: Broken, culprit: str, says: str = "") -> bool:
    return any((v.kind, v.culprit) == (kind, culprit) and says in v.message and v.hint for v in report.violations)


@pytest.mark.parametrize("name", HOLDS)
def test_every_invariant_holds_on_what_hudi_and_the_prototype_wrote(name: str, tmp_path: Path):
    report = check_table(str(unpack_table(name, tmp_path)))
    assert report.violations == ()
    assert report.ok
    assert report.checked.files == report.checked.filters == report.checked.ranges > 0
    assert report.checked.rows == report.checked.keys_recomputed > 0


@pytest.mark.parametrize("name", ["h0150_v6_rolledback", "h120_v6_rolledback"])
def test_orphans_of_hudis_own_rollback_are_strays(name: str, tmp_path: Path):
    report = check_table(str(unpack_table(name, tmp_path)))
    assert [one.kind for one in report.violations] == [Broken.STRAY] * 3


def test_an_unfinished_write_breaks_nothing(tmp_path: Path):
    table = unpack_table("h120_v6_inflight", tmp_path)
    (pending,) = Table.at(str(table)).load_timeline().pending_times
    marker = table / ".hoodie" / ".temp" / pending / "MARKERS.type"
    marker.parent.mkdir(parents=True, exist_ok=True)
    marker.touch()
    report = check_table(str(table))
    assert report.ok
    assert any("inflight" in note for note in report.notes)
    assert not any("markers" in note for note in report.notes), "its writer may be at work"


def test_no_table_and_unread_tables_raise(table: Path, tmp_path: Path):
    with pytest.raises(TableNotFoundError):
        check_table(str(tmp_path / "nothing"))
    properties = table / ".hoodie" / "hoodie.properties"
    text = properties.read_text(encoding="utf-8")
    properties.write_text(text.replace("COPY_ON_WRITE", "MERGE_ON_READ"), encoding="utf-8")
    with pytest.raises(TableUnsupportedError):
        check_table(str(table))


def test_damaged_properties(table: Path):
    properties = table / ".hoodie" / "hoodie.properties"
    text = properties.read_text(encoding="utf-8")
    properties.write_text(text.replace("hoodie.table.name=py", "hoodie.table.name=other"), encoding="utf-8")
    report = check_table(str(table))
    assert _kinds(report) == {Broken.PROPERTIES}
    assert not report.ok


def test_a_damaged_binding(table: Path):
    folder = table / ".hoodie" / ".lakeindex"
    folder.mkdir()
    (folder / "table.json").write_text('{"format": 1', encoding="utf-8")
    assert _kinds(check_table(str(table))) == {Broken.PROPERTIES}


@pytest.mark.parametrize("keep", [0, 50])
@pytest.mark.usefixtures("time_leaps")
def test_a_damaged_commit(table: Path, keep: int):
    commit = table / ".hoodie" / f"{commit_instants(table)[0]}.commit"
    commit.write_bytes(commit.read_bytes()[:keep])
    report = check_table(str(table))
    assert _has(report, Broken.COMMIT, f".hoodie/{commit.name}")


@pytest.mark.usefixtures("time_leaps")
def test_a_damaged_rollback(tmp_path: Path):
    table = unpack_table("h120_v6_rolledback", tmp_path)
    rollback = next((table / ".hoodie").glob("*.rollback"))
    rollback.write_bytes(rollback.read_bytes()[:200])
    assert _has(check_table(str(table)), Broken.COMMIT, f".hoodie/{rollback.name}")


def test_a_commit_that_was_never_requested(table: Path):
    at = commit_instants(table)[0]
    (table / ".hoodie" / f"{at}.commit.requested").unlink()
    assert _has(check_table(str(table)), Broken.TIMELINE, f".hoodie/{at}.commit", "never requested")


def test_two_writes_of_one_instant(table: Path):
    at = commit_instants(table)[2]
    (table / ".hoodie" / f"{at}.replacecommit.requested").write_bytes(b"")
    shutil.copy(table / ".hoodie" / f"{at}.commit", table / ".hoodie" / f"{at}.replacecommit")
    assert _has(check_table(str(table)), Broken.TIMELINE, at)


def test_a_name_that_looks_like_an_instant(table: Path):
    (table / ".hoodie" / "20260101000000000_x.commit").write_bytes(b"")
    assert _kinds(check_table(str(table))) == {Broken.TIMELINE}


def test_an_unknown_action_is_only_noted(table: Path):
    (table / ".hoodie" / "20260101000000000.frobnicate").write_bytes(b"")
    (table / ".hoodie" / "20260101000000000.frobnicate.requested").write_bytes(b"")
    (table / ".hoodie" / "20260101000000000.restore.requested").write_bytes(b"{}")
    report = check_table(str(table))
    assert report.ok
    assert any("frobnicate" in note for note in report.notes)
    assert any("restore 20260101000000000 is requested, not completed" in note for note in report.notes)


def test_an_instant_that_was_rolled_back_and_is_still_there(tmp_path: Path):
    table = unpack_table("h120_v6_rolledback", tmp_path)
    stray = next(v for v in check_table(str(table)).violations if v.kind is Broken.STRAY)
    at = stray.culprit.rsplit("_", 1)[1].removesuffix(".parquet")
    for suffix in (".commit", ".commit.requested"):
        (table / ".hoodie" / f"{at}{suffix}").write_text("{}", encoding="utf-8")
    assert _has(check_table(str(table)), Broken.ROLLBACK, at)


@pytest.mark.usefixtures("time_leaps")
def test_each_instant_that_is_still_there_is_told_and_no_other(table: Path):
    """Beside what was damaged, of several each; not its savepoint, nor a clustering, which Hudi takes up again."""
    folder, instants = table / ".hoodie", commit_instants(table)
    first, second, third = instants[:3]
    clustering, undone = "20270101000000000", "20270101000000001"
    (folder / f"{clustering}.clustering.requested").write_bytes(b"{}")
    for path in folder.glob(f"{third}.*"):
        path.unlink()
    (folder / f"{third}.savepoint").write_bytes(savepoint_bytes({}))
    gone = [RollbackMetadata(undone, one, "commit") for one in (first, second, third, clustering)]
    (folder / f"{undone}.restore").write_bytes(format_restore_metadata(undone, gone, 1))
    (folder / "20261231000000000.restore").write_bytes(b"{")
    found = check_table(str(table)).violations
    assert sorted(one.culprit for one in found if one.kind is Broken.ROLLBACK) == [first, second]
    assert all(undone in one.message for one in found if one.kind is Broken.ROLLBACK)


def _set_schema(commit: dict[str, Any]) -> None:
    commit["extraMetadata"].pop("schema")


@pytest.mark.parametrize("operation", ["upsert", "insert", "delete"])
@pytest.mark.parametrize("field", ["numWrites", "numInserts", "numDeletes"])
def test_what_each_operation_counts_is_compared(tmp_path: Path, operation: str, field: str):
    table = table_of(tmp_path / "t", [Row("a", "x", 1, "1"), Row("b", "x", 1, "1")])
    batch = batch_of([Row("b" if operation == "delete" else "c", "x", 2, "2")])
    done = getattr(table, operation)(batch)
    assert check_table(table.uri).violations == ()
    edit_commit(tmp_path / "t" / ".hoodie" / f"{done.instant}.commit", _edit_stat(field, lambda count: count + 1))
    assert any("inserts and" in one.message for one in check_table(table.uri).violations)


def test_no_commit_with_a_schema(table: Path):
    for at in commit_instants(table):
        edit_commit(table / ".hoodie" / f"{at}.commit", _set_schema)
    assert _kinds(check_table(str(table))) == {Broken.COMMIT}


@pytest.mark.parametrize("number", [0, 2])
def test_a_schema_that_cannot_be_read_is_told_of_the_newest_commit(table: Path, number: int):
    commit = table / ".hoodie" / f"{commit_instants(table)[number]}.commit"
    edit_commit(commit, lambda said: said["extraMetadata"].update(schema='{"type": "record"}'))
    found = [(one.kind, one.culprit) for one in check_table(str(table)).violations]
    assert found == ([(Broken.COMMIT, '{"type": "record"}')] if number == 2 else [])


def test_a_table_without_a_commit_needs_no_schema(tmp_path: Path):
    assert check_table(make_table(tmp_path / "t").uri).violations == ()


def _other_partition(commit: dict[str, Any]) -> None:
    ((partition, stats), *_) = commit["partitionToWriteStats"].items()
    del commit["partitionToWriteStats"][partition]
    commit["partitionToWriteStats"]["elsewhere"] = [{**stats[-1], "partitionPath": "nowhere"}]


def _second_stat(name: str) -> Callable[[dict[str, Any]], None]:
    def edit(commit: dict[str, Any]) -> None:
        stats = next(iter(commit["partitionToWriteStats"].values()))
        folder = stats[-1]["path"].rpartition("/")[0]
        stats.append({**stats[-1], "path": f"{folder}/{name.replace('ITS', stats[-1]['fileId'])}"})

    return edit


def test_each_file_of_a_commit_is_where_and_of_whom_it_says(table: Path):
    """But for logs, which a copy-on-write table does not read."""
    commit = table / ".hoodie" / f"{commit_instants(table)[2]}.commit"
    held = commit.read_bytes()
    first, _, third = commit_instants(table)
    elsewhere = f"is not of file group .* and instant {third}"
    cases: list[tuple[Callable[[dict[str, Any]], None], str]] = [
        (_other_partition, "is listed under partition 'elsewhere'"),
        (_second_stat(f"{'f' * 36}-0_1-0-0_{third}.parquet"), elsewhere),
        (_second_stat(f"ITS_1-0-0_{first}.parquet"), elsewhere),
        (_second_stat(".f-0_20260101000000000.log.1_0-0-0"), ""),
    ]
    for edit, says in cases:
        edit_commit(commit, edit)
        found = [one.message for one in check_table(str(table)).violations if one.kind is Broken.COMMIT]
        commit.write_bytes(held)
        assert bool(found) == bool(says), found
        assert all(re.search(says, one) for one in found)


def _edit_stat(name: str, change: Callable[[Any], Any]) -> Callable[[dict[str, Any]], None]:
    def edit(commit: dict[str, Any]) -> None:
        stat = next(iter(commit["partitionToWriteStats"].values()))[0]
        stat[name] = change(stat[name])

    return edit


@pytest.mark.parametrize(
    ("field", "change", "kind"),
    [
        ("numWrites", lambda n: n + 1, Broken.ROWS),
        ("numDeletes", lambda n: n + 1, Broken.ROWS),
        ("fileSizeInBytes", lambda n: n + 1, Broken.FILE),
        ("fileId", lambda text: f"x{text}", Broken.COMMIT),
        ("path", lambda _: None, Broken.COMMIT),
        ("path", lambda text: text.replace("_", "_9", 1), Broken.MISSING_FILE),
    ],
)
def test_a_commit_that_says_something_else(table: Path, field: str, change: Callable[[Any], Any], kind: Broken):
    edit_commit(table / ".hoodie" / f"{commit_instants(table)[2]}.commit", _edit_stat(field, change))
    assert kind in _kinds(check_table(str(table)))


@pytest.mark.parametrize(
    ("deletes", "rows", "ours", "sound"),
    [
        (1, 0, False, True),  # Hudi 1.2 counts the delete of a key that was not there
        (9, 0, False, True),
        (0, 1, False, False),
        (0, -1, False, False),
        (1, 1, False, False),
        (1, -2, False, False),
        (1, 0, True, False),  # we count what went away
    ],
)
def test_deletes_that_found_no_key_in_a_bucket(tmp_path: Path, deletes: int, rows: int, ours: bool, sound: bool):
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="1")
    table.upsert(batch_of([Row(f"k{n}", "x", 1, "v") for n in range(9)]))
    instant = table.upsert(batch_of([Row("k1", "x", 2, "v")])).instant

    def edit(commit: dict[str, Any]) -> None:
        stat = commit["partitionToWriteStats"]["x"][0]
        stat["numDeletes"] += deletes
        stat["numWrites"] += rows
        if not ours:
            del commit["extraMetadata"]["lakeindex.batch_id"]

    edit_commit(tmp_path / "t" / ".hoodie" / f"{instant}.commit", edit)
    told = [one for one in check_table(table.uri).violations if "inserts and" in one.message]
    assert [one.kind for one in told] == ([] if sound else [Broken.ROWS])


def test_a_missing_file(table: Path):
    gone = live_files(table)[0]
    gone.unlink()
    assert _has(check_table(str(table)), Broken.MISSING_FILE, relative(table, gone))


def test_a_missing_partition_file(table: Path):
    file = live_files(table)[0]
    (file.parent / ".hoodie_partition_metadata").unlink()
    culprit = relative(table, file.parent / ".hoodie_partition_metadata")
    assert _has(check_table(str(table)), Broken.PARTITION, culprit)


def test_a_partition_file_of_another_form_is_one(table: Path):
    (metadata, *_) = table.rglob(".hoodie_partition_metadata")
    metadata.rename(metadata.with_suffix(".parquet"))
    assert check_table(str(table)).violations == ()


def test_a_wrong_partition_depth(table: Path):
    path = live_files(table)[0].parent / ".hoodie_partition_metadata"
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace("partitionDepth=1", "partitionDepth=2"), encoding="utf-8")
    assert _has(check_table(str(table)), Broken.PARTITION, relative(table, path), "levels")


@pytest.mark.parametrize("keep", [0, 10, -1, -9])
def test_a_truncated_file(table: Path, keep: int):
    file = live_files(table)[0]
    file.write_bytes(file.read_bytes()[:keep])
    report = check_table(str(table))
    assert _has(report, Broken.FILE, relative(table, file), "damaged")
    assert _has(report, Broken.FILE, relative(table, file), "bytes, its commit")


def test_a_damaged_page(table: Path):
    file = live_files(table)[0]
    for at in range(4, 400, 7):
        flip(file, at)
    assert _has(check_table(str(table)), Broken.FILE, relative(table, file), "damaged")


@pytest.mark.parametrize(
    ("column", "value", "kind"),
    [
        ("_hoodie_commit_time", None, Broken.META_COLUMNS),
        ("_hoodie_commit_time", "29990101000000000", Broken.META_COLUMNS),
        ("_hoodie_commit_seqno", None, Broken.META_COLUMNS),
        ("_hoodie_record_key", None, Broken.META_COLUMNS),
        ("_hoodie_partition_path", "elsewhere", Broken.META_COLUMNS),
        ("_hoodie_file_name", "other.parquet", Broken.META_COLUMNS),
        ("_hoodie_record_key", "aaa", Broken.KEY_RANGE),
        ("_hoodie_record_key", "zzz", Broken.KEY_RANGE),
        ("_hoodie_record_key", "k00000x", Broken.FILTER),
        ("id", "other", Broken.RECORD_KEY),
    ],
)
def test_a_value_that_does_not_fit(table: Path, column: str, value: str | None, kind: Broken):
    file = live_files(table)[0]
    rewrite(file, with_value(column, 0, value))
    assert any(v.kind is kind and v.culprit == relative(table, file) for v in check_table(str(table)).violations)


def test_a_commit_time_of_a_rolled_back_instant(tmp_path: Path):
    table = unpack_table("h120_v6_rolledback", tmp_path)
    stray = next(v for v in check_table(str(table)).violations if v.kind is Broken.STRAY)
    at = stray.culprit.rsplit("_", 1)[1].removesuffix(".parquet")
    file = live_files(table)[0]
    rewrite(file, with_value("_hoodie_commit_time", 0, at))
    assert _has(check_table(str(table)), Broken.META_COLUMNS, relative(table, file), "no completed commit")


def test_a_missing_meta_column(table: Path):
    file = live_files(table)[0]
    rewrite(file, lambda rows: rows.drop_columns(["_hoodie_commit_seqno"]))
    assert _has(check_table(str(table)), Broken.FILE, relative(table, file), "_hoodie_commit_seqno")


def test_a_filter_of_other_keys(table: Path):
    file = live_files(table)[0]
    config = WriteConfig()
    rows = pq.read_metadata(file).num_rows
    other = build_filter(pa.array([f"other-{n}" for n in range(rows)]), config)
    entries: dict[str, str | None] = {
        "org.apache.hudi.bloomfilter": other.to_text().decode(),
        "hoodie_bloom_filter_type_code": "DYNAMIC_V0",
    }
    rewrite(file, entries=entries)
    assert _has(check_table(str(table)), Broken.FILTER, relative(table, file), "denies")


def test_a_filter_that_is_none(table: Path):
    """Under its older name, too."""
    file, other = live_files(table)[:2]
    rewrite(file, entries={"org.apache.hudi.bloomfilter": "!!"})
    rewrite(other, entries={"org.apache.hudi.bloomfilter": None, "com.uber.hoodie.bloomfilter": "!!"})
    report = check_table(str(table))
    assert _has(report, Broken.FILTER, relative(table, file))
    assert _has(report, Broken.FILTER, relative(table, other))


def test_a_footer_without_range_or_filter_is_only_noted(table: Path):
    file = live_files(table)[0]
    size = file.stat().st_size
    rewrite(file, entries={"org.apache.hudi.bloomfilter": None, "hoodie_min_record_key": None})
    report = check_table(str(table))
    assert _kinds(report) <= {Broken.FILE}, "only its size changed"
    assert file.stat().st_size != size
    assert any("no key range" in note for note in report.notes)


def test_a_range_that_is_too_narrow(table: Path):
    file = live_files(table)[0]
    highest = footer_entries(file)["hoodie_max_record_key"]
    rewrite(file, entries={"hoodie_min_record_key": highest})
    assert _has(check_table(str(table)), Broken.KEY_RANGE, relative(table, file))


def test_a_key_twice_in_one_file(table: Path):
    file = live_files(table)[0]
    rewrite(file, twice_first_row)
    report = check_table(str(table))
    assert Broken.DUPLICATE_KEY in _kinds(report)
    assert _has(report, Broken.ROWS, relative(table, file))


def test_a_key_in_two_files_of_a_partition(tmp_path: Path):
    table = unpack_table("py_nonpart", tmp_path)
    one, two = live_files(table)
    first = pq.ParquetFile(one).read().slice(0, 1)
    rewrite(two, lambda rows: pa.concat_tables([rows, first]))
    report = check_table(str(table))
    key = first.column("_hoodie_record_key")[0].as_py()
    assert _has(report, Broken.DUPLICATE_KEY, key, "stored 2 times")


def test_strays_and_doubles(table: Path):
    file = live_files(table)[0]
    file_id, token, rest = file.name.split("_")
    third = commit_instants(table)[2]
    names = {
        f"{file_id}_9-9-9_{rest}": Broken.DOUBLE,
        f"{file_id[::-1].replace('-', 'a')}-0_{token}_{third}.parquet": Broken.STRAY,
        f"{file_id}_{token}_29990101000000000.parquet": Broken.STRAY,
        "mine.parquet": Broken.STRAY,
    }
    for name, kind in names.items():
        copy = file.with_name(name)
        shutil.copy(file, copy)
        violations = check_table(str(table)).violations
        assert any(v.kind is kind and relative(table, copy) in v.message for v in violations), name
        copy.unlink()
    several = dict.fromkeys((f"{file_id}_8-8-8_{rest}", f"{file_id}_9-9-9_{rest}"), Broken.DOUBLE)
    for at in commit_instants(table):
        several[f"{file_id[::-1].replace('-', 'a')}-0_{token}_{at}.parquet"] = Broken.STRAY
    for name in several:
        shutil.copy(file, file.with_name(name))
    found = {(one.kind, Path(one.culprit).name) for one in check_table(str(table)).violations}
    assert {(kind, name) for name, kind in several.items()} <= found, "all of them, superseded ones, too"


def test_left_over_markers_are_only_noted(table: Path):
    marker = table / ".hoodie" / ".temp" / commit_instants(table)[0] / "eu" / "x.marker.CREATE"
    marker.parent.mkdir(parents=True)
    marker.touch()
    report = check_table(str(table))
    assert report.ok
    assert any("markers" in note for note in report.notes)


@pytest.mark.usefixtures("time_leaps")
def test_a_timeline_too_damaged_to_know_the_files(tmp_path: Path):
    table = unpack_table("h120_v6_main", tmp_path)
    replace = next((table / ".hoodie").glob("*.replacecommit"))
    replace.write_bytes(replace.read_bytes()[:100])
    report = check_table(str(table))
    assert [(v.kind, v.culprit) for v in report.violations] == [(Broken.COMMIT, f".hoodie/{replace.name}")]
    assert any("files were not checked" in note for note in report.notes)


def _set_property(table: Path, name: str, value: str) -> None:
    path = table / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not line.startswith(f"{name}=")]
    path.write_text("\n".join([*lines, f"{name}={value}", ""]), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hoodie.table.keygenerator.class", "com.example.MyKeyGenerator"),
        ("hoodie.table.recordkey.fields", "nope"),
    ],
)
def test_keys_that_are_not_made_our_way_are_only_noted(table: Path, name: str, value: str):
    _set_property(table, name, value)
    report = check_table(str(table))
    assert report.ok
    assert report.checked.keys_recomputed == 0
    assert any("keys were not made anew" in note for note in report.notes)


def test_bare_keys_of_a_complex_generator_are_recognised(table: Path):
    _set_property(table, "hoodie.table.keygenerator.class", "org.apache.hudi.keygen.ComplexKeyGenerator")
    assert check_table(str(table)).ok
    file = live_files(table)[0]
    rewrite(file, with_value("_hoodie_record_key", 1, "id:x"))
    assert Broken.RECORD_KEY in _kinds(check_table(str(table)))


@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("superseded", [False, True])
@pytest.mark.parametrize("kind", [StorageError, AccessDeniedError, MachineError])
def test_what_could_not_be_read_is_not_called_damaged(deep: bool, superseded: bool, kind: type[LakeIndexError]):
    """Live files are read by every check, superseded ones by a deep one only."""
    world = MemoryTable()
    world.upsert([Row("k", "x", 1, "1")])
    world.upsert([Row("k", "x", 2, "2")])
    old, new = sorted(one.path for one in world.store.list("x") if one.path.endswith(".parquet"))
    wanted = old if superseded else new

    def refuse(call: Call) -> None:
        if call.name.startswith("read") and call.path == wanted:
            raise kind("the store does not answer", culprit=call.path)

    world.store.hook = refuse
    if superseded and not deep:
        assert world.table.check().ok
    else:
        with pytest.raises(kind, match="does not answer"):
            world.table.check(deep=deep)


def test_a_file_that_is_cleaned_away_beside_a_check_is_no_damage():
    """It is listed, and gone when its pages are read: the table is looked at once more."""
    world = MemoryTable.holding([Row("k", "x", 1, "1")], [Row("k", "x", 2, "2")])
    old = min(one.path for one in world.store.list("x") if one.path.endswith(".parquet"))
    done = world.once(
        lambda call: call.name.startswith("read") and call.path == old, lambda: world.table.clean(keep_commits=1)
    )
    assert world.table.check(deep=True).ok
    assert done


def test_a_file_that_goes_while_it_is_checked_is_told():
    """Nobody cleaned it away, so that nothing explains it."""
    world = MemoryTable.holding([Row("k", "x", 1, "1")], [Row("k", "x", 2, "2")])
    old = min(one.path for one in world.store.list("x") if one.path.endswith(".parquet"))
    done = world.once(lambda call: call.name.startswith("read") and call.path == old, lambda: world.store.delete(old))
    report = world.table.check(deep=True)
    assert done
    assert [(one.kind, one.culprit) for one in report.violations] == [(Broken.FILE, old)]


@pytest.mark.parametrize("contents", [True, False])
def test_what_of_the_metadata_table_was_not_compared_is_told(tmp_path: Path, contents: bool):
    """Of what is compared nothing is said."""
    table = table_of(tmp_path / "t", [Row("k", "x", 1, "1")])
    table.metadata_build(["bloom_filters", "column_stats"])
    names = ("bloom_filters", "column_stats", "partition_stats")
    told = [note for note in check_table(table.uri, contents=contents).notes if any(name in note for name in names)]
    assert bool(told) is not contents


def test_whose_a_violation_is(tmp_path: Path) -> None:
    """Of a table that only another writer wrote to: its. Then of each file what its commit says, and of damage nothing."""
    path = unpack_table("h0150_v6_main", tmp_path)
    before = [path / one.path for one in LakeTable(str(path)).files()]
    rewrite(before[0], entries={"hoodie_max_record_key": "!"})
    report = check_table(str(path))
    assert report.violations
    assert {one.writer for one in report.violations} == {Writer.OTHER}
    assert all("by its writer, not by lakeindex" in one.told for one in report.violations)
    rewrite(before[0], entries={"hoodie_max_record_key": "~"})
    table = LakeTable(str(path))
    rows = table.read(meta=False)
    table.upsert(rows.slice(0, 1), options={"hoodie.write.record.merge.mode": "COMMIT_TIME_ORDERING"})
    after = [path / one.path for one in table.files()]
    ours = next(one for one in after if one not in before)
    theirs = next(one for one in after if one in before)
    kinds = (Broken.KEY_RANGE, Broken.FILTER, Broken.ROWS)
    for file in (ours, theirs):
        rewrite(file, twice_first_row, {"hoodie_max_record_key": "!", "org.apache.hudi.bloomfilter": "none"})
    report = check_table(str(path))
    assert report.checked.filters == report.checked.files - 2
    found = {(one.kind, one.culprit): one.writer for one in report.violations if one.kind in kinds}
    writers = {relative(path, ours): Writer.LAKEINDEX, relative(path, theirs): Writer.OTHER}
    assert found == {(kind, file): writer for kind in kinds for file, writer in writers.items()}
    flip(theirs, -6)
    damage = [one for one in check_table(str(path)).violations if one.culprit == relative(path, theirs)]
    assert damage and {(one.kind, one.writer) for one in damage} == {(Broken.FILE, None)}  # noqa: PT018


@pytest.mark.usefixtures("time_leaps")
def test_what_hudi_completes_without_a_request_is_sound(table: Path):
    """A savepoint and a restore of Hudi's have none; every other action has one."""
    at = commit_instants(table)[-1]
    (live, *_) = live_files(table)
    partition, name = relative(table, live).rpartition("/")[::2]
    restored = format_restore_metadata("20270101000000000", [], 1)
    saved = savepoint_bytes({partition: (name,)})
    for action, time, said in (("savepoint", at, saved), ("restore", "20270101000000000", restored)):
        (table / ".hoodie" / f"{time}.{action}.inflight").write_bytes(b"")
        (table / ".hoodie" / f"{time}.{action}").write_bytes(said)
    assert check_table(str(table)).violations == ()
    gone = format_restore_metadata("20270101000000000", [RollbackMetadata("20270101000000000", at, "commit")], 1)
    (table / ".hoodie" / "20270101000000000.restore").write_bytes(gone)
    assert _has(check_table(str(table)), Broken.ROLLBACK, at, "still on the timeline")
    (table / ".hoodie" / "20270101000000000.restore").write_bytes(gone[:40])
    assert _has(check_table(str(table)), Broken.COMMIT, ".hoodie/20270101000000000.restore", "damaged")
    (table / ".hoodie" / "20270101000000000.restore").write_bytes(restored)
    (table / ".hoodie" / "20270101000000001.indexing").write_bytes(b"")
    assert _has(check_table(str(table)), Broken.TIMELINE, ".hoodie/20270101000000001.indexing", "never requested")


@pytest.mark.parametrize(
    ("version", "name"), [("6", ".commits_.archive.1_*"), ("9", "*_0.parquet"), ("9", "manifest_1")]
)
def test_an_archive_that_cannot_be_read_is_told(tmp_path: Path, version: str, name: str) -> None:
    table = make_table(tmp_path / "t", hoodie__write__table__version=version)
    for ts in range(4):
        table.upsert(batch_of([Row("a", "x", ts, "")]))
    table.clean(1)
    table.archive(1, options={"hoodie.cleaner.commits.retained": "1"})
    assert table.check().ok
    (file,) = (tmp_path / "t/.hoodie").rglob(name)
    file.write_bytes(b"junk")
    (one,) = table.check().violations
    assert (one.kind, one.culprit) == (Broken.TIMELINE, str(file.relative_to(tmp_path / "t")))
    assert [left.culprit for left in table.repair().unmended] == [one.culprit]
