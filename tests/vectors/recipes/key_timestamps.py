"""Record keys and partition paths that real Hudi makes of timestamps: cases of tests/vectors/key_timestamps.json.

``.venv/bin/python -m tests.vectors.recipes.key_timestamps RELEASE ZONE TABLE_VERSION OUT`` in the checkout; made with
0.15.0 and 1.2.0, UTC (the custom and timestamp-based generators) and America/New_York (the others).
"""

from __future__ import annotations

import datetime as dt
import json
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.interop.hudi_client import HudiServer, keep_options

D, U = dt.date, dt.UTC
INSTANTS = [
    dt.datetime(2016, 12, 29, 9, 54, tzinfo=U), dt.datetime(2016, 12, 29, 9, 54, 0, 123456, tzinfo=U),
    dt.datetime(2021, 11, 7, 5, 30, 0, 500000, tzinfo=U), dt.datetime(2021, 11, 7, 6, 30, tzinfo=U),
    dt.datetime(1900, 2, 3, 4, 5, 6, 1, tzinfo=U), dt.datetime(1500, 2, 3, 4, 5, 6, 120000, tzinfo=U),
    dt.datetime(1, 1, 1, 4, 5, 6, tzinfo=U), dt.datetime(9999, 12, 31, 1, 0, 0, 999999, tzinfo=U),
    dt.datetime(1969, 12, 31, 23, 59, 59, 999000, tzinfo=U),
]  # fmt: skip
ROWS = pa.table(
    {
        "id": [f"k{number}" for number in (0, 1, 2, 3, 4, 5, 6, 7, 9)],
        "ts": pa.array(INSTANTS, pa.timestamp("us", "UTC")),
        "d": pa.array([D(2020, 1, 1), D(1969, 12, 31), D(1500, 1, 1), D(1, 1, 1), D(9999, 12, 31), None,
                       D(1582, 10, 15), D(1582, 10, 4), D(2021, 11, 7)]),
        "b": [True, False] * 4 + [True],
        "v": pa.array(range(9), pa.int64()),
    }
)  # fmt: skip
RECENT = ROWS.slice(0, 4)
TEXTS = "hoodie.datasource.write.keygenerator.consistent.logical.timestamp.enabled"
TIMES = "hoodie.keygen.timebased."
SCALAR = {"timestamp.type": "SCALAR"}
TEXT = {"timestamp.type": "DATE_STRING", "input.dateformat": "yyyy-MM-dd HH:mm:ss.S"}
Case = tuple[str, str, str, dict[str, str], bool, pa.Table]
"""Generator, key, partition fields, options of times, url encoding, rows."""
OTHERS: list[Case] = [
    ("NonpartitionedKeyGenerator", "ts", "", {}, False, ROWS),
    ("ComplexKeyGenerator", "ts,d", "b", {}, False, ROWS),
    ("SimpleKeyGenerator", "id", "ts", {}, True, ROWS),
]
OF_TIMES: list[Case] = [
    ("CustomKeyGenerator", "id", "ts:TIMESTAMP", SCALAR, False, RECENT),
    ("CustomKeyGenerator", "id", "ts:TIMESTAMP,b:SIMPLE", {"timestamp.type": "EPOCHMILLISECONDS"}, False, RECENT),
    ("CustomKeyGenerator", "id", "ts:TIMESTAMP", TEXT, False, RECENT),
    ("TimestampBasedKeyGenerator", "ts", "ts", SCALAR, False, RECENT),
    ("CustomKeyGenerator", "ts", "ts:SIMPLE,b:SIMPLE", {}, True, RECENT),
]


def main() -> None:
    release, zone, version, out = sys.argv[1], sys.argv[2], int(sys.argv[3]), Path(sys.argv[4])
    server = HudiServer(release, out / ".server", zone=zone).writing(version)
    for what in ("parquet", "avro"):
        server.sql(f"SET spark.sql.{what}.datetimeRebaseModeInWrite=CORRECTED")
        server.sql(f"SET spark.sql.{what}.datetimeRebaseModeInRead=CORRECTED")
    cases = []
    for number, (generator, key, partition, times, encoded, rows) in enumerate(OF_TIMES if zone == "UTC" else OTHERS):
        for operation in ("bulk_insert", "upsert"):
            for consistent in (False, True):
                path = out / f"{number}_{operation}_{consistent}"
                options = keep_options(release, version) | {
                    "hoodie.table.name": "t",
                    "hoodie.datasource.write.operation": operation,
                    "hoodie.datasource.write.recordkey.field": key,
                    "hoodie.datasource.write.partitionpath.field": partition,
                    "hoodie.datasource.write.precombine.field": "v",
                    "hoodie.datasource.write.keygenerator.class": f"org.apache.hudi.keygen.{generator}",
                    "hoodie.datasource.write.partitionpath.urlencode": str(encoded).lower(),
                    f"{TIMES}output.dateformat": "yyyy-MM-dd HH",
                    f"{TIMES}timezone": "UTC",
                    f"{TIMES}timestamp.scalar.time.unit": "MICROSECONDS",
                    **{f"{TIMES}{name}": text for name, text in times.items()},
                    **({TEXTS: "true"} if consistent else {}),
                }
                try:
                    server.write(path, rows, options, mode="overwrite")
                except Exception as error:  # noqa: BLE001 - the row writer refuses some
                    print(path.name, str(error)[:200], file=sys.stderr)
                    continue
                names = ["_hoodie_record_key", "_hoodie_partition_path", "v"]
                files = [pq.ParquetFile(file).read(names) for file in sorted(path.rglob("*.parquet"))]
                stored = pa.concat_tables(files).sort_by("v")
                cases.append(
                    {
                        "release": release, "zone": zone, "generator": generator, "key": key, "partition": partition,
                        "times": times, "urlencode": encoded, "operation": operation, "consistent": consistent,
                        "record_key": stored[names[0]].to_pylist(), "partition_path": stored[names[1]].to_pylist(),
                    }
                )  # fmt: skip
    server.close()
    print(",\n".join(map(json.dumps, cases)))


if __name__ == "__main__":
    main()
