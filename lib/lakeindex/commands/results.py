"""What services return: frozen values with a JSON form whose schemas are in ``docs/schemas``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar, Final

from lakeindex.showing.notebook import Shown

SCHEMA_VERSION: Final = 1
"""Raised when a field of the JSON is removed or changes its meaning; new fields do not raise it."""


class JsonResult(Shown):
    """A frozen dataclass that can be printed as one JSON object, or for a person."""

    shown_by: ClassVar[str] = "facts:show_fields"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, ``schema_version`` first."""
        return {"schema_version": SCHEMA_VERSION, **_plain(self)}

    def to_json(self) -> str:
        """One JSON object, one line."""
        return json.dumps(self.as_dict())


def _plain(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: _plain(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): _plain(one) for key, one in value.items()}
    if isinstance(value, (tuple, list)):
        return [_plain(one) for one in value]
    return value
