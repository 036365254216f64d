"""Numbers and foreign texts as people read them."""

from __future__ import annotations

import re
from typing import Final

_STEP: Final = 1024
_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB")
_UNPRINTABLE: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
"""Control characters, marks that turn the direction of writing, and what XML has no place for."""


def human_bytes(size: int) -> str:
    """``1.5 MiB``."""
    value = float(size)
    for unit in _UNITS[:-1]:
        if value < _STEP:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= _STEP
    return f"{value:.1f} {_UNITS[-1]}"


def human_count(count: int) -> str:
    """``12,345``."""
    return f"{count:,}"


def printable(text: str) -> str:
    """A text of somebody else's (a key, a path, a message) without what could change how it is shown."""
    return _UNPRINTABLE.sub("\N{REPLACEMENT CHARACTER}", text)
