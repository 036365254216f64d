"""The page of a run as a person sees it: at three widths, light and dark, nothing overlaps and nothing is cut."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser

from lakeindex.cli.demo.story import play
from lakeindex.commands.look.table_report import table_report
from lakeindex.report.history_page import render_history

pytestmark = pytest.mark.browser

PICTURES = os.environ.get("LAKEINDEX_PICTURES")
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
def history(report: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the table of that report."""
    page = tmp_path_factory.mktemp("history") / "history.html"
    table = str(report.parents[1]).removesuffix(".lakeindex")
    page.write_text(render_history(table_report(table)), encoding="utf-8")
    return page


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1200, 800, 400])
@pytest.mark.parametrize("name", ["report", "history"])
def test_a_page_is_read_at_a_glance(
    request: pytest.FixtureRequest, chromium: Browser, name: str, width: int, scheme: Literal["light", "dark"]
):
    file: Path = request.getfixturevalue(name)
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page.goto(file.as_uri())
    if PICTURES:
        page.screenshot(path=str(Path(PICTURES) / f"{name}-{width}-{scheme}.png"), full_page=True)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(OVERLAPS) == []
    assert page.evaluate(CUT) == []
    smallest = """() => Math.min(...[...document.querySelectorAll(".chart span")].filter(one => one.innerText.trim())
      .map(one => parseFloat(getComputedStyle(one).fontSize)))"""
    assert page.evaluate(smallest) >= 13
    page.close()
