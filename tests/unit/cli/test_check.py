"""The check on tables of ours: what only they have."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli_support import lakeindex
from tests.unit.cli.tables import batch, new_table, table_with, upserted
from tests.unit.operations.tables import footer_entries, live_files, relative, rewrite, with_value


def test_a_key_in_two_partitions_breaks_a_global_index_only(tmp_path: Path):
    table = new_table(tmp_path)
    rows = [("k1", "eu", 1, "x"), ("k1", "us", 1, "x"), ("k2", "us", 1, "x")]
    upserted(lakeindex("upsert", table, batch(tmp_path / "b.parquet", rows), "--json"))
    report = lakeindex("check", table, "--json").json
    assert (report["ok"], report["checked"]["unique_scope"]) == (True, "partition")
    binding = table / ".hoodie" / ".lakeindex" / "table.json"
    bound = json.loads(binding.read_text(encoding="utf-8"))
    binding.write_text(json.dumps({**bound, "index_type": "GLOBAL_BLOOM"}), encoding="utf-8")
    answer = lakeindex("check", table, "--json")
    assert answer.exit_code == 6
    assert answer.json["checked"]["unique_scope"] == "table"
    assert [(one["kind"], one["culprit"]) for one in answer.json["violations"]] == [("duplicate_key", "k1")]


def test_a_footer_that_does_not_agree_with_its_checksum(tmp_path: Path):
    table = table_with(tmp_path)
    file = live_files(table)[0]
    assert footer_entries(file)["hoodie_max_record_key"] < "zzz"
    rewrite(file, entries={"hoodie_max_record_key": "zzz"})
    violations = lakeindex("check", table, "--json").json["violations"]
    assert ("footer", relative(table, file)) in [(one["kind"], one["culprit"]) for one in violations]


def test_a_footer_of_ours_without_a_range(tmp_path: Path):
    table = table_with(tmp_path)
    file = live_files(table)[0]
    rewrite(file, entries={"hoodie_max_record_key": None})
    violations = lakeindex("check", table, "--json").json["violations"]
    assert ("key_range", relative(table, file)) in [(one["kind"], one["culprit"]) for one in violations]


def test_a_row_in_the_wrong_partition(tmp_path: Path):
    table = table_with(tmp_path)
    file = live_files(table)[0]
    rewrite(file, with_value("region", 0, "other"))
    violations = lakeindex("check", table, "--json").json["violations"]
    assert ("partition_path", relative(table, file)) in [(one["kind"], one["culprit"]) for one in violations]


def test_a_row_that_a_global_index_left_where_it_was(tmp_path: Path):
    table = new_table(tmp_path, "-o", "hoodie.index.type=GLOBAL_BLOOM")
    upserted(lakeindex("upsert", table, batch(tmp_path / "1.parquet", [("k1", "eu", 1, "x")]), "--json"))
    stay = ("-o", "hoodie.bloom.index.update.partition.path=false")
    summary = upserted(
        lakeindex("upsert", table, batch(tmp_path / "2.parquet", [("k1", "us", 2, "y")]), *stay, "--json")
    )
    assert (summary["updates"], summary["moved"]) == (1, 0)
    answer = lakeindex("check", table, "--json")
    assert answer.exit_code == 0
    assert any("update.partition.path" in note for note in answer.json["notes"])
    moved = upserted(lakeindex("upsert", table, batch(tmp_path / "3.parquet", [("k1", "as", 3, "z")]), "--json"))
    assert moved["moved"] == 1
    assert lakeindex("check", table, "--json").json["notes"] == []
