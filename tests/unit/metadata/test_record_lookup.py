"""Many keys at once are found as one after the other, whatever is in the files, and whatever is wrong with them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeindex.errors import TableCorruptError
from lakeindex.format.hfile import HFile, blocks, format_hfile
from lakeindex.metadata import record_index
from lakeindex.metadata.metadata_records import Record, decode_record, encode_record, own_schema
from lakeindex.metadata.metadata_table import RECORD_INDEX
from lakeindex.metadata.metadata_view import Layer
from lakeindex.metadata.record_index import (
    FoundRecords,
    RecordLocation,
    find_records,
    location_record,
    records_of_layers,
)
from tests.unit.metadata.test_record_index import KEYS, Indexed, run_of

SCHEMA, OLD_SCHEMA = own_schema(9), own_schema(6)
RECORDS = [location_record(RecordLocation("p", f"file-{number}", number)) for number in range(5)]
keys_of = st.text(st.sampled_from("ab\u00e9\U0001f600\0"), max_size=4)


def as_dict(found: FoundRecords, keys: list[str]) -> dict[str, Record]:
    assert list(found.rows) == sorted(found.rows)
    return {keys[row]: found.records[at] for row, at in zip(found.rows, found.numbers, strict=True)}


def one_by_one(layers: Iterable[Layer], keys: list[str]) -> dict[str, Record]:
    """The same by the entries of each file."""
    found: dict[str, Record] = {}
    for layer in layers:
        for key in layer.gone:
            found.pop(key, None)
        if layer.file is not None:
            for key, value in layer.file.lookup([key.encode() for key in keys]):
                found[key.decode()] = decode_record(value, layer.schema, layer.source)
    return {key: record for key, record in found.items() if key in keys}


def hfile(content: dict[str, int], schema: str, codec: int, block_bytes: int) -> bytes:
    entries = sorted((key.encode(), encode_record(RECORDS[number], schema)) for key, number in content.items())
    return format_hfile(entries, schema, codec=codec, block_bytes=block_bytes)


@settings(max_examples=150, deadline=None)
@given(
    stories=st.lists(
        st.one_of(st.sets(keys_of, max_size=3), st.dictionaries(keys_of, st.integers(0, 4), max_size=30)), max_size=5
    ),
    keys=st.sets(keys_of, min_size=1, max_size=30),
    codec=st.sampled_from([blocks.GZIP, blocks.NONE]),
    block_bytes=st.sampled_from([64, 300, 1 << 20]),
    wide=st.booleans(),
)
def test_keys_of_some_layers(
    stories: list[set[str] | dict[str, int]], keys: set[str], codec: int, block_bytes: int, wide: bool
) -> None:
    """Layers of both schemas, small blocks and large ones, keys that go."""
    layers, truth = [], dict[str, int]()
    for number, story in enumerate(stories):
        if isinstance(story, dict):
            schema = SCHEMA if number % 2 else OLD_SCHEMA
            data = hfile(story, schema, codec, block_bytes)
            layers.append(Layer("x", HFile.of(data, "x"), schema))
            truth |= story
        else:
            layers.append(Layer("x", gone=tuple(story)))
            truth = {key: at for key, at in truth.items() if key not in story}
    asked = sorted(keys, key=str.encode)
    found = as_dict(records_of_layers(layers, pa.array(asked, pa.large_string() if wide else pa.string())), asked)
    assert found == one_by_one(layers, asked)
    assert {key: one["recordIndexMetadata"]["fileId"] for key, one in found.items()} == {
        key: f"file-{at}" for key, at in truth.items() if key in keys
    }


def outcome(layers: list[Layer], keys: list[str], *, fast: bool) -> object:
    try:
        if fast:
            return as_dict(records_of_layers(layers, pa.array(keys, pa.string())), keys)
        return one_by_one(layers, keys)
    except TableCorruptError as error:
        return re.sub("0x[0-9a-f]+", "", str(error))


@pytest.mark.parametrize("block_bytes", [64, 1 << 20])
def test_a_wrong_byte_in_a_block_is_the_same_damage(block_bytes: int) -> None:
    """Blocks without compression and checksums: nothing else tells of it."""
    keys, refused = ["a", "ab", "b", "\U0001f600"], 0
    data = hfile({key: number for number, key in enumerate(keys)}, SCHEMA, blocks.NONE, block_bytes)
    last = HFile.of(data, "x").places()[-1]
    for at in range(last.offset + last.size):
        for bits in (1, 2, 128, 255):
            wrong = data[:at] + bytes([data[at] ^ bits]) + data[at + 1 :]
            layers = [Layer("x", HFile.of(wrong, "x"), SCHEMA)]
            found = outcome(layers, keys, fast=True)
            assert found == outcome(layers, keys, fast=False), (at, bits)
            refused += isinstance(found, str)
    assert refused > 500


def test_entries_that_are_in_no_order_are_found() -> None:
    """Nobody writes them; they are read one by one."""
    data = hfile({"a": 1, "b": 2, "c": 3}, SCHEMA, blocks.NONE, 1 << 20)
    swapped = data.replace(b"\0\x01b", b"\0\x01?").replace(b"\0\x01c", b"\0\x01b").replace(b"\0\x01?", b"\0\x01c")
    layers = [Layer("x", HFile.of(swapped, "x"), SCHEMA)]
    found = as_dict(records_of_layers(layers, pa.array(["a", "b", "c"])), ["a", "b", "c"])
    files = {key: one["recordIndexMetadata"]["fileId"] for key, one in found.items()}
    assert files == {"a": "file-1", "b": "file-3", "c": "file-2"}


@pytest.mark.parametrize("layout", [1, 2])
@pytest.mark.parametrize("partitioned", [False, True])
@settings(max_examples=6, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_a_look_up_is_that_of_any_partition(layout: int, partitioned: bool, seed: int) -> None:
    """Base files, logs, deletes and file groups; keys in any order."""
    chance = random.Random(seed)
    kept = Indexed(layout, partitioned=partitioned)
    for number in range(10, 80, 10):
        keys = chance.sample(KEYS, 30)
        puts = (run_of("p/1", f"f{at % 3}", [keys[at]]) for at in range(10, 30))
        kept.change(number, run_of("p/1", "g", keys[:10], put=False), *puts)
        if number == 40:
            kept.compact()
    view = kept.view
    for scope in ("p/1", "none") if partitioned else (None,):
        wanted = chance.sample([*KEYS, *(f"not {number}" for number in range(20))], 90)
        found = find_records(view, RECORD_INDEX, pa.chunked_array([wanted[:40], wanted[40:]]), scope)
        assert as_dict(found, wanted) == view.lookup(RECORD_INDEX, wanted, scope)


@pytest.mark.parametrize("with_mvcc", [True, False])
def test_the_loop_says_of_every_cut_that_a_block_is_not_plain(with_mvcc: bool) -> None:
    file = HFile.of(hfile({"a": 1, "b": 2}, SCHEMA, blocks.NONE, 1 << 20), "x")
    (block,) = file.asked_blocks([b"a", b"b"])
    entry = len(block.content) // 2
    content, keys = block.content, np.frombuffer(b"ab", np.uint8)
    if not with_mvcc:
        content, entry = content[: entry - 1] + content[entry:-1], entry - 1
    for size in range(len(content) + 1):
        found = np.full((3, 2), -1, np.int64)
        places, offsets = np.array([[size, 0, 2]]), np.array([0, 1, 2])
        record_index.find_values(np.frombuffer(content, np.uint8), places, with_mvcc, keys, offsets, found)
        if size in (0, entry, 2 * entry):
            assert found[2, 0] == record_index._FINE
            assert (found[:2, 0] >= 0).sum() == size // entry
        else:
            assert found[2, 0] != record_index._FINE, size
