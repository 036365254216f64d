"""duckrun's chain of merges on TPC-H's lineitem, by lakeindex, delta-rs and Hudi: ``python -m benchmarks.duckrun``.

The operations and their sizes are those that duckrun publishes (djouallah/duckrun: docs/merge-benchmark.md): each works
on what the one before it left. The key is order and line number; the table has no partitions and nothing that orders
changes. Each step of each engine has a process of its own; Hudi's Spark session is up before its step is timed. DuckDB
plays the same chain in SQL; after each step every row of the table is compared with it, by their number and the sum of
their hashes.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Final

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from benchmarks import environment, timings
from benchmarks.harness import Part
from benchmarks.measuring import Usage, apart, encoded_bytes, listing, measured, restore
from benchmarks.peers.hudi import CONF
from benchmarks.peers.spark35 import Spark35
from benchmarks.timings import Timing
from benchmarks.tpch import KEY
from benchmarks.tpch import PEERS as WITHOUT_SPARK
from benchmarks.workloads import DATA
from scripts import interop_env

SCALES: Final = {"sf1": 1.0, "sf10": 10.0, "T_chain": 0.002}
PEERS: Final = {**WITHOUT_SPARK, "hudi": "Hudi 1.2.0 on Spark 3.5, at its own defaults"}
STEPS: Final = {
    "load": "load",
    "mixed": "mixed upsert of 1 %, a fifth of it new",
    "inserts": "insert of 5 % new rows of the future",
    "updates": "update of 5 %",
    "again": "the same 5 % again",
    "cdc": "one batch that deletes 0.5 %, updates 1.5 % and inserts 1 %",
    "sync": "full sync: a quarter of the rows, updated; all others go",
    "expression": "update by an expression where a condition holds, 10 % of the rows",
}
_GONE: Final = "tombstone"
#: Spreads rows evenly, whatever their order.
_DRAW: Final = "(l_orderkey * 7 + l_linenumber * 13)"
_SET: Final = {"l_extendedprice": "l_extendedprice * 2", "l_comment": "'expression'"}
_WHERE: Final = "l_discount = 0.04"


def _batches(last: int) -> dict[str, str]:
    """Each batch as a query of the table that it meets; ``last`` is the greatest order key of the load."""
    new = f"l_orderkey + {last} AS l_orderkey"
    changed = "l_quantity + 1 AS l_quantity"
    return {
        "mixed": f"""
            SELECT * REPLACE (CASE WHEN {_DRAW} // 100 % 5 = 0 THEN l_orderkey + {last} ELSE l_orderkey END
                              AS l_orderkey, {changed}, 'mixed' AS l_comment) FROM target WHERE {_DRAW} % 100 = 0""",
        "inserts": f"""
            SELECT * REPLACE (l_orderkey + {2 * last} AS l_orderkey, DATE '2035-01-01' AS l_shipdate)
            FROM target WHERE l_orderkey <= {last} AND {_DRAW} % 20 = 1""",
        "updates": f"SELECT * REPLACE ({changed}, 'update' AS l_comment) FROM target WHERE {_DRAW} % 20 = 2",
        "again": "",
        "cdc": f"""
            SELECT * REPLACE ({changed}, CASE WHEN {_DRAW} % 200 = 3 THEN '{_GONE}' ELSE 'cdc' END AS l_comment)
            FROM target WHERE {_DRAW} % 200 IN (3, 5, 7, 9)
            UNION ALL SELECT * REPLACE ({new.replace(str(last), str(3 * last))}, 'cdc' AS l_comment)
            FROM target WHERE l_orderkey <= {last} AND {_DRAW} % 100 = 11""",
        "sync": f"SELECT * REPLACE ({changed}, 'sync' AS l_comment) FROM target WHERE {_DRAW} % 4 = 0",
    }


def _content(connection: duckdb.DuckDBPyConnection, rows: str, columns: Sequence[str]) -> list[str]:
    """How many rows there are, and the sum of their hashes, whatever their order."""
    asked = f"SELECT count(*), sum(hash({', '.join(sorted(columns))})::HUGEINT)::VARCHAR FROM {rows}"
    return [str(value) for value in connection.execute(asked).fetchone() or ()]


def inputs(name: str) -> Path:
    """The folder of a scale: its load, its batches, and what each step leaves, made at the first call."""
    folder = DATA / "duckrun" / name
    if not (folder / "expected.json").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        environment.tpch(folder, SCALES[name], "parquet", "--tables=lineitem")
        (folder / "lineitem.parquet").rename(folder / "load.parquet")
        expected = _play(folder)
        (folder / "expected.json").write_text(json.dumps(expected), encoding="utf-8")
    return folder


def _play(folder: Path) -> dict[str, list[str]]:
    """Play the chain in DuckDB, write its batches, and return rows and the sum of their hashes after each step."""
    state = folder / "chain.duckdb"
    with duckdb.connect(str(state)) as connection:
        connection.execute("SET preserve_insertion_order = false; SET memory_limit = '8GB'")
        connection.execute(f"CREATE TABLE target AS FROM '{folder / 'load.parquet'}'")
        last = int((connection.execute("SELECT max(l_orderkey) FROM target").fetchone() or (0,))[0])
        types = {name: kind for name, kind, *_ in connection.execute("DESCRIBE target").fetchall()}
        expected = {"load": _content(connection, "target", list(types))}
        typed = ", ".join(f"{name}::{kind} AS {name}" for name, kind in types.items())
        for step, query in _batches(last).items():
            file = folder / f"{step}.parquet"
            if query:
                connection.execute(
                    f"COPY (SELECT {typed} FROM ({query})) TO '{file}' (FORMAT parquet, COMPRESSION snappy)"
                )
            else:
                os.link(folder / "updates.parquet", file)
            keep = "false" if step == "sync" else f"NOT EXISTS (FROM '{file}' s WHERE {_same('s', 'target')})"
            connection.execute(f"""
                CREATE TABLE next AS SELECT * FROM target WHERE {keep}
                UNION ALL FROM '{file}' WHERE l_comment <> '{_GONE}';
                DROP TABLE target; ALTER TABLE next RENAME TO target""")
            expected[step] = _content(connection, "target", list(types))
        values = ", ".join(f"({value})::{types[name]} AS {name}" for name, value in _SET.items())
        connection.execute(f"""
            CREATE TABLE next AS SELECT * REPLACE ({values}) FROM target WHERE {_WHERE}
            UNION ALL FROM target WHERE NOT {_WHERE}; DROP TABLE target; ALTER TABLE next RENAME TO target""")
        expected["expression"] = _content(connection, "target", list(types))
    state.unlink()
    return expected


def _same(left: str, right: str) -> str:
    return " AND ".join(f"{left}.{name} = {right}.{name}" for name in KEY)


def _ours(step: str, table: str, file: str) -> None:
    import lakeindex

    if step == "load":
        lakeindex.create_table(table, like=file, key=KEY).upsert(file)
    elif step == "cdc":
        lakeindex.open_table(table).upsert(file, delete_if=f"new.l_comment = '{_GONE}'")
    elif step == "sync":
        lakeindex.open_table(table).insert_overwrite_table(file)
    elif step == "expression":
        lakeindex.open_table(table).update(_SET, where=_WHERE)
    else:
        # A batch that was committed is passed over when it comes again: with an id of its own it is merged.
        lakeindex.open_table(table).upsert(file, batch_id=step)


def _deltas(step: str, table: str, file: str) -> None:
    from deltalake import DeltaTable, write_deltalake

    if step == "load":
        write_deltalake(table, ds.dataset(file).scanner().to_reader())
    elif step == "expression":
        DeltaTable(table).update(updates=_SET, predicate=_WHERE)
    else:
        merge = DeltaTable(table).merge(pq.read_table(file), _same("s", "t"), source_alias="s", target_alias="t")
        if step == "cdc":
            gone, kept = (f"s.l_comment {how} '{_GONE}'" for how in ("=", "<>"))
            merge.when_matched_delete(gone).when_matched_update_all().when_not_matched_insert_all(kept).execute()
        elif step == "sync":
            merge.when_matched_update_all().when_not_matched_by_source_delete().execute()
        else:
            merge.when_matched_update_all().when_not_matched_insert_all().execute()


def _hudis(spark: Spark35, step: str, table: str, file: str) -> None:
    """Without Hudi's ``MERGE`` a batch that deletes is two writes."""
    own = {"hoodie.table.name": "lineitem", "hoodie.datasource.write.recordkey.field": ",".join(KEY)}
    if step != "expression":
        spark.read([Path(file)], "batch")

    def write(operation: str, rows: str = "batch") -> None:
        options = own | {"hoodie.datasource.write.operation": operation}
        spark.write(rows, Path(table), "hudi", options, mode="overwrite" if step == "load" else "append")

    if step == "load":
        write("bulk_insert")
    elif step == "cdc":
        for view, how in (("gone", "="), ("kept", "<>")):
            spark.sql(f"CREATE TEMPORARY VIEW {view} AS SELECT * FROM batch WHERE l_comment {how} '{_GONE}'")
        write("delete", "gone")
        write("upsert", "kept")
    elif step == "sync":
        write("insert_overwrite_table")
    elif step == "expression":
        spark.sql(f"CREATE TABLE lineitem USING hudi LOCATION '{table}'")
        spark.sql(
            f"UPDATE lineitem SET {', '.join(f'{name} = {value}' for name, value in _SET.items())} WHERE {_WHERE}"
        )
    else:
        write("upsert")


@contextmanager
def _engine(peer: str) -> Iterator[Callable[[str, str, str], None]]:
    """What does a step, imported or up."""
    if peer == "hudi":
        interop_env.make()
        with closing(Spark35([interop_env.bundle("1.2.0")], CONF)) as spark:
            yield partial(_hudis, spark)
    else:
        import_module("lakeindex.api.table" if peer == "lakeindex" else "deltalake")
        yield {"lakeindex": _ours, "delta-rs": _deltas}[peer]


def _step(peer: str, step: str, table: str, file: str) -> Usage:
    """One step by an engine of this process."""
    with _engine(peer) as play, measured(os.getpid()) as usage:
        play(step, table, file)
    return usage


def _found(peer: str, table: str) -> list[str]:
    """Rows of a table and the sum of their hashes, read by its own engine; Hudi's by lakeindex."""
    if peer != "delta-rs":
        import lakeindex

        found: pa.RecordBatchReader = lakeindex.open_table(table).scan().to_batches()
    else:
        from deltalake import DeltaTable

        found = DeltaTable(table).to_pyarrow_dataset().scanner().to_reader()
    with duckdb.connect() as connection:
        connection.register("found", found)
        columns = [name for name in found.schema.names if name.startswith("l_")]
        return _content(connection, "found", columns)


def measure(name: str, peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All steps of all peers; a step that fails ends its peer's chain."""
    given = inputs(name)
    found: list[Timing] = []
    expected = json.loads((given / "expected.json").read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="duckrun-", dir=DATA) as folder:

        def once(step: str, peer: str) -> Usage:
            base, work = Path(folder) / f"{peer}-base" / "lineitem", Path(folder) / f"{peer}-work" / "lineitem"
            if base.exists():
                restore(base.parent, work.parent)
            else:
                shutil.rmtree(work.parent, ignore_errors=True)
                work.parent.mkdir()
            before = listing(work.parent)
            usage = apart(_step, peer, step, str(work), str(given / f"{step}.parquet"))
            usage.encoded_bytes = encoded_bytes(work, before)
            left = apart(_found, peer, str(work))
            if left != expected[step]:
                raise AssertionError(f"rows and hashes after {step}: {left} instead of {expected[step]}")
            return usage

        going = list(peers)
        for step, title in STEPS.items():
            mine = {peer: Timing(name, peer, f"{title}: {PEERS[peer]}") for peer in going}
            timings.in_turns(mine, runs, partial(once, step), warm_up=False)
            timings.beside_delta(mine)
            for peer in going:
                base, work = Path(folder) / f"{peer}-base", Path(folder) / f"{peer}-work"
                shutil.rmtree(base, ignore_errors=True)
                work.rename(base)
            going = [peer for peer in going if mine[peer].failed is None]
            found += mine.values()
    return found


PART: Final = Part("duckrun", "duckrun's chain of merges beside delta-rs and Hudi", SCALES, ["sf1"], PEERS, measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
