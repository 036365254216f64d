"""Threads of Arrow's that still hold a Python file when the interpreter leaves."""

from __future__ import annotations

import hashlib
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from lakeindex.storage import storage_file
from lakeindex.storage.storage_file import _let_readers_finish

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="threads are looked at in /proc")


@contextmanager
def native_work(rounds: int) -> Iterator[threading.Thread]:
    """A thread that works without the interpreter's lock, as Arrow's do."""
    started = threading.Event()

    def work() -> None:
        started.set()
        hashlib.pbkdf2_hmac("sha256", b"word", b"salt", rounds)

    thread = threading.Thread(target=work)
    thread.start()
    started.wait()
    yield thread
    thread.join()


def test_a_thread_that_works_is_waited_for() -> None:
    with native_work(4_000) as thread:
        _let_readers_finish()
        assert not thread.is_alive()


def test_one_that_goes_on_is_not_waited_for_long(monkeypatch: pytest.MonkeyPatch) -> None:
    slept: list[float] = []
    monkeypatch.setattr(storage_file, "_runs", lambda _: True)
    clock = SimpleNamespace(monotonic=lambda: 0.06 * len(slept), sleep=slept.append)
    monkeypatch.setattr(storage_file, "time", clock)
    _let_readers_finish()
    assert len(slept) == 2


def test_a_thread_may_have_any_name(tmp_path: Path) -> None:
    (tmp_path / "stat").write_bytes(b"7 (\xff) R (x) R 1 7")
    assert storage_file._runs(tmp_path)
    (tmp_path / "stat").write_bytes(b"7 (\xff) R (x) S 1 7")
    assert not storage_file._runs(tmp_path)
