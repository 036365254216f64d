"""The page of a run as a person sees it: at three widths, light and dark, nothing overlaps and nothing is cut."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import pytest
from msgspec.structs import replace
from playwright.sync_api import Browser, FloatRect

from lakeindex.cli.demo import play
from lakeindex.operations.look.report_history import table_report
from lakeindex.report.contents import PastRun, RunReport, SizeBin
from lakeindex.report.make_report import advise
from lakeindex.report.page import render_history, render_page
from tests.browser.pictures import look, show

pytestmark = pytest.mark.browser

OVERLAPS = """() => [...document.querySelectorAll(".line, .group")].filter(line => {
  const boxes = [...line.children].map(one => one.getBoundingClientRect()).filter(box => box.width && box.height)
  return boxes.some((a, n) => boxes.slice(n + 1).some(b =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1))
}).map(line => line.innerText)"""
CUT = """() => [...document.querySelectorAll(".wide, .line span, td")]
  .filter(one => one.scrollWidth > one.clientWidth + 1 && getComputedStyle(one).display !== "inline")
  .filter(one => !one.classList.contains("track")).map(one => one.innerText)"""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(play(tmp_path_factory.mktemp("demo") / "d", lambda _, __: None).report)


@pytest.fixture(scope="module")
def full(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A page on which everything stands out, of a deletion that waited, and whose stages began in processes of their own."""
    found = RunReport.from_json((report.parent / "report.json").read_text())
    timed = [
        replace(stage, startup_seconds=2.1 + n, waiting_seconds=1.4 * (n == 4), seconds=stage.seconds + 0.4 * n, tasks=14,
                slowest_task_seconds=10.6 * (n > 2), median_task_seconds=0.2)
        for n, stage in enumerate(found.run.stages)
    ]  # fmt: skip
    run = replace(
        found.run, operation="DELETE", change="delete", quarantined=3, ignored=found.run.rows_in, unmet=12, combined=found.run.rows_in,
        retries=2, rows_copied=10**9, batch_id="upsert_table/manual__2026-11-25T07:31:00.123456+00:00_5JYkQ2vN/-1",
    ).with_stages(timed)  # fmt: skip
    run = replace(run, seconds=run.seconds + 0.3)
    past = tuple(
        PastRun(f"batch-{n}", f"2026-11-2{n}T10:00:00+00:00", 900, 3.0 + n, 10**7, 4, 0.1,
                {s.name: s.seconds for s in found.run.stages}, 2.0, 0.4 * n)
        for n in range(4)
    )  # fmt: skip
    shown = advise(
        replace(found, run=run, past=past, sizes=(SizeBin(2**20, 400, 3), SizeBin(2**23, 20, 1), SizeBin(None, 2, 0)))
    )
    page = tmp_path_factory.mktemp("full") / "full.html"
    page.write_text(render_page(shown), encoding="utf-8")
    return page


@pytest.fixture(scope="module")
def history(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the table of that report."""
    page = tmp_path_factory.mktemp("history") / "history.html"
    table = str(report.parents[1]).removesuffix(".lakeindex")
    page.write_text(render_history(table_report(table)), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 800, 400])
@pytest.mark.parametrize("name", ["report", "full", "history"])
def test_a_page_is_read_at_a_glance(
    request: pytest.FixtureRequest, chromium: Browser, name: str, width: int, scheme: Literal["light", "dark"]
):
    file: Path = request.getfixturevalue(name)
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    look(page, f"{name}-{width}-{scheme}", full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(CUT) == []
    smallest = """() => Math.min(...[...document.querySelectorAll(".chart span")].filter(one => one.innerText.trim())
      .map(one => parseFloat(getComputedStyle(one).fontSize)))"""
    assert page.evaluate(smallest) >= 13
    page.close()


def test_the_page_that_the_documentation_shows_names_no_folder_of_a_test(
    report: Path, tmp_path: Path, chromium: Browser
):
    found = RunReport.from_json((report.parent / "report.json").read_text())
    file = tmp_path / "report.html"
    file.write_text(render_page(replace(found, table="/lake/orders")), encoding="utf-8")
    page = chromium.new_page(viewport={"width": 1000, "height": 1345}, color_scheme="light")
    page.goto(file.as_uri())
    assert page.locator("h1 + p").inner_text().startswith("/lake/orders · BLOOM · committed ")
    assert str(report.parents[2]) not in page.content()
    show(page, "report", FloatRect(x=0, y=0, width=1000, height=1345))
    page.close()
