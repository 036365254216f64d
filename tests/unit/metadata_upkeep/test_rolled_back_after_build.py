"""A commit is rolled back that a part of the metadata table was made after: no delta commit of its own tells of it there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lakeindex.api.table import LakeTable
from tests.builders import Row, batch_of, make_table
from tests.golden import made_once
from tests.unit.metadata.test_partition_stats import view_of

FIRST = batch_of([Row(key, day, 1, "1") for key, day in ("ax", "bx", "cy", "dy")])
CHANGES: dict[str, Callable[[LakeTable], Any]] = {
    "upsert": lambda table: table.upsert(batch_of([Row("a", "x", 2, "2"), Row("e", "z", 2, "2")])),
    "delete": lambda table: table.delete(batch_of([Row("a", "x", 2, "2")])),
    "delete a partition": lambda table: table.delete_partitions(["x"]),
    "overwrite": lambda table: table.insert_overwrite_table(batch_of([Row("f", "x", 2, "2"), Row("c", "y", 2, "2")])),
}
EVERY = ["files", "column_stats", "record_index"]
BUILT: dict[str, Callable[[LakeTable], None]] = {
    "all": lambda table: build(table, EVERY),
    "the record index": lambda table: build(table, ["record_index"]),
    "the column stats": lambda table: build(table, ["column_stats"]),
    "nothing": lambda table: None,
}


def build(table: LakeTable, partitions: list[str]) -> None:
    table.metadata_build(partitions)


@made_once
def begun(folder: Path, version: str, built: str) -> LakeTable:
    """A commit, and what of the metadata table is made before the next one."""
    table = make_table(folder, hoodie__write__table__version=version, hoodie__index__type="GLOBAL_SIMPLE")
    if table.inspect().metadata_partitions:
        table.metadata_drop()
    table.upsert(FIRST)
    if built != "all":
        build(table, [one for one in EVERY if one.replace("_", " ") not in built])
    return table


@pytest.mark.few(0)
def test_the_metadata_table_says_what_is_so_whatever_of_it_was_made_after_the_commit(tmp_path: Path) -> None:
    wrong: dict[tuple[str, str, str], object] = {}
    for number, (version, built, change) in enumerate(
        (version, built, change) for version in ("6", "9") for built in BUILT for change in CHANGES
    ):
        table = begun(tmp_path / str(number), version, built)
        done = CHANGES[change](table)
        BUILT[built](table)
        table.rollback(done.instant or "")
        there = {
            (day.name, file.name) for day in (tmp_path / str(number)).glob("[xyz]") for file in day.glob("*.parquet")
        }
        said = {(day, name) for day, names in view_of(table).listing().files.items() for name in names}
        verified = table.metadata_verify()
        if said != there or not verified.ok:
            wrong[version, built, change] = (verified.counts, said - there, there - said)
    assert not wrong


def test_no_key_stays_that_came_and_went_in_commits_that_are_taken_back_together(tmp_path: Path) -> None:
    """A compaction has taken in that they came; and a key that was elsewhere meanwhile is where it is."""
    options = {"hoodie.simple.index.update.partition.path": "true"}
    table = begun(tmp_path / "t", "9", "all")
    build(table, EVERY)
    kept = table.upsert(batch_of([Row("a", "x", 2, "2")]), options=options).instant
    compacted = {"hoodie.metadata.compact.max.delta.commits": "1"}
    table.upsert(batch_of([Row("n", "y", 3, "3"), Row("a", "y", 3, "3")]), options=options | compacted)
    table.upsert(batch_of([Row("n", "y", 4, "", deleted=True), Row("a", "x", 4, "4")]), options=options)
    assert len(table.restore(kept).commits) == 2
    assert table.metadata_verify().ok
    assert table.get(["a", "n"]).missing == ("n",)
