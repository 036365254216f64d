"""Start-up and waiting are told from work, wherever in a run they come up."""

from __future__ import annotations

import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import lakeindex
from lakeindex.conductor.upsert import run_metered
from lakeindex.lock import lock
from lakeindex.model import Operation
from lakeindex.pipeline import Stage
from lakeindex.run.checkpoints import Manifest
from lakeindex.run.spec import RunSpec
from lakeindex.run.summary import RunSummary
from lakeindex.storage import open_storage
from lakeindex.table.host import this_host
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import MemoryGate
from lakeindex.tasks.runner import TaskOutcome, do_task, run_tasks
from lakeindex.time_spent import Spent, accounting, age_of, current_account, loading, starting, waiting
from lakeindex.timeline.clock import Patience, SystemClock
from tests.golden import made_once

PAUSE = 0.08


def spent_by(work: Callable[[], object]) -> Spent:
    with accounting():
        work()
        return current_account().unsettled()


def test_start_up_waiting_and_work_are_three_figures():
    def work() -> None:
        with starting():
            time.sleep(PAUSE)
        with waiting():
            time.sleep(2 * PAUSE)
        time.sleep(3 * PAUSE)

    found = spent_by(work)
    assert found.startup >= PAUSE
    assert found.waiting >= 2 * PAUSE
    assert found.work >= 3 * PAUSE
    assert found.wall == pytest.approx(found.startup + found.waiting + found.work)


def test_what_is_waited_for_within_a_start_is_waiting_and_counted_once():
    def work() -> None:
        with starting(), starting():
            time.sleep(PAUSE)
            with waiting():
                time.sleep(PAUSE)

    found = spent_by(work)
    assert found.startup >= PAUSE
    assert found.waiting >= PAUSE
    assert found.startup + found.waiting <= found.wall


def test_what_nobody_accounts_for_costs_nothing():
    with starting(), waiting():
        assert current_account().unsettled().startup == 0


def sleepy(kind: str) -> str:
    if kind == "start":
        with starting():
            time.sleep(PAUSE)
    else:
        time.sleep(3 * PAUSE)
    return kind


def together(task: tuple[str, threading.Barrier]) -> None:
    """Start or work while the other task does what it does."""
    kind, barrier = task
    barrier.wait(30)
    if kind == "start":
        with starting():
            barrier.wait(30)
            time.sleep(PAUSE)
            barrier.wait(30)
    else:
        barrier.wait(30)
        barrier.wait(30)
    barrier.wait(30)


def side_by_side(*kinds: str) -> Spent:
    barrier = threading.Barrier(len(kinds))
    return spent_by(lambda: run_tasks(LocalRunner(2), together, [(kind, barrier) for kind in kinds], "t"))


def test_what_is_loaded_beside_the_work_of_other_tasks_delays_nothing():
    """Of two tasks one starts something while the other works: the run lost no time by it."""
    found = side_by_side("start", "work")
    assert found.startup == 0
    assert found.work >= PAUSE


def test_tasks_that_start_side_by_side_start_once():
    found = side_by_side("start", "start")
    assert PAUSE <= found.startup <= found.wall


def test_a_task_s_seconds_are_its_work():
    begun = time.perf_counter()
    with accounting():
        outcome = do_task(sleepy, "start")
    assert outcome.cost.seconds <= time.perf_counter() - begun - PAUSE


class ElsewhereRunner(LocalRunner):
    """Does every task as another process does: what is said about time reaches nobody but the task's own cost."""

    def map(self, function: Callable[[Any], Any], tasks: Sequence[Any], title: str) -> list[Any]:
        found: list[TaskOutcome[str]] = []

        def apart() -> None:
            found.extend(pickle.loads(pickle.dumps(function(task))) for task in tasks)

        thread = threading.Thread(target=apart)  # with a context of its own
        thread.start()
        thread.join()
        return found


def test_what_workers_start_is_booked_here_once_for_all_that_start_side_by_side():
    found = spent_by(lambda: run_tasks(ElsewhereRunner(2), sleepy, ["start", "start", "work"], "t"))
    assert PAUSE <= found.startup <= found.wall - 4 * PAUSE  # one of the two, and not the work
    assert found.wall == pytest.approx(found.startup + found.waiting + found.work)


def test_a_settled_account_begins_anew():
    with accounting():
        with starting():
            time.sleep(PAUSE)
        first = current_account().settle()
        second = current_account().unsettled()
    assert first.startup >= PAUSE
    assert second.startup == 0


def test_what_is_loaded_is_start_up():
    def load() -> None:
        with loading():
            time.sleep(PAUSE)

    assert spent_by(load).startup >= PAUSE


def test_a_signal_is_held_while_something_is_loaded_and_handled_once_then():
    came: list[int] = []
    before = signal.signal(signal.SIGUSR1, lambda number, _frame: came.append(number))
    try:
        with loading():
            signal.raise_signal(signal.SIGUSR1)
            signal.raise_signal(signal.SIGUSR1)
            assert came == []
        assert came == [signal.SIGUSR1]
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_a_pause_before_a_lock_is_waiting():
    assert spent_by(Patience(SystemClock(), 1000).pause).waiting >= 0.05


def test_memory_that_others_hold_is_waited_for():
    gate = MemoryGate()

    def hold() -> None:
        with gate.holding(10, 10):
            held.set()
            while not gate._line:
                time.sleep(0.01)
            time.sleep(PAUSE)

    def work() -> None:
        with gate.holding(5, 10):
            pass

    held = threading.Event()
    thread = threading.Thread(target=hold)
    thread.start()
    held.wait()
    assert spent_by(work).waiting >= PAUSE / 2
    thread.join()


def test_the_age_of_a_process():
    before = age_of(os.getpid())
    if not Path("/proc/self/stat").exists():
        assert before == 0
        return
    assert before > 0
    time.sleep(PAUSE)
    assert age_of(os.getpid()) - before >= PAUSE - 0.02  # it is told in hundredths
    assert age_of(2**22 + 1) == 0


def rows(count: int, ts: int) -> pa.Table:
    return pa.table({"id": [f"k{n:06d}" for n in range(count)], "day": ["d"] * count, "ts": [ts] * count})


@made_once
def written(folder: Path) -> lakeindex.LakeTable:
    made = lakeindex.create_table(str(folder), like=rows(1, 1), key=["id"], partition=["day"], ordering="ts")
    made.upsert(rows(2000, 1))
    return made


@pytest.fixture
def table(tmp_path: Path) -> lakeindex.LakeTable:
    return written(tmp_path / "t")


def total(run: RunSummary) -> float:
    return sum(s.seconds + s.startup_seconds + s.waiting_seconds + s.other_seconds for s in run.stages)


@contextmanager
def locked_until_waited_for(table: lakeindex.LakeTable) -> Iterator[None]:
    """Another writer holds the lock until the caller has waited for it for a while."""
    held = lock.acquire(open_storage(table.uri), this_host(), lease_ms=60_000, wait_ms=0, purpose="a test")
    waiter = threading.get_ident()

    def let_go() -> None:
        while Patience.pause.__code__ not in _codes(sys._current_frames().get(waiter)):
            time.sleep(0.005)
        time.sleep(PAUSE)
        held.release()

    thread = threading.Thread(target=let_go)
    thread.start()
    yield
    thread.join()


def _codes(frame: FrameType | None) -> Iterator[CodeType]:
    while frame is not None:
        yield frame.f_code
        frame = frame.f_back


def test_a_run_waits_for_the_lock_in_no_stage(table: lakeindex.LakeTable):
    started = time.perf_counter()
    with locked_until_waited_for(table):
        run = table.upsert(rows(10, 2))
    wall = time.perf_counter() - started
    assert run.waiting_seconds >= 0.04
    assert run.seconds == pytest.approx(total(run), abs=0.001)
    assert run.seconds <= wall
    assert run.waiting_seconds + run.startup_seconds + sum(stage.seconds for stage in run.stages) <= run.seconds + 0.001
    again = RunSummary.from_json(run.to_json())
    assert (again.waiting_seconds, again.stages) == (run.waiting_seconds, run.stages)


def test_a_stage_s_seconds_are_its_work_and_what_was_before_it_stands_apart(tmp_path: Path):
    spec = RunSpec(str(tmp_path / "t"), str(tmp_path / "runs"), "r", "b", Operation.UPSERT, ())

    def stage() -> Manifest:
        with starting():
            time.sleep(4 * PAUSE)
        time.sleep(PAUSE)
        return Manifest(Stage.STAGE_INPUT, "r", "")

    begun = time.perf_counter()
    with accounting():
        time.sleep(2 * PAUSE)
        with waiting():
            time.sleep(3 * PAUSE)
        found = run_metered(spec, stage).summary
        following = run_metered(spec, lambda: Manifest(Stage.INDEX_LOOKUP, "r", "")).summary
    elapsed = time.perf_counter() - begun
    assert found.seconds >= PAUSE
    assert found.startup_seconds >= 4 * PAUSE
    assert found.waiting_seconds >= 3 * PAUSE
    assert found.other_seconds >= 2 * PAUSE
    assert found.seconds + found.startup_seconds + found.waiting_seconds + found.other_seconds <= elapsed
    assert (following.startup_seconds, following.waiting_seconds) == (0, 0)


def test_partitions_are_deleted_with_the_same_figures(table: lakeindex.LakeTable):
    with locked_until_waited_for(table):
        run = table.delete_partitions(["d"])
    assert 0.04 <= run.waiting_seconds <= run.seconds


_SLOW_TO_LOAD = """
import sys, time
class Slow:
    def find_spec(self, name, *_):
        if name == "lakeindex.conductor.upsert":
            time.sleep(0.2)
sys.meta_path.insert(0, Slow())
"""
_COMMAND = "from lakeindex.cli import main; main()"
_SCRIPT = """
import sys, time, json
started = time.perf_counter()
import pyarrow.parquet as pq
import lakeindex
run = lakeindex.open_table(sys.argv[1]).upsert(pq.read_table(sys.argv[2]))
print(json.dumps({"run": json.loads(run.to_json()), "wall": time.perf_counter() - started}))
"""


@pytest.mark.few(0)
def test_both_doors_tell_what_they_load_from_work(table: lakeindex.LakeTable, tmp_path: Path):
    """A command's start-up begins with its process, that of a call with the call; what is imported late counts in both."""
    pq.write_table(rows(60_000, 2), tmp_path / "b.parquet")
    for script, words in ((_COMMAND, ["upsert", table.uri, str(tmp_path / "b.parquet"), "--json"]),
                          (_SCRIPT, [table.uri, str(tmp_path / "b.parquet")])):  # fmt: skip
        started = time.perf_counter()
        program = [sys.executable, "-c", _SLOW_TO_LOAD + script, *words]
        done = subprocess.run(program, capture_output=True, text=True, check=True)
        wall = time.perf_counter() - started
        answer = json.loads(done.stdout)
        run = RunSummary.from_json(json.dumps(answer.get("run", answer)))
        assert run.startup_seconds >= 0.2
        assert sum(stage.startup_seconds for stage in run.stages) == pytest.approx(run.startup_seconds, abs=0.001)
        assert run.seconds <= wall
