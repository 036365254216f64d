"""Twenty days of the year's table: every row is compared each week, and what is measured is saved and shown."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import year


@pytest.mark.slow
def test_twenty_days(tmp_path: Path) -> None:
    played = year.play("T_days")
    weeks = [day for day in played.days if "upkeep" in day.took]
    assert ([day.number for day in weeks], len(played.days)) == ([6, 13, 19], 20)
    assert played.compared == sum(day.rows for day in weeks)
    assert [day.event for day in played.days if day.event] == ["a column more"] * 2 + ["restore"]
    assert weeks[-1].files < weeks[-1].number, "clustering puts a day's files together"
    assert max(day.requests for day in played.days[7:]) < 800
    year.save(played, tmp_path)
    page = tmp_path / "page.md"
    page.write_text(f"{year.BEGIN}\n\n{year.report.END}\n")
    year.update(year.load("T_days", tmp_path), page)
    assert "| 1 |" in page.read_text()
    assert (tmp_path / "images" / "production_year.svg").stat().st_size


def test_a_wrong_row_is_found() -> None:
    days = year.WORKLOADS["T_days"]
    orders = year.Orders(days)
    orders.batch(0)
    live = orders.live()
    right = year.rows_of(days, live, orders.written[live], 0)
    assert orders.compare(right, 0, "right") == len(live)
    older = np.where(np.arange(len(live)) == 3, 1, orders.written[live])
    for wrong in (right.slice(1), year.rows_of(days, live, older, 0)):
        with pytest.raises(RuntimeError, match="day 0, wrong"):
            orders.compare(wrong, 0, "wrong")
    longer = year.Orders(replace(days, grown=(0, 1)))
    longer.batch(0)
    with pytest.raises(RuntimeError, match="columns"):
        longer.compare(right, 0, "wrong")
