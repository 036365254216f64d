"""Tables with statistics in the metadata table, written by Hudi; what tests/vectors/stats keeps of them.

    PYTHONPATH=lib:. python tests/vectors/recipes/stats_tables.py FOLDER

Needs the environment of the interop suite. FOLDER gets the tables; `tests/vectors/stats/NAME.tar.xz` gets of each its
`.hoodie` folder, and of the data files the footers only (`FILE.parquet.footer`: magic, footer, length, magic).
"""

from __future__ import annotations

import datetime as dt
import io
import json
import struct
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

from tests.interop.hudi_client import HudiServer, keep_options

OUT = Path(__file__).parents[1] / "stats"
UTC = dt.UTC
LONG = "l" * 200
HUGE = "h" * 5000
TEXTS = ["plain", "", LONG, "\U0001f600 smile", "\uffee high", "é", "中", "zz"]

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("region", pa.string()),
        ("ts", pa.int64()),
        ("b", pa.bool_()),
        ("i8", pa.int8()),
        ("i16", pa.int16()),
        ("i", pa.int32()),
        ("l", pa.int64()),
        ("f", pa.float32()),
        ("d", pa.float64()),
        ("f_nan", pa.float32()),
        ("d_nan", pa.float64()),
        ("d_zero", pa.float64()),
        ("d_inf", pa.float64()),
        ("dec9", pa.decimal128(9, 2)),
        ("dec18", pa.decimal128(18, 4)),
        ("dec20", pa.decimal128(20, 5)),
        ("txt", pa.string()),
        ("huge", pa.string()),
        ("bin", pa.binary()),
        ("dt", pa.date32()),
        ("tsp", pa.timestamp("us", "UTC")),
        ("ntz", pa.timestamp("us")),
        ("nul_i", pa.int32()),
        ("nul_s", pa.string()),
        ("nul_dt", pa.date32()),
        ("nul_dec", pa.decimal128(9, 2)),
        ("st", pa.struct([("x", pa.int32()), ("y", pa.string()), ("in", pa.struct([("z", pa.float64())]))])),
        ("arr", pa.list_(pa.int32())),
        ("arr_st", pa.list_(pa.struct([("q", pa.string()), ("r", pa.int64())]))),
        ("mp", pa.map_(pa.string(), pa.float64())),
        ("dec38", pa.decimal128(38, 18)),
        ("late", pa.int32()),
    ]
)


def row(n: int, version: int) -> dict[str, Any]:
    """Row n, all of whose columns are null in each 7th row."""
    there: dict[str, Any] = {
        "b": n % 2 == 0,
        "i8": n - 60,
        "i16": -300 * n,
        "i": n * 1000 - 50_000,
        "l": -(2**63) if n == 8 else n * 10**12,
        "f": (n - 50) / 4,
        "d": -(n**3) / 7,
        "f_nan": float("nan") if n == 11 else float(n),
        "d_nan": float("nan") if n % 3 == 1 and n > 20 else n / 2,
        "d_zero": [0.0, -0.0, 0.0][n % 3],
        "d_inf": float("inf") if n == 10 else float("-inf") if n == 13 else float(n),
        "dec9": Decimal(n - 40) / 100,
        "dec18": Decimal(-n * 10**9) / 10**4,
        "dec20": Decimal(n * 10**13 + 1) / 10**5,
        "txt": TEXTS[n % len(TEXTS)],
        "huge": HUGE + str(n) if n % 3 == 0 else str(n),
        "bin": bytes([n % 256, 255 - n, 128]),
        "dt": dt.date(1969, 1, 1) + dt.timedelta(days=37 * n),
        "tsp": dt.datetime(1969, 12, 31, 23, tzinfo=UTC) + dt.timedelta(minutes=3 * n, microseconds=n),
        "ntz": dt.datetime(1970, 1, 1) + dt.timedelta(hours=n - 7, microseconds=n),
        "st": {"x": n, "y": None if n % 2 else f"y{n}", "in": {"z": n / 8}},
        "arr": [] if n % 5 == 0 else [n, -n],
        "arr_st": [{"q": f"q{n}", "r": n}, {"q": None, "r": -n}],
        "mp": {f"m{n}": float(n), "z": None},
        "dec38": Decimal(-n) / 10**18,
        "late": n,
    }
    always = {"id": f"k{n:04d}" + ("é中" if n % 11 == 0 else ""), "region": ["eu", "us", "as ia"][n % 3], "ts": version}
    return {**always, **({} if n % 7 == 0 else there)}


def rows(first: int, last: int, version: int, without: list[str]) -> pa.Table:
    """Rows of one commit."""
    return pa.Table.from_pylist([row(n, version) for n in range(first, last)], SCHEMA).drop_columns(without)


NESTED = "id,st.x,st.y,st.in.z,arr.list.element,arr_st.list.element.q,mp.key_value.key,mp.key_value.value,txt,dec38,bin"
"""Columns of the tables that name them, of every table version that can (1.2)."""

TABLES: dict[str, tuple[str, int, dict[str, str]]] = {
    "h0150_v6": ("0.15.0", 6, {}),
    "h0150_v6_nonpart": ("0.15.0", 6, {"nonpart": "1"}),
    "h120_v6": ("1.2.0", 6, {}),
    "h120_v8": ("1.2.0", 8, {}),
    "h120_v9": ("1.2.0", 9, {}),
    "h120_v9_nonpart": ("1.2.0", 9, {"nonpart": "1"}),
    "h120_v8_nested": ("1.2.0", 8, {"hoodie.metadata.index.column.stats.column.list": NESTED}),
    "h120_v9_nested": ("1.2.0", 9, {"hoodie.metadata.index.column.stats.column.list": NESTED}),
    "h120_v9_bulk": ("1.2.0", 9, {"bulk": "1"}),
}


def make(server: HudiServer, name: str, folder: Path) -> None:
    """Write a table: 60 rows, and an upsert of 10 of them with 6 new ones."""
    release, version, extra = TABLES[name]
    extra = dict(extra)
    nonpart, bulk = extra.pop("nonpart", ""), extra.pop("bulk", "")
    options = {
        **keep_options(release, version),
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "" if nonpart else "region",
        "hoodie.datasource.write.operation": "bulk_insert" if bulk else "upsert",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "true",
        "hoodie.clean.automatic": "false",
        "hoodie.index.bloom.num_entries": "60",
        "hoodie.bloom.index.filter.dynamic.max.entries": "60",
        **extra,
    }
    if nonpart:
        options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    without = [] if version == 9 else ["dec38"]  # it does not fit the decimal wrapper of the others, which fail
    without += ["ntz"] if release == "0.15.0" else []  # Spark's type is not known to it
    without += ["i8", "i16"] if bulk else []  # nor these to Hudi's writer of rows
    path = folder / name
    server.write(path, rows(0, 60, 1, without), options, mode="overwrite")
    options["hoodie.datasource.write.operation"] = "upsert"
    server.write(path, rows(50, 66, 2, without), options)


FILTERS = ["huge = '1'", "huge > '0'", "f_nan = 14.0", "d_nan > 1", "d_nan is not null", "nul_i is null", "i = 1000"]


def pack(table: Path) -> None:
    """Keep what the tests need."""
    packed = tarfile.open(OUT / f"{table.name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT)  # noqa: SIM115
    with packed:
        for path in sorted(one for one in table.rglob("*") if one.is_file()):
            name, data = str(path.relative_to(table.parent)), path.read_bytes()
            if path.suffix == ".crc" or "/.hoodie/metadata/.hoodie" in name:
                continue
            if path.suffix == ".parquet":
                (length,) = struct.unpack("<I", data[-8:-4])
                name, data = f"{name}.footer", b"PAR1" + data[-8 - length :]
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(data), 0o644
            packed.addfile(info, io.BytesIO(data))
    print(table.name, (OUT / f"{table.name}.tar.xz").stat().st_size, flush=True)


def main() -> None:
    """Make and pack the tables named behind the folder, or all."""
    folder = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    wanted = sys.argv[2:] or list(TABLES)
    for release in ("0.15.0", "1.2.0"):
        names = [name for name in wanted if TABLES[name][0] == release]
        if not names:
            continue
        server = HudiServer(release, folder / f"server-{release}")
        try:
            for name in names:
                try:
                    make(server, name, folder)
                except Exception as error:  # noqa: BLE001 - one table of many
                    print(name, "FAILED", str(error)[:1500], flush=True)
                    continue
                for where in FILTERS:
                    skip = {"hoodie.metadata.enable": "true", "hoodie.enable.data.skipping": "true"}
                    counts = [server.read(folder / name, one, where).num_rows for one in (skip, {})]
                    off = server.read(folder / name, {"hoodie.metadata.enable": "false"}, where).num_rows
                    print(
                        json.dumps([name, where, "skipping", counts[0], "default", counts[1], "off", off]), flush=True
                    )
                pack(folder / name)
        finally:
            server.close()


if __name__ == "__main__":
    main()
