"""Fit a batch's columns to the table's: same names, types that widen without loss, nothing missing, nothing extra; or
the table's to the batch's, where the schema mode lets it.

New columns go to the end, new fields to the end of their struct, all of them nullable: what is stored already has no
value for them. A column becomes wider as Hudi's and Avro's schema resolution let it (``SchemaCompatibility`` of Avro,
``AvroSchemaEvolutionUtils`` of Hudi): int, long, float, double in this order, decimals to more digits on either
side of the point. Stored values are read as :mod:`lakeindex.write.types.widening` says; files stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakeindex.errors import SchemaMismatchError, first_line
from lakeindex.frozen import Frozen
from lakeindex.hashing.arrow import one_array
from lakeindex.options.option import (
    CSV_DELIMITER_OPTION,
    NULL_FOR_MISSING_OPTION,
    PARTIAL_OPTION,
    SCHEMA_MODE_OPTION,
)
from lakeindex.options.types import SchemaMode
from lakeindex.write.single_columns import nulls_of, without_hidden_nulls
from lakeindex.write.types.avro_schema import (
    CHANGE_TYPE,
    DELETE_MARK,
    META_COLUMNS,
    OWN_PREFIX,
    check_names,
    own_name,
    same_name,
    schema_from_avro,
    schema_to_avro,
)
from lakeindex.write.types.type_fit import (
    null_problem,
    plain_type,
    storable_column,
    storable_schema,
    storable_type,
    type_problem,
    value_problem,
    with_nulls,
)

_NAMED: Final = 20
_ALIKE: Final = 0.6
_DELIMITERS: Final = (";", "\t", "|", ":", ",")
_HOW_TO_SAY = f'schema_mode="{{mode}}" (--schema-mode {{mode}}; option {SCHEMA_MODE_OPTION})'


class FittedBatch(Frozen):
    """A batch in the table's columns.

    Attributes:
        columns: the table's columns, in the table's order and types; all rows of the batch.
        deleted: bool per row, from ``_hoodie_is_deleted`` and the table's own mark; false where the batch has no such
            column.
        null_problem: string per row or null: which column that must not be null is null.
    """

    columns: pa.Table
    deleted: pa.BooleanArray
    null_problem: pa.StringArray


class Lacking(Frozen):
    """What can be done about columns that a batch lacks.

    Attributes:
        deciding: columns that it cannot lack: of the record key, the partition path, the ordering.
        updates: it may be a partial update; else its rows are stored whole.
        is_feed: it is a feed of changes, whose rows are whole.
    """

    names: tuple[str, ...]
    deciding: frozenset[str] = frozenset()
    updates: bool = False
    is_feed: bool = False

    def error(self, missing: Sequence[str], stored: Sequence[str]) -> SchemaMismatchError:
        """What is said of the missing ones; ``stored``: the table's columns."""
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        has = f"{', '.join(self.names[:_NAMED])}{', ...' if len(self.names) > _NAMED else ''}" or "none"
        return SchemaMismatchError(
            f"the batch lacks column {missing[0]!r}{more}; it has: {has}",
            culprit=missing[0],
            hint=f"the table has: {', '.join(stored)}; {self._cure(missing, stored)}",
        )

    def _cure(self, missing: Sequence[str], stored: Sequence[str]) -> str:
        sign = self._delimiter(stored)
        if sign is not None:
            return f"the header is one column: say what separates its fields: -o {CSV_DELIMITER_OPTION}={sign!r}"
        others = [name for name in self.names if name not in stored]
        near = {name: get_close_matches(name, others, 1, _ALIKE) for name in missing}
        alike = [f"{found[0]!r} looks like {name!r}" for name, found in near.items() if found]
        if alike:
            return f"{' and '.join(alike[:_NAMED])}: give it the table's name"
        decides = next((name for name in missing if name in self.deciding), None)
        if decides is not None:
            return (
                f"every row needs {decides!r}, which is part of the record key, the partition path or the ordering: "
                "add it to the batch"
            )
        if self.is_feed:
            return "make the feed with all columns that the table has"
        if self.updates:
            return (
                f"partial=True (--partial; option {PARTIAL_OPTION}=overwrite) keeps what is stored in columns that a "
                "batch lacks"
            )
        return f"with {NULL_FOR_MISSING_OPTION}=true columns that it lacks are null in its rows"

    def _delimiter(self, stored: Sequence[str]) -> str | None:
        """What separates several of the table's columns in a header that was read as one."""
        for sign in _DELIMITERS if len(self.names) == 1 else ():
            if len(set(self.names[0].replace('"', "").split(sign)) & set(stored)) > 1:
                return "tab" if sign == "\t" else sign
        return None


def fit_batch(
    batch: pa.Table,
    schema: pa.Schema,
    *,
    only: frozenset[str] | None = None,
    may_lack: frozenset[str] = frozenset(),
    stored: pa.Schema | None = None,
    delete_mark: tuple[str, str] | None = None,
    lacking: Lacking | None = None,
) -> FittedBatch:
    """Cast and order a batch's columns as the table's.

    Args:
        batch: rows with any column order; meta columns are dropped.
        only: if given, just these columns need to be there (deletes: key, partition and ordering columns); the others
            come out null.
        may_lack: columns that need not be there; they come out null.
        stored: the columns that the table has, if ``schema`` are those that it gets, or a part of them.
        delete_mark: a column, fields of structs behind dots, and the text of its value in rows that are to be deleted.

    Raises:
        SchemaMismatchError: a column is missing, unknown, or does not convert without loss.
    """
    names = [n for n in batch.column_names if n not in META_COLUMNS]
    there = frozenset((*names, *may_lack))
    needed = [f.name for f in schema if f.name not in there and (only is None or f.name in only)]
    listed = (schema if stored is None else stored).names
    _check_names(names, schema, only, [name for name in needed if name != DELETE_MARK], listed, lacking)
    rows = batch.num_rows
    arrays = []
    problems: pa.Array = pa.nulls(rows, pa.string())
    for field in schema:
        if field.name not in names:
            arrays.append(pa.chunked_array([nulls_of(rows, field.type)]))
            continue
        column = fit_column(batch.column(field.name), field)
        arrays.append(column)
        if not field.nullable and column.null_count:
            reason = pa.scalar(f"column {field.name!r} must not be null")
            problems = pc.coalesce(
                problems, pc.if_else(column.combine_chunks().is_null(), reason, pa.scalar(None, pa.string()))
            )
    nullable = pa.schema([f.with_nullable(True) for f in schema])
    columns, deleted = pa.table(arrays, schema=nullable), _deleted(batch)
    if delete_mark is not None:
        deleted = pc.or_(deleted, _marked(columns, *delete_mark))
    return FittedBatch(columns, deleted, one_array(problems))


def refuse_feed(new: Collection[str]) -> None:
    """Columns that a table has not must not be those of a feed of changes. Raises: SchemaMismatchError: they are."""
    if CHANGE_TYPE in new:
        raise SchemaMismatchError(
            f"the batch has column {CHANGE_TYPE!r}: it is a feed of changes, and its deletes are no rows to store",
            culprit=CHANGE_TYPE,
            hint="apply it: table.apply(changes), or `lakeindex apply TABLE FEED`; to store it, rename the column",
        )


def _check_names(
    names: list[str],
    schema: pa.Schema,
    only: frozenset[str] | None,
    missing: list[str],
    stored: list[str],
    lacking: Lacking | None,
) -> None:
    if len(set(names)) < len(names):
        twice = sorted({n for n in names if names.count(n) > 1})
        raise SchemaMismatchError(
            f"the batch has column {twice[0]!r} twice", culprit=twice[0], hint="rename one of them"
        )
    known_here = {*schema.names, DELETE_MARK}
    extra = [n for n in names if n not in known_here]
    known = {name.lower(): name for name in (*META_COLUMNS, DELETE_MARK, *stored)}
    for name in extra:
        alike = known.get(name.lower())
        if alike is not None and (only is None or alike in missing):
            raise same_name(name, alike, "the batch")
    refuse_feed(extra)
    ours = next((name for name in extra if name.startswith(OWN_PREFIX)), None)
    if ours is not None and only is None:
        raise own_name(ours, "the batch")
    if missing:
        raise (lacking or Lacking(tuple(names))).error(missing, stored)
    if extra and only is None:
        raise SchemaMismatchError(
            f"the table has no column {extra[0]!r}",
            culprit=extra[0],
            hint=f"drop it from the batch, or add it to the table with {_HOW_TO_SAY.format(mode='add')}; "
            f"the table has: {', '.join(stored)}",
        )


def fit_column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    """A column of a batch in the type that it has in the table. Raises: SchemaMismatchError: it loses something."""
    fitted = _converted(column, field.with_type(with_nulls(field.type)))
    problem = null_problem(fitted, field.type)
    if problem is not None:
        raise _does_not_fit(column.type, field, problem)
    return without_hidden_nulls(fitted, field.type)


def _converted(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    given = column.type
    if given == field.type:
        return column
    from lakeindex.predicates.values import as_float  # not for who only looks at a table

    problem = type_problem(storable_type(given), field.type)
    if problem is not None:
        raise _does_not_fit(given, field, problem)
    try:
        column = storable_column(column)
        digits = pa.types.is_floating(field.type) and pa.types.is_decimal(column.type)
        fitted = as_float(column, column.type, field.type) if digits else column.cast(field.type, safe=True)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _does_not_fit(given, field, first_line(error)) from error
    problem = value_problem(column, fitted)
    if problem is not None:
        raise _does_not_fit(given, field, problem)
    return fitted


def _does_not_fit(kind: pa.DataType, field: pa.Field, why: str) -> SchemaMismatchError:
    becomes = wider(field.type, kind)
    make_wider = (
        "" if becomes == field.type else f", or make the column {becomes} with {_HOW_TO_SAY.format(mode='widen')}"
    )
    return SchemaMismatchError(
        f"column {field.name!r} is {kind} in the batch but {field.type} in the table: {why}",
        culprit=field.name,
        hint=f"cast it before the upsert; only conversions without loss are done here{make_wider}",
    )


def _deleted(batch: pa.Table) -> pa.BooleanArray:
    if DELETE_MARK not in batch.column_names:
        return pa.repeat(pa.scalar(value=False), batch.num_rows)
    mark = batch.column(DELETE_MARK)
    if pa.types.is_null(mark.type):
        mark = mark.cast(pa.bool_())
    if not pa.types.is_boolean(mark.type):
        raise SchemaMismatchError(
            f"column {DELETE_MARK!r} is {mark.type}, not boolean",
            culprit=DELETE_MARK,
            hint="true marks a row to be deleted",
        )
    return one_array(pc.fill_null(mark, fill_value=False))


def _marked(columns: pa.Table, field: str, marker: str) -> pa.BooleanArray:
    """Rows whose value is the marker as Java prints it, which is sure of texts, whole numbers and truth values."""
    name, *path = field.split(".")
    if name not in columns.column_names:
        return pa.repeat(pa.scalar(value=False), columns.num_rows)
    value = one_array(columns.column(name))
    for inner in path:
        if not pa.types.is_struct(value.type) or value.type.get_field_index(inner) < 0:
            return pa.repeat(pa.scalar(value=False), columns.num_rows)
        value = pc.struct_field(value, inner)
    kind = value.type
    if pa.types.is_binary(kind):
        return pa.repeat(pa.scalar(value=False), columns.num_rows)
    if not (pa.types.is_string(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise SchemaMismatchError(
            f"column {field!r}, by whose value {marker!r} the table marks deletes, is {kind}",
            culprit=field,
            hint="texts, whole numbers and booleans can be compared as Hudi does; write to the table with Hudi",
        )
    return pc.fill_null(pc.equal(value.cast(pa.string()), marker), fill_value=False)


_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Numbers in the order in which one becomes the other."""
_MOST_DIGITS = 38


def evolved(schema: pa.Schema, batch: pa.Schema, mode: SchemaMode, fixed: Collection[str] = ()) -> pa.Schema:
    """The table's columns with those of a batch.

    Args:
        schema: the table's columns, without meta columns.
        batch: columns of a batch, in any order and in whatever types they come.
        fixed: columns whose type stays: record keys and partition paths are texts of their values.

    Returns:
        ``schema`` itself if nothing changes. What may not change is left as it is: the batch does not fit then.

    Raises:
        SchemaMismatchError: a new column whose name or type a table cannot have, or whose name another one has but for
            case.
    """
    if mode is SchemaMode.STRICT:
        return schema
    may_widen = mode is SchemaMode.WIDEN
    fields = list(schema)
    for field in storable_schema(batch):
        if field.name in META_COLUMNS or field.name == DELETE_MARK:
            continue
        place = schema.get_field_index(field.name)
        if place < 0:
            fields.append(pa.field(field.name, _stored_type(field)))
        elif field.name not in fixed:
            joined = _joined(fields[place].type, field.type, field.name, may_widen=may_widen)
            fields[place] = fields[place].with_type(joined)
    grown = pa.schema(fields)
    check_names(grown, "the batch")
    return grown


def differences(before: pa.Schema, after: pa.Schema) -> tuple[str, ...]:
    """What became of a table's columns, in words: one text for each that is new or has another type."""
    return tuple(
        f"column {field.name!r} is new: {field.type}"
        if before.get_field_index(field.name) < 0
        else f"column {field.name!r} was {before.field(field.name).type} and is {field.type} now"
        for field in after
        if before.get_field_index(field.name) < 0 or before.field(field.name).type != field.type
    )


def wider(table: pa.DataType, batch: pa.DataType) -> pa.DataType:
    """The type of a column that holds values of both; the table's own, if it cannot become wider for them."""
    return _joined(table, storable_type(batch), "", may_widen=True)


def _joined(table: pa.DataType, batch: pa.DataType, name: str, *, may_widen: bool) -> pa.DataType:
    batch = plain_type(batch)
    if pa.types.is_struct(table) and pa.types.is_struct(batch):
        return _joined_struct(table, batch, name, may_widen=may_widen)

    def inner(one: pa.DataType, other: pa.DataType) -> pa.DataType:
        return _joined(one, other, name, may_widen=may_widen)

    if pa.types.is_list(table) and (pa.types.is_list(batch) or pa.types.is_large_list(batch)):
        return pa.list_(table.value_field.with_type(inner(table.value_type, batch.value_type)))
    if pa.types.is_map(table) and pa.types.is_map(batch):
        return pa.map_(table.key_field, table.item_field.with_type(inner(table.item_type, batch.item_type)))
    return _wider_number(table, batch) if may_widen else table


def _joined_struct(table: pa.StructType, batch: pa.StructType, name: str, *, may_widen: bool) -> pa.StructType:
    fields = {field.name: field for field in table}
    for field in batch:
        mine, inside = fields.get(field.name), f"{name}.{field.name}"
        if mine is None:
            fields[field.name] = pa.field(field.name, _stored_type(field, inside))
        else:
            fields[field.name] = mine.with_type(_joined(mine.type, field.type, inside, may_widen=may_widen))
    return pa.struct(list(fields.values()))


def _wider_number(table: pa.DataType, batch: pa.DataType) -> pa.DataType:
    if pa.types.is_decimal(table) and pa.types.is_decimal(batch):
        scale = max(table.scale, batch.scale)
        digits = max(table.precision - table.scale, batch.precision - batch.scale) + scale
        return pa.decimal128(digits, scale) if digits <= _MOST_DIGITS else table
    if pa.types.is_integer(batch):
        batch = pa.int64() if batch in (pa.int64(), pa.uint32()) else pa.int32()
    if table not in _NUMBERS or batch not in _NUMBERS:
        return table
    return max(table, batch, key=_NUMBERS.index)


def _stored_type(field: pa.Field, name: str | None = None) -> pa.DataType:
    """The type that a new column has in a table. Raises: SchemaMismatchError: there is none, or no such name."""
    if pa.types.is_null(field.type):
        raise SchemaMismatchError(
            f"the new column {name or field.name!r} has no type: it is null in every row (CSV, JSON: of the first MiB)",
            culprit=name or field.name,
            hint="cast it to the type that it shall have, or leave it out",
        )
    return schema_from_avro(schema_to_avro(pa.schema([field.with_nullable(True)]), "batch")).field(0).type
