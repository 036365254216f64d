"""What is returned to a caller: frozen values with a JSON form whose schemas are in ``docs/schemas``."""

from __future__ import annotations

import json
from typing import Any, ClassVar, Final

from lakeindex.frozen import Frozen
from lakeindex.showing.json_values import json_of
from lakeindex.showing.notebook import Shown

SCHEMA_VERSION: Final = 1
"""Raised when a field of the JSON is removed or changes its meaning; new fields do not raise it."""


class JsonResult(Shown, Frozen):
    """A frozen value that can be printed as one JSON object, or for a person."""

    shown_by: ClassVar[str] = "facts:show_fields"

    def as_dict(self) -> dict[str, Any]:
        """Plain JSON values, ``schema_version`` first, unless it is a field."""
        found: dict[str, Any] = json.loads(self.to_json())
        return found

    def to_json(self) -> str:
        """One JSON object, one line."""
        found = json_of(self)
        return json.dumps(found if "schema_version" in found else {"schema_version": SCHEMA_VERSION, **found})


class TableResult(JsonResult):
    """A result of one table.

    Attributes:
        table: the table's name.
        uri: where it is.
    """

    table: str
    uri: str
