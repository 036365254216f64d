"""Conditions of 20,000 parts: what Arrow follows by recursion stays shallow, whatever they consist of, and is right."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from functools import reduce
from itertools import accumulate
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.arrow_expressions import expression_of
from lakeindex.predicates.bounds import Bounds, answers, may_be_true
from lakeindex.predicates.nodes import And, Node, Not, OneOf, Or
from lakeindex.predicates.predicate import predicate_of
from tests.builders import Row, batch_of, make_table

MANY = 20_000
SCHEMA = pa.schema([("n", pa.int64()), ("f", pa.float64()), ("g", pa.float32()), ("s", pa.string())])
ROWS = pa.table([[1, 2, None], [0.5, float("nan"), None], [-0.0, 1, None], ["1", "x", None]], schema=SCHEMA)
PARTS: dict[str, list[bool | None]] = {  # joined by OR
    "n > {0} AND s != '{0}'": [False, False, None],
    "n BETWEEN {0} AND {1}": [False, False, None],
    "s LIKE '{0}_'": [False, False, None],
    "NOT (f <= {0})": [False, True, None],
    "f IS DISTINCT FROM {0}": [True, True, True],
}


def depth_of(expression: pc.Expression) -> int:
    return max(accumulate((one == "(") - (one == ")") for one in str(expression)))


def parts_of(text: str, count: int) -> tuple[Node, ...]:
    """Parts as they are read, fifty different ones again and again."""
    some = [predicate_of(text.format(7 + n, 8 + n), SCHEMA).node for n in range(50)]
    return tuple(some[n % 50] for n in range(count) if some[n % 50] is not None)  # type: ignore[misc]


def test_chains_of_whatever_parts():
    rows = ROWS.append_column("x", [[0, 1, 2]])
    for place, (text, answered) in enumerate(PARTS.items()):
        assert depth_of(expression_of(Or(parts_of(text, 3000)))) < 300, text
        parts = parts_of(text, 300 if place else MANY)
        for node in (Or(parts), Not(And(tuple(map(Not, parts))))):
            found = rows.filter(expression_of(node))["x"].to_pylist()
            assert found == [row for row, answer in enumerate(answered) if answer], text
            assert may_be_true(node, {})


def test_one_column_asked_for_many_values_is_one_list():
    def read(joint: str, parts: Sequence[str]) -> Node | None:
        return predicate_of(joint.join(parts), SCHEMA).node

    equal = [f"n = {number}" for number in range(1000)]
    assert (
        read(" OR ", equal)
        == read(" OR ", ["n IN (0, 1)", "n = 999", *equal])
        == OneOf(
            predicate_of("n = 1", SCHEMA).node.operand,
            tuple(range(1000)),
            pa.array(range(1000)),  # type: ignore[union-attr]
        )
    )
    unlike = [one.replace("=", "!=") for one in equal]
    assert read(" AND ", unlike) == read(" AND ", ["n NOT IN (0, 1)", "NOT n = 5", *unlike]) == Not(read(" OR ", equal))  # type: ignore[arg-type]
    for text, chosen in (
        ("n = 1 OR s = 'x' OR n = 7 OR s IN ('y', NULL)", [1, 2]),
        ("n != 1 AND s != '1' AND n != 3", [2]),
        ("n != 1 AND n NOT IN (5, NULL)", []),
        ("n = 1 AND n = 2", []),
        ("n != 1 OR n != 2", [1, 2]),
        ("n + 1 = 2 OR n + 1 = 3", [1, 2]),
        ("f != 0.5 AND f != 1", [2]),
        ("NOT f = 0.5 AND NOT (f = 1 OR f > 7)", []),
        ("g = 0 OR g = 9", [1]),
    ):
        assert predicate_of(text, SCHEMA).filter(ROWS)["n"].to_pylist() == chosen, text


def test_lists_of_many_floats_know_both_zeros_and_no_nan():
    values = ", ".join(str(number / 2) for number in range(1000))
    for column, chosen, others in (("f", [1], [2]), ("g", [1, 2], [])):
        assert depth_of(predicate_of(f"{column} IN ({values})", SCHEMA).expression) < 20
        assert predicate_of(f"{column} IN ({values})", SCHEMA).filter(ROWS)["n"].to_pylist() == chosen
        assert predicate_of(f"{column} NOT IN ({values})", SCHEMA).filter(ROWS)["n"].to_pylist() == others


def test_facts_settle_long_chains():
    chain = Or(parts_of("n BETWEEN {0} AND {1}", MANY))
    assert answers(chain, {("n",): Bounds(0, 5, may_be_null=False)}) == {False}
    assert answers(Not(chain), {("n",): Bounds(8, 8, may_be_null=False)}) == {False}


def test_expressions_of_pyarrow_that_arrow_would_nest_too_deep_are_refused():
    """Arrow would end the process: where it is bound, or already where it is written as a text."""
    n = pc.field("n")
    pairs = [n == number for number in range(2048)]
    while len(pairs) > 1:
        pairs = [one | other for one, other in zip(pairs[::2], pairs[1::2], strict=True)]
    for deep in (
        reduce(operator.or_, (n == number for number in range(MANY))),
        reduce(operator.and_, (pc.starts_with(pc.field("s"), "(or)") for _ in range(1500))),
        pairs[0],
        reduce(lambda one, _: ~one, range(1500), n == 1),
        reduce(lambda one, _: one + 1, range(1500), n) > 1,
    ):
        with pytest.raises(UsageError, match="isin") as caught:
            predicate_of(deep, SCHEMA)
        assert len(str(caught.value)) < 500
    for shallow in (
        reduce(operator.or_, (n == number for number in range(900))),
        n.isin(list(range(MANY))),
        (pc.field("s") != '("or" \\ and ' * 2000) & (n == 1),
    ):
        assert predicate_of(shallow, SCHEMA).filter(ROWS)["n"].to_pylist() in ([1], [1, 2])


def test_every_door_takes_them(tmp_path: Path):
    """One text through scan, count, update, upsert and delete; it is read once for each set of columns."""
    table = make_table(tmp_path / "t", partitions=())
    table.upsert(batch_of([Row(f"k{n}", "d", n, "x") for n in range(4)]))
    chain = " OR ".join(f"v > 'x{number}'" for number in range(6000))
    where = f"ts = 3 OR {chain}"
    assert table.scan(where=where).to_arrow()["id"].to_pylist() == ["k3"]
    assert table.scan(where=where).count() == 1
    assert table.update(where=where, set={"day": "'e'"}).updates == 1
    assert table.delete(where=where, dry_run=True).deletes == 1
    old = chain.replace("v >", "old.v >")
    summary = table.upsert(batch_of([Row(f"k{n}", "f", n, "y") for n in range(4)]), update_if=f"old.day = 'e' OR {old}")
    assert (summary.updates, summary.ignored) == (1, 3)
    assert table.delete(where=where).deletes == 1
