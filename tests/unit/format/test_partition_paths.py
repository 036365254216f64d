from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from lakeindex.format.partitions import (
    MAX_LEVEL_BYTES,
    escape_partition_value,
    partition_path_problem,
    unescape_partition_value,
)


@given(st.text(max_size=20))
@example("%41")
@example("%2F/..")
def test_unescape_undoes_escape(value: str) -> None:
    assert unescape_partition_value(escape_partition_value(value)) == value


def test_the_escaped_characters_are_hives() -> None:
    """Measured against Hudi for all code points 1..255 (docs/format.md)."""
    escaped = {chr(code) for code in range(1, 256) if escape_partition_value(chr(code)) != chr(code)}
    assert escaped == {chr(code) for code in range(1, 32)} | {"\x7f"} | set("\"#%'*/:=?\\[]^{")


@pytest.mark.parametrize(
    ("value", "text"),
    [("a b/c=d:e%f", "a b%2Fc%3Dd%3Ae%25f"), ("2021-01-02", "2021-01-02"), ("中}", "中}"), ("\n", "%0A"), ("", "")],
)
def test_escape(value: str, text: str) -> None:
    assert escape_partition_value(value) == text


@pytest.mark.parametrize("text", ["%", "%4", "%zz", "100%"])
def test_a_percent_that_starts_no_escape_stays(text: str) -> None:
    assert unescape_partition_value(text) == text
    assert unescape_partition_value(f"%2f{text}") == f"/{text}"  # digits in any case


@pytest.mark.parametrize(
    "path", ["", "us", "region=us/k2=1", "as ia", "a..b", "..a", "a.", "2013/01/01", "中", "x" * MAX_LEVEL_BYTES]
)
def test_good_paths(path: str) -> None:
    assert partition_path_problem(path) is None


@pytest.mark.parametrize(
    "path",
    [
        "..", "../x", "a/../b", "a/..", ".", "./a", "a/./b", "/a", "/", "a/", "a//b", ".hoodie", ".hoodie/x",
        "a/.hoodie", ".hoodie_partition_metadata", "a\x00b", "\ud800", "x" * (MAX_LEVEL_BYTES + 1), "中" * 86,
        "a\nb", "a\tb", "a\x01", "\x7f", "a/\x85b", "day=\r",
    ],
)  # fmt: skip
def test_paths_that_could_leave_the_table_or_hit_its_own_files(path: str) -> None:
    assert partition_path_problem(path) is not None


@pytest.mark.parametrize("code", [*range(32), *range(0x7F, 0xA0)])
def test_control_characters_are_named(code: int) -> None:
    assert f"the control character {chr(code)!r}" in (partition_path_problem(f"a{chr(code)}") or "")
    escaped = escape_partition_value(f"a{chr(code)}")
    assert (partition_path_problem(escaped) is None) == (0 < code < 0x80)


@given(st.lists(st.sampled_from(["..", ".", "", "a", ".hoodie", "b c", "/"]), max_size=6).map("/".join))
def test_a_path_without_a_problem_stays_below_the_table(path: str) -> None:
    if partition_path_problem(path) is None:
        assert str(PurePosixPath("/t") / path).rstrip("/") == f"/t/{path}".rstrip("/")
        assert ".." not in path.split("/")
