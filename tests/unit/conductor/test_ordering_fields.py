"""Several ordering fields: the first one in which two versions of a row differ decides."""

from __future__ import annotations

import re
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import lakeindex
from lakeindex.errors import LakeIndexError, OptionError, QuarantineExceededError, SchemaMismatchError
from tests.builders import make_table, rows_of
from tests.strategies import examples

SCHEMA = pa.schema(
    [pa.field("id", pa.string(), nullable=False), ("ts", pa.int64()), ("seq", pa.string()), ("v", pa.int64())]
)
SMALL = {"lakeindex.chunk.rows": "3", "lakeindex.parquet.row.group.rows": "2"}
_ROW = st.tuples(st.sampled_from("abc"), st.integers(-1, 1), st.sampled_from(["", "a", "b", "\u00e9"]))


@settings(max_examples=examples(25), deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(st.lists(_ROW, min_size=1, max_size=6), min_size=1, max_size=4))
def test_any_batches_equal_a_dictionary(batches: list[list[tuple[str, int, str]]]):
    table = make_table(
        f"memory://{uuid.uuid4()}",
        ordering=("ts", "seq"),
        partitions=(),
        schema=SCHEMA,
        hoodie__write__table__version="9",
    )
    stored: dict[str, tuple[int, bytes, int]] = {}
    number = 0
    for batch in batches:
        rows: list[dict[str, Any]] = []
        for key, ts, seq in batch:
            number += 1
            rows.append({"id": key, "ts": ts, "seq": seq, "v": number})
        winners: dict[str, tuple[int, bytes, int]] = {}
        for row in rows:
            mine = (row["ts"], row["seq"].encode(), row["v"])
            if row["id"] not in winners or mine[:2] >= winners[row["id"]][:2]:
                winners[row["id"]] = mine
        ignored = [key for key, mine in winners.items() if key in stored and mine[:2] < stored[key][:2]]
        done = table.upsert(pa.Table.from_pylist(rows, SCHEMA), options=SMALL, checkpoints=f"{table.uri}-runs")
        assert done.ignored == len(ignored)
        assert done.combined == len(rows) - len(winners)
        stored |= {key: mine for key, mine in winners.items() if key not in ignored}
        found = {row["id"]: (row["ts"], str(row["seq"]).encode(), row["v"]) for row in rows_of(table)}
        assert found == stored


def test_python_makes_such_a_table_and_finds_it_again(tmp_path: Path):
    wanted: dict[str, Any] = {"key": "id", "ordering": ["ts", "seq"], "table_version": 9, "exists": "ok"}
    table = lakeindex.create_table(tmp_path / "t", SCHEMA, **wanted)
    assert table.properties["hoodie.table.ordering.fields"] == "ts,seq"
    assert table.inspect().ordering_fields == ("ts", "seq")
    assert lakeindex.create_table(tmp_path / "t", SCHEMA, **wanted).uri == table.uri
    with pytest.raises(LakeIndexError, match="ordering"):
        lakeindex.create_table(tmp_path / "t", SCHEMA, **{**wanted, "ordering": ["seq", "ts"]})
    row = {"id": "a", "ts": 1, "seq": None, "v": 1}
    with pytest.raises(QuarantineExceededError, match="'seq' is null"):
        table.upsert(pa.Table.from_pylist([row], SCHEMA))


@pytest.mark.parametrize("version", [6, 8])
def test_other_versions_have_one(tmp_path: Path, version: int):
    with pytest.raises(OptionError, match=f"version {version} cannot have 2 ordering fields"):
        lakeindex.create_table(tmp_path / "t", SCHEMA, key="id", ordering=["ts", "seq"], table_version=version)
    with pytest.raises(OptionError, match="twice"):
        lakeindex.create_table(tmp_path / "t", SCHEMA, key="id", ordering=["ts", "ts"], table_version=9)


NESTED = pa.schema([("id", pa.string()), ("s", pa.struct([("ts", pa.int64())])), ("ts", pa.int64())])


@pytest.mark.parametrize(("ordering", "told"), [("s.ts", "'s.ts' is a field of a struct"), ("s", "have no order")])
def test_what_orders_no_rows_is_refused_by_name(tmp_path: Path, ordering: str, told: str) -> None:
    with pytest.raises(LakeIndexError, match=told):
        lakeindex.create_table(tmp_path / "t", NESTED, key="id", ordering=ordering)
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(("named", "told"), [("s.ts", "a field of a struct"), ("TS", "no column of the table")])
def test_a_table_of_others_that_orders_by_no_column_is_refused_by_name(tmp_path: Path, named: str, told: str) -> None:
    table = lakeindex.create_table(tmp_path / "t", NESTED, key="id", ordering="ts")
    row = pa.Table.from_pylist([{"id": "a", "s": {"ts": 1}, "ts": 1}], NESTED)
    table.upsert(row)
    path = tmp_path / "t" / ".hoodie" / "hoodie.properties"
    path.write_text(re.sub(r"(precombine.field|ordering.fields)=ts", rf"\1={named}", path.read_text()))
    for write in (table.upsert, table.delete):
        with pytest.raises(SchemaMismatchError, match=f"{named!r} is {told}"):
            write(row)
    assert table.read(meta=False).to_pylist() == row.to_pylist()


@pytest.mark.parametrize("index", ["GLOBAL_BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"])
def test_a_delete_by_key_is_never_late_where_the_partition_is_the_ordering_field(tmp_path: Path, index: str) -> None:
    columns = pa.schema([("id", pa.string()), ("day", pa.string()), ("v", pa.int64())])
    table = lakeindex.create_table(tmp_path / "t", columns, key="id", partition="day", ordering="day", index=index)
    table.upsert(pa.table({"id": ["a", "b"], "day": ["2026-02", "2026-02"], "v": [1, 1]}))
    done = table.delete(pa.table({"id": ["a"], "day": ["2026-01"]}))
    assert (done.deletes, done.ignored) == (1, 0)
    assert table.read(meta=False).column("id").to_pylist() == ["b"]
    late = pa.table({"id": ["b"], "day": ["2026-01"], "v": [2], "_hoodie_is_deleted": [True]})
    assert table.upsert(late).ignored == 1  # one that is marked has an ordering value
