"""What check_input makes of a store that is busy, silent, closed or empty, and what the report tab says of it."""

from __future__ import annotations

import errno
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from lakeindex.storage import options as store_options
from tests.dags.jobs import Jobs, set_state, states

pytestmark = [pytest.mark.dag, pytest.mark.usefixtures("airflow_db")]

ROOT = Path(__file__).resolve().parents[2]
LISTED = (
    '<ListBucketResult xmlns="http://s3.amazonaws.com/doc/2006-03-01/"><Name>feed</Name><IsTruncated>false</IsTruncated>'
    "<Contents><Key>x.csv</Key><LastModified>2026-01-01T00:00:00.000Z</LastModified><ETag>&quot;1&quot;</ETag>"
    "<Size>1</Size></Contents></ListBucketResult>"
)
SILENT = 0


@dataclass
class Store:
    """An S3 server that answers as it is told: statuses, one a request, then a listing that has ``x.csv``."""

    answers: list[int] = field(default_factory=list)
    asked: int = 0
    closed: threading.Event = field(default_factory=threading.Event)

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        self.asked += 1
        status = self.answers.pop(0) if self.answers else 200
        if status == SILENT:
            self.closed.wait(5)
            return
        code = {503: "SlowDown", 403: "AccessDenied", 404: "NoSuchBucket"}.get(status)
        body = (f"<Error><Code>{code}</Code></Error>" if code else LISTED).encode()
        request.send_response(status)
        request.send_header("Content-Length", str(len(body)))
        request.end_headers()
        request.wfile.write(body)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    store = Store()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            store.answer(self)

        def log_message(self, *_: Any) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("LAKEINDEX_STORE_TIMEOUT", "1")
    monkeypatch.setattr(store_options, "_TRIES", 0.01)  # the store's own client does not ask again: Airflow does
    yield store
    store.closed.set()
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.fixture
def dags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    from airflow.dag_processing.dagbag import DagBag

    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/trips.yaml").write_text(f"uri: {tmp_path}/trips\ninput: s3://feed/x.csv\n")
    monkeypatch.setenv("LAKEINDEX_TABLES", str(tmp_path / "conf"))
    found = dict(DagBag(dag_folder=str(ROOT / "dags")).dags)
    for dag in found.values():
        for task in dag.tasks:
            task.retry_delay, task.retry_exponential_backoff = timedelta(0), 0
    return found


def tries(run: Any, task: str) -> int:
    (found,) = (ti.try_number for ti in run.get_task_instances() if ti.task_id == task)
    return int(found)


@pytest.mark.parametrize("busy", [503, SILENT])
@pytest.mark.few(1)
def test_a_store_that_is_busy_or_silent_is_asked_again(
    dags: dict[str, Any], store: Store, jobs: Jobs, api: Callable[..., Any], busy: int
) -> None:
    store.answers = [busy] * 1000
    first = dags["upsert_table"].task_dict["check_input"]
    first.on_retry_callback = [lambda _: store.answers.clear()]
    run = dags["upsert_table"].test(run_conf={"table": "trips"})
    assert states(run)["summary"] == "success"
    assert tries(run, "check_input") == 2
    page = api(f"/lakeindex/report/upsert_table/{quote(run.run_id)}", "viewer").text
    assert "StorageError" not in page  # of the first try, which was made good


@dataclass
class Refusal:
    """A DAG, what its store answers, and what the tab says then."""

    dag_id: str
    status: int
    error: str
    message: str
    cure: str


@pytest.mark.parametrize(
    "case",
    [
        Refusal("upsert_table", 403, "AccessDeniedError", "cannot list s3://feed: ", "look at the credentials"),
        Refusal("upsert_tables", 403, "AccessDeniedError", "cannot list s3://feed: ", "look at the credentials"),
        Refusal("upsert_table", 404, "InputError", "no input at s3://feed/x.csv", "name files, folders or * patterns"),
    ],
    ids=lambda case: f"{case.dag_id}-{case.status}",
)
def test_what_cannot_pass_fails_at_once_and_the_tab_says_why(
    dags: dict[str, Any], store: Store, jobs: Jobs, api: Callable[..., Any], case: Refusal
) -> None:
    store.answers = [case.status] * 20
    mapped = case.dag_id == "upsert_tables"
    task = "table.check_input" if mapped else "check_input"
    run = dags[case.dag_id].test(run_conf={} if mapped else {"table": "trips"})
    assert (states(run)[task], tries(run, task), jobs.submitted) == ("failed", 1, [])
    page = api(f"/lakeindex/report/{case.dag_id}/{quote(run.run_id)}", "viewer").text
    assert "The run failed before it began" in page
    assert f"{task}{' [0]' if mapped else ''} failed: {case.error}" in page
    assert case.message in page
    assert f"What to do: {case.cure}" in page
    assert "the task is not tried again" in page
    set_state(run, task, "up_for_retry")
    page = api(f"/lakeindex/report/{case.dag_id}/{quote(run.run_id)}", "viewer").text
    assert "The run has not begun: what failed is tried again" in page


def test_a_run_whose_first_task_is_tried_again_has_not_failed_yet() -> None:
    from lakeindex.airflow.plugin import FailedTask, page_of

    said = {"error": "StorageError", "message": "no answer", "culprit": None, "hint": None, "transient": True}
    waits = FailedTask("check_input", -1, "/log", waits=True, said=said)
    page = page_of("d, run r", [], [waits])
    assert "The run has not begun: what failed is tried again" in page
    assert "check_input failed: StorageError" in page
    assert "tried again while it has retries left" in page


def test_errors_of_the_machine_are_told_in_our_words_and_what_cannot_be_told_hides_nothing(
    capsys: pytest.CaptureFixture[str],
) -> None:
    from airflow.sdk.exceptions import AirflowFailException

    from lakeindex.airflow.operator import reporting_failures
    from lakeindex.errors import StorageError

    class Deaf:
        def xcom_push(self, **_: Any) -> None:
            raise ConnectionError("no API server")

    with pytest.raises(StorageError, match="/lake/x: No space left"), reporting_failures({"ti": Deaf()}):
        raise OSError(errno.ENOSPC, "No space left on device", "/lake/x")
    assert "the report tab will not say why this failed: ConnectionError: no API server" in capsys.readouterr().out
    with pytest.raises(AirflowFailException, match="/lake/x: Permission denied"), reporting_failures({"ti": Deaf()}):
        raise OSError(errno.EACCES, "Permission denied", "/lake/x")


def test_a_failure_for_good_is_told_as_one() -> None:
    from airflow.sdk.exceptions import AirflowException, AirflowFailException

    from lakeindex.airflow.operator import reporting_failures

    for kind, passes in ((AirflowFailException, False), (AirflowException, True)):
        told: list[dict[str, Any]] = []
        ti = type("TI", (), {"xcom_push": lambda _, key, value, told=told: told.append(value)})()
        with pytest.raises(kind, match="the job"), reporting_failures({"ti": ti}):
            raise kind("the job has ended")
        assert [one["transient"] for one in told] == [passes]
