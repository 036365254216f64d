"""Who we are: the process that holds a lock or runs an attempt, and whether another such process is gone.

A process is named by its host, its number and its start time, so that a number that was given out again is not
mistaken for it. A killed writer of this host is recognised at once; one of another host when its lease has run out.
"""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Final

from msgspec import field

from lakeindex.frozen import Frozen
from lakeindex.timeline.clock import Clock, SystemClock

_STAT_STARTTIME: Final = 19
"""Field 22 of ``/proc/<pid>/stat`` (proc(5)), counted from the state field that follows the command's name."""


class Process(Frozen):
    """One process of one host.

    Attributes:
        host: name, boot and pid namespace of the host (two containers of one machine are two hosts).
        started: start time, in the host's own unit; empty where the system does not tell.
    """

    host: str
    pid: int
    started: str = ""

    def __str__(self) -> str:
        return f"process {self.pid} on {self.host.partition(':')[0]}"


class Host(Frozen):
    """What the protocol needs from the machine.

    Attributes:
        is_gone: whether a process is certainly gone; ``False`` where that cannot be known.
        heartbeat: whether leases are renewed by a thread; otherwise only at the steps of the protocol.
    """

    clock: Clock
    process: Process
    is_gone: Callable[[Process], bool]
    new_token: Callable[[], str] = field(default=lambda: secrets.token_hex(16))
    heartbeat: bool = True


def this_host() -> Host:
    return Host(SystemClock(), this_process(), is_gone)


def this_process() -> Process:
    """This process; asked for again after a fork."""
    pid = os.getpid()
    return Process(_host_name(), pid, _own_start_time(pid))


def is_gone(process: Process) -> bool:
    """Whether a process of this host has ended; ``False`` for any process of another host."""
    if process.host != _host_name():
        return False
    try:
        os.kill(process.pid, 0)
    except ProcessLookupError:
        return True
    except OSError:
        return False  # there, but somebody else's
    started = _start_time(process.pid)
    if started is None:
        return Path("/proc/self/stat").exists()  # it ended since
    return process.started not in ("", started)


@cache
def _host_name() -> str:
    return ":".join((socket.gethostname(), _text("/proc/sys/kernel/random/boot_id"), _namespace()))


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except OSError:
        return ""


@cache
def _own_start_time(pid: int) -> str:
    """Reading it waits for every thread of this process, and each write asks several times."""
    return _start_time(pid) or ""


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_own_start_time.cache_clear)


def _start_time(pid: int) -> str | None:
    """Start time of a process; a zombie (ended, not yet collected by its parent) counts as ended."""
    stat = _text(f"/proc/{pid}/stat")
    fields = stat.rpartition(")")[2].split()
    if len(fields) <= _STAT_STARTTIME or fields[0] in ("Z", "X"):
        return None
    return fields[_STAT_STARTTIME]
