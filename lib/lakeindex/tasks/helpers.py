"""Other processes of this machine that do tasks of a run, where Python would do them one after the other.

All threads of a process share the interpreter's lock. Where a step is thousands of small files, most of its time is
Python, and a second thread gains nothing; a second process does. A helper is a new interpreter that is given pickled
tasks over a socket (:mod:`lakeindex.tasks.helper`); rows go from storage to storage, as on Spark.

A helper is only ever a gain: a task is done here if no helper is ready for it, if it cannot be sent, or if the helper
dies. Tasks are idempotent, so one that was done twice is as one that was done once. Helpers end with the run, and at
once if this process dies.

The standard library's pool of processes imports the caller's main module anew, which would run a script that has no
``if __name__ == "__main__"`` a second time; it may not be used within a daemon of :mod:`multiprocessing` either, which
Airflow's workers are.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from lakeindex.tasks.memory_bound import MIB, current_bound

if TYPE_CHECKING:
    from multiprocessing.connection import Connection

_LOG: Final = logging.getLogger(__name__)
FILES_A_HELPER: Final = 250
"""Files that a step has for each helper that is started for it: about a second of Python.
To start one takes half as long, and it is not waited for.
"""
LEAST_FILES: Final = 500
"""Below it nobody is asked for help."""
HELPER_BYTES: Final = 256 * MIB
"""What an interpreter with the library holds before it does anything: ``lakeindex.memory`` must allow as much for
each.
"""
_PROGRAM: Final = (
    "import pickle, sys; from multiprocessing.connection import Connection; pipe = Connection({number}); "
    "sys.path[:] = pickle.loads(pipe.recv_bytes()); from lakeindex.tasks.helper import serve; serve(pipe)"
)
_END_SECONDS: Final = 5.0


class Answer(Enum):
    """What came of a task that a helper was given; the second part of its message says it."""

    DONE = "done"
    """What the function returned."""
    REFUSED = "refused"
    """An error of ours."""
    NOT_DONE = "not done"
    """Nothing: it is done here then, where an error of another kind is raised as it is."""


class _Helper:
    """One process, and this end of the socket."""

    def __init__(self, first: bytes) -> None:
        from multiprocessing.connection import Pipe

        self._pipe: Connection
        self._pipe, other = Pipe()
        with other:
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter
                [sys.executable, "-c", _PROGRAM.format(number=other.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[other.fileno()],
            )
        self._is_ready = False
        try:
            self._pipe.send_bytes(pickle.dumps([str(Path(entry).absolute()) for entry in sys.path]))
            self._pipe.send_bytes(first)
        except OSError:
            self.close()
            raise

    def is_ready(self) -> bool:
        """Whether it has loaded what it needs. Raises: OSError, EOFError: it has died."""
        if not self._is_ready and self._pipe.poll():
            self._pipe.recv_bytes()
            self._is_ready = True
        return self._is_ready

    def ask(self, message: bytes) -> tuple[Answer, Any]:
        """Its answer. Raises: OSError, EOFError: it has died."""
        self._pipe.send_bytes(message)
        answer: tuple[Answer, Any] = pickle.loads(self._pipe.recv_bytes())  # noqa: S301 - our own process
        return answer

    def close(self) -> None:
        """End it: it ends by itself when the socket is closed."""
        self._pipe.close()
        try:
            self._process.wait(_END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class Helpers:
    """The helpers of one run; safe to share between its threads.

    Args:
        most: processes at most, this one among them; 0: one a core.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self.process = os.getpid()
        self._mutex = threading.Lock()
        self._idle: list[_Helper] = []
        self._started = 0

    def start(self, files: int, slots: int, function: Callable[[Any], Any]) -> None:
        """Start as many as a step of so many files is worth, beside those that there are.

        Args:
            function: does them; a helper loads it first.
        """
        processes = min(slots, self._most or slots, current_bound() // HELPER_BYTES)
        wanted = min(processes - 1, files // FILES_A_HELPER)
        with self._mutex:
            try:
                first = pickle.dumps(function) if wanted > self._started else b""
                while self._started < wanted:
                    self._started += 1  # one that cannot be started is not tried again
                    self._idle.append(_Helper(first))
            except Exception as error:  # noqa: BLE001 - whatever it is, the work is done without
                _LOG.debug("no helper process: %s", error)

    def run(self, function: Callable[[Any], Any], task: Any) -> Any:
        """``function(task)``, by a helper if one is ready, else here."""
        helper = self._take()
        if helper is None:
            return function(task)
        try:
            message = pickle.dumps((function, task))
        except Exception as error:  # noqa: BLE001 - a caller's function in it, of whatever kind
            _LOG.debug("a task that no other process can do: %s", error)
            self._give_back(helper)
            return function(task)
        try:
            answer, value = helper.ask(message)
        except Exception as error:  # noqa: BLE001 - it has died, or its answer cannot be read: it is not asked again
            _LOG.info("a helper process gave no answer, its task is done here: %r", error)
            helper.close()
            return function(task)
        except BaseException:  # interrupted: its answer is not that of the next task
            helper.close()
            raise
        self._give_back(helper)
        if answer is Answer.REFUSED:
            raise value
        return function(task) if answer is Answer.NOT_DONE else value

    def _take(self) -> _Helper | None:
        with self._mutex:
            for helper in list(self._idle):
                try:
                    if helper.is_ready():
                        self._idle.remove(helper)
                        return helper
                except (OSError, EOFError):
                    self._idle.remove(helper)
                    helper.close()
        return None

    def _give_back(self, helper: _Helper) -> None:
        with self._mutex:
            self._idle.append(helper)

    def close(self) -> None:
        with self._mutex:
            for helper in self._idle:
                helper.close()
            self._idle.clear()


_helpers: ContextVar[Helpers | None] = ContextVar("helpers", default=None)


@contextlib.contextmanager
def helpers_at_hand(most: int, *uris: str) -> Iterator[None]:
    """Let steps of the body that have thousands of small files start helpers; they end with it.

    Args:
        most: processes at most, this one among them; 0: one a core; 1: no helpers.
        uris: stores that tasks open; one of this process only (``memory://``) can be reached from no other.
    """
    if most == 1 or any(uri.startswith("memory://") for uri in uris) or not _can_start():
        yield
        return
    helpers = Helpers(most)
    token = _helpers.set(helpers)
    try:
        yield
    finally:
        _helpers.reset(token)
        helpers.close()


def current_helpers() -> Helpers | None:
    """Those of the running run, if it may have any; a forked process has none, as others read their answers."""
    found = _helpers.get()
    return found if found is not None and found.process == os.getpid() else None


@functools.cache
def _can_start() -> bool:
    """Whether there is an interpreter that runs a program: a frozen one runs its own."""
    is_python = "python" in Path(sys.executable or "").name
    return os.name == "posix" and is_python and not getattr(sys, "frozen", False)
