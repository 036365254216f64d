"""Processes of the local cluster: known again by another object, ended with all they started, never taken for a stranger's."""

from __future__ import annotations

import gc
import json
import os
import signal
import sys
import time
from pathlib import Path

import psutil
import pytest

from scripts.cluster_processes import Processes

PARENT = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"], start_new_session=True)
print("child", child.pid, flush=True)
time.sleep(60)
"""


def child_of(processes: Processes, name: str) -> psutil.Process:
    log = processes.log_of(name)
    deadline = time.monotonic() + 30
    while "child" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    return psutil.Process(int(log.read_text().split()[1]))


@pytest.mark.slow
def test_a_process_is_found_by_another_object_and_ended_with_what_it_started(tmp_path: Path) -> None:
    processes = Processes(tmp_path)
    processes.launch("one", [sys.executable, "-c", PARENT], os.environ)
    process, child = processes.find("one"), child_of(processes, "one")
    assert process is not None
    processes.launch("one", ["/nonexistent"], os.environ)  # it runs: nothing is started
    del processes
    gc.collect()  # no warning of a process that is still running

    again = Processes(tmp_path)
    assert again.find("one") == process
    again.end(["one", "none"], signal.SIGTERM, 2)
    assert not again.runs("one")
    assert not child.is_running(), "a child with a session of its own ends, too"
    assert "child" in again.tail_of("one")
    assert str(again.log_of("one")) in again.tail_of("one")


def test_a_stranger_with_the_same_id_is_left_alone(tmp_path: Path) -> None:
    ours = os.getpid()
    (tmp_path / "processes.json").write_text(json.dumps({"one": [ours, psutil.Process().create_time() - 10]}))
    processes = Processes(tmp_path)
    assert not processes.runs("one")
    processes.end(["one"], signal.SIGKILL, 1)  # it would be our end
