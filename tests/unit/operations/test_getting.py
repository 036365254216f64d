"""Rows by key through the index equal a full scan; and what is read is no more than it takes."""

from __future__ import annotations

import datetime as dt
import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from lakeindex.api.table import LakeTable
from lakeindex.errors import InputError, TableCorruptError, UsageError
from lakeindex.files.footer_cache import CACHE_FOLDER
from lakeindex.index.bucket_options import BucketLayout
from lakeindex.index.locations import in_memory
from lakeindex.model import IndexType
from lakeindex.operations.rescale import migrate_to_buckets
from lakeindex.operations.rows.key_sets import KeysFile
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import SCHEMA, Row, as_hudis, batch_of, make_table, rows_of
from tests.golden import made_once
from tests.strategies import examples
from tests.unit.operations.tables import flip, live_files
from tests.vectors_support import table_names, unpack_table

KEYS = ["a", "b", "cé", "d中", "e\U0001f600", "f￿", "g:1,h:2", "x y"]
ROWS = st.builds(
    Row,
    st.sampled_from(KEYS),
    st.sampled_from(["x", "y z", "é"]),
    st.integers(0, 4),
    st.text("v", max_size=2),
    st.booleans(),
)
BATCHES = st.lists(st.lists(ROWS, min_size=1, max_size=8), min_size=1, max_size=4)
INDEXES = [str(kind) for kind in IndexType if kind not in {IndexType.HBASE, IndexType.STATE}]
"""Those that need no server and no engine; HBASE and STATE have tests of their own."""
SLOW = settings(max_examples=examples(14), deadline=None, suppress_health_check=list(HealthCheck))
SMALL = {"lakeindex.parquet.row.group.rows": "2", "hoodie.parquet.small.file.limit": "0"}


def scanned(table: LakeTable, keys: list[str], partition: str | None = None) -> list[dict[str, object]]:
    """What a full scan says."""
    found = [
        row
        for row in rows_of(table)
        if row["_hoodie_record_key"] in keys and partition in (None, row["_hoodie_partition_path"])
    ]
    return sorted(found, key=_place)


def _place(row: dict[str, object]) -> tuple[bytes, bytes]:
    return str(row["_hoodie_record_key"]).encode(), str(row["_hoodie_partition_path"]).encode()


def of(result_rows: pa.Table) -> list[dict[str, object]]:
    return sorted(result_rows.to_pylist(), key=_place)


def options_of(index: str) -> dict[str, str]:
    bucket = {"hoodie__bucket__index__num__buckets": "3"} if index == "BUCKET" else {}
    return {"hoodie__index__type": index, **bucket}


@SLOW
@given(
    BATCHES,
    st.sampled_from(INDEXES),
    st.lists(st.sampled_from([*KEYS, "nobody", ""]), max_size=6),
    st.sampled_from([None, "x", "y z", "nowhere", ""]),
    st.booleans(),
)
@example([[Row("a", day, 1, "") for day in ("x", "y z")]], "SIMPLE", ["a", "b"], None, False)
@example([[Row("a", day, 1, "") for day in ("x", "y z")]], "BLOOM", ["a", "b"], "", False)
def test_get_equals_a_full_scan(
    batches: list[list[Row]], index: str, keys: list[str], partition: str | None, forgets: bool
):
    with tempfile.TemporaryDirectory() as folder:
        table = make_table(f"{folder}/t", **options_of(index))
        for batch in batches:
            table.upsert(batch_of(batch), options=SMALL)
        if forgets:
            in_memory.forget_all()
        if partition is not None and not (Path(folder) / "t" / partition / ".hoodie_partition_metadata").exists():
            with pytest.raises(UsageError, match="has no partition"):
                table.get(keys, partition=partition)
            return
        got = table.get(keys, partition=partition)
        expected = scanned(table, keys, partition)
        assert of(got.rows) == expected
        assert set(got.missing) == set(keys) - {row["_hoodie_record_key"] for row in expected}
        assert list(got.missing) == sorted(set(got.missing), key=str.encode)
        report = got.report
        assert (report.keys, report.rows, report.missing) == (len(set(keys)), len(expected), len(got.missing))
        assert report.files_pruned + report.files_opened == report.files
        assert report.row_groups_read <= report.row_groups_searched <= report.row_groups


@made_once
def wide_table(folder: Path, index: str = "BLOOM") -> LakeTable:
    """8 files of 100 rows in row groups of 10, keys in order."""
    table = make_table(folder / "t", **options_of(index))
    rows = [Row(f"k{n:05d}", "x", 1, f"v{n}") for n in range(800)]
    options = {
        "hoodie.parquet.max.file.size": "10000",
        "hoodie.copyonwrite.record.size.estimate": "100",
        "lakeindex.parquet.row.group.rows": "10",
    }
    table.upsert(batch_of(rows), options=options)
    return table


def test_one_key_reads_one_row_group_of_one_file(tmp_path: Path):
    table = wide_table(tmp_path)
    got = table.get("k00123")
    assert [row["v"] for row in got.rows.to_pylist()] == ["v123"]
    report = got.report
    assert (report.files, report.files_pruned, report.files_opened, report.files_read) == (8, 7, 1, 1)
    assert (report.row_groups, report.row_groups_searched, report.row_groups_read, report.keys_read) == (10, 1, 1, 10)
    assert report.bytes_read < sum(p.stat().st_size for p in Path(table.uri).rglob("*.parquet"))


def test_bytes_read_are_those_of_what_is_needed(tmp_path: Path):
    table = make_table(tmp_path / "t", partitions=())
    wide = pa.table(
        {
            "id": [f"k{n:05d}" for n in range(2000)],
            "day": ["x"] * 2000,
            "ts": [1] * 2000,
            "v": [f"{n:0500d}" for n in range(2000)],
        }
    )
    table.upsert(
        wide, options={"lakeindex.parquet.row.group.rows": "100", "hoodie.parquet.compression.codec": "uncompressed"}
    )
    (file,) = live_files(tmp_path / "t")
    metadata = pq.read_metadata(file)
    one = table.get("k01234").report
    group = metadata.row_group(12).total_byte_size
    assert one.row_groups_read == 1
    assert one.bytes_read < group + metadata.serialized_size + 100_000
    only = table.get("k01234", columns=["ts"]).report
    assert only.bytes_read < one.bytes_read - 40_000  # not the text column


def test_absent_key_inside_the_range_is_stopped_by_the_filter(tmp_path: Path):
    table = wide_table(tmp_path)
    report = table.get(["k00123x", "zzz"]).report
    assert (report.files_opened, report.keys_read, report.missing) == (0, 0, 2)


def test_requests_do_not_grow_with_files_that_cannot_hold_the_key(tmp_path: Path):
    few, many = wide_table(tmp_path / "a"), wide_table(tmp_path / "b")
    more = [Row(f"m{n:05d}", "x", 1, "v") for n in range(4000)]
    many.upsert(
        batch_of(more),
        options={
            "hoodie.parquet.max.file.size": "10000",
            "hoodie.copyonwrite.record.size.estimate": "100",
            "hoodie.parquet.small.file.limit": "0",
        },
    )
    asked = [table.get("k00123").report for table in (few, many)]
    assert asked[1].files > 4 * asked[0].files
    assert asked[1].requests <= asked[0].requests + 4  # a commit more, a side file of the cache more


@pytest.mark.parametrize("index", ["BLOOM", "SIMPLE", "BUCKET", "INMEMORY"])
def test_reading_writes_nothing(tmp_path: Path, index: str):
    table = wide_table(tmp_path, index)
    in_memory.forget_all()
    before = sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*"))
    table.get(["k00001", "nobody"])
    assert sorted((p, p.stat().st_mtime_ns) for p in tmp_path.rglob("*")) == before


def test_without_a_cache_footers_are_asked_and_none_is_kept(tmp_path: Path):
    table = wide_table(tmp_path)
    cache = Path(table.uri) / CACHE_FOLDER
    for path in cache.iterdir():
        path.unlink()
    report = table.get("k00123").report
    assert (report.files_opened, report.files_read, report.rows) == (8, 1, 1)
    assert list(cache.iterdir()) == []


def test_damaged_cache_changes_no_answer(tmp_path: Path):
    table = wide_table(tmp_path)
    for path in (Path(table.uri) / CACHE_FOLDER).iterdir():
        flip(path, path.stat().st_size // 2)
    assert table.get("k00123").report.rows == 1


def test_in_memory_index_answers_for_what_it_covers(tmp_path: Path):
    table = wide_table.__wrapped__(tmp_path, "INMEMORY")
    table.upsert(
        batch_of([Row("k00799", "x", 2, "new")])
    )  # a look-up of this process has read all files but the new one
    covered = table.get("k00123", partition="x").report
    assert covered.files_opened == 2
    assert "does not cover 1 files" in covered.notes[0]
    in_memory.forget_all()
    report = table.get("k00123", partition="x").report
    assert (report.rows, report.files_opened) == (1, 8)
    assert "does not cover 8 files" in report.notes[0]


@pytest.mark.parametrize("index", ["RECORD_INDEX", "RECORD_LEVEL_INDEX"])
def test_stored_index_names_the_files_and_what_it_does_not_cover_is_asked(tmp_path: Path, index: str):
    table = wide_table(tmp_path, index)
    store = Path(table.uri) / ".hoodie/.lakeindex/index" / index.lower()
    covered = table.get(["k00123", "nobody"]).report
    assert (covered.rows, covered.files_opened, covered.notes) == (1, 1, ())
    table.upsert(batch_of([Row("k00001", "x", 2, "new"), Row("m", "x", 2, "more")]))
    (delta,) = [path for path in (store / "log").iterdir() if path == max((store / "log").iterdir())]
    delta.unlink()  # as if another writer had committed
    found = table.get(["k00001", "m", "k00123"])
    assert {row["id"]: row["v"] for row in found.rows.to_pylist()} == {"k00001": "new", "m": "more", "k00123": "v123"}
    assert "does not cover" in found.report.notes[0]
    shutil.rmtree(store)
    lost = table.get(["k00001", "m", "nobody"])
    assert (lost.rows.num_rows, lost.missing) == (2, ("nobody",))
    assert "is not built: every file is asked" in lost.report.notes[0]


def put_into_another_group(table: LakeTable, file: Path) -> None:
    """As by a clustering that the index did not see."""
    file.rename(file.with_name("f" * 8 + file.name[8:]))
    for commit in (Path(table.uri) / ".hoodie").glob("*.commit"):
        commit.write_text(commit.read_text().replace(file.name[:8], "f" * 8))


def test_what_a_partition_cannot_say_is_asked_in_its_own_files(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="RECORD_LEVEL_INDEX")
    table.index_build()
    table.upsert(batch_of([Row(f"k{n}{day}", day, 1, "v") for day in ("x", "y", "z") for n in range(20)]))
    (moved,) = (Path(table.uri) / "x").glob("*.parquet")
    put_into_another_group(table, moved)
    report = table.get(["k1x", "k2x"]).report
    assert (report.rows, report.files_opened) == (2, 1)
    several = wide_table.__wrapped__(tmp_path / "wide", "RECORD_LEVEL_INDEX")
    several.index_build()  # none of its keys is in a delta
    name = several.get("k00001").rows["_hoodie_file_name"][0].as_py()
    put_into_another_group(several, Path(several.uri) / "x" / name)
    assert several.get(["k00001", "k00123"]).missing == (), "what it says of other keys counts"


def test_as_of_gives_rows_of_then(tmp_path: Path):
    table = make_table(tmp_path / "t", hoodie__index__type="INMEMORY")
    first = table.upsert(batch_of([Row("a", "x", 1, "old"), Row("b", "x", 1, "gone")]))
    table.upsert(batch_of([Row("a", "x", 2, "new"), Row("b", "x", 2, "", deleted=True)]))
    then = table.get(["a", "b"], as_of=first.instant)
    assert [row["v"] for row in then.rows.to_pylist()] == ["old", "gone"]
    assert "files of then" in then.report.notes[0]
    now = table.get(["a", "b"])
    assert ([row["v"] for row in now.rows.to_pylist()], now.missing) == (["new"], ("b",))


def test_as_of_asks_the_index_of_then(tmp_path: Path):
    rows = [Row(f"k{number}", "x", 1, "v") for number in range(40)]
    keys = [row.id for row in rows]
    buckets = {"hoodie__index__type": "BUCKET", "hoodie__bucket__index__num__buckets": "2"}
    for name, options in (("rescaled", buckets), ("migrated", {"hoodie__index__type": "BLOOM"})):
        table = make_table(tmp_path / name, **options)
        first = table.upsert(batch_of(rows))
        if name == "rescaled":
            table.rescale(buckets=16)
        else:
            migrate_to_buckets(table.uri, BucketLayout(16), LocalRunner(1))
        for then in (first.instant, None):
            found = table.get(keys, as_of=then)
            assert (found.rows.num_rows, found.missing) == (40, ()), (name, then)
        assert table.get("k1", as_of=first.instant).report.files_opened == 1, name


def test_as_of_has_the_columns_of_then(tmp_path: Path):
    table = make_table(tmp_path / "t")
    first = table.upsert(batch_of([Row("a", "x", 1, "old")]))
    wider = batch_of([Row("a", "x", 2, "new")]).append_column("more", pa.array(["m"]))
    table.upsert(wider, schema_mode="add")
    asked = {"columns": ["more"], "as_of": first.instant}
    for read in (lambda: table.get("a", **asked), lambda: table.scan(**asked).to_arrow()):
        with pytest.raises(UsageError, match="no column 'more'"):
            read()
    then = table.read(meta=True, as_of=first.instant)
    assert table.get("a", as_of=first.instant).rows.equals(then)
    assert table.get("a", columns=["more"]).rows.to_pylist() == [{"more": "m"}]


def test_columns_are_those_asked_for(tmp_path: Path):
    table = wide_table(tmp_path)
    got = table.get(["k00002", "k00001"], columns=["v", "_hoodie_record_key"])
    assert got.rows.to_pylist() == [
        {"v": "v1", "_hoodie_record_key": "k00001"},
        {"v": "v2", "_hoodie_record_key": "k00002"},
    ]
    assert table.get("k00001", columns=["v"]).rows.column_names == ["v"]
    with pytest.raises(UsageError, match="no column 'w'"):
        table.get("k00001", columns=["w"])


def test_complex_keys_are_asked_by_their_encoded_text(tmp_path: Path):
    table = make_table(tmp_path / "t", keys=("id", "v"))
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("a", "x", 1, "2")]))
    assert [row["v"] for row in table.get("id:a,v:2").rows.to_pylist()] == ["2"]


def composite(folder: Path) -> LakeTable:
    columns = {"region": ["eu", "eu", "us"], "number": [7, 8, 7], "day": ["x", "x", "y"], "v": ["a,b:c", None, "c"]}
    rows = pa.table(columns)
    table = make_table(folder, schema=rows.schema, keys=("region", "number"), ordering=None)
    table.upsert(rows)
    return table


def test_keys_of_several_columns(tmp_path: Path):
    """By name, in the key's order, as they are stored; a list of these; a table or a file of the columns."""
    table = composite(tmp_path / "t")
    one, two = {"region": "eu", "number": 7}, {"number": "7", "region": "us"}
    pq.write_table(pa.table({"number": [7, 7], "region": ["eu", "us"], "more": [1, 2]}), tmp_path / "keys.parquet")
    for keys in (one, ("eu", 7), ("eu", "7"), "region:eu,number:7", [one], [("eu", 7)]):
        assert table.get(keys).rows.column("v").to_pylist() == ["a,b:c"], keys
    both = [
        [one, two],
        [("eu", 7), ("us", 7)],
        (("eu", 7), ("us", 7)),
        [one, "region:us,number:7"],
        ("region:eu,number:7", "region:us,number:7"),
        pa.table({"number": [7, 7], "region": ["eu", "us"]}),
        tmp_path / "keys.parquet",
    ]
    for keys in both:
        assert table.get(keys).rows.column("v").to_pylist() == ["a,b:c", "c"], keys
    assert table.get([one, ("eu", 9)]).missing == ("region:eu,number:9",)


def test_a_key_that_the_table_cannot_have_is_an_error(tmp_path: Path):
    """And not one that is not there."""
    table = composite(tmp_path / "t")
    wrong = {
        "eu,7": "its keys are region:...,number:...",
        "number:7,region:eu": "its keys are region:",
        ("eu",): "cannot be",
        ("eu", 7, "x"): "cannot be",
        ("eu", "seven"): "column 'number' of a key",
        ("eu", "0x7"): "column 'number' of a key",
        (None, None): "all null",
        "": "no record key",
    }
    for key, message in wrong.items():
        with pytest.raises(InputError, match=message):
            table.get([key])
    for row in ({"region": "eu"}, {"region": "eu", "number": 7, "day": "x"}):
        with pytest.raises(InputError, match="cannot be") as refused:
            table.get(row)
        assert "region, number" in str(refused.value.hint)
    with pytest.raises(InputError, match="no record key"):
        table.get(pa.array(["eu"]))
    with pytest.raises(InputError, match="no row has such a key"):
        table.get([("eu", 7), (None, None)])
    with pytest.raises(InputError, match="which one holds the keys"):
        table.get(pa.table({"region": ["eu"], "day": ["x"]}))
    assert table.get("region:e\nu,number:7").rows.num_rows == 0, "a text may have several lines"
    numbers = make_table(
        tmp_path / "n", schema=pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64())])
    )
    numbers.upsert(pa.table({"id": [7], "day": ["x"], "ts": [1]}))
    for good in (7, [7], "7", {"id": "7"}, [(7,)]):
        assert numbers.get(good if isinstance(good, (list, str, dict)) else [good]).rows.num_rows == 1
    for other in ("0", "-7", "10", [0], pa.array([0, -7])):
        assert numbers.get(other).rows.num_rows == 0, "a key that may be there, and is not"
    with pytest.raises(InputError, match="cannot be True"):
        numbers.get([True])
    wrong_values = (float("inf"), float("nan"), 2**70, 1.5, [1], "0x7", "seven")
    of_rows = [{"id": one} for one in wrong_values]
    for odd in (*of_rows, pa.table({"id": ["7", "0x7"]}), pa.table({"id": ["seven"]}), pa.table({"id": [7.5]})):
        with pytest.raises(InputError, match="column 'id' of a key cannot be that"):
            numbers.get(odd)
    for bad in ("07", "seven", "7.0", "+7", "-0", ""):
        with pytest.raises(InputError, match="a whole number"):
            numbers.get(bad)


def test_a_key_is_asked_for_as_it_is_given(tmp_path: Path):
    """And not by the day of a time."""
    noon = dt.datetime(2026, 1, 2, 12, tzinfo=dt.UTC)
    table = make_table(tmp_path / "t", schema=pa.schema([("id", pa.date32()), *SCHEMA.remove(0)]))
    table.upsert(pa.table({"id": [noon.date()], "day": ["x"], "ts": [1], "v": ["a"]}))
    assert table.get({"id": noon.date()}).rows.num_rows == 1
    moments = make_table(tmp_path / "m", schema=pa.schema([("id", pa.timestamp("us", "UTC")), *SCHEMA.remove(0)]))
    moments.upsert(pa.table({"id": [noon], "day": ["x"], "ts": [1], "v": ["a"]}))
    for unit in ("s", "ms", "us"):
        assert moments.get(pa.table({"id": pa.array([noon], pa.timestamp(unit, "UTC"))})).rows.num_rows == 1, unit
    for keys in ({"id": noon}, [{"id": noon.replace(tzinfo=None)}], pa.table({"id": [noon]})):
        with pytest.raises(InputError, match="column 'id' of a key cannot be that"):
            table.get(keys)


def test_key_sets_of_all_kinds(tmp_path: Path):
    table = wide_table(tmp_path)
    text = tmp_path / "keys.txt"
    text.write_text("k00001\r\nk00002\n\nk00001\n")
    parquet, capitals = tmp_path / "keys.parquet", tmp_path / "K.PARQUET"
    for path in (parquet, capitals):
        pq.write_table(pa.table({"_hoodie_record_key": ["k00001", "k00002"], "other": [1, 2]}), path)
    kinds = [
        ["k00001", "k00002"],
        pa.array(["k00001", "k00002"]),
        pa.chunked_array([["k00001"], ["k00002"]]),
        pa.array(["k00002", "k00001"]).dictionary_encode(),
        pa.array(["k00002", "k00001"], pa.large_string()),
        pa.table({"id": ["k00001", "k00002"]}),
        text,
        parquet,
        capitals,
        KeysFile(str(text)),
        [text],
        ["k00002", parquet, "k00001"],
        pa.array(["k00001", "k00002"], pa.string_view()),
        pa.table({"whatever": ["k00002", "k00001"]}),
        pa.table({"_hoodie_record_key": ["k00001", "k00002"], "id": ["k00003", "k00004"]}),
    ]
    for keys in kinds:
        assert table.get(keys).rows.column("id").to_pylist() == ["k00001", "k00002"], keys
    numbers = make_table(
        tmp_path / "n", schema=pa.schema([("id", pa.int64()), ("day", pa.string()), ("ts", pa.int64())])
    )
    numbers.upsert(pa.table({"id": [7, -8], "day": ["x", "x"], "ts": [1, 1]}))
    assert numbers.get(pa.array([7, -8, 9])).missing == ("9",)
    for kind in (pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())):
        some = pa.array(["7", "-8"]).cast(kind)
        assert numbers.get(pa.table({"id": some})).rows.num_rows == numbers.get(some).rows.num_rows == 2, kind


@pytest.mark.parametrize("begin", ["", "\N{ZERO WIDTH NO-BREAK SPACE}"])
def test_a_file_has_the_keys_as_they_are(tmp_path: Path, begin: str):
    """But the ends of its lines, and the mark with which editors of Windows begin a file."""
    keys = [" a", "b ", "c", "\td", "\x0be", "f\N{NO-BREAK SPACE}", "g\rh"]
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(key, "x", 1, "1") for key in keys]))
    file = tmp_path / "keys.txt"
    for ends in ("\n", "\r\n"):
        file.write_bytes((begin + ends.join(keys)).encode())
        got = table.get(file)
        assert (got.missing, got.rows.num_rows) == ((), len(keys)), ends


@pytest.mark.parametrize(
    ("keys", "match"),
    [
        ([1], "cannot be 1"),
        (["a", None], "cannot be None"),
        (1, "cannot be 1"),
        (None, "cannot be None"),
        (["a", "\ud800"], "cannot be '.ud800'"),
        (pa.array(["a", None, None]), "key 1 is null"),
        (pa.array([1.5]), "cannot be double"),
        (pa.table({"a": ["x"], "b": ["y"]}), "which one holds the keys"),
        (Path("/nowhere/keys.txt"), "no file of keys"),
    ],
)
def test_what_is_no_set_of_keys_is_refused(tmp_path: Path, keys: object, match: str):
    with pytest.raises(InputError, match=match):
        make_table(tmp_path / "t").get(keys)  # type: ignore[arg-type] # wrong on purpose


def test_a_file_that_is_none_of_keys_is_refused(tmp_path: Path):
    table = make_table(tmp_path / "t")
    for name, data in (("keys.txt", b"a\n\xff"), ("keys.parquet", b"PAR1 and no more")):
        (tmp_path / name).write_bytes(data)
        with pytest.raises(InputError, match=f"{name}' cannot be read"):
            table.get(tmp_path / name)
    (tmp_path / "folder.txt").mkdir()
    with pytest.raises(InputError, match=r"folder\.txt"):
        table.get(tmp_path / "folder.txt")


def test_keys_within_structs(tmp_path: Path):
    place = pa.struct([("city", pa.int64()), ("zip", pa.string())])
    schema = pa.schema([("place", place), *SCHEMA])
    table = make_table(tmp_path / "t", schema=schema, keys=("v", "id"))
    properties = as_hudis(table) / ".hoodie/hoodie.properties"
    properties.write_text(properties.read_text().replace("recordkey.fields=v,id", "recordkey.fields=place.city,id"))
    table = LakeTable(table.uri)
    rows = [{"place": {"city": n, "zip": "z"}, "id": "a", "day": "x", "ts": 1, "v": str(n)} for n in (7, 8)]
    table.upsert(pa.Table.from_pylist(rows, schema=schema), options={"hoodie.index.type": "BLOOM"})
    for keys in ({"place.city": "7", "id": "a"}, (7, "a"), [(7, "a")], "place.city:7,id:a"):
        assert table.get(keys).rows.column("v").to_pylist() == ["7"], keys
    for odd, why in ((("seven", "a"), "column 'place.city' of a key"), ("placeXcity:7,id:a", "no record key")):
        with pytest.raises(InputError, match=why):
            table.get([odd])


def test_keys_whose_making_is_not_known_are_asked_for_as_they_are_stored(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1")]))
    properties = as_hudis(table) / ".hoodie/hoodie.properties"
    kept = [line for line in properties.read_text().splitlines() if "keygenerator" not in line]
    properties.write_text("\n".join([*kept, "hoodie.table.keygenerator.class=org.example.Own"]) + "\n")
    unknown = LakeTable(table.uri)
    for keys in ("a", ["a"], pa.array(["a"]), pa.table({"some": ["a"]}), pa.table({"_hoodie_record_key": ["a"]})):
        assert unknown.get(keys).rows.num_rows == 1, keys
    assert unknown.scan(where="id = 'a'").explain().keys is None
    for odd, why in (({"id": "a"}, "not known how"), (pa.table({"id": ["a"], "v": ["1"]}), "which one holds the keys")):
        with pytest.raises(InputError, match=why):
            unknown.get(odd)


def test_no_keys_and_empty_tables(tmp_path: Path):
    empty = make_table(tmp_path / "t")
    got = empty.get(["a"])
    assert (got.rows.num_rows, got.missing, got.report.instant) == (0, ("a",), None)
    assert wide_table(tmp_path / "w").get([]).rows.num_rows == 0


def test_damaged_file_that_may_hold_the_key_is_an_error(tmp_path: Path):
    table = wide_table(tmp_path)
    files = live_files(Path(table.uri))
    for path in files:
        path.write_bytes(path.read_bytes()[:-4] + b"oops")
    with pytest.raises(TableCorruptError, match="does not end as a Parquet file") as caught:
        table.get("k00123")
    assert caught.value.culprit in {p.relative_to(table.uri).as_posix() for p in files}
    assert table.get("k00123x").missing == ("k00123x",)  # no file is opened for it


def test_table_of_another_writer_is_asked_by_its_footers(tmp_path: Path):
    table = wide_table(tmp_path)
    (Path(table.uri) / ".hoodie/.lakeindex/table.json").unlink()
    assert table.get(["k00123", "nobody"]).missing == ("nobody",)


@pytest.mark.parametrize("name", table_names())
def test_rows_of_tables_that_hudi_wrote(tmp_path: Path, name: str):
    table = LakeTable(str(unpack_table(name, tmp_path / name)))
    everything = table.read(meta=True).to_pylist()
    keys = sorted({str(row["_hoodie_record_key"]) for row in everything})[::3]
    fields = table.properties["hoodie.table.recordkey.fields"].split(",")
    nobody = ",".join(f"{field}:nobody" for field in fields) if len(fields) > 1 else "nobody"
    got = table.get([*keys, nobody])
    expected = [row for row in everything if row["_hoodie_record_key"] in keys]
    assert sorted(map(str, got.rows.to_pylist())) == sorted(map(str, expected))
    assert got.missing == (nobody,)
