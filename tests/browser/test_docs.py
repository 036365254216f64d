"""The documentation as a reader opens it from a folder: searched without a server, readable on a phone."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.pictures import look

pytestmark = pytest.mark.browser

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    subprocess.run(words, cwd=ROOT, check=True, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"})
    return folder


@pytest.fixture(params=[1200, 400])
def page(request: pytest.FixtureRequest, chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page(viewport={"width": request.param, "height": 900})
    yield page
    page.close()


def picture(page: Page, name: str) -> None:
    look(page, f"docs-{name}-{(page.viewport_size or {'width': 0})['width']}")


def test_the_search_finds_pages_from_disk(site: Path, page: Page):
    page.goto((site / "index.html").as_uri())
    if (page.viewport_size or {})["width"] < 960:
        page.locator("label.md-header__button[for=__search]").click()
    page.locator("input.md-search__input").press_sequentially("quarantine", delay=30)
    expect(page.locator(".md-search-result__item").first).to_be_visible(timeout=20_000)
    picture(page, "search")
    page.locator(".md-search-result__link").first.click()
    expect(page.locator("h1")).to_be_visible()


def test_examples_are_code_and_arguments_are_listed(site: Path, page: Page):
    page.goto((site / "api.html").as_uri())
    upsert = page.locator("h3#upsert")
    assert ">>> run.inserts, run.updates\n(2, 0)\n" in upsert.locator("xpath=following::pre[2]").inner_text()
    listed = upsert.locator("xpath=following::ul[1]").locator("li > code:first-child").all_inner_texts()
    assert {"data", "update_if", "batch_id", "schema_mode"} <= set(listed)
    assert page.locator("blockquote").count() == 0
    upsert.scroll_into_view_if_needed()
    picture(page, "api")


def test_home_begins_with_the_installation(site: Path, page: Page):
    page.goto((site / "index.html").as_uri())
    assert page.locator("pre").first.inner_text().strip().endswith("pip install .")
    picture(page, "home")
    for image in page.locator("article img").all():
        image.scroll_into_view_if_needed()
        assert image.evaluate("one => one.complete && one.naturalWidth > 0")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
