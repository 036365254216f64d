"""Runs pytest in forks of one process that has loaded the libraries: loading them costs more than most mapped tests.

Reads a request a line from stdin (JSON: ``arguments`` of pytest, ``seconds``), writes an answer a line to stdout
(JSON: ``code``, pytest's exit code or null if the time ran out; ``said``, its last lines). Nothing of this project is loaded
before the fork.
"""

from __future__ import annotations

import importlib
import json
import os
import shutil
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any

LIBRARIES = (
    "numpy",
    "pyarrow.compute",
    "pyarrow.parquet",
    "fastavro",
    "click",
    "obstore",
    "pytest",
    "hypothesis.strategies",
)
_PAUSE = 0.05
_MEMORY = Path("/dev/shm")
_ROOM = 4 << 30  # as tests/conftest.py, which sees that there is a folder already


def main() -> None:
    """Serve until stdin ends."""
    for name in LIBRARIES:
        importlib.import_module(name)
    for line in sys.stdin:
        sys.stdout.write(json.dumps(_answer(json.loads(line))) + "\n")
        sys.stdout.flush()


def _answer(request: dict[str, Any]) -> dict[str, object]:
    is_roomy = os.access(_MEMORY, os.W_OK) and shutil.disk_usage(_MEMORY).free > _ROOM
    with tempfile.TemporaryDirectory(
        prefix="lakeindex-tests-", dir=_MEMORY if is_roomy else None, ignore_cleanup_errors=True
    ) as folder:
        Path(folder).chmod(0o1777)  # some tests are another user for a while
        said = Path(folder) / "said"
        child = os.fork()
        if child == 0:
            # A fork ends without what it left to be done at its end, and may be killed: all of its folders are in this one.
            os.environ |= {"TMPDIR": folder, "PYTEST_DEBUG_TEMPROOT": folder}
            tempfile.tempdir = folder
            _run_tests(request, said)
        status = _wait(child, float(request["seconds"]))
        return {
            "code": None if status is None else os.waitstatus_to_exitcode(status),
            "said": said.read_text(errors="replace")[-4000:],
        }


def _run_tests(request: dict[str, Any], said: Path) -> None:
    """In the child: never returns."""
    code = 1
    try:
        os.setsid()
        output = os.open(said, os.O_WRONLY | os.O_CREAT)
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        import pytest

        code = int(pytest.main(request["arguments"]))
    except BaseException:  # noqa: BLE001 - nothing may come back from a fork
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _wait(child: int, seconds: float) -> int | None:
    """The child's status; None if it did not end in time, and was killed with all that it had started."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return status
        time.sleep(_PAUSE)
    os.killpg(child, signal.SIGKILL)
    os.waitpid(child, 0)
    return None


if __name__ == "__main__":
    try:
        main()
    except BrokenPipeError:
        sys.exit(1)  # who asked is gone
