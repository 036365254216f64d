"""Two entries of ours in a Parquet footer, which make every byte of the file accountable.

``lakeindex.page.headers``: of each column chunk, row group by row group, the CRC-32 of its page headers, 8 hex digits;
dashes for a chunk that was copied from a file without them, since it cannot be told any more what its headers were.
(The bodies of pages have their CRC in the header.) ``lakeindex.footer.crc32``: CRC-32 of the footer's thrift bytes, its
own digits taken as zeros. Other readers leave both alone. A file without them is from another writer, or from before
they were written: nothing is said of it.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Final

HEADERS: Final = "lakeindex.page.headers"
FOOTER: Final = "lakeindex.footer.crc32"
_DIGITS: Final = 8
_END_BYTES: Final = 8
_UNSET: Final = b"0" * _DIGITS
_UNKNOWN: Final = "-" * _DIGITS


def headers_text(crcs: Sequence[int | None]) -> str:
    """The value of ``lakeindex.page.headers``; None: not known."""
    return "".join(_UNKNOWN if crc is None else f"{crc:08x}" for crc in crcs)


def parse_headers(text: str | None, chunks: int) -> list[int | None]:
    """The CRC of each chunk's page headers; None where it is not known.

    Args:
        text: the entry's value; None if there is none.

    Raises:
        ValueError: the value does not fit the file.
    """
    if text is None:
        return [None] * chunks
    if len(text) != chunks * _DIGITS:
        raise ValueError(f"{HEADERS} has {len(text)} digits for {chunks} column chunks")
    parts = [text[at : at + _DIGITS] for at in range(0, len(text), _DIGITS)]
    return [None if part == _UNKNOWN else int(part, 16) for part in parts]


def footer_entry(varint: bytes) -> bytes:
    """The KeyValue struct that :func:`stamped` fills in; ``varint``: length of the key."""
    return b"\x18" + varint + FOOTER.encode() + b"\x18" + bytes([_DIGITS]) + _UNSET + b"\x00"


def stamped(footer: bytes) -> tuple[bytes | memoryview, ...]:
    """The footer with its checksum put into its entry, in pieces, which are not copied: a filter may be in it."""
    at = _digits_at(footer)
    if at is None:
        return (footer,)
    view = memoryview(footer)
    return view[:at], f"{zlib.crc32(footer):08x}".encode(), view[at + _DIGITS :]


def footer_problem(footer: bytes) -> str | None:
    """What is wrong with a footer; None if its checksum agrees, or if it has none."""
    at = _digits_at(footer)
    if at is None:  # the two come together: one without the other is a name that was damaged
        return None if HEADERS.encode() not in footer else f"its footer is damaged: {FOOTER} is not in it any more"
    view = memoryview(footer)
    crc = zlib.crc32(view[at + _DIGITS :], zlib.crc32(_UNSET, zlib.crc32(view[:at])))
    if footer[at : at + _DIGITS] == f"{crc:08x}".encode():
        return None
    return "its footer is damaged: the checksum in it does not agree"


def own_difference(footer: bytes) -> int | None:
    """Between the checksum of a footer and the one that is written in it; None if none can be read there."""
    at = _digits_at(footer)
    if at is None:
        return None
    try:
        said = int(footer[at : at + _DIGITS], 16)
    except ValueError:
        return None
    return said ^ zlib.crc32(footer[at + _DIGITS :], zlib.crc32(_UNSET, zlib.crc32(footer[:at])))


def footer_digest(footer: bytes) -> str:
    """What a commit says of a file's footer: the CRC-32 of its bytes, 8 hex digits."""
    return f"{zlib.crc32(footer):08x}"


def digest_in(tail: bytes | memoryview) -> str:
    """The same, of a file's last bytes, the footer among them."""
    length = int.from_bytes(tail[-_END_BYTES:-4], "little")
    return footer_digest(bytes(tail[-_END_BYTES - length : -_END_BYTES]))


def _digits_at(footer: bytes) -> int | None:
    """Where the digits stand; the entry is the last one of its kind."""
    name = FOOTER.encode()
    mark = bytes([len(name)]) + name + b"\x18" + bytes([_DIGITS])
    at = footer.rfind(mark)
    end = at + len(mark) + _DIGITS
    return None if at < 0 or end > len(footer) else at + len(mark)
