"""Commit times of rows, compared with the file that holds them."""

from pathlib import Path

import pytest

from lakeindex.operations.check_violations import Broken
from tests.builders import Row, batch_of, make_table
from tests.unit.operations.tables import live_files, rewrite, with_value


@pytest.mark.parametrize(("row", "said"), [(0, True), (1, True), (None, False)])
def test_a_row_that_is_newer_than_its_file_is_told(tmp_path: Path, row: int | None, said: bool):
    """The time is that of a commit that stands: only that the file is older gives it away."""
    table = make_table(tmp_path / "t")
    table.upsert(batch_of([Row("a", "x", 1, "1"), Row("b", "x", 1, "1")]))
    later = table.upsert(batch_of([Row("c", "y", 1, "1")])).instant
    file = next(path for path in live_files(tmp_path / "t") if path.parent.name == "x")
    if row is not None:
        rewrite(file, with_value("_hoodie_commit_time", row, later))
    found = [one for one in table.check().violations if one.kind is Broken.META_COLUMNS]
    assert [f"{later} is newer than the file" in one.message for one in found] == [True] * said


def test_every_row_group_of_a_file_is_read(tmp_path: Path):
    table = make_table(tmp_path / "t")
    rows = [Row(f"k{n}", "x", 1, "1") for n in range(11)]
    table.upsert(batch_of(rows), options={"lakeindex.parquet.row.group.rows": "2"})
    report = table.check()
    assert report.ok, report.violations
    assert (report.checked.rows, report.checked.keys_recomputed) == (11, 11)
