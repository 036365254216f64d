"""Airflow with a table, started for the tests, and a browser that a person has signed in with."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import tenacity
from playwright.sync_api import Browser, FloatRect, Page, expect, sync_playwright

from lakeindex.api.table import open_table
from scripts import postgres_parts
from scripts.browser import ensure
from scripts.ports import free_port
from tests.browser import pictures

ROOT = Path(__file__).resolve().parents[2]
USER, PASSWORD = "ann", "only-for-this-test"
START_SECONDS = 240
#: Rows of the table before the first test.
TRIPS = 9000


@dataclass
class Site:
    """A running Airflow, and the table it can upsert into."""

    folder: Path
    port: int
    env: dict[str, str] = field(default_factory=dict)

    @property
    def url(self) -> str:
        """Of the web interface."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def table(self) -> Path:
        """The table's folder."""
        return self.folder / "lake" / "trips"

    def run(self, *words: str) -> str:
        """Run a command of the environment."""
        done = subprocess.run(self.command(*words), cwd=ROOT, env=self.env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stdout + done.stderr)[-4000:]
        return done.stdout

    def command(self, *words: str) -> list[str]:
        """A command, in the project's environment."""
        return [sys.executable, str(ROOT / "scripts/env.py"), "run", "--", *words]

    def batch(self, name: str, rows: dict[str, list[Any]]) -> Path:
        """A file of input."""
        path = self.folder / "feed" / f"{name}.parquet"
        path.parent.mkdir(exist_ok=True)
        pq.write_table(pa.table(rows), path)
        return path

    def get(self, page: Page, path: str) -> Any:
        """What Airflow's API says to the person who is signed in."""
        answer = page.request.get(f"{self.url}{path}")
        assert answer.ok, answer.text()
        return answer.json()

    def start(self, page: Page, dag: str, **conf: Any) -> str:
        """Start a run through the API, as the person who is signed in, of a DAG that may be paused; its id."""
        assert page.request.patch(f"{self.url}/api/v2/dags/{dag}", data={"is_paused": False}).ok
        body = {"logical_date": datetime.now(UTC).isoformat(), "conf": conf}
        answer = page.request.post(f"{self.url}/api/v2/dags/{dag}/dagRuns", data=body)
        assert answer.ok, answer.text()
        return str(answer.json()["dag_run_id"])


@pytest.fixture(scope="session")
def database() -> Iterator[str]:
    """A PostgreSQL. Airflow's SQLite gives up with "database is locked" where scheduler and command line write at once."""
    with tempfile.TemporaryDirectory(prefix="lakeindex-postgres-") as name:
        folder, port, password = Path(name), free_port(), secrets.token_hex(16)
        folder.chmod(0o755)  # the server does not run as root
        programs = postgres_parts.fetch()
        postgres_parts.make_database(programs, folder, password)
        command = postgres_parts.server_command(programs, folder, "127.0.0.1", port)
        server = subprocess.Popen(command, cwd="/", stderr=subprocess.DEVNULL, **postgres_parts.run_as())
        try:
            url = postgres_parts.url("127.0.0.1", port, password)
            tenacity.Retrying(
                retry=tenacity.retry_if_result(operator.not_),
                stop=tenacity.stop_after_delay(60),
                wait=tenacity.wait_fixed(0.2),
            )(postgres_parts.answers, url)
            yield url
        finally:
            server.send_signal(signal.SIGINT)  # SIGTERM would wait for every client
            server.wait(timeout=60)


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory, database: str) -> Iterator[Site]:
    """Airflow, from its migration to its end; sign-in is by password."""
    if pictures.SHOWN:
        pictures.LAKE.mkdir()
    folder = pictures.LAKE if pictures.SHOWN else tmp_path_factory.mktemp("site")
    site = Site(folder, free_port())
    (folder / "conf").mkdir()
    (folder / "conf/trips.yaml").write_text(
        f"title: Trips of a day\nuri: {site.table}\ncheckpoints: {folder}/runs\n"
        "schedule: '@daily'\nstart_date: 2026-01-01\n"
        f"input: {folder}/feed/{{{{ data_interval_start | ds }}}}.parquet\n"
    )
    for name in ("vans", "zones"):
        place = f"uri: {folder}/lake/{name}\ncheckpoints: {folder}/runs\n"
        (folder / f"conf/{name}.yaml").write_text(f"{place}input: {folder}/feed/{name}.parquet\n")
    (folder / "passwords.json").write_text(json.dumps({USER: PASSWORD}))
    site.env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")},
        "AIRFLOW_HOME": str(folder / "airflow"),
        "AIRFLOW__API__PORT": str(site.port),
        "AIRFLOW__API__BASE_URL": site.url,
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": secrets.token_hex(32),
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{site.url}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_ALL_ADMINS": "False",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{USER}:admin",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(folder / "passwords.json"),
        "AIRFLOW__DATABASE__SQL_ALCHEMY_CONN": postgres_parts.airflow_url(database),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(free_port()),
        "LAKEINDEX_TABLES": str(folder / "conf"),
    }
    like = site.batch("like", {"id": ["a"], "day": ["1"], "ts": [1]})
    for name in ("trips", "vans"):
        site.run("lakeindex", "create", f"{folder}/lake/{name}", "--like", str(like),
                 "--key", "id", "--partition", "day", "--ordering", "ts")  # fmt: skip
    write_history(site)
    site.run("airflow", "db", "migrate")
    log, parts = folder / "airflow.log", []
    try:
        with log.open("wb") as out:
            for part in ("api-server", "scheduler", "dag-processor"):
                command = site.command("airflow", part)
                parts.append(
                    subprocess.Popen(command, cwd=ROOT, env=site.env, stdout=out, stderr=out, start_new_session=True)
                )
        wait_for(site, parts, log)
        yield site
    finally:
        stop(parts)
        if pictures.SHOWN:
            shutil.rmtree(folder, ignore_errors=True)


def write_history(site: Site) -> None:
    """Three earlier batches, each in files of its own: so a run has something to prune, and its report something to show."""
    for first in range(0, TRIPS, 3000):
        numbers = range(first, first + 3000)
        rows = {"id": [f"trip-{n:05}" for n in numbers], "day": [str(n % 3) for n in numbers], "ts": [1] * 3000}
        open_table(str(site.table)).upsert(pa.table(rows), options={"hoodie.parquet.small.file.limit": "0"})


def wait_for(site: Site, parts: list[subprocess.Popen[bytes]], log: Path) -> None:
    """Until the scheduler and the DAG processor beat."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and all(part.poll() is None for part in parts):
        try:
            with urllib.request.urlopen(f"{site.url}/api/v2/monitor/health", timeout=5) as answer:
                health = json.load(answer)
        except (OSError, ValueError):
            health = {}
        if all(health.get(part, {}).get("status") == "healthy" for part in ("scheduler", "dag_processor")):
            return
        time.sleep(1)
    raise AssertionError(f"Airflow did not start:\n{log.read_text(errors='replace')[-4000:]}")


def stop(parts: list[subprocess.Popen[bytes]]) -> None:
    """End what was started, and what that started."""
    for part in parts:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(part.pid, signal.SIGTERM)
    for part in parts:
        try:
            part.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(part.pid, signal.SIGKILL)
            part.wait(10)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """The one browser of a session: Playwright runs once in a thread."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=ensure(), args=["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def page(site: Site, chromium: Browser) -> Iterator[Page]:
    """A page on Airflow's home, signed in by name and password."""
    page = chromium.new_page(viewport={"width": 1280, "height": 1000})
    page.set_default_timeout(90_000)  # a busy machine draws slowly
    expect.set_options(timeout=90_000)
    page.goto(site.url)
    page.locator("input[name=username]").fill(USER)
    page.locator("input[name=password]").fill(PASSWORD)
    page.locator("button[type=submit]").click()
    page.wait_for_url(lambda url: "login" not in url)
    yield page
    page.close()


@pytest.fixture(scope="session")
def picture(page: Page) -> Any:
    """Takes a picture of the page, if a folder for them is given."""

    def take(name: str, *, width: int = 1000, height: int = 640, top: int = 0, panel: bool = False) -> None:
        """Take a picture, from ``top`` on; with ``panel`` without the navigation and the list of tasks: it is read on a
        phone, too.
        """
        if pictures.SHOWN:
            before = page.viewport_size
            # of the list, a fifth beside the navigation
            left, top = (round(0.2 * (width - 64)) + 80, 62) if panel else (0, top)
            page.set_viewport_size({"width": width, "height": height})
            page.wait_for_timeout(800)  # what moves has come to rest
            pictures.show(page, name, FloatRect(x=left, y=top, width=width - left, height=height - top))
            page.set_viewport_size(before or {"width": 1280, "height": 1000})

    return take
