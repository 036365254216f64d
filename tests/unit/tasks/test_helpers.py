"""Helper processes: they do what threads would do, and are never more than a gain."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from lakeindex.errors import InputError
from lakeindex.options.parse import parse_options
from lakeindex.tasks import helpers as helpers_module
from lakeindex.tasks import local_runner
from lakeindex.tasks.helpers import Helpers, helpers_at_hand
from lakeindex.tasks.local_runner import LocalRunner
from lakeindex.tasks.memory_bound import MIB, memory_bound
from lakeindex.tasks.runner import run_tasks
from tests.builders import Row, content_of, counts_of, make_table
from tests.scheduling import some_of
from tests.unit.stages.test_inputs import write

MANY = 10_000
SECONDS = 60.0


def pid_of(_task: object) -> int:
    """Which process does a task; slowly, so that others get some."""
    time.sleep(0.02)
    return os.getpid()


def doubled(number: int) -> int:
    """A task like any other."""
    return 2 * number


def refuse(number: int) -> int:
    """An error of ours, from a helper only: here it is another one."""
    if os.getpid() == number:
        return 0
    raise InputError(f"task {number} is wrong", culprit=str(number), hint="give another one")


def divide(number: int) -> float:
    """An error of Python's."""
    return 1 / number


def die_elsewhere(home: int) -> str:
    """End the process, if it is not that one."""
    if os.getpid() != home:
        os.kill(os.getpid(), signal.SIGKILL)
    return "done at home"


def interrupt_elsewhere(home: int) -> bool:
    """What a terminal sends to all processes, sent to a helper."""
    if os.getpid() == home:
        return False
    os.kill(os.getpid(), signal.SIGINT)
    return True


class Unsendable:
    """What no other process can be given."""

    def __init__(self) -> None:
        self.lock = threading.Lock()


def is_here(task: Unsendable) -> bool:
    """Whether it came as it was."""
    return hasattr(task.lock, "acquire")


def wait_for(helper: Any) -> None:
    """Until it is ready; nothing that it says can be waited for but by looking."""
    deadline = time.monotonic() + SECONDS
    while not helper.is_ready():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture(scope="module")
def all_helpers() -> Iterator[list[Helpers]]:
    started: list[Helpers] = []
    yield started
    for helpers in started:
        helpers.close()


@pytest.fixture
def one_helper(all_helpers: list[Helpers]) -> Helpers:
    """One helper, ready: the one that the last test left, if it left it."""
    if not all_helpers or not all_helpers[-1]._idle:
        all_helpers.append(Helpers(2))
        all_helpers[-1].start(MANY, 2, doubled)
    (helper,) = all_helpers[-1]._idle
    wait_for(helper)
    return all_helpers[-1]


def test_tasks_are_done_by_several_processes_in_order() -> None:
    with helpers_at_hand(0):
        runner = LocalRunner(2).for_files(MANY)
        deadline = time.monotonic() + SECONDS
        pids: set[int] = set()
        while len(pids) < 2 and time.monotonic() < deadline:
            pids |= set(run_tasks(runner, pid_of, range(10), "pids"))
        assert len(pids) == 2
        assert os.getpid() in pids
        assert run_tasks(runner, doubled, range(100), "doubled") == tuple(range(0, 200, 2))
    (helper,) = pids - {os.getpid()}
    with pytest.raises(ProcessLookupError):
        os.kill(helper, 0)


@pytest.mark.parametrize(
    ("most", "uris", "files", "slots", "memory"),
    [
        (1, (), MANY, 2, None),
        (0, ("memory://there",), MANY, 2, None),
        (0, (), helpers_module.LEAST_FILES - 1, 2, None),
        (0, (), MANY, 1, None),
        (0, (), MANY, 2, 2 * helpers_module.HELPER_BYTES - 1),
    ],
    ids=["switched off", "stores of this process", "few files", "one task at once", "little memory"],
)
def test_no_helper_is_started(
    most: int, uris: tuple[str, ...], files: int, slots: int, memory: int | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bytes] = []

    def counted(first: bytes) -> None:
        started.append(first)
        raise OSError  # which ends no run

    monkeypatch.setattr(helpers_module, "_Helper", counted)
    with helpers_at_hand(most, *uris), memory_bound(memory):
        assert set(run_tasks(LocalRunner(slots).for_files(files), pid_of, range(4), "pids")) == {os.getpid()}
    assert started == []


def test_a_forked_process_has_no_helpers() -> None:
    """Others read their answers."""
    with helpers_at_hand(0):
        helpers = helpers_module.current_helpers()
        assert helpers is not None
        helpers.process += 1
        assert helpers_module.current_helpers() is None


@pytest.mark.parametrize(("files", "slots", "wanted"), [(500, 16, 2), (1_000, 16, 4), (100_000, 16, 15), (500, 2, 1)])
def test_as_many_are_started_as_pay(files: int, slots: int, wanted: int, monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[bytes] = []
    monkeypatch.setattr(helpers_module, "_Helper", started.append)
    with memory_bound(16 * 1024 * MIB):
        helpers = Helpers(0)
        for _ in range(2):
            helpers.start(files, slots, doubled)
    assert len(started) == wanted


def test_one_that_cannot_be_started_is_done_without(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    with helpers_at_hand(0):
        assert run_tasks(LocalRunner(2).for_files(MANY), doubled, [1, 2], "doubled") == (2, 4)


def loads_pandas(_task: object) -> bool:
    """Whether a process has loaded pandas once it has made an array."""
    import pyarrow as pa

    pa.array([0])
    return "pandas" in sys.modules


def unreadable(home: int) -> Any:
    """What can be sent, but not read where it comes to."""
    return "done at home" if os.getpid() == home else Unreadable()


class Unreadable:
    """Reading it fails."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (int, ("no number",))


def test_a_helper_does_without_pandas(one_helper: Helpers) -> None:
    assert one_helper.run(loads_pandas, 0) is False


def test_a_task_whose_answer_cannot_be_read_is_done_here(one_helper: Helpers) -> None:
    assert one_helper.run(unreadable, os.getpid()) == "done at home"
    assert one_helper.run(pid_of, 0) == os.getpid()


def test_an_error_of_ours_comes_as_it_was(one_helper: Helpers) -> None:
    with pytest.raises(InputError) as raised:
        one_helper.run(refuse, os.getpid())
    assert (raised.value.culprit, raised.value.hint) == (str(os.getpid()), "give another one")
    assert one_helper.run(doubled, 4) == 8


def test_another_error_is_raised_here(one_helper: Helpers) -> None:
    with pytest.raises(ZeroDivisionError) as raised:
        one_helper.run(divide, 0)
    assert raised.traceback[-1].name == "divide"
    assert one_helper.run(pid_of, 0) != os.getpid()


def test_a_task_of_a_helper_that_dies_is_done_here(one_helper: Helpers) -> None:
    assert one_helper.run(pid_of, 0) != os.getpid()
    assert one_helper.run(die_elsewhere, os.getpid()) == "done at home"
    assert one_helper.run(pid_of, 0) == os.getpid()


def test_a_helper_that_dies_before_it_is_ready_is_forgotten() -> None:
    helpers = Helpers(2)
    helpers.start(MANY, 2, doubled)
    helpers._idle[0]._process.kill()
    helpers._idle[0]._process.wait()
    assert helpers.run(pid_of, 0) == os.getpid()
    helpers.close()


def test_a_task_that_cannot_be_sent_is_done_here(one_helper: Helpers) -> None:
    assert one_helper.run(is_here, Unsendable())
    assert one_helper.run(lambda _: os.getpid(), 0) == os.getpid()
    assert one_helper.run(pid_of, 0) != os.getpid()


def test_a_function_of_the_caller_s_script_is_done_here(one_helper: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    def of_script(number: int) -> int:
        return number

    of_script.__module__, of_script.__qualname__ = "__main__", "of_script"
    monkeypatch.setattr(sys.modules["__main__"], "of_script", of_script, raising=False)
    assert one_helper.run(of_script, 5) == 5
    assert one_helper.run(pid_of, 0) != os.getpid()


def test_an_interrupt_of_the_terminal_does_not_end_a_helper(one_helper: Helpers) -> None:
    assert one_helper.run(interrupt_elsewhere, os.getpid())
    assert one_helper.run(doubled, 1) == 2


SCRIPT = """
import os, sys, threading, time
from lakeindex.tasks import helpers
print("script", flush=True)
ours = helpers.Helpers(2)
ours.start(10_000, 2, time.sleep)
while not ours._idle[0].is_ready():
    time.sleep(0.01)
print(ours._idle[0]._process.pid, flush=True)
if sys.argv[1] == "busy":
    threading.Thread(target=ours.run, args=(time.sleep, 600), daemon=True).start()
time.sleep(0.2)  # until the thread has asked
print("ready", flush=True)
time.sleep(600 if sys.argv[2] == "killed" else 0)
"""


@pytest.mark.parametrize("doing", some_of(["idle", "busy"], {"busy"}.__contains__, pytest.mark.slow))
@pytest.mark.parametrize("end", ["killed", "over"])
def test_helpers_end_with_the_process(doing: str, end: str, tmp_path: Path) -> None:
    """However it ends and whatever they do; and the script that starts them is run once."""
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    with subprocess.Popen([sys.executable, str(script), doing, end], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "script\n"
        helper = int(process.stdout.readline())
        assert process.stdout.readline() == "ready\n"
        if end == "killed":
            process.kill()
        assert process.wait(SECONDS) == (-signal.SIGKILL if end == "killed" else 0)
        assert process.stdout.read() == ""
    deadline = time.monotonic() + SECONDS
    try:
        while is_running(helper):
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        if is_running(helper):
            os.kill(helper, signal.SIGKILL)


def is_running(pid: int) -> bool:
    """Whether a process is there and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.parametrize(
    "is_sorted",
    some_of([False, True], lambda is_sorted: not is_sorted, pytest.mark.slow),
    ids=["in no order", "sorted"],
)
def test_an_upsert_with_helpers_is_one_without(
    is_sorted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its rows and counts; also if each helper dies in its second task, and if rows stay in the file of the batch."""
    monkeypatch.setattr(local_runner, "LEAST_FILES", 2)
    monkeypatch.setattr(helpers_module, "FILES_A_HELPER", 1)
    elsewhere: list[Any] = []
    plain = helpers_module._Helper.ask

    def ask(helper: Any, message: bytes) -> Any:
        if killed and helper in elsewhere:
            helper._process.kill()
        elsewhere.append(helper)
        return plain(helper, message)

    monkeypatch.setattr(helpers_module._Helper, "ask", ask)
    monkeypatch.setattr(helpers_module.Helpers, "_take", waiting_take)
    days = [f"2026-01-{day:02d}" for day in range(1, 9)]
    first = [Row(f"k{number:04d}", days[number % 8], 1, "first") for number in range(160)]
    second = [Row(f"k{number:04d}", days[number % 8], 2, "second") for number in range(0, 160, 7)]
    found = []
    for processes, killed in ((1, False), (2, False), (2, True)):
        elsewhere.clear()
        table = make_table(tmp_path / f"table{processes}{killed}")
        options = {"lakeindex.processes": str(processes)}
        assert parse_options(options).processes == processes
        for number, rows in enumerate((first, second)):
            rows.sort(key=lambda row: (row.day if is_sorted else "", row.id))
            summary = table.upsert(write(tmp_path / f"{processes}-{number}.parquet", rows, "parquet"), options=options)
        found.append((content_of(table), counts_of(summary), summary.chunks_copied, summary.chunks_encoded))
        assert bool(elsewhere) is (processes > 1), killed
        assert found[-1] == found[0], killed


def waiting_take(helpers: Helpers) -> Any:
    """The one that is idle, once it is ready: a small table is written before."""
    with helpers._mutex:
        if not helpers._idle:
            return None
        helper = helpers._idle.pop()
    wait_for(helper)
    return helper


def test_an_interrupt_ends_the_helper_that_works(one_helper: Helpers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its answer would be taken for that of the next task."""

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(helpers_module, "_END_SECONDS", 0.0)  # it is killed then
    monkeypatch.setattr(helpers_module._Helper, "ask", interrupted)
    (helper,) = one_helper._idle
    with pytest.raises(KeyboardInterrupt):
        one_helper.run(doubled, 1)
    assert helper._process.returncode is not None
    assert one_helper.run(pid_of, 0) == os.getpid()


FORKING = SCRIPT.replace(
    'print("ready", flush=True)',
    "child = os.fork()\nif not child:\n    time.sleep(600)\nprint(child, flush=True)",
)


def test_a_helper_ends_with_its_process_though_a_forked_one_holds_its_pipe(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(FORKING)
    command = [sys.executable, str(tmp_path / "script.py"), "idle", "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "script\n"
        helper, child = int(process.stdout.readline()), int(process.stdout.readline())
        process.kill()
        process.wait(SECONDS)
    deadline = time.monotonic() + SECONDS
    try:
        while is_running(helper):
            assert time.monotonic() < deadline
            time.sleep(0.01)
        assert is_running(child)
    finally:
        for one in filter(is_running, (child, helper)):
            os.kill(one, signal.SIGKILL)
