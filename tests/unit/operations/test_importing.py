"""An imported table has the rows of its source, each once, whatever the source is and wherever an import before ended."""

import json
import math
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest
from pyarrow import csv

import lakeindex
from lakeindex.errors import (
    InputError,
    KeysStoredError,
    LakeIndexError,
    OptionError,
    SchemaMismatchError,
    TableExistsError,
    TableUnsupportedError,
    UsageError,
)
from lakeindex.model import IndexType
from lakeindex.operations.importing import import_table as importing
from lakeindex.operations.importing.iceberg import newest_metadata, open_iceberg
from lakeindex.stages.stage_input import inputs
from lakeindex.storage.memory import Call, MemoryStorage
from tests.scheduling import some_of

NAN = float("nan")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3, 4], pa.int64()),
        "at": pa.array([datetime(2026, 1, day, tzinfo=UTC) for day in (1, 2, 3, 4)], pa.timestamp("us", "UTC")),
        "x": pa.array([NAN, None, -0.0, 1.5], pa.float64()),
        "money": pa.array([Decimal("1.50"), None, Decimal("-2.25"), Decimal("0.00")], pa.decimal128(9, 2)),
        "day": pa.array([date(2026, 1, 1), None, date(2026, 1, 2), date(2026, 1, 1)], pa.date32()),
        "tags": pa.array([["a", None], None, [], ["b"]], pa.list_(pa.string())),
        "who": pa.array([{"name": "é", "n": 1}, None, {"name": None, "n": None}, {"name": "b", "n": 2}],
                        pa.struct([("name", pa.string()), ("n", pa.int32())])),
        "blob": pa.array([b"\x00\xff", None, b"", b"z"], pa.binary()),
        "yes": pa.array([True, None, False, True], pa.bool_()),
    }
)  # fmt: skip
ODD = ["a/b c%é", "x=y", None, "plain"]
ENCODING = {"hoodie.write.complex.keygen.new.encoding": "true"}


def hive(folder: Path, rows: pa.Table, by: dict[str, pa.DataType], **how: Any) -> Path:
    flavor = ds.partitioning(pa.schema(list(by.items())), flavor="hive")
    ds.write_dataset(
        rows, str(folder), format="parquet", partitioning=flavor, existing_data_behavior="overwrite_or_ignore", **how
    )
    return folder


def plain(folder: Path, *tables: pa.Table, name: str = "part") -> Path:
    folder.mkdir(exist_ok=True)
    for number, table in enumerate(tables):
        pq.write_table(table, folder / f"{name}-{number}.parquet")
    return folder


def stored(uri: Path | str, *names: str) -> list[dict[str, Any]]:
    table = lakeindex.open_table(str(uri))
    assert table.check(deep=True).ok
    return rows_of(table.scan().to_arrow(), *names)


def rows_of(table: pa.Table, *names: str) -> list[dict[str, Any]]:
    """Sorted by the key, NaN as a text: it equals nothing."""
    wanted = list(names) or sorted(table.column_names)
    found = table.select(wanted).to_pylist()
    return sorted(
        (
            {name: "NaN" if isinstance(value, float) and math.isnan(value) else value for name, value in row.items()}
            for row in found
        ),
        key=lambda row: row["id"],
    )


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_folder_of_parquet(tmp_path: Path, version: int) -> None:
    source = plain(tmp_path / "src", ROWS.slice(0, 3), ROWS.slice(3), ROWS.slice(0, 0))
    before = {path: path.read_bytes() for path in source.iterdir()}
    done = lakeindex.import_table(source, tmp_path / "t", key="id", ordering="at", table_version=version)
    assert (done.rows, done.inserted, done.combined, done.files, done.partitions) == (4, 4, 0, 3, 1)
    assert stored(tmp_path / "t") == rows_of(ROWS)
    assert {path: path.read_bytes() for path in source.iterdir()} == before
    assert lakeindex.open_table(str(tmp_path / "t")).inspect().version == version


def test_hive_partitions_keep_their_folders_and_get_their_types(tmp_path: Path) -> None:
    rows = ROWS.append_column("c", pa.array(ODD)).append_column("n", pa.array([1, 20, None, -3], pa.int32()))
    source = hive(
        tmp_path / "src",
        rows,
        {"day": pa.date32(), "c": pa.string(), "n": pa.int32()},
        max_rows_per_file=1,
        max_rows_per_group=1,
    )
    done = lakeindex.import_table(source, tmp_path / "t", key="id", properties=ENCODING)
    assert done.partition_fields == ("day", "c", "n")
    table = lakeindex.open_table(str(tmp_path / "t"))
    kinds = {field.name: str(field.type) for field in table.schema}
    assert (kinds["day"], kinds["c"], kinds["n"]) == ("date32[day]", "string", "int64")
    assert stored(tmp_path / "t") == rows_of(rows)
    made = {str(path.parent.relative_to(tmp_path / "t")) for path in (tmp_path / "t").glob("day=*/**/*.parquet")}
    assert sorted(made) == [
        "day=2026-01-01/c=a%2Fb c%25é/n=1",
        "day=2026-01-01/c=plain/n=-3",
        "day=2026-01-02/c=__HIVE_DEFAULT_PARTITION__/n=__HIVE_DEFAULT_PARTITION__",
        "day=__HIVE_DEFAULT_PARTITION__/c=x%3Dy/n=20",
    ]
    theirs = "select id, c, n from read_parquet('{}/day=*/**/*.parquet', hive_partitioning=true) order by id"
    assert duckdb.sql(theirs.format(source)).fetchall() == duckdb.sql(theirs.format(tmp_path / "t")).fetchall()


def test_folder_names_with_leading_zeros_stay_texts(tmp_path: Path) -> None:
    for month in ("01", "12"):
        folder = tmp_path / "src" / f"month={month}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [int(month)]}), folder / "a.parquet")
    lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id")
    assert stored(tmp_path / "t") == [{"id": 1, "month": "01"}, {"id": 12, "month": "12"}]
    assert (tmp_path / "t" / "month=01").is_dir()


def test_files_of_different_columns_are_widened(tmp_path: Path) -> None:
    one = pa.table({"id": pa.array([1], pa.int32()), "v": pa.array([1], pa.int32()), "u": pa.array([7], pa.uint64())})
    other = pa.table({"v": pa.array([2.5]), "id": pa.array([2], pa.int64()), "new": ["x"], "nothing": pa.nulls(1)})
    third = pa.table({"id": pa.array([3], pa.int64()), "nothing": pa.array([5], pa.int16())})
    done = lakeindex.import_table(plain(tmp_path / "src", one, other, third), tmp_path / "t", key="id")
    assert "id: int32 becomes int64" in done.casts
    assert "u: uint64 becomes int64" in done.casts
    assert stored(tmp_path / "t", "id", "v", "u", "new", "nothing") == [
        {"id": 1, "v": 1.0, "u": 7, "new": None, "nothing": None},
        {"id": 2, "v": 2.5, "u": None, "new": "x", "nothing": None},
        {"id": 3, "v": None, "u": None, "new": None, "nothing": 5},
    ]


def test_a_column_is_not_null_if_it_is_so_in_every_file(tmp_path: Path) -> None:
    """Not null, nullable or not there at all, in each of two files."""
    forms = [(first, second) for first in ("needed", "open", "none") for second in ("needed", "open", "none")][:-1]
    tables = []
    for file in (0, 1):
        named = [(f"{forms[n][0]}_{forms[n][1]}", forms[n][file]) for n in range(len(forms))]
        fields = [pa.field(name, pa.int64(), form != "needed") for name, form in named if form != "none"]
        values = [[1 if not one.nullable else None] for one in fields]
        tables.append(pa.table([[f"k{file}"], *values], schema=pa.schema([("id", pa.string()), *fields])))
    lakeindex.import_table(plain(tmp_path / "src", *tables), tmp_path / "t", key="id")
    schema = lakeindex.open_table(str(tmp_path / "t")).schema
    assert [one.name for one in schema if not one.nullable and one.name != "id"] == ["needed_needed"]
    assert rows_of(lakeindex.open_table(str(tmp_path / "t")).scan().to_arrow()) == [
        {**dict.fromkeys(schema.names), **row} for table in tables for row in table.to_pylist()
    ]


def test_csv(tmp_path: Path) -> None:
    folder = tmp_path / "src" / "region=eu"
    folder.mkdir(parents=True)
    (folder / "a.csv").write_text("id,v,day\n1,1.5,2026-01-01\n2,,2026-01-02\n")
    (folder / "empty.csv").write_text("id,v,day\n")
    lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id")
    assert stored(tmp_path / "t") == [
        {"id": 1, "v": 1.5, "day": date(2026, 1, 1), "region": "eu"},
        {"id": 2, "v": None, "day": date(2026, 1, 2), "region": "eu"},
    ]
    like = "id STRING, v DECIMAL(5,2), day STRING, region STRING"
    lakeindex.import_table(tmp_path / "src", tmp_path / "t2", key="id", like=like)
    assert stored(tmp_path / "t2")[0] == {"id": "1", "v": Decimal("1.50"), "day": "2026-01-01", "region": "eu"}


def test_a_bad_value_of_a_csv_file_is_told_before_a_table_is_made(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,v\n1,2\nx,3\n")
    with pytest.raises(InputError, match="row 1 of"):
        lakeindex.import_table(tmp_path / "a.csv", tmp_path / "t", key="id", like="id BIGINT, v BIGINT")
    assert not (tmp_path / "t").exists()


def delta(folder: Path, rows: pa.Table, **how: Any) -> str:
    deltalake = pytest.importorskip("deltalake")
    deltalake.write_deltalake(str(folder), rows, **how)
    return str(folder)


def test_delta(tmp_path: Path) -> None:
    rows = ROWS.append_column("c", pa.array(["a/b c%é", "x=y", None, "plain"]))
    source = delta(tmp_path / "src", rows, partition_by=["day", "c"])
    from deltalake import DeltaTable

    DeltaTable(source).delete("id = 4")
    done = lakeindex.import_table(source, tmp_path / "t", key="id", properties=ENCODING)
    assert (done.kind, done.source_version, done.inserted) == ("delta", "1", 3)
    assert stored(tmp_path / "t") == rows_of(rows.slice(0, 3))
    assert lakeindex.open_table(str(tmp_path / "t")).inspect().partition_fields == ("day", "c")


def test_an_import_of_delta_goes_on_with_the_version_that_it_began_with(tmp_path: Path) -> None:
    rows = pa.table({"id": [1, 2], "p": ["a", "b"]})
    source = delta(tmp_path / "src", rows, partition_by=["p"])
    with ended_after(1), pytest.raises(KilledError):
        lakeindex.import_table(source, tmp_path / "t", key="id", max_bytes=1)
    delta(tmp_path / "src", pa.table({"id": [3], "p": ["a"]}), mode="overwrite")
    done = lakeindex.import_table(source, tmp_path / "t", key="id", max_bytes=1)
    assert (done.source_version, done.commits_before) == ("0", 1)
    assert stored(tmp_path / "t") == rows_of(rows)


def test_delta_whose_log_names_files_elsewhere(tmp_path: Path) -> None:
    """As after a shallow clone; Spark writes one slash behind the scheme."""
    rows = pa.table({"id": [1, 2]})
    for number, spelt in enumerate(("file:{}", "file://{}", "{}")):
        source, other = Path(delta(tmp_path / f"src{number}", rows)), tmp_path / f"else whére {number}"
        other.mkdir()
        log = source / "_delta_log" / "00000000000000000000.json"
        lines = [json.loads(line) for line in log.read_text().splitlines()]
        for add in [line["add"] for line in lines if "add" in line]:
            moved = (source / add["path"]).rename(other / add["path"])
            add["path"] = spelt.format(quote(str(moved)))
        log.write_text("\n".join(map(json.dumps, lines)))
        lakeindex.import_table(str(source), tmp_path / f"t{number}", key="id")
        assert stored(tmp_path / f"t{number}") == rows_of(rows), spelt


def test_delta_whose_files_do_not_say_all_is_refused_by_name(tmp_path: Path) -> None:
    source = Path(delta(tmp_path / "src", pa.table({"id": [1]})))
    log = source / "_delta_log" / "00000000000000000000.json"
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    for line in lines:
        if "metaData" in line:
            line["metaData"]["configuration"]["delta.columnMapping.mode"] = "name"
    log.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises((TableUnsupportedError, InputError), match=r"columnMapping|cannot be read"):
        lakeindex.import_table(str(source), tmp_path / "t", key="id")


@pytest.fixture
def iceberg(tmp_path: Path) -> Iterator[Callable[..., Any]]:
    memory = pytest.importorskip("pyiceberg.catalog.memory")
    catalog = memory.InMemoryCatalog("c", warehouse=f"file://{tmp_path}/ice")
    catalog.create_namespace("n")

    def made(rows: pa.Table, *partitions: str) -> Any:
        table = catalog.create_table("n.t", schema=rows.schema)
        if partitions:
            with table.update_spec() as update:
                for name in partitions:
                    update.add_identity(name)
        table.append(rows)
        return table

    yield made
    catalog.close()  # Python 3.13 warns of its connection, in whatever test comes to collect it


def test_iceberg(tmp_path: Path, iceberg: Callable[..., Any]) -> None:
    rows = ROWS.append_column("c", pa.array(["a/b", "x=y", None, "plain"]))
    table = iceberg(rows, "c")
    folder = table.metadata_location.removeprefix("file://").rpartition("/metadata/")[0]
    for number, source in enumerate((folder, table.metadata_location)):
        done = lakeindex.import_table(source, tmp_path / f"t{number}", key="id")
        assert (done.kind, done.partition_fields, done.inserted) == ("iceberg", ("c",), 4)
        assert stored(tmp_path / f"t{number}") == rows_of(rows)
    assert (tmp_path / "t0" / "c=a%2Fb").is_dir()


def test_an_import_of_iceberg_goes_on_with_the_snapshot_that_it_began_with(
    tmp_path: Path, iceberg: Callable[..., Any]
) -> None:
    """Its folder has other metadata by then, the table another schema, and nothing of the newer snapshot comes in."""
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "p": ["a", "b"]})
    table = iceberg(rows, "p")
    began = table.current_snapshot().snapshot_id
    folder = table.metadata_location.removeprefix("file://").rpartition("/metadata/")[0]
    with ended_after(1), pytest.raises(KilledError):
        lakeindex.import_table(folder, tmp_path / "t", key="id", max_bytes=1)
    from pyiceberg.types import StringType

    with table.update_schema() as update:
        update.add_column("later", StringType())
        update.rename_column("p", "q")
    with table.update_spec() as spec:
        spec.add_identity("later")
    table.overwrite(pa.table({"id": pa.array([3], pa.int64()), "q": ["a"], "later": ["l"]}))
    for before in (1, 2):
        done = lakeindex.import_table(folder, tmp_path / "t", key="id", max_bytes=1)
        assert (done.source, done.source_version, done.commits_before) == (folder, str(began), before)
        assert stored(tmp_path / "t") == rows_of(rows)
    newest = lakeindex.import_table(folder, tmp_path / "newest", key="id", partition="q")
    assert (newest.source_version, newest.inserted) == (str(table.current_snapshot().snapshot_id), 1)


def test_iceberg_with_deletes_and_a_renamed_column(tmp_path: Path, iceberg: Callable[..., Any]) -> None:
    table = iceberg(pa.table({"id": pa.array([1, 2, 3], pa.int64()), "v": ["a", "b", "c"]}))
    with table.update_schema() as update:
        update.rename_column("v", "w")
    table.append(pa.table({"id": pa.array([4], pa.int64()), "w": ["d"]}))
    table.delete("id = 2")
    done = lakeindex.import_table(table.metadata_location, tmp_path / "t", key="id", max_bytes=1)
    assert done.commits == 2
    assert stored(tmp_path / "t", "id", "w") == [{"id": 1, "w": "a"}, {"id": 3, "w": "c"}, {"id": 4, "w": "d"}]


def test_columns_of_iceberg_are_those_that_it_has_now(tmp_path: Path, iceberg: Callable[..., Any]) -> None:
    """Renaming, dropping and adding a column makes no snapshot; what was dropped stays in the files."""
    from pyiceberg.types import StringType

    table = iceberg(pa.table({"id": pa.array([1], pa.int64()), "v": ["a"], "secret": ["s"]}))
    table.append(pa.table({"id": pa.array([2], pa.int64()), "v": ["b"], "secret": ["s"]}))
    with table.update_schema() as update:
        update.rename_column("v", "w")
        update.delete_column("secret")
        update.add_column("z", StringType())
    folder = table.metadata_location.removeprefix("file://").rpartition("/metadata/")[0]
    began = table.current_snapshot()
    wanted = [{"id": 1, "w": "a", "z": None}, {"id": 2, "w": "b", "z": None}]
    with ended_after(1), pytest.raises(KilledError):
        lakeindex.import_table(folder, tmp_path / "t", key="id", max_bytes=1)
    with table.update_schema() as update:
        update.rename_column("w", "u")
    for _ in range(2):
        done = lakeindex.import_table(folder, tmp_path / "t", key="id", max_bytes=1)
        assert done.source_version == f"{began.snapshot_id}/{began.schema_id + 1}"
        assert stored(tmp_path / "t") == wanted
    with table.update_schema() as update:
        update.delete_column("z")
    table.append(pa.table({"id": pa.array([3], pa.int64()), "u": ["c"]}))
    with table.update_schema() as update:
        update.delete_column("u")
    table.append(pa.table({"id": pa.array([4], pa.int64())}))
    done = lakeindex.import_table(folder, tmp_path / "dropped", key="id")
    assert done.source_version == str(table.current_snapshot().snapshot_id)
    assert stored(tmp_path / "dropped") == [{"id": number} for number in (1, 2, 3, 4)]
    with pytest.raises(InputError, match="its schema 9 is gone"):
        open_iceberg(table.metadata_location, version=f"{began.snapshot_id}/9", like=None)


def test_a_field_of_iceberg_that_has_the_name_of_one_that_went(tmp_path: Path, iceberg: Callable[..., Any]) -> None:
    """Within a column, too, fields are told apart by number: what an older file has under the name is not its value."""
    from pyiceberg.types import StringType

    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    for column, wrap in (
        (kind, lambda one: one),
        (pa.list_(kind), lambda one: [one]),
        (pa.map_(pa.string(), kind), lambda one: [("k", one)]),
    ):
        rows = pa.table({"id": pa.array([1], pa.int64()), "s": pa.array([wrap({"a": 1, "b": "went"})], column)})
        table = iceberg(rows)
        path = {"list": "s.element", "map": "s.value"}.get(str(column).partition("<")[0], "s")
        with table.update_schema(allow_incompatible_changes=True) as update:
            update.delete_column(f"{path}.b")
        with table.update_schema() as update:
            update.add_column((*path.split("."), "b"), StringType())
        table.append(pa.table({"id": pa.array([2], pa.int64()), "s": pa.array([wrap({"a": 2, "b": "new"})], column)}))
        folder = tmp_path / path
        lakeindex.import_table(table.metadata_location, folder, key="id")
        assert stored(folder, "id", "s") == [
            {"id": 1, "s": wrap({"a": 1, "b": None})},
            {"id": 2, "s": wrap({"a": 2, "b": "new"})},
        ]
        table.catalog.drop_table("n.t")


def test_iceberg_by_the_name_that_a_catalog_knows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    catalog = pytest.importorskip("pyiceberg.catalog")
    from pyiceberg.utils.config import Config

    for name, value in {
        "type": "sql",
        "uri": f"sqlite:///{tmp_path}/c.db",
        "warehouse": f"file://{tmp_path}/w",
    }.items():
        monkeypatch.setenv(f"PYICEBERG_CATALOG__SHOP__{name.upper()}", value)
    monkeypatch.setattr(catalog, "_ENV_CONFIG", Config())  # read when PyIceberg is imported
    rows = pa.table({"id": pa.array([1, 2], pa.int64()), "v": ["a", "b"]})
    with closing(catalog.load_catalog("shop")) as shop:
        shop.create_namespace("n")
        shop.create_table("n.t", rows.schema).append(rows)
        shop.load_table("n.t").append(rows.slice(0, 0))
    done = lakeindex.import_table("iceberg:shop/n.t", tmp_path / "t", key="id")
    assert (done.kind, done.inserted) == ("iceberg", 2)
    assert stored(tmp_path / "t") == rows_of(rows)


def test_the_newest_metadata_of_an_iceberg_folder(tmp_path: Path) -> None:
    """As the hint says, if there is what it names; else the greatest number, unless two files have it."""
    cases: list[tuple[list[str], str | None, str | None]] = [
        ([], None, None),
        (["snap-1.avro"], "1", None),
        (["v1.metadata.json", "v2.metadata.json"], None, "v2.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], " 1\n", "v1.metadata.json"),
        (["v1.metadata.json", "v2.metadata.json"], "9", "v2.metadata.json"),
        (["00009-a.metadata.json", "00010-b.metadata.json"], None, "00010-b.metadata.json"),
        (["00009-a.metadata.json", "00010-b.metadata.json"], "00009-a.metadata.json", "00009-a.metadata.json"),
        (["x.metadata.json"], None, "x.metadata.json"),
    ]
    for number, (names, hint, newest) in enumerate(cases):
        folder = tmp_path / str(number) / "metadata"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
        if hint is not None:
            (folder / "version-hint.text").write_text(hint)
        found = newest_metadata(str(folder.parent))
        assert found == (None if newest is None else str(folder / newest)), (names, hint)
    for name in ("00003-a.metadata.json", "00003-b.metadata.json"):
        (folder / name).touch()
    with pytest.raises(UsageError, match="2 newest metadata files: 00003-a") as no:
        lakeindex.import_table(folder.parent, tmp_path / "t", key="id")
    assert "iceberg:CATALOG/NAMESPACE.TABLE" in str(no.value.hint)


def test_what_is_no_iceberg_table_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyiceberg")
    for name in ("iceberg:", "iceberg:catalog", "iceberg:/n.t", "iceberg:catalog/"):
        with pytest.raises(UsageError, match="names no table"):
            lakeindex.import_table(name, tmp_path / "t", key="id")
    odd = tmp_path / "v1.metadata.json"
    odd.write_text("{}")
    for name in ("iceberg:none-is-called-so/n.t", str(odd)):
        with pytest.raises((InputError, UsageError), match=r"cannot be read|needs another library"):
            lakeindex.import_table(name, tmp_path / "t", key="id")
    from pyiceberg import catalog
    from pyiceberg.catalog.memory import InMemoryCatalog

    with closing(InMemoryCatalog("c")) as empty:
        monkeypatch.setattr(catalog, "load_catalog", lambda _: empty)
        with pytest.raises(InputError, match=r"iceberg:c/n.t cannot be read: .*n\.t"):
            lakeindex.import_table("iceberg:c/n.t", tmp_path / "t", key="id")
    assert not (tmp_path / "t").exists()


def test_hidden_partitions_of_iceberg_are_said(tmp_path: Path, iceberg: Callable[..., Any]) -> None:
    from pyiceberg.transforms import DayTransform

    rows = pa.table({"id": pa.array([1], pa.int64()), "ts": pa.array([1], pa.timestamp("us"))})
    table = iceberg(rows.slice(0, 0))
    with table.update_spec() as update:
        update.add_field("ts", DayTransform(), "d")
    done = lakeindex.import_table(table.metadata_location, tmp_path / "t", key="id", dry_run=True)
    assert done.partition_fields == ()
    assert "day(ts)" in done.notes[0]
    assert "ts:day" in done.notes[0]


DOUBLED = (
    pa.table({"id": [1, 2, 2], "ts": [1, 1, 9], "v": ["a", "old", "new"], "p": ["x", "x", "x"]}),
    pa.table({"id": [2, 3], "ts": [5, 1], "v": ["mid", "c"], "p": ["x", "x"]}),
    pa.table({"id": [1], "ts": [2], "v": ["other"], "p": ["y"]}),
)


def test_doubled_keys_are_reported_before_anything_is_made(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", *DOUBLED)
    with pytest.raises(
        InputError, match="1 keys are there more than once, in 3 of 6 rows: '2' of partition 'x'"
    ) as told:
        lakeindex.import_table(source, tmp_path / "t", key="id", partition="p")
    assert "part-0.parquet, " in told.value.message
    assert "part-1.parquet" in told.value.message
    assert not (tmp_path / "t").exists()
    with pytest.raises(InputError, match="2 keys are there more than once, in 5 of 6 rows"):
        lakeindex.import_table(source, tmp_path / "t", key="id", partition="p", index="GLOBAL_BLOOM")
    looked = lakeindex.import_table(source, tmp_path / "t", key="id", partition="p", index="GLOBAL_BLOOM", dry_run=True)
    assert [(one.key, one.rows) for one in looked.repeated] == [("1", 2), ("2", 3)]
    assert not (tmp_path / "t").exists()


def test_doubled_keys_are_combined_by_the_ordering_column(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", *DOUBLED)
    with pytest.raises(OptionError, match="which of them is newest"):
        lakeindex.import_table(source, tmp_path / "t", key="id", partition="p", combine=True)
    for number, most in enumerate((None, 1)):
        place = tmp_path / f"t{number}"
        done = lakeindex.import_table(
            source, place, key="id", partition="p", ordering="ts", combine=True, max_bytes=most
        )
        assert (done.rows, done.inserted, done.combined, done.commits) == (6, 4, 2, 3 if most else 1)
        found = stored(place, "id", "p", "v")
        assert sorted(tuple(row.values()) for row in found) == [
            (1, "x", "a"),
            (1, "y", "other"),
            (2, "x", "new"),
            (3, "x", "c"),
        ]


def test_keys_of_one_hash_are_no_doubled_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import numpy as np

    from lakeindex.operations.importing import key_check

    monkeypatch.setattr(key_check, "hashes_of", lambda keys: np.zeros(len(keys), np.uint64))
    source = plain(tmp_path / "src", pa.table({"id": [1, 2]}), pa.table({"id": [3]}))
    assert lakeindex.import_table(source, tmp_path / "t", key="id").inserted == 3


def test_rows_without_a_key_are_told(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", pa.table({"id": [1, 2]}), pa.table({"id": pa.array([3, None, None])}))
    with pytest.raises(InputError, match=r"2 of 5 rows cannot be imported: row 1 of .*part-1\.parquet"):
        lakeindex.import_table(source, tmp_path / "t", key="id")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_a_row_without_a_key_is_counted_from_the_begin_of_its_file(tmp_path: Path, ending: str) -> None:
    """However many pieces the file is read in: of a memory that holds a part of it."""
    bad, count = 25_000, 60_000
    ids = [None if number in (bad, count - 1) else f"{number:0250d}" for number in range(count)]
    rows = pa.table({"id": ids, "v": [1] * count})
    (tmp_path / "src").mkdir()
    path = tmp_path / "src" / f"rows.{ending}"
    csv.write_csv(rows, path) if ending == "csv" else pq.write_table(rows, path, row_group_size=20_000)
    with pytest.raises(InputError, match=f"row {bad} of .*rows.{ending}"):
        lakeindex.import_table(path, tmp_path / "t", key="id", options={"lakeindex.memory": "64m"})


def test_a_row_without_a_key_is_counted_from_the_begin_of_its_file_that_several_tasks_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "SPLIT_BYTES", 1)
    path = tmp_path / "src" / "rows.parquet"
    path.parent.mkdir()
    pq.write_table(pa.table({"id": ["a", "b", "c", "d", None, "f"]}), path, row_group_size=2)
    with pytest.raises(InputError, match=r"1 of 6 rows cannot be imported: row 4 of .*rows\.parquet"):
        lakeindex.import_table(path.parent, tmp_path / "t", key="id")


class KilledError(Exception):
    """Ends an import."""


def ended_after(commits: int) -> Any:
    """The next import ends after so many commits."""
    from lakeindex.operations.importing import import_table as module

    made = pytest.MonkeyPatch()
    real, seen = module._batch_of, []

    def batch_of(*args: Any) -> Any:
        if len(seen) == commits:
            raise KilledError
        seen.append(args)
        return real(*args)

    class Ended:
        def __enter__(self) -> None:
            made.setattr(module, "_batch_of", batch_of)

        def __exit__(self, *_: object) -> None:
            made.undo()

    return Ended()


def test_an_import_goes_on_beside_rows_that_somebody_has_written_since_it_ended(tmp_path: Path) -> None:
    """Where they are, a bulk insert would look no key up: of a key that is stored, nobody says which row is right."""
    source = hive(tmp_path / "src", pa.table({"id": [1, 2, 3], "p": ["a", "b", "b"]}), {"p": pa.string()})
    for case, other, wanted in (("another", 9, [1, 2, 3, 9]), ("same", 2, [1, 2, 3])):
        place = tmp_path / case
        with ended_after(1), pytest.raises(KilledError):
            lakeindex.import_table(source, place, key="id", max_bytes=1)
        lakeindex.open_table(place).upsert(pa.table({"id": pa.array([other], pa.int64()), "p": ["b"]}))
        options = {}
        if other in (1, 2, 3):
            with pytest.raises(KeysStoredError, match="stored already, '2'") as no:
                lakeindex.import_table(source, place, key="id", max_bytes=1)
            options = {"hoodie.datasource.insert.dup.policy": "drop"}
            assert "hoodie.datasource.insert.dup.policy=drop" in str(no.value.hint)
        done = lakeindex.import_table(source, place, key="id", max_bytes=1, options=options)
        assert (done.commits_before, done.inserted + done.combined) == (1, 3)
        assert [row["id"] for row in stored(place, "id")] == wanted


def test_an_import_that_ended_early_says_so_and_goes_on(tmp_path: Path) -> None:
    tables = [pa.table({"id": [n * 10 + m for m in range(5)], "p": [f"p{n // 2}"] * 5}) for n in range(4)]
    source, place = plain(tmp_path / "src", *tables), tmp_path / "t"
    for ended in range(3):
        with ended_after(1), pytest.raises(KilledError):
            lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
        table = lakeindex.open_table(str(place))
        assert table.inspect().pending_import.endswith(f"is not complete: {ended + 1} of 4 commits are there")
        assert [one.kind for one in table.check().violations] == ["import"]
        assert table.count() == 5 * (ended + 1)
    done = lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
    assert (done.commits_before, done.commits, done.inserted) == (3, 4, 20)
    assert stored(place) == rows_of(pa.concat_tables(tables))
    assert lakeindex.open_table(str(place)).inspect().pending_import is None
    again = lakeindex.import_table(source, place, key="id", partition="p")
    assert (again.commits_before, again.commits, len(again.instants)) == (4, 4, 4)
    (place / ".hoodie/.lakeindex/import-complete.json").write_bytes(b"")  # torn by a power loss
    assert "4 of 4 commits" in lakeindex.open_table(str(place)).inspect().pending_import
    lakeindex.import_table(source, place, key="id", partition="p")
    assert lakeindex.open_table(str(place)).inspect().pending_import is None
    assert lakeindex.open_table(str(place)).count() == 20


def test_a_commit_that_was_decided_when_its_run_was_killed_is_one_of_the_import(tmp_path: Path) -> None:
    """Else the import would begin anew with what the source is by then, beside rows of what it was."""
    source, world = plain(tmp_path / "src", pa.table({"id": [1], "p": ["a"]})), MemoryStorage.named("decided")

    def hook(call: Call) -> None:
        if call.path.endswith(".commit") and call.name == "create":
            raise KilledError

    world.hook = hook
    with pytest.raises(KilledError):
        lakeindex.import_table(source, "memory://decided", key="id", checkpoints=tmp_path / "runs")
    world.hook = None
    (source / "part-0.parquet").rename(source / "other.parquet")
    for _ in range(2):
        with pytest.raises(InputError, match="is gone since the import began") as no:
            lakeindex.import_table(source, "memory://decided", key="id", checkpoints=tmp_path / "runs")
        assert "put it back as it was" in str(no.value.hint)
    (source / "other.parquet").rename(source / "part-0.parquet")
    done = lakeindex.import_table(source, "memory://decided", key="id", checkpoints=tmp_path / "runs")
    assert (done.commits_before, done.inserted) == (1, 1)


def test_a_source_that_changes_meanwhile_is_noticed(tmp_path: Path) -> None:
    tables = [pa.table({"id": [n], "p": [f"p{n}"]}) for n in range(3)]
    for number, change in enumerate(("rewritten", "gone")):
        source, place = plain(tmp_path / f"src{number}", *tables), tmp_path / f"t{number}"
        with ended_after(1), pytest.raises(KilledError):
            lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
        victim = source / "part-0.parquet"  # even one that is committed
        victim.unlink()
        if change == "rewritten":
            pq.write_table(pa.table({"id": [7], "p": ["p0"]}), victim)
        with pytest.raises(
            InputError, match="has changed since the import began" if change == "rewritten" else "is gone"
        ):
            lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
        assert lakeindex.open_table(str(place)).inspect().pending_import is not None
        assert lakeindex.open_table(str(place)).count() == 1


def test_a_source_that_changes_behind_what_is_loaded_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each commit looks at its own files; those of commits before it may change while it is made."""
    tables = [pa.table({"id": [n], "p": [f"p{n}"]}) for n in range(2)]
    source, place = plain(tmp_path / "src", *tables), tmp_path / "t"
    with ended_after(1), pytest.raises(KilledError):
        lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
    real = importing._batch_of

    def batch_of(*args: Any) -> Any:
        (source / "part-0.parquet").unlink()
        return real(*args)

    monkeypatch.setattr(importing, "_batch_of", batch_of)
    with pytest.raises(InputError, match="is gone since the import began"):
        lakeindex.import_table(source, place, key="id", partition="p", max_bytes=1)
    table = lakeindex.open_table(str(place))
    assert (table.count(), table.inspect().pending_import is None) == (2, False)


def test_files_that_come_later_are_none_of_the_import(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", pa.table({"id": [1]}))
    lakeindex.import_table(source, tmp_path / "t", key="id")
    plain(source, pa.table({"id": [2]}), name="later")
    again = lakeindex.import_table(source, tmp_path / "t", key="id")
    assert again.inserted == 1
    assert "later-0.parquet" in again.notes[0]


def test_files_without_rows_are_watched_and_not_counted_as_new(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", pa.table({"id": [1]}), pa.table({"id": [1]}).slice(0, 0))
    for _ in range(2):
        assert not lakeindex.import_table(source, tmp_path / "t", key="id").notes
    plain(source, pa.table({"id": [2]}), name="later")
    (note,) = lakeindex.import_table(source, tmp_path / "t", key="id").notes
    assert note.startswith("1 files of the source are none of this import")
    pq.write_table(pa.table({"id": [3]}), source / "part-1.parquet")
    with pytest.raises(InputError, match=r"part-1.parquet' has changed since the import began"):
        lakeindex.import_table(source, tmp_path / "t", key="id")


def test_files_that_come_while_the_first_run_loads_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, real = plain(tmp_path / "src", pa.table({"id": [1]})), importing._batch_of

    def batch_of(*args: Any) -> Any:
        plain(source, pa.table({"id": [2]}), name="later")
        return real(*args)

    monkeypatch.setattr(importing, "_batch_of", batch_of)
    (note,) = lakeindex.import_table(source, tmp_path / "t", key="id").notes
    assert note.endswith("later-0.parquet")
    assert stored(tmp_path / "t") == [{"id": 1}]


@pytest.mark.parametrize("inner", [False, True])
def test_fields_of_json_behind_the_first_rows_are_told_before_a_table_is_made(tmp_path: Path, inner: bool) -> None:
    """The first MiB of a file says which columns there are; what comes later cannot be added to a table half made."""
    (tmp_path / "src").mkdir()
    first, last = {"a": "x" * 2000}, {"a": "x", "late": 5}
    lines = [{"id": 600, **({"s": last} if inner else last)}]
    lines = [{"id": number, **({"s": first} if inner else first)} for number in range(600)] + lines
    (tmp_path / "src" / "a.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    for dry_run in (True, False):
        with pytest.raises(SchemaMismatchError, match=r"a.json', behind its first rows: .*late") as no:
            lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id", dry_run=dry_run)
        assert "--like" in str(no.value.hint)
        assert not (tmp_path / "t").exists()
    like = "id BIGINT, s STRUCT<a: STRING, late: BIGINT>" if inner else "id BIGINT, a STRING, late BIGINT"
    assert lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id", like=like).inserted == 601
    found = stored(tmp_path / "t")[600]
    assert (found["s"] if inner else found)["late"] == 5


def test_a_column_of_json_that_is_null_at_first_is_told_with_a_cure(tmp_path: Path) -> None:
    """It said that it is null in every row of the file."""
    lines = [{"id": number, "a": "x" * 2000, "n": None} for number in range(600)] + [{"id": 600, "a": "x", "n": 5}]
    (tmp_path / "a.json").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with pytest.raises(SchemaMismatchError, match=r"'n' has no type: .*of the first MiB") as no:
        lakeindex.import_table(tmp_path / "a.json", tmp_path / "t", key="id")
    assert "--like" in str(no.value.hint)
    like = "id BIGINT, a STRING, n BIGINT"
    assert lakeindex.import_table(tmp_path / "a.json", tmp_path / "t", key="id", like=like).inserted == 601
    assert stored(tmp_path / "t")[600]["n"] == 5


def test_an_import_goes_on_with_the_csv_options_that_it_began_with(tmp_path: Path) -> None:
    """Files of one commit would have nulls where those of the other have texts."""
    (tmp_path / "src").mkdir()
    for name in "ab":
        (tmp_path / "src" / f"{name}.csv").write_text(f"id,v\n{name},NA\n{name}2,b\n")
    nulls = {"lakeindex.csv.null": "NA,"}
    with ended_after(1), pytest.raises(KilledError):
        lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id", max_bytes=1, options=nulls)
    for dry_run in (True, False):
        with pytest.raises(OptionError, match=r"nulls \('',\), .*began with .*nulls \('NA', ''\)") as no:
            lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id", max_bytes=1, dry_run=dry_run)
        assert "options that it began with" in str(no.value.hint)
    done = lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id", max_bytes=1, options=nulls)
    assert (done.commits_before, done.inserted) == (1, 4)
    assert [row["v"] for row in stored(tmp_path / "t")] == [None, "b", None, "b"]
    assert lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id").commits_before == 2, "it is complete"


def test_a_value_that_no_wider_type_has_can_be_mended_and_imported(tmp_path: Path) -> None:
    """Neither a schema mode nor another choice of columns leads out of a table that is half made."""
    whole, odd = pa.table({"id": [1], "v": [2**53 + 1]}), pa.table({"id": [2], "v": [1.5]})
    source = plain(tmp_path / "src", whole, odd)
    with pytest.raises(SchemaMismatchError, match="9007199254740993") as no:
        lakeindex.import_table(source, tmp_path / "t", key="id")
    assert "delete the table's folder" in str(no.value.hint)
    plain(source, whole, pa.table({"id": [2], "v": pa.array([1], pa.int32())}))
    with pytest.raises(TableExistsError, match="there is another table") as there:
        lakeindex.import_table(source, tmp_path / "t", key="id")
    assert "delete the table's folder" in str(there.value.hint)
    shutil.rmtree(tmp_path / "t")
    assert lakeindex.import_table(source, tmp_path / "t", key="id").inserted == 2


def test_a_table_that_is_there_is_left_alone(tmp_path: Path) -> None:
    source = plain(tmp_path / "src", pa.table({"id": [1]}))
    table = lakeindex.create_table(str(tmp_path / "t"), pa.schema([("id", pa.int64())]), key="id")
    table.insert(pa.table({"id": [5]}))
    with pytest.raises(TableExistsError, match="which no import made"):
        lakeindex.import_table(source, tmp_path / "t", key="id")
    other = plain(tmp_path / "other", pa.table({"id": [1]}))
    lakeindex.import_table(source, tmp_path / "t2", key="id")
    with pytest.raises(TableExistsError, match="is an import of"):
        lakeindex.import_table(other, tmp_path / "t2", key="id")
    with pytest.raises(TableExistsError, match="ordering is to be id, and is none"):
        lakeindex.import_table(source, tmp_path / "t2", key="id", ordering="id")


def test_what_is_no_source_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no input at"):
        lakeindex.import_table(tmp_path / "nothing", tmp_path / "t", key="id")
    made = lakeindex.create_table(str(tmp_path / "hudi"), pa.schema([("id", pa.int64())]), key="id")
    with pytest.raises(UsageError, match="is a Hudi table, which needs no import"):
        lakeindex.import_table(made.uri, tmp_path / "t", key="id")
    source = plain(tmp_path / "src", pa.table({"id": [1], "t": pa.array([0], pa.time64("us"))}))
    with pytest.raises((SchemaMismatchError, LakeIndexError), match="'t'"):
        lakeindex.import_table(source, tmp_path / "t", key="id")
    with pytest.raises(UsageError, match="cannot lie in what is imported"):
        lakeindex.import_table(source, source / "t", key="id")
    for around in (source, source.parent):
        with pytest.raises(UsageError, match="cannot lie in what is imported"):
            lakeindex.import_table(source, around, key="id")
    with pytest.raises(SchemaMismatchError, match=r"'v' is string in .*part-1\.parquet.* and int64 elsewhere"):
        lakeindex.import_table(
            plain(tmp_path / "two", pa.table({"id": [1], "v": [1]}), pa.table({"id": [2], "v": ["x"]})),
            tmp_path / "t",
            key="id",
        )
    mixed = hive(tmp_path / "mixed", pa.table({"id": [1], "p": ["a"]}), {"p": pa.string()})
    plain(mixed, pa.table({"id": [2], "p": ["b"]}))
    with pytest.raises(InputError, match="in folders of no column"):
        lakeindex.import_table(mixed, tmp_path / "t", key="id")
    assert not (tmp_path / "t").exists()


def test_a_source_without_rows_makes_an_empty_table(tmp_path: Path) -> None:
    done = lakeindex.import_table(plain(tmp_path / "src", ROWS.slice(0, 0)), tmp_path / "t", key="id")
    assert (done.rows, done.commits, done.inserted) == (0, 0, 0)
    assert lakeindex.open_table(str(tmp_path / "t")).count() == 0


@pytest.mark.parametrize(
    "index",
    some_of(
        [one for one in IndexType if one.name not in ("HBASE", "STATE")],
        {"BLOOM", "BUCKET", "RECORD_LEVEL_INDEX"}.__contains__,
        pytest.mark.slow,
    ),
)
@pytest.mark.few(1)
def test_every_index(tmp_path: Path, index: IndexType) -> None:
    rows = pa.table({"id": list(range(40)), "p": [f"p{n % 4}" for n in range(40)]})
    source = plain(tmp_path / "src", *(rows.slice(n, 10) for n in range(0, 40, 10)))
    version = 8 if "RECORD_LEVEL" in index.name else None
    done = lakeindex.import_table(
        source, tmp_path / "t", key="id", partition="p", index=index, max_bytes=1, table_version=version
    )
    assert (done.inserted, done.commits) == (40, 4)
    table = lakeindex.open_table(str(tmp_path / "t"))
    assert table.upsert(rows.slice(0, 10)).fates == {"updates": 10}
    assert stored(tmp_path / "t") == rows_of(rows)


def test_a_large_batch_stays_in_its_files_and_gets_its_constants(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from lakeindex.stages.stage_input import addressed

    monkeypatch.setattr(addressed, "LEAST_BYTES", 1)
    rows = pa.table(
        {
            "id": list(range(300)),
            "v": [f"v{n}" for n in range(300)],
            "day": [["a", "b", None][n % 3] for n in range(300)],
        }
    )
    source = hive(tmp_path / "src", rows, {"day": pa.string()}, max_rows_per_file=40, max_rows_per_group=20)
    for number, memory in enumerate(("512m", "64m")):
        lakeindex.import_table(source, tmp_path / f"t{number}", key="id", options={"lakeindex.memory": memory})
        assert stored(tmp_path / f"t{number}") == rows_of(rows)


@pytest.mark.parametrize("least", [1, 1 << 40])
@pytest.mark.parametrize("kind", ["hive", "delta"])
def test_a_key_that_the_folders_alone_say(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, least: int
) -> None:
    from lakeindex.stages.stage_input import addressed

    monkeypatch.setattr(addressed, "LEAST_BYTES", least)
    rows = pa.table({"id": ["a", "b", "c"], "orders": [1, 2, 3]})
    if kind == "hive":
        hive(tmp_path / "src", rows, {"id": pa.string()})
    else:
        delta(tmp_path / "src", rows, partition_by=["id"])
    for number, partition in enumerate((None, [])):
        done = lakeindex.import_table(tmp_path / "src", tmp_path / f"t{number}", key="id", partition=partition)
        assert (done.rows, done.inserted) == (3, 3)
        assert stored(tmp_path / f"t{number}") == rows_of(rows)
    if kind == "hive":
        hive(tmp_path / "src", rows, {"id": pa.string()}, basename_template="again-{i}.parquet")
        with pytest.raises(InputError, match="3 keys are there more than once"):
            lakeindex.import_table(tmp_path / "src", tmp_path / "twice", key="id")


@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_what_folders_say_is_told_of_files_of_every_format(tmp_path: Path, suffix: str) -> None:
    days = ["2026-01-01", "2026-02-01", "__HIVE_DEFAULT_PARTITION__"]
    for number, day in enumerate(days):
        file = tmp_path / "src" / f"day={day}" / f"part.{suffix}"
        file.parent.mkdir(parents=True)
        rows = pa.table({"id": [2 * number, 2 * number + 1], "v": ["a", None]})
        if suffix == "parquet":
            pq.write_table(rows, file)
        elif suffix == "csv":
            csv.write_csv(rows, file)
        else:
            file.write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
    wanted = [date(2026, 1, 1)] * 2 + [date(2026, 2, 1)] * 2 + [None] * 2
    done = lakeindex.import_table(tmp_path / "src", tmp_path / "t", key="id")
    assert done.partitions == 3
    assert [row["day"] for row in stored(tmp_path / "t")] == wanted
    late = tmp_path / "src" / "day=__HIVE_DEFAULT_PARTITION__"
    (late / f"part.{suffix}").unlink()
    late.rmdir()
    done = lakeindex.import_table(tmp_path / "src", tmp_path / "newest", key=["id", "day"], ordering="day")
    assert (done.rows, done.inserted) == (4, 4)


@pytest.mark.parametrize("own", ["a", "own", None])
@pytest.mark.parametrize("suffix", ["json", "csv", "parquet"])
def test_a_file_that_says_something_else_than_its_folder_is_refused(
    tmp_path: Path, suffix: str, own: str | None
) -> None:
    """Readers differ in whom they believe. A line of JSON that says nothing is one that lacks the column."""
    source, days = tmp_path / "src", {"a": [own, "a"], "__HIVE_DEFAULT_PARTITION__": [None, None]}
    for day, said in days.items():
        (source / f"day={day}").mkdir(parents=True)
        rows = pa.table({"id": [f"{day}1", f"{day}2"], "day": pa.array(said, pa.string())})
        if suffix == "json":
            (source / f"day={day}" / "p.json").write_text("".join(json.dumps(row) + "\n" for row in rows.to_pylist()))
        else:
            (pq.write_table if suffix == "parquet" else csv.write_csv)(rows, source / f"day={day}" / f"p.{suffix}")
    kinds = pa.schema([("id", pa.string()), ("day", pa.string())])
    if own == "a" or (own is None and suffix == "json"):
        lakeindex.import_table(source, tmp_path / "t", like=kinds, key="id", partition=())
        assert [row["day"] for row in stored(tmp_path / "t")] == [None, None, "a", "a"]
        return
    with pytest.raises(SchemaMismatchError, match=f"'day' of .*p.{suffix}' is {own!r}, and its folder says 'a'"):
        lakeindex.import_table(source, tmp_path / "t", like=kinds, key="id", partition=())
    table = lakeindex.create_table(tmp_path / "t", kinds, key="id")  # the other way that the error names
    table.bulk_insert(source)
    assert [row["day"] for row in stored(tmp_path / "t")] == [None, None, own, "a"]


def test_files_without_a_header_lack_the_columns_of_their_folders(tmp_path: Path) -> None:
    for day, line in (("2026-01-01", "a,1"), ("2026-01-02", "b,2")):
        (tmp_path / "src" / f"day={day}").mkdir(parents=True)
        (tmp_path / "src" / f"day={day}" / "part.csv").write_text(f"{line}\n")
    given = {"key": "id", "options": {"lakeindex.csv.header": "false"}}
    with pytest.raises(InputError, match=r"part.csv' has no header .*--like"):
        lakeindex.import_table(tmp_path / "src", tmp_path / "t", **given)
    with pytest.raises(SchemaMismatchError, match=r"'day' is to be int64, and the folder of .* says '2026-01-0"):
        lakeindex.import_table(tmp_path / "src", tmp_path / "t", like="day BIGINT, id STRING, v INT", **given)
    for kind in ("STRING", "DATE"):
        lakeindex.import_table(tmp_path / "src", tmp_path / kind, like=f"id STRING, day {kind}, v INT", **given)
        assert [(row["id"], str(row["day"]), row["v"]) for row in stored(tmp_path / kind)] == [
            ("a", "2026-01-01", 1),
            ("b", "2026-01-02", 2),
        ]
