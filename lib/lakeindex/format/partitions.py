"""Partitions: their paths, and the file that makes a folder a partition.

Hudi url-encodes values with Hive's own escape, not with RFC 3986: ``%XX`` (upper case) for ``0x01-0x1F``, ``0x7F`` and
the characters of ``ESCAPED``; neither ``}``, nor a space, nor anything beyond ASCII (measured for 1..255).

``.hoodie_partition_metadata`` is properties text with ``commitTime`` (the instant that created the partition) and
``partitionDepth`` (number of path levels, 0 on a non-partitioned table). Tables with
``hoodie.partition.metafile.use.base.format=true`` keep a Parquet (or ORC) file of that name and suffix instead; being
there is all a reader needs.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

from lakeindex.errors import TableCorruptError
from lakeindex.format.instants import iso_of_instant_time
from lakeindex.format.java_properties import format_properties, parse_properties
from lakeindex.frozen import Frozen

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


PARTITION_METADATA_FILE: Final = ".hoodie_partition_metadata"
PARTITION_METADATA_FILES: Final = frozenset(
    {PARTITION_METADATA_FILE, PARTITION_METADATA_FILE + ".parquet", PARTITION_METADATA_FILE + ".orc"}
)


class PartitionMetadata(Frozen):
    """Content of the file.

    Attributes:
        commit_time: the instant that created the partition.
    """

    commit_time: str
    depth: int


def partition_depth(partition_path: str) -> int:
    """Number of levels of a partition path; 0 for the non-partitioned one."""
    return partition_path.count("/") + 1 if partition_path else 0


def partition_metadata_path(partition_path: str) -> str:
    """Path of the (text) file of a partition, relative to the table's folder."""
    return f"{partition_path}/{PARTITION_METADATA_FILE}" if partition_path else PARTITION_METADATA_FILE


def parse_partition_metadata(data: bytes, source: str = PARTITION_METADATA_FILE) -> PartitionMetadata:
    """Read the text form. Raises: TableCorruptError."""
    entries = parse_properties(data, source)
    try:
        return PartitionMetadata(entries["commitTime"], int(entries["partitionDepth"]))
    except (KeyError, ValueError) as error:
        raise TableCorruptError(
            f"{source} is damaged: {error}", culprit=source, hint="it must hold commitTime and partitionDepth"
        ) from None


def format_partition_metadata(metadata: PartitionMetadata) -> bytes:
    """Write the text form; a function of its content, so that two writers of one plan write the same bytes."""
    created = iso_of_instant_time(metadata.commit_time) or metadata.commit_time
    return format_properties(
        {"commitTime": metadata.commit_time, "partitionDepth": str(metadata.depth)},
        comments=("partition metadata", created),
    )
