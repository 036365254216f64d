"""Records of the metadata table: encoded as Hudi's are, merged as Hudi merges them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from lakeindex.errors import TableCorruptError
from lakeindex.format.hfile import HFile
from lakeindex.format.log_blocks import BlockKind, HeaderKey, read_blocks
from lakeindex.metadata.metadata_records import (
    FILES_FIELD,
    decode_record,
    encode_record,
    files_record,
    format_deletes,
    merged,
    own_schema,
    parse_deletes,
    without_deleted,
)
from lakeindex.metadata.metadata_table import RecordType
from lakeindex.metadata.slices import FileSlice, LogFile, LogForm
from tests.vectors_support import unpack_table


def values_of(root: Path) -> Iterator[tuple[str, bytes, str]]:
    """Key, value and schema of every record in the logs and base files of a table's metadata table."""
    for path in sorted((root / ".hoodie/metadata").rglob("*")):
        if path.name.endswith(".hfile"):
            file = HFile.of(path.read_bytes(), path.name)
            yield from ((key.decode(), value, file.schema or "") for key, value in file.entries())
        elif ".log." in path.name and not path.name.endswith(".crc"):
            for block in read_blocks(path.read_bytes(), path.name):
                if block.kind == BlockKind.HFILE_DATA:
                    entries = HFile.of(block.content, path.name).entries()
                    yield from ((key.decode(), value, block.header[HeaderKey.SCHEMA]) for key, value in entries)


@pytest.mark.parametrize(("name", "least"), [("h0150_v6_mdt", 9), ("h120_v6_mdt", 40)])
def test_what_hudi_wrote_is_written_alike(name: str, least: int, tmp_path: Path) -> None:
    found = list(values_of(unpack_table(name, tmp_path)))
    assert len(found) >= least
    for key, value, schema in found:
        record = decode_record(value, schema, key)
        assert encode_record(record, schema) == value


@pytest.mark.parametrize(("name", "version"), [("h0150_v6_mdt", 6), ("h120_v6_mdt", 9)])
def test_the_schemas_of_new_tables_are_hudis(name: str, version: int, tmp_path: Path) -> None:
    schemas = {schema for _, _, schema in values_of(unpack_table(name, tmp_path))}
    assert own_schema(version) in schemas


def test_a_record_says_its_files() -> None:
    record = files_record(RecordType.FILES, {"a.parquet": 5}, ["b.parquet"])
    found = decode_record(encode_record(record, own_schema(9)), own_schema(9), "x")
    assert found["type"] == RecordType.FILES
    assert found[FILES_FIELD] == {
        "a.parquet": {"size": 5, "isDeleted": False},
        "b.parquet": {"size": 0, "isDeleted": True},
    }
    assert without_deleted(found)[FILES_FIELD] == {"a.parquet": {"size": 5, "isDeleted": False}}


def test_deletes_are_read_as_written() -> None:
    assert parse_deletes(format_deletes(["a", "ü"], "record_index"), "x") == ("a", "ü")
    assert format_deletes((), "files") == bytes.fromhex("000000030000000100")  # Hudi's, at the start of a file group


@pytest.mark.parametrize(
    "data", [b"", b"\0" * 7, b"\0\0\0\4\0\0\0\1\0", b"\0\0\0\3\0\0\0\x09\0", b"\0\0\0\3\0\0\0\2\x7f\0"]
)
def test_damaged_deletes_are_told(data: bytes) -> None:
    with pytest.raises(TableCorruptError, match="damaged record"):
        parse_deletes(data, "x")


def test_damaged_records_are_told() -> None:
    value = encode_record(files_record(RecordType.FILES, {"a": 1}), own_schema(9))
    for cut in range(len(value) - 1):
        with pytest.raises(TableCorruptError, match="x has a damaged record"):
            decode_record(value[:cut], own_schema(9), "x")
    bomb = json.dumps({"type": "array", "items": "null"})
    with pytest.raises(TableCorruptError, match="x has a damaged record"):
        decode_record(b"\x80\x80\x80\x80\x80\x80\x01", bomb, "x")


names = st.sampled_from(["a", "b", "c"])
infos = st.one_of(st.integers(1, 9).map(lambda size: (size, False)), st.just((0, True)))
changes = st.lists(st.dictionaries(names, infos, max_size=3), max_size=8)


@given(changes)
def test_files_are_merged_as_they_came_and_went(story: list[dict[str, tuple[int, bool]]]) -> None:
    """A file that was added and deleted is not there, whatever came between; of two sizes the larger counts."""
    found = None
    model: dict[str, tuple[int, bool]] = {}
    for change in story:
        sizes = {name: size for name, (size, gone) in change.items() if not gone}
        gone = [name for name, (_, is_gone) in change.items() if is_gone]
        newer = files_record(RecordType.FILES, sizes, gone)
        found = newer if found is None else merged(found, newer)
        for name, (size, is_gone) in change.items():
            known = model.get(name)
            if is_gone:
                if known is not None and not known[1]:
                    del model[name]
                else:
                    model[name] = (0, True)
            else:
                model[name] = (max(size, known[0]) if known else size, False)
    said = {} if found is None else {n: (i["size"], i["isDeleted"]) for n, i in found[FILES_FIELD].items()}
    assert said == model


def test_a_delete_takes_all_away() -> None:
    record = files_record(RecordType.FILES, {"a": 1})
    assert merged(record, None) is None
    assert merged(None, record) == record


def test_logs_of_a_planned_compaction_are_numbered_anew() -> None:
    """In version 6 they carry its instant, beside logs of the slice that it compacts."""
    logs = tuple(LogFile("20260101000000001", number, LogForm.BLOCKS, "1-0-1", f"l{number}") for number in (1, 2, 3))
    before = FileSlice("files", "files-0000", "20260101000000001", None, logs)
    assert before.next_log_number == 4
    assert replace(before, instant="20260101000000002").next_log_number == 1
