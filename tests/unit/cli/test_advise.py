"""``lakeindex advise`` at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_support import lakeindex, validate
from tests.unit.cli.tables import batch, row, table_with


def test_advise_as_json(tmp_path: Path):
    table = table_with(tmp_path)
    answer = lakeindex("advise", table, batch(tmp_path / "b.parquet", [row(n, 2) for n in range(30, 90)]), "--json")
    validate("advise", answer.json)
    assert (answer.json["keys"], answer.json["updates"], answer.json["index_type"]) == (60, 0.5, "BLOOM")
    assert answer.json["model"]["runs"] == 0
    assert answer.stderr == ""


def test_advise_for_a_person(tmp_path: Path):
    table = table_with(tmp_path)
    answer = lakeindex("advise", table, batch(tmp_path / "b.parquet", [row(1, 2)]))
    assert answer.exit_code == 0
    for text in ("BLOOM (now)", "RECORD_LEVEL_INDEX", "mean error of the model: no runs yet", "warning: whether a key"):
        assert text in answer.stdout


@pytest.mark.parametrize(
    ("arguments", "exit_code", "error"),
    [
        ((), 2, "UsageError"),
        (("none.parquet",), 3, "InputError"),
        (("b.parquet", "-o", "no.such=1"), 2, "OptionError"),
    ],
)
def test_advise_wrong_usage(tmp_path: Path, arguments: tuple[str, ...], exit_code: int, error: str):
    table = table_with(tmp_path, 3)
    batch(tmp_path / "b.parquet", [row(1)])
    given = [tmp_path / a if a.endswith(".parquet") else a for a in arguments]
    answer = lakeindex("advise", table, *given, "--json")
    assert (answer.exit_code, answer.error["class"]) == (exit_code, error)
