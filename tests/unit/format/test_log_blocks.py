"""Blocks of log files: what is written is read, and no length leads out of its block."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.format.log_blocks import MAGIC, BlockKind, HeaderKey, LogBlock, format_block, read_blocks

headers = st.dictionaries(st.sampled_from([int(key) for key in HeaderKey]), st.text(max_size=5))
BLOCK = LogBlock(BlockKind.HFILE_DATA, {HeaderKey.INSTANT_TIME: "20260101", HeaderKey.SCHEMA: ""}, b"content")


@given(st.lists(st.builds(LogBlock, st.sampled_from(list(BlockKind)), headers, st.binary(max_size=9)), max_size=4))
def test_what_is_written_is_read(blocks: list[LogBlock]) -> None:
    assert list(read_blocks(b"".join(map(format_block, blocks)), "x")) == blocks


def test_a_block_says_its_size_before_and_behind() -> None:
    data = format_block(BLOCK)
    before, behind = struct.unpack_from(">q", data, len(MAGIC))[0], struct.unpack_from(">q", data, len(data) - 8)[0]
    assert (len(MAGIC) + 8 + before, behind) == (len(data), len(data) - 8)


def test_lengths_that_cannot_be_are_told() -> None:
    data = format_block(BLOCK)
    texts = data.index(struct.pack(">ii", HeaderKey.INSTANT_TIME, 8))
    places = {"size": (6, ">q"), "count": (texts - 4, ">i"), "text": (texts + 4, ">i"), "content": (texts + 24, ">q")}
    assert struct.unpack_from(">q", data, texts + 24) == (7,)
    for name, (at, form) in places.items():
        (right,) = struct.unpack_from(form, data, at)
        for wrong in (-1, -right, -(2**31), right + 1_000, 2**31 - 1):
            bad = bytearray(data + data)
            struct.pack_into(form, bad, at, wrong)
            with pytest.raises(TableCorruptError, match="x is damaged at byte 0"):
                print(name, wrong, list(read_blocks(bytes(bad), "x")))  # noqa: T201 - for who looks why
