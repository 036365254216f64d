"""Partition paths: Hive's escape of values, and the guarantee that no value leaves the table's folder.

Hudi url-encodes with Hive's own escape, not with RFC 3986: ``%XX`` (upper case) for ``0x01-0x1F``, ``0x7F`` and
the characters of ``ESCAPED``; neither ``}``, nor a space, nor anything beyond ASCII (measured for 1..255).
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

DEFAULT_PARTITION: Final = "__HIVE_DEFAULT_PARTITION__"
"""Stands for a null or empty partition value."""

ESCAPED: Final = frozenset("\"#%'*/:=?\\[]^{") | {chr(code) for code in range(1, 0x20)} | {"\x7f"}

MAX_LEVEL_BYTES: Final = 255
"""Longest name that local file systems take for one folder."""

_TABLE: Final = str.maketrans({char: f"%{ord(char):02X}" for char in ESCAPED})
_ESCAPE: Final = re.compile("%([0-9A-Fa-f]{2})")


def escape_partition_value(value: str) -> str:
    """Escape one level of a partition path (``hoodie.datasource.write.partitionpath.urlencode=true``)."""
    return value.translate(_TABLE)


def unescape_partition_value(text: str) -> str:
    """Undo :func:`escape_partition_value`; a ``%`` that starts no escape stays."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 16)), text)


def partition_path_problem(path: str) -> str | None:
    """Why a partition path cannot be a folder inside the table, or ``None`` if it can.

    ``""`` is the one partition of a non-partitioned table. Everything that could point elsewhere (an absolute path,
    ``..``), at the same folder by another name (``.``, empty levels) or at the table's own files (``.hoodie``) is
    refused, as are names no file system takes.
    """
    if path == "":
        return None
    for level in path.split("/"):
        problem = _level_problem(level)
        if problem is not None:
            return f"partition path {path!r}: {problem}"
    return None


def _level_problem(level: str) -> str | None:
    if level == "":
        return "an empty level (a leading, trailing or doubled '/')"
    if level in (".", ".."):
        return f"the level {level!r} would leave its folder"
    if level.startswith(".hoodie"):
        return f"the level {level!r} is a name of the table's own files"
    control = next((char for char in level if unicodedata.category(char) == "Cc"), None)
    if control is not None:
        return f"the control character {control!r}"
    try:
        size = len(level.encode("utf-8"))
    except UnicodeEncodeError:
        return "half of a surrogate pair"
    if size > MAX_LEVEL_BYTES:
        return f"a level of {size} bytes; file systems take {MAX_LEVEL_BYTES}"
    return None
