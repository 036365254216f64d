"""Values of rows as JSON can say them."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping
from datetime import date, datetime, time
from typing import Any


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
