"""Tables with record index and bloom filters in the metadata table, written by Hudi: tests/vectors/indexes.

    PYTHONPATH=lib:. python tests/vectors/recipes/index_tables.py FOLDER

Needs the environment of the interop suite. FOLDER gets the tables; `tests/vectors/indexes/NAME.tar.xz` gets the whole
of each.
"""

from __future__ import annotations

import io
import sys
import tarfile
from pathlib import Path

import pyarrow as pa

from tests.interop.hudi_client import HudiServer, keep_options

OUT = Path(__file__).parents[1] / "indexes"

#: name -> release, table version, time zone of the writer, further options
TABLES: dict[str, tuple[str, int, str, dict[str, str]]] = {
    "h0150_v6": ("0.15.0", 6, "UTC", {}),
    "h120_v8": ("1.2.0", 8, "UTC", {}),
    "h120_v9": ("1.2.0", 9, "UTC", {}),
    "h120_v9_bucket": ("1.2.0", 9, "UTC", {"bucket": "1"}),
    "h120_v9_nonpart": ("1.2.0", 9, "UTC", {"nonpart": "1"}),
    "h120_v9_partitioned": ("1.2.0", 9, "UTC", {"partitioned": "1"}),
    "h120_v9_partitioned_nonpart": ("1.2.0", 9, "UTC", {"partitioned": "1", "nonpart": "1"}),
    "h120_v9_zone": ("1.2.0", 9, "America/New_York", {}),
}


def rows(first: int, last: int, version: int, moved: bool = False) -> pa.Table:
    """Rows of one commit: keys of all kinds; every third key moves to another partition if it is asked for."""
    numbers = range(first, last)
    places = ["eu-1", "u_s", "as ia"]
    return pa.table(
        {
            "id": [f"k{n:03d}" + ("é\U0001f600" if n % 11 == 0 else "") for n in numbers],
            "region": [places[(n + (moved and n % 3 == 0)) % 3] for n in numbers],
            "ts": pa.array([version] * len(numbers), pa.int64()),
        }
    )


def make(server: HudiServer, name: str, folder: Path) -> None:
    """Write a table: 60 rows; an upsert of 10 of them with 6 new ones; a delete of 5; a clean at the end."""
    release, version, _, extra = TABLES[name]
    nonpart, bucket, partitioned = ("nonpart" in extra, "bucket" in extra, "partitioned" in extra)
    options = {
        **keep_options(release, version),
        "hoodie.table.name": name,
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "" if nonpart else "region",
        "hoodie.datasource.write.operation": "upsert",
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.index.column.stats.enable": "false",
        "hoodie.metadata.index.partition.stats.enable": "false",
        "hoodie.metadata.record.index.enable": "false" if partitioned else "true",
        "hoodie.metadata.global.record.level.index.enable": "false" if partitioned else "true",
        "hoodie.metadata.record.level.index.enable": "true" if partitioned else "false",
        "hoodie.metadata.index.bloom.filter.enable": "true",
        "hoodie.metadata.compact.max.delta.commits": "3",
        "hoodie.clean.automatic": "false",
        "hoodie.index.bloom.num_entries": "60",
        "hoodie.bloom.index.filter.dynamic.max.entries": "60",
    }
    if bucket:
        options |= {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
    if nonpart:
        options["hoodie.datasource.write.keygenerator.class"] = "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    path = folder / name
    server.write(path, rows(0, 60, 1), options, mode="overwrite")
    server.write(path, rows(50, 66, 2), options)
    server.write(path, rows(3, 8, 3), {**options, "hoodie.datasource.write.operation": "delete"})
    cleaning = {"hoodie.clean.automatic": "true", "hoodie.cleaner.commits.retained": "1"}
    server.write(path, rows(60, 70, 4), {**options, **cleaning})


def pack(table: Path) -> None:
    """Keep it."""
    with tarfile.open(OUT / f"{table.name}.tar.xz", "w:xz", format=tarfile.PAX_FORMAT) as packed:
        for path in sorted(one for one in table.rglob("*") if one.is_file() and one.suffix != ".crc"):
            info = tarfile.TarInfo(str(path.relative_to(table.parent)))
            info.size, info.mode = path.stat().st_size, 0o644
            packed.addfile(info, io.BytesIO(path.read_bytes()))
    print(table.name, (OUT / f"{table.name}.tar.xz").stat().st_size, flush=True)


def main() -> None:
    """Make and pack the tables named behind the folder, or all."""
    folder = Path(sys.argv[1])
    OUT.mkdir(exist_ok=True)
    wanted = sys.argv[2:] or list(TABLES)
    for release, zone in sorted({(TABLES[name][0], TABLES[name][2]) for name in wanted}):
        names = [name for name in wanted if (TABLES[name][0], TABLES[name][2]) == (release, zone)]
        server = HudiServer(release, folder / f"server-{release}-{zone.replace('/', '_')}", zone=zone)
        try:
            for name in names:
                try:
                    make(server, name, folder)
                except Exception as error:  # noqa: BLE001 - one table of many
                    print(name, "FAILED", str(error)[:3000], flush=True)
                    continue
                pack(folder / name)
        finally:
            server.close()


if __name__ == "__main__":
    main()
