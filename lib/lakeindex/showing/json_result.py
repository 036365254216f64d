"""What is returned to a caller: frozen values with a JSON form whose schemas are in ``docs/schemas``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from lakeindex.showing.json_values import json_of
from lakeindex.showing.notebook import Shown

SCHEMA_VERSION: Final = 1
"""Raised when a field of the JSON is removed or changes its meaning; new fields do not raise it."""


class JsonResult(Shown):
    """A frozen dataclass that can be printed as one JSON object, or for a person."""

    __slots__ = ()
    shown_by: ClassVar[str] = "facts:show_fields"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, ``schema_version`` first, unless it is a field."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """One JSON object, one line."""
        found = json_of(self)
        return json.dumps(found if "schema_version" in found else {"schema_version": SCHEMA_VERSION, **found})


@dataclass(frozen=True, slots=True)
class TableResult(JsonResult):
    """A result of one table.

    Attributes:
        table: the table's name.
        uri: where it is.
    """

    table: str
    uri: str
