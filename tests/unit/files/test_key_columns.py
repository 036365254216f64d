"""Which row groups of a base file are read for some keys."""

import struct

import pyarrow as pa
import pytest

from lakeindex.files.key_columns import StoredColumns, read_record_keys
from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.storage.memory import MemoryStorage
from lakeindex.write.base_file import RECORD_KEY
from lakeindex.write.types.avro_schema import META_COLUMNS
from tests.base_files import encode_base_file

SCHEMA = pa.schema([pa.field("id", pa.string(), nullable=False)])
KEYS = [f"k{number:03d}" for number in range(100)]


def encoded() -> bytes:
    rows = pa.table([*([pa.array(KEYS)] * len(META_COLUMNS)), pa.array(KEYS)], names=[*META_COLUMNS, "id"])
    return encode_base_file(rows, "orders", SCHEMA, WriteConfig(row_group_rows=10))


def stored(data: bytes) -> tuple[MemoryStorage, BaseFile]:
    file = BaseFile("p", "f-0", "20260101000000000", "0-0-0", len(data))
    storage = MemoryStorage()
    storage.write(file.path, data)
    return storage, file


@pytest.mark.parametrize(
    ("keys", "groups"),
    [
        (["k012"], [1]),
        (["k019", "k020"], [1, 2]),
        (["k0195"], []),  # between two row groups
        (["a", "k000", "k055", "z"], [0, 5]),
        (["a", "z"], []),
        ([], []),
    ],
)
def test_only_row_groups_that_may_hold_a_key(keys: list[str], groups: list[int]):
    columns = StoredColumns(*stored(encoded()), None)
    assert columns.row_groups_for(pa.array(keys, pa.string())) == groups
    assert pa.chunked_array(columns.column(RECORD_KEY, [1, 5])).to_pylist() == KEYS[10:20] + KEYS[50:60]


def test_statistics_that_the_filter_does_not_hold_exclude_nothing():
    """A damaged end of a row group would hide its keys: the filter holds every end, so it shows."""
    data = (
        encoded()
        .replace(b"lakeindex.page.headers", b"another.page.checksums")
        .replace(b"lakeindex.footer.crc32", b"another.footer.digestt")
    )
    (footer_bytes,) = struct.unpack("<I", data[-8:-4])
    pages, footer = data[: -8 - footer_bytes], data[-8 - footer_bytes :]
    wrong = pages + footer.replace(b"k059", b"k05!")
    assert StoredColumns(*stored(data), None).row_groups_for(pa.array(["k057"])) == [5]
    assert StoredColumns(*stored(wrong), None).row_groups_for(pa.array(["k057"])) == list(range(10))


def test_all_keys_in_the_file_s_order():
    assert read_record_keys(*stored(encoded())).to_pylist() == KEYS
