from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.bloom import build_filter, filter_candidates, marks, usable_filter
from lakeindex.bloom.filter import FilterSize, build_sized
from lakeindex.errors import TableCorruptError
from lakeindex.files.footers import (
    Footer,
    parse_footer,
    read_footer,
    read_footer_bytes,
    read_layout,
    read_shape,
)
from lakeindex.hashing.arrow import string_buffers
from lakeindex.index.key_ranges import KeyRange, prune
from lakeindex.model import BaseFile
from lakeindex.options.types import FilterType, WriteConfig
from tests.folder_storage import FolderStorage
from tests.peak_memory import with_peak_memory

KEYS = pa.array([f"key-{i:05d}" for i in range(1_000)])
FILE = BaseFile("us", "7fc2961a-7e9c-40ce-b2fc-fb7b1596063e-0", "20261121015340004", "2-77-124")


def hudi_entries(keys: pa.Array = KEYS, filter_type: FilterType = FilterType.DYNAMIC_V0) -> dict[str, str]:
    """As Hudi writes them: without our mark."""
    built = build_filter(keys, WriteConfig(filter_type=filter_type))
    ends = pa.compute.min_max(keys)
    entries = {
        marks.FILTER: built.to_text().decode(),
        marks.MIN_KEY: ends["min"].as_py(),
        marks.MAX_KEY: ends["max"].as_py(),
    }
    return entries | ({marks.FILTER_TYPE: "DYNAMIC_V0"} if filter_type is FilterType.DYNAMIC_V0 else {})


def our_entries(keys: pa.Array = KEYS) -> dict[str, str]:
    return marks.footer_of_keys(keys, WriteConfig())


def parquet(
    entries: dict[str, str] | dict[bytes, bytes],
    keys: pa.Array = KEYS,
    row_group_rows: int = 400,
    *,
    stats: bool = True,
) -> bytes:
    sink = pa.BufferOutputStream()
    rows = pa.table({"_hoodie_record_key": keys, "value": pa.array(range(len(keys)), pa.int64())})
    with pq.ParquetWriter(sink, rows.schema, write_statistics=stats, store_schema=False) as writer:
        writer.write_table(rows, row_group_size=row_group_rows)
        writer.add_key_value_metadata(entries)
    return sink.getvalue().to_pybytes()


@dataclass
class Stored:
    storage: FolderStorage
    file: BaseFile


@pytest.fixture
def folder(tmp_path: Path) -> FolderStorage:
    return FolderStorage(tmp_path)


def store(folder: FolderStorage, content: bytes) -> Stored:
    file = replace(FILE, size_bytes=len(content))
    folder.write(file.path, content)
    return Stored(folder, file)


def read(folder: FolderStorage, content: bytes) -> Footer:
    stored = store(folder, content)
    return read_footer(stored.storage, stored.file)


def candidates(footer: Footer, keys: pa.Array) -> set[str]:
    """Keys that a look-up would verify in the file."""
    ordered = keys.sort()
    slices = prune(ordered, [KeyRange(footer.min_key, footer.max_key)])
    usable = usable_filter(footer.filter_text, footer.filter_type, footer.rows)
    rows = filter_candidates(usable, string_buffers(ordered), int(slices.from_row[0]), int(slices.to_row[0]))
    return set(ordered.take(pa.array(rows)).to_pylist())


@pytest.mark.parametrize("entries", [our_entries(), hudi_entries(), hudi_entries(filter_type=FilterType.SIMPLE)])
def test_whole_footer(folder: FolderStorage, entries: dict[str, str]) -> None:
    footer = read(folder, parquet(entries))
    assert footer.problem is None
    assert (footer.rows, footer.row_group_rows) == (1_000, (400, 400, 200))
    assert (footer.min_key, footer.max_key) == ("key-00000", "key-00999")
    assert footer.filter_text == entries[marks.FILTER].encode()
    assert footer.filter_type == entries.get(marks.FILTER_TYPE)
    assert footer.arrow_schema is not None
    assert footer.arrow_schema.names == ["_hoodie_record_key", "value"]
    assert candidates(footer, KEYS) == set(KEYS.to_pylist())
    assert len(candidates(footer, pa.array([f"key-{i:05d}x" for i in range(1_000)]))) <= 2


def test_old_filter_key_and_missing_type_code(folder: FolderStorage) -> None:
    entries = hudi_entries(filter_type=FilterType.SIMPLE)
    entries[marks.OLD_FILTER] = entries.pop(marks.FILTER)
    footer = read(folder, parquet(entries))
    assert footer.problem is None
    assert footer.filter_type is None
    assert footer.filter_text is not None


def test_a_shape_is_read_whatever_is_wrong_with_the_filter(folder: FolderStorage) -> None:
    stored = store(folder, parquet(our_entries() | {marks.FILTER: "AAAA"}))
    footer = read_footer(stored.storage, stored.file)
    shape = read_shape(stored.storage, stored.file)
    assert footer.problem is not None
    assert "bloom filter" in footer.problem
    assert (shape.rows, shape.row_group_rows) == (footer.rows, footer.row_group_rows)
    assert shape.arrow_schema == footer.arrow_schema


def test_a_small_file_comes_with_its_footer(folder: FolderStorage) -> None:
    stored = store(folder, parquet(our_entries()))
    assert read_layout(stored.storage, stored.file).whole == stored.storage.read(stored.file.path)


def test_other_entries_are_kept_without_the_filter(folder: FolderStorage) -> None:
    footer = read(folder, parquet(our_entries() | {"parquet.avro.schema": "{}"}))
    assert footer.key_value["parquet.avro.schema"] == "{}"
    assert marks.FILTER not in footer.key_value
    assert footer.without_filter().filter_text is None


def test_small_footer_takes_one_request_a_large_one_two(folder: FolderStorage) -> None:
    stored = store(folder, parquet(our_entries()))
    read_footer_bytes(stored.storage, stored.file)
    assert len(folder.requests) == 1
    folder.requests.clear()
    many = pa.array([f"key-{i:07d}" for i in range(40_000)])
    stored = store(folder, parquet(our_entries(many), many, 40_000))
    footer = read_footer(stored.storage, stored.file)
    assert len(folder.requests) == 2
    assert footer.problem is None
    assert footer.filter_text is not None
    assert len(footer.filter_text) > 150_000


def test_range_narrower_than_the_statistics_is_widened(folder: FolderStorage) -> None:
    footer = read(folder, parquet(hudi_entries() | {marks.MIN_KEY: "key-00500", marks.MAX_KEY: "key-00600"}))
    assert (footer.min_key, footer.max_key) == ("key-00000", "key-00999")
    assert footer.problem is not None
    assert "narrower" in footer.problem


def test_range_in_java_order_is_kept_as_it_is(folder: FolderStorage) -> None:
    keys = pa.array(["a", "\U0001f600", "\uff5e"])
    footer = read(folder, parquet(our_entries(keys), keys))
    assert (footer.min_key, footer.max_key, footer.problem) == ("a", "\uff5e", None)
    assert candidates(footer, keys) == set(keys.to_pylist())


def test_wide_range_and_filter_with_deleted_keys_are_fine(folder: FolderStorage) -> None:
    entries = our_entries()
    footer = read(folder, parquet(entries, KEYS.slice(100, 50)))
    assert footer.problem is None
    assert (footer.min_key, footer.max_key) == ("key-00000", "key-00999")


def test_file_without_rows(folder: FolderStorage) -> None:
    none = pa.array([], pa.string())
    footer = read(folder, parquet(our_entries(none), none))
    assert (footer.rows, footer.row_group_rows, footer.min_key, footer.problem) == (0, (0,), None, None)


def test_a_row_group_without_rows_has_no_pages(folder: FolderStorage) -> None:
    sink = pa.BufferOutputStream()
    rows = pa.table({"_hoodie_record_key": KEYS})
    with pq.ParquetWriter(sink, rows.schema, use_dictionary=False, store_schema=False) as writer:
        for part in (rows.slice(0, 600), rows.slice(0, 0), rows.slice(600)):
            writer.write_table(part)
        writer.add_key_value_metadata(hudi_entries())
    footer = read(folder, sink.getvalue().to_pybytes())
    assert (footer.row_group_rows, footer.problem) == ((600, 0, 400), None)
    assert candidates(footer, KEYS) == set(KEYS.to_pylist())


def changed(entries: dict[str, str], **changes: str | None) -> dict[str, str]:
    names = {
        "filter": marks.FILTER,
        "kind": marks.FILTER_TYPE,
        "low": marks.MIN_KEY,
        "high": marks.MAX_KEY,
        "mark": marks.MARK,
    }
    found = entries | {names[k]: v for k, v in changes.items() if v is not None}
    return {k: v for k, v in found.items() if k not in {names[c] for c, v in changes.items() if v is None}}


def flipped(text: str, place: int) -> str:
    return text[:place] + ("A" if text[place] != "A" else "B") + text[place + 1 :]


HUDI, OURS = hudi_entries(), our_entries()
OTHER = hudi_entries(pa.array([f"other-{i:05d}" for i in range(1_000)]))
OVERFULL = build_sized(KEYS, FilterSize(FilterType.DYNAMIC_V0, 10, 100, 1e-3)).to_text().decode()
HALF = HUDI[marks.FILTER][: len(HUDI[marks.FILTER]) // 2 // 4 * 4]

# damage to the entries: the file can be read, and every key of it must stay a candidate
DAMAGED_ENTRIES: dict[str, dict[str, str] | dict[bytes, bytes]] = {
    "nothing of Hudi's": {},
    "no filter": changed(HUDI, filter=None),
    "no filter, ours": changed(OURS, filter=None),
    "no type code": changed(HUDI, kind=None),
    "empty type code": changed(HUDI, kind=""),
    "unknown type code": changed(HUDI, kind="CUCKOO"),
    "type code of the other type": changed(HUDI, kind="SIMPLE"),
    "simple called dynamic": changed(hudi_entries(filter_type=FilterType.SIMPLE), kind="DYNAMIC_V0"),
    "no least key": changed(HUDI, low=None),
    "no greatest key": changed(HUDI, high=None),
    "no range": changed(HUDI, low=None, high=None),
    "no range, ours": changed(OURS, low=None, high=None),
    "reversed range": changed(HUDI, low="key-00999", high="key-00000"),
    "empty range": changed(HUDI, low="", high=""),
    "least key too great": changed(HUDI, low="key-00500"),
    "greatest key too small": changed(HUDI, high="key-00500"),
    "range of one key": changed(HUDI, low="key-00500", high="key-00500"),
    "range elsewhere": changed(HUDI, low="zzz", high="zzzz"),
    "range elsewhere, ours": changed(OURS, low="zzz", high="zzzz"),
    "ours, least key too great": changed(OURS, low="key-00500"),
    "ours, greatest key too small": changed(OURS, high="key-00500"),
    "range with high characters": changed(HUDI, low="\ue000", high="\uffff"),
    "empty filter": changed(HUDI, filter=""),
    "filter of blanks": changed(HUDI, filter="    "),
    "filter cut": changed(HUDI, filter=HALF),
    "filter cut in a group": changed(HUDI, filter=HUDI[marks.FILTER][:-5]),
    "filter twice": changed(HUDI, filter=HUDI[marks.FILTER] * 2),
    "filter garbled": changed(HUDI, filter="Ä" + HUDI[marks.FILTER][1:]),
    "filter with line breaks": changed(HUDI, filter=HUDI[marks.FILTER][:76] + "\n" + HUDI[marks.FILTER][76:]),
    "filter in url-safe base64": changed(HUDI, filter=HUDI[marks.FILTER].replace("+", "-").replace("/", "_")),
    "filter in hex": changed(HUDI, filter=HUDI[marks.FILTER].encode().hex()),
    "filter is json": changed(HUDI, filter="{}"),
    "filter of another file": changed(HUDI, filter=OTHER[marks.FILTER]),
    "filter of another file, ours": changed(OURS, filter=OTHER[marks.FILTER]),
    "footer of another file": OTHER,
    "footer of another file, ours": our_entries(pa.array([f"other-{i:05d}" for i in range(1_000)])),
    "filter of half the keys": changed(HUDI, filter=hudi_entries(KEYS.slice(0, 500))[marks.FILTER]),
    "filter of no keys": changed(HUDI, filter=hudi_entries(KEYS.slice(0, 2))[marks.FILTER]),
    "filter overfull": changed(HUDI, filter=OVERFULL),
    "filter half zeroed": changed(HUDI, filter=HUDI[marks.FILTER][:800] + "A" * 1_000 + HUDI[marks.FILTER][1_800:]),
    "mark is not json": changed(OURS, mark="{"),
    "mark is empty": changed(OURS, mark=""),
    "mark is a list": changed(OURS, mark="[]"),
    "mark of another checksum": changed(OURS, mark=OURS[marks.MARK].replace('crc32":', 'crc32":1')),
    "entries are not text": {k.encode(): b"\xff\xfe" + v.encode() for k, v in HUDI.items()},
    "range is not text": {k.encode(): (b"\xff" if k in (marks.MIN_KEY, marks.MAX_KEY) else v.encode()) for k, v in HUDI.items()},
    "names are not text": {b"\xff" + k.encode(): v.encode() for k, v in HUDI.items()},
    **{f"ours, filter changed at {p}/8": changed(OURS, filter=flipped(OURS[marks.FILTER], len(OURS[marks.FILTER]) * p // 9)) for p in range(8)},
    **{f"filter header changed at {p}": changed(HUDI, filter=flipped(HUDI[marks.FILTER], p)) for p in range(34)},
}  # fmt: skip


@pytest.mark.parametrize("name", DAMAGED_ENTRIES)
def test_damaged_entries_never_hide_a_key(folder: FolderStorage, name: str) -> None:
    for stats in (True, False):
        stored = store(folder, parquet(DAMAGED_ENTRIES[name], stats=stats))
        footer, peak = with_peak_memory(partial(read_footer, stored.storage, stored.file))
        assert peak < 4_000_000
        assert footer.rows == 1_000
        if not stats and name in UNNOTICED_WITHOUT_STATISTICS:
            continue
        assert candidates(footer, KEYS) == set(KEYS.to_pylist()), (stats, footer.problem)


# Something that looks right in itself, in a file without column statistics: nothing can tell. Hudi's writers and
# ours do write statistics.
UNNOTICED_WITHOUT_STATISTICS = {
    "least key too great",
    "greatest key too small",
    "range of one key",
    "range elsewhere",
    "empty range",
    "footer of another file",
    "footer of another file, ours",
}


def damaged_files() -> dict[str, bytes]:
    """Files that are no Parquet files any more, or whose footer lies about the file."""
    whole = parquet(HUDI)
    (length,) = struct.unpack("<I", whole[-8:-4])
    footer_at = len(whole) - 8 - length
    found = {
        "empty": b"",
        "four bytes": b"PAR1",
        "eleven bytes": b"PAR1PAR1PAR",
        "twelve bytes": b"PAR1\0\0\0\0PAR1",
        "zeros": bytes(len(whole)),
        "text": b"id,value\n" * 100,
        "no magic at the end": whole[:-4] + b"PAR2",
        "encrypted": whole[:-4] + b"PARE",
        "footer of no bytes": whole[:-8] + struct.pack("<I", 0) + b"PAR1",
        "footer of four billion bytes": whole[:-8] + b"\xff\xff\xff\xffPAR1",
        "footer longer than the file": whole[:-8] + struct.pack("<I", len(whole)) + b"PAR1",
        "footer as long as the file": whole[:-8] + struct.pack("<I", len(whole) - 8) + b"PAR1",
        "footer too short": whole[:-8] + struct.pack("<I", length - 200) + b"PAR1",
        "footer too long": whole[:-8] + struct.pack("<I", length + 200) + b"PAR1",
        "footer of zeros": whole[:footer_at] + bytes(length) + whole[-8:],
        "footer of ones": whole[:footer_at] + b"\xff" * length + whole[-8:],
        "data cut out": b"PAR1" + whole[footer_at:],
        "footer only, with magic": b"PAR1" + whole[footer_at:],
    }
    found |= {f"cut at {part}/16": whole[: len(whole) * part // 16] for part in range(1, 16)}
    return found


@pytest.mark.parametrize("name", damaged_files())
def test_file_that_cannot_be_read_is_named(folder: FolderStorage, name: str) -> None:
    stored = store(folder, damaged_files()[name])

    def refused() -> TableCorruptError:
        with pytest.raises(TableCorruptError) as caught:
            read_footer(stored.storage, stored.file)
        return caught.value

    error, peak = with_peak_memory(refused)
    assert error.culprit == FILE.path
    assert error.hint
    assert FILE.path in error.message
    assert peak < 4_000_000


def test_missing_file_is_named(folder: FolderStorage) -> None:
    with pytest.raises(TableCorruptError, match="missing"):
        read_footer(folder, replace(FILE, size_bytes=100))


def test_file_shorter_than_listed_is_named(folder: FolderStorage) -> None:
    stored = store(folder, parquet(HUDI))
    with pytest.raises(TableCorruptError, match="listed with"):
        read_footer(stored.storage, replace(stored.file, size_bytes=stored.file.size_bytes + 7))


def test_file_longer_than_listed_is_named(folder: FolderStorage) -> None:
    whole = parquet(HUDI)
    stored = store(folder, whole + whole[-100:])
    with pytest.raises(TableCorruptError, match=f"listed with {len(whole)} bytes but is longer"):
        read_footer(stored.storage, replace(stored.file, size_bytes=len(whole)))


def test_file_without_key_column_is_refused(folder: FolderStorage) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"id": [1]}), sink)
    with pytest.raises(TableCorruptError, match="_hoodie_record_key") as caught:
        read(folder, sink.getvalue().to_pybytes())
    assert caught.value.hint is not None
    assert "populate.meta.fields" in caught.value.hint


OUR_FILE = parquet(OURS)
OUR_FOOTER_BYTES = struct.unpack("<I", OUR_FILE[-8:-4])[0] + 8


@given(st.integers(0, OUR_FOOTER_BYTES - 1), st.binary(min_size=1, max_size=24))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_overwritten_bytes_in_our_footer_never_hide_a_key(folder: FolderStorage, place: int, noise: bytes) -> None:
    """Either the file is refused, or every key stays a candidate."""
    start = len(OUR_FILE) - OUR_FOOTER_BYTES + place
    content = (OUR_FILE[:start] + noise + OUR_FILE[start + len(noise) :])[: len(OUR_FILE)]
    assert_safe(folder, content)


@given(st.integers(0, OUR_FOOTER_BYTES * 8 - 1))
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_flipped_bit_in_our_footer_never_hides_a_key(folder: FolderStorage, bit: int) -> None:
    content = bytearray(OUR_FILE)
    content[len(content) - 1 - bit // 8] ^= 1 << bit % 8
    assert_safe(folder, bytes(content))


def assert_safe(folder: FolderStorage, content: bytes) -> None:
    stored = store(folder, content)
    footer = footer_or_none(stored)
    if footer is not None:
        assert candidates(footer, KEYS) == set(KEYS.to_pylist())


def footer_or_none(stored: Stored) -> Footer | None:
    try:
        return read_footer(stored.storage, stored.file)
    except TableCorruptError:
        return None


def test_single_bits_of_a_small_footer(folder: FolderStorage) -> None:
    """Some of these make pyarrow's column metadata end the process; ours must neither die nor hide a key."""
    keys = KEYS.slice(0, 10)
    content = parquet(our_entries(keys), keys, 5)
    footer_bytes = struct.unpack("<I", content[-8:-4])[0] + 8
    outcomes = {"refused": 0, "read": 0}
    for bit in range(0, footer_bytes * 8, 5):
        damaged = bytearray(content)
        damaged[len(content) - 1 - bit // 8] ^= 1 << bit % 8
        footer = footer_or_none(store(folder, bytes(damaged)))
        outcomes["refused" if footer is None else "read"] += 1
        if footer is not None:
            assert candidates(footer, keys) == set(keys.to_pylist())
    assert min(outcomes.values()) > 200


@given(st.binary(min_size=1, max_size=400))
@settings(deadline=None)
def test_any_bytes_as_footer_are_refused(raw: bytes) -> None:
    with pytest.raises(TableCorruptError):
        parse_footer(raw, replace(FILE, size_bytes=1_000_000))


def test_footer_is_a_value() -> None:
    first = Footer(1, (1,), "a", "b", b"x")
    assert first == Footer(1, (1,), "a", "b", b"x")
    assert first.without_filter().with_filter(b"x") == first
