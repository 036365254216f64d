from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeindex.format.file_names import (
    Marker,
    MarkerKind,
    crc_path,
    is_markers_file,
    marker_path,
    names_by_partition,
    new_file_id,
    parse_base_file,
    parse_base_path,
    parse_marker,
    parse_markers_file,
    write_token,
)
from lakeindex.model import BaseFile

WORDS = st.from_regex(r"[A-Za-z0-9-]{1,12}", fullmatch=True)
PARTITIONS = st.lists(st.text(st.characters(exclude_characters="/", exclude_categories=["Cs", "Cc", "Zl", "Zp"]), min_size=1,
                              max_size=8), max_size=3).map("/".join)  # fmt: skip
BASE_FILES = st.builds(
    BaseFile, PARTITIONS, WORDS, st.from_regex("[0-9]{14,17}", fullmatch=True), WORDS, st.integers(0, 2**40)
)


@given(BASE_FILES)
def test_parse_undoes_the_name(file: BaseFile) -> None:
    assert parse_base_file(file.partition_path, file.name, file.size_bytes) == file
    assert parse_base_path(file.path, file.size_bytes) == file


@given(BASE_FILES, st.sampled_from(MarkerKind))
def test_parse_undoes_the_marker(file: BaseFile, kind: MarkerKind) -> None:
    path = marker_path(file, kind)
    prefix = f".hoodie/.temp/{file.instant_time}/"
    assert path.startswith(prefix)
    marker = parse_marker(path.removeprefix(prefix))
    assert marker == Marker(file.partition_path, file.name, kind)
    assert marker.data_path == file.path


@pytest.mark.parametrize(
    "name",
    [
        ".85010fcf-4aee-4dab-8364-9fcad5082767-0_1-29-50_20261121020003056.parquet.crc",
        "85010fcf_1-29-50_20261121020003056.orc",
        "85010fcf_1-29-50_20261121020003056.parquet.tmp",
        ".85010fcf_20261121020003056.log.1_1-0-1",
        "part-00000.snappy.parquet",
        "a_b_c_20261121020003056.parquet",
        "a_1-0-1_x.parquet",
        ".hoodie_partition_metadata",
        "",
    ],
)
def test_other_files_are_no_base_files(name: str) -> None:
    assert parse_base_file("us", name) is None


def test_bucketed_file_ids() -> None:
    name = "00000003-6d7d-4736-8adf-534383e41dae-0_3-29-50_20261121020003056.parquet"
    assert parse_base_file("", name) == BaseFile(
        "", "00000003-6d7d-4736-8adf-534383e41dae-0", "20261121020003056", "3-29-50"
    )


def test_new_file_ids_differ_unless_they_come_from_the_same_bytes() -> None:
    assert new_file_id() != new_file_id()
    assert new_file_id(b"0123456789abcdef") == new_file_id(b"0123456789abcdef and more")
    for file_id in (new_file_id(), new_file_id(b"0123456789abcdef")):
        assert re.fullmatch(r"[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}-0", file_id)
    assert write_token(3, 0, 7) == "3-0-7"


def test_markers_of_the_timeline_server() -> None:
    assert is_markers_file("MARKERS0")
    assert not is_markers_file("MARKERS.type")
    text = (
        "us/a_1-0-1_20260101000000000.parquet.marker.CREATE\r\n"
        "b_2-0-2_20260101000000000.parquet.marker.MERGE\rus/torn_1"
    )
    assert parse_markers_file(text.encode()) == (
        Marker("us", "a_1-0-1_20260101000000000.parquet", MarkerKind.CREATE),
        Marker("", "b_2-0-2_20260101000000000.parquet", MarkerKind.MERGE),
    )


@pytest.mark.parametrize("path", ["us/x.parquet", "us/x.parquet.marker.DELETE", "MARKERS.type", ""])
def test_other_files_are_no_markers(path: str) -> None:
    assert parse_marker(path) is None


def test_side_files() -> None:
    assert crc_path(".hoodie/hoodie.properties") == ".hoodie/.hoodie.properties.crc"
    assert crc_path("x") == ".x.crc"


def test_names_by_their_partitions() -> None:
    found = names_by_partition(["b/c/2", "x", "a/1", "b/c/1", "a"])
    assert list(found.items()) == [("", ["a", "x"]), ("a", ["1"]), ("b/c", ["1", "2"])]
    assert names_by_partition([]) == {}
    name = f"{'0' * 8}-0_1-2-3_20260101000000000.parquet"
    unsized = parse_base_path(f"p/{name}")
    assert unsized is not None
    assert unsized.size_bytes == 0
