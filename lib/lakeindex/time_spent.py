"""Where a run's time goes beside its work: start-up and waiting, told apart in one place.

*Start-up*: code is loaded, a session or workers are started; in a program of ours, all that was before,
since its process began. *Waiting*: for a lock, a turn, memory or a free slot. Whoever starts something or waits says so
(:func:`starting`, :func:`waiting`), on whichever layer. A run has one account of its time; the time in which nothing
else is done by any of its threads is booked there, so that what is loaded beside the work of others counts as nothing,
and work, start-up and waiting add up to the time of the clock. A task has its own two sums beside it.

A process that does a run's tasks elsewhere has no account of the run; it tells the driver what its task took
(:class:`Counted`), and the driver books it.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import Final

from msgspec import Struct, field

from lakeindex.frozen import Frozen

_START_TIME: Final = 19
"""Where ``/proc/PID/stat`` has the start of a process, counted behind the name in brackets."""


class _Doing(IntEnum):  # a key, which those of int are in a third of the time
    """What a thread of a run does."""

    WORK = 0
    STARTUP = 1
    WAITING = 2


class Spent(Frozen):
    """Seconds of a stretch of time.

    Attributes:
        wall: all of it.
        startup: in which something was started, and nothing else done.
        waiting: in which something was waited for, and nothing else done.
    """

    wall: float = 0.0
    startup: float = 0.0
    waiting: float = 0.0

    def __sub__(self, other: Spent) -> Spent:
        return Spent(self.wall - other.wall, self.startup - other.startup, self.waiting - other.waiting)

    @property
    def work(self) -> float:
        return max(self.wall - self.startup - self.waiting, 0.0)


class Account:
    """The time of one run in one process; safe to share between its threads.

    Args:
        before: seconds of start-up before the account was opened.
    """

    def __init__(self, before: float = 0.0) -> None:
        self._mutex = threading.Lock()
        self._threads = dict.fromkeys(_Doing, 0)
        self._booked = {_Doing.STARTUP: before, _Doing.WAITING: 0.0}
        self._seen = time.perf_counter()
        self._opened = self._seen - before
        self._settled = Spent()

    def change(self, before: _Doing | None, now: _Doing | None) -> None:
        """A thread does something else; None: nothing that counts."""
        with self._mutex:
            self._book_until_now()
            if before is not None:
                self._threads[before] -= 1
            if now is not None:
                self._threads[now] += 1

    def book(self, startup: float, waiting: float) -> None:
        """Seconds that another process spent while this one did nothing."""
        with self._mutex:
            self._booked[_Doing.STARTUP] += startup
            self._booked[_Doing.WAITING] += waiting

    def so_far(self) -> Spent:
        """Since it was opened, and before."""
        with self._mutex:
            self._book_until_now()
            return Spent(self._seen - self._opened, self._booked[_Doing.STARTUP], self._booked[_Doing.WAITING])

    def unsettled(self) -> Spent:
        """Since :meth:`settle` was called last."""
        return self.so_far() - self._settled

    def settle(self) -> Spent:
        """What is unsettled, which begins anew: it is counted to a stage now."""
        now = self.so_far()
        found, self._settled = now - self._settled, now
        return found

    def _book_until_now(self) -> None:
        """The time since it was last looked at, if nobody worked: start-up goes before waiting."""
        now = time.perf_counter()
        if self._threads[_Doing.WORK] <= 0:  # threads that help another one count with it
            doing = next((one for one in self._booked if self._threads[one] > 0), None)
            if doing is not None:
                self._booked[doing] += now - self._seen
        self._seen = now


class Counted(Struct):
    """What the thread of a task took by itself.

    Attributes:
        startup: seconds of start-up.
        waiting: seconds of waiting.
        is_apart: whether the run has no account in this process.
    """

    startup: float = 0.0
    waiting: float = 0.0
    is_apart: bool = False

    def add(self, doing: _Doing | None, seconds: float) -> None:
        if doing is _Doing.STARTUP:
            self.startup += seconds
        elif doing is _Doing.WAITING:
            self.waiting += seconds


class _Place(Frozen):
    """Where a thread is: in which account, doing what, for which task."""

    account: Account
    doing: _Doing | None = None
    task: Counted = field(default_factory=Counted)


_place: ContextVar[_Place | None] = ContextVar("place", default=None)
_HELD: Final = tuple(
    getattr(signal, name)
    for name in ("SIGTERM", "SIGHUP", "SIGALRM", "SIGUSR1", "SIGUSR2", "SIGINT")
    if hasattr(signal, name)
)
_process: list[int] = []
"""The process with which the next account begins, if any."""


def begin_with_process(pid: int) -> None:
    """Let the next account begin when a process began: this one, if it is a program of ours, or what started it."""
    _process[:] = [pid]


@contextmanager
def accounting() -> Iterator[None]:
    """Open an account for the run that the body does."""
    account = Account(age_of(_process.pop()) if _process else 0.0)
    token = _place.set(_Place(account))
    try:
        with _doing(_Doing.WORK):
            yield
    finally:
        _place.reset(token)


def current_account() -> Account:
    """The account of the run; a new one if there is none."""
    place = _place.get()
    return Account() if place is None else place.account


@contextmanager
def counting() -> Iterator[Counted]:
    """A task works, and what it takes beside that is counted for it alone."""
    place = _place.get()
    counted = Counted(is_apart=place is None)
    token = _place.set(
        _Place(Account(), None, counted) if place is None else _Place(place.account, place.doing, counted)
    )
    try:
        with _doing(_Doing.WORK):
            yield counted
    finally:
        _place.reset(token)


@contextmanager
def _doing(now: _Doing | None) -> Iterator[None]:
    place = _place.get()
    if place is None or place.doing is now:
        yield
        return
    token = _place.set(_Place(place.account, now, place.task))
    place.account.change(place.doing, now)
    started, inner = time.perf_counter(), (place.task.startup, place.task.waiting)
    try:
        yield
    finally:
        place.account.change(now, place.doing)
        _place.reset(token)
        counted_within = place.task.startup - inner[0] + place.task.waiting - inner[1]
        place.task.add(now, time.perf_counter() - started - counted_within)


def starting() -> AbstractContextManager[None]:
    """The body loads or starts what work needs."""
    return _doing(_Doing.STARTUP)


@contextmanager
def loading() -> Iterator[None]:
    """The body imports what work needs. A signal whose handler would raise in the middle of it (Ctrl-C, the time limit
    of a task) is held until it is done: packages in C cannot be imported again, nor those whose parts are there.
    """
    with _signals_held(), _doing(_Doing.STARTUP):
        yield


@contextmanager
def _signals_held() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():
        yield  # handlers run in the main thread alone
        return
    came: list[int] = []
    handlers = {one: handler for one in _HELD if callable(handler := signal.getsignal(one))}
    for one in handlers:
        signal.signal(one, lambda number, _frame: came.append(number))
    try:
        yield
    finally:
        for one, handler in handlers.items():
            signal.signal(one, handler)
        for one in dict.fromkeys(came):
            signal.raise_signal(one)


def waiting() -> AbstractContextManager[None]:
    """The body waits for others."""
    return _doing(_Doing.WAITING)


def handing_over() -> AbstractContextManager[None]:
    """The body has others work, and does nothing by itself."""
    return _doing(None)


def age_of(pid: int) -> float:
    """Seconds since a process began; 0 where the system does not say (it has no /proc)."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
        began = int(text.rpartition(")")[2].split()[_START_TIME]) / os.sysconf("SC_CLK_TCK")
        return max(time.clock_gettime(time.CLOCK_BOOTTIME) - began, 0.0)
    except (OSError, ValueError, IndexError, AttributeError):
        return 0.0
