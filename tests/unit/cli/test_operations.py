"""``lakeindex insert``, ``bulk-insert``, ``overwrite``, ``delete-partitions``, ``truncate`` at the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, content_of, make_table
from tests.cli_support import Answer, lakeindex, validate
from tests.golden import table_of

FIRST = [Row(f"k{n}", "xy"[n % 2], 1, "1") for n in range(10)]


@pytest.fixture
def table(tmp_path: Path) -> LakeTable:
    return table_of(tmp_path / "t", FIRST)


def run(table: LakeTable, command: str, rows: list[Row], *arguments: object) -> Answer:
    path = Path(table.uri).parent / "batch.parquet"
    pq.write_table(batch_of(rows), path)
    return lakeindex(command, table.uri, path, *arguments, "--json")


def test_answers_fit_their_schema_and_say_what_was_done(table: LakeTable) -> None:
    new = [Row("n", "x", 1, "1")]
    asked = {
        "INSERT": lambda: run(table, "insert", [*new, FIRST[0]], "--on-conflict", "ignore"),
        "BULK_INSERT": lambda: run(table, "bulk-insert", [Row("n", "new", 1, "1")]),
        "INSERT_OVERWRITE": lambda: run(table, "overwrite", new),
        "DELETE_PARTITION": lambda: lakeindex("delete-partitions", table.uri, "y", "new", "--json"),
        "INSERT_OVERWRITE_TABLE": lambda: run(table, "overwrite", FIRST, "--whole-table"),
    }
    replaced = []
    for operation, ask in asked.items():
        answer = ask()
        assert answer.exit_code == 0, answer.stdout
        validate("upsert", answer.json)
        assert answer.json["operation"] == operation
        replaced.append(answer.json["rows_replaced"])
    assert replaced == [0, 0, 6, 6, 1]
    gone = lakeindex("truncate", table.uri)
    assert "2 files with 10 rows replaced" in gone.stdout
    assert content_of(table) == set()


@pytest.mark.parametrize(
    ("command", "rows", "code", "why"),
    [
        ("insert", [FIRST[0]], 3, "'k0' for example"),
        ("bulk-insert", [Row("n", "x", 1, "1")], 2, "partition 'x' has rows"),
        ("bulk-insert", [Row("n", "q", 1, "1"), Row("n", "q", 2, "2")], 3, "record key 'n' is in 2 rows"),
        ("overwrite", [Row("n", "x", 1, "", deleted=True)], 3, "INSERT_OVERWRITE deletes no row"),
    ],
)
def test_what_cannot_be_done_changes_nothing(
    table: LakeTable, command: str, rows: list[Row], code: int, why: str
) -> None:
    before = content_of(table)
    answer = run(table, command, rows)
    assert answer.exit_code == code
    assert why in answer.error["message"]
    assert answer.error["hint"]
    assert content_of(table) == before
    assert len(table.history()) == 1


def test_a_partition_that_is_none_is_wrong_usage(table: LakeTable) -> None:
    answer = lakeindex("delete-partitions", table.uri, "day=x", "--json")
    assert answer.exit_code == 2
    assert "no partition 'day=x'" in answer.error["message"]
    assert lakeindex("delete-partitions", table.uri, "--json").exit_code == 2
    assert lakeindex("truncate", table.uri, "--batch-id", " ", "--json").exit_code == 2


@pytest.mark.parametrize("command", ["upsert", "insert", "bulk-insert", "overwrite"])
def test_a_batch_may_add_columns_if_the_command_says_so(tmp_path: Path, command: str) -> None:
    table, path = make_table(tmp_path / "t"), tmp_path / "batch.parquet"
    pq.write_table(batch_of(FIRST).append_column("e", [list(range(len(FIRST)))]), path)
    refused = lakeindex(command, table.uri, path)
    assert refused.exit_code == 3
    assert "--schema-mode add" in refused.stderr
    assert lakeindex(command, table.uri, path, "--schema-mode", "add").exit_code == 0
    assert table.schema.names[-1] == "e"
    assert lakeindex(command, table.uri, path, "--schema-mode", "merge").exit_code == 2


def rows_of(table: LakeTable) -> dict[str, str]:
    return {row["id"]: row["v"] for row in table.read(meta=False).to_pylist()}


def test_rows_that_meet_a_condition_are_changed(table: LakeTable) -> None:
    answers = [
        lakeindex("delete", table.uri, "--where", "id in ('k0', 'k1')", "--json"),
        lakeindex("update", table.uri, "--set", "v='='", "--where", "id = 'k2'", "--json"),
        run(table, "replace-where", [Row("k3", "y", 1, "new")], "--where", "id in ('k3', 'k5')"),
    ]
    for answer in answers:
        assert answer.exit_code == 0, answer.stdout
        validate("upsert", answer.json)
    assert [answer.json["deletes"] for answer in answers] == [2, 0, 1]
    assert rows_of(table) == {"k2": "=", "k3": "new", **{f"k{n}": "1" for n in (4, 6, 7, 8, 9)}}


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("delete",), "either FILE or --where"),
        (("delete", "keys.csv", "--where", "true"), "either FILE or --where"),
        (("update", "--set", "v", "--where", "true"), "--set COLUMN=VALUE"),
        (("update", "--set", "=1", "--where", "true"), "--set COLUMN=VALUE"),
        (("update", "--set", "v='1'", "--set", "v='2'", "--where", "true"), "column v is set twice"),
        (("upsert", "batch.parquet", "--nulls", "keep"), "--nulls belongs to a partial update"),
    ],
)
def test_what_contradicts_itself_is_refused(table: LakeTable, words: tuple[str, ...], why: str) -> None:
    answer = lakeindex(words[0], table.uri, *words[1:])
    assert answer.exit_code == 2
    assert why in answer.stderr
    assert rows_of(table) == {f"k{n}": "1" for n in range(10)}


def test_a_null_of_a_partial_update_is_stored_unless_it_is_to_keep(table: LakeTable, tmp_path: Path) -> None:
    part = batch_of([Row("k0", "x", 2, "")])
    nulls = part.set_column(part.column_names.index("v"), "v", pa.array([None], pa.string()))
    pq.write_table(nulls, tmp_path / "part.parquet")
    for words, value in ((("keep",), "1"), ((), None), (("overwrite",), None)):
        say = ("--nulls", *words) if words else ()
        answer = lakeindex(
            "upsert", table.uri, tmp_path / "part.parquet", "--partial", *say, "--batch-id", f"{words}", "--json"
        )
        assert answer.json["updates"] == 1, answer.stdout
        assert rows_of(table)["k0"] == value, words
        table.upsert(batch_of([Row("k0", "x", 2, "1")]))


def test_some_columns_of_some_rows_by_options_of_the_command(table: LakeTable, tmp_path: Path) -> None:
    part = batch_of([Row("k0", "x", 2, "2"), Row("k1", "y", 2, "2"), Row("n", "x", 2, "2")])
    pq.write_table(part.drop_columns(["v"]), tmp_path / "part.parquet")
    kept = lakeindex("upsert", table.uri, tmp_path / "part.parquet", "--partial", "--nulls", "keep", "--json")
    assert kept.json["updates"] == 2
    assert rows_of(table) == {**{f"k{n}": "1" for n in range(10)}, "n": None}
    wrong = lakeindex(
        "upsert", table.uri, tmp_path / "part.parquet", "--partial", "--insert-if", "new.v = '1'", "--json"
    )
    assert (wrong.exit_code, wrong.json["error"]["class"]) == (2, "UsageError"), "the batch has no such column"
    conditions = ("--update-if", "new.ts > old.ts + 1", "--insert-if", "new.id != 'm'", "--delete-if", "old.id = 'k0'")
    answer = run(table, "upsert", [Row("k0", "x", 3, "3"), Row("k1", "y", 3, "3"), Row("m", "x", 3, "3")], *conditions)
    assert (answer.json["deletes"], answer.json["updates"], answer.json["unmet"]) == (1, 0, 2)
