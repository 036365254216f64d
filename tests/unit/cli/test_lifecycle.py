"""A table's life through the command line, and every answer against its JSON schema."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.options.option_table import CREATE_OPTIONS, OPTIONS
from tests.cli_support import lakeindex, validate
from tests.unit.cli.tables import batch, commits_of, new_table, row, rows_of, table_with, upserted
from tests.vectors_support import table_names, unpack_table


def test_create_binds_and_names_the_table(tmp_path: Path):
    like = batch(tmp_path / "like.parquet", [])
    answer = lakeindex(
        *(
            "create",
            tmp_path / "flights",
            "--like",
            like,
            "--key",
            "id, ts",
            "--partition",
            "region",
            "--ordering",
            "ts",
        ),
        *(
            "-o",
            "hoodie.index.type=GLOBAL_BLOOM",
            "-o",
            "hoodie.datasource.write.hive_style_partitioning=true",
            "--json",
        ),
    )
    validate("create", answer.json)
    assert answer.json["table"] == "flights"
    assert answer.json["key_fields"] == ["id", "ts"]
    assert (answer.json["index_type"], answer.json["merge_mode"]) == ("GLOBAL_BLOOM", "EVENT_TIME_ORDERING")
    assert [column["name"] for column in answer.json["columns"]] == ["id", "region", "ts", "val"]
    inspected = lakeindex("inspect", tmp_path / "flights", "--json").json
    validate("inspect", inspected)
    assert (inspected["rows"], inspected["writable"], inspected["hive_style"]) == (0, True, True)
    again = lakeindex("create", tmp_path / "flights", "--like", like, "--key", "id", "--json")
    assert (again.exit_code, again.error["class"]) == (4, "TableExistsError")


def test_create_leaves_hudis_own_columns_out(tmp_path: Path):
    table = table_with(tmp_path, 5)
    assert lakeindex("read", table, "--out", tmp_path / "rows.parquet").exit_code == 0
    rows = pq.read_table(tmp_path / "rows.parquet").append_column("_hoodie_is_deleted", pa.array([False] * 5))
    pq.write_table(rows, tmp_path / "like.parquet")
    answer = lakeindex("create", tmp_path / "copy", "--like", tmp_path / "like.parquet", "--key", "id", "--json")
    assert [column["name"] for column in answer.json["columns"]] == ["id", "region", "ts", "val"]
    assert answer.json["merge_mode"] == "COMMIT_TIME_ORDERING"


@pytest.mark.parametrize(
    ("change", "code", "culprit"),
    [
        ({"--key": "nope"}, 2, "nope"),
        ({"--ordering": "nope"}, 2, "nope"),
        ({"-o": "hoodie.index.type=HEAP"}, 2, "hoodie.index.type"),
        ({"-o": "hoodie.parquet.max.file.size=1"}, 2, "hoodie.parquet.max.file.size"),
        ({"-o": "nonsense"}, 2, "nonsense"),
        ({"--like": "missing.parquet"}, 3, "missing.parquet"),
    ],
)
def test_create_refuses_what_makes_no_table(tmp_path: Path, change: dict[str, str], code: int, culprit: str):
    options = {"--like": str(batch(tmp_path / "like.parquet", [])), "--key": "id", **change}
    answer = lakeindex("create", tmp_path / "t", *(part for pair in options.items() for part in pair), "--json")
    assert answer.exit_code == code
    assert answer.error["culprit"] == culprit
    assert answer.error["hint"]
    assert not (tmp_path / "t" / ".hoodie").exists()


def test_create_like_something_else(tmp_path: Path):
    (tmp_path / "like.parquet").write_bytes(b"id,region\n")
    answer = lakeindex("create", tmp_path / "t", "--like", tmp_path / "like.parquet", "--key", "id", "--json")
    assert (answer.exit_code, answer.error["culprit"]) == (3, str(tmp_path / "like.parquet"))


def test_a_life(tmp_path: Path):
    table = new_table(tmp_path)
    first = upserted(lakeindex("upsert", table, batch(tmp_path / "1.parquet", map(row, range(60))), "--json"))
    validate("upsert", first)
    assert (first["rows_in"], first["inserts"], first["files_created"]) == (60, 60, 3)
    assert [stage["name"] for stage in first["stages"]] == [  # type: ignore[attr-defined, index]  # plain JSON
        "stage_input", "index_lookup", "bloom_check", "verify_keys", "merge_write",
    ]  # fmt: skip
    later = [row(n, 2, "b") for n in range(50, 70)] + [row(3, 0, "late"), row(60, 1, "older")]
    second = upserted(lakeindex("upsert", table, batch(tmp_path / "2.parquet", later), "--batch-id", "b2", "--json"))
    counts = {name: second[name] for name in ("rows_in", "combined", "inserts", "updates", "ignored", "deletes")}
    assert counts == {"rows_in": 22, "combined": 1, "inserts": 10, "updates": 10, "ignored": 1, "deletes": 0}
    expected = {key: (region, ts, val) for key, region, ts, val in [*map(row, range(50)), *later[:20]]}
    assert rows_of(table) == expected

    noop = lakeindex("upsert", table, tmp_path / "2.parquet", "--batch-id", "b2", "--json")
    validate("upsert", noop.json)
    assert (noop.exit_code, noop.json["noop"], noop.json["instant"]) == (0, True, second["instant"])

    pq.write_table(
        pq.read_table(tmp_path / "1.parquet").slice(0, 6).select(["id", "region", "ts"]), tmp_path / "d.parquet"
    )
    deleted = upserted(lakeindex("delete", table, tmp_path / "d.parquet", "--json"))
    validate("upsert", deleted)
    assert (deleted["operation"], deleted["deletes"]) == ("DELETE", 6)
    assert rows_of(table) == {key: value for key, value in expected.items() if key >= "k00006"}

    history = lakeindex("history", table, "--json").json
    validate("history", history)
    shown = [
        (one["instant"], one["operation"], one["inserts"], one["updates"], one["deletes"])
        for one in history["instants"]
    ]
    assert shown == [
        (deleted["instant"], "DELETE", 0, 0, 6),
        (second["instant"], "UPSERT", 10, 10, 0),
        (first["instant"], "UPSERT", 60, 0, 0),
    ]
    assert [one["batch_id"] for one in history["instants"]][1] == "b2"

    checked = lakeindex("check", table, "--json")
    validate("check", checked.json)
    assert (checked.exit_code, checked.json["ok"], checked.json["error"]) == (0, True, None)
    assert checked.json["checked"]["rows"] == 64

    first_rows = rows_of(table, "--as-of", str(first["instant"]))
    assert len(first_rows) == 60
    assert len(rows_of(table, "--since", str(first["instant"]))) == 20
    read = lakeindex("read", table, "--out", tmp_path / "x.parquet", "--json").json
    validate("read", read)

    back = lakeindex("rollback", table, deleted["instant"], "--json")
    validate("rollback", back.json)
    assert (back.exit_code, back.json["last_commit"]) == (0, second["instant"])
    assert rows_of(table) == expected
    assert lakeindex("check", table).exit_code == 0
    history = lakeindex("history", table, "--json").json
    validate("history", history)
    assert (history["instants"][0]["action"], history["instants"][0]["target"]) == ("rollback", deleted["instant"])
    assert lakeindex("rollback", table, first["instant"], "--json").exit_code == 2, "it is not the newest"


def test_an_empty_batch_is_done_and_commits_nothing(tmp_path: Path):
    table = table_with(tmp_path)
    before = commits_of(table)
    answer = lakeindex("upsert", table, batch(tmp_path / "empty.parquet", []), "--json")
    validate("upsert", answer.json)
    assert (answer.exit_code, answer.json["instant"], answer.json["noop"]) == (0, None, True)
    assert commits_of(table) == before


def test_human_output_shows_the_funnel_and_the_counts(tmp_path: Path):
    table = table_with(tmp_path)
    answer = lakeindex("upsert", table, batch(tmp_path / "b.parquet", (row(n, 2) for n in range(40, 80))))
    assert answer.exit_code == 0
    assert answer.stderr == "", "no progress bar without a terminal"
    for text in ("committed", "20 inserts", "20 updates", "bloom_check", "pairs in", "requests"):
        assert text in answer.stdout
    for command in ("inspect", "history", "check"):
        shown = lakeindex(command, table)
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert len(shown.stdout.splitlines()) >= 2
    assert "80 rows" in lakeindex("inspect", table).stdout
    assert "every invariant holds" in lakeindex("check", table).stdout


def test_check_ends_with_6_and_still_prints_one_object(tmp_path: Path):
    table = table_with(tmp_path)
    gone = next(path for path in table.rglob("*.parquet") if ".hoodie" not in path.parts)
    gone.unlink()
    answer = lakeindex("check", table, "--json")
    validate("check", answer.json)
    assert answer.exit_code == 6
    assert answer.json["error"]["class"] == "InvariantError"
    first, error = answer.json["violations"][0], answer.json["error"]
    assert first["culprit"] == error["culprit"] == gone.relative_to(table).as_posix()
    assert first["hint"] == error["hint"]
    shown = lakeindex("check", table)
    assert shown.exit_code == 6
    assert gone.name in shown.stdout


@pytest.mark.parametrize("name", table_names())
def test_tables_of_all_versions_are_looked_at(name: str, tmp_path: Path):
    table = unpack_table(name, tmp_path)
    inspected, history = lakeindex("inspect", table, "--json"), lakeindex("history", table, "--json")
    validate("inspect", inspected.json)
    validate("history", history.json)
    assert inspected.json["rows"] == lakeindex("read", table, "--out", tmp_path / "r.parquet", "--json").json["rows"]
    assert all(one["problem"] is None for one in history.json["instants"])
    assert lakeindex("inspect", table).exit_code == lakeindex("history", table).exit_code == 0
    validate("check", lakeindex("check", table, "--json").json)


def test_the_options_are_listed():
    assert all(option.key in lakeindex("options").stdout for option in OPTIONS)
    assert all(option.key in lakeindex("options", "--create").stdout for option in CREATE_OPTIONS)
    for flags in ((), ("--create",)):
        validate("options", lakeindex("options", "--json", *flags).json)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["delimiter=;"], "id;v\n1;a,b\n2;NA\n"),
        (["delimiter=;", "null=NA"], "id;v\n1;a,b\n2;NA\n"),
        (["quote=none"], 'id,v\n1,"a\n2,NA\n'),
    ],
)
def test_an_import_is_told_once_how_its_files_are_written(tmp_path: Path, options: list[str], text: str):
    """Their columns are read with it, and their rows."""
    (tmp_path / "a.csv").write_text(text)
    given = [part for option in options for part in ("-o", f"lakeindex.csv.{option}")]
    made = ("-o", "hoodie.database.name=shop", "-o", "hoodie.write.table.version=8")  # of the table, not of its load
    answer = lakeindex("import", tmp_path / "a.csv", tmp_path / "t", "--key", "id", *given, *made, "--json")
    assert answer.exit_code == 0, answer.stdout
    properties = (tmp_path / "t" / ".hoodie" / "hoodie.properties").read_text()
    assert {"hoodie.database.name=shop", "hoodie.table.version=8"} <= set(properties.splitlines())
    first, second = ('"a' if options == ["quote=none"] else "a,b"), (None if "null=NA" in options else "NA")
    read = lakeindex("read", tmp_path / "t", "--columns", "id,v", "--out", tmp_path / "rows.parquet")
    assert read.exit_code == 0
    found = pq.read_table(tmp_path / "rows.parquet", columns=["id", "v"]).to_pylist()
    assert sorted((one["id"], one["v"]) for one in found) == [(1, first), (2, second)]
