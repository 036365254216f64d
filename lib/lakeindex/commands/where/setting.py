"""What an update sets: constants, or expressions over the columns of the row as it was."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from lakeindex.errors import SchemaMismatchError, UsageError, first_line
from lakeindex.predicates.arrow import text_of
from lakeindex.predicates.assign import Assigned, expression_for, type_of_expression
from lakeindex.run.spec import TableFacts
from lakeindex.write.types.avro_schema import DELETE_MARK
from lakeindex.write.types.type_fit import type_problem

_ARROW_ERRORS = (pa.ArrowException, TypeError, ValueError, OverflowError)


@dataclass(frozen=True)
class Assignment:
    """A column's new value.

    Attributes:
        column: the column.
        expression: the value, as Arrow computes it from the row's columns.
    """

    column: str
    expression: pc.Expression


def read_values(values: Mapping[str, object], facts: TableFacts) -> tuple[Assignment, ...]:
    """What an update sets, column by column.

    Args:
        values: of each column a text (an SQL-like expression), a pyarrow expression or scalar, or a plain value.

    Raises:
        UsageError: there is no such column, it may not be set, or the value does not fit its type.
    """
    _check_columns(values, facts)
    return tuple(Assignment(name, _expression(name, value, facts.schema)) for name, value in values.items())


def assigned(rows: pa.Table, values: Sequence[Assignment]) -> pa.Table:
    """Rows with new values; all are computed from the rows as they were.

    Raises:
        SchemaMismatchError: a value cannot be computed: a number that is too large, a division by zero.
    """
    result = rows
    source = ds.dataset(rows) if values else None
    for one in values:
        try:
            column = source.to_table(columns={one.column: one.expression}).column(0)  # type: ignore[union-attr]
        except _ARROW_ERRORS as error:
            raise SchemaMismatchError(
                f"the new value of column {one.column!r} cannot be computed for every row: {first_line(error)}",
                culprit=one.column,
                hint="nothing was published; leave such rows out by the condition, or compute in a wider type",
            ) from error
        result = result.set_column(result.schema.get_field_index(one.column), one.column, column)
    return result


def _check_columns(values: Mapping[str, object], facts: TableFacts) -> None:
    if not values:
        raise UsageError("an update sets nothing", culprit="set", hint="for example set={'status': \"'closed'\"}")
    listed = f"its columns: {', '.join(facts.schema.names)}"
    names = frozenset(facts.schema.names)
    for name in values:
        if name not in names:
            raise UsageError(f"the table has no column {name!r} that could be set", culprit=name, hint=listed)
        if name in facts.keys.record_key_fields or name in {one.split(".")[0] for one in facts.keys.record_key_fields}:
            raise _fixed(name, "it is in the record key", "delete the row, and insert it with the other key")
        if name in {one.split(".")[0] for one, _ in facts.keys.partition_fields}:
            raise _fixed(name, "it makes the partition path", "upsert the rows with another partition, or delete them")
        if name in facts.event_time_fields:
            why = "it is the ordering field: an update by a smaller value would be late, and one by a larger value"
            raise _fixed(name, f"{why} would make rows late that are not", "upsert the rows with their ordering values")
        if name == DELETE_MARK:
            raise _fixed(name, "it marks rows to be deleted", "delete(where=...) deletes rows")


def _fixed(name: str, why: str, hint: str) -> UsageError:
    return UsageError(f"column {name!r} cannot be set: {why}", culprit=name, hint=hint)


def _expression(name: str, value: object, schema: pa.Schema) -> pc.Expression:
    column = schema.field(name)
    if isinstance(value, str):
        found = expression_for(value, column, schema)
    elif isinstance(value, pc.Expression):
        found = Assigned(value, type_of_expression(value, schema, text_of(value)))
    else:
        found = _constant(name, value, column.type)
    problem = type_problem(found.type, column.type)
    if problem is not None:
        raise UsageError(
            f"column {name!r} is {column.type}, and cannot be set to {value}, which is {found.type}: {problem}",
            culprit=name,
            hint="CAST(... AS type) makes another type of it, in the expression",
        )
    return found.expression


def _constant(name: str, value: object, kind: pa.DataType) -> Assigned:
    try:
        scalar = value if isinstance(value, pa.Scalar) else pa.scalar(value, kind)
        if scalar.as_py() is None:
            scalar = pa.scalar(None, kind)
    except _ARROW_ERRORS as error:
        raise UsageError(
            f"column {name!r} is {kind}, and cannot be set to {value!r}: {first_line(error)}",
            culprit=name,
            hint="a text is an expression: a constant text is in single quotes, as in \"'closed'\"",
        ) from None
    return Assigned(pc.scalar(scalar), scalar.type)
