"""What a person does in Airflow's web interface: sign in, fill in the form, watch the run, read its report."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import pyarrow.compute as pc
import pytest
from playwright.sync_api import FrameLocator, Page, expect

from lakeindex.api.table import open_table
from tests.browser.conftest import PASSWORD, TRIPS, USER, Site

pytestmark = [pytest.mark.browser, pytest.mark.timeout(540)]

RUN_SECONDS = 240


def trigger(site: Site, page: Page, source: str, picture: Callable[[str], None] | None = None) -> str:
    """Fill in the form of ``upsert_table`` and start the run; its id."""
    page.goto(f"{site.url}/dags/upsert_table")
    page.get_by_role("button", name=re.compile("trigger", re.IGNORECASE)).first.click()
    form = page.get_by_role("dialog")
    field = form.locator("textarea[name=element_input]")
    field.fill(source)
    field.blur()
    if picture:
        picture("airflow-form")
    form.get_by_role("button", name="Trigger", exact=True).click()
    expect(form).to_be_hidden()
    runs = site.get(page, "/api/v2/dags/upsert_table/dagRuns?order_by=-run_after&limit=1")
    return str(runs["dag_runs"][0]["dag_run_id"])


def watch(site: Site, page: Page, run: str, state: str) -> None:
    """Stay on the run's page until it says how the run ended."""
    page.goto(f"{site.url}/dags/upsert_table/runs/{run}")
    badge = page.get_by_test_id("state-badge").first.or_(page.get_by_text(re.compile("^(Success|Failed)$")).first)
    expect(badge.first).to_contain_text(state, timeout=RUN_SECONDS * 1000)


def report_tab(page: Page) -> FrameLocator:
    """Open the tab with the report."""
    page.get_by_role("link", name="Run report").click()
    return page.frame_locator("iframe")


def test_a_wrong_password_is_refused_and_the_report_with_it(site: Site, page: Page) -> None:
    answers = [
        page.request.post(f"{site.url}/auth/token", data={"username": USER, "password": password}).status
        for password in (PASSWORD, "guessed")
    ]
    assert answers == [201, 401]
    stranger = page.context.browser.new_context()
    assert stranger.request.get(f"{site.url}/lakeindex/report/upsert_table/any").status == 401
    stranger.close()


def test_a_batch_goes_from_the_form_to_the_table_and_the_report(
    site: Site, page: Page, picture: Callable[[str], None]
) -> None:
    numbers = [*range(7, TRIPS - 1000, 500), *range(TRIPS - 1000, TRIPS + 250)]
    rows = {"id": [f"trip-{n:05}" for n in numbers], "day": [str(n % 3) for n in numbers], "ts": [2] * len(numbers)}
    run = trigger(site, page, str(site.batch("first", rows)), picture)
    watch(site, page, run, "Success")
    picture("airflow-run")
    report = report_tab(page)
    expect(report.get_by_role("heading", name="What happened to the rows")).to_be_visible()
    expect(report.locator("body")).to_contain_text("committed")
    picture("airflow-report")
    table = open_table(str(site.table))
    assert table.read(meta=True).num_rows == TRIPS + 250
    assert table.read(meta=True).filter(pc.field("ts") == 2).num_rows == len(numbers)


def test_a_run_on_bad_rows_says_why_shows_them_and_links_to_the_log(
    site: Site, page: Page, picture: Callable[[str], None]
) -> None:
    rows = {"id": ["trip-1", None, "trip-2", None], "day": ["1", "1", "2", "0"], "ts": [2, 2, 2, 3]}
    run = trigger(site, page, str(site.batch("bad", rows)))
    watch(site, page, run, "Failed")
    report = report_tab(page)
    body = report.locator("body")
    expect(body).to_contain_text("QuarantineExceededError")
    expect(body).to_contain_text("2 bad rows, 0 allowed")
    expect(report.get_by_role("heading", name="Rows that were set aside")).to_be_visible()
    picture("airflow-failed")
    assert open_table(str(site.table)).read(meta=True).num_rows == TRIPS + 250
    report.get_by_role("link", name="stage_input").click()
    log = page.frame_locator("iframe")
    expect(log.get_by_role("heading", name="Rows that were set aside")).to_have_count(0)
    expect(log.get_by_text("AirflowFailException").first).to_be_visible()


def test_a_backfill_upserts_every_interval(site: Site, page: Page) -> None:
    for day in ("2026-01-05", "2026-01-06"):
        site.batch(day, {"id": [f"late-{day}", "trip-00001"], "day": ["5", "1"], "ts": [5, int(day[-2:])]})
    site.run("airflow", "dags", "unpause", "upsert_trips")
    site.run("airflow", "backfill", "create", "--dag-id", "upsert_trips",
             "--from-date", "2026-01-05", "--to-date", "2026-01-06", "--max-active-runs", "1")  # fmt: skip
    deadline, states = time.monotonic() + 2 * RUN_SECONDS, [""]
    while time.monotonic() < deadline and not set(states) <= {"success", "failed"}:
        time.sleep(2)
        states = backfilled(site, page)
    assert states == ["success", "success"]
    found = {row["id"]: row["ts"] for row in open_table(str(site.table)).read(meta=True).to_pylist()}
    assert {key: found[key] for key in ("late-2026-01-05", "late-2026-01-06", "trip-00001")} == {
        "late-2026-01-05": 5,
        "late-2026-01-06": 5,
        "trip-00001": 6,
    }


def backfilled(site: Site, page: Page) -> list[Any]:
    """States of the backfill's runs."""
    runs = site.get(page, "/api/v2/dags/upsert_trips/dagRuns?run_type=backfill&order_by=logical_date")
    return [run["state"] for run in runs["dag_runs"]]
