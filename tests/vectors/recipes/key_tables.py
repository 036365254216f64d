"""Small tables of real Hudi whose keys are spelled in a way that their properties do not say (tests/vectors/keys).

``.venv/bin/python -m tests.vectors.recipes.key_tables 0.15.0 OUT`` in the checkout, and the same with 1.2.0.
"""

from __future__ import annotations

import datetime as dt
import sys
import tarfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.hudi_client import HudiServer, keep_options

GENERATORS = "org.apache.hudi.keygen."
TEXTS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
TIMES = "hoodie.keygen.timebased."
BULK = {"hoodie.datasource.write.operation": "bulk_insert"}
UPSERT = {"hoodie.datasource.write.operation": "upsert"}
HOURS = {f"{TIMES}timestamp.type": "EPOCHMILLISECONDS", f"{TIMES}output.dateformat": "yyyy-MM-dd HH", f"{TIMES}timezone": "UTC"}


def day(month: int, hour: int, microseconds: int = 0) -> dt.datetime:
    return dt.datetime(2016, month, 29, hour, 54, 0, microseconds, tzinfo=dt.UTC)


ROWS = pa.table(
    {
        "id": ["a", "b", "c"],
        "ts": pa.array([day(12, 9), day(7, 5, 123_456), day(12, 23)], pa.timestamp("us", "UTC")),
        "urn": ["urn:isbn:1", "urn:isbn:2", "urn:isbn:3"],
        "some": ["some:1", "plain", "some:"],
        "city": ["rome", "oslo", "rome"],
        "ms": pa.array([1711927815250, 1711931415250, 1711927815251], pa.int64()),
        "v": pa.array([1, 1, 1], pa.int64()),
    }
)


class Maker:
    def __init__(self, server: HudiServer, out: Path) -> None:
        self.server, self.out, self.written = server, out, {}

    def write(self, name: str, rows: pa.Table, **options: Any) -> None:
        """``key``, ``part``, ``gen``, ``version`` and the rest as Hudi's options in ``more``."""
        path = self.out / name
        server = self.server.writing(options.get("version", 6))
        base = keep_options(server.version, server.table_version) | {
            "hoodie.table.name": name,
            "hoodie.datasource.write.recordkey.field": options["key"],
            "hoodie.datasource.write.partitionpath.field": options["part"],
            "hoodie.datasource.write.precombine.field": "v",
            "hoodie.datasource.write.keygenerator.class": GENERATORS + options["gen"] + "KeyGenerator",
        }
        more: Mapping[str, str] = options["more"]
        server.write(path, rows, base | more, mode="append" if path.exists() else "overwrite")
        print(name, flush=True)

    def pack(self) -> None:
        for path in sorted(self.out.glob("h*_v*")):
            with tarfile.open(self.out / f"{path.name}.tar.gz", "w:gz") as tar:
                tar.add(path, path.name)


def of_both(maker: Maker, tag: str, version: int) -> None:
    """What both releases are asked for."""
    at = f"{tag}_v{version}"
    simple = {"key": "ts", "part": "city", "gen": "Simple", "version": version}
    maker.write(f"{at}_timestamp", ROWS, **simple, more=BULK)
    maker.write(f"{at}_timestamp_upsert", ROWS, **simple, more={**UPSERT, TEXTS: "true"})
    composite = {"key": "ts,id", "part": "city", "gen": "Complex", "version": version}
    maker.write(f"{at}_composite", ROWS, **composite, more=BULK)


def of_old(maker: Maker) -> None:
    """What the properties of version 6 do not say."""
    simple = {"key": "ts", "part": "city", "gen": "Simple"}
    maker.write("h0150_v6_mixed", ROWS.slice(0, 2), **simple, more=BULK)
    maker.write("h0150_v6_mixed", ROWS.slice(2), **simple, more=UPSERT)
    custom = {"key": "id", "part": "ms:TIMESTAMP,city:SIMPLE", "gen": "Custom"}
    maker.write("h0150_v6_custom", ROWS, **custom, more={**UPSERT, **HOURS})
    maker.write("h0150_v6_custom_simple", ROWS, **{**custom, "part": "v:SIMPLE,city:SIMPLE"}, more=UPSERT)
    encoded = {"hoodie.datasource.write.partitionpath.urlencode": "true"}
    texts = {"key": "ts", "part": "ts:SIMPLE,city:SIMPLE", "gen": "Custom"}
    maker.write("h0150_v6_paths", ROWS, **texts, more={**BULK, **encoded})
    maker.write("h0150_v6_timebased", ROWS, key="id", part="ms", gen="TimestampBased", more={**UPSERT, **HOURS})
    for field in ("urn", "some"):
        maker.write(f"h0150_v6_{field}", ROWS, key=field, part="city,v", gen="Complex", more=UPSERT)
    index = {"hoodie.index.type": "GLOBAL_BLOOM", "hoodie.bloom.index.update.partition.path": "false"}
    moved = ROWS.slice(0, 1).set_column(4, "city", pa.array(["oslo"])).set_column(6, "v", pa.array([2], pa.int64()))
    for rows in (ROWS, moved):
        maker.write("h0150_v6_global", rows, key="id", part="city", gen="Simple", more={**UPSERT, **index})


def of_new(maker: Maker) -> None:
    named = {**UPSERT, "hoodie.write.complex.keygen.new.encoding": "false", "hoodie.write.complex.keygen.validation.enable": "false"}
    maker.write("h120_v9_urn", ROWS, key="urn", part="city,v", gen="Complex", version=9, more=named)
    custom = {"key": "id", "part": "ms:TIMESTAMP,city:SIMPLE", "gen": "Custom", "version": 9}
    maker.write("h120_v9_custom", ROWS, **custom, more={**UPSERT, **HOURS})


def main() -> None:
    version, out = sys.argv[1], Path(sys.argv[2])
    old = version == "0.15.0"
    server = HudiServer(version, out / ".server")
    maker = Maker(server, out)
    try:
        of_both(maker, "h0150" if old else "h120", 6 if old else 9)
        (of_old if old else of_new)(maker)
    finally:
        server.close()
    if old:
        server = HudiServer(version, out / ".server2", zone="America/New_York")
        try:
            Maker(server, out).write("h0150_v6_zone", ROWS, key="ts", part="city", gen="Simple", more=BULK)
        finally:
            server.close()
    maker.pack()


if __name__ == "__main__":
    main()
