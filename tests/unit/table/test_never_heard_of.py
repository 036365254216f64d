"""What a release has never heard of, wherever a table says it, stops every write by name, and no reader."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakeindex
from lakeindex.api.table import LakeTable
from lakeindex.errors import MetadataTableError, TableUnsupportedError
from lakeindex.format.instants import is_unknown_instant
from lakeindex.write.types.avro_schema import unknown_logical_type

LATER = "29990101000000000"
"""No clock comes there: it does not matter to what is visible."""
VECTOR = {"type": "fixed", "name": "v", "size": 8, "logicalType": "vector", "dimension": 2}
VARIANT = {
    "type": "record",
    "name": "v",
    "logicalType": "variant",
    "fields": [{"name": "metadata", "type": "bytes"}, {"name": "value", "type": "bytes"}],
}
BLOB = {"type": "record", "name": "v", "logicalType": "blob", "fields": [{"name": "data", "type": ["null", "bytes"]}]}


def instant(name: str) -> Callable[[Path], str]:
    def put(hoodie: Path) -> str:
        timeline = hoodie / "timeline" if (hoodie / "timeline").exists() else hoodie
        (timeline / name).write_bytes(b"")
        return name

    return put


def stated(key: str, value: str, named: str | None = None) -> Callable[[Path], str]:
    def put(hoodie: Path) -> str:
        file = hoodie / "hoodie.properties"
        file.write_text(f"{file.read_text()}{key}={value}\n")
        return named or key

    return put


def column(avro: Any) -> Callable[[Path], str]:
    def put(hoodie: Path) -> str:
        (commit,) = hoodie.glob("*.commit")
        said = json.loads(commit.read_text())
        schema = json.loads(said["extraMetadata"]["schema"])
        schema["fields"].append({"name": "new", "type": ["null", avro], "default": None})
        said["extraMetadata"]["schema"] = json.dumps(schema)
        commit.write_text(json.dumps(said))
        return repr(next(one["logicalType"] for one in (VECTOR, VARIANT, BLOB) if json.dumps(one) in json.dumps(avro)))

    return put


PARTITIONS = "hoodie.table.metadata.partitions"
THINGS: dict[str, Callable[[Path], str]] = {
    "a state": instant(f"{LATER}.commit.abort"),
    "a state of no action": instant(f"{LATER}.abort"),
    "an action": instant(f"{LATER}.vacuum"),
    "an action in the making": instant(f"{LATER}.vacuum.requested"),
    "a completion of three parts": instant(f"{LATER}_{LATER}_{LATER}.commit"),
    "a name without a point": instant(f"{LATER}_commit"),
    "a vector index": stated(PARTITIONS, "files,vector_index_x", "vector_index_x"),
    "a text index": stated(PARTITIONS, "files,text_index_body", "text_index_body"),
    "an index of tomorrow": stated(PARTITIONS, "files,zonemap", "zonemap"),
    "one in the making": stated(f"{PARTITIONS}.inflight", "vector_index_x", "vector_index_x"),
    "a layout": stated("hoodie.table.storage.layout", "lsm_tree"),
    "another layout": stated("hoodie.table.storage.layout", "tomorrows"),
    "commit times only": stated("hoodie.meta.fields.mode", "COMMIT_TIME_ONLY"),
    "a mode": stated("hoodie.meta.fields.mode", "tomorrows"),
    "a property": stated("hoodie.table.row.order", "z"),
    "a vector": column(VECTOR),
    "a list of vectors": column({"type": "array", "items": VECTOR}),
    "a variant": column(VARIANT),
    "a map of blobs": column({"type": "map", "values": ["null", BLOB]}),
    "a blob in a record": column({"type": "record", "name": "r", "fields": [{"name": "b", "type": BLOB}]}),
}
DOORS: dict[str, Callable[[LakeTable], object]] = {
    "upsert": lambda table: table.upsert(pa.table({"id": [1], "v": [9]})),
    "delete": lambda table: table.delete(pa.table({"id": [1]})),
    "delete by condition": lambda table: table.delete(where="id = 1"),
    "update": lambda table: table.update(set={"v": "9"}, where="id = 1"),
    "insert overwrite": lambda table: table.insert_overwrite_table(pa.table({"id": [9], "v": [9]})),
}
SERVICES: dict[str, Callable[[LakeTable], object]] = {
    "rollback": lambda table: table.rollback(table.history()[-1].instant),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
}


def states(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_each_stops_every_write_by_name_and_no_reader(tmp_path: Path) -> None:
    rows, wrong = pa.table({"id": [1, 2], "v": [1, 2]}), []
    for number, (what, put) in enumerate(THINGS.items()):
        path = tmp_path / str(number)
        lakeindex.create_table(str(path), like=rows, key="id", table_version=6, metadata=False).upsert(rows)
        named = put(path / ".hoodie")
        table = lakeindex.open_table(str(path))
        before = states(path)
        of_columns = put in [
            one for name, one in THINGS.items() if "vector" in name or "variant" in name or "blob" in name
        ]
        # what takes a commit back, or deletes old files, publishes no columns
        doors = DOORS if of_columns and not named.endswith(("_x", "_body")) else DOORS | SERVICES
        for door, write in doors.items():
            try:
                write(table)
            except (TableUnsupportedError, MetadataTableError) as error:
                if named not in f"{error.message} {error.culprit}" or not error.hint:
                    wrong.append((what, door, error.message))
            else:
                wrong.append((what, door, "taken"))
        after = {name: data for name, data in states(path).items() if not name.startswith(".hoodie/.lakeindex/")}
        if after != {name: data for name, data in before.items() if not name.startswith(".hoodie/.lakeindex/")}:
            wrong.append((what, "it left something behind", sorted(set(after) ^ set(before))))
        if "metadata" not in named and "index" not in named and "zonemap" not in named and table.count() != 2:
            wrong.append((what, "read", str(table.count())))
        notes = " ".join(table.check().notes)
        if "lakeindex does not write to the table" not in notes or named not in notes:
            wrong.append((what, "check", notes))
    assert not wrong


def test_what_is_known_stops_nothing() -> None:
    known = (
        f"{LATER}.commit", f"{LATER}.inflight", f"{LATER}.commit.requested", f"{LATER}_{LATER}.commit",
        f"{LATER}.clustering.inflight", f"{LATER}.savepoint", f"{LATER}.restore.inflight", f"{LATER}.schemacommit",
        f"{LATER}.indexing.requested", f"{LATER}.logcompaction", f"{LATER}.compaction.requested", "20260101000000.clean", "hoodie.properties", "archived",
        f"{LATER}.commit.crc", f"{LATER}.commit.requested.tmp", f".{LATER}.commit.abort", "metadata", "2026.txt",
        f"{LATER}_{LATER}.commit.0b3f9a52-5b0e-4b6f-9d3f-0a1b2c3d4e5f",
    )  # fmt: skip
    assert [name for name in known if is_unknown_instant(name)] == []
    plain = [
        {"type": "int", "logicalType": "date"},
        {"type": "string", "logicalType": "uuid"},
        "string",
        ["null", "int"],
    ]
    fields = [{"name": f"c{number}", "type": one} for number, one in enumerate(plain)]
    assert unknown_logical_type(json.dumps({"type": "record", "name": "logicalType", "fields": fields})) is None


@pytest.mark.parametrize("version", ["8", "9"])
def test_a_state_on_the_other_timeline(tmp_path: Path, version: str) -> None:
    rows = pa.table({"id": [1], "v": [1]})
    table = lakeindex.create_table(str(tmp_path / "t"), like=rows, key="id", table_version=int(version))
    table.upsert(rows)
    name = THINGS["a state"](tmp_path / "t" / ".hoodie")
    with pytest.raises(TableUnsupportedError, match=name):
        table.upsert(rows)
    (tmp_path / "t" / ".hoodie" / "timeline" / name).unlink()
    table.upsert(pa.table({"id": [2], "v": [1]}))
    assert table.count() == 2
