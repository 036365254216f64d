"""One real process that runs `lakeindex` commands: a JSON list of arguments a line in, exit code and output a line out.

The command line itself is called, so that exit codes and words are a user's; only the start of Python is paid once and not for
each command. ``python -m tests.processes.serving``; :mod:`tests.processes.fleet` is the other end.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import sys
import time
from typing import TextIO

from lakeindex.cli import main


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


def serve(requests: TextIO, answers: TextIO) -> None:
    """Answer until the input ends."""
    for line in requests:
        answers.write(json.dumps(run(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    own = os.fdopen(os.dup(1), "w", encoding="utf-8")  # whatever else prints must not get between the answers
    os.dup2(2, 1)
    own.write(json.dumps({"pid": os.getpid()}) + "\n")
    own.flush()
    serve(sys.stdin, own)
