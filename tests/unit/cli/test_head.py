"""``lakeindex head`` and ``Scan.head``: some rows, and no more read than it takes."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pyarrow as pa
import pytest

import lakeindex as library
from tests.cli_support import lakeindex, validate

ROWS = pa.table(
    {
        "id": ["a", "b", "c", "d"],
        "n": pa.array([1, None, 3, 4], pa.int32()),
        "tags": [["x"], [], None, ["y, z", '"']],
        "raw": [b"\xff", None, b"", b"1"],
    }
)


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> str:
    uri = str(tmp_path_factory.mktemp("head") / "t")
    library.create_table(uri, ROWS.schema, key="id").upsert(ROWS)
    return uri


def test_rows_are_shown_as_json_csv_and_for_people(table: str) -> None:
    said = lakeindex("head", table, "--limit", 2, "--json")
    validate("head", said.json)
    assert said.json["columns"] == ROWS.column_names
    assert said.json["rows"] == [
        {"id": "a", "n": 1, "tags": ["x"], "raw": "/w=="},
        {"id": "b", "n": None, "tags": [], "raw": None},
    ]
    text = lakeindex("head", table, "--csv").stdout
    assert list(csv.reader(io.StringIO(text))) == [
        ["id", "n", "tags", "raw"],
        ["a", "1", '["x"]', "/w=="],
        ["b", "", "[]", ""],
        ["c", "3", "", ""],
        ["d", "4", '["y, z", "\\""]', "MQ=="],
    ]
    assert [line.split() for line in lakeindex("head", table, "--columns", "id,n").stdout.splitlines()] == [
        *(["id", "n"], ["a", "1"], ["b"], ["c", "3"], ["d", "4"])
    ]


def test_what_is_asked_for_and_what_cannot_be(table: str) -> None:
    assert [row["id"] for row in lakeindex("head", table, "--where", "n > 2", "--json").json["rows"]] == ["c", "d"]
    assert lakeindex("head", table, "--where", "n > 9").stdout == "no row meets the condition\n"
    assert lakeindex("head", table, "--limit", 0, "--json").json["rows"] == []
    both = lakeindex("head", table, "--csv", "--json")
    assert (both.exit_code, both.error["culprit"]) == (2, "--csv")
    assert lakeindex("head", table, "--limit", -1).exit_code == 2
    with pytest.raises(library.errors.UsageError, match="rows cannot be -1"):
        library.open_table(table).scan().head(-1)


def test_no_file_is_read_that_is_not_needed(tmp_path: Path) -> None:
    uri, rows = str(tmp_path / "t"), pa.table({"id": ["a", "b"], "p": ["1", "2"]})
    made = library.create_table(uri, rows.schema, key="id", partition="p")
    made.upsert(rows)
    scan = made.scan()
    (first,) = scan.head(1)["p"].to_pylist()
    (other,) = {"1", "2"} - {first}
    (file,) = (tmp_path / "t" / other).glob("*.parquet")
    file.write_bytes(b"damaged")
    assert made.scan().head(1)["p"].to_pylist() == [first]
    with pytest.raises(library.errors.LakeIndexError, match=file.name):
        made.scan().head(2)
