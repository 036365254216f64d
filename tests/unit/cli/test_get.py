"""``lakeindex get`` at the command line."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.showing.json_values import json_value
from tests.cli_support import lakeindex, validate
from tests.unit.cli.tables import table_with
from tests.unit.operations.test_getting import composite


def test_get_shows_rows_missing_keys_and_what_it_took(tmp_path: Path):
    table = table_with(tmp_path)
    answer = lakeindex("get", table, "k00007", "nobody", "--columns", "id,val")
    assert answer.exit_code == 0
    assert [line.split() for line in answer.stdout.splitlines()] == [
        ["id", "val"],
        ["k00007", "a-7"],
        ["not", "there:", "nobody"],
    ]
    assert "1 rows of 2 keys: BLOOM left" in answer.stderr


def test_get_as_json(tmp_path: Path):
    table = table_with(tmp_path)
    keys = tmp_path / "keys.txt"
    keys.write_text("k00001\nk00002\n")
    answer = lakeindex("get", table, "k00001", "nobody", "--keys", keys, "--json")
    validate("get", answer.json)
    assert [row["id"] for row in answer.json["rows"]] == ["k00001", "k00002"]
    assert (answer.json["missing"], answer.json["out"]) == (["nobody"], None)
    assert answer.json["report"]["keys"] == 3
    assert answer.stderr == ""


def test_get_into_a_file(tmp_path: Path):
    table, out = table_with(tmp_path), tmp_path / "rows.parquet"
    answer = lakeindex("get", table, "k00001", "--partition", "eu", "--out", out, "--json")
    validate("get", answer.json)
    assert (answer.json["rows"], answer.json["out"]) == ([], str(out))
    assert pq.read_table(out).column("id").to_pylist() == ["k00001"]
    assert "1 rows to" in lakeindex("get", table, "k00001", "--out", out).stdout


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ((), "UsageError"),
        (("k", "--columns", "nothing"), "UsageError"),
        (("k", "--columns", ""), "UsageError"),
        (("k", "--as-of", "20990101000000000"), "UsageError"),
        (("k", "--master", "local[1]"), "OptionError"),
        (("k", "-o", "no.such=1"), "OptionError"),
        (("k", "--out", "/"), "UsageError"),
    ],
)
def test_get_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], error: str):
    answer = lakeindex("get", table_with(tmp_path, 3), *arguments, "--json")
    assert (answer.exit_code, answer.error["class"]) == (2, error)


def test_get_bad_key_files(tmp_path: Path):
    table = table_with(tmp_path, 3)
    assert lakeindex("get", table, "--keys", tmp_path / "none.txt", "--json").error["class"] == "InputError"
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\x00")
    assert lakeindex("get", table, "--keys", tmp_path / "bytes.txt", "--json").exit_code == 3
    (tmp_path / "no.parquet").write_bytes(b"PAR1")
    assert lakeindex("get", table, "--keys", tmp_path / "no.parquet", "--json").exit_code == 3


def test_values_as_json():
    row = {
        "at": datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC),
        "day": date(2026, 1, 2),
        "clock": time(3, 4),
        "price": Decimal("1.50"),
        "raw": b"\x00\xff",
        "nan": float("nan"),
        "span": timedelta(seconds=1),
        "nested": [{"a": (1, None)}, True],
    }
    assert json_value(row) == {
        "at": "2026-01-02T03:04:05+00:00",
        "day": "2026-01-02",
        "clock": "03:04:00",
        "price": "1.50",
        "raw": "AP8=",
        "nan": None,
        "span": "0:00:01",
        "nested": [{"a": [1, None]}, True],
    }


def test_a_key_of_several_columns(tmp_path: Path):
    table = composite(tmp_path / "t")
    for given in (
        ("--key", "region=eu", "--key", "number=7"),
        ("--key", "region=eu,number=7"),
        ("region:eu,number:7",),
    ):
        answer = lakeindex("get", table.uri, *given, "--columns", "v", "--json")
        assert answer.json["rows"] == [{"v": "a,b:c"}], given
    pairs = ("region=eu", "number=8", "region=us", "number=7")
    several = lakeindex("get", table.uri, *(word for pair in pairs for word in ("--key", pair)), "--json")
    assert several.json["report"]["rows"] == 2
    wrong = lakeindex("get", table.uri, "eu,7", "--json")
    assert (wrong.exit_code, wrong.error["class"]) == (3, "InputError")
    assert "--key region=... --key number=..." in wrong.error["hint"]
    assert lakeindex("get", table.uri, "--key", "eu", "--json").exit_code == 2
