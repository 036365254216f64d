"""Scans: the rows that a brute-force reading gives, whatever is left out; and what the report says of that."""

from __future__ import annotations

import datetime as dt
import functools
import itertools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

import lakeindex
from lakeindex.api.scan import Scan
from lakeindex.api.table import LakeTable
from lakeindex.errors import OptionError, TableCorruptError, UsageError
from lakeindex.operations.rows import aligned_rows, file_reader
from lakeindex.operations.rows import scan as operations_scan
from lakeindex.predicates.predicate import predicate_of
from lakeindex.storage import parallel
from lakeindex.storage.memory import Call
from lakeindex.write.types.avro_schema import META_COLUMNS
from tests.builders import Row, as_hudis, batch_of, make_table
from tests.meanwhile import MemoryTable
from tests.strategies import examples
from tests.unit.operations.tables import edit_commit, flip, live_files, read_rows
from tests.vectors_support import commit_instants, table_names, unpack_table

OPTIONS = {
    "hoodie.parquet.max.file.size": "20000",
    "hoodie.copyonwrite.record.size.estimate": "200",
    "hoodie.parquet.small.file.limit": "0",
    "lakeindex.parquet.row.group.rows": "20",
}
WIDE = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        ("day", pa.date32()),
        ("ts", pa.int64()),
        ("amount", pa.decimal128(10, 2)),
        ("at", pa.timestamp("us", "UTC")),
        ("f", pa.float64()),
        ("name", pa.string()),
        ("raw", pa.binary()),
        ("flag", pa.bool_()),
        ("place", pa.struct([("city", pa.string()), ("zip", pa.int32())])),
        ("tags", pa.list_(pa.string())),
    ]
)


def wide_rows(numbers: range, ts: int = 1) -> pa.Table:
    def row(n: int) -> dict[str, Any]:
        return {
            "id": n,
            "day": dt.date(2026, 1, 1 + n % 3),
            "ts": ts,
            "amount": None if n % 11 == 0 else pa.scalar(n * 25, pa.int64()).as_py(),
            "at": dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=n),
            "f": float("nan") if n % 50 == 49 else n / 4,
            "name": None if n % 7 == 0 else f"name{n:04d}",
            "raw": bytes([n % 256]),
            "flag": None if n % 5 == 0 else n % 2 == 0,
            "place": None if n % 13 == 0 else {"city": f"c{n // 100}", "zip": n},
            "tags": ["x"],
        }

    return pa.Table.from_pylist([row(n) for n in numbers], schema=WIDE)


@pytest.fixture(scope="module")
def wide_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], LakeTable]:
    """By index: 600 rows in 3 partitions, several files each, several row groups a file; then a second commit."""

    @functools.cache
    def made(index: str) -> LakeTable:
        options = {"hoodie__bucket__index__num__buckets": "4"} if index == "BUCKET" else {}
        folder = tmp_path_factory.mktemp("wide") / "t"
        table = make_table(folder, schema=WIDE, hoodie__index__type=index, **options)
        table.upsert(wide_rows(range(600)), options=OPTIONS)
        table.upsert(wide_rows(range(100, 130), ts=2), options=OPTIONS)
        return table

    return made


@pytest.fixture(params=["BLOOM", "RECORD_INDEX", "BUCKET"])
def wide(request: pytest.FixtureRequest, wide_of: Callable[[str], LakeTable]) -> LakeTable:
    return wide_of(request.param)


@functools.cache
def all_of(uri: str) -> pa.Table:
    """Of a table that stays as it is."""
    return read_rows(uri)


POINT = pa.struct([pa.field("x", pa.int64(), nullable=False)])
CONDITIONS = [
    "id = 17",
    "id IN (17, 18, 100, 5000)",
    "id BETWEEN 590 AND 700",
    "day = '2026-01-02'",
    "day >= '2026-01-03' AND id < 30",
    "day IS NULL",
    "amount > 14000.005",
    "amount IS NULL AND id < 50",
    "at < '2026-01-02T00:00:00Z'",
    "f > 148",
    "f < 1",
    "name LIKE 'name05%'",
    "name IS NULL AND day = '2026-01-01'",
    "name NOT IN ('name0001')",
    "raw = x'05'",
    "flag",
    "NOT flag AND id > 500",
    "place.city = 'c3'",
    "place.zip IS NULL",
    "id = 17 OR name = 'name0500'",
    "id = 17 AND name = 'name0500'",
    "id IN (1, 2) OR id IN (3)",
    "_hoodie_record_key = '17'",
    "_hoodie_partition_path = '2026-01-02' AND id > 580",
    "ts = 2",
    "NULL",
    "tags IS NOT NULL AND id = 3",
]


OF_ANY_INDEX = [
    ("BLOOM", one) if not re.search(r"\b(id|day|_hoodie\w+)\b", one) else (index, one)
    for index in ("BLOOM", "RECORD_INDEX", "BUCKET")
    for one in CONDITIONS
]
"""What names neither key nor partition is asked of one table: no index has a part in it."""


@pytest.mark.parametrize(("wide", "condition"), list(dict.fromkeys(OF_ANY_INDEX)), indirect=["wide"])
@pytest.mark.few(25)
def test_rows_are_those_of_a_filtered_reading(wide: LakeTable, condition: str):
    everything = all_of(wide.uri)
    predicate = predicate_of(condition, everything.schema)
    expected = predicate.filter(everything).select(WIDE.names)
    scan = wide.scan(where=condition)
    assert same(scan.to_arrow(), expected)
    report = scan.explain(analyze=True)
    assert report.rows == expected.num_rows == scan.count()
    left_out = report.files_pruned_by_partition + report.files_pruned_by_statistics + report.files_pruned_by_key
    assert report.files == left_out + report.files_left
    assert same(wide.scan(where=predicate.expression).to_arrow(), expected)


def same(one: pa.Table, other: pa.Table) -> bool:
    """Whether two tables have the same rows, in whatever order; NaN is itself."""
    assert one.schema.equals(other.schema)
    if "id" in one.column_names and one.sort_by("id").equals(other.sort_by("id")):
        return True
    return sorted(map(repr, one.to_pylist())) == sorted(map(repr, other.to_pylist()))


@settings(deadline=None, max_examples=examples(25), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.sampled_from(CONDITIONS), min_size=2, max_size=3),
    st.sampled_from([" AND ", " OR "]),
    st.booleans(),
    st.lists(st.sampled_from(["id", "name", "_hoodie_commit_time", "place"]), min_size=1, max_size=3, unique=True),
)
def test_joined_conditions(wide: LakeTable, parts: list[str], joint: str, negated: bool, columns: list[str]):
    condition = joint.join(f"({part})" for part in parts)
    condition = f"NOT ({condition})" if negated else condition
    everything = all_of(wide.uri)
    expected = predicate_of(condition, everything.schema).filter(everything).select(columns)
    assert same(wide.scan(where=condition, columns=columns).to_arrow(), expected)


def test_what_is_left_out_is_counted(wide: LakeTable):
    whole = wide.scan().explain(analyze=True)
    assert (whole.files_left, whole.files_opened, whole.rows) == (whole.files, whole.files, 600)
    one_day = wide.scan(where="day = '2026-01-02'").explain(analyze=True)
    if "global" in " ".join(one_day.notes):
        assert one_day.files_pruned_by_partition == 0
        assert (one_day.files_read or 0) < whole.files
    else:
        assert one_day.files_pruned_by_partition > 0
        assert one_day.files_opened == one_day.files_left < whole.files
    by_key = wide.scan(where="id = 17").explain(analyze=True)
    assert (by_key.keys, by_key.rows) == (1, 1)
    assert by_key.files_pruned_by_key + by_key.files_pruned_by_partition >= whole.files - 3
    late = wide.scan(where="id >= 580").explain(analyze=True)
    assert (late.row_groups_read or 0) < (late.row_groups or 0)
    assert (late.rows_read or 0) < 600


def test_partitions_are_chosen_by_path(wide: LakeTable):
    paths = ["2026-01-01", "2026-01-03"]
    days = wide.scan(partitions=paths, columns=["day"]).to_arrow()["day"].unique().to_pylist()
    assert sorted(days) == [dt.date(2026, 1, 1), dt.date(2026, 1, 3)]
    with pytest.raises(UsageError, match="has no partition 'nowhere'"):
        wide.scan(partitions=[*paths, "nowhere"]).count()


OUTPUTS: dict[str, Callable[[Scan], pa.Table]] = {
    "arrow": lambda scan: scan.to_arrow(),
    "batches": lambda scan: scan.to_batches().read_all(),
    "pandas": lambda scan: pa.Table.from_pandas(scan.to_pandas(), preserve_index=False),
    "polars": lambda scan: scan.to_polars().collect().to_arrow(),
    "duckdb": lambda scan: scan.to_duckdb(duckdb.connect()).to_arrow_table(),
    "dataset": lambda scan: scan.to_dataset().to_table(),
    "stream": pa.table,
}


@pytest.mark.parametrize("wide", ["BLOOM"], indirect=True)
@pytest.mark.parametrize("output", OUTPUTS)
@pytest.mark.parametrize("where", [None, "id IN (1, 2, 3)", "f > 100"])
def test_every_output_has_the_same_rows(wide: LakeTable, output: str, where: str | None):
    scan = wide.scan(columns=["id", "name", "amount"], where=where)
    expected = {(row["id"], row["name"], row["amount"]) for row in scan.to_arrow().to_pylist()}
    found = OUTPUTS[output](scan)
    assert found.column_names[:3] == ["id", "name", "amount"]
    assert {(row["id"], row["name"], row["amount"]) for row in found.to_pylist()} == expected
    assert found.num_rows == len(expected)


def test_duckdb_and_polars_come_back_to_one_snapshot(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{n}", "d", 1, "old") for n in range(20)]))
    frame, relation = table.scan().to_polars(), table.scan().to_duckdb(duckdb.connect())
    filtered = table.scan(where="ts > 0").to_duckdb(duckdb.connect())
    table.upsert(batch_of([Row(f"k{n}", "d", 2, "new") for n in range(30)]))
    for _ in range(2):
        assert frame.collect().height == 20
        assert relation.count("*").fetchall() == [(20,)]
        assert filtered.filter("v = 'old'").count("*").fetchall() == [(20,)]
    joined = frame.join(frame, on="id").filter(pl.col("v") == "old").select(pl.len()).collect().item()
    assert joined == 20
    assert frame.head(3).collect().height == 3
    assert table.scan().count() == 30


def test_meta_columns_are_a_choice(wide: LakeTable):
    assert wide.scan().to_batches().schema.names == WIDE.names
    assert wide.scan(meta=True).to_arrow().column_names == [*META_COLUMNS, *WIDE.names]
    assert wide.scan(columns=["id", "_hoodie_record_key", "id"]).to_arrow().column_names == ["id", "_hoodie_record_key"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"columns": ["nope"]}, "no column 'nope'"),
        ({"columns": []}, "no columns are requested"),
        ({"columns": "id"}, "columns cannot be 'id'"),
        ({"partitions": "2026-01-01"}, "partitions cannot be"),
        ({"where": "nope = 1"}, "no column 'nope'"),
        ({"where": 5}, "a condition cannot be 5"),
        ({"as_of": 5}, "as_of cannot be 5"),
    ],
)
def test_what_is_not_valid_is_refused(wide: LakeTable, arguments: dict[str, Any], said: str):
    with pytest.raises(UsageError, match=said):
        wide.scan(**arguments).to_batches()


def test_since_and_as_of(tmp_path: Path):
    table = unpack_table("py_simple", tmp_path)
    first, second, _ = commit_instants(table)
    scans = LakeTable(str(table))
    for how in ({"as_of": first}, {"since": first}, {"since": first, "as_of": second}, {"since": second}):
        assert same(scans.scan(meta=True, **how).to_arrow(), read_rows(str(table), **how))
        assert scans.scan(**how).count() == read_rows(str(table), **how).num_rows
    with pytest.raises(UsageError, match="since an instant"):
        scans.scan(since=first).to_dataset()
    key = scans.scan(as_of=first, where="_hoodie_record_key = 'k0000'")
    assert key.count() == scans.scan(as_of=first, where=pc.field("_hoodie_record_key") == "k0000").count()


@pytest.mark.parametrize("name", [name for name in table_names() if name.startswith("h")])
@pytest.mark.few(6)
def test_tables_of_hudi_are_scanned_as_they_are_read(name: str, tmp_path: Path):
    folder = unpack_table(name, tmp_path)
    table, everything = LakeTable(str(folder)), read_rows(str(folder))
    assert same(table.scan(meta=True).to_arrow(), everything)
    middle = everything["_hoodie_record_key"][everything.num_rows // 2].as_py()
    region = everything["_hoodie_partition_path"][0].as_py()
    conditions = [f"_hoodie_record_key = '{middle}'", f"_hoodie_partition_path = '{region}'", "ts > 1", "ts IS NULL"]
    for condition, meta in itertools.product(conditions, (True, False)):
        options = {"hoodie.metadata.enable": str(meta).lower()}
        expected = predicate_of(condition, everything.schema).filter(everything)
        assert same(table.scan(where=condition, meta=True, options=options).to_arrow(), expected)


def test_partition_paths_are_no_evidence_on_tables_that_are_not_bound(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{n}", f"d{n % 2}", n, "x") for n in range(20)]))
    assert table.scan(where="day = 'd1'").explain().files_pruned_by_partition == 1
    unbound = LakeTable(str(as_hudis(table)))
    report = unbound.scan(where="day = 'd1'").explain(analyze=True)
    assert (report.files_pruned_by_partition, report.files_read, report.rows) == (0, 1, 10)
    assert "not bound" in report.notes[0]
    assert unbound.scan(where="ts = 1").explain().notes == (), "paths are not asked"
    odd = {"hoodie.bucket.index.num.buckets": "3"}
    for where in ("ts = 1", None):
        with pytest.raises(OptionError, match="buckets"):
            unbound.scan(where=where, options=odd).explain()


def keyed_by(folder: Path, kinds: dict[str, pa.DataType], *values: tuple[Any, ...]) -> LakeTable:
    """A table of these key columns, with a row for each of some values."""
    schema = pa.schema([*kinds.items(), ("ts", pa.int64())])
    table = make_table(folder, schema=schema, keys=tuple(kinds), partitions=())
    columns = dict(zip(kinds, map(list, zip(*values, strict=True)), strict=True))
    table.upsert(pa.table({**columns, "ts": list(range(len(values)))}, schema=schema))
    return table


def test_keys_are_made_of_a_condition_only_where_equal_values_have_one_key(tmp_path: Path):
    """0.0 and -0.0 are equal, and two keys."""
    at, text, number = dt.datetime(2026, 1, 1, tzinfo=dt.UTC), pa.string(), pa.float64()
    moment = pa.timestamp("us", "UTC")
    cases: list[tuple[dict[str, pa.DataType], list[tuple[Any, ...]], str, int, int | None]] = [
        ({"k": text}, [("a",), ("b",), ("c",)], "k IN ('b', 'c', 'a', 'x')", 3, 4),
        ({"k": pa.int32()}, [(1,), (2,)], "k = 1", 1, 1),
        ({"k": pa.int64()}, [(1,), (2,)], "k = 1", 1, 1),
        ({"k": number}, [(0.0,), (-0.0,), (1.0,)], "k = 0", 2, None),
        ({"k": moment}, [(at,)], "k = '2026-01-01T00:00:00Z'", 1, None),
        ({"k": text, "l": number}, [("a", 0.0), ("a", -0.0), ("b", 0.0)], "k = 'a' AND l = 0", 2, None),
        ({"k": text, "l": text}, [("a", "b"), ("a", "c")], "k = 'a' AND l IN ('c', 'd')", 1, 2),
        ({"k": text, "l": text}, [("a", "b"), ("a", "c")], "k = 'a'", 2, None),
        ({"k": text}, [("a",), ("b",)], "_hoodie_record_key IN ('b', 'a')", 2, 2),
    ]
    for number, (kinds, values, where, rows, keys) in enumerate(cases):
        table = keyed_by(tmp_path / str(number), kinds, *values)
        scan = table.scan(where=where)
        assert (scan.count(), scan.explain().keys) == (rows, keys), where
    many = ", ".join(map(repr, range(1_001)))
    table = keyed_by(tmp_path / "many", {"k": pa.int64(), "l": pa.int64()}, (7, 8), (7, 2_000))
    scan = table.scan(where=f"k IN ({many}) AND l IN ({many})")
    assert (scan.count(), scan.explain().keys) == (1, None), "a million of keys are not made"


@pytest.mark.parametrize("named", [True, False])
def test_keys_are_not_made_of_values_where_no_generator_is_named(tmp_path: Path, named: bool):
    """A table of one key and one partition field would have plain ones by Hudi's rule, and may have others."""
    options = {"hoodie__table__keygenerator__type": "SIMPLE" if named else "COMPLEX"}
    options |= {} if named else {"hoodie__write__complex__keygen__new__encoding": "false"}
    table = make_table(tmp_path / "t", **options)
    table.upsert(batch_of([Row("a", "d", 1, "x"), Row("b", "d", 1, "x")]))
    properties = as_hudis(table) / ".hoodie/hoodie.properties"
    lines = [line for line in properties.read_text().splitlines() if named or "keygenerator" not in line]
    properties.write_text("\n".join(lines) + "\n")
    unbound = LakeTable(table.uri)
    assert unbound.scan(where="id = 'a'").to_arrow()["id"].to_pylist() == ["a"]
    assert unbound.scan(where="id = 'a'").explain().keys == (1 if named else None)


def test_a_condition_that_no_key_meets_asks_for_none(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "d", 1, "x"), Row("b", "d", 1, "x")]))
    for where in ("id = 'a' AND id = 'b'", "id = ''"):
        assert (table.scan(where=where).count(), table.scan(where=where).explain().keys) == (0, 0), where


def test_a_row_that_a_global_index_left_in_its_partition_is_found(tmp_path: Path):
    options = {"hoodie.bloom.index.update.partition.path": "false"}
    table = make_table(tmp_path / "t", hoodie__index__type="GLOBAL_BLOOM")
    table.upsert(batch_of([Row("k1", "d1", 1, "x"), Row("k2", "d2", 1, "x")]), options=options)
    table.upsert(batch_of([Row("k1", "d2", 2, "y")]), options=options)
    found = table.scan(where="day = 'd2'", columns=["id", "_hoodie_partition_path"]).to_arrow().to_pylist()
    assert sorted(row["id"] for row in found) == ["k1", "k2"]


def widened(table: LakeTable, old: str, new: str) -> None:
    def change(commit: dict[str, Any]) -> None:
        text = commit["extraMetadata"]["schema"]
        commit["extraMetadata"]["schema"] = text.replace(f'"{old}"', f'"{new}"')

    for path in (Path(table.uri) / ".hoodie").glob("*.commit"):
        edit_commit(path, change)


@pytest.mark.parametrize(
    ("narrow", "wide_type", "values", "conditions"),
    [
        (("float", pa.float32()), "double", [0.1, 0.7], ["x = 0.1", "x <= 0.1", "x < 0.10000000001", "x IN (0.7)"]),
        (("int", pa.int32()), "float", [16777217, 16777217], ["x = 16777216", "x < 16777217"]),
        (("int", pa.int32()), "long", [5, 7], ["x = 5", "x > 6", "x > 2147483648"]),
        (("float", pa.float32()), "string", [5.0, 30.0], ["x = '30.0'", "x > '5'", "x LIKE '3%'"]),
    ],
)
def test_statistics_of_narrower_files_exclude_nothing_wrongly(
    tmp_path: Path, narrow: tuple[str, pa.DataType], wide_type: str, values: list[Any], conditions: list[str]
):
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("ts", pa.int64()), ("x", narrow[1])])
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    table.upsert(pa.table({"id": ["a", "b"], "ts": [1, 1], "x": pa.array(values, narrow[1])}, schema=schema))
    widened(table, narrow[0], wide_type)
    everything = read_rows(table.uri)
    for condition in conditions:
        expected = predicate_of(condition, everything.schema).filter(everything)
        assert same(table.scan(where=condition, meta=True).to_arrow(), expected), condition
    if wide_type == "long":
        assert table.scan().to_dataset().to_table().num_rows == 2
    else:
        with pytest.raises(UsageError, match="stores column 'x' as"):
            table.scan().to_dataset()
        assert table.scan().to_duckdb(duckdb.connect()).count("*").fetchall() == [(2,)]


def test_a_column_that_old_files_lack_is_null(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{n}", "d", 1, "x") for n in range(10)]))
    added = ',{"name":"extra","type":["null","string"],"default":null}]}'

    def change(commit: dict[str, Any]) -> None:
        commit["extraMetadata"]["schema"] = commit["extraMetadata"]["schema"].removesuffix("]}") + added

    for path in (Path(table.uri) / ".hoodie").glob("*.commit"):
        edit_commit(path, change)
    assert table.scan(where="extra IS NULL").count() == 10
    assert table.scan(where="extra = 'x'").explain(analyze=True).files_read == 0
    assert table.scan(columns=["extra"]).to_arrow()["extra"].null_count == 10
    assert table.scan(columns=["extra"]).to_dataset().to_table()["extra"].null_count == 10


def test_a_field_that_a_struct_must_have_is_null_where_the_struct_is(tmp_path: Path):
    """Statistics count its nulls with the struct's, and nothing else says that there may be some."""
    place = pa.struct([pa.field("city", pa.string(), nullable=False), pa.field("at", POINT, nullable=False)])
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("place", place)])
    table = make_table(tmp_path / "t", partitions=(), schema=schema)
    points = pa.StructArray.from_arrays([pa.array([1, 0, 2])], fields=list(POINT))
    places = pa.StructArray.from_arrays(
        [pa.array(["c", "", "d"]), points], fields=list(place), mask=pa.array([False, True, False])
    )
    table.upsert(pa.table([["a", "b", "c"], [1, 1, 1], places], schema=schema))
    for where, wanted in (
        ("place.city IS NULL", ["b"]),
        ("place.at.x IS NULL", ["b"]),
        ("place.city IS NOT NULL", ["a", "c"]),
        ("(place.city = 'c') IS NOT TRUE", ["b", "c"]),
        ("place.city IS DISTINCT FROM 'c' AND place.at.x IS DISTINCT FROM 2", ["b"]),
    ):
        assert sorted(table.scan(where=where).to_arrow()["id"].to_pylist()) == wanted, where


def test_a_damaged_file_is_named(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row(f"k{n}", "d", 1, "x" * n) for n in range(50)]))
    (path,) = live_files(Path(table.uri))
    metadata = pq.ParquetFile(path).metadata
    values = metadata.row_group(0).column(metadata.num_columns - 1)
    flip(path, values.data_page_offset + values.total_compressed_size // 2)
    for read in (lambda scan: scan.to_arrow(), lambda scan: scan.to_batches().read_all()):
        with pytest.raises(TableCorruptError, match=path.name):
            read(table.scan(meta=True))


@pytest.mark.parametrize("at_once", [7, pytest.param(45, marks=pytest.mark.slow), 65_536])
def test_columns_of_no_condition_are_read_where_a_row_was_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at_once: int
):
    """In row groups of 20 rows: with batches smaller than one, of two, of all."""
    for module in (aligned_rows, file_reader):
        monkeypatch.setattr(module, "BATCH_ROWS", at_once)
    rows = pa.table(
        {
            "id": [f"k{n:03}" for n in range(200)],
            "ts": [1] * 200,
            "day": ["d"] * 200,
            "n": pa.array([(n * 7) % 200 if n % 3 else None for n in range(200)], pa.int64()),
            "place": [{"x": n, "y": str(n)} for n in range(200)],
            "text": [f"text {n}" * 9 for n in range(200)],
        }
    )
    keys: dict[str, Any] = {"key": ["id"], "partition": ["day"], "ordering": ["ts"]}
    table = lakeindex.create_table(tmp_path / "t", like=rows, **keys)
    table.upsert(rows, options={"lakeindex.parquet.row.group.rows": "20"})
    conditions = [
        "n < 30",
        "n > 190 OR place.x = 150",
        "n IS NULL",
        "n = 7",
        "n = 7 AND place.x = 8",
        "place.y = '21'",
        "TRUE",
    ]
    chosen: tuple[list[str] | None, ...] = (None, ["text", "n"], ["place", "text"], ["n"], ["text", "id"])
    scans = list(itertools.product(conditions, chosen))[::2]

    def found() -> list[pa.Table]:
        whole = [table.scan(where=where, columns=columns).to_arrow() for where, columns in scans]
        batches = [table.scan(where=where, columns=columns).to_batches().read_all() for where, columns in scans]
        assert whole == batches
        assert [one.num_rows for one in whole] == [table.scan(where=where).count() for where, _ in scans]
        return whole

    def compared() -> int | None:
        return table.scan(where="n IS NULL", columns=["text"]).explain(analyze=True).rows_read

    at_first, rows_read = found(), compared()
    for (where, columns), one in zip(scans, at_first, strict=True):
        names = columns or rows.column_names
        assert one.equals(rows.filter(predicate_of(where, rows.schema).expression).select(names)), where
    monkeypatch.setattr(file_reader, "_WORTH_A_REQUEST", 0)
    assert (found(), compared()) == (at_first, rows_read)
    (path,) = live_files(Path(table.uri))
    metadata = pq.ParquetFile(path).metadata
    names = [metadata.row_group(3).column(place).path_in_schema for place in range(metadata.num_columns)]
    text = metadata.row_group(3).column(names.index("text"))
    flip(path, text.data_page_offset + text.total_compressed_size - 20)
    assert table.scan(where="n = 91", columns=["text"]).to_arrow()["text"].to_pylist() == ["text 13" * 9]
    with pytest.raises(TableCorruptError, match="row group 3, column 'text'"):
        table.scan(where="n = 90", columns=["text"]).to_arrow()


@pytest.mark.parametrize("is_here", [True, False])
@pytest.mark.few(2)
def test_footers_are_read_while_files_are_decoded(wide: LakeTable, monkeypatch: pytest.MonkeyPatch, is_here: bool):
    monkeypatch.setattr(operations_scan, "is_on_this_machine", lambda _: is_here)
    for where in (None, "ts >= 1", "flag"):
        scan = wide.scan(columns=["id", "name", "place"], where=where)
        rows, count, plan = scan.to_arrow(), scan.count(), scan.explain()
        assert plan.files_left > 2, where
        for at_once, ahead in zip((1, 2, plan.files_left - 1), (2, 1, 2), strict=True):
            monkeypatch.setattr(operations_scan, "_FOOTERS_AT_ONCE", at_once)
            monkeypatch.setattr(parallel, "_DECODED_AHEAD", ahead)
            assert scan.to_arrow().equals(rows), (where, at_once)
            assert scan.count() == count == rows.num_rows, (where, at_once)


def test_an_empty_table_has_no_rows(tmp_path: Path):
    table = make_table(tmp_path / "t")
    for output in OUTPUTS.values():
        assert output(table.scan(where="id = 'a'")).num_rows == 0
        assert output(table.scan()).num_rows == 0
    assert table.scan().count() == 0
    assert table.scan(where="id IN ('a')").explain().files == 0


def test_reading_without_a_choice_of_meta_columns_warns_where_it_is_called(tmp_path: Path):
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "d", 1, "x")]))
    with pytest.warns(FutureWarning, match="meta=True") as caught:
        rows = table.read()
    assert caught[0].filename == __file__
    assert rows.equals(table.read(meta=True))
    assert rows.drop_columns(list(META_COLUMNS)).equals(table.read(meta=False))


def test_column_stats_of_the_metadata_table_leave_files_out_unopened(tmp_path: Path):
    table = make_table(tmp_path / "t", partitions=(), schema=WIDE, hoodie__write__table__version="9")
    table.upsert(wide_rows(range(600)), options=OPTIONS)
    if not table.metadata_status().partitions:
        table.metadata_build(("column_stats",))
    everything = read_rows(table.uri)
    for condition in (
        "at > '2026-01-25T04:00:00Z'",
        "amount > 14500.005",
        "place.zip > 580 AND id > 580",
    ):
        expected = predicate_of(condition, everything.schema).filter(everything)
        report = table.scan(where=condition).explain(analyze=True)
        assert report.rows == expected.num_rows > 0
        assert report.files_pruned_by_statistics > 0, condition
        listed = table.scan(where=condition, options={"hoodie.metadata.enable": "false"}).explain()
        assert listed.files_pruned_by_statistics == 0
    both = table.scan(where="id IN (3, 590) AND amount > 100").explain()
    pruned = (both.files_pruned_by_statistics, both.files_pruned_by_key)
    assert min(pruned) > 0
    assert both.files_left + sum(pruned) == both.files, "each file is counted once"


@pytest.mark.parametrize("part", ["log.1_0-0-0", "hfile"])
def test_statistics_that_are_taken_away_meanwhile_say_nothing(part: str):
    """And keep nobody from his work: each row is compared with the condition all the same."""
    work: dict[str, Callable[[LakeTable], object]] = {
        "scan": lambda table: table.scan(where="ts > 3").to_arrow()["id"].to_pylist(),
        "plan": lambda table: "b" * table.scan(where="ts > 3").explain().files_left,
        "delete": lambda table: ["b"] * table.delete(where="ts > 3").deletes,
        "update": lambda table: ["b"] * table.update({"v": "'new'"}, where="ts > 3").updates,
    }
    for name, asks in work.items():
        world = MemoryTable.holding([Row("a", "x", 1, "1"), Row("b", "x", 5, "1")])
        world.table.metadata_build(("files", "column_stats"))

        def is_read(call: Call) -> bool:
            return call.name.startswith("read") and "/column_stats/" in call.path and call.path.endswith(part)

        done = world.once(is_read, lambda table=world.table: table.metadata_drop(("column_stats",)))
        assert "".join(asks(world.table)) == "b", name
        assert done, name


def test_what_hudi_says_of_row_groups_without_bounds_leaves_no_file_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It takes their values for nulls, and for zero where they are numbers, and unites them with the other groups'.

    Measured with Hudi 0.15 and 1.2: three row groups of which one has NaN, a text of 5,000 characters.
    """
    from lakeindex.metadata import content_records

    said = {"f": (-5.0, 6.0, 0), "g": (0.0, 6.0, 0), "h": (-6.0, -0.0, 0), "t": ("a", "c", 1), "u": (None, None, 3)}
    schema = pa.schema(
        [("id", pa.string()), ("day", pa.string()), ("ts", pa.int64()), ("n", pa.float64()), ("i", pa.int32())]
        + [(name, pa.float64() if name in "fgh" else pa.string()) for name in said]
    )
    right = content_records.column_ranges

    def hudis(*asked: Any) -> tuple[Any, ...]:
        return tuple(
            replace(one, least=said[one.column][0], greatest=said[one.column][1], null_count=said[one.column][2])
            if one.column in said
            else one
            for one in right(*asked)
        )

    monkeypatch.setattr(content_records, "column_ranges", hudis)
    table = make_table(tmp_path / "t", partitions=(), schema=schema, hoodie__write__table__version="9")
    if not table.metadata_status().partitions:
        table.metadata_build(("files", "column_stats"))
    nan, columns = float("nan"), dict[str, list[Any]]()
    columns |= {"id": ["a", "b", "c"], "day": ["d"] * 3, "ts": [1] * 3, "n": [1.0, 2.0, 3.0], "i": [0, 6, 7]}
    columns |= {"f": [1000.0, nan, 1.0], "g": [-100.0, nan, 6.0], "h": [100.0, nan, -6.0]}
    columns |= {"t": ["z" * 5000, "a", "c"], "u": ["z" * 5000, "a", "c"]}
    table.upsert(pa.table(columns, schema=schema))
    wanted = {"f > 500": "ab", "g = -100": "a", "g < 0": "a", "h > 0": "ab", "t > 'y'": "a", "u = 'c'": "c"}
    wanted |= {"u is not null": "abc", "f = 1 and u = 'c'": "c", "n = 2": "b", "i > 6": "c"}
    found = {where: "".join(sorted(table.scan(where=where).to_arrow()["id"].to_pylist())) for where in wanted}
    assert found == wanted
    pruned = {where: table.scan(where=where).explain().files_pruned_by_statistics for where in ("n < 1", "i = 9")}
    assert pruned == {"n < 1": 1, "i = 9": 1}
    assert table.delete(where="g = -100").deletes == 1
