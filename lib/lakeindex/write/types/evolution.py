"""The columns that a table has once a batch with more, or wider, columns is in it.

New columns go to the end, new fields to the end of their struct, all of them nullable: what is stored already has no
value for them. A column becomes wider as Hudi's and Avro's schema resolution let it (``SchemaCompatibility`` of Avro,
``AvroSchemaEvolutionUtils`` of Hudi): int, long, float, double in this order, decimals to more digits on either
side of the point. Stored values are read as :mod:`lakeindex.write.types.widening` says; files stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection

import pyarrow as pa

from lakeindex.errors import SchemaMismatchError
from lakeindex.options.types import SchemaMode
from lakeindex.write.types.avro_schema import DELETE_MARK, META_COLUMNS, check_names, schema_from_avro, schema_to_avro
from lakeindex.write.types.storable import storable_schema, storable_type
from lakeindex.write.types.type_fit import plain_type

_NUMBERS = (pa.int32(), pa.int64(), pa.float32(), pa.float64())
"""Numbers in the order in which one becomes the other."""
_MOST_DIGITS = 38


def evolved(schema: pa.Schema, batch: pa.Schema, mode: SchemaMode, fixed: Collection[str] = ()) -> pa.Schema:
    """The table's columns with those of a batch.

    Args:
        schema: the table's columns, without meta columns.
        batch: columns of a batch, in any order and in whatever types they come.
        mode: what may change.
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
            f"the new column {name or field.name!r} has no type: it is null in every row",
            culprit=name or field.name,
            hint="cast it to the type that it shall have, or leave it out",
        )
    return schema_from_avro(schema_to_avro(pa.schema([field.with_nullable(True)]), "batch")).field(0).type
