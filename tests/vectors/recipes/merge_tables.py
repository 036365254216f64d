"""Tables whose properties say how records merge, written by Hudi 1.2: tests/vectors/merging.

    PYTHONPATH=lib:. python tests/vectors/recipes/merge_tables.py FOLDER

Needs the environment of the interop suite. FOLDER gets the tables; `tests/vectors/merging/NAME.tar.xz` gets each of them
before its last batch, and `merging.json` that batch, and key and value of the rows that Hudi had before and after it;
`properties.json` the properties of a table of each payload class and version.
"""

from __future__ import annotations

import io
import json
import sys
import tarfile
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.hudi_client import HudiError, HudiServer, keep_options

OUT = Path(__file__).parents[1] / "merging"
CLASSES = "org.apache.hudi.common.model."
PAYLOADS = {
    "default": f"{CLASSES}DefaultHoodieRecordPayload",
    "latest": f"{CLASSES}OverwriteWithLatestAvroPayload",
    "event_time": f"{CLASSES}EventTimeAvroPayload",
    "dms": f"{CLASSES}AWSDmsAvroPayload",
    "non_defaults": f"{CLASSES}OverwriteNonDefaultsWithLatestAvroPayload",
    "partial": f"{CLASSES}PartialUpdateAvroPayload",
    "mysql": f"{CLASSES}debezium.MySqlDebeziumAvroPayload",
    "postgres": f"{CLASSES}debezium.PostgresDebeziumAvroPayload",
}
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
FIRST = [("a", 5, "I"), ("b", 5, "I"), ("c", 5, "D"), ("d", 5, "I"), ("k", 5, "I"), ("l", 5, "I"), ("n", 5, "I")]
BULK = [("s", 5, "I"), ("t", 5, "D"), ("u", 5, "D"), ("w", 5, "D")]
SECOND = [
    ("a", 6, "D"),
    ("b", 4, "D"),
    ("d", 5, "D"),
    ("e", 6, "D"),
    ("f", 6, "D"),
    ("f", 5, "I"),
    ("g", 5, "D"),
    ("g", 6, "I"),
    ("k", 6, "d"),
    ("l", 6, None),
    ("n", 4, "U"),
    ("s", 6, "U"),
    ("u", 6, "U"),
    ("w", 4, "U"),
]
FIELD, MARKER = "hoodie.payload.delete.field", "hoodie.payload.delete.marker"
EVENT = {"hoodie.record.merge.mode": "EVENT_TIME_ORDERING"}
BY_OP = {FIELD: "Op", MARKER: "D"}
DMS = {"hoodie.datasource.write.payload.class": PAYLOADS["dms"]}
MYSQL = {"hoodie.datasource.write.payload.class": PAYLOADS["mysql"]}

#: name -> table version, options of the first write, ordering fields of the others
TABLES: dict[str, tuple[int, dict[str, str], str]] = {
    "dms_v9": (9, DMS, "ts"),
    "mysql_v9": (9, MYSQL, "_event_bin_file,_event_pos"),
    "event_v9": (9, EVENT | BY_OP, "ts"),
    "event_v8": (8, EVENT | BY_OP, "ts"),
    "event_v6": (6, EVENT | BY_OP, "ts"),
    "number_v9": (9, EVENT | {FIELD: "gone", MARKER: "1"}, "ts"),
    "nested_v9": (9, EVENT | {FIELD: "m.op", MARKER: "D"}, "ts"),
    "absent_v9": (9, EVENT | {FIELD: "op", MARKER: "D"}, "ts"),
}


def rows(batch: list[tuple[str, int, str | None]], name: str) -> pa.Table:
    """Rows of a batch: whatever marks a delete says the same."""
    return pa.Table.from_pylist(
        [
            {
                "id": key,
                "p": "x",
                "ts": at,
                "Op": op,
                "gone": int(op == "D"),
                "m": {"op": op},
                "_change_operation_type": None if op is None else {"D": "d", "d": "D"}.get(op, op.lower()),
                "_event_lsn": at,
                "_event_bin_file": "bin.1",
                "_event_pos": at,
                "v": f"{name}{number}",
            }
            for number, (key, at, op) in enumerate(batch)
        ],
        schema=SCHEMA,
    )


def _options(name: str, version: int, ordering: str, more: dict[str, str]) -> dict[str, str]:
    return {
        **keep_options("1.2.0", version),
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.partitionpath.field": "p",
        "hoodie.datasource.write.precombine.field": ordering,
        "hoodie.datasource.write.operation": "upsert",
        **more,
    }


def _stored(server: HudiServer, path: Path) -> list[list[Any]]:
    return sorted([row["id"], row["v"]] for row in server.read(path).to_pylist())


def _pack(table: Path) -> None:
    with tarfile.open(OUT / f"{table.name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(one for one in table.rglob("*") if one.is_file() and one.suffix != ".crc"):
            info = tarfile.TarInfo(str(path.relative_to(table.parent)))
            info.size, info.mode = path.stat().st_size, 0o644
            packed.addfile(info, io.BytesIO(path.read_bytes()))


def make(server: HudiServer, name: str, folder: Path) -> dict[str, Any]:
    """Write a table by an upsert and a bulk insert, keep it, and upsert the second batch."""
    version, first, ordering = TABLES[name]
    path = folder / name
    server.write(path, rows(FIRST, "first"), _options(name, version, "ts", first), mode="overwrite")
    bulk = {"hoodie.datasource.write.operation": "bulk_insert"}
    server.write(path, rows(BULK, "bulk"), _options(name, version, ordering, bulk))
    before = _stored(server, path)
    _pack(path)
    server.write(path, rows(SECOND, "second"), _options(name, version, ordering, {}))
    return {"before": before, "after": _stored(server, path)}


def _entries(path: Path) -> dict[str, str]:
    lines = (path / ".hoodie" / "hoodie.properties").read_text().splitlines()
    return dict(sorted(line.split("=", 1) for line in lines if not line.startswith("#") and "=" in line))


def properties(server: HudiServer, folder: Path) -> dict[str, dict[str, str]]:
    """What a table of each payload class and version has in ``hoodie.properties``."""
    found: dict[str, dict[str, str]] = {}
    for name, payload in PAYLOADS.items():
        for version in (6, 8, 9):
            path = folder / f"{name}_v{version}"
            more = {"hoodie.datasource.write.payload.class": payload}
            try:
                server.write(path, rows(FIRST, "first"), _options("t", version, "ts", more), mode="overwrite")
            except HudiError as error:
                print(path.name, "FAILED", str(error)[:500], flush=True)
                continue
            found[path.name] = _entries(path)
    return found


def main() -> None:
    """Make and pack all."""
    folder = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    server = HudiServer("1.2.0", folder / "server")
    try:
        made = {name: make(server, name, folder) for name in TABLES}
        known = properties(server, folder)
    finally:
        server.close()
    said = {"batch": rows(SECOND, "second").to_pylist(), "tables": made}
    (OUT / "merging.json").write_text(json.dumps(said) + "\n")
    (OUT / "properties.json").write_text(json.dumps(known, indent=1) + "\n")


if __name__ == "__main__":
    main()
