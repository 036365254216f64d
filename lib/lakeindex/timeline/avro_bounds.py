"""What a schema in a file may ask of who reads the file: work within the bytes that are there.

A few bytes may claim 2^40 items that take none (an array of nulls), types that hold themselves, or types that hold
the one before twice, forty times over. fastavro does what they say, for days, or until the stack is full. Hudi's
files have none of this.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_DEEPEST: Final = 64
_MOST_VALUES: Final = 10_000
"""Values that may stand in no byte at all, one after the other; Hudi's largest record has some thirty fields."""

_CODECS: Final = frozenset({"null", "deflate"})
"""Others grow without bound; Hudi writes the first."""

_BYTES_OF: Final[Mapping[str, int]] = {
    "null": 0,
    **dict.fromkeys(("boolean", "int", "long", "bytes", "string", "enum"), 1),
    "float": 4,
    "double": 8,
}


def check_bounded(schema: Any, codec: str = "null") -> None:
    """Refuse a schema by which a reader's work is not bounded by the bytes it reads.

    Args:
        schema: an Avro schema as JSON values; of names, the first use defines them.
        codec: how the blocks are compressed.

    Raises:
        ValueError: it is one; the message says why.
    """
    if codec not in _CODECS:
        raise ValueError(f"codec {codec!r} is not read")
    _Bounds().of(schema, 0)


class _Bounds:
    """Least bytes of each named type, and how many values it has at most in no byte."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[int, int]] = {}
        self._open: set[str] = set()

    def of(self, schema: Any, depth: int) -> tuple[int, int]:
        """Least bytes, and most values without a byte, of a type."""
        if depth > _DEEPEST:
            raise ValueError(f"types are nested more than {_DEEPEST} deep")
        if isinstance(schema, list):
            for branch in schema:
                self.of(branch, depth + 1)
            return 1, 1
        if isinstance(schema, str):
            return self._named(schema)
        kind = schema["type"]
        return self._defined(kind, schema, depth) if isinstance(kind, str) else self.of(kind, depth + 1)

    def _defined(self, kind: str, schema: Mapping[str, Any], depth: int) -> tuple[int, int]:
        """As :meth:`of`, of an object that names its kind."""
        if kind in {"record", "error"}:
            return self._record(schema, depth)
        if kind in {"array", "map"}:
            least, _ = self.of(schema["items" if kind == "array" else "values"], depth + 1)
            if kind == "array" and not least:
                raise ValueError("items of an array take no bytes")
            return 1, 1
        if kind == "fixed":
            return self._keep(schema, (max(int(schema["size"]), 0), 1))
        if kind == "enum":
            return self._keep(schema, (1, 1))
        return self._named(kind)

    def _named(self, name: str) -> tuple[int, int]:
        if name in _BYTES_OF:
            return _BYTES_OF[name], 1
        short = name.rpartition(".")[2]
        if short in self._open:
            raise ValueError(f"type {name!r} holds itself")
        found = self._known.get(short)
        if found is None:
            raise ValueError(f"type {name!r} is not defined")
        return found

    def _record(self, schema: Mapping[str, Any], depth: int) -> tuple[int, int]:
        short = _short_name(schema)
        if short in self._open:
            raise ValueError(f"type {short!r} holds itself")
        self._open.add(short)
        least, values = 0, 1
        for field in schema["fields"]:
            more_bytes, more_values = self.of(field["type"], depth + 1)
            least, values = min(least + more_bytes, 1 << 62), values + more_values
            if values > _MOST_VALUES:
                raise ValueError(f"a record has more than {_MOST_VALUES:,} values")
        self._open.discard(short)
        return self._keep(schema, (least, values))

    def _keep(self, schema: Mapping[str, Any], found: tuple[int, int]) -> tuple[int, int]:
        """Keep a type by its name without the namespace; of two of one name the worse."""
        short = _short_name(schema)
        known = self._known.get(short, found)
        self._known[short] = (min(known[0], found[0]), max(known[1], found[1]))
        return found


def _short_name(schema: Mapping[str, Any]) -> str:
    return str(schema["name"]).rpartition(".")[2]
