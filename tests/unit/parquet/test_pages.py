"""Every byte of a file is accountable: page bodies, page headers, footer; and what is copied is checked on its way."""

import random
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.parquet import stamps
from lakeindex.parquet.footer_text import footer_text
from lakeindex.parquet.pages import (
    ChunkWalk,
    DamagedPagesError,
    WalkedChunk,
    open_pages,
    read_batches,
    read_column,
    read_group_batches,
    read_groups,
)
from lakeindex.parquet.splice import ParquetParts, _row_group, footer_bytes, parts_of, splice
from lakeindex.parquet.verify_pages import _Walks

TABLE = pa.table(
    {
        "n": pa.array(range(900), pa.int64()),
        "s": [f"k{i}" for i in range(900)],
        "d": pa.array(["x", "y", "z"] * 300),
        "l": [[i, i + 1] if i % 5 else [] for i in range(900)],
    }
)


def encoded(table: pa.Table = TABLE, **options: Any) -> bytes:
    sink = pa.BufferOutputStream()
    how = {"compression": "zstd", "store_schema": False, "write_page_checksum": True, "data_page_size": 500} | options
    with pq.ParquetWriter(sink, table.schema, use_dictionary=["d"], write_batch_size=50, **how) as writer:
        writer.add_key_value_metadata({"who": "me"})
        if table.num_rows:
            writer.write_table(table, row_group_size=300)
    return sink.getvalue().to_pybytes()


def parts(data: bytes, **how: Any) -> ParquetParts:
    found = parts_of(memoryview(data), pq.read_metadata(pa.BufferReader(data)), **how)
    assert found is not None
    return found


def stamped(data: bytes) -> bytes:
    fresh = parts(data, is_stored=False)
    return b"".join(splice(fresh, fresh.groups()))


def copied(data: bytes) -> bytes:
    footer_bytes(data)  # first of all, since pyarrow does not survive every damaged footer
    old = parts(data)
    return b"".join(splice(parts(encoded(TABLE.slice(0, 0)), is_stored=False), old.groups()))


def walked(data: bytes, group: int, column: int, step: int = 1 << 30) -> WalkedChunk:
    text = parts(data).text.chunks[group][column]
    walk = ChunkWalk()
    for at in range(text.start, text.start + text.size, step):
        walk.feed(data[at : min(at + step, text.start + text.size)])
    return walk.end()


def flipped(data: bytes, bit: int) -> bytes:
    changed = bytearray(data)
    changed[bit // 8] ^= 1 << bit % 8
    return bytes(changed)


def entries(data: bytes) -> dict[str, str]:
    return {k.decode(): v.decode() for k, v in pq.read_metadata(pa.BufferReader(data)).metadata.items()}


@pytest.mark.parametrize("column", range(4))
def test_all_pages_of_a_chunk_are_walked(column: int) -> None:
    found = walked(encoded(), 1, column)
    assert found.pages >= 2
    assert (found.without_crc, found.problem) == (0, None)


def test_pages_without_checksums_are_counted() -> None:
    found = walked(encoded(write_page_checksum=False), 0, 2)
    assert found.pages == found.without_crc >= 2
    assert found.problem is None


@pytest.mark.parametrize("step", [1, 7, 100])
def test_pieces_of_any_size_give_the_same(step: int) -> None:
    data = encoded()
    assert walked(data, 2, 1, step) == walked(data, 2, 1)


@pytest.mark.parametrize("column", range(4))
def test_bytes_of_arrow_whose_numbers_have_a_sign_give_the_same(column: int) -> None:
    data = encoded()
    text = parts(data).text.chunks[1][column]
    walk = ChunkWalk()
    walk.feed(memoryview(pa.py_buffer(data[text.start : text.start + text.size])))
    assert walk.end() == walked(data, 1, column)


def test_a_chunk_that_ends_early_is_damaged() -> None:
    data = encoded()
    text = parts(data).text.chunks[0][0]
    for missing in (1, 3, text.size - 2):
        walk = ChunkWalk()
        walk.feed(data[text.start : text.start + text.size - missing])
        assert "cut short" in str(walk.end().problem)


def test_hostile_headers_end() -> None:
    for raw in (b"\x4b\x01\x88", b"\xff" * 300, b"\x1c" * 300, b"\x00", b"\x15\x00\x15\x02\x15\x01\x00", b""):
        walk = ChunkWalk()
        walk.feed(raw)
        walk.end()


def test_a_header_that_claims_more_than_a_header_has_is_not_waited_for() -> None:
    """A damaged length made it hold the rest of the chunk, and read it again with every piece."""
    walk, piece = ChunkWalk(), bytes(4 << 20)
    walk.feed(b"\x88\xff\xff\xff\xff\x07" + piece)
    for _ in range(4):
        walk.feed(piece)
    assert walk.end().problem == "the header of page 0 cannot be read"


def test_any_flip_in_a_file_of_ours_is_seen_when_it_is_copied() -> None:
    data = stamped(encoded())
    footer = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    random_bits = random.Random(17).sample(range(32, 8 * len(data)), 700)
    headers = [8 * c.start + bit for group in parts(data).text.chunks for c in group for bit in range(0, 8 * 40, 3)]
    for bit in random_bits + headers + list(range(8 * footer, 8 * len(data), 13)):
        with pytest.raises(DamagedPagesError):
            copied(flipped(data, bit))


def test_every_flip_in_a_page_of_another_writer_is_seen_when_it_is_copied() -> None:
    """Nothing covers its page headers, but the bodies have checksums."""
    data = encoded()
    assert set(parts(data).headers[0]) == {None}
    bodies = [chunk.start + chunk.size - 1 - back for g in parts(data).text.chunks for chunk in g for back in (0, 3, 9)]
    for bit in (8 * at + number for at in bodies for number in (0, 7)):
        with pytest.raises(DamagedPagesError, match="checksum does not agree"):
            copied(flipped(data, bit))
    with pytest.raises(DamagedPagesError, match=r"cannot be read|cut short"):
        copied(data[:5] + b"\xff" * 8 + data[13:])


def test_what_is_copied_keeps_the_checksums_of_its_headers() -> None:
    data = stamped(encoded())
    again = copied(data)
    assert entries(again)[stamps.HEADERS] == entries(data)[stamps.HEADERS]
    assert pq.read_table(pa.BufferReader(again)).equals(TABLE)
    assert copied(again) == again


def test_a_chunk_of_unknown_headers_is_copied_and_not_vouched_for() -> None:
    again = copied(encoded(write_page_checksum=False))
    assert entries(again)[stamps.HEADERS] == "-" * 8 * 12
    assert walked(again, 0, 0).without_crc == walked(again, 0, 0).pages
    assert pq.read_table(pa.BufferReader(again)).equals(TABLE)


def test_a_header_that_lost_its_checksum_is_seen_by_the_checksum_of_the_headers() -> None:
    data = stamped(encoded())
    at = parts(data).text.chunks[0][0].start
    # page header: 15 type, 15 uncompressed size, 15 compressed size, 15 crc: as another field, the crc is not one any more
    header = data[at : at + 30]
    place = at + [n for n, byte in enumerate(header) if byte == 0x15][3]
    lost = data[:place] + b"\x16" + data[place + 1 :]
    with pytest.raises(DamagedPagesError, match="row group 0, column 'n'"):
        copied(flipped(data, 8 * place + 4))
    assert lost != data


def test_the_footer_has_a_checksum_of_its_own() -> None:
    footer = footer_bytes(stamped(encoded()))
    assert stamps.footer_problem(footer) is None
    assert stamps.footer_problem(footer_bytes(encoded())) is None  # says nothing of itself
    for bit in random.Random(3).sample(range(8 * len(footer)), 500):
        assert stamps.footer_problem(flipped(footer, bit)) is not None


def test_reading_names_row_group_and_column() -> None:
    data = encoded()
    text = parts(data).text.chunks[1][1]
    file = open_pages(pa.BufferReader(flipped(data, 8 * (text.start + text.size - 3))))
    assert read_groups(file, [0, 2]).num_rows == 600
    for groups, columns in (([0, 1], None), ([1], ["d", "s"])):
        with pytest.raises(DamagedPagesError, match=r"row group 1, column 's': .*CRC"):
            read_groups(file, groups, columns)
    with pytest.raises(DamagedPagesError, match="row group 1"):
        read_column(file, "s")
    with pytest.raises(OSError, match="CRC"):
        list(read_batches(file, 100))
    assert sum(batch.num_rows for batch in read_group_batches(file, [0, 2], ["s"], 100)) == 600
    with pytest.raises(DamagedPagesError, match=r"row group 1, column 's': .*CRC"):
        list(read_group_batches(file, [0, 1], ["d", "s"], 100))


def test_a_column_that_ends_early_is_damaged() -> None:
    data = encoded(TABLE.select(["n"]))
    at = parts(data).text.chunks[0][0].start
    # the first page becomes an index page, which readers pass over
    skipped = data[: at + 1] + b"\x02" + data[at + 2 :]
    file = open_pages(pa.BufferReader(skipped))
    with pytest.raises(DamagedPagesError, match=r"row group 0, column 'n'"):
        read_groups(file, [0], ["n"])
    with pytest.raises(DamagedPagesError):
        list(read_batches(file, 100))
    with pytest.raises(DamagedPagesError, match=r"row group 0, column 'n'"):
        list(read_group_batches(file, [0], ["n"], 100))


def test_what_does_not_fit_into_memory_is_not_called_damaged() -> None:
    """Each column can be read, but not all at once: a person was told to restore the file."""

    class Narrow:
        def __init__(self, file: pq.ParquetFile) -> None:
            self.metadata, self.schema_arrow, self._file = file.metadata, file.schema_arrow, file

        def read_row_groups(self, groups: list[int], columns: list[str], **how: Any) -> pa.Table:
            if len(columns) > 1:
                raise pa.ArrowMemoryError("malloc of size 1 failed")
            return self._file.read_row_groups(groups, columns=columns, **how)

    narrow: Any = Narrow(open_pages(pa.BufferReader(encoded())))
    with pytest.raises(MemoryError, match="malloc") as caught:
        read_groups(narrow, [0, 1], ["n", "s"])
    assert not isinstance(caught.value, pa.ArrowException | OSError)


def test_a_page_without_bytes_is_a_page() -> None:
    """It has a checksum like others, and the next header stands right behind its own."""
    for crc, problem in ((0, None), (5, "page 0 is damaged: its checksum does not agree")):
        header = b"\x15\x00" * 3 + b"\x15" + bytes([crc * 2]) + b"\x00"  # type, both sizes, crc: zigzag
        walk = ChunkWalk()
        walk.feed(header + header)
        found = walk.end()
        assert (found.problem, found.pages) == (problem, 2 if problem is None else 1)


def test_a_gap_between_the_pages_of_our_files_is_told() -> None:
    """Whatever bit of an offset is wrong; other writers leave gaps."""
    data = encoded()
    metadata = pq.read_metadata(pa.BufferReader(data))
    text = footer_text(footer_bytes(data), metadata.num_columns, metadata.num_row_groups)
    assert text is not None
    chunks = [(chunk, g, c) for g, group in enumerate(text.chunks) for c, chunk in enumerate(group)]
    end = len(data) - len(footer_bytes(data)) - 8
    assert not list(_Walks(chunks).misplaced(end, is_ours=True))
    chunk, *place = chunks[3]
    for later, size in ((1, -1), (0, -1), (0, 1), (1, 0)):
        moved = [*chunks[:3], (chunk._replace(start=chunk.start + later, size=chunk.size + size), *place), *chunks[4:]]
        assert list(_Walks(moved).misplaced(end, is_ours=True)), (later, size)
        assert bool(list(_Walks(moved).misplaced(end, is_ours=False))) is (later + size > 0)


def test_the_place_of_a_row_group_is_said_as_long_as_it_fits() -> None:
    """It is a number of 16 bits, and may be missing."""
    groups = {ordinal: _row_group([], 0, (1, 1, 4, 1, ordinal)) for ordinal in (2**15 - 1, 2**15, 2**16)}
    assert [b"\x14" in data for data in groups.values()] == [True, False, False]
    assert groups[2**15 - 1].endswith(b"\x14\xfe\xff\x03\x00")
