"""BenchBox's Write Primitives on lakeindex tables: ``python -m benchmarks.benchbox [--workload merge]``.

BenchBox's catalog says 136 operations on TPC-H in SQL, how each is validated, and how it is undone. Every table is a
lakeindex table; ``benchbox_sql`` moves each statement there. The same statements run in tables of DuckDB's own: every
validation must give the same rows in both, and so must every table that an operation or its undoing has touched.
"""

from __future__ import annotations

import re
import sys
import tempfile
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import pyarrow as pa

from benchmarks import environment
from benchmarks.benchbox_sql import Done, How, Lake, NoWordError, SourceTwiceError, parsed, targets
from benchmarks.harness import Part
from benchmarks.measuring import Usage
from benchmarks.timings import Timing, timed
from benchmarks.workloads import DATA
from lakeindex.errors import LakeIndexError

SCALE: Final = 0.01
CATEGORIES: Final = ("insert", "update", "delete", "bulk_load", "merge", "ddl", "sketch")
ALL: Final = "write_primitives"
#: Record keys of tables of which BenchBox's schema says no primary key; of others it is their first column.
KEYS: Final = {
    "insert_ops_orders_summary": ("o_orderkey", "o_custkey"),
    "insert_ops_lineitem_enriched": ("l_orderkey", "l_partkey", "l_suppkey"),
    "merge_ops_summary_target": ("o_orderkey", "o_custkey"),
    **dict.fromkeys(
        ("sketch_ops_daily_users", "sketch_ops_kll_partitions", "sketch_cpc_partitions", "sketch_req_partitions"),
        ("activity_date", "region"),
    ),
}
_EXTENSION: Final = re.compile(r"^(?:INSTALL datasketches FROM community|LOAD datasketches);\n", re.MULTILINE)
#: CURRENT_TIMESTAMP of both.
_MOMENT: Final = "TIMESTAMP '2026-01-01 12:00:00'"


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of BenchBox's own files, which a wheel has not
        yield


def catalog() -> Any:
    """BenchBox's operations by their ids."""
    found = str(environment.make_benchbox())
    if found not in sys.path:
        sys.path.append(found)
    with _quiet():
        from benchbox.core.write_primitives.catalog import load_write_primitives_catalog

        return load_write_primitives_catalog().operations


def inputs() -> Path:
    """TPC-H as Parquet, and BenchBox's own files to load, made at the first call."""
    folder = DATA / "benchbox"
    files = folder / "write_primitives_auxiliary"
    if (files / "csv_small_1k.csv.zst").exists():
        return folder
    folder.mkdir(parents=True, exist_ok=True)
    for words in (["tbl", "--tables=orders"], ["parquet"]):
        environment.tpch(folder, SCALE, *words)
    with _quiet():
        from benchbox.core.write_primitives.generator import WritePrimitivesDataGenerator

        WritePrimitivesDataGenerator(scale_factor=SCALE, output_dir=folder, quiet=True).generate_bulk_load_files()
    for file in sorted(files.glob("csv_*.csv"), reverse=True):  # the one that is asked for above is the last
        with pa.output_stream(f"{file}.zst", compression="zstd") as out:
            out.write(file.read_bytes())
    return folder


def truth(folder: Path) -> duckdb.DuckDBPyConnection:
    """TPC-H and BenchBox's staging tables in DuckDB, as BenchBox fills them."""
    with _quiet():
        from benchbox.core.tpch.schema import TABLES
        from benchbox.core.write_primitives.benchmark import WritePrimitivesBenchmark

        duck = duckdb.connect()
        for table in TABLES:
            duck.execute(table.get_create_table_sql())
        for table in TABLES:
            duck.execute(f"INSERT INTO {table.name} FROM '{folder / f'{table.name}.parquet'}'")
        WritePrimitivesBenchmark(scale_factor=SCALE, output_dir=folder, quiet=True).setup(duck, dialect="duckdb")
    return duck


def fill(lake: Lake, duck: duckdb.DuckDBPyConnection) -> None:
    """The same tables in lakeindex, but those that BenchBox keeps of itself."""
    tables = duck.execute("SELECT table_name, sql FROM duckdb_tables()").fetchall()
    for name, ddl in tables:
        if name.startswith("write_primitives_"):
            continue
        lake.execute(ddl)
        rows = duck.sql(f"FROM {name}").to_arrow_table()
        if rows.num_rows:
            lake.table(name).bulk_insert(rows)


class WrongError(Exception):
    """lakeindex's rows are not DuckDB's, or not what BenchBox expects."""


class Player:
    """Plays operations on both."""

    def __init__(self, lake: Lake, duck: duckdb.DuckDBPyConnection, files: Path) -> None:
        self.lake, self.duck, self._files = lake, duck, files
        for one in (lake.duck, duck):
            try:
                one.execute("INSTALL datasketches FROM community; LOAD datasketches")
            except duckdb.Error as error:
                print(f"DuckDB's extension datasketches is not here: {str(error).splitlines()[0]}", file=sys.stderr)

    def play(self, operation: Any) -> tuple[Done, Usage, float]:
        """An operation with its validations and its undoing; what it cost, and DuckDB's seconds."""
        sql = self._text(operation.platform_overrides.get("duckdb") or operation.write_sql)
        done, usage, own = Done(), Usage(), 0.0
        if operation.aggregate_state is not None:
            return Done(How.NO_WORD, why=["a PySpark frame is written to files, no table"]), usage, own
        touched = targets(parsed(sql))
        try:
            usage = timed(lambda: self.lake.execute(sql, done))
            own = timed(lambda: self._check_returned(done, sql)).seconds
            self._compare(touched, sql)
            self._validate(operation)
        except NoWordError as error:
            done = Done(How.NO_WORD, done.calls, [str(error)])
        except duckdb.CatalogException as error:
            done = Done(How.NOT_RUN, done.calls, [f"DuckDB's extension is not here: {str(error).splitlines()[0]}"])
        except SourceTwiceError as error:
            done = self._refused(sql, error)
        except (LakeIndexError, WrongError, duckdb.Error) as error:
            done = Done(How.FAILED, done.calls, [f"{type(error).__name__}: {error}"])
        self._undo(operation, touched, same=done.how < How.NO_WORD)
        return done, usage, own

    def _text(self, sql: str) -> str:
        found = _EXTENSION.sub("", sql).replace("{file_path}", str(self._files))
        return found.replace("CURRENT_TIMESTAMP", _MOMENT)

    def _check_returned(self, done: Done, sql: str) -> None:
        """DuckDB does the same; what RETURNING gives is the same."""
        rows: list[tuple[Any, ...]] = []
        for statement in self.duck.extract_statements(sql):
            rows = self.duck.execute(statement).fetchall()
        if done.rows is not None and sorted(map(repr, done.rows)) != sorted(map(repr, rows)):
            raise WrongError(f"RETURNING gave {done.rows[:3]}, DuckDB's own {rows[:3]}")

    def _refused(self, sql: str, error: Exception) -> Done:
        try:
            self.duck.execute(sql)
        except duckdb.Error as other:
            return Done(calls=["refused, as DuckDB does"], why=[f"DuckDB: {str(other).splitlines()[0]}"])
        return Done(How.FAILED, why=[f"{error}; DuckDB does it"])

    def _validate(self, operation: Any) -> None:
        for query in operation.validation_queries:
            sql = query.platform_overrides.get("duckdb", query.sql)
            if sql is None:
                continue
            found, wanted = self.lake.query(sql), self.duck.execute(sql).fetchall()
            same = len(found) == len(wanted) if _is_any(sql) else sorted(map(repr, found)) == sorted(map(repr, wanted))
            if not same:
                raise WrongError(f"{query.id}: {found[:3]}, DuckDB's own tables: {wanted[:3]}")
            if not meets(query, found):
                raise WrongError(
                    f"{query.id}: {found[:3]} is not what BenchBox expects, in DuckDB's own tables neither"
                )

    def _compare(self, names: Iterable[str], sql: str) -> None:
        """Tables are the same in both. Where a statement takes any rows, as many; DuckDB gets those then."""
        there = set(self.lake.names())
        for name in names:
            if (name in there) != (name in self._tables()):
                raise WrongError(f"table {name} is in one of both")
            if name not in there:
                continue
            ours = self.lake.table(name).scan().to_arrow()
            self.duck.register("ours", ours)
            if _is_any(sql):
                wanted = self.duck.execute(f"SELECT count(*) FROM {name}").fetchone()
                if wanted != (ours.num_rows,):
                    raise WrongError(f"{name} has {ours.num_rows} rows, DuckDB's own {wanted}")
                self.duck.execute(f"DELETE FROM {name}; INSERT INTO {name} FROM ours")
            for one, other in ((name, "ours"), ("ours", name)):
                odd = self.duck.execute(f"(FROM {one}) EXCEPT ALL (FROM {other}) LIMIT 1").fetchone()
                if odd is not None:
                    raise WrongError(f"{name} differs: {odd} is in {one} only")

    def _tables(self) -> set[str]:
        return {str(name) for (name,) in self.duck.execute("SELECT table_name FROM duckdb_tables()").fetchall()}

    def _undo(self, operation: Any, touched: Sequence[str], *, same: bool) -> None:
        """The catalog's clean-up in both; what has failed gets DuckDB's rows."""
        sql = self._text(operation.cleanup_sql or "")
        for tree in parsed(sql):
            names = targets([tree])
            if tree.key == "drop":
                for name in names:
                    self.lake.remove(name)
            elif same:
                self.lake.execute(tree.sql(dialect="duckdb"))
            self.duck.execute(tree.sql(dialect="duckdb"))
            touched = [*touched, *names]
        known, kept = set(self.lake.names()), self._tables()
        for name in dict.fromkeys(touched):
            if same:
                self._compare([name], sql)
            elif name in known - kept:
                self.lake.remove(name)
            elif name in known:
                self.lake.table(name).insert_overwrite_table(self.duck.sql(f"FROM {name}").to_arrow_table())


def _is_any(sql: str) -> bool:
    """Whether SQL takes some rows of several, no matter which."""
    return "LIMIT" in sql.upper()


def meets(query: Any, rows: Sequence[tuple[Any, ...]]) -> bool:
    """What BenchBox asks of a validation's rows."""
    if query.expected_rows is not None:
        return len(rows) == query.expected_rows
    if query.expected_rows_min is not None or query.expected_rows_max is not None:
        most = float("inf") if query.expected_rows_max is None else query.expected_rows_max
        return (query.expected_rows_min or 0) <= len(rows) <= most
    if query.expected_value_min is not None:
        return bool(rows) and all(query.expected_value_min <= float(row[0]) <= query.expected_value_max for row in rows)
    return True


def measure(name: str, _peers: tuple[str, ...], runs: int) -> list[Timing]:
    """All operations, or those of a category, each run on tables that were made anew."""
    operations, folder = catalog(), inputs()
    chosen = [one for one in operations.values() if name in (ALL, one.category)]
    found = {one.id: Timing(name, one.id, one.id) for one in chosen}
    for _ in range(runs):
        with tempfile.TemporaryDirectory(prefix="benchbox-", dir=DATA) as place:
            lake, duck = Lake(Path(place), KEYS), truth(folder)
            fill(lake, duck)
            player = Player(lake, duck, folder / "write_primitives_auxiliary")
            for one in chosen:
                done, usage, own = player.play(one)
                print(f"  {one.id:45} {done.how.name.lower():9} {usage.seconds:8.2f} s", flush=True)
                _keep(found[one.id], one, done, usage, own)
    return list(found.values())


def _keep(timing: Timing, operation: Any, done: Done, usage: Usage, own: float) -> None:
    timing.add(usage)
    before = How[timing.facts["how"]] if timing.facts else How.NATIVE
    timing.facts = {
        "category": operation.category,
        "how": max(before, done.how).name,
        "calls": "; ".join(done.calls),
        "why": "; ".join(dict.fromkeys(done.why)),
        "DuckDB s": f"{own:.3f}",
    }
    if done.how is How.FAILED:
        timing.fail(WrongError(timing.facts["why"]))


PART: Final = Part("benchbox", "BenchBox's Write Primitives", (ALL, *CATEGORIES), [ALL], ["lakeindex"], measure)

if __name__ == "__main__":
    raise SystemExit(PART.main())
