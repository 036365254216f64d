"""Chains of AND and OR: what asks one column for many values is one list, which costs what one value does."""

from __future__ import annotations

from collections.abc import Sequence

from lakeindex.predicates.nodes import And, Compare, Comparison, Node, Not, OneOf, Operand, Or, Value
from lakeindex.predicates.values import array_of


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
