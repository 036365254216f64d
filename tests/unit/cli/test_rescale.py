"""``lakeindex rescale`` at the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli_support import lakeindex, validate
from tests.unit.operations.test_rescaling import bucket_table, buckets_of, rows, upsert


def test_the_count_changes_and_the_answer_fits_its_schema(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    plan = lakeindex("rescale", table.uri, "--buckets", 2, "--dry-run", "--json")
    assert plan.exit_code == 0
    validate("rescale", plan.json)
    assert plan.json["dry_run"]
    done = lakeindex("rescale", table.uri, "--buckets", 2, "--json")
    validate("rescale", done.json)
    assert buckets_of(table) == {"x": {0, 1}, "y": {0, 1}}
    again = lakeindex("rescale", table.uri, "--buckets", 2, "--json")
    validate("rescale", again.json)
    assert again.json["noop"]


def test_a_person_is_told_what_hudi_writers_need(tmp_path: Path) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 40), "first")
    plan = lakeindex("rescale", table.uri, "--partition", "x=2", "--dry-run")
    assert "would rewrite 4 files" in plan.stdout
    done = lakeindex("rescale", table.uri, "--partition", "x=2")
    assert "x: 4 buckets -> 2" in done.stdout
    assert "hoodie.bucket.index.partition.expressions=^x$,2" in done.stdout
    assert "nothing to do" in lakeindex("rescale", table.uri, "--partition", "x=2").stdout


def test_a_hive_style_path_holds_the_sign_itself(tmp_path: Path) -> None:
    table = bucket_table(tmp_path, hoodie__datasource__write__hive_style_partitioning="true")
    upsert(table, rows(0, 40), "first")
    assert lakeindex("rescale", table.uri, "--partition", "day=x=1", "--json").json["files_replaced"] == 4
    assert buckets_of(table)["day=x"] == {0}


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        ((), "either --buckets or --partition"),
        (("--partition", "x"), "--partition cannot be 'x'"),
        (("--partition", "x=2", "--partition", "x=3"), "two counts"),
        (("--partition", "q=2"), "no partition 'q'"),
        (("--buckets", "0"), "cannot be '0'"),
    ],
)
def test_wrong_usage_is_exit_2(tmp_path: Path, arguments: tuple[str, ...], why: str) -> None:
    table = bucket_table(tmp_path)
    upsert(table, rows(0, 10), "first")
    answer = lakeindex("rescale", table.uri, *arguments, "--json")
    assert answer.exit_code == 2
    assert why in answer.error["message"]
