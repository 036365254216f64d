"""lineitem of TPC-H, loaded and changed by lakeindex and by delta-rs: ``python -m benchmarks.tpch [--workload sf1]``.

Each step of each engine has a process of its own, so its peak memory is its own; both are at their defaults and take
turns. A row's key is order and line number, its partition the month of shipment (84), and a version orders its changes.
The load is measured on nothing, the other steps on a copy of what it left.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import environment, timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, apart, encoded_bytes, listing, measured, restore
from benchmarks.timings import Timing
from benchmarks.workloads import DATA

SCALES: Final = {"sf1": 1.0, "sf10": 10.0, "T_tpch": 0.002}
PEERS: Final = {"lakeindex": "lakeindex", "delta-rs": "delta-rs, at its own defaults"}
#: Reads only: the files of lakeindex's table, without a look at its timeline.
_READER: Final = {"dataset": "pyarrow's dataset of the same files"}
STEPS: Final = {
    "load": "load",
    "spread": "upsert of 1 % of all rows",
    "newest": "upsert of rows of the newest months, 1 %",
    "delete": "delete of 0.1 %",
    "scan": "one column, four conditions",
}
KEY: Final = ["l_orderkey", "l_linenumber"]
_WHERE: Final = "l_shipdate >= '1994-01-01' AND l_shipdate < '1995-01-01' AND l_discount >= 0.05 AND l_quantity < 24"
_ROW_GROUP: Final = 122_880
_SPREAD, _GONE = 100, 1_000


@dataclass(frozen=True)
class Inputs:
    """Generated files, and the rows that each step must leave or find."""

    folder: Path
    rows: dict[str, int]

    def file(self, name: str) -> Path:
        return self.folder / f"{name}.parquet"


def inputs(name: str) -> Inputs:
    """The rows and batches of a scale, generated at the first call."""
    folder = DATA / "tpch" / name
    if not (folder / "delete.parquet").exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as raw:
            environment.tpch(Path(raw), SCALES[name], "parquet", "--tables=lineitem")
            _write(folder, Path(raw) / "lineitem.parquet")
    counts = {step: pq.read_metadata(folder / f"{step}.parquet").num_rows for step in ("load", "delete")}
    found = pq.ParquetFile(folder / "load.parquet")
    matching = sum(_matching(pa.Table.from_batches([b])).num_rows for b in found.iter_batches(_ROW_GROUP))
    rows = dict.fromkeys(STEPS, counts["load"]) | {"delete": counts["load"] - counts["delete"], "scan": matching}
    return Inputs(folder, rows)


def _matching(rows: pa.Table) -> pa.Table:
    return rows.filter(_condition())


def _condition() -> pc.Expression:
    day = pc.field("l_shipdate")
    first, last = (pa.scalar(text).cast(pa.date32()) for text in ("1994-01-01", "1995-01-01"))
    cheap, few = (pa.scalar(text).cast(pa.decimal128(15, 2)) for text in ("0.05", "24"))
    return (day >= first) & (day < last) & (pc.field("l_discount") >= cheap) & (pc.field("l_quantity") < few)


def _pieces(file: Path, version: int) -> Iterator[tuple[int, pa.Table]]:
    """Rows with their month and version, and how many were before them."""
    first = 0
    for batch in pq.ParquetFile(file).iter_batches(_ROW_GROUP):
        rows = pa.table(
            [c.cast(pa.string()) if pa.types.is_string_view(c.type) else c for c in batch.columns],
            names=batch.schema.names,
        )
        month = pc.strftime(rows.column("l_shipdate"), format="%Y-%m")
        versions = pa.array(np.full(rows.num_rows, version, np.int64))
        yield first, rows.append_column("ship_month", month).append_column("version", versions)
        first += rows.num_rows


def _write(folder: Path, raw: Path) -> None:
    total = pq.read_metadata(raw).num_rows
    months = pc.value_counts(pa.concat_arrays([p.column("ship_month").combine_chunks() for _, p in _pieces(raw, 1)]))
    newest, seen = "", 0
    for one in sorted(months.to_pylist(), key=lambda one: str(one["values"]), reverse=True):
        newest, seen = one["values"], seen + one["counts"]
        if seen >= total // _SPREAD:
            break
    chosen: dict[str, tuple[int, Callable[[np.ndarray, pa.Table], pa.Table]]] = {
        "load": (1, lambda _, rows: rows),
        "spread": (2, lambda numbers, rows: rows.filter(pa.array(numbers % _SPREAD == 0))),
        "newest": (2, lambda _, rows: rows.filter(pc.field("ship_month") >= newest)),
        "delete": (3, lambda numbers, rows: rows.filter(pa.array(numbers % _GONE == 0))),
    }
    for name, (version, choose) in chosen.items():
        left = total if name != "newest" else max(total // _SPREAD, 1)
        writer = None
        for first, rows in _pieces(raw, version):
            some = choose(np.arange(first, first + rows.num_rows), rows).slice(0, left)
            some = some.select([*KEY, "ship_month", "version"]) if name == "delete" else some
            left -= some.num_rows
            writer = writer or pq.ParquetWriter(folder / f"{name}.parquet", some.schema, compression="snappy")
            writer.write_table(some, row_group_size=_ROW_GROUP)
        assert writer is not None
        writer.close()


def _ours(step: str, table: str, file: str) -> int:
    import lakeindex

    if step == "load":
        keys = {"key": KEY, "partition": ["ship_month"], "ordering": ["version"]}
        lakeindex.create_table(table, like=file, **keys).upsert(file)
    elif step == "scan":
        return lakeindex.open_table(table).scan(columns=["l_extendedprice"], where=_WHERE).to_arrow().num_rows
    elif step == "delete":
        lakeindex.open_table(table).delete(file)
    else:
        lakeindex.open_table(table).upsert(file)
    return lakeindex.open_table(table).count()


def _deltas(step: str, table: str, file: str) -> int:
    from deltalake import DeltaTable, write_deltalake

    if step == "load":
        write_deltalake(table, ds.dataset(file).scanner().to_reader(), partition_by=["ship_month"])
    elif step == "scan":
        rows = DeltaTable(table).to_pyarrow_dataset().to_table(["l_extendedprice"], filter=_condition())
        return int(rows.num_rows)
    else:
        on = " AND ".join(f"t.{name} = s.{name}" for name in (*KEY, "ship_month"))
        merge = DeltaTable(table).merge(pq.read_table(file), on, source_alias="s", target_alias="t")
        if step == "delete":
            merge.when_matched_delete().execute()
        else:
            merge.when_matched_update_all("s.version >= t.version").when_not_matched_insert_all().execute()
    return int(DeltaTable(table).to_pyarrow_dataset().count_rows())


def _datasets(_: str, table: str, __: str) -> int:
    files = [str(file) for file in Path(table).rglob("*.parquet") if ".hoodie" not in file.parts]
    return int(ds.dataset(files).to_table(["l_extendedprice"], filter=_condition()).num_rows)


def _step(peer: str, step: str, table: str, file: str) -> tuple[int, Usage]:
    """One step in this process, its engine imported: rows that it found or left, and what it cost."""
    import_module({"lakeindex": "lakeindex.api.table", "delta-rs": "deltalake"}.get(peer, "pyarrow.dataset"))
    with measured(os.getpid()) as usage:
        found = {"lakeindex": _ours, "delta-rs": _deltas, "dataset": _datasets}[peer](step, table, file)
    return found, usage


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All steps of all peers."""
    given, found = inputs(name), []
    with tempfile.TemporaryDirectory(prefix="tpch-", dir=DATA) as folder:

        def once(peer: str, step: str) -> Usage:
            engine = "lakeindex" if peer in _READER else peer
            base, work = Path(folder) / f"{engine}-base" / "lineitem", Path(folder) / "work" / "lineitem"
            at = base if step == "load" else work
            if step == "load":
                shutil.rmtree(base.parent, ignore_errors=True)
                base.parent.mkdir()
            else:
                restore(base.parent, work.parent)
            file = given.file("load" if step == "scan" else step)
            before = listing(at.parent)
            rows, usage = apart(_step, peer, step, str(at), str(file))
            usage.encoded_bytes = encoded_bytes(at, before)
            timings.checked(rows, given.rows[step])
            return usage

        for step, title in STEPS.items():
            reading = _READER if step == "scan" and "lakeindex" in peers else {}
            mine = {peer: Timing(name, peer, f"{title}: {(PEERS | reading)[peer]}") for peer in (*peers, *reading)}
            timings.in_turns(mine, runs, lambda peer, step=step: once(peer, step))
            timings.beside_delta(mine)
            found += mine.values()
    return found


PART: Final = Part("tpch", "lineitem of TPC-H beside delta-rs", SCALES, ["sf1"], PEERS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
