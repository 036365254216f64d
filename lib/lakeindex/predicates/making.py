"""Nodes of conditions, made of columns and literals; it knows nothing of how they are read from a text."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from lakeindex.errors import UsageError, clipped
from lakeindex.predicates.nodes import (
    And,
    Arithmetic,
    Call,
    Column,
    Compare,
    CompareColumns,
    Comparison,
    Constant,
    Matches,
    Node,
    Not,
    Number,
    OneOf,
    Operand,
    Or,
    Settled,
    TextTest,
    Value,
)
from lakeindex.predicates.values import Family, Literal, array_of, common_decimal, family_of, scalar_of, settle

VALID: Final = (
    "valid are = != < <= > >=, AND, OR, NOT, IN (...), BETWEEN, IS [NOT] NULL, IS [NOT] TRUE or FALSE, "
    "IS [NOT] DISTINCT FROM, LIKE, ILIKE, starts_with, ends_with and contains(column, 'text'), "
    "the functions lower, upper and length of a column, and + - * / of numbers"
)


class Maker:
    """Makes the nodes of one text."""

    def __init__(self, text: str, schema: pa.Schema) -> None:
        self._text = text
        self._schema = schema
        self.named: set[str] = set()
        """Top-level columns that were asked for so far."""

    def _compare_with(self, column: Operand, how: Comparison, literal: Literal | None) -> Node:
        return Constant(None) if literal is None else self._with_value(column, how, literal)

    def _one_of(self, column: Operand, literals: Sequence[Literal | None]) -> Node:
        """``IN``; None is null."""
        settled = [settle(Comparison.EQUAL, one, column.type, name_of(column)) for one in literals if one is not None]
        values = [one.value for one in settled if one.value is not None]
        return list_of(column, values, has_null=None in literals)

    def _matches(self, column: Operand, test: TextTest, pattern: str, escape: str = "") -> Node:
        """A test of a text; ``escape``: what makes the next character of LIKE's pattern itself, if there is one."""
        if test not in (TextTest.LIKE, TextTest.ILIKE):
            return Matches(column, test, pattern, pattern if test is TextTest.STARTS_WITH else "")
        expression, prefix = _regular_expression(pattern, escape)
        if test is TextTest.ILIKE:
            return Matches(column, test, f"(?si)^{expression}$")
        return Matches(column, test, f"(?s)^{expression}$", prefix)

    def _is_true(self, column: Operand) -> Node:
        return self._with_value(column, Comparison.EQUAL, Literal("true", Family.BOOLEAN))

    def _with_value(self, column: Operand, how: Comparison, literal: Literal) -> Node:
        settled = settle(how, literal, column.type, name_of(column))
        if settled.how is None or settled.value is None:
            return Settled(column, settled.answer)
        return Compare(column, settled.how, settled.value, scalar_of(settled.value, column.type))

    def _two_columns(self, left: Operand, how: Comparison, right: Operand) -> Node:
        kinds = (left.type, right.type)
        families = {family_of(kind) for kind in kinds}
        numbers = families <= {Family.NUMBER, Family.FLOAT}
        dated = all(pa.types.is_date(kind) or pa.types.is_timestamp(kind) for kind in kinds)
        zones = {getattr(kind, "tz", None) is None for kind in kinds}
        wide = families == {Family.NUMBER} and common_decimal(*kinds) is None
        if Family.OTHER in families or not (numbers or len(families) == 1) or (dated and len(zones) > 1) or wide:
            raise refused(
                f"{name_of(left)} {how} {name_of(right)}",
                f"columns of the types {kinds[0]} and {kinds[1]} are not compared with each other",
                self._text,
            )
        return CompareColumns(left, how, right)

    def _column_of(self, names: tuple[str, ...]) -> Column:
        fields, seen = list(self._schema), ""
        kind: pa.DataType | None = None
        for name in names:
            known = [field.name for field in fields]
            if name not in known:
                raise _no_column(".".join(names), f"{seen}{name}", [f"{seen}{one}" for one in known], self._text)
            kind = fields[known.index(name)].type
            fields = list(kind) if pa.types.is_struct(kind) else []
            seen = f"{seen}{name}."
        self.named.add(names[0])
        return Column(names, kind)


def _regular_expression(pattern: str, escape: str) -> tuple[str, str]:
    """A LIKE pattern as a regular expression, and what every match begins with."""
    parts, prefix, is_open = [], [], True
    marks = iter(pattern)
    for mark in marks:
        if escape and mark == escape:
            mark = next(marks, escape)  # noqa: PLW2901 - what is escaped stands for itself
        elif mark in "%_":
            parts.append(".*" if mark == "%" else ".")
            is_open = False
            continue
        parts.append(re.escape(mark) if mark.isascii() else mark)
        if is_open:
            prefix.append(mark)
    return "".join(parts), "".join(prefix)


def name_of(operand: Operand) -> str:
    match operand:
        case Column():
            return operand.name
        case Call():
            return f"{operand.function}({name_of(operand.argument)})"
        case Number():
            return operand.text
        case Arithmetic():
            return f"{name_of(operand.left)} {operand.operator} {name_of(operand.right)}"


def refused(what: str, why: str, text: str) -> UsageError:
    where = "" if what == text else f" in the condition {clipped(text)!r}"
    return UsageError(f"{clipped(what)!r}{where} is not valid: {why}", culprit=clipped(what), hint=VALID)


def _no_column(name: str, missing: str, known: list[str], text: str) -> UsageError:
    close = difflib.get_close_matches(missing, known, 1)
    meant = f"did you mean {close[0]!r}? " if close else ""
    listed = f"its columns: {', '.join(known)}" if known else "it has no fields"
    return UsageError(
        f"the table has no column {name!r}, which the condition {clipped(text)!r} names",
        culprit=name,
        hint=f"{meant}{listed}",
    )


def one_of(parts: Sequence[Node]) -> Node:
    """Parts joined by OR: ``n = 1 OR n IN (2, 3)`` is ``n IN (1, 2, 3)``."""
    found = _in_lists(parts)
    return found[0] if len(found) == 1 else Or(found)


def all_of(parts: Sequence[Node]) -> Node:
    """Parts joined by AND: ``n != 1 AND n NOT IN (2, 3)`` is ``n NOT IN (1, 2, 3)``."""
    found = tuple(_opposite(part) for part in _in_lists([_opposite(part) for part in parts]))
    return found[0] if len(found) == 1 else And(found)


def list_of(operand: Operand, values: Sequence[Value], *, has_null: bool = False) -> OneOf:
    """``operand IN (values)``."""
    distinct = tuple(sorted(set(values)))
    return OneOf(operand, distinct, array_of(distinct, operand.type), has_null)


def _opposite(part: Node) -> Node:
    """A part without the NOT before it, or with one; of a comparison with a value, the opposite comparison."""
    match part:
        case Not():
            return part.part
        case Compare(how=Comparison.EQUAL | Comparison.NOT_EQUAL):
            how = Comparison.EQUAL if part.how is Comparison.NOT_EQUAL else Comparison.NOT_EQUAL
            return Compare(part.operand, how, part.value, part.scalar)
        case _:
            return Not(part)


def _in_lists(parts: Sequence[Node]) -> tuple[Node, ...]:
    """Parts joined by OR, of which those that ask one column for values are one part."""
    found: dict[object, list[Node]] = {}
    for number, part in enumerate(parts):
        match part:
            case OneOf() | Compare(how=Comparison.EQUAL):
                found.setdefault(part.operand, []).append(part)
            case _:
                found[number] = [part]
    return tuple(same[0] if len(same) == 1 else _joined(same) for same in found.values())


def _joined(same: Sequence[Node]) -> Node:
    asking = [one for one in same if isinstance(one, Compare | OneOf)]
    values = [value for one in asking for value in (one.values if isinstance(one, OneOf) else (one.value,))]
    has_null = any(isinstance(one, OneOf) and one.has_null for one in asking)
    return list_of(asking[0].operand, values, has_null=has_null)
