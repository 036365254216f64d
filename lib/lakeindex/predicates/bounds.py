"""What a condition can come out as, of rows of which only the ends of their columns are known.

A file, a row group or a partition is left out only if the condition is true for no row that could be in it: that is
worked out from all answers (true, false, null) that each part of the condition may have. What is not known (no
statistics, a type without an order, NaN among floats) leaves every answer open.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

import pyarrow as pa

from lakeindex.frozen import Frozen
from lakeindex.predicates.nodes import (
    And,
    Call,
    Column,
    Compare,
    CompareColumns,
    Comparison,
    Constant,
    Is,
    IsNull,
    Matches,
    Node,
    Not,
    OneOf,
    Operand,
    Or,
    Path,
    Settled,
    TextTest,
    Value,
)

Answer: TypeAlias = bool | None
Answers: TypeAlias = frozenset[Answer]
"""Answers that are possible; None is null."""

_ANY: Final[Answers] = frozenset({True, False, None})


class Bounds(Frozen):
    """What is known of a column in some rows.

    Attributes:
        least: no value is less; None if nothing is known. Of floats NaN is left aside: there may always be one.
        greatest: no value is greater; None if nothing is known.
        may_be_null: there may be nulls.
        may_have_value: there may be something else than nulls.
    """

    least: Value | None = None
    greatest: Value | None = None
    may_be_null: bool = True
    may_have_value: bool = True


UNKNOWN: Final = Bounds()
ALL_NULL: Final = Bounds(may_have_value=False)

Facts: TypeAlias = Mapping[Path, Bounds]
"""What is known of columns, by their paths; of others nothing is."""


def may_be_true(node: Node, facts: Facts) -> bool:
    """Whether a row that agrees with the facts can meet the condition. No more facts are asked for than settle it."""
    match node:
        case And():
            return all(may_be_true(part, facts) for part in node.parts)
        case Or():
            return any(may_be_true(part, facts) for part in node.parts)
        case _:
            return True in answers(node, facts)


def answers(node: Node, facts: Facts) -> Answers:
    """The answers that a condition may have for rows that agree with the facts; perhaps more than there are."""
    match node:
        case And():
            found: Answers = frozenset({True})
            for part in node.parts:
                found = frozenset(_and(a, b) for a in found for b in answers(part, facts))
            return found
        case Or():
            found = frozenset({False})
            for part in node.parts:
                found = frozenset(_or(a, b) for a in found for b in answers(part, facts))
            return found
        case Not():
            return frozenset(None if one is None else not one for one in answers(node.part, facts))
        case Is():
            return frozenset(one is node.answer for one in answers(node.part, facts))
        case Constant():
            return frozenset({node.answer})
        case CompareColumns():
            return _ANY
        case _:
            return _of_column(node, _known(node.operand, facts))


def _and(a: Answer, b: Answer) -> Answer:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: Answer, b: Answer) -> Answer:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _known(operand: Operand, facts: Facts) -> Bounds:
    """What is known of a column; of what a function makes of it, only where it is null; of sums nothing."""
    if isinstance(operand, Column):
        return facts.get(operand.path, UNKNOWN)
    if not isinstance(operand, Call):
        return UNKNOWN
    inner = _known(operand.argument, facts)
    return Bounds(may_be_null=inner.may_be_null, may_have_value=inner.may_have_value)


def _of_column(node: Compare | Settled | OneOf | Matches | IsNull, known: Bounds) -> Answers:
    if isinstance(node, IsNull):
        return frozenset(
            one for one, is_possible in ((True, known.may_be_null), (False, known.may_have_value)) if is_possible
        )
    nulls: Answers = frozenset({None}) if known.may_be_null else frozenset()
    if not known.may_have_value:
        return nulls
    if isinstance(node, Settled):
        return nulls | {node.answer}
    if isinstance(node, Matches):
        return nulls | _matching(node, known)
    return nulls | (_comparing(node, known) if isinstance(node, Compare) else _being_one_of(node, known))


def _comparing(node: Compare, known: Bounds) -> Answers:
    least, greatest = known.least, known.greatest
    if least is None or greatest is None:
        return frozenset({True, False})
    value, how = node.value, node.how
    match how:
        case Comparison.EQUAL | Comparison.NOT_EQUAL:
            found = _equal(value, least, greatest)
            if how is Comparison.NOT_EQUAL:
                found = frozenset(not one for one in found)
        case Comparison.LESS:
            found = _split(all_true=_less(greatest, value), all_false=not _less(least, value))
        case Comparison.LESS_EQUAL:
            found = _split(all_true=not _less(value, greatest), all_false=_less(value, least))
        case Comparison.GREATER:
            found = _split(all_true=_less(value, least), all_false=not _less(value, greatest))
        case Comparison.GREATER_EQUAL:
            found = _split(all_true=not _less(least, value), all_false=_less(greatest, value))
    if pa.types.is_floating(node.operand.type):  # of NaN statistics say nothing: it is greater than all others
        of_nan = how in (Comparison.GREATER, Comparison.GREATER_EQUAL, Comparison.NOT_EQUAL)
        return found | {of_nan}
    return found


def _equal(value: Value, least: Value, greatest: Value) -> Answers:
    if _less(value, least) or _less(greatest, value):
        return frozenset({False})
    return frozenset({True}) if least == greatest else frozenset({True, False})


def _split(*, all_true: bool, all_false: bool) -> Answers:
    if all_true:
        return frozenset({True})
    return frozenset({False}) if all_false else frozenset({True, False})


def _being_one_of(node: OneOf, known: Bounds) -> Answers:
    otherwise = None if node.has_null else False
    least, greatest = known.least, known.greatest
    if not node.values:
        return frozenset({otherwise})
    if least is None or greatest is None:
        return frozenset({True, otherwise})
    inside = [one for one in node.values if not _less(one, least) and not _less(greatest, one)]
    if not inside:
        return frozenset({otherwise})
    return frozenset({True, otherwise}) if least != greatest or _is_float(node) else frozenset({True})


def _is_float(node: OneOf) -> bool:
    return bool(pa.types.is_floating(node.operand.type))


def _matching(node: Matches, known: Bounds) -> Answers:
    prefix, least, greatest = node.prefix, known.least, known.greatest
    if prefix and isinstance(least, str) and isinstance(greatest, str):
        outside = greatest < prefix or (least > prefix and not least.startswith(prefix))
        if outside:
            return frozenset({False})
        whole = node.test is TextTest.STARTS_WITH and least.startswith(prefix) and greatest.startswith(prefix)
        if whole:
            return frozenset({True})
    return frozenset({True, False})


def _less(one: Value, other: Value) -> bool:
    """Whether one value is before another: numbers by value, texts by their code points, as UTF-8 bytes are."""
    return bool(one < other)  # type: ignore[operator]  # both are of one type: the column's
