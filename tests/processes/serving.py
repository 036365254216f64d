"""One real process that runs `lakeindex` commands, one after the other: arguments in, exit code and output out.

The command line itself is called, so that exit codes and words are a user's; only the start of Python is paid once and not for
each command. The other end is :mod:`tests.processes.fleet`, which forks such processes off one that has all of this loaded.
"""

from __future__ import annotations

import contextlib
import io
import sys
import time
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path

from lakeindex.cli import main

for _name in (
    "api.table",
    "showing.results",
    "conductor.upsert",
    "tasks.local_runner",
    "report.make_report",
    "operations.maintain",
):
    import_module(f"lakeindex.{_name}")


def run(arguments: list[str]) -> dict[str, object]:
    """One command, as the shell would run it."""
    out, err = io.StringIO(), io.StringIO()
    begun = time.monotonic()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(arguments)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
    return {"code": code, "out": out.getvalue(), "err": err.getvalue(), "seconds": time.monotonic() - begun}


def serve(commands: Connection, log: Path) -> None:
    """Answer until the other end hangs up."""
    sys.stderr = log.open("a", encoding="utf-8", buffering=1)
    with contextlib.suppress(EOFError):
        while True:
            commands.send(run(commands.recv()))
