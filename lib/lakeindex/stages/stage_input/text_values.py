"""Values of texts: of the fields of CSV files, and of JSON's texts and numbers. Numbers are exact: no text of one goes
through a float. What is no value of its column's type is null, and told by its row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Bad: TypeAlias = dict[int, str]
"""Rows whose value is none of its type, and the value as the file has it."""

_WIDE: Final = pa.decimal128(38, 18)
"""Holds every int64, and tells a fraction."""
_DAY: Final = "1970-01-01T"
_ZONED: Final = r"[T ].*(Z|[+-]\d\d(:?\d\d)?)$"
_MORE_DIGITS: Final = (r"(\.\d{6})0+", r"\1")
_SHOWN: Final = 60


class Number(str):
    """A number of a JSON file, as it is written there."""

    __slots__ = ()


def values_of_texts(texts: pa.Array, kind: pa.DataType) -> tuple[pa.Array, Bad]:
    """Texts as values of a column's type: as Arrow reads them, and ``9.0`` and ``9e0`` as the integer 9.

    Spaces around what is no text do not count, and nothing between them is null. Of timestamps those with a zone are
    for columns with one; without one they are UTC there.
    """
    if is_text_or_bytes(kind):
        return texts.cast(kind), {}
    trimmed = pc.utf8_trim_whitespace(texts)
    trimmed = pc.if_else(pc.equal(trimmed, ""), pa.scalar(None, pa.string()), trimmed)
    bad: Bad = {}

    def parsed(first: int, end: int) -> list[pa.Array]:
        some = trimmed.slice(first, end - first)
        try:
            return [_cast(some, kind)]
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            if end - first == 1:
                bad[first] = texts[first].as_py()
                return [pa.nulls(1, kind)]
        middle = (first + end) // 2
        return parsed(first, middle) + parsed(middle, end)

    return pa.concat_arrays(parsed(0, len(texts))), bad


def is_text_or_bytes(kind: pa.DataType) -> bool:
    """Whether any text is a value of the type: bytes are those of its UTF-8."""
    return pa.types.is_string(kind) or pa.types.is_binary(kind)


def _cast(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    """Raises: ArrowInvalid, ArrowNotImplementedError: a text is no value of the type, or the type has no texts."""
    if pa.types.is_integer(kind):
        try:
            return texts.cast(kind)
        except pa.ArrowInvalid:
            return texts.cast(_WIDE).cast(kind)
    if pa.types.is_floating(kind):
        return _checked_floats(texts, texts.cast(kind))
    if pa.types.is_timestamp(kind):
        return _timestamps(pc.replace_substring_regex(texts, *_MORE_DIGITS), kind)
    if pa.types.is_time(kind):
        return pc.binary_join_element_wise(_DAY, texts, "").cast(pa.timestamp(kind.unit)).cast(kind)
    return texts.cast(kind)


def _checked_floats(texts: pa.Array, values: pa.Array) -> pa.Array:
    endless = pc.and_(pc.is_inf(values), pc.invert(pc.match_substring(texts, "inf", ignore_case=True)))
    if pc.any(endless).as_py():
        raise pa.ArrowInvalid("a number is too large")
    return values


def _timestamps(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    if kind.tz is None:
        return texts.cast(kind)
    has_zone, none = pc.match_substring_regex(texts, _ZONED), pa.scalar(None, pa.string())
    plain = pc.if_else(has_zone, none, texts).cast(pa.timestamp(kind.unit)).cast(kind)
    return pc.coalesce(pc.if_else(has_zone, texts, none).cast(kind), plain)


def values_of_json(given: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, Bad]:
    """Values of JSON as those of a column's type; numbers are :class:`Number`.

    A number is one of milliseconds in a column of timestamps and of days in one of dates, since 1970. A map is an
    object, or a list of pairs or of objects with ``key`` and ``value``.
    """
    if pa.types.is_struct(kind):
        return _structs(given, kind)
    if pa.types.is_map(kind):
        return _maps(given, kind)
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return _lists(given, kind)
    bad: Bad = {}
    texts = [_text_of(value, kind, row, bad) for row, value in enumerate(given)]
    values, more = values_of_texts(pa.array(texts, pa.string()), kind)
    return values, bad | {row: shown(given[row]) for row in more}


def shown(value: Any) -> str:
    """A value of JSON as it is written, if it is not long."""
    text = value if isinstance(value, Number) else json.dumps(_plain(value), ensure_ascii=False)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}..."


def _text_of(value: Any, kind: pa.DataType, row: int, bad: Bad) -> str | None:
    if value is None:
        return None
    found: str | None = None
    if isinstance(value, Number):
        found = _text_of_number(value, kind)
    elif isinstance(value, bool):
        found = str(value).lower() if pa.types.is_boolean(kind) else None
    elif isinstance(value, str):
        found = value
    if found is None:
        bad[row] = shown(value)
    return found


def _text_of_number(value: Number, kind: pa.DataType) -> str | None:
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        return str(value)
    try:
        if pa.types.is_timestamp(kind):
            micros = Decimal(value) * 1000
            stamp = np.datetime64(int(micros), "us")
            return str(stamp) + ("Z" if kind.tz else "") if micros == int(micros) else None
        if pa.types.is_date(kind):
            days = Decimal(value)
            return str(np.datetime64(int(days), "D")) if days == int(days) else None
    except (InvalidOperation, OverflowError, ValueError):
        return None
    return None


def _structs(given: Sequence[Any], kind: pa.StructType) -> tuple[pa.Array, Bad]:
    bad = {row: shown(one) for row, one in enumerate(given) if one is not None and not isinstance(one, dict)}
    rows = [one if isinstance(one, dict) else {} for one in given]
    children, fields = [], list(kind)
    for field in kind:
        values, more = values_of_json([one.get(field.name) for one in rows], field.type)
        children.append(values)
        bad |= {row: shown(given[row]) for row in more}
    known = {field.name for field in kind}
    for name in dict.fromkeys(name for one in rows for name in one if name not in known):
        children.append(inferred([one.get(name) for one in rows]))
        fields.append(pa.field(name, children[-1].type))
    gone = pa.array([one is None or row in bad for row, one in enumerate(given)], pa.bool_())
    return pa.StructArray.from_arrays(children, fields=fields, mask=gone), bad


def _lists(given: Sequence[Any], kind: pa.DataType) -> tuple[pa.Array, Bad]:
    rows = [one if isinstance(one, list) else [] for one in given]
    bad = {row: shown(one) for row, one in enumerate(given) if one is not None and not isinstance(one, list)}
    values, more = values_of_json([value for one in rows for value in one], kind.value_type)
    offsets, gone = _places(rows, given, bad, more)
    maker, width = (pa.LargeListArray, np.int64) if pa.types.is_large_list(kind) else (pa.ListArray, np.int32)
    found = pa.list_(kind.value_field.with_type(values.type)) if width is np.int32 else pa.large_list(values.type)
    return maker.from_arrays(pa.array(offsets.astype(width)), values, type=found, mask=gone), bad


def _maps(given: Sequence[Any], kind: pa.MapType) -> tuple[pa.Array, Bad]:
    bad: Bad = {}
    rows = [_pairs(one, row, bad) for row, one in enumerate(given)]
    keys, odd_keys = values_of_json([key for one in rows for key, _ in one], kind.key_type)
    items, odd_items = values_of_json([value for one in rows for _, value in one], kind.item_type)
    offsets, gone = _places(rows, given, bad, odd_keys | odd_items)
    found = pa.map_(kind.key_type, kind.item_field.with_type(items.type))
    return pa.MapArray.from_arrays(pa.array(offsets.astype(np.int32)), keys, items, type=found, mask=gone), bad


def _pairs(value: Any, row: int, bad: Bad) -> list[tuple[Any, Any]]:
    if value is None:
        return []
    if isinstance(value, dict):
        return list(value.items())
    if isinstance(value, list):
        found = [
            (one["key"], one["value"]) if isinstance(one, dict) and one.keys() == {"key", "value"}
            else tuple(one) if isinstance(one, list) and len(one) == 2
            else (None, None)
            for one in value
        ]  # fmt: skip
        if all(isinstance(key, str) and not isinstance(key, Number) for key, _ in found):
            return found
    bad[row] = shown(value)
    return []


def _places(rows: Sequence[Sequence[Any]], given: Sequence[Any], bad: Bad, odd: Bad) -> tuple[np.ndarray, pa.Array]:
    """Where each row's values begin, and which rows are null. Rows of odd values become bad."""
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in rows], dtype=np.int64)])
    for place in odd:
        row = int(np.searchsorted(offsets, place, "right")) - 1
        bad[row] = shown(given[row])
    return offsets, pa.array([one is None or row in bad for row, one in enumerate(given)], pa.bool_())


def inferred(given: Sequence[Any]) -> pa.Array:
    """Values of JSON that no column gives a type, in that which Arrow's reader would give them.

    Raises:
        ArrowInvalid: they have no one type.
    """
    values = pa.array([_plain(value) for value in given])
    if pa.types.is_string(values.type):
        for unit in ("s", "ns"):
            try:
                return values.cast(pa.timestamp(unit))
            except pa.ArrowInvalid:
                continue
    return values


def _plain(value: Any) -> Any:
    if isinstance(value, Number):
        return int(value) if value.lstrip("-").isdigit() else float(value)
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    return [_plain(one) for one in value] if isinstance(value, list) else value
