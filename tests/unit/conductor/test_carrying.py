"""A look-up that is made again reads only the files that changed, and finds what a whole look-up finds."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from lakeindex.conductor.open_for_write import open_for_write
from lakeindex.conductor.upsert import look_up, run_stage_input
from lakeindex.model import Operation
from lakeindex.run.checkpoints import LookedUp
from lakeindex.run.lookup_files import read_files
from lakeindex.run.spec import RunSpec, run_folder
from lakeindex.tasks.local_runner import LocalRunner
from tests.builders import Row, batch_of, make_table

DAYS = ("d0", "d1", "d2")


def rows(version: int, days: tuple[str, ...], keys: range) -> list[Row]:
    return [Row(f"k{n:03d}{day}", day, version, f"{version}") for day in days for n in keys]


def spec_of(folder: Path, run_id: str) -> RunSpec:
    path = folder / "batch.parquet"
    late = [Row("k001d0", "d0", 0, "late"), Row("k002d2", "d2", 9, "", deleted=True)]
    pq.write_table(batch_of([*rows(5, DAYS, range(5, 25)), *late]), path)
    return RunSpec(
        table_uri=str(folder / "t"),
        checkpoints_uri=str(folder / "runs"),
        run_id=run_id,
        batch_id=run_id,
        operation=Operation.UPSERT,
        inputs=(str(path),),
        options=(),
    )


def located(spec: RunSpec, found: LookedUp) -> tuple[list[tuple[object, ...]], dict[str, int]]:
    """Every location with its file's path, and the stage's counters."""
    folder = run_folder(spec)
    paths = {f.number: f.file.path for f in read_files(folder, found.lookup.parts("files")[0])}
    lines = [row for part in found.verified.parts("locations") for row in folder.read_table(part).to_pylist()]
    counted = [row for part in found.verified.parts("found") for row in folder.read_table(part).to_pylist()]
    names = ("found", "updates", "deletes", "moves", "ignored")
    sums = {name: sum(row[name] for row in counted) for name in names} | dict(found.verified.counters)
    return sorted((paths[row.pop("file")], *row.values()) for row in lines), sums


@pytest.mark.parametrize("index", ["BLOOM", "GLOBAL_BLOOM", "SIMPLE", "BUCKET"])
def test_files_that_are_as_they_were_are_not_read_again(tmp_path: Path, index: str):
    buckets = {"hoodie__bucket__index__num__buckets": "1"} if index == "BUCKET" else {}
    table = make_table(tmp_path / "t", hoodie__index__type=index, **buckets)
    table.upsert(batch_of(rows(1, DAYS, range(20))))
    spec, runner = spec_of(tmp_path, "again"), LocalRunner(2)
    opened = open_for_write(spec.table_uri, spec.config)
    staged = run_stage_input(spec, opened.facts, runner)
    before = look_up(spec, opened, staged, runner)
    table.upsert(batch_of(rows(2, ("d1",), range(22))))

    moved = open_for_write(spec.table_uri, spec.config)
    whole = spec_of(tmp_path, "whole")
    expected = look_up(whole, moved, run_stage_input(whole, moved.facts, runner), runner)
    kept = [f for f in moved.snapshot.base_files_all() if f.partition_path != "d1"]
    for file in kept:
        (tmp_path / "t" / file.path).unlink()  # whoever reads it again fails
    found = look_up(spec, moved, staged, runner, before)
    assert located(spec, found) == located(whole, expected)
    assert located(spec, found)[1]["found"] > 0
