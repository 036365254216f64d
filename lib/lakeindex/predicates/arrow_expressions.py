"""A condition as Arrow computes it. A comparison with NaN is Spark's and DuckDB's: NaN is greater than all numbers."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from functools import reduce
from itertools import accumulate
from operator import and_, or_
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import UsageError, clipped
from lakeindex.frozen import Frozen
from lakeindex.predicates.nodes import (
    And,
    Arithmetic,
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
    Number,
    OneOf,
    Operand,
    Or,
    Settled,
    TextTest,
)
from lakeindex.predicates.values import as_float, common_decimal, computed

_GROUP: Final = 100
_MOST_DEPTH: Final = 1_000
_LARGE_STACK: Final = 128 * 2**20
_STACK_SIZE: Final = threading.Lock()
_QUOTED: Final = re.compile(r'"(?:[^"\\]|\\.)*"')
_BRACKETS: Final = re.compile("[()]")
_NULL: Final = pa.scalar(None, pa.bool_())
_FUNCTIONS: Final = {"lower": pc.utf8_lower, "upper": pc.utf8_upper, "length": pc.utf8_length}
_GREATER: Final = (Comparison.GREATER, Comparison.GREATER_EQUAL)


class Assigned(Frozen):
    """A value as Arrow computes it, and its type; ``reads``: all top-level columns that it is computed from, where that
    is known.
    """

    expression: pc.Expression
    type: pa.DataType
    reads: frozenset[str] | None = None


def text_of(expression: pc.Expression) -> str:
    """A caller's expression as Arrow writes it.

    Raises:
        UsageError: it is nested deeper than Arrow's own recursion bears; that would end the process.
    """
    found: list[str] = []
    with _STACK_SIZE:
        before = threading.stack_size(_LARGE_STACK)
        try:
            writer = threading.Thread(target=lambda: found.append(str(expression)))
            writer.start()
        finally:
            threading.stack_size(before)
    writer.join()
    (text,) = found
    bare = _QUOTED.sub("", text)
    depth = max(accumulate(1 if mark == "(" else -1 for mark in _BRACKETS.findall(bare)), default=0)
    parts = 1 + max(bare.count(" or "), bare.count(" and "))  # Arrow nests them, whatever they are grouped to
    if max(depth, parts) > _MOST_DEPTH:
        raise UsageError(
            f"the expression {clipped(text, 80)} has {max(depth, parts):,} parts that Arrow nests",
            culprit=clipped(text, 80),
            hint=f"{_MOST_DEPTH:,} are the most: name many values by isin(), or give the condition as a text",
        )
    return text


def expression_of(node: Node) -> pc.Expression:
    """The condition as an Arrow expression: true, false or null for each row."""
    match node:
        case And():
            return _joined(and_, [expression_of(part) for part in node.parts])
        case Or():
            return _joined(or_, [expression_of(part) for part in node.parts])
        case Not():
            return ~expression_of(node.part)
        case Is():
            known = pc.coalesce(expression_of(node.part), pc.scalar(not node.answer))
            return known if node.answer else ~known
        case Constant():
            return pc.scalar(_NULL if node.answer is None else pa.scalar(node.answer))
        case _:
            return _of_columns(node)


def all_true(conditions: list[pc.Expression]) -> pc.Expression:
    """Where all of these are true, of which there is one at least."""
    return _joined(and_, conditions)


def _joined(join: Callable[[pc.Expression, pc.Expression], pc.Expression], parts: list[pc.Expression]) -> pc.Expression:
    """Parts joined in groups, and these in groups.

    Arrow makes one nest of a long chain, however it is grouped, and follows it by recursion: thousands end in a crash.
    So a call stands between a group and the next, which changes nothing.
    """
    while len(parts) > _GROUP:
        parts = [pc.coalesce(reduce(join, parts[first : first + _GROUP])) for first in range(0, len(parts), _GROUP)]
    return reduce(join, parts)


def _of_columns(node: Compare | CompareColumns | Settled | OneOf | Matches | IsNull) -> pc.Expression:
    match node:
        case Compare():
            return _compare(node)
        case CompareColumns():
            return _compare_columns(node)
        case Settled():
            return pc.if_else(pc.is_valid(_field(node.operand)), pc.scalar(node.answer), pc.scalar(_NULL))
        case OneOf():
            return _one_of(node)
        case Matches():
            return _matches(node)
        case IsNull():
            return pc.is_null(_field(node.operand))


def _field(operand: Operand) -> pc.Expression:
    match operand:
        case Column():
            return pc.field(*operand.path)
        case Call():
            return _FUNCTIONS[operand.function](_field(operand.argument))
        case Number():
            return pc.scalar(operand.scalar)
        case Arithmetic():
            return computed(operand, _field(operand.left), _field(operand.right))


def _compared(left: pc.Expression, how: Comparison, right: pc.Expression) -> pc.Expression:
    match how:
        case Comparison.EQUAL:
            return left == right
        case Comparison.NOT_EQUAL:
            return left != right
        case Comparison.LESS:
            return left < right
        case Comparison.LESS_EQUAL:
            return left <= right
        case Comparison.GREATER:
            return left > right
        case Comparison.GREATER_EQUAL:
            return left >= right


def _compare(node: Compare) -> pc.Expression:
    field = _field(node.operand)
    found = _compared(field, node.how, pc.scalar(node.scalar))
    if pa.types.is_floating(node.operand.type) and node.how in _GREATER:
        return found | pc.is_nan(field)
    return found


def _compare_columns(node: CompareColumns) -> pc.Expression:
    left, right = _field(node.left), _field(node.right)
    kinds = (node.left.type, node.right.type)
    if not any(pa.types.is_floating(kind) for kind in kinds):
        if kinds[0] != kinds[1] and any(pa.types.is_decimal(kind) for kind in kinds):  # Arrow takes 38 digits at most
            common = common_decimal(*kinds)
            left, right = left.cast(common), right.cast(common)
        return _compared(left, node.how, right)
    left, right = as_float(left, kinds[0], pa.float64()), as_float(right, kinds[1], pa.float64())
    match node.how:
        case Comparison.EQUAL:
            return _same(left, right)
        case Comparison.NOT_EQUAL:
            return ~_same(left, right)
        case Comparison.LESS:
            return _before(left, right)
        case Comparison.LESS_EQUAL:
            return ~_before(right, left)
        case Comparison.GREATER:
            return _before(right, left)
        case Comparison.GREATER_EQUAL:
            return ~_before(left, right)


def _same(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    return (left == right) | (pc.is_nan(left) & pc.is_nan(right))


def _before(left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """Whether a float is less than another; null where one is: a false part of the logic's "or" hides no null."""
    return (left < right) | (~pc.is_nan(left) & pc.is_nan(right))


def _one_of(node: OneOf) -> pc.Expression:
    field = _field(node.operand)
    if not node.values:
        found = pc.scalar(value=False)
    elif 0.0 in node.values and pa.types.is_floating(node.operand.type):  # zero has two forms, equal and not the same
        zeros = pa.array([0.0, -0.0], node.scalars.type)
        found = pc.is_in(field, value_set=pa.concat_arrays([node.scalars, zeros]))
    else:
        found = pc.is_in(field, value_set=node.scalars)
    answer = pc.if_else(pc.is_valid(field), found, pc.scalar(_NULL))
    return answer | pc.scalar(_NULL) if node.has_null else answer


def _matches(node: Matches) -> pc.Expression:
    field = _field(node.operand)
    match node.test:
        case TextTest.STARTS_WITH:
            return pc.starts_with(field, node.pattern)
        case TextTest.ENDS_WITH:
            return pc.ends_with(field, node.pattern)
        case TextTest.CONTAINS:
            return pc.match_substring(field, node.pattern)
        case TextTest.LIKE | TextTest.ILIKE:
            return pc.match_substring_regex(field, node.pattern)
