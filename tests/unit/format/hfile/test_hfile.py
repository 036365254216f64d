"""HFiles: those of HBase are read, what is written is read back, damage is told and never more than that."""

from __future__ import annotations

import base64
import gzip
import random
import struct
import zlib
from pathlib import Path

import google_crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.errors import InvariantError, TableCorruptError, TableUnsupportedError
from lakeindex.format.hfile import HFile, blocks, format_hfile, merge_hfile, reading
from lakeindex.format.hfile.blocks import (
    LoneBlock,
    format_message,
    format_varint,
    format_vint,
    parse_message,
    read_varint,
    read_vint,
)
from lakeindex.format.hfile.reading import Place

VECTORS = Path(__file__).parents[3] / "vectors/hfile"
FOUND = {
    "hudi_1_0_hbase_2_4_9_16KB_GZ_20000": (20_000, 1, "hudi-key-{:09d}"),
    "hudi_1_0_hbase_2_4_13_16KB_GZ_20000_fake_first_key": (20_000, 1, "hudi-key-{:09d}-abcdefghij"),
    "hudi_1_0_hbase_2_4_13_1KB_GZ_10000_large_keys_deep_index": (10_000, 3, None),
    "hudi_1_0_hbase_2_4_9_no_entry": (0, 1, None),
}
SCHEMA = '{"type":"string"}'


def vector(name: str) -> bytes:
    return (VECTORS / f"{name}.hfile").read_bytes()


class Ranges:
    """A file that counts what is fetched of it."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.fetched: list[tuple[int, int]] = []

    def read(self, at: int, size: int) -> bytes:
        self.fetched.append((at, size))
        return self.data[at : at + size]

    def open(self) -> HFile:
        return HFile.open(len(self.data), self.read, "x.hfile")


@pytest.mark.parametrize("name", FOUND)
def test_what_hbase_wrote_is_read(name: str) -> None:
    count, levels, key = FOUND[name]
    file = HFile.of(vector(name), name)
    entries = list(file.entries())
    assert (file.entry_count, len(entries), file.levels) == (count, count, levels)
    assert [value for _, value in entries] == [f"hudi-value-{number:09d}".encode() for number in range(count)]
    assert [one for one, _ in entries] == sorted(one for one, _ in entries)
    if key is not None:
        assert [one.decode() for one, _ in entries] == [key.format(number) for number in range(count)]


@pytest.mark.parametrize("name", [name for name, (count, _, _) in FOUND.items() if count])
def test_keys_are_found_with_few_blocks(name: str) -> None:
    source = Ranges(vector(name))
    file = source.open()
    everything = list(file.entries())
    chance = random.Random(7)
    for count in (1, 10, 500, len(everything)):
        chosen = sorted(chance.sample(everything, count))
        absent = [key + b"!" for key, _ in chosen[::3]]
        found = list(file.lookup(sorted([*(key for key, _ in chosen), *absent, b"", b"zzzz"])))
        assert found == chosen
    source.fetched.clear()
    assert list(file.lookup([everything[0][0]])) == everything[:1]
    assert len(source.fetched) <= file.levels


def test_neighbours_are_fetched_together() -> None:
    """The end of a file, with its index, is one request; blocks that follow each other are one more."""
    entries = [(f"k{number:06d}".encode(), random.Random(number).randbytes(900)) for number in range(2_000)]
    source = Ranges(format_hfile(entries, SCHEMA, block_bytes=16_384))
    file = source.open()
    assert len(source.fetched) == 1
    assert list(file.lookup([key for key, _ in entries])) == entries
    assert len(source.fetched) == 2
    source.fetched.clear()
    assert list(file.lookup([entries[at][0] for at in (0, 30, 1_500)])) == [entries[at] for at in (0, 30, 1_500)]
    assert len(source.fetched) == 2
    assert sum(size for _, size in source.fetched) < 100_000


def test_a_small_file_is_fetched_once() -> None:
    entries = [(f"k{number:06d}".encode(), b"v") for number in range(2_000)]
    source = Ranges(format_hfile(entries, SCHEMA, block_bytes=4_096))
    assert list(source.open().entries()) == entries
    assert len(source.fetched) == 1


def test_keys_that_stand_there_more_than_once_are_all_given() -> None:
    file = HFile.of(vector("hudi_1_0_hbase_2_4_9_16KB_GZ_200_20_non_unique"), "x")
    found = list(file.lookup([b"hudi-key-000000007"]))
    assert [value for _, value in found] == [
        b"hudi-value-000000007",
        *(f"hudi-value-000000007_{number}".encode() for number in range(20)),
    ]


entries_of = st.dictionaries(st.binary(min_size=1, max_size=40), st.binary(max_size=60), max_size=120)


@settings(max_examples=60, deadline=None)
@given(entries_of, st.sampled_from([blocks.GZIP, blocks.NONE]), st.sampled_from([64, 300, 1 << 20]), st.data())
def test_what_is_written_is_read(
    content: dict[bytes, bytes], codec: int, block_bytes: int, data: st.DataObject
) -> None:
    entries = sorted(content.items())
    written = format_hfile(
        entries, SCHEMA, info={b"minRecordKey": b"a"}, codec=codec, block_bytes=block_bytes, created_ms=5
    )
    file = HFile.of(written, "x")
    assert list(file.entries()) == entries
    assert (file.entry_count, file.codec, file.schema) == (len(entries), codec, SCHEMA)
    assert file.info[b"minRecordKey"] == b"a"
    assert file.info[b"hfile.CREATE_TIME_TS"] == struct.pack(">q", 5)
    asked = sorted(data.draw(st.sets(st.one_of(st.binary(max_size=5), st.sampled_from([*content, b"x"])))))
    assert list(file.lookup(asked)) == [(key, content[key]) for key in asked if key in content]
    assert (
        format_hfile(entries, SCHEMA, info={b"minRecordKey": b"a"}, codec=codec, block_bytes=block_bytes, created_ms=5)
        == written
    )


@settings(max_examples=80, deadline=None)
@given(
    entries_of,
    st.dictionaries(st.binary(min_size=1, max_size=3), st.one_of(st.none(), st.binary(max_size=60)), max_size=12),
    st.sets(st.integers(0, 119)),
    st.sampled_from([64, 300, 1 << 20]),
)
def test_a_merged_file_has_what_a_dictionary_has(
    content: dict[bytes, bytes], new: dict[bytes, bytes | None], gone: set[int], block_bytes: int
) -> None:
    """Again and again on its own result; it can be told from one that is written at once by its blocks alone."""
    base = HFile.of(format_hfile(sorted(content.items()), SCHEMA, block_bytes=block_bytes), "x")
    listed = sorted(content)
    for changes in (new, {listed[at]: None for at in gone if at < len(listed)}, {b"z": b"z"}):
        merged = merge_hfile(base, sorted(changes.items()), SCHEMA, block_bytes=block_bytes)
        content = {key: value for key, value in {**content, **changes}.items() if value is not None}
        base = HFile.of(merged.data, "x")
        assert list(base.entries()) == sorted(content.items())
        assert base.entry_count == merged.entry_count == len(content)
        assert base.info.get(b"minRecordKey") == min(content, default=None)
        assert base.info.get(b"maxRecordKey") == max(content, default=None)
        assert list(base.lookup(sorted(content))) == sorted(content.items())


@pytest.mark.parametrize("gone", [{0, 1}, {3, 4}, {0, 4}, {0, 1, 2, 3}, {1, 2, 3, 4}])
def test_a_merged_file_whose_ends_went_says_what_its_ends_are_now(gone: set[int]) -> None:
    entries = [(bytes([number]), b"v" * 60) for number in range(5)]
    base = HFile.of(format_hfile(entries, SCHEMA, block_bytes=64), "x")
    merged = HFile.of(
        merge_hfile(base, [(bytes([number]), None) for number in sorted(gone)], SCHEMA, block_bytes=64).data, "x"
    )
    left = [key for key, _ in entries if key[0] not in gone]
    assert [key for key, _ in merged.entries()] == left
    assert (merged.info[b"minRecordKey"], merged.info[b"maxRecordKey"]) == (left[0], left[-1])


def test_blocks_without_a_change_are_copied() -> None:
    entries = [(f"key-{number:05d}".encode(), f"value {number}".encode() * 3) for number in range(2000)]
    before = format_hfile(entries, SCHEMA, block_bytes=500)
    source = HFile.of(before, "x")
    merged = merge_hfile(source, [(b"key-01000", b"new")], SCHEMA, block_bytes=500)
    blocks_of = lambda data: set(data.split(blocks.DATA)[1:])  # noqa: E731
    bodies = {body[25:] for body in blocks_of(before)}
    assert len([body for body in blocks_of(merged.data) if body[25:] not in bodies]) <= 3


def test_large_entries_are_copied_with_their_blocks() -> None:
    """Those that stay, and those that come from another file; small ones and several in one block are not."""
    chance = random.Random(3)
    old = {b"k%02d" % number: chance.randbytes(900) for number in range(0, 20, 2)}
    new = {b"k%02d" % number: chance.randbytes(900) for number in range(1, 20, 3)} | {b"m": b"small", b"n": b"two"}
    base = HFile.of(format_hfile(sorted(old.items()), SCHEMA, block_bytes=500), "base")
    log = HFile.of(format_hfile(sorted(new.items()), SCHEMA, block_bytes=500), "log")
    changes: dict[bytes, bytes | LoneBlock | None] = dict(log.parts(500))
    assert [isinstance(value, LoneBlock) for value in changes.values()] == [True] * 7 + [False] * 2
    changes[b"k04"] = None
    merged = merge_hfile(base, sorted(changes.items()), SCHEMA, block_bytes=500)
    content = {**old, **new}
    del content[b"k04"]
    found = HFile.of(merged.data, "merged")
    assert dict(found.entries()) == content
    assert list(found.lookup([b"k01", b"k02", b"k03", b"k04"])) == [(key, content[key]) for key in (b"k01", b"k02")]
    assert found.entry_count == merged.entry_count == len(content)
    once = HFile.of(format_hfile(sorted(content.items()), SCHEMA, block_bytes=500), "at once")
    assert merged.data == format_hfile(sorted(content.items()), SCHEMA, block_bytes=500, info=dict(found.info) | {})
    assert [key for key, _, _ in found.places()] == [key for key, _, _ in once.places()]


def test_a_block_of_several_entries_is_none_that_one_is_alone_in() -> None:
    """Though it is as large as a block may be: to the byte."""
    entries = [(bytes([65 + number]), b"v" * 10) for number in range(6)]
    base = HFile.of(format_hfile(entries, SCHEMA, block_bytes=64), "x")
    assert [blocks.decoded_bytes(base.raw(one.offset, one.size)) for one in base.places()] == [64, 64, 64]
    assert list(base.parts(64)) == entries
    merged = merge_hfile(base, [(b"D", b"new"), (b"G", b"g")], SCHEMA, block_bytes=64)
    wanted = sorted({**dict(entries), b"D": b"new", b"G": b"g"}.items())
    assert list(HFile.of(merged.data, "x").entries()) == wanted
    lone = [(bytes([65 + number]), b"v" * 43) for number in range(3)]  # 64 bytes each
    assert [
        isinstance(value, LoneBlock) for _, value in HFile.of(format_hfile(lone, SCHEMA, block_bytes=64), "x").parts(64)
    ] == [True] * 3


def test_a_large_entry_whose_beginning_is_damaged_is_told() -> None:
    data = bytearray(format_hfile([(b"key", bytes(900)), (b"kez", bytes(900))], SCHEMA, block_bytes=500))
    data[blocks.HEADER_BYTES] ^= 0xFF
    with pytest.raises(TableCorruptError, match="x is damaged"):
        list(HFile.of(bytes(data), "x").parts(500))


def test_a_large_entry_whose_key_is_not_that_of_the_index_is_told() -> None:
    """Its block is not decoded where it is copied: a bit of the key may be wrong that only a checksum tells."""
    content = b"key" + bytes(900)
    data = format_hfile([(b"key", content)], SCHEMA, block_bytes=500)
    block = data[: HFile.of(data, "x").places()[0].size]
    packed = zlib.compressobj(0, zlib.DEFLATED, 31)  # as it is, so that a flipped bit is one of the key
    plain = packed.compress(blocks.parse_block(block, 0, blocks.GZIP).content) + packed.flush()
    head = bytearray(block[: blocks.HEADER_BYTES])
    struct.pack_into(">i", head, 29, blocks.HEADER_BYTES + len(plain))
    struct.pack_into(">i", head, 8, len(plain))
    place = Place(b"key", 0, len(head) + len(plain))
    file = HFile.of(data, "x")
    ((key, value),) = file.parts_in(place, bytes(head) + plain, 500)
    assert (key, isinstance(value, LoneBlock)) == (b"key", True)
    flipped = (bytes(head) + plain).replace(b"key", b"kex", 1)
    with pytest.raises(TableCorruptError, match="x is damaged"):
        file.parts_in(place, flipped, 500)


@pytest.mark.parametrize("name", [name for name, (count, _, _) in FOUND.items() if count and "non_unique" not in name])
def test_a_file_of_hbases_is_merged(name: str) -> None:
    """Its blocks have checksums that say where they are: they are written again."""
    file = HFile.of(vector(name), "x")
    entries = dict(file.entries())
    some = sorted(entries)[17]
    merged = HFile.of(merge_hfile(file, [(some, None), (b"zzz", b"new")], SCHEMA, block_bytes=1 << 16).data, "x")
    del entries[some]
    assert dict(merged.entries()) == {**entries, b"zzz": b"new"}


@pytest.mark.parametrize("keys", [[b"b", b"a"], [b"a", b"a"]])
def test_keys_out_of_order_are_refused(keys: list[bytes]) -> None:
    with pytest.raises(InvariantError, match="follows"):
        format_hfile([(key, b"") for key in keys], SCHEMA)


def small(checksums: bool = False) -> bytes:
    entries = [(f"key-{number:02d}".encode(), f"value {number}".encode() * 3) for number in range(20)]
    data = format_hfile(entries, SCHEMA, codec=blocks.NONE, block_bytes=200)
    return with_checksums(data) if checksums else data


def with_checksums(data: bytes) -> bytes:
    """The same file with the CRC32C of each block, as HBase writes them."""
    out = bytearray(data)
    at = 0
    while out[at : at + 8] != blocks.TRAILER:
        behind, encoded = struct.unpack_from(">i", out, at + 8)[0], struct.unpack_from(">i", out, at + 29)[0]
        out[at + 24] = 2
        for number, start in enumerate(range(0, encoded, 16_384)):
            piece = bytes(out[at + start : at + min(start + 16_384, encoded)])
            struct.pack_into(">I", out, at + encoded + 4 * number, google_crc32c.value(piece))
        at += 33 + behind
    return bytes(out)


@pytest.mark.parametrize("checksums", [True, False])
def test_any_flipped_bit_is_told_or_changes_nothing(checksums: bool) -> None:
    """Never another error; and with checksums never other entries."""
    data = small(checksums)
    whole = list(HFile.of(data, "x").entries())
    assert len(whole) == 20
    end = len(data) - 4_096 + 130
    told = 0
    for place in range(0, end * 8, 3):
        bad = bytearray(data)
        bad[place // 8] ^= 1 << place % 8
        try:
            found = list(HFile.of(bytes(bad), "x").entries())
        except (TableCorruptError, TableUnsupportedError):
            told += 1
        else:
            assert not checksums or found == whole or place // 8 >= len(data) - 4_096
    assert told > end // 4


def test_a_file_that_is_cut_off_is_told() -> None:
    data = small()
    for size in [*range(0, 200, 7), *range(4_000, len(data) - 1, 97)]:
        with pytest.raises(TableCorruptError, match=r"x\.hfile is damaged"):
            list(HFile.of(data[:size], "x.hfile").entries())
    with pytest.raises(TableCorruptError, match=r"x\.hfile is damaged"):
        list(HFile.of(data[100:], "x.hfile").entries())


@pytest.mark.parametrize(("field", "value"), [(5, 2**40), (8, 2**20), (2, 2**62), (1, 2**62)])
def test_what_a_trailer_claims_is_bounded_by_the_bytes(field: int, value: int) -> None:
    data = small()
    length, at = read_varint(data, len(data) - 4_096 + 8)
    facts = {key: found[0] for key, found in parse_message(data[at : at + length]).items()} | {field: value}
    message = format_message(facts)
    head = blocks.TRAILER + format_varint(len(message)) + message
    crafted = data[: len(data) - 4_096] + head + bytes(4_095 - len(head)) + b"\x03"
    with pytest.raises(TableCorruptError):
        list(HFile.of(crafted, "x").entries())


def test_a_block_that_grows_is_not_unpacked() -> None:
    bomb = format_hfile([(b"k", bytes(1 << 22))], SCHEMA)
    assert len(bomb) < 20_000
    at = bomb.index(blocks.DATA)
    crafted = bomb[: at + 12] + struct.pack(">i", 100) + bomb[at + 16 :]
    with pytest.raises(TableCorruptError, match="that says 100"):
        list(HFile.of(crafted, "x").entries())


@pytest.mark.parametrize(("codec", "name"), [(0, "lzo"), (3, "snappy"), (4, "lz4"), (5, "bz2"), (6, "zstd"), (9, "9")])
def test_other_codecs_are_refused_by_name(codec: int, name: str) -> None:
    data = small()
    length, at = read_varint(data, len(data) - 4_096 + 8)
    facts = {key: found[0] for key, found in parse_message(data[at : at + length]).items()} | {12: codec}
    message = format_message(facts)
    head = blocks.TRAILER + format_varint(len(message)) + message
    crafted = data[: len(data) - 4_096] + head + bytes(4_095 - len(head)) + b"\x03"
    with pytest.raises(TableUnsupportedError, match=name):
        HFile.of(crafted, "x")


@pytest.mark.parametrize(
    ("fact", "value"), [(b"MAX_TAGS_LEN", b"\0\0\0\5"), (b"MAX_MEMSTORE_TS_KEY", b"\0" * 7 + b"\1")]
)
def test_what_hbase_may_keep_beside_values_is_refused(fact: bytes, value: bytes) -> None:
    data = format_hfile([(b"k", b"v")], SCHEMA, info={fact: value})
    with pytest.raises(TableUnsupportedError, match="beside its values"):
        HFile.of(data, "x")


@given(st.integers(0, 2**62))
def test_integers_are_read_as_written(number: int) -> None:
    assert read_varint(format_varint(number) + b"x", 0) == (number, len(format_varint(number)))
    assert read_vint(format_vint(number) + b"x", 0) == (number, len(format_vint(number)))


def test_hadoops_integers_are_hadoops() -> None:
    """``WritableUtils.writeVLong``."""
    assert [format_vint(one) for one in (0, 127, 128, 300, 70_000)] == [
        b"\x00",
        b"\x7f",
        b"\x8f\x80",
        b"\x8e\x01\x2c",
        b"\x8d\x01\x11\x70",
    ]


def test_damaged_integers_are_told() -> None:
    for data in (b"", b"\x80", b"\xff" * 12):
        with pytest.raises((ValueError, IndexError)):
            read_varint(data, 0)
    for data in (b"", b"\x80", b"\x8e\x01", b"\x87" + bytes(20), b"\x80" + bytes(20)):
        with pytest.raises(ValueError, match="cut-off"):
            read_vint(data, 0)


@pytest.mark.parametrize(
    ("what", "content"),
    [
        ("bits as text", base64.b64encode(random.Random(1).randbytes(300_000))),
        ("records", b"".join(b"%08d 2026-01-01 place %d" % (n, n % 7) for n in range(20_000))),
        ("little", b"abc"),
        ("nothing", b""),
    ],
)
def test_a_block_is_about_as_small_as_gzip_makes_it_and_any_gzip_reads_it(what: str, content: bytes):
    block = blocks.format_block(blocks.DATA, content, blocks.GZIP)
    assert blocks.format_block(blocks.DATA, content, blocks.GZIP) == block
    assert blocks.parse_block(block, 0, blocks.GZIP).content == content
    assert gzip.decompress(block[blocks.HEADER_BYTES :]) == content  # the checksums behind are zeros, as padding is
    assert len(block) - blocks.HEADER_BYTES <= len(gzip.compress(content, 6)) * 1.1 + 4, what


def test_each_piece_of_a_block_has_a_checksum() -> None:
    """As HBase writes them: of 16 KiB each, and one of what is left."""
    content = random.Random(5).randbytes(40_000)
    data = with_checksums(format_hfile([(b"key", content)], SCHEMA, codec=blocks.NONE))
    assert list(HFile.of(data, "x").entries()) == [(b"key", content)]
    for at in (100, 16_500, 33_000, 39_990):
        bad = bytearray(data)
        bad[at] ^= 1
        with pytest.raises(TableCorruptError, match="does not fit its checksum"):
            list(HFile.of(bytes(bad), "x").entries())


def test_what_cannot_be_is_told_without_checksums_too() -> None:
    """Lengths that lead out of where they stand, a version beside a value, another version of the format."""
    data = format_hfile([(b"key", b"value")], SCHEMA, codec=blocks.NONE)
    entry = struct.pack(">iih", 15, 5, 3) + b"key"
    index = struct.pack(">h", 3) + b"key"
    root = data.index(blocks.ROOT_INDEX)
    assert data.count(entry) == 1
    cases = {
        "a key into its value": data.replace(entry, struct.pack(">iih", 15, 5, 16) + b"key"),
        "a value over the end": data.replace(entry, struct.pack(">iih", 15, 50, 3) + b"key"),
        "a negative value": data.replace(entry, struct.pack(">iih", 21, -1, 3) + b"key"),
        "a version": data.replace(b"value\0", b"value\1"),
        "a key of the index": data[:root] + data[root:].replace(index, struct.pack(">h", 9) + b"key", 1),
        "version 2": data[:-1] + b"\x02",
        "version 4": data[:-1] + b"\x04",
    }
    passed = []
    for what, bad in cases.items():
        try:
            passed.append((what, list(HFile.of(bad, "x").entries())))
        except TableCorruptError:
            assert bad != data, what
    assert not passed
    place = struct.pack(">qi", 0, 10) + index
    whole = struct.pack(">3i", 1, 0, len(place)) + place
    assert reading._inner_places(whole) == [Place(b"key", 0, 10)]
    for begin, end in ((0, len(place) + 1), (5, 5), (-1, len(place))):
        with pytest.raises(ValueError, match="leave it"):
            reading._inner_places(struct.pack(">3i", 1, begin, end) + place)


def test_blocks_are_as_large_as_they_are_asked_to_be_and_name_each_other() -> None:
    """In the header of each block, where the one before it begins; in the trailer, the first and the last."""
    entries = [(b"k%03d" % number, b"v" * (number % 40)) for number in range(200)] + [(b"l", b"large" * 200)]
    data = format_hfile(entries, SCHEMA, codec=blocks.NONE, block_bytes=400)
    file = HFile.of(data, "x")
    places = file.places()
    assert len(places) > 10
    sizes = [(len(file.entries_at(one)), blocks.decoded_bytes(file.raw(one.offset, one.size))) for one in places]
    assert all(size <= 400 or count == 1 for count, size in sizes)
    assert all(size > 320 for _, size in sizes[:-2]), "and no smaller than need be"
    before = [struct.unpack_from(">q", data, one.offset + 16)[0] for one in places]
    assert before == [-1, *(one.offset for one in places[:-1])]
    length, at = read_varint(data, len(data) - 4_096 + 8)
    trailer = parse_message(data[at : at + length])
    assert (trailer[9], trailer[10]) == ([places[0].offset], [places[-1].offset])
    keys, values = (sum(len(one[part]) for one in entries) // len(entries) for part in (0, 1))
    said = [struct.unpack(">i", file.info[name])[0] for name in (b"hfile.AVG_KEY_LEN", b"hfile.AVG_VALUE_LEN")]
    assert (said, file.info[b"hfile.LASTKEY"]) == ([keys, values], b"\0\x01l")


def test_no_request_asks_for_more_than_8_mib() -> None:
    entries = [(b"%02d" % number, bytes(1_000_000)) for number in range(12)]
    source = Ranges(format_hfile(entries, SCHEMA, codec=blocks.NONE))
    file = source.open()
    source.fetched.clear()
    assert [key for key, _ in file.lookup([key for key, _ in entries])] == [key for key, _ in entries]
    assert len(source.fetched) == 2
    assert max(size for _, size in source.fetched) <= 8 << 20
