"""What a condition on rows consists of: a tree of frozen nodes, typed by the table's columns.

Logic is SQL's, of three values: a comparison with null is null, and a row is chosen only where the condition is true.
"""

from __future__ import annotations

from enum import StrEnum
from typing import ClassVar, TypeAlias

import pyarrow as pa

from lakeindex.frozen import ComparedInPart, Frozen

Path: TypeAlias = tuple[str, ...]
"""Names that lead to a column: ``("address", "city")`` is the field ``city`` of the struct ``address``."""

Value: TypeAlias = bool | int | float | str | bytes
"""A value as it is compared: of a decimal, date, time or timestamp the whole number of the column's units."""


class Comparison(StrEnum):
    """How two values are compared."""

    EQUAL = "="
    NOT_EQUAL = "!="
    LESS = "<"
    LESS_EQUAL = "<="
    GREATER = ">"
    GREATER_EQUAL = ">="

    @property
    def flipped(self) -> Comparison:
        return _FLIPPED.get(self, self)


_FLIPPED = {
    Comparison.LESS: Comparison.GREATER,
    Comparison.LESS_EQUAL: Comparison.GREATER_EQUAL,
    Comparison.GREATER: Comparison.LESS,
    Comparison.GREATER_EQUAL: Comparison.LESS_EQUAL,
}


class Column(Frozen):
    """A column of the table, or a field of a struct."""

    path: Path
    type: pa.DataType

    @property
    def name(self) -> str:
        return ".".join(self.path)


class Call(Frozen):
    """One of the functions ``lower``, ``upper`` and ``length`` of a column."""

    function: str
    argument: Operand
    type: pa.DataType


class Number(Frozen):
    """A number that is computed with: ``text`` as it is written, ``scalar`` as Arrow computes with it."""

    text: str
    scalar: pa.Scalar
    type: pa.DataType


class Arithmetic(Frozen):
    """A sum, difference, product or quotient (``+ - * /``) of numbers; null where one side is."""

    operator: str
    left: Operand
    right: Operand
    type: pa.DataType


Operand: TypeAlias = Column | Call | Number | Arithmetic


class Compare(Frozen):
    """A column and a value; ``scalar`` is the value as Arrow computes with it."""

    operand: Operand
    how: Comparison
    value: Value
    scalar: pa.Scalar


class CompareColumns(Frozen):
    """Two columns, or what is computed of them, of comparable types."""

    left: Operand
    how: Comparison
    right: Operand


class Settled(Frozen):
    """A comparison that has one answer for all values of its column's type; null where the column is."""

    operand: Operand
    answer: bool


class OneOf(ComparedInPart):
    """Whether a column's value is one of a list.

    Attributes:
        values: as they are compared, each once, ascending.
        scalars: the same as an Arrow array.
        has_null: the list holds a null: what is not in it is null.
    """

    aside: ClassVar = frozenset({"scalars"})
    operand: Operand
    values: tuple[Value, ...]
    scalars: pa.Array
    has_null: bool = False


class TextTest(StrEnum):
    """What is asked of a text."""

    LIKE = "LIKE"
    ILIKE = "ILIKE"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    CONTAINS = "contains"


class Matches(Frozen):
    """A test of a text.

    Attributes:
        pattern: of LIKE and ILIKE a regular expression (RE2); else the text that is looked for.
        prefix: every text that passes begins with this; empty if nothing is known.
    """

    operand: Operand
    test: TextTest
    pattern: str
    prefix: str = ""


class IsNull(Frozen):
    """``IS NULL``; never null itself."""

    operand: Operand


class Is(Frozen):
    """``IS TRUE`` or ``IS FALSE`` of a condition; never null itself."""

    part: Node
    answer: bool


class And(Frozen):
    """All of them."""

    parts: tuple[Node, ...]


class Or(Frozen):
    """One of them."""

    parts: tuple[Node, ...]


class Not(Frozen):
    """The opposite; null stays null."""

    part: Node


class Constant(Frozen):
    """The same for every row; None is null."""

    answer: bool | None


Node: TypeAlias = Compare | CompareColumns | Settled | OneOf | Matches | IsNull | Is | And | Or | Not | Constant


def columns_of(node: Node | Operand) -> frozenset[Path]:
    """Paths of the columns that a condition reads."""
    match node:
        case Column():
            return frozenset({node.path})
        case Call():
            return columns_of(node.argument)
        case CompareColumns() | Arithmetic():
            return columns_of(node.left) | columns_of(node.right)
        case And() | Or():
            return frozenset().union(*(columns_of(part) for part in node.parts))
        case Not() | Is():
            return columns_of(node.part)
        case Constant() | Number():
            return frozenset()
        case _:
            return columns_of(node.operand)
