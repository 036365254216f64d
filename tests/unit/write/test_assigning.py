"""Assigning new rows: every row once, small files first, nothing beyond the target size."""

from hypothesis import given
from hypothesis import strategies as st

from lakeindex.model import BaseFile
from lakeindex.options.types import WriteConfig
from lakeindex.write.assignment import FillCandidate, InsertPiece, assign_inserts

MIB = 1024 * 1024


def small_file(name: str, size: int) -> BaseFile:
    return BaseFile("p", name, "20260101000000000", "0-0-0", size)


@given(
    st.lists(st.integers(0, 500), max_size=6),
    st.lists(st.integers(0, 120), max_size=4),
    st.integers(1, 200),
    st.integers(0, 120),
)
def test_assign_inserts_places_every_row_once(counts: list[int], sizes: list[int], record_kib: int, limit_mib: int):
    config = WriteConfig(max_file_bytes=120 * MIB, small_file_bytes=limit_mib * MIB)
    pieces = [InsertPiece(chunk, 0, rows) for chunk, rows in enumerate(counts)]
    candidates = [
        FillCandidate(small_file(f"f{i}", size * MIB), is_rewritten=i % 2 == 0) for i, size in enumerate(sizes)
    ]
    record_bytes = record_kib * 1024
    result = assign_inserts({"p": pieces}, {"p": candidates}, record_bytes, config)
    placed = sorted((p.chunk, row) for a in result for p in a.pieces for row in range(p.start, p.stop))
    assert placed == [(chunk, row) for chunk, rows in enumerate(counts) for row in range(rows)]
    for one in result:
        before = 0 if one.target is None else one.target.size_bytes
        assert before + one.rows * record_bytes <= config.max_file_bytes
        assert one.target is None or one.target.size_bytes < config.small_file_bytes


def test_assign_inserts_fills_a_file_that_is_rewritten_anyway_first():
    config = WriteConfig(max_file_bytes=100 * MIB, small_file_bytes=90 * MIB)
    candidates = [
        FillCandidate(small_file("smallest", 1 * MIB), is_rewritten=False),
        FillCandidate(small_file("rewritten", 50 * MIB), is_rewritten=True),
    ]
    (only,) = assign_inserts({"p": [InsertPiece(0, 0, 10)]}, {"p": candidates}, 1024, config)
    assert only.target.file_id == "rewritten"


def test_assign_inserts_fills_the_smallest_first_of_one_size_the_first_by_its_id():
    config = WriteConfig(max_file_bytes=100 * MIB, small_file_bytes=90 * MIB)
    for sizes in ({"b": 20, "c": 10, "a": 10}, {"a": 10, "c": 10, "b": 20}):
        candidates = [FillCandidate(small_file(name, size * MIB), is_rewritten=False) for name, size in sizes.items()]
        result = assign_inserts({"p": [InsertPiece(0, 0, 250)]}, {"p": candidates}, MIB, config)
        assert [(one.target.file_id, one.rows) for one in result] == [("a", 90), ("c", 90), ("b", 70)]


def test_assign_inserts_spreads_new_groups_evenly():
    config = WriteConfig(max_file_bytes=100 * 1024, small_file_bytes=0)
    result = assign_inserts({"p": [InsertPiece(0, 0, 250)]}, {}, 1024, config)
    assert [a.rows for a in result] == [84, 83, 83]
