"""What a person does in Airflow's web interface: sign in, fill in the form, watch the run, read its report."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable
from datetime import UTC, datetime
from urllib.parse import quote

import psutil
import pyarrow.compute as pc
import pytest
from playwright.sync_api import FrameLocator, Page, expect

from lakeindex.airflow.dag_plan import batch_of_run
from lakeindex.api.table import open_table
from lakeindex.lock.write_context import locked
from lakeindex.options.parse import parse_options
from lakeindex.pipeline import Stage, run_id_of
from lakeindex.tasks.stores import storage_at
from tests.browser.conftest import PASSWORD, TRIPS, USER, Site

pytestmark = [pytest.mark.browser, pytest.mark.timeout(900)]

RUN_SECONDS = 420


def trigger(site: Site, page: Page, source: str, picture: Callable[..., None] | None = None) -> str:
    """Fill in the form of ``upsert_table`` and start the run; its id."""
    page.goto(f"{site.url}/dags/upsert_table")
    page.get_by_role("button", name=re.compile("trigger", re.IGNORECASE)).first.click()
    form = page.get_by_role("dialog")
    field = form.locator("textarea[name=element_input]")
    field.fill(source)
    field.blur()
    if picture:
        picture("airflow-form", height=760)
    form.get_by_role("button", name="Trigger", exact=True).click()
    expect(form).to_be_hidden()
    runs = site.get(page, "/api/v2/dags/upsert_table/dagRuns?order_by=-run_after&limit=1")
    return str(runs["dag_runs"][0]["dag_run_id"])


def watch(site: Site, page: Page, run: str, state: str, dag: str = "upsert_table") -> None:
    """Stay on the run's page until it says how the run ended."""
    page.goto(f"{site.url}/dags/{dag}/runs/{run}")
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


def test_five_jobs_take_a_batch_from_the_form_to_the_table_and_the_report(
    site: Site, page: Page, picture: Callable[..., None]
) -> None:
    numbers = [*range(7, TRIPS - 1000, 500), *range(TRIPS - 1000, TRIPS + 250)]
    rows = {"id": [f"trip-{n:05}" for n in numbers], "day": [str(n % 3) for n in numbers], "ts": [2] * len(numbers)}
    run = trigger(site, page, str(site.batch("first", rows)), picture)
    watch(site, page, run, "Success")
    for task in ("check_input", *map(str, Stage), "summary"):
        expect(page.get_by_role("link", name=task, exact=True).first).to_be_visible()
    picture("airflow-run", width=1200, height=900, panel=True)
    report = report_tab(page)
    expect(report.get_by_role("heading", name="What happened to the rows")).to_be_visible()
    expect(report.locator("body")).to_contain_text("committed")
    picture("airflow-report", height=900, panel=True)
    table = open_table(str(site.table))
    assert table.read(meta=True).num_rows == TRIPS + 250
    assert table.read(meta=True).filter(pc.field("ts") == 2).num_rows == len(numbers)
    task = f"/api/v2/dags/upsert_table/dagRuns/{quote(run)}/taskInstances/merge_write"
    links = site.get(page, f"{task}/links")["extra_links"]
    assert links["Table history"].endswith(quote(str(site.table), safe=""))
    page.goto(links["Table history"] if "://" in links["Table history"] else site.url + links["Table history"])
    expect(page.locator("body")).to_contain_text("trips")


def test_a_run_on_input_that_is_not_there_says_so_in_its_tab(
    site: Site, page: Page, picture: Callable[..., None]
) -> None:
    run = trigger(site, page, f"{site.folder}/feed/frist.parquet")
    watch(site, page, run, "Failed")
    body = report_tab(page).locator("body")
    expect(body).to_contain_text("The run failed before it began")
    expect(body).to_contain_text(f"no input at {site.folder}/feed/frist.parquet")
    expect(body).to_contain_text("the task is not tried again")
    picture("airflow-wrong-input", height=700, panel=True)


def test_a_run_on_bad_rows_says_why_shows_them_and_links_to_the_log(
    site: Site, page: Page, picture: Callable[..., None]
) -> None:
    before = open_table(str(site.table)).count()
    rows = {"id": ["trip-1", None, "trip-2", None], "day": ["1", "1", "2", "0"], "ts": [2, 2, 2, 3]}
    run = trigger(site, page, str(site.batch("bad", rows)))
    watch(site, page, run, "Failed")
    report = report_tab(page)
    body = report.locator("body")
    expect(body).to_contain_text("QuarantineExceededError")
    expect(body).to_contain_text("2 bad rows, 0 allowed")
    expect(report.get_by_role("heading", name="Rows that were set aside")).to_be_visible()
    picture("airflow-failed", height=1150, panel=True)
    assert open_table(str(site.table)).count() == before
    report.get_by_role("link", name="stage_input").click()
    log = page.frame_locator("iframe")
    expect(log.get_by_role("heading", name="Rows that were set aside")).to_have_count(0)
    expect(log.get_by_text("AirflowFailException").first).to_be_visible()


def test_a_backfill_and_a_run_by_hand_write_one_table_at_once(
    site: Site, page: Page, picture: Callable[..., None]
) -> None:
    for day in ("2026-01-05", "2026-01-06"):
        site.batch(day, {"id": [f"late-{day}", "trip-00001"], "day": ["5", "1"], "ts": [5, int(day[-2:])]})
    source = site.batch("beside", {"id": ["beside", "trip-00002"], "day": ["6", "2"], "ts": [9, 9]})
    site.run("airflow", "dags", "unpause", "upsert_trips")
    # both are under way, and neither can begin its write before both were seen
    with locked(storage_at(str(site.table)), parse_options({"lakeindex.lock.wait": 60}), "two runs are watched"):
        run = site.start(page, "upsert_table", table="trips", input=str(source), execution="single")
        site.run("airflow", "backfill", "create", "--dag-id", "upsert_trips", "--from-date", "2026-01-05", "--to-date",
                 "2026-01-06", "--max-active-runs", "1", "--dag-run-conf", '{"execution": "single"}')  # fmt: skip
        page.goto(f"{site.url}/dag_runs?state=running")
        badge = page.get_by_test_id("state-badge").filter(has_text="Running")  # the filter of the list has one, too
        expect(page.get_by_role("row").filter(has=badge)).to_have_count(2, timeout=RUN_SECONDS * 1000)
        picture("airflow-two-runs", height=330, top=112)  # the filter shows the name of its text, not the text
    watch(site, page, run, "Success")
    page.goto(f"{site.url}/dags/upsert_trips/runs")
    ended = page.get_by_role("row").filter(has_text="Backfill").filter(has_text="Success")
    expect(ended).to_have_count(2, timeout=2 * RUN_SECONDS * 1000)
    picture("airflow-backfill", width=1200, height=680, panel=True)
    found = {row["id"]: row["ts"] for row in open_table(str(site.table)).read(meta=True).to_pylist()}
    wanted = {"late-2026-01-05": 5, "late-2026-01-06": 5, "trip-00001": 6, "beside": 9, "trip-00002": 9}
    assert {key: found[key] for key in wanted} == wanted


def test_all_tables_in_one_run_have_an_instance_each(site: Site, page: Page, picture: Callable[..., None]) -> None:
    site.batch("vans", {"id": ["a", "b", None], "day": ["1", "2", "3"], "ts": [1, 1, 1]})
    today = datetime.now(UTC).date().isoformat()
    site.batch(today, {"id": ["mapped"], "day": ["7"], "ts": [7]})
    run = site.start(page, "upsert_tables")
    watch(site, page, run, "Failed", "upsert_tables")  # of one table the rows are wrong, and of one there are none yet
    page.goto(f"{site.url}/dags/upsert_tables/runs/{run}/tasks/table.upsert/mapped")
    for table, state in (("trips", "Success"), ("vans", "Failed"), ("2", "Skipped")):
        expect(page.get_by_role("row").filter(has=page.get_by_text(table, exact=True))).to_contain_text(state)
    picture("airflow-mapped", width=1200, height=560, panel=True)
    page.goto(f"{site.url}/dags/upsert_tables/runs/{run}")
    body = report_tab(page).locator("body")
    expect(body).to_contain_text("1 inserts")
    expect(body).to_contain_text("1 bad rows, 0 allowed")
    assert "mapped" in open_table(str(site.table)).read(meta=False).column("id").to_pylist()


def test_a_run_whose_job_is_killed_is_tried_again_and_commits(
    site: Site, page: Page, picture: Callable[..., None]
) -> None:
    source = site.batch("killed", {"id": ["killed", "trip-00003"], "day": ["8", "0"], "ts": [9, 9]})
    run = site.start(page, "upsert_table", table="trips", input=str(source), execution="single")
    kill_job(run_id_of(batch_of_run("upsert_table", run)))
    deadline, said = time.monotonic() + RUN_SECONDS, ""
    while "tried again while it has retries left" not in said:  # for a quarter of a minute, before the next try begins
        assert time.monotonic() < deadline, said
        page.goto(f"{site.url}/dags/upsert_table/runs/{run}/plugin/lakeindex-report")
        said = page.frame_locator("iframe").locator("main").inner_text()
    picture("airflow-retry", height=534, panel=True)
    assert "The run has not finished" in said
    watch(site, page, run, "Success")
    found = {row["id"]: row["ts"] for row in open_table(str(site.table)).read(meta=True).to_pylist()}
    assert (found["killed"], found["trip-00003"]) == (9, 9)


def kill_job(run_id: str) -> None:
    """Kill the spark-submit of a run as soon as it is there, with what it started."""
    deadline = time.monotonic() + RUN_SECONDS
    while time.monotonic() < deadline:
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.info["name"] == "java" and run_id in (process.info["cmdline"] or ()):
                for one in [process, *process.children(recursive=True)]:
                    with contextlib.suppress(psutil.NoSuchProcess):
                        one.kill()
                return
        time.sleep(0.2)
    raise AssertionError(f"no job of {run_id} was started")
