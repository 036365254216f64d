"""Changes by condition, partial updates, conditions of an upsert and overwritten partitions, with a real HBase: it follows
each of them, and so does the next look-up.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.errors import InvariantError
from lakeindex.run.summary import RunSummary
from tests.builders import Row, batch_of, content_of
from tests.hbase.conftest import Bench
from tests.hbase.test_upserts import assert_follows, places
from tests.stored_indexes import clustered, inserted, unseen

pytestmark = pytest.mark.hbase

STORED = [Row("a", "x", 1, "1"), Row("b", "x", 5, "5"), Row("c", "y", 1, "1"), Row("d中", "y", 5, "5")]
AS_STORED = {"a": ("x", 1, "1"), "b": ("x", 5, "5"), "c": ("y", 1, "1"), "d中": ("y", 5, "5")}

Options = dict[str, str]
Values = dict[str, tuple[object, ...]]

CASES: dict[str, tuple[Callable[[LakeTable, Options], RunSummary], dict[str, int], Values]] = {
    "delete(where)": (
        lambda table, options: table.delete(where="ts > 1", options=options),
        {"deletes": 2},
        {"b": (), "d中": ()},
    ),
    "update(where)": (
        lambda table, options: table.update({"v": "v || '!'"}, where="day = 'x'", options=options),
        {"updates": 2},
        {"a": ("x", 1, "1!"), "b": ("x", 5, "5!")},
    ),
    "partial": (
        lambda table, options: table.upsert(
            batch_of([Row("a", "x", 7, "")]).select(["id", "day", "ts"]), partial=True, options=options
        ),
        {"updates": 1},
        {"a": ("x", 7, "1")},
    ),
    "conditions": (
        lambda table, options: table.upsert(
            batch_of([Row(key, day, 9, "9") for key, day in zip("abcno", "xxyzz", strict=True)]),
            update_if="old.ts = 1",
            insert_if="new.id = 'n'",
            delete_if="new.id = 'c'",
            options=options,
        ),
        {"updates": 1, "inserts": 1, "deletes": 1, "ignored": 2},
        {"a": ("x", 9, "9"), "c": (), "n": ("z", 9, "9")},
    ),
    "insert_overwrite": (
        lambda table, options: table.insert_overwrite(batch_of([Row("b", "x", 2, "2"), Row("m", "x", 2, "2")]), options=options),
        {"inserts": 2},
        {"a": (), "b": ("x", 2, "2"), "m": ("x", 2, "2")},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_hbase_follows(bench: Bench, case: str) -> None:
    change, fates, changed = CASES[case]
    table, options = bench.table(), bench.options()
    table.upsert(batch_of(STORED), options=options)
    done = change(table, options)
    assert done.fates == fates
    expected = {key: row for key, row in (AS_STORED | changed).items() if row}

    def is_as_expected() -> None:
        assert {str(key): (day, ts, v) for _, key, day, ts, v in content_of(table)} == expected
        found = {key: row.place for key, row in bench.held().items()}
        if done.rows_replaced:  # entries of replaced files stay; look-ups pass over them
            found = {key: place for key, place in found.items() if key in expected}
        assert found == places(table)

    is_as_expected()
    keys = sorted(AS_STORED.keys() | changed.keys())
    again = table.upsert(batch_of([Row(key, "z", 20, "20") for key in keys]), options=options)
    assert (again.inserts, again.updates + again.moved) == (len(keys) - len(expected), len(expected))
    expected = dict.fromkeys(keys, ("z", 20, "20"))
    is_as_expected()
    assert table.check().ok


@pytest.mark.parametrize("verify", ["true", "false"])
def test_keys_that_another_writer_stores_more_than_once(bench: Bench, verify: str) -> None:
    """Every copy is known, whichever of them go; a row says that there are several beside what Hudi reads of it."""
    table, options = bench.table(), bench.options(lakeindex__hbase__verify__puts=verify)
    table.upsert(batch_of([Row(key, "x", 1, "1") for key in "abcd"]), options=options)
    first = bench.held()
    inserted(table, [Row("a", "x", 3, "3"), Row("b", "x", 3, "3")])
    inserted(table, [Row(key, "y", 5, "5") for key in "abc"])
    gone = table.delete(batch_of([Row("b", "x", 0, None)]).select(["id", "day"]), options=options)
    assert (gone.deletes, gone.copies) == (1, 2)
    held = bench.held()
    assert {key for key, row in held.items() if row.several} == {"a", "c"}
    assert (held["d"], held["a"].partition) == (first["d"], "y")
    with pytest.raises(InvariantError, match="key 'a' is stored 3 times"):
        table.upsert(batch_of([Row("a", "x", 9, "9")]), options=options)
    rows = batch_of([Row("a", "x", 9, ""), Row("c", "x", 9, "")])
    table.upsert(rows, delete_if="old.v = '1'", update_if="FALSE", options=options)
    assert {key for key, row in bench.held().items() if row.several} == {"a"}
    with pytest.raises(InvariantError, match="key 'a' is stored 2 times"):
        table.upsert(batch_of([Row("a", "x", 9, "9")]), options=options)
    table.upsert(rows, delete_if="old.v = '3'", update_if="FALSE", options=options)
    assert_follows(bench, table)
    again = table.upsert(batch_of([Row(key, "y", 9, "9") for key in "abc"]), options=options)
    assert (again.inserts, again.updates) == (1, 2)
    assert len(content_of(table)) == 4
    assert_follows(bench, table)


def test_keys_that_another_writer_puts_elsewhere_have_one_place(bench: Bench) -> None:
    table, options = bench.table(), bench.options()
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1"), Row("c", "y", 1, "1")]), options=options)
    unseen(table, "GLOBAL_SIMPLE", [Row("a", "y", 2, "2")], hoodie__simple__index__update__partition__path="true")
    clustered(table, "x")
    done = table.upsert(batch_of([Row(key, day, 3, "3") for key, day in ("ay", "bx", "cy")]), options=options)
    assert done.updates == 3
    assert not any(row.several for row in bench.held().values())
    assert_follows(bench, table)
