"""Conditions as texts: SQL's WHERE of one table, read by sqlglot and typed by the table's columns.

Nothing of the text is passed over: an expression, or a part of one, that has no meaning here is refused by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Final

import pyarrow as pa
from sqlglot import errors, exp, tokens
from sqlglot.dialects.dialect import Dialect

from lakeindex.errors import UsageError, first_line
from lakeindex.predicates.making import Maker, all_of, name_of, one_of, refused
from lakeindex.predicates.nodes import (
    And,
    Arithmetic,
    Call,
    Comparison,
    Constant,
    Is,
    IsNull,
    Node,
    Not,
    Operand,
    Or,
    TextTest,
)
from lakeindex.predicates.values import Family, Literal, family_of, number_of, type_of

_MOST_DEPTH: Final = 200


class _Where(Dialect):
    """SQL with both kinds of quotes around names, and bytes as ``x'00ff'``; a backslash in a text is itself."""

    class Tokenizer(tokens.Tokenizer):
        IDENTIFIERS: ClassVar[list[str | tuple[str, str]]] = ['"', "`"]
        HEX_STRINGS: ClassVar[list[str | tuple[str, str]]] = [("x'", "'"), ("X'", "'")]


_COMPARISONS: Final[dict[type[exp.Expr], Comparison]] = {
    exp.EQ: Comparison.EQUAL,
    exp.NEQ: Comparison.NOT_EQUAL,
    exp.LT: Comparison.LESS,
    exp.LTE: Comparison.LESS_EQUAL,
    exp.GT: Comparison.GREATER,
    exp.GTE: Comparison.GREATER_EQUAL,
}
_TESTS: Final[dict[type[exp.Expr], TextTest]] = {
    exp.StartsWith: TextTest.STARTS_WITH,
    exp.EndsWith: TextTest.ENDS_WITH,
    exp.Contains: TextTest.CONTAINS,
}
_ARITHMETIC: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_FUNCTIONS: Final[dict[type[exp.Expr], str]] = {exp.Lower: "lower", exp.Upper: "upper", exp.Length: "length"}
_MOMENTS: Final = frozenset(
    {
        exp.DataType.Type.DATE,
        exp.DataType.Type.TIMESTAMP,
        exp.DataType.Type.TIMESTAMPTZ,
        exp.DataType.Type.TIMESTAMPLTZ,
        exp.DataType.Type.TIMESTAMPNTZ,
        exp.DataType.Type.DATETIME,
        exp.DataType.Type.TIME,
    }
)


def parse_condition(text: str, schema: pa.Schema) -> Node:
    """The condition that a text says.

    Args:
        text: as behind ``WHERE``.

    Raises:
        UsageError: it cannot be read, names no column of the table, or asks for what is not valid.
    """
    try:
        return Reader(text, schema).node(tree_of(text))
    except RecursionError:
        raise _too_deep(text) from None


def tree_of(text: str) -> exp.Expr:
    """A text as sqlglot reads it. Raises: UsageError: it is not one expression, or is nested too deep."""
    try:
        found = [one for one in _Where().parse(text) if one is not None]
    except (errors.ParseError, errors.TokenError) as error:
        raise refused(text, f"it cannot be read: {_without_marks(first_line(error))}", text) from None
    except RecursionError:
        raise _too_deep(text) from None
    if len(found) != 1 or isinstance(found[0], exp.Block):
        raise refused(text, "it is not one condition", text)
    _check_depth(found[0], text)
    return found[0]


def _check_depth(tree: exp.Expr, text: str) -> None:
    """Chains of AND and OR are no depth. What reads a tree follows it by recursion, and so does Arrow."""
    todo = [(tree, 0)]
    while todo:
        one, depth = todo.pop()
        if depth > _MOST_DEPTH:
            raise _too_deep(text)
        kind = type(one) if isinstance(one, exp.Connector) else None
        todo += [(part, depth + (type(part) is not kind)) for part in one.iter_expressions()]


class Reader(Maker):
    """Turns sqlglot's tree of one text into nodes."""

    def node(self, tree: exp.Expr) -> Node:
        kind = type(tree)
        if kind in _COMPARISONS:
            left, right = self._parts(tree, "this", "expression")
            return self._compare(left, _COMPARISONS[kind], right)
        if kind in _TESTS:
            column, pattern = self._parts(tree, "this", "expression")
            return self._matches(self._text_operand(column), _TESTS[kind], self._text_of(pattern))
        reader = self._readers.get(kind)
        if reader is None:
            if _is_unknown_function(tree):
                raise self._refuse(tree, f"there is no function {_name_of(tree)!r}")
            raise self._refuse(tree, "it is no condition")
        return reader(self, tree)

    def _joined(self, tree: exp.Expr) -> Node:
        """AND and OR: a chain of them is one node, however long."""
        kind, open_parts, parts = type(tree), [tree], []
        while open_parts:
            one = open_parts.pop()
            if type(one) is kind:
                left, right = self._parts(one, "this", "expression")
                open_parts += [right, left]
            else:
                parts.append(self.node(one))
        return all_of(parts) if kind is exp.And else one_of(parts)

    def _not(self, tree: exp.Expr) -> Node:
        return Not(self.node(self._parts(tree, "this")[0]))

    def _paren(self, tree: exp.Expr) -> Node:
        return self.node(self._parts(tree, "this")[0])

    def _column_alone(self, tree: exp.Expr) -> Node:
        return self._is_true(self._operand(tree))

    def _constant(self, tree: exp.Expr) -> Node:
        return Constant(None if isinstance(tree, exp.Null) else bool(tree.this))

    def _between(self, tree: exp.Expr) -> Node:
        column, low, high = self._parts(tree, "this", "low", "high", flags=("symmetric", "negate"))
        if tree.args.get("symmetric"):
            raise self._refuse(tree, "BETWEEN SYMMETRIC is not known")
        ends = (Comparison.GREATER_EQUAL, low), (Comparison.LESS_EQUAL, high)
        return _negated(tree, And(tuple(self._compare(column, how, end) for how, end in ends)))

    def _is(self, tree: exp.Expr) -> Node:
        this, what = self._parts(tree, "this", "expression", flags=("negate",))
        if isinstance(what, exp.Null):
            return _negated(tree, IsNull(self._operand(this)))
        if isinstance(what, exp.Boolean):
            return _negated(tree, Is(self.node(this), bool(what.this)))
        raise self._refuse(tree, "IS is asked of NULL, TRUE and FALSE only")

    def _null_safe(self, tree: exp.Expr) -> Node:
        left, right = self._parts(tree, "this", "expression")
        if not _is_column(left):
            left, right = right, left
        if _is_column(right):
            equal = Is(self._compare(left, Comparison.EQUAL, right), answer=True)
            nulls = And((IsNull(self._operand(left)), IsNull(self._operand(right))))
            same: Node = Or((equal, nulls))
        elif isinstance(right, exp.Null):
            same = IsNull(self._operand(left))
        else:
            same = Is(self._compare(left, Comparison.EQUAL, right), answer=True)
        return Not(same) if isinstance(tree, exp.NullSafeNEQ) else same

    def _in(self, tree: exp.Expr) -> Node:
        (this,) = self._parts(tree, "this", flags=("expressions", "negate"))
        column, items = self._operand(this), tree.args.get("expressions") or []
        if not items:
            raise self._refuse(tree, "IN needs a list of values")
        return _negated(tree, self._one_of(column, [self._literal(item) for item in items]))

    def _like(self, tree: exp.Expr) -> Node:
        escape, like = "", tree
        if isinstance(tree, exp.Escape):
            like, mark = self._parts(tree, "this", "expression")
            escape = self._text_of(mark)
            if len(escape) != 1 or not isinstance(like, exp.Like | exp.ILike):
                raise self._refuse(tree, "ESCAPE takes one character")
        column, pattern = self._parts(like, "this", "expression", flags=("negate",))
        test = TextTest.ILIKE if isinstance(like, exp.ILike) else TextTest.LIKE
        return _negated(like, self._matches(self._text_operand(column), test, self._text_of(pattern), escape))

    def _compare(self, left: exp.Expr, how: Comparison, right: exp.Expr) -> Node:
        if _is_column(left) and _is_column(right):
            return self._two_columns(self._operand(left), how, self._operand(right))
        if not _is_column(left):
            left, how, right = right, how.flipped, left
        if not _is_column(left):
            odd = right if isinstance(left, exp.Literal) else left
            if not isinstance(odd, exp.Literal):
                self._operand(odd)
            raise self._refuse(odd, "one side of a comparison must be a column")
        literal = self._literal(right)
        return self._compare_with(self._operand(left), how, literal)

    def _text_operand(self, tree: exp.Expr) -> Operand:
        column = self._operand(tree)
        if family_of(column.type) is not Family.TEXT:
            raise self._refuse(tree, f"column {name_of(column)!r} is {column.type}, not a text")
        return column

    def _operand(self, tree: exp.Expr) -> Operand:
        while isinstance(tree, exp.Paren):
            (tree,) = self._parts(tree, "this")
        name = _FUNCTIONS.get(type(tree))
        if name is not None:
            (this,) = self._parts(tree, "this")
            return Call(name, self._text_operand(this), pa.int32() if name == "length" else pa.string())
        if type(tree) in _ARITHMETIC or _is_negated(tree):
            return self._arithmetic(tree)
        if _is_unknown_function(tree):
            raise self._refuse(tree, f"there is no function {_name_of(tree)!r}")
        if not isinstance(tree, exp.Column | exp.Dot):
            raise self._refuse(tree, "it is neither a column nor a value")
        return self._column_of(self._names(tree))

    def _arithmetic(self, tree: exp.Expr) -> Operand:
        if isinstance(tree, exp.Neg):
            operator, sides = "-", [exp.Literal.number(0), *self._parts(tree, "this")]
        else:
            operator, sides = _ARITHMETIC[type(tree)], self._parts(tree, "this", "expression")
        left, right = (self._number(side) for side in sides)
        kind = type_of(operator, left.type, right.type)
        if kind is None:
            raise self._refuse(tree, f"there is no {operator} of {left.type} and {right.type}")
        return Arithmetic(operator, left, right, kind)

    def _number(self, tree: exp.Expr) -> Operand:
        if _is_column(tree):
            return self._operand(tree)
        literal = self._literal(tree)
        found = number_of(literal.text) if literal is not None and literal.family is Family.NUMBER else None
        if found is None:
            raise self._refuse(tree, "it is no number of at most 76 digits")
        return found

    def _names(self, tree: exp.Expr) -> tuple[str, ...]:
        if isinstance(tree, exp.Dot):
            this, last = self._parts(tree, "this", "expression")
            return (*self._names(this), *self._names(last))
        if isinstance(tree, exp.Column):
            parts = [tree.args[name] for name in ("catalog", "db", "table", "this") if tree.args.get(name)]
            return tuple(name for part in parts for name in self._names(part))
        if isinstance(tree, exp.Identifier):
            return (str(tree.this),)
        raise self._refuse(tree, "it is no name of a column")

    def _literal(self, tree: exp.Expr) -> Literal | None:
        """A value; None is null."""
        while isinstance(tree, exp.Paren):
            (tree,) = self._parts(tree, "this")
        if isinstance(tree, exp.Null):
            return None
        if isinstance(tree, exp.Literal):
            return Literal(str(tree.this), Family.TEXT if tree.is_string else Family.NUMBER)
        if isinstance(tree, exp.Boolean):
            return Literal(str(bool(tree.this)).lower(), Family.BOOLEAN)
        if isinstance(tree, exp.HexString):
            return Literal(self._hex(tree), Family.BYTES)
        found = self._negative(tree) if isinstance(tree, exp.Neg) else self._moment(tree)
        if found is not None:
            return found
        if _is_unknown_function(tree):
            raise self._refuse(tree, f"there is no function {_name_of(tree)!r}")
        raise self._refuse(tree, "it is no value: give a number, a text in single quotes, true, false or null")

    def _negative(self, tree: exp.Expr) -> Literal | None:
        literal = self._literal(*self._parts(tree, "this"))
        return Literal(_minus(literal.text), Family.NUMBER) if literal and literal.family is Family.NUMBER else None

    def _moment(self, tree: exp.Expr) -> Literal | None:
        if not isinstance(tree, exp.Cast) or tree.to.this not in _MOMENTS or tree.to.expressions:
            return None
        this, _ = self._parts(tree, "this", "to")
        return Literal(str(this.this), Family.MOMENT) if isinstance(this, exp.Literal) and this.is_string else None

    def _hex(self, tree: exp.Expr) -> str:
        text = str(tree.this)
        try:
            return bytes.fromhex(text).hex()
        except ValueError:
            raise self._refuse(tree, "bytes are pairs of hexadecimal digits") from None

    def _text_of(self, tree: exp.Expr) -> str:
        if not (isinstance(tree, exp.Literal) and tree.is_string):
            raise self._refuse(tree, "a text in single quotes is needed")
        return str(tree.this)

    def _parts(self, tree: exp.Expr, *names: str, flags: Iterable[str] = ()) -> list[exp.Expr]:
        """Parts of an expression by their names. Raises: UsageError: it says more than that."""
        known = {*names, *flags}
        for name, value in tree.args.items():
            if value and name not in known and not (isinstance(tree, exp.Length) and name == "encoding"):
                raise self._refuse(tree, f"{name!r} is not valid there")
        found = [tree.args.get(name) for name in names]
        if any(one is None for one in found):
            raise self._refuse(tree, "a part of it is missing")
        return found  # type: ignore[return-value]  # none is None

    def _refuse(self, tree: exp.Expr, why: str) -> UsageError:
        return refused(_sql(tree), why, self._text)

    _readers: ClassVar[dict[type[exp.Expr], Callable[[Any, Any], Node]]] = {
        exp.And: _joined,
        exp.Or: _joined,
        exp.Not: _not,
        exp.Paren: _paren,
        exp.Column: _column_alone,
        exp.Dot: _column_alone,
        exp.Boolean: _constant,
        exp.Null: _constant,
        exp.Between: _between,
        exp.Is: _is,
        exp.NullSafeEQ: _null_safe,
        exp.NullSafeNEQ: _null_safe,
        exp.In: _in,
        exp.Like: _like,
        exp.ILike: _like,
        exp.Escape: _like,
    }


def _negated(tree: exp.Expr, node: Node) -> Node:
    return Not(node) if tree.args.get("negate") else node


def _is_column(tree: exp.Expr) -> bool:
    """Whether it is a column, or is computed, in parentheses or not."""
    while isinstance(tree, exp.Paren):
        tree = tree.this
    computed = type(tree) in _FUNCTIONS or type(tree) in _ARITHMETIC or _is_negated(tree)
    return isinstance(tree, exp.Column | exp.Dot) or computed


def _is_negated(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Neg) and _is_column(tree.this)


def _is_unknown_function(tree: exp.Expr) -> bool:
    return isinstance(tree, exp.Func) and type(tree) not in (*_FUNCTIONS, exp.Cast, exp.TryCast)


def _name_of(tree: exp.Expr) -> str:
    return str(tree.this) if isinstance(tree, exp.Anonymous) else type(tree).__name__.lower()


def _sql(tree: exp.Expr) -> str:
    try:
        return tree.sql()
    except (errors.SqlglotError, ValueError, RecursionError):
        return type(tree).__name__


def _minus(text: str) -> str:
    return text[1:] if text.startswith("-") else f"-{text}"


def _too_deep(text: str) -> UsageError:
    return UsageError(
        f"the condition of {len(text):,} characters is nested too deep",
        culprit=text[:80],
        hint="a long list of values goes into IN (...)",
    )


def _without_marks(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip(".")
