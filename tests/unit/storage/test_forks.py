"""A process that was forked after its parent used a store uses it, too."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

from lakeindex.api.table import LakeTable
from lakeindex.storage import open_storage
from lakeindex.storage.objects import obstore_here
from lakeindex.storage.parallel import ProcessLock
from lakeindex.tasks.helpers import Helpers, _helpers, current_helpers
from lakeindex.tasks.stores import storage_at
from tests.builders import Row, batch_of, make_table

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
_SECONDS = 120
"""After them a child ends itself: one that waits for good is a failure, not a test that hangs."""


def in_child(work: Callable[[], object]) -> int:
    """The exit code of a forked process: 0 if it did the work, 14 and negative if it waited for good."""
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.alarm(_SECONDS)
        try:
            work()
        except BaseException:  # noqa: BLE001 - the child ends here, whatever it was
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def test_children_of_a_process_that_used_s3(moto_env: str) -> None:
    store = storage_at(moto_env)
    store.write("parent", b"1")
    ours = obstore_here()

    def works(name: str) -> None:
        for one in (store, storage_at(moto_env), open_storage(f"{moto_env}/below")):
            one.write(name, b"2")
            assert one.read(name) == b"2"
        store.create(f"{name}-created", b"3")
        with pytest.raises(FileNotFoundError):
            obstore_here().store.S3Store.from_url(moto_env, client_options={"allow_http": True}).get("nothing")
        assert obstore_here() is not ours

    def works_and_forks() -> None:
        works("child")
        assert in_child(lambda: works("grandchild")) == 0

    assert in_child(works_and_forks) == 0
    assert {one.path for one in store.list()} >= {"parent", "child", "grandchild", "child-created"}
    assert obstore_here() is ours, "the parent goes on with its own"
    process = multiprocessing.get_context("fork").Process(target=works, args=("by-multiprocessing",))
    process.start()
    process.join(_SECONDS)
    assert process.exitcode == 0


@pytest.mark.few(0)
def test_servers_that_load_a_table_before_they_fork(moto_env: str) -> None:
    """As gunicorn does with its workers, and Airflow with its tasks."""
    table = make_table(f"{moto_env}/t")
    table.upsert(batch_of([Row("a", "x", 1, "1")]), options={"lakeindex.report": "none"})
    wanted = table.count()

    def serve() -> None:
        assert table.count() == wanted
        assert LakeTable(table.uri).get(["a"]).rows.num_rows == 1

    assert [in_child(serve) for _ in range(2)] == [0, 0]


def test_a_lock_that_another_thread_held_is_free_in_the_child() -> None:
    lock, held, done = ProcessLock(), threading.Event(), threading.Event()

    def hold() -> None:
        with lock:
            held.set()
            done.wait()

    def take() -> None:
        with lock:
            pass

    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    try:
        assert in_child(take) == 0
    finally:
        done.set()
        thread.join()


def test_a_child_asks_no_helper_of_its_parent(tmp_path: Path) -> None:
    token = _helpers.set(Helpers(2))
    try:
        assert current_helpers() is not None

        def alone() -> None:
            assert current_helpers() is None

        assert in_child(alone) == 0
    finally:
        _helpers.reset(token)
