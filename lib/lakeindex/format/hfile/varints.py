"""The integers of variable length in an HFile: protobuf's, and Hadoop's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

Message: TypeAlias = dict[int, list[int | bytes]]
"""A protobuf message without its schema: field number -> values, in their order."""

_VARINT: Final = 0
_LENGTH: Final = 2
_MOST_BITS: Final = 70
_SMALL: Final = 127
_LEAST_SMALL: Final = -112
_LEAST_POSITIVE: Final = -120


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A protobuf integer, and where it ends. Raises: ValueError, IndexError."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
        if shift >= _MOST_BITS:
            raise ValueError("an integer of more than ten bytes")


def format_varint(value: int) -> bytes:
    """The bytes of a protobuf integer, 0 or greater."""
    out = bytearray()
    while value > _SMALL:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def parse_message(data: bytes) -> Message:
    """A protobuf message of integers and bytes. Raises: ValueError, IndexError."""
    found: Message = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        value: int | bytes
        value, at = read_varint(data, at)
        if tag & 7 == _LENGTH:
            end = at + value
            if end > len(data):
                raise ValueError("a field is cut off")
            value, at = data[at:end], end
        elif tag & 7 != _VARINT:
            raise ValueError(f"wire type {tag & 7}")
        found.setdefault(tag >> 3, []).append(value)
    return found


def format_message(fields: Mapping[int, int | bytes] | Sequence[tuple[int, int | bytes]]) -> bytes:
    """The bytes of a protobuf message: fields by their number, in the order given."""
    out = b""
    for number, value in fields.items() if isinstance(fields, Mapping) else fields:
        if isinstance(value, int):
            out += format_varint(number << 3 | _VARINT) + format_varint(value)
        else:
            out += format_varint(number << 3 | _LENGTH) + format_varint(len(value)) + value
    return out


def read_vint(data: bytes, at: int) -> tuple[int, int]:
    """An integer as Hadoop's ``WritableUtils`` writes it, 0 or greater, and where it ends. Raises: ValueError."""
    first = int.from_bytes(data[at : at + 1], "big", signed=True) if at < len(data) else _LEAST_SMALL - 1
    if first >= _LEAST_SMALL:
        return first, at + 1
    size = _LEAST_SMALL - first
    if first < _LEAST_POSITIVE or at + 1 + size > len(data):
        raise ValueError("a negative or cut-off integer")
    return int.from_bytes(data[at + 1 : at + 1 + size], "big"), at + 1 + size


def format_vint(value: int) -> bytes:
    """The bytes of an integer, 0 or greater, as Hadoop's ``WritableUtils`` writes it."""
    if value <= _SMALL:
        return bytes([value])
    size = (value.bit_length() + 7) // 8
    return (_LEAST_SMALL - size).to_bytes(1, "big", signed=True) + value.to_bytes(size, "big")
