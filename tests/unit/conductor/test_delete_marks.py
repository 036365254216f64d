"""Rows that the table's own merge properties mark as deletes: what Hudi 1.2 made of the same batch, at every door."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.errors import LakeIndexError, SchemaMismatchError, UsageError
from lakeindex.model import MergeMode, Operation
from lakeindex.run.spec import RunSpec
from lakeindex.stages.stage_input import addressed
from lakeindex.stages.stage_input.stage import stage_input
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.write.merge_function import MergeFunction
from tests.builders import make_table
from tests.vectors_support import VECTORS, unpack

MERGING = VECTORS / "merging"
SAID = json.loads((MERGING / "merging.json").read_text())
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("p", pa.string()),
        ("ts", pa.int64()),
        ("Op", pa.string()),
        ("gone", pa.int32()),
        ("m", pa.struct([("op", pa.string())])),
        ("_change_operation_type", pa.string()),
        ("_event_lsn", pa.int64()),
        ("_event_bin_file", pa.string()),
        ("_event_pos", pa.int64()),
        ("v", pa.string()),
    ]
)
BATCH = pa.Table.from_pylist(SAID["batch"], schema=SCHEMA)


def table_of(name: str, folder: Path) -> LakeTable:
    unpack(MERGING / f"{name}.tar.xz", folder)
    return lakeindex.open_table(str(folder / name))


def stored(table: LakeTable) -> list[list[str]]:
    rows = pa.table(table.scan(columns=["id", "v"])).to_pylist()
    return sorted([row["id"], row["v"]] for row in rows)


def row(key: str, op: str | None, at: int = 9, v: str = "new") -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "p": "x", "ts": at, "Op": op, "v": v}], schema=SCHEMA)


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_SIMPLE", "RECORD_INDEX"])
def test_a_batch_becomes_what_hudi_made_of_it(index: str, tmp_path: Path) -> None:
    """Inside the batch, against stored rows, and for keys that are new; rows that were stored with the mark stay."""
    names = SAID["tables"] if index == "BLOOM" else ("dms_v9", "event_v8")
    for name in names:
        wanted = SAID["tables"][name]
        table = table_of(name, tmp_path)
        assert stored(table) == wanted["before"], name
        if index == "RECORD_INDEX":
            table.index_build(index)
        done = table.upsert(BATCH, options={"hoodie.index.type": index})
        assert stored(lakeindex.open_table(str(tmp_path / name))) == wanted["after"], name
        assert done.deletes == len({key for key, _ in wanted["before"]} - {key for key, _ in wanted["after"]}), name


def test_a_load_whose_rows_stay_in_their_files_knows_the_mark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a batch without nested columns nothing but its keys is looked at before it is written, where no mark is to be seen."""
    monkeypatch.setattr(addressed, "LEAST_BYTES", 0)
    names = ["id", "p", "ts", "Op", "v"]
    file = tmp_path / "rows.parquet"
    pq.write_table(pa.concat_tables([row("more", "U"), row("new", "D")]).select(names), file)
    for number, load in enumerate(("upsert", "insert", "bulk_insert", "insert_overwrite")):
        table = lakeindex.create_table(
            tmp_path / f"t{number}", like=pq.read_table(file), key="id", partition="p", ordering="ts"
        )
        with (tmp_path / f"t{number}/.hoodie/hoodie.properties").open("a") as properties:
            for key, value in (("field", "Op"), ("marker", "D")):
                properties.write(f"hoodie.record.merge.property.hoodie.payload.delete.{key}={value}\n")
        table = lakeindex.open_table(str(tmp_path / f"t{number}"))
        if load == "upsert":
            table.upsert(str(file))
            assert stored(table) == [["more", "new"]]
        else:
            with pytest.raises(LakeIndexError, match="marked as deleted"):
                getattr(table, load)(str(file))


def test_every_door_knows_the_mark(tmp_path: Path) -> None:
    table = table_of("dms_v9", tmp_path)
    before = stored(table)

    def gone(*keys: str) -> list[list[str]]:
        return [one for one in before if one[0] not in keys]

    table.upsert(row("a", "D").select(["id", "p", "Op"]), partial=True)
    assert stored(table) == gone("a")
    table.upsert(row("b", "U").select(["id", "p", "v"]), partial=True)  # says nothing of Op: no delete
    assert ["b", "new"] in stored(table)
    done = table.upsert(row("b", None).select(["id", "p", "Op", "v"]), partial=True, nulls="keep")
    assert (done.updates, done.deletes) == (1, 0)
    for insert in (table.insert, table.insert_overwrite):
        with pytest.raises(LakeIndexError, match="marked as deleted"):
            insert(row("new", "D"))
    table.delete(pa.table({"id": ["d"], "p": ["x"], "Op": ["U"]}))  # a delete is one, whatever the row says
    assert stored(table) == sorted([*gone("a", "b", "d"), ["b", "new"]])


def test_an_update_by_a_condition_deletes_what_it_marks_as_hudis_does(tmp_path: Path) -> None:
    """Measured with Hudi 1.2: UPDATE ... SET Op='D' deletes the row, and so does any update of a row stored with it."""
    table = table_of("dms_v9", tmp_path)
    done = table.update(set={"Op": "'D'"}, where="id = 'a'")
    assert (done.updates, done.deletes) == (0, 1)
    done = table.update(set={"v": "'new'"}, where="id IN ('b', 't')")
    assert (done.updates, done.deletes) == (1, 1)
    assert [one for one in stored(table) if one[0] in "abt"] == [["b", "new"]]


def test_a_merge_function_cannot_set_the_tables_own_mark(tmp_path: Path) -> None:
    """Its rows are stored: a delete of its would be there as a live row."""
    table = table_of("dms_v9", tmp_path)
    table.upsert(row("new", "I"))
    before = stored(table)

    def deleting(_: pa.Table, new: pa.Table) -> pa.Table:
        return new.set_column(new.column_names.index("Op"), "Op", pa.array(["D"] * len(new)))

    with pytest.raises(UsageError, match=r"marked rows of .* as deleted"):
        table.upsert(row("new", "U"), merge=deleting)
    assert stored(table) == before
    table.upsert(row("new", "D"), merge=deleting)
    assert [one for one in before if one not in stored(table)] == [["new", "new"]]


def test_a_mark_that_cannot_be_compared_as_hudi_does_is_refused_by_name(tmp_path: Path) -> None:
    """Java prints 1.0 for a double, a number of days for a date."""
    kinds: dict[str, tuple[pa.DataType, Any]] = {
        "double": (pa.float64(), 1.0),
        "date": (pa.date32(), 0),
        "decimal": (pa.decimal128(5, 2), None),
        "timestamp": (pa.timestamp("us", "UTC"), 0),
    }
    table = pa.table({"id": [1], **{name: pa.array([value], kind) for name, (kind, value) in kinds.items()}})
    path = tmp_path / "t"
    lakeindex.create_table(str(path), like=table, key="id").upsert(table)
    file = path / ".hoodie" / "hoodie.properties"
    before, prefix = file.read_text(), "hoodie.record.merge.property.hoodie.payload.delete"
    for name in kinds:
        file.write_text(f"{before}{prefix}.field={name}\n{prefix}.marker=1\n")
        with pytest.raises(SchemaMismatchError, match="marks deletes") as caught:
            lakeindex.open_table(str(path)).upsert(table)
        assert caught.value.culprit == name


def test_a_batch_that_was_staged_under_another_mark_or_for_something_else_is_staged_anew(tmp_path: Path) -> None:
    table_of("dms_v9", tmp_path)
    batch = tmp_path / "batch.parquet"
    pq.write_table(row("a", "D"), batch)
    uri, runs = str(tmp_path / "dms_v9"), str(tmp_path / "runs")
    spec = RunSpec(uri, runs, "one", "one", Operation.UPSERT, (str(batch),), max_quarantined=1)
    facts = open_for_write(uri, spec.config).facts
    assert facts.delete_mark == ("Op", "D")

    def basis(spec: RunSpec = spec, **other: Any) -> str:
        return stage_input(spec, replace(facts, **other), LocalRunner(1)).basis

    others = [
        basis(delete_mark=("Op", "X")),
        basis(keys=replace(facts.keys, hive_style=not facts.keys.hive_style)),
        basis(ordering_fields=facts.keys.record_key_fields, merge_mode=MergeMode.EVENT_TIME_ORDERING),
        basis(replace(spec, operation=Operation.INSERT)),
        basis(replace(spec, merge=MergeFunction.of(lambda _, new: new))),
        basis(replace(spec, options=(("hoodie.write.set.null.for.missing.columns", "true"),))),
        basis(),
    ]
    assert len(set(others)) == len(others)
    assert basis() == others[-1]


@pytest.mark.parametrize("kind", [pa.null(), pa.bool_()])
def test_marks_that_are_all_null_delete_nothing(tmp_path: Path, kind: pa.DataType) -> None:
    """A list of dicts whose marks are all None has no type for them."""
    table = make_table(tmp_path / "t")
    rows = pa.table({"id": ["a", "b"], "day": ["x", "x"], "ts": [1, 1], "v": ["1", "2"]})
    marked = rows.append_column("_hoodie_is_deleted", pa.nulls(2, kind))
    assert table.upsert(marked).inserts == 2
    done = table.upsert([{**row, "ts": 2} for row in marked.to_pylist()])
    assert (done.updates, done.deletes) == (2, 0)
    pq.write_table(marked, tmp_path / "b.parquet")
    assert table.upsert(str(tmp_path / "b.parquet")).ignored == 2
