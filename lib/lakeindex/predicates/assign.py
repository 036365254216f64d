"""New values of columns as texts: SQL's right side of ``SET column = ...``, typed by the table's columns.

Sums and products are checked: an overflow is an error when rows are computed, no other number. ``/`` of whole numbers
is a fraction, and null if the divisor is zero, as in conditions. A literal takes the type of what it is computed with,
or of the column.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from sqlglot import exp

from lakeindex.errors import UsageError, clipped, first_line
from lakeindex.predicates.arithmetic import quotient
from lakeindex.predicates.arrow import expression_of
from lakeindex.predicates.nodes import Comparison, Path
from lakeindex.predicates.parse import Reader, tree_of
from lakeindex.predicates.values import Family, Literal, family_of, scalar_of, settle

VALID: Final = (
    "valid are columns, numbers, texts in single quotes, true, false, null, + - * /, || of texts, CASE WHEN, COALESCE, "
    "CAST, abs, lower, upper, trim, length, and conditions as behind WHERE"
)
_ARITHMETIC: Final[dict[type[exp.Expr], Callable[..., pc.Expression]]] = {
    exp.Add: pc.add_checked,
    exp.Sub: pc.subtract_checked,
    exp.Mul: pc.multiply_checked,
}
_FUNCTIONS: Final[dict[type[exp.Expr], Callable[..., pc.Expression]]] = {
    exp.Lower: pc.utf8_lower,
    exp.Upper: pc.utf8_upper,
    exp.Length: pc.utf8_length,
    exp.Trim: pc.utf8_trim_whitespace,
    exp.Abs: pc.abs_checked,
    exp.Neg: pc.negate_checked,
}
_TYPES: Final[dict[exp.DType, pa.DataType]] = {
    exp.DataType.Type.INT: pa.int32(),
    exp.DataType.Type.BIGINT: pa.int64(),
    exp.DataType.Type.FLOAT: pa.float32(),
    exp.DataType.Type.DOUBLE: pa.float64(),
    exp.DataType.Type.TEXT: pa.string(),
    exp.DataType.Type.VARCHAR: pa.string(),
    exp.DataType.Type.BOOLEAN: pa.bool_(),
    exp.DataType.Type.DATE: pa.date32(),
    exp.DataType.Type.TIMESTAMP: pa.timestamp("us"),
}


@dataclass(frozen=True)
class Assigned:
    """A value as Arrow computes it, and its type."""

    expression: pc.Expression
    type: pa.DataType


def expression_for(text: str, column: pa.Field, schema: pa.Schema) -> Assigned:
    """The value that a text says.

    Args:
        text: an SQL-like expression.
        column: what is set: literals take its type.
        schema: columns that the text may name.

    Raises:
        UsageError: it cannot be read, names no column of the table, or asks for what is not valid.
    """
    try:
        return _Values(text, schema).value(tree_of(text), column.type)
    except UsageError as error:
        raise UsageError(
            f"column {column.name!r} ({column.type}) cannot be set to {clipped(text)!r}: {error.message}",
            culprit=error.culprit or clipped(text),
            hint=error.hint,
        ) from None
    except RecursionError:
        raise UsageError(f"the value of column {column.name!r} is nested too deep", culprit=column.name) from None


def type_of_expression(expression: pc.Expression, schema: pa.Schema, shown: str) -> pa.DataType:
    """The type of what an expression computes. Raises: UsageError: it does not fit the columns."""
    try:
        return ds.dataset(schema.empty_table()).to_table(columns={"value": expression}).schema.field(0).type
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(f"{shown} does not fit the table: {first_line(error)}", culprit=shown, hint=VALID) from None


class _Values(Reader):
    """Turns sqlglot's tree of one text into values."""

    def value(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        """A value; a literal gets the type that is wanted."""
        while isinstance(tree, exp.Paren):
            (tree,) = self._parts(tree, "this")
        if self._is_literal(tree):
            return self._literal_of(tree, wanted)
        kind = type(tree)
        if kind in _ARITHMETIC or kind is exp.Div:
            return self._computed(tree, wanted)
        if kind in _FUNCTIONS:
            return self._function(tree, wanted)
        if isinstance(tree, exp.Column | exp.Dot):
            column = self._column(self._names(tree))
            return Assigned(_field(column.path), column.type)
        reader = self._values.get(kind)
        if reader is not None:
            return reader(self, tree, wanted)
        return Assigned(expression_of(self.node(tree)), pa.bool_())

    def _is_literal(self, tree: exp.Expr) -> bool:
        if isinstance(tree, exp.Neg):
            return isinstance(tree.this, exp.Literal) and not tree.this.is_string
        if isinstance(tree, exp.Cast):
            return self._moment(tree) is not None
        return isinstance(tree, exp.Literal | exp.Boolean | exp.Null | exp.HexString)

    def _literal_of(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        literal = self._literal(tree)
        if literal is None:
            return Assigned(pc.scalar(pa.scalar(None, wanted)), wanted)
        try:
            settled = settle(Comparison.EQUAL, literal, wanted, str(wanted))
        except UsageError as error:
            raise _no_value(literal, wanted, error.hint) from None
        if settled.how is None or settled.value is None:
            raise _no_value(literal, wanted, "CAST(... AS type) rounds, in the expression")
        return Assigned(pc.scalar(scalar_of(settled.value, wanted)), wanted)

    def _computed(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        parts = self._parts(tree, "this", "expression", flags=("typed", "safe"))
        known = [None if self._is_literal(part) else self.value(part, wanted) for part in parts]
        types = [one.type for one in known if one is not None]
        operands = [
            one or self._operand_beside(part, types[0] if types else wanted)
            for one, part in zip(known, parts, strict=True)
        ]
        whole = [pa.types.is_integer(one.type) for one in operands]
        floats = [pa.types.is_floating(one.type) for one in operands]
        if (any(whole) and any(floats)) or (isinstance(tree, exp.Div) and all(whole)):
            # Arrow itself would compute a 32-bit whole number and a fraction in 32 bits.
            operands = [Assigned(one.expression.cast(pa.float64()), pa.float64()) for one in operands]
        left, right = (one.expression for one in operands)
        if isinstance(tree, exp.Div):
            return self._typed(quotient(left, right, operands[1].type), tree)
        return self._typed(_ARITHMETIC[type(tree)](left, right), tree)

    def _operand_beside(self, tree: exp.Expr, beside: pa.DataType) -> Assigned:
        """A literal that is computed with: of the other side's type, or of a type that has its digits."""
        literal = self._literal(tree)
        if literal is None or literal.family is not Family.NUMBER:
            return self._literal_of(tree, beside)
        if pa.types.is_integer(beside):
            is_whole = literal.text.lstrip("-").isdigit()
            return self._literal_of(tree, pa.int64() if is_whole else pa.float64())
        if pa.types.is_decimal(beside):
            return Assigned(*_decimal(literal))
        return self._literal_of(tree, beside)

    def _function(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        (this,) = self._parts(tree, "this")
        is_number = isinstance(tree, exp.Abs | exp.Neg)
        argument = self.value(this, wanted if is_number else pa.string())
        if is_number != (family_of(argument.type) in (Family.NUMBER, Family.FLOAT)) or (
            not is_number and family_of(argument.type) is not Family.TEXT
        ):
            raise self._refuse(tree, f"its argument is {argument.type}")
        return self._typed(_FUNCTIONS[type(tree)](argument.expression), tree)

    def _joined_texts(self, tree: exp.Expr, _wanted: pa.DataType) -> Assigned:
        parts = self._parts(tree, "this", "expression", flags=("safe",))
        texts = [self.value(part, pa.string()) for part in parts]
        if any(family_of(one.type) is not Family.TEXT for one in texts):
            raise self._refuse(tree, "|| joins texts; CAST(... AS STRING) makes one of another value")
        return self._typed(pc.binary_join_element_wise(*(one.expression for one in texts), ""), tree)

    def _first_known(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        parts = [*self._parts(tree, "this", flags=("expressions", "is_nvl", "is_null")), *tree.expressions]
        values = [self.value(part, wanted) for part in parts]
        return self._typed(pc.coalesce(*(one.expression for one in values)), tree)

    def _case(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        if tree.args.get("this") is not None:
            raise self._refuse(tree, "CASE needs a condition behind WHEN")
        default = tree.args.get("default")
        result = self.value(exp.Null() if default is None else default, wanted)
        for one in reversed(tree.args["ifs"]):
            result = self._chosen(tree, (one.this, one.args["true"]), result, wanted)
        return result

    def _if(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        other = self.value(tree.args.get("false") or exp.Null(), wanted)
        return self._chosen(tree, (tree.this, tree.args["true"]), other, wanted)

    def _chosen(
        self, tree: exp.Expr, branch: tuple[exp.Expr, exp.Expr], other: Assigned, wanted: pa.DataType
    ) -> Assigned:
        condition = pc.coalesce(expression_of(self.node(branch[0])), pc.scalar(value=False))
        value = self.value(branch[1], wanted)
        return self._typed(pc.if_else(condition, value.expression, other.expression), tree)

    def _cast(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        kind = self._type(tree.args["to"])
        if isinstance(tree, exp.TryCast) or kind is None:
            raise self._refuse(tree, "CAST is to INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BOOLEAN, DATE, "
                               "TIMESTAMP")  # fmt: skip
        value = self.value(tree.this, kind if self._is_literal(tree.this) else wanted)
        found = value.expression
        if pa.types.is_floating(value.type) and pa.types.is_integer(kind):
            found = pc.trunc(found)  # a cast that truncates by itself would make a number of NaN, too
        options = pc.CastOptions(kind, allow_decimal_truncate=True, allow_time_truncate=True)
        return self._typed(found.cast(options=options), tree)

    def _type(self, tree: exp.Expr) -> pa.DataType | None:
        if tree.this is exp.DataType.Type.DECIMAL:
            sizes = [int(str(one.this)) for one in tree.expressions]
            return pa.decimal128(*sizes) if sizes else None
        return _TYPES.get(tree.this)

    def _typed(self, expression: pc.Expression, tree: exp.Expr) -> Assigned:
        return Assigned(expression, type_of_expression(expression, self._schema, tree.sql()))

    _values: ClassVar[dict[type[exp.Expr], Callable[[Any, Any, pa.DataType], Assigned]]] = {
        exp.DPipe: _joined_texts,
        exp.Coalesce: _first_known,
        exp.Case: _case,
        exp.If: _if,
        exp.Cast: _cast,
        exp.TryCast: _cast,
    }


def _field(path: Path) -> pc.Expression:
    return pc.field(path[0]) if len(path) == 1 else pc.field(*path)


def _no_value(literal: Literal, kind: pa.DataType, hint: str | None) -> UsageError:
    shown = f"'{literal.text}'" if literal.family is Family.TEXT else literal.text
    return UsageError(f"{shown} is no value of the type {kind}", culprit=literal.text, hint=hint)


def _decimal(literal: Literal) -> tuple[pc.Expression, pa.DataType]:
    try:
        scalar = pa.scalar(Decimal(literal.text))
    except (InvalidOperation, pa.ArrowException) as error:
        raise UsageError(f"{literal.text} is no decimal: {first_line(error)}", culprit=literal.text) from None
    return pc.scalar(scalar), scalar.type
