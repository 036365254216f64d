"""Conditions as texts mean what DuckDB takes them for, nulls and NaN included; and nothing is pruned that they choose."""

from __future__ import annotations

import datetime as dt
import itertools
import math
import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from lakeindex.errors import UsageError
from lakeindex.predicates.bounds import ALL_NULL, UNKNOWN, Bounds, answers
from lakeindex.predicates.nodes import Path, Value
from lakeindex.predicates.predicate import Predicate, predicate_of
from tests.random_conditions import FLOATS, OPERATORS, SCHEMA, Duck, Random, arrow_answers

ROWS = 240
CONDITIONS = 1000
AT_ONCE = 50
Drawn = tuple[list[dict[str, Any]], pa.Table, list[Predicate], list[list[bool | None]]]
EPOCH = dt.datetime.fromisoformat("1970-01-01")


@pytest.fixture(scope="module")
def drawn() -> Drawn:
    """Rows, the same as a table, conditions, and what Arrow answers each of them row by row."""
    dice = Random(random.Random(7))
    rows = dice.rows(ROWS)
    table = pa.Table.from_pylist(rows, schema=SCHEMA)
    conditions = [predicate_of(dice.condition(), SCHEMA) for _ in range(CONDITIONS)]
    found = [
        column.to_pylist()
        for some in _in_pieces(conditions)
        for column in arrow_answers(table, [one.expression for one in some]).columns
    ]
    return rows, table, conditions, found


def _in_pieces(conditions: Sequence[Predicate]) -> Iterator[Sequence[Predicate]]:
    for first in range(0, len(conditions), AT_ONCE):
        yield conditions[first : first + AT_ONCE]


def test_answers_are_those_of_duckdb_null_for_null(drawn: Drawn):
    rows, table, conditions, found = drawn
    duck, wrong = Duck(), []
    expected = itertools.chain.from_iterable(
        duck.answers(table, [one.text for one in some]).columns for some in _in_pieces(conditions)
    )
    for condition, ours, theirs in zip(conditions, found, expected, strict=True):
        if ours != theirs.to_pylist():
            row = next(n for n, (a, b) in enumerate(zip(ours, theirs.to_pylist(), strict=True)) if a is not b)
            wrong.append((condition.text, rows[row], ours[row], theirs[row].as_py()))
    assert not wrong, f"{len(wrong)} of {len(conditions)}, such as {wrong[:3]}"
    assert sum(None in one and True in one and False in one for one in found) > CONDITIONS / 4  # not all alike


def test_every_pair_of_floats_and_a_null():
    """Two columns are compared as one with a value is: null with NaN is null, whatever the comparison."""
    numbers: list[float | None] = [None, *FLOATS]
    pairs = list(itertools.product(numbers, numbers))
    whole = [None if f is None or not math.isfinite(f) else int(f) for f, _ in pairs]
    names = ("row", "f", "g", "i", "k")
    table = pa.table([range(len(pairs)), *zip(*pairs, strict=True), whole, whole], names=names).cast(
        pa.schema([SCHEMA.field(name) for name in names])
    )
    sides = ["f", "g", "i", "k", "(f + 0)", "(g * 1)", "(f / 2)", "(-g)"]
    how = [*OPERATORS, "IS DISTINCT FROM", "IS NOT DISTINCT FROM"]
    texts = [" ".join(one) for one in itertools.product(sides, how, sides)] + [
        f"{side} {one} {value}" for side in sides for one in OPERATORS for value in ("-1", "0", "0.5", "1e999")
        if "e" not in value or side not in "ik"
    ]  # fmt: skip
    texts += [f"NOT ({one})" for one in texts]
    ours = arrow_answers(table, [predicate_of(one, table.schema).expression for one in texts])
    theirs = Duck().answers(table, [one.replace("1e999", "'inf'::DOUBLE") for one in texts])
    wrong = [one for one, a, b in zip(texts, ours.columns, theirs.columns, strict=True) if not a.equals(b)]
    assert not wrong, wrong


def test_what_statistics_say_holds_for_every_row_that_agrees_with_them(drawn: Drawn):
    """If none can be chosen, none is; if all are, all are: over all nodes, and their opposites."""
    rows, _, conditions, found = drawn
    dice, wrong, left_out, settled = random.Random(8), [], 0, 0
    for predicate, answered in zip(conditions, found, strict=True):
        for first, last in _groups(dice):
            facts = _loosened(facts_of(rows[first:last], predicate), dice)
            possible, seen = answers(predicate.node, facts), set(answered[first:last])
            left_out += True not in possible
            settled += possible == {True}
            if not seen <= possible:
                wrong.append((predicate.text, facts, possible, seen))
            assert predicate.may_match(facts) is (True in possible)
    assert not wrong, f"{len(wrong)}, such as {wrong[:3]}"
    assert left_out > CONDITIONS  # the statistics reach what settles answers, both ways
    assert settled > CONDITIONS / 2


def test_a_pyarrow_expression_is_pruned_as_carefully(drawn: Drawn):
    rows, _, conditions, found = drawn
    dice, wrong, left_out = random.Random(9), [], 0
    for predicate, answered in list(zip(conditions, found, strict=True))[:500]:
        opaque = predicate_of(predicate.expression, SCHEMA)
        assert opaque.node is None
        first, last = next(_groups(dice))
        if not opaque.may_match(_loosened(facts_of(rows[first:last], opaque), dice)):
            left_out += 1
            if True in answered[first:last]:
                wrong.append(predicate.text)
    assert not wrong, wrong
    assert left_out > 20


def test_equal_values_hold_those_of_every_chosen_row(drawn: Drawn):
    rows, _, conditions, found = drawn
    asked = 0
    for predicate, answered in zip(conditions, found, strict=True):
        for path in (("i",), ("s",), ("st", "a")):
            values = predicate.equal_values(path)
            if values is not None:
                asked += 1
                chosen = {_at(row, path) for row, answer in zip(rows, answered, strict=True) if answer}
                assert chosen <= set(values), predicate.text
    assert asked > 10


def _groups(dice: random.Random) -> Iterator[tuple[int, int]]:
    for _ in range(4):
        first = dice.randrange(ROWS - 4)
        yield first, first + dice.choice([1, 1, 2, 4])


def _loosened(facts: dict[Path, Bounds], dice: random.Random) -> dict[Path, Bounds]:
    """The same, of some columns less, of some nothing."""
    found = {}
    for path, known in facts.items():
        match dice.randrange(8):
            case 0:
                continue
            case 1:
                found[path] = Bounds(known.least, known.greatest, True, known.may_have_value)
            case 2 if isinstance(known.least, str) and isinstance(known.greatest, str):
                found[path] = Bounds(known.least[:1], known.greatest + "~", known.may_be_null)
            case _:
                found[path] = known
    return found


def facts_of(rows: Sequence[dict[str, Any]], predicate: Predicate) -> dict[Path, Bounds]:
    """What a footer would say of these rows: NaN is left aside."""
    found = {}
    for path in predicate.paths:
        values = [_at(row, path) for row in rows]
        if pa.types.is_nested(predicate.type_of(path)):
            found[path] = Bounds(may_be_null=None in values, may_have_value=any(one is not None for one in values))
            continue
        there = [_units(one, predicate.type_of(path)) for one in values if one is not None]
        there = [one for one in there if not (isinstance(one, float) and math.isnan(one))]
        if all(one is None for one in values):
            found[path] = ALL_NULL
        elif there:
            found[path] = Bounds(min(there), max(there), may_be_null=None in values)
        else:
            found[path] = UNKNOWN
    return found


def _at(row: Any, path: Path) -> Any:
    for name in path:
        row = None if row is None else row[name]
    return row


def _units(value: Any, kind: pa.DataType) -> Value:
    if pa.types.is_decimal(kind):
        return int(value.scaleb(kind.scale))
    if pa.types.is_date(kind):
        return (value - dt.date(1970, 1, 1)).days
    if pa.types.is_timestamp(kind):
        return (value - EPOCH) // dt.timedelta(microseconds=1)
    return value


def test_facts_decide():
    """What statistics can leave out, they do."""
    cases: list[tuple[str, dict[Path, Bounds], bool]] = [
        ("i = 5", {("i",): Bounds(1, 4)}, False),
        ("i = 5", {("i",): Bounds(1, 5)}, True),
        ("i != 5", {("i",): Bounds(5, 5)}, False),
        ("NOT (i = 5)", {("i",): Bounds(5, 5)}, False),
        ("i IN (1, 9)", {("i",): Bounds(2, 8)}, False),
        ("i NOT IN (1)", {("i",): Bounds(1, 1)}, False),
        ("i IS NULL", {("i",): Bounds(1, 1, may_be_null=False)}, False),
        ("i IS NOT NULL", {("i",): ALL_NULL}, False),
        ("i > 0", {("i",): ALL_NULL}, False),
        ("i > 1.5", {("i",): Bounds(0, 1)}, False),
        ("i >= 2 OR s = 'x'", {("i",): Bounds(0, 1)}, True),
        ("i >= 2 AND s = 'x'", {("i",): Bounds(0, 1)}, False),
        ("s LIKE 'ab%'", {("s",): Bounds("ac", "b")}, False),
        ("s LIKE 'ab%'", {("s",): Bounds("a", "ab")}, True),
        ("s NOT LIKE 'ab%'", {("s",): Bounds("ac", "b")}, True),
        ("s NOT LIKE 'abc%x'", {("s",): Bounds("abca", "abcb")}, True),
        ("NOT starts_with(s, 'ab')", {("s",): Bounds("aba", "abz")}, False),
        ("starts_with(s, 'b')", {("s",): Bounds("a", "az")}, False),
        ("f > 5", {("f",): Bounds(0.0, 1.0)}, True),  # NaN is greater, and nobody knows whether there is one
        ("f < 0", {("f",): Bounds(0.0, 1.0)}, False),
        ("d < '2026-01-01'", {("d",): Bounds(20_454, 20_460)}, False),
        ("m > 1.005", {("m",): Bounds(0, 100)}, False),
        ("st.a = 7", {("st", "a"): Bounds(0, 6)}, False),
        ("lower(s) = 'a'", {("s",): ALL_NULL}, False),
        ("upper(s) IS NULL", {("s",): Bounds("a", "b", may_be_null=False)}, False),
    ]
    for condition, facts, may in cases:
        predicate = predicate_of(condition, SCHEMA)
        assert predicate.may_match(facts) is may, condition
        assert predicate.may_match({})
        assert predicate_of(predicate.expression, SCHEMA).may_match(facts) or not may, condition


def is_like(text: str, pattern: str, escape: str) -> bool:
    """What LIKE says, a character at a time; an escape with nothing behind it is itself."""
    if not pattern:
        return not text
    mark, rest = pattern[0], pattern[1:]
    if mark == escape:
        mark, rest = (rest[:1] or mark), rest[1:]
    elif mark == "%":
        return any(is_like(text[at:], rest, escape) for at in range(len(text) + 1))
    elif mark == "_":
        return bool(text) and is_like(text[1:], rest, escape)
    return text[:1] == mark and is_like(text[1:], rest, escape)


def test_patterns_say_of_texts_and_of_their_statistics_what_each_character_does():
    texts = [
        "",
        "a",
        "A",
        "b",
        "ab",
        "aXb",
        "a\nb",
        "ab\n",
        "a%",
        "a_",
        "a!",
        "!",
        "a.b",
        "a%b",
        "a!b",
        "äb",
        "ÄB",
        "a*",
        "(a",
    ]
    patterns = [
        "",
        "%",
        "_",
        "a",
        "a%",
        "%b",
        "a%b",
        "a_b",
        "a!%",
        "a!",
        "a!_",
        "!!",
        "a%%",
        "a__",
        "a.b",
        "ä%",
        "a*",
        "(_",
        "%!%%",
    ]
    rows, wrong = pa.table({"s": texts}), []
    conditions = {
        f"s LIKE '{pattern}'" + (f" ESCAPE '{escape}'" if escape else ""): [
            is_like(one, pattern, escape) for one in texts
        ]
        for pattern in patterns
        for escape in ("", "!", "%", "_")
    }
    conditions |= {
        f"s ILIKE '{pattern}' ESCAPE '!'": [is_like(one.lower(), pattern.lower(), "!") for one in texts]
        for pattern in [*patterns, "A%", "Ä_", "AxB"]
    }
    for piece in ("a", "b", "a%", "a.", "!"):
        conditions |= {
            f"starts_with(s, '{piece}')": [one.startswith(piece) for one in texts],
            f"ends_with(s, '{piece}')": [one.endswith(piece) for one in texts],
            f"contains(s, '{piece}')": [piece in one for one in texts],
        }
    for condition, expected in conditions.items():
        predicate = predicate_of(condition, rows.schema)
        found = predicate.mask(rows).to_pylist()
        hidden = [one for one, is_so in zip(texts, expected, strict=True)
                  if is_so and not predicate.may_match({("s",): Bounds(one, one)})]  # fmt: skip
        wrong += [(condition, found, hidden)] if found != expected or hidden else []
    assert not wrong, (len(wrong), wrong[:2])


def test_nothing_is_pruned_that_a_few_floats_can_be():
    """Every group of up to three of these values, whose statistics leave NaN aside; every comparison and its opposite."""
    schema = pa.schema([("f", pa.float64()), ("g", pa.float64())])
    texts = [f"f {one} {value}" for one in OPERATORS for value in (4, 5, 6)]
    texts += [
        "f IN (5)",
        "f IN (4, 5)",
        "f IN (5, NULL)",
        "f NOT IN (5, NULL)",
        "f BETWEEN 5 AND 5",
        "f IS NULL",
        "f < g",
        "g >= f",
    ]
    texts += [f"NOT ({one})" for one in texts] + [f"({one}) IS NOT TRUE" for one in texts]
    predicates = [predicate_of(one, schema) for one in texts]
    assert {one.columns for one in predicates} == {("f",), ("f", "g")}
    wrong = []
    for count in (1, 2, 3):
        for values in itertools.combinations_with_replacement((5.0, 6.0, math.nan, None), count):
            rows = [{"f": one, "g": 5.0} for one in values]
            found = arrow_answers(pa.Table.from_pylist(rows, schema), [one.expression for one in predicates])
            for predicate, answered in zip(predicates, found.columns, strict=True):
                possible, seen = answers(predicate.node, facts_of(rows, predicate)), set(answered.to_pylist())
                wrong += [(predicate.text, values, possible)] if not seen <= possible else []
    assert not wrong, wrong[:3]


def test_literals_at_and_beyond_the_ends_of_each_type():
    """Numbers are compared as numbers, whatever the column can hold; a fraction of its units is between two values."""
    values = {
        pa.int8(): (-128, 127),
        pa.int32(): (-(2**31), 2**31 - 1),
        pa.uint32(): (0, 2**32 - 1),
        pa.int64(): (-(2**63), 2**63 - 1),
    }
    wrong = []
    for kind, (least, most) in values.items():
        column = pa.table({"n": pa.array([least, 1, most, None], kind)})
        for literal in (
            least - 10**20,
            least - 1,
            least,
            least + 0.5 if kind != pa.int64() else least,
            1,
            1.5,
            most,
            most + 1,
            most + 10**20,
        ):
            for operator, compare in COMPARED.items():
                answered = predicate_of(f"n {operator} {literal}", column.schema).mask(column).to_pylist()
                wanted = [compare(least, literal), compare(1, literal), compare(most, literal)]
                wrong += [(kind, operator, literal)] if [one or False for one in answered] != [*wanted, False] else []
                opposite = predicate_of(f"NOT (n {operator} {literal})", column.schema).mask(column).to_pylist()
                wrong += (
                    [(kind, "NOT", operator)]
                    if [one or False for one in opposite] != [*(not w for w in wanted), False]
                    else []
                )
    assert not wrong


@pytest.mark.parametrize("number", [Decimal("1e39"), Decimal("-1e308")])
def test_a_number_beyond_floats_of_32_bits_is_no_infinity(number: Decimal):
    most = 3.4028234663852886e38  # that such a float can be
    values = [math.nan, math.inf, most, 1.5, 0.0, -1.5, -most, -math.inf, None]
    column = pa.table({"f": pa.array(values, pa.float32())})
    for operator, compare in COMPARED.items():
        wanted = [None if value is None else _as_greatest(value, compare, number) for value in values]
        for text, answer in ((f"f {operator} {number}", True), (f"NOT f {operator} {number}", False)):
            predicate = predicate_of(text, column.schema)
            assert predicate.mask(column).to_pylist() == [one is not None and one is answer for one in wanted], text
            for one in ([math.inf], [-math.inf], [1.5, -1.5]):  # a file of such rows alone
                chosen = {wanted[values.index(value)] is answer for value in one}
                assert chosen <= answers(predicate.node, {("f",): Bounds(min(one), max(one), may_be_null=False)}), text
    assert predicate_of(f"f IN ({number}, 1.5)", column.schema).mask(column).to_pylist() == [
        value == 1.5 for value in values
    ]


def _as_greatest(value: float, compare: Any, number: Decimal) -> bool:
    return bool(compare(math.inf if math.isnan(value) else value, number))


COMPARED = {"<": lambda a, b: a < b, "<=": lambda a, b: a <= b, "=": lambda a, b: a == b,
            "!=": lambda a, b: a != b, ">": lambda a, b: a > b, ">=": lambda a, b: a >= b}  # fmt: skip


def test_decimals_at_their_ends():
    rows = pa.table({"m": pa.array([Decimal("-99.9"), Decimal("0.0"), Decimal("99.9"), None], pa.decimal128(3, 1))})
    for text, chosen in {
        "m = -99.9": 1,
        "m >= -99.9": 3,
        "m < -99.9": 0,
        "m > -100": 3,
        "m > -99.91": 3,
        "m < 99.91": 3,
        "m <= 99.9": 3,
        "m != -100.0": 3,
        "m = 99.95": 0,
        "m > 99.9": 0,
        "m = 100.0": 0,
    }.items():
        assert predicate_of(text, rows.schema).filter(rows).num_rows == chosen, text


def test_times_in_every_unit():
    noon = dt.datetime(2026, 1, 31, 12, 0, 0, 500_000)  # noqa: DTZ001 - local
    day = noon.date()
    cases = [
        (pa.date32(), day, ["'2026-01-31'"], ["'2026-01-30'", "'2026-01-31 12:00:00'"]),
        (pa.date64(), day, ["'2026-01-31'", "'2026-01-31 00:00'"], ["'2026-02-01'", "'2026-01-31 00:00:00.001'"]),
        (pa.timestamp("s"), noon.replace(microsecond=0), ["'2026-01-31 12:00'"], ["'2026-01-31 12:00:00.5'", "'2026-01-31 12:00:01'"]),
        (pa.timestamp("us", "UTC"), noon.replace(tzinfo=dt.UTC), ["'2026-01-31 06:30:00.5-05:30'", "'2026-01-31 06:30:00.5-0530'"], ["'2026-01-31 18:00:00.5-05:30'"]),
        (pa.timestamp("ms"), noon, ["'2026-01-31 12:00:00.5'", "'2026-01-31T12:00:00.500'"], ["'2026-01-31 12:00:00.5001'"]),
        (pa.timestamp("ns"), noon, ["'2026-01-31 12:00:00.500000000'"], ["'2026-01-31 12:00:00.500000001'"]),
        (pa.timestamp("us", "UTC"), noon.replace(tzinfo=dt.UTC), ["'2026-01-31 14:00:00.5+02:00'", "'2026-01-31 12:00:00.5Z'"], ["'2026-01-31 10:00:00.5+02:00'"]),
        (pa.time32("ms"), noon.time(), ["'12:00:00.5'"], ["'12:00:00'", "'12:00:00.0005'"]),
        (pa.time64("us"), noon.time(), ["'12:00:00.500000'"], ["'12:00:00.05'"]),
    ]  # fmt: skip
    for kind, value, same, other in cases:
        rows = pa.table({"t": pa.array([value], kind)})
        for text in (*same, *other):
            assert predicate_of(f"t = {text}", rows.schema).filter(rows).num_rows == (text in same), (kind, text)
        before = predicate_of(f"t > {other[-1]} OR t < {other[-1]}", rows.schema)
        assert before.filter(rows).num_rows == 1, kind
    for kind, text in (
        (pa.timestamp("us"), "2026-01-31 24:00:00"),
        (pa.timestamp("us"), "2026-01-31 23:60:00"),
        (pa.timestamp("us"), "2026-01-31 23:59:60"),
        (pa.timestamp("us"), "2026-01-31 12:00:00Z"),
        (pa.date32(), "2026-02-29"),
        (pa.time64("us"), "24:00:00"),
        (pa.time64("us"), "12:60:00"),
    ):
        with pytest.raises(UsageError, match="is nothing that column 't'"):
            predicate_of(f"t = '{text}'", pa.schema([("t", kind)]))
