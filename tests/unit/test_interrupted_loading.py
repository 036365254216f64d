"""Ctrl-C while a package is imported: the process can go on."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys, threading, time
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import PathFinder

seen = set()
class Interrupts(MetaPathFinder):
    left = set({names})
    def find_spec(self, fullname, path, target=None):
        if fullname in self.left and threading.current_thread() is threading.main_thread():
            self.left.discard(fullname)
            seen.add(fullname)
            print("in", fullname, flush=True)
            os.kill(os.getpid(), {signal})
            time.sleep(0)
        return None

sys.meta_path.insert(0, Interrupts())
{before}
def again(work):
    for _ in range(20):
        try:
            return work()
        except KeyboardInterrupt:
            unfinished = sorted(seen - set(sys.modules))
            print("interrupted" + f" in the middle of {{unfinished}}" * bool(unfinished), flush=True)
    raise AssertionError
{work}
print("done", sorted(Interrupts.left))
"""


def run(tmp_path: Path, *, names: list[str], work: str, before: str = "", signal: str = "signal.SIGINT") -> list[str]:
    program = PROGRAM.format(names=names, work=work, before=before, signal=signal)
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.few(0)
def test_a_call_of_the_library_after_interrupts_in_all_that_it_loads(tmp_path: Path):
    work = """
import lakeindex
def make():
    import pyarrow as pa
    table = lakeindex.create_table("t", pa.schema([("id", pa.string()), ("n", pa.int64())]), key="id", exists="ok")
    table.upsert(pa.table({"id": ["a"], "n": [1]}), update_if="new.n > old.n")
    assert table.scan(where="n > 0").to_arrow().num_rows == 1
    return table.count(), table.scan().to_dataset().count_rows()
assert again(make) == (1, 1)
"""
    names = ["numpy._core.multiarray", "pyarrow.lib", "pyarrow._parquet", "pyarrow._dataset", "sqlglot.parser", "mmh3"]
    said = run(tmp_path, names=names, work=work)
    assert [line for line in said if line.startswith("interrupted")]
    assert [line for line in said if line.startswith("in ")]


def test_other_handlers_that_raise_are_held_too(tmp_path: Path):
    """Airflow ends a task that takes too long by SIGALRM, and one that is killed by SIGTERM."""
    before = """
def ends(number, frame):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, ends)
"""
    work = """
from lakeindex.storage.objects import obstore_here
again(obstore_here)
assert obstore_here().store.S3Store
assert signal.getsignal(signal.SIGALRM) is ends and signal.getsignal(signal.SIGINT) is signal.default_int_handler
"""
    said = run(tmp_path, names=["obstore._obstore"], work=work, before=before, signal="signal.SIGALRM")
    assert said == ["in obstore._obstore", "interrupted", "done []"]
