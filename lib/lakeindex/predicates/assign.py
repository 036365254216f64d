"""New values of columns as texts: SQL's right side of ``SET column = ...``, typed by the table's columns.

Sums and products are checked: an overflow is an error when rows are computed, no other number. ``/`` of whole numbers
is a fraction, and null if the divisor is zero, as in conditions. A literal takes the type of what it is computed with,
or of the column.

CAST is as in Spark's SQL with ANSI rules: what does not fit is an error when rows are computed, no other value.
Decimals are rounded half up. A float becomes the decimal of its shortest text, as ``1.005`` for the double next to it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from sqlglot import exp

from lakeindex.errors import UsageError, clipped, first_line
from lakeindex.predicates.arrow_expressions import Assigned, all_true, expression_of
from lakeindex.predicates.condition_text import Reader, tree_of
from lakeindex.predicates.nodes import Comparison, Path
from lakeindex.predicates.values import (
    Family,
    Literal,
    as_float,
    decimal_type,
    family_of,
    in_decimals,
    number_of,
    quotient,
    scalar_of,
    settle,
)

_DIGITS: Final = 76
_NUMBERS: Final = (Family.NUMBER, Family.FLOAT)
_ROUNDED: Final = "CAST(... AS type) rounds, in the expression"
_TOO_LARGE: Final = "it is too large: give a smaller number"


def cast_to(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression | None:
    """A value in another type.

    Returns:
        The value; None if there is no such cast, or none that means what Spark's does.
    """
    if source == target:
        return value
    have, want = family_of(source), family_of(target)
    if want is Family.TEXT:
        return _text_of(value, source)
    if have is Family.TEXT:
        return _of_text(value, target)
    if have in _NUMBERS and want in _NUMBERS:
        return _number(value, source, target)
    if pa.types.is_integer(source) and pa.types.is_timestamp(target):
        return value.cast(pa.int64()).cast(pa.timestamp("s")).cast(target)
    moments = have is Family.MOMENT and want is Family.MOMENT
    truths = have is Family.BOOLEAN or want is Family.BOOLEAN
    if moments or (truths and {have, want} <= {Family.BOOLEAN, *_NUMBERS} and not _has_decimal(source, target)):
        return value.cast(options=pc.CastOptions(target, allow_time_truncate=True))
    return None


def rounded(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    """A decimal with the digits of another, rounded half up."""
    if source.scale > target.scale:
        wide = value.cast(pa.decimal256(_DIGITS, source.scale))
        value = pc.round(wide, ndigits=target.scale, round_mode="half_towards_infinity")
    return value.cast(target)


def common_type(kinds: set[pa.DataType]) -> pa.DataType | None:
    """The type of the values of CASE and COALESCE, of several types of numbers; None if there is none."""
    if any(map(pa.types.is_floating, kinds)):
        return pa.float64()
    if not any(map(pa.types.is_decimal, kinds)):
        return max(kinds, key=lambda kind: kind.bit_width)
    digits = [(kind.precision, kind.scale) if pa.types.is_decimal(kind) else (whole_digits(kind), 0) for kind in kinds]
    scale = max(scale for _, scale in digits)
    precision = scale + max(precision - scale for precision, scale in digits)
    return pa.decimal128(precision, scale) if precision <= 38 else None


def whole_digits(kind: pa.DataType) -> int:
    """Digits of a type of whole numbers."""
    return 10 if kind.bit_width <= 32 else 20


def _number(value: pc.Expression, source: pa.DataType, target: pa.DataType) -> pc.Expression:
    types = pa.types
    if types.is_decimal(target):
        if types.is_floating(source):
            return _of_text(value.cast(pa.float64()).cast(pa.string()), target)  # as Spark does with 32 bits, too
        if types.is_integer(source):
            digits = pa.decimal256(whole_digits(source), 0)
            return value.cast(digits).cast(pa.decimal256(_DIGITS, target.scale)).cast(target)
        return rounded(value, source, target)
    if types.is_floating(target):
        return as_float(value, source, target)
    if types.is_floating(source):
        value = pc.trunc(value)  # a cast that truncates by itself would make a number of NaN, too
    return value.cast(options=pc.CastOptions(target, allow_decimal_truncate=True))


def _of_text(value: pc.Expression, target: pa.DataType) -> pc.Expression | None:
    if family_of(target) in (Family.BYTES, Family.CLOCK, Family.OTHER):
        return None
    value = pc.utf8_trim_whitespace(value)
    if pa.types.is_integer(target):  # Arrow reads hexadecimal digits, too, and no plus
        value = pc.replace_substring_regex(value, "^[+-]?0[xX]", "x")
        value = pc.replace_substring_regex(value, r"^\+(\d)", r"\1")
    if pa.types.is_decimal(target):
        wide = pa.decimal256(_DIGITS, target.scale + 1)
        return rounded(value.cast(options=pc.CastOptions(wide, allow_decimal_truncate=True)), wide, target)
    return value.cast(target)


def _text_of(value: pc.Expression, source: pa.DataType) -> pc.Expression | None:
    """Numbers as Arrow writes them in full; of a float Spark's text cannot be had (``1.0E20``)."""
    family = family_of(source)
    if family in (Family.FLOAT, Family.CLOCK, Family.OTHER):
        return None
    if pa.types.is_timestamp(source):
        if source.tz is not None:
            value = pc.local_timestamp(value)
        text = value.cast(pa.string())
        return text if source.unit == "s" else pc.replace_substring_regex(text, r"\.?0+$", "")
    return value.cast(pa.string())


def _has_decimal(*kinds: pa.DataType) -> bool:
    return any(map(pa.types.is_decimal, kinds))


VALID: Final = (
    "valid are columns, numbers, texts in single quotes, true, false, null, + - * /, || of texts, CASE WHEN, COALESCE, "
    "CAST, abs, lower, upper, trim, length, substring, concat, + and - of a date or timestamp and INTERVAL, and "
    "conditions as behind WHERE"
)
_OPERATORS: Final[dict[type[exp.Expr], str]] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*", exp.Div: "/"}
_CHECKED: Final[dict[str, Callable[..., pc.Expression]]] = {
    "+": pc.add_checked,
    "-": pc.subtract_checked,
    "*": pc.multiply_checked,
}
_FUNCTIONS: Final[dict[type[exp.Expr], Callable[..., pc.Expression]]] = {
    exp.Lower: pc.utf8_lower,
    exp.Upper: pc.utf8_upper,
    exp.Length: pc.utf8_length,
    exp.Trim: partial(pc.utf8_trim, characters=" "),
    exp.Abs: pc.abs_checked,
    exp.Neg: pc.negate_checked,
}
_SECONDS: Final = {"WEEK": 604_800, "DAY": 86_400, "HOUR": 3_600, "MINUTE": 60, "SECOND": 1}
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
_CAN_FAIL: Final = (exp.Add, exp.Sub, exp.Mul, exp.Div, exp.Neg, exp.Abs, exp.Cast, exp.TryCast)
_MOST_BRANCHES: Final = 200
_MOST_PARTS: Final = 8
"""Of a CASE and a COALESCE, so that each is computed where it is taken only: a condition is computed for each branch
behind it, and a part of a COALESCE twice for each that follows.
"""
_MOST_DIGITS: Final = 38


def expression_for(text: str, column: pa.Field, schema: pa.Schema) -> Assigned:
    """The value that a text says.

    Args:
        column: what is set: literals take its type.
        schema: columns that the text may name.

    Raises:
        UsageError: it cannot be read, names no column of the table, or asks for what is not valid.
    """
    try:
        reader = _Values(text, schema)
        found = reader.value(tree_of(text), column.type)
    except UsageError as error:
        raise UsageError(
            f"column {column.name!r} ({column.type}) cannot be set to {clipped(text)!r}: {error.message}",
            culprit=error.culprit or clipped(text),
            hint=error.hint,
        ) from None
    except RecursionError:
        raise UsageError(f"the value of column {column.name!r} is nested too deep", culprit=column.name) from None
    return Assigned(found.expression, found.type, frozenset(reader.named))


def type_of_expression(expression: pc.Expression, schema: pa.Schema, shown: str) -> pa.DataType:
    """The type of what an expression computes. Raises: UsageError: it does not fit the columns."""
    try:
        return ds.dataset(schema.empty_table()).to_table(columns={"value": expression}).schema.field(0).type
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UsageError(f"{shown} does not fit the table: {first_line(error)}", culprit=shown, hint=VALID) from None


class _Values(Reader):
    """Turns sqlglot's tree of one text into values.

    Arrow computes every branch for every row. So what can fail is computed of nulls, with which it does not, in rows
    that take another branch: of its own operand, as a part of that (COALESCE) may make a value of a null.
    """

    _taken: pc.Expression | None = None
    """The rows that take what is being read; None: all."""

    def _of_taken(self, one: Assigned) -> Assigned:
        if self._taken is None:
            return one
        return Assigned(pc.if_else(self._taken, one.expression, pc.scalar(pa.scalar(None, one.type))), one.type)

    def _branch(self, tree: exp.Expr, wanted: pa.DataType, conditions: Sequence[pc.Expression]) -> Assigned:
        """A value that is computed where all these conditions are true."""
        before = self._taken
        if conditions and any(isinstance(part, _CAN_FAIL) for part in tree.walk()):
            self._taken = all_true([*([] if before is None else [before]), *conditions])
        try:
            return self.value(tree, wanted)
        finally:
            self._taken = before

    def value(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        while isinstance(tree, exp.Paren):
            (tree,) = self._parts(tree, "this")
        if self._is_literal(tree):
            return self._literal_of(tree, wanted)
        kind = type(tree)
        if kind in _OPERATORS:
            return self._computed(tree, wanted)
        if kind in _FUNCTIONS:
            return self._function(tree, wanted)
        if isinstance(tree, exp.Column | exp.Dot):
            column = self._column_of(self._names(tree))
            return Assigned(_field(column.path), column.type)
        reader = self._values.get(kind)
        if reader is not None:
            return reader(self, tree, wanted)
        return Assigned(expression_of(self.node(tree)), pa.bool_())

    def _is_literal(self, tree: exp.Expr) -> bool:
        if isinstance(tree, exp.Neg):
            this = tree.this.unnest()
            return isinstance(this, exp.Literal) and not this.is_string
        if isinstance(tree, exp.Cast):
            return self._moment(tree) is not None
        return isinstance(tree, exp.Literal | exp.Boolean | exp.Null | exp.HexString)

    def _literal_of(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        literal = self._literal(tree)
        if literal is None:
            return Assigned(pc.scalar(pa.scalar(None, wanted)), wanted)
        if literal.family is Family.NUMBER and _is_exact_zero(literal.text):  # of which SQL has only one
            literal = Literal("0", Family.NUMBER)
        try:
            settled = settle(Comparison.EQUAL, literal, wanted, str(wanted))
        except UsageError as error:
            raise _no_value(literal, wanted, error.hint) from None
        if settled.how is None or settled.value is None:
            raise _no_value(literal, wanted, _TOO_LARGE if pa.types.is_floating(wanted) else _ROUNDED)
        if settled.value in (math.inf, -math.inf):
            raise _no_value(literal, wanted, _TOO_LARGE)
        return Assigned(pc.scalar(scalar_of(settled.value, wanted)), wanted)

    def _computed(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        parts = self._parts(tree, "this", "expression", flags=("typed", "safe"))
        if isinstance(tree, exp.Add) and isinstance(parts[0], exp.Interval):
            parts.reverse()
        if isinstance(tree, exp.Add | exp.Sub) and isinstance(parts[1], exp.Interval):
            return self._moved(tree, parts[0], parts[1], wanted)
        known = [None if self._is_literal(part) else self.value(part, wanted) for part in parts]
        types = [one.type for one in known if one is not None]
        operands = [
            one or self._operand_beside(part, types[0] if types else wanted, wanted)
            for one, part in zip(known, parts, strict=True)
        ]
        operands[0] = self._of_taken(operands[0])
        operator, kinds = _OPERATORS[type(tree)], [one.type for one in operands]
        if not all(family_of(kind) in (Family.NUMBER, Family.FLOAT) for kind in kinds):
            raise self._refuse(tree, f"there is no {operator} of {kinds[0]} and {kinds[1]}")
        if any(map(pa.types.is_floating, kinds)) or (operator == "/" and all(map(pa.types.is_integer, kinds))):
            kind = pa.float32() if set(kinds) == {pa.float32()} else pa.float64()
            left, right = (as_float(one.expression, one.type, kind) for one in operands)
            return Assigned(quotient(left, right, kind) if operator == "/" else _CHECKED[operator](left, right), kind)
        if all(map(pa.types.is_integer, kinds)):
            return self._typed(_CHECKED[operator](*(one.expression for one in operands)), tree)
        try:
            exact, kind = in_decimals(operator, *((one.expression, one.type) for one in operands))
        except pa.ArrowInvalid:
            why = (
                f"{operator} of {kinds[0]} and {kinds[1]} has more than 76 digits: CAST(... AS DECIMAL(p, s)) to fewer"
            )
            raise self._refuse(tree, why) from None
        wanted = decimal_type(operator, *kinds)
        return self._typed(rounded(exact, kind, wanted), tree)

    def _moved(self, tree: exp.Expr, moment: exp.Expr, interval: exp.Expr, wanted: pa.DataType) -> Assigned:
        """A date some days later or before, a timestamp some seconds."""
        number, unit = self._parts(interval, "this", "unit")
        seconds, count = _SECONDS.get(unit.name.upper().removesuffix("S")), _whole_number(number)
        if seconds is None or count is None:
            raise self._refuse(interval, "INTERVAL is a whole number of WEEK, DAY, HOUR, MINUTE or SECOND")
        value = self._of_taken(self.value(moment, wanted))
        steps = count * seconds * (-1 if isinstance(tree, exp.Sub) else 1)
        if pa.types.is_timestamp(value.type):
            parts = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}[value.type.unit]
            counted, places = pa.int64(), steps * parts
        elif pa.types.is_date32(value.type) and steps % _SECONDS["DAY"] == 0:
            counted, places = pa.int32(), steps // _SECONDS["DAY"]
        else:
            raise self._refuse(tree, f"{value.type} cannot be moved by {interval.sql()}")
        if abs(places) >= 2 ** (counted.bit_width - 1):
            raise self._refuse(interval, "it is too long")
        moved = pc.add_checked(value.expression.cast(counted), pc.scalar(pa.scalar(places, counted)))
        return Assigned(moved.cast(value.type), value.type)

    def _operand_beside(self, tree: exp.Expr, beside: pa.DataType, wanted: pa.DataType) -> Assigned:
        """A literal that is computed with: of the other side's type, or of a type that has its digits."""
        literal = self._literal(tree)
        if literal is None or literal.family is not Family.NUMBER:
            return self._literal_of(tree, beside)
        is_whole = literal.text.lstrip("-").isdigit()
        if pa.types.is_integer(beside) and (is_whole or not pa.types.is_decimal(wanted)):
            return self._literal_of(tree, pa.int64() if is_whole else pa.float64())
        if family_of(beside) is Family.NUMBER:
            number = number_of(literal.text)
            if number is None or number.type.precision > _MOST_DIGITS:
                raise self._refuse(tree, f"it is no number of at most {_MOST_DIGITS} digits")
            return Assigned(pc.scalar(number.scalar), number.type)
        return self._literal_of(tree, beside)

    def _function(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        (this,) = self._parts(tree, "this")
        is_number = isinstance(tree, exp.Abs | exp.Neg)
        argument = self._of_taken(self.value(this, wanted if is_number else pa.string()))
        if is_number != (family_of(argument.type) in (Family.NUMBER, Family.FLOAT)) or (
            not is_number and family_of(argument.type) is not Family.TEXT
        ):
            raise self._refuse(tree, f"its argument is {argument.type}")
        return self._typed(_FUNCTIONS[type(tree)](argument.expression), tree)

    def _joined_texts(self, tree: exp.Expr, _wanted: pa.DataType) -> Assigned:
        if isinstance(tree, exp.Concat):
            self._parts(tree, flags=("expressions", "safe", "coalesce"))
            parts, name = tree.expressions, "concat"
        else:
            parts, name = self._parts(tree, "this", "expression", flags=("safe",)), "||"
        texts = [self.value(part, pa.string()) for part in parts]
        if any(family_of(one.type) is not Family.TEXT for one in texts):
            raise self._refuse(tree, f"{name} joins texts; CAST(... AS STRING) makes one of another value")
        return self._typed(pc.binary_join_element_wise(*(one.expression for one in texts), ""), tree)

    def _part_of_text(self, tree: exp.Expr, _wanted: pa.DataType) -> Assigned:
        """As Spark counts: from 1, 0 is the first character, too, and negative numbers from the end."""
        this, first = self._parts(tree, "this", "start", flags=("length",))
        size = tree.args.get("length")
        start, length = _whole_number(first), None if size is None else _whole_number(size)
        text = self.value(this, pa.string())
        if family_of(text.type) is not Family.TEXT:
            raise self._refuse(tree, f"its argument is {text.type}")
        if start is None or (size is not None and (length is None or length < 0)):
            raise self._refuse(tree, "where it begins and how long it is are whole numbers")
        begin = start - 1 if start > 0 else start
        end = None if length is None or (begin < 0 <= begin + length) else begin + length
        found = pc.utf8_slice_codeunits(text.expression, start=begin, stop=end)
        return self._typed(found, tree)

    def _first_known(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        parts = [*self._parts(tree, "this", flags=("expressions", "is_nvl", "is_null")), *tree.expressions]
        found: list[Assigned] = []
        for part in parts:
            before = found if len(parts) <= _MOST_PARTS else []
            found.append(self._branch(part, wanted, [pc.is_null(one.expression) for one in before]))
        return self._typed(pc.coalesce(*self._alike(tree, found)), tree)

    def _case(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        if tree.args.get("this") is not None:
            raise self._refuse(tree, "CASE needs a condition behind WHEN")
        return self._chosen(tree, tree.args["ifs"], tree.args.get("default"), wanted)

    def _if(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        return self._chosen(tree, [tree], tree.args.get("false"), wanted)

    def _chosen(
        self, tree: exp.Expr, branches: Sequence[exp.Expr], other: exp.Expr | None, wanted: pa.DataType
    ) -> Assigned:
        conditions = [expression_of(self.node(one.this)) for one in branches]
        met = [pc.coalesce(one, pc.scalar(value=False)) for one in conditions if len(conditions) <= _MOST_BRANCHES]
        values = [
            self._branch(value, wanted, [~one for one in met[:number]] + met[number : number + 1])
            for number, value in enumerate((*(one.args["true"] for one in branches), other or exp.Null()))
        ]
        names = pc.MakeStructOptions([str(number) for number in range(len(conditions))])
        choice = pc.make_struct(*conditions, options=names)
        return self._typed(pc.case_when(choice, *self._alike(tree, values)), tree)

    def _alike(self, tree: exp.Expr, values: Sequence[Assigned]) -> list[pc.Expression]:
        """Values of one type of numbers, if they are numbers."""
        kinds = {one.type for one in values}
        if len(kinds) == 1 or not {family_of(kind) for kind in kinds} <= {Family.NUMBER, Family.FLOAT}:
            return [one.expression for one in values]
        kind = common_type(kinds)
        found = [None if kind is None else cast_to(one.expression, one.type, kind) for one in values]
        known = [one for one in found if one is not None]
        if len(known) < len(found):
            listed = ", ".join(sorted(map(str, kinds)))
            raise self._refuse(tree, f"its values ({listed}) have no type of 38 digits in common: CAST them to one")
        return known

    def _cast(self, tree: exp.Expr, wanted: pa.DataType) -> Assigned:
        kind = self._type(tree.args["to"])
        if isinstance(tree, exp.TryCast) or kind is None:
            raise self._refuse(tree, "CAST is to INT, BIGINT, FLOAT, DOUBLE, DECIMAL(p, s), STRING, BOOLEAN, DATE, "
                               "TIMESTAMP")  # fmt: skip
        value = self._of_taken(self._cast_operand(tree.this, kind, wanted))
        found = cast_to(value.expression, value.type, kind)
        if found is None:
            raise self._refuse(tree, f"there is no CAST of {value.type} to {kind} that means what Spark's does")
        return self._typed(found, tree)

    def _cast_operand(self, tree: exp.Expr, kind: pa.DataType, wanted: pa.DataType) -> Assigned:
        """What is cast; a literal as it is written, exactly."""
        literal = self._literal(tree) if self._is_literal(tree) else None
        if literal is not None and literal.family is Family.TEXT:
            return Assigned(pc.scalar(pa.scalar(literal.text, pa.string())), pa.string())
        number = number_of(literal.text) if literal is not None and literal.family is Family.NUMBER else None
        if number is not None and "e" not in number.text.lower() and kind != pa.string():
            return Assigned(pc.scalar(number.scalar), number.type)
        return self.value(tree, kind if self._is_literal(tree) else wanted)

    def _type(self, tree: exp.Expr) -> pa.DataType | None:
        if tree.this is exp.DataType.Type.DECIMAL:
            sizes = [int(str(one.this)) for one in tree.expressions]
            precision, scale = (*sizes, 0)[:2] if sizes else (10, 0)
            return pa.decimal128(precision, scale) if 0 < precision <= _MOST_DIGITS and scale <= precision else None
        return _TYPES.get(tree.this)

    def _typed(self, expression: pc.Expression, tree: exp.Expr) -> Assigned:
        return Assigned(expression, type_of_expression(expression, self._schema, tree.sql()))

    _values: ClassVar[dict[type[exp.Expr], Callable[[Any, Any, pa.DataType], Assigned]]] = {
        exp.DPipe: _joined_texts,
        exp.Concat: _joined_texts,
        exp.Substring: _part_of_text,
        exp.Coalesce: _first_known,
        exp.Case: _case,
        exp.If: _if,
        exp.Cast: _cast,
        exp.TryCast: _cast,
    }


def _whole_number(tree: exp.Expr) -> int | None:
    """A whole number that is written out; None if it is something else."""
    if isinstance(tree, exp.Neg):
        found = _whole_number(tree.this)
        return None if found is None else -found
    text = str(tree.this) if isinstance(tree, exp.Literal) else ""
    return int(text) if re.fullmatch(r"-?\d{1,18}", text, re.ASCII) else None


def _is_exact_zero(text: str) -> bool:
    """Whether a number is zero, and no float by its form: that has a sign (``-0e0``)."""
    return "e" not in text.lower() and not text.strip("-+0.")


def _field(path: Path) -> pc.Expression:
    return pc.field(path[0]) if len(path) == 1 else pc.field(*path)


def _no_value(literal: Literal, kind: pa.DataType, hint: str | None) -> UsageError:
    shown = f"'{literal.text}'" if literal.family is Family.TEXT else literal.text
    return UsageError(f"{shown} is no value of the type {kind}", culprit=literal.text, hint=hint)
