"""``lakeindex metadata`` as a user meets it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeindex.metadata.metadata_table import GROUP_PREFIXES
from tests.cli_support import lakeindex, validate


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rows = pa.table({"id": ["a", "b"], "p": ["x", "y"], "n": [1, 2]})
    pq.write_table(rows, tmp_path / "b.parquet")
    path = tmp_path / "t"
    lakeindex("create", path, "--like", tmp_path / "b.parquet", "--key", "id", "--partition", "p", "--json")
    lakeindex("upsert", path, tmp_path / "b.parquet", "--json")
    return path


def test_from_building_to_dropping(table: Path) -> None:
    none = lakeindex("metadata", "status", table, "--json")
    validate("metadata-status", none.json)
    assert none.json["partitions"] == []
    built = lakeindex("metadata", "build", table, "--json")
    validate("metadata-build", built.json)
    assert (built.json["partitions"], built.json["files"]) == (["files"], 2)
    found = lakeindex("metadata", "status", table, "--json")
    validate("metadata-status", found.json)
    assert found.json["partitions"][0]["groups"] == 1
    verified = lakeindex("metadata", "verify", table, "--json")
    validate("metadata-verify", verified.json)
    assert verified.json["ok"]
    dropped = lakeindex("metadata", "drop", table, "--json")
    validate("metadata-drop", dropped.json)
    assert (dropped.json["dropped"], dropped.json["left"]) == (["files"], [])


def test_every_partition_that_commits_keep_up_can_be_built(table: Path) -> None:
    """Under a global index, as one of a partition's keys needs a later version for a record index."""
    path, batch = table.with_name("global"), table.with_name("b.parquet")
    how = ("--key", "id", "--partition", "p", "--index", "GLOBAL_BLOOM")
    lakeindex("create", path, "--like", batch, *how, "--json")
    lakeindex("upsert", path, batch, "--json")
    wanted = [text for name in GROUP_PREFIXES for text in ("--partition", name)]
    built = lakeindex("metadata", "build", path, *wanted, "--json")
    assert set(built.json["partitions"]) == set(GROUP_PREFIXES)


def test_for_people(table: Path) -> None:
    assert "has no metadata table" in lakeindex("metadata", "status", table).stdout
    assert "built files: 2 files named" in lakeindex("metadata", "build", table).stdout
    assert "files            1 file groups" in lakeindex("metadata", "status", table).stdout
    assert "it says what is there" in lakeindex("metadata", "verify", table).stdout
    lakeindex("metadata", "build", table, "--partition", "bloom_filters")
    there = lakeindex("metadata", "status", table, "--json").json["partitions"]
    said = lakeindex("metadata", "drop", table).stdout
    assert "dropped bloom_filters, files" in said
    lakeindex(*said.partition("built again by: lakeindex ")[2].split())  # nothing else names them any more
    again = lakeindex("metadata", "status", table, "--json").json["partitions"]
    assert [one["name"] for one in again] == [one["name"] for one in there] == ["bloom_filters", "files"]
    lakeindex("metadata", "drop", table)
    assert "there is no metadata table" in lakeindex("metadata", "drop", table).stdout


def test_what_is_wrong_ends_with_6_and_is_found_by_check(table: Path) -> None:
    lakeindex("metadata", "build", table)
    gone = next((table / "x").glob("*.parquet"))
    gone.unlink()
    answer = lakeindex("metadata", "verify", table, "--json")
    validate("metadata-verify", answer.json)
    assert answer.exit_code == 6
    assert answer.json["counts"] == {"surplus": 1}
    assert gone.name in answer.json["error"]["culprit"]
    said = lakeindex("metadata", "verify", table)
    assert (said.exit_code, "1 surplus" in said.stdout) == (6, True)
    checked = lakeindex("check", table, "--json")
    assert "metadata_table" in {one["kind"] for one in checked.json["violations"]}


def test_files_of_a_partition_of_which_nothing_is_left_are_missed(table: Path) -> None:
    lakeindex("metadata", "build", table)
    names = sorted(one.name for one in (table / "x").glob("*.parquet"))
    shutil.rmtree(table / "x")
    answer = lakeindex("metadata", "verify", table, "--json").json
    assert (answer["counts"], answer["partitions"]) == ({"surplus": 1}, 1)
    assert [one["path"] for one in answer["examples"]] == [f"x/{name}" for name in names]


def test_a_partition_that_never_had_a_file_is_not_missed(table: Path) -> None:
    """A write that failed made its folder."""
    lakeindex("metadata", "build", table)
    (table / "z").mkdir()
    shutil.copy(table / "x/.hoodie_partition_metadata", table / "z")
    answer = lakeindex("metadata", "verify", table, "--json").json
    assert (answer["ok"], answer["counts"]) == (True, {})


def test_wrong_uses_are_told(table: Path) -> None:
    assert lakeindex("metadata", "verify", table, "--json").json["error"]["class"] == "MetadataTableError"
    lakeindex("metadata", "build", table)
    twice = lakeindex("metadata", "build", table, "--json")
    assert (twice.exit_code, twice.json["error"]["class"]) == (4, "MetadataTableError")
    other = lakeindex("metadata", "drop", table, "--partition", "record_index", "--json")
    assert other.exit_code == 4
    assert other.json["error"]["hint"] == "it has: files"
    old = lakeindex("upsert", table, table.parent / "b.parquet", "-o", "lakeindex.metadata.table=drop", "--json")
    assert old.exit_code == 2
    assert "lakeindex metadata drop" in old.json["error"]["hint"]


@pytest.mark.parametrize(
    ("version", "more", "made"),
    [
        ("6", [], []),
        ("6", ["--metadata"], ["files"]),
        ("8", [], ["column_stats", "files", "partition_stats"]),
        ("9", ["-o", "hoodie.index.type=RECORD_INDEX"], ["column_stats", "files", "partition_stats", "record_index"]),
        ("9", ["--no-metadata"], []),
    ],
)
def test_a_table_is_created_with_its_metadata_table(
    version: str, more: list[str], made: list[str], tmp_path: Path
) -> None:
    rows = pa.table({"id": ["a", "b"], "p": ["x", "y"], "n": [1, 2]})
    pq.write_table(rows, tmp_path / "b.parquet")
    path, columns = tmp_path / "t", ["--key", "id", "--partition", "p", "--table-version", version]
    done = lakeindex("create", path, "--like", tmp_path / "b.parquet", *columns, *more, "--json")
    validate("create", done.json)
    assert sorted(done.json["metadata"]) == made
    lakeindex("upsert", path, tmp_path / "b.parquet", "--json")
    if made:
        assert lakeindex("metadata", "verify", path, "--json").json["ok"]
        assert lakeindex("check", path, "--json").exit_code == 0
