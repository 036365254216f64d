"""SQL that is moved to lakeindex tables leaves what DuckDB's own tables have."""

from __future__ import annotations

from pathlib import Path

import duckdb
import pytest

from benchmarks import benchbox_sql, scorecard
from benchmarks.benchbox_sql import How, Lake, NoWordError, SourceTwiceError
from benchmarks.timings import Measurement, Timing

_DDL = "CREATE TABLE {} (id INTEGER PRIMARY KEY, name VARCHAR(10) NOT NULL, price DECIMAL(9,2), day DATE)"
_ROWS = "INSERT INTO t VALUES (1, 'a', 1.5, DATE '2026-01-01'), (2, 'b', 2.25, NULL), (3, 'c', NULL, DATE '2026-03-01')"
_SOURCE = "(SELECT * FROM (VALUES (2, 'x', 9.0), (7, 'y', 8.0)) v(id, name, p)) AS s"

#: Statements, how they are done, and the calls.
_ON = f"USING {_SOURCE} ON t.id = s.id"
_MORE = "WHEN MATCHED THEN UPDATE SET price = t.price + s.p, name = s.name"
_TWO = "WHEN MATCHED AND s.p > 8.5 THEN UPDATE SET name = 'much' WHEN MATCHED THEN UPDATE SET name = 'less'"
_GONE = "WHEN MATCHED THEN UPDATE SET name = s.name WHEN NOT MATCHED BY SOURCE AND t.id < 2 THEN DELETE"
_OTHER = "WHEN NOT MATCHED THEN INSERT VALUES (s.id + 100, s.name, s.p, NULL)"
_INSERTED = "WHEN NOT MATCHED THEN INSERT VALUES (s.id, s.name, s.p, NULL)"
#: Statements one after the other, how they are done, and the calls.
_CASES = (
    ("INSERT INTO t (name, id) SELECT 'n' || id, id + 10 FROM t", How.NATIVE, "insert"),
    ("INSERT OR IGNORE INTO t VALUES (1, 'z', 0, NULL), (9, 'z', 0, NULL)", How.NATIVE, "insert, on_conflict"),
    ("UPDATE t SET price = price * 1.1, name = 'u' WHERE id = (SELECT min(id) + 1 FROM t)", How.NATIVE, "update"),
    ("UPDATE t SET name = o.name || '!' FROM o WHERE o.id = t.id", How.COMPUTED, "upsert of computed columns"),
    (
        f"MERGE INTO t {_ON} {_MORE} {_INSERTED.replace('MATCHED', 'MATCHED AND s.p > 8.5')}",
        How.NATIVE,
        "upsert, insert_if, merge",
    ),
    (f"MERGE INTO t {_ON} {_TWO} {_INSERTED}", How.NATIVE, "upsert, merge"),
    (f"MERGE INTO t {_ON} WHEN MATCHED THEN UPDATE SET name = s.name", How.NATIVE, "upsert, partial, insert_if"),
    (f"MERGE INTO t {_ON} {_GONE}", How.COMPUTED, "upsert of computed rows"),
    (f"MERGE INTO t {_ON.replace('t.id = s.id', 't.price = s.p')} {_OTHER}", How.COMPUTED, "upsert of computed rows"),
    ("DELETE FROM t WHERE id IN (SELECT id FROM o WHERE id > 2)", How.NATIVE, "delete where"),
    ("DELETE FROM t WHERE EXISTS (SELECT 1 FROM o WHERE o.id = t.id)", How.COMPUTED, "delete of computed keys"),
    ("DELETE FROM t WHERE id > 11 RETURNING id, name", How.NATIVE, "delete where; changes"),
    ("TRUNCATE TABLE t", How.NATIVE, "truncate"),
)


class _Both:
    """Tables ``t`` and ``o`` of lakeindex and of DuckDB."""

    def __init__(self, folder: Path) -> None:
        self.lake, self.duck = Lake(folder), duckdb.connect()
        for name in "to":
            self.run(_DDL.format(name))
            self.run(_ROWS.replace("INTO t", f"INTO {name}"))

    def run(self, sql: str) -> benchbox_sql.Done:
        done = self.lake.execute(sql)
        returned = self.duck.execute(sql).fetchall()
        if done.rows is not None:
            assert sorted(done.rows) == sorted(returned)
        return done

    def check(self) -> None:
        ordered = "SELECT * FROM t ORDER BY id"
        assert self.lake.query(ordered) == self.duck.execute(ordered).fetchall()


@pytest.fixture
def both(tmp_path: Path) -> _Both:
    return _Both(tmp_path)


@pytest.mark.slow
def test_statements_leave_what_duckdb_leaves(both: _Both) -> None:
    for sql, how, calls in _CASES:
        done = both.run(sql)
        assert (done.how, "; ".join(done.calls)) == (how, calls), sql
        both.check()


def test_a_file_is_loaded_by_lakeindex_unless_it_has_no_option(both: _Both, tmp_path: Path) -> None:
    file = tmp_path / "rows.csv"
    file.write_text('id|name|price|day\n5|"x|y"|1.25|2026/01/31\n')
    options = "FORMAT CSV, HEADER true, DELIMITER '|'"
    done = both.run(f"COPY t FROM '{file}' ({options}, DATEFORMAT '%Y/%m/%d')")
    assert done.why == ["COPY: there is no option for DATEFORMAT"]
    both.check()
    file.write_text(file.read_text().replace("/", "-").replace("5", "6", 1))
    done = both.run(f"COPY t FROM '{file}' ({options})")
    assert (done.how, done.calls) == (How.NATIVE, ["insert of the file"])
    both.check()


def test_what_has_no_word_is_refused_and_nothing_is_done(both: _Both) -> None:
    for sql, told in (
        ("CREATE VIEW v AS SELECT * FROM t", "CREATE VIEW"),
        ("CREATE INDEX i ON t (name)", "CREATE INDEX"),
        ("ALTER TABLE t ADD COLUMN x DATE", "ADD COLUMN"),
        ("ALTER TABLE t DROP COLUMN name", "DROP COLUMN"),
        ("ALTER TABLE t RENAME COLUMN name TO called", "RENAME COLUMN"),
        ("DROP TABLE t", "DROP TABLE"),
        ("VACUUM t", "no statement of a table"),
    ):
        with pytest.raises(NoWordError, match=told):
            both.lake.execute(sql)
    twice = _SOURCE.replace("(7,", "(2,")
    with pytest.raises(SourceTwiceError):
        both.lake.execute(f"MERGE INTO t USING {twice} ON t.id = s.id WHEN MATCHED THEN UPDATE SET name = s.name")
    both.check()


def test_the_section_counts_operations_and_says_why() -> None:
    facts = {"category": "ddl", "calls": "", "DuckDB s": "0.5"}
    timings = [
        Timing("write_primitives", "one", "one", seconds=[1.0], facts={**facts, "how": "NATIVE", "why": ""}),
        Timing("write_primitives", "two", "two", seconds=[2.0], facts={**facts, "how": "NO_WORD", "why": "no views"}),
        Timing("ddl", "three", "three", seconds=[2.0], facts={**facts, "how": "FAILED", "why": "trial"}),
    ]
    text = "\n".join(scorecard.benchbox(Measurement("benchbox", "machine", "day", "abc", timings)))
    assert "| ddl | 2 | 1 |  | 1 |  |  | 3.0 | 1.0 |" in text
    assert "| no views | `two` |" in text
    assert "trial" not in text
