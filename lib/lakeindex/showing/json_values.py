"""Frozen values, and values of rows, as what JSON takes."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any, Final, TypeVar

_T = TypeVar("_T")
_LEAVES: Final = frozenset({str, int, float, bool, type(None)})


def json_of(value: Any) -> Any:
    """A value as plain dicts and lists; what is not a container is not copied.

    Args:
        value: a :class:`lakeindex.frozen.Frozen`. Its fields, and what is in their lists, tuples and dicts, are taken
            likewise.

    Returns:
        A new dict of its fields by name.
    """
    kind: Any = type(value)
    if kind in _LEAVES:  # most values are: no more is asked of them
        return value
    if hasattr(kind, "__struct_fields__"):
        return {name: json_of(getattr(value, name)) for name in kind.__struct_fields__}
    if kind is tuple or kind is list:
        return kind(map(json_of, value))
    if isinstance(value, dict):
        return {key: json_of(one) for key, one in value.items()}
    return value


def from_known(kind: type[_T], raw: Mapping[str, Any]) -> _T:
    """A value from its fields by name; what a later version has beside them is left out."""
    named: Any = kind
    return kind(**{name: raw[name] for name in named.__struct_fields__ if name in raw})


def json_value(value: Any) -> Any:
    """A value of a row as plain JSON: times in ISO form, decimals and spans as text, bytes in base64,
    NaN and infinities as null.

    Args:
        value: what Arrow's ``to_pylist`` gives, nested or not.
    """
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if isinstance(value, Mapping):
        return {str(name): json_value(one) for name, one in value.items()}
    if isinstance(value, (list, tuple)):
        return [json_value(one) for one in value]
    return str(value)
