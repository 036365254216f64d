"""Cures that errors name, followed: what led in a circle before. Others have their tests beside what they are about."""

from __future__ import annotations

import shutil
import subprocess
import sys
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from lakeindex.api.creating import create_table
from lakeindex.api.table import LakeTable, open_table
from lakeindex.errors import InvariantError, LakeIndexError, MetadataTableError, TableUnsupportedError
from tests.builders import SCHEMA, Row, batch_of, make_table
from tests.stored_indexes import inserted

FIRST = [Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]


def doubled(folder: Path, index: str) -> LakeTable:
    table = make_table(folder, hoodie__index__type=index)
    table.upsert(batch_of(FIRST))
    inserted(table, [Row("a", "x", 2, "2")])
    return table


def follow(table: LakeTable, error: LakeIndexError) -> None:
    """The cure of keys that are stored more than once."""
    assert "lakeindex repair keys" in str(error.hint)
    assert table.repair_keys(apply=True).keys == 1


def test_an_index_and_a_record_index_can_be_built_when_keys_are_repaired(tmp_path: Path) -> None:
    table = doubled(tmp_path / "index", "RECORD_INDEX")
    with pytest.raises(InvariantError) as refused:
        table.index_build()
    follow(table, refused.value)
    assert table.index_build().rows == 2
    table = doubled(tmp_path / "metadata", "GLOBAL_SIMPLE")
    with pytest.raises(MetadataTableError) as kept:
        table.metadata_build(["record_index"])
    follow(table, kept.value)
    table.metadata_build(["record_index"])
    assert table.metadata_verify().ok


def test_buckets_can_be_divided_anew_when_keys_are_repaired(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t", hoodie__index__type="BUCKET", hoodie__bucket__index__num__buckets="1")
    table.upsert(batch_of(FIRST))
    file = table.files()[0]
    inserted(table, [Row("a", "x", 2, "2")], into=file.file_id)
    with pytest.raises(LakeIndexError) as refused:
        table.rescale(2)
    follow(table, refused.value)
    assert table.rescale(2).instant is not None
    assert table.check().ok


def test_a_table_that_does_not_say_its_columns_is_made_again(tmp_path: Path) -> None:
    table = make_table(tmp_path / "t")
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    lines = [line for line in path.read_text().splitlines() if "create.schema" not in line]
    path.write_text("".join(f"{line}\n" for line in lines))
    with pytest.raises(TableUnsupportedError) as refused:
        table.upsert(batch_of(FIRST))
    assert "remove the folder" in str(refused.value.hint)
    shutil.rmtree(tmp_path / "t")
    again = create_table(str(tmp_path / "t"), SCHEMA, key="id", partition="day", ordering="ts")
    assert again.upsert(batch_of(FIRST)).inserts == 2


COLUMNS = pa.schema([("id", pa.string()), ("day", pa.string()), ("amount", pa.float64()), ("ts", pa.int64())])


def rows(ts: int = 1, **changed: object) -> pa.Table:
    known = {"id": ["a", "b"], "day": ["x", "y"], "amount": [1.0, 2.0], "ts": [ts, ts]} | changed
    return pa.table(known)


def test_what_is_refused_most_is_cured_by_what_the_error_says(tmp_path: Path) -> None:
    """Each call ends with a hint that has the words; what they say, done, is accepted."""
    made = {"key": "id", "partition": "day", "ordering": "ts"}
    place = tmp_path / "t"
    table = create_table(place, COLUMNS, **made)
    table.upsert(rows(), batch_id="one")
    file = tmp_path / "semicolon.csv"
    file.write_text("id;day;amount;ts\na;x;1.0;3\n")
    properties = place / ".hoodie" / "hoodie.properties"
    properties.write_text(properties.read_text() + "hoodie.table.magic=on\n")
    accept = {"lakeindex.unknown.properties": "accept"}
    clock = count(2)

    def upsert(batch: object, **given: object) -> object:
        return table.upsert(batch, options=accept | dict(given.pop("options", {})), **given)

    def new(name: str, **given: object) -> LakeTable:
        return create_table(tmp_path / name, COLUMNS, **{**made, **given})

    cases = {
        "a property that is not known": (
            lambda: table.upsert(rows(2)),
            "lakeindex.unknown.properties=accept",
            lambda: upsert(rows(2)),
        ),
        "a column is missing": (
            lambda: upsert(rows(3).drop(["amount"])),
            "partial=True (--partial; option lakeindex.partial.update=overwrite)",
            lambda: upsert(rows(3).drop(["amount"]), partial=True),
        ),
        "the ordering is missing": (
            lambda: upsert(rows().drop(["ts"])),
            "add it to the batch",
            lambda: upsert(rows(next(clock))),
        ),
        "a column is new": (
            lambda: upsert(rows(4, note=["n", "n"])),
            'schema_mode="add" (--schema-mode add',
            lambda: upsert(rows(4, note=["n", "n"]), schema_mode="add"),
        ),
        "a misspelled option": (
            lambda: upsert(rows(), partial=True, options={"lakeindex.memry": "1g"}),
            "did you mean lakeindex.memory",
            lambda: upsert(rows(), partial=True, options={"lakeindex.memory": "1g"}),
        ),
        "another batch under an id": (
            lambda: upsert(rows(6), partial=True, batch_id="one"),
            "use a new batch id; force=True (--force)",
            lambda: upsert(rows(6), partial=True, batch_id="one", force=True),
        ),
        "a key is null": (
            lambda: upsert(rows(7, id=[None, "b"]), partial=True),
            "max_quarantined=N (--max-quarantined N)",
            lambda: upsert(rows(7, id=[None, "b"]), partial=True, max_quarantined=1),
        ),
        "another separator": (
            lambda: upsert(file, partial=True),
            "-o lakeindex.csv.delimiter=';'",
            lambda: upsert(file, partial=True, options={"lakeindex.csv.delimiter": ";"}),
        ),
        "a table is there": (
            lambda: new("again") and new("again"),
            'exists="ok" (--exists ok)',
            lambda: new("again", exists="ok"),
        ),
        "no table": (lambda: open_table(tmp_path / "no"), "make a table with `lakeindex create`", lambda: new("no")),
        "two levels": (
            lambda: new("two", partition=["day", "amount"]),
            "hoodie.write.complex.keygen.new.encoding=true",
            lambda: new(
                "two", partition=["day", "id"], properties={"hoodie.write.complex.keygen.new.encoding": "true"}
            ),
        ),
        "event time without a field": (
            lambda: new("event", ordering=None, properties={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}),
            "name one with ordering= (--ordering)",
            lambda: new("event", properties={"hoodie.write.record.merge.mode": "EVENT_TIME_ORDERING"}),
        ),
        "no metadata table": (
            table.metadata_verify,
            "`lakeindex metadata build TABLE` makes one",
            lambda: table.metadata_build(options=accept) and table.metadata_verify(),
        ),
        "no buckets": (
            lambda: new("flat").rescale(4),
            "lakeindex index migrate TABLE --to BUCKET",
            lambda: (
                LakeTable(str(tmp_path / "flat")).index_migrate("BUCKET")
                and LakeTable(str(tmp_path / "flat")).rescale(4)
            ),
        ),
        "another index": (
            lambda: new("simple").upsert(rows(), options={"hoodie.index.type": "SIMPLE"}),
            "`lakeindex index migrate TABLE --to SIMPLE`",
            lambda: LakeTable(str(tmp_path / "simple")).index_migrate("SIMPLE"),
        ),
        "keys that are stored": (
            lambda: [new("keys").upsert(rows()), LakeTable(str(tmp_path / "keys")).insert(rows())],
            "hoodie.datasource.insert.dup.policy=drop",
            lambda: LakeTable(str(tmp_path / "keys")).insert(
                rows(), options={"hoodie.datasource.insert.dup.policy": "drop"}
            ),
        ),
        "a load into what has rows": (
            lambda: LakeTable(str(tmp_path / "keys")).bulk_insert(rows()),
            "insert_overwrite, which replaces",
            lambda: LakeTable(str(tmp_path / "keys")).insert_overwrite(rows()),
        ),
        "a misspelled column": (
            lambda: LakeTable(str(tmp_path / "keys")).scan(where="amout > 1").count(),
            "did you mean 'amount'?",
            lambda: LakeTable(str(tmp_path / "keys")).scan(where="amount > 1").count(),
        ),
        "an instant that is none": (
            lambda: LakeTable(str(tmp_path / "keys")).rollback("20200101000000000"),
            "`lakeindex history` lists the instants",
            lambda: LakeTable(str(tmp_path / "keys")).rollback(LakeTable(str(tmp_path / "keys")).history()[0].instant),
        ),
        "a partition that is none": (
            lambda: LakeTable(str(tmp_path / "keys")).delete_partitions(["z"]),
            "`lakeindex inspect` lists the partitions",
            lambda: LakeTable(str(tmp_path / "keys")).delete_partitions(["x"]),
        ),
    }
    wrong = {}
    for name, (call, words, cure) in cases.items():
        try:
            call()
            wrong[name] = "was accepted"
        except LakeIndexError as error:
            if words not in str(error.hint):
                wrong[name] = str(error.hint)
                continue
        cure()
    assert wrong == {}


def test_a_frame_of_what_is_not_installed_says_what_to_install(tmp_path: Path) -> None:
    """All forms that need a package of their own, in a process that has none of them."""
    table = create_table(tmp_path / "t", COLUMNS, key="id")
    table.upsert(rows())
    code = f"""
import sys
sys.meta_path.insert(0, type("Gone", (), {{"find_spec": staticmethod(lambda name, *_: (_ for _ in ()).throw(
    ModuleNotFoundError(name)) if name.partition(".")[0] in ("polars", "pandas", "duckdb") else None)}}))
import lakeindex
table = lakeindex.open_table({str(tmp_path / "t")!r})
for form in (table.scan().to_polars, table.scan().to_duckdb, table.scan().to_pandas, table.changes().to_pandas):
    try:
        form()
    except lakeindex.errors.UsageError as error:
        print(error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    names = ("polars", "duckdb", "pandas", "pandas")
    assert done.stdout.splitlines() == [f"{name} is not installed (pip install {name})" for name in names]
