r"""Text of ``java.util.Properties``: ``hoodie.properties``, ``.hoodie_partition_metadata``.

Grammar (Java SE, ``Properties.load``), over ISO-8859-1 text::

    file         = *( natural-line line-end )         line-end = LF / CR / CR LF
    logical-line = natural lines joined where one ends in an odd number of backslashes;
                   leading white space (space, tab, FF) of each is dropped
    comment      = first non-blank character "#" or "!" (a comment line is never continued)
    entry        = key [ white-space ] [ "=" / ":" ] [ white-space ] value
    escape       = "\" ( "t" / "n" / "r" / "f" / "u" 4hex / any other character: itself )

Values are written with as few escapes as Java needs (``:`` and ``=`` stay bare in a value), because readers other
than Java split at the first ``=`` and do not unescape.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from lakeindex.errors import TableCorruptError

_BLANK: Final = " \t\f"
_NAMED: Final = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_NAMES: Final = {value: name for name, value in _NAMED.items()}
_LINE_END: Final = re.compile(r"\r\n|\r|\n")


def parse_properties(data: bytes, source: str = "properties") -> dict[str, str]:
    r"""Entries of a properties file; of two entries with one key the later counts.

    Raises:
        TableCorruptError: a malformed ``\uXXXX`` escape, as in Java.
    """
    entries: dict[str, str] = {}
    for line in _logical_lines(data.decode("latin-1")):
        key, value = _split_entry(line)
        entries[_unescape(key, source)] = _unescape(value, source)
    return entries


def format_properties(entries: Mapping[str, str], comments: Iterable[str] = ()) -> bytes:
    """Properties text, ASCII only, entries in the given order.

    Args:
        comments: lines put first, each behind a ``#``; they must not hold line ends.
    """
    lines = [f"#{_escape(comment, value=True)}" for comment in comments]
    lines += [f"{_escape(key, value=False)}={_escape(value, value=True)}" for key, value in entries.items()]
    return "".join(f"{line}\n" for line in lines).encode("ascii")


def table_checksum(database: str, table: str) -> int:
    """``hoodie.table.checksum``: CRC32 of the UTF-8 text ``<database>.<table>`` (a missing database is empty)."""
    return zlib.crc32(f"{database}.{table}".encode())


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for natural in _LINE_END.split(text):
        line = natural.lstrip(_BLANK)
        if pending is None and (not line or line[0] in "#!"):
            continue
        continued = _odd_backslashes(line)
        body = line[:-1] if continued else line
        joined = body if pending is None else pending + body
        if continued:
            pending = joined
        else:
            pending = None
            yield joined
    if pending is not None:
        yield pending


def _odd_backslashes(line: str) -> bool:
    return (len(line) - len(line.rstrip("\\"))) % 2 == 1


def _split_entry(line: str) -> tuple[str, str]:
    at = 0
    while at < len(line) and line[at] not in "=: \t\f":
        at += 2 if line[at] == "\\" else 1
    key, rest = line[:at], line[at:].lstrip(_BLANK)
    if rest[:1] in ("=", ":"):
        rest = rest[1:].lstrip(_BLANK)
    return key, rest


def _unescape(text: str, source: str) -> str:
    if "\\" not in text:
        return text
    out: list[str] = []
    at = 0
    while at < len(text):
        char = text[at]
        at += 1
        if char != "\\":
            out.append(char)
            continue
        escaped = text[at : at + 1]
        at += 1
        if escaped != "u":
            out.append(_NAMED.get(escaped, escaped))
            continue
        digits = text[at : at + 4]
        if not re.fullmatch(r"[0-9a-fA-F]{4}", digits):
            raise TableCorruptError(f"malformed \\u escape in {source}: {text[at - 2 : at + 4]!r}", culprit=source)
        out.append(chr(int(digits, 16)))
        at += 4
    return _join_surrogates("".join(out))


def _join_surrogates(text: str) -> str:
    """Pairs of UTF-16 units, as Java escapes them, become one character; lone ones stay."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass") if _has_pair(text) else text


def _has_pair(text: str) -> bool:
    return re.search("[\ud800-\udbff][\udc00-\udfff]", text) is not None


def _escape(text: str, *, value: bool) -> str:
    special = "\\" if value else "\\=:#! "
    out: list[str] = []
    for at, char in enumerate(text):
        if char in _NAMES:
            out.append("\\" + _NAMES[char])
        elif char in special or (value and char == " " and at == 0):
            out.append("\\" + char)
        elif " " <= char <= "~":
            out.append(char)
        else:
            out.append("".join(f"\\u{unit:04X}" for unit in _utf16_units(char)))
    return "".join(out)


def _utf16_units(char: str) -> tuple[int, ...]:
    raw = char.encode("utf-16-be", "surrogatepass")
    return tuple(int.from_bytes(raw[at : at + 2], "big") for at in range(0, len(raw), 2))
